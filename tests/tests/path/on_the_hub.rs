//! Steps on the hub act as the Provision's own ServiceAccount: what that may do is the last word.

use serde_json::json;

use super::{WORLD, team};

#[test]
fn a_step_on_the_hub_acts_as_its_service_account_and_may_do_no_more() {
    let team = team();
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]}]);
    let metadata = team.metadata("tenant");
    WORLD
        .hub
        .apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}));
    let role = "rbac.authorization.k8s.io/v1";
    WORLD
        .hub
        .apply(&json!({"apiVersion": role, "kind": "Role", "metadata": metadata, "rules": rules}));
    WORLD
        .hub
        .apply(&json!({"apiVersion": role, "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": team.name}]}));
    let mark = WORLD.hub.audit().mark();
    let account = json!({"serviceAccountName": "tenant"});
    let step = json!([{"name": "config", "cluster": "hub", "objects": [team.config_map("c", "x")]}]);
    team.provision_of("p", &[], step, account.clone());
    team.until_ready("p");
    let user = format!("system:serviceaccount:{}:tenant", team.name);
    let writes = |resource: &str| -> Vec<_> {
        let calls = WORLD.hub.audit().since(mark).into_iter();
        calls
            .filter(|call| {
                call.is_write()
                    && call.resource == resource
                    && call.namespace == team.name
                    && call.name != "kube-root-ca.crt"
            })
            .collect()
    };
    let made = writes("configmaps");
    assert!(
        !made.is_empty() && made.iter().all(|call| call.user == user && call.code < 300),
        "{made:#?}"
    );

    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": team.metadata("s")});
    let step = json!([{"name": "secret", "cluster": "hub", "objects": [secret]}]);
    team.provision_of("q", &[], step, account);
    let seen = team.until("q", "is refused", |seen| seen.state("secret") == "Failed");
    assert_eq!(seen.reason(), "Denied", "{seen:?}");
    for part in ["secret: ", &format!("Secret {}/s", team.name), &user] {
        assert!(seen.message().contains(part), "names {part}: {seen:?}");
    }
    let tried = writes("secrets");
    assert!(
        tried.iter().all(|call| call.user == user && call.code == 403),
        "{tried:#?}"
    );
    team.delete("q");
    team.until_gone("q");
    team.remove("p");
    assert!(team.find(&WORLD.hub, "c").is_none());
}
