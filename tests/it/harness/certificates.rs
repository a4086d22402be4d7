//! Certificate authorities and certificates.

use super::secrets::write_private;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its private key.
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

    /// A certificate for a server on 127.0.0.1.
    pub(crate) fn server(&self) -> Certified {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.certify(params)
    }

    /// A certificate for a client with the subject `CN=common,O=organisation`.
    pub(crate) fn client(&self, common: &str, organisation: &str) -> Certified {
        self.client_until(4096, common, organisation)
    }

    /// As [`Self::client`], valid from 1975 to the beginning of `year`.
    pub(crate) fn client_until(&self, year: i32, common: &str, organisation: &str) -> Certified {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(common, organisation);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        (params.not_before, params.not_after) = (date_time_ymd(1975, 1, 1), date_time_ymd(year, 1, 1));
        self.certify(params)
    }

    /// A certificate for both sides of mutual TLS, for the DNS name `name`.localhost, valid until the beginning of `year`.
    pub(crate) fn service_until(&self, year: i32, name: &str) -> Certified {
        let mut params = CertificateParams::new(vec![format!("{name}.localhost")]).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        (params.not_before, params.not_after) = (date_time_ymd(1975, 1, 1), date_time_ymd(year, 1, 1));
        self.certify(params)
    }

    fn certify(&self, params: CertificateParams) -> Certified {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Certified { certificate: certificate.der().clone(), pem: certificate.pem(), key }
    }
}

impl Certified {
    /// Writes the certificate to `name.pem` and the private key to `name.key`, with mode 0600.
    pub(crate) fn write(&self, folder: &Path, name: &str) {
        fs::write(folder.join(format!("{name}.pem")), &self.pem).unwrap();
        let key = folder.join(format!("{name}.key"));
        write_private(&key, self.key_pem());
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::try_from(self.key.serialize_der()).unwrap()
    }

    pub(crate) fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// SHA-256 of the certificate's DER, in hexadecimal.
    pub(crate) fn sha256(&self) -> String {
        hex::encode(Sha256::digest(&self.certificate))
    }
}
