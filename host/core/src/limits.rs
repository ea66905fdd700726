//! What one call of a plugin may use. Each limit has a default; the operator may raise it up to a ceiling.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits of one call, complete.
///
/// In = guest to host, out = host to guest. A plugin's author could abuse each of them, the comment says to what end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory in bytes, all memories of the instance together (fill the host's memory).
    pub memory_bytes: u64,
    /// Wall time of the guest's own execution (burn a core).
    pub own_time: Duration,
    /// Wall time of the whole call, waits for the cluster included (hold a worker).
    pub call_time: Duration,
    /// Host calls (flood the API server).
    pub host_calls: u32,
    /// Items of all lists handed over in host calls together (the same by one call).
    pub items: u32,
    /// Bytes from guest to host (fill the host's memory or etcd).
    pub bytes_in: u64,
    /// Bytes from host to guest (have the host copy for ever).
    pub bytes_out: u64,
    /// Bytes of one object (a mebibyte is what etcd takes).
    pub object_bytes: u64,
    /// Bytes of log text and fields (fill the log).
    pub log_bytes: u64,
}

const MIB: u64 = 1024 * 1024;

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 * MIB,
            own_time: Duration::from_secs(2),
            call_time: Duration::from_secs(30),
            host_calls: 500,
            items: 5_000,
            bytes_in: 8 * MIB,
            bytes_out: 32 * MIB,
            object_bytes: MIB,
            log_bytes: 64 * 1024,
        }
    }
}

impl Limits {
    /// What no Plugin object may exceed unless the operator raises it.
    pub fn ceiling() -> Self {
        Self {
            memory_bytes: 512 * MIB,
            own_time: Duration::from_secs(30),
            call_time: Duration::from_secs(300),
            host_calls: 10_000,
            items: 50_000,
            // Host-call fuel traps at 10 MiB a call; this is the sum over the calls of one run.
            bytes_in: 64 * MIB,
            bytes_out: 256 * MIB,
            object_bytes: MIB,
            log_bytes: MIB,
        }
    }
}

/// Limits as a Plugin object states them; what is absent has its default, what is above the ceiling is cut to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitsSpec {
    /// Linear memory in MiB, 1 to 512; 64 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 512))]
    pub memory_mebibytes: Option<u32>,
    /// Wall time of the plugin's own execution in milliseconds, 1 to 30,000; 2,000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 30000))]
    pub own_milliseconds: Option<u32>,
    /// Wall time of the whole call in seconds, 1 to 300; 30 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 300))]
    pub call_seconds: Option<u32>,
    /// Host calls of one call, 1 to 10,000; 500 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub host_calls: Option<u32>,
    /// Items of all lists together, 1 to 50,000; 5,000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 50000))]
    pub items: Option<u32>,
    /// Log text in KiB, 0 to 1,024; 64 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1024))]
    pub log_kibibytes: Option<u32>,
}

impl LimitsSpec {
    /// The limits in force.
    pub fn resolve(&self) -> Limits {
        let (default, top) = (Limits::default(), Limits::ceiling());
        let LimitsSpec {
            memory_mebibytes,
            own_milliseconds,
            call_seconds,
            host_calls,
            items,
            log_kibibytes,
        } = self;
        Limits {
            memory_bytes: memory_mebibytes
                .map_or(default.memory_bytes, |m| u64::from(m) * MIB)
                .min(top.memory_bytes),
            own_time: own_milliseconds
                .map_or(default.own_time, |ms| Duration::from_millis(ms.into()))
                .min(top.own_time),
            call_time: call_seconds
                .map_or(default.call_time, |s| Duration::from_secs(s.into()))
                .min(top.call_time),
            host_calls: host_calls.unwrap_or(default.host_calls).min(top.host_calls),
            items: items.unwrap_or(default.items).min(top.items),
            log_bytes: log_kibibytes
                .map_or(default.log_bytes, |k| u64::from(k) * 1024)
                .min(top.log_bytes),
            ..default
        }
    }
}
