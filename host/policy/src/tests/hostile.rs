//! Hostile guests. Each gets a DENY with its own fault, and does not affect a later evaluation.

use crate::data::Data;
use crate::fact_names::FactNames;
use crate::limits::{FACTS_READ_MAX, FUEL_MAX, OUTPUT_BYTES_MAX};
use crate::state::{Contents, State};
use crate::testing::{bundle_of, component, engine, facts, guest, load, payment};
use crate::{BundleError, Evaluator, PolicyEngine};
use gateway_domain::policy::{Decision, Facts, Fault, FaultKind, Missing, Moment, Outcome};
use std::sync::Arc;
use wasmtime::ResourceLimiter;

fn evaluate(engine: &PolicyEngine, wasm: &[u8]) -> Outcome {
    let evaluator = load(engine, wasm).unwrap();
    let sample = payment("acct-2", &["bob"]);
    let evaluation = evaluator.evaluate(&sample.request(Moment::Admission), &facts("2"), u64::MAX);
    // A harmless guest is evaluated correctly afterwards.
    let harmless = load(engine, &guest(1, "", "i32.const 0")).unwrap();
    let after = harmless.evaluate(&sample.request(Moment::Admission), &facts("2"), u64::MAX);
    assert_eq!((after.decision, after.fault_kind()), (Decision::Allow, None));
    evaluation
}

#[track_caller]
fn check(pages: u32, extra: &str, body: &str, fault: FaultKind) {
    let evaluation = evaluate(&engine(), &guest(pages, extra, body));
    assert_eq!(evaluation.fault_kind(), Some(fault), "{evaluation:?}");
    assert_eq!(evaluation.decision, Decision::Deny);
    assert_eq!(evaluation.reasons[0].code, format!("policy_fault:{}", fault.as_str()));
    assert!(!evaluation.quorum.satisfied);
}

/// Stores these (address, value), and returns 0: the address of a verdict.
fn stored(fields: &[(u32, u32)]) -> String {
    let store = |(at, value): &(u32, u32)| format!("(i32.store (i32.const {at}) (i32.const {value}))\n");
    fields.iter().map(store).collect::<String>() + "i32.const 0"
}

/// A function body that returns a verdict with one reason, whose operand has no name. Strings are (address, length).
fn verdict(code: (u32, u32), value: (u32, u32)) -> String {
    stored(&[(64, code.0), (68, code.1), (72, 80), (76, 1), (88, value.0), (92, value.1), (4, 64), (8, 1)])
}

const CODE: &str = r#"(data (i32.const 256) "amount_positive")"#;
const DECLARED: (u32, u32) = (256, 15);

#[test]
fn handwritten_verdict_is_accepted() {
    let evaluation = evaluate(&engine(), &guest(1, CODE, &verdict(DECLARED, (0, 0))));
    assert_eq!((evaluation.reasons[0].code.as_str(), evaluation.fault_kind()), ("amount_positive", None));
}

#[test]
fn an_endless_loop_runs_out_of_fuel() {
    check(1, "", "(loop $l (br $l)) unreachable", FaultKind::OutOfFuel);
}

#[test]
fn endless_tail_calls_run_out_of_fuel() {
    let chase = "(func $r (param i32) (result i32) (return_call $r (local.get 0)))";
    check(1, chase, "(call $r (i32.const 1))", FaultKind::OutOfFuel);
}

#[test]
fn a_memory_bomb_is_stopped_at_its_limit() {
    check(1, "", "(loop $l (drop (memory.grow (i32.const 1))) (br $l)) unreachable", FaultKind::Memory);
    check(1, "", "(drop (memory.grow (i32.const 65535))) i32.const 0", FaultKind::Memory);
}

#[test]
fn a_table_bomb_is_stopped_at_its_limit() {
    let table = "(table $t 1 funcref)";
    let grow = "(drop (table.grow $t (ref.null func) (i32.const 100000))) i32.const 0";
    check(1, table, grow, FaultKind::Memory);
}

