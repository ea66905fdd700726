//! The simulator answers as a real API server does: a sample of what `cargo xtask compare` looks at, always the same one, and
//! every sequence that once showed a difference.

use xtask::compare::{Options, Report, corpus, run, run_corpus, shown};

fn options() -> Options {
    Options {
        sequences: 120,
        seed: 1,
        steps: 50,
        most: 3,
        only: None,
        kinds: Vec::new(),
        at_once: 4,
        save: None,
    }
}

fn assert_alike(report: &Report) {
    let differences: Vec<String> = report
        .differences
        .iter()
        .map(|(name, difference, steps)| format!("sequence {name}\n{}", shown(difference, steps)))
        .collect();
    assert!(differences.is_empty(), "they differ:\n{}", differences.join("\n"));
}

#[test]
fn the_simulator_answers_random_sequences_as_a_real_api_server_does() {
    let report = run(&options()).expect("both servers can be asked");
    assert_alike(&report);
    assert!(
        report.requests > 4_000,
        "only {} requests were compared",
        report.requests
    );
    assert!(
        report.empty_rows().is_empty(),
        "{:?}\n{}",
        report.empty_rows(),
        report.table()
    );
    for (kind, met) in report.of_kinds() {
        assert!(
            met * 50 >= report.requests,
            "{kind} met {met} of {} requests\n{}",
            report.requests,
            report.table()
        );
    }
}

#[test]
fn the_simulator_answers_as_a_real_api_server_does_where_it_once_did_not() {
    let report = run_corpus(&options(), &corpus()).expect("both servers can be asked");
    assert_alike(&report);
}
