use super::{assert_holds, not_checked, roots, verify};
use crate::harness::samples::{approval, path, payment, published, submitted, with};
use crate::harness::world::World;
use gateway_evidence::verify::Status;
use gateway_evidence::{Reader, Verdict};
use serde_json::{Value, json};

async fn pages(world: &World, export: &str, cap: usize) -> Vec<Value> {
    let mut pages = Vec::new();
    let mut after = json!(0);
    while let Some(seq) = after.as_u64() {
        let page = world.get(&format!("{export}?after_seq={seq}")).await.ok();
        assert!(page.to_string().len() <= cap, "{}", page.to_string().len());
        assert!(page["events"].as_array().unwrap().iter().all(|entry| entry["seq"].as_u64() > Some(seq)));
        after = page["next_after_seq"].clone();
        pages.push(page);
    }
    pages
}

#[tokio::test]
async fn pages_verify_as_one_document() {
    let cap = 24 * 1024;
    let world = World::with(&[("audit_bytes_max", &cap.to_string())]).await;
    let operation = published(&world, &payment("pages")).await;
    let roots = roots(&world).await;
    for export in ["/evidence", "/audit-replay"] {
        let pages = pages(&world, &path(&operation, export), cap).await;
        assert!(export != "/evidence" || pages.len() > 1, "{export}: {}", pages.len());
        let report = gateway_evidence::verify(pages.clone(), &Reader::new(&roots));
        assert_holds(&report, &["chain", "operation", "log"]);
        let newest = world.get(&path(&operation, export)).await.ok();
        let last = newest["events"].as_array().unwrap().last().unwrap();
        assert_eq!(last["event_hash"], newest["record_root"]);
        assert_holds(&verify(&newest, &roots), &["chain", "log"]);
        if pages.len() > 1 {
            let mut missing = pages.clone();
            missing.remove(0);
            let report = gateway_evidence::verify(missing, &Reader::new(&roots));
            let operation = report.checks.iter().find(|check| check.name == "operation").unwrap();
            assert!(matches!(operation.status, Status::NotChecked(_)), "{operation:?}");
            assert_eq!(report.verdict(), Verdict::NotChecked);
        }
    }
}

/// A reader may have requested some events twice.
#[tokio::test]
async fn overlapping_pages_are_accepted() {
    let cap = 24 * 1024;
    let world = World::with(&[("audit_bytes_max", &cap.to_string())]).await;
    let operation = published(&world, &payment("overlap")).await;
    let mut pages = pages(&world, &path(&operation, "/evidence"), cap).await;
    pages.insert(1, world.get(&path(&operation, "/evidence?after_seq=1")).await.ok());
    let roots = roots(&world).await;
    let report = gateway_evidence::verify(pages.clone(), &Reader::new(&roots));
    assert_holds(&report, &["chain", "operation", "log"]);
    // In any order; but two different events with one number are rejected.
    pages.reverse();
    let report = gateway_evidence::verify(pages.clone(), &Reader::new(&roots));
    assert_holds(&report, &["chain", "operation", "log"]);
    pages[0]["events"][0]["event"]["at_ms"] = json!(1);
    let report = gateway_evidence::verify(pages, &Reader::new(&roots));
    assert!(report.findings().any(|finding| finding.what.contains("differs between pages")), "{report:?}");
}

/// The page of a document with the events from the first number to the last.
fn page(document: &Value, first: usize, last: usize) -> Value {
    let events = document["events"].as_array().unwrap();
    let mut page = document.clone();
    page["events"] = json!(events[first - 1..last]);
    if first > 1 {
        page["previous_hash"] = events[first - 2]["event_hash"].clone();
    }
    page["truncated"] = json!(true);
    page["next_after_seq"] = if last < events.len() { json!(last) } else { Value::Null };
    page
}

#[tokio::test]
async fn document_with_missing_pages_is_not_verified() {
    let world = World::start().await;
    let operation = published(&world, &payment("missing")).await;
    let roots = roots(&world).await;
    let whole = world.get(&path(&operation, "/evidence")).await.ok();
    let n_events = whole["events"].as_array().unwrap().len();
    let verified = |pages: &[(usize, usize)]| {
        let pages = pages.iter().map(|(first, last)| page(&whole, *first, *last)).collect();
        gateway_evidence::verify(pages, &Reader::new(&roots))
    };
    assert_holds(&verified(&[(5, n_events), (1, 6)]), &["form", "chain", "operation", "key", "log"]);
    for (given, part) in [
        (vec![(1, 4)], "the last event is missing"),
        (vec![(5, 8)], "the first event is missing"),
        (vec![(5, n_events)], "the first event is missing"),
        (vec![(1, 4), (6, n_events)], "1 events in between are missing"),
        (vec![], ""),
    ] {
        let report = verified(&given);
        assert_eq!(report.verdict(), Verdict::NotChecked, "{given:?}: {report:?}");
        let why = not_checked(&report);
        let named = |(name, why): &(&str, &str)| *name == "pages" && why.contains(part);
        assert!(given.is_empty() || why.iter().any(named), "{part}: {why:?}");
    }
    // Pages with the same first event state the same hash of the event before it.
    let (one, mut other) = (page(&whole, 5, 8), page(&whole, 5, 9));
    other["previous_hash"] = json!("11".repeat(32));
    for pages in [vec![one.clone(), other.clone()], vec![other.clone(), one]] {
        let report = gateway_evidence::verify(pages, &Reader::new(&roots));
        assert!(report.findings().any(|finding| finding.at == "/previous_hash"), "{report:?}");
    }
    let report = gateway_evidence::verify(vec![page(&whole, 1, 4), other], &Reader::new(&roots));
    assert!(report.findings().any(|finding| finding.at == "/previous_hash"), "{report:?}");
    let mut empty = world.get(&path(&operation, "/evidence?after_seq=99")).await.ok();
    empty["previous_hash"] = json!("11".repeat(32));
    let report = gateway_evidence::verify(vec![empty], &Reader::new(&roots));
    assert!(report.findings().any(|finding| finding.at == "/previous_hash"), "{report:?}");
}

