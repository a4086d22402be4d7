//! The state of webhooks, and sending again.

use super::{ClientBinding, RequestShape};
use crate::state::Options;
use gateway_engine::WebhookStatus;
use gateway_engine::ports::{DeadLetter, WebhookFailure};
use gateway_service::strict::Fault;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The webhooks of the caller's tenant.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhooksResponse {
    /// In the order of their names.
    pub webhooks: Vec<WebhookView>,
    /// Index in the log of all events at which the next one will be.
    pub log_position: u64,
}

/// A webhook.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookView {
    /// Its name in the file of webhooks.
    pub name: String,
    /// The tenant whose events it gets. Absent: all tenants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Whether the gateway, or a replica of it, sends to it. False if it is no longer in the file.
    pub is_sent_to: bool,
    /// Index in the log of all events up to which all were accepted or passed over.
    pub position: u64,
    /// Why it gives no usable answer at present. Absent if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<WebhookFailureView>,
    /// Number of events that it refused, and that were passed over; the newest thousand are kept.
    pub dead_letters_total: u64,
    /// The oldest of them, at most 20.
    pub dead_letters: Vec<DeadLetterView>,
}

/// Why a webhook gives no usable answer.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookFailureView {
    /// Time of the first request without one, milliseconds since 1970.
    pub since_ms: u64,
    /// What is wrong with the last one, for people.
    pub message: String,
}

/// An event that a webhook refused, and that was passed over.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeadLetterView {
    /// The event's index in the log of all events.
    pub index: u64,
    /// When it was passed over, milliseconds since 1970.
    pub at_ms: u64,
    /// The last answer, for people.
    pub message: String,
}

impl From<WebhookStatus> for WebhookView {
    fn from(WebhookStatus { webhook, dead_letters, is_sent_to }: WebhookStatus) -> Self {
        let failure = |WebhookFailure { since, why }| WebhookFailureView { since_ms: since.0, message: why };
        let letter = |DeadLetter { index, at, why }| DeadLetterView { index, at_ms: at.0, message: why };
        Self {
            name: webhook.name,
            tenant: webhook.tenant.map(|tenant| tenant.0),
            is_sent_to,
            position: webhook.position,
            failure: webhook.failure.map(failure),
            dead_letters_total: webhook.n_dead_letters,
            dead_letters: dead_letters.into_iter().map(letter).collect(),
        }
    }
}

/// Body of `POST /v1/webhooks/{name}/resend`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ResendRequest {
    /// Index in the log of all events: this event and all later ones are sent again.
    #[schema(minimum = 0)]
    pub from: i64,
    /// The caller.
    pub client: Option<ClientBinding>,
}

impl RequestShape for ResendRequest {
    type Checked = u64;

    fn client(&self) -> Option<&ClientBinding> {
        self.client.as_ref()
    }

    fn check(&self, _: &Options) -> Result<u64, Fault> {
        u64::try_from(self.from).map_err(|_| Fault::at("/from", "must not be negative"))
    }
}

/// Body of `POST /v1/webhooks/{name}/dismiss`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct DismissRequest {
    /// Index in the log of all events: refused events up to this one are forgotten.
    #[schema(minimum = 0)]
    pub through: i64,
    /// The caller.
    pub client: Option<ClientBinding>,
}

impl RequestShape for DismissRequest {
    type Checked = u64;

    fn client(&self) -> Option<&ClientBinding> {
        self.client.as_ref()
    }

    fn check(&self, _: &Options) -> Result<u64, Fault> {
        u64::try_from(self.through).map_err(|_| Fault::at("/through", "must not be negative"))
    }
}
