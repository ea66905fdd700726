//! Tokens of ServiceAccounts: made on request, believed until they expire or their account is another.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::access::User;
use crate::object;
use crate::world::World;

/// What signs tokens; the same in all worlds of a process, so that a fork believes its parent's tokens.
pub(crate) struct Signer {
    key: Vec<u8>,
    certificate: String,
}

/// Who a token is for if the request does not say.
pub(crate) const AUDIENCE: &str = "https://kubernetes.default.svc";
const HEADER: &str = r#"{"alg":"HS256","kid":"chandlery-simulator"}"#;

impl Signer {
    pub(crate) fn new() -> Self {
        // No secret: whoever reaches the simulator is meant to.
        Self {
            key: b"chandlery simulator".to_vec(),
            certificate: String::new(),
        }
    }

    /// The certificate that namespaces carry; empty while no port is served.
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }

    pub(crate) fn with_certificate(&self, certificate: String) -> Self {
        Self {
            key: self.key.clone(),
            certificate,
        }
    }

    fn sign(&self, text: &str) -> String {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else {
            return String::new();
        };
        mac.update(text.as_bytes());
        URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
    }
}

impl World {
    /// A token for an account, and when it expires as Unix time.
    pub(crate) fn issue(
        &mut self,
        namespace: &str,
        account: &Value,
        audiences: &[String],
        seconds: i64,
    ) -> (String, i64) {
        let (name, uid) = (object::name(account), object::uid(account));
        let issued = self.now.as_second();
        let expires = issued.saturating_add(seconds);
        let claims = json!({
            "aud": audiences,
            "exp": expires,
            "iat": issued,
            "nbf": issued,
            "iss": AUDIENCE,
            "jti": self.ids.uid(),
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
            "sub": format!("system:serviceaccount:{namespace}:{name}"),
        });
        let body = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(HEADER),
            URL_SAFE_NO_PAD.encode(claims.to_string())
        );
        let signature = self.signer.sign(&body);
        (format!("{body}.{signature}"), expires)
    }

    /// Whose token it is, if it is to be believed.
    pub(crate) fn authenticate(&self, token: &str) -> Option<User> {
        self.authenticate_for(token, &[AUDIENCE.to_owned()])
            .map(|(user, _)| user)
    }

    /// As [`World::authenticate`] for any of some audiences; also which of them the token is for.
    pub(crate) fn authenticate_for(&self, token: &str, audiences: &[String]) -> Option<(User, Vec<String>)> {
        let (body, signature) = token.rsplit_once('.')?;
        if self.signer.sign(body) != signature {
            return None;
        }
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body.split_once('.')?.1).ok()?).ok()?;
        let of = claims.get("aud")?.as_array()?;
        let shared: Vec<String> = audiences
            .iter()
            .filter(|audience| of.iter().any(|known| known == *audience))
            .cloned()
            .collect();
        if shared.is_empty() || claims.get("exp")?.as_i64()? <= self.now.as_second() {
            return None;
        }
        let kubernetes = claims.get("kubernetes.io")?;
        let namespace = kubernetes.get("namespace")?.as_str()?;
        let account = kubernetes.get("serviceaccount")?;
        let (name, uid) = (account.get("name")?.as_str()?, account.get("uid")?.as_str()?);
        let there = self.read("", "serviceaccounts", namespace, name)?;
        if object::uid(&there) != uid || object::is_deleting(&there) {
            return None;
        }
        let mut user = User::service_account(namespace, name, uid);
        let id = claims.get("jti")?.as_str()?;
        user.extra.push((
            "authentication.kubernetes.io/credential-id".to_owned(),
            vec![format!("JTI={id}")],
        ));
        Some((user, shared))
    }
}
