//! NetworkPolicy.

use serde_json::{Value, json};

use crate::document::{at, default, elements_mut, list, member_mut, number, present, set, text, texts};
use crate::fault::Fault;
use crate::kind::{Cell, Kind};
use crate::strategy::Strategy;
use crate::{addresses, meta, names, selector, table};

/// The kind.
pub(crate) struct NetworkPolicy;

static STRATEGY: Strategy = Strategy::new("networking.k8s.io", "NetworkPolicy")
    .counts_spec()
    .unconditional();
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
const TYPES: [&str; 2] = ["Ingress", "Egress"];
/// The directions, and what the other ends are called in each.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

fn validate(object: &Value) -> Vec<Fault> {
    let spec = at(object, &["spec"]);
    let mut faults = selector::validate(at(spec, &["podSelector"]), "spec.podSelector");
    for (direction, peers) in DIRECTIONS {
        for (index, rule) in list(spec, direction).enumerate() {
            let field = format!("spec.{direction}[{index}]");
            for (position, port) in list(rule, "ports").enumerate() {
                faults.extend(validate_port(port, &format!("{field}.ports[{position}]")));
            }
            for (position, peer) in list(rule, peers).enumerate() {
                faults.extend(validate_peer(peer, &format!("{field}.{peers}[{position}]")));
            }
        }
    }
    let types: Vec<&str> = texts(spec, "policyTypes").collect();
    if types.len() > TYPES.len() {
        faults.push(Fault::invalid(
            "spec.policyTypes",
            at(spec, &["policyTypes"]),
            "may not specify more than two policyTypes",
        ));
        return faults;
    }
    for (index, kind) in types.iter().enumerate() {
        if !TYPES.contains(kind) {
            faults.push(Fault::not_supported(
                format!("spec.policyTypes[{index}]"),
                &(*kind).into(),
                &TYPES,
            ));
        }
    }
    faults
}

fn validate_port(port: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let protocol = text(port, "protocol");
    if !PROTOCOLS.contains(&protocol) {
        faults.push(Fault::not_supported(
            format!("{field}.protocol"),
            &protocol.into(),
            &PROTOCOLS,
        ));
    }
    let (of_port, of_end) = (format!("{field}.port"), format!("{field}.endPort"));
    let end = number(port, "endPort");
    match present(port, "port") {
        Some(Value::String(name)) => {
            faults.extend(
                end.map(|end| Fault::invalid(of_end, &end.into(), "may not be specified when `port` is non-numeric")),
            );
            faults.extend(Fault::each(&of_port, name, names::port_name(name)));
        }
        Some(value) => {
            let first = value.as_i64().unwrap_or_default();
            faults.extend(
                names::port_number(first)
                    .iter()
                    .map(|why| Fault::invalid(of_port.as_str(), value, why)),
            );
            if let Some(end) = end {
                if end < first {
                    faults.push(Fault::invalid(
                        of_end.as_str(),
                        value,
                        "must be greater than or equal to `port`",
                    ));
                }
                let wrong = names::port_number(end);
                faults.extend(
                    wrong
                        .iter()
                        .map(|why| Fault::invalid(of_end.as_str(), &end.into(), why)),
                );
            }
        }
        None => faults.extend(
            end.map(|end| Fault::invalid(of_end, &end.into(), "may not be specified when `port` is not specified")),
        ),
    }
    faults
}

fn validate_peer(peer: &Value, field: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut peers = 0;
    for name in ["podSelector", "namespaceSelector"] {
        if let Some(value) = present(peer, name) {
            peers += 1;
            faults.extend(selector::validate(value, &format!("{field}.{name}")));
        }
    }
    let block = present(peer, "ipBlock");
    if let Some(block) = block {
        peers += 1;
        faults.extend(validate_block(block, &format!("{field}.ipBlock")));
    }
    if peers == 0 {
        faults.push(Fault::required(field, "must specify a peer"));
    } else if peers > 1 && block.is_some() {
        faults.push(Fault::forbidden(field, "may not specify both ipBlock and another peer"));
    }
    faults
}

fn validate_block(block: &Value, field: &str) -> Vec<Fault> {
    let whole = text(block, "cidr");
    let of_whole = format!("{field}.cidr");
    if whole.is_empty() {
        return vec![Fault::required(of_whole, "")];
    }
    let Some(range) = addresses::range(whole) else {
        return vec![addresses::no_range(&of_whole, whole)];
    };
    let mut faults = Vec::new();
    for (index, except) in texts(block, "except").enumerate() {
        let field = format!("{field}.except[{index}]");
        match addresses::range(except) {
            None => faults.push(addresses::no_range(&field, except)),
            Some(part) if !range.holds_part(&part) => faults.push(Fault::invalid(
                field,
                &except.into(),
                "must be a strict subset of `cidr`",
            )),
            Some(_) => {}
        }
    }
    faults
}

impl Kind for NetworkPolicy {
    fn strategy(&self) -> &Strategy {
        &STRATEGY
    }

    fn default(&self, object: &mut Value) {
        let spec = member_mut(object, "spec");
        for (direction, _) in DIRECTIONS {
            for rule in elements_mut(spec, direction) {
                elements_mut(rule, "ports").for_each(|port| default(port, "protocol", "TCP"));
            }
        }
        if list(spec, "policyTypes").len() == 0 {
            let types = if list(spec, "egress").len() > 0 {
                json!(TYPES)
            } else {
                json!(["Ingress"])
            };
            set(spec, "policyTypes", Some(types));
        }
    }

    fn validate(&self, object: &Value) -> Vec<Fault> {
        let mut faults = meta::unknown_finalizers(object);
        faults.extend(validate(object));
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_again(new, true, &names::subdomain);
        faults.extend(validate(new));
        faults.extend(meta::validate_change_again(new, old));
        faults.extend(validate(new));
        faults
    }

    fn row(&self, object: &Value, now: i64) -> Vec<Cell> {
        vec![
            table::name(object),
            table::selector_or_none(at(object, &["spec", "podSelector"])).into(),
            table::created(object, now),
        ]
    }
}
