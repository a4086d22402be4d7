//! The keys whose signatures a deployment trusts (the file `POLICY_TRUST_ROOTS`), and the bundles it allows (`POLICY_PINS`).

use super::{BundleError, strict};
use gateway_domain::dsse::{Envelope, KeySet, Role, key_id};
use gateway_domain::ids::Hex32;
use gateway_domain::policy::document::DocumentRoles;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The role of the committed development key. No production deployment may trust it.
pub const DEVELOPMENT_ROLE: &str = "development";

/// Roles that must each sign, their keys, and revoked keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustPolicy {
    /// At least one role. Every role must reach its threshold.
    pub roles: Vec<Role>,
    /// Those who sign documents, each role with the name of its document.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub documents: Vec<Role>,
    /// Public keys whose signatures no longer count, hexadecimal. They may stay in their role.
    pub revoked: BTreeSet<Hex32>,
}

impl TrustPolicy {
    /// Reads a trust roots file.
    ///
    /// A role with fewer unrevoked keys than its threshold is accepted, so that the last key of a role can be revoked. No bundle
    /// satisfies such a role.
    ///
    /// # Errors
    /// [`BundleError::TrustRoots`] for a policy that would accept an unsigned bundle, that has an invalid public key, or in
    /// which one key has two roles; otherwise as for a manifest's JSON.
    pub fn parse(bytes: &[u8]) -> Result<Self, BundleError> {
        let policy: Self = strict::parse("trust roots", bytes)?;
        policy.check_roles()?;
        policy.unrevoked()?;
        policy.document_roles()?;
        Ok(policy)
    }

    /// A trust policy with one role of one key.
    #[must_use]
    pub fn of_one(role: &str, key: Hex32) -> Self {
        let role = Role { role: role.to_owned(), threshold: 1, keys: BTreeSet::from([key]) };
        Self { roles: vec![role], documents: Vec::new(), revoked: BTreeSet::new() }
    }

    /// Whether the policy has the role of the committed development key.
    #[must_use]
    pub fn trusts_development(&self) -> bool {
        self.roles.iter().any(|role| role.role == DEVELOPMENT_ROLE)
    }

    /// Refuses the role of the committed development key, unless it is allowed.
    ///
    /// # Errors
    /// [`BundleError::TrustRoots`].
    pub fn check_development(&self, allows_development: bool) -> Result<(), BundleError> {
        if self.trusts_development() && !allows_development {
            return Err(BundleError::TrustRoots(
                "the development signing key must not be trusted in production".to_owned(),
            ));
        }
        Ok(())
    }

    fn check_roles(&self) -> Result<(), BundleError> {
        if self.roles.is_empty() {
            return Err(BundleError::TrustRoots(
                "there is no role, so an unsigned bundle would be accepted".to_owned(),
            ));
        }
        // One key may sign several documents, but not bundles too.
        let mut seen: BTreeSet<_> =
            self.documents.iter().flat_map(|role| role.keys.iter().copied()).collect();
        for role in self.documents.iter().chain(&self.roles) {
            if role.threshold == 0 {
                let text = format!("role `{}` has threshold 0, so it would require no signature", role.role);
                return Err(BundleError::TrustRoots(text));
            }
        }
        for role in &self.roles {
            if let Some(key) = role.keys.iter().find(|key| !seen.insert(**key)) {
                return Err(BundleError::TrustRoots(format!("key `{key}` is in two roles")));
            }
        }
        Ok(())
    }

    /// Checks that every role reaches its threshold with signatures over exactly these bytes. Returns the ids of the unrevoked
    /// keys that signed, ascending.
    pub(super) fn check<'a>(
        &self,
        payload_type: &str,
        signed: &[u8],
        signatures: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Vec<String>, BundleError> {
        self.check_roles()?;
        let keys = self.unrevoked()?;
        let (mut signers, mut ignored) = (BTreeSet::new(), Vec::new());
        for (file, bytes) in signatures {
            match signers_of(file, bytes, (payload_type, signed), &keys)? {
                Some(ids) => signers.extend(ids),
                None => ignored.push(file.to_owned()),
            }
        }
        self.check_signers(&signers, ignored)?;
        Ok(signers.into_iter().collect())
    }

