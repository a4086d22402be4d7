//! What callers see of webhooks, and sending again.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::ports::{DeadLetter, VisibleWebhooks, Webhook};

/// The oldest dead letters that are shown.
const DEAD_LETTERS_MAX: u32 = 20;

/// The state of a webhook.
#[derive(Clone, Debug)]
pub struct WebhookStatus {
    /// The webhook.
    pub webhook: Webhook,
    /// The oldest events that it refused and that were passed over.
    pub dead_letters: Vec<DeadLetter>,
    /// Whether a process sends to it.
    pub is_sent_to: bool,
}

/// The answer to a request that changes a webhook.
#[derive(Clone, Debug)]
pub enum WebhookChanged {
    /// It is done.
    Yes(Box<WebhookStatus>),
    /// There is no such webhook, or the caller may not know of it.
    Unknown,
    /// The index is beyond the events that were sent.
    NotSentYet {
        /// Index of the first event that was not sent yet.
        position: u64,
    },
}

impl Engine {
    /// The webhooks that the caller can see, by name, and the index after the last event of the log.
    pub async fn webhooks(
        &self,
        visible: &VisibleWebhooks,
    ) -> Result<(Vec<WebhookStatus>, u64), EngineError> {
        let mut all = Vec::new();
        for webhook in self.0.ports.webhooks.webhooks(visible).await? {
            all.push(self.webhook_status(webhook).await?);
        }
        let last = self.0.ports.log.last_event().await?;
        Ok((all, last.map_or(0, |last| last.index.saturating_add(1))))
    }

    /// Sends all events from this index on to a webhook again. Those that it refused are sent again too.
    pub async fn webhook_resend(
        &self,
        visible: &VisibleWebhooks,
        name: &str,
        from: u64,
    ) -> Result<WebhookChanged, EngineError> {
        let Some(webhook) = self.webhook_to_change(visible, name).await? else {
            return Ok(WebhookChanged::Unknown);
        };
        if !self.0.ports.webhooks.webhook_set_back(name, from).await? {
            return Ok(WebhookChanged::NotSentYet { position: webhook.position });
        }
        self.webhook_changed(webhook).await
    }

    /// Forgets the events up to this index that a webhook refused.
    pub async fn webhook_dismiss(
        &self,
        visible: &VisibleWebhooks,
        name: &str,
        through: u64,
    ) -> Result<WebhookChanged, EngineError> {
        let Some(webhook) = self.webhook_to_change(visible, name).await? else {
            return Ok(WebhookChanged::Unknown);
        };
        self.0.ports.webhooks.dead_letters_dismiss(name, through).await?;
        self.webhook_changed(webhook).await
    }

    async fn webhook_to_change(
        &self,
        visible: &VisibleWebhooks,
        name: &str,
    ) -> Result<Option<Webhook>, EngineError> {
        self.0.check_may_write()?;
        let known = self.0.ports.webhooks.webhooks(visible).await?;
        Ok(known.into_iter().find(|webhook| webhook.name == name))
    }

    async fn webhook_changed(&self, before: Webhook) -> Result<WebhookChanged, EngineError> {
        let webhook = self.0.ports.webhooks.webhook(&before.name).await?.unwrap_or(before);
        Ok(WebhookChanged::Yes(Box::new(self.webhook_status(webhook).await?)))
    }

    async fn webhook_status(&self, webhook: Webhook) -> Result<WebhookStatus, EngineError> {
        let dead_letters = match webhook.n_dead_letters {
            0 => Vec::new(),
            _ => self.0.ports.webhooks.dead_letters(&webhook.name, DEAD_LETTERS_MAX).await?,
        };
        Ok(WebhookStatus { is_sent_to: webhook.held_until > self.0.ports.clock.now(), webhook, dead_letters })
    }
}
