//! Admission: the node takes a decision for its own, or refuses it.

use crate::call::AdmitRequest;
use crate::chain::Chain;
use crate::error::{Code, NodeError, Rejection, Stop, answer};
use crate::gate;
use crate::judge::judge;
use crate::node::Node;
use crate::row::{self, Row, Stage, Statement};
use gateway_domain::ids::Hex32;
use gateway_domain::operation::NodeReceipt;
use gateway_sqlite::Job;
use sqlx::SqliteConnection;

impl Node {
    /// Verifies a decision with everything it rests on, and keeps it. The same again is answered the same.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::AdmissionRefused`], [`Code::AdmissionExpired`], [`Code::EpochConflict`],
    /// [`Code::AdmissionConflict`], [`Code::OperationDiscarded`] or [`Code::UnsupportedOperation`];
    /// [`NodeError::Unavailable`] also when this node holds no share of the key.
    pub async fn admit(&self, request: &AdmitRequest) -> Result<NodeReceipt, NodeError> {
        let operation_id = request.effect.operation;
        let mut conn = self.database.reader().acquire().await?;
        let known = row::load(&mut conn, operation_id).await?.filter(|row| row.stage != Stage::Discarded);
        if let Some(Row { admission_hash, statement: Some(statement), .. }) = known
            && statement.request == *request
        {
            let chain = Chain { admission_hash, operation_id, participant: self.participant() };
            return Ok(self.receipt(chain.after_admission()?));
        }
        let admission = judge(&self.config, request, self.now())?;
        let statement = Statement { request: request.clone(), decision: admission.decision };
        gate::key_fits(&mut conn, &statement).await?;
        drop(conn);
        let chain =
            Chain { admission_hash: admission.admission_hash, operation_id, participant: self.participant() };
        let statement = serde_json::to_string(&statement).map_err(NodeError::damaged)?;
        let keep = Keep { head: chain.after_admission()?, chain, statement };
        let transition_hash = self.database.write(keep).await??;
        Ok(self.receipt(transition_hash))
    }

    pub(crate) const fn receipt(&self, transition_hash: Hex32) -> NodeReceipt {
        NodeReceipt { participant: self.config.participant, transition_hash }
    }
}

/// Keeps an admission that was verified.
struct Keep {
    chain: Chain,
    head: Hex32,
    statement: String,
}

impl Keep {
    async fn run(&self, conn: &mut SqliteConnection) -> Result<Hex32, Stop> {
        let known = row::load(conn, self.chain.operation_id).await?;
        let Some(known) = known else {
            row::insert(conn, &self.chain, Stage::Admitted, self.head, Some(&self.statement)).await?;
            return Ok(self.head);
        };
        if known.stage == Stage::Discarded {
            return Err(Rejection::new(Code::OperationDiscarded, "the operation was discarded here").into());
        }
        if known.admission_hash != self.chain.admission_hash {
            let detail = "another decision admitted the operation";
            return Err(Rejection::new(Code::AdmissionConflict, detail).into());
        }
        Ok(self.head)
    }
}

impl Job for Keep {
    type State = ();
    type Output = Result<Hex32, NodeError>;

    async fn apply(&self, conn: &mut SqliteConnection, (): &mut ()) -> Result<Self::Output, sqlx::Error> {
        answer(self.run(conn).await)
    }
}
