//! What the host keeps of a step: receipt, inventory, outputs and memory. The content of a StepRecord.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::class::{Class, Setback};
use crate::{Digest, ObjectRef, StepName, Uid};

/// Most objects that one step may own; a call may name no more.
pub const LARGEST_INVENTORY: usize = 5_000;

/// Most bytes of a step's settings, as JSON with all expressions replaced. They are kept in the receipt, and etcd takes objects
/// of 1.5 MiB. Room for one object of a MiB, and for its neighbours.
pub const LARGEST_SPEC: usize = 1280 * 1024;

/// Where a step runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// The cluster the daemon runs in, as this ServiceAccount of the provision's namespace.
    #[serde(rename_all = "camelCase")]
    Hub {
        /// Name of the ServiceAccount.
        service_account: String,
    },
    /// A RemoteCluster of the provision's namespace.
    Remote {
        /// `metadata.name` of the RemoteCluster.
        name: String,
        /// `metadata.uid` of the RemoteCluster: a successor of the same name is another remote.
        #[schemars(with = "String")]
        uid: Uid,
    },
}

impl Target {
    /// As people know it.
    pub fn name(&self) -> &str {
        match self {
            Target::Hub { .. } => crate::names::HUB,
            Target::Remote { name, .. } => name,
        }
    }
}

/// What a step was last run with; durable before its first call, and what it is undone from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// Name of the Plugin object.
    pub plugin: String,
    /// Digest of the component.
    #[schemars(with = "String")]
    pub digest: Digest,
    /// The step's settings as the plugin was given them.
    #[schemars(schema_with = "free_value")]
    pub spec: Value,
    /// Where.
    pub target: Target,
    /// Identity of the cluster (UID of `kube-system`); empty until the step is about to write there for the first time.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster_identity: String,
    /// Whether the step may be left to go with its cluster, where that is doomed itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background_deletion: bool,
    /// Steps that must be undone after this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub needs: Vec<StepName>,
}

impl Receipt {
    /// Whether a step with receipt `next` goes on from this one: same plugin on the same target. Otherwise what was done
    /// under this receipt is undone first. Another digest or spec goes on.
    pub fn is_continued_by(&self, next: &Receipt) -> bool {
        self.plugin == next.plugin && self.target == next.target
    }
}

/// How an object came to be in an inventory, and so what undoing means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Written before the write; whether the write came to pass is not known. Decided by reading back.
    Pending,
    /// The step created it: it is deleted.
    Made,
    /// It existed: only the step's fields are withdrawn.
    Joined,
}

/// One object of an inventory. Entered before its write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Which object.
    #[serde(flatten)]
    pub object: ObjectRef,
    /// UID, once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub uid: Option<Uid>,
    /// How it came here.
    pub mode: Mode,
    /// Entries of one wave were written together; undone from the highest wave down.
    pub wave: u32,
}

/// Where a step stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Being brought to its spec.
    #[default]
    Provisioning,
    /// Done with what the receipt says.
    Done,
    /// Being undone. Never goes back.
    Deprovisioning,
    /// The plugin's own part of undoing is done; the host empties the inventory.
    Emptying,
}

/// All that the host keeps of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Which step.
    #[schemars(with = "String")]
    pub step: StepName,
    /// Where it stands.
    #[serde(default)]
    pub phase: Phase,
    /// What it was last run with.
    pub receipt: Receipt,
    /// What it wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inventory: Vec<Entry>,
    /// For later steps and people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_value")]
    pub outputs: Option<Value>,
    /// For the plugin's next call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_value")]
    pub memory: Option<Value>,
}

impl Record {
    /// Enters objects about to be written to the cluster of this identity. An entry that is there is replaced only where it
    /// speaks of another object of the name. Tells whether anything changed.
    ///
    /// # Errors
    /// A setback `InventoryFull` beyond [`LARGEST_INVENTORY`]; then nothing is entered.
    pub fn enter(&mut self, cluster_identity: &str, entries: Vec<Entry>) -> Result<bool, Setback> {
        let place: std::collections::HashMap<ObjectRef, usize> = self
            .inventory
            .iter()
            .enumerate()
            .map(|(at, entry)| (entry.object.clone(), at))
            .collect();
        let fresh = entries
            .iter()
            .filter(|entry| !place.contains_key(&entry.object))
            .count();
        if self.inventory.len() + fresh > LARGEST_INVENTORY {
            return Err(Setback::new(
                Class::UserFix,
                "InventoryFull",
                format!("a step may own {LARGEST_INVENTORY} objects; divide it into several"),
            ));
        }
        let mut changed = false;
        if self.receipt.cluster_identity.is_empty() {
            self.receipt.cluster_identity = cluster_identity.to_owned();
            changed = true;
        }
        for entry in entries {
            match place.get(&entry.object).and_then(|at| self.inventory.get_mut(*at)) {
                Some(known) if *known == entry => {}
                Some(known) => {
                    *known = entry;
                    changed = true;
                }
                None => {
                    self.inventory.push(entry);
                    changed = true;
                }
            }
        }
        Ok(changed)
    }

    /// Notes what became known of an object; its wave stays.
    pub fn observe(&mut self, entry: Entry) {
        match self.inventory.iter_mut().find(|known| known.object == entry.object) {
            Some(known) => {
                *known = Entry {
                    wave: known.wave,
                    ..entry
                }
            }
            None => self.inventory.push(entry),
        }
    }

    /// Whether anything may have been written to the cluster under this record.
    pub fn is_used(&self) -> bool {
        !self.receipt.cluster_identity.is_empty() || !self.inventory.is_empty()
    }

    /// A record before the first call.
    pub fn new(step: StepName, receipt: Receipt) -> Self {
        Self {
            step,
            phase: Phase::Provisioning,
            receipt,
            inventory: Vec::new(),
            outputs: None,
            memory: None,
        }
    }
}

fn free_value(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}
