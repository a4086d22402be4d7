//! What was spent lately: read only for a policy that may ask, and decided on by one operation at a time.
//!
//! Two payments that each fit into what a limit leaves may not both. So whoever decides the admission of a payment takes
//! its turn at the account and at the recipient before it reads what was spent, and keeps it until its own decision is
//! durable. A crash in between leaves no decision: the payment is judged again, over what was spent by then.

use crate::engine::Inner;
use crate::error::{Dependency, Unavailable};
use crate::locks::Locks;
use gateway_domain::ids::Tenant;
use gateway_domain::intent::{Intent, Payment};
use gateway_domain::policy;
use gateway_domain::policy::spending::VELOCITY;
use tokio::sync::OwnedMutexGuard;

/// Locks are taken in this order, so that no two payments wait for each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Party {
    /// Who pays.
    Account(Tenant, String),
    /// Who is paid.
    Recipient(Tenant, String),
}

pub(crate) type SpendingLocks = Locks<Party>;

/// Nobody else decides about the account or the recipient until it is dropped.
pub(crate) struct Turn {
    _locks: [OwnedMutexGuard<()>; 2],
}

impl Inner {
    /// The payment, if what was spent is to be read for it.
    pub(crate) fn spending_asked<'a>(&self, intent: &'a Intent) -> Option<&'a Payment> {
        match intent {
            Intent::Payment(payment) if self.ports.policy.asks_for(VELOCITY) => Some(payment),
            Intent::Payment(_)
            | Intent::AssetAction(_)
            | Intent::KeyCreate(_)
            | Intent::Refresh(_)
            | Intent::Reshare(_)
            | Intent::Rotate(_)
            | Intent::Recover(_) => None,
        }
    }

    /// Waits until nobody else decides about the payment's account or recipient. The caller has the operation's lock,
    /// which always comes first.
    pub(crate) async fn spending_turn(
        &self,
        tenant: &Tenant,
        payment: &Payment,
    ) -> Result<Turn, Unavailable> {
        let account = Party::Account(tenant.clone(), payment.from_account.clone());
        let recipient = Party::Recipient(tenant.clone(), payment.to_account.clone());
        let account = self.spending.lock(account).await?;
        Ok(Turn { _locks: [account, self.spending.lock(recipient).await?] })
    }
}

/// A bundle that came into force after it was settled what to read may ask for what was not: its verdict is then on
/// nothing. Only payments have spent anything that could be read.
pub(crate) fn check_read(intent: &Intent, outcome: &policy::Outcome) -> Result<(), Unavailable> {
    let asked = outcome.facts.iter().find(|fact| fact.name.starts_with(VELOCITY));
    match (intent, asked) {
        (Intent::Payment(_), Some(fact)) => {
            let detail = format!("the policy was exchanged and now asks for `{}`; ask again", fact.name);
            Err(Unavailable::new(Dependency::Policy, detail))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::ids::Hex32;
    use gateway_domain::intent::{PublicationMode, Refresh, SigningTerms};
    use gateway_domain::policy::{Decision, FactRead, Outcome, Quorum};
    use gateway_domain::roster::Roster;

    fn payment() -> Intent {
        Intent::Payment(Payment {
            key_ref: None,
            from_account: "a".into(),
            to_account: "b".into(),
            amount_minor: 1,
            currency: "EUR".into(),
            reference: None,
            bip32: None,
            terms: SigningTerms {
                requested_participants: Roster::parse(&[0, 1]).unwrap(),
                threshold: None,
                epoch_fence_token_hex: None,
                publication_mode: PublicationMode::Manual,
            },
        })
    }

    fn refresh() -> Intent {
        Intent::Refresh(Refresh {
            change: gateway_domain::intent::Lifecycle {
                target_epoch: gateway_domain::ids::EpochName("2".into()),
                reason: "drill".into(),
                publication_mode: PublicationMode::Manual,
                metadata: Default::default(),
            },
        })
    }

    fn having_asked(names: &[&str]) -> Outcome {
        Outcome {
            decision: Decision::Allow,
            bundle_id: String::new(),
            bundle_hash: Hex32::ZERO,
            reasons: vec![],
            obligations: vec![],
            facts: names.iter().map(|name| FactRead { name: (*name).into(), value: None }).collect(),
            quorum: Quorum::default(),
            input_hash: Hex32::ZERO,
            output_hash: Hex32::ZERO,
            fuel_used: 1,
            fault: None,
        }
    }

    #[test]
    fn a_verdict_on_a_payment_that_asked_for_what_was_not_read_is_none() {
        let velocity = ["time.now_ms", "velocity.account.day_minor"];
        let refused = check_read(&payment(), &having_asked(&velocity)).unwrap_err();
        assert!(refused.detail.contains("`velocity.account.day_minor`"), "{}", refused.detail);
        assert!(check_read(&payment(), &having_asked(&["time.now_ms"])).is_ok());
        assert!(check_read(&refresh(), &having_asked(&velocity)).is_ok(), "nothing else spends");
    }
}
