//! Which of the rows of what a simulator must get right (design: conformance) a request has to do with.

use serde_json::Value;

use super::sequence::Request;

/// The rows, by their numbers; the last one, time, cannot be compared, as a real server's does not obey.
pub(super) const ROWS: [(u8, &str); 20] = [
    (1, "resource versions"),
    (2, "writes that change nothing"),
    (3, "generations"),
    (4, "status and scale"),
    (5, "finalizers and deletion"),
    (6, "UIDs"),
    (7, "preconditions and propagation"),
    (8, "server-side apply"),
    (9, "three kinds of patch"),
    (10, "pages"),
    (11, "watches"),
    (12, "selectors"),
    (13, "owners and garbage"),
    (14, "namespaces"),
    (15, "generated names"),
    (16, "dry run"),
    (17, "definitions and their objects"),
    (18, "discovery, tables, metadata alone"),
    (19, "what is immutable"),
    (20, "Jobs and Leases"),
];

/// The rows a request and its answer belong to. `changed` says whether a successful write made a new version.
pub(super) fn rows(request: &Request, answer: &Value, changed: Option<bool>) -> Vec<u8> {
    let body = request.body.to_string();
    let said = answer.to_string();
    let query = request.path.split_once('?').map_or("", |(_, query)| query);
    let deletes = request.method == "DELETE";
    let sends = |text: &str| body.contains(text);
    let holds: [(u8, bool); 19] = [
        (1, sends("\"resourceVersion\"") || query.contains("resourceVersion")),
        (2, changed == Some(false)),
        (3, said.contains("\"generation\"") && !request.body.is_null()),
        (
            4,
            request.verb.starts_with("status") || request.verb.starts_with("scale"),
        ),
        (5, sends("\"finalizers\"") || said.contains("\"deletionTimestamp\"")),
        (6, sends("\"uid\"")),
        (
            7,
            deletes && (sends("\"preconditions\"") || sends("\"propagationPolicy\"") || sends("\"orphanDependents\"")),
        ),
        (8, request.verb.ends_with("apply")),
        (9, request.verb.ends_with("patch")),
        (10, query.contains("limit=") || query.contains("continue=")),
        (12, query.contains("Selector=")),
        (
            13,
            sends("\"ownerReferences\"") || deletes && sends("\"propagationPolicy\""),
        ),
        (14, request.kind == "Namespace"),
        (15, sends("\"generateName\"")),
        (16, query.contains("dryRun") || sends("\"dryRun\"")),
        (
            17,
            matches!(request.kind.as_str(), "CustomResourceDefinition" | "Widget" | "Gadget"),
        ),
        (18, request.verb == "discovery" || request.accept.contains("as=")),
        (19, said.contains("immutable") || sends("\"immutable\"")),
        (20, matches!(request.kind.as_str(), "Job" | "CronJob" | "Lease")),
    ];
    holds
        .into_iter()
        .filter(|(_, holds)| *holds)
        .map(|(row, _)| row)
        .collect()
}
