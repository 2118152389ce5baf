//! TLS for `ssl:` remotes: mutual authentication against one CA, as `ovs-vsctl set-ssl` sets it up.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// The three PEM files of an OVS TLS set-up. They are read again at every connect, so rotation needs no restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Private key of the client.
    pub private_key: PathBuf,
    /// Certificate of the client, with intermediates if any.
    pub certificate: PathBuf,
    /// CA that must have signed the server's certificate.
    pub ca_certificate: PathBuf,
}

/// Why there is no usable TLS configuration.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// An `ssl:` remote, but no files were given.
    #[error("an ssl: remote needs a private key, a certificate and a CA certificate")]
    NotConfigured,
    /// A file cannot be read.
    #[error("cannot read {path}", path = .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{path} holds no usable {wanted}", path = .path.display())]
    BadPem {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        wanted: &'static str,
        /// Why.
        #[source]
        source: pem::Error,
    },
    /// The key and certificates were refused by the TLS library.
    #[error("key or certificate not acceptable")]
    Refused(#[source] rustls::Error),
    /// The remote's host is neither an address nor a DNS name.
    #[error("host {host:?} is neither an address nor a DNS name")]
    BadHost {
        /// The host.
        host: String,
    },
}

impl TlsFiles {
    /// Reads the files into a client configuration.
    pub(crate) async fn load(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let key = PrivateKeyDer::from_pem_slice(&read(&self.private_key).await?)
            .map_err(|source| bad_pem(&self.private_key, "private key", source))?;
        let chain = certificates(&self.certificate).await?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.ca_certificate).await? {
            roots.add(certificate).map_err(TlsError::Refused)?;
        }
        let provider = Arc::new(ring::default_provider());
        let verifier = Arc::new(ChainVerifier { roots, provider: provider.clone() });
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Refused)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_auth_cert(chain, key)
            .map(Arc::new)
            .map_err(TlsError::Refused)
    }
}

pub(crate) fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(host.to_owned()).map_err(|_| TlsError::BadHost { host: host.to_owned() })
}

async fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    tokio::fs::read(path).await.map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })
}

async fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    const WANTED: &str = "certificate";
    let bytes = read(path).await?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|source| bad_pem(path, WANTED, source))?;
    if found.is_empty() { Err(bad_pem(path, WANTED, pem::Error::NoItemsFound)) } else { Ok(found) }
}

fn bad_pem(path: &Path, wanted: &'static str, source: pem::Error) -> TlsError {
    TlsError::BadPem { path: path.to_owned(), wanted, source }
}

/// Accepts every server whose certificate the CA has signed, whatever name it carries.
///
/// That is how Open vSwitch itself authenticates (ovs-pki issues certificates without host names; the CA is private to
/// the deployment), so a stricter check would refuse servers that every other OVSDB client accepts.
#[derive(Debug)]
struct ChainVerifier {
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ChainVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(end_entity)?,
            &self.roots,
            intermediates,
            now,
            self.provider.signature_verification_algorithms.all,
        )
        .map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
