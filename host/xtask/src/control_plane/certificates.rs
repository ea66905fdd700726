//! Each control plane has an authority of its own: a credential of one is worth nothing at another.

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A certificate and its private key, both PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key (PKCS#8).
    pub key: String,
}

/// Everything that is signed when a control plane starts.
pub struct Certificates {
    authority: Issuer<'static, KeyPair>,
    /// The authority's certificate, PEM.
    pub ca: String,
    /// What the API server shows.
    pub server: Identity,
    /// A client in the group `system:masters`.
    pub admin: Identity,
    /// The controller manager's client.
    pub controller_manager: Identity,
    /// Signs the tokens of ServiceAccounts; `certificate` is the public key here.
    pub service_accounts: Identity,
}

impl Certificates {
    /// Makes an authority and what it signs for a server on loopback.
    ///
    /// # Errors
    /// If a key cannot be made or signed with.
    pub fn generate() -> Result<Self> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = subject("chandlery-test-authority", &[]);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().context("making the authority's key")?;
        let ca = parameters
            .self_signed(&key)
            .context("signing the authority's certificate")?
            .pem();
        let authority = Issuer::new(parameters, key);

        let names = [
            "127.0.0.1",
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
        ];
        let mut server = CertificateParams::new(names.map(str::to_owned)).context("naming the server")?;
        server.distinguished_name = subject("kube-apiserver", &[]);
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];

        let tokens = KeyPair::generate().context("making the key of ServiceAccount tokens")?;
        Ok(Self {
            server: sign(&authority, server)?,
            admin: client(&authority, "chandlery-test-admin", &["system:masters"])?,
            controller_manager: client(&authority, "system:kube-controller-manager", &[])?,
            service_accounts: Identity {
                certificate: tokens.public_key_pem(),
                key: tokens.serialize_pem(),
            },
            authority,
            ca,
        })
    }

    /// What a server would show whose certificate has ended years ago.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn ended_server(&self) -> Result<Identity> {
        let mut parameters = CertificateParams::new(["127.0.0.1".to_owned()]).context("naming the server")?;
        parameters.not_before = rcgen::date_time_ymd(2019, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        sign(&self.authority, parameters)
    }

    /// A client certificate for a user in groups.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<Identity> {
        client(&self.authority, user, groups)
    }
}

fn client(authority: &Issuer<'static, KeyPair>, user: &str, groups: &[&str]) -> Result<Identity> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = subject(user, groups);
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    sign(authority, parameters)
}

fn sign(authority: &Issuer<'static, KeyPair>, mut parameters: CertificateParams) -> Result<Identity> {
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // The validity stays at rcgen's default (1975 to 4096): a test machine's clock may be anything.
    let key = KeyPair::generate().context("making a key")?;
    let certificate = parameters.signed_by(&key, authority).context("signing a certificate")?;
    Ok(Identity {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

fn subject(common_name: &str, organizations: &[&str]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    for organization in organizations {
        name.push(DnType::OrganizationName, *organization);
    }
    name.push(DnType::CommonName, common_name);
    name
}