#[test]
fn deep_recursion_exhausts_its_own_stack_only() {
    let recurse = "(func $r (param i32) (result i32) (i32.add (call $r (local.get 0)) (i32.const 1)))";
    check(1, recurse, "(call $r (i32.const 1))", FaultKind::Stack);
}

#[test]
fn trap_faults_as_trap() {
    check(1, "", "unreachable", FaultKind::Trap);
    check(1, "", "(i32.div_u (i32.const 1) (i32.const 0))", FaultKind::Trap);
    check(1, "", "(i32.load (i32.const 65536))", FaultKind::Trap);
}

#[test]
fn undeclared_code_is_a_fault() {
    let code = r#"(data (i32.const 256) "always_right")"#;
    check(1, code, &verdict((256, 12), (0, 0)), FaultKind::UndeclaredCode);
}

#[test]
fn output_above_the_size_limit_is_a_fault() {
    let most = u32::try_from(OUTPUT_BYTES_MAX).unwrap() - DECLARED.1;
    let fault =
        |bytes| evaluate(&engine(), &guest(16, CODE, &verdict(DECLARED, (65_536, bytes)))).fault_kind();
    assert_eq!(fault(most), None);
    assert_eq!(fault(most + 1), Some(FaultKind::OutputTooLarge));
    assert_eq!(fault(900_000), Some(FaultKind::OutputTooLarge));
}

#[test]
fn small_output_that_claims_a_huge_length_is_not_copied() {
    // Every statement is the same 30 000 bytes: 3 000 of them would be 90 MB on the host.
    let statements = |n: u32| {
        format!(
            "(local.set $i (i32.const 64))
            (loop $l
                (i32.store (local.get $i) (i32.const 65536))
                (i32.store offset=4 (local.get $i) (i32.const 30000))
                (i64.store offset=8 (local.get $i) (i64.const 0))
                (local.set $i (i32.add (local.get $i) (i32.const 16)))
                (br_if $l (i32.lt_u (local.get $i) (i32.const 48064))))
            (i32.store (i32.const 4) (i32.const 64))
            (i32.store (i32.const 8) (i32.const {n}))
            i32.const 0"
        )
    };
    let fault = |n| evaluate(&engine(), &guest(2, "", &statements(n))).fault_kind();
    assert_eq!(fault(2), Some(FaultKind::UndeclaredCode));
    assert_eq!(fault(3_000), Some(FaultKind::BadOutput));
}

#[test]
fn unreadable_output_is_a_fault() {
    check(1, "", "i32.const 65530", FaultKind::BadOutput);
    check(1, "", "i32.const 2", FaultKind::BadOutput);
    check(1, "", "(i32.store8 (i32.const 0) (i32.const 7)) i32.const 0", FaultKind::BadOutput);
    check(1, CODE, &verdict((65_530, 20), (0, 0)), FaultKind::BadOutput);
    let not_utf8 = r#"(data (i32.const 256) "\ff\fe")"#;
    check(1, not_utf8, &verdict((256, 2), (0, 0)), FaultKind::BadOutput);
}

/// A function body that returns a quorum of the subject at (address, length), `n` times, with these other members.
fn quorum(subject: (u32, u32), n: u32, required: u32, satisfied: u32) -> String {
    let list: Vec<(u32, u32)> =
        (0..n).flat_map(|nth| [(64 + nth * 8, subject.0), (68 + nth * 8, subject.1)]).collect();
    stored(&[&list[..], &[(20, 64), (24, n), (28, required), (32, satisfied)]].concat())
}

/// A function body that returns a quorum of `bob`, who is at 256, with `n` times the same group of the subject at (address, length).
fn grouped(needed: u32, subject: (u32, u32), n: u32, satisfied: u32) -> String {
    // The group's name is empty.
    let groups = (0..n).flat_map(|nth| {
        let at = 96 + nth * 20;
        [(at + 8, needed), (at + 12, 80), (at + 16, 1)]
    });
    let quorum = [(64, 256), (68, 3), (20, 64), (24, 1), (28, 1), (32, satisfied), (36, 96), (40, n)];
    let subject = [(80, subject.0), (84, subject.1)];
    stored(&quorum.into_iter().chain(subject).chain(groups).collect::<Vec<_>>())
}

