//! What a control plane consists of, settled before the first process starts: files, ports, flags.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::binary::{Binaries, Part};
use super::certificates::Certificates;
use super::cluster::ControlPlane;
use super::kubeconfig::{self, Credential};
use super::kubectl::Kubectl;
use super::ports::Reserved;
use super::probe::Probe;

/// In the order in which they start; they end in the reverse order.
pub(super) const SERVERS: [Part; 3] = [Part::Etcd, Part::ApiServer, Part::ControllerManager];

/// A start takes 2 s on a quiet machine; a full build beside it makes that tenfold.
const READY_WITHIN: Duration = Duration::from_secs(120);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);
const API_SERVER_READY: &[&str] = &["/readyz"];
/// The last two are written by the controller manager for the namespace that everybody uses: then all of it works.
const ALL_READY: &[&str] = &[
    "/readyz",
    "/api/v1/namespaces/kube-system",
    "/api/v1/namespaces/default/serviceaccounts/default",
    "/api/v1/namespaces/default/configmaps/kube-root-ca.crt",
];

/// One line per request, when it was answered; long-running ones also when they began.
const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
";

/// How a control plane is to be started. See [`ControlPlane::builder`].
#[derive(Clone, Debug)]
pub struct ControlPlaneBuilder {
    name: String,
    audit_log: bool,
    runtime_config: Vec<String>,
    feature_gates: Vec<String>,
    api_server_flags: Vec<String>,
    controllers: Option<String>,
}

impl ControlPlaneBuilder {
    pub(super) fn new() -> Self {
        Self {
            name: "test".into(),
            audit_log: false,
            runtime_config: Vec::new(),
            feature_gates: Vec::new(),
            api_server_flags: Vec::new(),
            controllers: None,
        }
    }

    /// The name of its directory, and of the context in its kubeconfig. Need not be unique. Default: `test`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Whether every request is recorded (who, verb, object, answer; no bodies). Default: no.
    #[must_use]
    pub fn audit_log(mut self, wanted: bool) -> Self {
        self.audit_log = wanted;
        self
    }

    /// Serves one more API, for instance `admissionregistration.k8s.io/v1beta1=true`.
    #[must_use]
    pub fn runtime_config(mut self, setting: impl Into<String>) -> Self {
        self.runtime_config.push(setting.into());
        self
    }

    /// Switches one feature of the API server, for instance `MutatingAdmissionPolicy=true`.
    #[must_use]
    pub fn feature_gates(mut self, setting: impl Into<String>) -> Self {
        self.feature_gates.push(setting.into());
        self
    }

    /// Any other flag of the API server, for instance `--max-requests-inflight=5`. It comes after our own.
    #[must_use]
    pub fn api_server_flag(mut self, flag: impl Into<String>) -> Self {
        self.api_server_flags.push(flag.into());
        self
    }

    /// Only these controllers, by their names and separated by commas. Default: all.
    #[must_use]
    pub fn controllers(mut self, names: impl Into<String>) -> Self {
        self.controllers = Some(names.into());
        self
    }

    /// Starts it in a temporary directory and waits until it is ready. It ends when the answer is dropped, and also
    /// if this process is killed.
    ///
    /// Builds Kubernetes first if that was never done on this machine (about 5 minutes, needs Go).
    ///
    /// # Errors
    /// If a part cannot be built or started, ends, or is not ready within two minutes; with the end of its log.
    pub fn start(self) -> Result<ControlPlane> {
        ControlPlane::start(&self)
    }

    pub(super) fn name_ref(&self) -> &str {
        &self.name
    }
}

/// A control plane on paper.
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) directory: PathBuf,
    pub(super) certificates: Certificates,
    pub(super) binaries: Binaries,
    pub(super) api_port: u16,
    audit_log: bool,
    etcd_url: String,
    etcd_peer_url: String,
    api_server_extra: Vec<String>,
    controllers: Option<String>,
    probe: Probe,
}

