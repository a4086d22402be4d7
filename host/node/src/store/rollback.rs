//! The table `rolled_back`: when the database was restored from an older copy, and what a node that was readmitted since refuses.

use crate::call::AdmitRequest;
use crate::error::{NodeRejection, Stop, decided_before};
use crate::store::columns::column;
use crate::store::row_hash;
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::time::EpochMs;
use gateway_sqlite::Connection;

/// The last rollback that the node knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rollback {
    /// The size that the log had at least before the rollback.
    pub(crate) size_shown: u64,
    /// The first position at which the log may have had another entry.
    pub(crate) lost_from: u64,
    /// The readmission; `None` while the node is stopped.
    pub(crate) readmitted: Option<Readmission>,
}

/// The entry of a readmission, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readmission {
    pub(crate) log_index: u64,
    pub(crate) at_ms: EpochMs,
}

impl Rollback {
    pub(crate) async fn load(conn: &mut Connection) -> Result<Option<Self>, sqlx::Error> {
        let sql = "SELECT size_shown, lost_from, readmitted_index, readmitted_at_ms FROM rolled_back";
        let Some(row) = conn.row(sql, &[]).await? else { return Ok(None) };
        let number = |column: &str| Ok::<_, sqlx::Error>(row.get::<i64>(column)?.unsigned_abs());
        let index: Option<i64> = row.get("readmitted_index")?;
        let readmitted = match index {
            Some(index) => Some(Readmission {
                log_index: index.unsigned_abs(),
                at_ms: EpochMs(number("readmitted_at_ms")?),
            }),
            None => None,
        };
        Ok(Some(Self { size_shown: number("size_shown")?, lost_from: number("lost_from")?, readmitted }))
    }

    pub(crate) async fn store(&self, conn: &mut Connection) -> Result<(), Stop> {
        let readmitted = self.readmitted.map(|readmission| (readmission.log_index, readmission.at_ms.0));
        let row_hash = row_hash::rolled_back(self.size_shown, self.lost_from, readmitted)?;
        let sql = "INSERT OR REPLACE INTO rolled_back \
                   (one, size_shown, lost_from, readmitted_index, readmitted_at_ms, row_hash) \
                   VALUES (1, ?1, ?2, ?3, ?4, ?5)";
        let bound = [
            column(self.size_shown)?.into(),
            column(self.lost_from)?.into(),
            readmitted.map(|(index, _)| column(index)).transpose()?.into(),
            readmitted.map(|(_, at_ms)| column(at_ms)).transpose()?.into(),
            row_hash.to_string().into(),
        ];
        Ok(conn.run(sql, &bound).await?)
    }
}

/// Refuses what was decided or approved before the node was readmitted. Approvals count by their signed time, whose clock may be
/// ahead.
pub(crate) fn check_decided_since(
    readmitted_at: EpochMs,
    request: &AdmitRequest,
    decision: &AdmissionDecision,
) -> Result<(), NodeRejection> {
    let latest_claim = i64::try_from(readmitted_at.plus_ms(CLOCK_SKEW_MS).0).unwrap_or(i64::MAX);
    let mut signed = request.approvals.iter().filter(|approval| approval.signature.is_some());
    let is_older = decision.not_before_ms <= readmitted_at
        || signed.any(|approval| approval.claimed_at_ms <= latest_claim);
    if readmitted_at == EpochMs(0) || !is_older { Ok(()) } else { Err(decided_before()) }
}
