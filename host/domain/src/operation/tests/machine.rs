//! A minimal engine that can crash: a log, of which a part is durable, a state in memory, and seeded randomness.

use super::environment::Environment;
use super::invariants;
use crate::operation::{
    Action, Command, EffectStep, Event, Operation, Refusal, Step, Submission, decide, evolve,
    may_wait_for_outcome, next, open, replay,
};
use crate::policy::{ADMIT_NOT_BEFORE, Moment, Outcome, Request, Statement};
use crate::testing::samples;
use crate::time::EpochMs;

/// The random generator xorshift64*. The same seed gives the same run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

pub(crate) struct Machine {
    pub(crate) log: Vec<Event>,
    /// The numbers of its events that are committed, and of the outcomes that were reported by then.
    n_durable: (usize, usize),
    pub(crate) operation: Operation,
    pub(crate) environment: Environment,
    pub(crate) random: Random,
    pub(crate) now: EpochMs,
    pub(crate) n_crashes: u64,
    /// Crashes that lost events.
    pub(crate) n_lost: u64,
    /// Outcomes that were reported, some of which are reported again later.
    pub(crate) outcomes: Vec<Action>,
}

impl Machine {
    pub(crate) fn submit(seed: u64, mut submission: Submission) -> Self {
        let now = EpochMs(1_000);
        let request = Request {
            moment: Moment::Submit,
            intent_hash: submission.intent_hash,
            tenant: &submission.tenant,
            key_ref: &submission.key.key_ref,
            submitter: &submission.submitter,
            intent: &submission.intent,
            approvals: &[],
        };
        submission.policy = samples::evaluated(&request, submission.policy.clone());
        let log = open(submission, now);
        let operation = replay(&log).unwrap();
        Self {
            n_durable: (log.len(), 0),
            log,
            operation,
            environment: Environment::default(),
            random: Random::new(seed),
            now,
            n_crashes: 0,
            n_lost: 0,
            outcomes: Vec::new(),
        }
    }

    /// Ends the work on the operation: commits, or crashes and loses what is not committed.
    pub(crate) fn end_work(&mut self) {
        if !self.maybe_crash() {
            self.commit();
        }
    }

    fn commit(&mut self) {
        self.n_durable = (self.log.len(), self.outcomes.len());
    }

    /// Decides; returns the number of events.
    pub(crate) fn decide(&mut self, action: Action) -> Result<usize, Refusal> {
        self.now = self.now.plus_ms(1);
        let events = decide(&self.operation, &Command { at: self.now, action })?;
        let n_events = events.len();
        for event in events {
            invariants::check_order(&self.operation, self.log.last(), &event);
            invariants::check_event_receipts(&self.operation, &event);
            self.operation = evolve(self.operation.clone(), &event);
            self.log.push(event);
            invariants::check(self);
        }
        Ok(n_events)
    }

    /// One step of the drive loop, which may crash at three points. False when the operation rests or no node answered.
    pub(crate) fn drive_once(&mut self) -> bool {
        match next(&self.operation) {
            Step::Rest => {
                let has_resumed = self.decide(Action::ResumeAdmission).unwrap() > 0;
                self.commit();
                has_resumed
            }
            Step::Record(action) => self.decide(*action).unwrap() > 0,
            Step::Perform(effect) => {
                invariants::check_quorum_before_effect(self);
                let pending = &self.log[self.n_durable.0..];
                if !pending.iter().all(|event| may_wait_for_outcome(&self.operation, &event.change)) {
                    self.commit();
                }
                if self.maybe_crash() {
                    return true;
                }
                if effect.id.step == EffectStep::Decision
                    && !self.environment.is_reliable
                    && self.random.one_in(6)
                {
                    let policy = self.postponement();
                    let has_events = self.decide(Action::PostponeAdmission { policy }).unwrap() > 0;
                    self.maybe_crash();
                    return has_events;
                }
                let outcome = self.environment.perform(&mut self.random, &self.operation, &effect);
                invariants::check_effect_ids(self);
                if self.maybe_crash() {
                    return true;
                }
                let Some(outcome) = outcome else { return false };
                let settle = Action::Settle { effect: effect.id, outcome };
                self.outcomes.push(settle.clone());
                let has_events = self.decide(settle).unwrap() > 0;
                self.maybe_crash();
                has_events
            }
        }
    }

    /// An evaluation at the admission that allows it a little later.
    pub(crate) fn postponement(&mut self) -> Outcome {
        let mut policy = self.operation.policy.clone();
        policy.obligations = vec![self.wait()];
        samples::evaluated(&self.operation.request(Moment::Admission, &self.operation.approvals), policy)
    }

    /// The obligation to wait for a little.
    pub(crate) fn wait(&mut self) -> Statement {
        let at_ms = self.now.plus_ms(2 + self.random.below(8));
        Statement::with_operand(ADMIT_NOT_BEFORE, "at_ms", at_ms.0.to_string())
    }

    /// At random, loses what is not committed, and restores the state from the log. Returns whether it did.
    fn maybe_crash(&mut self) -> bool {
        if self.environment.is_reliable || !self.random.one_in(8) {
            return false;
        }
        assert_eq!(replay(&self.log).as_ref(), Some(&self.operation), "folding the log gives the state");
        let (n_events, n_outcomes) = self.n_durable;
        self.n_lost += u64::from(self.log.len() > n_events);
        self.log.truncate(n_events);
        self.outcomes.truncate(n_outcomes);
        self.operation = replay(&self.log).unwrap();
        self.n_crashes += 1;
        true
    }
}
