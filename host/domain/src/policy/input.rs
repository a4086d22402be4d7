//! The canonical policy input, whose digest is `input_hash`.

use super::{Approval, Moment, Request};
use crate::binding::ClientBinding;
use crate::canonical::{self, CanonicalError};
use crate::ids::{Hex32, KeyRef, Tenant};
use crate::intent::Intent;
use serde::{Deserialize, Serialize};

/// The domain tag of the input's form. Another form needs another tag, so that two forms never hash alike.
const TAG: &str = "svc/policy-input/v1";

/// An owned [`Request`], as decision records store it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of Request")]
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
    /// The request, for another evaluation.
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
    /// An owned copy.
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

    /// The `input_hash` of the request.
    ///
    /// # Errors
    /// [`CanonicalError`], which a request never causes: it has no floating-point number.
    pub fn digest(&self) -> Result<Hex32, CanonicalError> {
        canonical::digest(TAG, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::samples::{Kind, approval, intent, submission};
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

    /// A stored input can be evaluated again under its recorded digest.
    #[test]
    fn stored_input_has_the_digest_of_its_request() {
        for kind in Kind::ALL {
            let input = input(kind);
            let stored = serde_json::to_string(&input).unwrap();
            let read: Input = serde_json::from_str(&stored).unwrap();
            assert_eq!(read, input);
            assert_eq!(read.request().digest().unwrap(), canonical::digest(TAG, &input).unwrap());
            assert_eq!(input.request().to_input(), input);
        }
    }

    /// A change of this digest needs another tag, and the old form must stay readable.
    #[test]
    fn input_form_is_pinned() {
        let digest = input(Kind::Payment).request().digest().unwrap();
        assert_eq!(digest.to_string(), "4f3bafd25252251f3e3d40f4f27f428b5b40a70802ffded7427ed14de14a38fe");
    }
}
