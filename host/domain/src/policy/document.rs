//! Signed documents: JSON outside the bundle, such as exchange rates, holidays or an address book, which change more often than a rule.
//!
//! A document is read as the fact `document.NAME`, whose value is its hash, so that every evaluation records which one it used. The document
//! itself travels with the evaluation, as [proofs](super::paid) do: each party that repeats it verifies the signatures, and needs no other source.

use crate::canonical;
use crate::dsse::{Envelope, EnvelopeError, KeySet, Role};
use crate::error_chain;
use crate::ids::Hex32;
use crate::json::{self, Floats};
use crate::time::EpochMs;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The prefix of the facts that say which documents were read.
pub const PREFIX: &str = "document.";

/// The payload's type in the envelope.
pub const PAYLOAD_TYPE: &str = "application/vnd.svc.document.v1+json";

/// Most bytes of a document's payload. It is in each event, request and evidence whose policy read it.
pub const DOCUMENT_BYTES_MAX: usize = 16 * 1024;

/// Most documents of a deployment, so of an evaluation.
pub const DOCUMENTS_MAX: usize = 8;

/// Most bytes of a document's name.
pub const NAME_BYTES_MAX: usize = 64;

/// The content of an envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The name by which policies read it: lower case letters, digits and `_`.
    pub name: String,
    /// A newer document of this name has a higher one.
    pub sequence: u64,
    /// The last millisecond at which policies find it.
    pub not_after_ms: EpochMs,
    /// What policies read.
    pub content: Value,
}

/// A document in its envelope. That it was parsed does not say that it is trusted: see [`SignedDocument::verify`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedDocument {
    /// The content.
    pub document: Document,
    /// SHA-256 of the payload.
    pub hash: Hex32,
    /// The payload with its signatures.
    pub envelope: Envelope,
}

/// Those who sign documents of one name: a role of the trust roots.
#[derive(Clone, Debug)]
struct Signers {
    threshold: usize,
    keys: KeySet,
}

/// Who signs which documents.
#[derive(Clone, Debug, Default)]
pub struct DocumentRoles(BTreeMap<String, Signers>);

/// Why a document is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// The payload is too long.
    #[error("the document has {0} bytes, and at most {DOCUMENT_BYTES_MAX} are allowed")]
    TooLarge(usize),
    /// The payload is not a document.
    #[error("not a document: {0}")]
    Shape(String),
    /// The name is not one that a policy can read.
    #[error(
        "`{0}` is not a name of a document: lower case letters, digits and `_`, at most {NAME_BYTES_MAX} bytes"
    )]
    Name(String),
    /// There are more than [`DOCUMENTS_MAX`].
    #[error("there are {0} documents, and at most {DOCUMENTS_MAX} are allowed")]
    TooMany(usize),
    /// Two documents have this name.
    #[error("there are two documents `{0}`")]
    Twice(String),
    /// A key of a role is not a public key.
    #[error(transparent)]
    Key(EnvelopeError),
    /// The trust roots have no role for it.
    #[error("the trust roots name no keys for the document `{0}`")]
    NoRole(String),
    /// Too few keys of its role signed.
    #[error("the document `{name}` is signed by {have} of {need} keys of its role that are not revoked")]
    RoleUnmet {
        /// The document.
        name: String,
        /// Those that signed.
        have: usize,
        /// Those that must.
        need: usize,
    },
    /// A signature of a key of the role is wrong.
    #[error("the document `{name}` is not signed: {source}")]
    Signature {
        /// The document.
        name: String,
        /// What is wrong.
        source: EnvelopeError,
    },
    /// Its file is named for another one.
    #[error("the file is named for the document `{name}`, and has `{found}`")]
    OtherName {
        /// The name in the file's name.
        name: String,
        /// The name in the document.
        found: String,
    },
    /// It is no longer valid.
    #[error("the document `{name}` is valid until {not_after_ms}, and the time is {now_ms}")]
    Expired {
        /// The document.
        name: String,
        /// The last valid millisecond.
        not_after_ms: u64,
        /// The verifier's time.
        now_ms: u64,
    },
    /// A newer one has been used, or another one with this sequence.
    #[error(
        "the document `{name}` has sequence {sequence}, and another one with sequence {reached} has been used"
    )]
    Older {
        /// The document.
        name: String,
        /// Its sequence.
        sequence: u64,
        /// The highest sequence that was used.
        reached: u64,
    },
}

