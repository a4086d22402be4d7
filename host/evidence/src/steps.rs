//! An operation's events with what each found, and the steps among them that nodes signed for.

use gateway_domain::operation::{Event, Operation, evolve, replay};
use gateway_domain::receipt::{Deed, NodeReceipt, attested};

/// A step with its receipts.
pub(crate) struct Step<'e> {
    /// Of the event that carries them, from 0.
    pub(crate) index: usize,
    /// The operation before it.
    pub(crate) before: Operation,
    /// What each of these nodes did.
    pub(crate) deed: Deed,
    pub(crate) receipts: &'e [NodeReceipt],
}

/// Calls `each` for every event after the submission with its place, from 0, and the operation before it; for none when the
/// events do not begin with a submission.
pub(crate) fn course<'e>(events: &'e [Event], mut each: impl FnMut(usize, &Operation, &'e Event)) {
    let Some((first, rest)) = events.split_first() else { return };
    let Some(mut before) = replay(std::slice::from_ref(first)) else { return };
    for (index, event) in (1..).zip(rest) {
        each(index, &before, event);
        before = evolve(before, event);
    }
}

/// Every such step, oldest first.
pub(crate) fn steps(events: &[Event]) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    course(events, |index, before, event| {
        if let Some((deed, receipts)) = attested(before, event) {
            steps.push(Step { index, before: before.clone(), deed, receipts });
        }
    });
    steps
}
