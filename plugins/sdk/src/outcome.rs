//! What a call ends in, built step by step.

use serde::Serialize;

use crate::bindings::exports::chandlery::provision::provisioner::{Done, Wait};
use crate::{Failure, Json, ObjectRef, Outcome, Result};

impl Outcome {
    /// The task is done. What a `done` call has not applied or created is taken away from what earlier calls did.
    pub fn done() -> DoneBuilder {
        DoneBuilder::default()
    }

    /// Not done yet: a normal answer, not an error. `reason` is one CamelCase word, `message` one sentence that says what
    /// is waited for.
    pub fn wait(reason: impl Into<String>, message: impl Into<String>) -> WaitBuilder {
        WaitBuilder {
            wait: Wait {
                reason: reason.into(),
                message: message.into(),
                watch: Vec::new(),
                after: None,
                memory: None,
            },
            unwritable: None,
        }
    }
}

/// Builds a `done`; ends in `.into()`.
#[derive(Default)]
#[must_use = "an outcome is answered by `.into()`"]
pub struct DoneBuilder {
    outputs: Option<Json>,
    memory: Option<String>,
    watch: Vec<ObjectRef>,
    unwritable: Option<String>,
}

impl DoneBuilder {
    /// Adds one output. No secrets; all outputs together at most 16 KiB.
    pub fn output(mut self, name: &str, value: impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(value) => match &mut self.outputs {
                Some(Json::Object(outputs)) => drop(outputs.insert(name.to_owned(), value)),
                other => *other = Some(Json::Object([(name.to_owned(), value)].into_iter().collect())),
            },
            Err(error) => self.unwritable = Some(format!("output {name}: {error}")),
        }
        self
    }

    /// Sets all outputs at once, in place of those added before.
    pub fn outputs(mut self, outputs: impl Serialize) -> Self {
        match serde_json::to_value(outputs) {
            Ok(outputs) => self.outputs = Some(outputs),
            Err(error) => self.unwritable = Some(format!("outputs: {error}")),
        }
        self
    }

    /// Keeps a small hint for the next call: it may be lost, so it must be possible to go on without. At most 16 KiB.
    pub fn memory(mut self, memory: impl Serialize) -> Self {
        remember(&mut self.memory, &mut self.unwritable, memory);
        self
    }

    /// Asks to be called again when this object changes. What the call applied or created is watched anyway.
    pub fn watch(mut self, target: impl Into<ObjectRef>) -> Self {
        self.watch.push(target.into());
        self
    }
}

/// Builds a `yield`; ends in `.into()`.
#[must_use = "an outcome is answered by `.into()`"]
pub struct WaitBuilder {
    wait: Wait,
    unwritable: Option<String>,
}

impl WaitBuilder {
    /// Asks to be called again when this object changes, counted from when this call last read or wrote it.
    pub fn watch(mut self, target: impl Into<ObjectRef>) -> Self {
        self.wait.watch.push(target.into());
        self
    }

    /// Asks to be called again when one of these changes. Beyond 64 the host polls.
    pub fn watch_all(mut self, targets: impl IntoIterator<Item = ObjectRef>) -> Self {
        self.wait.watch.extend(targets);
        self
    }

    /// Asks to be called again after this long at the latest; in whole milliseconds.
    pub fn after(mut self, delay: std::time::Duration) -> Self {
        self.wait.after = Some(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Keeps a small hint for the next call, as [`DoneBuilder::memory`].
    pub fn memory(mut self, memory: impl Serialize) -> Self {
        remember(&mut self.wait.memory, &mut self.unwritable, memory);
        self
    }
}

fn remember(slot: &mut Option<String>, unwritable: &mut Option<String>, memory: impl Serialize) {
    match serde_json::to_string(&memory) {
        Ok(text) => *slot = Some(text),
        Err(error) => *unwritable = Some(format!("memory: {error}")),
    }
}

impl From<DoneBuilder> for Result<Outcome> {
    fn from(built: DoneBuilder) -> Self {
        let DoneBuilder {
            outputs,
            memory,
            watch,
            unwritable,
        } = built;
        match unwritable {
            None => Ok(Outcome::Done(Done {
                outputs: outputs.map(|outputs| outputs.to_string()),
                memory,
                watch,
            })),
            Some(what) => Err(Failure::Terminal(format!("the plugin cannot write as JSON its {what}"))),
        }
    }
}

impl From<WaitBuilder> for Result<Outcome> {
    fn from(built: WaitBuilder) -> Self {
        match built.unwritable {
            None => Ok(Outcome::Yield(built.wait)),
            Some(what) => Err(Failure::Terminal(format!("the plugin cannot write as JSON its {what}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_ref;

    #[test]
    fn outputs_are_collected_into_one_document() {
        let built: Result<Outcome> = Outcome::done().output("a", 1).output("b", "x").memory([1]).into();
        let Ok(Outcome::Done(done)) = built else {
            panic!("{built:?}")
        };
        assert_eq!(done.outputs.as_deref(), Some(r#"{"a":1,"b":"x"}"#));
        assert_eq!(done.memory.as_deref(), Some("[1]"));
    }

    #[test]
    fn a_wait_says_what_and_until_when() {
        let quota = object_ref("v1", "ResourceQuota", "a", "quota");
        let built: Result<Outcome> = Outcome::wait("Counting", "not yet")
            .watch(&quota)
            .after(std::time::Duration::from_secs(2))
            .into();
        let Ok(Outcome::Yield(wait)) = built else {
            panic!("{built:?}")
        };
        assert_eq!((wait.watch, wait.after), (vec![quota], Some(2_000)));
    }

    #[test]
    fn what_json_cannot_say_is_a_failure_and_no_panic() {
        let odd = std::collections::BTreeMap::from([((1, 2), 3)]);
        let built: Result<Outcome> = Outcome::done().output("odd", odd).into();
        assert!(
            matches!(&built, Err(Failure::Terminal(text)) if text.contains("output odd")),
            "{built:?}"
        );
    }
}
