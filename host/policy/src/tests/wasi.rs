//! Guests of the WASI world that try to get access or to be non-deterministic. They get the same useless result each time.

use crate::bundle::{MANIFEST_FILE, Manifest, WASI_WORLD, WORLD};
use crate::limits::{HANDLES_MAX, RANDOM_BYTES_MAX};
use crate::testing::{NOW, bundle_of, committed, engine, facts, guest, module, payment, wasi_component};
use crate::{BundleError, Evaluator};
use gateway_domain::policy::{Decision, Facts, FaultKind, Moment, Outcome};

/// Functions that the guests of these tests import: interface, function, and its type in the canonical ABI.
const IMPORTS: [(&str, &str, &str); 29] = [
    ("cli/environment", "get-environment", "(param i32)"),
    ("cli/environment", "get-arguments", "(param i32)"),
    ("cli/environment", "initial-cwd", "(param i32)"),
    ("cli/environment", "home-directory", "(result i32)"),
    ("cli/exit", "exit", "(param i32)"),
    ("cli/exit", "exit-with-code", "(param i32)"),
    ("cli/stdin", "get-stdin", "(result i32)"),
    ("cli/stdout", "get-stdout", "(result i32)"),
    ("cli/terminal-stdin", "get-terminal-stdin", "(param i32)"),
    ("cli/terminal-stdout", "get-terminal-stdout", "(param i32)"),
    ("io/streams", "[method]input-stream.blocking-read", "(param i32 i64 i32)"),
    ("io/streams", "[method]input-stream.blocking-skip", "(param i32 i64 i32)"),
    ("io/streams", "[method]output-stream.check-write", "(param i32 i32)"),
    ("io/streams", "[method]output-stream.blocking-write-and-flush", "(param i32 i32 i32 i32)"),
    ("io/streams", "[method]output-stream.blocking-flush", "(param i32 i32)"),
    ("io/streams", "[method]output-stream.blocking-write-zeroes-and-flush", "(param i32 i64 i32)"),
    ("io/streams", "[method]output-stream.subscribe", "(param i32) (result i32)"),
    ("io/streams", "[method]output-stream.splice", "(param i32 i32 i64 i32)"),
    ("io/poll", "[method]pollable.block", "(param i32)"),
    ("io/poll", "[method]pollable.ready", "(param i32) (result i32)"),
    ("io/poll", "poll", "(param i32 i32 i32)"),
    ("clocks/monotonic-clock", "now", "(result i64)"),
    ("clocks/monotonic-clock", "subscribe-duration", "(param i64) (result i32)"),
    ("clocks/wall-clock", "now", "(param i32)"),
    ("random/random", "get-random-bytes", "(param i64 i32)"),
    ("random/random", "get-random-u64", "(result i64)"),
    ("random/insecure-seed", "insecure-seed", "(param i32)"),
    ("filesystem/preopens", "get-directories", "(param i32)"),
    ("sockets/instance-network", "instance-network", "(result i32)"),
];

/// A function that traps unless the number at an address is this one.
const EXPECT: &str = "(func $expect (param $at i32) (param $value i32)
    (if (i32.ne (i32.load (local.get $at)) (local.get $value)) (then unreachable)))";

/// A component whose `evaluate` has this body, which may call the functions in `used` as `$<interface>.<function>`. A body that
/// returns 0 allows; the number at address 28 is the quorum that it requires.
fn wasi_guest(used: &[&str], body: &str) -> Vec<u8> {
    let mut imports = String::new();
    for (interface, function, signature) in IMPORTS {
        let id = format!("${interface}.{}", function.replace("[method]", ""));
        if used.contains(&id.as_str()) {
            imports +=
                &format!("(import \"wasi:{interface}@0.2.9\" \"{function}\" (func {id} {signature}))\n");
        }
    }
    let interfaces = used_interfaces(used);
    let interfaces: Vec<_> = interfaces.iter().map(String::as_str).collect();
    wasi_component(module(&imports, 3, EXPECT, body), &interfaces)
}

fn used_interfaces(used: &[&str]) -> Vec<String> {
    let interfaces = IMPORTS.iter().filter(|(interface, function, _)| {
        used.contains(&format!("${interface}.{}", function.replace("[method]", "")).as_str())
    });
    let mut names: Vec<_> = interfaces.map(|(interface, _, _)| format!("wasi:{interface}@0.2.9")).collect();
    names.dedup();
    names
}

