//! Notices that the store is an older copy, which was restored after a loss: a node has admitted a decision that the store lacks.
//!
//! A decision is stored before any node gets it, so nothing else has that effect. Only decisions that the authorities signed count: a
//! node alone cannot stop the gateway. A copy that lacks nothing admitted is not noticed here.

use crate::engine::{Compared, Engine, Inner};
use crate::error::{Dependency, ReadError, Unavailable};
use crate::ports::NodesStatus;
use gateway_domain::dsse::Envelope;
use gateway_domain::ids::OperationId;
use std::collections::BTreeSet;

impl Engine {
    /// Compares the decisions that nodes admitted last with the store. Until the next call, nothing is written if one is missing that
    /// the rules do not name as lost.
    ///
    /// # Errors
    /// [`Dependency::Store`] when the store lacks a decision, or does not answer.
    pub async fn compare_with_nodes(&self, nodes: &NodesStatus) -> Result<(), Unavailable> {
        for (node, envelope) in &nodes.newest_decisions {
            let is_known = |compared: &Compared| compared.envelope == *envelope && compared.lost.is_none();
            if self.0.compared.lock().get(node).is_some_and(is_known) {
                continue;
            }
            let lost = self.0.lost(envelope).await?;
            self.0.compared.lock().insert(*node, Compared { envelope: envelope.clone(), lost });
        }
        self.0.check_decisions()
    }
}

impl Inner {
    /// The operation of the decision, if the authorities signed it and the store lacks it.
    async fn lost(&self, envelope: &Envelope) -> Result<Option<OperationId>, Unavailable> {
        let Some(decision) = self.ports.authority.verify(envelope) else { return Ok(None) };
        let id = decision.operation_id;
        if self.rules.lost_operations.contains(&id) {
            return Ok(None);
        }
        match self.ports.reads.operation_load(id).await {
            Ok(record) => {
                let is_admitted = record.is_some_and(|record| record.operation.admission.is_some());
                Ok((!is_admitted).then_some(id))
            }
            Err(ReadError::Unavailable(why)) => Err(why),
            // Readiness reports damaged records.
            Err(ReadError::Damaged(_)) => Ok(None),
        }
    }

    /// Checks that the store lacks no decision that a node admitted, and that its log is that of the witnessed checkpoint.
    ///
    /// # Errors
    /// [`Dependency::Store`] naming the operations, or the sizes of the log.
    pub(crate) fn check_complete(&self) -> Result<(), Unavailable> {
        self.check_witnessed()?;
        self.check_decisions()
    }

    fn check_decisions(&self) -> Result<(), Unavailable> {
        let lost: BTreeSet<_> = self.compared.lock().values().filter_map(|compared| compared.lost).collect();
        if lost.is_empty() {
            return Ok(());
        }
        let named = lost.iter().map(OperationId::to_string).collect::<Vec<_>>().join(",");
        Err(Unavailable::new(
            Dependency::Store,
            format!(
                "the database is an older copy: nodes have admitted operations that it lacks. Restore the newest copy. If there is \
                 none, accept the loss with the setting `lost_operations={named}`"
            ),
        ))
    }
}
