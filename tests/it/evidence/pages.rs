use super::{assert_finding_at, assert_holds, not_checked, roots, verify, verify_pages};
use crate::harness::samples::{approval, path, payment, publish, submit, with};
use crate::harness::world::World;
use gateway_evidence::Verdict;
use gateway_evidence::verify::Status;
use serde_json::{Value, json};

/// All pages of an export, at most `cap` bytes each.
async fn fetch_pages(world: &World, export: &str, cap: usize) -> Vec<Value> {
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
    let operation = publish(&world, &payment("pages")).await;
    let roots = roots(&world).await;
    for export in ["/evidence", "/audit-replay"] {
        let pages = fetch_pages(&world, &path(&operation, export), cap).await;
        assert!(export != "/evidence" || pages.len() > 1, "{export}: {}", pages.len());
        let report = verify_pages(pages.clone(), &roots);
        assert_holds(&report, &["chain", "operation", "log"]);
        let newest = world.get(&path(&operation, export)).await.ok();
        let last = newest["events"].as_array().unwrap().last().unwrap();
        assert_eq!(last["event_hash"], newest["record_root"]);
        assert_holds(&verify(&newest, &roots), &["chain", "log"]);
        if pages.len() > 1 {
            let mut missing = pages.clone();
            missing.remove(0);
            let report = verify_pages(missing, &roots);
            let operation = report.checks.iter().find(|check| check.name == "operation").unwrap();
            assert!(matches!(operation.status, Status::NotChecked(_)), "{operation:?}");
            assert_eq!(report.verdict(), Verdict::NotChecked);
        }
    }
}

#[tokio::test]
async fn overlapping_pages_are_accepted() {
    let cap = 24 * 1024;
    let world = World::with(&[("audit_bytes_max", &cap.to_string())]).await;
    let operation = publish(&world, &payment("overlap")).await;
    let mut pages = fetch_pages(&world, &path(&operation, "/evidence"), cap).await;
    pages.insert(1, world.get(&path(&operation, "/evidence?after_seq=1")).await.ok());
    let roots = roots(&world).await;
    let report = verify_pages(pages.clone(), &roots);
    assert_holds(&report, &["chain", "operation", "log"]);
    // The order of pages does not matter, but two different events with one number are rejected.
    pages.reverse();
    let report = verify_pages(pages.clone(), &roots);
    assert_holds(&report, &["chain", "operation", "log"]);
    pages[0]["events"][0]["event"]["at_ms"] = json!(1);
    let report = verify_pages(pages, &roots);
    assert!(report.findings().any(|finding| finding.what.contains("differs between pages")), "{report:?}");
}

/// The page of a document that has the events with the numbers `first` to `last`.
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
    let operation = publish(&world, &payment("missing")).await;
    let roots = roots(&world).await;
    let whole = world.get(&path(&operation, "/evidence")).await.ok();
    let n_events = whole["events"].as_array().unwrap().len();
    let verify_ranges = |pages: &[(usize, usize)]| {
        let pages = pages.iter().map(|(first, last)| page(&whole, *first, *last)).collect();
        verify_pages(pages, &roots)
    };
    assert_holds(
        &verify_ranges(&[(5, n_events), (1, 6)]),
        &["form", "chain", "operation", "statement", "log"],
    );
    for (ranges, part) in [
        (vec![(1, 4)], "the last event is missing"),
        (vec![(5, 8)], "the first event is missing"),
        (vec![(5, n_events)], "the first event is missing"),
        (vec![(1, 4), (6, n_events)], "1 events in between are missing"),
        (vec![], ""),
    ] {
        let report = verify_ranges(&ranges);
        assert_eq!(report.verdict(), Verdict::NotChecked, "{ranges:?}: {report:?}");
        let why = not_checked(&report);
        let is_named = |(name, why): &(&str, &str)| *name == "pages" && why.contains(part);
        assert!(ranges.is_empty() || why.iter().any(is_named), "{part}: {why:?}");
    }
    // Pages that begin with the same event must state the same hash of the event before it.
    let (one, mut other) = (page(&whole, 5, 8), page(&whole, 5, 9));
    other["previous_hash"] = json!("11".repeat(32));
    for pages in [vec![one.clone(), other.clone()], vec![other.clone(), one]] {
        assert_finding_at(&verify_pages(pages, &roots), "/previous_hash");
    }
    let pages = vec![page(&whole, 1, 4), other];
    assert_finding_at(&verify_pages(pages, &roots), "/previous_hash");
    let mut empty = world.get(&path(&operation, "/evidence?after_seq=99")).await.ok();
    empty["previous_hash"] = json!("11".repeat(32));
    assert_finding_at(&verify(&empty, &roots), "/previous_hash");
}

