//! A simulator on a loopback port, with TLS and certificates of its own, for clients that want an address.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper_util::rt::{TokioIo, TokioTimer};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::access::User;
use crate::service::Simulator;

/// A port that is served. It is closed when this is dropped.
pub struct Server {
    address: SocketAddr,
    authority: Issuer<'static, KeyPair>,
    authority_pem: String,
    users: Arc<Users>,
    accepting: JoinHandle<()>,
}

/// Whose certificate is whose, by the certificate's bytes: only what this server signed gets through a handshake.
type Users = Mutex<HashMap<Vec<u8>, User>>;

/// Why a port is not served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// No port could be had.
    #[error("listening on a loopback port")]
    Listen(#[source] io::Error),
    /// A certificate could not be made.
    #[error("making a certificate")]
    Certificate(#[from] rcgen::Error),
    /// TLS would not take the certificates.
    #[error("setting up TLS: {0}")]
    Tls(String),
}

/// Who does not finish a handshake, or a request's head, within this time is hung up on.
const PATIENCE: Duration = Duration::from_secs(10);

impl Server {
    /// Serves a simulator on a free port of 127.0.0.1, or on the given one.
    ///
    /// Must be called within a tokio runtime, whose tasks answer the requests.
    ///
    /// # Errors
    /// By variant of [`ServeError`].
    pub async fn start(simulator: &Simulator, port: u16) -> Result<Self, ServeError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .map_err(ServeError::Listen)?;
        let address = listener.local_addr().map_err(ServeError::Listen)?;
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = subject("chandlery-simulator-authority", &[]);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = parameters.self_signed(&key)?;
        let authority_pem = certificate.pem();
        let authority = Issuer::new(parameters, key);
        simulator.with_world(|world| world.trust(&authority_pem));

        let names = [
            "127.0.0.1",
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
        ];
        let mut server = CertificateParams::new(names.map(str::to_owned))?;
        server.distinguished_name = subject("kube-apiserver", &[]);
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server_key = KeyPair::generate()?;
        let server = server.signed_by(&server_key, &authority)?;

        let tls = tls(certificate.der(), server.der().clone(), &server_key)?;
        let users: Arc<Users> = Arc::default();
        let accepting = tokio::spawn(accept(
            listener,
            TlsAcceptor::from(tls),
            simulator.clone(),
            Arc::clone(&users),
        ));
        Ok(Self {
            address,
            authority,
            authority_pem,
            users,
            accepting,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate that its own is signed with, PEM.
    #[must_use]
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    /// A kubeconfig with a client certificate for a user.
    ///
    /// # Errors
    /// If the certificate cannot be made.
    pub fn kubeconfig(&self, name: &str, user: User) -> Result<String, ServeError> {
        let groups: Vec<&str> = user.groups.iter().map(String::as_str).collect();
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = subject(&user.name, &groups);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, &self.authority)?;
        self.users
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(certificate.der().to_vec(), user);
        let credential = serde_json::json!({
            "client-certificate-data": STANDARD.encode(certificate.pem()),
            "client-key-data": STANDARD.encode(key.serialize_pem()),
        });
        Ok(self.write_kubeconfig(name, &credential))
    }

    /// A kubeconfig with a bearer token.
    #[must_use]
    pub fn kubeconfig_with_token(&self, name: &str, token: &str) -> String {
        self.write_kubeconfig(name, &serde_json::json!({"token": token}))
    }

    fn write_kubeconfig(&self, name: &str, credential: &serde_json::Value) -> String {
        let config = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": {
                "server": format!("https://{}", self.address),
                "certificate-authority-data": STANDARD.encode(&self.authority_pem),
            }}],
            "users": [{"name": name, "user": credential}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        });
        // JSON is YAML, and every client reads it.
        format!("{config:#}\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn tls(
    authority: &CertificateDer<'_>,
    server: CertificateDer<'static>,
    key: &KeyPair,
) -> Result<Arc<ServerConfig>, ServeError> {
    let refuse = |error: &dyn std::fmt::Display| ServeError::Tls(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots
        .add(authority.clone().into_owned())
        .map_err(|error| refuse(&error))?;
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(|error| refuse(&error))?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refuse(&error))?
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![server], key)
        .map_err(|error| refuse(&error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, simulator: Simulator, users: Arc<Users>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            // A connection that ended, however it did, is the client's affair.
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, acceptor.clone(), simulator.clone(), Arc::clone(&users)));
                }
                // No more files, for instance: those that are open go on, and some will close.
                Err(_) => tokio::task::yield_now().await,
            },
        }
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, simulator: Simulator, users: Arc<Users>) {
    // Small answers must not wait for more.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await else {
        return;
    };
    let certificate = stream
        .get_ref()
        .1
        .peer_certificates()
        .and_then(<[CertificateDer<'_>]>::first);
    let user = certificate.and_then(|certificate| {
        users
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(certificate.as_ref())
            .cloned()
    });
    let service =
        hyper_util::service::TowerToHyperService::new(simulator.as_user(user.unwrap_or_else(User::anonymous)));
    let mut server = hyper::server::conn::http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    // How a connection ends is the client's affair.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

fn subject(common_name: &str, organizations: &[&str]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    for organization in organizations {
        name.push(DnType::OrganizationName, *organization);
    }
    name.push(DnType::CommonName, common_name);
    name
}
