//! The places of webhooks.

use super::Deployment;
use super::samples::{opening, payment, submission, written};
use crate::Store;
use gateway_domain::ids::Tenant;
use gateway_domain::time::EpochMs;
use gateway_engine::Visibility;
use gateway_engine::ports::{
    DeadLetter, Holder, KeepWebhooks as _, ReadLog as _, VisibleWebhooks, Webhook, WebhookClaim,
    WebhookFailure, WebhookProgress,
};

pub(crate) const ONE: Holder = [1; 16];
pub(crate) const OTHER: Holder = [2; 16];

/// For how long a process has a webhook, in these tests.
const HELD_MS: u64 = 30;

pub(crate) async fn claim(store: &Store, name: &str, holder: Holder, now: u64) -> Option<Webhook> {
    let tenant = Some(Tenant(format!("of {name}")));
    let (now, until) = (EpochMs(now), EpochMs(now + HELD_MS));
    store.webhook_claim(WebhookClaim { name: name.to_owned(), tenant, holder, now, until }).await.unwrap()
}

fn progress(webhook: &Webhook, holder: Holder, position: u64) -> WebhookProgress {
    WebhookProgress {
        name: webhook.name.clone(),
        holder,
        n_resends: webhook.n_resends,
        from: webhook.position,
        position,
        failure: None,
        dead_letters: Vec::new(),
        until: webhook.held_until,
    }
}

/// A store with events of one payment.
async fn with_events(deployment: &impl Deployment) -> u64 {
    let store = deployment.open().await;
    written(&store, opening(submission(1, payment()), EpochMs(1))).await;
    let end = store.last_event().await.unwrap().unwrap().index + 1;
    store.close().await;
    assert!(end > 1);
    end
}

pub(crate) async fn webhook_begins_at_the_end_of_the_log(deployment: &impl Deployment) {
    let end = with_events(deployment).await;
    let store = deployment.open().await;
    assert_eq!(store.webhook("books").await.unwrap(), None);
    let begun = Webhook {
        name: "books".to_owned(),
        tenant: Some(Tenant("of books".to_owned())),
        position: end,
        n_resends: 0,
        held_until: EpochMs(130),
        failure: None,
        n_dead_letters: 0,
    };
    assert_eq!(claim(&store, "books", ONE, 100).await, Some(begun.clone()));
    written(&store, opening(submission(2, payment()), EpochMs(2))).await;
    store.close().await;
    let store = deployment.open().await;
    assert_eq!(store.webhook("books").await.unwrap(), Some(begun), "it stays where it was");
    claim(&store, "alerts", ONE, 100).await;
    let named = |of, of_all| {
        let store = &store;
        async move {
            let webhooks = store.webhooks(&VisibleWebhooks { of, of_all }).await.unwrap().into_iter();
            webhooks.map(|webhook| webhook.name).collect::<Vec<_>>()
        }
    };
    let all = WebhookClaim {
        name: "all".to_owned(),
        tenant: None,
        holder: ONE,
        now: EpochMs(1),
        until: EpochMs(2),
    };
    store.webhook_claim(all).await.unwrap();
    let of = |name: &str| Visibility::Tenant(Tenant(format!("of {name}")));
    assert_eq!(named(Visibility::Everything, false).await, ["alerts", "books"]);
    assert_eq!(named(Visibility::Everything, true).await, ["alerts", "all", "books"]);
    assert_eq!(named(of("books"), false).await, ["books"]);
    assert_eq!(named(of("books"), true).await, ["all", "books"]);
    assert_eq!(named(of("none"), false).await, [""; 0]);
}

pub(crate) async fn webhook_is_advanced_only_by_the_process_that_has_it(deployment: &impl Deployment) {
    with_events(deployment).await;
    let store = deployment.open().await;
    let webhook = claim(&store, "books", ONE, 100).await.unwrap();
    let taken = claim(&store, "books", OTHER, 130).await.unwrap();
    assert!(!store.webhook_advance(progress(&webhook, ONE, 1)).await.unwrap(), "another process has it");
    assert!(store.webhook_advance(progress(&taken, OTHER, 1)).await.unwrap());
    assert!(!store.webhook_advance(progress(&taken, OTHER, 2)).await.unwrap(), "it is not where it was left");
    // A clock that was set back, or another process's that is far ahead, keeps a webhook from no process.
    assert!(claim(&store, "books", ONE, 10).await.is_some());
    assert_eq!(store.webhook("books").await.unwrap().unwrap().position, 1);
}

