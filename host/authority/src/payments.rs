//! The payments that the authority decided on, so that a gateway cannot hide them from a policy that limits amounts over time.
//!
//! A payment counts from the last decision on it, whether or not it was executed: only the nodes and the gateway know what became of it.

use crate::error::{RecordError, Stop, Unverified};
use crate::row::{self, integer};
use gateway_domain::intent::{Intent, Payment};
use gateway_domain::operation::Operation;
use gateway_domain::policy::SpendingTotals;
use gateway_domain::policy::spending::{Parties, Party};
use gateway_domain::time::EpochMs;
use gateway_policy::Evaluator;
use gateway_spending::Own;
use gateway_sqlite::{Cell, Connection};

/// The payment of an operation.
pub(crate) struct Decided {
    operation_id: String,
    intent_hash: String,
    amount_minor: i64,
    /// Account, recipient, submitter and key.
    parties: Parties,
}

impl Decided {
    /// `None` if the operation is not a payment.
    pub(crate) fn of(operation: &Operation) -> Option<Self> {
        let Intent::Payment(payment) = &operation.intent else { return None };
        let Payment { amount_minor, .. } = payment;
        Some(Self {
            operation_id: operation.id.to_string(),
            intent_hash: operation.intent_hash.to_string(),
            amount_minor: (*amount_minor).max(0),
            parties: Parties::of(&operation.tenant, &operation.submitter, operation.key.key_id, payment),
        })
    }

    /// The earlier decision on this operation, if there is one, which must have been on the same payment. Each operation counts once, so
    /// a gateway could otherwise have two payments decided and one of them counted.
    pub(crate) async fn earlier(&self, conn: &mut Connection) -> Result<Option<Own>, Stop> {
        let sql = "SELECT at_ms, row_hash FROM spending WHERE operation_id = ?1";
        let Some(known) = conn.row(sql, &[self.operation_id.as_str().into()]).await? else { return Ok(None) };
        let (at_ms, row_hash): (i64, String) = (known.get("at_ms")?, known.get("row_hash")?);
        if self.row(at_ms).hash()?.to_string() != row_hash {
            return Err(Unverified::OtherPayment.into());
        }
        Ok(Some(Own { at: EpochMs(at_ms.unsigned_abs()), amount_minor: self.amount_minor }))
    }

    /// The totals that the policy may read, without this payment; `None` if it may read none.
    pub(crate) async fn totals(
        &self,
        conn: &mut Connection,
        evaluator: &Evaluator,
        now: EpochMs,
        earlier: Option<Own>,
    ) -> Result<Option<SpendingTotals>, Stop> {
        let Some(parties) = evaluator.read_parties(self.parties.clone()) else { return Ok(None) };
        Ok(Some(gateway_spending::read(conn, &parties, now, earlier).await?))
    }

    /// Records the payment as decided now, and drops some that count no more. A repeated decision counts from the later one, since it is
    /// valid from then.
    pub(crate) async fn record(
        &self,
        conn: &mut Connection,
        now: EpochMs,
        earlier: Option<Own>,
    ) -> Result<(), Stop> {
        gateway_spending::drop_old(conn, now).await?;
        let row = self.row(integer(earlier.map_or(now, |earlier| earlier.at.max(now)).0));
        let sql = "DELETE FROM spending WHERE operation_id = ?1;\n\
                   INSERT INTO spending (operation_id, intent_hash, tenant, account, recipient, submitter, key_id, \
                   currency, amount_minor, at_ms, row_hash) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        let row_hash = row.hash()?.to_string();
        let texts = [
            row.operation_id,
            row.intent_hash,
            row.tenant,
            row.account,
            row.recipient,
            row.submitter,
            row.key_id,
            row.currency,
        ];
        let numbers = [row.amount_minor, row.at_ms].map(Cell::from);
        let bound: Vec<_> =
            texts.map(Cell::from).into_iter().chain(numbers).chain([row_hash.into()]).collect();
        Ok(conn.run(sql, &bound).await?)
    }

    fn row(&self, at_ms: i64) -> row::Spending<'_> {
        let party = |party| self.parties.name(party).unwrap_or_default();
        row::Spending {
            operation_id: &self.operation_id,
            intent_hash: &self.intent_hash,
            tenant: &self.parties.tenant.0,
            account: party(Party::Account),
            recipient: party(Party::Recipient),
            submitter: party(Party::Submitter),
            key_id: party(Party::Key),
            currency: &self.parties.currency,
            amount_minor: self.amount_minor,
            at_ms,
        }
    }
}

/// Compares each row with its hash, and the sums with the rows.
pub(crate) async fn check_rows(conn: &mut Connection) -> Result<(), RecordError> {
    let sql = "SELECT * FROM spending WHERE operation_id > ?1 ORDER BY operation_id LIMIT 1000";
    let mut after = String::new();
    loop {
        let rows = conn.rows(sql, &[after.as_str().into()]).await?;
        let Some(last) = rows.last() else { break };
        after = last.get("operation_id")?;
        for found in rows {
            let text = |column| found.get::<&str>(column);
            let row = row::Spending {
                operation_id: text("operation_id")?,
                intent_hash: text("intent_hash")?,
                tenant: text("tenant")?,
                account: text("account")?,
                recipient: text("recipient")?,
                submitter: text("submitter")?,
                key_id: text("key_id")?,
                currency: text("currency")?,
                amount_minor: found.get("amount_minor")?,
                at_ms: found.get("at_ms")?,
            };
            if row.hash()?.to_string() != text("row_hash")? {
                return Err(RecordError::Damaged(format!("the row of payment `{}`", row.operation_id)));
            }
        }
    }
    match gateway_spending::differences(conn).await?.first() {
        None => Ok(()),
        Some(row) => {
            let payments = row.named(&["party", "name", "currency", "minute"]);
            Err(RecordError::Damaged(format!("the row of `spending_sums` with {payments}")))
        }
    }
}
