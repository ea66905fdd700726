//! If this process dies, however it dies, its control planes die with it and their directories go.
//!
//! A small shell waits on a pipe that only we hold. When we end (return, panic, Ctrl-C, kill -9) the kernel closes it and
//! the shell kills what is listed and removes the directory. This needs no `unsafe` code, and unlike a parent death
//! signal it does not depend on which of our threads started a part.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// `kill 0` reaches our process group, so also a part that was started but not yet listed.
/// A killed part may write for a moment longer: hence several tries to remove its directory.
const SCRIPT: &str = r#"
parts=
while read -r change part; do
  case $change in
    started) parts="$parts $part" ;;
    ended)
      others=
      for other in $parts; do [ "$other" = "$part" ] || others="$others $other"; done
      parts=$others ;;
    dismissed) exit 0 ;;
  esac
done
[ -z "$parts" ] || kill -KILL $parts 2>/dev/null
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  rm -rf -- "$1" 2>/dev/null
  [ -e "$1" ] || break
  sleep 0.1
done
kill -KILL 0
"#;

/// The shell that outlives us for a moment.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
}

impl Guard {
    /// Starts to watch over a directory.
    pub(crate) fn over(directory: &Path) -> Result<Self> {
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "chandlery-guard"])
            .arg(directory)
            // A group of its own: Ctrl-C in the terminal must not reach the guard or the parts before us.
            .process_group(0)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting the shell that cleans up after us")?;
        Ok(Self { shell })
    }

    /// Starts a part in the guard's process group and lists it.
    pub(crate) fn spawn(&mut self, command: &mut Command) -> Result<Child> {
        let name = command.get_program().to_string_lossy().into_owned();
        let group = i32::try_from(self.shell.id()).context("reading the guard's process id")?;
        let mut child = command
            .process_group(group)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        if let Err(error) = self.tell("started", child.id()) {
            // Nobody would clean up after it.
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        Ok(child)
    }

    /// Takes a part that has ended, and was waited for, off the list: its id may soon be somebody else's.
    pub(crate) fn ended(&mut self, pid: u32) -> Result<()> {
        self.tell("ended", pid)
    }

    /// Ends the watch: nothing is killed or removed any more when we end.
    pub(crate) fn dismiss(mut self) -> Result<()> {
        let pipe = self.shell.stdin.as_mut().context("finding the guard's pipe")?;
        pipe.write_all(b"dismissed\n").context("dismissing the guard")?;
        self.shell.wait().context("waiting for the guard to end")?;
        Ok(())
    }

    fn tell(&mut self, change: &str, pid: u32) -> Result<()> {
        let pipe = self.shell.stdin.as_mut().context("finding the guard's pipe")?;
        pipe.write_all(format!("{change} {pid}\n").as_bytes())
            .context("telling the guard about a process")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // It ends by its own signal; there is nothing to learn from its status.
        let _ = self.shell.wait();
    }
}
