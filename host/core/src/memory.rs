//! A ledger that lives in memory: for one call by hand, and for tests.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde_json::Value;

use crate::ports::Ledger;
use crate::record::{Entry, Phase, Receipt, Record};
use crate::{ObjectRef, Setback};

/// A ledger in memory. Nothing of it outlives the process.
pub struct MemoryLedger(Mutex<Record>);

impl MemoryLedger {
    /// A ledger that begins with this record.
    pub fn new(record: Record) -> Self {
        Self(Mutex::new(record))
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    fn record(&self) -> Record {
        self.lock().clone()
    }

    fn entry(&self, object: &ObjectRef) -> Option<Entry> {
        self.lock()
            .inventory
            .iter()
            .find(|entry| entry.object == *object)
            .cloned()
    }

    async fn begin(&self, phase: Phase, receipt: Receipt) -> Result<(), Setback> {
        let mut record = self.lock();
        record.phase = phase;
        record.receipt = receipt;
        Ok(())
    }

    async fn intend(&self, cluster_identity: &str, entries: Vec<Entry>) -> Result<(), Setback> {
        self.lock().enter(cluster_identity, entries)?;
        Ok(())
    }

    fn observe(&self, entry: Entry) {
        self.lock().observe(entry);
    }

    fn forget(&self, object: &ObjectRef) {
        self.lock().inventory.retain(|entry| entry.object != *object);
    }

    async fn settle(&self, phase: Phase, outputs: Option<Value>, memory: Option<Value>) -> Result<(), Setback> {
        let mut record = self.lock();
        record.phase = phase;
        record.outputs = outputs;
        record.memory = memory;
        Ok(())
    }

    async fn close(&self) -> Result<(), Setback> {
        Ok(())
    }
}
