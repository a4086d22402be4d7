//! What the events of all operations say of keys and payments at an earlier time, for facts that a decision did not record.

use gateway_domain::ids::{KeyId, OperationId, Tenant};
use gateway_domain::intent::{self, Intent, OperationType};
use gateway_domain::key::CustodyKey;
use gateway_domain::key::transitions::{self, Keys};
use gateway_domain::operation::{Change, Event, Operation, replay};
use gateway_domain::policy::facts::{CLAIM, PENDING_COUNT, Rules, facts_for};
use gateway_domain::policy::paid::PROOFS_MAX;
use gateway_domain::policy::spending::{Parties, Party, Sum, WINDOWS, minute};
use gateway_domain::policy::{Facts, Input, Moment, Paid, SpendingTotals, document};
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_store::{DecisionPosition, Decisions, PastEvent, RecordedDecision};
use std::collections::BTreeMap;

/// The history of a store.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Every state of each key, oldest first.
    keys: BTreeMap<KeyId, Vec<(Place, CustodyKey)>>,
    /// The admitted payments, oldest first.
    payments: Vec<Admitted>,
    /// Their indices, by tenant, currency, party and the party's name.
    spent: BTreeMap<(Tenant, String, Party, String), Vec<usize>>,
    /// The published payments of a key to a recipient: the place of the publication, and the time from which the decision was valid.
    paid: BTreeMap<(KeyId, String), Vec<(Place, EpochMs)>>,
    /// Operations that may still change any of these, as they were submitted, with the last decision on them.
    open: BTreeMap<OperationId, (Operation, Option<Decided>)>,
}

/// The place of an event.
#[derive(Clone, Copy, Debug)]
struct Place {
    ledger_index: u64,
    at: EpochMs,
}

/// A payment that counts from its decision until it fails.
#[derive(Debug)]
struct Admitted {
    decided: Place,
    failed: Option<Place>,
    amount_minor: i64,
}

/// The decision that admitted an operation.
#[derive(Clone, Copy, Debug)]
struct Decided {
    /// Its index among the payments.
    payment: usize,
    not_before: EpochMs,
}

/// When a decision was made: before its event, or at the time of its record if it is in no event.
#[derive(Clone, Copy, Debug)]
enum When {
    Before(u64),
    At(EpochMs),
}

impl When {
    const fn of(decision: &RecordedDecision) -> Self {
        match decision.position {
            DecisionPosition::Event { ledger_index, .. } => Self::Before(ledger_index),
            DecisionPosition::Refusal(_) | DecisionPosition::Preview(_) => Self::At(decision.at_ms),
        }
    }

    const fn is_after(self, place: Place) -> bool {
        match self {
            Self::Before(ledger_index) => place.ledger_index < ledger_index,
            Self::At(at) => place.at.0 <= at.0,
        }
    }
}

/// What is known of a fact that a decision did not record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its value follows from the events.
    Computed,
    /// It is a setting, and may have had another value than today.
    Uncertain,
    /// Its value is not known.
    Unknown,
}

impl History {
    /// Reads all events.
    pub(super) async fn read(decisions: &Decisions) -> Result<Self, Unavailable> {
        let (mut history, mut next) = (Self::default(), 0);
        loop {
            let page = decisions.events(next).await?;
            let Some(last) = page.last() else { return Ok(history) };
            next = last.ledger_index.saturating_add(1);
            page.iter().for_each(|past| history.add(past));
        }
    }

