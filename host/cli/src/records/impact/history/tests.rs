//! Facts that follow from events, against the meaning that `wit/policy.wit` gives them.

use super::*;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::{Payment, PublicationMode};
use gateway_domain::operation::{Failure, Submission};
use gateway_domain::policy::FactRead;
use gateway_domain::policy::spending::{HOUR_MS, MINUTE_MS};
use gateway_domain::testing::samples::{self, Kind, hex32};
use gateway_domain::time::DAY_MS;
use gateway_engine::ports::Asked;

const AT: EpochMs = EpochMs(100 * DAY_MS);

fn payment(account: &str, recipient: &str, amount_minor: i64) -> Intent {
    let Intent::Payment(sample) = samples::intent(Kind::Payment, PublicationMode::Manual) else { panic!() };
    Intent::Payment(Payment {
        from_account: account.into(),
        to_account: recipient.into(),
        amount_minor,
        ..sample
    })
}

fn submission(id: u8, intent: Intent) -> Submission {
    let mut submission = samples::submission(intent, 2);
    submission.operation_id = OperationId(hex32(id));
    submission.key.key_id = intent::key_id(&submission.tenant, &submission.key.key_ref).unwrap();
    submission
}

/// A history, and the index of its next event.
#[derive(Default)]
struct Log {
    history: History,
    next: u64,
}

impl Log {
    fn add(&mut self, id: u8, at_ms: EpochMs, change: Change) {
        let event = Event { at_ms, change, requested_by: None, settles: None };
        let (ledger_index, operation_id) = (self.next, OperationId(hex32(id)));
        self.history.add(&PastEvent { ledger_index, operation_id, event });
        self.next += 1;
    }

    /// Submits a payment, which is admitted.
    fn admit(&mut self, id: u8, at: EpochMs, intent: Intent) {
        let submission = submission(id, intent);
        let policy = submission.policy.clone();
        let submitted = Change::Submitted(Box::new(submission));
        let event = Event { at_ms: at, change: submitted.clone(), requested_by: None, settles: None };
        let admission = Box::new(samples::admission(&replay([&event]).unwrap()));
        self.add(id, at, submitted);
        self.add(id, at, Change::DecisionSigned { policy, admission });
    }

    fn fail(&mut self, id: u8, at: EpochMs) {
        let failure = Failure { code: "x".into(), detail: String::new(), culprits: vec![] };
        self.add(id, at, Change::Failed { failure, policy: None, receipts: vec![] });
    }

    fn publish(&mut self, id: u8, at: EpochMs) {
        self.add(id, at, Change::Published { receipts: vec![], publication_receipt: String::new() });
    }

    /// A decision on this intent, before the event of this index.
    fn before(&self, ledger_index: u64, at_ms: EpochMs, intent: Intent) -> RecordedDecision {
        let Submission { tenant, key, submitter, intent, intent_hash, policy: outcome, .. } =
            submission(9, intent);
        let key_ref = key.key_ref;
        RecordedDecision {
            position: DecisionPosition::Event { ledger_index, seq: 1 },
            operation_id: Some(OperationId(hex32(9))),
            asked: Asked::default(),
            at_ms,
            input: Input {
                moment: Moment::Submit,
                intent_hash,
                tenant,
                key_ref,
                submitter,
                intent,
                approvals: vec![],
            },
            outcome,
            hash: Hex32::ZERO,
            is_intact: true,
        }
    }

    /// A decision after all events.
    fn now(&self, at_ms: EpochMs, intent: Intent) -> RecordedDecision {
        self.before(self.next, at_ms, intent)
    }

    fn fact(&self, decision: &RecordedDecision, name: &str) -> Option<String> {
        let rules =
            Rules { permitted_recipients: "*".into(), required_approvals: 2, separation_of_duties: false };
        self.history.facts(decision, &rules, Some).get(name).map(str::to_owned)
    }

    #[track_caller]
    fn check(&self, decision: &RecordedDecision, expected: &[(&str, Option<&str>)]) {
        for (name, expected) in expected {
            assert_eq!(self.fact(decision, name).as_deref(), *expected, "{name}");
        }
    }
}

#[test]
fn admitted_payments_count_by_party_until_they_fail() {
    let mut log = Log::default();
    log.admit(1, AT, payment("a", "x", 1));
    log.admit(2, AT, payment("a", "y", 10));
    log.admit(3, AT, payment("b", "x", 100));
    let one = payment("a", "x", 5);
    let units = |log: &Log, decision: &RecordedDecision| {
        ["account", "recipient", "submitter", "key"].map(|party| {
            log.fact(decision, &format!("velocity.{party}.24h.units")).unwrap().parse::<u64>().unwrap()
        })
    };
    assert_eq!(units(&log, &log.now(AT, one.clone())), [11, 101, 111, 111]);
    // The third payment is admitted by event 5.
    assert_eq!(units(&log, &log.before(5, AT, one.clone())), [11, 1, 11, 11]);
    log.fail(2, AT);
    assert_eq!(units(&log, &log.now(AT, one.clone())), [1, 101, 101, 101]);
    assert_eq!(units(&log, &log.before(6, AT, one.clone())), [11, 101, 111, 111], "before it failed");
    // A record that is in no event has its time only.
    let at =
        |at_ms| RecordedDecision { position: DecisionPosition::Refusal(1), ..log.now(at_ms, one.clone()) };
    assert_eq!(units(&log, &at(AT)), [1, 101, 101, 101]);
    assert_eq!(units(&log, &at(EpochMs(AT.0 - 1))), [0; 4]);
    let mut euro = one;
    if let Intent::Payment(payment) = &mut euro {
        payment.currency = "XTS".into();
    }
    assert_eq!(units(&log, &log.now(AT, euro)), [0; 4], "of another currency");
    let action = samples::intent(Kind::AssetAction, PublicationMode::Manual);
    log.check(&log.now(AT, action), &[("velocity.account.24h.units", None)]);
}

