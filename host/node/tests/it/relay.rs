//! A malicious relay cannot open private messages, and changes that it makes are detected.

use crate::support::{Group, KEY, code, mail};
use gateway_domain::operation::EffectStep;
use gateway_node::testing::{Case, SUITES};
use gateway_node::{CeremonyAnswer, Code, Envelope};

/// A key generation that has begun, and its first messages.
async fn start_ceremony() -> (Group, Case, Vec<Envelope>) {
    let group = Group::open(3).await;
    let case = Case::key_create(1, KEY, 3, 2, SUITES[0]);
    group.admit(&case).await;
    let sent = group.start(&case, 1).await;
    (group, case, sent)
}

async fn deliver(group: &Group, case: &Case, to: u16, sent: &[Envelope]) -> Result<CeremonyAnswer, Code> {
    let call = case.call(to, EffectStep::Execute, 1, 1);
    let answer = group.nodes[usize::from(to)].ceremony_deliver(&call, &mail(sent, to)).await;
    answer.map_err(|error| code::<()>(Err(error)))
}

/// Delivers the messages to all nodes. Returns their next messages.
async fn deliver_to_all(group: &Group, case: &Case, sent: &[Envelope]) -> Vec<Envelope> {
    let mut next = vec![];
    for to in 0..3 {
        match deliver(group, case, to, sent).await.unwrap() {
            CeremonyAnswer::Send(messages) => next.extend(messages),
            CeremonyAnswer::Staged { keys, .. } => panic!("{keys:?}"),
        }
    }
    next
}

#[tokio::test]
async fn private_message_opens_only_for_its_recipient() {
    let (group, case, sent) = start_ceremony().await;
    assert!(sent.iter().all(|envelope| envelope.header().to.is_none()), "commitments are broadcast");
    let points = deliver_to_all(&group, &case, &sent).await;
    assert_eq!(points.len(), 6);
    // Another node refuses the message and ends its part in the ceremony.
    let mut nodes_left = std::collections::BTreeSet::from([0, 1, 2]);
    for point in &points {
        let to = point.header().to.unwrap();
        assert_ne!(to, point.header().from);
        let other = (0..3).find(|other| *other != to && *other != point.header().from).unwrap();
        if nodes_left.remove(&other) {
            let call = case.call(other, EffectStep::Execute, 1, 1);
            let refused =
                group.nodes[usize::from(other)].ceremony_deliver(&call, std::slice::from_ref(point)).await;
            assert_eq!(code(refused), Code::RelayMisbehaviour);
        }
    }
    assert!(nodes_left.is_empty());
}
