//! Participants that spoiled an attempt. The next attempt prefers others, so that one bad disk does not use up all
//! attempts.

use gateway_domain::roster::ParticipantIndex;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// In memory only: after a restart each costs at most one attempt again.
#[derive(Default)]
pub(crate) struct Suspects(Mutex<BTreeSet<ParticipantIndex>>);

impl Suspects {
    pub(crate) fn add(&self, participants: impl IntoIterator<Item = ParticipantIndex>) {
        self.lock().extend(participants);
    }

    pub(crate) fn clear<'a>(&self, participants: impl IntoIterator<Item = &'a ParticipantIndex>) {
        let mut suspects = self.lock();
        for participant in participants {
            suspects.remove(participant);
        }
    }

    /// Chooses `n` of the candidates. Suspects come last; otherwise in ascending order.
    pub(crate) fn choose(
        &self,
        candidates: impl IntoIterator<Item = ParticipantIndex>,
        n: usize,
    ) -> BTreeSet<ParticipantIndex> {
        let suspects = self.lock();
        let (last, first): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|candidate| suspects.contains(candidate));
        first.into_iter().chain(last).take(n).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<ParticipantIndex>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
