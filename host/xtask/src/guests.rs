//! Guests are built by their own toolchain for their own target, once per content: an unchanged guest is not built again.
//!
//! A guest workspace becomes components in `~/.cache/chandlery/guests/KEY/NAME.wasm`. The key covers every source file of
//! every local package, the lock file, the toolchain and the encoder; std and dependencies are kept in one target directory
//! of the cache. The same sources give the same bytes on any machine: no path of this one gets into them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use wit_component::ComponentEncoder;

use crate::cache::{self, Cache, Key};
use crate::consent::Consent;
use crate::{packages, progress, workspace};

const TARGET: &str = "wasm32-unknown-unknown";
const DEBIAN_PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "lld-22"];
const DEBIAN_LINKER: &str = "/usr/bin/wasm-ld-22";
/// Part of every key: raise it when the way guests are built changes.
const RECIPE: &[u8] = b"2";

/// How guests are compiled on this machine.
#[derive(Clone, Debug)]
pub struct GuestToolchain {
    cargo: PathBuf,
    rustc: PathBuf,
    /// The target's std is not installed, so it is built with the guest.
    builds_std: bool,
    environment: Vec<(&'static str, OsString)>,
    /// `rustc -vV`, which names the toolchain in the key.
    version: String,
}

/// Finds the toolchain for guests, and installs what is missing: by rustup if it can, else from Debian.
///
/// # Errors
/// If neither way is open, or what would be installed is not agreed to; says what to install by hand.
pub fn toolchain(consent: Consent) -> Result<GuestToolchain> {
    if let Some(found) = from_rustup() {
        return Ok(found);
    }
    if let Some(found) = from_debian() {
        return Ok(found);
    }
    if rustup("--version").output().is_ok_and(|answer| answer.status.success()) {
        consent.ask(&format!(
            "run `rustup target add {TARGET}`, which compiles plugins to WebAssembly"
        ))?;
        let label = format!("adding the target {TARGET} by rustup (once)");
        match progress::run(&label, rustup("target").arg("add").arg(TARGET)) {
            Ok(()) => return from_rustup().context("rustup has added the target, but the toolchain was not found"),
            // Its server may be out of reach where Debian's is not.
            Err(error) => eprintln!("{error:#}"),
        }
    }
    let purpose = format!("compile plugins to WebAssembly (or run `rustup target add {TARGET}`)");
    packages::install(&DEBIAN_PACKAGES, &purpose, consent)?;
    from_debian().context("the Debian packages are installed, but the toolchain in them was not found")
}

fn rustup(verb: &str) -> Command {
    let mut command = Command::new("rustup");
    command.arg(verb).current_dir(workspace::root());
    command
}

fn from_rustup() -> Option<GuestToolchain> {
    let installed = rustup("target").args(["list", "--installed"]).output().ok()?;
    if !String::from_utf8_lossy(&installed.stdout)
        .lines()
        .any(|line| line == TARGET)
    {
        return None;
    }
    let which = |tool: &str| {
        let answer = rustup("which")
            .arg(tool)
            .output()
            .ok()
            .filter(|answer| answer.status.success())?;
        Some(PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim()))
    };
    let rustc = which("rustc")?;
    Some(GuestToolchain {
        cargo: which("cargo")?,
        version: version_of(&rustc)?,
        rustc,
        builds_std: false,
        environment: Vec::new(),
    })
}

fn from_debian() -> Option<GuestToolchain> {
    let rustc = PathBuf::from("/usr/bin/rustc");
    let there = [
        DEBIAN_LINKER,
        "/usr/bin/cargo",
        "/usr/lib/rustlib/src/rust/library/std/Cargo.toml",
    ];
    if !there.iter().all(|path| Path::new(path).exists()) {
        return None;
    }
    Some(GuestToolchain {
        cargo: "/usr/bin/cargo".into(),
        version: version_of(&rustc)?,
        rustc,
        builds_std: true,
        environment: vec![
            ("PATH", "/usr/bin:/bin".into()),
            // Debian's release compiler: building std for a target is an unstable flag of cargo.
            ("RUSTC_BOOTSTRAP", "1".into()),
            ("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", DEBIAN_LINKER.into()),
        ],
    })
}

fn version_of(rustc: &Path) -> Option<String> {
    let answer = Command::new(rustc)
        .arg("-vV")
        .output()
        .ok()
        .filter(|answer| answer.status.success())?;
    Some(String::from_utf8_lossy(&answer.stdout).into_owned())
}