#[tokio::test]
async fn contradictory_pages_are_refused() {
    let world = World::start().await;
    let operation = publish(&world, &payment("disagree")).await;
    let roots = roots(&world).await;
    let whole = world.get(&path(&operation, "/evidence")).await.ok();
    let n_events = whole["events"].as_array().unwrap().len();
    let assert_found = |pages, at: &str| assert_finding_at(&verify_pages(pages, &roots), at);
    for name in ["tenant", "operation_id", "record_root", "format"] {
        let other = with(page(&whole, 5, n_events), &format!("/{name}"), json!("svc/audit-log/v3"));
        assert_found(vec![page(&whole, 1, 4), other], &format!("/{name}"));
    }
    let mut swapped = page(&whole, 1, n_events);
    swapped["events"].as_array_mut().unwrap().swap(0, 1);
    assert_found(vec![swapped], "/events/1/seq");
    // A page states one event more than the pages have, and that more events follow.
    let mut longer = page(&whole, 5, n_events);
    (longer["total_events"], longer["next_after_seq"]) = (json!(n_events + 1), json!(n_events));
    assert_found(vec![longer], "/total_events");
}

/// The log grows while a reader requests pages, so each page has its own checkpoint and statement.
#[tokio::test]
async fn pages_fetched_while_the_log_grows_verify_as_one_document() {
    let world = World::start().await;
    let operation = publish(&world, &payment("grows")).await;
    let earlier = world.get(&path(&operation, "/evidence")).await.ok();
    publish(&world, &payment("another")).await;
    let later = world.get(&path(&operation, "/evidence")).await.ok();
    assert_ne!(earlier["log"], later["log"]);
    let n_events = later["events"].as_array().unwrap().len();
    let roots = roots(&world).await;
    let (first, second) = (page(&earlier, 1, 6), page(&later, 7, n_events));
    let report = verify_pages(vec![first.clone(), second.clone()], &roots);
    assert_holds(&report, &["chain", "operation", "statement", "log"]);
    // The log proof and the statement of each page are checked, not only those of the last page.
    for (name, value) in [("statement", json!("none")), ("stated_at_ms", json!(1)), ("log", json!({}))] {
        for pages in [
            vec![with(first.clone(), &format!("/{name}"), value.clone()), second.clone()],
            vec![first.clone(), with(second.clone(), &format!("/{name}"), value.clone())],
        ] {
            assert_finding_at(&verify_pages(pages, &roots), &format!("/{name}"));
        }
    }
}

#[tokio::test]
async fn pages_of_two_operations_are_refused() {
    let world = World::start().await;
    let (one, other) = (publish(&world, &payment("one")).await, publish(&world, &payment("other")).await);
    let one = world.get(&path(&one, "/evidence")).await.ok();
    let other = world.get(&path(&other, "/evidence")).await.ok();
    let report = verify_pages(vec![one, other], &roots(&world).await);
    assert_eq!(report.verdict(), Verdict::Fails);
}

#[tokio::test]
async fn largest_operation_stays_below_the_page_cap() {
    // The policy evaluates each approval with all earlier ones, and the approval's event names them all.
    let world = World::with(&[("required_approvals", "100")]).await;
    let operation = submit(&world, &payment("large")).await;
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
    let operation = submit(&world, &payment("query")).await;
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
    let after_last = world.get(&path(&operation, "/evidence?after_seq=9223372036854775807")).await.ok();
    assert_eq!((&after_last["events"], &after_last["next_after_seq"]), (&json!([]), &Value::Null));
}
