//! A request that outlives its caller's borrow.

use gateway_domain::approval::Approval;
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::{Hex32, KeyRef, Tenant};
use gateway_domain::intent::Intent;
use gateway_domain::policy::{Moment, Request};

#[derive(Clone)]
pub(crate) struct OwnedRequest {
    moment: Moment,
    intent_hash: Hex32,
    tenant: Tenant,
    key_ref: KeyRef,
    submitter: ClientBinding,
    intent: Intent,
    approvals: Vec<Approval>,
}

impl OwnedRequest {
    pub(crate) fn of(request: &Request<'_>) -> Self {
        Self {
            moment: request.moment,
            intent_hash: request.intent_hash,
            tenant: request.tenant.clone(),
            key_ref: request.key_ref.clone(),
            submitter: request.submitter.clone(),
            intent: request.intent.clone(),
            approvals: request.approvals.to_vec(),
        }
    }

    pub(crate) fn borrow(&self) -> Request<'_> {
        Request {
            moment: self.moment,
            intent_hash: self.intent_hash,
            tenant: &self.tenant,
            key_ref: &self.key_ref,
            submitter: &self.submitter,
            intent: &self.intent,
            approvals: &self.approvals,
        }
    }
}
