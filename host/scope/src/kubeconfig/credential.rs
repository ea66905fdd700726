//! How a tenant may be let in: exactly one of a token and a client certificate with its key.

use base64::Engine as _;
use jiff::Timestamp;

use super::shape::Fields;
use super::{Credential, KubeconfigError, certificate};

/// All fields of a user. What is beside them may be a credential to some other reader.
const KNOWN: [&str; 15] = [
    "token",
    "tokenFile",
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
    "username",
    "password",
    "exec",
    "auth-provider",
    "as",
    "as-uid",
    "as-groups",
    "as-user-extra",
    "extensions",
];

/// The credential, and when it ends if it says so.
pub(super) fn judge_user(
    user: &Fields,
    name: &str,
    now: Timestamp,
) -> Result<(Credential, Option<Timestamp>), KubeconfigError> {
    use KubeconfigError as E;
    if user.value("exec").is_some() {
        return Err(E::ExecPlugin(name.to_owned()));
    }
    if user.value("auth-provider").is_some() {
        return Err(E::AuthProvider(name.to_owned()));
    }
    for field in ["tokenFile", "client-certificate", "client-key"] {
        if user.says(field) {
            return Err(E::FileReference(field));
        }
    }
    if ["as", "as-uid", "as-groups", "as-user-extra"]
        .iter()
        .any(|field| user.says(field))
    {
        return Err(E::Impersonation(name.to_owned()));
    }
    if user.says("username") || user.says("password") {
        return Err(E::BasicAuth(name.to_owned()));
    }
    if let Some(field) = user.names().find(|field| !KNOWN.contains(field)) {
        return Err(E::UnknownAuth {
            user: name.to_owned(),
            field: field.chars().filter(|c| !c.is_control()).take(60).collect(),
        });
    }
    let token = user.text("token")?;
    let certificate = user.text("client-certificate-data")?;
    let key = user.text("client-key-data")?;
    match (token, certificate, key) {
        (None, None, None) => Err(E::Anonymous(name.to_owned())),
        (Some(token), None, None) => judge_token(token, name, now),
        (None, Some(certificate), Some(key)) => certificate::judge_client(certificate, key, now),
        (Some(_), _, _) => Err(E::AmbiguousAuth(name.to_owned())),
        (None, Some(_), None) => Err(E::BadCertificate {
            field: "client-certificate-data",
            why: "is there without its key; add client-key-data",
        }),
        (None, None, Some(_)) => Err(E::BadCertificate {
            field: "client-key-data",
            why: "is there without its certificate; add client-certificate-data",
        }),
    }
}

fn judge_token(token: &str, name: &str, now: Timestamp) -> Result<(Credential, Option<Timestamp>), KubeconfigError> {
    // Text editors end a file with a line break.
    let token = token.trim();
    // It becomes a header: a line break in it would make another header of what follows.
    if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(KubeconfigError::Malformed(format!(
            "user \"{name}\" has a token with a space, a line break or another character that no token has"
        )));
    }
    let expires = expiry_of_jwt(token);
    match expires {
        Some(at) if at <= now => Err(KubeconfigError::Expired { what: "the token", at }),
        expires => Ok((Credential::Token(token.to_owned()), expires)),
    }
}

/// When a token ends, if it is a JWT (RFC 7519) that says so. Its signature is the server's business.
fn expiry_of_jwt(token: &str) -> Option<Timestamp> {
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
    let expires = claims.get("exp")?;
    // A NumericDate may have a fraction.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "saturates, and is refused by the next line then"
    )]
    let seconds = expires
        .as_i64()
        .or_else(|| expires.as_f64().map(|seconds| seconds as i64))?;
    Timestamp::from_second(seconds).ok()
}
