//! The payments that this node admitted, so that a gateway cannot hide them from a policy that limits amounts over time.

use crate::error::{NodeError, Stop};
use crate::store::columns::integer;
use crate::store::row_hash;
use gateway_domain::ids::OperationId;
use gateway_domain::policy::spending::{Parties, Party};
use gateway_domain::time::EpochMs;
use gateway_sqlite::{Cell, Connection};

/// Records an admitted payment, and drops some that count no more.
pub(crate) async fn record(
    conn: &mut Connection,
    id: OperationId,
    parties: &Parties,
    amount_minor: i64,
    now: EpochMs,
) -> Result<(), Stop> {
    gateway_spending::drop_old(conn, now).await?;
    let (id, party) = (id.to_string(), |party| parties.name(party).unwrap_or_default());
    let row = row_hash::Spending {
        operation_id: &id,
        tenant: &parties.tenant.0,
        account: party(Party::Account),
        recipient: party(Party::Recipient),
        submitter: party(Party::Submitter),
        key_id: party(Party::Key),
        currency: &parties.currency,
        amount_minor: amount_minor.max(0),
        at_ms: integer(now.0),
    };
    let sql = "INSERT INTO spending (operation_id, tenant, account, recipient, submitter, key_id, currency, \
               amount_minor, at_ms, row_hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    let row_hash = row.hash().map_err(NodeError::from)?.to_string();
    let texts =
        [row.operation_id, row.tenant, row.account, row.recipient, row.submitter, row.key_id, row.currency];
    let numbers = [row.amount_minor, row.at_ms].map(Cell::from);
    let bound: Vec<_> = texts.map(Cell::from).into_iter().chain(numbers).chain([row_hash.into()]).collect();
    Ok(conn.run(sql, &bound).await?)
}

/// Removes a payment that was discarded: its share never leaves this node.
pub(crate) async fn remove(conn: &mut Connection, id: OperationId) -> Result<(), Stop> {
    Ok(conn.run("DELETE FROM spending WHERE operation_id = ?1", &[id.to_string().into()]).await?)
}