    /// Adds the next event of the log.
    fn add(&mut self, PastEvent { ledger_index, operation_id, event }: &PastEvent) {
        let place = Place { ledger_index: *ledger_index, at: event.at_ms };
        if matches!(event.change, Change::Submitted(_))
            && let Some(operation) = replay([event])
        {
            self.open.insert(*operation_id, (operation, None));
        }
        // Of an operation whose beginning is missing, nothing can be said.
        let Some((operation, decided)) = self.open.remove(operation_id) else { return };
        let (decided, is_open) = match operation.intent.operation_type() {
            OperationType::Sign => self.add_signature(place, &operation, decided, event),
            OperationType::KeyCreate
            | OperationType::Refresh
            | OperationType::Reshare
            | OperationType::Rotate
            | OperationType::Recover => {
                self.add_key_change(place, &operation, event);
                (None, !matches!(event.change, Change::Executed { .. } | Change::Failed { .. }))
            }
        };
        if is_open {
            self.open.insert(*operation_id, (operation, decided));
        }
    }

    fn add_key_change(&mut self, place: Place, operation: &Operation, event: &Event) {
        let latest =
            |id: KeyId| self.keys.get(&id).and_then(|states| states.last()).map(|(_, key)| key.clone());
        let subject = latest(operation.key.key_id);
        let before =
            Keys { subject, successor: operation.successor.as_ref().and_then(|slot| latest(slot.key_id)) };
        let after = transitions::after(before.clone(), operation, event);
        for (before, after) in [(before.subject, after.subject), (before.successor, after.successor)] {
            if let Some(key) = after.filter(|after| before.as_ref() != Some(after)) {
                self.keys.entry(key.key_id).or_default().push((place, key));
            }
        }
    }

    /// Adds an event of a signature. Returns the decision on it, and whether more events may matter.
    fn add_signature(
        &mut self,
        place: Place,
        operation: &Operation,
        decided: Option<Decided>,
        event: &Event,
    ) -> (Option<Decided>, bool) {
        let Intent::Payment(payment) = &operation.intent else { return (None, false) };
        match (&event.change, decided) {
            (Change::DecisionSigned { admission, .. }, _) => {
                let index = self.payments.len();
                let (amount_minor, key) = (payment.amount_minor, operation.key.key_id);
                self.payments.push(Admitted { decided: place, failed: None, amount_minor });
                let parties = Parties::of(&operation.tenant, &operation.submitter, key, payment);
                for (party, name) in parties.iter() {
                    let spent = (parties.tenant.clone(), parties.currency.clone(), party, name.to_owned());
                    self.spent.entry(spent).or_default().push(index);
                }
                (Some(Decided { payment: index, not_before: admission.decision.not_before_ms }), true)
            }
            (Change::Failed { .. }, decided) => {
                if let Some(payment) = decided.and_then(|decided| self.payments.get_mut(decided.payment)) {
                    payment.failed = Some(place);
                }
                (None, false)
            }
            (Change::Published { .. }, Some(decided)) => {
                let recipient = (operation.key.key_id, payment.to_account.clone());
                self.paid.entry(recipient).or_default().push((place, decided.not_before));
                (None, false)
            }
            (_, decided) => (decided, true),
        }
    }

    /// The facts that the deployment offered to this decision, with today's rules; `read` says which parties a policy reads. A fact that was recorded is as it was recorded.
    pub(super) fn facts(
        &self,
        decision: &RecordedDecision,
        rules: &Rules,
        read: impl Fn(Parties) -> Option<Parties>,
    ) -> Facts {
        let (input, when, now) = (&decision.input, When::of(decision), now(decision));
        let key_id = intent::key_id(&input.tenant, &input.key_ref).ok();
        let states = key_id.and_then(|id| self.keys.get(&id)).into_iter().flatten();
        let key = states.take_while(|(place, _)| when.is_after(*place)).last().map(|(_, key)| key);
        let payment = match &input.intent {
            Intent::Payment(payment) => Some(payment).zip(key_id),
            Intent::AssetAction(_)
            | Intent::KeyCreate(_)
            | Intent::Refresh(_)
            | Intent::Reshare(_)
            | Intent::Rotate(_)
            | Intent::Recover(_) => None,
        };
        let totals = payment.and_then(|(payment, key_id)| {
            let parties = Parties::of(&input.tenant, &input.submitter, key_id, payment);
            Some(self.totals(&read(parties)?, when, now))
        });
        let facts = facts_for(rules, key, input.intent.signing_terms(), totals.as_ref(), now);
        let paid = payment.and_then(|(payment, key_id)| self.paid(key_id, &payment.to_account, when));
        let facts = paid.into_iter().fold(facts, Facts::with_paid);
        let recorded = decision.outcome.facts.iter();
        let facts = facts.assuming(recorded.map(|fact| (fact.name.clone(), fact.value.clone())).collect());
        let documents = document::parse_all(&decision.outcome.documents).unwrap_or_default();
        facts.with_documents(&documents, EpochMs(0))
    }

