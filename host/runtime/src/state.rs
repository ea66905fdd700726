//! What the host holds for one call; it goes with the call.

use std::sync::Arc;

use chandlery_core::limits::Limits;
use wasmtime::ResourceLimiter;
use wasmtime::component::ResourceTable;

use crate::budget::Budget;
use crate::clock::Clock;
use crate::engine::{INSTANCES, MEMORIES, TABLE_ENTRIES};
use crate::log::LogBook;

/// Handles that a call may hold at once. There is one; the rest is room.
const HANDLES: usize = 64;

pub(crate) struct State {
    pub(crate) table: ResourceTable,
    pub(crate) memory: MemoryLimit,
    pub(crate) budget: Budget,
    pub(crate) clock: Arc<Clock>,
    pub(crate) log: LogBook,
}

impl State {
    pub(crate) fn new(limits: &Limits, clock: Arc<Clock>, log: LogBook) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES);
        Self {
            table,
            memory: MemoryLimit::new(limits.memory_bytes),
            budget: Budget::new(limits.clone()),
            clock,
            log,
        }
    }
}

/// Keeps all memories of an instance together within the limit. The guest is told "no" and may go on without.
pub(crate) struct MemoryLimit {
    bytes: u64,
    used: u64,
    /// The guest was told "no" once: a trap after that is most likely its answer.
    pub(crate) was_refused: bool,
}

impl MemoryLimit {
    fn new(bytes: u64) -> Self {
        Self {
            bytes,
            used: 0,
            was_refused: false,
        }
    }

    pub(crate) fn mebibytes(&self) -> u64 {
        self.bytes / (1024 * 1024)
    }
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let used = self.used.saturating_sub(current as u64).saturating_add(desired as u64);
        if used > self.bytes || maximum.is_some_and(|maximum| desired > maximum) {
            self.was_refused = true;
            return Ok(false);
        }
        self.used = used;
        Ok(true)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_ENTRIES && maximum.is_none_or(|maximum| desired <= maximum))
    }

    fn instances(&self) -> usize {
        INSTANCES as usize
    }

    fn tables(&self) -> usize {
        MEMORIES as usize
    }

    fn memories(&self) -> usize {
        MEMORIES as usize
    }
}
