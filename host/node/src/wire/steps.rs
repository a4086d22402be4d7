//! The arguments and the answers of the steps.

use super::{CallContext, WireFault};
use crate::call::{CeremonyStart, ShownReceipt};
use crate::ceremony::CeremonyAnswer;
use crate::error::NodeError;
use crate::node::OperationState;
use crate::steps::PolicyReceipt;
use crate::steps::signing::{RoundOne, SignedShare};
use crate::store::consumed::{decode_package, encode_package};
use gateway_domain::ids::{Hex32, KeyId, OperationId};
use gateway_domain::key::Epoch;
use gateway_domain::node_log::LogEntry;
use gateway_domain::operation::EffectStep;
use gateway_domain::receipt::{AttemptReceipt, NodeReceipt};
use gateway_domain::roster::ParticipantIndex;
use gateway_seal::relay::Envelope;
use gateway_threshold::PublicKeys;
use gateway_threshold::sign::SigningPackage;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A step's request: the members of [`CallContext`], and `body`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepRequest<B> {
    /// The context.
    #[serde(flatten)]
    pub context: CallContext,
    /// The newest receipt of this node that the caller knows. A node whose log does not have it stops.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub newest: Option<ShownReceipt>,
    /// The arguments of the step.
    pub body: B,
}

/// The arguments of a step without arguments.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// The arguments of `execute`: exactly the member of the slot; none for `commitments` and `discard-attempt`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ExecuteBody {
    /// `commitments` and `ceremony-start`: the receipts of nodes for earlier attempts that they will not complete. A node that
    /// completed one needs it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub discarded: Vec<AttemptReceipt>,
    /// `share`: the signing package.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub package: Option<Package>,
    /// `ceremony-start`: the parameters.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub start: Option<Start>,
    /// `ceremony-messages`: the messages for this node.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub messages: Option<Vec<Envelope>>,
}

/// A signing package, as the node stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = crate::store::consumed::StoredPackage))]
#[serde(transparent)]
pub struct Package(serde_json::Value);

impl Package {
    /// A package.
    pub fn new(package: &SigningPackage) -> Result<Self, NodeError> {
        let text = encode_package(package)?;
        serde_json::from_str(&text).map(Self).map_err(NodeError::damaged)
    }

    /// The package.
    pub fn parse(&self) -> Result<SigningPackage, WireFault> {
        decode_package(&self.0.to_string())
            .map_err(|_| WireFault::new("/body/package", "must be a signing package"))
    }
}

/// [`CeremonyStart`] without the receipts, with the public keys in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The holders that deal new shares, ascending.
    pub dealers: Vec<u16>,
    /// The public keys of the admitted generation; empty for a key creation.
    pub package_hex: String,
}

impl From<&CeremonyStart> for Start {
    fn from(start: &CeremonyStart) -> Self {
        Self {
            dealers: start.dealers.iter().map(|dealer| dealer.0).collect(),
            package_hex: hex::encode(&start.package),
        }
    }
}

impl Start {
    /// The parameters.
    pub fn parse(&self, discarded: Vec<AttemptReceipt>) -> Result<CeremonyStart, WireFault> {
        if !self.dealers.is_sorted_by(|one, next| one < next) {
            return Err(WireFault::new("/body/start/dealers", "must be ascending"));
        }
        Ok(CeremonyStart {
            dealers: self.dealers.iter().copied().map(ParticipantIndex).collect(),
            package: bytes("/body/start/package_hex", &self.package_hex)?,
            discarded,
        })
    }
}

/// The answer to a step that only has a receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ReceiptAnswer {
    /// The node's signed receipt.
    pub receipt: NodeReceipt,
}

/// The answer to `recover`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RecoverAnswer {
    /// The node's receipts for the step, with what they state; empty if it has not made the step.
    pub receipts: Vec<ShownReceipt>,
}

