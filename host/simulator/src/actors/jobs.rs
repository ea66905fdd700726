//! The controller of Jobs: makes pods, counts how they ended, and says when it is over. Jobs whose pods have numbers
//! (`completionMode: Indexed`), those with a policy for failures, and those that another controller manages, stay as they are.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::namespaces::merge_conditions;
use super::{CONTROLLER_MANAGER, time_of};
use crate::object;
use crate::options::{DeleteOptions, Propagation};
use crate::store::Key;
use crate::world::World;

/// Holds a pod until its Job has counted it.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";

/// After a failure the next pod waits this long, twice as long after each further one, and at most the other.
const BACK_OFF: SignedDuration = SignedDuration::from_secs(10);
const MAX_BACK_OFF: SignedDuration = SignedDuration::from_secs(600);

/// A pod of a Job.
struct Member {
    key: Key,
    phase: String,
    is_deleting: bool,
    is_tracked: bool,
    is_ready: bool,
    /// When it failed, if it says so.
    failed_at: Option<Timestamp>,
}

/// How many of a Job's pods are how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    active: i64,
    ready: i64,
    terminating: i64,
    succeeded: i64,
    failed: i64,
}

/// Why a Job is to end.
enum End {
    Complete,
    Failed {
        reason: &'static str,
        message: &'static str,
    },
}

impl Member {
    fn is_terminal(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    fn is_active(&self) -> bool {
        !self.is_terminal() && !self.is_deleting
    }
}

impl World {
    pub(super) fn tend_jobs(&mut self) {
        if self.script.jobs.is_empty() {
            return;
        }
        let Some(resource) = self.resource("batch", "jobs").map(|resource| resource.id) else {
            return;
        };
        let keys: Vec<Key> = self.store.list(resource, None).map(|(key, _)| key.clone()).collect();
        for key in keys {
            if self.script.job(&key.namespace, &key.name).is_some() {
                self.tend_job(&key);
            }
        }
        self.release_orphans();
    }

    fn tend_job(&mut self, key: &Key) {
        let Some(stored) = self.store.get(key) else { return };
        let job = stored.document();
        let text = |pointer: &str| job.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let manager = text("/spec/managedBy");
        let has_policy = job.pointer("/spec/podFailurePolicy").is_some();
        if has_policy || text("/spec/completionMode") == "Indexed" || !matches!(manager, "" | JOB_CONTROLLER) {
            return;
        }
        let members = self.members(object::uid(&job));
        if has_condition(&job, "Complete") || has_condition(&job, "Failed") {
            self.let_members_go(&members);
            return self.expire(key, &job);
        }
        let number = |pointer: &str| job.pointer(pointer).and_then(Value::as_i64);
        let waits_for_end = text("/spec/podReplacementPolicy") == "Failed";
        let is_failed = |member: &Member| {
            member.phase == "Failed" || member.is_deleting && !waits_for_end && member.phase != "Succeeded"
        };
        let tracked = |ended: &dyn Fn(&Member) -> bool| -> i64 {
            let ended = members.iter().filter(|member| member.is_tracked && ended(member));
            i64::try_from(ended.count()).unwrap_or(i64::MAX)
        };
        let all = |holds: &dyn Fn(&Member) -> bool| -> i64 {
            i64::try_from(members.iter().filter(|member| holds(member)).count()).unwrap_or(i64::MAX)
        };
        let count = Count {
            active: all(&Member::is_active),
            ready: all(&|member: &Member| member.is_active() && member.is_ready),
            terminating: all(&|member: &Member| member.is_deleting && !member.is_terminal()),
            succeeded: number("/status/succeeded").unwrap_or_default()
                + tracked(&|member: &Member| member.phase == "Succeeded"),
            failed: number("/status/failed").unwrap_or_default() + tracked(&is_failed),
        };
        let is_suspended = job.pointer("/spec/suspend") == Some(&Value::Bool(true));
        let start = time_of(&job, "/status/startTime");
        let end = self.end_of(&job, &count, start);
        let is_deleting = object::is_deleting(&job);
        // First what is counted, then what it was counted from: a pod without its finalizer is counted.
        self.tell_job(key, &count, end.as_ref(), is_suspended, is_deleting);
        let counted: Vec<Member> = members
            .into_iter()
            .filter(|member| member.phase == "Succeeded" || is_failed(member) || !member.is_tracked)
            .collect();
        self.let_members_go(&counted);
        let members = self.members(object::uid(&job));
        let active: Vec<Key> = members
            .iter()
            .filter(|member| member.is_active())
            .map(|member| member.key.clone())
            .collect();
        if is_deleting {
            return;
        }
        if end.is_some() || is_suspended {
            for pod in active {
                self.stop_pod(&pod);
            }
            return;
        }
        self.make_pods(key, &job, &count, &members, waits_for_end);
    }

