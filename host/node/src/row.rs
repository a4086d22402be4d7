//! An operation as the node stores it.

use crate::call::AdmitRequest;
use crate::chain::Chain;
use crate::error::{NodeError, Stop};
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::ids::{Hex32, OperationId};
use serde::{Deserialize, Serialize};
use sqlx::{Row as _, SqliteConnection};

/// How far an operation is on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Admitted,
    Receipted,
    /// A share of a signature left the node, or a share of a key is staged.
    Executed,
    Committed,
    Published,
    Discarded,
}

impl Stage {
    const ALL: [Self; 6] =
        [Self::Admitted, Self::Receipted, Self::Executed, Self::Committed, Self::Published, Self::Discarded];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Receipted => "receipted",
            Self::Executed => "executed",
            Self::Committed => "committed",
            Self::Published => "published",
            Self::Discarded => "discarded",
        }
    }
}

/// The statement the node acts on, as it verified it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Statement {
    pub(crate) request: AdmitRequest,
    pub(crate) decision: AdmissionDecision,
}

/// An operation as stored.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) admission_hash: Hex32,
    pub(crate) stage: Stage,
    /// None for an operation that was discarded unheard.
    pub(crate) statement: Option<Statement>,
}

/// The operation, if the node has heard of it.
pub(crate) async fn load(conn: &mut SqliteConnection, id: OperationId) -> Result<Option<Row>, Stop> {
    let sql = "SELECT admission_hash, stage, statement FROM operation WHERE operation_id = ?1";
    let Some(row) = sqlx::query(sql).bind(id.to_string()).fetch_optional(conn).await? else {
        return Ok(None);
    };
    let (admission_hash, stage): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    let statement: Option<String> = row.try_get(2)?;
    let known = Stage::ALL.into_iter().find(|known| known.as_str() == stage);
    let statement = statement.map(|text| serde_json::from_str(&text)).transpose();
    Ok(Some(Row {
        admission_hash: parse(&admission_hash)?,
        stage: known.ok_or(NodeError::unavailable("the node's store is damaged"))?,
        statement: statement.map_err(NodeError::damaged)?,
    }))
}

/// Writes an operation the node has not heard of before.
pub(crate) async fn insert(
    conn: &mut SqliteConnection,
    chain: &Chain,
    stage: Stage,
    head: Hex32,
    statement: Option<&str>,
) -> Result<(), Stop> {
    sqlx::query(
        "INSERT INTO operation (operation_id, admission_hash, stage, head, statement) VALUES (?1, ?2, ?3, ?4, ?5)",
    )
    .bind(chain.operation_id.to_string())
    .bind(chain.admission_hash.to_string())
    .bind(stage.as_str())
    .bind(head.to_string())
    .bind(statement)
    .execute(conn)
    .await?;
    Ok(())
}

/// Moves an operation on.
pub(crate) async fn advance(
    conn: &mut SqliteConnection,
    id: OperationId,
    stage: Stage,
    head: Hex32,
) -> Result<(), Stop> {
    sqlx::query("UPDATE operation SET stage = ?2, head = ?3 WHERE operation_id = ?1")
        .bind(id.to_string())
        .bind(stage.as_str())
        .bind(head.to_string())
        .execute(conn)
        .await?;
    Ok(())
}

/// Thirty-two bytes from a column.
pub(crate) fn parse(text: &str) -> Result<Hex32, NodeError> {
    text.parse().map_err(NodeError::damaged)
}
