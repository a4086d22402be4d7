//! The log of one node: what it signed and released, in order, as entries that are never changed.
//!
//! A node appends one entry for each receipt that it signs, in the transaction of the step. The receipt states the entry's
//! position. The entries are the leaves of an RFC 6962 tree, as the gateway's events are ([`log`](crate::log)), and the node signs
//! its head. So a reader who has the entries up to a signed head knows that none of them was left out, altered or moved.
//!
//! After a rollback the node does not know the entries that it lost. An operator's readmission fills their positions with
//! [`LogEntry::Lost`], so that no position is used twice, and adds a [`LogEntry::Readmitted`].

use crate::canonical::{self, CanonicalError};
use crate::dsse::pre_authentication_encoding;
use crate::ed25519::{PublicKey, Signature};
use crate::ids::{Hex32, KeyId, OperationId};
use crate::log::leaf_hash;
use crate::receipt::ReceiptStatement;
use crate::roster::ParticipantIndex;
use crate::time::EpochMs;
use serde::{Deserialize, Serialize};

/// The `format` of a log as a file.
pub const FORMAT: &str = "svc/node-log/v1";

/// The first line of a log as a file: then an entry on each line, and the signed head.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// The node whose log it is.
    pub participant: ParticipantIndex,
}

/// The DSSE payload type of a [`LogHead`].
pub const HEAD_PAYLOAD_TYPE: &str = "application/vnd.svc.node-log-head.v1+json";

/// An entry of a node's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[expect(clippy::large_enum_variant, reason = "almost every entry is a receipt")]
pub enum LogEntry {
    /// The node signed the receipt for this statement.
    Receipt {
        /// The entry's position, from 0.
        log_index: u64,
        /// The statement that it signed with this position.
        statement: ReceiptStatement,
        /// The signature share that it released with the receipt; `None` for every other step.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        share: Option<ReleasedShare>,
    },
    /// A rollback lost the entry at this position.
    Lost {
        /// The entry's position.
        log_index: u64,
    },
    /// An operator accepted the state of the node after a rollback.
    Readmitted {
        /// The entry's position.
        log_index: u64,
        /// The node.
        participant: ParticipantIndex,
        /// The first position at which the log may have had another entry before the rollback.
        lost_from: u64,
        /// The time of the readmission, by the node's clock. The node signs nothing on decisions made earlier.
        at_ms: EpochMs,
    },
}

/// What a node signed, and with which key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ReleasedShare {
    /// The key. The signature may be a child key's.
    pub key_id: KeyId,
    /// The digest that is signed.
    pub signed_digest: Hex32,
    /// Hash of the signing package: it fixes the signers and the child key.
    pub package_hash: Hex32,
}

impl LogEntry {
    /// The entry's position.
    #[must_use]
    pub const fn log_index(&self) -> u64 {
        match self {
            Self::Receipt { log_index, .. }
            | Self::Lost { log_index }
            | Self::Readmitted { log_index, .. } => *log_index,
        }
    }

    /// The operation of the entry; `None` if it is about the log itself.
    #[must_use]
    pub const fn operation_id(&self) -> Option<OperationId> {
        match self {
            Self::Receipt { statement, .. } => Some(statement.operation_id),
            Self::Lost { .. } | Self::Readmitted { .. } => None,
        }
    }

    /// The leaf of the tree: `SHA-256(0x00 || H)` with `H = SHA-256("svc/node-log/v1" || canonical entry)`.
    pub fn leaf(&self) -> Result<Hex32, CanonicalError> {
        Ok(leaf_hash(canonical::digest("svc/node-log/v1", self)?))
    }
}

/// The head of a node's log at one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LogHead {
    /// The node.
    pub participant: ParticipantIndex,
    /// The number of entries.
    pub size: u64,
    /// The root of the tree at that size.
    pub root: Hex32,
    /// The time of the signature, by the node's clock.
    pub at_ms: EpochMs,
}

/// A head with a signature that is not verified yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SignedLogHead {
    /// The head.
    pub head: LogHead,
    /// The signature over the DSSE pre-authentication encoding of the head's [payload](LogHead::payload).
    #[serde(rename = "node_signature")]
    pub signature: Signature,
}

impl LogHead {
    /// The canonical bytes: the payload of the signature.
    pub fn payload(&self) -> Result<Vec<u8>, CanonicalError> {
        canonical::to_bytes(self)
    }
}

