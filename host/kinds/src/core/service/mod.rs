//! Service. Which address one gets is the caller's to say.

mod addresses;

use serde_json::{Value, json};

use crate::addresses::not_an_address;
use crate::document::{at, default, elements_mut, keep, list, member_mut, number, present, set, text, texts};
use crate::fault::{Fault, FaultKind};
use crate::kind::{Cell, Kind};
use crate::strategy::{NameRule, Strategy};
use crate::{meta, names, table};

/// The kind.
pub(crate) struct Service;

static STRATEGY: Strategy = Strategy::new("", "Service")
    .unconditional()
    .creates_on_update()
    .status_apart(&["spec"])
    .named(NameRule::Label1035)
    .selected_by(&["spec.clusterIP", "spec.type"])
    .answers_with_deleted();
const EXTERNAL_NAME: &str = "ExternalName";
const BALANCED: &str = "LoadBalancer";
const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
/// Three hours.
const AFFINITY_SECONDS: i64 = 10_800;
const MAX_AFFINITY_SECONDS: i64 = 86_400;

fn is_type(spec: &Value, wanted: &str) -> bool {
    text(spec, "type") == wanted
}

fn is_headless(spec: &Value) -> bool {
    texts(spec, "clusterIPs").collect::<Vec<_>>() == ["None"]
}

/// Whether something outside of the cluster may reach it.
fn is_reachable(spec: &Value) -> bool {
    is_type(spec, BALANCED)
        || is_type(spec, "NodePort")
        || is_type(spec, "ClusterIP") && list(spec, "externalIPs").len() > 0
}

fn takes_node_ports(spec: &Value) -> bool {
    is_type(spec, "NodePort")
        || is_type(spec, BALANCED) && spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false))
}

fn needs_health_check(spec: &Value) -> bool {
    is_type(spec, BALANCED) && text(spec, "externalTrafficPolicy") == "Local"
}

fn validate(service: &Value) -> Vec<Fault> {
    let spec = at(service, &["spec"]);
    let mut faults = Vec::new();
    if list(spec, "ports").len() == 0 && !is_headless(spec) && !is_type(spec, EXTERNAL_NAME) {
        faults.push(Fault::required("spec.ports", ""));
    }
    let kind = text(spec, "type");
    if matches!(kind, BALANCED | "NodePort") && is_headless(spec) {
        faults.push(Fault::invalid(
            "spec.clusterIPs[0]",
            &"None".into(),
            &format!("may not be set to 'None' for {kind} services"),
        ));
    }
    if kind == EXTERNAL_NAME {
        faults.extend(validate_external(spec));
    }
    faults.extend(validate_ports(spec));
    faults.extend(meta::labels(spec.get("selector"), "spec.selector"));
    faults.extend(validate_affinity(spec));
    if kind != EXTERNAL_NAME {
        faults.extend(addresses::validate(spec, None));
    }
    for (index, address) in texts(spec, "externalIPs").enumerate() {
        faults.extend(not_an_address(&format!("spec.externalIPs[{index}]"), address));
    }
    if !TYPES.contains(&kind) {
        faults.push(Fault::not_supported("spec.type", &kind.into(), &TYPES));
    }
    faults.extend(validate_uniqueness(spec));
    if list(spec, "loadBalancerSourceRanges").len() > 0 && kind != BALANCED {
        faults.push(only_balanced("LoadBalancerSourceRanges"));
    }
    for (index, range) in texts(spec, "loadBalancerSourceRanges").enumerate() {
        if crate::addresses::range(range.trim()).is_none() {
            faults.push(crate::addresses::no_range(
                &format!("spec.LoadBalancerSourceRanges[{index}]"),
                range.trim(),
            ));
        }
    }
    if present(spec, "allocateLoadBalancerNodePorts").is_some() && kind != BALANCED {
        faults.push(only_balanced("allocateLoadBalancerNodePorts"));
    }
    faults.extend(validate_class(spec));
    faults.extend(validate_traffic(spec));
    faults
}

fn only_balanced(field: &str) -> Fault {
    Fault::forbidden(
        format!("spec.{field}"),
        "may only be used when `type` is 'LoadBalancer'",
    )
}

fn validate_class(spec: &Value) -> Vec<Fault> {
    let Some(class) = spec.get("loadBalancerClass").and_then(Value::as_str) else {
        return Vec::new();
    };
    if is_type(spec, BALANCED) {
        Fault::each("spec.loadBalancerClass", class, names::qualified_name(class))
    } else {
        vec![only_balanced("loadBalancerClass")]
    }
}

