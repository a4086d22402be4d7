//! The registry of approvers, parsed and checked.

use super::registry::{
    ANY_TENANT, Algorithm, ApproverEntry, ApproversFile, FORMAT, KeyEntry, RegistryError, Validity,
};
use super::webauthn::{Credential, CredentialKey};
use super::{Approval, ApprovalError, ApprovalSignature, Statement, limits};
use crate::ed25519::PublicKey;
use crate::ids::Tenant;
use crate::names::{ComparedName, compared, is_same_person};
use crate::people::Registered;
use crate::time::EpochMs;
use std::collections::{BTreeMap, BTreeSet};

/// The approvers whose signatures are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approvers {
    /// INVARIANT: no two entries of a person share a tenant; kept by [`Self::new`].
    entries: BTreeMap<ComparedName, Vec<Approver>>,
    file: ApproversFile,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Approver {
    /// `None` for all tenants.
    tenants: Option<BTreeSet<String>>,
    /// Empty if it has no key.
    roles: BTreeSet<String>,
    keys: Vec<(Key, Validity)>,
    registered: Option<Box<Registered>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Key {
    Ed25519(PublicKey),
    Webauthn(Credential),
}

impl Approvers {
    /// Parses a registry file.
    pub fn parse(text: &[u8]) -> Result<Self, RegistryError> {
        Self::new(ApproversFile::parse(text)?)
    }

    /// Checks a registry file.
    ///
    /// # Errors
    /// [`RegistryError`], except [`RegistryError::TooLarge`].
    pub fn new(file: ApproversFile) -> Result<Self, RegistryError> {
        if file.format != FORMAT {
            return Err(RegistryError::Format(file.format));
        }
        if file.approvers.len() > limits::APPROVERS_MAX {
            let what = format!("more than {} approvers", limits::APPROVERS_MAX);
            return Err(RegistryError::Shape(what));
        }
        let mut entries: BTreeMap<ComparedName, Vec<Approver>> = BTreeMap::new();
        let (mut known_keys, mut known_credentials) = (BTreeMap::new(), BTreeMap::new());
        for entry in &file.approvers {
            let wrong = |what: String| RegistryError::Entry { subject_id: entry.subject_id.clone(), what };
            let approver = parse_approver(entry).map_err(wrong)?;
            for (key, _) in &approver.keys {
                check_unique(&mut known_keys, key.public_key_bytes(), entry, "key")?;
                if let Key::Webauthn(credential) = key {
                    check_unique(&mut known_credentials, credential.id.0.clone(), entry, "credential")?;
                }
            }
            let same = entries.entry(ComparedName::of(&entry.subject_id)).or_default();
            if same.iter().any(|other| other.shares_tenant(&approver)) {
                let what = format!("approver `{}` appears twice for one tenant", entry.subject_id);
                return Err(RegistryError::Duplicate(what));
            }
            same.push(approver);
        }
        Ok(Self { entries, file })
    }

    /// The file that the registry was made from.
    #[must_use]
    pub const fn file(&self) -> &ApproversFile {
        &self.file
    }

    /// The entry of this approver for the tenant, with all its keys.
    #[must_use]
    pub fn entry_of(&self, tenant: &Tenant, subject_id: &str) -> Option<&ApproverEntry> {
        let is_it = |entry: &&ApproverEntry| {
            let approves_for = |name: &String| *name == tenant.0 || name == ANY_TENANT;
            is_same_person(&entry.subject_id, subject_id) && entry.tenants.iter().any(approves_for)
        };
        self.file.approvers.iter().find(is_it)
    }

    /// Checks that the statement's subject signed it, with a key that is valid at `now`, in roles that the subject holds.
    pub fn verify(
        &self,
        statement: &Statement<'_>,
        signature: &ApprovalSignature,
        now: EpochMs,
    ) -> Result<(), ApprovalError> {
        self.signer(statement, signature, now)?.verify(statement, signature)
    }

    /// As [`Self::verify`], for a signature that was verified before: whether its key may still be used by its approver, in these roles.
    ///
    /// # Errors
    /// [`ApprovalError`]: `UnknownApprover`, `UnknownKey`, those of a key's validity, `NoRole`, `RoleNotHeld`.
    pub fn check_signer(
        &self,
        statement: &Statement<'_>,
        signature: &ApprovalSignature,
        now: EpochMs,
    ) -> Result<(), ApprovalError> {
        self.signer(statement, signature, now).map(drop)
    }

    /// The key that the signature names.
    fn signer(
        &self,
        statement: &Statement<'_>,
        signature: &ApprovalSignature,
        now: EpochMs,
    ) -> Result<&Key, ApprovalError> {
        let approver = self.approver(statement).ok_or(ApprovalError::UnknownApprover)?;
        let (key, validity) = approver
            .keys
            .iter()
            .find(|(key, _)| key.is_named_by(signature))
            .ok_or(ApprovalError::UnknownKey)?;
        validity.check(now)?;
        approver.check_roles(statement.roles)?;
        Ok(key)
    }

    /// Checks that the statement's subject acts in roles that it holds, if the registry lists it: without its signature.
    ///
    /// # Errors
    /// [`ApprovalError`]: `NoRole`, `RoleNotHeld`.
    pub fn check_roles(&self, statement: &Statement<'_>) -> Result<(), ApprovalError> {
        self.approver(statement).map_or(Ok(()), |approver| approver.check_roles(statement.roles))
    }

    /// What the registry says of a subject in operations of the tenant.
    #[must_use]
    pub fn registered(&self, tenant: &Tenant, subject_id: &str) -> Option<&Registered> {
        self.listed(tenant, subject_id)?.registered.as_deref()
    }

    /// An approval of everyone who can sign one of the tenant's operations now, in all their roles; not signed.
    #[must_use]
    pub fn everyone(&self, tenant: &Tenant, now: EpochMs) -> Vec<Approval> {
        let can_sign = |approver: &Approver| {
            let mut keys = approver.keys.iter();
            approver.approves_for(tenant) && keys.any(|(_, validity)| validity.check(now).is_ok())
        };
        let approval = |(name, approver): (&ComparedName, &Approver)| Approval {
            subject_id: name.as_str().to_owned(),
            roles: approver.roles.iter().cloned().collect(),
            registered: approver.registered.clone(),
            claimed_at_ms: i64::try_from(now.0).unwrap_or(i64::MAX),
            approved_at_ms: now,
            signature: None,
        };
        let able = |(name, approvers): (&ComparedName, &Vec<Approver>)| {
            Some(approval((name, approvers.iter().find(|approver| can_sign(approver))?)))
        };
        self.entries.iter().filter_map(able).collect()
    }

    /// The persons who have more than one subject id, each with these.
    #[must_use]
    pub fn doubles(&self) -> Vec<(ComparedName, BTreeSet<&str>)> {
        let mut subjects: BTreeMap<ComparedName, BTreeMap<ComparedName, &str>> = BTreeMap::new();
        for entry in &self.file.approvers {
            let person = ComparedName::of(entry.person.as_deref().unwrap_or(&entry.subject_id));
            let of_person = subjects.entry(person).or_default();
            of_person.insert(ComparedName::of(&entry.subject_id), &entry.subject_id);
        }
        let doubles = subjects.into_iter().filter(|(_, of_person)| of_person.len() > 1);
        doubles.map(|(person, of_person)| (person, of_person.into_values().collect())).collect()
    }

    /// The statement's subject, as the registry lists it for the tenant.
    fn approver(&self, statement: &Statement<'_>) -> Option<&Approver> {
        self.listed(statement.tenant, statement.subject_id)
    }

    fn listed(&self, tenant: &Tenant, subject_id: &str) -> Option<&Approver> {
        let named = self.entries.get(&ComparedName::of(subject_id))?;
        named.iter().find(|approver| approver.approves_for(tenant))
    }
}

/// Checks that no earlier key of the registry has these bytes: a key or credential identifies one person.
fn check_unique(
    known: &mut BTreeMap<Vec<u8>, String>,
    bytes: Vec<u8>,
    entry: &ApproverEntry,
    what: &str,
) -> Result<(), RegistryError> {
    match known.insert(bytes, entry.subject_id.clone()) {
        None => Ok(()),
        Some(other) => Err(RegistryError::Duplicate(format!(
            "approvers `{other}` and `{}` have the same {what}",
            entry.subject_id
        ))),
    }
}

fn parse_approver(entry: &ApproverEntry) -> Result<Approver, String> {
    check_name("subject_id", &entry.subject_id)?;
    if compared(&entry.subject_id).is_empty() {
        return Err("`subject_id` must have a visible character".to_owned());
    }
    let tenants = parse_names("tenants", &entry.tenants)?;
    let is_any = tenants.contains(ANY_TENANT);
    if is_any && tenants.len() > 1 {
        return Err(format!("`tenants` must name tenants, or `{ANY_TENANT}` alone"));
    }
    if entry.keys.len() > limits::KEYS_MAX {
        return Err(format!("`keys` must have at most {} entries", limits::KEYS_MAX));
    }
    if entry.keys.is_empty() && !entry.roles.is_empty() {
        return Err("`roles` are those of approvals, which need `keys`".to_owned());
    }
    let roles = if entry.keys.is_empty() { BTreeSet::new() } else { parse_names("roles", &entry.roles)? };
    let registered = Registered { person: entry.person.clone(), attributes: entry.attributes.clone() };
    let keys = entry.keys.iter().map(|entry| Ok((parse_key(entry)?, parse_validity(entry)?)));
    Ok(Approver {
        tenants: (!is_any).then_some(tenants),
        roles,
        keys: keys.collect::<Result<_, String>>()?,
        registered: registered.checked()?,
    })
}

fn check_name(member: &str, name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > limits::NAME_BYTES_MAX {
        return Err(format!("`{member}` must have names of 1 to {} bytes", limits::NAME_BYTES_MAX));
    }
    Ok(())
}

fn parse_names(member: &str, entries: &[String]) -> Result<BTreeSet<String>, String> {
    if entries.is_empty() || entries.len() > limits::NAMES_MAX {
        return Err(format!("`{member}` must have 1 to {} entries", limits::NAMES_MAX));
    }
    let mut names = BTreeSet::new();
    for entry in entries {
        check_name(member, entry)?;
        if !names.insert(entry.clone()) {
            return Err(format!("`{member}` has `{entry}` twice"));
        }
    }
    Ok(names)
}

fn parse_validity(entry: &KeyEntry) -> Result<Validity, String> {
    let validity = entry.validity();
    match validity {
        Validity { not_before_ms: Some(from), not_after_ms: Some(until), .. } if from >= until => {
            Err("a key's `not_before_ms` must be before its `not_after_ms`".to_owned())
        }
        Validity { .. } => Ok(validity),
    }
}

fn parse_key(entry: &KeyEntry) -> Result<Key, String> {
    match entry {
        KeyEntry::Ed25519 { public_key, .. } => parse_ed25519(public_key.as_bytes()).map(Key::Ed25519),
        KeyEntry::Webauthn { credential_id, algorithm, public_key, rp_id, origins, .. } => {
            if credential_id.0.is_empty() || credential_id.0.len() > limits::CREDENTIAL_ID_BYTES_MAX {
                let max = limits::CREDENTIAL_ID_BYTES_MAX;
                return Err(format!("`credential_id` must have 1 to {max} bytes"));
            }
            if !is_domain(rp_id) {
                return Err(format!("`rp_id` must be a domain, as in `approve.example`: `{rp_id}`"));
            }
            Ok(Key::Webauthn(Credential {
                id: credential_id.clone(),
                key: parse_credential_key(*algorithm, public_key)?,
                rp_id: rp_id.clone(),
                origins: parse_names("origins", origins)?
                    .into_iter()
                    .map(origin)
                    .collect::<Result<_, _>>()?,
            }))
        }
    }
}

/// Checks an origin of passkeys: written as browsers write it, since it is compared byte for byte, or of an app on Android. Passkeys need
/// https, except on the own machine.
fn origin(text: String) -> Result<String, String> {
    if text.strip_prefix("android:apk-key-hash:").is_some_and(|hash| !hash.is_empty()) || is_web_origin(&text)
    {
        return Ok(text);
    }
    Err(format!(
        "`origins` must have origins as browsers write them, as in `https://approve.example` or `https://approve.example:8443`: `{text}`"
    ))
}

fn is_web_origin(text: &str) -> bool {
    let Some((scheme, place)) = text.split_once("://") else { return false };
    let (host, port) = place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port)));
    let default = match scheme {
        "https" => 443,
        "http" if host == "localhost" || host.ends_with(".localhost") => 80,
        _ => return false,
    };
    let is_written = |port: &str| {
        port.parse().is_ok_and(|number: u16| number != 0 && number != default && number.to_string() == port)
    };
    is_domain(host) && port.is_none_or(is_written)
}

