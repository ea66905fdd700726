//! IP addresses and ranges of them.

use std::net::IpAddr;

use crate::fault::Fault;

/// A range of addresses, as its bits and how many of them count.
pub(crate) struct Range {
    bits: u128,
    counted: u32,
    width: u32,
}

impl Range {
    /// Whether another range is a part of this one, and not all of it.
    pub(crate) fn holds_part(&self, other: &Self) -> bool {
        let shift = self.width - self.counted;
        let same_start = shift >= 128 || self.bits >> shift == other.bits >> shift;
        self.width == other.width && other.counted > self.counted && same_start
    }
}

/// Reads a range such as `10.0.0.0/8`.
pub(crate) fn range(text: &str) -> Option<Range> {
    let (address, counted) = text.split_once('/')?;
    let counted: u32 = counted.parse().ok()?;
    let (bits, width) = match address.parse().ok()? {
        IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    };
    (counted <= width).then_some(Range { bits, counted, width })
}

/// A text that is no range.
pub(crate) fn no_range(field: &str, value: &str) -> Fault {
    Fault::invalid(
        field,
        &value.into(),
        "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
    )
}

/// A text that is no address, if it is none.
pub(crate) fn not_an_address(field: &str, value: &str) -> Option<Fault> {
    value.parse::<IpAddr>().is_err().then(|| {
        Fault::invalid(
            field,
            &value.into(),
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        )
    })
}
