//! From the pieces of a ConfigMap, or one file, to the bytes of a component.

use std::io::Read;

use flate2::read::MultiGzDecoder;

use crate::ArtifactError;

/// The most bytes that a component may have: 64 MiB. A Python guest has 18; whoever uploads one could fill the host's memory.
pub const LARGEST_COMPONENT: u64 = 64 * 1024 * 1024;

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Joins pieces in the order given, and decompresses the whole if it is gzip. A ConfigMap holds 1 MiB: a large component
/// comes compressed, in several keys or even several ConfigMaps.
///
/// # Errors
/// [`ArtifactError::TooLarge`] as soon as more than `limit` bytes would be held, also by a decompression bomb;
/// [`ArtifactError::Gzip`].
pub fn assemble<P: AsRef<[u8]>>(pieces: &[P], limit: u64) -> Result<Vec<u8>, ArtifactError> {
    let total: u64 = pieces.iter().map(|piece| piece.as_ref().len() as u64).sum();
    if total > limit {
        return Err(ArtifactError::TooLarge { limit });
    }
    let joined: Vec<u8> = pieces.iter().flat_map(|piece| piece.as_ref().iter().copied()).collect();
    if !joined.starts_with(&GZIP) {
        return Ok(joined);
    }
    let mut component = Vec::new();
    // One byte more than allowed tells "exactly the limit" from "more".
    MultiGzDecoder::new(joined.as_slice())
        .take(limit.saturating_add(1))
        .read_to_end(&mut component)
        .map_err(ArtifactError::Gzip)?;
    if component.len() as u64 > limit {
        Err(ArtifactError::TooLarge { limit })
    } else {
        Ok(component)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn pieces_are_joined_in_order_and_decompressed_as_a_whole() {
        assert_eq!(assemble(&["ab", "c"], 10).unwrap(), b"abc");
        let whole = gzip(b"a component");
        let (one, other) = whole.split_at(7);
        assert_eq!(assemble(&[one, other], 100).unwrap(), b"a component");
    }

    #[test]
    fn a_decompression_bomb_is_refused_before_it_is_held() {
        let bomb = gzip(&vec![0; 10_000_000]);
        assert!(bomb.len() < 20_000);
        assert!(matches!(
            assemble(&[&bomb], 20_000),
            Err(ArtifactError::TooLarge { limit: 20_000 })
        ));
        assert_eq!(assemble(&[&bomb], 10_000_000).unwrap().len(), 10_000_000);
    }

    #[test]
    fn a_damaged_gzip_is_told_from_a_plain_file() {
        let mut damaged = gzip(b"a component");
        damaged.truncate(12);
        assert!(matches!(assemble(&[damaged], 100), Err(ArtifactError::Gzip(_))));
    }
}