fn validate_external(spec: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let is_there = present(spec, field).is_some_and(|value| value.as_array().is_none_or(|all| !all.is_empty()));
        if is_there {
            faults.push(Fault::forbidden(
                format!("spec.{field}"),
                "may not be set for ExternalName services",
            ));
        }
    }
    let name = text(spec, "externalName");
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        faults.push(Fault::required("spec.externalName", ""));
    } else {
        faults.extend(Fault::each("spec.externalName", name, names::dns_subdomain(name)));
    }
    faults
}

fn validate_ports(spec: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    let has_many = list(spec, "ports").len() > 1;
    for (index, port) in list(spec, "ports").enumerate() {
        let at_field = |name: &str| format!("spec.ports[{index}].{name}");
        let name = text(port, "name");
        if has_many && name.is_empty() {
            faults.push(Fault::required(at_field("name"), ""));
        } else if !name.is_empty() {
            faults.extend(Fault::each(&at_field("name"), name, names::dns_label(name)));
            if known.contains(&name) {
                faults.push(Fault::duplicate(at_field("name"), &name.into()));
            }
            known.push(name);
        }
        let own = number(port, "port").unwrap_or_default();
        let complain = |field: &str, number: i64| {
            names::port_number(number)
                .iter()
                .map(|why| Fault::invalid(at_field(field), &number.into(), why))
                .collect::<Vec<_>>()
        };
        faults.extend(complain("port", own));
        let protocol = text(port, "protocol");
        if !PROTOCOLS.contains(&protocol) {
            faults.push(Fault::not_supported(at_field("protocol"), &protocol.into(), &PROTOCOLS));
        }
        match at(port, &["targetPort"]) {
            Value::String(name) => faults.extend(Fault::each(&at_field("targetPort"), name, names::port_name(name))),
            other => faults.extend(complain("targetPort", other.as_i64().unwrap_or_default())),
        }
        if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
            faults.extend(Fault::each(
                &at_field("appProtocol"),
                protocol,
                names::qualified_name(protocol),
            ));
        }
    }
    faults
}

fn validate_affinity(spec: &Value) -> Vec<Fault> {
    const FIELD: &str = "spec.sessionAffinityConfig";
    let affinity = text(spec, "sessionAffinity");
    let mut faults = Vec::new();
    if !matches!(affinity, "ClientIP" | "None") {
        faults.push(Fault::not_supported(
            "spec.sessionAffinity",
            &affinity.into(),
            &["ClientIP", "None"],
        ));
    }
    if affinity == "ClientIP" {
        let seconds = at(spec, &["sessionAffinityConfig", "clientIP", "timeoutSeconds"]);
        let is_right = seconds
            .as_i64()
            .is_some_and(|seconds| (1..=MAX_AFFINITY_SECONDS).contains(&seconds));
        if !is_right {
            faults.push(Fault::invalid(
                format!("{FIELD}.clientIP.timeoutSeconds"),
                seconds,
                "must be greater than 0 and less than 86400",
            ));
        }
    }
    faults
}

/// What may be taken only once, or not at all.
fn validate_uniqueness(spec: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    let ports: Vec<&Value> = list(spec, "ports").collect();
    let node_port = |port: &Value| number(port, "nodePort").unwrap_or_default();
    if is_type(spec, "ClusterIP") {
        for (index, port) in ports.iter().enumerate() {
            if node_port(port) != 0 {
                faults.push(Fault::forbidden(
                    format!("spec.ports[{index}].nodePort"),
                    "may not be used when `type` is 'ClusterIP'",
                ));
            }
        }
    }
    let same = |one: &Value, other: &Value, field: &str| {
        one.get(field) == other.get(field) && one.get("protocol") == other.get("protocol")
    };
    for (index, port) in ports.iter().enumerate() {
        let is_taken = ports.iter().take(index).any(|before| same(port, before, "nodePort"));
        if node_port(port) != 0 && is_taken {
            faults.push(Fault::duplicate(
                format!("spec.ports[{index}].nodePort"),
                &node_port(port).into(),
            ));
        }
    }
    for (index, port) in ports.iter().enumerate() {
        if ports.iter().take(index).any(|before| same(port, before, "port")) {
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                at(port, &["protocol"]),
                at(port, &["port"])
            );
            faults.push(Fault::shown_as(
                FaultKind::Duplicate,
                format!("spec.ports[{index}]"),
                &shown,
                "",
            ));
        }
    }
    faults
}

