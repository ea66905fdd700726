//! Kubeconfigs as people have them, each with the verdict it deserves.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests stop where an expectation fails"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use chandlery_scope::kubeconfig::{Credential, Policy, parse};
use jiff::Timestamp;

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/kubeconfig")
}

fn reference_time() -> Timestamp {
    let time = fs::read_to_string(corpus().join("reference-time.txt")).unwrap();
    time.trim().parse().unwrap()
}

/// The rows of the table, by column.
fn rows() -> Vec<BTreeMap<String, String>> {
    let table = fs::read_to_string(corpus().join("verdicts.tsv")).unwrap();
    let mut lines = table.lines();
    let columns: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let row = |line: &str| {
        let cells = line.split('\t').map(str::to_owned);
        columns.iter().map(|column| (*column).to_owned()).zip(cells).collect()
    };
    lines.map(row).collect()
}

/// What was made of a file, in the words of the table.
fn verdict(row: &BTreeMap<String, String>, policy: Policy, now: Timestamp) -> String {
    let bytes = fs::read(corpus().join(&row["file"])).unwrap();
    let context = Some(row["context_override"].as_str()).filter(|context| !context.is_empty());
    match parse(&bytes, context, policy, now) {
        Err(error) => format!("refuse {}", error.kind()),
        Ok(endpoint) => {
            let server = &endpoint.server;
            format!(
                "accept {} {} {} sni={} {} ns={}",
                server.host_str().unwrap(),
                server.port_or_known_default().unwrap(),
                server.path().trim_end_matches('/'),
                endpoint.tls_server_name.as_deref().unwrap_or_default(),
                match endpoint.credential {
                    Credential::Token(_) => "token",
                    Credential::Certificate { .. } => "cert",
                },
                endpoint.namespace.as_deref().unwrap_or_default(),
            )
        }
    }
}

#[test]
fn every_kubeconfig_of_the_corpus_gets_its_verdict() {
    let now = reference_time();
    let mut wrong = Vec::new();
    let rows = rows();
    for row in &rows {
        let with_proxy = row["verdict"] == "accept-if-proxy-enabled";
        let accepted = format!(
            "accept {} {} {} sni={} {} ns={}",
            row["server_host"], row["server_port"], row["path"], row["tls_server_name"], row["auth"], row["namespace"]
        );
        let wanted: Vec<String> = match row["verdict"].as_str() {
            "refuse" => row["reason"]
                .split('|')
                .map(|reason| format!("refuse {reason}"))
                .collect(),
            _ => vec![accepted],
        };
        let policy = Policy {
            allow_proxy: with_proxy,
            ..Policy::default()
        };
        let found = verdict(row, policy, now);
        if !wanted.contains(&found) {
            wrong.push(format!("{}: {found}, not {}", row["file"], wanted.join(" or ")));
        }
        if with_proxy {
            let found = verdict(row, Policy::default(), now);
            if found != "refuse proxy-disabled" {
                wrong.push(format!("{} without proxies: {found}", row["file"]));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(rows.len(), 35);
}

#[test]
fn a_credential_is_of_use_until_it_ends() {
    let text = fs::read(corpus().join("cases/078-capi-expired-yesterday.yaml")).unwrap();
    let at = |time: &str| parse(&text, None, Policy::default(), time.parse().unwrap());
    let ends = "2026-11-29T18:00:00Z".parse().unwrap();
    assert_eq!(at("2026-11-29T17:59:59Z").unwrap().expires, Some(ends));
    assert_eq!(at("2026-11-29T18:00:00Z").unwrap_err().kind(), "expired");
}

#[test]
fn the_proxy_is_kept_as_it_is_written() {
    let text = fs::read(corpus().join("cases/007-kcp-workspace-proxy.yaml")).unwrap();
    let policy = Policy {
        allow_proxy: true,
        ..Policy::default()
    };
    let endpoint = parse(&text, None, policy, reference_time()).unwrap();
    assert_eq!(endpoint.proxy.unwrap().as_str(), "socks5://proxy.example.org:1080");
}

#[test]
fn a_name_from_the_root_on_is_kept_and_checked_without_its_dot() {
    let text = fs::read(corpus().join("cases/014-host-trailing-dot.yaml")).unwrap();
    let endpoint = parse(&text, None, Policy::default(), reference_time()).unwrap();
    assert_eq!(endpoint.server.host_str(), Some("k8s.example.com."));
    assert_eq!(endpoint.expected_name().as_deref(), Some("k8s.example.com"));
}