    /// Whether it is over.
    fn end_of(&mut self, job: &Value, count: &Count, start: Option<Timestamp>) -> Option<End> {
        let number = |pointer: &str| job.pointer(pointer).and_then(Value::as_i64);
        let backoff = number("/spec/backoffLimit").unwrap_or(6);
        if has_condition(job, "FailureTarget") || count.failed > backoff {
            let of_deadline = job
                .pointer("/status/conditions")
                .and_then(Value::as_array)
                .is_some_and(|all| {
                    all.iter()
                        .any(|one| one.get("reason") == Some(&"DeadlineExceeded".into()))
                });
            return Some(if of_deadline {
                deadline_exceeded()
            } else {
                backoff_exceeded()
            });
        }
        if let (Some(seconds), Some(start)) = (number("/spec/activeDeadlineSeconds"), start) {
            let deadline = start
                .saturating_add(SignedDuration::from_secs(seconds))
                .unwrap_or(Timestamp::MAX);
            if self.now >= deadline {
                return Some(deadline_exceeded());
            }
            self.wake_at(deadline);
        }
        let complete = match number("/spec/completions") {
            Some(completions) => count.succeeded >= completions,
            None => count.succeeded > 0 && count.active == 0,
        };
        complete.then_some(End::Complete)
    }

    /// Writes the status of a Job.
    fn tell_job(&mut self, key: &Key, count: &Count, end: Option<&End>, is_suspended: bool, is_deleting: bool) {
        let now = self.timestamp();
        // Nothing of it may run any more before it says that it is over.
        let is_over = count.active == 0 && count.terminating == 0;
        self.act(key, CONTROLLER_MANAGER, "status", |job| {
            let status = object::map_mut(object::map_mut(job).entry("status").or_insert_with(|| json!({})));
            let old = status.get("conditions").cloned();
            let mut conditions = Vec::new();
            let condition = |kind: &str, state: &str, reason: &str, message: &str| json!({"type": kind, "status": state, "reason": reason, "message": message, "lastProbeTime": now});
            let was_suspended = old.as_ref().is_some_and(|old| holds(old, "Suspended"));
            match end {
                _ if is_deleting => {}
                Some(End::Complete) => {
                    let message = "Reached expected number of succeeded pods";
                    conditions.push(condition("SuccessCriteriaMet", "True", "CompletionsReached", message));
                    if is_over {
                        conditions.push(condition("Complete", "True", "CompletionsReached", message));
                        status.insert("completionTime".into(), now.as_str().into());
                    }
                }
                Some(End::Failed { reason, message }) => {
                    conditions.push(condition("FailureTarget", "True", reason, message));
                    if is_over {
                        conditions.push(condition("Failed", "True", reason, message));
                    }
                }
                None if is_suspended => {
                    conditions.push(condition("Suspended", "True", "JobSuspended", "Job suspended"));
                    status.remove("startTime");
                }
                None => {
                    if was_suspended {
                        conditions.push(condition("Suspended", "False", "JobResumed", "Job resumed"));
                    }
                    status.entry("startTime").or_insert_with(|| now.as_str().into());
                }
            }
            if !conditions.is_empty() {
                // What is said already keeps its times.
                conditions.retain(|one| !old.as_ref().is_some_and(|old| says(old, one)));
                let merged = merge_conditions(old.as_ref(), conditions, &now);
                status.insert("conditions".into(), merged);
            }
            put_counts(status, count);
        });
    }