fn load(wasm: &[u8], world: &str) -> Result<Evaluator, BundleError> {
    let engine = engine();
    let bundle = bundle_of(&engine, wasm, |manifest| {
        manifest.world = world.to_owned();
        manifest.facts = vec!["time.now_ms".into()];
    });
    Evaluator::link(&engine, &bundle)
}

fn evaluate_with(used: &[&str], body: &str, to: &str, facts: &Facts) -> Outcome {
    let evaluator = load(&wasi_guest(used, body), WASI_WORLD).unwrap();
    let sample = payment(to, &["bob"]);
    let first = evaluator.evaluate(&sample.request(Moment::Admission), facts, u64::MAX);
    let again = evaluator.evaluate(&sample.request(Moment::Admission), facts, u64::MAX);
    assert_eq!(first, again, "the same request has another result");
    first
}

fn evaluate(used: &[&str], body: &str) -> Outcome {
    evaluate_with(used, body, "acct-2", &facts("2"))
}

#[track_caller]
fn assert_allowed(evaluation: &Outcome) {
    assert_eq!((evaluation.fault_kind(), evaluation.decision), (None, Decision::Allow));
}

#[test]
fn wasi_has_no_environment_arguments_preopens_or_terminals() {
    let lists = ["$cli/environment.get-environment", "$cli/environment.get-arguments"];
    let lists = lists.into_iter().chain(["$filesystem/preopens.get-directories"]);
    for list in lists {
        let body =
            format!("(call {list} (i32.const 512)) (call $expect (i32.const 516) (i32.const 0)) i32.const 0");
        assert_allowed(&evaluate(&[list], &body));
    }
    let terminals = ["$cli/terminal-stdin.get-terminal-stdin", "$cli/terminal-stdout.get-terminal-stdout"];
    for option in ["$cli/environment.initial-cwd"].into_iter().chain(terminals) {
        let body = format!(
            "(i32.store (i32.const 512) (i32.const 1)) (call {option} (i32.const 512))
            (call $expect (i32.const 512) (i32.const 0)) i32.const 0"
        );
        // A discriminant is one byte.
        let body = body.replace("(i32.store", "(i32.store8");
        assert_allowed(&evaluate(&[option], &body));
    }
}

#[test]
fn wasi_stdin_is_closed() {
    // The tag of the error follows that of the result, aligned as the method's result type requires.
    for (read, at) in [("blocking-read", 516), ("blocking-skip", 520)] {
        let read = format!("$io/streams.input-stream.{read}");
        let body = format!(
            "(call {read} (call $cli/stdin.get-stdin) (i64.const 100) (i32.const 512))
            ;; err(closed)
            (call $expect (i32.const 512) (i32.const 1)) (call $expect (i32.const {at}) (i32.const 1)) i32.const 0"
        );
        assert_allowed(&evaluate(&["$cli/stdin.get-stdin", &read], &body));
    }
}

#[test]
fn wasi_output_accepts_all_writes_without_blocking() {
    let [check, flush, zeroes, subscribe] =
        ["check-write", "blocking-flush", "blocking-write-zeroes-and-flush", "subscribe"]
            .map(|method| format!("$io/streams.output-stream.{method}"));
    let (ready, poll) = ("$io/poll.pollable.ready", "$io/poll.poll");
    let body = format!(
        "(local.set $h (call {STDOUT}))
        (call {check} (local.get $h) (i32.const 512))
        (call $expect (i32.const 512) (i32.const 0)) (call $expect (i32.const 520) (i32.const 65536))
        (i32.store8 (i32.const 512) (i32.const 9))
        (call {flush} (local.get $h) (i32.const 512))
        (if (i32.load8_u (i32.const 512)) (then unreachable))
        (i32.store8 (i32.const 512) (i32.const 9))
        (call {zeroes} (local.get $h) (i64.const 100) (i32.const 512))
        (if (i32.load8_u (i32.const 512)) (then unreachable))
        (local.set $i (call {subscribe} (local.get $h)))
        (if (i32.ne (call {ready} (local.get $i)) (i32.const 1)) (then unreachable))
        ;; Polls two pollables. Both are ready, so the list has both indexes.
        (i32.store (i32.const 600) (local.get $i))
        (i32.store (i32.const 604) (call {subscribe} (local.get $h)))
        (call {poll} (i32.const 600) (i32.const 2) (i32.const 512))
        (call $expect (i32.const 516) (i32.const 2))
        (call $expect (i32.load (i32.const 512)) (i32.const 0))
        (call $expect (i32.add (i32.load (i32.const 512)) (i32.const 4)) (i32.const 1))
        i32.const 0"
    );
    assert_allowed(&evaluate(&[STDOUT, &check, &flush, &zeroes, &subscribe, ready, poll], &body));
}

