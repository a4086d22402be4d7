//! The gateway's certificate, and the verification of clients' certificates, from files that SIGHUP reads again.

use super::{Caller, ClientAuth, TlsFiles};
use gateway_seal::key_file::{self, KeyFileError};
use parking_lot::RwLock;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroize;

/// Largest PEM file, bytes. A large bundle of authorities has some hundred kilobytes.
const PEM_BYTES_MAX: u64 = 1024 * 1024;

/// Why TLS cannot start. Messages are one line and never contain a key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file of certificates cannot be read.
    #[error("the file `{}` cannot be read: {}", path.display(), source.kind())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file of the private key cannot be read, or others can read it.
    #[error("the private key cannot be read")]
    Key(#[from] KeyFileError),
    /// The file is not a regular file of at most 1 MiB, or has no valid PEM certificate.
    #[error("the file `{}` is not a list of PEM certificates", path.display())]
    NoCertificates {
        /// The file.
        path: PathBuf,
    },
    /// The file has no PEM private key.
    #[error("the file `{}` has no PEM private key", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// A certificate cannot be used as an authority's.
    #[error("the file `{}` has a certificate that cannot be an authority's", path.display())]
    NoAuthority {
        /// The file.
        path: PathBuf,
        /// The error of rustls.
        source: rustls::Error,
    },
    /// rustls cannot verify clients with these authorities.
    #[error("client certificates cannot be verified")]
    Verifier(#[from] VerifierBuilderError),
    /// The process's own certificate has expired, or is not valid yet.
    #[error("the certificate in `{}` is not valid now", path.display())]
    NotValid {
        /// The file.
        path: PathBuf,
        /// The error of rustls.
        source: rustls::Error,
    },
    /// The client cannot be built.
    #[error("the client cannot be built: {0}")]
    Client(String),
    /// Certificate and key do not belong together, or their type is not supported.
    #[error("certificate and private key cannot be used")]
    Unusable(#[from] rustls::Error),
}

/// The TLS configuration that was read last.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files.
    pub fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let config = RwLock::new(Arc::new(build_config(&files)?));
        Ok(Self { files, config })
    }

    /// Reads the files again, for new connections. Open connections keep their configuration.
    ///
    /// # Errors
    /// [`TlsError`]; the configuration does not change then.
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = Arc::new(build_config(&self.files)?);
        *self.config.write() = config;
        Ok(())
    }

    /// The name that this certificate is for, which the handshake has verified; the first one of several.
    pub(super) fn caller(&self, own: &CertificateDer<'_>) -> Option<Caller> {
        let ClientAuth::Named(_, names) = &self.files.clients else { return None };
        let own = ParsedCertificate::try_from(own).ok()?;
        let name = names.iter().find(|name| verify_server_name(&own, name).is_ok())?;
        Some(Caller(name.to_str().as_ref().into()))
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read())
    }
}

