//! Who this process is, and whether another still lives: told by evidence, never by an expired lease.

use std::path::Path;

use chandlery_core::claim::{Instance, Sighting};

/// Who this process is, told from all others by evidence.
#[derive(Debug, Clone)]
pub struct InstanceIdentity {
    own: Instance,
}

impl InstanceIdentity {
    /// In a Pod, from the downward API: `pod` is `namespace/name`.
    pub fn of_pod(pod: &str, uid: &str) -> Self {
        Self {
            own: Instance {
                home: uid.to_owned(),
                process: own_process(),
                pod: pod.to_owned(),
            },
        }
    }

    /// Outside a cluster: by machine and boot.
    pub fn of_process() -> Self {
        Self {
            own: Instance {
                home: format!("{}/{}", machine(), boot()),
                process: own_process(),
                pod: String::new(),
            },
        }
    }

    /// As claims bear it.
    pub fn instance(&self) -> &Instance {
        &self.own
    }

    /// Name of this process where only a text fits, as on a Lease.
    pub fn holder(&self) -> String {
        format!("{}_{}", self.own.home, self.own.process)
    }

    /// Whether the process that called itself so is observed gone. What is not known may live.
    pub fn is_gone(&self, holder: &str) -> bool {
        holder.split_once('_').is_some_and(|(home, process)| {
            let other = Instance {
                home: home.to_owned(),
                process: process.to_owned(),
                pod: self.own.pod.clone(),
            };
            self.sight_here(&other) == Some(Sighting::Gone)
        })
    }

    /// What is known of another instance without asking anybody.
    pub(crate) fn sight_here(&self, other: &Instance) -> Option<Sighting> {
        if other.home == self.own.home {
            // The same Pod, an earlier process: a container is started anew only after it has ended. The same machine: the
            // process table tells.
            let gone = if self.own.pod.is_empty() {
                !process_lives(&other.process)
            } else {
                other.process != self.own.process
            };
            return Some(if gone { Sighting::Gone } else { Sighting::MayLive });
        }
        let same_machine =
            other.pod.is_empty() && self.own.pod.is_empty() && other.home.split('/').next() == Some(&machine());
        // Another boot of this machine.
        same_machine.then_some(Sighting::Gone)
    }
}

fn read_line(path: &str) -> Option<String> {
    std::fs::read_to_string(Path::new(path))
        .ok()
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

fn machine() -> String {
    read_line("/etc/machine-id")
        .or_else(|| read_line("/proc/sys/kernel/hostname"))
        .unwrap_or_else(|| "machine".into())
}

fn boot() -> String {
    read_line("/proc/sys/kernel/random/boot_id").unwrap_or_else(|| "boot".into())
}

/// Process id and start time: a process id alone comes again.
fn own_process() -> String {
    let id = std::process::id();
    format!("{id}:{}", start_time(id).unwrap_or_default())
}

/// Field 22 of `/proc/ID/stat`, in clock ticks since boot.
fn start_time(id: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18).map(str::to_owned)
}

fn process_lives(process: &str) -> bool {
    let Some((id, start)) = process.split_once(':') else {
        return true;
    };
    let Ok(id) = id.parse::<u32>() else { return true };
    start_time(id).is_some_and(|now| now == start)
}

pub(crate) fn describe(instance: &Instance) -> String {
    if instance.pod.is_empty() {
        format!("process {}", instance.process)
    } else {
        format!("pod {}", instance.pod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_one_of_another_start_does_not() {
        let own = own_process();
        assert!(process_lives(&own));
        let (id, _) = own.split_once(':').unwrap();
        assert!(!process_lives(&format!("{id}:1")));
        assert!(process_lives("nonsense"), "what is not understood may live");
    }

    #[test]
    fn an_instance_is_gone_by_evidence_only() {
        let pod = InstanceIdentity::of_pod("ns/a", "uid-a");
        let earlier = Instance {
            process: "1:1".into(),
            ..pod.instance().clone()
        };
        assert_eq!(pod.sight_here(&earlier), Some(Sighting::Gone));
        let other = Instance {
            home: "uid-b".into(),
            process: "1:1".into(),
            pod: "ns/b".into(),
        };
        assert_eq!(pod.sight_here(&other), None, "to be asked of the hub");
        let process = InstanceIdentity::of_process();
        assert_eq!(process.sight_here(process.instance()), Some(Sighting::MayLive));
        let rebooted = Instance {
            home: format!("{}/another-boot", machine()),
            process: "1:1".into(),
            pod: String::new(),
        };
        assert_eq!(process.sight_here(&rebooted), Some(Sighting::Gone));
        let elsewhere = Instance {
            home: "elsewhere/boot".into(),
            process: "1:1".into(),
            pod: String::new(),
        };
        assert_eq!(process.sight_here(&elsewhere), None);
        assert!(!process.is_gone(&process.holder()) && !process.is_gone("nonsense") && !process.is_gone("a_b"));
        assert!(process.is_gone(&format!("{}_1:1", process.instance().home)));
    }
}
