//! The end of the log as far as it was read, and the newest notices, in memory.

use super::notice::Notice;
use crate::ports::EventId;
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::sync::{Notify, Semaphore, watch};

/// The newest notices that are kept in memory, each of some hundred bytes.
const RECENT_MAX: usize = 4096;

/// The events that are read at once.
pub(super) const PAGE_MAX: u32 = 256;

/// Readers that catch up from the store at the same time. The others wait for them, and not for a connection to the database.
const CATCHING_UP_MAX: usize = 2;

/// Callers that wait for another state of an operation at the same time. Their connections cannot be given to others meanwhile.
const WAITING_MAX: usize = 128;

/// The end of the log as far as it was read.
pub(crate) struct Feed {
    pub(super) followed: watch::Sender<Followed>,
    pub(super) wanted: Notify,
    /// `None` while no one waits.
    recent: Mutex<Option<Recent>>,
    /// How often the log was found to be another one than before.
    pub(super) n_replaced: AtomicU64,
    pub(super) catching_up: Semaphore,
    pub(super) waiting: Semaphore,
}

/// How far the log is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Followed {
    /// Not yet.
    No,
    /// The log has at least this many entries.
    UpTo(u64),
    /// No more: the gateway stops.
    Stopped,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            followed: watch::Sender::new(Followed::No),
            wanted: Notify::new(),
            recent: Mutex::default(),
            n_replaced: AtomicU64::new(0),
            catching_up: Semaphore::new(CATCHING_UP_MAX),
            waiting: Semaphore::new(WAITING_MAX),
        }
    }
}

impl Feed {
    pub(super) fn recent(&self) -> MutexGuard<'_, Option<Recent>> {
        self.recent.lock()
    }

    /// The notices from this index on, if they are in memory.
    pub(super) fn recent_since(&self, position: u64) -> Option<Page> {
        self.recent().as_ref()?.since(position)
    }
}

/// Notices, the index at which the next ones are read, and the event before that.
pub(super) struct Page {
    pub(super) notices: Vec<Arc<Notice>>,
    pub(super) end: u64,
    /// `None` if it is not known.
    pub(super) last: Option<EventId>,
}

/// The newest notices: all from `first` on.
pub(super) struct Recent {
    first: u64,
    notices: VecDeque<Arc<Notice>>,
    /// The index after the last one.
    pub(super) end: u64,
    /// The last one, if it is known.
    pub(super) last: Option<EventId>,
}

impl Recent {
    pub(super) const fn beginning_at(first: u64, last: Option<EventId>) -> Self {
        Self { first, notices: VecDeque::new(), end: first, last }
    }

    pub(super) fn add(&mut self, Page { notices, end, last }: Page) {
        (self.end, self.last) = (end, last);
        self.notices.extend(notices);
        while self.notices.len() > RECENT_MAX {
            if let Some(dropped) = self.notices.pop_front() {
                self.first = dropped.index.saturating_add(1);
            }
        }
    }

    /// The notices from `position` on; `None` when older ones are asked for than there are. A reader may be ahead: it began at the end
    /// of the log, which the follower has not read yet.
    pub(super) fn since(&self, position: u64) -> Option<Page> {
        if position < self.first {
            return None;
        }
        if position > self.end {
            return Some(Page { notices: Vec::new(), end: position, last: None });
        }
        let n_before = self.notices.partition_point(|notice| notice.index < position);
        let n_max = usize::try_from(PAGE_MAX).unwrap_or(usize::MAX);
        let notices: Vec<_> = self.notices.iter().skip(n_before).take(n_max).cloned().collect();
        let is_cut = n_before.saturating_add(notices.len()) < self.notices.len();
        Some(match notices.last().filter(|_| is_cut) {
            Some(last) => Page { end: last.index.saturating_add(1), last: Some(last.id()), notices },
            None => Page { notices, end: self.end, last: self.last },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::ids::{Hex32, KeyRef, OperationId, Tenant};
    use gateway_domain::intent::{Family, OperationType};
    use gateway_domain::operation::State;
    use gateway_domain::time::EpochMs;

    fn notice(index: u64) -> Arc<Notice> {
        Arc::new(Notice {
            index,
            at: EpochMs(index),
            operation_id: OperationId(Hex32::ZERO),
            seq: 1,
            event_hash: Hex32::ZERO,
            change: "submitted",
            state: State::Submitted,
            family: Family::Product,
            operation_type: OperationType::Sign,
            key_ref: KeyRef("treasury-1".to_owned()),
            tenant: Tenant("default".to_owned()),
        })
    }

    /// Every third entry of the log is no event of an operation.
    fn page(range: std::ops::Range<u64>) -> Page {
        let end = range.end;
        let last = Some(notice(end - 1).id());
        Page { notices: range.filter(|index| index % 3 != 0).map(notice).collect(), end, last }
    }

    fn all_since(recent: &Recent, mut position: u64) -> Vec<u64> {
        let mut found = Vec::new();
        while position < recent.end {
            let page = recent.since(position).unwrap();
            assert!(page.end > position && page.notices.len() <= PAGE_MAX as usize);
            assert_eq!(page.last, Some(notice(page.end - 1).id()));
            found.extend(page.notices.iter().map(|notice| notice.index));
            position = page.end;
        }
        found
    }

    #[test]
    fn recent_notices_are_read_from_any_place_in_pages() {
        let mut recent = Recent::beginning_at(100, None);
        assert_eq!(recent.since(100).map(|page| (page.notices.len(), page.end)), Some((0, 100)));
        recent.add(page(100..400));
        recent.add(page(400..1000));
        for position in 100..1000 {
            let expected: Vec<_> = (position..1000).filter(|index| index % 3 != 0).collect();
            assert_eq!(all_since(&recent, position), expected, "{position}");
        }
        assert!(recent.since(99).is_none(), "it is read from the store");
        assert_eq!(recent.since(1001).map(|page| (page.notices.len(), page.end)), Some((0, 1001)), "ahead");
    }

    #[test]
    fn old_notices_are_forgotten() {
        let mut recent = Recent::beginning_at(0, None);
        let n_entries = 3 * RECENT_MAX as u64;
        for first in (0..n_entries).step_by(30) {
            recent.add(page(first..first + 30));
        }
        assert_eq!(recent.notices.len(), RECENT_MAX);
        let first = recent.notices[0].index;
        assert!(recent.since(recent.first - 1).is_none() && recent.first <= first);
        assert_eq!(all_since(&recent, recent.first).len(), RECENT_MAX);
    }
}
