//! One step's StepRecord on the hub, in as many objects as it needs.
//!
//! The record itself has the first objects of the inventory; what one object of etcd does not take is in further parts. An
//! entry only ever moves to an earlier part, and parts are written from the first and removed from the last, so a process
//! that dies in between leaves an entry in two parts, never in none.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use chandlery_api::{More, ProvisionRef, StepRecord, StepRecordSpec};
use chandlery_core::names::FINALIZER;
use chandlery_core::ports::Ledger;
use chandlery_core::record::{Entry, Phase, Receipt, Record};
use chandlery_core::{ObjectRef, Setback, StepName, Uid};
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use serde_json::Value;

use crate::records::{PROVISION_LABEL, RecordStore, remove, timed};

/// Entries beside the receipt, whose spec may be large. An entry has 170 bytes usually and 900 at most; etcd takes objects of
/// 1.5 MiB.
const FIRST_ENTRIES: usize = 200;
/// Entries of a further part.
const MORE_ENTRIES: usize = 1_000;

/// A record divided into what goes into each object; the number is the part's, 0 the record itself.
type Parts<T> = BTreeMap<u32, T>;

/// One StepRecord on the hub.
pub(crate) struct StoredLedger {
    api: Api<StepRecord>,
    store: Weak<RecordStore>,
    provision: ProvisionRef,
    provision_uid: Uid,
    state: Mutex<State>,
    /// Held over a whole write: two writes from one version would undo each other.
    writing: tokio::sync::Mutex<()>,
}

struct State {
    /// What is on the hub, with what was observed since.
    record: Record,
    /// Whether entries are in `record` that no write has stored yet: one that failed, or was cut off.
    unstored: bool,
    /// The objects on the hub.
    stored: Parts<StepRecord>,
}