#[test]
fn group_that_lacks_a_person_or_names_others_is_a_fault() {
    let people = r#"(data (i32.const 256) "bob") (data (i32.const 272) "eve")"#;
    let (bob, eve) = ((256, 3), (272, 3));
    let outcome = |needed, subject, n, satisfied| {
        evaluate(&engine(), &guest(1, people, &grouped(needed, subject, n, satisfied)))
    };
    let complete = outcome(1, bob, 1, 1);
    assert_eq!((complete.fault_kind(), complete.quorum.satisfied), (None, true));
    assert_eq!(
        (&*complete.quorum.groups[0].have, complete.quorum.missing()),
        (&["bob".to_owned()][..], vec![])
    );
    let lacking = outcome(2, bob, 1, 0);
    let missing = Missing { group: Some(String::new()), people: 1 };
    assert_eq!((lacking.fault_kind(), lacking.quorum.missing()), (None, vec![missing]));
    for (needed, subject, n, satisfied) in [(2, bob, 1, 1), (1, eve, 1, 1), (1, eve, 1, 0), (1, bob, 2, 0)] {
        let fault = outcome(needed, subject, n, satisfied).fault_kind();
        assert_eq!(fault, Some(FaultKind::BadOutput), "{needed} {subject:?} {n} {satisfied}");
    }
}

#[test]
fn what_a_guest_logs_is_shown_with_its_fault_only() {
    let text = r#"(data (i32.const 256) "panicked at the rates")"#;
    let say = "(call $log (i32.const 256) (i32.const 21))";
    let failed = evaluate(&engine(), &guest(1, text, &format!("{say} unreachable")));
    let detail = failed.fault.unwrap().detail;
    assert!(detail.ends_with("the policy wrote: panicked at the rates"), "{detail}");
    let passed = evaluate(&engine(), &guest(1, text, &format!("{say} i32.const 0")));
    assert_eq!((passed.fault, passed.reasons), (None, vec![]));
    // Its bytes are counted, since the host copies them.
    let endless = format!("(loop $l {say} (br $l)) unreachable");
    check(1, text, &endless, FaultKind::TooMuchData);
}

#[test]
fn quorum_of_people_who_did_not_approve_is_a_fault() {
    let people = r#"(data (i32.const 256) "bob") (data (i32.const 272) "eve")"#;
    let fault = |body: &str| evaluate(&engine(), &guest(1, people, body)).fault_kind();
    assert_eq!(fault(&quorum((256, 3), 1, 1, 1)), None);
    assert_eq!(fault(&quorum((272, 3), 1, 1, 1)), Some(FaultKind::BadOutput));
    assert_eq!(fault(&quorum((256, 3), 2, 2, 1)), Some(FaultKind::BadOutput));
    assert_eq!(fault(&quorum((256, 3), 1, 2, 1)), Some(FaultKind::BadOutput));
    assert_eq!(fault(&quorum((256, 3), 1, 2, 0)), None);
}

/// The first bytes of the names of the facts that [`READ_NTH`] reads.
const DECLARED_FACT: &str = r#"(data (i32.const 1024) "velocity.")"#;

/// Reads a declared fact whose name ends in the counter `$i`.
const READ_NTH: &str = "(i32.store8 (i32.const 1033) (i32.and (local.get $i) (i32.const 127)))
    (i32.store8 (i32.const 1034) (i32.shr_u (local.get $i) (i32.const 7)))
    (call $get (i32.const 1024) (i32.const 11) (i32.const 512))";

#[test]
fn each_fact_read_is_recorded_once_up_to_the_limit() {
    let ask = |step: u32, n: u32| {
        let body = format!(
            "(loop $l {READ_NTH}
                (local.set $i (i32.add (local.get $i) (i32.const {step})))
                (br_if $l (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const {n}))))
            i32.const 0"
        );
        let evaluation = evaluate(&engine(), &guest(1, DECLARED_FACT, &format!("(local $n i32) {body}")));
        (evaluation.fault_kind(), evaluation.facts.len())
    };
    assert_eq!(ask(0, 1_000), (None, 1));
    assert_eq!(ask(1, 128), (None, FACTS_READ_MAX));
    assert_eq!(ask(1, 129), (Some(FaultKind::TooManyFacts), FACTS_READ_MAX));
}

