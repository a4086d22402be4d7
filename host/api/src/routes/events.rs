//! Events of operations, as they happen: server-sent events (HTML Living Standard, section 9.2).

use crate::error::ApiError;
use crate::error::Code::EventNotInLog;
use crate::extract::Caller;
use crate::extract::list::Filters;
use crate::extract::query::{self, invalid_query};
use crate::state::App;
use crate::wire::events::EventView;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::response::sse::{Event, Sse};
use futures_util::stream::unfold;
use gateway_auth::Scope::{self, *};
use gateway_domain::intent::{Family, OperationType};
use gateway_domain::operation::State as DomainState;
use gateway_engine::ports::EventId;
use gateway_engine::{EngineError, Notice, NoticeFilter, Reading, Start};
use serde_json::json;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The longest silence of a stream, so that both sides notice when the other is gone.
const SILENT_FOR: Duration = Duration::from_secs(10);

/// How long a stream lasts. The credentials are checked with the next one, which goes on at the same place.
const LASTS_FOR: Duration = Duration::from_secs(600);

/// The time after which a client connects again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The header of a client that goes on after an event.
const LAST_EVENT_ID: &str = "last-event-id";

const FILTERS: [&str; 4] = ["state", "operation_type", "key_ref", "operation_id"];

/// Sends events of operations as they happen, each with its name in the log of all events as `id`. A client that connects again with
/// `Last-Event-ID` gets all events since, or `event_not_in_log` if the log does not have that event, as after the restoration of an older
/// copy. The stream ends after ten minutes, and when the gateway stops.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "events", tag = "operations",
    security(("bearer" = [EventsRead])),
    extensions(("x-errors" = json!([EventNotInLog]))),
    responses((status = 200, description = "events named `operation`, with JSON as data: `operation_id`, `href`, `seq`, `type`, `state`, `operation_type`, `key_ref`, `at_ms`", body = String, content_type = "text/event-stream")),
    params(
        ("state" = Option<DomainState>, Query, description = "Only events after which the operation is in this state"),
        ("operation_type" = Option<OperationType>, Query, description = "Only operations of this type"),
        ("key_ref" = Option<String>, Query, description = "Only operations on this key"),
        ("operation_id" = Option<String>, Query, description = "Only this operation", pattern = "^[0-9a-f]{64}$"),
        ("from" = Option<u64>, Query, description = "Index of the first event in the log of all events, to begin there; without it and `Last-Event-ID`, from now on"),
        ("last-event-id" = Option<String>, Header, description = "The `id` of the last event that was received, as browsers send it; before `from`", pattern = "^[0-9]{1,18}-[0-9a-f]{16}$"),
    ),
)]
pub async fn events(
    caller: Caller,
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<impl IntoResponse, ApiError> {
    let query = query.as_deref().unwrap_or_default();
    let filter = filter(&caller, &Filters::parse(query, &FILTERS, &["from"])?)?;
    let start = match headers.get(LAST_EVENT_ID) {
        Some(id) => Start::After(event_id(id.as_bytes())?),
        None => query::optional_number(query, "from")?.map_or(Start::Now, Start::At),
    };
    let reading = app.engine().read_log(start, filter).await?;
    // Without the header nginx keeps events back until it has some kilobytes.
    Ok(([("x-accel-buffering", "no")], Sse::new(unfold(Sending::new(reading), Sending::next))))
}

/// A client's last event.
fn event_id(id: &[u8]) -> Result<EventId, ApiError> {
    let id = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok());
    id.ok_or_else(|| invalid_query("the header `Last-Event-ID` must be the `id` of an event".to_owned()))
}

fn filter(caller: &Caller, filters: &Filters) -> Result<NoticeFilter, ApiError> {
    let scopes = [(Scope::OperationsRead, Family::Product), (Scope::CustodyRead, Family::Custody)];
    let may_read = |(scope, family)| caller.principal.has_scope(scope).then_some(family);
    let operation_id = filters.text("operation_id").map(|id| {
        id.parse().map_err(|_| {
            invalid_query("`operation_id` must be 64 lowercase hexadecimal characters".to_owned())
        })
    });
    Ok(NoticeFilter {
        visibility: caller.visibility(),
        families: scopes.into_iter().filter_map(may_read).collect(),
        states: filters.word("state", &DomainState::ALL, DomainState::as_str)?.into_iter().collect(),
        operation_type: filters.word("operation_type", &OperationType::ALL, OperationType::as_str)?,
        key_ref: filters.key_ref(),
        operation_id: operation_id.transpose()?,
    })
}

/// A stream in progress.
struct Sending {
    reading: Reading,
    waiting: VecDeque<Arc<Notice>>,
    has_begun: bool,
    /// The event that the client knows as the last one.
    told: Option<EventId>,
    ends_at: Instant,
}

impl Sending {
    fn new(reading: Reading) -> Self {
        let ends_at = Instant::now() + LASTS_FOR;
        Self { reading, waiting: VecDeque::new(), has_begun: false, told: None, ends_at }
    }

    /// The next event of the stream. It reads the log only when the client has taken all before.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        if !std::mem::replace(&mut self.has_begun, true) {
            let event = self.place().retry(RETRY_AFTER);
            return Some((Ok(event), self));
        }
        // What is not sent yet, the client gets with its next stream.
        if self.reading.is_stopped() || Instant::now() >= self.ends_at {
            return None;
        }
        let silent_until = (Instant::now() + SILENT_FOR).min(self.ends_at);
        if self.waiting.is_empty() {
            match self.reading.next(silent_until).await {
                Ok(notices) => self.waiting.extend(notices),
                // Readiness reports the store; the stream goes on when it is back.
                Err(EngineError::Unavailable(_)) => {
                    sleep_until(silent_until.min(Instant::now() + RETRY_AFTER)).await
                }
                Err(_) => return None,
            }
        }
        let event = match self.waiting.pop_front() {
            Some(notice) => {
                self.told = Some(notice.id());
                let data = json!(EventView::from(&*notice)).to_string();
                Event::default().id(notice.id().to_string()).event("operation").data(data)
            }
            None if self.reading.has_ended() => return None,
            None => self.place(),
        };
        Some((Ok(event), self))
    }

    /// Says how far the log was read, without an event: a client that connects again need not read that part again.
    fn place(&mut self) -> Event {
        let last = self.reading.last_read();
        let before = std::mem::replace(&mut self.told, last);
        match last.filter(|_| before != last) {
            Some(last) => Event::default().id(last.to_string()),
            None => Event::default().comment(""),
        }
    }
}
