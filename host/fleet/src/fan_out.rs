//! Concurrent calls to many nodes.

use crate::fleet::Fleet;
use crate::node::{Nodes, RuntimeNode};
use gateway_domain::roster::ParticipantIndex;
use gateway_node::NodeError;
use gateway_service::telemetry::Descriptions;
use metrics::histogram;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use tracing::Instrument;

pub(crate) type NodeSet = BTreeSet<ParticipantIndex>;

/// The arguments of the call to each node.
pub(crate) type PerNode<Q> = Vec<(ParticipantIndex, Q)>;

/// The answer of each node.
pub(crate) type Answers<T> = BTreeMap<ParticipantIndex, Result<T, NodeError>>;

/// A pending answer. Boxed, because the compiler cannot prove that a generic future that borrows is `Send`.
pub(crate) type Answer<'f, T> = Pin<Box<dyn Future<Output = Result<T, NodeError>> + Send + 'f>>;

impl<N: Nodes> Fleet<N> {
    /// Calls all of these nodes concurrently. Waits for every answer, or until `enough` is true where [`Nodes::WAITS_FOR_ALL`] is
    /// not; the other nodes get the call too. `after_each` names the failpoint between one node's answer and the next node's call;
    /// only a test that requests a failpoint calls them one by one.
    pub(crate) async fn call_all<'f, Q, T: 'f>(
        &self,
        calls: PerNode<Q>,
        after_each: &'static str,
        enough: impl Fn(&Answers<T>) -> bool,
        call: impl Fn(Arc<N::Node>, Q) -> Answer<'f, T>,
    ) -> Answers<T> {
        let (pending, mut answers) = self.call_nodes(calls, true, call).await;
        let enough = |answers: &Answers<T>| !N::WAITS_FOR_ALL && enough(answers);
        collect(pending, &mut answers, after_each, enough).await;
        for (participant, answer) in &answers {
            if let Err(error) = answer {
                tracing::warn!(%participant, error = error as &dyn std::error::Error, "a node did not make a step");
            }
        }
        answers
    }

    /// Asks all of these nodes something that is no step, and waits for every answer.
    pub(crate) async fn ask_all<'f, Q, T: 'f>(
        &self,
        calls: PerNode<Q>,
        call: impl Fn(Arc<N::Node>, Q) -> Answer<'f, T>,
    ) -> Answers<T> {
        let (pending, mut answers) = self.call_nodes(calls, false, call).await;
        collect(pending, &mut answers, "mid-question", |_| false).await;
        answers
    }

    /// Makes the calls, and returns them with the errors of the nodes that cannot be called. Before a step, each node is shown the
    /// newest receipt that is known of it.
    async fn call_nodes<'f, Q, T: 'f>(
        &self,
        calls: PerNode<Q>,
        is_step: bool,
        call: impl Fn(Arc<N::Node>, Q) -> Answer<'f, T>,
    ) -> (Vec<(ParticipantIndex, Answer<'f, T>)>, Answers<T>) {
        let (mut pending, mut answers) = (Vec::new(), Answers::new());
        for (participant, argument) in calls {
            let node = self.node(participant).await;
            let shown = match &node {
                Ok(node) if is_step => match self.newest.of(participant) {
                    Some(newest) => node.show_newest(&newest).await,
                    None => Ok(()),
                },
                Ok(_) | Err(_) => Ok(()),
            };
            match shown.and(node) {
                Ok(node) => pending.push((participant, observed(participant, is_step, call(node, argument)))),
                Err(error) => _ = answers.insert(participant, Err(error)),
            }
        }
        (pending, answers)
    }
}

/// The histogram of this file.
pub const HISTOGRAMS: Descriptions = &[(
    DURATION,
    "Time until a node answered a step, or did not, by participant and result; calls that were not waited for are left out",
)];

const DURATION: &str = "operation_gateway_node_call_duration_seconds";

/// A call that is measured and has a span, if it is a step.
fn observed<'f, T: 'f>(participant: ParticipantIndex, is_step: bool, call: Answer<'f, T>) -> Answer<'f, T> {
    if !is_step {
        return call;
    }
    let span = tracing::info_span!(target: "trace", "node.call", participant = participant.0);
    let call = async move {
        let started = Instant::now();
        let answer = call.await;
        let result = if answer.is_ok() { "ok" } else { "error" };
        let labels = [("participant", participant.to_string()), ("result", result.to_owned())];
        histogram!(DURATION, &labels).record(started.elapsed());
        answer
    };
    Box::pin(call.instrument(span))
}

/// Polls all calls in this task, so that they may borrow. Most of the work is elsewhere: database writers are tasks of their own,
/// ceremonies compute on blocking threads, and so are the requests to other processes, which are sent even when this stops waiting.
#[cfg_attr(not(feature = "failpoints"), expect(unused_variables, reason = "the name is for tests"))]
async fn collect<T>(
    mut waiting: Vec<(ParticipantIndex, Answer<'_, T>)>,
    answers: &mut Answers<T>,
    after_each: &'static str,
    enough: impl Fn(&Answers<T>) -> bool,
) {
    use std::task::Poll;
    #[cfg(feature = "failpoints")]
    if gateway_engine::failpoint::is_requested() {
        for (participant, task) in waiting {
            answers.insert(participant, task.await);
            gateway_engine::failpoint::failpoint(after_each);
        }
        return;
    }
    std::future::poll_fn(|cx| {
        waiting.retain_mut(|(node, task)| match task.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(answer) => {
                answers.insert(*node, answer);
                false
            }
        });
        if waiting.is_empty() || enough(answers) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