#[test]
fn reading_too_many_facts_is_a_fault() {
    let ask = "(local.set $i (i32.const 9)) (loop $l
        (call $get (i32.const 1024) (local.get $i) (i32.const 512))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $l))
        unreachable";
    check(1, DECLARED_FACT, ask, FaultKind::TooManyFacts);
    check(
        1,
        DECLARED_FACT,
        "(call $get (i32.const 1024) (i32.const 257) (i32.const 512)) i32.const 0",
        FaultKind::TooManyFacts,
    );
    check(
        1,
        "",
        "(call $get (i32.const 65535) (i32.const 2) (i32.const 512)) i32.const 0",
        FaultKind::BadOutput,
    );
}

#[test]
fn start_function_has_the_same_limits_as_evaluate() {
    let endless = "(func $s (loop $l (br $l))) (start $s)";
    let refused = load(&engine(), &guest(1, endless, "i32.const 0")).unwrap_err();
    assert!(matches!(refused, BundleError::Describe(Fault { kind: FaultKind::OutOfFuel, .. })), "{refused}");
    let trapping = "(func $s unreachable) (start $s)";
    let refused = load(&engine(), &guest(1, trapping, "i32.const 0")).unwrap_err();
    assert!(matches!(refused, BundleError::Describe(Fault { kind: FaultKind::Trap, .. })), "{refused}");
}

#[test]
fn a_guest_that_starts_with_too_much_memory_is_not_loaded() {
    let refused = load(&engine(), &guest(17, "", "i32.const 0")).unwrap_err();
    assert!(matches!(refused, BundleError::Describe(Fault { kind: FaultKind::Memory, .. })), "{refused}");
    let engine = engine();
    assert!(matches!(
        engine.for_memory(0).unwrap().compile(&guest(300, "", "i32.const 0")),
        Err(BundleError::Component(_))
    ));
}

#[test]
fn the_backstop_clock_stops_what_fuel_does_not() {
    let engine = engine();
    let bundle = bundle_of(&engine, &guest(1, "", "(loop $l (br $l)) unreachable"), |_| ());
    let mut evaluator = Evaluator::link(&engine, &bundle).unwrap();
    evaluator.unlimited_fuel_for_tests();
    let sample = payment("acct-2", &[]);
    let evaluation = evaluator.evaluate(&sample.request(Moment::Submit), &facts("2"), u64::MAX);
    assert_eq!(evaluation.fault_kind(), Some(FaultKind::Deadline));
}

#[test]
fn fuel_never_exceeds_the_manifest_limit() {
    let engine = engine();
    let wasm = guest(1, "", "(loop $l (br $l)) unreachable");
    let bundle = bundle_of(&engine, &wasm, |manifest| manifest.limits.fuel = 5_000);
    let evaluator = Evaluator::link(&engine, &bundle).unwrap();
    let sample = payment("acct-2", &[]);
    let used = |fuel| evaluator.evaluate(&sample.request(Moment::Submit), &facts("2"), fuel).fuel_used;
    assert_eq!((used(u64::MAX), used(5_000)), (5_000, 5_000));
    assert!(used(1_000) == 1_000 && FUEL_MAX > 5_000);
}

#[test]
fn import_outside_the_allow_list_is_refused_even_if_declared() {
    let module = r#"(module
        (import "$root" "exfiltrate" (func))
        (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
        (func (export "describe") (result i32) (i32.const 0))
        (func (export "evaluate") (param i32) (result i32) (i32.const 0)))"#;
    let wasm = component(wat::parse_str(module).unwrap(), &["exfiltrate: func()"]);
    let engine = engine();
    let undeclared =
        bundle_of(&engine, &wasm, |manifest| manifest.capabilities.retain(|it| it != "exfiltrate"));
    let refused = Evaluator::link(&engine, &undeclared).unwrap_err();
    assert!(matches!(&refused, BundleError::UndeclaredImport(name) if name == "exfiltrate"), "{refused}");
    let refused = load(&engine, &wasm).unwrap_err();
    assert!(matches!(&refused, BundleError::UnknownCapability(name) if name == "exfiltrate"), "{refused}");
    let unused =
        bundle_of(&engine, &guest(1, "", "i32.const 0"), |manifest| manifest.capabilities.push("net".into()));
    let refused = Evaluator::link(&engine, &unused).unwrap_err();
    assert!(matches!(&refused, BundleError::UnusedCapability(name) if name == "net"), "{refused}");
}