impl Document {
    /// The document as the bytes that are signed.
    ///
    /// # Errors
    /// [`DocumentError`] for a document that no verifier would read.
    pub fn to_payload(&self) -> Result<Vec<u8>, DocumentError> {
        let payload = serde_json::to_vec(self).map_err(|error| DocumentError::Shape(error.to_string()))?;
        Self::parse(&payload)?;
        Ok(payload)
    }

    /// Reads signed bytes. A member may be there once, and a number has no fraction, so that the text has one meaning.
    fn parse(payload: &[u8]) -> Result<Self, DocumentError> {
        if payload.len() > DOCUMENT_BYTES_MAX {
            return Err(DocumentError::TooLarge(payload.len()));
        }
        let value = json::parse(payload, Floats::Rejected);
        let value = value.map_err(|error| DocumentError::Shape(error_chain(&error)))?;
        if !value.is_object() {
            return Err(DocumentError::Shape("it must be an object".to_owned()));
        }
        let document = serde_json::from_value(value);
        let document: Self = document.map_err(|error| DocumentError::Shape(error.to_string()))?;
        if !is_name(&document.name) {
            return Err(DocumentError::Name(document.name.escape_debug().take(NAME_BYTES_MAX).collect()));
        }
        Ok(document)
    }
}

impl SignedDocument {
    /// Reads an envelope. Its signatures are not verified.
    ///
    /// # Errors
    /// [`DocumentError::Shape`], [`DocumentError::TooLarge`], [`DocumentError::Name`].
    pub fn parse(envelope: Envelope) -> Result<Self, DocumentError> {
        let payload = envelope.payload(PAYLOAD_TYPE);
        let payload = payload.map_err(|error| DocumentError::Shape(error.to_string()))?;
        let document = Document::parse(&payload)?;
        Ok(Self { document, hash: canonical::digest_bytes("", &payload), envelope })
    }

    /// Reads a file with an envelope. Its signatures are not verified.
    ///
    /// # Errors
    /// As [`SignedDocument::parse`].
    pub fn read(file: &[u8]) -> Result<Self, DocumentError> {
        let envelope = json::parse(file, Floats::Rejected);
        let envelope = envelope.map_err(|error| DocumentError::Shape(error_chain(&error)))?;
        let envelope = serde_json::from_value(envelope);
        Self::parse(envelope.map_err(|error| DocumentError::Shape(error.to_string()))?)
    }

    /// A document without signatures, for the tests of a policy.
    ///
    /// # Errors
    /// As [`Document::to_payload`].
    pub fn unsigned(document: Document) -> Result<Self, DocumentError> {
        let payload = document.to_payload()?;
        Self::parse(Envelope::seal(PAYLOAD_TYPE, &payload, &[]))
    }

    /// The name of the fact that says which document was read.
    #[must_use]
    pub fn fact(&self) -> String {
        format!("{PREFIX}{}", self.document.name)
    }

    /// Whether policies find it at this time.
    #[must_use]
    pub fn is_valid_at(&self, now: EpochMs) -> bool {
        now <= self.document.not_after_ms
    }

    /// Checks that policies find it at this time.
    ///
    /// # Errors
    /// [`DocumentError::Expired`].
    pub fn check_valid_at(&self, now: EpochMs) -> Result<(), DocumentError> {
        if self.is_valid_at(now) {
            return Ok(());
        }
        let Document { name, not_after_ms, .. } = &self.document;
        Err(DocumentError::Expired { name: name.clone(), not_after_ms: not_after_ms.0, now_ms: now.0 })
    }

    /// Checks that as many keys of the document's role as it needs have signed.
    ///
    /// # Errors
    /// [`DocumentError::NoRole`], [`DocumentError::RoleUnmet`], [`DocumentError::Signature`].
    pub fn verify(&self, roles: &DocumentRoles) -> Result<(), DocumentError> {
        let name = self.document.name.clone();
        let Some(Signers { threshold: need, keys }) = roles.0.get(&name) else {
            return Err(DocumentError::NoRole(name));
        };
        let have = match self.envelope.verify(PAYLOAD_TYPE, keys) {
            Ok((_, signers)) => signers.len(),
            Err(EnvelopeError::UnknownSigner) => 0,
            Err(source) => return Err(DocumentError::Signature { name, source }),
        };
        if have < *need {
            return Err(DocumentError::RoleUnmet { name, have, need: *need });
        }
        Ok(())
    }
}

