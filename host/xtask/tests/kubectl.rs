//! kubectl says the same of a simulated cluster as of a real one: the same commands on both, and what they print compared.
//! What may differ is what tells one cluster from another: ages, times, UIDs, versions, addresses, tokens.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail like tests"
)]

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use chandlery_simulator::{Clock, Server, Settings, Simulator, User, World};
use regex::Regex;
use serde_json::{Value, json};
use xtask::control_plane::{ControlPlane, Kubectl};

/// A command line, and what it reads.
struct Asked {
    line: &'static str,
    input: String,
}

fn asked(line: &'static str) -> Asked {
    Asked {
        line,
        input: String::new(),
    }
}

/// One object of each kind that plugins live on.
fn manifests() -> Vec<Value> {
    let pod = json!({"containers": [{"name": "main", "image": "example/image:1", "env": [{"name": "A", "value": "b"}], "ports": [{"containerPort": 80}]}]});
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod});
    let job = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example/image:1"}]}}});
    let selector = json!({"matchLabels": {"app": "a"}});
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]);
    let of = |api_version: &str, kind: &str, rest: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "namespace": "team", "labels": {"app": "a"}}});
        if let (Some(object), Some(rest)) = (object.as_object_mut(), rest.as_object()) {
            object.extend(rest.clone());
        }
        object
    };
    vec![
        of("v1", "ConfigMap", json!({"data": {"a": "1", "text": "two\nlines\n"}})),
        of(
            "v1",
            "Secret",
            json!({"type": "Opaque", "stringData": {"password": "secret"}}),
        ),
        of("v1", "ServiceAccount", json!({})),
        of(
            "v1",
            "Service",
            json!({"spec": {"selector": {"app": "a"}, "ports": [{"name": "http", "port": 80}]}}),
        ),
        of(
            "apps/v1",
            "Deployment",
            json!({"spec": {"replicas": 2, "selector": selector, "template": template}}),
        ),
        of(
            "apps/v1",
            "StatefulSet",
            json!({"spec": {"serviceName": "a", "selector": selector, "template": template}}),
        ),
        of(
            "apps/v1",
            "DaemonSet",
            json!({"spec": {"selector": selector, "template": template}}),
        ),
        of("batch/v1", "Job", json!({"spec": job})),
        of(
            "batch/v1",
            "CronJob",
            json!({"spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}}}),
        ),
        of("rbac.authorization.k8s.io/v1", "Role", json!({"rules": rules})),
        of(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            json!({
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"},
                "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "team"}],
            }),
        ),
        of(
            "coordination.k8s.io/v1",
            "Lease",
            json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}),
        ),
        of(
            "v1",
            "PersistentVolumeClaim",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        of(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            json!({"spec": {"podSelector": {"matchLabels": {"app": "a"}}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}]}]}}),
        ),
        of("v1", "Pod", json!({"spec": pod})),
    ]
}

const KINDS: &str = "configmaps,secrets,serviceaccounts,services,deployments,statefulsets,daemonsets,jobs,cronjobs,roles,rolebindings,leases,persistentvolumeclaims,networkpolicies,pods";

