//! Where a tenant may have the daemon connect to: servers, proxies, and the addresses behind their names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use super::shape::Fields;
use super::{KubeconfigError, Policy, certificate};

/// A cluster entry after judgement.
pub(super) struct Judged {
    pub(super) server: Url,
    pub(super) certificate_authority: Option<Vec<u8>>,
    pub(super) tls_server_name: Option<String>,
    pub(super) proxy: Option<Url>,
}

pub(super) fn judge_cluster(cluster: &Fields, policy: Policy, now: jiff::Timestamp) -> Result<Judged, KubeconfigError> {
    use KubeconfigError as E;
    // Whatever is not plainly "no" is a "yes" to some reader.
    if cluster
        .value("insecure-skip-tls-verify")
        .is_some_and(|insecure| insecure != &serde_json::Value::Bool(false))
    {
        return Err(E::InsecureTls);
    }
    if cluster.says("certificate-authority") {
        return Err(E::FileReference("certificate-authority"));
    }
    let server = judge_server(cluster.text("server")?.unwrap_or_default(), policy)?;
    let proxy = match cluster.text("proxy-url")? {
        None => None,
        Some(_) if !policy.allow_proxy => return Err(E::ProxyDisabled),
        Some(proxy) => Some(judge_proxy(proxy, policy)?),
    };
    let certificate_authority = match cluster.text("certificate-authority-data")? {
        None => None,
        Some(data) => Some(certificate::judge_authority(data, now)?),
    };
    let tls_server_name = match cluster.text("tls-server-name")? {
        Some(name) if rustls::pki_types::ServerName::try_from(name).is_err() => {
            return Err(E::BadServer {
                server: name.chars().take(200).collect(),
                why: "is no name that a certificate could bear; correct tls-server-name".to_owned(),
            });
        }
        name => name.map(str::to_owned),
    };
    Ok(Judged {
        server,
        certificate_authority,
        tls_server_name,
        proxy,
    })
}

