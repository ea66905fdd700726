//! What a server may do beneath and beside its answers: TLS, framing, and texts that are meant for somebody's terminal.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use xtask::control_plane::Certificates;

use super::answers::{assert_other_goes_on, assert_unavailable, desk, desk_by, read_from};
use super::server::{CERTIFICATES, PATH, Server, config_map};

/// That nothing is sent to a server that shows this.
async fn assert_not_talked_to(server: &Server, expecting: Option<&str>) {
    let desk = desk_by(server.connect_expecting(expecting), server);
    let (read, ()) = tokio::join!(desk.get(), assert_other_goes_on());
    assert_unavailable(&read.unwrap_err(), "cannot be reached");
    assert_eq!(server.asked(), Vec::<String>::new(), "no request, and so no credential");
}

#[tokio::test]
async fn a_server_with_a_certificate_of_another_authority_is_not_talked_to() {
    let other = Certificates::generate().unwrap();
    assert_not_talked_to(&Server::showing(&other.server), None).await;
}

#[tokio::test]
async fn a_server_with_a_certificate_for_another_name_is_not_talked_to() {
    assert_not_talked_to(&Server::showing(&CERTIFICATES.server), Some("east.example")).await;
}

#[tokio::test]
async fn a_server_whose_certificate_has_ended_is_not_talked_to() {
    assert_not_talked_to(&Server::showing(&CERTIFICATES.ended_server().unwrap()), None).await;
}

#[tokio::test]
async fn a_server_with_a_certificate_for_clients_is_not_talked_to() {
    assert_not_talked_to(&Server::showing(&CERTIFICATES.admin), None).await;
}

/// A server that answers a first word in TLS with these bytes; what it was sent.
async fn first_word(answer: &'static [u8]) -> Vec<u8> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = heard.clone();
    let server = Server::gated(
        move |mut socket: &TcpStream| {
            let mut bytes = [0; 4096];
            let count = socket.read(&mut bytes).unwrap_or(0);
            hears.lock().unwrap().extend(&bytes[..count]);
            let _ = socket.write_all(answer);
            false
        },
        |_, _| None,
    );
    assert_not_talked_to(&server, None).await;
    heard.lock().unwrap().clone()
}

#[tokio::test]
async fn a_server_without_tls_is_told_no_credential() {
    let heard = first_word(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await;
    assert_eq!(heard[0], 22, "a handshake record");
    assert!(!heard.windows(3).any(|bytes| bytes == b"abc"), "the token");
}

#[tokio::test]
async fn a_server_that_asks_for_an_old_tls_is_not_talked_to() {
    // A ServerHello of TLS 1.0 (RFC 2246): version, 32 bytes, no session, a suite of that time, no compression.
    let heard =
        first_word(b"\x16\x03\x01\x00\x2a\x02\x00\x00\x26\x03\x01aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\x00\x00\x2f\x00")
            .await;
    assert_eq!(heard[0], 22);
}

#[tokio::test]
async fn a_server_that_breaks_the_handshake_off_is_tried_again_and_then_told() {
    // A fatal alert: internal error.
    first_word(b"\x15\x03\x03\x00\x02\x02\x50").await;
}

#[tokio::test]
async fn an_answer_that_says_its_length_twice_is_none() {
    let (error, _) = read_from(|wire| {
        wire.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 400\r\n\r\n{}")?;
        wire.flush()
    })
    .await;
    assert_unavailable(&error, "cannot be reached");
}

#[tokio::test]
async fn chunks_of_nonsense_are_no_answer() {
    let (error, _) = read_from(|wire| {
        wire.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}")?;
        wire.flush()
    })
    .await;
    assert_unavailable(&error, "");
}

#[tokio::test]
async fn a_bomb_of_gzip_is_not_unpacked() {
    // Nobody asked for it: as bytes it is no JSON.
    let body = vec![0x1f; 1 << 10];
    let (error, _) = read_from(move |wire| wire.answer(200, "Content-Encoding: gzip\r\n", &body)).await;
    assert_unavailable(&error, "is not");
}

#[tokio::test]
async fn a_body_that_is_no_text_is_no_object() {
    let (error, _) = read_from(|wire| wire.answer(200, "", b"{\"kind\": \"\xff\xfe\"}")).await;
    assert_unavailable(&error, "is not");
}

#[tokio::test]
async fn an_answer_without_content_is_no_object() {
    for status in [204, 206, 304] {
        let (error, _) = read_from(move |wire| {
            write!(wire, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n")?;
            wire.flush()
        })
        .await;
        assert!(!error.to_string().is_empty(), "{status}");
    }
}

#[tokio::test]
async fn a_connection_that_becomes_another_protocol_is_no_answer() {
    let (error, _) = read_from(|wire| {
        wire.write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")?;
        wire.flush()
    })
    .await;
    assert!(!error.to_string().is_empty());
}

#[tokio::test]
async fn a_message_for_somebodys_terminal_becomes_one_plain_line() {
    let message = "\u{1b}[31mall is well\u{1b}[0m\n\r\u{0}level=info forged\u{202e}".repeat(1000);
    let body = serde_json::json!({"kind": "Status", "message": message}).to_string();
    for status in [400, 403, 404, 409, 422, 500, 503] {
        let body = body.clone();
        let server = Server::start(move |asked, wire| {
            (asked.method == "PATCH").then(|| wire.answer(status, "", body.as_bytes()))
        });
        let error = desk(&server).apply().await.unwrap_err().to_string();
        assert!(error.len() < 3000, "{status}: {} bytes", error.len());
        assert!(
            !error.chars().any(|c| c.is_control() || c == '\u{202e}'),
            "{status}: {error:?}"
        );
    }
}

#[tokio::test]
async fn a_connection_is_not_used_for_a_second_answer_that_nobody_asked_for() {
    // Two answers to one request: the second would be taken for the answer to the next.
    let server = Server::start(|asked, wire| {
        asked.is("GET", PATH).then(|| {
            let mut other = config_map();
            other["metadata"]["uid"] = "forged".into();
            wire.json(200, &config_map())?;
            wire.json(200, &other)
        })
    });
    let desk = desk(&server);
    for _ in 0..5 {
        let read = desk.get().await;
        if let Ok(Some(object)) = read {
            assert_eq!(object["metadata"]["uid"], "1");
        }
    }
}