#[test]
fn payment_counts_until_the_window_has_passed_since_the_end_of_its_minute() {
    let mut log = Log::default();
    log.admit(1, AT.plus_ms(7), payment("a", "x", 1));
    let (hour, end) = (["velocity.account.1h.count", "velocity.account.24h.count"], AT.plus_ms(MINUTE_MS));
    for (at, expected) in
        [(end.0 + HOUR_MS - 1, ["1", "1"]), (end.0 + HOUR_MS, ["0", "1"]), (end.0 + DAY_MS, ["0", "0"])]
    {
        let decision = log.now(EpochMs(at), payment("a", "x", 1));
        log.check(&decision, &[(hour[0], Some(expected[0])), (hour[1], Some(expected[1]))]);
    }
    // The recorded time of the evaluation is the end of the window.
    let mut decision = log.now(EpochMs(end.0 + HOUR_MS), payment("a", "x", 1));
    let value = Some((end.0 + HOUR_MS - 1).to_string());
    decision.outcome.facts = vec![FactRead { name: "time.now_ms".into(), value: value.clone() }];
    log.check(&decision, &[(hour[0], Some("1")), ("time.now_ms", value.as_deref())]);
}

#[test]
fn recipient_is_known_from_the_publication_on() {
    let mut log = Log::default();
    let facts = ["recipient.first_paid_ms", "recipient.paid_count"];
    log.admit(1, AT, payment("a", "x", 1));
    log.check(&log.now(AT, payment("a", "x", 1)), &facts.map(|name| (name, None)));
    log.publish(1, AT);
    for id in 2..8 {
        log.admit(id, AT, payment("b", "x", 1));
        log.publish(id, AT);
    }
    let not_before = samples::admission(
        &replay([&Event {
            at_ms: AT,
            change: Change::Submitted(Box::new(submission(1, payment("a", "x", 1)))),
            requested_by: None,
            settles: None,
        }])
        .unwrap(),
    )
    .decision
    .not_before_ms;
    let first = not_before.0.to_string();
    log.check(&log.now(AT, payment("a", "x", 1)), &[(facts[0], Some(&first)), (facts[1], Some("4"))]);
    log.check(&log.before(3, AT, payment("a", "x", 1)), &[(facts[0], Some(&first)), (facts[1], Some("1"))]);
    log.check(&log.now(AT, payment("a", "y", 1)), &facts.map(|name| (name, None)));
}

#[test]
fn key_is_as_it_was_before_the_decision() {
    let mut log = Log::default();
    let creation = submission(1, samples::intent(Kind::KeyCreate, PublicationMode::Manual));
    log.add(1, AT, Change::Submitted(Box::new(creation)));
    log.fail(1, AT);
    let state = |ledger_index| log.fact(&log.before(ledger_index, AT, payment("a", "x", 1)), "key.state");
    let states = [0, 1, 2].map(state);
    assert_eq!(states, [None, Some("creating".to_owned()), Some("failed".to_owned())]);
}

#[test]
fn settings_are_uncertain_and_facts_of_no_event_are_unknown() {
    let at = |moment| {
        let mut decision = Log::default().now(AT, payment("a", "x", 1));
        decision.input.moment = moment;
        decision
    };
    for name in [
        "velocity.account.1h.units",
        "recipient.paid_count",
        "key.epoch",
        "time.now_ms",
        "time.hour.UTC",
        "signature.taproot_merkle_root",
        "x.other",
    ] {
        assert_eq!(standing(name, &at(Moment::Submit)), Standing::Computed, "{name}");
    }
    assert_eq!(standing("deployment.required_approvals", &at(Moment::Submit)), Standing::Uncertain);
    assert_eq!(standing("document.rates", &at(Moment::Submit)), Standing::Unknown);
    for claimed in [PENDING_COUNT, "claim.department"] {
        let standing = [Moment::Submit, Moment::Admission].map(|moment| standing(claimed, &at(moment)));
        assert_eq!(standing, [Standing::Unknown, Standing::Computed], "{claimed}");
    }
    let creation = samples::intent(Kind::KeyCreate, PublicationMode::Manual);
    let mut creation = Log::default().now(AT, creation);
    creation.input.moment = Moment::Approval;
    assert_eq!(standing("key.epoch", &creation), Standing::Unknown);
}
