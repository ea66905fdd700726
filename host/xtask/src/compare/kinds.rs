//! The kinds that are compared: a smallest object of each, and what may be put into it, right and wrong.

use serde_json::{Value, json};

/// A kind under comparison.
pub(super) struct Kind {
    /// `/api/v1` or `/apis/apps/v1`.
    pub(super) root: &'static str,
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespaced: bool,
    pub(super) has_status: bool,
    pub(super) has_scale: bool,
    /// Whether a controller that the simulator does not have would write to it.
    pub(super) is_watched: bool,
    /// The least that is valid, without type and metadata.
    pub(super) base: Value,
    /// What may be set: a JSON pointer and values.
    pub(super) fields: Vec<(&'static str, Vec<Value>)>,
    /// The same for the status.
    pub(super) status: Vec<(&'static str, Vec<Value>)>,
}

impl Kind {
    pub(super) fn api_version(&self) -> &'static str {
        self.root.trim_start_matches("/apis/").trim_start_matches("/api/")
    }

    fn new(root: &'static str, plural: &'static str, kind: &'static str, base: Value) -> Self {
        Self {
            root,
            plural,
            kind,
            namespaced: true,
            has_status: false,
            has_scale: false,
            is_watched: true,
            base,
            fields: Vec::new(),
            status: Vec::new(),
        }
    }

    fn cluster(mut self) -> Self {
        self.namespaced = false;
        self
    }

    fn status(mut self, fields: Vec<(&'static str, Vec<Value>)>) -> Self {
        self.has_status = true;
        self.status = fields;
        self
    }

    fn scale(mut self) -> Self {
        self.has_scale = true;
        self
    }

    fn fields(mut self, fields: Vec<(&'static str, Vec<Value>)>) -> Self {
        self.fields = fields;
        self
    }
}

/// The definitions that are there from the beginning, on both sides.
pub(super) fn definitions() -> Vec<Value> {
    let spec = json!({
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 0, "maximum": 9, "default": 1},
            "color": {"type": "string", "enum": ["red", "green", "blue"]},
            "name": {"type": "string", "maxLength": 8, "pattern": "^[a-z]*$"},
            "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed is immutable"}]},
            "replicas": {"type": "integer"},
            "selector": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "parts": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["id"],
                    "properties": {"id": {"type": "string"}, "weight": {"type": "integer", "default": 5}, "note": {"type": "string", "nullable": true}},
                },
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["id"],
            },
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
            "port": {"x-kubernetes-int-or-string": true},
        },
        "x-kubernetes-validations": [{"rule": "!has(self.size) || !has(self.color) || self.size < 8 || self.color != 'red'", "message": "no large red ones"}],
    });
    let status = json!({"type": "object", "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}, "ready": {"type": "boolean"}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}});
    let definition = |plural: &str, kind: &str, scope: &str, versions: Value| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.compare.example.com")},
            "spec": {"group": "compare.example.com", "scope": scope, "names": {"plural": plural, "kind": kind}, "versions": versions},
        })
    };
    vec![
        definition(
            "widgets",
            "Widget",
            "Namespaced",
            json!([{
                "name": "v1", "served": true, "storage": true, "schema": schema,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".spec.selector"}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}, {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
                "selectableFields": [{"jsonPath": ".spec.color"}],
            }]),
        ),
        definition(
            "gadgets",
            "Gadget",
            "Cluster",
            json!([
                {"name": "v1", "served": true, "storage": true, "schema": schema},
                {"name": "v2", "served": true, "storage": false, "schema": schema},
            ]),
        ),
    ]
}

