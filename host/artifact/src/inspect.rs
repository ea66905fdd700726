//! What a component imports and exports, against what the host offers and asks for.

use std::fmt;

use wasmparser::{Encoding, Parser, Payload};

use crate::ArtifactError;

/// The interfaces that the host offers. An import may be of any 0.1: within it only functions are added, and one that the
/// host lacks is told when the component is linked.
const OFFERED: [&str; 3] = [
    "chandlery:provision/types",
    "chandlery:provision/log",
    "chandlery:provision/cluster",
];
const ASKED: &str = "chandlery:provision/provisioner";
const VERSION: &str = "0.1.";

/// How a component stands to the contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compatibility {
    /// All that it imports, as it names it.
    pub imports: Vec<String>,
    /// All that it exports, as it names it.
    pub exports: Vec<String>,
    /// What it imports and the host does not offer.
    pub unknown_imports: Vec<UnknownImport>,
    /// Whether it exports the `provisioner` interface in a version that the host calls.
    pub is_provisioner: bool,
}

/// An import that the host does not offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownImport {
    /// As the component names it.
    pub name: String,
    /// What to do about it, in one sentence.
    pub mend: String,
}

impl fmt::Display for UnknownImport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.mend)
    }
}

impl Compatibility {
    /// Whether the host can call it.
    pub fn is_compatible(&self) -> bool {
        self.problems().is_empty()
    }

    /// All that stands in the way, a sentence each.
    pub fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = self
            .unknown_imports
            .iter()
            .map(|import| format!("it imports {import}, which the host does not offer"))
            .collect();
        if !self.is_provisioner {
            problems.push(format!(
                "it does not export {ASKED}@{VERSION}x (its exports: {}): is it a plugin for Chandlery 0.1?",
                if self.exports.is_empty() {
                    "none".to_owned()
                } else {
                    self.exports.join(", ")
                }
            ));
        }
        problems
    }
}

/// Reads the outermost imports and exports of a component. Nothing is compiled and nothing runs.
///
/// # Errors
/// [`ArtifactError::NotWasm`], [`ArtifactError::CoreModule`], [`ArtifactError::Damaged`].
pub fn inspect(bytes: &[u8]) -> Result<Compatibility, ArtifactError> {
    if !bytes.starts_with(b"\0asm") {
        return Err(ArtifactError::NotWasm(beginning(bytes)));
    }
    let damaged = |error: wasmparser::BinaryReaderError| ArtifactError::Damaged(error.to_string());
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    // Components and modules nest; only the outermost is the host's concern.
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(damaged)? {
            Payload::Version {
                encoding: Encoding::Module,
                ..
            } if depth == 0 => return Err(ArtifactError::CoreModule),
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    imports.push(import.map_err(damaged)?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    exports.push(export.map_err(damaged)?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    let unknown_imports = imports
        .iter()
        .filter(|name| !is_offered(name))
        .map(|name| unknown(name))
        .collect();
    let is_provisioner = exports.iter().any(|name| is_version_of(name, ASKED));
    Ok(Compatibility {
        imports,
        exports,
        unknown_imports,
        is_provisioner,
    })
}

fn is_offered(import: &str) -> bool {
    OFFERED.iter().any(|interface| is_version_of(import, interface))
}

fn is_version_of(name: &str, interface: &str) -> bool {
    name.split_once('@')
        .is_some_and(|(base, version)| base == interface && version.starts_with(VERSION))
}

fn unknown(name: &str) -> UnknownImport {
    let mend = if name.starts_with("wasi:http/") {
        "a plugin reaches its cluster through the handle it is given, and nothing else"
    } else if name.starts_with("wasi:") {
        "WASI is not offered: build for wasm32-unknown-unknown, or switch off what needs it"
    } else if name.starts_with("chandlery:") {
        "it is built for another version of the contract than 0.1: build it again"
    } else {
        "a plugin may import chandlery:provision/log and chandlery:provision/cluster only"
    };
    UnknownImport {
        name: name.to_owned(),
        mend: mend.to_owned(),
    }
}

/// The first bytes as a person can read them.
fn beginning(bytes: &[u8]) -> String {
    match bytes.get(..16.min(bytes.len())) {
        None | Some([]) => "nothing: it is empty".to_owned(),
        Some(first) => format!("\"{}\"", first.escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A component with these imports and exports, all of an empty instance.
    fn component(imports: &[&str], exports: &[&str]) -> Vec<u8> {
        // Header; a type section with one instance type without exports.
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        bytes.extend([7, 3, 1, 0x42, 0]);
        let name = |text: &str| {
            let mut bytes = vec![0, u8::try_from(text.len()).unwrap()];
            bytes.extend(text.as_bytes());
            bytes
        };
        let section = |id: u8, entries: Vec<Vec<u8>>| {
            let mut body = vec![u8::try_from(entries.len()).unwrap()];
            body.extend(entries.concat());
            let mut section = vec![id, u8::try_from(body.len()).unwrap()];
            section.extend(body);
            section
        };
        let of = |text: &&str, tail: &[u8]| [name(text), tail.to_vec()].concat();
        bytes.extend(section(10, imports.iter().map(|import| of(import, &[5, 0])).collect()));
        bytes.extend(section(
            11,
            exports.iter().map(|export| of(export, &[5, 0, 0])).collect(),
        ));
        bytes
    }

    #[test]
    fn a_plugin_of_any_0_1_is_compatible() {
        let of = inspect(&component(
            &["chandlery:provision/log@0.1.3"],
            &["chandlery:provision/provisioner@0.1.0"],
        ))
        .unwrap();
        assert!(of.is_compatible(), "{:?}", of.problems());
    }

    #[test]
    fn every_unknown_import_is_named_with_what_to_do() {
        let of = inspect(&component(
            &[
                "chandlery:provision/log@0.1.0",
                "wasi:http/types@0.2.0",
                "chandlery:provision/log@0.2.0",
                "a:b/c@1.0.0",
            ],
            &[],
        ))
        .unwrap();
        let names: Vec<_> = of.unknown_imports.iter().map(|import| import.name.as_str()).collect();
        assert_eq!(
            names,
            ["wasi:http/types@0.2.0", "chandlery:provision/log@0.2.0", "a:b/c@1.0.0"]
        );
        assert_eq!(of.problems().len(), 4);
        assert!(of.problems()[3].contains("its exports: none"), "{:?}", of.problems());
    }

    #[test]
    fn what_is_no_component_is_told_by_what_it_is() {
        assert!(matches!(inspect(b"\0asm\x01\0\0\0"), Err(ArtifactError::CoreModule)));
        assert_eq!(
            inspect(b"").unwrap_err().to_string(),
            "this is not a WebAssembly component: it begins with nothing: it is empty"
        );
        assert!(
            inspect(b"apiVersion: v1\n")
                .unwrap_err()
                .to_string()
                .ends_with("it begins with \"apiVersion: v1\\n\"")
        );
        let mut torn = component(&["a:b/c@1.0.0"], &[]);
        torn.truncate(torn.len() - 8);
        assert!(
            matches!(inspect(&torn), Err(ArtifactError::Damaged(_))),
            "{:?}",
            inspect(&torn)
        );
    }
}
