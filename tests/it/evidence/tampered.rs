//! Alterations of evidence are found: altered values with their place, missing and added members, flipped bits.

use super::{assert_finding_at, roots, verify, verify_pages};
use crate::harness::samples::{path, payment, publish, with};
use crate::harness::world::World;
use gateway_evidence::{Report, Roots, Verdict};
use serde_json::{Value, json};

/// The evidence of a published payment that is not the last in the log, and the roots that verify it.
async fn evidence_and_roots() -> (Value, Roots) {
    let world = World::start().await;
    let body = with(payment("tampered"), "/client/token_jti", json!("jti-1"));
    let operation = publish(&world, &body).await;
    publish(&world, &payment("after")).await;
    (world.get(&path(&operation, "/evidence")).await.ok(), roots(&world).await)
}

/// All values in this one, with their pointers.
pub(super) fn values(value: &Value) -> Vec<(String, &Value)> {
    let mut found = vec![(String::new(), value)];
    let mut n_seen = 0;
    while let Some((at, value)) = found.get(n_seen).cloned() {
        n_seen += 1;
        match value {
            Value::Object(members) => {
                let name = |name: &str| name.replace('~', "~0").replace('/', "~1");
                found.extend(members.iter().map(|(member, value)| (format!("{at}/{}", name(member)), value)));
            }
            Value::Array(items) => {
                found.extend(items.iter().enumerate().map(|(index, item)| (format!("{at}/{index}"), item)));
            }
            _ => {}
        }
    }
    found
}

/// The pointers of all values without members.
pub(super) fn leaves(value: &Value) -> Vec<String> {
    let is_leaf = |value: &Value| match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    values(value).into_iter().filter(|(_, value)| is_leaf(value)).map(|(pointer, _)| pointer).collect()
}

/// Another value of the same type; an empty array or object gets a member, and null becomes a string.
pub(super) fn alter(value: &Value) -> Value {
    match value {
        Value::Null => json!("was null"),
        Value::Bool(is) => json!(!is),
        Value::Number(number) => json!(number.as_i64().unwrap() + 1),
        Value::String(text) => {
            // Replaces the middle character by `a` or `b`, so that a hash stays a hash.
            let mut characters: Vec<char> = text.chars().collect();
            let middle = characters.len() / 2;
            match characters.get_mut(middle) {
                Some(character) => *character = if *character == 'a' { 'b' } else { 'a' },
                None => characters.push('a'),
            }
            json!(characters.into_iter().collect::<String>())
        }
        Value::Array(_) => json!([0]),
        Value::Object(_) => json!({ "more": 0 }),
    }
}

fn is_found(report: &Report) -> bool {
    report.verdict() == Verdict::Fails
}

/// Whether a finding names this place, a member in it or around it, or the event that contains it.
fn is_located(report: &Report, pointer: &str) -> bool {
    let event = pointer
        .strip_prefix("/events/")
        .and_then(|rest| rest.split('/').next())
        .map(|index| format!("/events/{index}/"));
    report.findings().any(|finding| {
        pointer.starts_with(&finding.at)
            || finding.at.starts_with(pointer)
            || event.as_ref().is_some_and(|event| finding.at.starts_with(event))
    })
}

