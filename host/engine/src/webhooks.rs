//! What callers see of webhooks, and sending again.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::ports::{DeadLetter, Visibility, Webhook};
use gateway_domain::time::EpochMs;

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

/// The answer to a request to send events again.
#[derive(Clone, Debug)]
pub enum Resent {
    /// They are sent again.
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
    /// The webhooks of the caller's tenant, by name, and the index after the last event of the log.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`].
    pub async fn webhooks(&self, visibility: &Visibility) -> Result<(Vec<WebhookStatus>, u64), EngineError> {
        let now = self.0.ports.clock.now();
        let mut all = Vec::new();
        for webhook in self.0.ports.webhooks.webhooks(visibility).await? {
            all.push(self.webhook_status(webhook, now).await?);
        }
        Ok((all, self.0.ports.log.events_end().await?))
    }

    /// Sends all events from this index on to a webhook again. Those that it refused are sent again too.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`].
    pub async fn webhook_resend(
        &self,
        visibility: &Visibility,
        name: &str,
        from: u64,
    ) -> Result<Resent, EngineError> {
        self.0.check_may_write()?;
        let port = &self.0.ports.webhooks;
        let known = port.webhooks(visibility).await?;
        let Some(webhook) = known.into_iter().find(|webhook| webhook.name == name) else {
            return Ok(Resent::Unknown);
        };
        if !port.webhook_set_back(name, from).await? {
            return Ok(Resent::NotSentYet { position: webhook.position });
        }
        let webhook = port.webhook(name).await?.unwrap_or(webhook);
        let status = self.webhook_status(webhook, self.0.ports.clock.now()).await?;
        Ok(Resent::Yes(Box::new(status)))
    }

    async fn webhook_status(&self, webhook: Webhook, now: EpochMs) -> Result<WebhookStatus, EngineError> {
        let dead_letters = match webhook.n_dead_letters {
            0 => Vec::new(),
            _ => self.0.ports.webhooks.dead_letters(&webhook.name, DEAD_LETTERS_MAX).await?,
        };
        Ok(WebhookStatus { is_sent_to: webhook.held_until > now, webhook, dead_letters })
    }
}
