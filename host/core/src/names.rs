//! Names that Chandlery writes into clusters. Each is spelled here and nowhere else.

/// API group of all of Chandlery's objects.
pub const GROUP: &str = "chandlery.dev";
/// Version of all of Chandlery's objects.
pub const VERSION: &str = "v1alpha1";
/// The finalizer on every object whose disappearance needs work by the host.
pub const FINALIZER: &str = "chandlery.dev/teardown";
/// Owner mark on each object that a step wrote: `PROVISION-UID/STEP`.
pub const OWNER_ANNOTATION: &str = "chandlery.dev/owner";
/// `"true"` on an object exempts it from pruning and from deprovision.
pub const KEEP_ANNOTATION: &str = "chandlery.dev/keep";
/// On a Secret given to `create`: keys that the host fills with random characters.
pub const GENERATE_ANNOTATION: &str = "chandlery.dev/generate";
/// The plugin that the short form `objects:` of a step stands for.
pub const OBJECTS_PLUGIN: &str = "objects";
/// The step target that means the cluster the daemon runs in.
pub const HUB: &str = "hub";

/// The owner mark of one step.
pub fn owner_mark(provision: &crate::Uid, step: &crate::StepName) -> String {
    format!("{provision}/{step}")
}

/// The field manager of one step. At most 110 bytes of the API's 128: a UID is 36, a step name 63.
pub fn field_manager(provision: &crate::Uid, step: &crate::StepName) -> String {
    format!("chandlery/{provision}/{step}")
}
