//! What an approver signs.
//!
//! ```text
//! message = "svc/approval-statement/v1" || canonical {approved_at_ms, intent_hash, key_id, operation_id, roles, subject_id, tenant}
//! digest  = SHA-256(message)
//! ```
//!
//! An Ed25519 key signs the message, a WebAuthn credential the digest as its challenge. Vectors, made by another program:
//! `host/domain/vectors/approval_statement.json`.

use super::Approval;
use crate::canonical::{self, CanonicalError};
use crate::ids::{Hex32, KeyId, OperationId, Tenant};
use serde::Serialize;

/// The domain tag that a message begins with.
pub const TAG: &str = "svc/approval-statement/v1";

/// What the approvals of one operation are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalSubject<'a> {
    /// Whose operation.
    pub tenant: &'a Tenant,
    /// Which.
    pub operation_id: OperationId,
    /// The key that is to sign or to change: an intent alone need not name it.
    pub key_id: KeyId,
    /// What is to be done.
    pub intent_hash: Hex32,
}

/// One approver's statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Statement<'a> {
    /// The approver's clock, epoch milliseconds.
    pub approved_at_ms: i64,
    /// See [`ApprovalSubject::intent_hash`].
    pub intent_hash: Hex32,
    /// See [`ApprovalSubject::key_id`].
    pub key_id: KeyId,
    /// See [`ApprovalSubject::operation_id`].
    pub operation_id: OperationId,
    /// In the approver's order.
    pub roles: &'a [String],
    /// Who approves.
    pub subject_id: &'a str,
    /// See [`ApprovalSubject::tenant`].
    pub tenant: &'a Tenant,
}

impl<'a> ApprovalSubject<'a> {
    /// What this approval states of it.
    #[must_use]
    pub fn statement(&self, approval: &'a Approval) -> Statement<'a> {
        let Self { tenant, operation_id, key_id, intent_hash } = *self;
        Statement {
            approved_at_ms: approval.claimed_at_ms,
            intent_hash,
            key_id,
            operation_id,
            roles: &approval.roles,
            subject_id: &approval.subject_id,
            tenant,
        }
    }

    /// The message with `{approved_at_ms}`, `{roles}` and `{subject_id}` in the places of what only the approver knows,
    /// the latter two for their JSON texts.
    ///
    /// # Errors
    /// [`CanonicalError`], which texts do not give.
    pub fn template(&self) -> Result<String, CanonicalError> {
        let Self { tenant, operation_id, key_id, intent_hash } = self;
        let tenant = canonical::to_bytes(tenant)?;
        let tenant = String::from_utf8_lossy(&tenant);
        Ok(format!(
            "{TAG}{{\"approved_at_ms\":\"{{approved_at_ms}}\",\"intent_hash\":\"{intent_hash}\",\"key_id\":\"{key_id}\",\
             \"operation_id\":\"{operation_id}\",\"roles\":{{roles}},\"subject_id\":{{subject_id}},\"tenant\":{tenant}}}"
        ))
    }
}

impl Statement<'_> {
    /// The bytes that an Ed25519 key signs.
    ///
    /// # Errors
    /// [`CanonicalError`], which a statement does not give.
    pub fn message(&self) -> Result<Vec<u8>, CanonicalError> {
        let mut message = TAG.as_bytes().to_vec();
        message.extend(canonical::to_bytes(self)?);
        Ok(message)
    }

    /// SHA-256 of the message: a WebAuthn credential's challenge.
    ///
    /// # Errors
    /// [`CanonicalError`], which a statement does not give.
    pub fn digest(&self) -> Result<Hex32, CanonicalError> {
        canonical::digest(TAG, self)
    }
}
