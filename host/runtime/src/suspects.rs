//! Participants that failed in an attempt. The next attempt prefers others, so that one faulty node does not use up all
//! attempts.

use gateway_domain::roster::ParticipantIndex;
use parking_lot::Mutex;
use std::collections::BTreeSet;

/// The suspected participants. In memory only: after a restart, one that is still faulty can fail one more attempt.
#[derive(Default)]
pub(crate) struct Suspects(Mutex<BTreeSet<ParticipantIndex>>);

impl Suspects {
    pub(crate) fn add(&self, participants: impl IntoIterator<Item = ParticipantIndex>) {
        self.0.lock().extend(participants);
    }

    pub(crate) fn clear<'a>(&self, participants: impl IntoIterator<Item = &'a ParticipantIndex>) {
        let mut suspects = self.0.lock();
        for participant in participants {
            suspects.remove(participant);
        }
    }

    /// Chooses the first `n` of the candidates in their order, suspects last. Fewer if there are not that many.
    pub(crate) fn choose(
        &self,
        candidates: impl IntoIterator<Item = ParticipantIndex>,
        n: usize,
    ) -> BTreeSet<ParticipantIndex> {
        let suspects = self.0.lock();
        let (last, first): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|candidate| suspects.contains(candidate));
        first.into_iter().chain(last).take(n).collect()
    }
}