fn validate_traffic(spec: &Value) -> Vec<Fault> {
    const POLICIES: [&str; 2] = ["Cluster", "Local"];
    let mut faults = Vec::new();
    let external = text(spec, "externalTrafficPolicy");
    const EXTERNAL: &str = "spec.externalTrafficPolicy";
    if !is_reachable(spec) {
        if !external.is_empty() {
            faults.push(Fault::invalid(
                EXTERNAL,
                &external.into(),
                "may only be set for externally-accessible services",
            ));
        }
    } else if external.is_empty() {
        faults.push(Fault::required(EXTERNAL, ""));
    } else if !POLICIES.contains(&external) {
        faults.push(Fault::not_supported(EXTERNAL, &external.into(), &POLICIES));
    }
    let health = number(spec, "healthCheckNodePort").unwrap_or_default();
    if !needs_health_check(spec) && health != 0 {
        faults.push(Fault::invalid(
            "spec.healthCheckNodePort",
            &health.into(),
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        ));
    }
    if let Some(internal) = spec.get("internalTrafficPolicy").and_then(Value::as_str)
        && !POLICIES.contains(&internal)
    {
        faults.push(Fault::not_supported(
            "spec.internalTrafficPolicy",
            &internal.into(),
            &POLICIES,
        ));
    }
    if let Some(distribution) = spec.get("trafficDistribution").and_then(Value::as_str)
        && distribution != "PreferClose"
    {
        faults.push(Fault::not_supported(
            "spec.trafficDistribution",
            &distribution.into(),
            &["PreferClose"],
        ));
    }
    faults
}

/// What no longer suits the type goes, unless it was changed too.
fn drop_unsuitable(now: &mut Value, before: &Value) {
    if is_type(now, EXTERNAL_NAME) && !is_type(before, EXTERNAL_NAME) {
        if texts(now, "clusterIPs").eq(texts(before, "clusterIPs")) {
            set(now, "clusterIP", None);
            set(now, "clusterIPs", None);
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if now.get(field) == before.get(field) {
                set(now, field, None);
            }
        }
    }
    let node_ports = |spec: &Value| -> Vec<i64> {
        let ports = list(spec, "ports").filter_map(|port| number(port, "nodePort"));
        let mut ports: Vec<i64> = ports.filter(|port| *port != 0).collect();
        ports.sort_unstable();
        ports
    };
    if takes_node_ports(before) && !takes_node_ports(now) && node_ports(now) == node_ports(before) {
        for port in elements_mut(now, "ports") {
            set(port, "nodePort", None);
        }
    }
    let drop_if_same = |now: &mut Value, field: &str| {
        if now.get(field) == before.get(field) {
            set(now, field, None);
        }
    };
    if needs_health_check(before) && !needs_health_check(now) {
        drop_if_same(now, "healthCheckNodePort");
    }
    if is_type(before, BALANCED) && !is_type(now, BALANCED) {
        drop_if_same(now, "allocateLoadBalancerNodePorts");
        drop_if_same(now, "loadBalancerClass");
    }
    if is_reachable(before) && !is_reachable(now) {
        drop_if_same(now, "externalTrafficPolicy");
    }
}

impl Kind for Service {
    fn strategy(&self) -> &Strategy {
        &STRATEGY
    }

    fn default(&self, service: &mut Value) {
        let spec = member_mut(service, "spec");
        default(spec, "sessionAffinity", "None");
        match text(spec, "sessionAffinity") {
            "None" => set(spec, "sessionAffinityConfig", None),
            "ClientIP" if at(spec, &["sessionAffinityConfig", "clientIP", "timeoutSeconds"]).is_null() => {
                let config = json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
                set(spec, "sessionAffinityConfig", Some(config));
            }
            _ => {}
        }
        default(spec, "type", "ClusterIP");
        for port in elements_mut(spec, "ports") {
            default(port, "protocol", "TCP");
            let target = at(port, &["targetPort"]);
            if target.is_null() || target.as_i64() == Some(0) || target.as_str() == Some("") {
                let own = at(port, &["port"]).clone();
                set(port, "targetPort", Some(own));
            }
        }
        if is_reachable(spec) {
            default(spec, "externalTrafficPolicy", "Cluster");
        }
        if matches!(text(spec, "type"), "NodePort" | BALANCED | "ClusterIP") {
            default(spec, "internalTrafficPolicy", "Cluster");
        }
        if is_type(spec, BALANCED) {
            default(spec, "allocateLoadBalancerNodePorts", true);
            if let Some(ingress) = service.pointer_mut("/status/loadBalancer") {
                for point in elements_mut(ingress, "ingress") {
                    if !text(point, "ip").is_empty() {
                        default(point, "ipMode", "VIP");
                    }
                }
            }
        }
    }

    fn prepare_create(&self, service: &mut Value) {
        set(service, "status", Some(self.empty_status()));
    }