/// Whether this is a name of the DNS as browsers write it: in lower case, with other characters than those of ASCII encoded, and no
/// number, which would be an address.
fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
    };
    let ends_in_number =
        text.rsplit('.').next().is_some_and(|last| last.bytes().all(|it| it.is_ascii_digit()));
    text.len() <= 253 && text.split('.').all(is_label) && !ends_in_number
}

fn parse_credential_key(algorithm: Algorithm, public_key: &str) -> Result<CredentialKey, String> {
    let is_lower = !public_key.bytes().any(|byte| byte.is_ascii_uppercase());
    let bytes = hex::decode(public_key).ok().filter(|_| is_lower);
    let bytes = bytes.ok_or("`public_key` must be lowercase hexadecimal")?;
    match algorithm {
        Algorithm::Es256 => CredentialKey::es256(&bytes)
            .ok_or_else(|| "`public_key` must be an uncompressed point of P-256, 65 bytes".to_owned()),
        Algorithm::EdDsa => {
            let bytes: [u8; 32] = bytes.try_into().map_err(|_| "`public_key` must be 32 bytes")?;
            parse_ed25519(&bytes).map(CredentialKey::EdDsa)
        }
    }
}

/// Rejects keys of small order too, under which messages verify that no one signed.
fn parse_ed25519(bytes: &[u8; 32]) -> Result<PublicKey, String> {
    let key = PublicKey::from_bytes(bytes).filter(|key| !key.is_weak());
    key.ok_or_else(|| "`public_key` must be an Ed25519 public key".to_owned())
}