#[tokio::test]
async fn every_altered_value_is_found_and_located() {
    let (evidence, roots) = evidence_and_roots().await;
    let pointers = leaves(&evidence);
    assert!(pointers.len() > 400, "{}", pointers.len());
    for pointer in &pointers {
        let mut tampered = evidence.clone();
        let value = tampered.pointer_mut(pointer).unwrap();
        *value = alter(value);
        let report = verify(&tampered, &roots);
        assert!(is_found(&report), "{pointer}: {} is not found", tampered.pointer(pointer).unwrap());
        assert!(is_located(&report, pointer), "{pointer}: {:#?}", report.findings().collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn every_missing_or_additional_member_is_found() {
    let (evidence, roots) = evidence_and_roots().await;
    for name in evidence.as_object().unwrap().keys() {
        let mut tampered = evidence.clone();
        tampered.as_object_mut().unwrap().remove(name);
        assert!(is_found(&verify(&tampered, &roots)), "without {name}");
    }
    let more = with(evidence.clone(), "/more", json!(1));
    assert!(is_found(&verify(&more, &roots)));
    let events = evidence["events"].as_array().unwrap().len();
    for index in 0..events {
        let mut tampered = evidence.clone();
        tampered["events"].as_array_mut().unwrap().remove(index);
        assert!(is_found(&verify(&tampered, &roots)), "without event {index}");
        let mut tampered = evidence.clone();
        let disclosures = tampered["events"][index]["disclosures"].as_array_mut().unwrap();
        if disclosures.pop().is_some() {
            assert!(is_found(&verify(&tampered, &roots)), "without a disclosure of event {index}");
        }
    }
}

/// Flips one bit in each of 1,500 bytes spread over the file. A document that no longer parses counts as found.
#[tokio::test]
async fn flipped_bits_are_found() {
    let (evidence, roots) = evidence_and_roots().await;
    let text = evidence.to_string().into_bytes();
    let (mut n_unparsable, mut n_found) = (0_u32, 0_u32);
    for at in (0..text.len()).step_by(text.len() / 1500) {
        let mut flipped = text.clone();
        flipped[at] ^= 1 << (at % 7);
        let Ok(document) = gateway_evidence::parse(&flipped) else {
            n_unparsable += 1;
            continue;
        };
        assert_ne!(document, evidence, "byte {at}");
        let report = verify_pages(vec![document], &roots);
        assert!(is_found(&report), "byte {at}: {:?}", String::from_utf8_lossy(&flipped[at - 40..at + 40]));
        n_found += 1;
    }
    assert!(n_found > 500 && n_unparsable > 10, "{n_found} found, {n_unparsable} not parsed");
}

/// An attacker with the log's key can append events to the chain. They must still be possible in the operation's state:
/// otherwise a second decision could use the approvals of the first.
#[tokio::test]
async fn repeated_event_in_a_valid_chain_is_found() {
    let (evidence, roots) = evidence_and_roots().await;
    let events = evidence["events"].as_array().unwrap().clone();
    let mut n_found = 0;
    for (index, entry) in events.iter().enumerate() {
        let mut written = evidence.clone();
        let seq = events.len() + 1;
        let previous = evidence["record_root"].as_str().unwrap().parse().unwrap();
        let hash = gateway_domain::evidence::event_hash(previous, &entry["event"]).unwrap();
        let mut again = entry.clone();
        (again["seq"], again["event_hash"]) = (json!(seq), json!(hash));
        written["events"].as_array_mut().unwrap().push(again);
        (written["record_root"], written["total_events"]) = (json!(hash), json!(seq));
        let report = verify(&written, &roots);
        let at = format!("/events/{}/event/change/type", events.len());
        let kind = entry["event"]["change"]["type"].as_str().unwrap();
        let finding = report.findings().find(|finding| finding.at == at);
        let finding = finding.unwrap_or_else(|| panic!("event {index}, `{kind}`, repeated, was accepted"));
        assert!(finding.what.contains("cannot happen to an operation in state `published`"), "{finding}");
        n_found += 1;
    }
    assert!(n_found >= 12, "{n_found} events");
}

/// Such a member is hashed, but not written by any version; a reader of another version could give it a meaning.
#[tokio::test]
async fn event_with_an_unknown_member_is_found() {
    let (evidence, roots) = evidence_and_roots().await;
    let last = evidence["events"].as_array().unwrap().len() - 1;
    let mut written = evidence.clone();
    written["events"][last]["event"]["change"]["more"] = json!(1);
    let previous = evidence["events"][last - 1]["event_hash"].as_str().unwrap().parse().unwrap();
    let hash = gateway_domain::evidence::event_hash(previous, &written["events"][last]["event"]).unwrap();
    (written["events"][last]["event_hash"], written["record_root"]) = (json!(hash), json!(hash));
    let at = format!("/events/{last}/event");
    assert_finding_at(&verify(&written, &roots), &at);
}

/// An audit log discloses too little to rebuild its operation, so only these members can be compared.
#[tokio::test]
async fn audit_log_header_must_match_its_events() {
    let world = World::start().await;
    let operation = publish(&world, &payment("audit")).await;
    let audit = world.get(&path(&operation, "/audit-replay")).await.ok();
    let roots = roots(&world).await;
    let one_less = json!(audit["total_events"].as_u64().unwrap() - 1);
    for (name, value) in [
        ("operation_id", json!("11".repeat(32))),
        ("family", json!("custody")),
        ("state", json!("failed")),
        ("total_events", one_less),
    ] {
        let altered = with(audit.clone(), &format!("/{name}"), value);
        assert_finding_at(&verify(&altered, &roots), &format!("/{name}"));
    }
}
