//! What a person reads while it runs: when, and what; plain lines, the same on a terminal and in a file.

#![allow(clippy::print_stdout, reason = "this is the answer of the program")]

use std::time::Instant;

use anyhow::Result;

use crate::control_plane::Kubectl;

/// The telling of one run.
pub(super) struct Story {
    started: Instant,
}

impl Story {
    pub(super) fn begin() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    /// Opens a part.
    pub(super) fn chapter(&self, title: &str) {
        println!("\n== {title}");
    }

    /// One thing that happened just now.
    pub(super) fn say(&self, text: &str) {
        println!("{:7.1} s  {text}", self.started.elapsed().as_secs_f64());
    }

    /// Text that stands as it is, indented.
    pub(super) fn show(&self, text: &str) {
        for line in text.trim_end().lines() {
            println!("           {line}");
        }
    }

    /// A kubectl command and what it prints.
    pub(super) fn view(&self, kubectl: &Kubectl, arguments: &[&str]) -> Result<()> {
        println!("  $ kubectl {}", arguments.join(" "));
        self.show(&kubectl.text(arguments)?);
        Ok(())
    }
}