impl DocumentRoles {
    /// Those in these roles whose keys are not revoked. A role with fewer keys than its threshold signs nothing, and a threshold of 0 counts as 1.
    ///
    /// # Errors
    /// [`DocumentError::Name`] and [`DocumentError::Twice`] for a role, [`DocumentError::Key`] for an invalid public key.
    pub fn new(roles: &[Role], revoked: &BTreeSet<Hex32>) -> Result<Self, DocumentError> {
        let mut signers = BTreeMap::new();
        for Role { role, threshold, keys } in roles {
            if !is_name(role) {
                return Err(DocumentError::Name(role.escape_debug().take(NAME_BYTES_MAX).collect()));
            }
            let keys = keys.iter().filter(|key| !revoked.contains(key)).map(|key| *key.as_bytes());
            let keys = KeySet::new(keys).map_err(DocumentError::Key)?;
            if signers.insert(role.clone(), Signers { threshold: (*threshold).max(1), keys }).is_some() {
                return Err(DocumentError::Twice(role.clone()));
            }
        }
        Ok(Self(signers))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether the value of a fact `document.NAME` is the hash of one of these documents, and this was valid at the `time.now_ms` that was read.
#[must_use]
pub fn is_proven(documents: &[Arc<SignedDocument>], fact: &str, hash: &str, now_ms: Option<&str>) -> bool {
    let Some(now) = now_ms.and_then(|now_ms| now_ms.parse().ok()) else { return false };
    let is_it = |one: &&Arc<SignedDocument>| one.fact() == fact && one.hash.to_string() == hash;
    documents.iter().find(is_it).is_some_and(|one| one.is_valid_at(EpochMs(now)))
}

/// Reads the documents of an evaluation.
///
/// # Errors
/// [`DocumentError`] for the first that cannot be read, or for two of one name.
pub fn parse_all(envelopes: &[Envelope]) -> Result<Vec<Arc<SignedDocument>>, DocumentError> {
    if envelopes.len() > DOCUMENTS_MAX {
        return Err(DocumentError::TooMany(envelopes.len()));
    }
    let mut names = BTreeSet::new();
    let mut documents = Vec::new();
    for envelope in envelopes {
        let document = SignedDocument::parse(envelope.clone())?;
        if !names.insert(document.document.name.clone()) {
            return Err(DocumentError::Twice(document.document.name));
        }
        documents.push(Arc::new(document));
    }
    Ok(documents)
}

/// Whether a policy can read a document of this name.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_allowed)
}

/// The newest document of one name that a verifier admitted an operation with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its sequence.
    pub sequence: u64,
    /// Its hash.
    pub hash: Hex32,
    /// When the first operation was admitted with it.
    pub since: EpochMs,
    /// The one before it; all zeros for none.
    pub previous: Hex32,
}

impl Mark {
    /// How long the document before the newest one may still be used: operations that were evaluated with it are on their way, milliseconds.
    pub const GRACE_MS: u64 = 5 * 60 * 1000;