    /// What the parties paid until then, as `gateway_spending` sums it.
    fn totals(&self, parties: &Parties, when: When, now: EpochMs) -> SpendingTotals {
        let mut totals = SpendingTotals::default();
        let of_each = |currency| parties.iter().map(move |(party, name)| (currency, party, name));
        for (currency, party, name) in parties.currencies().flat_map(of_each) {
            let spent =
                self.spent.get(&(parties.tenant.clone(), currency.to_owned(), party, name.to_owned()));
            let indices = spent.into_iter().flatten();
            let payments: Vec<_> = indices
                .filter_map(|index| self.payments.get(*index))
                .filter(|payment| when.is_after(payment.decided))
                .filter(|payment| !payment.failed.is_some_and(|failed| when.is_after(failed)))
                .collect();
            totals.insert_of(
                party,
                parties,
                currency,
                WINDOWS.map(|(_, window_ms)| {
                    let counted =
                        payments.iter().filter(|one| minute(one.decided.at) >= first_minute(now, window_ms));
                    counted.fold(Sum::default(), |sum, one| plus(sum, Sum::of(one.amount_minor)))
                }),
            );
        }
        totals
    }

    /// What proofs of earlier payments to the recipient would have stated then.
    fn paid(&self, key_id: KeyId, recipient: &str, when: When) -> Option<Paid> {
        let published = self.paid.get(&(key_id, recipient.to_owned()))?.iter();
        let earlier = published.filter(|(place, _)| when.is_after(*place)).map(|(_, not_before)| *not_before);
        let earlier: Vec<_> = earlier.collect();
        Some(Paid { first_ms: *earlier.iter().min()?, count: earlier.len().min(PROOFS_MAX) })
    }
}

/// What is known of a fact that the decision did not record.
pub(super) fn standing(name: &str, decision: &RecordedDecision) -> Standing {
    let Input { moment, intent, .. } = &decision.input;
    if name.starts_with("deployment.") {
        return Standing::Uncertain;
    }
    // Development evaluates a creation without approvals as if there were no key yet.
    let may_lack_key = matches!(intent, Intent::KeyCreate(_)) && *moment == Moment::Approval;
    let is_known = if name.starts_with("key.") {
        !may_lack_key
    } else if name == PENDING_COUNT || name.starts_with(CLAIM) {
        !matches!(moment, Moment::Submit | Moment::Preview)
    } else {
        !name.starts_with(document::PREFIX)
    };
    if is_known { Standing::Computed } else { Standing::Unknown }
}

/// The time of the evaluation: the recorded fact, or else that of the record, which is some milliseconds later.
fn now(decision: &RecordedDecision) -> EpochMs {
    let recorded = decision.outcome.facts.iter().find(|fact| fact.name == "time.now_ms");
    let recorded = recorded.and_then(|fact| fact.value.as_deref()?.parse().ok());
    recorded.map_or(decision.at_ms, EpochMs)
}

/// The first minute of a window.
const fn first_minute(now: EpochMs, window_ms: u64) -> u64 {
    minute(EpochMs(now.0.saturating_sub(window_ms)))
}

const fn plus(one: Sum, other: Sum) -> Sum {
    Sum {
        high: one.high.saturating_add(other.high),
        low: one.low.saturating_add(other.low),
        n: one.n.saturating_add(other.n),
    }
}

#[cfg(test)]
mod tests;
