//! The port, asked by clients that do not know better or mean ill: each gets an answer or is hung up on, and those who come
//! after are served. That the answers are a real server's is shown by `cargo xtask compare --corpus`.

#![allow(clippy::expect_used, reason = "helpers of tests fail like tests")]

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use chandlery_simulator::{Clock, Server, Settings, Simulator, User, World};
use http::{HeaderMap, Method, Uri};
use http_body_util::BodyExt;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PATIENCE: Duration = Duration::from_secs(60);

struct Port {
    server: Server,
    connector: TlsConnector,
    simulator: Simulator,
}

impl Port {
    async fn open() -> Self {
        Self::serve(Simulator::new(Settings::default())).await
    }

    async fn serve(simulator: Simulator) -> Self {
        let server = Server::start(&simulator, 0).await.expect("a port");
        let kubeconfig = server.kubeconfig("test", User::admin()).expect("a kubeconfig");
        let kubeconfig: Value = serde_json::from_str(&kubeconfig).expect("JSON");
        let pem = |pointer: &str| {
            let text = kubeconfig.pointer(pointer).and_then(Value::as_str).expect("a field");
            base64::engine::general_purpose::STANDARD.decode(text).expect("base64")
        };
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(server.authority_pem().as_bytes()) {
            roots.add(certificate.expect("a certificate")).expect("an authority");
        }
        let chain = CertificateDer::pem_slice_iter(&pem("/users/0/user/client-certificate-data"))
            .collect::<Result<_, _>>()
            .expect("a chain");
        let key = PrivateKeyDer::from_pem_slice(&pem("/users/0/user/client-key-data")).expect("a key");
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .expect("a client");
        Self {
            server,
            connector: TlsConnector::from(Arc::new(config)),
            simulator,
        }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.server.address()).await.expect("a connection");
        let name = ServerName::try_from("localhost").expect("a name");
        self.connector.connect(name, stream).await.expect("a handshake")
    }

    /// Sends bytes as they are and reads until the server hangs up; what it said. The connection is not used again.
    async fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        // Who is hung up on while they speak has been answered.
        let _ = stream.write_all(bytes).await;
        let _ = stream.flush().await;
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer))
            .await
            .expect("an answer or the end");
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn is_served(&self) -> bool {
        let answer = self
            .say(b"GET /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .await;
        answer.starts_with("HTTP/1.1 200")
    }
}

fn post(body: &[u8], length: usize) -> Vec<u8> {
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn what_is_no_request_is_refused_and_the_next_one_is_served() {
    let port = Port::open().await;
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(100_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(10_000));
    for bytes in [
        &b"nonsense\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        long.as_bytes(),
        many.as_bytes(),
    ] {
        let answer = port.say(bytes).await;
        let shown: String = String::from_utf8_lossy(bytes).chars().take(40).collect();
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{shown:?} got {answer:?}"
        );
    }
    assert!(port.is_served().await);
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_and_one_below_is_not() {
    let port = Port::open().await;
    let body = |size: usize| {
        let text = json!({"metadata": {"name": format!("m-{size}")}, "data": {"a": "x".repeat(size)}}).to_string();
        post(text.as_bytes(), text.len())
    };
    let below = port.say(&body(900_000)).await;
    assert!(
        below.starts_with("HTTP/1.1 201"),
        "{}",
        below.get(..300).unwrap_or(&below)
    );
    let beyond = port.say(&body(3 * 1024 * 1024)).await;
    assert!(
        beyond.is_empty() || beyond.starts_with("HTTP/1.1 413"),
        "{}",
        beyond.get(..300).unwrap_or(&beyond)
    );
    assert!(port.is_served().await);
}

#[tokio::test]
async fn wrong_utf_8_and_deep_json_are_refused() {
    let port = Port::open().await;
    let deep = format!("{{\"data\":{}1{}}}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    for body in [
        &b"{\"metadata\":{\"name\":\"\xc3\x28\"}}"[..],
        b"\xff\xfe\x00",
        deep.as_bytes(),
    ] {
        let answer = port.say(&post(body, body.len())).await;
        assert!(
            answer.starts_with("HTTP/1.1 4"),
            "{}",
            answer.get(..300).unwrap_or(&answer)
        );
    }
    assert!(port.is_served().await);
}

#[tokio::test]
async fn half_a_handshake_half_a_head_and_half_a_body_hold_nobody_up() {
    let port = Port::open().await;
    let mut half = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(port.server.address()).await.expect("a connection");
        // The beginning of a ClientHello.
        stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1]).await.expect("a beginning");
        half.push(stream);
    }
    let mut waiting = Vec::new();
    for beginning in [&b"GET /api HT"[..], &post(b"{\"metadata\":", 5_000)] {
        let mut stream = port.connect().await;
        stream.write_all(beginning).await.expect("a beginning");
        stream.flush().await.expect("a beginning");
        waiting.push(stream);
    }
    assert!(port.is_served().await);
}

#[tokio::test]
async fn many_idle_connections_leave_room_for_one_more() {
    let port = Port::open().await;
    let mut idle = Vec::new();
    for _ in 0..400 {
        idle.push(TcpStream::connect(port.server.address()).await.expect("a connection"));
    }
    assert!(port.is_served().await);
}

#[tokio::test]
async fn a_watcher_that_does_not_read_is_told_that_it_is_too_late() {
    let simulator = Simulator::new(Settings {
        log_limit: 10,
        ..Settings::default()
    });
    let uri: Uri = format!("{MAPS}?watch=1&resourceVersion=0").parse().expect("a path");
    let mut body = simulator
        .respond(&Method::GET, &uri, &HeaderMap::new(), bytes::Bytes::new())
        .into_body();
    body.frame().await.expect("the beginning").expect("data");
    let mut headers = HeaderMap::new();
    headers.insert("content-type", http::HeaderValue::from_static("application/json"));
    let maps: Uri = MAPS.parse().expect("a path");
    for number in 0..50 {
        let map = json!({"metadata": {"name": format!("m-{number}")}}).to_string();
        let made = simulator.respond(&Method::POST, &maps, &headers, map.into());
        assert_eq!(made.status(), 201);
    }
    let told = body.frame().await.expect("a frame").expect("data");
    let told: Value = serde_json::from_slice(told.data_ref().expect("data")).expect("an event");
    assert_eq!(
        (told.get("type"), told.pointer("/object/code")),
        (Some(&json!("ERROR")), Some(&json!(410)))
    );
    assert!(body.frame().await.is_none(), "and that is the end of it");
}

#[tokio::test]
async fn a_watch_on_a_clock_is_answered_before_anything_happens() {
    let port = Port::serve(Simulator::of(World::new(Settings::default()), Clock::Wall)).await;
    let mut stream = port.connect().await;
    let version = port.simulator.with_world(|world| world.objects());
    let request = format!("GET {MAPS}?watch=1&resourceVersion={version} HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut buffer = [0_u8; 512];
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut buffer)).await;
    assert!(read.expect("the head is not waited for").is_ok_and(|read| read > 0));
}

#[tokio::test]
async fn a_watch_over_the_port_ends_with_its_client() {
    let port = Port::open().await;
    let mut stream = port.connect().await;
    let request = format!("GET {MAPS}?watch=1 HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut buffer = [0_u8; 512];
    let read = stream.read(&mut buffer).await.expect("the head");
    assert!(buffer.starts_with(b"HTTP/1.1 200"), "{read}");
    drop(stream);
    port.simulator.with_world(|world| world.compact());
    assert!(port.is_served().await);
}
