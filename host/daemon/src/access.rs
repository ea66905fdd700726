//! What the daemon does on the hub, as one table. The ClusterRole is made of it, and the tests run under that role.

/// One line of what the daemon does on the hub.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    /// API group; `""` is the core group.
    pub group: &'static str,
    /// Plural names.
    pub resources: &'static [&'static str],
    /// RBAC verbs.
    pub verbs: &'static [&'static str],
    /// Names, if only these.
    pub names: &'static [&'static str],
    /// What for.
    pub why: &'static str,
}

/// All of it, but for the Lease, which is in the daemon's own namespace.
pub const HUB_ACCESS: &[Access] = &[
    Access {
        group: "chandlery.dev",
        resources: &["provisions", "remoteclusters", "plugins"],
        verbs: &["get", "list", "watch", "patch"],
        names: &[],
        why: "reads what is asked for; puts its finalizer on and takes it off",
    },
    Access {
        group: "chandlery.dev",
        resources: &["provisions/status", "remoteclusters/status", "plugins/status"],
        verbs: &["patch"],
        names: &[],
        why: "tells where things stand",
    },
    Access {
        group: "chandlery.dev",
        resources: &["steprecords", "remoteclaims"],
        verbs: &["get", "list", "watch", "create", "update", "patch", "delete"],
        names: &[],
        why: "its own memory: what was done, and who uses what",
    },
    Access {
        group: "",
        resources: &["secrets"],
        verbs: &["get"],
        names: &[],
        why: "kubeconfigs that RemoteClusters name; never listed",
    },
    Access {
        group: "",
        resources: &["configmaps"],
        verbs: &["get"],
        names: &[],
        why: "components that Plugins name",
    },
    Access {
        group: "",
        resources: &["namespaces"],
        verbs: &["get", "list", "watch"],
        names: &[],
        why: "the hub's identity; labels for allowedNamespaces; whether a namespace is ending",
    },
    Access {
        group: "",
        resources: &["serviceaccounts/token"],
        verbs: &["create"],
        names: &[],
        why: "steps on the hub act as the Provision's ServiceAccount",
    },
    Access {
        group: "",
        resources: &["pods"],
        verbs: &["get"],
        names: &[],
        why: "whether another instance of the daemon is gone",
    },
    Access {
        group: "events.k8s.io",
        resources: &["events"],
        verbs: &["create", "patch"],
        names: &[],
        why: "tells changes of state",
    },
];

/// What it does in its own namespace.
pub(crate) const OWN_NAMESPACE_ACCESS: &[Access] = &[Access {
    group: "coordination.k8s.io",
    resources: &["leases"],
    verbs: &["get", "create", "update"],
    names: &[],
    why: "one leads",
}];

/// What it does in the namespace of an Argo CD with which remotes are registered.
pub(crate) const REGISTRATION_ACCESS: &[Access] = &[Access {
    group: "",
    resources: &["secrets"],
    verbs: &["get", "create", "patch", "delete"],
    names: &[],
    why: "registrations of remotes, and no other Secret: each is named from its remote's UID",
}];
