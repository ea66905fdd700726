//! CustomResourceDefinition: its names, its versions and the form of its schemas. What its schemas then allow, whether
//! expressions compile, and whether a default is a value of its schema, is not judged here.

mod schema;
mod shown;
mod structural;
mod version;

use serde_json::{Value, json};

use crate::document::{at, default, elements_mut, is_true, keep, list, member_mut, set, text, texts};
use crate::fault::Fault;
use crate::kind::Kind;
use crate::strategy::{NameRule, Strategy};
use crate::{meta, names};

/// The kind.
pub(crate) struct CustomResourceDefinition;

static STRATEGY: Strategy = Strategy::new("apiextensions.k8s.io", "CustomResourceDefinition")
    .counts_spec()
    .status_apart(&["metadata", "spec"]);
const APPROVED: &str = "api-approved.kubernetes.io";

/// The version that objects are stored in.
fn storage_version(definition: &Value) -> Option<&str> {
    list(at(definition, &["spec"]), "versions")
        .find(|version| is_true(version, "storage"))
        .map(|version| text(version, "name"))
}

fn note_storage_version(definition: &mut Value) {
    let Some(name) = storage_version(definition).map(str::to_owned) else {
        return;
    };
    let status = member_mut(definition, "status");
    let mut stored: Vec<Value> = list(status, "storedVersions").cloned().collect();
    if !stored.iter().any(|stored| stored.as_str() == Some(&name)) {
        stored.push(name.into());
        set(status, "storedVersions", Some(stored.into()));
    }
}

fn validate(definition: &Value) -> Vec<Fault> {
    let spec = at(definition, &["spec"]);
    let mut faults = validate_spec(spec);
    faults.extend(validate_names(
        at(definition, &["status", "acceptedNames"]),
        "status.acceptedNames",
    ));
    faults.extend(validate_stored(definition));
    faults
}

fn validate_spec(spec: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    let group = text(spec, "group");
    let wrong = names::dns_subdomain(group);
    if group.is_empty() {
        faults.push(Fault::required("spec.group", ""));
    } else if !wrong.is_empty() {
        faults.push(Fault::invalid("spec.group", &group.into(), &wrong.join(",")));
    } else if !group.contains('.') {
        faults.push(Fault::invalid(
            "spec.group",
            &group.into(),
            "should be a domain with at least one dot",
        ));
    }
    faults.extend(one_of("spec.scope", text(spec, "scope"), &["Cluster", "Namespaced"]));
    faults.extend(version::validate(spec));
    let own = at(spec, &["names"]);
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(own, field).is_empty() {
            faults.push(Fault::required(format!("spec.names.{field}"), ""));
        }
    }
    faults.extend(validate_names(own, "spec.names"));
    faults.extend(version::validate_shared(spec));
    faults.extend(validate_conversion(spec));
    faults
}

/// A text that must be one of a few.
fn one_of(field: &str, value: &str, known: &[&str]) -> Option<Fault> {
    if value.is_empty() {
        return Some(Fault::required(field, ""));
    }
    (!known.contains(&value)).then(|| Fault::not_supported(field, &value.into(), known))
}

fn validate_names(own: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for name in ["plural", "singular"] {
        let value = text(own, name);
        let wrong = names::dns_1035_label(value);
        if !value.is_empty() && !wrong.is_empty() {
            faults.push(Fault::invalid(
                format!("{field}.{name}"),
                &value.into(),
                &wrong.join(","),
            ));
        }
    }
    for name in ["kind", "listKind"] {
        let value = text(own, name);
        let wrong = names::dns_1035_label(&value.to_lowercase());
        if !value.is_empty() && !wrong.is_empty() {
            faults.push(Fault::invalid(
                format!("{field}.{name}"),
                &value.into(),
                &format!("may have mixed case, but should otherwise match: {}", wrong.join(",")),
            ));
        }
    }
    let each = |name: &'static str| {
        texts(own, name).enumerate().filter_map(move |(index, value)| {
            let wrong = names::dns_1035_label(value);
            (!wrong.is_empty())
                .then(|| Fault::invalid(format!("{field}.{name}[{index}]"), &value.into(), &wrong.join(",")))
        })
    };
    faults.extend(each("shortNames"));
    let (kind, list_kind) = (text(own, "kind"), text(own, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        faults.push(Fault::invalid(
            format!("{field}.listKind"),
            &list_kind.into(),
            "kind and listKind may not be the same",
        ));
    }
    faults.extend(each("categories"));
    faults
}

