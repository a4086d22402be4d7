use super::{assert_holds, roots, verify};
use crate::harness::samples::{approval, path, payment, published, submitted};
use crate::harness::world::World;
use gateway_evidence::verify::Status;
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
async fn pages_are_one_document() {
    let cap = 24 * 1024;
    let world = World::with(&[("audit_bytes_max", &cap.to_string())]).await;
    let operation = published(&world, &payment("pages")).await;
    let roots = roots(&world).await;
    for export in ["/evidence", "/audit-replay"] {
        let pages = pages(&world, &path(&operation, export), cap).await;
        assert!(export != "/evidence" || pages.len() > 1, "{export}: {}", pages.len());
        let report = gateway_evidence::verify(pages.clone(), &roots, None);
        assert_holds(&report, &["chain", "operation", "log"]);
        let newest = world.get(&path(&operation, export)).await.ok();
        let last = newest["events"].as_array().unwrap().last().unwrap();
        assert_eq!(last["event_hash"], newest["record_root"]);
        assert_holds(&verify(&newest, &roots), &["chain", "log"]);
        if pages.len() > 1 {
            let mut missing = pages.clone();
            missing.remove(0);
            let report = gateway_evidence::verify(missing, &roots, None);
            let operation = report.checks.iter().find(|check| check.name == "operation").unwrap();
            assert!(
                export == "/audit-replay" || matches!(operation.status, Status::Open(_)),
                "{operation:?}"
            );
        }
    }
}

/// A reader may have asked for some events twice.
#[tokio::test]
async fn pages_may_overlap() {
    let cap = 24 * 1024;
    let world = World::with(&[("audit_bytes_max", &cap.to_string())]).await;
    let operation = published(&world, &payment("overlap")).await;
    let mut pages = pages(&world, &path(&operation, "/evidence"), cap).await;
    pages.insert(1, world.get(&path(&operation, "/evidence?after_seq=1")).await.ok());
    let report = gateway_evidence::verify(pages, &roots(&world).await, None);
    assert_holds(&report, &["chain", "operation", "log"]);
}

#[tokio::test]
async fn pages_of_two_operations_are_no_document() {
    let world = World::start().await;
    let (one, other) = (published(&world, &payment("one")).await, published(&world, &payment("other")).await);
    let one = world.get(&path(&one, "/evidence")).await.ok();
    let other = world.get(&path(&other, "/evidence")).await.ok();
    assert!(!gateway_evidence::verify(vec![one, other], &roots(&world).await, None).holds());
}

#[tokio::test]
async fn the_cap_holds_for_the_largest_operation() {
    // Every approval is evaluated over all before it, and its event names them all.
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
async fn a_wrong_page_is_refused() {
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