impl GuestToolchain {
    /// Cargo for guests in this directory, free of what the cargo that runs us has set for its own build.
    fn cargo(&self, directory: &Path) -> Command {
        let mut command = Command::new(&self.cargo);
        command.current_dir(directory);
        for (name, _) in std::env::vars_os() {
            let Some(text) = name.to_str() else { continue };
            let keeps = ["CARGO_HOME", "RUSTUP_HOME"].contains(&text)
                || ["CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR"]
                    .iter()
                    .any(|prefix| text.starts_with(prefix));
            if !keeps && (text.starts_with("CARGO") || text.starts_with("RUST")) {
                command.env_remove(&name);
            }
        }
        command
            .env("RUSTC", &self.rustc)
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    fn sysroot(&self) -> Result<String> {
        let answer = Command::new(&self.rustc)
            .args(["--print", "sysroot"])
            .output()
            .context("asking for the sysroot")?;
        Ok(String::from_utf8_lossy(&answer.stdout).trim().to_owned())
    }
}

/// Builds all guests of a workspace: every `cdylib` library or example of its members.
///
/// Answers the component of each by name, with `-` for `_`. Two processes may build at once: the second waits.
///
/// # Errors
/// If a guest does not compile (with what the compiler said) or is no component.
pub fn build(toolchain: &GuestToolchain, directory: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let cache = Cache::open()?;
    let directory = fs::canonicalize(directory).with_context(|| format!("finding {}", directory.display()))?;
    let plan = Plan::of(toolchain, &directory)?;
    let label = format!("building the plugins in {}", shown(&directory));
    let target = cache.directory("guests")?.join("target");
    let built = cache.get_or_build("guests", &plan.key(toolchain)?, |out| {
        // The target directory is shared, and two workspaces may have guests of the same name.
        let _lock = cache::lock(&cache.directory("guests")?.join(".target.lock"))?;
        plan.compile(toolchain, &label, &target)?;
        plan.guests
            .iter()
            .try_for_each(|guest| componentize(&guest.module(&target), &guest.component(out)))
    })?;
    Ok(plan
        .guests
        .iter()
        .map(|guest| (guest.name.clone(), guest.component(&built)))
        .collect())
}

/// Builds the first-party plugins and puts them into `target/plugins` of the checkout.
///
/// # Errors
/// As [`toolchain`] and [`build`], and if a file cannot be written.
pub fn plugins(consent: Consent) -> Result<BTreeMap<String, PathBuf>> {
    let built = build(&toolchain(consent)?, &workspace::root().join("plugins"))?;
    let out = workspace::root().join("target/plugins");
    fs::create_dir_all(&out).with_context(|| format!("creating {}", out.display()))?;
    let mut placed = BTreeMap::new();
    for (name, component) in built {
        let path = out.join(format!("{name}.wasm"));
        let fresh = fs::read(&component).with_context(|| format!("reading {}", component.display()))?;
        // A daemon watches these files: an unchanged plugin keeps its time.
        if fs::read(&path).ok().as_ref() != Some(&fresh) {
            let partial = out.join(format!(".{name}.{}", std::process::id()));
            fs::write(&partial, fresh).with_context(|| format!("writing {}", partial.display()))?;
            fs::rename(&partial, &path).with_context(|| format!("publishing {}", path.display()))?;
        }
        placed.insert(name, path);
    }
    Ok(placed)
}

/// What is to be built, from `cargo metadata`.
struct Plan {
    directory: PathBuf,
    guests: Vec<Guest>,
    /// Directories of all local packages, members or not.
    sources: Vec<PathBuf>,
}

struct Guest {
    name: String,
    /// As cargo names the file.
    file: String,
    is_example: bool,
}

impl Guest {
    fn module(&self, target: &Path) -> PathBuf {
        let release = target.join(TARGET).join("release");
        if self.is_example {
            release.join("examples").join(&self.file)
        } else {
            release.join(&self.file)
        }
    }

    fn component(&self, out: &Path) -> PathBuf {
        out.join(format!("{}.wasm", self.name))
    }
}

impl Plan {
    fn of(toolchain: &GuestToolchain, directory: &Path) -> Result<Self> {
        let mut metadata = toolchain.cargo(directory);
        metadata.args(["metadata", "--format-version", "1", "--filter-platform", TARGET]);
        let answer = metadata.output().context("starting cargo metadata")?;
        if !answer.status.success() {
            bail!(
                "reading {}: {}",
                directory.display(),
                String::from_utf8_lossy(&answer.stderr).trim()
            );
        }
        let metadata: Value = serde_json::from_slice(&answer.stdout).context("reading the answer of cargo metadata")?;
        let members = metadata
            .get("workspace_members")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let mut plan = Self {
            directory: directory.to_owned(),
            guests: Vec::new(),
            sources: Vec::new(),
        };
        for package in metadata.get("packages").and_then(Value::as_array).into_iter().flatten() {
            if !package["source"].is_null() {
                continue;
            }
            let manifest = package["manifest_path"].as_str().map(Path::new).and_then(Path::parent);
            plan.sources.extend(manifest.map(Path::to_owned));
            if members.contains(&package["id"]) {
                plan.guests
                    .extend(package["targets"].as_array().into_iter().flatten().filter_map(guest));
            }
        }
        plan.sources.sort();
        if plan.guests.is_empty() {
            bail!(
                "{} has no guest: give a package `crate-type = [\"cdylib\"]`",
                directory.display()
            );
        }
        Ok(plan)
    }

