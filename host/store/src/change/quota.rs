//! Clients' quotas (table `admission_budgets`). A token is taken in the transaction that writes the operation or refusal.
//!
//! A quota is one number, the instant at which it is full again. See [`Token`] for the arithmetic.

use crate::change::script::{Param, Script};
use crate::sql::connection::Connection;
use crate::sql::row::{Row, integer};
use gateway_engine::Token;
use gateway_engine::ports::RateLimited;
use std::fmt::Display;

/// The stored instant of a client without a token: it is later than `$3`, and can be trusted.
const EXHAUSTED: &str = "SELECT full_at_us FROM admission_budgets WHERE tenant = $1 AND client_id = $2 AND full_at_us > $3 AND full_at_us <= $4";

/// The token that a script takes, as parameters of it.
pub(super) struct Quota {
    tenant: Param,
    client: Param,
    now: Param,
    full_then: Param,
    increment: Param,
    latest: Param,
    trusted_until: Param,
}

impl Quota {
    pub(super) fn bind(script: &mut Script, token: &Token) -> Self {
        Self {
            tenant: script.bind(token.tenant.0.as_str()),
            client: script.bind(token.client_id.as_str()),
            now: script.bind(integer(token.now_us)),
            full_then: script.bind(integer(token.now_us).saturating_add(integer(token.increment_us))),
            increment: script.bind(integer(token.increment_us)),
            latest: script.bind(integer(token.latest_us)),
            trusted_until: script.bind(integer(token.trusted_until_us)),
        }
    }

    /// The condition that the client has a token left.
    pub(super) fn has_token(&self) -> String {
        let Self { tenant, client, latest, trusted_until, .. } = self;
        format!(
            "NOT EXISTS (SELECT 1 FROM admission_budgets WHERE tenant = {tenant} AND client_id = {client}
             AND {})",
            is_exhausted("full_at_us", latest, trusted_until)
        )
    }

    /// Adds the write that takes the token, on this condition, and returns when the quota is full again.
    pub(super) fn take_if(&self, condition: &str, script: &mut Script) {
        let Self { tenant, client, now, full_then, increment, latest, .. } = self;
        let full_after = full_after("admission_budgets.full_at_us", now, latest, increment);
        let sql = format!(
            "INSERT INTO admission_budgets (tenant, client_id, full_at_us)
             SELECT {tenant}, {client}, {full_then} WHERE {condition}
             ON CONFLICT (tenant, client_id) DO UPDATE SET full_at_us = {full_after} RETURNING full_at_us"
        );
        script.add_returning(sql);
    }

    /// Adds the deletion of some full quotas of others: two, so that the table shrinks. It needs no condition, because a missing row means a
    /// full quota.
    pub(super) fn drop_full(&self, script: &mut Script) {
        let Self { tenant, client, now, .. } = self;
        let sql = format!(
            "DELETE FROM admission_budgets WHERE (tenant, client_id) IN (
             SELECT tenant, client_id FROM admission_budgets
             WHERE full_at_us <= {now} AND (tenant, client_id) <> ({tenant}, {client}) ORDER BY full_at_us LIMIT 2)"
        );
        script.add(sql);
    }
}

/// Whether a quota that is full at the stored instant has no token left, in SQL.
pub(crate) fn is_exhausted(stored: &str, latest: impl Display, trusted_until: impl Display) -> String {
    format!("{stored} > {latest} AND {stored} <= {trusted_until}")
}

/// When a quota is full once another token is taken, in SQL. Without a stored instant it was full.
pub(crate) fn full_after(
    stored: &str,
    now: impl Display,
    latest: impl Display,
    increment: impl Display,
) -> String {
    format!(
        "{increment} + CASE WHEN {stored} > {latest} OR {now} > {latest} THEN {latest}
         WHEN {stored} > {now} THEN {stored} ELSE {now} END"
    )
}

/// The answer to a write that wrote nothing: that the client has no token left, if that is so.
pub(super) async fn unwritten<C: Connection, T>(
    conn: &mut C,
    token: &Token,
) -> Result<RateLimited<T>, sqlx::Error> {
    let bound = [
        token.tenant.0.as_str().into(),
        token.client_id.as_str().into(),
        integer(token.latest_us).into(),
        integer(token.trusted_until_us).into(),
    ];
    let exhausted = full_at_us(&conn.rows(EXHAUSTED, &bound).await?);
    Ok(exhausted.map_or(RateLimited::Conflict, |full_at_us| RateLimited::Exhausted { full_at_us }))
}

/// The latest of the instants in these rows; `None` without rows.
pub(super) fn full_at_us(rows: &[Row]) -> Option<u64> {
    let instant = |row: &Row| row.integer("full_at_us").and_then(|at_us| u64::try_from(at_us).ok());
    rows.iter().map(|row| instant(row).unwrap_or_default()).max()
}
