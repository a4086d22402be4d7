//! Decodes rows into values. The error for a row that cannot be read says what the row holds.

use crate::error::{failed, unavailable};
use crate::record::encode::FORMAT;
use crate::sql::row::{Hashes, Row};
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::{Hex32, KeyId, OperationId};
use gateway_domain::redaction::Salt;
use gateway_domain::roster::Roster;
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::{Activation, ActivationKind, Asked, KeyQuorum};
use serde::de::DeserializeOwned;
use std::fmt::Display;

/// The event in a row with the columns `format`, `event_hash`, `salt` and `body`.
pub(crate) fn event(id: OperationId, row: &Row) -> Result<ChainedEvent, Unavailable> {
    let what = format!("an event of operation `{id}`");
    let event = parsed(&what, row, "body")?;
    let salt = bytes(&what, row, "salt")?;
    let salt =
        salt.try_into().map_err(|_| unavailable(format_args!("{what} has a salt that is not 32 bytes")))?;
    Ok(ChainedEvent { event, salt: Salt::new(salt), hash: hash(&what, row, "event_hash")? })
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

pub(crate) fn activation(row: &Row) -> Result<Activation, Unavailable> {
    let what = "an activation";
    let kinds = [ActivationKind::Activate, ActivationKind::Rollback];
    let kind = text(what, row, "kind")?;
    let kind = kinds.into_iter().find(|known| known.as_str() == kind);
    let unreadable = |error| failed("an activation's signers cannot be read", &error);
    Ok(Activation {
        at_ms: EpochMs(integer(what, row, "at_ms")?.unsigned_abs()),
        sequence: integer(what, row, "sequence")?.unsigned_abs(),
        bundle_hash: hash(what, row, "bundle_hash")?,
        kind: kind.ok_or_else(|| unavailable("an activation is of an unknown kind"))?,
        signers: serde_json::from_str(text(what, row, "signers")?).map_err(unreadable)?,
        reason: text(what, row, "reason")?.to_owned(),
    })
}

pub(crate) fn operation_id(row: &Row) -> Result<OperationId, Unavailable> {
    hash("an operation's id", row, "operation_id").map(OperationId)
}

pub(crate) fn key_id(row: &Row) -> Result<KeyId, Unavailable> {
    hash("a key's id", row, "key_id").map(KeyId)
}

pub(crate) fn integer(what: impl Display, row: &Row, column: &str) -> Result<i64, Unavailable> {
    row.integer(column).ok_or_else(|| unavailable(format_args!("{what} has no number in `{column}`")))
}

pub(crate) fn text<'a>(what: impl Display, row: &'a Row, column: &str) -> Result<&'a str, Unavailable> {
    row.text(column).ok_or_else(|| unavailable(format_args!("{what} has no text in `{column}`")))
}

pub(crate) fn bytes<'a>(what: impl Display, row: &'a Row, column: &str) -> Result<&'a [u8], Unavailable> {
    row.bytes(column).ok_or_else(|| unavailable(format_args!("{what} has no bytes in `{column}`")))
}

pub(crate) fn hash(what: impl Display, row: &Row, column: &str) -> Result<Hex32, Unavailable> {
    row.hash(column).ok_or_else(|| unavailable(format_args!("{what} has a hash that is not 32 bytes")))
}

/// The JSON in `body`, of any format; `None` if it cannot be read.
pub(crate) fn body<T: DeserializeOwned>(row: &Row) -> Option<T> {
    row.text("body").and_then(|body| serde_json::from_str(body).ok())
}

pub(crate) fn parsed<T: DeserializeOwned>(what: &str, row: &Row, column: &str) -> Result<T, Unavailable> {
    let format = integer(what, row, "format")?;
    if format != FORMAT {
        return Err(unavailable(format_args!(
            "{what} is stored in format {format}, which this release does not know"
        )));
    }
    let parsed = serde_json::from_str(text(what, row, column)?);
    parsed.map_err(|error| failed(format_args!("{what} is stored in a form that cannot be read"), &error))
}

/// What names the request that caused an evaluation.
pub(crate) fn asked(row: &Row) -> Asked {
    let given = |column| row.text(column).filter(|text| !text.is_empty()).map(str::to_owned);
    Asked { request_id: given("request_id"), idempotency_key: given("idempotency_key") }
}