const STDOUT: &str = "$cli/stdout.get-stdout";
const WRITE: &str = "$io/streams.output-stream.blocking-write-and-flush";

/// Writes 64 KiB repeatedly, while the condition `times` is true.
fn flood(times: &str) -> String {
    format!(
        "(local.set $h (call {STDOUT}))
        (loop $l
            (call {WRITE} (local.get $h) (i32.const 65536) (i32.const 65536) (i32.const 512))
            (call $expect (i32.const 512) (i32.const 0))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $l {times}))
        i32.const 0"
    )
}

#[test]
fn wasi_output_is_discarded_and_endless_output_runs_out_of_fuel() {
    // 640 MiB, which would exceed every limit if the host copied or kept it.
    assert_allowed(&evaluate(&[STDOUT, WRITE], &flood("(i32.lt_u (local.get $i) (i32.const 10000))")));
    let endless = evaluate(&[STDOUT, WRITE], &flood("(i32.const 1)"));
    assert_eq!(endless.fault_kind(), Some(FaultKind::OutOfFuel));
}

#[test]
fn wasi_wall_clock_is_the_time_fact_and_reading_it_is_recorded() {
    let now = "$clocks/wall-clock.now";
    let body = format!(
        "(call {now} (i32.const 512)) (i32.store (i32.const 28) (i32.load (i32.const 512))) i32.const 0"
    );
    let evaluation = evaluate(&[now], &body);
    assert_allowed(&evaluation);
    assert_eq!(u64::from(evaluation.quorum.required), NOW.0 / 1_000);
    let [read] = evaluation.facts.as_slice() else { panic!("{:?}", evaluation.facts) };
    assert_eq!((read.name.as_str(), read.value.clone()), ("time.now_ms", Some(NOW.0.to_string())));

    let nanoseconds = body.replace("(i32.load (i32.const 512))", "(i32.load (i32.const 520))");
    let at = Facts::from_pairs([("time.now_ms", (NOW.0 + 123).to_string())]);
    let evaluation = evaluate_with(&[now], &nanoseconds, "acct-2", &at);
    assert_eq!(evaluation.quorum.required, 123_000_000);

    let without = evaluate_with(&[now], &body, "acct-2", &Facts::default());
    assert_eq!((without.quorum.required, without.facts[0].value.clone()), (0, None));
}

#[test]
fn wasi_wall_clock_faults_when_the_time_fact_is_not_declared() {
    let engine = engine();
    let now = "$clocks/wall-clock.now";
    let wasm = wasi_guest(&[now], &format!("(call {now} (i32.const 512)) i32.const 0"));
    let bundle = bundle_of(&engine, &wasm, |manifest| manifest.world = WASI_WORLD.to_owned());
    let evaluator = Evaluator::link(&engine, &bundle).unwrap();
    let sample = payment("acct-2", &[]);
    let evaluation = evaluator.evaluate(&sample.request(Moment::Submit), &facts("2"), u64::MAX);
    assert_eq!(evaluation.fault_kind(), Some(FaultKind::UndeclaredFact));
}

#[test]
fn wasi_monotonic_clock_is_zero_and_waits_end_at_once() {
    let (now, wait) = ("$clocks/monotonic-clock.now", "$clocks/monotonic-clock.subscribe-duration");
    let block = "$io/poll.pollable.block";
    let body = format!(
        "(call {block} (call {wait} (i64.const 3600000000000)))
        (if (i64.ne (call {now}) (i64.const 0)) (then unreachable)) i32.const 0"
    );
    let started = std::time::Instant::now();
    assert_allowed(&evaluate(&[now, wait, block], &body));
    assert!(started.elapsed().as_secs() < 60, "the guest waited");
}

