//! Rows 20, 21 and 22 of the table: limits, the node's own log, and a database that was rolled back.

use super::victims::{Victims, admission, approved_by, assert_refused, path, receipt_of};
use crate::quotas;
use axum::body::Body;
use axum::http::Request;
use gateway_domain::ids::Hex32;
use gateway_domain::node_log::{LogEntry, SignedLogHead};
use gateway_domain::receipt::{NodeReceipt, ReceiptKind};
use gateway_node::limits::CEREMONIES_MAX;
use gateway_node::testing::Case;
use gateway_node::{CeremonyStart, ShownReceipt};
use runtime_node::routes;
use std::sync::Arc;
use tower::ServiceExt;

/// Row 20. TLS, the names in callers' certificates and the connection limit are checked below the routes:
/// `caller_whose_certificate_has_another_name_is_refused_in_the_handshake`.
#[tokio::test]
async fn simultaneous_requests_and_open_ceremonies_are_limited() {
    let victims = Victims::open().await;
    let busy = routes::router(Arc::clone(&victims.nodes[0]), quotas(0));
    let case = victims.key_creation(1);
    for (method, path) in [
        ("GET", "/v1/node/status".to_owned()),
        ("POST", path(&case, "/admission")),
        ("POST", path(&case, "/steps/execute")),
        ("POST", "/v1/node/bundles".to_owned()),
    ] {
        let request = Request::builder().method(method).uri(&path).header("content-type", "application/json");
        let body = Body::from(serde_json::to_vec(&admission(&case)).unwrap());
        let answer = busy.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        assert_eq!(answer.status().as_u16(), 429, "{method} {path}");
    }
    let creations = (0..=CEREMONIES_MAX).map(|index| {
        let case = victims.key_creation(u8::try_from(index + 1).unwrap()).on_key(&format!("k-{index}"));
        approved_by(case, &["alice", "bob"])
    });
    let creations: Vec<_> = creations.collect();
    for (index, case) in creations.iter().enumerate() {
        victims.admit(0, case).await.unwrap();
        victims.receipt(0, case).await.unwrap();
        let answer = victims.start(0, case, 1, &CeremonyStart::default()).await;
        if index < CEREMONIES_MAX {
            answer.unwrap();
        } else {
            assert_refused("one more", answer, "unavailable", "too many ceremonies");
        }
    }
    // A busy node uses up no attempt.
    victims.discard(0, &creations[0], &[]).await.unwrap();
    victims.start(0, &creations[CEREMONIES_MAX], 1, &CeremonyStart::default()).await.unwrap();
}

async fn head(victims: &Victims, participant: u16) -> SignedLogHead {
    serde_json::from_value(victims.get(participant, "/v1/node/log").await.unwrap()).unwrap()
}

async fn entries(victims: &Victims, participant: u16) -> Vec<LogEntry> {
    let answer = victims.get(participant, "/v1/node/log/entries/0").await.unwrap();
    serde_json::from_value(answer["entries"].clone()).unwrap()
}

/// Row 21. What a node released cannot be hidden: the share is an entry of its log, at the position that its receipt names.
#[tokio::test]
async fn every_released_share_is_a_numbered_entry_under_the_node_s_signed_head() {
    let victims = Victims::with_key().await;
    let case = victims.payment(1);
    victims.admit_all(&case).await;
    let package = victims.package(&case, &[0, 1], 1).await;
    let receipt = receipt_of(&victims.share(0, &case, 1, &package).await.unwrap());
    let identity = victims.nodes[0].identity().signing_key();
    let (signed, logged) = (head(&victims, 0).await, entries(&victims, 0).await);
    assert!(signed.is_signed_by(&identity));
    assert_eq!(signed.head.size, u64::try_from(logged.len()).unwrap());
    let LogEntry::Receipt { log_index, statement, share, .. } =
        &logged[usize::try_from(receipt.log_index).unwrap()]
    else {
        panic!("{logged:?}")
    };
    assert_eq!(*log_index, receipt.log_index);
    receipt.verify(statement, &identity).unwrap();
    let released = share.as_ref().unwrap();
    assert_eq!(released.signed_digest, case.decision.request_digest);
    assert_eq!(released.package_hash, Hex32::new(package.hash()));
    // Another position is another statement.
    let moved = NodeReceipt { log_index: receipt.log_index + 1, ..receipt };
    assert!(moved.verify(statement, &identity).is_err());
    // Repeated and refused calls append nothing, and there is no route that removes an entry.
    victims.share(0, &case, 1, &package).await.unwrap();
    let refused = approved_by(victims.payment(2), &["alice"]);
    assert!(victims.admit(0, &refused).await.is_err());
    assert_eq!(head(&victims, 0).await.head, signed.head);
    for method in ["DELETE", "PUT", "POST"] {
        let request = Request::builder().method(method).uri("/v1/node/log/entries/0");
        let answer = victims.router(0).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status().as_u16(), 405, "{method}");
    }
}

/// Row 22. The node's nonces and marks of after the copy are gone, so it must not go on.
#[tokio::test]
async fn node_that_is_shown_its_own_later_receipt_stops() {
    let mut victims = Victims::with_key().await;
    let case = victims.payment(1);
    victims.admit_all(&case).await;
    let mut copy = vec![];
    victims.restart_after(0, |database| copy = std::fs::read(database).unwrap()).await;
    let package = victims.package(&case, &[0, 1], 1).await;
    let receipt = receipt_of(&victims.share(0, &case, 1, &package).await.unwrap());
    let (signed_digest, package_hash) = (case.decision.request_digest, Hex32::new(package.hash()));
    let kind = ReceiptKind::Signed { attempt: 1, signed_digest, package_hash };
    let statement = case.chain(0).statement(&kind).unwrap();
    victims.restart_after(0, |database| std::fs::write(database, copy).unwrap()).await;

    let show = |case: &Case, receipt: &NodeReceipt| {
        let mut body = admission(case);
        body.newest = Some(ShownReceipt { statement: statement.clone(), receipt: receipt.clone() });
        body
    };
    // What the node did not sign says nothing about it. Otherwise anyone could stop nodes.
    let by_other = victims.nodes[1].sign_anything(&statement, receipt.log_index);
    let forged = NodeReceipt { participant: receipt.participant, ..by_other };
    let answer = victims.post(0, &path(&case, "/admission"), show(&case, &forged)).await;
    assert_eq!(answer.unwrap()["receipt"]["participant"], 0);
    let other = victims.payment(2);
    let answer = victims.post(0, &path(&other, "/admission"), show(&other, &receipt)).await;
    assert_refused("its own later receipt", answer, "unavailable", "older than what it signed");
    for _ in 0..2 {
        for (what, answer) in [
            ("another admission", victims.admit(0, &other).await),
            ("nonces", victims.commit(0, &case, 2).await),
            ("the share", victims.share(0, &case, 1, &package).await),
            ("a discard", victims.discard(0, &case, &[]).await),
        ] {
            assert_refused(what, answer, "unavailable", "older than what it signed");
        }
        victims.restart_after(0, |_| ()).await;
    }
    // The others go on.
    for participant in 1..3 {
        victims.admit(participant, &other).await.unwrap();
        victims.receipt(participant, &other).await.unwrap();
    }
    victims.package(&other, &[1, 2], 1).await;
}
