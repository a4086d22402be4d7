//! The damage that the checks of a node's database found.

use crate::store::tables::{Cursor, Damage};
use parking_lot::Mutex;
use std::collections::BTreeSet;

/// Findings that are kept for one round. A node with this many counts as unusable.
pub(crate) const DAMAGE_KEPT_MAX: usize = 1024;

/// The check of one node. A round checks every row once; the findings of the last round count until this one is complete.
#[derive(Default)]
pub(crate) struct Health(Mutex<Rounds>);

#[derive(Default)]
struct Rounds {
    /// Where this round continues.
    at: Cursor,
    /// The findings of this round so far.
    found: BTreeSet<Damage>,
    /// The findings of the last complete round.
    before: BTreeSet<Damage>,
}

impl Health {
    /// Starts the first round. The findings of the check at the opening count as the last round's.
    pub(crate) fn opened(&self, found: Vec<Damage>) {
        let before = found.into_iter().take(DAMAGE_KEPT_MAX).collect();
        *self.0.lock() = Rounds { before, ..Rounds::default() };
    }

    pub(crate) fn cursor(&self) -> Cursor {
        self.0.lock().at.clone()
    }

    pub(crate) fn record(&self, found: Vec<Damage>, next: Option<Cursor>) {
        let mut rounds = self.0.lock();
        let room = DAMAGE_KEPT_MAX.saturating_sub(rounds.found.len());
        rounds.found.extend(found.into_iter().take(room));
        rounds.at = match next {
            Some(next) => next,
            None => {
                rounds.before = std::mem::take(&mut rounds.found);
                Cursor::default()
            }
        };
    }

    /// The findings of this round and the last one.
    pub(crate) fn findings(&self) -> BTreeSet<Damage> {
        let rounds = self.0.lock();
        rounds.found.union(&rounds.before).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tables::Scope;

    fn damage(row: &str, scope: Scope) -> Damage {
        Damage { table: "share", row: row.to_owned(), what: "broken".to_owned(), scope }
    }

    fn rows(health: &Health) -> Vec<String> {
        health.findings().into_iter().map(|damage| damage.row).collect()
    }

    #[test]
    fn damage_stands_until_a_complete_round_does_not_find_it() {
        let health = Health::default();
        let next = || Some(Cursor::default());
        health.opened(vec![damage("a", Scope::Records)]);
        assert_eq!(rows(&health), ["a"]);
        health.record(vec![damage("b", Scope::Records)], next());
        assert_eq!(rows(&health), ["a", "b"], "this round is not complete yet");
        health.record(vec![], None);
        assert_eq!(rows(&health), ["b"], "the damage found at opening is repaired");
        health.record(vec![], next());
        assert_eq!(rows(&health), ["b"]);
        health.record(vec![], None);
        assert!(rows(&health).is_empty());
    }
}
