//! Fixtures for tests of authentication: an issuer with keys of its own that signs any claims, and an identity provider on
//! loopback whose behaviour a test chooses. The issuer signs with aws-lc-rs itself, not with the library that verifies.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "tests fail by panicking"
)]

mod provider;

pub use provider::{Behaviour, FakeProvider};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair, RsaPublicKeyComponents,
};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A private key with its `kid`.
pub struct Signer {
    /// The key id.
    pub kid: String,
    key: Private,
}

enum Private {
    Rsa(Box<RsaKeyPair>, &'static dyn RsaEncoding, &'static str),
    Ec(EcdsaKeyPair, &'static str, &'static str),
    Ed(Ed25519KeyPair),
}

/// An issuer with one key for each algorithm, whose `kid` is the algorithm's name.
pub struct Issuer {
    /// The keys.
    pub signers: Vec<Signer>,
}

impl Issuer {
    /// An issuer with fresh keys.
    pub fn new() -> Self {
        Self {
            signers: ["RS256", "PS256", "ES256", "ES384", "EdDSA"].map(|alg| Signer::new(alg, alg)).into(),
        }
    }

    /// An issuer with one fresh ES256 key, which is quick to generate.
    pub fn with_one(kid: &str) -> Self {
        Self { signers: vec![Signer::new("ES256", kid)] }
    }

    /// The key set that it publishes.
    pub fn jwks(&self) -> Value {
        json!({ "keys": self.signers.iter().map(Signer::jwk).collect::<Vec<_>>() })
    }

    /// The key with this `kid`.
    pub fn signer(&self, kid: &str) -> &Signer {
        self.signers.iter().find(|signer| signer.kid == kid).unwrap()
    }

    /// A token with these claims, signed with the first key.
    pub fn token(&self, claims: &Value) -> String {
        self.signers[0].token(claims)
    }
}

impl Default for Issuer {
    fn default() -> Self {
        Self::new()
    }
}

impl Signer {
    /// A fresh key.
    pub fn new(alg: &str, kid: &str) -> Self {
        let rsa = || Box::new(RsaKeyPair::generate(KeySize::Rsa2048).unwrap());
        let key = match alg {
            "RS256" => Private::Rsa(rsa(), &RSA_PKCS1_SHA256, "RS256"),
            "PS256" => Private::Rsa(rsa(), &RSA_PSS_SHA256, "PS256"),
            "ES384" => Private::Ec(
                EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap(),
                "P-384",
                "ES384",
            ),
            "EdDSA" => Private::Ed(Ed25519KeyPair::generate().unwrap()),
            _ => Private::Ec(
                EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
                "P-256",
                "ES256",
            ),
        };
        Self { kid: kid.to_owned(), key }
    }

    /// The algorithm.
    pub const fn alg(&self) -> &'static str {
        match &self.key {
            Private::Rsa(_, _, alg) | Private::Ec(_, _, alg) => alg,
            Private::Ed(_) => "EdDSA",
        }
    }

    /// The public key.
    pub fn jwk(&self) -> Value {
        let alg = self.alg();
        match &self.key {
            Private::Rsa(key, ..) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(key.public_key());
                let (n, e) = (encoded(&public.n), encoded(&public.e));
                json!({ "kty": "RSA", "kid": self.kid, "alg": alg, "use": "sig", "n": n, "e": e })
            }
            Private::Ec(key, curve, _) => {
                let point = &key.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let (x, y) = (encoded(x), encoded(y));
                json!({ "kty": "EC", "kid": self.kid, "alg": alg, "use": "sig", "crv": curve, "x": x, "y": y })
            }
            Private::Ed(key) => {
                let x = encoded(key.public_key().as_ref());
                json!({ "kty": "OKP", "kid": self.kid, "alg": alg, "use": "sig", "crv": "Ed25519", "x": x })
            }
        }
    }

    /// A token with these claims.
    pub fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({ "alg": self.alg(), "kid": self.kid, "typ": "at+jwt" }), claims)
    }

    /// A token with this header, valid or not, signed with this key.
    pub fn token_with(&self, header: &Value, claims: &Value) -> String {
        self.token_of(header.to_string().as_bytes(), claims.to_string().as_bytes())
    }

    /// A token with this header and payload, signed with this key.
    pub fn token_of(&self, header: &[u8], payload: &[u8]) -> String {
        let input = format!("{}.{}", encoded(header), encoded(payload));
        let signature = self.sign(input.as_bytes());
        format!("{input}.{}", encoded(&signature))
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.key {
            Private::Rsa(key, encoding, _) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(*encoding, &random, message, &mut signature).unwrap();
                signature
            }
            Private::Ec(key, ..) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            Private::Ed(key) => key.sign(message).as_ref().to_vec(),
        }
    }
}

fn encoded(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}