fn session() -> Vec<Asked> {
    let all = |edit: &dyn Fn(&mut Value)| {
        let documents = manifests().into_iter().map(|mut manifest| {
            edit(&mut manifest);
            manifest.to_string()
        });
        documents.collect::<Vec<_>>().join("\n---\n")
    };
    let changed = all(&|manifest| manifest["metadata"]["labels"]["changed"] = "yes".into());
    let with_kinds = |line: &'static str| asked(Box::leak(line.replace("KINDS", KINDS).into_boxed_str()));
    let mut session = vec![
        asked("version -o json"),
        asked("create namespace team"),
        asked("wait --for=create serviceaccount/default -n team --timeout=30s"),
        Asked {
            line: "apply --server-side -f -",
            input: all(&|_| {}),
        },
        Asked {
            line: "apply --server-side -f -",
            input: all(&|_| {}),
        },
        Asked {
            line: "diff --server-side -f -",
            input: changed.clone(),
        },
        Asked {
            line: "apply --server-side --field-manager=other -f -",
            input: all(&|manifest| {
                if manifest["kind"] == "ConfigMap" {
                    manifest["data"]["a"] = "2".into();
                }
            }),
        },
        with_kinds("get KINDS -n team"),
        with_kinds("get KINDS -n team -o wide"),
        with_kinds("get KINDS -n team -o name"),
        with_kinds("get KINDS -n team --show-labels --selector=app=a"),
        asked("get namespaces"),
        asked("get namespaces -o wide"),
        asked("get configmap a -n team -o jsonpath={.data}"),
        asked("get configmap missing -n team"),
        asked("get nonsense"),
        asked("get customresourcedefinitions"),
        asked("wait --for=jsonpath={.data.a}=1 configmap/a -n team --timeout=5s"),
        asked("wait --for=condition=Complete job/a -n team --timeout=1s"),
        asked("scale deployment a -n team --replicas=3"),
        asked("label configmap a -n team more=less"),
        asked("annotate configmap a -n team note=worthy"),
        asked("patch configmap a -n team -p {\"data\":{\"b\":\"2\"}}"),
        asked("explain configmap"),
        asked("explain pods.spec.containers.resources"),
        asked("explain deployment.spec.strategy"),
        asked("api-resources -o wide --sort-by=name"),
        asked("api-versions"),
        asked("create token a -n team"),
        asked("create token missing -n team"),
        asked("auth can-i create pods -n team"),
        asked("auth can-i * *"),
        asked("get configmaps -n team --watch --request-timeout=1s"),
        asked("delete deployment a -n team --cascade=foreground --timeout=30s"),
        asked("delete job a -n team --cascade=orphan"),
        asked("delete configmap,secret a -n team"),
        asked("delete configmap missing -n team"),
        asked("delete configmap missing -n team --ignore-not-found"),
        asked("delete namespace team --wait=false"),
    ];
    let describe = [
        "configmap",
        "secret",
        "serviceaccount",
        "service",
        "deployment",
        "statefulset",
        "daemonset",
        "job",
        "cronjob",
        "role",
        "rolebinding",
        "persistentvolumeclaim",
        "networkpolicy",
        "pod",
        "lease",
    ];
    let at = session.len() - 7;
    for kind in describe {
        let line: &'static str = Box::leak(format!("describe {kind} a -n team").into_boxed_str());
        session.insert(at, asked(line));
    }
    session
}

fn told(kubectl: &Kubectl, asked: &Asked) -> String {
    let words = asked.line.split(' ').map(str::to_owned);
    let mut command = kubectl.command(words);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("kubectl starts");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(asked.input.as_bytes()).expect("kubectl reads");
    drop(input);
    let output = child.wait_with_output().expect("kubectl ends");
    normal(&format!(
        "{}{}exit {:?}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        output.status.code()
    ))
}

/// A text without what tells one cluster from another.
fn normal(text: &str) -> String {
    let rules = [
        // Widths of columns follow ages and addresses.
        (r"[ \t]+", " "),
        (r"(?m)^(diff|---|\+\+\+) .*$", "$1 FILES"),
        (r"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", "TOKEN"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (
            r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} 20\d\d \d\d:\d\d:\d\d \+\d{4}",
            "TIME",
        ),
        (r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d \+0000 UTC", "TIME"),
        (r"\b10\.0\.0\.\d+\b", "ADDRESS"),
        (r"\b127\.0\.0\.1:\d+\b", "SERVER"),
        (r"(^|[ \n])\d+(s|m|m\d+s|y|y\d+d)\b", "${1}AGE"),
        (r"(Resource Version|resourceVersion): .*", "$1"),
        (r"kube-api-access-[a-z0-9]{5}", "kube-api-access-..."),
    ];
    let mut text = text.to_owned();
    for (pattern, name) in rules {
        text = Regex::new(pattern)
            .expect("a pattern")
            .replace_all(&text, name)
            .into_owned();
    }
    text
}

#[test]
fn kubectl_says_the_same_of_a_simulated_cluster_as_of_a_real_one() {
    let real = ControlPlane::builder()
        .name("kubectl")
        .controllers("garbage-collector-controller,namespace-controller,serviceaccount-controller,root-ca-certificate-publisher-controller")
        .start()
        .expect("a control plane");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let simulator = Simulator::of(World::new(Settings::default()), Clock::Wall);
    let server = runtime.block_on(Server::start(&simulator, 0)).expect("a port");
    let directory = tempfile::tempdir().expect("a directory");
    let kubeconfig = directory.path().join("kubeconfig");
    fs::write(
        &kubeconfig,
        server.kubeconfig("simulated", User::admin()).expect("a kubeconfig"),
    )
    .expect("a file");
    let (one, other) = (real.client(), real.client().with_kubeconfig(&kubeconfig));
    let mut differences = Vec::new();
    for asked in session() {
        let (expected, found) = (told(&one, &asked), told(&other, &asked));
        if expected != found {
            differences.push(format!(
                "$ kubectl {}\n── real\n{expected}\n── simulated\n{found}",
                asked.line
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}
