//! Sends events of operations to webhooks, in the format of Standard Webhooks 1.0.
//!
//! The log of all events is the outbox. The store has, for each webhook, the index up to which everything was accepted; after a crash
//! everything from there on is sent again. So each event arrives at least once, and the first arrivals of an operation's events are in
//! their order. Of several replicas one sends, as long as it says that it is there.

mod delivery;
mod file;
mod post;

use crate::settings::Settings;
use delivery::{Delivery, SendOnce, Sending};
use file::Webhook;
use gateway_api::wire::events::WebhookEvent;
use gateway_domain::error_chain;
use gateway_domain::ids::Tenant;
use gateway_domain::intent::Family;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{
    DeadLetter, Holder, KeepWebhooks, WebhookClaim, WebhookFailure, WebhookProgress,
};
use gateway_engine::{Engine, EngineError, Notice, NoticeFilter, Start, Unavailable, Visibility};
use gateway_service::StartError;
use gateway_service::rounds::{Rounds, until_stopped};
use gateway_service::telemetry::Descriptions;
use metrics::{counter, gauge};
use post::{Answer, Post};
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::Signal;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// The counter of this file with its description.
pub(crate) const COUNTERS: Descriptions =
    &[(REQUESTS, "Requests to webhooks, by webhook and result: accepted, refused or failed")];

/// The gauges of this file with their descriptions.
pub(crate) const GAUGES: Descriptions = &[
    (
        BEHIND,
        "Age of the oldest event that is being sent to a webhook; 0 without one, and in replicas that do not send to it",
    ),
    (
        DEAD_LETTERS,
        "Events that a webhook refused and that were passed over; 0 in replicas that do not send to it",
    ),
];

const REQUESTS: &str = "operation_gateway_webhook_requests_total";
const BEHIND: &str = "operation_gateway_webhook_behind_seconds";
const DEAD_LETTERS: &str = "operation_gateway_webhook_dead_letters";

/// For how long no other replica sends after this one has said that it is there.
const HELD_MS: u64 = 15_000;

/// How often it says so.
const HOLD_EVERY: Duration = Duration::from_secs(5);

/// How often it looks whether the webhook was set back.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The shortest time between two writes of what was accepted.
const WRITE_EVERY: Duration = Duration::from_millis(250);

/// Most connections to all webhooks.
pub(crate) const CONNECTIONS_MAX: usize = file::WEBHOOKS_MAX * delivery::AT_ONCE;

/// The webhooks of a deployment, and the file that names them.
pub(crate) struct Webhooks {
    path: PathBuf,
    webhooks: Vec<Webhook>,
}

impl Webhooks {
    /// Their names, for the operator.
    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self.webhooks.iter().map(|webhook| format!("`{}`", webhook.name)).collect();
        if names.is_empty() { "no webhook".to_owned() } else { names.join(", ") }
    }
}

/// Reads the file of webhooks; without one there are none.
///
/// # Errors
/// [`StartError`] naming the file.
pub(crate) fn open(settings: &Settings) -> Result<Option<Webhooks>, StartError> {
    let Some(path) = settings.operations.webhooks_file.clone() else { return Ok(None) };
    let webhooks = file::read(&path);
    let webhooks =
        webhooks.map_err(|why| StartError::new(format!("webhooks file `{}`", path.display()), why))?;
    Ok(Some(Webhooks { path, webhooks }))
}

/// Starts to send events until the gateway stops. On SIGHUP the file and the secrets are read again; if they cannot be used, the present
/// ones stay.
pub(crate) fn start(
    webhooks: Option<Webhooks>,
    tasks: &mut JoinSet<()>,
    engine: Engine,
    store: Arc<dyn KeepWebhooks>,
    hangups: Option<Signal>,
    stopping: &watch::Receiver<bool>,
) {
    let Some(webhooks) = webhooks else { return };
    let mut holder = Holder::default();
    if let Err(error) = getrandom::fill(&mut holder) {
        tracing::error!(%error, "there is no randomness, so nothing is sent to webhooks");
        return;
    }
    let source = Source { engine, store, holder };
    tasks.spawn(send(webhooks, source, Rounds::every_or_on(None, hangups, stopping.clone())));
}

/// Where events come from, and where their places are kept.
#[derive(Clone)]
struct Source {
    engine: Engine,
    store: Arc<dyn KeepWebhooks>,
    holder: Holder,
}

async fn send(Webhooks { path, mut webhooks }: Webhooks, source: Source, mut hangups: Rounds) {
    loop {
        let (stop, stopped) = watch::channel(false);
        let mut senders = JoinSet::new();
        for webhook in webhooks {
            let sender = Sender::new(webhook, source.clone());
            senders.spawn(sender.run(stopped.clone()));
        }
        let next = loop {
            if hangups.next().await.is_none() {
                break None;
            }
            match file::read(&path) {
                Ok(webhooks) => break Some(webhooks),
                Err(why) => {
                    tracing::error!(why, "could not reload the webhooks; the current ones stay in use");
                }
            }
        };
        stop.send_replace(true);
        while senders.join_next().await.is_some() {}
        match next {
            Some(next) => webhooks = next,
            None => return,
        }
        tracing::info!("reloaded the webhooks");
    }
}

