//! How far the log was sent to each webhook.

use super::lists::Visibility;
use crate::error::Unavailable;
use async_trait::async_trait;
use gateway_domain::ids::Tenant;
use gateway_domain::time::EpochMs;

/// A webhook, as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Its name.
    pub name: String,
    /// Whose events it gets. `None`: those of all tenants.
    pub tenant: Option<Tenant>,
    /// Index in the log of the first event that was not sent yet.
    pub position: u64,
    /// How often it was set back.
    pub n_resends: u64,
    /// Until when one process alone sends.
    pub held_until: EpochMs,
    /// Why there was no usable answer to the last request; `None` if there was one.
    pub failure: Option<WebhookFailure>,
    /// Events that it refused, and that were passed over.
    pub n_dead_letters: u64,
}

/// Why a webhook gives no usable answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookFailure {
    /// The first request that was not accepted.
    pub since: EpochMs,
    /// What is wrong with the last one.
    pub why: String,
}

/// An event that a webhook refused, and that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The event's index in the log.
    pub index: u64,
    /// When it was passed over.
    pub at: EpochMs,
    /// The last answer.
    pub why: String,
}

/// The webhooks that a caller can see.
#[derive(Clone, Debug)]
pub struct VisibleWebhooks {
    /// Those that get the events of tenants that the caller can see.
    pub of: Visibility,
    /// Those that get the events of all tenants too.
    pub of_all: bool,
}

/// Random name of a process that sends.
pub type Holder = [u8; 16];

/// A process wants to send.
#[derive(Clone, Debug)]
pub struct WebhookClaim {
    /// The webhook's name.
    pub name: String,
    /// Whose events it gets.
    pub tenant: Option<Tenant>,
    /// The process.
    pub holder: Holder,
    /// The time of the claim.
    pub now: EpochMs,
    /// Until when no other process may send.
    pub until: EpochMs,
}

/// How far a process has sent.
#[derive(Clone, Debug)]
pub struct WebhookProgress {
    /// The webhook's name.
    pub name: String,
    /// The process.
    pub holder: Holder,
    /// As it was when the process began at its present place.
    pub n_resends: u64,
    /// Where it was when that was written last.
    pub from: u64,
    /// Index of the first event that was not sent yet.
    pub position: u64,
    /// Why there was no usable answer to the last request.
    pub failure: Option<WebhookFailure>,
    /// Events before the position that were passed over, which are not recorded yet.
    pub dead_letters: Vec<DeadLetter>,
    /// Until when no other process may send.
    pub until: EpochMs,
}

/// Keeps the places of webhooks.
#[async_trait]
pub trait KeepWebhooks: Send + Sync {
    /// The webhooks that a caller can see, by name.
    async fn webhooks(&self, visible: &VisibleWebhooks) -> Result<Vec<Webhook>, Unavailable>;

    /// One of them.
    async fn webhook(&self, name: &str) -> Result<Option<Webhook>, Unavailable>;

    /// The oldest events that it refused and that were passed over, at most `n_max`.
    async fn dead_letters(&self, name: &str, n_max: u32) -> Result<Vec<DeadLetter>, Unavailable>;

    /// Gives a webhook to a process, unless another one has it. A new webhook begins at the end of the log. One that gets the events of
    /// another tenant than before forgets those that were passed over.
    async fn webhook_claim(&self, claim: WebhookClaim) -> Result<Option<Webhook>, Unavailable>;

    /// Records how far a process has sent. False, with nothing recorded, if it has lost the webhook, or if that was set back or is
    /// otherwise not where the process left it. Of the events that were passed over the newest thousand are kept.
    async fn webhook_advance(&self, progress: WebhookProgress) -> Result<bool, Unavailable>;

    /// Forgets the events up to this index that were passed over. False if there is no such webhook.
    async fn dead_letters_dismiss(&self, name: &str, through: u64) -> Result<bool, Unavailable>;

    /// Sets a webhook back to this index and forgets the events from there on that were passed over. False, with nothing changed, if
    /// it is not that far.
    async fn webhook_set_back(&self, name: &str, position: u64) -> Result<bool, Unavailable>;
}
