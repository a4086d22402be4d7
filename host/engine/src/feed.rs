//! What happens to operations, in the order of the log, for callers that wait.
//!
//! The events that operations' commits write are the outbox: the log has one order in all replicas, and an event is in it exactly if its
//! change is durable. [`Engine::follow_log`] reads its end as long as anyone waits, and keeps the newest notices; a reader that asks for
//! older ones gets them from the store. So a reader has a position in the log and nothing else, and one that does not read costs nothing.

mod notice;
mod recent;

use crate::engine::{Engine, Inner};
use crate::error::{Dependency, EngineError, Unavailable};
use crate::lists::sound;
use crate::ports::{EventId, LoggedEvent, Record};
use crate::session::Target;
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::OperationId;
use gateway_domain::operation::{State, evolve, replay};
pub use notice::{Notice, NoticeFilter};
pub(crate) use recent::Feed;
use recent::{Followed, PAGE_MAX, Page, Recent};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::task::AbortOnDropHandle;

/// Interval at which the end of the log is read while anyone waits.
const FOLLOW_EVERY: Duration = Duration::from_millis(20);

/// Where a reader begins in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With what happens from now on.
    Now,
    /// With the event at this index, at most the index after the last one.
    At(u64),
    /// After this event.
    After(EventId),
}

/// A reader's place in the log.
pub struct Reading {
    engine: Engine,
    followed: watch::Receiver<Followed>,
    filter: NoticeFilter,
    position: u64,
    /// The event before the position, if it is known.
    last: Option<EventId>,
    /// The log of this number is read.
    n_replaced: u64,
    /// A page that is being read from the store. It is read on while the reader does something else, and keeps its turn.
    pending: Option<AbortOnDropHandle<Result<Page, EngineError>>>,
}

impl Reading {
    /// The index before which all events have been read.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// The event before the position, if it is known.
    #[must_use]
    pub const fn last_read(&self) -> Option<EventId> {
        self.last
    }

    /// The next notices that fit the filter, in the order of the log; none when there are none at `deadline`, or none will come.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] when the store cannot be read. The next call goes on at the same place. [`EngineError::NotInLog`]
    /// when the log no longer has what was read: the reader must begin again.
    pub async fn next(&mut self, deadline: Instant) -> Result<Vec<Arc<Notice>>, EngineError> {
        loop {
            // Seen before the read, so that what comes during it is not missed.
            let followed = *self.followed.borrow_and_update();
            if self.n_replaced != self.engine.0.feed.n_replaced.load(Ordering::Acquire) {
                return Err(EngineError::NotInLog(
                    self.last.map_or_else(|| self.position.to_string(), |last| last.to_string()),
                ));
            }
            let Some(Page { notices, end, last }) = self.page(deadline).await? else { return Ok(Vec::new()) };
            if end != self.position {
                (self.position, self.last) = (end, last);
            }
            let fitting: Vec<_> = notices.into_iter().filter(|notice| self.filter.includes(notice)).collect();
            let size = match followed {
                Followed::UpTo(size) if fitting.is_empty() && Instant::now() < deadline => size,
                Followed::UpTo(_) | Followed::No | Followed::Stopped => return Ok(fitting),
            };
            let is_at_end = size <= self.position;
            if is_at_end && !matches!(timeout_at(deadline, self.followed.changed()).await, Ok(Ok(()))) {
                return Ok(Vec::new());
            }
        }
    }

    /// The notices from the position on; `None` if they could not be read until the deadline.
    async fn page(&mut self, deadline: Instant) -> Result<Option<Page>, EngineError> {
        let pending = match &mut self.pending {
            Some(pending) => pending,
            None => {
                if let Some(page) = self.engine.0.feed.recent_since(self.position) {
                    return Ok(Some(page));
                }
                let (engine, position, last) = (self.engine.clone(), self.position, self.last);
                let read = tokio::spawn(async move { engine.0.notices_from_store(position, last).await });
                self.pending.insert(AbortOnDropHandle::new(read))
            }
        };
        let Ok(read) = timeout_at(deadline, pending).await else { return Ok(None) };
        self.pending = None;
        read.unwrap_or_else(|_| Err(EngineError::Internal("a page of the log was not read".to_owned())))
            .map(Some)
    }

