//! Sends events until each is accepted or passed over: those of an operation one after another, those of different operations beside each
//! other. An event that is refused holds back its own operation alone; one without a usable answer also the others, until one of them has
//! one.

use super::post::Answer;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use gateway_domain::ids::OperationId;
use gateway_domain::time::EpochMs;
use gateway_engine::Notice;
use gateway_engine::ports::{DeadLetter, WebhookFailure};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// Requests at the same time.
pub(super) const AT_ONCE: usize = 16;

/// Events that are read before they are accepted or passed over.
const UNSENT_MAX: usize = 1024;

/// The wait before the second try, which doubles with each further one.
const WAIT_MIN: Duration = Duration::from_secs(1);

/// The longest wait: so long after a webhook is back it is noticed.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Tries after which an event is passed over that the webhook refuses.
const REFUSALS_MAX: u32 = 6;

/// The longest wait between two of them, so that they take a quarter of a minute.
const REFUSED_WAIT_MAX: Duration = Duration::from_secs(4);

/// Sends one event once.
pub(super) trait SendOnce: Sync {
    fn send(&self, notice: &Notice) -> impl Future<Output = Answer> + Send;
}

/// The state of a webhook while events are sent to it.
pub(super) struct Delivery<S> {
    once: S,
    now: fn() -> EpochMs,
    requests: Semaphore,
    /// Held by the one event that is tried while the webhook is down, which gets one request at a time. Events take turns, since an event
    /// of its own may be the reason.
    turns: tokio::sync::Mutex<()>,
    outage: Mutex<Option<Outage>>,
}

/// While there is no usable answer.
struct Outage {
    failure: WebhookFailure,
    /// The wait before the next try.
    wait: Duration,
}

impl<S: SendOnce> Delivery<S> {
    pub(super) fn new(once: S, now: fn() -> EpochMs) -> Self {
        Self {
            once,
            now,
            requests: Semaphore::new(AT_ONCE),
            turns: tokio::sync::Mutex::default(),
            outage: Mutex::default(),
        }
    }

    /// Begins where the webhook was left, by this process or another one.
    pub(super) fn begin(&self, failure: Option<WebhookFailure>) {
        *self.outage.lock() = failure.map(|failure| Outage { failure, wait: WAIT_MIN });
    }

    /// Why there is no usable answer at present.
    pub(super) fn failure(&self) -> Option<WebhookFailure> {
        self.outage.lock().as_ref().map(|outage| outage.failure.clone())
    }

    /// Sends the event, which takes as long as the webhook does not accept it. Returns it if the webhook refused it.
    async fn send(&self, notice: &Notice) -> Option<DeadLetter> {
        let (mut n_refusals, mut n_failures) = (0, 0);
        loop {
            let turn = self.turn().await;
            if turn.is_none() && n_failures > 0 {
                // Others are accepted, so it is about this event.
                sleep(wait_after(n_failures)).await;
            }
            let answer = {
                // The semaphore is never closed.
                let _permit = self.requests.acquire().await;
                if turn.is_none() && self.is_down() {
                    continue;
                }
                self.once.send(notice).await
            };
            drop(turn);
            match answer {
                Answer::Accepted => {
                    self.answered();
                    return None;
                }
                Answer::Refused(why) => {
                    self.answered();
                    n_refusals += 1;
                    if n_refusals == REFUSALS_MAX {
                        return Some(DeadLetter { index: notice.index, at: (self.now)(), why });
                    }
                    sleep(wait_after(n_refusals).min(REFUSED_WAIT_MAX)).await;
                }
                Answer::Failed(why) => {
                    self.failed(why);
                    n_failures += 1;
                }
            }
        }
    }

    /// While the webhook is down, waits for this event's turn to find out whether it is back.
    async fn turn(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        self.outage.lock().as_ref()?;
        let turn = self.turns.lock().await;
        let wait = {
            let mut outage = self.outage.lock();
            let outage = outage.as_mut()?;
            let wait = outage.wait;
            outage.wait = (wait * 2).min(WAIT_MAX);
            wait
        };
        sleep(wait).await;
        Some(turn)
    }

