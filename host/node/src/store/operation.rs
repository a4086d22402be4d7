//! An operation as the node stores it, and the query with which a step begins.

use crate::call::AdmitRequest;
use crate::error::{Code, NodeError, NodeRejection, Stop};
use crate::store::columns::{hash, parse_hash};
use crate::store::log::EntryRow;
use crate::store::row_hash;
use crate::store::vault::Generation;
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::ids::{Hex32, KeyId};
use gateway_domain::operation::{EffectId, EffectStep};
use gateway_domain::receipt::{Chain, ReceiptStatement};
use gateway_sqlite::Connection;
use serde::{Deserialize, Serialize};

/// The steps that a node makes.
const STEPS: [EffectStep; 6] = [
    EffectStep::Admission,
    EffectStep::PolicyReceipt,
    EffectStep::Execute,
    EffectStep::CommitEpoch,
    EffectStep::Publish,
    EffectStep::Discard,
];

/// The value of the column `stage` after this step. A node does not make decisions: the table's CHECK rejects the empty text.
pub(crate) const fn stage_of(step: EffectStep) -> &'static str {
    match step {
        EffectStep::Decision => "",
        EffectStep::Admission => "admitted",
        EffectStep::PolicyReceipt => "receipted",
        EffectStep::Execute => "executed",
        EffectStep::CommitEpoch => "committed",
        EffectStep::Publish => "published",
        EffectStep::Discard => "discarded",
    }
}

/// The inverse of [`stage_of`]. `None` for an unknown text.
pub(crate) fn step_of_stage(stage: &str) -> Option<EffectStep> {
    STEPS.into_iter().find(|step| stage_of(*step) == stage)
}

/// An admitted request with its decision, as the node verified and stored them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AdmittedRequest {
    pub(crate) request: AdmitRequest,
    pub(crate) decision: AdmissionDecision,
}

/// What the node has stored for one call: the operation, an earlier answer to the same call, and the key.
#[derive(Debug)]
pub(crate) struct View {
    /// The operation, if the node knows it.
    pub(crate) row: Option<Row>,
    /// The answer to this effect, if it was performed before.
    pub(crate) answer: Option<Answer>,
    /// The key of the operation.
    pub(crate) key: KeyState,
}

/// What the node has stored about a key.
#[derive(Debug)]
pub(crate) struct KeyState {
    /// The generation that signs.
    pub(crate) active: Option<Generation>,
    /// Whether the node ever promoted a generation of the key.
    pub(crate) is_known: bool,
    /// Root of the staged generation.
    pub(crate) staged: Option<Hex32>,
}

/// An operation as stored.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) admission_hash: Hex32,
    /// The step that the node made last. [`EffectStep::Execute`] means that it released a signature share, or that it has
    /// staged its share of a new generation or needs none.
    pub(crate) last_step: EffectStep,
    /// The transition hash of the last step: the head of this node's chain.
    pub(crate) head: Hex32,
    /// `None` for an operation that was discarded before it was admitted here.
    pub(crate) statement: Option<AdmittedRequest>,
}

/// The recorded answer to a call.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Digest of the call's arguments: see [`content`](crate::call::content).
    pub(crate) content: String,
    pub(crate) transition_hash: Hex32,
}

impl View {
    /// Loads all of it with one query. `key_id` is needed only for an operation that is not stored yet.
    pub(crate) async fn load(
        conn: &mut Connection,
        effect: EffectId,
        key_id: Option<KeyId>,
    ) -> Result<Self, Stop> {
        let sql = "SELECT o.admission_hash, o.stage, o.head, t.body AS statement, e.content, e.transition_hash, \
                   s.epoch, s.epoch_root, s.public_keys, s.made_at_ms, s.used_since_ms, \
                   EXISTS (SELECT 1 FROM share k \
                           WHERE k.key_id = coalesce(o.key_id, ?3) AND k.state <> 'staged') AS is_known, \
                   (SELECT k.epoch_root FROM share k \
                    WHERE k.key_id = coalesce(o.key_id, ?3) AND k.state = 'staged') AS staged \
                   FROM (SELECT 1) LEFT JOIN operation o ON o.operation_id = ?1 \
                   LEFT JOIN statement t ON t.statement_index = o.statement_index \
                   LEFT JOIN effect e ON e.effect_id = ?2 \
                   LEFT JOIN share s ON s.key_id = coalesce(o.key_id, ?3) AND s.state = 'active'";
        let key_id = key_id.map(|id| id.to_string());
        let bound = [effect.operation.to_string().into(), effect.to_string().into(), key_id.into()];
        let found = conn.row(sql, &bound).await?.ok_or(sqlx::Error::RowNotFound)?;
        Ok(Self {
            row: Row::read(&found)?,
            answer: Answer::read(&found)?,
            key: KeyState {
                active: Generation::read(&found)?,
                is_known: found.get("is_known")?,
                staged: hash(&found, "staged")?,
            },
        })
    }
}

impl Row {
    fn read(found: &gateway_sqlite::Row) -> Result<Option<Self>, Stop> {
        let Some(admission_hash) = hash(found, "admission_hash")? else { return Ok(None) };
        let last_step = step_of_stage(found.get::<&str>("stage")?);
        let statement: Option<&str> = found.get("statement")?;
        Ok(Some(Self {
            admission_hash,
            last_step: last_step.ok_or(NodeError::unavailable("the node's store is damaged"))?,
            head: parse_hash(found.get::<&str>("head")?)?,
            statement: statement.map(parse).transpose()?,
        }))
    }
}

