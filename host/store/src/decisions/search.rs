//! Searches the three lists of decisions together, newest first, as a caller does.
//!
//! A part of a search reads a limited number of records of each list. What one list has beyond that may be newer than what another one
//! gave, so a part ends at the newest of these places.

use super::view::{Decisions, List, PREVIEWS, REFUSALS};
use crate::record::decode::{self, integer};
use crate::sql::row::{self, Cell, blob};
use crate::store::Store;
use async_trait::async_trait;
use gateway_domain::ids::OperationId;
use gateway_domain::policy::DecisionId;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{
    DecisionFilter, DecisionPosition, DecisionSearch, FoundDecisions, ReadDecisions, RecordedDecision,
    SearchedFrom,
};
use gateway_engine::{Unavailable, Visibility};
use serde::Deserialize;
use std::cmp::Reverse;

/// The most refusals, and the most previews, that are read for a part.
const RECORDS_MAX: usize = if cfg!(test) { 4 } else { 500 };

/// The most events that are read for a part. All events of their operations are read with them.
const EVENTS_MAX: i64 = if cfg!(test) { 3 } else { 128 };

const EVENT_AT: &str = "SELECT ledger_index, format, body FROM events WHERE ledger_index <= $1 ORDER BY ledger_index DESC LIMIT 1";

/// What a list gave for a part of a search.
#[derive(Debug)]
struct Part {
    /// Those that fit, newest first, each with a time that is not later than the one before, even if the clock was set back.
    found: Vec<(EpochMs, RecordedDecision)>,
    /// Everything from this index on was looked at.
    from: u64,
    /// The time there; `None` if the list has nothing that fits before it.
    horizon: Option<EpochMs>,
}

impl Part {
    const NOTHING: Self = Self { found: Vec::new(), from: 0, horizon: None };

    /// `read`: newest first. `next`: the index and the time to go on from; `None` at the end of the list.
    fn new(
        read: Vec<RecordedDecision>,
        next: Option<(u64, EpochMs)>,
        filter: &DecisionFilter,
        visibility: &Visibility,
    ) -> Self {
        let mut earliest = EpochMs(u64::MAX);
        let mut found = Vec::new();
        for decision in read {
            earliest = earliest.min(decision.at_ms);
            if visibility.includes(&decision.input.tenant) && filter.fits(&decision) {
                found.push((earliest, decision));
            }
        }
        let (from, horizon) = next.map_or((0, None), |(from, at)| (from, Some(at.min(earliest))));
        match (horizon, filter.after) {
            (Some(horizon), Some(after)) if horizon <= after => Self { found, ..Self::NOTHING },
            _ => Self { found, from, horizon },
        }
    }

    /// The index to go on from if only the first `n_taken` are answered.
    fn after(&self, n_taken: usize, before: u64) -> u64 {
        if n_taken == self.found.len() {
            return self.from;
        }
        let last = n_taken.checked_sub(1).and_then(|last| self.found.get(last));
        last.map_or(before, |(_, decision)| decision.position.index())
    }
}

/// Puts the parts of the lists together.
fn merged([events, refusals, previews]: [Part; 3], searched: SearchedFrom, n_max: usize) -> FoundDecisions {
    let parts = [&events, &refusals, &previews];
    let horizon = parts.iter().filter_map(|part| part.horizon).max();
    let mut all: Vec<_> = parts.iter().flat_map(|part| &part.found).collect();
    all.sort_by_key(|(at, decision)| Reverse((*at, decision.position)));
    let reached = all.into_iter().filter(|(at, _)| horizon.is_none_or(|horizon| *at >= horizon));
    let decisions: Vec<_> = reached.take(n_max).map(|(_, decision)| decision.clone()).collect();
    let [mut n_events, mut n_refusals, mut n_previews] = [0_usize; 3];
    for decision in &decisions {
        let n_taken = match decision.position {
            DecisionPosition::Event { .. } => &mut n_events,
            DecisionPosition::Refusal(_) => &mut n_refusals,
            DecisionPosition::Preview(_) => &mut n_previews,
        };
        *n_taken = n_taken.saturating_add(1);
    }
    let searched = SearchedFrom {
        event: events.after(n_events, searched.event),
        refusal: refusals.after(n_refusals, searched.refusal),
        preview: previews.after(n_previews, searched.preview),
    };
    FoundDecisions { decisions, searched }
}

/// Only the time of an event.
#[derive(Deserialize)]
struct Timed {
    at_ms: EpochMs,
}

impl Decisions {
    /// As [`ReadDecisions::decisions`].
    async fn search(&self, search: DecisionSearch<'_>) -> Result<FoundDecisions, Unavailable> {
        let DecisionSearch { visibility, filter, n_max, .. } = search;
        let searched = match filter.before {
            Some(before) if search.searched == SearchedFrom::default() => self.starting(before).await?,
            _ => search.searched,
        };
        let events = self.events_part(search, searched.event).await?;
        let conditions = [
            ("operation_id", filter.operation_id.map(|id| blob(id.0))),
            ("request_id", filter.request_id.as_deref().map(Cell::from)),
            ("idempotency_key", filter.idempotency_key.as_deref().map(Cell::from)),
        ];
        let conditions = conditions.into_iter().filter_map(|(column, cell)| Some((column, cell?)));
        let conditions: Vec<_> = conditions.collect();
        let read = self.list_part(&REFUSALS, &conditions, searched.refusal).await?;
        let refusals = Part::new(read.0, read.1, filter, visibility);
        // A preview is of no operation, and claims no key.
        let previews = if filter.operation_id.is_some() || filter.idempotency_key.is_some() {
            Part::NOTHING
        } else {
            let read = self.list_part(&PREVIEWS, &conditions, searched.preview).await?;
            Part::new(read.0, read.1, filter, visibility)
        };
        Ok(merged([events, refusals, previews], searched, n_max))
    }

