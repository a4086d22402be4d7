//! Concurrent calls to many nodes.

use crate::calls::PerNode;
use crate::fleet::EmbeddedFleet;
use gateway_domain::roster::ParticipantIndex;
use gateway_node::{Node, NodeError};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// The answer of each node.
pub(crate) type Answers<T> = BTreeMap<ParticipantIndex, Result<T, NodeError>>;

/// A pending answer. Boxed, because the compiler cannot prove that a generic future that borrows is `Send`.
pub(crate) type Answer<'f, T> = Pin<Box<dyn Future<Output = Result<T, NodeError>> + Send + 'f>>;

impl EmbeddedFleet {
    /// Calls all of these nodes concurrently and waits for every answer. `after_each` names the failpoint between one node's
    /// answer and the next node's call; only a build with failpoints calls them one by one.
    pub(crate) async fn call_all<'f, Q, T>(
        &self,
        calls: PerNode<Q>,
        after_each: &'static str,
        call: impl Fn(Arc<Node>, Q) -> Answer<'f, T>,
    ) -> Answers<T> {
        let mut pending = Vec::new();
        let mut answers = Answers::new();
        for (participant, argument) in calls {
            let node = self.node(participant).await;
            let shown = match &node {
                Ok(node) => self.show_newest(node).await,
                Err(_) => Ok(()),
            };
            match shown.and(node) {
                Ok(node) => pending.push((participant, call(node, argument))),
                Err(error) => _ = answers.insert(participant, Err(error)),
            }
        }
        answers.extend(collect(pending, after_each).await);
        for (participant, answer) in &answers {
            if let Err(error) = answer {
                tracing::warn!(%participant, error = error as &dyn std::error::Error, "a node did not make a step");
            }
        }
        answers
    }
}

/// Polls all calls in this task, so that they may borrow. Most of the work is elsewhere: database writers are tasks of their own,
/// and ceremonies compute on blocking threads.
#[cfg(not(feature = "failpoints"))]
async fn collect<T>(
    mut waiting: Vec<(ParticipantIndex, Answer<'_, T>)>,
    _after_each: &'static str,
) -> Answers<T> {
    use std::task::Poll;
    let mut answers = Answers::new();
    std::future::poll_fn(|cx| {
        waiting.retain_mut(|(node, task)| match task.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(answer) => {
                answers.insert(*node, answer);
                false
            }
        });
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers
}

#[cfg(feature = "failpoints")]
async fn collect<T>(pending: Vec<(ParticipantIndex, Answer<'_, T>)>, after_each: &'static str) -> Answers<T> {
    let mut answers = Answers::new();
    for (participant, task) in pending {
        answers.insert(participant, task.await);
        gateway_engine::failpoint::failpoint(after_each);
    }
    answers
}
