//! A tenant of a world: a namespace of a random name, on the hub and on the remotes.

use serde_json::{Value, json};
use xtask::inventory::{Difference, Inventory};

use crate::cluster::{Cluster, at};
use crate::seen::Seen;
use crate::wait::{DEADLINE, wait_for};
use crate::world::World;

const OURS: &str = "chandlery.dev/v1alpha1";

/// One tenant.
pub struct Team<'w> {
    /// Its world.
    pub world: &'w World,
    /// Its namespace, of the same name everywhere; no other team's name contains it.
    pub name: String,
}

impl<'w> Team<'w> {
    /// A new tenant with its namespace on the hub.
    pub fn new(world: &'w World) -> Self {
        let name = format!("team-{:08x}", rand::random::<u32>());
        let team = Self { world, name };
        team.space(&world.hub);
        team
    }

    /// The same with a RemoteCluster and a namespace on each of the remotes.
    pub fn on(world: &'w World, remotes: &[&str]) -> Self {
        let team = Self::new(world);
        for name in remotes {
            let cluster = world.remote(name);
            team.space(cluster);
            team.remote(name, &cluster.guest_kubeconfig());
        }
        team
    }

    /// Makes its namespace in a cluster.
    pub fn space(&self, cluster: &Cluster) {
        cluster.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}}));
    }

    /// Makes a RemoteCluster of a kubeconfig.
    pub fn remote(&self, name: &str, kubeconfig: &str) {
        self.secret(name, kubeconfig);
        self.remote_of(name, json!({"source": {"secretRef": {"name": name}}}));
    }

    /// Makes a Secret as Cluster API writes it.
    pub fn secret(&self, name: &str, kubeconfig: &str) {
        self.world.hub.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": self.metadata(name), "stringData": {"value": kubeconfig},
        }));
    }

    /// Makes a RemoteCluster.
    pub fn remote_of(&self, name: &str, spec: Value) {
        self.world.hub.apply(
            &json!({"apiVersion": OURS, "kind": "RemoteCluster", "metadata": self.metadata(name), "spec": spec}),
        );
    }

    /// A RemoteCluster as it is now.
    pub fn seen_remote(&self, name: &str) -> Seen {
        Seen(
            self.world
                .hub
                .get(&at(OURS, "RemoteCluster", &self.named(name)))
                .unwrap_or_default(),
        )
    }

    /// `namespace/name`.
    pub fn named(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }

    /// Metadata of an object in the namespace.
    pub fn metadata(&self, name: &str) -> Value {
        json!({"name": name, "namespace": self.name})
    }

    /// A ConfigMap of the namespace.
    pub fn config_map(&self, name: &str, word: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": self.metadata(name), "data": {"word": word}})
    }

    /// A ConfigMap of the namespace as a cluster has it.
    pub fn find(&self, cluster: &Cluster, name: &str) -> Option<Value> {
        cluster.get(&at("v1", "ConfigMap", &self.named(name)))
    }

    /// Makes or changes a Provision whose remotes are RemoteClusters of the same names.
    pub fn provision(&self, name: &str, remotes: &[&str], steps: Value) {
        self.provision_of(name, remotes, steps, json!({}));
    }

    /// The same with more in its spec.
    pub fn provision_of(&self, name: &str, remotes: &[&str], steps: Value, more: Value) {
        self.world.hub.apply(&self.provision_object(name, remotes, steps, more));
    }

    /// The object that [`Team::provision_of`] applies.
    pub fn provision_object(&self, name: &str, remotes: &[&str], steps: Value, more: Value) -> Value {
        let remotes: Vec<_> = remotes
            .iter()
            .map(|remote| json!({"name": remote, "ref": remote}))
            .collect();
        let mut spec = json!({"remotes": remotes, "steps": steps});
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().cloned().unwrap_or_default());
        json!({"apiVersion": OURS, "kind": "Provision", "metadata": self.metadata(name), "spec": spec})
    }

    /// A Provision as it is now, if it is there.
    pub fn seen(&self, name: &str) -> Option<Seen> {
        self.world.hub.get(&at(OURS, "Provision", &self.named(name))).map(Seen)
    }

    /// Waits until a Provision is as wanted; tells all that is known of it if it never is.
    pub fn until(&self, name: &str, what: &str, is: impl Fn(&Seen) -> bool) -> Seen {
        let answer = wait_for(|| match self.seen(name) {
            Some(seen) if is(&seen) => Ok(seen),
            other => Err(other),
        });
        answer.unwrap_or_else(|last| {
            let told = self.world.told_of(&self.name);
            panic!(
                "not within {} s: Provision {name} {what}\n{last:?}\n{told}",
                DEADLINE.as_secs()
            )
        })
    }

    /// Waits until a Provision is done with the spec that is there now.
    pub fn until_ready(&self, name: &str) -> Seen {
        self.until(name, "is ready", Seen::is_ready)
    }

    /// Waits until a Provision's `Ready` has this reason, for the spec that is there now.
    pub fn until_reason(&self, name: &str, reason: &str) -> Seen {
        self.until(name, &format!("says {reason}"), |seen| {
            seen.reason() == reason && seen.is_current()
        })
    }

    /// Waits until a Provision is gone.
    pub fn until_gone(&self, name: &str) {
        wait_for(|| self.seen(name).map_or(Ok(()), Err)).unwrap_or_else(|last| {
            let told = self.world.told_of(&self.name);
            panic!(
                "not within {} s: Provision {name} is gone\n{last:?}\n{told}",
                DEADLINE.as_secs()
            )
        });
    }

    /// Asks for the deletion of a Provision.
    pub fn delete(&self, name: &str) {
        self.world.hub.delete(&at(OURS, "Provision", &self.named(name)));
    }

    /// Deletes a Provision and waits until it is gone, with all that the host kept of it.
    pub fn remove(&self, name: &str) {
        self.delete(name);
        self.until_gone(name);
        assert_eq!(
            self.kept(name),
            Vec::<Value>::new(),
            "the host keeps nothing of what is gone"
        );
    }

    /// All records and claims that the host keeps of Provisions of a name.
    pub fn kept(&self, name: &str) -> Vec<Value> {
        let of = |kind: &str, holder: &'static str| {
            let all = self.world.hub.list(OURS, kind, &self.name).into_iter();
            all.filter(move |object| object.pointer(holder).and_then(Value::as_str) == Some(name))
        };
        of("StepRecord", "/spec/provision/name")
            .chain(of("RemoteClaim", "/spec/holder/name"))
            .collect()
    }

    /// That another Provision comes, changes and goes on a remote, whatever else is wrong meanwhile.
    pub fn assert_others_go_on(&self, remote: &str) {
        let name = format!("healthy-{:04x}", rand::random::<u16>());
        let step =
            |word: &str| json!([{"name": "config", "cluster": remote, "objects": [self.config_map(&name, word)]}]);
        self.provision(&name, &[remote], step("first"));
        self.until_ready(&name);
        self.provision(&name, &[remote], step("second"));
        self.until_ready(&name);
        let found = self.find(self.world.remote(remote), &name).unwrap();
        assert_eq!(found["data"]["word"], "second");
        self.delete(&name);
        self.until_gone(&name);
        assert!(self.find(self.world.remote(remote), &name).is_none());
    }

    /// What differs between two inventories of a cluster, but for what other teams did meanwhile.
    pub fn difference(&self, before: &Inventory, after: &Inventory) -> Difference {
        let mine = |inventory: &Inventory| {
            let mut inventory = inventory.clone();
            inventory.place_to_object.retain(|place, object| {
                let told = format!("{place} {}", object.content);
                !told.contains("team-") || told.contains(&self.name)
            });
            inventory
        };
        mine(before).compare(&mine(after))
    }
}
