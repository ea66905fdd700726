//! What judging a kubeconfig does to the machine: nothing; and what `chandlery remote check` says of one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests stop where an expectation fails"
)]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Value, json};
use xtask::control_plane::ControlPlane;
use xtask::workspace;

static BINARY: LazyLock<PathBuf> = LazyLock::new(|| workspace::binary("chandlery").unwrap());
static CLUSTER: LazyLock<ControlPlane> = LazyLock::new(|| ControlPlane::builder().name("check").start().unwrap());

fn corpus() -> PathBuf {
    workspace::root().join("host/scope/tests/kubeconfig")
}

/// Memory, clocks, randomness, locks, and the two lines that frame the judging.
const HARMLESS: [&str; 15] = [
    "brk",
    "mmap",
    "munmap",
    "mremap",
    "mprotect",
    "madvise",
    "futex",
    "getrandom",
    "clock_gettime",
    "sched_yield",
    "rt_sigprocmask",
    "rt_sigaction",
    "sigaltstack",
    "prlimit64",
    "write",
];

#[test]
fn judging_starts_no_process_opens_no_file_and_resolves_no_name() {
    let trace = tempfile::NamedTempFile::new().unwrap();
    let files = std::fs::read_dir(corpus().join("cases")).unwrap();
    let output = Command::new("strace")
        .args(["-f", "-qq", "-o"])
        .arg(trace.path())
        .arg(env!("CARGO_BIN_EXE_judge-kubeconfigs"))
        .args(files.map(|file| file.unwrap().path()))
        .output()
        .expect("strace is installed by `cargo xtask test`");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let trace = std::fs::read_to_string(trace.path()).unwrap();
    let mut between = Vec::new();
    let mut judging = false;
    for line in trace.lines() {
        let begins = line.contains("judging begins");
        judging = (judging || begins) && !line.contains("judging ends");
        if judging && !begins {
            between.push(line);
        }
    }
    assert!(trace.contains("judging begins") && trace.contains("judging ends"));
    let name_of = |line: &str| {
        let call = line.split_once(' ').unwrap().1.trim_start();
        call.split(['(', ' ']).next().unwrap().to_owned()
    };
    let harmful: Vec<_> = between
        .into_iter()
        .filter(|line| !HARMLESS.contains(&name_of(line).as_str()))
        .collect();
    assert_eq!(harmful, Vec::<&str>::new());
}

fn check(arguments: &[&str]) -> (Option<i32>, Value, Output) {
    let output = Command::new(BINARY.as_path())
        .args(["remote", "check", "--output", "json"])
        .args(arguments)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let answer = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), answer, output)
}

fn case(name: &str) -> String {
    corpus().join("cases").join(name).display().to_string()
}

#[test]
fn remote_check_says_what_is_made_of_a_kubeconfig() {
    let (code, answer, _) = check(&[
        &case("003-vcluster-sni-default-port.yaml"),
        "--at",
        "2026-11-30T18:00:00Z",
    ]);
    assert_eq!(code, Some(0), "{answer}");
    let expires = answer["expires"].clone();
    assert!(expires.is_string());
    assert_eq!(
        answer,
        json!({
            "verdict": "accept", "context": answer["context"], "host": "198.51.100.20", "port": 443, "path": "",
            "serverName": "my-vcluster.vcluster-my-vcluster.svc.example.com", "certificateAuthority": "kubeconfig",
            "credential": "client-certificate", "expires": expires, "namespace": "default",
        })
    );
    let many = case("015-500-contexts.yaml");
    let (code, answer, _) = check(&[&many, "--context", "tenant-0487"]);
    assert_eq!((code, &answer["path"]), (Some(0), &json!("/shard/12")));
    let (code, answer, _) = check(&[&many, "--context", "tenant-9999"]);
    assert_eq!(
        (code, &answer["verdict"], &answer["reason"]),
        (Some(5), &json!("refuse"), &json!("context"))
    );
    assert!(
        answer["message"].as_str().unwrap().ends_with("and 480 more"),
        "{answer}"
    );

    let proxied = case("007-kcp-workspace-proxy.yaml");
    let at = ["--at", "2026-11-30T18:00:00Z"];
    let (code, answer, _) = check(&[&proxied, at[0], at[1]]);
    assert_eq!((code, &answer["reason"]), (Some(5), &json!("proxy-disabled")));
    let (code, answer, _) = check(&[&proxied, "--allow-proxy", at[0], at[1]]);
    assert_eq!(
        (code, &answer["proxy"]),
        (Some(0), &json!("socks5://proxy.example.org:1080"))
    );

    let text = Command::new(BINARY.as_path())
        .args(["remote", "check", &case("019-exec-shell-args.yaml")])
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&text.stderr).into_owned();
    assert!(
        told.contains("put a token or a client certificate into the kubeconfig"),
        "{told}"
    );
    assert!(told.contains("reason: exec-plugin"), "{told}");
    assert!(!PathBuf::from("canary-exec-ran").exists());
}