    /// The mark after an admission with this document; `None` if it stays.
    ///
    /// # Errors
    /// [`DocumentError::Older`].
    pub fn raised(
        known: Option<Self>,
        document: &SignedDocument,
        now: EpochMs,
    ) -> Result<Option<Self>, DocumentError> {
        let SignedDocument { document: Document { name, sequence, .. }, hash, .. } = document;
        let Some(known) = known else {
            let previous = Hex32::ZERO;
            return Ok(Some(Self { sequence: *sequence, hash: *hash, since: now, previous }));
        };
        if known.hash == *hash {
            return Ok(None);
        }
        if *sequence > known.sequence {
            let previous = known.hash;
            return Ok(Some(Self { sequence: *sequence, hash: *hash, since: now, previous }));
        }
        if *sequence < known.sequence && known.previous == *hash && now < known.since.plus_ms(Self::GRACE_MS)
        {
            return Ok(None);
        }
        let (name, sequence, reached) = (name.clone(), *sequence, known.sequence);
        Err(DocumentError::Older { name, sequence, reached })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::samples::hex32;
    use serde_json::json;

    fn document(sequence: u64, content: Value) -> SignedDocument {
        let (name, not_after_ms) = ("rates".to_owned(), EpochMs(1_000));
        SignedDocument::unsigned(Document { name, sequence, not_after_ms, content }).unwrap()
    }

    fn payload(text: &str) -> Result<Document, DocumentError> {
        SignedDocument::parse(Envelope::seal(PAYLOAD_TYPE, text.as_bytes(), &[]))
            .map(|signed| signed.document)
    }

    #[test]
    fn text_with_more_than_one_meaning_is_no_document() {
        let text = |content: &str| {
            format!(r#"{{"name":"rates","sequence":1,"not_after_ms":"1000","content":{content}}}"#)
        };
        assert_eq!(payload(&text(r#"{"EUR":"1.05"}"#)).unwrap().content, json!({ "EUR": "1.05" }));
        for (content, part) in [
            (r#"{"a":1,"a":2}"#, "twice"),
            ("1.5", "not JSON"),
            (r#"1,"more":2"#, "unknown field"),
            (&"[".repeat(200), "not JSON"),
        ] {
            let refused = payload(&text(content)).unwrap_err();
            assert!(refused.to_string().contains(part), "{refused}");
        }
        for other in ["[]", "[\"rates\",1,\"1000\",2]", "{}", "", "null"] {
            assert!(matches!(payload(other), Err(DocumentError::Shape(_))), "{other}");
        }
        let long = text(&format!("\"{}\"", "x".repeat(DOCUMENT_BYTES_MAX)));
        assert!(matches!(payload(&long), Err(DocumentError::TooLarge(_))));
        for name in ["", "Rates", "a.b", "a/b", "caf\\u00e9", &"x".repeat(NAME_BYTES_MAX + 1)] {
            let refused = payload(&text("1").replace("\"rates\"", &format!("\"{name}\"")));
            assert!(matches!(refused, Err(DocumentError::Name(_))), "{name}: {refused:?}");
        }
        let other = Envelope::seal("application/json", text("1").as_bytes(), &[]);
        assert!(matches!(SignedDocument::parse(other), Err(DocumentError::Shape(_))));
    }

    #[test]
    fn document_without_a_signature_is_refused_whatever_the_threshold() {
        let role = |threshold| Role { role: "rates".into(), threshold, keys: [].into() };
        for threshold in [0, 1] {
            let roles = DocumentRoles::new(&[role(threshold)], &BTreeSet::new()).unwrap();
            let refused = document(1, json!(1)).verify(&roles).unwrap_err();
            assert_eq!(refused, DocumentError::RoleUnmet { name: "rates".into(), have: 0, need: 1 });
        }
    }

    #[test]
    fn evaluation_has_few_documents_each_once() {
        let envelope = document(1, json!(1)).envelope;
        let twice = [envelope.clone(), document(2, json!(2)).envelope];
        assert_eq!(parse_all(&twice).unwrap_err(), DocumentError::Twice("rates".into()));
        let many = vec![envelope; DOCUMENTS_MAX + 1];
        assert_eq!(parse_all(&many).unwrap_err(), DocumentError::TooMany(DOCUMENTS_MAX + 1));
    }

    #[test]
    fn fact_is_proven_by_its_own_document_until_that_expires() {
        let one = Arc::new(document(1, json!(1)));
        let (hash, other) = (one.hash.to_string(), document(2, json!(1)).hash.to_string());
        let documents = [one];
        for (fact, hash, now_ms, expected) in [
            ("document.rates", &hash, Some("1000"), true),
            ("document.rates", &hash, Some("1001"), false),
            ("document.rates", &hash, Some("soon"), false),
            ("document.rates", &hash, None, false),
            ("document.rates", &other, Some("1000"), false),
            ("document.holidays", &hash, Some("1000"), false),
        ] {
            assert_eq!(is_proven(&documents, fact, hash, now_ms), expected, "{fact} {hash} {now_ms:?}");
        }
    }

    #[test]
    fn verifier_does_not_go_back_to_an_older_document() {
        let (first, second, third) = (document(1, json!(1)), document(2, json!(1)), document(3, json!(1)));
        let raised = |known: Option<Mark>, document: &SignedDocument, now: u64| {
            Mark::raised(known, document, EpochMs(now))
        };
        let one = raised(None, &first, 10).unwrap().unwrap();
        assert_eq!(raised(Some(one), &first, 20), Ok(None));
        let two = raised(Some(one), &second, 20).unwrap().unwrap();
        assert_eq!((two.sequence, two.since, two.previous), (2, EpochMs(20), first.hash));
        let last = 20 + Mark::GRACE_MS;
        assert_eq!(raised(Some(two), &first, last - 1), Ok(None), "operations with it are on their way");
        let older = |sequence, reached| DocumentError::Older { name: "rates".into(), sequence, reached };
        assert_eq!(raised(Some(two), &first, last), Err(older(1, 2)));
        assert_eq!(raised(Some(two), &document(1, json!(2)), 21), Err(older(1, 2)), "it was never used");
        assert_eq!(raised(Some(two), &document(2, json!(2)), 21), Err(older(2, 2)), "two of one sequence");
        let three = raised(Some(two), &third, 30).unwrap().unwrap();
        assert_eq!(raised(Some(three), &first, 31), Err(older(1, 3)), "only the one before");
        assert_ne!(three.hash, hex32(0));
    }
}
