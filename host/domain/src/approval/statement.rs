//! The statement that an approver signs.
//!
//! ```text
//! message = "svc/approval-statement/v2" || canonical {approved_at_ms, intent_hash, key_id, operation_id, roles, subject_id, submitter,
//!                                                      tenant}
//! digest  = SHA-256(message)
//! ```
//!
//! An Ed25519 key signs the message; a WebAuthn credential signs the digest as its challenge. Another program wrote
//! the test vectors in `host/domain/vectors/approval_statement.json`.

use super::Approval;
use crate::canonical::{self, CanonicalError};
use crate::ids::{Hex32, KeyId, OperationId, Tenant};
use serde::Serialize;

/// The domain tag that a message begins with.
pub const TAG: &str = "svc/approval-statement/v2";

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

/// One approver's statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Statement<'a> {
    /// The time by the approver's clock, epoch milliseconds.
    pub approved_at_ms: i64,
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
        let Self { tenant, operation_id, key_id, intent_hash, submitter } = *self;
        Statement {
            approved_at_ms: approval.claimed_at_ms,
            intent_hash,
            key_id,
            operation_id,
            roles: &approval.roles,
            subject_id: &approval.subject_id,
            submitter,
            tenant,
        }
    }

    /// The message with placeholders for the approver's values: `{approved_at_ms}` for a decimal number, `{roles}` and
    /// `{subject_id}` for canonical JSON.
    ///
    /// # Errors
    /// [`CanonicalError`], which texts never cause.
    pub fn template(&self) -> Result<String, CanonicalError> {
        let Self { tenant, operation_id, key_id, intent_hash, submitter } = self;
        let (tenant, submitter) = (canonical::to_bytes(tenant)?, canonical::to_bytes(submitter)?);
        let (tenant, submitter) = (String::from_utf8_lossy(&tenant), String::from_utf8_lossy(&submitter));
        Ok(format!(
            "{TAG}{{\"approved_at_ms\":\"{{approved_at_ms}}\",\"intent_hash\":\"{intent_hash}\",\"key_id\":\"{key_id}\",\
             \"operation_id\":\"{operation_id}\",\"roles\":{{roles}},\"subject_id\":{{subject_id}},\"submitter\":{submitter},\"tenant\":{tenant}}}"
        ))
    }
}

impl Statement<'_> {
    /// The bytes that an Ed25519 key signs.
    ///
    /// # Errors
    /// [`CanonicalError`], which a statement never causes.
    pub fn message(&self) -> Result<Vec<u8>, CanonicalError> {
        let mut message = TAG.as_bytes().to_vec();
        message.extend(canonical::to_bytes(self)?);
        Ok(message)
    }

    /// SHA-256 of the message: a WebAuthn credential's challenge.
    ///
    /// # Errors
    /// [`CanonicalError`], which a statement never causes.
    pub fn digest(&self) -> Result<Hex32, CanonicalError> {
        canonical::digest(TAG, self)
    }
}