#[test]
fn remote_check_reaches_a_cluster_and_says_what_the_credential_may_do() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), CLUSTER.kubeconfig_yaml()).unwrap();
    let path = file.path().to_str().unwrap();
    let (code, answer, _) = check(&[path]);
    assert_eq!((code, &answer["reason"]), (Some(5), &json!("forbidden-address")));
    let (code, answer, output) = check(&[path, "--allow-loopback", "--connect"]);
    assert_eq!(code, Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let there = &answer["connected"];
    let kubectl = CLUSTER.client();
    let uid = kubectl
        .text(["get", "namespace", "kube-system", "--output=jsonpath={.metadata.uid}"])
        .unwrap();
    assert_eq!(there["identity"], uid.trim());
    assert!(there["version"].as_str().unwrap().starts_with("1."), "{there}");
    assert_eq!(there["may"][0], json!({"what": "do everything", "allowed": true}));

    // Somebody who may do little.
    kubectl.text(["create", "serviceaccount", "little"]).unwrap();
    let token = kubectl.text(["create", "token", "little"]).unwrap();
    std::fs::write(file.path(), CLUSTER.kubeconfig_with_token(token.trim())).unwrap();
    kubectl
        .text(["create", "clusterrole", "looks", "--verb=get", "--resource=namespaces"])
        .unwrap();
    let bind = [
        "create",
        "clusterrolebinding",
        "looks",
        "--clusterrole=looks",
        "--serviceaccount=default:little",
    ];
    kubectl.text(bind).unwrap();
    let (code, answer, output) = check(&[path, "--allow-loopback", "--connect"]);
    assert_eq!(code, Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let there = &answer["connected"];
    assert_eq!(there["user"], "system:serviceaccount:default:little");
    assert!(
        there["may"]
            .as_array()
            .unwrap()
            .iter()
            .all(|may| may["allowed"] == false),
        "{there}"
    );
    assert!(
        answer["expires"].is_string(),
        "a token of a ServiceAccount says when it ends"
    );

    // Nobody there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nowhere = format!("https://127.0.0.1:{port}");
    let elsewhere = CLUSTER
        .kubeconfig_with_token(token.trim())
        .replace(&CLUSTER.server_url(), &nowhere);
    std::fs::write(file.path(), elsewhere).unwrap();
    let (code, _, output) = check(&[path, "--allow-loopback", "--connect"]);
    assert_eq!(code, Some(4), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What a proxy is told before it connects: how, whereto, and by whom.
type Told = (&'static str, SocketAddr, String);

/// A proxy on a port of its own that says what it was told.
fn proxy(handshake: fn(&mut TcpStream) -> Told) -> (u16, Receiver<Told>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, told) = channel();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let sender: Sender<Told> = sender.clone();
            std::thread::spawn(move || {
                let mut client = client;
                let asked = handshake(&mut client);
                let server = TcpStream::connect(asked.1).unwrap();
                let _ = sender.send(asked);
                let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut up, &mut down));
                let _ = std::io::copy(&mut &server, &mut &client);
            });
        }
    });
    (port, told)
}

fn http_connect(client: &mut TcpStream) -> Told {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let to = head
        .strip_prefix("CONNECT ")
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let login = head.lines().find_map(|line| {
        line.to_lowercase()
            .strip_prefix("proxy-authorization: basic ")
            .map(|_| line.rsplit(' ').next().unwrap().to_owned())
    });
    client
        .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        .unwrap();
    ("CONNECT", to, login.unwrap_or_default())
}

fn socks(client: &mut TcpStream) -> Told {
    let mut take = |count: usize| {
        let mut bytes = vec![0; count];
        client.read_exact(&mut bytes).unwrap();
        bytes
    };
    let methods = take(2)[1];
    take(methods.into());
    client.write_all(&[5, 0]).unwrap();
    let mut take = |count: usize| {
        let mut bytes = vec![0; count];
        client.read_exact(&mut bytes).unwrap();
        bytes
    };
    assert_eq!(take(4)[3], 1, "an IPv4 address");
    let (address, port) = (take(4), take(2));
    let address = Ipv4Addr::new(address[0], address[1], address[2], address[3]);
    let to = SocketAddr::from((address, u16::from_be_bytes([port[0], port[1]])));
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    ("SOCKS", to, String::new())
}

#[test]
fn a_remote_behind_a_proxy_is_reached_through_it_and_through_it_only() {
    let server: SocketAddr = CLUSTER.server_url().trim_start_matches("https://").parse().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let connect = [path, "--allow-loopback", "--allow-proxy", "--connect"];
    let through = |proxy: String| {
        let mut kubeconfig: Value = serde_saphyr::from_str(CLUSTER.kubeconfig_yaml()).unwrap();
        kubeconfig["clusters"][0]["cluster"]["proxy-url"] = json!(proxy);
        std::fs::write(file.path(), kubeconfig.to_string()).unwrap();
        check(&connect)
    };
    // user:pa ss, as it stands in a header.
    let login = "dXNlcjpwYSBzcw==";
    for (handshake, url, wanted) in [
        (
            http_connect as fn(&mut TcpStream) -> Told,
            "http://",
            ("CONNECT", server, String::new()),
        ),
        (
            http_connect,
            "http://user:pa%20ss@",
            ("CONNECT", server, login.to_owned()),
        ),
        (socks, "socks5://", ("SOCKS", server, String::new())),
    ] {
        let (port, told) = proxy(handshake);
        let (code, answer, output) = through(format!("{url}127.0.0.1:{port}"));
        assert_eq!(code, Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(told.recv().unwrap(), wanted);
        assert!(!answer.to_string().contains("pa%20ss"), "{answer}");
    }
    // A proxy that is not there: nothing goes round it.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (code, _, output) = through(format!("http://127.0.0.1:{port}"));
    assert_eq!(code, Some(4), "{}", String::from_utf8_lossy(&output.stderr));
}
