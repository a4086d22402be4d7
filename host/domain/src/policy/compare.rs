//! Comparison of a recorded outcome with that of a re-run, or with that of a candidate bundle.

use super::{Decision, FactRead, FaultKind, Group, Outcome, Quorum, Statement, join};
use serde::Serialize;
use std::collections::BTreeSet;

/// A field of a decision record that a re-run does not reproduce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The name of the field in the record.
    pub field: &'static str,
    /// The recorded value.
    pub recorded: String,
    /// The value of the re-run.
    pub again: String,
}

impl Difference {
    fn new(field: &'static str, recorded: impl ToString, again: impl ToString) -> Option<Self> {
        let (recorded, again) = (recorded.to_string(), again.to_string());
        (recorded != again).then_some(Self { field, recorded, again })
    }
}

/// The fields in which a re-run of the same bundle with the same request and facts differs. Empty when the decision is
/// reproduced exactly.
#[must_use]
pub fn differences(recorded: &Outcome, again: &Outcome) -> Vec<Difference> {
    // The record's quorum was raised to the deployment's minimum. If the policy did not read that, only the record has it.
    let minimum = required_min(&recorded.facts).unwrap_or(recorded.quorum.required);
    let again = &again.clone().raise_quorum_to(minimum);
    let fault = |outcome: &Outcome| outcome.fault.as_ref().map_or("(none)".to_owned(), ToString::to_string);
    let fields = [
        Difference::new("input_hash", recorded.input_hash, again.input_hash),
        Difference::new("bundle_id", &recorded.bundle_id, &again.bundle_id),
        Difference::new("bundle_hash", recorded.bundle_hash, again.bundle_hash),
        Difference::new("facts", facts(&recorded.facts), facts(&again.facts)),
        Difference::new("decision", recorded.decision.as_str(), again.decision.as_str()),
        Difference::new("reasons", join(&recorded.reasons), join(&again.reasons)),
        Difference::new("obligations", join(&recorded.obligations), join(&again.obligations)),
        Difference::new("quorum", shown_quorum(&recorded.quorum), shown_quorum(&again.quorum)),
        Difference::new("fault", fault(recorded), fault(again)),
        Difference::new("output_hash", recorded.output_hash, again.output_hash),
        Difference::new("fuel_used", recorded.fuel_used, again.fuel_used),
    ];
    fields.into_iter().flatten().collect()
}

/// The difference that a candidate bundle would have made to a recorded decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "impact")]
pub enum Impact {
    /// It reads facts that are not in the record, so its verdict is unknown.
    Unknown {
        /// The names of those facts, in the order of reading.
        facts: Vec<String>,
    },
    /// It fails without a verdict.
    Fault {
        /// The kind of fault.
        kind: FaultKind,
    },
    /// It gives a verdict.
    Verdict(Changes),
}

/// The differences between a candidate's verdict and the recorded one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// The decision changes from ALLOW to DENY.
    pub allow_to_deny: bool,
    /// The decision changes from DENY to ALLOW.
    pub deny_to_allow: bool,
    /// The codes of the reasons, or their order, change.
    pub reasons: bool,
    /// The codes of the obligations, or their order, change.
    pub obligations: bool,
    /// The counted subjects, their required number, or whether they are enough, changes.
    pub quorum: bool,
    /// The codes are the same, but not their operands.
    pub wording: bool,
}

/// Compares a candidate's outcome, evaluated over the recorded facts, with the recorded one.
#[must_use]
pub fn impact(recorded: &Outcome, candidate: &Outcome) -> Impact {
    let known: BTreeSet<_> = recorded.facts.iter().map(|fact| &fact.name).collect();
    // An undeclared fact is the last one that the candidate reads, and a fault whatever its value.
    let is_undeclared = candidate.fault_kind() == Some(FaultKind::UndeclaredFact);
    let n_valued = candidate.facts.len().saturating_sub(usize::from(is_undeclared));
    let unknown =
        candidate.facts.iter().take(n_valued).map(|fact| &fact.name).filter(|name| !known.contains(name));
    let facts: Vec<_> = unknown.cloned().collect();
    if !facts.is_empty() {
        return Impact::Unknown { facts };
    }
    if let Some(kind) = candidate.fault_kind() {
        return Impact::Fault { kind };
    }
    let reasons = codes(&recorded.reasons) != codes(&candidate.reasons);
    let obligations = codes(&recorded.obligations) != codes(&candidate.obligations);
    let reworded = recorded.reasons != candidate.reasons || recorded.obligations != candidate.obligations;
    // Without the minimum, a quorum that it raised is reported as changed, so that the reviewer sees it.
    let quorum = candidate.quorum.clone().raise_to(required_min(&recorded.facts).unwrap_or_default());
    Impact::Verdict(Changes {
        allow_to_deny: recorded.decision == Decision::Allow && candidate.decision == Decision::Deny,
        deny_to_allow: recorded.decision == Decision::Deny && candidate.decision == Decision::Allow,
        reasons,
        obligations,
        quorum: recorded.quorum != quorum,
        wording: reworded && !reasons && !obligations,
    })
}

/// The deployment's minimum, if the policy read it.
fn required_min(facts: &[FactRead]) -> Option<u32> {
    let required = facts.iter().find(|fact| fact.name == "deployment.required_approvals");
    required.and_then(|fact| fact.value.as_deref()?.parse().ok())
}

