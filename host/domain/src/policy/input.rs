//! What a policy was asked, kept: the canonical input that `input_hash` is over.

use super::{Approval, Moment, Request};
use crate::binding::ClientBinding;
use crate::canonical::{self, CanonicalError};
use crate::ids::{Hex32, KeyRef, Tenant};
use crate::intent::Intent;
use serde::{Deserialize, Serialize};

/// The version of the input's form. Another form is another tag, so that no two of them hash alike.
const TAG: &str = "svc/policy-input/v1";

/// A [`Request`] that outlives what it was made from: the form in which decision records keep it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields of Request")]
pub struct Input {
    pub moment: Moment,
    pub intent_hash: Hex32,
    pub tenant: Tenant,
    pub key_ref: KeyRef,
    pub submitter: ClientBinding,
    pub intent: Intent,
    pub approvals: Vec<Approval>,
}

impl Input {
    /// The request, to be asked again.
    #[must_use]
    pub fn request(&self) -> Request<'_> {
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

impl Request<'_> {
    /// The same, owned.
    #[must_use]
    pub fn to_input(&self) -> Input {
        Input {
            moment: self.moment,
            intent_hash: self.intent_hash,
            tenant: self.tenant.clone(),
            key_ref: self.key_ref.clone(),
            submitter: self.submitter.clone(),
            intent: self.intent.clone(),
            approvals: self.approvals.to_vec(),
        }
    }

    /// The record's `input_hash`.
    ///
    /// # Errors
    /// [`CanonicalError`], which a request does not give: it has no floating-point number in it.
    pub fn digest(&self) -> Result<Hex32, CanonicalError> {
        canonical::digest(TAG, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::samples::{Kind, approval, intent, submission};
    use crate::{intent::PublicationMode, time::EpochMs};

    fn input(kind: Kind) -> Input {
        let submission = submission(intent(kind, PublicationMode::Manual), 2);
        Input {
            moment: Moment::Approval,
            intent_hash: submission.intent_hash,
            tenant: submission.tenant,
            key_ref: submission.key.key_ref,
            submitter: submission.submitter,
            intent: submission.intent,
            approvals: vec![approval("alice", EpochMs(7))],
        }
    }

    /// An input that was stored is asked again with the digest it was recorded under.
    #[test]
    fn the_stored_form_has_the_digest_of_the_request() {
        for kind in Kind::ALL {
            let input = input(kind);
            let stored = serde_json::to_string(&input).unwrap();
            let read: Input = serde_json::from_str(&stored).unwrap();
            assert_eq!(read, input);
            assert_eq!(read.request().digest().unwrap(), canonical::digest(TAG, &input).unwrap());
            assert_eq!(input.request().to_input(), input);
        }
    }

    /// Pins the form: whatever changes this digest must change the tag, and keep the old form readable.
    #[test]
    fn the_form_is_pinned() {
        let digest = input(Kind::Payment).request().digest().unwrap();
        assert_eq!(digest.to_string(), "4f3bafd25252251f3e3d40f4f27f428b5b40a70802ffded7427ed14de14a38fe");
    }
}
