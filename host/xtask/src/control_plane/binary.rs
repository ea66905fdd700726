//! The parts of a control plane come out of one Go program, built once per content of `tests/control-plane`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cache::{Cache, Key};
use crate::{progress, workspace};

const KIND: &str = "control-plane";
const PROGRAM: &str = "control-plane";
/// What the program is built from; `go.mod` comes first because the version is read from it.
const SOURCES: [&str; 3] = ["go.mod", "go.sum", "main.go"];
/// Without these the API server reports a version that no client understands.
const VERSION_PACKAGES: [&str; 2] = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];

/// A program of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// Garbage collection, namespaces, Jobs, tokens.
    ControllerManager,
    /// Places pods on nodes; only of use with a node.
    Scheduler,
    /// The node's agent.
    Kubelet,
    /// The command line client.
    Kubectl,
}

impl Part {
    /// The name of the program, as Kubernetes calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubelet => "kubelet",
            Self::Kubectl => "kubectl",
        }
    }
}

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// The one program that holds every part.
    all_in_one: PathBuf,
    /// A directory with stand-alone programs; those found there come first.
    assets: Option<PathBuf>,
}

impl Binaries {
    /// Finds the programs; builds them if they are not in the cache (about 5 minutes on 2 cores, needs Go).
    ///
    /// Programs in the directory named by `KUBEBUILDER_ASSETS` are used as they are. That directory usually lacks
    /// kube-controller-manager, so what it does not hold still comes from our own program.
    ///
    /// # Errors
    /// If Go is missing or the build fails.
    pub fn prepare() -> Result<Self> {
        let assets = std::env::var_os("KUBEBUILDER_ASSETS")
            .map(PathBuf::from)
            .filter(|path| !path.as_os_str().is_empty());
        Ok(Self {
            all_in_one: build(&Cache::open()?, &workspace::root().join("tests").join("control-plane"))?,
            assets,
        })
    }

    /// Whether nothing would have to be built.
    pub fn are_ready() -> bool {
        let source = workspace::root().join("tests").join("control-plane");
        let Ok((cache, (key, _))) = Cache::open().and_then(|cache| Ok((cache, read_sources(&source)?))) else {
            return false;
        };
        cache.find(KIND, &key).is_some()
    }

    /// A command that runs one part; arguments are still to be added.
    pub fn command(&self, part: Part) -> Command {
        if let Some(own) = self.assets.as_ref().map(|assets| assets.join(part.name()))
            && own.is_file()
        {
            return Command::new(own);
        }
        let mut command = Command::new(&self.all_in_one);
        command.arg(part.name());
        command
    }
}

fn build(cache: &Cache, source: &Path) -> Result<PathBuf> {
    let (key, go_mod) = read_sources(source)?;
    let directory = cache.get_or_build(KIND, &key, |directory| {
        let version = kubernetes_version(&go_mod)?;
        if Command::new("go").arg("version").output().is_err() {
            bail!("building the control plane needs Go 1.24 or newer, and there is no `go` in PATH");
        }
        progress::run(
            &format!("building Kubernetes {version} (5 minutes on 2 cores, once per machine)"),
            Command::new("go")
                .current_dir(source)
                .env("CGO_ENABLED", "0")
                .args(["build", "-trimpath", "-mod=readonly", "-buildvcs=false", "-ldflags"])
                .arg(linker_flags(&version)?)
                .arg("-o")
                .arg(directory.join(PROGRAM))
                .arg("."),
        )
    })?;
    Ok(directory.join(PROGRAM))
}

fn read_sources(directory: &Path) -> Result<(Key, String)> {
    let mut contents = Vec::new();
    for name in SOURCES {
        let path = directory.join(name);
        contents.push((
            name,
            fs::read(&path).with_context(|| format!("reading {}", path.display()))?,
        ));
    }
    let key = Key::of(contents.iter().map(|(name, content)| (*name, content.as_slice())));
    let go_mod = contents
        .into_iter()
        .next()
        .map(|(_, content)| content)
        .unwrap_or_default();
    Ok((key, String::from_utf8(go_mod).context("reading go.mod as text")?))
}

fn kubernetes_version(go_mod: &str) -> Result<String> {
    go_mod
        .lines()
        .find_map(|line| {
            line.trim()
                .strip_prefix("k8s.io/kubernetes ")
                .map(|version| version.trim().to_owned())
        })
        .context("finding the version of k8s.io/kubernetes in go.mod")
}

fn linker_flags(version: &str) -> Result<String> {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
        bail!("{version} is not a version of Kubernetes");
    };
    let mut flags = "-s -w".to_owned();
    for package in VERSION_PACKAGES {
        for (variable, value) in [
            ("gitVersion", version),
            ("gitMajor", major),
            ("gitMinor", minor),
            ("gitCommit", "unknown"),
            ("gitTreeState", "clean"),
            // Fixed, so that the same sources give the same program.
            ("buildDate", "1970-01-01T00:00:00Z"),
        ] {
            flags.push_str(&format!(" -X {package}.{variable}={value}"));
        }
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_comes_from_go_mod() {
        let go_mod = fs::read_to_string(workspace::root().join("tests/control-plane/go.mod")).unwrap();
        let version = kubernetes_version(&go_mod).unwrap();
        let flags = linker_flags(&version).unwrap();
        assert!(
            flags.contains(&format!("k8s.io/client-go/pkg/version.gitVersion={version}")),
            "{flags}"
        );
        assert!(flags.contains("component-base/version.gitMajor=1 "), "{flags}");
        assert!(linker_flags("newest").is_err());
    }
}
