//! The gateway's own certificate, and whose clients' certificates are believed: files, read again when told to.

use super::{ClientAuth, TlsFiles};
use gateway_seal::key_file::{self, KeyFileError};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use zeroize::Zeroize;

/// Largest PEM file: a bank's bundle of authorities has some hundred kilobytes.
const PEM_BYTES_MAX: u64 = 1024 * 1024;

/// Why there is no TLS. Each displays as one line for an operator and never repeats a key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file of certificates can not be read.
    #[error("the file `{}` can not be read: {}", path.display(), source.kind())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The private key's file is not as a secret's must be.
    #[error("the private key can not be read")]
    Key(#[from] KeyFileError),
    /// It has no PEM certificate in it, or something that is none.
    #[error("the file `{}` is not a list of PEM certificates", path.display())]
    NoCertificates {
        /// The file.
        path: PathBuf,
    },
    /// It has no PEM private key in it.
    #[error("the file `{}` has no PEM private key in it", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// An authority's certificate that can not be one.
    #[error("the file `{}` has a certificate that is no authority's", path.display())]
    NoAuthority {
        /// The file.
        path: PathBuf,
        /// What rustls said.
        source: rustls::Error,
    },
    /// rustls can not verify clients with these authorities.
    #[error("client certificates can not be verified")]
    Verifier(#[from] VerifierBuilderError),
    /// Certificate and key do not go together, or are of a kind that is not supported.
    #[error("certificate and private key can not be used")]
    Unusable(#[from] rustls::Error),
}

/// The TLS identity as it was read last.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let config = RwLock::new(Arc::new(read(&files)?));
        Ok(Self { files, config })
    }

    /// Reads the files again; new connections are made with what they say, those that there are stay as they are.
    ///
    /// # Errors
    /// [`TlsError`]: everything stays as it was.
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = Arc::new(read(&self.files)?);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// TLS 1.3 and 1.2 with the suites that rustls has: all of them have forward secrecy and authenticated encryption. Sessions
/// are resumed from this process's memory only, and not across a reload. Where clients show certificates they are not resumed
/// at all: a resumed session would bring its certificate back without looking at it, long after its end.
fn read(files: &TlsFiles) -> Result<ServerConfig, TlsError> {
    let provider: Arc<CryptoProvider> = Arc::new(aws_lc_rs::default_provider());
    let chain = certificates(&files.certificate)?;
    let pem = key_file::load_bytes(&files.key, PEM_BYTES_MAX)?;
    let mut key =
        PrivateKeyDer::from_pem_slice(&pem).map_err(|_| TlsError::NoKey { path: files.key.clone() })?;
    // Borrowed here, to be wiped: whoever takes it does not.
    let signing_key = aws_lc_rs::sign::any_supported_type(&key);
    key.zeroize();
    let identity = CertifiedKey::new(chain, signing_key?);
    identity.keys_match()?;
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
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
    if files.clients != ClientAuth::Off {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let none = || TlsError::NoCertificates { path: path.to_owned() };
    let metadata = std::fs::metadata(path).map_err(|source| unreadable(path, source))?;
    if !metadata.is_file() || metadata.len() > PEM_BYTES_MAX {
        return Err(none());
    }
    let pem = std::fs::read(path).map_err(|source| unreadable(path, source))?;
    let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    certificates.ok().filter(|certificates| !certificates.is_empty()).ok_or_else(none)
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
