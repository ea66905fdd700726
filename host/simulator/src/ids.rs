//! UIDs and suffixes of generated names: as good as random to a client, and the same at every run.

/// A stream of numbers (splitmix64: one word of state, so that a clone of a world costs nothing).
#[derive(Clone, Debug)]
pub(crate) struct Ids(u64);

/// The letters of generated names: no vowels, no digits that look like letters.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

impl Ids {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below this one; 0 if there is none.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX);
        usize::try_from(self.next().checked_rem(limit).unwrap_or_default()).unwrap_or_default()
    }

    /// A UID of version 4.
    pub(crate) fn uid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low >> 48 & 0x3fff | 0x8000,
            low & 0xffff_ffff_ffff
        )
    }

    /// The five letters behind a `generateName`.
    pub(crate) fn suffix(&mut self) -> String {
        let mut bits = self.next();
        (0..5)
            .map(|_| {
                let at = usize::try_from(bits % 27).unwrap_or_default();
                bits /= 27;
                char::from(ALPHABET.get(at).copied().unwrap_or(b'b'))
            })
            .collect()
    }
}
