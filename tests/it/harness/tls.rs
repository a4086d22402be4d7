//! TLS: the gateway's certificate files, and connections to servers.

use super::certificates::{Authority, Certified};
use super::wire::TIMEOUT;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs;
use std::io::{Error, Result};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) type Secure = StreamOwned<ClientConnection, TcpStream>;

/// The authority that a client trusts, the certificate that it presents, and its resumable sessions.
pub(crate) struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Trusts servers of the authority `servers`, and presents `client` to them.
    pub(crate) fn new(servers: &Authority, client: Option<&Certified>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(servers.certificate()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        Self(Arc::new(match client {
            Some(client) => {
                config.with_client_auth_cert(vec![client.certificate.clone()], client.key()).unwrap()
            }
            None => config.with_no_client_auth(),
        }))
    }
}

/// Connects to a server on 127.0.0.1; the handshake follows with the first write or read.
pub(crate) fn connect(address: &str, trust: &Trust) -> Result<Secure> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(Arc::clone(&trust.0), name).map_err(Error::other)?;
    Ok(StreamOwned::new(connection, stream))
}

/// The files of a gateway's TLS identity.
pub(crate) struct Files {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) clients: PathBuf,
}

impl Files {
    /// Writes the certificate and key `identity`, and the authority of client certificates.
    pub(crate) fn write(folder: &Path, identity: &Certified, clients: &Authority) -> Self {
        let files = Self {
            certificate: folder.join("tls.pem"),
            key: folder.join("tls.key"),
            clients: folder.join("clients.pem"),
        };
        identity.write(folder, "tls");
        fs::write(&files.clients, clients.pem()).unwrap();
        files
    }

    /// Settings with these files; `client_auth` is the value of `tls_client_auth`.
    pub(crate) fn settings<'a>(&'a self, client_auth: &'a str) -> Vec<(&'static str, &'a str)> {
        let mut settings = vec![
            ("tls_certificate", self.certificate.to_str().unwrap()),
            ("tls_key", self.key.to_str().unwrap()),
            ("tls_client_auth", client_auth),
        ];
        if client_auth != "off" {
            settings.push(("tls_client_ca", self.clients.to_str().unwrap()));
        }
        settings
    }
}
