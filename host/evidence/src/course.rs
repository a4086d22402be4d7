//! An operation's events with what each found.

use gateway_domain::operation::{Event, Operation, evolve, replay};

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
