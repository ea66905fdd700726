//! Long work says what it is doing: a live line on a terminal, one plain line per change elsewhere.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, IsTerminal};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

/// Without a terminal, work that takes longer says again that it is alive.
const REMINDER: Duration = Duration::from_secs(30);
/// What finished faster than this is not worth a line.
const WORTH_A_LINE: Duration = Duration::from_secs(2);

/// One piece of work that is being shown on standard error; it is over when dropped.
#[derive(Debug)]
pub struct Progress {
    label: String,
    started: Instant,
    display: Display,
}

#[derive(Debug)]
enum Display {
    Live(ProgressBar),
    Plain {
        stop: Option<Sender<()>>,
        reminder: Option<JoinHandle<()>>,
    },
}

impl Progress {
    /// Starts to show `label`, for instance "building the control plane (about 5 minutes, once)".
    pub fn start(label: impl Into<String>) -> Self {
        let label = label.into();
        let started = Instant::now();
        let display = if std::io::stderr().is_terminal() {
            Display::live(&label)
        } else {
            Display::plain(label.clone(), started)
        };
        Self {
            label,
            started,
            display,
        }
    }

    /// Shows where the work is now; on a terminal only.
    pub fn detail(&self, detail: &str) {
        if let Display::Live(bar) = &self.display {
            bar.set_message(format!("{} · {detail}", self.label));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let took = self.started.elapsed();
        match &mut self.display {
            Display::Live(bar) => bar.finish_and_clear(),
            Display::Plain { stop, reminder } => {
                drop(stop.take());
                if let Some(reminder) = reminder.take() {
                    // The reminder only prints; it has no failure to report.
                    let _ = reminder.join();
                }
            }
        }
        if took >= WORTH_A_LINE {
            eprintln!("{}: {}", self.label, elapsed(took));
        }
    }
}

impl Display {
    fn live(label: &str) -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(label.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        Self::Live(bar)
    }

    fn plain(label: String, started: Instant) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let reminder = std::thread::spawn(move || {
            let mut wait = WORTH_A_LINE;
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{label} … {}", elapsed(started.elapsed()));
                wait = REMINDER;
            }
        });
        Self::Plain {
            stop: Some(stop),
            reminder: Some(reminder),
        }
    }
}

/// A duration as people say it: `0.3 s`, `12 s`, `4 min 05 s`.
pub fn elapsed(duration: Duration) -> String {
    match duration.as_secs() {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        seconds @ 10..60 => format!("{seconds} s"),
        seconds => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}

/// Runs a command under a progress line. Its output is shown only if it fails.
///
/// # Errors
/// If it cannot be started, or ends without success: then with the last lines of what it said.
pub fn run(label: &str, command: &mut Command) -> Result<()> {
    const LINES_KEPT: usize = 200;
    let progress = Progress::start(label);
    let mut last_lines = VecDeque::new();
    let status = stream(command, |line| {
        progress.detail(line.trim());
        if last_lines.len() == LINES_KEPT {
            last_lines.pop_front();
        }
        last_lines.push_back(line.to_owned());
    })?;
    drop(progress);
    if !status.success() {
        let output: Vec<_> = last_lines.into();
        bail!(
            "{label}: {} ended with {status}\n{}",
            program(command),
            output.join("\n")
        );
    }
    Ok(())
}

/// Runs a command and hands on each line of its standard output and standard error, in the order they were written.
///
/// # Errors
/// If it cannot be started or its output cannot be read.
pub fn stream(command: &mut Command, mut each_line: impl FnMut(&str)) -> Result<ExitStatus> {
    let (reader, writer) = std::io::pipe().context("creating a pipe")?;
    let name = program(command);
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("starting {name}"))?;
    // The command holds the write ends; while it lives in this process the pipe would never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader
        .read_until(b'\n', &mut line)
        .with_context(|| format!("reading what {name} says"))?
        > 0
    {
        each_line(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
        line.clear();
    }
    child.wait().with_context(|| format!("waiting for {name}"))
}

fn program(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_shows_what_it_said_on_both_streams_in_order() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; echo three; exit 3"]);
        let error = run("trying", &mut command).unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.ends_with("one\ntwo\nthree"), "{error}");
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(elapsed(Duration::from_millis(320)), "0.3 s");
        assert_eq!(elapsed(Duration::from_secs(12)), "12 s");
        assert_eq!(elapsed(Duration::from_secs(245)), "4 min 05 s");
    }
}
