//! What is stored of an installation: JSON names, their order, and what is left out when empty, are a contract.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Digest;

/// How an attempt's Job ended. Written once per attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum JobResult {
    /// Helm did what was asked.
    Succeeded,
    /// It did not, was cut off by the deadline, or its Job was lost.
    Failed,
    /// The installation was deleted before the Job had a result.
    Cancelled,
}

/// What an attempt does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// There is no release yet, or one that is adopted.
    #[default]
    Install,
    /// The release is brought to another revision.
    Upgrade,
    /// The release is taken away.
    Uninstall,
}

/// The plan of one installation, as the hub keeps it.
///
/// What is empty is left out, except the fields that every plan has. A tombstone that was written where there was no plan has
/// only its owner and `deleting`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Namespace of the release, in the remote.
    pub namespace: String,
    /// Name of the release.
    pub release: String,
    /// Where the chart is.
    pub chart: String,
    /// Its version, exact.
    pub version: String,
    /// Values as canonical JSON, without secrets.
    pub values: String,
    /// Namespace of the Installation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub org: String,
    /// Name of the Installation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub provider: String,
    /// UID of the namespace of the RemoteCluster.
    #[serde(default, rename = "edgeWorkspaceUUID", skip_serializing_if = "String::is_empty")]
    pub edge_workspace_uuid: String,
    /// Name of the RemoteCluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub edge_name: String,
    /// Identity of the remote: UID of its `kube-system`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// Whether it is known whose the namespace is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub namespace_admission_known: bool,
    /// Whether it is ours. Known and not admitted is a refusal for good.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub namespace_admitted: bool,
    /// UID of the admitted namespace; compared on every later write.
    #[serde(default, rename = "namespaceUID", skip_serializing_if = "String::is_empty")]
    pub namespace_uid: String,
    /// Name of the attempt's Job; never used again.
    pub job: String,
    /// UID of the Job. Empty: not known to exist.
    #[serde(default, rename = "jobUID", skip_serializing_if = "String::is_empty")]
    pub job_uid: String,
    /// Which attempt; rises by one with each.
    pub attempt: u32,
    /// UID of the Installation it was sealed for.
    pub owner: String,
    /// Fencing token of the attempt, random.
    #[serde(default, rename = "attemptID", skip_serializing_if = "String::is_empty")]
    pub attempt_id: String,
    /// Who may create objects in the remote now, random.
    #[serde(default, rename = "preparationID", skip_serializing_if = "String::is_empty")]
    pub preparation_id: String,
    /// Until when nobody else may take the preparation over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preparation_expires_at: Option<Timestamp>,
    /// Tombstone: no start wins after it. Never cleared for this owner.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// How the Job ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_result: Option<JobResult>,
    /// When that was stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// The attempt's credential is revoked, and none of its pods runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cleaned_up: bool,
}

/// What is installed: the part of a plan that a retry copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Namespace of the release.
    pub namespace: String,
    /// Name of the release.
    pub release: String,
    /// Where the chart is.
    pub chart: String,
    /// Its exact version.
    pub version: String,
    /// Values as canonical JSON.
    pub values: String,
}

/// Where it is installed, by UIDs and identities: whatever has the same names later is another target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Namespace of the Installation.
    pub org: String,
    /// Name of the Installation.
    pub provider: String,
    /// UID of the namespace of the RemoteCluster.
    pub edge_workspace_uuid: String,
    /// Name of the RemoteCluster.
    pub edge_name: String,
    /// Identity of the remote.
    pub cluster: String,
}

impl Plan {
    /// What is installed.
    pub fn recipe(&self) -> Recipe {
        Recipe {
            namespace: self.namespace.clone(),
            release: self.release.clone(),
            chart: self.chart.clone(),
            version: self.version.clone(),
            values: self.values.clone(),
        }
    }

    /// Where.
    pub fn target(&self) -> Target {
        Target {
            org: self.org.clone(),
            provider: self.provider.clone(),
            edge_workspace_uuid: self.edge_workspace_uuid.clone(),
            edge_name: self.edge_name.clone(),
            cluster: self.cluster.clone(),
        }
    }
}

/// What is sealed beside the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Seal {
    /// Of the InstallRecipe it was resolved from.
    pub recipe_digest: Digest,
    /// Of the chart.
    pub chart_digest: Digest,
    /// What the attempt does.
    pub operation: Operation,
    /// `spec.revision` of the Installation.
    pub revision: u64,
}

/// A plan with its seal: nobody has changed recipe, target, operation or revision since it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedPlan {
    /// The plan.
    #[serde(flatten)]
    plan: Plan,
    /// What is sealed with it.
    #[serde(flatten)]
    seal: Seal,
    /// Digest over both.
    digest: Digest,
}

/// A stored plan is not what was sealed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the plan of release {namespace}/{release} is not what was sealed: somebody changed it")]
pub struct Broken {
    namespace: String,
    release: String,
}

impl SealedPlan {
    /// Seals a plan.
    pub fn new(plan: Plan, seal: Seal) -> Self {
        let digest = digest(&plan, &seal);
        Self { plan, seal, digest }
    }

    /// The plan and what was sealed with it.
    ///
    /// # Errors
    /// If the seal is broken.
    pub fn open(self) -> Result<(Plan, Seal), Broken> {
        if self.digest == digest(&self.plan, &self.seal) {
            return Ok((self.plan, self.seal));
        }
        Err(Broken {
            namespace: self.plan.namespace,
            release: self.plan.release,
        })
    }
}