fn validate_stored(definition: &Value) -> Vec<Fault> {
    const FIELD: &str = "status.storedVersions";
    let value = at(definition, &["status", "storedVersions"]);
    let stored: Vec<&str> = texts(at(definition, &["status"]), "storedVersions").collect();
    if stored.is_empty() {
        return vec![Fault::invalid(FIELD, value, "must have at least one stored version")];
    }
    let mut faults = Vec::new();
    let mut rest: Vec<(usize, &str)> = stored.iter().copied().enumerate().collect();
    for version in list(at(definition, &["spec"]), "versions") {
        let name = text(version, "name");
        let known = rest.len();
        rest.retain(|(_, stored)| *stored != name);
        if is_true(version, "storage") && rest.len() == known {
            faults.push(Fault::invalid(
                FIELD,
                value,
                &format!("must have the storage version {name}"),
            ));
        }
    }
    for (index, name) in rest {
        faults.push(Fault::invalid(
            format!("{FIELD}[{index}]"),
            &name.into(),
            &format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            ),
        ));
    }
    faults
}

fn validate_conversion(spec: &Value) -> Vec<Fault> {
    const FIELD: &str = "spec.conversion";
    let conversion = at(spec, &["conversion"]);
    if conversion.is_null() {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let strategy = text(conversion, "strategy");
    let client = at(conversion, &["webhook", "clientConfig"]);
    let versions = at(conversion, &["webhook", "conversionReviewVersions"]);
    let client_field = format!("{FIELD}.webhookClientConfig");
    let versions_field = format!("{FIELD}.conversionReviewVersions");
    if strategy != "None" && is_true(spec, "preserveUnknownFields") {
        faults.push(Fault::invalid(
            format!("{FIELD}.strategy"),
            &strategy.into(),
            "must be None if spec.preserveUnknownFields is true",
        ));
    }
    faults.extend(one_of(&format!("{FIELD}.strategy"), strategy, &["None", "Webhook"]));
    if strategy != "Webhook" {
        if !client.is_null() {
            faults.push(Fault::forbidden(
                client_field,
                "should not be set when strategy is not set to Webhook",
            ));
        }
        if versions.as_array().is_some_and(|versions| !versions.is_empty()) {
            faults.push(Fault::forbidden(
                versions_field,
                "should not be set when strategy is not set to Webhook",
            ));
        }
        return faults;
    }
    if client.is_null() {
        faults.push(Fault::required(
            client_field,
            "required when strategy is set to Webhook",
        ));
    } else {
        faults.extend(validate_client(client, &client_field));
    }
    faults.extend(validate_review_versions(versions, &versions_field));
    faults
}

fn validate_client(client: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    match (client.get("url").and_then(Value::as_str), client.get("service")) {
        (Some(url), None) => faults.extend(validate_url(url, &format!("{field}.url"))),
        (None, Some(service)) => {
            // The real server takes one for the other here.
            for (name, shown) in [("namespace", "name"), ("name", "namespace")] {
                if text(service, name).is_empty() {
                    faults.push(Fault::required(format!("{field}.service.{shown}"), ""));
                }
            }
            let port = service.get("port").and_then(Value::as_i64).unwrap_or(443);
            let wrong = names::port_number(port);
            if !wrong.is_empty() {
                faults.push(Fault::invalid(
                    format!("{field}.service.port"),
                    &port.into(),
                    &format!("port is not valid: {}", wrong.join(", ")),
                ));
            }
            if let Some(path) = service.get("path").and_then(Value::as_str) {
                faults.extend(validate_path(path, &format!("{field}.service.path")));
            }
        }
        _ => faults.push(Fault::required(field, "exactly one of url or service is required")),
    }
    faults
}

fn validate_url(url: &str, field: &str) -> Vec<Fault> {
    const FORM: &str = "; desired format: https://host[/path]";
    let mut faults = Vec::new();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (before, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (before, query) = before.split_once('?').unwrap_or((before, ""));
    let authority = if scheme.is_empty() {
        ""
    } else {
        before.split('/').next().unwrap_or_default()
    };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if scheme != "https" {
        faults.push(Fault::invalid(
            field,
            &scheme.into(),
            &format!("'https' is the only allowed URL scheme{FORM}"),
        ));
    }
    if host.is_empty() {
        faults.push(Fault::invalid(
            field,
            &host.into(),
            &format!("host must be specified{FORM}"),
        ));
    }
    for (part, why) in [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if !part.is_empty() {
            faults.push(Fault::invalid(field, &part.into(), why));
        }
    }
    faults
}

fn validate_path(path: &str, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let value = Value::from(path);
    if matches!(path, "" | "/") {
        return faults;
    }
    if path == "//" {
        return vec![Fault::invalid(field, &value, "segment[0] may not be empty")];
    }
    if !path.starts_with('/') {
        faults.push(Fault::invalid(field, &value, "must start with a '/'"));
    }
    let mut steps = path.chars();
    steps.next();
    let steps = steps.as_str();
    let steps = steps.strip_suffix('/').unwrap_or(steps);
    for (index, step) in steps.split('/').enumerate() {
        if step.is_empty() {
            faults.push(Fault::invalid(
                field,
                &value,
                &format!("segment[{index}] may not be empty"),
            ));
            continue;
        }
        for why in names::dns_subdomain(step) {
            faults.push(Fault::invalid(field, &value, &format!("segment[{index}]: {why}")));
        }
    }
    faults
}

fn validate_review_versions(versions: &Value, field: &str) -> Vec<Fault> {
    let all: Vec<&str> = versions
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if all.is_empty() {
        return vec![Fault::required(field, "")];
    }
    let mut faults = Vec::new();
    for (index, version) in all.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if all.iter().take(index).any(|before| before == version) {
            faults.push(Fault::invalid(field, &(*version).into(), "duplicate version"));
            continue;
        }
        faults.extend(Fault::each(&field, version, names::dns_1035_label(version)));
    }
    if !all.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        faults.push(Fault::invalid(
            field,
            versions,
            "must include at least one of v1, v1beta1",
        ));
    }
    faults
}

