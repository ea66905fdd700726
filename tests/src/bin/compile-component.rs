//! The compiler in a process of its own, for tests of the runtime: `compile-component IN OUT`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let paths: Vec<_> = std::env::args_os().skip(1).collect();
    let [input, output] = paths.as_slice() else {
        return ExitCode::from(2);
    };
    match chandlery_runtime::compile_to_file(
        input.as_ref(),
        output.as_ref(),
        chandlery_runtime::CompileLimits::default(),
    ) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
