//! Reads what `cargo test` prints: which test passed where, and what a failing one said.

use std::collections::BTreeMap;

/// What all test programs of a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many passed.
    pub passed: usize,
    /// Programs and tests that failed, as `program: test`.
    pub failed: Vec<String>,
    /// Tests that were not run, with the reason that their author gave.
    pub skipped: Vec<(String, String)>,
}

impl Tally {
    /// Whether this is a success: something ran, and nothing failed.
    pub fn is_green(&self) -> bool {
        self.passed > 0 && self.failed.is_empty()
    }

    /// The line that ends every run.
    pub fn summary(&self) -> String {
        format!(
            "{} passed, {} failed, {} skipped",
            self.passed,
            self.failed.len(),
            self.skipped.len()
        )
    }
}

/// Reads the output of a run, line by line.
#[derive(Debug, Default)]
pub struct Reader {
    tally: Tally,
    program: Option<Program>,
    /// Output of failing tests, complete, by program.
    reports: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Program {
    name: String,
    has_result: bool,
    in_failures: bool,
    /// Everything it said, in case it ends without a result.
    said: String,
}

impl Reader {
    /// Takes one line; answers the name of a test that has just ended, for a progress line.
    pub fn line<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        if let Some(name) = program_start(line) {
            self.end_program();
            self.program = Some(Program {
                name,
                has_result: false,
                in_failures: false,
                said: String::new(),
            });
            return None;
        }
        let program = self.program.as_mut()?;
        program.said.push_str(line);
        program.said.push('\n');
        if line.starts_with("test result: ") {
            program.has_result = true;
            program.in_failures = false;
            return None;
        }
        if program.has_result {
            return None;
        }
        if line == "failures:" {
            program.in_failures = true;
        }
        if program.in_failures {
            let report = self.reports.entry(program.name.clone()).or_default();
            report.push_str(line);
            report.push('\n');
            return None;
        }
        let (test, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let full = format!("{}: {test}", program.name);
        match outcome.split_once(", ").unwrap_or((outcome, "no reason given")) {
            ("ok", _) => self.tally.passed += 1,
            ("FAILED", _) => self.tally.failed.push(full),
            ("ignored", reason) => self.tally.skipped.push((full, reason.to_owned())),
            _ => return None,
        }
        Some(test)
    }

    /// Ends the run of one cargo, and counts the failures of all so far.
    pub fn end_run(&mut self) -> usize {
        self.end_program();
        self.tally.failed.len()
    }

    /// Ends the reading: the tally, and what the failing tests said.
    pub fn finish(mut self) -> (Tally, String) {
        self.end_program();
        let mut reports = String::new();
        for (program, report) in &self.reports {
            reports.push_str(&format!("──── {program}\n{report}\n"));
        }
        (self.tally, reports)
    }

    fn end_program(&mut self) {
        let Some(program) = self.program.take() else { return };
        if !program.has_result {
            // It was killed, it aborted, or it is no libtest program: whatever it was to test was not tested.
            self.tally
                .failed
                .push(format!("{}: ended without a result", program.name));
            self.reports.insert(program.name, program.said);
        }
    }
}

/// `     Running tests/x.rs (target/debug/deps/x-0123)` or `   Doc-tests chandlery`.
fn program_start(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(package) = line.strip_prefix("Doc-tests ") {
        return Some(format!("examples in the documentation of {package}"));
    }
    let (source, program) = line.strip_prefix("Running ")?.split_once(" (")?;
    let file = program.strip_suffix(')')?.rsplit('/').next()?;
    // Without the hash: the same test has the same name tomorrow.
    let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
    Some(if source.starts_with("unittests ") {
        format!("{name} (unit)")
    } else {
        name.to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(output: &str) -> (Tally, String) {
        let mut reader = Reader::default();
        for line in output.lines() {
            reader.line(line);
        }
        reader.finish()
    }

    const MIXED: &str = "\
   Compiling x
    Finished `test` profile
     Running unittests src/lib.rs (target/debug/deps/chandlery_core-0123abc)

running 3 tests
test a::one ... ok
test a::two ... FAILED
test a::three ... ignored, needs a node

failures:

---- a::two stdout ----
test a::fake ... ok
boom at the third step


failures:
    a::two

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

error: test failed, to rerun pass `-p chandlery-core --lib`
     Running tests/cluster.rs (target/debug/deps/cluster-77)

running 1 test
test a_namespace_goes ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests chandlery

running 1 test
test host/chandlery/src/lib.rs - (line 3) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    #[test]
    fn counts_come_from_every_program_and_not_from_what_tests_print() {
        let (tally, reports) = read(MIXED);
        assert_eq!(tally.summary(), "3 passed, 1 failed, 1 skipped");
        assert_eq!(tally.failed, ["chandlery_core (unit): a::two"]);
        assert_eq!(
            tally.skipped,
            [("chandlery_core (unit): a::three".to_owned(), "needs a node".to_owned())]
        );
        assert!(reports.contains("boom at the third step"), "{reports}");
        assert!(!tally.is_green());
    }

    #[test]
    fn a_program_that_dies_is_a_failure_and_shows_all_it_said() {
        let (tally, reports) = read(
            "     Running tests/limits.rs (target/debug/deps/limits-1)\n\nrunning 2 tests\ntest a ... ok\nfatal: out of memory\nerror: test failed\n",
        );
        assert_eq!(tally.summary(), "1 passed, 1 failed, 0 skipped");
        assert_eq!(tally.failed, ["limits: ended without a result"]);
        assert!(reports.contains("fatal: out of memory"), "{reports}");
    }

    #[test]
    fn nothing_passed_is_no_success() {
        assert!(!Tally::default().is_green());
        assert_eq!(Tally::default().summary(), "0 passed, 0 failed, 0 skipped");
    }
}