/// What the community's own groups ask of a definition.
fn validate_approval(new: &Value, old: Option<&Value>) -> Option<Fault> {
    let group = text(at(new, &["spec"]), "group");
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')));
    if !is_protected {
        return None;
    }
    let state = |definition: &Value| {
        let value = text(at(definition, &["metadata", "annotations"]), APPROVED).to_owned();
        let has_host = value
            .split_once("://")
            .is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty());
        match value.as_str() {
            "" => ("missing", value),
            text if text.starts_with("unapproved") => ("bypassed", value),
            _ if has_host => ("approved", value),
            _ => ("invalid", value),
        }
    };
    let (now, value) = state(new);
    if old.is_some_and(|old| state(old).0 == now) {
        return None;
    }
    let field = format!("metadata.annotations[{APPROVED}]");
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    match now {
        "missing" => Some(Fault::required(
            field,
            &format!("protected groups must have approval annotation \"{APPROVED}\", {SEE}"),
        )),
        "invalid" => Some(Fault::invalid(
            field,
            &value.into(),
            &format!(
                "protected groups must have approval annotation \"{APPROVED}\" with either a URL or a reason starting with \"unapproved\", {SEE}"
            ),
        )),
        _ => None,
    }
}

fn validate_preserving(new: &Value, old: Option<&Value>) -> Option<Fault> {
    let preserves = |definition: &Value| is_true(at(definition, &["spec"]), "preserveUnknownFields");
    if old.is_some_and(preserves) || !preserves(new) {
        return None;
    }
    Some(Fault::invalid(
        "spec.preserveUnknownFields",
        &true.into(),
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
    ))
}

