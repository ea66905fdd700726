//! Nothing outside the cache is changed before somebody has agreed to exactly that change.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Result, bail};

/// How questions are answered in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// `--yes`, or `CI=true`: every question is answered by yes.
    Given,
    /// A person at a terminal is asked.
    Ask,
    /// Nobody can be asked: every question is answered by no.
    Nobody,
}

impl Consent {
    /// Reads the flag, the environment and whether there is a terminal.
    pub fn new(yes: bool) -> Self {
        let ci = std::env::var("CI").is_ok_and(|value| value == "true");
        match (yes || ci, io::stdin().is_terminal()) {
            (true, _) => Self::Given,
            (false, true) => Self::Ask,
            (false, false) => Self::Nobody,
        }
    }

    /// Returns if the change may be made. `change` completes the sentence "This will …".
    ///
    /// # Errors
    /// If the answer is no, or nobody can be asked.
    pub fn ask(self, change: &str) -> Result<()> {
        match self {
            Self::Given => Ok(()),
            Self::Nobody => {
                bail!("this would {change}, and nobody can be asked here: run it again with --yes, or with CI=true")
            }
            Self::Ask => {
                let mut stderr = io::stderr();
                write!(stderr, "This will {change}. Go on? [y/N] ")?;
                stderr.flush()?;
                let mut answer = String::new();
                io::stdin().lock().read_line(&mut answer)?;
                if matches!(answer.trim(), "y" | "Y" | "yes") {
                    Ok(())
                } else {
                    bail!("not agreed: to {change}")
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_the_refusal_names_the_change_and_the_way_out() {
        let refused = Consent::Nobody
            .ask("install the package lld-22 with apt-get")
            .unwrap_err()
            .to_string();
        assert!(refused.contains("install the package lld-22 with apt-get"), "{refused}");
        assert!(refused.contains("--yes"), "{refused}");
        assert!(Consent::Given.ask("anything").is_ok());
    }
}