impl Plan {
    /// Takes ports and writes all files into an existing directory.
    pub(super) fn write(builder: &ControlPlaneBuilder, directory: &Path) -> Result<Self> {
        let binaries = Binaries::prepare()?;
        let certificates = Certificates::generate()?;
        let [api, etcd, peer] = [Reserved::take()?, Reserved::take()?, Reserved::take()?];
        let probe =
            Probe::new(api.port(), &certificates.ca, &certificates.admin).context("preparing the readiness probe")?;
        let mut api_server_extra = Vec::new();
        for (flag, settings) in [
            ("runtime-config", &builder.runtime_config),
            ("feature-gates", &builder.feature_gates),
        ] {
            if !settings.is_empty() {
                api_server_extra.push(format!("--{flag}={}", settings.join(",")));
            }
        }
        api_server_extra.extend(builder.api_server_flags.iter().cloned());
        let plan = Self {
            name: builder.name.clone(),
            directory: directory.to_owned(),
            binaries,
            etcd_url: format!("http://127.0.0.1:{}", etcd.release()),
            etcd_peer_url: format!("http://127.0.0.1:{}", peer.release()),
            api_port: api.release(),
            audit_log: builder.audit_log,
            api_server_extra,
            controllers: builder.controllers.clone(),
            certificates,
            probe,
        };
        plan.write_files()?;
        Ok(plan)
    }

    fn write_files(&self) -> Result<()> {
        let certificates = &self.certificates;
        let manager = Credential::Certificate(&certificates.controller_manager);
        for (name, content) in [
            ("ca.crt", certificates.ca.as_str()),
            ("server.crt", &certificates.server.certificate),
            ("server.key", &certificates.server.key),
            ("service-accounts.pub", &certificates.service_accounts.certificate),
            ("service-accounts.key", &certificates.service_accounts.key),
            ("audit-policy.yaml", AUDIT_POLICY),
            (
                "kubeconfig",
                &self.kubeconfig(Credential::Certificate(&certificates.admin)),
            ),
            ("controller-manager.kubeconfig", &self.kubeconfig(manager)),
        ] {
            let path = self.path(name);
            fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn server_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.api_port)
    }

    pub(super) fn audit_log_path(&self) -> PathBuf {
        self.path("audit.log")
    }

    pub(super) fn kubeconfig(&self, credential: Credential<'_>) -> String {
        kubeconfig::render(&self.name, &self.server_url(), &self.certificates.ca, credential)
    }

    pub(super) fn kubectl(&self) -> Kubectl {
        Kubectl::new(
            self.binaries.clone(),
            self.path("kubeconfig"),
            self.path("kubectl-cache"),
        )
    }