impl Approver {
    fn approves_for(&self, tenant: &Tenant) -> bool {
        self.tenants.as_ref().is_none_or(|tenants| tenants.contains(&tenant.0))
    }

    /// A subject that approves has at least one role, and acts in at least one of them.
    fn check_roles(&self, roles: &[String]) -> Result<(), ApprovalError> {
        match roles.iter().find(|role| !self.roles.contains(*role)) {
            Some(role) => Err(ApprovalError::RoleNotHeld(role.clone())),
            None if roles.is_empty() => Err(ApprovalError::NoRole),
            None => Ok(()),
        }
    }

    fn shares_tenant(&self, other: &Self) -> bool {
        match (&self.tenants, &other.tenants) {
            (Some(ours), Some(theirs)) => !ours.is_disjoint(theirs),
            (None, _) | (_, None) => true,
        }
    }
}

impl Key {
    /// The bytes of the public key, which find a key that two entries have.
    fn public_key_bytes(&self) -> Vec<u8> {
        match self {
            Self::Ed25519(key) => key.to_bytes().to_vec(),
            Self::Webauthn(credential) => credential.key.bytes(),
        }
    }

    /// Whether the signature names this key.
    fn is_named_by(&self, signature: &ApprovalSignature) -> bool {
        match (self, signature) {
            (Self::Ed25519(key), ApprovalSignature::Ed25519 { public_key, .. }) => {
                key.to_bytes() == *public_key.as_bytes()
            }
            (Self::Webauthn(credential), ApprovalSignature::Webauthn { credential_id, .. }) => {
                credential.id == *credential_id
            }
            (Self::Ed25519(_), ApprovalSignature::Webauthn { .. })
            | (Self::Webauthn(_), ApprovalSignature::Ed25519 { .. }) => false,
        }
    }

