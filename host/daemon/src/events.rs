//! Kubernetes events for changes of state, told once per change.

use kube::Resource;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

/// Tells changes of state.
pub(crate) struct Teller(Recorder);

impl Teller {
    pub(crate) fn new(client: kube::Client) -> Self {
        Self(Recorder::new(
            client,
            Reporter {
                controller: "chandlery".into(),
                instance: None,
            },
        ))
    }

    /// Tells of an object; that it could not be told holds nothing up.
    pub(crate) async fn tell<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        good: bool,
        reason: &str,
        message: &str,
    ) {
        let event = Event {
            type_: if good { EventType::Normal } else { EventType::Warning },
            reason: reason.chars().take(128).collect(),
            note: Some(message.chars().take(1000).collect::<String>()).filter(|text| !text.is_empty()),
            action: "Reconcile".into(),
            secondary: None,
        };
        if let Err(error) = self.0.publish(&event, &object.object_ref(&())).await {
            tracing::debug!(%error, "an event could not be told");
        }
    }
}
