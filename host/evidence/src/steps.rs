//! The steps that nodes signed for, found in an operation's events.

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

/// Every such step, oldest first; none when the events do not begin with a submission.
pub(crate) fn steps(events: &[Event]) -> Vec<Step<'_>> {
    let Some((first, rest)) = events.split_first() else { return Vec::new() };
    let Some(mut before) = replay(std::slice::from_ref(first)) else { return Vec::new() };
    let mut found = Vec::new();
    for (index, event) in (1..).zip(rest) {
        if let Some((deed, receipts)) = attested(&before, event) {
            found.push(Step { index, before: before.clone(), deed, receipts });
        }
        before = evolve(before, event);
    }
    found
}
