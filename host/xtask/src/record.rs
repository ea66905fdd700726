//! What the simulator must be told by a real API server: its discovery, its OpenAPI, the objects it starts with.
//!
//! Recorded from a control plane of our own that did nothing else yet, compressed, and committed as data. What differs at
//! every start (certificates, addresses) is left out, so that a second recording of the same version is the same file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use chandlery_merge::TypeTable;
use serde_json::{Map, Value, json};

use crate::control_plane::{ControlPlane, Kubectl};
use crate::inventory::Inventory;
use crate::progress::Progress;
use crate::workspace;

/// Resources whose first objects the simulator's own actors make, or that tell of one process only.
const MADE_AT_START: &[&str] = &[
    "events",
    "leases.coordination.k8s.io",
    "endpointslices.discovery.k8s.io",
    "endpoints",
    "ipaddresses.networking.k8s.io",
    "configmaps",
    "serviceaccounts",
    "apiservices.apiregistration.k8s.io",
    "componentstatuses",
];
/// zstd's slowest level that needs no more memory to read: recorded once, read often.
const LEVEL: i32 = 19;

/// Records one version and answers the files written.
///
/// # Errors
/// If the control plane does not start, or does not answer one of the questions.
pub fn run() -> Result<Vec<PathBuf>> {
    let cluster = ControlPlane::builder().name("record").start()?;
    let kubectl = cluster.client();
    let version = raw(&kubectl, "/version")?;
    let part = |name: &str| version.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let minor = format!("{}.{}", part("major"), part("minor"));
    let directory = workspace::root().join("host/simulator/data").join(&minor);
    fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;

    let _progress = Progress::start(format!("recording Kubernetes {minor}"));
    let (index, documents) = openapi(&kubectl)?;
    let types = TypeTable::from_openapi_v3(documents.values()).context("compiling the recorded OpenAPI")?;
    let (groups, resources) = discovery(&kubectl)?;
    let base = json!({
        "version": version,
        "groups": groups,
        "resources": resources,
        "objects": objects(&kubectl)?,
        "types": serde_json::to_value(&types)?,
        "structures": structures()?,
    });
    let files = vec![
        write(&directory.join("base.json.zst"), &base)?,
        write(
            &directory.join("openapi.json.zst"),
            &json!({"index": index, "documents": documents}),
        )?,
    ];
    cluster.stop()?;
    Ok(files)
}

fn raw(kubectl: &Kubectl, path: &str) -> Result<Value> {
    let text = kubectl.text(["get", "--raw", path])?;
    serde_json::from_str(&text).with_context(|| format!("reading the answer to {path}"))
}

/// The index, its paths without the hash that each start makes anew, and the document behind each path.
fn openapi(kubectl: &Kubectl) -> Result<(Value, Map<String, Value>)> {
    let index = raw(kubectl, "/openapi/v3")?;
    let paths = index
        .get("paths")
        .and_then(Value::as_object)
        .context("finding the paths of OpenAPI")?;
    let mut documents = Map::new();
    for path in paths.keys() {
        documents.insert(path.clone(), raw(kubectl, &format!("/openapi/v3/{path}"))?);
    }
    Ok((
        Value::Array(paths.keys().cloned().map(Value::String).collect()),
        documents,
    ))
}

/// How Go writes the built-in kinds, by the name of each definition.
fn structures() -> Result<Value> {
    let mut command = Command::new("go");
    command
        .args(["run", "."])
        .current_dir(workspace::root().join("host/simulator/record"));
    let output = command.output().context("starting go")?;
    ensure!(
        output.status.success(),
        "go run: {}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    serde_json::from_slice(&output.stdout).context("reading the structures that Go tells")
}

/// The groups as `/apis` lists them, and of each version its `APIResourceList`.
fn discovery(kubectl: &Kubectl) -> Result<(Value, Vec<Value>)> {
    let groups = raw(kubectl, "/apis")?;
    let mut resources = vec![raw(kubectl, "/api/v1")?];
    for group in groups.get("groups").and_then(Value::as_array).into_iter().flatten() {
        for version in group.get("versions").and_then(Value::as_array).into_iter().flatten() {
            let group_version = version
                .get("groupVersion")
                .and_then(Value::as_str)
                .context("reading a group")?;
            resources.push(raw(kubectl, &format!("/apis/{group_version}"))?);
        }
    }
    Ok((groups.get("groups").cloned().unwrap_or_default(), resources))
}

/// The objects that are there before anybody came, without what each start makes anew.
fn objects(kubectl: &Kubectl) -> Result<Vec<Value>> {
    let inventory = Inventory::take(kubectl)?;
    let mut objects = Vec::new();
    for (place, object) in inventory.place_to_object {
        if MADE_AT_START.contains(&place.resource.as_str()) {
            continue;
        }
        let mut content = object.content;
        if let Some(metadata) = content.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|key, _| {
                !["uid", "creationTimestamp", "resourceVersion", "managedFields"].contains(&key.as_str())
            });
        }
        objects.push(content);
    }
    Ok(objects)
}

fn write(path: &Path, value: &Value) -> Result<PathBuf> {
    let bytes = zstd::encode_all(serde_json::to_vec(value)?.as_slice(), LEVEL).context("compressing")?;
    fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))?;
    Ok(path.to_owned())
}