fn judge_server(text: &str, policy: Policy) -> Result<Url, KubeconfigError> {
    let bad = |why: &str| KubeconfigError::BadServer {
        // A URL with a password is told without it.
        server: text.rsplit('@').next().unwrap_or_default().chars().take(200).collect(),
        why: why.to_owned(),
    };
    if text.is_empty() {
        return Err(bad("is empty"));
    }
    let odd = |c: char| c.is_control() || c.is_whitespace() || !c.is_ascii() || c == '\\';
    if text.chars().any(odd) {
        return Err(bad("has a character that does not belong into a URL"));
    }
    let mut url = Url::parse(text).map_err(|error| bad(&format!("is not a URL: {error}")))?;
    // The parser also takes `https:host` and `https:///host`, which others read otherwise.
    let authority = text.get(8..).unwrap_or_default();
    if url.scheme() != "https"
        || !text
            .get(..8)
            .is_some_and(|start| start.eq_ignore_ascii_case("https://"))
    {
        return Err(bad("is not an https URL"));
    }
    if authority.starts_with('/') {
        return Err(bad("names no host"));
    }
    if authority
        .split('/')
        .next()
        .is_some_and(|authority| authority.contains('@'))
    {
        return Err(bad("carries a user name or password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad("has a query or fragment"));
    }
    if url.port() == Some(0) {
        return Err(bad("has port 0"));
    }
    judge_host(url.host(), policy)?.map_or(Ok(()), |why| Err(bad(why)))?;
    let path = url.path().to_owned();
    url.set_path(path.strip_suffix('/').unwrap_or(&path));
    Ok(url)
}

fn judge_proxy(text: &str, policy: Policy) -> Result<Url, KubeconfigError> {
    let bad = KubeconfigError::BadProxy;
    let mut url = Url::parse(text).map_err(|_| bad("is not a URL"))?;
    let port = match url.scheme() {
        "http" => 80,
        "socks5" | "socks5h" => 1080,
        "https" => {
            return Err(bad(
                "is an https URL; a proxy is reached by http or socks5, what goes through it is TLS all the same",
            ));
        }
        _ => return Err(bad("is neither an http nor a socks5 URL")),
    };
    if url.query().is_some() || url.fragment().is_some() || !matches!(url.path(), "" | "/") {
        return Err(bad("has a path, query or fragment"));
    }
    // Of schemes that the parser does not know, a host is just a text.
    let host = url.host_str().unwrap_or_default();
    let host = Host::parse(host).map_err(|_| bad("names no host"))?;
    judge_host(Some(host), policy)?.map_or(Ok(()), |_| Err(bad("names no host")))?;
    let port = url.port().or(Some(port));
    url.set_port(port).map_err(|()| bad("names no host"))?;
    Ok(url)
}

/// Judges a host as it is written; what is wrong with it, if it is none.
fn judge_host<S: AsRef<str>>(host: Option<Host<S>>, policy: Policy) -> Result<Option<&'static str>, KubeconfigError> {
    match host {
        None => return Ok(Some("names no host")),
        Some(Host::Domain(domain)) => {
            let domain = domain.as_ref().to_ascii_lowercase();
            let bare = domain.strip_suffix('.').unwrap_or(&domain);
            let loopback = [
                "localhost",
                "localhost6",
                "localhost.localdomain",
                "ip6-localhost",
                "ip6-loopback",
            ];
            if (loopback.contains(&bare) || bare.ends_with(".localhost")) && !policy.allow_loopback {
                return Err(KubeconfigError::ForbiddenAddress(domain, "a loopback address"));
            }
            if bare == "metadata.google.internal" {
                return Err(KubeconfigError::ForbiddenAddress(domain, "a cloud metadata address"));
            }
            if rustls::pki_types::DnsName::try_from(bare).is_err() {
                return Ok(Some("has a host that is no DNS name"));
            }
        }
        Some(Host::Ipv4(address)) => judge_address(address.into(), policy)?,
        Some(Host::Ipv6(address)) => judge_address(address.into(), policy)?,
    }
    Ok(None)
}

/// Judges an address; also to be called on what a name was resolved to.
///
/// # Errors
/// [`KubeconfigError::ForbiddenAddress`] for loopback (unless allowed), link-local, unspecified, multicast and cloud metadata.
pub fn judge_address(address: IpAddr, policy: Policy) -> Result<(), KubeconfigError> {
    let inner = match address {
        IpAddr::V6(six) => embedded(six).map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    };
    let why = match inner {
        _ if inner.is_unspecified() => "the unspecified address",
        _ if inner.is_multicast() => "a multicast address",
        _ if inner.is_loopback() => {
            if policy.allow_loopback {
                return Ok(());
            }
            "a loopback address"
        }
        IpAddr::V4(four) => match four.octets() {
            // Systems take it for themselves as they take 0.0.0.0.
            [0, ..] => "an address of \"this network\"",
            [169, 254, ..] => "a link-local address (cloud metadata lives there)",
            // Where three clouds keep theirs.
            [100, 100, 100, 200] | [168, 63, 129, 16] | [192, 0, 0, 192] => "a cloud metadata address",
            [255, 255, 255, 255] => "the broadcast address",
            _ => return Ok(()),
        },
        IpAddr::V6(six) if six.segments().first().is_some_and(|s| s & 0xffc0 == 0xfe80) => "a link-local address",
        IpAddr::V6(six) if six == METADATA_V6 => "a cloud metadata address",
        IpAddr::V6(_) => return Ok(()),
    };
    Err(KubeconfigError::ForbiddenAddress(address.to_string(), why))
}

/// Where one cloud keeps its metadata.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// The IPv4 address that an IPv6 address leads to: mapped (`::ffff:0:0/96`), compatible (`::/96`), or by a translator
/// (`64:ff9b::/96`, RFC 6052) or relay (`2002::/16`, RFC 3056) on the way.
fn embedded(six: Ipv6Addr) -> Option<Ipv4Addr> {
    let four = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match six.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(four(high, low)),
        [0x2002, high, low, ..] => Some(four(high, low)),
        _ => None,
    }
}
