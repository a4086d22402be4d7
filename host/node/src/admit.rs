//! Admission: the node accepts and stores a decision, or refuses it.

use crate::approvals::Moment;
use crate::call::AdmitRequest;
use crate::error::{NodeError, Stop};
use crate::gate;
use crate::generations::Generations;
use crate::log::{self, LogState};
use crate::node::{Node, Transact};
use crate::row::{self, Row, Statement, View};
use crate::vault;
use crate::verify::{check_generation, verify};
use gateway_domain::admission::Admission;
use gateway_domain::intent::OperationType;
use gateway_domain::operation::EffectStep;
use gateway_domain::receipt::{Chain, NodeReceipt, ReceiptKind, ReceiptStatement};
use sqlx::SqliteConnection;
use std::sync::Arc;

impl Node {
    /// Verifies a decision, its intent and its approvals, and stores them. A repeat of the call returns the same receipt.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with `AdmissionRefused`, `ApprovalRefused`, `AdmissionExpired`, `EpochConflict`,
    /// `AdmissionConflict` or `OperationDiscarded` (see [`Code`](crate::Code)); [`NodeError::Unavailable`], also when this
    /// node holds no share of a key that it must hold.
    pub async fn admit(&self, request: &AdmitRequest) -> Result<NodeReceipt, NodeError> {
        self.check_running()?;
        let admission = match verify(&self.config, request, Moment::Admission, self.now()) {
            Ok(admission) => admission,
            Err(error) => return self.repeated_admission(request).await?.ok_or(error),
        };
        let Admission { decision, admission_hash, .. } = admission;
        let chain = self.chain_of(request.effect.operation, admission_hash);
        let statement = Statement { request: request.clone(), decision };
        let store = StoreAdmission {
            receipt: chain.statement(&ReceiptKind::Admitted)?,
            chain,
            text: serde_json::to_string(&statement).map_err(NodeError::damaged)?,
            statement,
            generations: Arc::clone(&self.generations),
        };
        let (receipt, log_index) = self.write(store).await?;
        self.issue_receipt(&receipt, log_index)
    }

    /// The receipt for a request that was admitted before and is repeated after the decision expired. `None` if this request
    /// was not admitted, or the operation was discarded since.
    async fn repeated_admission(&self, request: &AdmitRequest) -> Result<Option<NodeReceipt>, NodeError> {
        let mut conn = self.database.reader().acquire().await?;
        let known = View::load(&mut conn, request.effect, None).await?.row;
        let Some(Row { admission_hash, last_step, statement: Some(statement), .. }) = known else {
            return Ok(None);
        };
        if last_step == EffectStep::Discard || statement.request != *request {
            return Ok(None);
        }
        let chain = self.chain_of(request.effect.operation, admission_hash);
        let receipt = chain.statement(&ReceiptKind::Admitted)?;
        Ok(Some(self.issue_receipt(&receipt, log::receipt_index(&mut conn, &receipt).await?)?))
    }
}

/// Stores a verified admission.
struct StoreAdmission {
    chain: Chain,
    /// The statement of the receipt.
    receipt: ReceiptStatement,
    statement: Statement,
    /// `statement` as JSON, as it is stored.
    text: String,
    generations: Arc<Generations>,
}

impl Transact for StoreAdmission {
    type Output = (ReceiptStatement, u64);

    async fn run(&self, conn: &mut SqliteConnection, log: &mut LogState) -> Result<Self::Output, Stop> {
        let Statement { request, decision } = &self.statement;
        let view = View::load(conn, request.effect, Some(decision.key_id)).await?;
        if let Some(known) = view.row {
            if known.last_step == EffectStep::Discard {
                return Err(gate::discarded().into());
            }
            if known.admission_hash != self.chain.admission_hash {
                return Err(gate::other_decision().into());
            }
            return Ok((self.receipt.clone(), log::receipt_index(conn, &self.receipt).await?));
        }
        log.check_decided_since(request, decision)?;
        vault::check_use(decision, view.key.serves)?;
        let me = self.chain.participant;
        let held = gate::check_generation(&self.statement, me, &view.key)?;
        if let (Some(held), OperationType::Sign) = (held, decision.operation_type) {
            let keys = self.generations.keys(held.root, || held.decode(decision.key_id))?;
            check_generation(&request.intent, decision, &keys)?;
            vault::record_use(conn, decision.key_id, decision.serves).await?;
        }
        let log_index = log.size();
        let entry = log.append_receipt(&self.receipt, None)?;
        let known = Some((decision.key_id, self.text.as_str(), &entry));
        row::insert(conn, &self.chain, EffectStep::Admission, self.receipt.transition_hash, known).await?;
        Ok((self.receipt.clone(), log_index))
    }
}