#[tokio::test]
async fn contradictory_pages_are_refused() {
    let world = World::start().await;
    let operation = published(&world, &payment("disagree")).await;
    let roots = roots(&world).await;
    let whole = world.get(&path(&operation, "/evidence")).await.ok();
    let n_events = whole["events"].as_array().unwrap().len();
    let found = |pages: Vec<Value>, at: &str| {
        let report = gateway_evidence::verify(pages, &Reader::new(&roots));
        assert!(report.findings().any(|finding| finding.at == at), "{at}: {report:?}");
    };
    for name in ["tenant", "operation_id", "record_root", "format"] {
        let other = with(page(&whole, 5, n_events), &format!("/{name}"), json!("svc/audit-log/v1"));
        found(vec![page(&whole, 1, 4), other], &format!("/{name}"));
    }
    let mut swapped = page(&whole, 1, n_events);
    swapped["events"].as_array_mut().unwrap().swap(0, 1);
    found(vec![swapped], "/events/1/seq");
    // The last event is the last one, whatever number the page states.
    let mut longer = page(&whole, 5, n_events);
    (longer["total_events"], longer["next_after_seq"]) = (json!(n_events + 1), json!(n_events));
    found(vec![longer], "/total_events");
}

/// The log grows while a reader requests pages, so each page has its own checkpoint and key statement.
#[tokio::test]
async fn pages_fetched_while_the_log_grows_verify_as_one_document() {
    let world = World::start().await;
    let operation = published(&world, &payment("grows")).await;
    let earlier = world.get(&path(&operation, "/evidence")).await.ok();
    published(&world, &payment("another")).await;
    let later = world.get(&path(&operation, "/evidence")).await.ok();
    assert_ne!(earlier["log"], later["log"]);
    let n_events = later["events"].as_array().unwrap().len();
    let roots = roots(&world).await;
    let (first, second) = (page(&earlier, 1, 6), page(&later, 7, n_events));
    let report = gateway_evidence::verify(vec![first.clone(), second.clone()], &Reader::new(&roots));
    assert_holds(&report, &["chain", "operation", "key", "log"]);
    // Each page's checkpoint and statement is checked.
    for (name, value) in [("key_note", json!("none")), ("key_stated_at_ms", json!(1)), ("log", json!({}))] {
        for pages in [
            vec![with(first.clone(), &format!("/{name}"), value.clone()), second.clone()],
            vec![first.clone(), with(second.clone(), &format!("/{name}"), value.clone())],
        ] {
            let report = gateway_evidence::verify(pages, &Reader::new(&roots));
            assert!(report.findings().any(|finding| finding.at == format!("/{name}")), "{name}: {report:?}");
        }
    }
}

#[tokio::test]
async fn pages_of_two_operations_are_refused() {
    let world = World::start().await;
    let (one, other) = (published(&world, &payment("one")).await, published(&world, &payment("other")).await);
    let one = world.get(&path(&one, "/evidence")).await.ok();
    let other = world.get(&path(&other, "/evidence")).await.ok();
    let report = gateway_evidence::verify(vec![one, other], &Reader::new(&roots(&world).await));
    assert_eq!(report.verdict(), Verdict::Fails);
}

#[tokio::test]
async fn largest_operation_stays_below_the_page_cap() {
    // Every approval is evaluated with all earlier ones, and its event names them all.
    let world = World::with(&[("required_approvals", "100")]).await;
    let operation = submitted(&world, &payment("large")).await;
    for number in 0..50 {
        let subject = format!("{number}-{}", "x".repeat(900));
        world.post(&path(&operation, "/approve"), &approval(&subject)).await.ok();
    }
    for export in ["/evidence", "/audit-replay"] {
        let newest = world.get(&path(&operation, export)).await.ok();
        let length = newest.to_string().len();
        assert!(length <= 524_288 && length > 400_000, "{export}: {length}");
        assert_eq!((&newest["truncated"], &newest["next_after_seq"]), (&json!(true), &Value::Null));
    }
}

#[tokio::test]
async fn invalid_page_query_is_refused() {
    let world = World::start().await;
    let operation = submitted(&world, &payment("query")).await;
    for query in [
        "after_seq=x",
        "after_seq=-1",
        "after_seq=1&after_seq=2",
        "after_seq=9223372036854775808",
        "after_seq=",
    ] {
        let answer = world.get(&path(&operation, &format!("/evidence?{query}"))).await;
        answer.fails(400, "invalid_request");
    }
    let beyond = world.get(&path(&operation, "/evidence?after_seq=9223372036854775807")).await.ok();
    assert_eq!((&beyond["events"], &beyond["next_after_seq"]), (&json!([]), &Value::Null));
}