    /// Checks that every role reaches its threshold with signatures of these keys, given by their ids. `ignored` are the files
    /// without a counted signature, for the error.
    ///
    /// # Errors
    /// [`BundleError::RoleUnmet`] for the first role that does not; [`BundleError::TrustRoots`].
    pub fn check_signers(&self, signers: &BTreeSet<String>, ignored: Vec<String>) -> Result<(), BundleError> {
        self.check_roles()?;
        for Role { role, threshold, keys } in &self.roles {
            let unrevoked: Vec<_> = keys.iter().filter(|key| !self.revoked.contains(key)).collect();
            let have = unrevoked.iter().filter(|key| signers.contains(&key_id(key.as_bytes()))).count();
            if have < *threshold {
                return Err(BundleError::RoleUnmet {
                    role: role.clone(),
                    have,
                    need: *threshold,
                    n_unrevoked: unrevoked.len(),
                    ignored,
                });
            }
        }
        Ok(())
    }

    /// Those who sign documents. A revoked key signs none.
    ///
    /// # Errors
    /// [`BundleError::TrustRoots`] for an invalid public key.
    pub fn document_roles(&self) -> Result<DocumentRoles, BundleError> {
        DocumentRoles::new(&self.documents, &self.revoked)
            .map_err(|fault| BundleError::TrustRoots(fault.to_string()))
    }

    /// The keys of all roles that are not revoked.
    fn unrevoked(&self) -> Result<KeySet, BundleError> {
        let keys = self.roles.iter().flat_map(|role| &role.keys).filter(|key| !self.revoked.contains(key));
        KeySet::new(keys.map(|key| *key.as_bytes()))
            .map_err(|fault| BundleError::TrustRoots(fault.to_string()))
    }
}

/// The ids of the trusted keys that signed exactly this payload; `None` when only unknown or revoked keys did.
fn signers_of(
    file: &str,
    bytes: &[u8],
    (payload_type, signed): (&str, &[u8]),
    keys: &KeySet,
) -> Result<Option<Vec<String>>, BundleError> {
    use gateway_domain::dsse::EnvelopeError;
    let envelope: Envelope = strict::parse(file, bytes)?;
    match envelope.verify(payload_type, keys) {
        Ok((payload, _)) if payload != signed => Err(BundleError::ManifestChanged { file: file.to_owned() }),
        Ok((_, signers)) => Ok(Some(signers)),
        Err(EnvelopeError::UnknownSigner) => Ok(None),
        Err(source) => Err(BundleError::Signature { file: file.to_owned(), source }),
    }
}

/// Bundle hashes that a deployment allows, in addition to the signatures. An empty list allows every signed bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins(BTreeSet<Hex32>);

impl Pins {
    /// Reads `POLICY_PINS`: hashes separated by commas.
    ///
    /// # Errors
    /// [`BundleError::TrustRoots`] for an entry that is not a hash.
    pub fn parse(text: &str) -> Result<Self, BundleError> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let pin = |entry: &str| {
            entry.parse().map_err(|fault| BundleError::TrustRoots(format!("pin `{entry}` {fault}")))
        };
        entries.map(pin).collect::<Result<_, _>>().map(Self)
    }

    /// The pinned hashes.
    pub fn iter(&self) -> impl Iterator<Item = Hex32> {
        self.0.iter().copied()
    }

    /// Whether the list names this bundle.
    #[must_use]
    pub fn names(&self, hash: Hex32) -> bool {
        self.0.contains(&hash)
    }

    pub(super) fn check(&self, hash: Hex32) -> Result<(), BundleError> {
        if self.0.is_empty() || self.0.contains(&hash) { Ok(()) } else { Err(BundleError::NotPinned(hash)) }
    }
}