fn widget_fields() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        (
            "/spec/size",
            vec![
                json!(0),
                json!(3),
                json!(8),
                json!(9),
                json!(12),
                json!(-1),
                json!("x"),
                json!(null),
            ],
        ),
        ("/spec/color", vec![json!("red"), json!("green"), json!("pink")]),
        (
            "/spec/name",
            vec![json!("abc"), json!("ABC"), json!("toolongforthis"), json!("")],
        ),
        ("/spec/fixed", vec![json!("a"), json!("b")]),
        (
            "/spec/tags",
            vec![json!(["a"]), json!(["b", "a"]), json!(["a", "a"]), json!([])],
        ),
        (
            "/spec/free",
            vec![json!({"any": {"thing": 1}}), json!({"other": [1, 2]})],
        ),
        (
            "/spec/parts",
            vec![
                json!([{"id": "x"}]),
                json!([{"id": "y", "weight": 2}, {"id": "x", "note": null}]),
                json!([{"id": "x"}, {"id": "x"}]),
                json!([{"weight": 1}]),
            ],
        ),
        (
            "/spec/labels",
            vec![json!({"a": "1"}), json!({"b": "2", "a": "3"}), json!({"a": 1})],
        ),
        ("/spec/whole", vec![json!({"a": "1"}), json!({"b": "2"})]),
        ("/spec/port", vec![json!(80), json!("http"), json!(true)]),
        ("/spec/unknown", vec![json!("x")]),
        ("/spec/replicas", vec![json!(2), json!(0)]),
        ("/status/phase", vec![json!("sneaked in")]),
    ]
}

fn widget_status() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("/status/phase", vec![json!("Ready"), json!("Waiting"), json!(3)]),
        ("/status/replicas", vec![json!(1), json!(2)]),
        ("/status/ready", vec![json!(true), json!(false)]),
        ("/spec/size", vec![json!(4)]),
        ("/status/unknown", vec![json!("x")]),
    ]
}

fn pod_spec() -> Value {
    json!({"containers": [{"name": "main", "image": "example/image:1"}]})
}

fn template(labels: &Value) -> Value {
    json!({"metadata": {"labels": labels}, "spec": pod_spec()})
}

