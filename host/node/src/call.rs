//! What a node is asked.

use gateway_domain::approval::Approval;
use gateway_domain::canonical::{self, CanonicalError};
use gateway_domain::dsse::Envelope;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::Intent;
use gateway_domain::operation::{EffectId, SignatureResult};
use serde::{Deserialize, Serialize};
use std::fmt;

/// An operation, whole, with the decision that admits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmitRequest {
    /// Names this call.
    pub effect: EffectId,
    /// What is to be done.
    pub intent: Intent,
    /// The approvals the decision rests on, in its order.
    pub approvals: Vec<Approval>,
    /// The signed decision.
    pub envelope: Envelope,
}

/// What every later call carries (the contract's `CallContext`, as far as a node needs it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Names this call; `effect.attempt` counts attempts at the ceremony.
    pub effect: EffectId,
    /// The decision it acts on.
    pub admission_hash: Hex32,
    /// The transition it follows: see [`crate::Chain`].
    pub previous: Hex32,
}

/// Which staged shares to promote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitEpoch {
    /// The attempt that staged them.
    pub attempt: u32,
    /// The generation's root, as every participant staged it.
    pub epoch_root: Hex32,
}

/// What is published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// The attempt at the ceremony that gave the result.
    pub attempt: u32,
    /// The signature, for an operation that signs.
    pub signature: Option<SignatureResult>,
}

/// The secret objects of an execute body (decisions.md 6), as JSON text.
///
/// They come as far as a ceremony's first step and no further: no FROST profile takes one, so they are dropped there
/// unread. They are borrowed: a node keeps none of them.
#[derive(Clone, Copy, Default)]
pub struct ExecuteSecrets<'a> {
    /// `signing_share_mul`.
    pub signing_share_mul: Option<&'a str>,
    /// `recovery_helper_shares`.
    pub recovery_helper_shares: Option<&'a str>,
}

impl fmt::Debug for ExecuteSecrets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExecuteSecrets(<redacted>)")
    }
}

/// Digest of what a call says, to tell a repeat from another use of its effect id.
pub(crate) fn content<T: Serialize>(said: &T) -> Result<Hex32, CanonicalError> {
    canonical::digest("svc/node-call/v1", said)
}