    /// Whether everything was read that is known to be in the log.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.pending.is_none()
            && matches!(*self.followed.borrow(), Followed::UpTo(size) if size <= self.position)
    }

    /// Whether no one follows the log, so that there will be no more notices than those that are there.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        !matches!(*self.followed.borrow(), Followed::UpTo(_))
    }

    /// Whether the gateway stops.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.followed.borrow() == Followed::Stopped
    }
}

impl Engine {
    /// Reads the log from this place on.
    ///
    /// # Errors
    /// [`EngineError::NotInLog`] when the log has no such place, and [`EngineError::Unavailable`] when the store cannot be read.
    pub async fn read_log(&self, start: Start, filter: NoticeFilter) -> Result<Reading, EngineError> {
        let feed = &self.0.feed;
        let n_replaced = feed.n_replaced.load(Ordering::Acquire);
        let followed = feed.followed.subscribe();
        feed.wanted.notify_one();
        let (position, last) = self.0.place(start).await?;
        Ok(Reading { engine: self.clone(), followed, filter, position, last, n_replaced, pending: None })
    }

    /// The operation, as soon as its state is another than `unless`, and after `within` in any case.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Unavailable`, also when too many callers wait.
    pub async fn operation_unless(
        &self,
        target: &Target,
        unless: State,
        within: Duration,
    ) -> Result<Record, EngineError> {
        let deadline = Instant::now() + within;
        let filter = NoticeFilter {
            visibility: target.visibility.clone(),
            families: vec![target.family],
            states: Vec::new(),
            operation_type: None,
            key_ref: None,
            operation_id: Some(target.id),
        };
        let record = self.operation(target).await?;
        if record.operation.state() != unless {
            return Ok(record);
        }
        let Ok(_place) = self.0.feed.waiting.try_acquire() else {
            return Err(Unavailable::new(Dependency::Runtime, "too many requests wait for operations").into());
        };
        let mut reading = self.read_log(Start::Now, filter).await?;
        let mut n_events_seen = 0;
        loop {
            let record = self.operation(target).await?;
            if record.operation.state() != unless || Instant::now() >= deadline || reading.has_ended() {
                return Ok(record);
            }
            // An event is in the log a moment before the record that this process keeps has it.
            let is_behind = record.operation.revision < n_events_seen;
            let until = if is_behind { deadline.min(Instant::now() + FOLLOW_EVERY) } else { deadline };
            match reading.next(until).await {
                Ok(notices) => {
                    n_events_seen = notices.last().map_or(n_events_seen, |last| last.seq);
                }
                // The caller sees what there is now.
                Err(EngineError::NotInLog(_)) => return self.operation(target).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the end of the log as long as anyone waits for what happens, until `stopped`.
    pub async fn follow_log(&self, stopped: impl Future<Output = ()>) {
        self.0.feed.followed.send_replace(Followed::UpTo(0));
        tokio::select! {
            () = self.0.follow() => {}
            () = stopped => {}
        }
        self.0.feed.followed.send_replace(Followed::Stopped);
    }
}

impl Inner {
    /// The index at which this place begins, and the event before it, if it is known.
    async fn place(&self, start: Start) -> Result<(u64, Option<EventId>), EngineError> {
        let log = &self.ports.log;
        match start {
            Start::After(id) => match log.events_from(id.index, 1).await?.first() {
                Some(event) if event.id() == Some(id) => Ok((id.index.saturating_add(1), Some(id))),
                Some(_) | None => Err(EngineError::NotInLog(id.to_string())),
            },
            Start::At(_) | Start::Now => {
                let last = log.last_event().await?;
                let end = last.map_or(0, |last| last.index.saturating_add(1));
                match start {
                    Start::At(index) if index > end => Err(EngineError::NotInLog(index.to_string())),
                    Start::At(index) if index < end => Ok((index, None)),
                    Start::At(_) | Start::After(_) | Start::Now => Ok((end, last.and_then(|last| last.id()))),
                }
            }
        }
    }

    async fn follow(&self) {
        let feed = &self.feed;
        loop {
            if feed.followed.receiver_count() == 0 {
                *feed.recent() = None;
                feed.wanted.notified().await;
                continue;
            }
            match self.follow_once().await {
                Ok(()) => {}
                Err(error @ EngineError::NotInLog(_)) => {
                    tracing::warn!(%error, "the database is another than before: listeners begin again");
                    feed.n_replaced.fetch_add(1, Ordering::Release);
                    *feed.recent() = None;
                    feed.followed.send_replace(Followed::UpTo(0));
                }
                // Readiness reports the store.
                Err(error) => tracing::debug!(%error, "the end of the log could not be read"),
            }
            sleep(FOLLOW_EVERY).await;
        }
    }

    async fn follow_once(&self) -> Result<(), EngineError> {
        let feed = &self.feed;
        let place = feed.recent().as_ref().map(|recent| (recent.end, recent.last));
        let end = match place {
            Some((position, last)) => {
                let page = self.page(position, last).await?;
                let end = page.end;
                if let Some(recent) = feed.recent().as_mut() {
                    recent.add(page);
                }
                end
            }
            None => {
                let (end, last) = self.place(Start::Now).await?;
                *feed.recent() = Some(Recent::beginning_at(end, last));
                end
            }
        };
        feed.followed.send_if_modified(|followed| {
            std::mem::replace(followed, Followed::UpTo(end)) != Followed::UpTo(end)
        });
        Ok(())
    }

    async fn notices_from_store(&self, position: u64, last: Option<EventId>) -> Result<Page, EngineError> {
        // The semaphore is never closed.
        let _permit = self.feed.catching_up.acquire().await;
        self.page(position, last).await
    }

    /// A page from the store, after the event `last`, if that is known. The event is read again, since a database that is restored while
    /// the gateway runs has another one there.
    async fn page(&self, position: u64, last: Option<EventId>) -> Result<Page, EngineError> {
        let logged = match last {
            None => self.ports.log.events_from(position, PAGE_MAX).await?,
            Some(last) => {
                let mut logged = self.ports.log.events_from(last.index, PAGE_MAX.saturating_add(1)).await?;
                if logged.first().and_then(LoggedEvent::id) != Some(last) {
                    return Err(EngineError::NotInLog(last.to_string()));
                }
                logged.split_off(1)
            }
        };
        let (end, last) = match logged.last() {
            Some(event) => (event.index.saturating_add(1), event.id()),
            None => (position, last),
        };
        let mut operations = BTreeMap::new();
        for id in logged.iter().filter_map(|event| Some(event.of?.0)) {
            if let Entry::Vacant(unread) = operations.entry(id) {
                unread.insert(self.notices_of(id).await?);
            }
        }
        let notice = |LoggedEvent { index, of, .. }: LoggedEvent| {
            let (operation_id, seq) = of?;
            let nth = usize::try_from(seq.checked_sub(1)?).ok()?;
            let notice = operations.get(&operation_id)?.get(nth)?.clone();
            Some(Arc::new(Notice { index, ..notice }))
        };
        Ok(Page { notices: logged.into_iter().filter_map(notice).collect(), end, last })
    }

    /// A notice of each of the operation's events, without its index in the log; none if the operation is damaged, which readiness
    /// reports.
    async fn notices_of(&self, id: OperationId) -> Result<Vec<Notice>, EngineError> {
        let reads = &self.ports.reads;
        if sound(reads.operation_load(id).await)?.is_none() {
            return Ok(Vec::new());
        }
        // The operation may be a cached one, whose events were damaged since.
        let Some(events) = sound(reads.operation_events(id).await.map(Some))? else { return Ok(Vec::new()) };
        let mut notices = Vec::with_capacity(events.len());
        let mut before = None;
        for (seq, ChainedEvent { event, hash, .. }) in (1..).zip(events) {
            let after = match before.take() {
                None => replay(std::slice::from_ref(&event)),
                Some(operation) => Some(evolve(operation, &event)),
            };
            let Some(operation) = after else { return Ok(Vec::new()) };
            notices.push(Notice {
                index: 0,
                at: event.at_ms,
                operation_id: id,
                seq,
                event_hash: hash,
                change: event.change.name(),
                state: operation.state(),
                family: operation.intent.family(),
                operation_type: operation.intent.operation_type(),
                key_ref: operation.key.key_ref.clone(),
                tenant: operation.tenant.clone(),
            });
            before = Some(operation);
        }
        Ok(notices)
    }
}
