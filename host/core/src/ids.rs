//! Identifiers, parsed once and then trusted.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Why a text is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} \"{text}\" {why}")]
pub struct InvalidId {
    what: &'static str,
    text: String,
    why: &'static str,
}

impl InvalidId {
    fn new(what: &'static str, text: &str, why: &'static str) -> Self {
        Self {
            what,
            text: text.chars().take(80).collect(),
            why,
        }
    }
}

macro_rules! text_id {
    ($name:ident) => {
        impl $name {
            /// The text as it was parsed.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

/// UID of a Kubernetes object: 1 to 64 characters of `[A-Za-z0-9.-]`, in practice a UUID. Names an object for ever.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Uid(String);
text_id!(Uid);

impl FromStr for Uid {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        if text.is_empty() || text.len() > 64 {
            return Err(InvalidId::new("uid", text, "is not 1 to 64 characters long"));
        }
        if !text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
        {
            return Err(InvalidId::new(
                "uid",
                text,
                "has a character other than letters, digits, '-' and '.'",
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

/// Name of a step within its provision: a DNS label, 1 to 63 characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StepName(String);
text_id!(StepName);

impl FromStr for StepName {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        if is_dns_label(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId::new(
                "step name",
                text,
                "is not a DNS label (1 to 63 of a-z, 0-9 and '-', starting and ending with a letter or digit)",
            ))
        }
    }
}

/// Whether `text` is a DNS label (RFC 1123) as Kubernetes asks of names.
pub fn is_dns_label(text: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(first), Some(last)) if alphanumeric(*first) && alphanumeric(*last))
        && bytes.len() <= 63
        && bytes.iter().all(|b| alphanumeric(*b) || *b == b'-')
}

/// SHA-256 of a component's bytes, written `sha256:` and 64 lower-case hex digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);
text_id!(Digest);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        use sha2::{Digest as _, Sha256};
        use std::fmt::Write as _;
        let mut text = String::with_capacity(71);
        text.push_str("sha256:");
        for byte in Sha256::digest(bytes) {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }

    /// The 64 hex digits, fit for a file name.
    pub fn hex(&self) -> &str {
        self.0.strip_prefix("sha256:").unwrap_or(&self.0)
    }
}

impl FromStr for Digest {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let hex = text
            .strip_prefix("sha256:")
            .ok_or_else(|| InvalidId::new("digest", text, "does not start with \"sha256:\""))?;
        if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            return Err(InvalidId::new(
                "digest",
                text,
                "has not 64 lower-case hex digits after \"sha256:\"",
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_told_from_its_look_alikes() {
        let good = Digest::of(b"chandlery");
        assert_eq!(good.as_str().parse::<Digest>(), Ok(good.clone()));
        for bad in [
            "",
            "sha256:",
            &good.hex().to_uppercase(),
            &format!("sha512:{}", good.hex()),
            &good.as_str()[..70],
        ] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_step_name_is_a_dns_label() {
        for good in ["a", "a-b", "0", &"x".repeat(63)] {
            assert!(good.parse::<StepName>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "a.b", &"x".repeat(64), "ä"] {
            assert!(bad.parse::<StepName>().is_err(), "{bad}");
        }
    }
}
