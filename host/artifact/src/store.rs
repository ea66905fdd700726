//! Components and their compiled form on disk, by digest. A file is whole or not there.
//!
//! Everything here can be made again: a file that does not bear its checksum is treated as absent.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use chandlery_core::Digest;

/// A directory of this host's own. Who may write to it may have the host run any machine code: it is made for its owner only.
#[derive(Debug, Clone)]
pub struct Store {
    components: PathBuf,
    compiled: PathBuf,
}

impl Store {
    /// Opens the directory and makes what is missing of it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let store = Self {
            components: directory.join("components"),
            compiled: directory.join("compiled"),
        };
        for directory in [&store.components, &store.compiled] {
            make_private(directory)?;
        }
        Ok(store)
    }

    /// Keeps a component; answers its digest. To keep it again is harmless.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put(&self, bytes: &[u8]) -> io::Result<Digest> {
        let digest = Digest::of(bytes);
        if self.get(&digest)?.is_none() {
            write_whole(&self.component_path(&digest), bytes)?;
        }
        Ok(digest)
    }

    /// A component's bytes, `None` if it is not kept or no longer bears its digest.
    ///
    /// # Errors
    /// If it is there and cannot be read.
    pub fn get(&self, digest: &Digest) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.component_path(digest)) {
            Ok(bytes) if Digest::of(&bytes) == *digest => Ok(Some(bytes)),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn component_path(&self, digest: &Digest) -> PathBuf {
        self.components.join(format!("{}.wasm", digest.hex()))
    }

    /// Where the compiled form of a component is kept: `engine` names everything that it depends on besides the bytes.
    pub fn compiled_path(&self, digest: &Digest, engine: &str) -> PathBuf {
        self.compiled.join(format!("{}-{engine}.cwasm", digest.hex()))
    }

    /// The compiled form, if it is there and bears its checksum. What is damaged is removed.
    ///
    /// # Errors
    /// If it is there and cannot be read.
    pub fn compiled(&self, digest: &Digest, engine: &str) -> io::Result<Option<PathBuf>> {
        let path = self.compiled_path(digest, engine);
        let absent = |error: io::Error| {
            if error.kind() == io::ErrorKind::NotFound {
                Ok(None)
            } else {
                Err(error)
            }
        };
        let (code, sum) = match fs::read(&path).and_then(|code| Ok((code, fs::read_to_string(sum_path(&path))?))) {
            Ok(read) => read,
            Err(error) => return absent(error),
        };
        if Digest::of(&code).as_str() == sum {
            return Ok(Some(path));
        }
        self.forget_compiled(digest, engine)?;
        Ok(None)
    }

    /// Keeps a compiled form.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put_compiled(&self, digest: &Digest, engine: &str, code: &[u8]) -> io::Result<PathBuf> {
        let path = self.compiled_path(digest, engine);
        // Code before sum: a crash in between leaves what counts as absent.
        write_whole(&path, code)?;
        write_whole(&sum_path(&path), Digest::of(code).as_str().as_bytes())?;
        Ok(path)
    }

    /// Removes a compiled form that turned out to be of no use.
    ///
    /// # Errors
    /// If it is there and cannot be removed.
    pub fn forget_compiled(&self, digest: &Digest, engine: &str) -> io::Result<()> {
        let path = self.compiled_path(digest, engine);
        for path in [sum_path(&path), path] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// A name in the store for a file that is being made; the caller removes it.
    pub fn scratch_path(&self, suffix: &str) -> PathBuf {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        self.compiled.join(format!(".{}-{count}{suffix}", std::process::id()))
    }

    /// Removes all components and compiled forms but those of these digests. A file of ours that is being made is left.
    ///
    /// # Errors
    /// If the directory cannot be read or a file not removed.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) -> io::Result<()> {
        for directory in [&self.components, &self.compiled] {
            for entry in fs::read_dir(directory)? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let hex = name.get(..64).unwrap_or_default();
                if !name.starts_with('.') && !keep(hex) {
                    fs::remove_file(entry.path())?;
                }
            }
        }
        Ok(())
    }
}

fn sum_path(path: &Path) -> PathBuf {
    path.with_extension("cwasm.sum")
}

fn make_private(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Writes a file so that it is there whole or not at all, also after a power failure.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = path.with_file_name(format!(".{name}.{}-{count}", std::process::id()));
    let written = File::create(&partial).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let published = written.and_then(|()| fs::rename(&partial, path));
    if published.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&partial);
    }
    published
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_component_counts_as_absent_and_can_be_put_again() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::open(root.path()).unwrap();
        let digest = store.put(b"a component").unwrap();
        assert_eq!(store.get(&digest).unwrap().as_deref(), Some(b"a component".as_slice()));
        fs::write(store.component_path(&digest), "other").unwrap();
        assert_eq!(store.get(&digest).unwrap(), None);
        store.put(b"a component").unwrap();
        assert!(store.get(&digest).unwrap().is_some());
    }

    #[test]
    fn damaged_machine_code_is_never_handed_out() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::open(root.path()).unwrap();
        let digest = Digest::of(b"x");
        let path = store.put_compiled(&digest, "e", b"code").unwrap();
        assert_eq!(store.compiled(&digest, "e").unwrap(), Some(path.clone()));
        assert_eq!(store.compiled(&digest, "another engine").unwrap(), None);
        fs::write(&path, b"c0de").unwrap();
        assert_eq!(store.compiled(&digest, "e").unwrap(), None);
        assert!(!path.exists());
        fs::write(&path, b"code without a sum").unwrap();
        assert_eq!(store.compiled(&digest, "e").unwrap(), None);
    }

    #[test]
    fn what_is_no_longer_used_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::open(root.path()).unwrap();
        let (one, other) = (store.put(b"one").unwrap(), store.put(b"other").unwrap());
        store.put_compiled(&other, "e", b"code").unwrap();
        store.retain(|hex| hex == one.hex()).unwrap();
        assert!(store.get(&one).unwrap().is_some() && store.get(&other).unwrap().is_none());
        assert_eq!(store.compiled(&other, "e").unwrap(), None);
    }
}