impl StoredLedger {
    pub(crate) fn new(
        api: Api<StepRecord>,
        store: Weak<RecordStore>,
        provision: ProvisionRef,
        uid: Uid,
        found: Found,
    ) -> Self {
        Self {
            api,
            store,
            provision,
            provision_uid: uid,
            state: Mutex::new(State {
                record: found.record,
                unstored: false,
                stored: found.stored,
            }),
            writing: tokio::sync::Mutex::new(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the record and stores it, if there is anything to store.
    async fn write(&self, change: impl FnOnce(&mut Record) -> Result<(), Setback>) -> Result<(), Setback> {
        let _one_at_a_time = self.writing.lock().await;
        let wanted = {
            let mut state = self.state();
            change(&mut state.record)?;
            divide(&self.provision, &state.record)
        };
        let outcome = self.store_parts(wanted).await;
        if outcome.is_ok() {
            self.state().unstored = false;
        } else if let Some(store) = self.store.upgrade() {
            store.forget(&self.provision_uid);
        }
        outcome
    }

    async fn store_parts(&self, wanted: Parts<StepRecordSpec>) -> Result<(), Setback> {
        let last = wanted.keys().next_back().copied().unwrap_or_default();
        for (part, spec) in wanted {
            let found = match self.state().stored.get(&part) {
                Some(object) if object.spec == spec => continue,
                found => found.map(|object| object.metadata.clone()),
            };
            let stored = match found {
                Some(metadata) => {
                    let name = metadata.name.clone().unwrap_or_default();
                    let object = StepRecord { metadata, spec };
                    timed(
                        "the step record",
                        self.api.replace(&name, &PostParams::default(), &object),
                    )
                    .await?
                }
                None => {
                    let object = object(&self.provision_uid, part, spec);
                    timed("the step record", self.api.create(&PostParams::default(), &object)).await?
                }
            };
            self.state().stored.insert(part, stored);
        }
        self.remove_after(Some(last)).await
    }

    /// Removes parts from the last down to the one after this; all of them, the record itself included, after `None`.
    async fn remove_after(&self, keep: Option<u32>) -> Result<(), Setback> {
        loop {
            let last = self
                .state()
                .stored
                .last_key_value()
                .map(|(part, object)| (*part, object.metadata.clone()));
            match last {
                Some((part, metadata)) if keep.is_none_or(|keep| part > keep) => {
                    remove(&self.api, &metadata).await?;
                    self.state().stored.remove(&part);
                }
                _ => return Ok(()),
            }
        }
    }
}

#[async_trait]
impl Ledger for StoredLedger {
    fn record(&self) -> Record {
        self.state().record.clone()
    }

    fn entry(&self, object: &ObjectRef) -> Option<Entry> {
        self.state()
            .record
            .inventory
            .iter()
            .find(|entry| entry.object == *object)
            .cloned()
    }

    async fn begin(&self, phase: Phase, receipt: Receipt) -> Result<(), Setback> {
        self.write(|record| {
            record.phase = phase;
            record.receipt = receipt;
            Ok(())
        })
        .await
    }

    async fn intend(&self, cluster_identity: &str, entries: Vec<Entry>) -> Result<(), Setback> {
        {
            // Nothing new to enter is the usual case of a pass that changes nothing: what was merely observed can wait.
            let mut state = self.state();
            state.unstored |= state.record.enter(cluster_identity, entries)?;
            if !state.unstored {
                return Ok(());
            }
        }
        self.write(|_| Ok(())).await
    }

    fn observe(&self, entry: Entry) {
        self.state().record.observe(entry);
    }

    fn forget(&self, object: &ObjectRef) {
        self.state().record.inventory.retain(|entry| entry.object != *object);
    }

    async fn settle(&self, phase: Phase, outputs: Option<Value>, memory: Option<Value>) -> Result<(), Setback> {
        self.write(|record| {
            record.phase = phase;
            record.outputs = outputs;
            record.memory = memory;
            Ok(())
        })
        .await
    }

    async fn close(&self) -> Result<(), Setback> {
        let _one_at_a_time = self.writing.lock().await;
        let outcome = self.remove_after(None).await;
        if let Some(store) = self.store.upgrade() {
            match &outcome {
                Ok(()) => store.drop_ledger(&self.provision_uid, self),
                Err(_) => store.forget(&self.provision_uid),
            }
        }
        outcome
    }

    fn version(&self) -> Option<String> {
        let state = self.state();
        state
            .stored
            .get(&0)
            .and_then(|object| object.metadata.resource_version.clone())
    }

    fn doubt(&self) {
        if let Some(store) = self.store.upgrade() {
            store.forget(&self.provision_uid);
        }
    }
}

/// A record as it is found on the hub.
pub(crate) struct Found {
    pub(crate) record: Record,
    stored: Parts<StepRecord>,
}

/// Puts the objects of one provision together. What belongs to no record any more is answered apart: its record was removed,
/// and with it all that could be done with an inventory.
pub(crate) fn assemble(objects: Vec<StepRecord>) -> (Vec<Found>, Vec<ObjectMeta>) {
    let mut found: BTreeMap<StepName, Found> = BTreeMap::new();
    let mut more: BTreeMap<(StepName, u32), StepRecord> = BTreeMap::new();
    for object in objects {
        match (&object.spec.record, &object.spec.more) {
            (Some(record), _) => {
                let record = record.clone();
                let stored = BTreeMap::from([(0, object)]);
                found.insert(record.step.clone(), Found { record, stored });
            }
            (None, Some(part)) => {
                more.insert((part.step.clone(), part.part), object);
            }
            // The API server admits no such object.
            (None, None) => {}
        }
    }
    let mut strays = Vec::new();
    for ((step, part), object) in more {
        match found.get_mut(&step) {
            Some(found) => {
                let entries = object.spec.more.iter().flat_map(|more| more.inventory.iter().cloned());
                found.record.inventory.extend(entries);
                found.stored.insert(part, object);
            }
            None => strays.push(object.metadata),
        }
    }
    for found in found.values_mut() {
        // In two parts after a crash: the earlier part was written later.
        let mut seen = HashSet::new();
        found.record.inventory.retain(|entry| seen.insert(entry.object.clone()));
    }
    (found.into_values().collect(), strays)
}

/// A record whose object was just made.
pub(crate) fn opened(record: Record, object: StepRecord) -> Found {
    Found {
        record,
        stored: BTreeMap::from([(0, object)]),
    }
}

/// What each object is to hold.
pub(crate) fn divide(provision: &ProvisionRef, record: &Record) -> Parts<StepRecordSpec> {
    let (first, rest) = record
        .inventory
        .split_at_checked(FIRST_ENTRIES)
        .unwrap_or((&record.inventory, &[]));
    let itself = Record {
        inventory: first.to_vec(),
        ..without_inventory(record)
    };
    let spec = |record, more| StepRecordSpec {
        provision: provision.clone(),
        record,
        more,
    };
    let mut parts = BTreeMap::from([(0, spec(Some(itself), None))]);
    for (part, inventory) in (1..).zip(rest.chunks(MORE_ENTRIES)) {
        let more = More {
            step: record.step.clone(),
            part,
            inventory: inventory.to_vec(),
        };
        parts.insert(part, spec(None, Some(more)));
    }
    parts
}

fn without_inventory(record: &Record) -> Record {
    Record {
        step: record.step.clone(),
        phase: record.phase,
        receipt: record.receipt.clone(),
        inventory: Vec::new(),
        outputs: record.outputs.clone(),
        memory: record.memory.clone(),
    }
}

/// The object of a part, before it is made.
pub(crate) fn object(provision: &Uid, part: u32, spec: StepRecordSpec) -> StepRecord {
    let step = match (&spec.record, &spec.more) {
        (Some(record), _) => record.step.to_string(),
        (None, Some(more)) => more.step.to_string(),
        (None, None) => String::new(),
    };
    let name = match part {
        0 => format!("{provision}.{step}"),
        part => format!("{provision}.{step}.{part}"),
    };
    let mut object = StepRecord::new(&name, spec);
    object.metadata.labels = Some([(PROVISION_LABEL.to_owned(), provision.to_string())].into());
    object.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    object
}

#[cfg(test)]
mod tests {
    use chandlery_core::Digest;
    use chandlery_core::record::{Mode, Target};
    use serde_json::json;

    use super::*;

    fn provision() -> ProvisionRef {
        ProvisionRef {
            name: "p".into(),
            uid: "1".into(),
        }
    }

    fn record(entries: usize) -> Record {
        let receipt = Receipt {
            plugin: "p".into(),
            digest: Digest::of(b"p"),
            spec: json!({}),
            target: Target::Remote {
                name: "r".into(),
                uid: "r".parse().unwrap(),
            },
            cluster_identity: "c".into(),
            background_deletion: false,
            needs: vec![],
        };
        let entry = |number: usize| Entry {
            object: ObjectRef::new("v1", "ConfigMap", Some("default"), &format!("c-{number}")),
            uid: None,
            mode: Mode::Made,
            wave: 0,
        };
        Record {
            inventory: (0..entries).map(entry).collect(),
            ..Record::new("step".parse().unwrap(), receipt)
        }
    }

    fn stored(record: &Record) -> Vec<StepRecord> {
        let uid: Uid = "1".parse().unwrap();
        divide(&provision(), record)
            .into_iter()
            .map(|(part, spec)| object(&uid, part, spec))
            .collect()
    }

    #[test]
    fn a_record_of_any_size_is_what_its_parts_say() {
        for (entries, parts) in [(0, 1), (200, 1), (201, 2), (1200, 2), (1201, 3), (5000, 6)] {
            let record = record(entries);
            let mut objects = stored(&record);
            assert_eq!(objects.len(), parts, "{entries}");
            objects.reverse();
            let (found, strays) = assemble(objects);
            assert_eq!(found[0].record, record);
            assert!(strays.is_empty());
        }
    }

    #[test]
    fn a_shorter_inventory_half_stored_loses_no_entry() {
        let (before, mut after) = (record(2500), record(2500));
        after.inventory.remove(7);
        let (before, new) = (stored(&before), stored(&after));
        for written in 0..=new.len() {
            let mut objects: Vec<StepRecord> = new.iter().take(written).cloned().collect();
            objects.extend(before.iter().skip(written).cloned());
            let (found, _) = assemble(objects);
            let inventory = &found[0].record.inventory;
            for entry in &after.inventory {
                assert_eq!(
                    inventory.iter().filter(|e| e.object == entry.object).count(),
                    1,
                    "{written}"
                );
            }
        }
    }

    #[test]
    fn parts_whose_record_is_gone_belong_to_nobody() {
        let objects = stored(&record(2000)).split_off(1);
        let names: Vec<_> = objects.iter().map(|object| object.metadata.name.clone()).collect();
        let (found, strays) = assemble(objects);
        assert!(found.is_empty());
        assert_eq!(strays.into_iter().map(|stray| stray.name).collect::<Vec<_>>(), names);
    }
}
