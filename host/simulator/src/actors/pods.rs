//! A node without a machine: pods of scripted Jobs start at once, run as long as their script says, and end as it says.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::namespaces::merge_conditions;
use super::time_of;
use crate::object;
use crate::options::{DeleteOptions, Propagation};
use crate::script::{JobScript, Outcome};
use crate::store::Key;
use crate::world::World;

/// The name of the node.
const NODE: &str = "simulated";
const ADDRESS: &str = "127.0.0.1";
const KUBELET: &str = "kubelet";

impl World {
    pub(super) fn run_pods(&mut self) {
        if self.script.jobs.is_empty() {
            return;
        }
        let Some(pods) = self.resource("", "pods").map(|resource| resource.id) else {
            return;
        };
        let keys: Vec<Key> = self.store.list(pods, None).map(|(key, _)| key.clone()).collect();
        for key in keys {
            let pod = self.store.get(&key).map(|stored| stored.document()).unwrap_or_default();
            if let Some((script, job_uid)) = self.script_of(&key, &pod) {
                self.run_pod(&key, &pod, &script, &job_uid);
            }
        }
    }

    /// The script of the Job that made a pod, also if the Job is gone, and that Job's UID.
    fn script_of(&self, key: &Key, pod: &Value) -> Option<(JobScript, String)> {
        let is_ours = pod.pointer("/spec/nodeName").and_then(Value::as_str) == Some(NODE);
        let owner = object::owners(pod).find(|owner| owner.get("kind") == Some(&"Job".into()));
        let label = pod
            .pointer("/metadata/labels")
            .and_then(|labels| labels.get("batch.kubernetes.io/job-name"));
        let name = owner
            .and_then(|owner| owner.get("name"))
            .or_else(|| label.filter(|_| is_ours))?
            .as_str()?;
        let uid = owner.and_then(|owner| owner.get("uid")).and_then(Value::as_str);
        let script = self.script.job(&key.namespace, name)?.clone();
        Some((script, uid.unwrap_or_default().to_owned()))
    }

    fn run_pod(&mut self, key: &Key, pod: &Value, script: &JobScript, job_uid: &str) {
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let is_deleting = object::is_deleting(pod);
        let phase = text("/status/phase").to_owned();
        if text("/spec/nodeName").is_empty() {
            let is_gated = pod
                .pointer("/spec/schedulingGates")
                .and_then(Value::as_array)
                .is_some_and(|gates| !gates.is_empty());
            if !is_deleting && !is_gated {
                self.bind(key);
            }
            return;
        }
        match phase.as_str() {
            "Succeeded" | "Failed" if is_deleting => self.let_pod_go(key, pod),
            "Succeeded" | "Failed" => {}
            _ if is_deleting => self.stop(key, pod, script.outcome),
            "Running" => {
                let start = time_of(pod, "/status/startTime").unwrap_or(self.now);
                let due = start.saturating_add(script.runs).unwrap_or(Timestamp::MAX);
                if script.outcome == Outcome::Hang {
                    return;
                }
                if self.now < due {
                    return self.wake_at(due);
                }
                self.finish(key, script.outcome, job_uid);
            }
            _ => self.start(key, pod),
        }
    }