    /// Makes the pods that are missing, and takes away those that are too many.
    fn make_pods(&mut self, key: &Key, job: &Value, count: &Count, members: &[Member], waits_for_end: bool) {
        let number = |pointer: &str| job.pointer(pointer).and_then(Value::as_i64);
        let parallelism = number("/spec/parallelism").unwrap_or(1);
        let mut wanted = match number("/spec/completions") {
            Some(completions) => parallelism.min((completions - count.succeeded).max(0)),
            None if count.succeeded > 0 => count.active,
            None => parallelism,
        };
        let makes_duplicate = self
            .script
            .job(&key.namespace, &key.name)
            .is_some_and(|script| script.outcome == crate::script::Outcome::DuplicatePod);
        let is_new = members.is_empty() && count.succeeded + count.failed == 0;
        let mut there = count.active;
        if waits_for_end {
            there += count.terminating;
        }
        if makes_duplicate {
            if !is_new {
                return;
            }
            wanted += 1;
        }
        if there > wanted {
            let surplus = usize::try_from(there - wanted).unwrap_or_default();
            let active: Vec<Key> = members
                .iter()
                .filter(|member| member.is_active())
                .map(|member| member.key.clone())
                .collect();
            for pod in active.iter().rev().take(surplus) {
                self.stop_pod(pod);
            }
            return;
        }
        if there < wanted
            && let Some(ready) = back_off(members, count.failed)
            && ready > self.now
        {
            return self.wake_at(ready);
        }
        for _ in there..wanted {
            self.make("", "pods", CONTROLLER_MANAGER, pod_of(job));
        }
    }

    fn stop_pod(&mut self, key: &Key) {
        let Some(target) = self.target_of(key) else { return };
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        // What cannot be deleted now is tried again.
        let _ = self.delete_one(&target, &key.name, &options);
    }

    /// Pods that have been counted may go.
    fn let_members_go(&mut self, members: &[Member]) {
        for member in members.iter().filter(|member| member.is_tracked) {
            self.untrack(&member.key);
        }
    }

    fn untrack(&mut self, key: &Key) {
        self.act(key, CONTROLLER_MANAGER, "", |pod| {
            let left = object::finalizers(pod)
                .filter(|finalizer| *finalizer != TRACKING)
                .map(str::to_owned)
                .collect();
            object::set_finalizers(pod, left);
        });
    }

    /// Pods whose Job is gone are counted by nobody.
    fn release_orphans(&mut self) {
        let Some(pods) = self.resource("", "pods").map(|resource| resource.id) else {
            return;
        };
        let keys: Vec<Key> = self.store.list(pods, None).map(|(key, _)| key.clone()).collect();
        for key in keys {
            let pod = self.store.get(&key).map(|stored| stored.document()).unwrap_or_default();
            if object::finalizers(&pod).any(|finalizer| finalizer == TRACKING) && self.job_of(&key, &pod).is_none() {
                self.untrack(&key);
            }
        }
    }

    /// The Job that a pod belongs to, if it is there.
    pub(super) fn job_of(&self, pod_key: &Key, pod: &Value) -> Option<Key> {
        let owner = object::owners(pod).find(|owner| owner.get("controller") == Some(&Value::Bool(true)))?;
        let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        let key = self.key("batch", "jobs", &pod_key.namespace, text("name"))?;
        let stored = self.store.get(&key)?;
        (text("kind") == "Job" && stored.uid == text("uid")).then_some(key)
    }

    /// The pods of a Job, the oldest first as far as that is known.
    fn members(&self, uid: &str) -> Vec<Member> {
        let Some(pods) = self.resource("", "pods").map(|resource| resource.id) else {
            return Vec::new();
        };
        let mut members: Vec<(Option<Timestamp>, Member)> = self
            .store
            .dependents_of(uid)
            .into_iter()
            .filter(|key| key.resource == pods)
            .filter_map(|key| {
                let stored = self.store.get(&key)?;
                let pod = stored.document();
                let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
                let phase = text("/status/phase").to_owned();
                let failed_at = time_of(&pod, "/status/containerStatuses/0/state/terminated/finishedAt");
                let member = Member {
                    failed_at: failed_at.filter(|_| phase == "Failed"),
                    phase,
                    is_deleting: stored.deleting,
                    is_tracked: object::finalizers(&pod).any(|finalizer| finalizer == TRACKING),
                    is_ready: has_condition(&pod, "Ready"),
                    key,
                };
                Some((time_of(&pod, "/metadata/creationTimestamp"), member))
            })
            .collect();
        members.sort_by_key(|(created, _)| *created);
        members.into_iter().map(|(_, member)| member).collect()
    }

