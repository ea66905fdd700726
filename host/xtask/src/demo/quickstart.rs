//! The files of `examples/quickstart`, with the two things filled in that cannot be in a repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::workspace;

const DIGEST: &str = "@DIGEST@";

/// The documents as they are applied.
pub(super) struct Quickstart {
    pub(super) plugin: Value,
    pub(super) remote_cluster: Value,
    pub(super) provision: Value,
}

impl Quickstart {
    /// Reads the files; `component` is the plugin they speak of.
    pub(super) fn read(component: &Path) -> Result<Self> {
        let bytes = fs::read(component).with_context(|| format!("reading {}", component.display()))?;
        let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let module = kubernetes_module()?;
        let directory = workspace::root().join("examples/quickstart");
        let document = |name: &str| -> Result<Value> {
            let path = directory.join(name);
            let [document] = <[Value; 1]>::try_from(documents(&path)?)
                .map_err(|_| anyhow::anyhow!("{} must hold one document", path.display()))?;
            fill(document, &digest, &module)
        };
        Ok(Self {
            plugin: document("plugin.yaml")?,
            remote_cluster: document("remote-cluster.yaml")?,
            provision: document("provision.yaml")?,
        })
    }

    /// All objects that the steps ask for.
    pub(super) fn objects(&self) -> Vec<&Value> {
        let steps = self.provision.pointer("/spec/steps").and_then(Value::as_array);
        let lists = steps
            .into_iter()
            .flatten()
            .filter_map(|step| step.get("objects").or_else(|| step.pointer("/with/objects")));
        lists.filter_map(Value::as_array).flatten().collect()
    }
}

/// Where the sources of Kubernetes are in Go's module cache; they are downloaded if they are not there.
fn kubernetes_module() -> Result<PathBuf> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", "k8s.io/kubernetes"])
        .current_dir(workspace::root().join("tests/control-plane"))
        .output()
        .context("asking go for the sources of Kubernetes")?;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match answer.get("Dir").and_then(Value::as_str) {
        Some(directory) if output.status.success() => Ok(directory.into()),
        _ => bail!(
            "downloading the sources of Kubernetes: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        ),
    }
}

/// The documents of a YAML file, or of all YAML files in a directory in the order of their names.
fn documents(path: &Path) -> Result<Vec<Value>> {
    if path.is_dir() {
        let entries = fs::read_dir(path).with_context(|| format!("reading {}", path.display()))?;
        let mut files: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
        files.sort();
        let read: Vec<_> = files.iter().map(|file| documents(file)).collect::<Result<_>>()?;
        return Ok(read.into_iter().flatten().collect());
    }
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let mut documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| format!("understanding {}", path.display()))?;
    documents.retain(|document| !document.is_null());
    Ok(documents)
}

fn fill(value: Value, digest: &str, module: &Path) -> Result<Value> {
    Ok(match value {
        Value::String(text) => Value::String(text.replace(DIGEST, digest)),
        Value::Object(fields) => {
            let filled = fields
                .into_iter()
                .map(|(key, field)| Ok((key, fill(field, digest, module)?)));
            Value::Object(filled.collect::<Result<_>>()?)
        }
        Value::Array(entries) => {
            let mut filled = Vec::new();
            for entry in entries {
                match entry.as_str().and_then(manifests) {
                    Some(path) => {
                        let found = documents(&module.join(path))?;
                        ensure!(!found.is_empty(), "k8s.io/kubernetes holds no manifests at {path}");
                        filled.extend(found);
                    }
                    None => filled.push(fill(entry, digest, module)?),
                }
            }
            Value::Array(filled)
        }
        plain => plain,
    })
}

fn manifests(text: &str) -> Option<&str> {
    text.strip_prefix("@MANIFESTS ")?.strip_suffix('@')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn manifests_take_the_place_of_their_name_and_nothing_else_changes() {
        let module = tempfile::tempdir().unwrap();
        fs::create_dir(module.path().join("crd")).unwrap();
        fs::write(module.path().join("crd/b.yaml"), "---\na: 2\n---\n---\na: \"true\"\n").unwrap();
        fs::write(module.path().join("crd/a.yaml"), "a: 1").unwrap();
        fs::write(module.path().join("crd/OWNERS"), "- me").unwrap();
        let value = json!({"l": [{"x": "${inputs.y}"}, "@MANIFESTS crd@", 3], "d": "sha256:@DIGEST@"});
        assert_eq!(
            fill(value, "0f", module.path()).unwrap(),
            json!({"l": [{"x": "${inputs.y}"}, {"a": 1}, {"a": 2}, {"a": "true"}, 3], "d": "sha256:0f"})
        );
        assert!(fill(json!(["@MANIFESTS none@"]), "", module.path()).is_err());
    }
}
