//! What an API server knows of its built-in kinds beyond their structure: defaults, validation, what a write may change,
//! and what `kubectl get` shows. Pure functions on JSON documents; it knows no store, no HTTP and no clock.

mod addresses;
mod apps;
mod batch;
mod core;
mod definition;
mod document;
mod fault;
mod kind;
mod lease;
pub mod meta;
pub mod names;
mod network_policy;
mod pods;
pub mod quantity;
mod rbac;
mod selector;
mod strategy;
mod table;

pub use fault::{Fault, FaultKind};
pub use kind::{Cell, Column, Kind, Plain, of};
pub use strategy::{NameRule, Strategy};

/// How long ago something was, as `kubectl` tells it: `42s`, `5m3s`, `2d4h`. Two units at most, and one where the second
/// would say little.
pub fn age(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let pair = |large: i64, unit: &str, small: i64, of: &str| {
        if small == 0 {
            format!("{large}{unit}")
        } else {
            format!("{large}{unit}{small}{of}")
        }
    };
    match seconds {
        // Clocks may differ by a little.
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => pair(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => pair(seconds / HOUR, "h", seconds / MINUTE % 60, "m"),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => pair(seconds / DAY, "d", seconds / HOUR % 24, "h"),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => pair(seconds / YEAR, "y", seconds / DAY % 365, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}
