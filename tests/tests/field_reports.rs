//! Public bug reports of systems that do what we do: each that concerns remotes has an answer, and each answer leads somewhere.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests stop where an expectation fails"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use xtask::workspace;

/// Kinds of reports that concern remotes: deletion, credentials, wrong clusters, sharing, nesting, proxies, addresses, leaks.
const CONCERN_REMOTES: [&str; 34] = [
    "conflict",
    "create-during-delete",
    "credential-rotation",
    "credential-scope",
    "delete-policy",
    "delete-stuck-remote-gone",
    "event-ordering",
    "finalizer-add-on-deleting",
    "finalizer-never-removed",
    "finalizer-too-early",
    "gc-missing-crd",
    "gc-overreach",
    "head-of-line",
    "hot-loop",
    "id-collision",
    "ipv6",
    "kubeconfig-context",
    "kubeconfig-exec",
    "kubeconfig-insecure",
    "kubeconfig-oddity",
    "lost-error",
    "mass-delete",
    "memory-leak",
    "multi-tenancy",
    "nested-remote",
    "not-ready-yet",
    "observability",
    "proxy",
    "same-name-recreate",
    "shared-remote",
    "skip-too-much",
    "stale-status",
    "tls-ip-san",
    "token-expiry",
];
/// Of these kinds, what the installer and the daemon's own objects are about, or helm alone.
const ELSEWHERE: [&str; 4] = ["B141", "B143", "B145", "B134"];

fn rows(file: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(workspace::root().join("tests").join(file)).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}

/// Names of all tests in the sources of host and tests.
fn tests() -> BTreeSet<String> {
    fn walk(directory: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let marked = text.split("#[test]").chain(text.split("#[tokio::test")).skip(1);
                // The function right after the mark; other attributes may stand between.
                found.extend(marked.filter_map(|rest| {
                    let (between, rest) = rest.split_once("fn ")?;
                    let is_next = !between.contains(['{', '}']);
                    is_next.then(|| rest.split('(').next().unwrap_or_default().to_owned())
                }));
                // And those that are played at two places.
                if let Some((_, list)) = text.split_once("\nat_both_places! {")
                    && let Some((list, _)) = list.split_once('}')
                {
                    found.extend(list.split_whitespace().map(str::to_owned));
                }
            }
        }
    }
    let mut found = BTreeSet::new();
    for directory in ["host", "tests/tests"] {
        walk(&workspace::root().join(directory), &mut found);
    }
    found
}

#[test]
fn every_report_that_concerns_remotes_is_answered_and_every_answer_leads_somewhere() {
    let answers: BTreeMap<String, Vec<String>> = rows("field-reports-answered.tsv")
        .into_iter()
        .map(|row| (row[0].clone(), row))
        .collect();
    let tests = tests();
    let mut wrong = Vec::new();
    for report in rows("field-reports.tsv").iter().skip(1) {
        let (id, kind) = (report[0].as_str(), report[1].as_str());
        if CONCERN_REMOTES.contains(&kind) && !ELSEWHERE.contains(&id) && !answers.contains_key(id) {
            wrong.push(format!("{id} ({kind}) has no answer: {}", report[2]));
        }
    }
    for (id, row) in &answers {
        let [_, how, place, why] = row.as_slice() else {
            wrong.push(format!("{id} has {} columns", row.len()));
            continue;
        };
        let leads = match how.as_str() {
            "test" => tests.contains(place),
            "type" | "design" => !why.is_empty() && workspace::root().join(place).is_file(),
            "open" => !why.is_empty(),
            _ => false,
        };
        if !leads {
            wrong.push(format!("{id}: {how} {place} leads nowhere"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}
