//! Checks the watermarks of rows that were deleted on purpose.

use super::check::Check;
use super::snapshot::Stop;
use crate::sql::row::instant;
use crate::store::retention::{Expiring, NEWEST};
use gateway_domain::policy::spending::KEPT_MS;
use gateway_domain::time::EpochMs;

const DROPPED: &str = "SELECT * FROM rows_dropped ORDER BY name";

impl Check<'_> {
    /// Reads the watermarks. That of `spending` must leave every row that a limit may need.
    pub(super) async fn read_dropped(&mut self) -> Result<(), Stop> {
        for row in self.rows(DROPPED, &[]).await? {
            let is_of = |table: Expiring| row.text("name") == Some(table.table());
            let through = row.integer("through").unwrap_or(i64::MAX);
            if is_of(Expiring::Spending) {
                self.dropped.spending = Some(through);
            } else if is_of(Expiring::Refusals) {
                self.dropped.refusals = through;
            } else {
                self.finding("rows_dropped", row.named(&["name"]), "no rows of such a table are deleted");
            }
        }
        let Some(through) = self.dropped.spending else { return Ok(()) };
        let newest = self.rows(NEWEST, &[]).await?;
        let newest = newest.first().and_then(|row| row.integer("updated_at_ms")).unwrap_or_default();
        if through > newest.saturating_sub(instant(EpochMs(KEPT_MS))) {
            let what = format!(
                "`through` is {through}, but limits may need payments from after the 30 days before {newest}"
            );
            self.finding("rows_dropped", "name \"spending\"", what);
        }
        Ok(())
    }

    /// Compares the sums of payments with the payments.
    pub(super) async fn spending_sums(&mut self) -> Result<(), Stop> {
        let after = gateway_spending::dropped_minute(self.dropped.spending);
        for row in self.rows(gateway_spending::DIFFERENCE, &[after.into()]).await? {
            self.finding(
                "spending_sums",
                row.named(&["tenant", "currency", "party", "name", "minute"]),
                "not the sum of `spending`",
            );
        }
        Ok(())
    }

    /// After all operations: a payment whose row was deleted must have been decided at the watermark.
    pub(super) fn spending_dropped(&mut self) {
        if let (Some(through), false) = (self.dropped.spending, self.dropped.is_confirmed) {
            let what = format!("`through` is {through}, but no payment without a row was decided then");
            self.finding("rows_dropped", "name \"spending\"", what);
        }
    }
}