#[test]
fn wasi_randomness_depends_on_the_request_alone() {
    let number = "$random/random.get-random-u64";
    let body = format!("(i32.store (i32.const 28) (i32.wrap_i64 (call {number}))) i32.const 0");
    let drawn = |to: &str, facts: &Facts| {
        let evaluation = evaluate_with(&[number], &body, to, facts);
        assert_allowed(&evaluation);
        evaluation.quorum.required
    };
    assert_eq!(drawn("acct-2", &facts("2")), drawn("acct-2", &facts("3")));
    assert_ne!(drawn("acct-2", &facts("2")), drawn("acct-3", &facts("2")));

    let twice = format!("(drop (call {number})) {body}");
    let second = evaluate(&[number], &twice).quorum.required;
    assert_ne!(second, drawn("acct-2", &facts("2")), "a second number is another one");

    let seed = "$random/insecure-seed.insecure-seed";
    let seeded = format!(
        "(call {seed} (i32.const 512)) (i32.store (i32.const 28) (i32.load (i32.const 512))) i32.const 0"
    );
    assert_eq!(evaluate(&[seed], &seeded).quorum.required, drawn("acct-2", &facts("2")));
}

#[test]
fn wasi_random_bytes_have_a_limit_per_evaluation() {
    let bytes = "$random/random.get-random-bytes";
    let ask = |n: u64| format!("(call {bytes} (i64.const {n}) (i32.const 512))");
    let most = RANDOM_BYTES_MAX as u64;
    let whole = format!("{} (call $expect (i32.const 516) (i32.const {most})) i32.const 0", ask(most));
    assert_allowed(&evaluate(&[bytes], &whole));
    // Whole blocks count towards the limit.
    assert_allowed(&evaluate(&[bytes], &(ask(most - 32) + &ask(1) + " i32.const 0")));
    for body in [ask(most + 1), ask(u64::MAX >> 1), ask(most) + &ask(1), ask(most - 31) + &ask(1)] {
        let evaluation = evaluate(&[bytes], &(body + " i32.const 0"));
        assert_eq!(evaluation.fault_kind(), Some(FaultKind::Memory));
    }
}

#[test]
fn wasi_exit_faults_as_trap() {
    for status in [0, 1] {
        for exit in ["$cli/exit.exit", "$cli/exit.exit-with-code"] {
            let evaluation = evaluate(&[exit], &format!("(call {exit} (i32.const {status})) i32.const 0"));
            assert_eq!(evaluation.fault_kind(), Some(FaultKind::Trap));
        }
    }
}

#[test]
fn wasi_function_without_implementation_faults_as_not_given() {
    let splice = "$io/streams.output-stream.splice";
    let stdin = "$cli/stdin.get-stdin";
    let body =
        format!("(call {splice} (call {STDOUT}) (call {stdin}) (i64.const 1) (i32.const 512)) i32.const 0");
    assert_eq!(evaluate(&[splice, STDOUT, stdin], &body).fault_kind(), Some(FaultKind::NotGiven));
}

/// A component made for a later version of WASI, with a function that the linked one does not have.
#[test]
fn function_unknown_to_the_linked_wasi_version_faults_as_not_given_when_called() {
    let directory = "$cli/environment.home-directory";
    for (body, fault) in [
        (format!("(drop (call {directory})) i32.const 0"), Some(FaultKind::NotGiven)),
        (format!("(if (i32.const 0) (then (drop (call {directory})))) i32.const 0"), None),
    ] {
        assert_eq!(evaluate(&[directory], &body).fault_kind(), fault, "{body}");
    }
}