/// Sends to one webhook.
struct Sender {
    name: String,
    filter: NoticeFilter,
    tenant: Option<Tenant>,
    delivery: Delivery<Once>,
    source: Source,
}

/// Makes the request for an event.
struct Once {
    name: String,
    post: Post,
}

impl SendOnce for Once {
    async fn send(&self, notice: &Notice) -> Answer {
        let (id, body) = WebhookEvent::message(notice);
        let answer = self.post.send(&id, gateway_service::now(), body).await;
        let result = match &answer {
            Answer::Accepted => "accepted",
            Answer::Refused(_) => "refused",
            Answer::Failed(_) => "failed",
        };
        counter!(REQUESTS, "webhook" => self.name.clone(), "result" => result).increment(1);
        answer
    }
}

/// Why a sender begins again at the place that the store has.
enum Ended {
    /// Another replica sends, the webhook was set back, or nothing may be written.
    Lost,
    Failed(EngineError),
}

impl From<EngineError> for Ended {
    fn from(error: EngineError) -> Self {
        Self::Failed(error)
    }
}

impl From<Unavailable> for Ended {
    fn from(error: Unavailable) -> Self {
        Self::Failed(error.into())
    }
}

/// What the store has, and what it does not have yet.
struct Place {
    n_resends: u64,
    /// As the store has it.
    stored: u64,
    /// Everything before was accepted or passed over.
    position: u64,
    failure: Option<WebhookFailure>,
    dead_letters: Vec<DeadLetter>,
    /// Whether the store does not have all of this yet.
    is_ahead: bool,
    /// Those in the store too.
    n_dead_letters: u64,
    written: Instant,
    looked: Instant,
}

impl Sender {
    fn new(webhook: Webhook, source: Source) -> Self {
        let Webhook { name, tenant, states, post } = webhook;
        let filter = NoticeFilter {
            visibility: tenant.clone().map_or(Visibility::Everything, Visibility::Tenant),
            families: vec![Family::Product, Family::Custody],
            states,
            operation_type: None,
            key_ref: None,
            operation_id: None,
        };
        let once = Once { name: name.clone(), post };
        let delivery = Delivery::new(once, gateway_service::now);
        Self { name, filter, tenant, delivery, source }
    }

    async fn run(self, mut stopped: watch::Receiver<bool>) {
        for result in ["accepted", "refused", "failed"] {
            counter!(REQUESTS, "webhook" => self.name.clone(), "result" => result).increment(0);
        }
        // The last such error that was told.
        let mut not_in_log = None;
        loop {
            let mut place = None;
            let ended = tokio::select! {
                ended = self.claim_and_send(&mut place) => ended,
                () = until_stopped(&mut stopped) => {
                    if let Some(place) = &mut place {
                        // What cannot be written now is sent again after the next start.
                        let _ended = self.write(place, EpochMs(0)).await;
                    }
                    break;
                }
            };
            match ended {
                // Another one sends, and shows how far it is.
                Ended::Lost => self.show(0, 0),
                Ended::Failed(error @ EngineError::NotInLog(_)) => {
                    let (webhook, error) = (self.name.as_str(), error.to_string());
                    if not_in_log.as_ref() != Some(&error) {
                        tracing::warn!(
                            webhook,
                            error,
                            "the place of a webhook is read from the database again"
                        );
                        not_in_log = Some(error);
                    }
                }
                // Readiness reports the store.
                Ended::Failed(error) => {
                    tracing::debug!(
                        webhook = self.name,
                        error = error_chain(&error),
                        "events could not be sent"
                    );
                }
            }
            tokio::select! {
                () = sleep(LOOK_EVERY) => {}
                () = until_stopped(&mut stopped) => break,
            }
        }
        self.show(0, 0);
    }

    /// Sends as long as the webhook is this replica's.
    async fn claim_and_send(&self, kept: &mut Option<Place>) -> Ended {
        match self.claim().await {
            Ok(Some(place)) => {
                let Err(ended) = self.send_from(kept.insert(place)).await;
                *kept = None;
                ended
            }
            Ok(None) => Ended::Lost,
            Err(ended) => ended,
        }
    }

    async fn claim(&self) -> Result<Option<Place>, Ended> {
        // A history that is not the right one is neither told nor continued.
        if !self.source.engine.may_write() {
            return Ok(None);
        }
        let now = gateway_service::now();
        let claim = WebhookClaim {
            name: self.name.clone(),
            tenant: self.tenant.clone(),
            holder: self.source.holder,
            now,
            until: now.plus_ms(HELD_MS),
        };
        let claimed = self.source.store.webhook_claim(claim).await?;
        let Some(webhook) = claimed else { return Ok(None) };
        self.delivery.begin(webhook.failure.clone());
        let written = Instant::now();
        Ok(Some(Place {
            n_resends: webhook.n_resends,
            stored: webhook.position,
            position: webhook.position,
            failure: webhook.failure,
            dead_letters: Vec::new(),
            is_ahead: false,
            n_dead_letters: webhook.n_dead_letters,
            written,
            looked: written,
        }))
    }