    fn settle(&self, new: &mut Value, old: Option<&Value>) -> Vec<Fault> {
        addresses::settle(new, old)
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "status");
        drop_unsuitable(member_mut(new, "spec"), at(old, &["spec"]));
    }

    fn validate(&self, service: &Value) -> Vec<Fault> {
        let mut faults = meta::unknown_finalizers(service);
        faults.extend(validate(service));
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        let mut faults = meta::validate_change_again(new, old);
        faults.extend(addresses::validate_kept(new, old));
        let (now, before) = (at(new, &["spec"]), at(old, &["spec"]));
        let class = |spec| at(spec, &["loadBalancerClass"]);
        if is_type(now, BALANCED) && is_type(before, BALANCED) && class(now) != class(before) {
            faults.push(Fault::invalid(
                "spec.loadBalancerClass",
                class(now),
                "may not change once set",
            ));
        }
        faults.extend(validate_class(now));
        faults.extend(validate(new));
        faults
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<Fault> {
        const FIELD: &str = "status.loadBalancer.ingress";
        let mut faults = meta::validate_change_again(new, old);
        let ingress = list(at(new, &["status", "loadBalancer"]), "ingress");
        if !is_type(at(new, &["spec"]), BALANCED) && ingress.len() > 0 {
            faults.push(Fault::forbidden(
                FIELD,
                "may only be used when `spec.type` is 'LoadBalancer'",
            ));
            return faults;
        }
        for (index, point) in ingress.enumerate() {
            let (address, name) = (text(point, "ip"), text(point, "hostname"));
            if !address.is_empty() {
                faults.extend(not_an_address(&format!("{FIELD}[{index}].ip"), address));
            }
            if !name.is_empty() {
                faults.extend(Fault::each(
                    &format!("{FIELD}[{index}].hostname"),
                    name,
                    names::dns_subdomain(name),
                ));
            }
        }
        faults
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let spec = at(new, &["spec"]);
        let mut warnings = Vec::new();
        let has_outside = list(spec, "externalIPs").len() > 0;
        if is_headless(spec) {
            let ignored = [
                ("loadBalancerIP", !text(spec, "loadBalancerIP").is_empty()),
                ("externalIPs", has_outside),
                ("SessionAffinity", text(spec, "sessionAffinity") != "None"),
            ];
            for (field, _) in ignored.iter().filter(|(_, is_set)| *is_set) {
                warnings.push(format!("spec.{field} is ignored for headless services"));
            }
        }
        if is_type(spec, EXTERNAL_NAME) && has_outside {
            warnings.push(format!(
                "spec.externalIPs is ignored when spec.type is {}",
                crate::fault::quoted(EXTERNAL_NAME)
            ));
        }
        if !is_type(spec, EXTERNAL_NAME) && !text(spec, "externalName").is_empty() {
            warnings.push(format!(
                "spec.externalName is ignored when spec.type is not {}",
                crate::fault::quoted(EXTERNAL_NAME)
            ));
        }
        warnings
    }

    fn row(&self, service: &Value, now: i64) -> Vec<Cell> {
        let spec = at(service, &["spec"]);
        let outside: Vec<&str> = texts(spec, "externalIPs").collect();
        let or_none = |text: String| if text.is_empty() { table::NONE.to_owned() } else { text };
        let external = match text(spec, "type") {
            "ClusterIP" | "NodePort" => or_none(outside.join(",")),
            BALANCED => {
                let mut points: Vec<&str> = list(at(service, &["status", "loadBalancer"]), "ingress")
                    .map(|point| match text(point, "ip") {
                        "" => text(point, "hostname"),
                        address => address,
                    })
                    .filter(|point| !point.is_empty())
                    .collect();
                points.sort_unstable();
                points.dedup();
                points.extend(outside);
                if points.is_empty() {
                    "<pending>".to_owned()
                } else {
                    points.join(",")
                }
            }
            EXTERNAL_NAME => text(spec, "externalName").to_owned(),
            _ => "<unknown>".to_owned(),
        };
        let ports: Vec<String> = list(spec, "ports")
            .map(|port| {
                let (own, protocol) = (number(port, "port").unwrap_or_default(), text(port, "protocol"));
                match number(port, "nodePort").unwrap_or_default() {
                    0 => format!("{own}/{protocol}"),
                    node => format!("{own}:{node}/{protocol}"),
                }
            })
            .collect();
        vec![
            table::name(service),
            text(spec, "type").into(),
            texts(spec, "clusterIPs").next().unwrap_or(table::NONE).into(),
            external.into(),
            or_none(ports.join(",")).into(),
            table::created(service, now),
            table::labels(at(spec, &["selector"])).into(),
        ]
    }
}