/// Blocking WASI calls panic on a thread that drives a tokio runtime.
#[tokio::test]
async fn wasi_guest_may_block_when_evaluated_from_an_async_task() {
    let block = "$io/poll.pollable.block";
    let wait = "$clocks/monotonic-clock.subscribe-duration";
    let body = format!("(call {block} (call {wait} (i64.const 1))) i32.const 0");
    let evaluation = evaluate(&[wait, block], &body);
    assert_allowed(&evaluation);

    let sample = payment("acct-2", &["bob"]);
    let request = sample.request(Moment::Admission);
    let evaluator = load(&wasi_guest(&[wait, block], &body), WASI_WORLD).unwrap();
    assert!(
        evaluator.evaluate_inline(&request, &facts("2")).is_none(),
        "the evaluation ran on the caller's thread"
    );
    assert_eq!(evaluator.describe(), Ok(String::new()));
    // On a thread without a runtime, as those of a worker pool.
    let evaluate = || evaluator.evaluate(&request, &facts("2"), u64::MAX);
    let pooled = std::thread::scope(|scope| scope.spawn(evaluate).join().unwrap());
    assert_eq!((pooled.fault_kind(), pooled.decision), (None, Decision::Allow));
}

#[test]
fn forged_handle_is_refused_and_handles_have_a_limit() {
    let body =
        format!("(call {WRITE} (i32.const 7) (i32.const 0) (i32.const 1) (i32.const 512)) i32.const 0");
    let fault = evaluate(&[STDOUT, WRITE], &body).fault_kind();
    assert!(fault.is_some(), "{fault:?}");
    let hoard = |n: usize| {
        format!(
            "(loop $l (drop (call {STDOUT})) (br_if $l (i32.lt_u
                (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const {n})))) i32.const 0"
        )
    };
    assert_allowed(&evaluate(&[STDOUT], &hoard(HANDLES_MAX)));
    assert!(evaluate(&[STDOUT], &hoard(HANDLES_MAX + 1)).fault_kind().is_some());
}

#[test]
fn component_that_imports_sockets_is_refused_at_load() {
    let network = "$sockets/instance-network.instance-network";
    let wasm = wasi_guest(&[network], &format!("(drop (call {network})) i32.const 0"));
    for world in [WORLD, WASI_WORLD] {
        let refused = load(&wasm, world).unwrap_err();
        assert!(
            matches!(&refused, BundleError::UnknownCapability(name) if name.starts_with("wasi:sockets/")),
            "{world}: {refused}"
        );
    }
}

#[test]
fn wasi_imports_other_than_0_2_are_not_given() {
    for version in ["0.2.0", "0.2.9", "0.2.30"] {
        assert!(crate::wasi::is_provided(&format!("wasi:cli/environment@{version}")), "{version}");
    }
    for import in [
        "wasi:cli/environment@0.3.0",
        "wasi:cli/environment@0.20.0",
        "wasi:cli/environment@1.0.0",
        "wasi:cli/environment",
        "wasi:cli/environment2@0.2.0",
        "wasi:http/types@0.2.0",
    ] {
        assert!(!crate::wasi::is_provided(import), "{import}");
    }
}

#[test]
fn pure_world_refuses_wasi_imports() {
    for used in
        ["$cli/environment.get-environment", "$clocks/wall-clock.now", "$random/insecure-seed.insecure-seed"]
    {
        let wasm = wasi_guest(&[used], &format!("(call {used} (i32.const 512)) i32.const 0"));
        assert!(load(&wasm, WASI_WORLD).is_ok());
        let refused = load(&wasm, WORLD).unwrap_err();
        assert!(matches!(&refused, BundleError::NeedsWasi(name) if name.starts_with("wasi:")), "{refused}");
    }
}

#[test]
fn bundle_of_the_wasi_world_need_not_import_wasi() {
    assert!(load(&guest(1, "", "i32.const 0"), WASI_WORLD).is_ok());
}

#[test]
fn unknown_world_is_refused_and_the_world_is_signed() {
    let text = String::from_utf8(committed().get(MANIFEST_FILE).unwrap().to_vec()).unwrap();
    for world in ["svc:policy-wasi@1.x", "svc:policy-wasi", "wasi", ""] {
        let other = text.replace(WORLD, world);
        let refused = Manifest::parse(other.as_bytes()).unwrap_err();
        assert!(matches!(&refused, BundleError::World { found } if found == world), "{refused}");
    }
    let pure = Manifest::parse(text.as_bytes()).unwrap();
    let wasi = Manifest::parse(text.replace(WORLD, WASI_WORLD).as_bytes()).unwrap();
    assert_ne!(pure.canonical_bytes().unwrap(), wasi.canonical_bytes().unwrap());
}
