//! What is costly to make is made once per content, in a directory of its own that appears whole or not at all.
//!
//! The cache lies outside the checkout (`~/.cache/chandlery`), so that a fresh clone does not pay again. It may be
//! deleted at any time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// Names a cached thing by everything it is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// The key of named inputs. Order, names and contents all count.
    pub fn of<'a>(inputs: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut hash = Sha256::new();
        for (name, content) in inputs {
            // The length keeps two inputs from being read as one.
            hash.update(format!("{name}\0{}\0", content.len()));
            hash.update(content);
        }
        let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        // 80 bits: short enough to read, far beyond accidental collision.
        Self(hex.chars().take(20).collect())
    }

    /// The key as a directory name: 20 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The cache directory of this user.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Opens `~/.cache/chandlery`; nothing is created before it is needed.
    ///
    /// # Errors
    /// If the user has no home directory.
    pub fn open() -> Result<Self> {
        let home = std::env::home_dir().context("finding the home directory: HOME is not set")?;
        Ok(Self::at(home.join(".cache").join("chandlery")))
    }

    /// A cache at another place; tests use it.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// A directory of the cache that is not keyed by content. It is created if it is missing.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn directory(&self, name: &str) -> Result<PathBuf> {
        let directory = self.root.join(name);
        fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
        Ok(directory)
    }

    /// The directory of one cached thing, if it has been built.
    pub fn find(&self, kind: &str, key: &Key) -> Option<PathBuf> {
        let directory = self.root.join(kind).join(key.as_str());
        directory.is_dir().then_some(directory)
    }

    /// The directory of one cached thing; `build` fills an empty directory if it is missing.
    ///
    /// Two builders at once: the second waits for the first and finds its result. A failed build leaves nothing.
    ///
    /// # Errors
    /// What `build` answers, and any failure of the file system.
    pub fn get_or_build(&self, kind: &str, key: &Key, build: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        if let Some(found) = self.find(kind, key) {
            return Ok(found);
        }
        let parent = self.directory(kind)?;
        let _lock = lock(&parent.join(format!(".{}.lock", key.as_str())))?;
        if let Some(found) = self.find(kind, key) {
            return Ok(found);
        }
        let building = tempfile::Builder::new()
            .prefix(".building-")
            .tempdir_in(&parent)
            .with_context(|| format!("creating a directory in {}", parent.display()))?;
        build(building.path())?;
        let published = parent.join(key.as_str());
        fs::rename(building.path(), &published).with_context(|| format!("publishing {}", published.display()))?;
        // The directory has moved: there is nothing left to remove under its old name.
        let _ = building.keep();
        Ok(published)
    }
}

/// Holds an exclusive lock on a file until the answer is dropped; waits while another process has it.
///
/// # Errors
/// If the file cannot be created or locked.
pub fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
    file.lock().with_context(|| format!("locking {}", path.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_key_depends_on_where_one_input_ends() {
        let one = Key::of([("a", b"xy".as_slice()), ("b", b"z")]);
        let other = Key::of([("a", b"x".as_slice()), ("b", b"yz")]);
        assert_ne!(one, other);
        assert_eq!(one.as_str().len(), 20);
    }

    #[test]
    fn two_builders_at_once_build_once() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path());
        let key = Key::of([("a", b"1".as_slice())]);
        let built = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let path = cache.get_or_build("thing", &key, |directory| {
                        built.fetch_add(1, Ordering::SeqCst);
                        fs::write(directory.join("file"), "x")?;
                        Ok(())
                    });
                    assert_eq!(fs::read_to_string(path.unwrap().join("file")).unwrap(), "x");
                });
            }
        });
        assert_eq!(built.into_inner(), 1);
    }

    #[test]
    fn a_failed_build_leaves_nothing_and_can_be_tried_again() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path());
        let key = Key::of([("a", b"1".as_slice())]);
        let failed = cache.get_or_build("thing", &key, |directory| {
            fs::write(directory.join("half"), "x")?;
            anyhow::bail!("no space")
        });
        assert_eq!(failed.unwrap_err().to_string(), "no space");
        assert_eq!(cache.find("thing", &key), None);
        let left: Vec<_> = fs::read_dir(root.path().join("thing"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.ends_with(".lock"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(cache.get_or_build("thing", &key, |_| Ok(())).is_ok());
    }
}