    async fn send_from(&self, place: &mut Place) -> Result<Infallible, Ended> {
        let mut reading = self.source.engine.read_log(Start::At(place.position), self.filter.clone()).await?;
        let mut sending = Sending::new(&self.delivery);
        loop {
            let wait = if place.is_ahead { WRITE_EVERY } else { LOOK_EVERY };
            let reads = sending.has_room() && !reading.has_ended();
            let went_well = tokio::select! {
                read = reading.next(Instant::now() + wait), if reads => {
                    read.map(|notices| sending.add(notices)).map_err(Ended::from)
                }
                refused = sending.next() => {
                    self.pass_over(place, refused);
                    Ok(())
                }
                () = sleep(wait) => Ok(()),
            };
            place.position = sending.oldest().map_or(reading.position(), |(index, _)| index);
            match sending.oldest() {
                Some((_, at)) => {
                    self.show(gateway_service::now().0.saturating_sub(at.0), place.n_dead_letters);
                }
                None if reading.is_at_end() => self.show(0, place.n_dead_letters),
                // Older events may still be read.
                None => {}
            }
            let kept = match went_well {
                Ok(()) => self.keep(place).await,
                failed => failed,
            };
            match kept {
                // What was accepted meanwhile is not thrown away for a moment without the store.
                Err(Ended::Failed(error))
                    if !matches!(error, EngineError::NotInLog(_))
                        && sending.oldest().is_some()
                        && place.written.elapsed() < Duration::from_millis(HELD_MS) =>
                {
                    sleep(WRITE_EVERY).await;
                }
                kept => kept?,
            }
        }
    }

    /// Notes an event that the webhook refused, if it is one.
    fn pass_over(&self, place: &mut Place, refused: Option<DeadLetter>) {
        place.is_ahead = true;
        let Some(letter) = refused else { return };
        let (webhook, DeadLetter { index, why, .. }) = (&self.name, &letter);
        tracing::warn!(webhook, index, why, "a webhook refused an event, which is passed over");
        place.n_dead_letters = place.n_dead_letters.saturating_add(1);
        place.dead_letters.push(letter);
    }

    /// Writes what is new, unless that was done just now, and looks whether the webhook was set back.
    async fn keep(&self, place: &mut Place) -> Result<(), Ended> {
        if !self.source.engine.may_write() {
            return Err(Ended::Lost);
        }
        let failure = self.delivery.failure();
        if failure != place.failure {
            match (&failure, &place.failure) {
                (Some(now), Some(before)) if now.why == before.why => {}
                (Some(now), _) => {
                    tracing::warn!(webhook = self.name, why = now.why, "a webhook gives no usable answer")
                }
                (None, _) => tracing::info!(webhook = self.name, "a webhook answers again"),
            }
        }
        place.is_ahead |= failure != place.failure;
        place.failure = failure;
        if place.written.elapsed() >= if place.is_ahead { WRITE_EVERY } else { HOLD_EVERY } {
            return self.write(place, gateway_service::now().plus_ms(HELD_MS)).await;
        }
        if place.looked.elapsed() >= LOOK_EVERY {
            place.looked = Instant::now();
            let stored = self.source.store.webhook(&self.name).await?;
            let stored = stored.filter(|stored| stored.n_resends == place.n_resends).ok_or(Ended::Lost)?;
            if place.dead_letters.is_empty() {
                place.n_dead_letters = stored.n_dead_letters;
            }
        }
        Ok(())
    }

    async fn write(&self, place: &mut Place, until: EpochMs) -> Result<(), Ended> {
        let progress = WebhookProgress {
            name: self.name.clone(),
            holder: self.source.holder,
            n_resends: place.n_resends,
            from: place.stored,
            position: place.position,
            failure: place.failure.clone(),
            dead_letters: place.dead_letters.clone(),
            until,
        };
        if !self.source.store.webhook_advance(progress).await? {
            return Err(Ended::Lost);
        }
        place.stored = place.position;
        place.dead_letters.clear();
        place.is_ahead = false;
        place.written = Instant::now();
        place.looked = place.written;
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float; 2^53 events are far away")]
    fn show(&self, behind_ms: u64, n_dead_letters: u64) {
        let behind = Duration::from_millis(behind_ms).as_secs_f64();
        gauge!(BEHIND, "webhook" => self.name.clone()).set(behind);
        gauge!(DEAD_LETTERS, "webhook" => self.name.clone()).set(n_dead_letters as f64);
    }
}
