//! An operation as the node stores it, and the read that every step begins with.
//!
//! Each call into SQLite costs more than the statement itself. So a step reads with one SELECT and writes with one text of
//! statements.

use crate::call::AdmitRequest;
use crate::error::{Code, NodeError, Rejection, Stop};
use crate::row_hash;
use crate::vault::{self, Held};
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::ids::{Hex32, KeyId, OperationId};
use gateway_domain::intent::{KeyUse, OperationType};
use gateway_domain::operation::{EffectId, EffectStep};
use gateway_domain::receipt::Chain;
use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

/// The steps that a node makes.
const STEPS: [EffectStep; 6] = [
    EffectStep::Admission,
    EffectStep::PolicyReceipt,
    EffectStep::Execute,
    EffectStep::CommitEpoch,
    EffectStep::Publish,
    EffectStep::Discard,
];

/// The word that the column `stage` has for the last step made. A node does not make decisions, and the table's check accepts
/// no word for them.
pub(crate) const fn stage(step: EffectStep) -> &'static str {
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

/// The step of a word in the column `stage`.
pub(crate) fn step(word: &str) -> Option<EffectStep> {
    STEPS.into_iter().find(|step| stage(*step) == word)
}

/// The statement the node acts on, as it verified it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Statement {
    pub(crate) request: AdmitRequest,
    pub(crate) decision: AdmissionDecision,
}

/// What the node has stored about one effect: the operation, the answer, and the key.
#[derive(Debug)]
pub(crate) struct View {
    /// The operation, if the node knows it.
    pub(crate) row: Option<Row>,
    /// The answer to this effect, if it was performed before.
    pub(crate) answer: Option<Answer>,
    /// The key of the operation.
    pub(crate) key: KeyHere,
}

/// A key on this node.
#[derive(Debug)]
pub(crate) struct KeyHere {
    /// The generation that signs.
    pub(crate) active: Option<Held>,
    /// Whether any generation was ever in force here.
    pub(crate) is_known: bool,
    /// Root of the staged generation.
    pub(crate) staged: Option<Hex32>,
    /// The family that it serves, which never changes; none while this node has not learnt it.
    pub(crate) serves: Option<KeyUse>,
}

/// An operation as stored.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) admission_hash: Hex32,
    /// The step that the node made last. For [`EffectStep::Execute`] a share of the signature left the node, or its share of
    /// a new generation is staged.
    pub(crate) last_step: EffectStep,
    /// The head of this node's chain of steps.
    pub(crate) head: Hex32,
    /// None for an operation that was discarded before it was admitted here.
    pub(crate) statement: Option<Statement>,
}

/// The recorded answer to an effect.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Digest of the call: see [`content`](crate::call::content).
    pub(crate) content: String,
    pub(crate) transition_hash: Hex32,
}

impl View {
    /// `key_id` is the key of an operation that is not known yet.
    pub(crate) async fn load(
        conn: &mut SqliteConnection,
        effect: EffectId,
        key_id: Option<KeyId>,
    ) -> Result<Self, Stop> {
        let sql = "SELECT o.admission_hash, o.stage, o.head, t.body AS statement, e.content, e.transition_hash, \
                   s.epoch, s.epoch_root, s.public_keys, \
                   EXISTS (SELECT 1 FROM share k \
                           WHERE k.key_id = coalesce(o.key_id, ?3) AND k.state <> 'staged') AS is_known, \
                   (SELECT k.epoch_root FROM share k \
                    WHERE k.key_id = coalesce(o.key_id, ?3) AND k.state = 'staged') AS staged, \
                   (SELECT u.serves FROM key_use u WHERE u.key_id = coalesce(o.key_id, ?3)) AS serves \
                   FROM (SELECT 1) LEFT JOIN operation o ON o.operation_id = ?1 \
                   LEFT JOIN statement t ON t.statement_index = o.statement_index \
                   LEFT JOIN effect e ON e.effect_id = ?2 \
                   LEFT JOIN share s ON s.key_id = coalesce(o.key_id, ?3) AND s.state = 'active'";
        let query = sqlx::query(sql).bind(effect.operation.to_string()).bind(effect.to_string());
        let found = query.bind(key_id.map(|id| id.to_string())).fetch_one(conn).await?;
        Ok(Self {
            row: Row::read(&found)?,
            answer: Answer::read(&found)?,
            key: KeyHere {
                active: Held::read(&found)?,
                is_known: found.try_get("is_known")?,
                staged: found.try_get::<Option<&str>, _>("staged")?.map(parse).transpose()?,
                serves: found.try_get::<Option<&str>, _>("serves")?.map(vault::parse_use).transpose()?,
            },
        })
    }
}