fn pod_fields(prefix: &str) -> Vec<(&'static str, Vec<Value>)> {
    let at = |path: &str| -> &'static str { Box::leak(format!("{prefix}{path}").into_boxed_str()) };
    vec![
        (
            at("/containers/0/image"),
            vec![json!("example/image:2"), json!("example/image"), json!("")],
        ),
        (
            at("/containers/0/env"),
            vec![
                json!([{"name": "A", "value": "1"}]),
                json!([{"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
                json!([{"value": "x"}]),
            ],
        ),
        (
            at("/containers/0/ports"),
            vec![
                json!([{"containerPort": 80}]),
                json!([{"containerPort": 80, "name": "http"}, {"containerPort": 53, "protocol": "UDP"}]),
                json!([{"containerPort": 99999}]),
            ],
        ),
        (
            at("/containers/0/resources"),
            vec![
                json!({"requests": {"cpu": "100m", "memory": "64Mi"}}),
                json!({"limits": {"cpu": "1"}}),
                json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            ],
        ),
        (
            at("/containers/0/readinessProbe"),
            vec![
                json!({"httpGet": {"path": "/", "port": 80}}),
                json!({"exec": {"command": ["true"]}, "periodSeconds": 0}),
            ],
        ),
        (at("/terminationGracePeriodSeconds"), vec![json!(5)]),
        (
            at("/volumes"),
            vec![
                json!([{"name": "v", "emptyDir": {}}]),
                json!([{"name": "c", "configMap": {"name": "x"}}]),
                json!([{"name": "V!", "emptyDir": {}}]),
            ],
        ),
    ]
}

/// Every kind, in no order.
pub(super) fn all() -> Vec<Kind> {
    let labels = json!({"app": "a"});
    let selector = json!({"matchLabels": labels});
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = vec![(
        "/rules",
        vec![
            json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]),
            json!([{"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"], "resourceNames": ["x"]}]),
            json!([{"apiGroups": [""], "resources": ["pods"], "verbs": []}]),
            json!([{"resources": ["pods"], "verbs": ["get"]}]),
            json!([]),
        ],
    )];
    let binding =
        |kind: &str| json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "view"}});
    let subjects = || {
        vec![
            (
                "/subjects",
                vec![
                    json!([{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]),
                    json!([{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}]),
                    json!([{"kind": "Group", "name": "devs"}]),
                    json!([{"kind": "Robot", "name": "r2"}]),
                    json!([]),
                ],
            ),
            ("/roleRef/name", vec![json!("edit"), json!("")]),
        ]
    };
    let mut kinds = vec![
        Kind::new("/api/v1", "configmaps", "ConfigMap", json!({})).fields(vec![
            ("/data/a", vec![json!("1"), json!("2"), json!(""), json!(5)]),
            ("/data/b", vec![json!("x"), json!("y")]),
            ("/data", vec![json!({"k": "v"}), json!({}), json!(null), json!("text")]),
            ("/binaryData/z", vec![json!("AAEC"), json!("!!!")]),
            ("/binaryData/a", vec![json!("AAEC")]),
            ("/immutable", vec![json!(true), json!(false)]),
            ("/data/bad key", vec![json!("v")]),
        ]),
        Kind::new("/api/v1", "secrets", "Secret", json!({})).fields(vec![
            ("/data/a", vec![json!("AAEC"), json!("AQ=="), json!("not base64!")]),
            ("/stringData/a", vec![json!("text"), json!("other")]),
            ("/stringData/b", vec![json!("text")]),
            ("/type", vec![json!("Opaque"), json!("example.com/own"), json!("kubernetes.io/tls"), json!("kubernetes.io/basic-auth")]),
            ("/immutable", vec![json!(true)]),
        ]),
        Kind::new("/api/v1", "serviceaccounts", "ServiceAccount", json!({})).fields(vec![
            ("/automountServiceAccountToken", vec![json!(true), json!(false)]),
            ("/imagePullSecrets", vec![json!([{"name": "x"}]), json!([{"name": "y"}, {"name": "x"}])]),
            ("/secrets", vec![json!([{"name": "s"}])]),
        ]),
        Kind::new("/api/v1", "services", "Service", json!({"spec": {"ports": [{"port": 80}]}})).fields(vec![
            ("/spec/ports", vec![json!([{"port": 80}, {"port": 81}]), json!([{"port": 80, "name": "a"}, {"port": 53, "name": "b", "protocol": "UDP"}]), json!([{"port": 0}]), json!([])]),
            ("/spec/selector", vec![json!({"app": "a"}), json!({"app": "b"})]),
            ("/spec/type", vec![json!("ClusterIP"), json!("ExternalName"), json!("Loud"), json!("NodePort"), json!("LoadBalancer")]),
            ("/spec/ports/0/nodePort", vec![json!(31000), json!(5)]),
            ("/spec/ipFamilyPolicy", vec![json!("SingleStack"), json!("PreferDualStack"), json!("RequireDualStack")]),
            ("/spec/ipFamilies", vec![json!(["IPv4"]), json!(["IPv6"]), json!(["IPv4", "IPv6"])]),
            ("/spec/externalTrafficPolicy", vec![json!("Local"), json!("Cluster")]),
            ("/spec/externalIPs", vec![json!(["1.2.3.4"])]),
            ("/spec/externalName", vec![json!("example.com")]),
            ("/spec/clusterIP", vec![json!("None"), json!("10.0.0.300")]),
            ("/spec/sessionAffinity", vec![json!("ClientIP"), json!("None")]),
            ("/spec/publishNotReadyAddresses", vec![json!(true)]),
        ]),
        Kind::new("/api/v1", "pods", "Pod", json!({"spec": pod_spec()})).status(vec![
            ("/status/phase", vec![json!("Running"), json!("Succeeded")]),
            ("/status/message", vec![json!("hello")]),
            ("/status/conditions", vec![json!([{"type": "Ready", "status": "True"}])]),
        ]).fields({
            let mut fields = pod_fields("/spec");
            fields.push(("/spec/restartPolicy", vec![json!("Never"), json!("Always"), json!("Often")]));
            fields.push(("/spec/nodeSelector", vec![json!({"a": "b"})]));
            fields.push(("/spec/schedulingGates", vec![json!([{"name": "example.com/gate"}]), json!([{"name": "example.com/gate"}, {"name": "example.com/other"}])]));
            fields.push(("/spec/tolerations", vec![json!([{"key": "a", "operator": "Exists"}]), json!([{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}])]));
            fields.push(("/spec/activeDeadlineSeconds", vec![json!(5), json!(9)]));
            fields.push(("/spec/serviceAccountName", vec![json!("default"), json!("missing")]));
            fields
        }),
        Kind::new("/apis/apps/v1", "deployments", "Deployment", json!({"spec": {"selector": selector, "template": template(&labels)}}))
            .scale()
            .status(vec![("/status/replicas", vec![json!(1)]), ("/status/observedGeneration", vec![json!(1)]), ("/status/conditions", vec![json!([{"type": "Available", "status": "True"}])])])
            .fields({
                let mut fields = pod_fields("/spec/template/spec");
                fields.push(("/spec/replicas", vec![json!(0), json!(3), json!(-1)]));
                fields.push(("/spec/selector/matchLabels", vec![json!({"app": "b"}), json!({})]));
                fields.push(("/spec/template/metadata/labels", vec![json!({"app": "b"}), json!({"app": "a", "x": "y"})]));
                fields.push(("/spec/strategy", vec![json!({"type": "Recreate"}), json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}), json!({"type": "Whim"})]));
                fields.push(("/spec/paused", vec![json!(true)]));
                fields
            }),
        Kind::new("/apis/apps/v1", "statefulsets", "StatefulSet", json!({"spec": {"selector": selector, "serviceName": "s", "template": template(&labels)}}))
            .scale()
            .status(vec![("/status/replicas", vec![json!(1)])])
            .fields({
                let mut fields = pod_fields("/spec/template/spec");
                fields.push(("/spec/replicas", vec![json!(0), json!(2)]));
                fields.push(("/spec/podManagementPolicy", vec![json!("Parallel"), json!("Loose")]));
                fields.push(("/spec/serviceName", vec![json!("t")]));
                fields.push(("/spec/updateStrategy", vec![json!({"type": "OnDelete"}), json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}})]));
                fields.push(("/spec/volumeClaimTemplates", vec![json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}])]));
                fields
            }),
        Kind::new("/apis/apps/v1", "daemonsets", "DaemonSet", json!({"spec": {"selector": selector, "template": template(&labels)}}))
            .status(vec![("/status/numberReady", vec![json!(1)])])
            .fields({
                let mut fields = pod_fields("/spec/template/spec");
                fields.push(("/spec/updateStrategy", vec![json!({"type": "OnDelete"}), json!({"type": "Whim"})]));
                fields.push(("/spec/minReadySeconds", vec![json!(3), json!(-3)]));
                fields
            }),
        Kind::new("/apis/batch/v1", "jobs", "Job", json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "example/image:1"}], "restartPolicy": "Never"}}}}))
            .status(vec![("/status/active", vec![json!(1)]), ("/status/startTime", vec![json!("2026-01-01T00:00:00Z")])])
            .fields({
                let mut fields = pod_fields("/spec/template/spec");
                fields.push(("/spec/parallelism", vec![json!(2), json!(-1)]));
                fields.push(("/spec/completions", vec![json!(2)]));
                fields.push(("/spec/backoffLimit", vec![json!(1), json!(0)]));
                fields.push(("/spec/suspend", vec![json!(true), json!(false)]));
                fields.push(("/spec/ttlSecondsAfterFinished", vec![json!(100)]));
                fields.push(("/spec/template/spec/restartPolicy", vec![json!("Always"), json!("OnFailure")]));
                fields
            }),
        Kind::new("/apis/batch/v1", "cronjobs", "CronJob", json!({"spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "example/image:1"}], "restartPolicy": "Never"}}}}}}))
            .status(vec![("/status/lastScheduleTime", vec![json!("2026-01-01T00:00:00Z")])])
            .fields(vec![
                ("/spec/schedule", vec![json!("*/5 * * * *"), json!("@daily"), json!("often"), json!("")]),
                ("/spec/suspend", vec![json!(true)]),
                ("/spec/concurrencyPolicy", vec![json!("Forbid"), json!("Maybe")]),
                ("/spec/successfulJobsHistoryLimit", vec![json!(1), json!(-1)]),
                ("/spec/timeZone", vec![json!("Etc/UTC"), json!("Mars/Base")]),
            ]),
        Kind::new(rbac, "roles", "Role", json!({"rules": []})).fields(rules.clone()),
        Kind::new(rbac, "clusterroles", "ClusterRole", json!({"rules": []})).cluster().fields(rules),
        Kind::new(rbac, "rolebindings", "RoleBinding", binding("ClusterRole")).fields(subjects()),
        Kind::new(rbac, "clusterrolebindings", "ClusterRoleBinding", binding("ClusterRole")).cluster().fields(subjects()),
        Kind::new("/apis/coordination.k8s.io/v1", "leases", "Lease", json!({"spec": {}})).fields(vec![
            ("/spec/holderIdentity", vec![json!("a"), json!("b"), json!("")]),
            ("/spec/leaseDurationSeconds", vec![json!(15), json!(0), json!(-1)]),
            ("/spec/renewTime", vec![json!("2026-01-01T00:00:00.000000Z"), json!("yesterday")]),
            ("/spec/leaseTransitions", vec![json!(1), json!(-1)]),
        ]),
        Kind::new("/api/v1", "persistentvolumeclaims", "PersistentVolumeClaim", json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}))
            .status(vec![("/status/phase", vec![json!("Bound"), json!("Lost")])])
            .fields(vec![
                ("/spec/accessModes", vec![json!(["ReadWriteMany"]), json!(["Sometimes"]), json!([])]),
                ("/spec/resources/requests/storage", vec![json!("2Gi"), json!("500Mi"), json!("-1")]),
                ("/spec/storageClassName", vec![json!("fast"), json!("")]),
                ("/spec/volumeMode", vec![json!("Block")]),
            ]),
        Kind::new("/apis/networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", json!({"spec": {"podSelector": {}}})).fields(vec![
            ("/spec/podSelector", vec![json!({"matchLabels": {"a": "b"}}), json!({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]})]),
            ("/spec/policyTypes", vec![json!(["Ingress"]), json!(["Egress", "Ingress"]), json!(["Sideways"])]),
            ("/spec/ingress", vec![json!([{}]), json!([{"from": [{"podSelector": {}}], "ports": [{"port": 80}]}]), json!([{"from": [{"ipBlock": {"cidr": "nonsense"}}]}])]),
            ("/spec/egress", vec![json!([{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}])]),
        ]),
        Kind::new("/api/v1", "resourcequotas", "ResourceQuota", json!({"spec": {"hard": {"persistentvolumes": "10"}}}))
            .status(vec![("/status/hard", vec![json!({"persistentvolumes": "10"})])])
            .fields(vec![
                ("/spec/hard", vec![json!({"services.loadbalancers": "5"}), json!({"persistentvolumes": "many"}), json!({"persistentvolumes": "-1"})]),
                ("/spec/scopes", vec![json!(["BestEffort"]), json!(["WorstEffort"])]),
            ]),
        Kind::new("/api/v1", "namespaces", "Namespace", json!({})).cluster().status(vec![("/status/phase", vec![json!("Active"), json!("Terminating")])]).fields(vec![
            ("/spec/finalizers", vec![json!(["kubernetes"]), json!(["example.com/own"])]),
        ]),
        Kind::new("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", json!({"spec": {
            "group": "{group}", "scope": "Namespaced", "names": {"plural": "{plural}", "kind": "{Kind}"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}}}],
        }}))
        .cluster()
        .fields(vec![
            ("/spec/scope", vec![json!("Cluster"), json!("Galaxy")]),
            ("/spec/names/shortNames", vec![json!(["{plural}s"]), json!(["Bad Name"])]),
            ("/spec/names/kind", vec![json!("lower case")]),
            ("/spec/versions/0/storage", vec![json!(false)]),
            ("/spec/versions/0/name", vec![json!("v1beta1"), json!("V!")]),
            ("/spec/versions/0/schema/openAPIV3Schema", vec![json!({"type": "object"}), json!({"properties": {"a": {}}}), json!({"type": "object", "properties": {"a": {"type": "array"}}}), json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})]),
            ("/spec/versions/0/subresources", vec![json!({"status": {}})]),
            ("/spec/versions/0/additionalPrinterColumns", vec![json!([{"name": "A", "type": "string", "jsonPath": ".spec.a"}]), json!([{"name": "A", "type": "poem", "jsonPath": ".spec.a"}])]),
        ]),
        Kind::new("/apis/compare.example.com/v1", "widgets", "Widget", json!({"spec": {}})).scale().status(widget_status()).fields(widget_fields()),
        Kind::new("/apis/compare.example.com/v1", "gadgets", "Gadget", json!({"spec": {}})).cluster().fields(widget_fields()),
        Kind::new("/apis/compare.example.com/v2", "gadgets", "Gadget", json!({"spec": {}})).cluster().fields(widget_fields()),
    ];
    for kind in &mut kinds {
        // What the server's own controllers write to would make the order of events a matter of luck.
        kind.is_watched = !matches!(
            kind.plural,
            "namespaces" | "customresourcedefinitions" | "serviceaccounts" | "resourcequotas"
        );
    }
    kinds
}
