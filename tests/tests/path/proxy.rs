//! A proxy that ends TLS and leads to several API servers, each by a path of its own.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use chandlery_tests::Cluster;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use xtask::control_plane::Certificates;

/// Where a path leads.
struct Backend {
    address: String,
    tls: Arc<ClientConfig>,
}

/// One proxy for two clusters, at `/a` and `/b`; lives as long as the process.
pub(super) struct Proxy {
    port: u16,
    certificates: Certificates,
}

impl Proxy {
    pub(super) fn start(a: &Cluster, b: &Cluster) -> Self {
        let certificates = Certificates::generate().unwrap();
        let chain = vec![CertificateDer::from_pem_slice(certificates.server.certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(certificates.server.key.as_bytes()).unwrap();
        let tls = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let (tls, backends) = (Arc::new(tls), Arc::new([backend(a), backend(b)]));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let front = StreamOwned::new(ServerConnection::new(tls.clone()).unwrap(), socket);
                let backends = backends.clone();
                // Ends with an error as soon as either side has gone.
                std::thread::spawn(move || pass_on(front, &backends));
            }
        });
        Self { port, certificates }
    }

    /// A kubeconfig for what is behind a path.
    pub(super) fn kubeconfig(&self, path: &str, token: &str) -> String {
        use base64::Engine as _;
        let authority = base64::engine::general_purpose::STANDARD.encode(&self.certificates.ca);
        serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("https://127.0.0.1:{}{path}", self.port),
                "certificate-authority-data": authority}}],
            "users": [{"name": "c", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        })
        .to_string()
    }
}

fn backend(cluster: &Cluster) -> Backend {
    use base64::Engine as _;
    let kubeconfig: Value = serde_saphyr::from_str(&cluster.guest_kubeconfig()).unwrap();
    let authority = kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"]
        .as_str()
        .unwrap();
    let authority = base64::engine::general_purpose::STANDARD.decode(authority).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&authority).unwrap()).unwrap();
    Backend {
        address: cluster.plane.server_url().trim_start_matches("https://").to_owned(),
        tls: Arc::new(
            ClientConfig::builder()
                .with_root_certificates(roots)
                .with_no_client_auth(),
        ),
    }
}

/// One request and its answer; then the connection is closed, so that the next may lead elsewhere.
fn pass_on(front: StreamOwned<ServerConnection, TcpStream>, backends: &[Backend; 2]) -> io::Result<()> {
    let mut front = BufReader::new(front);
    let (mut head, mut line, mut length) = (String::new(), String::new(), 0);
    front.read_line(&mut line)?;
    let (backend, line) = match line.split_once(" /a/").map(|found| (0, found)) {
        Some((backend, (method, rest))) => (backend, format!("{method} /{rest}")),
        None => {
            let (method, rest) = line.split_once(" /b/").ok_or_else(|| io::Error::other(line.clone()))?;
            (1, format!("{method} /{rest}"))
        }
    };
    head.push_str(&line);
    loop {
        let mut line = String::new();
        front.read_line(&mut line)?;
        let name = line.to_ascii_lowercase();
        if let Some(value) = name.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
        if line == "\r\n" {
            break;
        }
        if !name.starts_with("connection:") {
            head.push_str(&line);
        }
    }
    head.push_str("Connection: close\r\n\r\n");
    let mut body = vec![0; length];
    front.read_exact(&mut body)?;
    let Backend { address, tls } = &backends[backend];
    let name = ServerName::try_from("127.0.0.1").map_err(io::Error::other)?;
    let tls = ClientConnection::new(tls.clone(), name).map_err(io::Error::other)?;
    let mut back = StreamOwned::new(tls, TcpStream::connect(address)?);
    back.write_all(head.as_bytes())?;
    back.write_all(&body)?;
    let (mut front, mut chunk) = (front.into_inner(), vec![0; 64 * 1024]);
    loop {
        // A server that closes without saying so in TLS has said all it has to say.
        let read = back.read(&mut chunk).unwrap_or(0);
        if read == 0 {
            front.conn.send_close_notify();
            return front.flush();
        }
        front.write_all(&chunk[..read])?;
        front.flush()?;
    }
}
