//! The simulator answers as a real API server does: a sample of what `cargo xtask compare` looks at, always the same one.

use xtask::compare::{Options, run, shown};

/// Kinds of which no difference is known in thousands of sequences. The others are compared by command, see the README of
/// host/simulator.
const KINDS: [&str; 10] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "Gadget",
    "Lease",
    "Role",
    "RoleBinding",
    "Secret",
    "ServiceAccount",
    "Widget",
];

#[test]
fn the_simulator_answers_random_sequences_as_a_real_api_server_does() {
    let options = Options {
        sequences: 60,
        seed: 1,
        steps: 50,
        most: 3,
        only: None,
        kinds: KINDS.map(str::to_owned).to_vec(),
    };
    let report = run(&options).expect("both servers can be asked");
    let differences: Vec<String> = report
        .differences
        .iter()
        .map(|(number, difference, steps)| format!("sequence {number}\n{}", shown(difference, steps)))
        .collect();
    assert!(differences.is_empty(), "they differ:\n{}", differences.join("\n"));
    assert!(
        report.requests > 2_000,
        "only {} requests were compared",
        report.requests
    );
    for kind in KINDS {
        let met = report.coverage.keys().filter(|(known, _)| known == kind).count();
        assert!(met > 5, "{kind} met only {met} verbs:\n{}", report.table());
    }
}
