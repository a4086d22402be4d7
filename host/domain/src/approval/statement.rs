//! The statement that an approver signs: that it approves, that it rejects, or that it aborts.
//!
//! ```text
//! message = "svc/approval-statement/v2"  || canonical {approved_at_ms, intent_hash, key_id, operation_id, roles, subject_id, submitter,
//!                                                       tenant}
//!         | "svc/rejection-statement/v1" || canonical {intent_hash, key_id, operation_id, reason, rejected_at_ms, roles, subject_id,
//!                                                       submitter, tenant}
//!         | "svc/abort-statement/v1"     || canonical {aborted_at_ms, intent_hash, key_id, lost_participants, operation_id, reason, roles,
//!                                                       subject_id, submitter, tenant}
//! digest  = SHA-256(message)
//! ```
//!
//! An Ed25519 key signs the message; a WebAuthn credential signs the digest as its challenge. Another program wrote
//! the test vectors in `host/domain/vectors/approval_statement.json`.

use super::{Approval, Rejection};
use crate::canonical::{self, CanonicalError};
use crate::ids::{Hex32, KeyId, OperationId, Tenant};
use crate::roster::ParticipantIndex;
use serde::Serialize;
use std::collections::BTreeSet;

/// The domain tag with which the message of an approval begins.
pub const APPROVAL_TAG: &str = "svc/approval-statement/v2";

/// The domain tag with which the message of a rejection begins.
pub const REJECTION_TAG: &str = "svc/rejection-statement/v1";

/// The domain tag with which the message of an abort begins.
pub const ABORT_TAG: &str = "svc/abort-statement/v1";

/// The part of the statement that is the same for all approvers of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalSubject<'a> {
    /// The tenant that owns the operation.
    pub tenant: &'a Tenant,
    /// The operation.
    pub operation_id: OperationId,
    /// The key that signs, is created or is changed. An intent may not name it.
    pub key_id: KeyId,
    /// Hash of the canonical intent.
    pub intent_hash: Hex32,
    /// The subject id of the client that submitted the operation. The intent does not name it.
    pub submitter: &'a str,
}

/// What an approver says of an operation, with the time by its clock, epoch milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Word<'a> {
    /// That it may go on.
    Approves {
        /// The time.
        approved_at_ms: i64,
    },
    /// That it must not go on.
    Rejects {
        /// The reason, for people.
        reason: &'a str,
        /// The time.
        rejected_at_ms: i64,
    },
    /// That it must not go on although it is admitted, or must do without these receivers.
    Aborts {
        /// The time.
        aborted_at_ms: i64,
        /// The receivers of new shares that are lost.
        lost_participants: &'a BTreeSet<ParticipantIndex>,
        /// The reason, for people.
        reason: &'a str,
    },
}

/// One approver's statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Statement<'a> {
    /// Whether it approves, rejects or aborts.
    #[serde(flatten)]
    pub word: Word<'a>,
    /// See [`ApprovalSubject::intent_hash`].
    pub intent_hash: Hex32,
    /// See [`ApprovalSubject::key_id`].
    pub key_id: KeyId,
    /// See [`ApprovalSubject::operation_id`].
    pub operation_id: OperationId,
    /// The roles, in the approver's order.
    pub roles: &'a [String],
    /// The approver's subject id.
    pub subject_id: &'a str,
    /// See [`ApprovalSubject::submitter`].
    pub submitter: &'a str,
    /// See [`ApprovalSubject::tenant`].
    pub tenant: &'a Tenant,
}

