//! Certificates of authorities that live as long as a test, and clients that use them.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) type Secure = StreamOwned<ClientConnection, TcpStream>;

/// Who signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

/// A certificate and its key, PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// For 127.0.0.1 and whoever else.
    pub(crate) fn issue(&self) -> Identity {
        self.issue_until(4096)
    }

    /// Valid from 1975 on.
    pub(crate) fn issue_until(&self, year: i32) -> Identity {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(1975, 1, 1), date_time_ymd(year, 1, 1));
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }
}

/// The files of a gateway's TLS identity.
pub(crate) struct Files {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) clients: PathBuf,
}

impl Files {
    pub(crate) fn write(folder: &Path, identity: &Identity, clients: &str) -> Self {
        let files = Self {
            certificate: folder.join("tls.pem"),
            key: folder.join("tls.key"),
            clients: folder.join("clients.pem"),
        };
        fs::write(&files.certificate, &identity.certificate).unwrap();
        fs::write(&files.key, &identity.key).unwrap();
        fs::set_permissions(&files.key, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&files.clients, clients).unwrap();
        files
    }

    /// Settings of a gateway with this identity; `clients` as the setting has it.
    pub(crate) fn settings<'a>(&'a self, clients: &'a str) -> Vec<(&'static str, &'a str)> {
        let mut settings = vec![
            ("tls_certificate", self.certificate.to_str().unwrap()),
            ("tls_key", self.key.to_str().unwrap()),
            ("tls_client_auth", clients),
        ];
        if clients != "off" {
            settings.push(("tls_client_ca", self.clients.to_str().unwrap()));
        }
        settings
    }
}

/// A connection to the gateway that believes this authority, and shows this identity. The handshake is not done yet.
pub(crate) fn connect(address: &str, authority: &str, shown: Option<&Identity>) -> Secure {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let config = match shown {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let chain = vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(super::wire::PATIENCE)).unwrap();
    StreamOwned::new(connection, stream)
}