/// Reads the files. TLS 1.3 and 1.2 with the suites of rustls, which all have forward secrecy and authenticated encryption.
/// Sessions are resumed from this process's memory only, and not across a reload. With client certificates sessions are never
/// resumed: a resumed session keeps a certificate without verifying it again, even after it has expired.
fn build_config(files: &TlsFiles) -> Result<ServerConfig, TlsError> {
    let provider: Arc<CryptoProvider> = Arc::new(aws_lc_rs::default_provider());
    let identity = identity(&files.certificate, &files.key)?;
    if let ClientAuth::Named(authorities, _) = &files.clients {
        check_validity(&files.certificate, &identity.cert, authorities)?;
    }
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13, &TLS12])?;
    let verifier = |authorities: &Path| -> Result<_, TlsError> {
        Ok(WebPkiClientVerifier::builder_with_provider(roots(authorities)?, Arc::clone(&provider)))
    };
    let builder = match &files.clients {
        ClientAuth::Off => builder.with_no_client_auth(),
        ClientAuth::Optional(authorities) => {
            builder.with_client_cert_verifier(verifier(authorities)?.allow_unauthenticated().build()?)
        }
        ClientAuth::Required(authorities) => {
            builder.with_client_cert_verifier(verifier(authorities)?.build()?)
        }
        ClientAuth::Named(authorities, names) => {
            let inner = verifier(authorities)?.build()?;
            builder.with_client_cert_verifier(Arc::new(NamedClients { inner, names: names.clone() }))
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
    if files.clients != ClientAuth::Off {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// A certificate chain with its key.
fn identity(certificate: &Path, key_path: &Path) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(certificate)?;
    let pem = key_file::load_bytes(key_path, PEM_BYTES_MAX)?;
    let mut key =
        PrivateKeyDer::from_pem_slice(&pem).map_err(|_| TlsError::NoKey { path: key_path.to_owned() })?;
    // Borrowed, and zeroised here: rustls would not zeroise an owned key.
    let signing_key = aws_lc_rs::sign::any_supported_type(&key);
    key.zeroize();
    let identity = CertifiedKey::new(chain, signing_key?);
    identity.keys_match()?;
    Ok(identity)
}

/// Checks that the process's own certificate is valid now, if one of these authorities signed it: both sides of mutual TLS have
/// certificates of the same authorities, and the other side would refuse it without saying so to this one's operator.
fn check_validity(path: &Path, chain: &[CertificateDer<'_>], authorities: &Path) -> Result<(), TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(authorities)?, provider).build()?;
    let Some((own, intermediates)) = chain.split_first() else { return Ok(()) };
    match verifier.verify_client_cert(own, intermediates, UnixTime::now()) {
        Err(
            source @ rustls::Error::InvalidCertificate(
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. },
            ),
        ) => Err(TlsError::NotValid { path: path.to_owned(), source }),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The client's side of mutual TLS: TLS 1.3 only, and only servers whose certificate one of these authorities signed.
#[cfg(feature = "client")]
pub(crate) fn client_config(
    certificate: &Path,
    key: &Path,
    authorities: &Path,
) -> Result<rustls::ClientConfig, TlsError> {
    let provider: Arc<CryptoProvider> = Arc::new(aws_lc_rs::default_provider());
    let identity = identity(certificate, key)?;
    check_validity(certificate, &identity.cert, authorities)?;
    let identity = Arc::new(SingleCertAndKey::from(identity));
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13])?;
    let mut config = builder.with_root_certificates(roots(authorities)?).with_client_cert_resolver(identity);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Accepts a client whose certificate `inner` accepts and which is for one of the names.
#[derive(Debug)]
struct NamedClients {
    inner: Arc<dyn ClientCertVerifier>,
    names: Vec<ServerName<'static>>,
}

impl ClientCertVerifier for NamedClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.inner.verify_client_cert(own, intermediates, now)?;
        let own = ParsedCertificate::try_from(own)?;
        if self.names.iter().any(|name| verify_server_name(&own, name).is_ok()) {
            return Ok(verified);
        }
        Err(rustls::Error::InvalidCertificate(CertificateError::NotValidForName))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, own, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, own, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let invalid = || TlsError::NoCertificates { path: path.to_owned() };
    let metadata = std::fs::metadata(path).map_err(|source| unreadable(path, source))?;
    if !metadata.is_file() || metadata.len() > PEM_BYTES_MAX {
        return Err(invalid());
    }
    let pem = std::fs::read(path).map_err(|source| unreadable(path, source))?;
    let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    certificates.ok().filter(|certificates| !certificates.is_empty()).ok_or_else(invalid)
}

fn roots(path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|source| TlsError::NoAuthority { path: path.to_owned(), source })?;
    }
    Ok(Arc::new(roots))
}

fn unreadable(path: &Path, source: io::Error) -> TlsError {
    TlsError::Unreadable { path: path.to_owned(), source }
}
