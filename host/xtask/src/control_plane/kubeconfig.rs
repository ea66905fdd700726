//! A kubeconfig written here stands alone: it names no file and runs no program, as Chandlery's own reader demands.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::certificates::Identity;

/// How the caller proves who it is.
pub(super) enum Credential<'a> {
    Certificate(&'a Identity),
    Token(&'a str),
}

/// A kubeconfig with one cluster, one user, one context, all of the name `name`.
pub(super) fn render(name: &str, server: &str, ca: &str, credential: Credential<'_>) -> String {
    let ca = STANDARD.encode(ca);
    let user = match credential {
        Credential::Certificate(identity) => format!(
            "client-certificate-data: {}\n    client-key-data: {}",
            STANDARD.encode(&identity.certificate),
            STANDARD.encode(&identity.key)
        ),
        Credential::Token(token) => format!("token: {token}"),
    };
    format!(
        "apiVersion: v1
kind: Config
current-context: {name}
clusters:
- name: {name}
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: {name}
  user:
    {user}
contexts:
- name: {name}
  context:
    cluster: {name}
    user: {name}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_names_no_file_runs_nothing_and_checks_the_server() {
        let identity = Identity {
            certificate: "C".into(),
            key: "K".into(),
        };
        for credential in [Credential::Certificate(&identity), Credential::Token("secret")] {
            let text = render("hub", "https://127.0.0.1:6443", "CA", credential);
            assert!(text.contains("certificate-authority-data: Q0E="), "{text}");
            assert!(
                ["exec", "insecure", "client-key:", "authority:"]
                    .iter()
                    .all(|word| !text.contains(word)),
                "{text}"
            );
        }
        assert!(render("hub", "u", "CA", Credential::Certificate(&identity)).contains("client-key-data: Sw=="));
    }
}
