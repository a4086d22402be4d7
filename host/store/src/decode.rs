//! Decodes rows into values. The error for a row that cannot be read says what the row holds.

use crate::decisions::{DecisionPosition, RecordedDecision};
use crate::encode::{self, FORMAT};
use crate::error::{failed, unavailable};
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::{Hex32, KeyId, OperationId};
use gateway_domain::redaction::Salt;
use gateway_domain::roster::Roster;
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::{Activation, ActivationKind, KeyQuorum};
use std::fmt::Display;

/// An event's row: format, hash, salt, body.
pub(crate) type StoredEvent = (i64, Vec<u8>, Vec<u8>, String);

pub(crate) fn event(id: OperationId, row: StoredEvent) -> Result<ChainedEvent, Unavailable> {
    let (format, hash, salt, body) = row;
    let what = format!("an event of operation `{id}`");
    let event = parsed(&what, format, || serde_json::from_str(&body))?;
    let salt =
        salt.try_into().map_err(|_| unavailable(format_args!("{what} has a salt that is not 32 bytes")))?;
    Ok(ChainedEvent { event, salt: Salt::new(salt), hash: hex32(&what, &hash)? })
}

/// Parses `<threshold> <participants as JSON>`.
pub(crate) fn key_quorum(text: &str) -> Result<KeyQuorum, Unavailable> {
    let unusable = || unavailable(format_args!("a key is stored with the unusable quorum `{text}`"));
    let (threshold, participants) = text.split_once(' ').ok_or_else(unusable)?;
    let participants: Vec<u16> = serde_json::from_str(participants).map_err(|_| unusable())?;
    let participants = Roster::parse(&participants).map_err(|_| unusable())?;
    let threshold = threshold.parse().ok().and_then(|threshold| participants.threshold(threshold).ok());
    Ok(KeyQuorum { threshold: threshold.ok_or_else(unusable)?, participants })
}

/// A decision's row: index, instant, operation, format, hash, input, outcome.
pub(crate) type StoredDecision = (i64, i64, Option<Vec<u8>>, i64, Vec<u8>, String, String);

pub(crate) fn decision(
    position: fn(u64) -> DecisionPosition,
    row: StoredDecision,
) -> Result<RecordedDecision, Unavailable> {
    let (index, at_ms, id, format, row_hash, input, outcome) = row;
    let position = position(index.unsigned_abs());
    let what = match position {
        DecisionPosition::Event { .. } | DecisionPosition::Refusal(_) => format!("policy decision {index}"),
        DecisionPosition::Preview(_) => format!("policy preview {index}"),
    };
    let operation_id = id.as_deref().map(operation_id).transpose()?;
    let expected = encode::row_hash(index, encode::contents(at_ms, operation_id, &input, &outcome));
    Ok(RecordedDecision {
        position,
        operation_id,
        at_ms: EpochMs(at_ms.unsigned_abs()),
        is_intact: hex32(&what, &row_hash)? == expected,
        input: parsed(&what, format, || serde_json::from_str(&input))?,
        outcome: parsed(&what, format, || serde_json::from_str(&outcome))?,
    })
}

/// An activation's row: instant, sequence, bundle, kind, signers, reason.
pub(crate) type StoredActivation = (i64, i64, Vec<u8>, String, String, String);

pub(crate) fn activation(
    (at_ms, sequence, bundle_hash, kind, signers, reason): StoredActivation,
) -> Result<Activation, Unavailable> {
    let kinds = [ActivationKind::Activate, ActivationKind::Rollback];
    let kind = kinds.into_iter().find(|known| known.as_str() == kind);
    let unreadable = |error| failed("an activation's signers cannot be read", &error);
    Ok(Activation {
        at_ms: EpochMs(at_ms.unsigned_abs()),
        sequence: sequence.unsigned_abs(),
        bundle_hash: hex32("an activation", &bundle_hash)?,
        kind: kind.ok_or_else(|| unavailable("an activation is of an unknown kind"))?,
        signers: serde_json::from_str(&signers).map_err(unreadable)?,
        reason,
    })
}

pub(crate) fn operation_id(bytes: &[u8]) -> Result<OperationId, Unavailable> {
    hex32("an operation's id", bytes).map(OperationId)
}

pub(crate) fn key_id(bytes: &[u8]) -> Result<KeyId, Unavailable> {
    hex32("a key's id", bytes).map(KeyId)
}

fn parsed<T>(
    what: &str,
    format: i64,
    parse: impl FnOnce() -> Result<T, serde_json::Error>,
) -> Result<T, Unavailable> {
    if format != FORMAT {
        return Err(unavailable(format_args!(
            "{what} is stored in format {format}, which this release does not know"
        )));
    }
    parse().map_err(|error| failed(format_args!("{what} is stored in a form that cannot be read"), &error))
}

pub(crate) fn hex32(what: impl Display, bytes: &[u8]) -> Result<Hex32, Unavailable> {
    let bytes = bytes.try_into();
    bytes.map(Hex32::new).map_err(|_| unavailable(format_args!("{what} has a hash that is not 32 bytes")))
}
