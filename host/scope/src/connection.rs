//! One client to one cluster: built field by field from what was judged, its own retries off, its writes behind the fence.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use chandlery_core::cluster::Facts;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::Connection as Connected;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioExecutor;
use kube::client::{ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use tokio::sync::{OnceCell, Semaphore};
use tower::{BoxError, Service, ServiceBuilder};
use url::Url;

use crate::breaker::Breaker;
use crate::discovery::Discovery;
use crate::fence::{FenceLayer, WriteFence};
use crate::gate::GatedConnector;
use crate::kubeconfig::{Credential, Policy, RemoteEndpoint};
use crate::renewal::Renewal;

/// How long a TCP and TLS handshake may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Requests on the wire to one cluster at the same time: one slow cluster holds no more than this.
const CONCURRENT_REQUESTS: usize = 32;

/// Why no client could be built. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The address is not one.
    #[error("{0} is not a server address")]
    Address(String),
    /// Certificates or keys are not usable.
    #[error("the credential or certificate authority cannot be used")]
    Credential(#[source] Box<kube::Error>),
}

/// What is asked of a cluster once per connection.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) version: String,
}

/// A client to one cluster, and what was learnt of it.
pub struct Connection {
    /// The client, and how often it was another by now.
    client: Mutex<(Client, u64)>,
    /// Where its credential comes from, for a remote's.
    pub(crate) renewal: OnceLock<Renewal>,
    /// Who was there at the last look.
    pub(crate) identity: Mutex<Option<String>>,
    pub(crate) discovery: Discovery,
    pub(crate) permits: Semaphore,
    pub(crate) breaker: Breaker,
    pub(crate) learnt: OnceCell<Identity>,
    id: u64,
    host: String,
    port: u16,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Connection {
    fn new(client: Client, host: String, port: u16) -> Arc<Self> {
        Arc::new(Self {
            client: Mutex::new((client, 0)),
            renewal: OnceLock::new(),
            identity: Mutex::default(),
            discovery: Discovery::default(),
            permits: Semaphore::new(CONCURRENT_REQUESTS),
            breaker: Breaker::default(),
            learnt: OnceCell::new(),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            host,
            port,
        })
    }

    /// A connection to what a test answers.
    #[cfg(test)]
    pub(crate) fn to(client: Client) -> Arc<Self> {
        Self::new(client, "test".into(), 443)
    }

    /// Tells connections of this process apart.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Host part of the endpoint, IPv6 without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Port of the endpoint.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The client itself, for reads and watches of the host's own.
    pub fn client(&self) -> Client {
        self.client_in_turn().0
    }

    /// The client, and which one it is.
    pub(crate) fn client_in_turn(&self) -> (Client, u64) {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has requests from now on go by another client to the same cluster.
    pub(crate) fn set_client(&self, client: Client) {
        let mut current = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        *current = (client, current.1 + 1);
    }

    /// Remembers who was there.
    pub(crate) fn is(&self, identity: &str) {
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner) = Some(identity.to_owned());
    }

    /// Facts of the cluster under a name, with the identity that was just read.
    pub(crate) fn facts(&self, name: &str, identity: String, version: String, path: Vec<String>) -> Facts {
        Facts {
            name: name.to_owned(),
            identity,
            host: self.host.clone(),
            port: self.port,
            version,
            path,
        }
    }
}

/// A connection to a remote, by a kubeconfig that was judged.
///
/// # Errors
/// [`ConnectionError`]; nothing was sent.
pub fn connect(endpoint: &RemoteEndpoint, fence: &WriteFence) -> Result<Arc<Connection>, ConnectionError> {
    let uri: http::Uri = endpoint
        .server
        .as_str()
        .parse()
        .map_err(|_| ConnectionError::Address(endpoint.server.to_string()))?;
    let mut config = Config::new(uri);
    config.root_cert = endpoint.certificate_authority.as_deref().map(certificates);
    config.tls_server_name = endpoint.expected_name();
    match &endpoint.credential {
        Credential::Token(token) => config.auth_info.token = Some(token.clone().into()),
        Credential::Certificate { certificate, key } => {
            use base64::Engine as _;
            let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
            config.auth_info.client_certificate_data = Some(encode(certificate));
            config.auth_info.client_key_data = Some(encode(key).into());
        }
    }
    connect_by(config, Some(endpoint.policy), endpoint.proxy.as_ref(), fence)
}

/// A connection by a kube configuration: for the hub, whose configuration is the daemon's own, so that no address is judged.
///
/// # Errors
/// [`ConnectionError`]; nothing was sent.
pub fn connect_config(config: Config, fence: &WriteFence) -> Result<Arc<Connection>, ConnectionError> {
    connect_by(config, None, None, fence)
}

fn connect_by(
    mut config: Config,
    policy: Option<Policy>,
    proxy: Option<&Url>,
    fence: &WriteFence,
) -> Result<Arc<Connection>, ConnectionError> {
    // kube's own retry sends a create again whose answer was lost, and sleeps as long as a server asks: see `wire`.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = None;
    let host = config
        .cluster_url
        .host()
        .unwrap_or_default()
        .trim_matches(['[', ']'])
        .to_owned();
    let port = config.cluster_url.port_u16().unwrap_or(443);
    let gated = GatedConnector::new(fence.clone(), policy);
    let client = match proxy {
        None => client(&config, gated, fence),
        Some(proxy) => match Proxy::of(proxy).map_err(ConnectionError::Address)? {
            Proxy::Tunnel(to, None) => client(&config, Tunnel::new(to, gated), fence),
            Proxy::Tunnel(to, Some(login)) => client(&config, Tunnel::new(to, gated).with_auth(login), fence),
            Proxy::Socks(to, None) => client(&config, SocksV5::new(to, gated), fence),
            Proxy::Socks(to, Some((user, password))) => {
                client(&config, SocksV5::new(to, gated).with_auth(user, password), fence)
            }
        },
    };
    let client = client.map_err(|error| ConnectionError::Credential(Box::new(error)))?;
    Ok(Connection::new(client, host, port))
}

/// What a connection goes through. It sees TLS, and the name of the server.
enum Proxy {
    /// By the method CONNECT, with the value of `Proxy-Authorization`.
    Tunnel(http::Uri, Option<http::HeaderValue>),
    /// By SOCKS 5, with user name and password; the proxy resolves the name.
    Socks(http::Uri, Option<(String, String)>),
}

impl Proxy {
    fn of(url: &Url) -> Result<Self, String> {
        use base64::Engine as _;
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or(1080);
        let wrong = || format!("the proxy {host}:{port}");
        let to: http::Uri = format!("http://{host}:{port}").parse().map_err(|_| wrong())?;
        let decoded = |text: &str| {
            let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
            decoded.map(std::borrow::Cow::into_owned).map_err(|_| wrong())
        };
        let login = match (decoded(url.username())?, decoded(url.password().unwrap_or_default())?) {
            (user, password) if user.is_empty() && password.is_empty() => None,
            login => Some(login),
        };
        if url.scheme() != "http" {
            return Ok(Self::Socks(to, login));
        }
        let header = login.map(|(user, password)| {
            let login = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
            format!("Basic {login}").parse().map_err(|_| wrong())
        });
        Ok(Self::Tunnel(to, header.transpose()?))
    }
}

/// As kube puts its client together, with the fence around it and the gate beneath TLS and proxy.
fn client<C>(config: &Config, connector: C, fence: &WriteFence) -> Result<Client, kube::Error>
where
    C: Service<http::Uri> + Clone + Send + Sync + 'static,
    C::Response: hyper::rt::Read + hyper::rt::Write + Connected + Unpin + Send + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let https = config.rustls_https_connector_with_connector(connector)?;
    let mut connector = TimeoutConnector::new(https);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    let hyper = hyper_util::client::legacy::Builder::new(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(FenceLayer(fence.clone()))
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(hyper);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}

/// The DER content of each certificate in a PEM text.
fn certificates(pem: &[u8]) -> Vec<Vec<u8>> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    CertificateDer::pem_slice_iter(pem)
        .filter_map(Result::ok)
        .map(|der| der.to_vec())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Ask, NoAnswer};

    #[tokio::test]
    async fn a_name_is_judged_by_what_it_leads_to_and_no_socket_is_opened() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        // As if the name had been an innocent one when the kubeconfig was read.
        let endpoint = RemoteEndpoint {
            server: format!("https://localhost:{port}").parse().unwrap(),
            certificate_authority: None,
            tls_server_name: None,
            proxy: None,
            credential: Credential::Token("abc".into()),
            expires: None,
            context: "c".into(),
            namespace: None,
            policy: Policy::default(),
        };
        let connection = connect(&endpoint, &WriteFence::open()).unwrap();
        match connection.read(Ask::get("/version".into())).await {
            Err(NoAnswer::Refused(error)) => assert_eq!(error.reason(), "KubeconfigForbiddenAddress"),
            other => panic!("{other:?}"),
        }
        assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
}
