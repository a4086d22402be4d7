//! Operations that the honest nodes admit.

use gateway_domain::canonical::CanonicalError;
use gateway_domain::contribution::RecoveryCase;
use gateway_domain::intent::{FixedContributions, Intent};
use gateway_domain::operation::EffectStep;
use gateway_domain::roster::Roster;
use gateway_node::samples::{self, Admitted};
use gateway_node::{Call, admitted_contributions};
use gateway_service::process::Fault;
use gateway_threshold::repair;
use std::ops::Deref;

/// The threshold of every key.
pub(crate) const THRESHOLD: u16 = 2;

/// The number of participants.
pub(crate) const PARTICIPANTS: u16 = 3;

/// The epoch that changes of the key lead to.
pub(crate) const NEXT_EPOCH: &str = "2";

/// The participants `0..PARTICIPANTS`.
pub(crate) fn everyone() -> Result<Roster, Fault> {
    Ok(Roster::parse(&(0..PARTICIPANTS).collect::<Vec<_>>())?)
}

/// A change of the key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Refresh,
    /// To the same participants, with a threshold of all of them.
    Reshare,
    /// The attacker and participant 0 help participant 1.
    Recover,
}

impl Change {
    /// The threshold of the new shares.
    pub(crate) fn threshold(self) -> u16 {
        match self {
            Self::Refresh | Self::Recover => THRESHOLD,
            Self::Reshare => PARTICIPANTS,
        }
    }

    /// `contributions` are those of the helpers of a recovery.
    pub(crate) fn intent(self, contributions: &FixedContributions) -> Result<Intent, Fault> {
        Ok(match self {
            Self::Refresh => samples::refresh(NEXT_EPOCH),
            Self::Reshare => samples::reshare(NEXT_EPOCH, everyone()?, self.threshold()),
            Self::Recover => samples::recover(NEXT_EPOCH, 1, Roster::parse(&[0, 2])?, contributions),
        })
    }
}

/// An operation with its signed decision.
#[derive(Debug)]
pub(crate) struct Operation(pub(crate) Admitted);

impl Deref for Operation {
    type Target = Admitted;

    fn deref(&self) -> &Admitted {
        &self.0
    }
}

impl Operation {
    /// The case of a recovery.
    pub(crate) fn recovery_case(&self) -> Option<RecoveryCase> {
        let Intent::Recover(recover) = &self.request.intent else { return None };
        Some(RecoveryCase::new(self.decision.key_id, self.decision.epoch_root, recover))
    }

    /// The contributions to the recovery that are admitted.
    pub(crate) fn admitted_contributions(&self) -> repair::Admitted {
        match &self.request.intent {
            Intent::Recover(recover) => admitted_contributions(recover),
            Intent::KeyCreate(_)
            | Intent::Refresh(_)
            | Intent::Reshare(_)
            | Intent::Rotate(_)
            | Intent::Payment(_)
            | Intent::AssetAction(_) => repair::Admitted::default(),
        }
    }

    /// A call to a participant; `attempt` is that of the ceremony.
    pub(crate) fn call(
        &self,
        participant: u16,
        step: EffectStep,
        attempt: u32,
    ) -> Result<Call, CanonicalError> {
        let of_effect = if step == EffectStep::Execute { attempt } else { 1 };
        self.0.call(participant, step, of_effect, attempt)
    }
}
