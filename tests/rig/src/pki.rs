//! Certificates and keys of a control plane. Elliptic curves: made in a millisecond, where RSA keys take a second.

use std::path::{Path, PathBuf};

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Files that the parts of the control plane read.
#[derive(Debug, Clone)]
pub(crate) struct Pki {
    /// Certificate of the authority, for clients.
    pub(crate) ca: PathBuf,
    /// The API server's own certificate.
    pub(crate) server: PathBuf,
    /// Key of [`Self::server`].
    pub(crate) server_key: PathBuf,
    /// Signs service account tokens.
    pub(crate) accounts_key: PathBuf,
    /// Checks service account tokens.
    pub(crate) accounts_public: PathBuf,
}

impl Pki {
    /// Makes everything for an API server that is reached by `names` (DNS names and addresses).
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(crate) fn create(folder: &Path, names: &[String]) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let ca_key = KeyPair::generate().context("a key")?;
        let mut ca = CertificateParams::new(Vec::new()).context("parameters of the authority")?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        ca.distinguished_name.push(DnType::CommonName, "causeway-rig");
        let ca_certificate = ca.self_signed(&ca_key).context("signing the authority")?;
        let issuer = Issuer::new(ca, ca_key);

        let server_key = KeyPair::generate().context("a key")?;
        let mut server = CertificateParams::new(names.to_vec()).context("names of the API server")?;
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        let server_certificate = server.signed_by(&server_key, &issuer).context("signing the API server")?;

        let accounts = KeyPair::generate().context("a key")?;
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            anyhow::Ok(path)
        };
        Ok(Self {
            ca: write("ca.crt", ca_certificate.pem())?,
            server: write("apiserver.crt", server_certificate.pem())?,
            server_key: write("apiserver.key", server_key.serialize_pem())?,
            accounts_key: write("accounts.key", accounts.serialize_pem())?,
            accounts_public: write("accounts.pub", accounts.public_key_pem())?,
        })
    }
}