fn parse(statement: &str) -> Result<AdmittedRequest, NodeError> {
    serde_json::from_str(statement).map_err(NodeError::damaged)
}

/// The statement of the operation that was admitted last.
pub(crate) async fn newest_statement(conn: &mut Connection) -> Result<Option<AdmittedRequest>, NodeError> {
    let sql = "SELECT body FROM statement ORDER BY statement_index DESC LIMIT 1";
    conn.row(sql, &[]).await?.map(|row| parse(row.get::<&str>("body")?)).transpose()
}

impl Answer {
    fn read(found: &gateway_sqlite::Row) -> Result<Option<Self>, Stop> {
        let Some(content) = found.get("content")? else { return Ok(None) };
        Ok(Some(Self { content, transition_hash: parse_hash(found.get::<&str>("transition_hash")?)? }))
    }

    /// The transition hash of the step, if the call with this digest is the recorded one.
    pub(crate) fn repeat(&self, effect: EffectId, content: Hex32) -> Result<Hex32, NodeRejection> {
        if self.content == content.to_string() {
            return Ok(self.transition_hash);
        }
        let detail = format!("effect `{effect}` was used for another call");
        Err(NodeRejection::new(Code::EffectConflict, detail))
    }
}

/// Inserts an operation that is not stored yet. `known` is its key, its [`AdmittedRequest`] as JSON and the entry of its receipt in the
/// log; `None` if it was never admitted here.
pub(crate) async fn insert(
    conn: &mut Connection,
    chain: &Chain,
    last_step: EffectStep,
    head: Hex32,
    known: Option<(KeyId, &str, &EntryRow)>,
) -> Result<(), Stop> {
    let row_hash = known.map(|(_, statement, _)| row_hash::statement(statement)).transpose()?;
    let entry = known.map(|(_, _, entry)| entry);
    let sql = "INSERT INTO statement (body, row_hash) SELECT ?6, ?7 WHERE ?6 IS NOT NULL;\n\
               INSERT INTO operation (operation_id, admission_hash, key_id, stage, head, statement_index) \
               VALUES (?1, ?2, ?3, ?4, ?5, iif(?6 IS NULL, NULL, last_insert_rowid()));\n\
               INSERT INTO log_entry (log_index, operation_id, transition_hash, body, nodes) \
               SELECT ?8, ?1, ?5, ?9, ?10 WHERE ?8 IS NOT NULL";
    let bound = [
        chain.operation_id.to_string().into(),
        chain.admission_hash.to_string().into(),
        known.map(|(key_id, _, _)| key_id.to_string()).into(),
        stage_of(last_step).into(),
        head.to_string().into(),
        known.map(|(_, statement, _)| statement).into(),
        row_hash.map(|hash| hash.to_string()).into(),
        entry.map(|entry| entry.log_index).into(),
        entry.map(|entry| entry.body.as_str()).into(),
        entry.map(|entry| entry.nodes.as_slice()).into(),
    ];
    Ok(conn.run(sql, &bound).await?)
}

/// Records a step as the operation's last one, with the entry of its receipt in the log.
pub(crate) async fn advance(
    conn: &mut Connection,
    step: EffectStep,
    statement: &ReceiptStatement,
    entry: &EntryRow,
) -> Result<(), Stop> {
    let sql = "UPDATE operation SET stage = ?2, head = ?3 WHERE operation_id = ?1;\n\
               INSERT INTO log_entry (log_index, operation_id, transition_hash, body, nodes) \
               VALUES (?4, ?1, ?3, ?5, ?6)";
    let bound = [
        statement.operation_id.to_string().into(),
        stage_of(step).into(),
        statement.transition_hash.to_string().into(),
        entry.log_index.into(),
        entry.body.as_str().into(),
        entry.nodes.as_slice().into(),
    ];
    Ok(conn.run(sql, &bound).await?)
}

/// Records the effect's step as the operation's last one, and the answer to the call. `entry` is the receipt's in the log; `None`
/// if another call has the same receipt.
pub(crate) async fn advance_with_answer(
    conn: &mut Connection,
    effect: EffectId,
    content: Hex32,
    head: Hex32,
    entry: Option<&EntryRow>,
) -> Result<(), Stop> {
    let sql = "UPDATE operation SET stage = ?2, head = ?3 WHERE operation_id = ?1;\n\
               INSERT INTO effect (effect_id, content, transition_hash, row_hash) VALUES (?4, ?5, ?3, ?6);\n\
               INSERT INTO log_entry (log_index, operation_id, transition_hash, body, nodes) \
               SELECT ?7, ?1, ?3, ?8, ?9 WHERE ?7 IS NOT NULL";
    let (effect_id, content, transition) = (effect.to_string(), content.to_string(), head.to_string());
    let row_hash = row_hash::effect(&effect_id, &content, &transition)?;
    let bound = [
        effect.operation.to_string().into(),
        stage_of(effect.step).into(),
        transition.into(),
        effect_id.into(),
        content.into(),
        row_hash.to_string().into(),
        entry.map(|entry| entry.log_index).into(),
        entry.map(|entry| entry.body.as_str()).into(),
        entry.map(|entry| entry.nodes.as_slice()).into(),
    ];
    Ok(conn.run(sql, &bound).await?)
}

/// The number of operations that were discarded and never admitted here.
pub(crate) async fn n_missed(conn: &mut Connection) -> Result<i64, Stop> {
    let sql = "SELECT count(*) FROM operation WHERE statement_index IS NULL";
    Ok(conn.value(sql, &[]).await?)
}
