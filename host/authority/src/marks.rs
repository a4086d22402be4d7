//! The policy bundles under which the authority made decisions. The one with the highest sequence is its high-water mark.

use crate::error::{RecordError, Stop};
use crate::row::{self, integer};
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_policy::limits::BUNDLES_TRUSTED_MAX;
use gateway_policy::{Ranked, Standing, Superseded};
use gateway_sqlite::{Connection, Row};

/// Those of the highest sequences, at most [`BUNDLES_TRUSTED_MAX`].
// INVARIANT: in the order of their sequences, which differ; `raised` keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks(Vec<Ranked>);

impl Marks {
    /// Checks that the bundle may admit an operation. Returns the marks afterwards; `None` if they stay as they are.
    pub(crate) fn raised(
        &self,
        hash: Hex32,
        sequence: u64,
        is_pinned: bool,
        now: EpochMs,
    ) -> Result<Option<Self>, Superseded> {
        let mut marks = self.0.clone();
        // With a new activation record, the bundle is active again from its next decision on.
        marks.retain(|known| known.hash != hash || known.sequence >= sequence);
        let known = marks.iter().find(|known| known.hash == hash).copied();
        let own = known.unwrap_or(Ranked { hash, sequence, active_at: None });
        match own.check(marks.last().copied(), is_pinned, now)? {
            Standing::Stays => Ok(None),
            Standing::Rises => {
                if marks.len() >= BUNDLES_TRUSTED_MAX {
                    marks.remove(0);
                }
                marks.push(Ranked { active_at: Some(now), ..own });
                Ok(Some(Self(marks)))
            }
        }
    }

    /// Reads the marks, and compares each row with its hash.
    pub(crate) async fn load(conn: &mut Connection) -> Result<Self, RecordError> {
        let sql = "SELECT bundle_hash, sequence, active_at_ms, row_hash FROM bundle ORDER BY sequence";
        let mark = |row: &Row| {
            let (bundle_hash, row_hash): (String, String) = (row.get("bundle_hash")?, row.get("row_hash")?);
            let (sequence, active_at_ms): (i64, i64) = (row.get("sequence")?, row.get("active_at_ms")?);
            let damaged = || RecordError::Damaged(format!("the row of bundle `{bundle_hash}`"));
            let hash: Hex32 = bundle_hash.parse().map_err(|_| damaged())?;
            if row::bundle_hash(&bundle_hash, sequence, active_at_ms)?.to_string() != row_hash {
                return Err(damaged());
            }
            let active_at = Some(EpochMs(active_at_ms.unsigned_abs()));
            Ok(Ranked { hash, sequence: sequence.unsigned_abs(), active_at })
        };
        conn.rows(sql, &[]).await?.iter().map(mark).collect::<Result<_, _>>().map(Self)
    }

    /// Writes the marks in place of the stored ones. Rare: only when one is new.
    pub(crate) async fn store(&self, conn: &mut Connection) -> Result<(), Stop> {
        conn.run("DELETE FROM bundle", &[]).await?;
        for Ranked { hash, sequence, active_at } in &self.0 {
            let (hash, sequence) = (hash.to_string(), integer(*sequence));
            let active_at_ms = integer(active_at.map_or(0, |at| at.0));
            let sql =
                "INSERT INTO bundle (bundle_hash, sequence, active_at_ms, row_hash) VALUES (?1, ?2, ?3, ?4)";
            let row_hash = row::bundle_hash(&hash, sequence, active_at_ms)?.to_string();
            conn.run(sql, &[hash.into(), sequence.into(), active_at_ms.into(), row_hash.into()]).await?;
        }
        Ok(())
    }
}