/// Each part with its length before it, so that no two plans are the same bytes.
fn digest(plan: &Plan, seal: &Seal) -> Digest {
    let (recipe, target) = (plan.recipe(), plan.target());
    let operation = match seal.operation {
        Operation::Install => "install",
        Operation::Upgrade => "upgrade",
        Operation::Uninstall => "uninstall",
    };
    let revision = seal.revision.to_string();
    let parts = [
        &recipe.namespace,
        &recipe.release,
        &recipe.chart,
        &recipe.version,
        &recipe.values,
        &target.org,
        &target.provider,
        &target.edge_workspace_uuid,
        &target.edge_name,
        &target.cluster,
        &plan.owner,
    ];
    let parts = parts.map(String::as_str).into_iter();
    let mut bytes = Vec::new();
    for part in parts.chain([
        seal.recipe_digest.as_str(),
        seal.chart_digest.as_str(),
        operation,
        &revision,
    ]) {
        bytes.extend((part.len() as u64).to_be_bytes());
        bytes.extend(part.as_bytes());
    }
    Digest::of(&bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn full() -> Plan {
        Plan {
            namespace: "snapshots".into(),
            release: "controller".into(),
            chart: "oci://charts.example/controller".into(),
            version: "1.2.3".into(),
            values: r#"{"replicas":2}"#.into(),
            org: "team-a".into(),
            provider: "snapshots".into(),
            edge_workspace_uuid: "w".into(),
            edge_name: "east".into(),
            cluster: "k".into(),
            namespace_admission_known: true,
            namespace_admitted: true,
            namespace_uid: "n".into(),
            job: "install-1-abc".into(),
            job_uid: "j".into(),
            attempt: 1,
            owner: "o".into(),
            attempt_id: "a".into(),
            preparation_id: "p".into(),
            preparation_expires_at: Some("2026-12-01T10:00:00Z".parse().unwrap()),
            deleting: true,
            job_result: Some(JobResult::Succeeded),
            finished_at: Some("2026-12-01T10:05:00Z".parse().unwrap()),
            cleaned_up: true,
        }
    }

    #[test]
    fn names_and_order_of_a_whole_plan_are_those_of_the_contract() {
        let golden = concat!(
            r#"{"namespace":"snapshots","release":"controller","chart":"oci://charts.example/controller","version":"1.2.3","#,
            r#""values":"{\"replicas\":2}","org":"team-a","provider":"snapshots","edgeWorkspaceUUID":"w","edgeName":"east","#,
            r#""cluster":"k","namespaceAdmissionKnown":true,"namespaceAdmitted":true,"namespaceUID":"n","job":"install-1-abc","#,
            r#""jobUID":"j","attempt":1,"owner":"o","attemptID":"a","preparationID":"p","#,
            r#""preparationExpiresAt":"2026-12-01T10:00:00Z","deleting":true,"jobResult":"Succeeded","#,
            r#""finishedAt":"2026-12-01T10:05:00Z","cleanedUp":true}"#
        );
        assert_eq!(serde_json::to_string(&full()).unwrap(), golden);
        assert_eq!(serde_json::from_str::<Plan>(golden).unwrap(), full());
    }

    #[test]
    fn what_is_empty_is_left_out_but_for_what_every_plan_has() {
        let tombstone = Plan {
            owner: "o".into(),
            deleting: true,
            ..Plan::default()
        };
        let stored = serde_json::to_value(&tombstone).unwrap();
        let expected = json!({"namespace": "", "release": "", "chart": "", "version": "", "values": "", "job": "",
            "attempt": 0, "owner": "o", "deleting": true});
        assert_eq!(stored, expected);
        assert_eq!(serde_json::from_value::<Plan>(stored).unwrap(), tombstone);
    }

    fn seal() -> Seal {
        Seal {
            recipe_digest: Digest::of(b"recipe"),
            chart_digest: Digest::of(b"chart"),
            operation: Operation::Install,
            revision: 1,
        }
    }

    #[test]
    fn a_seal_covers_recipe_target_owner_and_what_is_beside_the_plan_and_lets_the_rest_move() {
        let sealed = serde_json::to_value(SealedPlan::new(full(), seal())).unwrap();
        let open = |changed: serde_json::Value| serde_json::from_value::<SealedPlan>(changed).unwrap().open();
        assert_eq!(open(sealed.clone()), Ok((full(), seal())));
        let covered = [
            "namespace",
            "release",
            "chart",
            "version",
            "values",
            "org",
            "provider",
            "edgeWorkspaceUUID",
            "edgeName",
            "cluster",
            "owner",
        ];
        for field in covered {
            let mut changed = sealed.clone();
            changed[field] = json!("other");
            assert!(open(changed).is_err(), "{field}");
        }
        for (field, value) in [
            ("recipeDigest", json!(Digest::of(b"other"))),
            ("chartDigest", json!(Digest::of(b"other"))),
            ("operation", json!("uninstall")),
            ("revision", json!(2)),
        ] {
            let mut changed = sealed.clone();
            changed[field] = value;
            assert!(open(changed).is_err(), "{field}");
        }
        let mut moved = sealed;
        moved["attempt"] = json!(2);
        moved["attemptID"] = json!("b");
        assert!(open(moved).is_ok());
    }

    #[test]
    fn two_plans_that_read_the_same_when_run_together_have_different_seals() {
        let of = |namespace: &str, release: &str| {
            let plan = Plan {
                namespace: namespace.into(),
                release: release.into(),
                ..full()
            };
            digest(&plan, &seal())
        };
        assert_ne!(of("ab", "c"), of("a", "bc"));
    }
}