    async fn events_part(
        &self,
        DecisionSearch { visibility, filter, operations, .. }: DecisionSearch<'_>,
        before: u64,
    ) -> Result<Part, Unavailable> {
        if filter.request_id.is_some() {
            return Ok(Part::NOTHING);
        }
        if filter.operation_id.is_some() || filter.idempotency_key.is_some() {
            let has_key = |id: &OperationId| filter.idempotency_key.is_none() || operations.contains(id);
            let ids = match filter.operation_id {
                Some(id) => Some(id).filter(has_key).into_iter().collect(),
                None => operations.to_vec(),
            };
            let mut read = Vec::new();
            for id in ids {
                read.extend(self.of_operation(id).await?);
            }
            read.retain(|decision| decision.position.index() < before);
            read.sort_by_key(|decision| Reverse(decision.position));
            return Ok(Part::new(read, None, filter, visibility));
        }
        let rows = self.events_before(row::integer(before), EVENTS_MAX).await?;
        let next = match rows.last() {
            Some(last) if i64::try_from(rows.len()) == Ok(EVENTS_MAX) => {
                self.event_at(integer("an event", last, "ledger_index")?.unsigned_abs()).await?
            }
            Some(_) | None => None,
        };
        Ok(Part::new(self.evaluations(rows).await?, next, filter, visibility))
    }

    /// Records of a list before an index, newest first, and where to go on.
    async fn list_part(
        &self,
        list: &List,
        conditions: &[(&str, Cell)],
        before: u64,
    ) -> Result<(Vec<RecordedDecision>, Option<(u64, EpochMs)>), Unavailable> {
        let read = self.listed_before(list, conditions, before, RECORDS_MAX).await?;
        let next = read.last().filter(|_| read.len() == RECORDS_MAX);
        let next = next.map(|last| (last.position.index(), last.at_ms));
        Ok((read, next))
    }

    /// The last event at or before an index of the log: its index and its time.
    async fn event_at(&self, index: u64) -> Result<Option<(u64, EpochMs)>, Unavailable> {
        let rows = self.rows(EVENT_AT, &[row::integer(index).into()]).await?;
        let Some(found) = rows.first() else { return Ok(None) };
        let index = integer("an event", found, "ledger_index")?.unsigned_abs();
        let Timed { at_ms } = decode::parsed("an event", found, "body")?;
        Ok(Some((index, at_ms)))
    }

    /// Where a search begins that looks for what is earlier than this. Times rise in each list, except where the clock was set back.
    async fn starting(&self, before: EpochMs) -> Result<SearchedFrom, Unavailable> {
        let end = SearchedFrom::default();
        Ok(SearchedFrom {
            event: self.first_from(Source::Events, end.event, before).await?,
            refusal: self.first_from(Source::List(&REFUSALS), end.refusal, before).await?,
            preview: self.first_from(Source::List(&PREVIEWS), end.preview, before).await?,
        })
    }

    /// The first index of a list, below `end`, whose record is not earlier than `at`.
    async fn first_from(&self, source: Source, end: u64, at: EpochMs) -> Result<u64, Unavailable> {
        let Some((last, _)) = self.last_at(source, end.saturating_sub(1)).await? else { return Ok(0) };
        // Everything below `low` is earlier, everything from `high` on is not.
        let (mut low, mut high) = (0, last.saturating_add(1));
        while low < high {
            let middle = low.midpoint(high);
            match self.last_at(source, middle).await? {
                Some((_, time)) if time >= at => high = middle,
                Some(_) | None => low = middle.saturating_add(1),
            }
        }
        Ok(low)
    }

    /// The last record at or before an index: its index and its time.
    async fn last_at(&self, source: Source, index: u64) -> Result<Option<(u64, EpochMs)>, Unavailable> {
        match source {
            Source::Events => self.event_at(index).await,
            Source::List(list) => {
                let read = self.listed_before(list, &[], index.saturating_add(1), 1).await?;
                Ok(read.first().map(|one| (one.position.index(), one.at_ms)))
            }
        }
    }
}

/// The log, or one of the lists.
#[derive(Clone, Copy)]
enum Source {
    Events,
    List(&'static List),
}

#[async_trait]
impl ReadDecisions for Store {
    async fn decision(&self, id: DecisionId) -> Result<Option<RecordedDecision>, Unavailable> {
        Decisions::of(self.database.pool()).find(id).await
    }

    async fn decisions(&self, search: DecisionSearch<'_>) -> Result<FoundDecisions, Unavailable> {
        Decisions::of(self.database.pool()).search(search).await
    }
}
