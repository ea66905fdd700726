//! Certificates and keys in a kubeconfig: that they are what they should be, belong together, and are of today.

use base64::Engine as _;
use jiff::Timestamp;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use super::{Credential, KubeconfigError};

const CERTIFICATE: &str = "client-certificate-data";
const KEY: &str = "client-key-data";
const AUTHORITY: &str = "certificate-authority-data";

/// The PEM of a bundle of certificate authorities. Some of a bundle may have ended, not all.
pub(super) fn judge_authority(data: &str, now: Timestamp) -> Result<Vec<u8>, KubeconfigError> {
    let pem = decode(data, AUTHORITY)?;
    let bundle = certificates(&pem, AUTHORITY)?;
    let ends = bundle
        .iter()
        .map(|der| Ok(validity(der, AUTHORITY)?.1))
        .collect::<Result<Vec<_>, _>>()?;
    match ends.into_iter().max() {
        Some(at) if at <= now => Err(KubeconfigError::Expired {
            what: "the certificate authority",
            at,
        }),
        _ => Ok(pem),
    }
}

/// A client certificate with its key, and when it ends.
pub(super) fn judge_client(
    certificate: &str,
    key: &str,
    now: Timestamp,
) -> Result<(Credential, Option<Timestamp>), KubeconfigError> {
    let certificate = decode(certificate, CERTIFICATE)?;
    let key = decode(key, KEY)?;
    let chain = certificates(&certificate, CERTIFICATE)?;
    let private = PrivateKeyDer::from_pem_slice(&key).map_err(|_| bad(KEY, "holds no private key"))?;
    let signing = rustls::crypto::ring::sign::any_supported_type(&private)
        .map_err(|_| bad(KEY, "holds a key of a kind that TLS does not take"))?;
    let leaf = chain.first().ok_or_else(|| bad(CERTIFICATE, NO_CERTIFICATE))?;
    let (begins, ends) = validity(leaf, CERTIFICATE)?;
    let parsed = parsed(leaf, CERTIFICATE)?;
    if signing
        .public_key()
        .is_some_and(|public| public.as_ref() != parsed.tbs_certificate.subject_pki.raw)
    {
        return Err(bad(KEY, "is not the key of the client certificate"));
    }
    if ends <= now {
        return Err(KubeconfigError::Expired {
            what: "the client certificate",
            at: ends,
        });
    }
    if begins > now {
        return Err(bad(CERTIFICATE, "holds a certificate whose time has not begun"));
    }
    Ok((Credential::Certificate { certificate, key }, Some(ends)))
}

const NO_CERTIFICATE: &str = "holds no certificate in PEM";

fn bad(field: &'static str, why: &'static str) -> KubeconfigError {
    KubeconfigError::BadCertificate { field, why }
}

/// Base64, wrapped or not.
fn decode(data: &str, field: &'static str) -> Result<Vec<u8>, KubeconfigError> {
    let packed: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    base64::engine::general_purpose::STANDARD
        .decode(packed)
        .map_err(|_| bad(field, "is not base64"))
}

fn certificates(pem: &[u8], field: &'static str) -> Result<Vec<CertificateDer<'static>>, KubeconfigError> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|_| bad(field, "is not PEM"))?;
    if found.is_empty() {
        return Err(bad(field, NO_CERTIFICATE));
    }
    Ok(found)
}

fn parsed<'a>(der: &'a CertificateDer<'_>, field: &'static str) -> Result<X509Certificate<'a>, KubeconfigError> {
    X509Certificate::from_der(der)
        .map(|(_, certificate)| certificate)
        .map_err(|_| bad(field, "holds something in PEM that is no certificate"))
}

/// From when until when.
fn validity(der: &CertificateDer<'_>, field: &'static str) -> Result<(Timestamp, Timestamp), KubeconfigError> {
    let validity = parsed(der, field)?.validity().clone();
    let time = |seconds: i64| {
        Timestamp::from_second(seconds).map_err(|_| bad(field, "holds a certificate of a time that there is not"))
    };
    Ok((
        time(validity.not_before.timestamp())?,
        time(validity.not_after.timestamp())?,
    ))
}