fn codes(statements: &[Statement]) -> Vec<&str> {
    statements.iter().map(|statement| statement.code.as_str()).collect()
}

fn facts(read: &[FactRead]) -> String {
    read.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn shown_quorum(quorum: &Quorum) -> String {
    let Quorum { subjects, required, satisfied, groups } = quorum;
    let group = |Group { name, needed, have }: &Group| {
        format!("; {} of {needed} {name} ({})", have.len(), have.join(", "))
    };
    format!(
        "{} of {required} ({}), {}{}",
        subjects.len(),
        subjects.join(", "),
        if *satisfied { "reached" } else { "not reached" },
        groups.iter().map(group).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Hex32;
    use crate::testing::samples::verdict;

    fn outcome() -> Outcome {
        let statement = |code: &str| Statement::with_operand(code, "approvals", "1");
        let fact =
            |name: &str, value: Option<&str>| FactRead { name: name.into(), value: value.map(Into::into) };
        Outcome {
            reasons: vec![statement("a"), statement("b")],
            obligations: vec![statement("c")],
            facts: vec![fact("deployment.required_approvals", Some("2")), fact("key.state", None)],
            ..verdict(&["alice".into()], 2)
        }
    }

    type Mutation = (&'static str, fn(&mut Outcome));

    type Case = (fn(&mut Outcome), Impact);

    const MUTATIONS: [Mutation; 11] = [
        ("input_hash", |it| it.input_hash = Hex32::ZERO),
        ("bundle_id", |it| it.bundle_id.push('x')),
        ("bundle_hash", |it| it.bundle_hash = Hex32::ZERO),
        ("facts", |it| it.facts[1].value = Some(String::new())),
        ("decision", |it| it.decision = Decision::Deny),
        ("reasons", |it| it.reasons[1].operands[0].value.push('x')),
        ("obligations", |it| it.obligations.clear()),
        ("quorum", |it| it.quorum.subjects[0].push('x')),
        ("fault", |it| it.fault = Some(FaultKind::Trap.into())),
        ("output_hash", |it| it.output_hash = Hex32::ZERO),
        ("fuel_used", |it| it.fuel_used += 1),
    ];

    #[test]
    fn every_field_is_compared() {
        assert_eq!(differences(&outcome(), &outcome()), []);
        for (field, mutate) in MUTATIONS {
            let mut changed = outcome();
            mutate(&mut changed);
            let names =
                |found: Vec<Difference>| found.iter().map(|difference| difference.field).collect::<Vec<_>>();
            assert_eq!(names(differences(&outcome(), &changed)), [field]);
            assert_eq!(names(differences(&changed, &outcome())), [field]);
        }
    }

    #[test]
    fn quorum_raised_by_the_deployment_is_not_a_difference() {
        let again =
            Outcome { quorum: Quorum { required: 1, satisfied: true, ..outcome().quorum }, ..outcome() };
        let again = Outcome { output_hash: again.output_digest(), ..again };
        let recorded = again.clone().raise_quorum_to(2);
        assert_ne!(recorded.output_hash, again.output_hash);
        assert_eq!(differences(&recorded, &again), []);
        let unraised = Outcome { quorum: Quorum { satisfied: true, ..recorded.quorum.clone() }, ..recorded };
        assert_eq!(differences(&unraised, &again).len(), 1);
    }

    #[test]
    fn impact_compares_codes_decision_and_quorum() {
        let of = |mutate: fn(&mut Outcome)| {
            let mut candidate = outcome();
            mutate(&mut candidate);
            impact(&outcome(), &candidate)
        };
        let none = Changes::default();
        let cases: [Case; 9] = [
            (|_| (), Impact::Verdict(none)),
            (|it| it.fuel_used += 1, Impact::Verdict(none)),
            (|it| it.decision = Decision::Deny, Impact::Verdict(Changes { allow_to_deny: true, ..none })),
            (|it| it.reasons.swap(0, 1), Impact::Verdict(Changes { reasons: true, ..none })),
            (|it| it.obligations.clear(), Impact::Verdict(Changes { obligations: true, ..none })),
            (|it| it.reasons[0].operands.clear(), Impact::Verdict(Changes { wording: true, ..none })),
            (|it| it.quorum.required = 3, Impact::Verdict(Changes { quorum: true, ..none })),
            (|it| it.quorum.required = 1, Impact::Verdict(none)),
            (|it| it.fault = Some(FaultKind::Trap.into()), Impact::Fault { kind: FaultKind::Trap }),
        ];
        for (mutate, expected) in cases {
            assert_eq!(of(mutate), expected);
        }
        let denied = Outcome { decision: Decision::Deny, ..outcome() };
        let expected = Changes { deny_to_allow: true, ..none };
        assert_eq!(impact(&denied, &outcome()), Impact::Verdict(expected));
    }

    #[test]
    fn fact_not_in_the_record_is_unknown_and_one_without_value_is_known() {
        let mut candidate = outcome();
        candidate.facts.push(FactRead { name: "key.epoch".into(), value: None });
        candidate.fault = Some(FaultKind::Trap.into());
        assert_eq!(impact(&outcome(), &candidate), Impact::Unknown { facts: vec!["key.epoch".into()] });
        candidate.fault = Some(FaultKind::UndeclaredFact.into());
        let kind = FaultKind::UndeclaredFact;
        assert_eq!(impact(&outcome(), &candidate), Impact::Fault { kind });
    }
}
