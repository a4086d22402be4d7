//! [`EventView`]: an event of an operation, as the stream of events and webhooks show it.

use super::view;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::OperationType;
use gateway_domain::operation::State;
use gateway_engine::Notice;
use serde::Serialize;
use serde_json::json;

/// An event of an operation.
#[derive(Debug, Serialize)]
pub struct EventView {
    /// The operation's id.
    pub operation_id: Hex32,
    /// Path of the operation.
    pub href: String,
    /// The event's number in the operation, from 1. The operation's evidence has the event.
    pub seq: u64,
    /// What happened, such as `approval_recorded` or `published`: the `type` of the event's `change` in evidence. New ones may be added.
    #[serde(rename = "type")]
    pub change: &'static str,
    /// The operation's state after the event.
    pub state: State,
    /// The operation's type.
    pub operation_type: OperationType,
    /// Name of the operation's key.
    pub key_ref: String,
    /// Time of the event, milliseconds since 1970.
    pub at_ms: u64,
}

impl From<&Notice> for EventView {
    fn from(notice: &Notice) -> Self {
        Self {
            operation_id: notice.operation_id.0,
            href: view::path(notice.family, notice.operation_id),
            seq: notice.seq,
            change: notice.change,
            state: notice.state,
            operation_type: notice.operation_type,
            key_ref: notice.key_ref.0.clone(),
            at_ms: notice.at.0,
        }
    }
}

/// An event as a webhook gets it: the payload of Standard Webhooks 1.0.
#[derive(Debug, Serialize)]
pub struct WebhookEvent {
    /// `operation.` and the event's type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Time of the event (RFC 3339).
    pub timestamp: String,
    /// The event.
    pub data: EventView,
}

impl WebhookEvent {
    /// The id of the message, which is the hash of the event and so the same whenever it is sent, and its body.
    #[must_use]
    pub fn message(notice: &Notice) -> (String, String) {
        let timestamp = notice.at.rfc3339().unwrap_or_default();
        let event =
            Self { kind: format!("operation.{}", notice.change), timestamp, data: EventView::from(notice) };
        (notice.event_hash.to_string(), json!(event).to_string())
    }
}