    fn is_down(&self) -> bool {
        self.outage.lock().is_some()
    }

    /// The webhook answers.
    fn answered(&self) {
        *self.outage.lock() = None;
    }

    fn failed(&self, why: String) {
        let mut outage = self.outage.lock();
        match outage.as_mut() {
            Some(outage) => outage.failure.why = why,
            None => {
                let failure = WebhookFailure { since: (self.now)(), why };
                *outage = Some(Outage { failure, wait: WAIT_MIN });
            }
        }
    }
}

/// The wait after so many tries, which doubles with each.
fn wait_after(n_tries: u32) -> Duration {
    (WAIT_MIN * 2_u32.saturating_pow(n_tries.saturating_sub(1))).min(WAIT_MAX)
}

/// Events that are being sent.
pub(super) struct Sending<'d, S> {
    delivery: &'d Delivery<S>,
    /// The first event of each operation.
    running: FuturesUnordered<BoxFuture<'d, (Arc<Notice>, Option<DeadLetter>)>>,
    /// The events after that, for each operation of which one is being sent.
    waiting: BTreeMap<OperationId, VecDeque<Arc<Notice>>>,
    /// The time of each event that is neither accepted nor passed over, by its index.
    unsent: BTreeMap<u64, EpochMs>,
}

impl<'d, S: SendOnce> Sending<'d, S> {
    pub(super) fn new(delivery: &'d Delivery<S>) -> Self {
        let running = FuturesUnordered::new();
        Self { delivery, running, waiting: BTreeMap::new(), unsent: BTreeMap::new() }
    }

    /// Adds events that come after all others.
    pub(super) fn add(&mut self, notices: Vec<Arc<Notice>>) {
        for notice in notices {
            self.unsent.insert(notice.index, notice.at);
            match self.waiting.get_mut(&notice.operation_id) {
                Some(waiting) => waiting.push_back(notice),
                None => {
                    self.waiting.insert(notice.operation_id, VecDeque::new());
                    self.begin(notice);
                }
            }
        }
    }

    fn begin(&self, notice: Arc<Notice>) {
        let delivery = self.delivery;
        self.running.push(Box::pin(async move {
            let refused = delivery.send(&notice).await;
            (notice, refused)
        }));
    }

    /// Waits until an event is accepted or passed over; returns it in the second case. Can be dropped at any time.
    pub(super) async fn next(&mut self) -> Option<DeadLetter> {
        let Some((notice, refused)) = self.running.next().await else { return std::future::pending().await };
        self.unsent.remove(&notice.index);
        match self.waiting.get_mut(&notice.operation_id).and_then(VecDeque::pop_front) {
            Some(next) => self.begin(next),
            None => _ = self.waiting.remove(&notice.operation_id),
        }
        refused
    }

    /// Whether more events may be added.
    pub(super) fn has_room(&self) -> bool {
        self.unsent.len() < UNSENT_MAX
    }