    /// The command that runs one server; its output goes to a log file of its own.
    pub(super) fn command(&self, part: Part) -> Result<Command> {
        let flags = match part {
            Part::Etcd => self.etcd(),
            Part::ApiServer => self.api_server(),
            Part::ControllerManager => self.controller_manager(),
            Part::Scheduler | Part::Kubelet | Part::Kubectl => bail!("{} is not started here", part.name()),
        };
        let path = self.log_path(part);
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("creating {}", path.display()))?;
        let mut command = self.binaries.command(part);
        command
            .args(flags)
            .current_dir(&self.directory)
            // In-cluster configuration of a surrounding cluster must not leak into this one.
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("sharing a log file")?)
            .stderr(log);
        Ok(command)
    }

    fn etcd(&self) -> Vec<String> {
        let (url, peer) = (&self.etcd_url, &self.etcd_peer_url);
        vec![
            format!("--data-dir={}", self.path("etcd").display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            // Nothing in it outlives the process.
            "--unsafe-no-fsync".into(),
            "--log-level=error".into(),
        ]
    }

    fn api_server(&self) -> Vec<String> {
        let file = |name: &str| self.path(name).display().to_string();
        let mut flags = vec![
            format!("--etcd-servers={}", self.etcd_url),
            format!("--secure-port={}", self.api_port),
            "--bind-address=127.0.0.1".into(),
            "--advertise-address=127.0.0.1".into(),
            format!("--tls-cert-file={}", file("server.crt")),
            format!("--tls-private-key-file={}", file("server.key")),
            format!("--client-ca-file={}", file("ca.crt")),
            format!("--service-account-key-file={}", file("service-accounts.pub")),
            format!("--service-account-signing-key-file={}", file("service-accounts.key")),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            "--authorization-mode=RBAC".into(),
            "--service-cluster-ip-range=10.0.0.0/24".into(),
            // The endpoints of the `kubernetes` Service would name 127.0.0.1, which is refused.
            "--endpoint-reconciler-type=none".into(),
            "--allow-privileged=true".into(),
        ];
        if self.audit_log {
            flags.push(format!("--audit-policy-file={}", file("audit-policy.yaml")));
            flags.push(format!("--audit-log-path={}", self.audit_log_path().display()));
        }
        flags.extend(self.api_server_extra.iter().cloned());
        flags
    }

    fn controller_manager(&self) -> Vec<String> {
        let kubeconfig = self.path("controller-manager.kubeconfig").display().to_string();
        vec![
            format!("--kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            format!(
                "--service-account-private-key-file={}",
                self.path("service-accounts.key").display()
            ),
            format!("--root-ca-file={}", self.path("ca.crt").display()),
            "--use-service-account-credentials".into(),
            "--leader-elect=false".into(),
            "--secure-port=0".into(),
            // The default of 20 requests per second makes its 40 controllers queue for their tokens at the start.
            "--kube-api-qps=500".into(),
            "--kube-api-burst=1000".into(),
        ]
        .into_iter()
        .chain(self.controllers.iter().map(|names| format!("--controllers={names}")))
        .collect()
    }

    /// Waits until a part can be started. `ended` is asked on the way whether a part has ended.
    pub(super) fn wait_before(&self, part: Part, ended: impl FnMut() -> Result<Option<Part>>) -> Result<()> {
        match part {
            // It asks for the API server once a second, so one that comes too early costs a second and more.
            Part::ControllerManager => self.wait_for(API_SERVER_READY, ended),
            _ => Ok(()),
        }
    }

    /// Waits until the control plane answers as it should. `ended` is asked on the way whether a part has ended.
    pub(super) fn wait_until_ready(&self, ended: impl FnMut() -> Result<Option<Part>>) -> Result<()> {
        self.wait_for(ALL_READY, ended)
    }

    fn wait_for(&self, paths: &[&str], mut ended: impl FnMut() -> Result<Option<Part>>) -> Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        for path in paths {
            loop {
                let answer = self.probe.status(path);
                if matches!(answer, Ok(200)) {
                    break;
                }
                if let Some(part) = ended()? {
                    bail!(
                        "{} of control plane {} has ended; its log:\n{}",
                        part.name(),
                        self.name,
                        self.log_end(part)
                    );
                }
                if Instant::now() > deadline {
                    let log = self.log_end(Part::ApiServer);
                    let answer = answer.map_or_else(|error| error.to_string(), |code| format!("status {code}"));
                    bail!(
                        "control plane {} is not ready after {} s: {path} answers {answer}; log of the API server:\n{log}",
                        self.name,
                        READY_WITHIN.as_secs()
                    );
                }
                std::thread::sleep(ASK_AGAIN_AFTER);
            }
        }
        Ok(())
    }

    fn log_path(&self, part: Part) -> PathBuf {
        self.path(&format!("{}.log", part.name()))
    }

    fn log_end(&self, part: Part) -> String {
        const LINES: usize = 15;
        let log = fs::read(self.log_path(part)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let mut lines: Vec<_> = log.lines().rev().take(LINES).collect();
        lines.reverse();
        lines.join("\n")
    }
}
