//! Writes a policy decision that changed no operation and is no preview, and takes the token of a refusal.

use crate::change::quota::{self, Quota};
use crate::change::script::{Script, next_index};
use crate::change::write::Change;
use crate::record::encode::EvaluationRow;
use crate::sql::connection::Connection;
use crate::sql::row::blob;
use gateway_domain::ids::OperationId;
use gateway_engine::Token;
use gateway_engine::ports::RateLimited;

pub(crate) struct DecisionWrite {
    pub(crate) operation_id: OperationId,
    pub(crate) row: EvaluationRow,
    /// Whether the gateway repeats the evaluation each time it drives the operation. It is skipped if one with the same operation, input,
    /// bundle and output is stored.
    pub(crate) repeats: bool,
    /// The token that a refusal takes from its client's quota.
    pub(crate) token: Option<Token>,
}

impl Change for DecisionWrite {
    /// The record's index, unless it is not written again.
    type Output = RateLimited<Option<u64>>;

    async fn run<C: Connection>(&self, conn: &mut C) -> Result<RateLimited<Option<u64>>, sqlx::Error> {
        let mut full_at_us = 0;
        if let Some(token) = &self.token {
            let mut script = Script::new(conn.statements());
            let quota = Quota::bind(&mut script, token);
            quota.take_if(&quota.has_token(), &mut script);
            quota.drop_full(&mut script);
            match quota::full_at_us(&script.run(conn).await?) {
                Some(taken) => full_at_us = taken,
                None => return quota::unwritten(conn, token).await,
            }
        }
        let index = next_index(conn, "policy_decisions").await?;
        let mut script = Script::new(conn.statements());
        let is_new =
            if self.repeats { self.is_new(conn.statements().json, &mut script) } else { "TRUE".to_owned() };
        let columns = self.row.at("decision_index", index);
        script.insert_if(&is_new, "policy_decisions", columns, " RETURNING decision_index");
        script.count("policy_decisions", index);
        let is_written = !script.run(conn).await?.is_empty();
        Ok(RateLimited::Written { written: is_written.then_some(index.unsigned_abs()), full_at_us })
    }
}

impl DecisionWrite {
    /// `json` makes a column with JSON one to which `->>` applies.
    fn is_new(&self, json: &str, script: &mut Script) -> String {
        let id = script.bind(blob(self.operation_id.0));
        let [input, outcome] = ["input", "outcome"].map(|name| script.bind(self.row.cell(name)));
        let same = |field| format!("outcome{json} ->> '{field}' = {outcome}{json} ->> '{field}'");
        let (same_bundle, same_output) = (same("bundle_hash"), same("output_hash"));
        format!(
            "NOT EXISTS (SELECT 1 FROM policy_decisions WHERE operation_id = {id} AND input = {input}
             AND {same_bundle} AND {same_output})"
        )
    }
}
