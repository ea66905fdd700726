//! `chandlery remote check FILE`

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use chandlery::core::Class;
use chandlery::scope::kubeconfig::{self, Credential, KubeconfigError, Policy};
use chandlery::scope::{Connection, RemoteEndpoint, WriteFence, connect, facts_of};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{Output, print, print_json};

/// Look at clusters as remotes.
#[derive(clap::Subcommand)]
pub(crate) enum RemoteVerb {
    /// Say what Chandlery makes of a kubeconfig. Nothing is connected to, started, opened or resolved without --connect.
    Check(Check),
}

/// Say what Chandlery makes of a kubeconfig.
#[derive(clap::Args)]
pub(crate) struct Check {
    /// The kubeconfig; `-` for standard input. Never taken from KUBECONFIG.
    file: PathBuf,
    /// Context to judge; its current one when absent.
    #[arg(long)]
    context: Option<String>,
    /// Accept a cluster at a loopback address, as a daemon with --allow-loopback-remotes does.
    #[arg(long)]
    allow_loopback: bool,
    /// Accept a proxy-url, as a daemon with --allow-proxy does.
    #[arg(long)]
    allow_proxy: bool,
    /// Judge what has ended at this moment (RFC 3339); now when absent.
    #[arg(long)]
    at: Option<Timestamp>,
    /// Reach the cluster too, and say which it is, how far away, and what the credential may do. Nothing is changed there.
    #[arg(long)]
    connect: bool,
}

