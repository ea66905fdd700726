//! What became of each object, and what the whole comes to: a person's work first, then a retry, then a wait.

use std::time::Duration;

use chandlery_plugin::prelude::*;

use crate::plan::Item;

/// How many objects a message names before it counts the rest.
const NAMED: usize = 5;

#[derive(Default)]
pub(crate) struct Report<'a> {
    refused: Vec<(&'a Item, CallError)>,
    delayed: Vec<(&'a Item, CallError)>,
    missing: Vec<(&'a Item, String)>,
    /// Definitions of this spec whose kinds are not served yet, and why.
    unserved: Vec<(&'a Item, String)>,
    waiting: Vec<&'a Item>,
}

impl<'a> Report<'a> {
    /// Takes down what became of one object.
    ///
    /// # Errors
    /// Where nothing more can be done in this call.
    pub(crate) fn note(&mut self, item: &'a Item, result: Result<(), CallError>) -> Result<()> {
        match result {
            Ok(()) => {}
            Err(error @ CallError::Fenced) => return Err(error.into()),
            Err(CallError::Exhausted(text)) => {
                return Err(CallError::Exhausted(format!("{}: {text}", item.name)).into());
            }
            Err(error @ (CallError::Denied(_) | CallError::Invalid(_))) => self.refused.push((item, error)),
            Err(CallError::NotFound(text)) => self.missing.push((item, text)),
            Err(error) => self.delayed.push((item, error)),
        }
        Ok(())
    }

    /// The definition is applied, or was refused; its kinds are not to be had yet.
    pub(crate) fn not_served(&mut self, definition: &'a Item, why: String) {
        self.unserved.push((definition, why));
    }

    /// The definition that this object needs and that is not served yet, and why not.
    pub(crate) fn defining(&self, item: &Item) -> Option<&(&'a Item, String)> {
        let kind = (item.name.group(), item.name.kind.as_str());
        self.unserved
            .iter()
            .find(|(definition, _)| definition.defines() == Some(kind))
    }

    /// The object was left out for now.
    pub(crate) fn waits_for_definition(&mut self, item: &'a Item) {
        self.waiting.push(item);
    }

    /// What the call comes to, if not all objects could be applied.
    ///
    /// `round`: how often the step has waited in a row.
    pub(crate) fn outcome(self, round: u32) -> Option<Result<Outcome>> {
        if let Some(failure) = refusal(&self.refused).or_else(|| delay(&self.delayed)) {
            return Some(Err(failure));
        }
        if !self.missing.is_empty() {
            return Some(self.wait_for_missing(round));
        }
        if !self.waiting.is_empty() {
            return Some(self.wait_for_definitions(round));
        }
        None
    }

    fn wait_for_missing(&self, round: u32) -> Result<Outcome> {
        let message = sentence(self.missing.iter().map(|(item, text)| format!("{}: {text}", item.name)));
        let mut namespaces: Vec<_> = self
            .missing
            .iter()
            .filter_map(|(item, _)| item.name.namespace.as_deref())
            .collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        let watched = namespaces
            .into_iter()
            .map(|namespace| object_ref("v1", "Namespace", None, namespace));
        let wait = Outcome::wait("WaitingForDependency", message).watch_all(watched.chain(self.unserved_names()));
        wait.after(patience(round)).into()
    }

    fn wait_for_definitions(&self, round: u32) -> Result<Outcome> {
        let line = |item: &&Item| match self.defining(item) {
            Some((definition, why)) => format!("{} waits for {}: {why}", item.name, definition.name),
            None => item.name.to_string(),
        };
        let wait = Outcome::wait("WaitingForKind", sentence(self.waiting.iter().map(line)));
        wait.watch_all(self.unserved_names()).after(patience(round)).into()
    }

    fn unserved_names(&self) -> impl Iterator<Item = ObjectRef> {
        self.unserved.iter().map(|(definition, _)| definition.name.clone())
    }
}

/// Not all that is waited for can be watched: a kind is served some time after its definition says so. 1 s, 2 s, … 32 s.
fn patience(round: u32) -> Duration {
    Duration::from_secs(1 << round.min(5))
}

/// What a person must change. A spec that must change is `invalid`, with places in it; if the grant or RBAC must, `denied`.
fn refusal(refused: &[(&Item, CallError)]) -> Option<Failure> {
    if refused.is_empty() {
        return None;
    }
    let problems = |(item, error): &(&Item, CallError)| match error {
        CallError::Invalid(problems) => problems
            .iter()
            .map(|problem| {
                Problem::new(
                    format!("{}{}", item.path, problem.path),
                    format!("{}: {}", item.name, problem.message),
                )
            })
            .collect(),
        error => vec![Problem::new(&item.path, format!("{}: {}", item.name, error.text()))],
    };
    if refused.iter().all(|(_, error)| matches!(error, CallError::Invalid(_))) {
        return Some(Failure::Invalid(refused.iter().flat_map(problems).collect()));
    }
    let lines = refused
        .iter()
        .flat_map(problems)
        .map(|problem| format!("{} ({})", problem.message, problem.path));
    Some(Failure::Call(CallError::Denied(sentence(lines))))
}

/// What may pass by itself; a conflict before all others, because it seldom does.
fn delay(delayed: &[(&Item, CallError)]) -> Option<Failure> {
    let is_conflict = |error: &CallError| matches!(error, CallError::Conflict(_));
    let conflicts: Vec<_> = delayed.iter().filter(|(_, error)| is_conflict(error)).collect();
    let (chosen, case): (Vec<_>, fn(String) -> CallError) = match (conflicts.is_empty(), delayed.is_empty()) {
        (_, true) => return None,
        (false, _) => (conflicts, CallError::Conflict),
        (true, _) => (delayed.iter().collect(), CallError::Unavailable),
    };
    let lines = chosen
        .into_iter()
        .map(|(item, error)| format!("{}: {}", item.name, error.text()));
    Some(Failure::Call(case(sentence(lines))))
}

/// The first few lines as one sentence.
pub(crate) fn sentence(lines: impl IntoIterator<Item = String>) -> String {
    let lines: Vec<String> = lines.into_iter().collect();
    let mut text = lines
        .iter()
        .take(NAMED)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join("; ");
    if lines.len() > NAMED {
        text.push_str(&format!("; and {} more", lines.len() - NAMED));
    }
    text
}