pub(crate) async fn process_does_not_advance_a_webhook_that_was_set_back(deployment: &impl Deployment) {
    let end = with_events(deployment).await;
    let store = deployment.open().await;
    let webhook = claim(&store, "books", ONE, 100).await.unwrap();
    assert!(!store.webhook_set_back("books", end + 1).await.unwrap(), "events that were not sent yet");
    assert!(!store.webhook_set_back("other", 0).await.unwrap());
    assert!(store.webhook_set_back("books", 1).await.unwrap());
    assert!(!store.webhook_advance(progress(&webhook, ONE, end)).await.unwrap());
    let webhook = claim(&store, "books", ONE, 100).await.unwrap();
    assert_eq!((webhook.position, webhook.n_resends), (1, 1));
    assert!(store.webhook_advance(progress(&webhook, ONE, end)).await.unwrap());
    // To the same place: what the process has sent since is sent again too.
    assert!(store.webhook_set_back("books", end).await.unwrap());
    assert!(!store.webhook_advance(progress(&webhook, ONE, end)).await.unwrap());
    assert!(!store.webhook_set_back("books", u64::MAX).await.unwrap());
}

pub(crate) async fn dead_letters_and_failures_are_read_back(deployment: &impl Deployment) {
    with_events(deployment).await;
    let store = deployment.open().await;
    let webhook = claim(&store, "books", ONE, 100).await.unwrap();
    let letter = |index| DeadLetter { index, at: EpochMs(7), why: format!("refused {index}") };
    let failure = WebhookFailure { since: EpochMs(8), why: "does not answer".to_owned() };
    let failing = WebhookProgress {
        failure: Some(failure.clone()),
        dead_letters: vec![letter(1), letter(0)],
        ..progress(&webhook, ONE, 2)
    };
    assert!(store.webhook_advance(failing.clone()).await.unwrap());
    let again = WebhookProgress { from: 2, ..failing };
    assert!(store.webhook_advance(again).await.unwrap(), "passed over again");
    store.close().await;
    let store = deployment.open().await;
    let webhook = store.webhook("books").await.unwrap().unwrap();
    assert_eq!((webhook.failure.clone(), webhook.n_dead_letters), (Some(failure), 2));
    assert_eq!(store.dead_letters("books", 10).await.unwrap(), [letter(0), letter(1)]);
    assert_eq!(store.dead_letters("books", 1).await.unwrap(), [letter(0)]);
    assert_eq!(store.dead_letters("other", 10).await.unwrap(), []);
    assert!(store.webhook_set_back("books", 1).await.unwrap());
    assert_eq!(store.dead_letters("books", 10).await.unwrap(), [letter(0)], "the other one is sent again");
    let webhook = claim(&store, "books", ONE, 100).await.unwrap();
    assert!(store.webhook_advance(progress(&webhook, ONE, 1)).await.unwrap());
    assert_eq!(store.webhook("books").await.unwrap().unwrap().failure, None);
    assert!(!store.dead_letters_dismiss("other", 9).await.unwrap());
    assert!(store.dead_letters_dismiss("books", 0).await.unwrap());
    assert_eq!(store.dead_letters("books", 10).await.unwrap(), []);
}

pub(crate) async fn newest_dead_letters_of_the_present_tenant_are_kept(deployment: &impl Deployment) {
    with_events(deployment).await;
    let store = deployment.open().await;
    let webhook = claim(&store, "books", ONE, 100).await.unwrap();
    let letter = |index| DeadLetter { index, at: EpochMs(7), why: String::new() };
    let refused =
        WebhookProgress { dead_letters: (0..1003).map(letter).collect(), ..progress(&webhook, ONE, 1003) };
    assert!(store.webhook_advance(refused).await.unwrap());
    assert_eq!(store.webhook("books").await.unwrap().unwrap().n_dead_letters, 1000);
    assert_eq!(store.dead_letters("books", 1).await.unwrap(), [letter(3)]);
    assert_eq!(claim(&store, "books", ONE, 100).await.unwrap().n_dead_letters, 1000);
    let of_another = WebhookClaim {
        name: "books".to_owned(),
        tenant: None,
        holder: ONE,
        now: EpochMs(100),
        until: EpochMs(130),
    };
    let of_another = store.webhook_claim(of_another).await.unwrap().unwrap();
    assert_eq!((of_another.tenant, of_another.n_dead_letters, of_another.position), (None, 0, 1003));
}