impl Row {
    /// Whether the operation was admitted to be signed.
    pub(crate) fn signs(&self) -> bool {
        let decision = self.statement.as_ref().map(|statement| &statement.decision);
        decision.is_some_and(|decision| decision.operation_type == OperationType::Sign)
    }

    fn read(found: &SqliteRow) -> Result<Option<Self>, Stop> {
        let Some(admission_hash) = found.try_get::<Option<&str>, _>("admission_hash")? else {
            return Ok(None);
        };
        let last_step = step(found.try_get("stage")?);
        let statement: Option<&str> = found.try_get("statement")?;
        Ok(Some(Self {
            admission_hash: parse(admission_hash)?,
            last_step: last_step.ok_or(NodeError::unavailable("the node's store is damaged"))?,
            head: parse(found.try_get("head")?)?,
            statement: statement.map(serde_json::from_str).transpose().map_err(NodeError::damaged)?,
        }))
    }
}

impl Answer {
    fn read(found: &SqliteRow) -> Result<Option<Self>, Stop> {
        let Some(content) = found.try_get::<Option<String>, _>("content")? else { return Ok(None) };
        Ok(Some(Self { content, transition_hash: parse(found.try_get("transition_hash")?)? }))
    }

    /// The answer to a repeated call.
    ///
    /// # Errors
    /// [`Code::EffectConflict`] when the id was used for another call: an id never changes its meaning.
    pub(crate) fn repeat(&self, effect: EffectId, content: Hex32) -> Result<Hex32, Rejection> {
        if self.content == content.to_string() {
            return Ok(self.transition_hash);
        }
        let detail = format!("effect `{effect}` was used for another call");
        Err(Rejection::new(Code::EffectConflict, detail))
    }
}

/// Inserts an operation that the node does not know yet.
pub(crate) async fn insert(
    conn: &mut SqliteConnection,
    chain: &Chain,
    last_step: EffectStep,
    head: Hex32,
    known: Option<(KeyId, &str)>,
) -> Result<(), Stop> {
    let row_hash = known.map(|(_, statement)| row_hash::statement(statement)).transpose()?;
    let sql = "INSERT INTO statement (body, row_hash) SELECT ?6, ?7 WHERE ?6 IS NOT NULL;\n\
               INSERT INTO operation (operation_id, admission_hash, key_id, stage, head, statement_index) \
               VALUES (?1, ?2, ?3, ?4, ?5, iif(?6 IS NULL, NULL, last_insert_rowid()))";
    sqlx::query(sql)
        .bind(chain.operation_id.to_string())
        .bind(chain.admission_hash.to_string())
        .bind(known.map(|(key_id, _)| key_id.to_string()))
        .bind(stage(last_step))
        .bind(head.to_string())
        .bind(known.map(|(_, statement)| statement))
        .bind(row_hash.map(|hash| hash.to_string()))
        .execute(conn)
        .await?;
    Ok(())
}

/// Records a step as the operation's last.
pub(crate) async fn advance(
    conn: &mut SqliteConnection,
    id: OperationId,
    step: EffectStep,
    head: Hex32,
) -> Result<(), Stop> {
    sqlx::query("UPDATE operation SET stage = ?2, head = ?3 WHERE operation_id = ?1")
        .bind(id.to_string())
        .bind(stage(step))
        .bind(head.to_string())
        .execute(conn)
        .await?;
    Ok(())
}

/// Records the effect's step as the operation's last, and the answer to the effect.
pub(crate) async fn advance_by(
    conn: &mut SqliteConnection,
    effect: EffectId,
    content: Hex32,
    head: Hex32,
) -> Result<(), Stop> {
    let sql = "UPDATE operation SET stage = ?2, head = ?3 WHERE operation_id = ?1;\n\
               INSERT INTO effect (effect_id, content, transition_hash, row_hash) VALUES (?4, ?5, ?3, ?6)";
    let (effect_id, content, transition) = (effect.to_string(), content.to_string(), head.to_string());
    let row_hash = row_hash::effect(&effect_id, &content, &transition)?;
    sqlx::query(sql)
        .bind(effect.operation.to_string())
        .bind(stage(effect.step))
        .bind(transition)
        .bind(effect_id)
        .bind(content)
        .bind(row_hash.to_string())
        .execute(conn)
        .await?;
    Ok(())
}

/// Parses 32 bytes in hexadecimal from a column.
pub(crate) fn parse(text: &str) -> Result<Hex32, NodeError> {
    text.parse().map_err(NodeError::damaged)
}
