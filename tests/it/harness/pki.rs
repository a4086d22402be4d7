//! Certificates, made anew for every test.

use super::http::Trust;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;

/// An authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key.
pub(crate) struct Certified {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) pem: String,
    key: KeyPair,
}

fn name(common: &str, organisation: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, organisation);
    name.push(DnType::CommonName, common);
    name
}

impl Authority {
    pub(crate) fn new(common: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(common, "Test");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// For a server on 127.0.0.1.
    pub(crate) fn server(&self) -> Certified {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.certify(params)
    }

    /// For a client: `CN=common,O=organisation`.
    pub(crate) fn client(&self, common: &str, organisation: &str) -> Certified {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(common, organisation);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.certify(params)
    }

    fn certify(&self, params: CertificateParams) -> Certified {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Certified { certificate: certificate.der().clone(), pem: certificate.pem(), key }
    }
}

impl Certified {
    /// As `NAME.pem` and `NAME.key`.
    pub(crate) fn write(&self, folder: &Path, name: &str) {
        fs::write(folder.join(format!("{name}.pem")), &self.pem).unwrap();
        fs::write(folder.join(format!("{name}.key")), self.key.serialize_pem()).unwrap();
    }

    /// Of its DER, in hexadecimal.
    pub(crate) fn sha256(&self) -> String {
        hex::encode(Sha256::digest(&self.certificate))
    }

    /// A client that shows it, and believes servers of this authority.
    pub(crate) fn shown_to(&self, servers: &Authority) -> Trust {
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).unwrap();
        Trust { root: servers.certificate(), shown: Some((self.certificate.clone(), key)) }
    }
}