/// A component of two components, each with a memory of its own. One passes a text to the other.
fn two_in_one(more: &str) -> Vec<u8> {
    let text = format!(
        r#"(component
        (component $a
            (core module $m
                (memory (export "memory") 1)
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
                (func (export "f") (param i32 i32)))
            (core instance $i (instantiate $m))
            (func (export "f") (param "s" string)
                (canon lift (core func $i "f") (memory $i "memory") (realloc (func $i "realloc")))))
        (component $b
            (import "f" (func $f (param "s" string)))
            (core module $libc (memory (export "memory") 1))
            (core instance $libc (instantiate $libc))
            (core func $lowered (canon lower (func $f) (memory $libc "memory")))
            (core module $m (import "" "f" (func (param i32 i32))) (func (export "g")))
            (core instance $i (instantiate $m (with "" (instance (export "f" (func $lowered))))))
            (func (export "g") (canon lift (core func $i "g"))))
        (instance $a (instantiate $a))
        (instance $b (instantiate $b (with "f" (func $a "f"))))
        {more})"#
    );
    wat::parse_str(text).unwrap()
}

#[test]
fn components_in_a_component_compile_and_have_a_limit_of_memories_together() {
    assert!(engine().for_memory(0).unwrap().compile(&two_in_one("")).is_ok());
    let third = "(core module $m (memory 1)) (core instance (instantiate $m))";
    assert!(matches!(
        engine().for_memory(0).unwrap().compile(&two_in_one(third)),
        Err(BundleError::Component(_))
    ));
}

#[test]
fn memories_of_all_modules_share_one_limit() {
    assert!(matches!(
        engine().for_memory(0).unwrap().compile(&guest(8, "(memory 1)", "i32.const 0")),
        Err(BundleError::Component(_))
    ));
    let contents = Contents { data: Data::default(), fact_names: FactNames::new(Vec::new()) };
    let mut state = State::new(Facts::default(), Arc::new(contents), 100);
    let mut grows = |from, to| state.memory_growing(from, to, None).is_ok();
    assert!(grows(0, 60) && grows(0, 30) && grows(60, 70));
    assert!(!grows(30, 31));
}

/// In each engine: of a small guest the first pages are cleared and the others dropped, of a large one those that it wrote.
#[test]
fn memory_of_an_evaluation_is_gone_in_the_next_one() {
    let writes = |from: u32, to: u32| {
        format!(
            "(local.set $i (i32.const {from}))
            (loop $l
            (if (i32.load (local.get $i)) (then unreachable))
            (i32.store (local.get $i) (i32.const 7))
            (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 4096))) (i32.const {to}))))
            i32.const 0"
        )
    };
    let engine = PolicyEngine::with_room_for(1).unwrap();
    for (limit, pages) in [(1 << 20, 2), (1 << 20, 15), (16 << 20, 4), (16 << 20, 32)] {
        let wasm = guest(pages, "", &writes(0x8000, pages * 0x10000));
        let bundle = bundle_of(&engine, &wasm, |manifest| manifest.limits.memory_bytes = limit);
        let evaluator = Evaluator::link(&engine, &bundle).unwrap();
        for _ in 0..3 {
            let outcome =
                evaluator.evaluate(&payment("acct-2", &[]).request(Moment::Submit), &facts("2"), u64::MAX);
            assert_eq!(outcome.fault_kind(), None, "{pages} pages of {limit} bytes: {:?}", outcome.fault);
        }
    }
}
