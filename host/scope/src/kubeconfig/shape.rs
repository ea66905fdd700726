//! A kubeconfig as it is written: which entries are meant, and what is in a field. Nothing is judged here, and no value is
//! ever quoted: a token may stand where a name should.

use serde_json::{Map, Value};

use super::KubeconfigError;

/// The entries of the selected context.
pub(super) struct Selected {
    pub(super) context: String,
    pub(super) namespace: Option<String>,
    pub(super) cluster: Fields,
    pub(super) user_name: String,
    pub(super) user: Fields,
}

/// One mapping of the document, and where it is.
pub(super) struct Fields {
    place: String,
    map: Map<String, Value>,
}

impl Fields {
    fn of(value: Value, place: String) -> Result<Self, KubeconfigError> {
        match value {
            Value::Object(map) => Ok(Self { place, map }),
            Value::Null => Ok(Self { place, map: Map::new() }),
            _ => Err(KubeconfigError::Malformed(format!("{place} is not a mapping"))),
        }
    }

    /// A field with a text, `None` where it is absent or empty.
    pub(super) fn text(&self, field: &str) -> Result<Option<&str>, KubeconfigError> {
        match self.map.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(_) => Err(KubeconfigError::Malformed(format!(
                "{}.{field} is not a text; put it in quotes",
                self.place
            ))),
        }
    }

    /// Whether a field says anything at all.
    pub(super) fn says(&self, field: &str) -> bool {
        match self.map.get(field) {
            None | Some(Value::Null) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(list)) => !list.is_empty(),
            Some(Value::Object(map)) => !map.is_empty(),
            Some(_) => true,
        }
    }

    /// A field as it is, `None` where it is null or absent.
    pub(super) fn value(&self, field: &str) -> Option<&Value> {
        self.map.get(field).filter(|value| !value.is_null())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.map.keys().map(String::as_str)
    }

    fn take_list(&mut self, field: &str) -> Result<Vec<Value>, KubeconfigError> {
        match self.map.remove(field) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(list)) => Ok(list),
            Some(_) => Err(KubeconfigError::Malformed(format!("{field} is not a list"))),
        }
    }
}

/// Finds the context that is asked for, or else the current one, with its cluster and user.
pub(super) fn select(document: Value, context: Option<&str>) -> Result<Selected, KubeconfigError> {
    use KubeconfigError as E;
    let mut file = match document {
        Value::Null => return Err(E::Empty),
        Value::Object(_) => Fields::of(document, "the document".into())?,
        _ => {
            let what = "it is not a mapping; if it is base64, it was encoded once too often";
            return Err(E::Malformed(what.into()));
        }
    };
    if let Some(kind) = file.text("kind")?.filter(|kind| *kind != "Config") {
        let kind: String = kind.chars().filter(|c| c.is_ascii_alphanumeric()).take(40).collect();
        return Err(E::Malformed(format!("it is a {kind}, not a kubeconfig")));
    }
    let current = file.text("current-context")?.map(str::to_owned);
    let (clusters, users, contexts) = (
        file.take_list("clusters")?,
        file.take_list("users")?,
        file.take_list("contexts")?,
    );
    if clusters.is_empty() && users.is_empty() && contexts.is_empty() && current.is_none() {
        return Err(E::Empty);
    }
    let there = || contexts.iter().filter_map(name_of).map(str::to_owned).collect();
    let Some(wanted) = context.map(str::to_owned).or(current) else {
        return Err(E::NoContext { there: there() });
    };
    let Some(context) = only(&contexts, &wanted, "context")? else {
        return Err(E::UnknownContext { wanted, there: there() });
    };
    let context = Fields::of(context, format!("context \"{wanted}\""))?;
    let named = |field: &str| context.text(field).map(|name| name.unwrap_or_default().to_owned());
    let missing = |what: &'static str, name: &str| E::UnknownReference {
        context: wanted.clone(),
        what,
        name: name.to_owned(),
    };
    let cluster_name = named("cluster")?;
    let cluster = only(&clusters, &cluster_name, "cluster")?.ok_or_else(|| missing("cluster", &cluster_name))?;
    let user_name = named("user")?;
    if user_name.is_empty() {
        return Err(E::Anonymous(format!("of context {wanted}")));
    }
    let user = only(&users, &user_name, "user")?.ok_or_else(|| missing("user", &user_name))?;
    let namespace = context.text("namespace")?.map(str::to_owned);
    Ok(Selected {
        context: wanted.clone(),
        namespace,
        cluster: Fields::of(cluster, format!("cluster \"{cluster_name}\""))?,
        user: Fields::of(user, format!("user \"{user_name}\""))?,
        user_name,
    })
}

fn name_of(entry: &Value) -> Option<&str> {
    entry.get("name").and_then(Value::as_str)
}

/// The content of the one entry of this name; two of one name are refused, for readers differ in which one counts.
fn only(entries: &[Value], name: &str, what: &'static str) -> Result<Option<Value>, KubeconfigError> {
    let mut found = entries.iter().filter(|entry| name_of(entry) == Some(name));
    let first = found.next();
    if found.next().is_some() {
        return Err(KubeconfigError::DuplicateName {
            what,
            name: name.to_owned(),
        });
    }
    Ok(first.map(|entry| entry.get(what).cloned().unwrap_or_default()))
}
