//! Every altered value and every altered byte is found, and located where it has a place.

use super::{roots, verify};
use crate::harness::samples::{path, payment, published, with};
use crate::harness::world::World;
use gateway_evidence::{Reader, Report, Roots, Verdict};
use serde_json::{Value, json};

async fn evidence() -> (Value, Roots) {
    let world = World::start().await;
    let body = with(payment("tampered"), "/client/token_jti", json!("jti-1"));
    let operation = published(&world, &body).await;
    published(&world, &payment("after")).await;
    (world.get(&path(&operation, "/evidence")).await.ok(), roots(&world).await)
}

/// The pointers of all leaf values.
fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                leaves(member, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                leaves(item, &format!("{at}/{index}"), found);
            }
        }
        _ => found.push(at.to_owned()),
    }
}

fn altered(value: &Value) -> Value {
    match value {
        Value::Null => json!("was null"),
        Value::Bool(is) => json!(!is),
        Value::Number(number) => json!(number.as_i64().unwrap() + 1),
        Value::String(text) => {
            // Another character of the same kind, in the middle: a hash stays a hash.
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

/// The finding names the place, the event that contains it, or an enclosing member.
fn names(report: &Report, pointer: &str) -> bool {
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
    let (evidence, roots) = evidence().await;
    let mut pointers = Vec::new();
    leaves(&evidence, "", &mut pointers);
    assert!(pointers.len() > 400, "{}", pointers.len());
    for pointer in &pointers {
        let mut tampered = evidence.clone();
        let place = tampered.pointer_mut(pointer).unwrap();
        *place = altered(place);
        let report = verify(&tampered, &roots);
        assert!(is_found(&report), "{pointer}: {} is not found", tampered.pointer(pointer).unwrap());
        assert!(names(&report, pointer), "{pointer}: {:#?}", report.findings().collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn every_missing_or_additional_member_is_found() {
    let (evidence, roots) = evidence().await;
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
            assert!(is_found(&verify(&tampered, &roots)), "with a closed field in event {index}");
        }
    }
}

/// Flips one bit of bytes all over the file. A flip that does not change the parsed value is not an alteration.
#[tokio::test]
async fn flipped_bits_are_found() {
    let (evidence, roots) = evidence().await;
    let text = evidence.to_string().into_bytes();
    let (mut n_unread, mut n_found) = (0_u32, 0_u32);
    for at in (0..text.len()).step_by(text.len() / 1500) {
        let mut flipped = text.clone();
        flipped[at] ^= 1 << (at % 7);
        let Ok(document) = gateway_evidence::parse(&flipped) else {
            n_unread += 1;
            continue;
        };
        assert_ne!(document, evidence, "byte {at}");
        let report = gateway_evidence::verify(vec![document], &Reader::new(&roots));
        assert!(is_found(&report), "byte {at}: {:?}", String::from_utf8_lossy(&flipped[at - 40..at + 40]));
        n_found += 1;
    }
    assert!(n_found > 500 && n_unread > 10, "{n_found} found, {n_unread} no JSON");
}

/// An attacker with the log's key can write a valid chain. Its events must still be a possible history of an operation:
/// otherwise a second decision could use the first one's approvals.
#[tokio::test]
async fn repeated_event_in_a_valid_chain_is_found() {
    let (evidence, roots) = evidence().await;
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
        let finding = finding.unwrap_or_else(|| panic!("event {index}, `{kind}`, a repeat was accepted"));
        assert!(finding.what.contains("cannot happen to an operation in state `published`"), "{finding}");
        n_found += 1;
    }
    assert!(n_found >= 12, "{n_found} events");
}

/// The member is hashed, but no version writes it: a reader of another version might interpret it.
#[tokio::test]
async fn event_with_an_unknown_member_is_found() {
    let (evidence, roots) = evidence().await;
    let last = evidence["events"].as_array().unwrap().len() - 1;
    let mut written = evidence.clone();
    written["events"][last]["event"]["change"]["more"] = json!(1);
    let previous = evidence["events"][last - 1]["event_hash"].as_str().unwrap().parse().unwrap();
    let hash = gateway_domain::evidence::event_hash(previous, &written["events"][last]["event"]).unwrap();
    (written["events"][last]["event_hash"], written["record_root"]) = (json!(hash), json!(hash));
    let at = format!("/events/{last}/event");
    assert!(verify(&written, &roots).findings().any(|finding| finding.at == at));
}

/// An audit log discloses too little to rebuild its operation.
#[tokio::test]
async fn audit_log_header_must_match_its_events() {
    let world = World::start().await;
    let operation = published(&world, &payment("audit")).await;
    let audit = world.get(&path(&operation, "/audit-replay")).await.ok();
    let roots = roots(&world).await;
    let n_less = json!(audit["total_events"].as_u64().unwrap() - 1);
    for (name, value) in [
        ("operation_id", json!("11".repeat(32))),
        ("family", json!("custody")),
        ("state", json!("failed")),
        ("total_events", n_less),
    ] {
        let altered = with(audit.clone(), &format!("/{name}"), value);
        let report = verify(&altered, &roots);
        assert!(report.findings().any(|finding| finding.at == format!("/{name}")), "{name}: {report:?}");
    }
}
