//! Readiness is asked of the API server itself, by its own certificate: a stranger on the port is not ready.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::certificates::Identity;

/// A server on loopback that says nothing for this long is not ready.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks for status codes, as one client.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    config: Arc<ClientConfig>,
    port: u16,
}

impl Probe {
    pub(super) fn new(port: u16, ca: &str, client: &Identity) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes())?)?;
        let certificate = CertificateDer::from_pem_slice(client.certificate.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(client.key.as_bytes())?;
        // The provider is named: a process with two of them has no default, and asking for it panics.
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)?;
        Ok(Self {
            config: Arc::new(config),
            port,
        })
    }

    /// The status code of a GET; an error if there is no answer.
    pub(super) fn status(&self, path: &str) -> Result<u16> {
        let socket = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)), PATIENCE)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        let mut stream = StreamOwned::new(ClientConnection::new(self.config.clone(), name)?, socket);
        // HTTP/1.0: the server closes, and nothing is chunked.
        write!(
            stream,
            "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nUser-Agent: chandlery-readiness\r\n\r\n"
        )?;
        stream.flush()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        let code = line.split_whitespace().nth(1).context("reading the status line")?;
        code.parse()
            .with_context(|| format!("reading the status line {line:?}"))
    }
}
