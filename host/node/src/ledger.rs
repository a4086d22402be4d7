//! Steps done, by effect id: a repeat is answered, and an id never changes its meaning.

use crate::error::{Code, Rejection, Stop};
use crate::row::parse;
use gateway_domain::ids::Hex32;
use gateway_domain::operation::EffectId;
use sqlx::{Row as _, SqliteConnection};

/// The answer given to this effect before.
///
/// # Errors
/// [`Code::EffectConflict`] when the id was used for something else.
pub(crate) async fn answered(
    conn: &mut SqliteConnection,
    effect: EffectId,
    content: Hex32,
) -> Result<Option<Hex32>, Stop> {
    let sql = "SELECT content, transition_hash FROM effect WHERE effect_id = ?1";
    let found = sqlx::query(sql).bind(effect.to_string()).fetch_optional(conn).await?;
    let Some(row) = found else { return Ok(None) };
    let (known, transition_hash): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    if known != content.to_string() {
        let detail = format!("effect `{effect}` was used for something else");
        return Err(Rejection::new(Code::EffectConflict, detail).into());
    }
    Ok(Some(parse(&transition_hash)?))
}

/// Keeps the answer to this effect.
pub(crate) async fn keep(
    conn: &mut SqliteConnection,
    effect: EffectId,
    content: Hex32,
    transition_hash: Hex32,
) -> Result<(), Stop> {
    sqlx::query("INSERT INTO effect (effect_id, content, transition_hash) VALUES (?1, ?2, ?3)")
        .bind(effect.to_string())
        .bind(content.to_string())
        .bind(transition_hash.to_string())
        .execute(conn)
        .await?;
    Ok(())
}
