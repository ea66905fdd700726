//! The compiler in a process of its own, for tests of the runtime: `compile-component [BYTES SECONDS] IN OUT`, where it is
//! given less than the default. It says by which bounds it ended up.

#![allow(clippy::print_stdout, reason = "a program's answers go to standard output")]

use std::process::ExitCode;
use std::time::Duration;

use chandlery_runtime::{CompileLimits, compile_to_file};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (limits, input, output) = match arguments.as_slice() {
        [input, output] => (CompileLimits::default(), input, output),
        [bytes, seconds, input, output] => {
            let (Ok(memory_bytes), Ok(seconds)) = (bytes.parse(), seconds.parse()) else {
                return ExitCode::from(2);
            };
            let processor_time = Duration::from_secs(seconds);
            (
                CompileLimits {
                    memory_bytes,
                    processor_time,
                },
                input,
                output,
            )
        }
        _ => return ExitCode::from(2),
    };
    match compile_to_file(input.as_ref(), output.as_ref(), limits) {
        Ok(()) => {
            print!("{}", std::fs::read_to_string("/proc/self/limits").unwrap_or_default());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