    /// A Job that has ended goes when its time is over.
    fn expire(&mut self, key: &Key, job: &Value) {
        let ttl = job.pointer("/spec/ttlSecondsAfterFinished").and_then(Value::as_i64);
        let ended = job
            .pointer("/status/conditions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter(|one| matches!(one.get("type").and_then(Value::as_str), Some("Complete" | "Failed")))
            .find_map(|one| time_of(one, "/lastTransitionTime"));
        let (Some(seconds), Some(ended), false) = (ttl, ended, object::is_deleting(job)) else {
            return;
        };
        let expires = ended
            .saturating_add(SignedDuration::from_secs(seconds))
            .unwrap_or(Timestamp::MAX);
        if self.now < expires {
            return self.wake_at(expires);
        }
        let Some(target) = self.target_of(key) else { return };
        let options = DeleteOptions {
            uid: Some(object::uid(job).to_owned()),
            propagation: Some(Propagation::Foreground),
            ..DeleteOptions::default()
        };
        // As above.
        let _ = self.delete_one(&target, &key.name, &options);
    }
}

fn deadline_exceeded() -> End {
    End::Failed {
        reason: "DeadlineExceeded",
        message: "Job was active longer than specified deadline",
    }
}

fn backoff_exceeded() -> End {
    End::Failed {
        reason: "BackoffLimitExceeded",
        message: "Job has reached the specified backoff limit",
    }
}

/// When the next pod may be made after those that failed.
fn back_off(members: &[Member], failed: i64) -> Option<Timestamp> {
    let last = members.iter().filter_map(|member| member.failed_at).max()?;
    let doublings = u32::try_from(failed - 1).unwrap_or_default().min(16);
    let wait = BACK_OFF
        .checked_mul(1 << doublings)
        .unwrap_or(MAX_BACK_OFF)
        .min(MAX_BACK_OFF);
    last.saturating_add(wait).ok()
}

/// A pod as the template of a Job has it.
fn pod_of(job: &Value) -> Value {
    let template = job.pointer("/spec/template").cloned().unwrap_or_default();
    let mut metadata: Map<String, Value> = template
        .get("metadata")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter(|(field, _)| matches!(field.as_str(), "labels" | "annotations"))
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect();
    metadata.insert("generateName".into(), format!("{}-", object::name(job)).into());
    metadata.insert("namespace".into(), object::namespace(job).into());
    metadata.insert("finalizers".into(), json!([TRACKING]));
    metadata.insert(
        "ownerReferences".into(),
        json!([{
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": object::name(job),
            "uid": object::uid(job),
            "controller": true,
            "blockOwnerDeletion": true,
        }]),
    );
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec")})
}

fn put_counts(status: &mut Map<String, Value>, count: &Count) {
    for (field, number) in [
        ("active", count.active),
        ("succeeded", count.succeeded),
        ("failed", count.failed),
    ] {
        if number == 0 {
            status.remove(field);
        } else {
            status.insert(field.to_owned(), number.into());
        }
    }
    status.insert("ready".into(), count.ready.into());
    status.insert("terminating".into(), count.terminating.into());
    status.insert("uncountedTerminatedPods".into(), json!({}));
}

fn has_condition(document: &Value, kind: &str) -> bool {
    document
        .pointer("/status/conditions")
        .is_some_and(|conditions| holds(conditions, kind))
}

fn holds(conditions: &Value, kind: &str) -> bool {
    conditions.as_array().is_some_and(|all| {
        all.iter()
            .any(|one| one.get("type") == Some(&kind.into()) && one.get("status") == Some(&"True".into()))
    })
}

/// Whether the same is said already.
fn says(conditions: &Value, wanted: &Value) -> bool {
    conditions.as_array().is_some_and(|all| {
        all.iter().any(|one| {
            ["type", "status", "reason"]
                .iter()
                .all(|field| one.get(*field) == wanted.get(*field))
        })
    })
}
