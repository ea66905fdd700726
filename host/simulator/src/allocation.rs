//! What a Service is given by the cluster: the next address and the next ports that nobody has.

use chandlery_kinds::{Fault, FaultKind};
use serde_json::{Map, Value, json};

use crate::object;
use crate::status::Failure;
use crate::world::World;
use crate::write::Change;

const PORTS: std::ops::Range<i64> = 30_000..32_768;

/// What the Services of a world have.
struct Taken {
    addresses: Vec<String>,
    ports: Vec<i64>,
}

impl World {
    /// Gives a Service what it lacks; families and what it had are settled before.
    pub(crate) fn allocate(
        &self,
        change: &Change<'_>,
        document: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Failure> {
        let resource = &change.target.resource;
        if !resource.is("", "services") {
            return Ok(());
        }
        let taken = self.taken(change, object::name(document));
        let had_address = old.is_some_and(|old| !is_external(old));
        let name = object::name(document).to_owned();
        let is_external = is_external(document);
        let spec = object::map_mut(object::map_mut(document).entry("spec").or_insert_with(|| json!({})));
        let refused = |fault| crate::judge::refuse(resource, &name, vec![fault]);
        if !is_external && !had_address {
            allocate_address(spec, &taken).or_else(refused)?;
        }
        let had: Vec<i64> = old.map(|old| node_ports(old).collect()).unwrap_or_default();
        allocate_ports(spec, &taken, &had, change.options.dry_run).or_else(refused)
    }

    /// What all Services but this one have.
    fn taken(&self, change: &Change<'_>, name: &str) -> Taken {
        let own = change.target.key(name);
        let mut taken = Taken {
            addresses: Vec::new(),
            ports: Vec::new(),
        };
        for (key, stored) in self.store.list(own.resource, None) {
            if *key == own {
                continue;
            }
            let document = stored.document();
            let address = document.pointer("/spec/clusterIP").and_then(Value::as_str);
            taken.addresses.extend(address.map(str::to_owned));
            taken.ports.extend(node_ports(&document));
        }
        taken
    }
}

fn is_external(document: &Value) -> bool {
    document
        .pointer("/spec/type")
        .is_some_and(|kind| kind == "ExternalName")
}

fn node_ports(document: &Value) -> impl Iterator<Item = i64> {
    let ports = document.pointer("/spec/ports").and_then(Value::as_array);
    let health = document.pointer("/spec/healthCheckNodePort").and_then(Value::as_i64);
    ports
        .into_iter()
        .flatten()
        .filter_map(|port| port.get("nodePort").and_then(Value::as_i64))
        .chain(health)
        .filter(|port| *port != 0)
}

fn allocate_address(spec: &mut Map<String, Value>, taken: &Taken) -> Result<(), Fault> {
    let is_taken = |address: &str| taken.addresses.iter().any(|known| known == address);
    let wanted = spec.get("clusterIP").and_then(Value::as_str).unwrap_or_default();
    let address = match wanted {
        "None" => return Ok(()),
        "" => (1..255)
            .map(|last| format!("10.0.0.{last}"))
            .find(|address| !is_taken(address))
            .unwrap_or_default(),
        wanted if is_taken(wanted) => {
            return Err(Fault {
                kind: FaultKind::Invalid,
                field: "spec.clusterIPs".to_owned(),
                message: format!(
                    "Invalid value: [\"{wanted}\"]: failed to allocate IP {wanted}: provided IP is already allocated"
                ),
            });
        }
        wanted => wanted.to_owned(),
    };
    spec.insert("clusterIPs".into(), json!([address]));
    spec.insert("clusterIP".into(), address.into());
    Ok(())
}

fn allocate_ports(spec: &mut Map<String, Value>, taken: &Taken, had: &[i64], dry_run: bool) -> Result<(), Fault> {
    let text = |spec: &Map<String, Value>, field: &str| {
        let value = spec.get(field).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let kind = text(spec, "type");
    let is_balanced = kind == "LoadBalancer";
    let declines = spec.get("allocateLoadBalancerNodePorts") == Some(&Value::Bool(false));
    if kind != "NodePort" && !is_balanced {
        return Ok(());
    }
    let mut used = taken.ports.clone();
    let mut free = PORTS.filter(|port| !taken.ports.contains(port) && !had.contains(port));
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for (index, port) in ports.into_iter().flatten().enumerate() {
        let wanted = port.get("nodePort").and_then(Value::as_i64).unwrap_or_default();
        if wanted == 0 {
            let next = free
                .find(|port| !used.contains(port))
                .filter(|_| !(is_balanced && declines));
            if let Some(next) = next {
                used.push(next);
                object::map_mut(port).insert("nodePort".into(), next.into());
            }
            continue;
        }
        // Who only asks gets what they ask for.
        if dry_run || had.contains(&wanted) {
            continue;
        }
        let why = if !PORTS.contains(&wanted) {
            format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                PORTS.start,
                PORTS.end - 1
            )
        } else if used.contains(&wanted) {
            "provided port is already allocated".to_owned()
        } else {
            used.push(wanted);
            continue;
        };
        return Err(Fault {
            kind: FaultKind::Invalid,
            field: format!("spec.ports[{index}].nodePort"),
            message: format!("Invalid value: {wanted}: {why}"),
        });
    }
    let checks_health = is_balanced && text(spec, "externalTrafficPolicy") == "Local";
    let lacks_port = spec
        .get("healthCheckNodePort")
        .and_then(Value::as_i64)
        .unwrap_or_default()
        == 0;
    if checks_health
        && lacks_port
        && let Some(next) = free.find(|port| !used.contains(port))
    {
        spec.insert("healthCheckNodePort".into(), next.into());
    }
    Ok(())
}
