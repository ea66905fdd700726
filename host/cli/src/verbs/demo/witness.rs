//! All that is in a cluster, by an independent look: every kind that can be listed, by UID and content. Left out are what the
//! API server counts with (versions, managed fields), Events and Leases.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kube::Client;
use serde_json::Value;

/// What controllers do a moment after a deletion.
const PATIENCE: Duration = Duration::from_secs(20);
/// There is no event for "all is as it was": everything is listed again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Place (resource, namespace and name) to UID and content.
pub(super) struct Inventory(BTreeMap<String, String>);

impl Inventory {
    pub(super) async fn take(client: &Client) -> anyhow::Result<Self> {
        let mut objects = BTreeMap::new();
        for path in collections(client).await? {
            let list = get(client, &path).await?;
            for mut item in list.get("items").and_then(Value::as_array).cloned().unwrap_or_default() {
                let text = |key: &str| item.pointer(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                let place = format!("{path} {}/{}", text("/metadata/namespace"), text("/metadata/name"));
                if let Some(metadata) = item.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.remove("resourceVersion");
                    metadata.remove("managedFields");
                }
                objects.insert(place, item.to_string());
            }
        }
        Ok(Self(objects))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Waits until all is as it was; what still differs in the end, a line each.
    pub(super) async fn until_again(&self, client: &Client) -> anyhow::Result<Vec<String>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = Self::take(client).await;
            let differing = match &now {
                Ok(now) => self.differing(now),
                // A kind whose definition is just going cannot be listed.
                Err(error) if Instant::now() < deadline => vec![error.to_string()],
                Err(_) => return now.map(|_| Vec::new()),
            };
            if differing.is_empty() || Instant::now() > deadline {
                return Ok(differing);
            }
            tokio::time::sleep(ASK_AGAIN_AFTER).await;
        }
    }

    fn differing(&self, now: &Self) -> Vec<String> {
        let gone = self
            .0
            .keys()
            .filter(|place| !now.0.contains_key(*place))
            .map(|place| format!("- {place}"));
        let other = now.0.iter().filter_map(|(place, object)| match self.0.get(place) {
            None => Some(format!("+ {place}")),
            Some(before) if before != object => Some(format!("~ {place}")),
            Some(_) => None,
        });
        gone.chain(other).collect()
    }
}

/// Paths of all that can be listed, over all namespaces.
async fn collections(client: &Client) -> anyhow::Result<Vec<String>> {
    let mut roots = vec!["/api/v1".to_owned()];
    for group in get(client, "/apis")
        .await?
        .get("groups")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if let Some(version) = group.pointer("/preferredVersion/groupVersion").and_then(Value::as_str) {
            roots.push(format!("/apis/{version}"));
        }
    }
    let mut paths = Vec::new();
    for root in roots {
        let answer = get(client, &root).await?;
        for resource in answer.get("resources").and_then(Value::as_array).into_iter().flatten() {
            let name = resource.get("name").and_then(Value::as_str).unwrap_or_default();
            let verbs = resource.get("verbs").and_then(Value::as_array);
            let listed = verbs.is_some_and(|verbs| verbs.iter().any(|verb| verb == "list"));
            // Component statuses are what an API server sees of its neighbours.
            let left_out = ["events", "leases", "componentstatuses"].contains(&name);
            if listed && !name.contains('/') && !left_out {
                paths.push(format!("{root}/{name}"));
            }
        }
    }
    Ok(paths)
}

async fn get(client: &Client, path: &str) -> anyhow::Result<Value> {
    Ok(client.request(http::Request::get(path).body(Vec::new())?).await?)
}
