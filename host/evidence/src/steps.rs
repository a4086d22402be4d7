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

/// Every event after the submission with its place, from 0, and the operation before it; none when the events do not begin
/// with a submission.
pub(crate) fn course(events: &[Event]) -> Vec<(usize, Operation, &Event)> {
    let Some((first, rest)) = events.split_first() else { return Vec::new() };
    let Some(mut before) = replay(std::slice::from_ref(first)) else { return Vec::new() };
    let mut course = Vec::with_capacity(rest.len());
    for (index, event) in (1..).zip(rest) {
        let after = evolve(before.clone(), event);
        course.push((index, std::mem::replace(&mut before, after), event));
    }
    course
}

/// Every such step, oldest first.
pub(crate) fn steps(events: &[Event]) -> Vec<Step<'_>> {
    let step = |(index, before, event)| {
        let (deed, receipts) = attested(&before, event)?;
        Some(Step { index, before, deed, receipts })
    };
    course(events).into_iter().filter_map(step).collect()
}