impl<'a> ApprovalSubject<'a> {
    /// The statement of this approval.
    #[must_use]
    pub fn statement(&self, approval: &'a Approval) -> Statement<'a> {
        let word = Word::Approves { approved_at_ms: approval.claimed_at_ms };
        self.says(&approval.subject_id, &approval.roles, word)
    }

    /// The statement of this rejection.
    #[must_use]
    pub fn rejection(&self, rejection: &'a Rejection) -> Statement<'a> {
        let (reason, at_ms) = (rejection.reason.as_str(), rejection.claimed_at_ms);
        let word = match &rejection.lost {
            None => Word::Rejects { reason, rejected_at_ms: at_ms },
            Some(lost) => Word::Aborts { aborted_at_ms: at_ms, lost_participants: lost, reason },
        };
        self.says(&rejection.subject_id, &rejection.roles, word)
    }

    /// The statement of an approver.
    #[must_use]
    pub const fn says(&self, subject_id: &'a str, roles: &'a [String], word: Word<'a>) -> Statement<'a> {
        let Self { tenant, operation_id, key_id, intent_hash, submitter } = *self;
        Statement { word, intent_hash, key_id, operation_id, roles, subject_id, submitter, tenant }
    }

    /// The message of an approval with placeholders for the approver's values: `{approved_at_ms}` for a decimal number, `{roles}` and
    /// `{subject_id}` for canonical JSON.
    pub fn template(&self) -> Result<String, CanonicalError> {
        let Self { tenant, operation_id, key_id, intent_hash, submitter } = self;
        let (tenant, submitter) = (canonical_text(tenant)?, canonical_text(submitter)?);
        Ok(format!(
            "{APPROVAL_TAG}{{\"approved_at_ms\":\"{{approved_at_ms}}\",\"intent_hash\":\"{intent_hash}\",\"key_id\":\"{key_id}\",\
             \"operation_id\":\"{operation_id}\",\"roles\":{{roles}},\"subject_id\":{{subject_id}},\"submitter\":{submitter},\"tenant\":{tenant}}}"
        ))
    }

    /// The message of a rejection, with the placeholders `{reason}`, `{roles}` and `{subject_id}` for canonical JSON and
    /// `{rejected_at_ms}` for a decimal number.
    pub fn rejection_template(&self) -> Result<String, CanonicalError> {
        let Self { tenant, operation_id, key_id, intent_hash, submitter } = self;
        let (tenant, submitter) = (canonical_text(tenant)?, canonical_text(submitter)?);
        Ok(format!(
            "{REJECTION_TAG}{{\"intent_hash\":\"{intent_hash}\",\"key_id\":\"{key_id}\",\"operation_id\":\"{operation_id}\",\"reason\":{{reason}},\
             \"rejected_at_ms\":\"{{rejected_at_ms}}\",\"roles\":{{roles}},\"subject_id\":{{subject_id}},\"submitter\":{submitter},\"tenant\":{tenant}}}"
        ))
    }

    /// The message of an abort, with the placeholders `{lost_participants}` (a list of decimal numbers as texts), `{reason}`, `{roles}` and
    /// `{subject_id}` for canonical JSON and `{aborted_at_ms}` for a decimal number.
    pub fn abort_template(&self) -> Result<String, CanonicalError> {
        let Self { tenant, operation_id, key_id, intent_hash, submitter } = self;
        let (tenant, submitter) = (canonical_text(tenant)?, canonical_text(submitter)?);
        Ok(format!(
            "{ABORT_TAG}{{\"aborted_at_ms\":\"{{aborted_at_ms}}\",\"intent_hash\":\"{intent_hash}\",\"key_id\":\"{key_id}\",\"lost_participants\":{{lost_participants}},\
             \"operation_id\":\"{operation_id}\",\"reason\":{{reason}},\"roles\":{{roles}},\"subject_id\":{{subject_id}},\"submitter\":{submitter},\"tenant\":{tenant}}}"
        ))
    }
}

fn canonical_text<T: Serialize + ?Sized>(value: &T) -> Result<String, CanonicalError> {
    Ok(String::from_utf8_lossy(&canonical::to_bytes(value)?).into_owned())
}

impl Statement<'_> {
    /// The domain tag.
    #[must_use]
    pub const fn tag(&self) -> &'static str {
        match self.word {
            Word::Approves { .. } => APPROVAL_TAG,
            Word::Rejects { .. } => REJECTION_TAG,
            Word::Aborts { .. } => ABORT_TAG,
        }
    }

    /// The time by the approver's clock, epoch milliseconds.
    #[must_use]
    pub const fn claimed_at_ms(&self) -> i64 {
        match self.word {
            Word::Approves { approved_at_ms: at_ms }
            | Word::Rejects { rejected_at_ms: at_ms, .. }
            | Word::Aborts { aborted_at_ms: at_ms, .. } => at_ms,
        }
    }

    /// The bytes that an Ed25519 key signs.
    pub fn message(&self) -> Result<Vec<u8>, CanonicalError> {
        let mut message = self.tag().as_bytes().to_vec();
        message.extend(canonical::to_bytes(self)?);
        Ok(message)
    }

    /// SHA-256 of the message: a WebAuthn credential's challenge.
    pub fn digest(&self) -> Result<Hex32, CanonicalError> {
        canonical::digest(self.tag(), self)
    }
}