    /// Index and time of the oldest event that is neither accepted nor passed over.
    pub(super) fn oldest(&self) -> Option<(u64, EpochMs)> {
        self.unsent.first_key_value().map(|(index, at)| (*index, *at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::ids::{Hex32, KeyRef, Tenant};
    use gateway_domain::intent::{Family, OperationType};
    use gateway_domain::operation::State;
    use std::collections::BTreeSet;
    use tokio::time::Instant;

    /// Events of `n_operations` operations, mixed.
    fn notices(n_operations: u8, n_each: u64) -> Vec<Arc<Notice>> {
        let numbers = (1..=n_each).flat_map(|seq| (0..n_operations).map(move |byte| (seq, byte)));
        let notice = |(index, (seq, byte)): (u64, (u64, u8))| {
            Arc::new(Notice {
                index,
                at: EpochMs(index),
                operation_id: OperationId(Hex32::new([byte; 32])),
                seq,
                event_hash: Hex32::ZERO,
                change: "submitted",
                state: State::Submitted,
                family: Family::Product,
                operation_type: OperationType::Sign,
                key_ref: KeyRef("treasury-1".to_owned()),
                tenant: Tenant("default".to_owned()),
            })
        };
        (0..).zip(numbers).map(notice).collect()
    }

    /// A webhook that is down for a time, refuses some events, fails with others until then, and keeps what it accepts.
    struct Consumer {
        up_at: Instant,
        fails_with: BTreeMap<u64, Instant>,
        refused: BTreeSet<u64>,
        asked: Mutex<Vec<(Instant, u64)>>,
        accepted: Mutex<Vec<(OperationId, u64)>>,
        /// When the last event of each operation was accepted.
        last: Mutex<BTreeMap<OperationId, Instant>>,
        at_once: Mutex<(usize, usize)>,
    }

    impl Consumer {
        fn up_after(down: Duration) -> Self {
            Self {
                up_at: Instant::now() + down,
                fails_with: BTreeMap::new(),
                refused: BTreeSet::new(),
                asked: Mutex::default(),
                accepted: Mutex::default(),
                last: Mutex::default(),
                at_once: Mutex::default(),
            }
        }
    }

    impl SendOnce for &Consumer {
        async fn send(&self, notice: &Notice) -> Answer {
            {
                let (now, most) = &mut *self.at_once.lock();
                *now += 1;
                *most = (*most).max(*now);
            }
            self.asked.lock().push((Instant::now(), notice.index));
            sleep(Duration::from_millis(5)).await;
            self.at_once.lock().0 -= 1;
            if Instant::now() < self.up_at {
                return Answer::Failed("is down".to_owned());
            }
            if self.fails_with.get(&notice.index).is_some_and(|until| Instant::now() < *until) {
                return Answer::Failed("answers with status 500".to_owned());
            }
            if self.refused.contains(&notice.index) {
                return Answer::Refused("answers with status 422".to_owned());
            }
            self.accepted.lock().push((notice.operation_id, notice.seq));
            *self.last.lock().entry(notice.operation_id).or_insert_with(Instant::now) = Instant::now();
            Answer::Accepted
        }
    }

    /// Sends all events. Returns those that the webhook refused.
    async fn send_all(delivery: &Delivery<&Consumer>, notices: Vec<Arc<Notice>>) -> Vec<DeadLetter> {
        let (mut sending, mut refused) = (Sending::new(delivery), Vec::new());
        sending.add(notices);
        while sending.oldest().is_some() {
            refused.extend(sending.next().await);
        }
        refused
    }

    fn assert_in_order(consumer: &Consumer, n_operations: u8, n_each: u64) {
        let mut by_operation: BTreeMap<OperationId, Vec<u64>> = BTreeMap::new();
        for (id, seq) in consumer.accepted.lock().iter() {
            by_operation.entry(*id).or_default().push(*seq);
        }
        assert_eq!(by_operation.len(), usize::from(n_operations));
        for (id, seqs) in by_operation {
            assert_eq!(seqs, (1..=n_each).collect::<Vec<_>>(), "{id}");
        }
    }

    const NOW: fn() -> EpochMs = || EpochMs(42);

    #[tokio::test(start_paused = true)]
    async fn consumer_that_was_down_for_an_hour_gets_everything_in_order() {
        const DOWN: Duration = Duration::from_secs(3600);
        let (consumer, began) = (Consumer::up_after(DOWN), Instant::now());
        let delivery = Delivery::new(&consumer, NOW);
        let (refused, failure) = tokio::join!(send_all(&delivery, notices(40, 6)), async {
            sleep(DOWN / 2).await;
            delivery.failure()
        });
        assert_eq!(refused, []);
        assert_eq!(failure, Some(WebhookFailure { since: EpochMs(42), why: "is down".to_owned() }));
        assert_eq!(delivery.failure(), None);
        assert_in_order(&consumer, 40, 6);
        assert!(began.elapsed() < DOWN + WAIT_MAX + Duration::from_secs(20), "{:?}", began.elapsed());
        // While it was down it was asked about once a minute, after the first requests.
        let asked = consumer.asked.lock();
        let n_asked = asked.iter().filter(|(at, _)| *at < consumer.up_at).count();
        assert!(n_asked < 2 * AT_ONCE + 80, "{n_asked}");
        assert_eq!(consumer.at_once.lock().1, AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn event_with_which_the_consumer_fails_delays_others_by_seconds() {
        const FAILS: Duration = Duration::from_secs(1800);
        let (mut consumer, began) = (Consumer::up_after(Duration::ZERO), Instant::now());
        consumer.fails_with = [(0, began + FAILS), (3, began + FAILS)].into();
        let delivery = Delivery::new(&consumer, NOW);
        assert_eq!(send_all(&delivery, notices(200, 6)).await, []);
        assert_in_order(&consumer, 200, 6);
        let last = consumer.last.lock();
        let others = last.iter().filter(|(id, _)| ![0, 3].contains(&id.0.as_bytes()[0]));
        let latest = others.map(|(_, at)| *at - began).max().unwrap();
        assert!(latest < Duration::from_secs(20), "{latest:?}");
        assert!(began.elapsed() < FAILS + 2 * WAIT_MAX, "{:?}", began.elapsed());
        let n_asked = consumer.asked.lock().iter().filter(|(_, index)| *index == 0).count();
        assert!(n_asked < 50, "{n_asked}");
    }

    #[tokio::test(start_paused = true)]
    async fn refused_events_are_passed_over_and_delay_no_other_operation() {
        const N_REFUSED: u8 = 40;
        let mut consumer = Consumer::up_after(Duration::ZERO);
        // The second events of most operations.
        let n_operations = N_REFUSED + 2;
        consumer.refused = (0..N_REFUSED).map(|nth| u64::from(n_operations + nth)).collect();
        let (delivery, began) = (Delivery::new(&consumer, NOW), Instant::now());
        let mut refused = send_all(&delivery, notices(n_operations, 3)).await;
        refused.sort_by_key(|letter| letter.index);
        let letter = |index: &u64| DeadLetter {
            index: *index,
            at: EpochMs(42),
            why: "answers with status 422".to_owned(),
        };
        assert_eq!(refused, consumer.refused.iter().map(letter).collect::<Vec<_>>());
        assert_eq!(consumer.accepted.lock().len(), 3 * usize::from(n_operations) - refused.len());
        let asked = consumer.asked.lock();
        for refused in &consumer.refused {
            assert_eq!(asked.iter().filter(|(_, index)| index == refused).count(), 6);
        }
        let of_others =
            asked.iter().filter(|(_, index)| index % u64::from(n_operations) >= u64::from(N_REFUSED));
        let last = of_others.map(|(at, _)| *at).max().unwrap();
        assert!(last - began < Duration::from_secs(1), "{:?}", last - began);
        // Refused events do not wait for each other: 1 + 2 + 4 + 4 + 4 seconds for all.
        assert!(began.elapsed() < Duration::from_secs(16), "{:?}", began.elapsed());
        assert_eq!(delivery.failure(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn events_that_come_later_do_not_wait_for_a_refused_one() {
        let mut consumer = Consumer::up_after(Duration::ZERO);
        consumer.refused = [0].into();
        let (delivery, began) = (Delivery::new(&consumer, NOW), Instant::now());
        let mut sending = Sending::new(&delivery);
        let mut later = notices(8, 200);
        sending.add(later.drain(..1).collect());
        while !later.is_empty() {
            sending.add(later.drain(..later.len().min(8)).collect());
            while sending.unsent.len() > 200 {
                assert_eq!(sending.next().await, None);
            }
        }
        // All events of the other seven operations; the place does not pass the one that is tried again.
        while sending.unsent.len() > 200 {
            assert_eq!(sending.next().await, None);
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert_eq!(sending.oldest(), Some((0, EpochMs(0))));
        assert_eq!(sending.next().await.map(|letter| letter.index), Some(0));
        while sending.oldest().is_some() {
            assert_eq!(sending.next().await, None);
        }
        assert_eq!(consumer.accepted.lock().len(), 8 * 200 - 1);
    }
}