/// The answer to `policy-receipt`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicyReceiptAnswer {
    /// The node's signed receipt.
    pub receipt: NodeReceipt,
    /// For a signature: the commitments of the first attempt.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub commitments_hex: Option<String>,
}

/// The answer to `execute`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ExecuteAnswer {
    /// Round one: commitments to nonces that are open now.
    Commitments {
        /// The commitments.
        commitments_hex: String,
    },
    /// The attempt's signature share. In round one, if the attempt's nonces have signed already, with the package.
    Share {
        /// The package, in round one.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        package: Option<Package>,
        /// The signature share.
        share_hex: String,
        /// The node's signed receipt.
        receipt: NodeReceipt,
    },
    /// Messages of a ceremony for other nodes.
    Messages {
        /// The signed messages, private ones encrypted to their recipient.
        #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
        messages: Vec<Envelope>,
    },
    /// The node has finished the ceremony.
    Staged {
        /// The public keys of the new generation.
        public_keys_hex: String,
        /// The node's signed receipt.
        receipt: NodeReceipt,
    },
    /// The node has discarded the attempt.
    Discarded {
        /// The node's signed receipt.
        receipt: NodeReceipt,
    },
}

/// Entries of the node's log, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LogEntries {
    /// The entries.
    pub entries: Vec<LogEntry>,
}

/// The process runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// `ok`.
    pub status: Cow<'static, str>,
    /// The version of the program.
    pub version: Cow<'static, str>,
}

/// The request for the keys that a node does not sign with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct MissingSharesRequest {
    /// Pairs: a key's id, and the epoch that it should be in.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Vec<serde_json::Value>>))]
    pub keys: Vec<(KeyId, Epoch)>,
}

/// Those keys, each with what the node holds instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct MissingSharesAnswer {
    /// What the node holds, by key.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub missing: BTreeMap<KeyId, String>,
}

/// What a node knows of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NodeOperationView {
    /// The operation.
    pub operation_id: OperationId,
    /// The node.
    pub participant: ParticipantIndex,
    /// `Submitted` (announced), `Admitted`, `ReceiptMaterialized`, `Executed`, `Committed`, `Published` or `Failed` (discarded).
    pub phase: String,
    /// Hash of the decision that admitted it; zero before.
    pub admission_hash: Hex32,
    /// Head of the node's chain of the operation's steps; zero before.
    pub transition_hash: Hex32,
}

impl NodeOperationView {
    /// An operation that was announced and not admitted.
    #[must_use]
    pub fn announced(operation_id: OperationId, participant: ParticipantIndex) -> Self {
        let (admission_hash, transition_hash) = (Hex32::ZERO, Hex32::ZERO);
        Self { operation_id, participant, phase: "Submitted".to_owned(), admission_hash, transition_hash }
    }

    /// An operation that the node has stored.
    #[must_use]
    pub fn stored(operation_id: OperationId, participant: ParticipantIndex, state: OperationState) -> Self {
        let OperationState { admission_hash, last_step, transition_hash } = state;
        let phase = match last_step {
            EffectStep::Decision => "Submitted",
            EffectStep::Admission => "Admitted",
            EffectStep::PolicyReceipt => "ReceiptMaterialized",
            EffectStep::Execute => "Executed",
            EffectStep::CommitEpoch => "Committed",
            EffectStep::Publish => "Published",
            EffectStep::Discard => "Failed",
        };
        Self { operation_id, participant, phase: phase.to_owned(), admission_hash, transition_hash }
    }
}

impl From<PolicyReceipt> for PolicyReceiptAnswer {
    fn from(PolicyReceipt { receipt, commitments }: PolicyReceipt) -> Self {
        Self { receipt, commitments_hex: commitments.map(hex::encode) }
    }
}

impl TryFrom<PolicyReceiptAnswer> for PolicyReceipt {
    type Error = WireFault;

