//! What a tenant may ask: servers, the addresses behind their names, and credentials, each refused with a reason of its own.

use std::net::IpAddr;

use base64::Engine as _;
use url::{Host, Url};

use super::shape::{Cluster, User};
use super::{Credential, KubeconfigError, Policy};

/// A cluster entry after judgement.
pub(super) struct Judged {
    pub(super) server: Url,
    pub(super) certificate_authority: Option<Vec<u8>>,
    pub(super) tls_server_name: Option<String>,
}

pub(super) fn judge_cluster(cluster: Cluster, policy: Policy) -> Result<Judged, KubeconfigError> {
    use KubeconfigError as E;
    let Cluster {
        server,
        certificate_authority_data,
        certificate_authority,
        tls_server_name,
        insecure_skip_tls_verify,
        proxy_url,
    } = cluster;
    if insecure_skip_tls_verify {
        return Err(E::Insecure);
    }
    if certificate_authority.is_some_and(|path| !path.is_empty()) {
        return Err(E::NamesFile("certificate-authority"));
    }
    if proxy_url.is_some_and(|proxy| !proxy.is_empty()) {
        return Err(E::Proxy);
    }
    let server = judge_server(&server, policy)?;
    let authority = match certificate_authority_data.filter(|data| !data.is_empty()) {
        None => None,
        Some(data) => Some(pem(&data, "certificate-authority-data")?),
    };
    Ok(Judged {
        server,
        certificate_authority: authority,
        tls_server_name: tls_server_name.filter(|name| !name.is_empty()),
    })
}

fn judge_server(text: &str, policy: Policy) -> Result<Url, KubeconfigError> {
    let bad = |why: &str| KubeconfigError::BadServer {
        server: text.chars().take(200).collect(),
        why: why.to_owned(),
    };
    if text.is_empty() {
        return Err(bad("is empty"));
    }
    if text
        .chars()
        .any(|c| c.is_control() || c.is_whitespace() || !c.is_ascii())
    {
        return Err(bad("has a character that does not belong into a URL"));
    }
    let mut url = Url::parse(text).map_err(|error| bad(&format!("is not a URL: {error}")))?;
    if url.scheme() != "https" {
        return Err(bad("is not an https URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("carries a user name or password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad("has a query or fragment"));
    }
    match url.host() {
        None => return Err(bad("names no host")),
        Some(Host::Domain(domain)) => {
            let domain = domain.trim_end_matches('.').to_ascii_lowercase();
            if (domain == "localhost" || domain.ends_with(".localhost")) && !policy.allow_loopback {
                return Err(KubeconfigError::ForbiddenAddress(domain, "a loopback address"));
            }
        }
        Some(Host::Ipv4(address)) => judge_address(address.into(), policy)?,
        Some(Host::Ipv6(address)) => judge_address(address.into(), policy)?,
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

/// Judges an address; also to be called on what a name was resolved to.
///
/// # Errors
/// [`KubeconfigError::ForbiddenAddress`] for loopback (unless allowed), link-local, unspecified, multicast and cloud metadata.
pub fn judge_address(address: IpAddr, policy: Policy) -> Result<(), KubeconfigError> {
    let address = match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(IpAddr::V6(six), IpAddr::V4),
        four => four,
    };
    let why = match address {
        _ if address.is_unspecified() => "the unspecified address",
        _ if address.is_multicast() => "a multicast address",
        _ if address.is_loopback() => {
            if policy.allow_loopback {
                return Ok(());
            }
            "a loopback address"
        }
        IpAddr::V4(four) if four.is_link_local() => "a link-local address (cloud metadata lives there)",
        // Where two clouds keep theirs.
        IpAddr::V4(four) if matches!(four.octets(), [100, 100, 100, 200] | [168, 63, 129, 16]) => {
            "a cloud metadata address"
        }
        IpAddr::V4(four) if four.is_broadcast() => "the broadcast address",
        IpAddr::V6(six) if six.segments().first().is_some_and(|s| s & 0xffc0 == 0xfe80) => "a link-local address",
        IpAddr::V6(six) if six.octets().starts_with(&[0xfd, 0x00, 0x0e, 0xc2]) => "a cloud metadata address",
        _ => return Ok(()),
    };
    Err(KubeconfigError::ForbiddenAddress(address.to_string(), why))
}

pub(super) fn judge_user(user: User, name: &str) -> Result<Credential, KubeconfigError> {
    use KubeconfigError as E;
    let present = |value: &Option<serde_json::Value>| {
        value
            .as_ref()
            .is_some_and(|v| !v.is_null() && *v != "" && *v != serde_json::json!([]) && *v != serde_json::json!({}))
    };
    let given = |value: &Option<String>| value.as_ref().is_some_and(|v| !v.is_empty());
    let User {
        token,
        token_file,
        client_certificate,
        client_certificate_data,
        client_key,
        client_key_data,
        username,
        password,
        exec,
        auth_provider,
        as_user,
        as_uid,
        as_groups,
        as_user_extra,
    } = user;
    if exec.is_some() || auth_provider.is_some() {
        return Err(E::RunsProgram(name.to_owned()));
    }
    for (value, field) in [
        (&token_file, "tokenFile"),
        (&client_certificate, "client-certificate"),
        (&client_key, "client-key"),
    ] {
        if given(value) {
            return Err(E::NamesFile(field));
        }
    }
    if [&as_user, &as_uid, &as_groups, &as_user_extra].into_iter().any(present) {
        return Err(E::Impersonates(name.to_owned()));
    }
    if given(&username) || given(&password) {
        return Err(E::BasicAuth(name.to_owned()));
    }
    let bad = |why| E::BadCredential {
        user: name.to_owned(),
        why,
    };
    let token = token.filter(|t| !t.is_empty());
    let certificate = client_certificate_data.filter(|d| !d.is_empty());
    let key = client_key_data.filter(|d| !d.is_empty());
    match (token, certificate, key) {
        (None, None, None) => Err(E::Anonymous(name.to_owned())),
        (Some(token), None, None) => {
            let token = token.trim();
            // It becomes a header: a line break in it would make another header of what follows.
            if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(bad(
                    "has a token with a space, a line break or another character that no token has",
                ));
            }
            Ok(Credential::Token(token.to_owned()))
        }
        (None, Some(certificate), Some(key)) => Ok(Credential::Certificate {
            certificate: pem(&certificate, "client-certificate-data")?,
            key: pem(&key, "client-key-data")?,
        }),
        (Some(_), _, _) => Err(bad("has both a token and a client certificate; keep one")),
        (None, Some(_), None) => Err(bad("has a client certificate without its key")),
        (None, None, Some(_)) => Err(bad("has a client key without its certificate")),
    }
}

/// Base64, wrapped or not, of something in PEM.
fn pem(data: &str, field: &str) -> Result<Vec<u8>, KubeconfigError> {
    let packed: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(packed)
        .map_err(|error| KubeconfigError::Malformed(format!("{field} is not base64: {error}")))?;
    if !String::from_utf8_lossy(&bytes).contains("-----BEGIN ") {
        return Err(KubeconfigError::Malformed(format!("{field} is not PEM")));
    }
    Ok(bytes)
}
