//! Checks idempotency claims and the keys' lists of operations: each row must belong to an existing operation.

use super::check::Check;
use super::snapshot::Stop;
use crate::record::encode::{claim_columns, listed_keys};
use crate::sql::row::{Cell, Hashes, Row};
use gateway_domain::ids::{KeyRef, OperationId, Tenant};
use gateway_domain::intent::{self, Family};
use gateway_domain::operation::Operation;

/// Text is bound as bytes, because stored text may not be valid UTF-8.
const CLAIMS: &str = "SELECT * FROM idempotency_claims
    WHERE (tenant, family, key_ref, idempotency_key)
        > (CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS TEXT))
    ORDER BY tenant, family, key_ref, idempotency_key LIMIT $5";
const UNCLAIMED: &str = "SELECT operation_id FROM operations WHERE operation_id > $1
    EXCEPT SELECT operation_id FROM idempotency_claims
    ORDER BY operation_id LIMIT $2";
const LISTS: &str = "SELECT key_operations.*, events.ledger_index AS begins FROM key_operations
    LEFT JOIN events ON events.operation_id = key_operations.operation_id AND events.seq = 1
    WHERE (key_id, key_operations.ledger_index) > ($1, $2)
    ORDER BY key_id, key_operations.ledger_index LIMIT $3";

const CLAIM: [&str; 4] = ["tenant", "family", "key_ref", "idempotency_key"];

impl Check<'_> {
    pub(super) async fn claims(&mut self) -> Result<(), Stop> {
        let mut after = [const { Cell::Text(Vec::new()) }; 4].to_vec();
        while let Some(rows) = self.page(CLAIMS, &CLAIM, &mut after).await? {
            for row in &rows {
                self.claim(row).await?;
            }
        }
        self.unclaimed().await
    }

    async fn claim(&mut self, row: &Row) -> Result<(), Stop> {
        let named = row.named(&CLAIM);
        let id = row.hash("operation_id").filter(|id| claimed(row) == Some(OperationId(*id)));
        let Some(id) = id else {
            self.finding("idempotency_claims", named, "`operation_id` does not follow from the claim");
            return Ok(());
        };
        match self.submission(id).await? {
            None => self.finding("idempotency_claims", named, "its operation does not exist"),
            Some(operation) => {
                let columns = claim_columns(&operation, row.text("idempotency_key").unwrap_or_default());
                self.differs("idempotency_claims", row, &CLAIM, &columns, &[]);
            }
        }
        Ok(())
    }

    /// Reports operations without a claim.
    async fn unclaimed(&mut self) -> Result<(), Stop> {
        let mut after = vec![Cell::Blob(Vec::new())];
        while let Some(rows) = self.page(UNCLAIMED, &["operation_id"], &mut after).await? {
            for row in &rows {
                self.finding("idempotency_claims", row.named(&["operation_id"]), "missing");
            }
        }
        Ok(())
    }

    /// Checks the entries that exist; `Check::listed` reports missing ones.
    pub(super) async fn key_operations(&mut self) -> Result<(), Stop> {
        let mut after = vec![Cell::Blob(Vec::new()), Cell::Integer(i64::MIN)];
        while let Some(rows) = self.page(LISTS, &["key_id", "ledger_index"], &mut after).await? {
            for row in &rows {
                self.list_entry(row).await?;
            }
        }
        Ok(())
    }

    async fn list_entry(&mut self, row: &Row) -> Result<(), Stop> {
        let operation = match row.hash("operation_id") {
            Some(id) => self.submission(id).await?,
            None => None,
        };
        let is_of = |operation: Operation| {
            listed_keys(&operation).iter().any(|key| row.hash("key_id") == Some(key.0))
        };
        if row.cell("begins") != row.cell("ledger_index") || !operation.is_some_and(is_of) {
            let name = row.named(&["key_id", "ledger_index"]);
            self.finding("key_operations", name, "no operation of this key begins at this `ledger_index`");
        }
        Ok(())
    }
}

/// The operation id that a claim determines (`intent::operation_id`).
fn claimed(row: &Row) -> Option<OperationId> {
    let family = match row.text("family")? {
        "product" => Family::Product,
        "custody" => Family::Custody,
        _ => return None,
    };
    let (tenant, key_ref) = (Tenant(row.text("tenant")?.to_owned()), KeyRef(row.text("key_ref")?.to_owned()));
    intent::operation_id(&tenant, family, Some(&key_ref), row.text("idempotency_key")?).ok()
}