    fn key(&self, toolchain: &GuestToolchain) -> Result<Key> {
        let mut inputs = vec![
            ("recipe".to_owned(), RECIPE.to_vec()),
            ("toolchain".to_owned(), toolchain.version.clone().into_bytes()),
            ("builds std".to_owned(), vec![u8::from(toolchain.builds_std)]),
        ];
        for name in ["Cargo.toml", "Cargo.lock"] {
            inputs.push((name.to_owned(), fs::read(self.directory.join(name)).unwrap_or_default()));
        }
        for source in &self.sources {
            collect(source, &self.directory, &mut inputs)?;
        }
        Ok(Key::of(
            inputs.iter().map(|(name, content)| (name.as_str(), content.as_slice())),
        ))
    }

    fn compile(&self, toolchain: &GuestToolchain, label: &str, target: &Path) -> Result<()> {
        let mut cargo = toolchain.cargo(&self.directory);
        cargo
            .args([
                "build",
                "--release",
                "--target",
                TARGET,
                "--workspace",
                "--lib",
                "--target-dir",
            ])
            .arg(target);
        if self.guests.iter().any(|guest| guest.is_example) {
            cargo.arg("--examples");
        }
        if toolchain.builds_std {
            cargo.arg("-Zbuild-std=std,panic_abort");
        }
        cargo.env("CARGO_ENCODED_RUSTFLAGS", Self::flags(toolchain)?);
        progress::run(label, &mut cargo)
    }

    /// A panic's location is the only place where a path gets into a component; it must not be one of this machine.
    ///
    /// Cargo names the files of a workspace relative to it. The flags are the same for every workspace, because with other
    /// flags all is built again, std too.
    fn flags(toolchain: &GuestToolchain) -> Result<String> {
        let cargo_home = std::env::var_os("CARGO_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")))
            .context("finding cargo's home")?;
        let remapped = [
            (toolchain.sysroot()?, "/rust"),
            (cargo_home.display().to_string(), "/cargo"),
            (workspace::root().display().to_string(), "/chandlery"),
        ];
        let flags: Vec<String> = remapped
            .iter()
            .map(|(from, to)| format!("--remap-path-prefix={from}={to}"))
            .collect();
        Ok(flags.join("\x1f"))
    }
}

fn guest(target: &Value) -> Option<Guest> {
    let has = |key: &str, word: &str| {
        target[key]
            .as_array()
            .is_some_and(|list| list.iter().any(|entry| entry.as_str() == Some(word)))
    };
    if !has("crate_types", "cdylib") {
        return None;
    }
    let name = target["name"].as_str()?;
    let is_example = has("kind", "example");
    // Cargo writes an example under its own name, a library under its crate name.
    let file = if is_example {
        name.to_owned()
    } else {
        name.replace('-', "_")
    };
    Some(Guest {
        name: name.replace('_', "-"),
        file: format!("{file}.wasm"),
        is_example,
    })
}

/// Reads all files below a package, named relative to the workspace, in a fixed order.
fn collect(directory: &Path, root: &Path, inputs: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    let mut entries: Vec<_> = fs::read_dir(directory)
        .with_context(|| format!("reading {}", directory.display()))?
        .collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            if name != "target" && !name.to_string_lossy().starts_with('.') {
                collect(&path, root, inputs)?;
            }
        } else {
            let relative = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            inputs.push((
                relative,
                fs::read(&path).with_context(|| format!("reading {}", path.display()))?,
            ));
        }
    }
    Ok(())
}

/// Wraps a core module that carries its WIT in a custom section into a component.
fn componentize(module: &Path, component: &Path) -> Result<()> {
    let bytes = fs::read(module).with_context(|| format!("reading {}", module.display()))?;
    let encoded = ComponentEncoder::default()
        .module(&bytes)
        .and_then(|encoder| encoder.validate(true).encode())
        .map_err(|error| anyhow::anyhow!("{error:#}"))
        .with_context(|| format!("making a component of {}", module.display()))?;
    fs::write(component, encoded).with_context(|| format!("writing {}", component.display()))
}

fn shown(directory: &Path) -> String {
    directory
        .strip_prefix(workspace::root())
        .unwrap_or(directory)
        .display()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_and_an_example_are_guests_and_a_binary_is_not() {
        let of = |kind: &str, types: &str| {
            guest(&serde_json::json!({"name": "big_one-2", "kind": [kind], "crate_types": [types]}))
        };
        let library = of("cdylib", "cdylib").unwrap();
        assert_eq!(
            (library.name.as_str(), library.file.as_str()),
            ("big-one-2", "big_one_2.wasm")
        );
        let example = of("example", "cdylib").unwrap();
        assert_eq!(
            (example.name.as_str(), example.file.as_str()),
            ("big-one-2", "big_one-2.wasm")
        );
        assert!(of("bin", "bin").is_none());
    }

    #[test]
    fn a_key_covers_every_source_file_but_nothing_that_was_built() {
        let root = tempfile::tempdir().unwrap();
        let collected = |names: &[&str]| {
            for name in names {
                let path = root.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "x").unwrap();
            }
            let mut inputs = Vec::new();
            collect(root.path(), root.path(), &mut inputs).unwrap();
            inputs.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(
            collected(&["src/lib.rs", "wit/a.wit", "target/a.wasm", ".git/b"]),
            ["src/lib.rs", "wit/a.wit"]
        );
    }
}