impl SignedLogHead {
    /// Whether the node with this Ed25519 key signed the head.
    #[must_use]
    pub fn is_signed_by(&self, public_key: &[u8; 32]) -> bool {
        let (Some(key), Ok(payload)) = (PublicKey::from_bytes(public_key), self.head.payload()) else {
            return false;
        };
        let signed = pre_authentication_encoding(HEAD_PAYLOAD_TYPE, &payload);
        key.verifies(&signed, self.signature.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Frontier;
    use crate::receipt::{Chain, ReceiptKind};
    use ed25519_dalek::{Signer as _, SigningKey};

    fn hex32(byte: u8) -> Hex32 {
        Hex32::new([byte; 32])
    }

    fn entry() -> LogEntry {
        let chain = Chain {
            admission_hash: hex32(11),
            operation_id: OperationId(hex32(1)),
            participant: ParticipantIndex(0),
        };
        let (signed_digest, package_hash) = (hex32(7), hex32(8));
        let statement = chain.statement(&ReceiptKind::Signed { attempt: 2, signed_digest, package_hash });
        LogEntry::Receipt {
            log_index: 5,
            statement: statement.unwrap(),
            share: Some(ReleasedShare { key_id: KeyId(hex32(4)), signed_digest, package_hash }),
        }
    }

    /// Every value in the JSON of an entry.
    fn pointers(value: &serde_json::Value, at: String, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(members) => {
                members.iter().for_each(|(name, member)| pointers(member, format!("{at}/{name}"), found));
            }
            _ => found.push(at),
        }
    }

    #[test]
    fn every_value_of_an_entry_is_hashed() {
        let entries = [
            entry(),
            LogEntry::Lost { log_index: 5 },
            LogEntry::Readmitted {
                log_index: 5,
                participant: ParticipantIndex(0),
                lost_from: 3,
                at_ms: EpochMs(9),
            },
        ];
        for entry in entries {
            let json = serde_json::to_value(&entry).unwrap();
            assert_eq!(serde_json::from_value::<LogEntry>(json.clone()).unwrap(), entry);
            let mut found = vec![];
            pointers(&json, String::new(), &mut found);
            for at in found {
                let mut altered = json.clone();
                let value = altered.pointer_mut(&at).unwrap();
                *value = match value.as_u64() {
                    Some(number) => (number + 1).into(),
                    None => value.as_str().unwrap().replacen('0', "1", 1).into(),
                };
                let Ok(other) = serde_json::from_value::<LogEntry>(altered) else { continue };
                assert!(other == entry || other.leaf().unwrap() != entry.leaf().unwrap(), "{at}");
            }
        }
    }

    #[test]
    fn entry_with_an_unknown_or_missing_member_is_not_parsed() {
        let json = serde_json::to_value(entry()).unwrap();
        let mut extra = json.clone();
        extra["other"] = 1.into();
        assert!(serde_json::from_value::<LogEntry>(extra).is_err());
        let mut extra = json.clone();
        extra["statement"]["other"] = 1.into();
        assert!(serde_json::from_value::<LogEntry>(extra).is_err());
        let mut missing = json;
        missing["statement"].as_object_mut().unwrap().remove("subject");
        assert!(serde_json::from_value::<LogEntry>(missing).is_err());
    }

    /// Another program computed the leaves and the root in `vectors/node_log.json`, and OpenSSL signed the head.
    #[test]
    fn log_agrees_with_the_openssl_vector() {
        let vector: serde_json::Value =
            serde_json::from_str(include_str!("../vectors/node_log.json")).unwrap();
        let entries: Vec<LogEntry> = serde_json::from_value(vector["entries"].clone()).unwrap();
        assert_eq!(serde_json::to_value(&entries).unwrap(), vector["entries"]);
        let leaves: Vec<_> = entries.iter().map(|entry| entry.leaf().unwrap()).collect();
        assert_eq!(serde_json::to_value(&leaves).unwrap(), vector["leaves"]);
        let mut frontier = Frontier::default();
        for leaf in leaves {
            frontier.append(leaf);
        }
        let head: SignedLogHead = serde_json::from_value(vector["head"].clone()).unwrap();
        assert_eq!((head.head.size, head.head.root), (3, frontier.root()));
        assert_eq!(String::from_utf8(head.head.payload().unwrap()).unwrap(), vector["head_payload"]);
        assert_eq!(HEAD_PAYLOAD_TYPE, vector["head_payload_type"]);
        let key = hex::decode(vector["public_key_hex"].as_str().unwrap()).unwrap();
        assert!(head.is_signed_by(&key.try_into().unwrap()));
    }

    #[test]
    fn head_is_valid_only_for_its_node_and_every_member() {
        let key = SigningKey::from_bytes(&[3; 32]);
        let head = LogHead { participant: ParticipantIndex(0), size: 6, root: hex32(9), at_ms: EpochMs(7) };
        let signed = pre_authentication_encoding(HEAD_PAYLOAD_TYPE, &head.payload().unwrap());
        let signature = Signature::new(key.sign(&signed).to_bytes());
        let public = key.verifying_key().to_bytes();
        let valid = SignedLogHead { head, signature };
        assert!(valid.is_signed_by(&public));
        let other = SigningKey::from_bytes(&[4; 32]).verifying_key().to_bytes();
        assert!(!valid.is_signed_by(&other));
        let altered = [
            LogHead { participant: ParticipantIndex(1), ..head },
            LogHead { size: 7, ..head },
            LogHead { root: hex32(8), ..head },
            LogHead { at_ms: EpochMs(8), ..head },
        ];
        for head in altered {
            assert!(!SignedLogHead { head, ..valid.clone() }.is_signed_by(&public), "{head:?}");
        }
    }
}