    fn try_from(answer: PolicyReceiptAnswer) -> Result<Self, WireFault> {
        let commitments = answer.commitments_hex.map(|text| bytes("/commitments_hex", &text)).transpose()?;
        Ok(Self { receipt: answer.receipt, commitments })
    }
}

impl ExecuteAnswer {
    /// A signature share, in round two.
    #[must_use]
    pub fn share(SignedShare { share, receipt }: SignedShare) -> Self {
        Self::Share { package: None, share_hex: hex::encode(share), receipt }
    }

    /// The answer of round one.
    pub fn round_one(answer: RoundOne) -> Result<Self, NodeError> {
        Ok(match answer {
            RoundOne::Committed(commitments) => {
                Self::Commitments { commitments_hex: hex::encode(commitments) }
            }
            RoundOne::Consumed { package, signed: SignedShare { share, receipt } } => {
                Self::Share { package: Some(Package::new(&package)?), share_hex: hex::encode(share), receipt }
            }
        })
    }

    /// The answer of a ceremony.
    #[must_use]
    pub fn ceremony(answer: CeremonyAnswer) -> Self {
        match answer {
            CeremonyAnswer::Send(messages) => Self::Messages { messages },
            CeremonyAnswer::Staged { keys, receipt } => {
                Self::Staged { public_keys_hex: hex::encode(keys.to_bytes()), receipt }
            }
        }
    }

    /// The share of round two.
    pub fn into_share(self) -> Result<SignedShare, WireFault> {
        match self {
            Self::Share { share_hex, receipt, .. } => {
                Ok(SignedShare { share: bytes("/share_hex", &share_hex)?, receipt })
            }
            Self::Commitments { .. }
            | Self::Messages { .. }
            | Self::Staged { .. }
            | Self::Discarded { .. } => Err(other_type("share")),
        }
    }

    /// The answer of round one.
    pub fn into_round_one(self) -> Result<RoundOne, WireFault> {
        match self {
            Self::Commitments { commitments_hex } => {
                Ok(RoundOne::Committed(bytes("/commitments_hex", &commitments_hex)?))
            }
            Self::Share { package: Some(package), share_hex, receipt } => {
                let signed = SignedShare { share: bytes("/share_hex", &share_hex)?, receipt };
                Ok(RoundOne::Consumed { package: package.parse()?, signed })
            }
            Self::Share { package: None, .. }
            | Self::Messages { .. }
            | Self::Staged { .. }
            | Self::Discarded { .. } => Err(other_type("commitments")),
        }
    }

    /// The answer of a ceremony.
    pub fn into_ceremony(self) -> Result<CeremonyAnswer, WireFault> {
        match self {
            Self::Messages { messages } => Ok(CeremonyAnswer::Send(messages)),
            Self::Staged { public_keys_hex, receipt } => {
                let keys = PublicKeys::from_bytes(&bytes("/public_keys_hex", &public_keys_hex)?);
                let keys = keys.map_err(|_| WireFault::new("/public_keys_hex", "must be public keys"))?;
                Ok(CeremonyAnswer::Staged { keys: Box::new(keys), receipt })
            }
            Self::Commitments { .. } | Self::Share { .. } | Self::Discarded { .. } => {
                Err(other_type("messages"))
            }
        }
    }

    /// The receipt for a discarded attempt.
    pub fn into_discarded(self) -> Result<NodeReceipt, WireFault> {
        match self {
            Self::Discarded { receipt } => Ok(receipt),
            Self::Commitments { .. } | Self::Share { .. } | Self::Messages { .. } | Self::Staged { .. } => {
                Err(other_type("discarded"))
            }
        }
    }
}

fn other_type(expected: &str) -> WireFault {
    WireFault::new("/type", format!("must be `{expected}` here"))
}

fn bytes(pointer: &'static str, text: &str) -> Result<Vec<u8>, WireFault> {
    hex::decode(text).map_err(|_| WireFault::new(pointer, "must be hexadecimal"))
}
