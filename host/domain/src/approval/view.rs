//! What a view of an operation states to approvers, compared with what they sign.
//!
//! A gateway that is compromised can show anything. A signer shows the intent whose hash it signs, and signs nothing if the view states
//! another hash, another key or another operation.

use super::ApprovalSubject;
use crate::canonical::CanonicalError;
use crate::ids::{Hex32, KeyId, KeyRef, OperationId, Tenant};
use crate::intent::{Intent, key_id};
use serde::Deserialize;
use serde_json::Value;

/// The members of an operation's view on which an approval depends.
#[derive(Clone, Debug, Deserialize)]
pub struct AwaitingView {
    operation_id: OperationId,
    intent: Value,
    approval_statement: Stated,
}

#[derive(Clone, Debug, Deserialize)]
struct Stated {
    tenant: Tenant,
    operation_id: OperationId,
    key_id: KeyId,
    intent_hash: Hex32,
    submitter: String,
}

/// Why nothing can be signed for a view.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum ViewError {
    #[error("is not an operation that awaits approvals")]
    AwaitsNone,
    #[error("is not the view of an operation: {0}")]
    NotAView(#[from] serde_json::Error),
    #[error("`approval_statement` is for another operation")]
    OtherOperation,
    #[error("the stated key id is not that of key `{key_ref}` of tenant `{tenant}`", key_ref = .0.0, tenant = .1.0)]
    OtherKey(KeyRef, Tenant),
    #[error("the intent does not have the stated hash")]
    OtherIntent,
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
}

/// What is signed, and what it means.
#[derive(Clone, Debug)]
pub struct Approvable<'a> {
    /// The operation, as statements name it.
    pub subject: ApprovalSubject<'a>,
    /// The intent that has the signed hash.
    pub intent: Intent,
    /// The name of the key that has the signed id.
    pub key_ref: KeyRef,
}

impl AwaitingView {
    /// Reads a view, or the answer to a submission, which has the view in a member.
    ///
    /// # Errors
    /// [`ViewError`]: `AwaitsNone`, `NotAView`.
    pub fn read(mut value: Value) -> Result<Self, ViewError> {
        if let Some(operation) = value.get_mut("operation").filter(|operation| operation.is_object()) {
            value = operation.take();
        }
        if value.get("approval_statement").is_none() {
            return Err(ViewError::AwaitsNone);
        }
        Ok(serde_json::from_value(value)?)
    }

    /// What the view asks approvers to sign. All of it is computed from the intent and the name of the key.
    ///
    /// # Errors
    /// [`ViewError`] when the view states otherwise.
    pub fn check(&self) -> Result<Approvable<'_>, ViewError> {
        let Stated { tenant, operation_id, key_id: stated_key_id, intent_hash, submitter } =
            &self.approval_statement;
        if *operation_id != self.operation_id {
            return Err(ViewError::OtherOperation);
        }
        let key_ref: KeyRef =
            serde_json::from_value(self.intent.get("key_ref").cloned().unwrap_or_default())?;
        if key_id(tenant, &key_ref)? != *stated_key_id {
            return Err(ViewError::OtherKey(key_ref, tenant.clone()));
        }
        let intent = self.intent_of(*intent_hash)?.ok_or(ViewError::OtherIntent)?;
        let subject = ApprovalSubject {
            tenant,
            operation_id: *operation_id,
            key_id: *stated_key_id,
            intent_hash: *intent_hash,
            submitter,
        };
        Ok(Approvable { subject, intent, key_ref })
    }

    /// The view's intent, if it has this hash. The view names the key even if the payment did not, so both forms are tried.
    fn intent_of(&self, intent_hash: Hex32) -> Result<Option<Intent>, ViewError> {
        let mut without_key = self.intent.clone();
        if let Some(members) = without_key.as_object_mut() {
            members.remove("key_ref");
        }
        for candidate in [&self.intent, &without_key] {
            let intent: Intent = serde_json::from_value(candidate.clone())?;
            if intent.hash()? == intent_hash {
                return Ok(Some(intent));
            }
        }
        Ok(None)
    }
}