    fn verify(&self, statement: &Statement<'_>, signature: &ApprovalSignature) -> Result<(), ApprovalError> {
        match (self, signature) {
            (Self::Ed25519(key), ApprovalSignature::Ed25519 { signature, .. }) => {
                let message = statement.message().map_err(|_| ApprovalError::Malformed("statement"))?;
                if key.verifies(&message, signature.as_bytes()) {
                    Ok(())
                } else {
                    Err(ApprovalError::BadSignature)
                }
            }
            (
                Self::Webauthn(credential),
                ApprovalSignature::Webauthn { authenticator_data, client_data_json, signature, .. },
            ) => {
                let challenge = statement.digest().map_err(|_| ApprovalError::Malformed("statement"))?;
                credential.verify(challenge, &authenticator_data.0, &client_data_json.0, &signature.0)
            }
            (Self::Ed25519(_), ApprovalSignature::Webauthn { .. })
            | (Self::Webauthn(_), ApprovalSignature::Ed25519 { .. }) => Err(ApprovalError::UnknownKey),
        }
    }
}

impl Validity {
    /// Checks that a key may be used at `now`.
    ///
    /// # Errors
    /// [`ApprovalError::KeyRevoked`], [`ApprovalError::KeyNotYetValid`], [`ApprovalError::KeyExpired`].
    pub fn check(&self, now: EpochMs) -> Result<(), ApprovalError> {
        if self.revoked_at_ms.is_some_and(|revoked| now.0 >= revoked) {
            return Err(ApprovalError::KeyRevoked);
        }
        if self.not_before_ms.is_some_and(|from| now.0 < from) {
            return Err(ApprovalError::KeyNotYetValid);
        }
        if self.not_after_ms.is_some_and(|until| now.0 >= until) {
            return Err(ApprovalError::KeyExpired);
        }
        Ok(())
    }
}
