//! An API server that means no good: a few lines of TLS and HTTP, and a behaviour per path.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use chandlery_core::cluster::Facts;
use chandlery_scope::kubeconfig::{Policy, parse};
use chandlery_scope::{Connection, WriteFence, connect};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use xtask::control_plane::{Certificates, Identity};

pub(crate) static CERTIFICATES: LazyLock<Certificates> = LazyLock::new(|| {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Certificates::generate().unwrap()
});

/// One request as it came.
pub(crate) struct Asked {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) uri: String,
}

impl Asked {
    pub(crate) fn is(&self, method: &str, path: &str) -> bool {
        self.method == method && self.uri.split('?').next() == Some(path)
    }
}

/// What a server does with a request; `None`: what an honest one does.
pub(crate) type Behaviour = dyn Fn(&Asked, &mut Wire) -> Option<io::Result<()>> + Send + Sync;

/// The answering side of one connection; counts what is sent.
pub(crate) struct Wire {
    stream: StreamOwned<ServerConnection, TcpStream>,
    sent: Arc<AtomicU64>,
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.stream.write(bytes)?;
        self.sent.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Wire {
    pub(crate) fn answer(&mut self, status: u16, headers: &str, body: &[u8]) -> io::Result<()> {
        let head = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        self.write_all(head.as_bytes())?;
        self.write_all(body)?;
        self.flush()
    }

    pub(crate) fn json(&mut self, status: u16, body: &Value) -> io::Result<()> {
        self.answer(status, "", body.to_string().as_bytes())
    }

    /// A head whose body ends with the connection.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        self.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")?;
        self.flush()
    }

    /// The same text until the other side has had enough.
    pub(crate) fn for_ever(&mut self, text: &[u8]) -> io::Result<()> {
        loop {
            self.write_all(text)?;
        }
    }
}

/// A server on loopback, for as long as the process lives.
pub(crate) struct Server {
    port: u16,
    sent: Arc<AtomicU64>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// A server that does to each connection, before TLS, what `gate` says, and to each request what `behaviour` says.
    pub(crate) fn gated(
        gate: impl Fn(&TcpStream) -> bool + Send + 'static,
        behaviour: impl Fn(&Asked, &mut Wire) -> Option<io::Result<()>> + Send + Sync + 'static,
    ) -> Self {
        Self::all(&CERTIFICATES.server, gate, behaviour)
    }

    /// A server that does as one should, and shows this certificate.
    pub(crate) fn showing(identity: &Identity) -> Self {
        Self::all(identity, |_| true, |_, _| None)
    }

    fn all(
        identity: &Identity,
        gate: impl Fn(&TcpStream) -> bool + Send + 'static,
        behaviour: impl Fn(&Asked, &mut Wire) -> Option<io::Result<()>> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            port: listener.local_addr().unwrap().port(),
            sent: Arc::default(),
            asked: Arc::default(),
        };
        let (sent, asked) = (server.sent.clone(), server.asked.clone());
        let behaviour: Arc<Behaviour> = Arc::new(behaviour);
        let chain = vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
        let tls = ServerConfig::builder().with_no_client_auth();
        let tls = Arc::new(tls.with_single_cert(chain, key).unwrap());
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let socket = socket.unwrap();
                if !gate(&socket) {
                    continue;
                }
                let wire = Wire {
                    stream: StreamOwned::new(ServerConnection::new(tls.clone()).unwrap(), socket),
                    sent: sent.clone(),
                };
                let (behaviour, asked) = (behaviour.clone(), asked.clone());
                // Ends with an error as soon as the other side has gone.
                std::thread::spawn(move || serve(wire, &*behaviour, &asked));
            }
        });
        server
    }

    pub(crate) fn start(
        behaviour: impl Fn(&Asked, &mut Wire) -> Option<io::Result<()>> + Send + Sync + 'static,
    ) -> Self {
        Self::gated(|_| true, behaviour)
    }

    /// One that does as an API server should.
    pub(crate) fn honest() -> Self {
        Self::start(|_, _| None)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Bytes of answers that the other side, or the sockets between, took.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Requests so far, as `METHOD path?query`.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn asked_for(&self, part: &str) -> usize {
        self.asked().iter().filter(|line| line.contains(part)).count()
    }

    /// A connection as a tenant's kubeconfig makes it.
    pub(crate) fn connect(&self) -> Arc<Connection> {
        self.connect_expecting(None)
    }

    /// The same, with another name expected in the server's certificate.
    pub(crate) fn connect_expecting(&self, name: Option<&str>) -> Arc<Connection> {
        // Serialized as base64.
        let authority = k8s_openapi::ByteString(CERTIFICATES.ca.clone().into_bytes());
        let kubeconfig = json!({
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {
                "server": format!("https://127.0.0.1:{}", self.port), "certificate-authority-data": authority, "tls-server-name": name}}],
            "users": [{"name": "u", "user": {"token": "abc"}}],
        });
        let endpoint = parse(
            kubeconfig.to_string().as_bytes(),
            None,
            Policy {
                allow_loopback: true,
                ..Policy::default()
            },
            jiff::Timestamp::now(),
        )
        .unwrap();
        connect(&endpoint, &WriteFence::open()).unwrap()
    }

    pub(crate) fn facts(&self) -> Facts {
        Facts {
            name: "remote".into(),
            identity: "an-identity".into(),
            host: "127.0.0.1".into(),
            port: self.port,
            version: "1.34.4".into(),
            path: vec!["remote".into()],
        }
    }
}

fn serve(mut wire: Wire, behaviour: &Behaviour, asked: &Mutex<Vec<String>>) -> io::Result<()> {
    loop {
        let request = read_request(&mut wire.stream)?;
        asked
            .lock()
            .unwrap()
            .push(format!("{} {}", request.method, request.uri));
        match behaviour(&request, &mut wire) {
            Some(done) => done?,
            None => honest(&request, &mut wire)?,
        }
    }
}

/// Reads one request, its body thrown away.
fn read_request(stream: &mut impl Read) -> io::Result<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase()
            .strip_prefix("content-length:")?
            .trim()
            .parse()
            .ok()
    });
    io::copy(&mut stream.take(length.unwrap_or(0)), &mut io::sink())?;
    let mut words = head.split_whitespace().map(str::to_owned);
    Ok(Asked {
        method: words.next().unwrap_or_default(),
        uri: words.next().unwrap_or_default(),
    })
}

/// Where the ConfigMap is that honest servers have.
pub(crate) const PATH: &str = "/api/v1/namespaces/default/configmaps/c";

/// The ConfigMap that honest servers have, whatever is done to it.
pub(crate) fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "namespace": "default", "name": "c", "uid": "1", "resourceVersion": "1",
        "annotations": {chandlery_core::names::OWNER_ANNOTATION: "uid/step"}}})
}

pub(crate) fn honest(request: &Asked, wire: &mut Wire) -> io::Result<()> {
    match request.uri.split('?').next().unwrap_or_default() {
        "/version" => wire.json(200, &json!({"gitVersion": "v1.34.4"})),
        "/api/v1" => wire.json(
            200,
            &json!({"resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": true}]}),
        ),
        "/api/v1/namespaces/default/configmaps" if request.method == "GET" => wire.json(
            200,
            &json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [config_map()]}),
        ),
        PATH | "/api/v1/namespaces/default/configmaps" => wire.json(200, &config_map()),
        _ => wire.json(404, &json!({"kind": "Status", "message": "not found"})),
    }
}
