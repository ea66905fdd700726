//! Component files before anything in them runs: their bytes, their digest, what they import. No engine here.
//!
//! A file comes in by [`assemble`] (several pieces, perhaps compressed), is pinned by [`verify`], looked into by
//! [`inspect`], and kept in a [`Store`] together with its compiled form.

mod assemble;
mod inspect;
mod store;

pub use assemble::{LARGEST_COMPONENT, assemble};
pub use inspect::{Compatibility, UnknownImport, inspect};
pub use store::Store;

use chandlery_core::Digest;

/// Why bytes are not a component that can be used.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// More bytes than a component may have, after decompression.
    #[error("the component is larger than {} MiB, the most that is taken", .limit / (1024 * 1024))]
    TooLarge {
        /// The most that is taken, in bytes.
        limit: u64,
    },
    /// Not a WebAssembly file at all.
    #[error("this is not a WebAssembly component: it begins with {0}")]
    NotWasm(String),
    /// A WebAssembly file, but a core module.
    #[error(
        "this is a core WebAssembly module, not a component: build it with `cargo xtask plugins`, or wrap it with `wasm-tools component new`"
    )]
    CoreModule,
    /// It begins like a component and is damaged.
    #[error("the component is damaged: {0}")]
    Damaged(String),
    /// It begins like a gzip file and is damaged.
    #[error("the compressed component is damaged")]
    Gzip(#[source] std::io::Error),
    /// Other bytes than those that were pinned.
    #[error(
        "the component has digest {actual}, not {expected} as pinned: it was replaced, or the pin is of another build"
    )]
    OtherDigest {
        /// The pinned digest.
        expected: Digest,
        /// The digest of the bytes.
        actual: Digest,
    },
}

/// Checks bytes against a pinned digest.
///
/// # Errors
/// [`ArtifactError::OtherDigest`].
pub fn verify(bytes: &[u8], expected: &Digest) -> Result<(), ArtifactError> {
    let actual = Digest::of(bytes);
    if actual == *expected {
        Ok(())
    } else {
        Err(ArtifactError::OtherDigest {
            expected: expected.clone(),
            actual,
        })
    }
}
