//! Judges kubeconfigs between two lines on standard error, so that a trace of its system calls shows what judging does:
//! `judge-kubeconfigs FILE…`.

use std::process::ExitCode;

use chandlery::scope::kubeconfig::{Policy, parse};

fn main() -> ExitCode {
    let mut files = Vec::new();
    for path in std::env::args().skip(1) {
        match std::fs::read(&path) {
            Ok(bytes) => files.push(bytes),
            Err(error) => {
                eprintln!("{path}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let policy = Policy {
        allow_loopback: true,
        allow_proxy: true,
    };
    let now = jiff::Timestamp::now();
    eprintln!("judging begins");
    let refused = files
        .iter()
        .filter(|bytes| parse(bytes, None, policy, now).is_err())
        .count();
    eprintln!("judging ends");
    eprintln!("{} of {} refused", refused, files.len());
    ExitCode::SUCCESS
}