    /// As the scheduler binds it: nobody is named in the managed fields for it.
    fn bind(&mut self, key: &Key) {
        let Some(stored) = self.store.get(key) else { return };
        let mut pod = stored.document();
        let now = self.timestamp();
        let spec = object::map_mut(object::map_mut(&mut pod).entry("spec").or_insert_with(|| json!({})));
        spec.insert("nodeName".into(), NODE.into());
        let status = object::map_mut(object::map_mut(&mut pod).entry("status").or_insert_with(|| json!({})));
        let scheduled = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null});
        let old = status.get("conditions").cloned();
        status.insert(
            "conditions".into(),
            merge_conditions(old.as_ref(), vec![scheduled], &now),
        );
        self.write(key.clone(), pod);
    }

    fn start(&mut self, key: &Key, pod: &Value) {
        let now = self.timestamp();
        let statuses: Vec<Value> = containers(pod)
            .map(|(name, image)| {
                json!({
                    "name": name,
                    "image": image,
                    "imageID": image,
                    "containerID": format!("simulated://{name}"),
                    "lastState": {},
                    "ready": true,
                    "restartCount": 0,
                    "started": true,
                    "state": {"running": {"startedAt": now}},
                })
            })
            .collect();
        self.tell_pod(key, "Running", "True", None, statuses);
    }

    fn finish(&mut self, key: &Key, outcome: Outcome, job_uid: &str) {
        let is_first = !self.pending.replaced.contains_key(job_uid);
        match outcome {
            Outcome::Fail => self.exit(key, 1),
            Outcome::ReplacedPod if is_first => {
                self.pending.replaced.insert(job_uid.to_owned(), ());
                if let Some(target) = self.target_of(key) {
                    // One that is gone already needs no deletion.
                    let _ = self.delete_one(&target, &key.name, &DeleteOptions::default());
                }
            }
            _ => self.exit(key, 0),
        }
    }

    /// A pod that is deleted is stopped first; one that does not listen, when its time is over.
    fn stop(&mut self, key: &Key, pod: &Value, outcome: Outcome) {
        let killed = time_of(pod, "/metadata/deletionTimestamp").filter(|_| outcome == Outcome::Hang);
        match killed.filter(|killed| self.now < *killed) {
            Some(killed) => self.wake_at(killed),
            None if outcome == Outcome::Hang => self.exit(key, 137),
            None => self.exit(key, 143),
        }
    }

    /// What a node deletes for good when nothing of it runs any more.
    fn let_pod_go(&mut self, key: &Key, pod: &Value) {
        let grace = pod
            .pointer("/metadata/deletionGracePeriodSeconds")
            .and_then(Value::as_i64);
        if grace == Some(0) {
            return;
        }
        let Some(target) = self.target_of(key) else { return };
        let options = DeleteOptions {
            uid: Some(object::uid(pod).to_owned()),
            grace: Some(0),
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        // One that is gone already needs no deletion.
        let _ = self.delete_one(&target, &key.name, &options);
    }

    fn exit(&mut self, key: &Key, code: i64) {
        let now = self.timestamp();
        let pod = self.store.get(key).map(|stored| stored.document()).unwrap_or_default();
        let mut statuses: Vec<Value> = pod
            .pointer("/status/containerStatuses")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        for status in &mut statuses {
            let id = status.get("containerID").cloned();
            let started = status.pointer("/state/running/startedAt").cloned();
            let status = object::map_mut(status);
            status.insert("ready".into(), false.into());
            status.insert("started".into(), false.into());
            status.insert(
                "state".into(),
                json!({"terminated": {
                    "exitCode": code,
                    "reason": if code == 0 { "Completed" } else { "Error" },
                    "startedAt": started,
                    "finishedAt": now,
                    "containerID": id,
                }}),
            );
        }
        let (phase, reason) = if code == 0 {
            ("Succeeded", "PodCompleted")
        } else {
            ("Failed", "PodFailed")
        };
        self.tell_pod(key, phase, "False", Some(reason), statuses);
    }

    fn tell_pod(&mut self, key: &Key, phase: &str, ready: &str, reason: Option<&str>, statuses: Vec<Value>) {
        let now = self.timestamp();
        self.act(key, KUBELET, "status", |pod| {
            let generation = object::metadata(pod).get("generation").cloned();
            let status = object::map_mut(object::map_mut(pod).entry("status").or_insert_with(|| json!({})));
            let condition = |kind: &str, state: &str, reason: Option<&str>| {
                let mut condition =
                    json!({"type": kind, "status": state, "lastProbeTime": null, "observedGeneration": generation});
                if let Some(reason) = reason {
                    object::map_mut(&mut condition).insert("reason".into(), reason.into());
                }
                condition
            };
            let running = if phase == "Running" { "True" } else { "False" };
            let initialized = reason.filter(|reason| *reason == "PodCompleted");
            let conditions = vec![
                condition("PodReadyToStartContainers", running, None),
                condition("Initialized", "True", initialized),
                condition("Ready", ready, reason),
                condition("ContainersReady", ready, reason),
                condition("PodScheduled", "True", None),
            ];
            let old = status.get("conditions").cloned();
            status.insert("conditions".into(), merge_conditions(old.as_ref(), conditions, &now));
            status.insert("phase".into(), phase.into());
            status.insert("hostIP".into(), ADDRESS.into());
            status.insert("hostIPs".into(), json!([{"ip": ADDRESS}]));
            status.entry("startTime").or_insert_with(|| now.as_str().into());
            status.insert("containerStatuses".into(), Value::Array(statuses));
        });
    }
}

fn containers(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    pod.pointer("/spec/containers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|container| {
            let text = |field: &str| container.get(field).and_then(Value::as_str).unwrap_or_default();
            (text("name"), text("image"))
        })
}