fn is_established(definition: &Value) -> bool {
    list(at(definition, &["status"]), "conditions")
        .any(|condition| text(condition, "type") == "Established" && text(condition, "status") == "True")
}

impl Kind for CustomResourceDefinition {
    fn strategy(&self) -> &Strategy {
        &STRATEGY
    }

    fn default(&self, object: &mut Value) {
        let stored = storage_version(object).map(str::to_owned);
        let spec = member_mut(object, "spec");
        let own = member_mut(spec, "names");
        let kind = text(own, "kind").to_owned();
        if !kind.is_empty() {
            default(own, "singular", kind.to_lowercase());
            default(own, "listKind", format!("{kind}List"));
        }
        default(spec, "conversion", json!({"strategy": "None"}));
        if let Some(service) = spec.pointer_mut("/conversion/webhook/clientConfig/service")
            && service.is_object()
        {
            default(service, "port", 443);
        }
        // A field of an older version that only its default keeps out of sight.
        if !is_true(spec, "preserveUnknownFields") {
            set(spec, "preserveUnknownFields", None);
        }
        for version in elements_mut(spec, "versions") {
            for field in ["subresources", "schema"] {
                if version.get(field).is_some_and(Value::is_null) {
                    set(version, field, None);
                }
            }
        }
        let status = member_mut(object, "status");
        if let Some(name) = stored
            && list(status, "storedVersions").len() == 0
        {
            set(status, "storedVersions", Some(json!([name])));
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        set(
            object,
            "status",
            Some(json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": null})),
        );
        note_storage_version(object);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "status");
        note_storage_version(new);
    }

    fn prepare_status_update(&self, new: &mut Value, old: &Value) {
        // The metadata is meant to stay, but the server compares the object with itself; it takes its own finalizer away
        // by this door.
        keep(new, old, "spec");
    }

    fn validate_name(&self, _name: &str, _prefix: bool) -> Vec<String> {
        // What a name must be depends on the spec.
        Vec::new()
    }

    fn validate(&self, object: &Value) -> Vec<Fault> {
        let metadata = at(object, &["metadata"]);
        let spec = at(object, &["spec"]);
        let wanted = format!("{}.{}", text(at(spec, &["names"]), "plural"), text(spec, "group"));
        let mut faults = Vec::new();
        for (field, prefix) in [("generateName", true), ("name", false)] {
            let name = text(metadata, field);
            if name.is_empty() {
                continue;
            }
            let mut wrong = NameRule::Subdomain.complaints(name, prefix);
            if name != wanted {
                wrong.push("must be spec.names.plural+\".\"+spec.group".to_owned());
            }
            faults.extend(Fault::each(&format!("metadata.{field}"), name, wrong));
        }
        faults.extend(validate(object));
        faults.extend(validate_approval(object, None));
        faults.extend(validate_preserving(object, None));
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_change(new, old);
        faults.extend(validate_spec(at(new, &["spec"])));
        let established: &[&[&str]] = if is_established(old) {
            &[&["scope"], &["names", "kind"]]
        } else {
            &[]
        };
        let always: &[&[&str]] = &[&["group"], &["names", "plural"]];
        for path in established.iter().chain(always) {
            let value = |definition| at(at(definition, &["spec"]), path);
            if value(new) != value(old) {
                faults.push(Fault::immutable(format!("spec.{}", path.join(".")), value(new)));
            }
        }
        faults.extend(validate_names(
            at(new, &["status", "acceptedNames"]),
            "status.acceptedNames",
        ));
        faults.extend(validate_stored(new));
        faults.extend(validate_approval(new, Some(old)));
        faults.extend(validate_preserving(new, Some(old)));
        faults
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_change(new, old);
        faults.extend(validate_names(
            at(new, &["status", "acceptedNames"]),
            "status.acceptedNames",
        ));
        faults
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let known = old.map(schema::unknown_formats).unwrap_or_default();
        schema::unknown_formats(new)
            .into_iter()
            .filter(|format| !known.contains(format))
            .map(|format| format!("unrecognized format {}", crate::fault::quoted(&format)))
            .collect()
    }
}
