//! The bundle's own data, and the facts that it declares.

use crate::bundle::Manifest;
use crate::data::Data;
use crate::limits::{DATA_BYTES_READ_MAX, DATA_LOOKUP_BYTES};
use crate::testing::{bundle_of, bundle_with, engine, facts, guest, payment};
use crate::{BundleError, Evaluator};
use gateway_domain::policy::{Decision, Facts, FaultKind, Moment};
use gateway_policy_sdk::Data as _;
use serde_json::{Value, json};

const ALLOW: &str = "i32.const 0";

fn bundle(data: &[(&str, &[u8])], change: impl FnOnce(&mut Manifest)) -> crate::Bundle {
    bundle_with(&engine(), &guest(1, "", ALLOW), data, change)
}

/// The examples of RFC 6901 section 5, and pointers that implementations often read wrongly.
#[test]
fn host_and_sdk_test_helpers_look_up_the_same_data() {
    let document = r#"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"k\"l":6," ":7,"m~n":8,"~1":9,"01":10,
        "z":{"list":[[],{"b":true,"a":null}],"text":"a \"quoted\" text\n","big":18446744073709551615,"low":-9223372036854775808}}"#;
    let bundle = bundle(&[("data/a.json", document.as_bytes()), ("data/text.json", b"\"text\"")], |_| ());
    let (ours, sdks) = (
        bundle.data().map(Data::new).unwrap(),
        gateway_policy_sdk::testing::data(&[("a.json", document), ("text.json", "\"text\"")]),
    );
    let both = |file: &str, pointer: &str| {
        let found = ours.get(file, pointer).map(std::borrow::Cow::into_owned);
        assert_eq!(found, sdks.get(file, pointer), "{file} `{pointer}`");
        found
    };
    for (pointer, expected) in [
        ("/foo", r#"["bar","baz"]"#),
        ("/foo/0", "bar"),
        ("/foo/1", "baz"),
        ("/", "0"),
        ("/a~1b", "1"),
        ("/c%d", "2"),
        ("/e^f", "3"),
        ("/k\"l", "6"),
        ("/ ", "7"),
        ("/m~0n", "8"),
        ("/~01", "9"),
        ("/01", "10"),
        ("/z/list", r#"[[],{"a":null,"b":true}]"#),
        ("/z/list/1/a", "null"),
        ("/z/text", "a \"quoted\" text\n"),
        ("/z/big", "18446744073709551615"),
        ("/z/low", "-9223372036854775808"),
    ] {
        assert_eq!(both("a.json", pointer).as_deref(), Some(expected), "`{pointer}`");
    }
    for pointer in [
        "foo",
        "/foo/",
        "/foo/2",
        "/foo/-",
        "/foo/00",
        "/foo/01",
        "/foo/+1",
        "/foo/ 1",
        "/foo/-0",
        "/foo/0/0",
        "/m~n",
        "/m~2n",
        "/~",
        "/a/b",
        "//",
        "/z/list/0/0",
        "/z/text/0",
        "#/foo",
    ] {
        assert_eq!(both("a.json", pointer), None, "`{pointer}`");
    }
    assert_eq!(both("text.json", "").as_deref(), Some("text"));
    assert!(both("a.json", "").unwrap().starts_with(r#"{"":0," ":7,"01":10,"a/b":1,"#));
    for file in ["", "data/a.json", "../a.json", "b.json", "a", "A.json"] {
        assert_eq!(both(file, ""), None, "`{file}`");
    }
}

#[test]
fn bundle_with_ambiguous_json_data_is_refused() {
    let refused = |text: &str| {
        Evaluator::link(&engine(), &bundle(&[("data/a.json", text.as_bytes())], |_| ())).unwrap_err()
    };
    let twice = refused(r#"{"a": {"b": 1, "b": 2}}"#);
    assert!(
        matches!(&twice, BundleError::DuplicateKey { file, key } if file == "data/a.json" && key == "b"),
        "{twice}"
    );
    for text in ["", "{", "{} {}", "1.5", "[1e3]", "18446744073709551616", "// a comment\n{}", "{'a': 1}"] {
        let refused = refused(text);
        assert!(matches!(&refused, BundleError::Json { file, .. } if file == "data/a.json"), "{refused}");
    }
    assert!(Evaluator::link(&engine(), &bundle(&[("data/a.json", b"null")], |_| ())).is_ok());
}

#[test]
fn cedar_files_are_read_as_one_string() {
    let text = "permit (principal, action, resource); // \"as written\"\n";
    let bundle = bundle(&[("data/policies.cedar", text.as_bytes())], |_| ());
    let data = bundle.data().map(Data::new).unwrap();
    assert_eq!(data.get("policies.cedar", "").as_deref(), Some(text));
    assert_eq!(data.get("policies.cedar", "/0"), None);
    let refused =
        crate::testing::bundle_with(&engine(), &guest(1, "", ALLOW), &[("data/a.cedar", b"\xff")], |_| ());
    assert!(matches!(refused.data(), Err(BundleError::NotText(file)) if file == "data/a.cedar"));
}

/// A guest that looks up `/text` in `a.json` `n` times. It denies if the last lookup found nothing.
fn look_up(n: u32) -> Vec<u8> {
    let names = r#"(data (i32.const 1024) "a.json") (data (i32.const 1040) "/text")"#;
    let body = format!(
        "(loop $l
            (call $look_up (i32.const 1024) (i32.const 6) (i32.const 1040) (i32.const 5) (i32.const 512))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (global.set $next (i32.const 32768))
            (br_if $l (i32.lt_u (local.get $i) (i32.const {n}))))
        (i32.store8 (i32.const 0) (i32.eqz (i32.load8_u (i32.const 512))))
        i32.const 0"
    );
    guest(1, names, &body)
}

#[test]
fn component_reads_its_bundles_data_up_to_a_limit() {
    let engine = engine();
    let sample = payment("acct-2", &[]);
    let evaluate = |n: u32, data: &[(&str, &[u8])]| {
        let evaluator = Evaluator::link(&engine, &bundle_with(&engine, &look_up(n), data, |_| ())).unwrap();
        let evaluation = evaluator.evaluate(&sample.request(Moment::Submit), &facts("2"), u64::MAX);
        assert!(evaluation.facts.is_empty(), "the bundle's own data is not recorded");
        (evaluation.decision, evaluation.fault_kind())
    };
    let text = format!(r#"{{"text": "{}"}}"#, "x".repeat(DATA_LOOKUP_BYTES));
    let data: &[(&str, &[u8])] = &[("data/a.json", text.as_bytes())];
    assert_eq!(evaluate(1, data), (Decision::Allow, None));
    assert_eq!(evaluate(1, &[]), (Decision::Deny, None), "there is no such file");
    let n_max = u32::try_from(DATA_BYTES_READ_MAX / (2 * DATA_LOOKUP_BYTES)).unwrap();
    assert_eq!(evaluate(n_max, data), (Decision::Allow, None));
    assert_eq!(evaluate(n_max + 1, data), (Decision::Deny, Some(FaultKind::TooMuchData)));
    assert_eq!(evaluate(n_max * 2, &[]).1, None, "each lookup counts `DATA_LOOKUP_BYTES`");
    assert_eq!(evaluate(n_max * 2 + 1, &[]).1, Some(FaultKind::TooMuchData));
}

#[test]
fn reading_an_undeclared_fact_is_a_fault() {
    let engine = engine();
    let names = r#"(data (i32.const 1024) "time.now_ms")"#;
    let wasm = guest(1, names, "(call $get (i32.const 1024) (i32.const 11) (i32.const 512)) i32.const 0");
    let ask = |declared: &[&str]| {
        let declared: Vec<String> = declared.iter().map(|name| (*name).to_owned()).collect();
        let bundle = bundle_with(&engine, &wasm, &[], |manifest| manifest.facts = declared);
        let evaluator = Evaluator::link(&engine, &bundle).unwrap();
        evaluator.evaluate(&payment("acct-2", &[]).request(Moment::Submit), &facts("2"), u64::MAX)
    };
    for declared in [&["time.now_ms"][..], &["key.state", "time.*"]] {
        let evaluation = ask(declared);
        assert_eq!((evaluation.fault_kind(), evaluation.facts.len()), (None, 1), "{declared:?}");
        assert!(evaluation.facts[0].value.is_some());
    }
    for declared in [&[][..], &["key.epoch"], &["deployment.*", "velocity.*"]] {
        let evaluation = ask(declared);
        assert_eq!(evaluation.fault_kind(), Some(FaultKind::UndeclaredFact), "{declared:?}");
        assert_eq!(evaluation.facts[0].to_string(), "time.now_ms=(none)", "named, without its value");
    }
}

/// A wildcard names no currency, so the host could not know which payments to sum.
#[test]
fn payments_in_another_currency_are_read_only_by_their_full_names() {
    const IN_DOLLARS: &str = "velocity.account.7d.units.of.USD";
    let text = format!(r#"(data (i32.const 1024) "{IN_DOLLARS}")"#);
    let body =
        format!("(call $get (i32.const 1024) (i32.const {}) (i32.const 512)) i32.const 0", IN_DOLLARS.len());
    let wasm = guest(1, &text, &body);
    let read = |declared: &[&str]| {
        let declared: Vec<String> = declared.iter().map(|name| (*name).to_owned()).collect();
        let bundle = bundle_with(&engine(), &wasm, &[], |manifest| manifest.facts = declared);
        let evaluator = Evaluator::link(&engine(), &bundle).unwrap();
        let facts = Facts::from_pairs([(IN_DOLLARS, "70".to_owned())]);
        let outcome = evaluator.evaluate(&payment("acct-2", &[]).request(Moment::Submit), &facts, u64::MAX);
        (
            outcome.fault_kind(),
            outcome.facts[0].to_string(),
            evaluator.currencies().into_iter().collect::<Vec<_>>(),
        )
    };
    let named = read(&[IN_DOLLARS, "velocity.key.1h.count.of.EUR"]);
    assert_eq!(named, (None, format!("{IN_DOLLARS}=70"), vec!["EUR".to_owned(), "USD".to_owned()]));
    for declared in [&["velocity.*"][..], &["velocity.account.*"], &["velocity.account.7d.units.of.EUR"]] {
        let (fault, fact, _) = read(declared);
        assert_eq!(
            (fault, fact),
            (Some(FaultKind::UndeclaredFact), format!("{IN_DOLLARS}=(none)")),
            "{declared:?}"
        );
    }
}

#[test]
fn declared_facts_are_names_in_order() {
    let refused = |declared: &[&str]| {
        let mut manifest = bundle(&[], |_| ()).manifest().clone();
        manifest.facts = declared.iter().map(|name| (*name).to_owned()).collect();
        Manifest::parse(&serde_json::to_vec(&manifest).unwrap()).err()
    };
    let names = [
        &[][..],
        &["time.now_ms"],
        &["key.*", "key.epoch"],
        &["velocity.account.*", "velocity.recipient.*"],
        &["velocity.account.24h.units.of.EUR", "velocity.account.24h.units.of.x-Y/z"],
    ];
    for declared in names {
        assert!(refused(declared).is_none(), "{declared:?}");
    }
    for name in
        ["", "*", ".*", "a*", "a..b", ".a", "a.", "a.*.b", "a.**", "A", "a b", "a-b", &"a".repeat(257)]
    {
        assert!(matches!(refused(&[name]), Some(BundleError::FactName(found)) if found == name), "{name}");
    }
    let in_no_currency =
        ["velocity.account.24h.units.of", "velocity.account.24h.units.of.*", "velocity.of.eur"];
    let unknown = ["time.now", "limits.eur", "velocity.account.24h.unitss", "recipients.*", "velocity"];
    for name in unknown.into_iter().chain(in_no_currency) {
        assert!(matches!(refused(&[name]), Some(BundleError::UnknownFact(found)) if found == name), "{name}");
    }
    for declared in [&["key.state", "key.epoch"], &["key.epoch", "key.epoch"]] {
        assert!(
            matches!(refused(declared), Some(BundleError::FactOrder(found)) if found == "key.epoch"),
            "{declared:?}"
        );
    }
    let many: Vec<String> = (0..129).map(|n| format!("a{n:03}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(matches!(refused(&many[..128]), Some(BundleError::UnknownFact(_))));
    assert!(matches!(refused(&many), Some(BundleError::TooManyFacts(128))));
}

#[test]
fn declared_facts_are_matched_by_prefix() {
    let may_read_velocity = |declared: &str| {
        let bundle = bundle(&[], |manifest| manifest.facts = vec![declared.to_owned()]);
        Evaluator::link(&engine(), &bundle).unwrap().may_read_facts("velocity.")
    };
    assert!(
        may_read_velocity("velocity.account.24h.units")
            && may_read_velocity("velocity.*")
            && may_read_velocity("velocity.account.*")
    );
    assert!(!may_read_velocity("time.now_ms") && !may_read_velocity("key.*"));
}

/// What the caller says of a calendar is not believed, and each value stands after the time that it follows from.
#[test]
fn calendar_is_computed_from_the_time_and_recorded_with_it() {
    let zoned = "time.weekday.Europe/Zurich";
    let text = format!(r#"(data (i32.const 1024) "{zoned}")"#);
    let body =
        format!("(call $get (i32.const 1024) (i32.const {}) (i32.const 512)) i32.const 0", zoned.len());
    let bundle =
        bundle_of(&engine(), &guest(1, &text, &body), |manifest| manifest.facts = vec![zoned.into()]);
    let evaluator = Evaluator::link(&engine(), &bundle).unwrap();
    let sample = payment("acct-2", &[]);
    let read = |pairs: &[(&'static str, &str)]| {
        let facts = Facts::from_pairs(pairs.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let outcome = evaluator.evaluate(&sample.request(Moment::Submit), &facts, u64::MAX);
        assert_eq!(outcome.fault, None);
        outcome.facts.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        read(&[("time.now_ms", "1792890000000"), ("time.weekday.Europe/Zurich", "monday")]),
        ["time.now_ms=1792890000000", "time.weekday.Europe/Zurich=sunday"]
    );
    assert_eq!(read(&[]), ["time.now_ms=(none)", "time.weekday.Europe/Zurich=(none)"]);
    for unknown in ["time.weekday.Europe/Berne", "time.weekday.europe/zurich", "time.year"] {
        let manifest = Manifest { facts: vec![unknown.into()], ..bundle.manifest().clone() };
        let refused = Manifest::parse(&serde_json::to_vec(&manifest).unwrap()).unwrap_err();
        assert!(matches!(&refused, BundleError::UnknownFact(name) if name == unknown), "{refused}");
    }
}

#[test]
fn fault_of_a_vector_names_it_and_its_member() {
    let vectors = crate::testing::committed();
    let vectors: Value = serde_json::from_slice(vectors.get("tests/payments.json").unwrap()).unwrap();
    let fault = |pointer: &str, value: Option<Value>| {
        let mut vectors = vectors.clone();
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        let parent = vectors.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Some(value) => drop(parent.insert(member.to_owned(), value)),
            None => drop(parent.remove(member)),
        }
        let bytes = serde_json::to_vec(&vectors).unwrap();
        bundle(&[("tests/v.json", &bytes)], |_| ()).vectors().unwrap_err().to_string()
    };
    let name = vectors[1]["name"].as_str().unwrap();
    let vector = format!("`tests/v.json` is not valid: vector 1 (`{name}`): ");
    for (pointer, value, expected) in [
        (
            "/1/input/moment",
            Some(json!("later")),
            format!("{vector}`/input/moment`: unknown variant `later`"),
        ),
        ("/1/input/tenant", None, format!("{vector}`/input`: missing field `tenant`")),
        ("/1/expect/required", Some(json!("2")), format!("{vector}`/expect/required`: invalid type: string")),
        (
            "/1/input/submitter",
            Some(json!(["desk", "carol", [], null, []])),
            "a list in place of an object at `/1/input/submitter`".into(),
        ),
        ("/1/expect/extra", Some(json!(1)), format!("{vector}`/expect/extra`: unknown field `extra`")),
    ] {
        let fault = fault(pointer, value);
        assert!(fault.contains(&expected), "{pointer}: {fault}");
    }
}
