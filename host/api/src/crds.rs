//! The CustomResourceDefinitions, made from the types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, ValidationRule};
use kube::CustomResourceExt as _;

use crate::{Plugin, Provision, RemoteClaim, RemoteCluster, StepRecord};

/// All definitions, in the order of their names.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        Plugin::crd(),
        Provision::crd(),
        RemoteClaim::crd(),
        with_rule(
            RemoteCluster::crd(),
            "!has(self.spec.via) || self.spec.via != self.metadata.name",
            "a remote is not reached through itself",
        ),
        StepRecord::crd(),
    ]
}

/// With a rule over the whole object, whose name is seen nowhere else.
fn with_rule(mut crd: CustomResourceDefinition, rule: &str, message: &str) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let schema = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut());
        if let Some(schema) = schema {
            schema
                .x_kubernetes_validations
                .get_or_insert_default()
                .push(ValidationRule {
                    rule: rule.to_owned(),
                    message: Some(message.to_owned()),
                    ..ValidationRule::default()
                });
        }
    }
    crd
}

/// All definitions as one YAML stream.
///
/// # Errors
/// If a definition cannot be written as YAML, which would be a bug of this crate.
pub fn crds_yaml() -> Result<String, String> {
    let mut text = String::new();
    for crd in crds() {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&crd).map_err(|error| error.to_string())?);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_in_the_category_and_has_an_age_column() {
        for crd in crds() {
            assert_eq!(
                crd.spec.names.categories.as_deref(),
                Some(&["chandlery".to_owned()][..]),
                "{}",
                crd.spec.names.kind
            );
            let columns = crd.spec.versions[0]
                .additional_printer_columns
                .clone()
                .unwrap_or_default();
            assert!(columns.iter().any(|c| c.name == "Age"), "{}", crd.spec.names.kind);
        }
    }

    #[test]
    fn the_yaml_is_read_back_as_it_was() {
        let documents: Vec<CustomResourceDefinition> = serde_saphyr::from_multiple(&crds_yaml().unwrap()).unwrap();
        assert_eq!(documents, crds());
    }
}