/// What became of it.
#[derive(Serialize)]
#[serde(tag = "verdict", rename_all = "camelCase")]
enum Verdict {
    Accept(Box<Accepted>),
    Refuse { reason: &'static str, message: String },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Accepted {
    context: String,
    host: String,
    port: u16,
    path: String,
    /// Name to expect in the server's certificate, if it is another than the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_name: Option<String>,
    /// `kubeconfig` or `system`.
    certificate_authority: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy: Option<String>,
    /// `token` or `client-certificate`.
    credential: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connected: Option<Connected>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Connected {
    /// UID of `kube-system`.
    identity: String,
    version: String,
    /// Of three requests on an open connection, the one in the middle.
    latency_milliseconds: f64,
    /// As the cluster knows who asks.
    user: String,
    groups: Vec<String>,
    may: Vec<May>,
}

/// One thing that remotes are often asked for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct May {
    what: String,
    allowed: bool,
}

impl RemoteVerb {
    pub(crate) async fn run(self, output: Output) -> Result<ExitCode, Failure> {
        match self {
            RemoteVerb::Check(check) => check.run(output).await,
        }
    }
}

impl Check {
    async fn run(self, output: Output) -> Result<ExitCode, Failure> {
        let bytes = self.read()?;
        let policy = Policy {
            allow_loopback: self.allow_loopback,
            allow_proxy: self.allow_proxy,
        };
        let now = self.at.unwrap_or_else(Timestamp::now);
        let endpoint = match kubeconfig::parse(&bytes, self.context.as_deref(), policy, now) {
            Ok(endpoint) => endpoint,
            Err(error) => return refused(&error, output),
        };
        let mut accepted = Accepted::of(&endpoint);
        if self.connect {
            accepted.connected = Some(look(&endpoint).await?);
        }
        match output {
            Output::Json => print_json(&Verdict::Accept(Box::new(accepted)))?,
            Output::Text => print(&accepted.text(now))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn read(&self) -> Result<Vec<u8>, Failure> {
        use std::io::Read as _;
        let mut bytes = Vec::new();
        // A byte more than is judged: what is larger is refused as that, and not read to its end.
        let limit = kubeconfig::LARGEST as u64 + 1;
        let read = if self.file.as_os_str() == "-" {
            std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
        } else {
            std::fs::File::open(&self.file).and_then(|file| file.take(limit).read_to_end(&mut bytes))
        };
        read.with_context(|| format!("reading {}", self.file.display()))?;
        Ok(bytes)
    }
}

fn refused(error: &KubeconfigError, output: Output) -> Result<ExitCode, Failure> {
    let failure = Failure::classed(Class::UserFix, error.reason(), error.to_string());
    if output == Output::Text {
        return Err(failure.help(format!("reason: {}", error.kind())));
    }
    print_json(&Verdict::Refuse {
        reason: error.kind(),
        message: error.to_string(),
    })?;
    Ok(ExitCode::from(Class::UserFix.effect().exit_code))
}

impl Accepted {
    fn of(endpoint: &RemoteEndpoint) -> Self {
        let server = &endpoint.server;
        let path = server.path();
        Self {
            context: endpoint.context.clone(),
            host: server
                .host_str()
                .unwrap_or_default()
                .trim_matches(['[', ']'])
                .to_owned(),
            port: server.port_or_known_default().unwrap_or(443),
            path: if path == "/" { String::new() } else { path.to_owned() },
            server_name: endpoint.expected_name(),
            certificate_authority: match endpoint.certificate_authority {
                Some(_) => "kubeconfig",
                None => "system",
            },
            proxy: endpoint.proxy.as_ref().map(|proxy| {
                let (scheme, host) = (proxy.scheme(), proxy.host_str().unwrap_or_default());
                format!("{scheme}://{host}:{}", proxy.port_or_known_default().unwrap_or(1080))
            }),
            credential: match endpoint.credential {
                Credential::Token(_) => "token",
                Credential::Certificate { .. } => "client-certificate",
            },
            expires: endpoint.expires,
            namespace: endpoint.namespace.clone(),
            connected: None,
        }
    }

    fn text(&self, now: Timestamp) -> String {
        use std::fmt::Write as _;
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        let mut text = format!(
            "accepted     context {}\nserver       https://{host}:{}{}\n",
            self.context, self.port, self.path
        );
        let mut line = |name: &str, value: &str| {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{name:<12} {value}");
        };
        if let Some(name) = &self.server_name {
            line("server name", name);
        }
        line(
            "authority",
            match self.certificate_authority {
                "system" => "those of the system",
                _ => "in the kubeconfig",
            },
        );
        if let Some(proxy) = &self.proxy {
            line("proxy", proxy);
        }
        line(
            "credential",
            match self.credential {
                "token" => "token",
                _ => "client certificate",
            },
        );
        let expires = match self.expires {
            None => "it does not say".to_owned(),
            Some(at) => {
                let days = at.as_second().saturating_sub(now.as_second()) / 86_400;
                format!("{at}, in {days} days")
            }
        };
        line("expires", &expires);
        if let Some(namespace) = &self.namespace {
            line("namespace", namespace);
        }
        if let Some(there) = &self.connected {
            line("cluster", &format!("{} (UID of kube-system)", there.identity));
            line("version", &there.version);
            line("latency", &format!("{:.1} ms", there.latency_milliseconds));
            line("user", &there.user);
            line("groups", &there.groups.join(", "));
            for may in &there.may {
                line(if may.allowed { "may" } else { "may not" }, &may.what);
            }
        }
        text
    }
}

/// How long all of it may take; a person waits.
const PATIENCE: Duration = Duration::from_secs(30);

async fn look(endpoint: &RemoteEndpoint) -> Result<Connected, Failure> {
    let connection = connect(endpoint, &WriteFence::open()).map_err(anyhow::Error::from)?;
    let late = |_| {
        let message = format!(
            "the cluster did not answer all questions within {} s",
            PATIENCE.as_secs()
        );
        Failure::classed(Class::Retry, "Unreachable", message)
    };
    tokio::time::timeout(PATIENCE, ask(&connection, endpoint))
        .await
        .map_err(late)?
}

async fn ask(connection: &Connection, endpoint: &RemoteEndpoint) -> Result<Connected, Failure> {
    let facts = facts_of(connection, "remote")
        .await
        .map_err(|error| Failure::from(error.into_setback()))?;
    let client = connection.client();
    let failed =
        |error: kube::Error| Failure::classed(Class::Retry, "Unreachable", format!("asking the cluster: {error}"));
    let mut latencies = Vec::new();
    for _ in 0..3 {
        let begun = Instant::now();
        client.apiserver_version().await.map_err(failed)?;
        latencies.push(begun.elapsed());
    }
    latencies.sort();
    let review: Api<SelfSubjectReview> = Api::all(client.clone());
    let who = review
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await
        .map_err(failed)?;
    let who = who.status.and_then(|status| status.user_info).unwrap_or_default();
    let namespace = endpoint.namespace.as_deref().unwrap_or("default");
    let mut may = Vec::new();
    for (what, attributes) in questions(namespace) {
        let review: Api<SelfSubjectAccessReview> = Api::all(client.clone());
        let asked = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let answer = review.create(&PostParams::default(), &asked).await.map_err(failed)?;
        let allowed = answer.status.is_some_and(|status| status.allowed);
        may.push(May { what, allowed });
    }
    Ok(Connected {
        identity: facts.identity,
        version: facts.version,
        latency_milliseconds: latencies.get(1).copied().unwrap_or_default().as_secs_f64() * 1000.0,
        user: who.username.unwrap_or_default(),
        groups: who.groups.unwrap_or_default(),
        may,
    })
}

/// What remotes are often asked for, the widest first.
fn questions(namespace: &str) -> Vec<(String, ResourceAttributes)> {
    let attributes = |group: &str, resource: &str, verb: &str, namespace: Option<&str>| ResourceAttributes {
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        verb: Some(verb.to_owned()),
        namespace: namespace.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    let mut asked = vec![("do everything".to_owned(), attributes("*", "*", "*", None))];
    for (group, resource) in [
        ("", "namespaces"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ] {
        asked.push((
            format!("create {resource}"),
            attributes(group, resource, "create", None),
        ));
    }
    for (group, resource) in [
        ("", "configmaps"),
        ("", "secrets"),
        ("apps", "deployments"),
        ("batch", "jobs"),
    ] {
        let what = format!("create {resource} in namespace {namespace}");
        asked.push((what, attributes(group, resource, "create", Some(namespace))));
    }
    asked
}
