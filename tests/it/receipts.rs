//! Nodes' receipts verify with only the operation's events and the nodes' public keys.

use crate::harness::samples::{payment, publish};
use crate::harness::world::{World, parse_settings};
use gateway_domain::ids::OperationId;
use gateway_domain::operation::replay;
use gateway_domain::operation::signed_receipts;
use gateway_engine::ports::ReadOperations;
use operation_gateway::compose::node_identities;

#[tokio::test]
async fn every_receipt_verifies_under_the_published_node_keys() {
    let world = World::start().await;
    let view = publish(&world, &payment("receipts")).await;
    // Reads the nodes' databases while the gateway has them open.
    let node_keys = node_identities(&world.settings).await.unwrap();
    let id: OperationId = view["operation_id"].as_str().unwrap().parse().unwrap();
    let events = world.store.operation_events(id).await.unwrap();
    let events: Vec<_> = events.into_iter().map(|chained| chained.event).collect();
    let mut n_receipts = vec![];
    for n_before in 1..events.len() {
        let before = replay(&events[..n_before]).unwrap();
        let receipts = signed_receipts(&before, &events[n_before]);
        for (kind, receipt) in &receipts {
            let statement = before.receipt_chain(receipt.participant).unwrap().statement(kind).unwrap();
            receipt.verify(&statement, &node_keys[&receipt.participant]).unwrap();
        }
        n_receipts.extend(receipts.first().map(|(kind, _)| (kind.step().as_str(), receipts.len())));
    }
    assert_eq!(n_receipts, [("admission", 3), ("policy-receipt", 3), ("execute", 2), ("publish", 3)]);
}

#[tokio::test]
async fn printing_node_keys_creates_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let settings = parse_settings(folder.path(), &[]);
    assert!(node_identities(&settings).await.unwrap().is_empty());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
