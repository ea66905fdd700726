//! What is generated is committed, and whoever changes the code also commits what comes out of it.
//!
//! To add a generated file: one entry in the table `PRODUCTS`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use chandlery_core::install::transitions_table;

use crate::workspace;

/// What to do with what was generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Write it into the checkout.
    Write,
    /// Compare it with the checkout.
    Check,
}

/// A verb of the `chandlery` program and where its output belongs.
struct Product {
    verb: &'static [&'static str],
    place: Place,
}

enum Place {
    /// All of it is one file.
    File(&'static str),
    /// Each YAML document is a file named after its object; other YAML files in the directory are out of date.
    YamlDirectory(&'static str),
}

const PRODUCTS: &[Product] = &[
    Product {
        verb: &["crds"],
        place: Place::YamlDirectory("host/api/crds"),
    },
    Product {
        verb: &["manifests"],
        place: Place::File("deploy/manifests.yaml"),
    },
];

/// A guest's SDK must build outside this repository, so it carries its own copy of the contract.
const COPIES: &[(&str, &str, &str)] = &[("wit", "plugins/sdk/wit", "wit")];

/// Generates everything and answers how many files there are.
///
/// # Errors
/// If something cannot be generated; in [`Mode::Check`] if a file differs: with its first differing line.
pub fn run(mode: Mode) -> Result<usize> {
    let program = workspace::binary("chandlery")?;
    let mut expected = Expected::default();
    for product in PRODUCTS {
        expected.add(&product.place, &output(&program, product.verb)?)?;
    }
    for (from, to, extension) in COPIES {
        expected.copy(workspace::root(), from, to, extension)?;
    }
    let transitions = ("host/core/src/install/transitions.md".into(), transitions_table());
    expected.files.push(transitions);
    match mode {
        Mode::Write => expected.write(workspace::root())?,
        Mode::Check => expected.check(workspace::root())?,
    }
    Ok(expected.files.len())
}

fn output(program: &Path, verb: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(verb)
        .output()
        .with_context(|| format!("starting {}", program.display()))?;
    ensure!(
        output.status.success(),
        "chandlery {}: {}\n{}",
        verb.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).context("reading generated output as text")
}

/// The generated files as they should be.
#[derive(Default)]
struct Expected {
    files: Vec<(PathBuf, String)>,
    /// Directories that hold nothing else with this extension.
    owned: Vec<(PathBuf, &'static str)>,
}

impl Expected {
    fn add(&mut self, place: &Place, text: &str) -> Result<()> {
        match place {
            Place::File(path) => self.files.push((path.into(), text.to_owned())),
            Place::YamlDirectory(directory) => {
                for document in yaml_documents(text) {
                    let name = object_name(&document)
                        .with_context(|| format!("finding metadata.name in a document for {directory}:\n{document}"))?;
                    self.files
                        .push((Path::new(directory).join(format!("{name}.yaml")), document));
                }
                self.owned.push((directory.into(), "yaml"));
            }
        }
        Ok(())
    }

    fn copy(&mut self, root: &Path, from: &str, to: &str, extension: &'static str) -> Result<()> {
        for name in names_in(&root.join(from), extension)? {
            let source = root.join(from).join(&name);
            let text = fs::read_to_string(&source).with_context(|| format!("reading {}", source.display()))?;
            self.files.push((Path::new(to).join(name), text));
        }
        self.owned.push((to.into(), extension));
        Ok(())
    }

    fn write(&self, root: &Path) -> Result<()> {
        for stale in self.stale(root)? {
            fs::remove_file(root.join(&stale)).with_context(|| format!("removing {}", stale.display()))?;
        }
        for (path, text) in &self.files {
            let path = root.join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
            }
            // An unchanged file keeps its time, so nothing is rebuilt because of it.
            if fs::read_to_string(&path).ok().as_ref() != Some(text) {
                fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            }
        }
        Ok(())
    }

    fn check(&self, root: &Path) -> Result<()> {
        let mut problems = Vec::new();
        for (path, text) in &self.files {
            match fs::read_to_string(root.join(path)) {
                Ok(found) => problems.extend(first_difference(&path.display().to_string(), &found, text)),
                Err(_) => problems.push(format!("{}: is missing", path.display())),
            }
        }
        problems.extend(
            self.stale(root)?
                .iter()
                .map(|path| format!("{}: nothing generates it", path.display())),
        );
        if !problems.is_empty() {
            bail!(
                "generated files are out of date; `cargo xtask codegen` writes them\n{}",
                problems.join("\n")
            );
        }
        Ok(())
    }

    fn stale(&self, root: &Path) -> Result<Vec<PathBuf>> {
        let mut stale = Vec::new();
        for (directory, extension) in &self.owned {
            if !root.join(directory).is_dir() {
                continue;
            }
            for name in names_in(&root.join(directory), extension)? {
                let path = directory.join(name);
                if !self.files.iter().any(|(expected, _)| *expected == path) {
                    stale.push(path);
                }
            }
        }
        Ok(stale)
    }
}

fn names_in(directory: &Path, extension: &str) -> Result<Vec<String>> {
    let entries = fs::read_dir(directory).with_context(|| format!("listing {}", directory.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let name = entry
            .with_context(|| format!("listing {}", directory.display()))?
            .file_name();
        let name = name.to_string_lossy();
        if Path::new(name.as_ref())
            .extension()
            .is_some_and(|found| found == extension)
        {
            names.push(name.into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn yaml_documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line.trim_end() == "---" {
            documents.push(String::new());
        } else if let Some(document) = documents.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    documents.retain(|document| !document.trim().is_empty());
    documents
}

/// The name in the metadata of a document that a serializer wrote: two spaces deep.
fn object_name(document: &str) -> Option<&str> {
    let mut lines = document
        .lines()
        .skip_while(|line| line.trim_end() != "metadata:")
        .skip(1);
    lines
        .by_ref()
        .take_while(|line| line.starts_with(' '))
        .find_map(|line| line.strip_prefix("  name: "))
        .map(|name| name.trim().trim_matches(['"', '\'']))
}

fn first_difference(path: &str, found: &str, expected: &str) -> Option<String> {
    if found == expected {
        return None;
    }
    let mut found_lines = found.lines();
    let mut expected_lines = expected.lines();
    let mut number = 1;
    loop {
        match (found_lines.next(), expected_lines.next()) {
            (Some(found), Some(expected)) if found == expected => number += 1,
            (None, None) => return Some(format!("{path}: differs in its line ends")),
            (found, expected) => {
                let show = |line: Option<&str>| line.unwrap_or("(end of file)").to_owned();
                return Some(format!("{path}:{number}\n  - {}\n  + {}", show(found), show(expected)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRDS: &str = "---\nkind: A\nmetadata:\n  labels: {}\n  name: plugins.chandlery.dev\nspec: {}\n---\nkind: A\nmetadata:\n  name: \"remotes.chandlery.dev\"\n";

    #[test]
    fn documents_are_named_after_their_objects() {
        let documents = yaml_documents(CRDS);
        let names: Vec<_> = documents
            .iter()
            .map(|document| object_name(document).unwrap())
            .collect();
        assert_eq!(names, ["plugins.chandlery.dev", "remotes.chandlery.dev"]);
        assert_eq!(
            object_name("metadata:\n  labels:\n    name: x\nspec:\n  name: y\n"),
            None
        );
    }

    #[test]
    fn check_finds_what_differs_is_missing_or_stale_and_write_mends_it() {
        let root = tempfile::tempdir().unwrap();
        let mut expected = Expected::default();
        expected.add(&Place::YamlDirectory("crds"), CRDS).unwrap();
        expected.add(&Place::File("deploy/all.yaml"), "a: 1\nb: 2\n").unwrap();
        fs::create_dir_all(root.path().join("crds")).unwrap();
        fs::create_dir_all(root.path().join("deploy")).unwrap();
        fs::write(root.path().join("crds/old.yaml"), "x").unwrap();
        fs::write(root.path().join("deploy/all.yaml"), "a: 1\nb: 3\n").unwrap();

        let problems = expected.check(root.path()).unwrap_err().to_string();
        assert!(problems.contains("deploy/all.yaml:2\n  - b: 3\n  + b: 2"), "{problems}");
        assert!(
            problems.contains("crds/plugins.chandlery.dev.yaml: is missing"),
            "{problems}"
        );
        assert!(problems.contains("crds/old.yaml: nothing generates it"), "{problems}");

        expected.write(root.path()).unwrap();
        expected.check(root.path()).unwrap();
        assert!(!root.path().join("crds/old.yaml").exists());
    }
}
