//! Lists of operations and keys, newest first.
//!
//! A page reads along one index, chosen by what was asked for: that of the key, of the type, of the state, or of all. What else was asked
//! for is compared row by row, over a limited number of rows.

use crate::database::{Pool, Reader};
use crate::error::failed;
use crate::record::decode;
use crate::record::encode;
use crate::sql::connection::Connection as _;
use crate::sql::row::{Cell, Row, blob_or_first, instant};
use crate::sql::statements::Statements;
use crate::store::Store;
use async_trait::async_trait;
use gateway_domain::canonical::CanonicalError;
use gateway_domain::ids::{Hex32, Tenant};
use gateway_domain::intent::{self, Family, OperationType};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{Created, KeyFilter, ListRecords, Listed, OperationFilter, Place};
use gateway_engine::{Unavailable, Visibility};

/// The most rows of a tenant that are read for a page when rows are compared one by one.
const ROWS_COMPARED_MAX: u32 = 2_000;

/// The most tenants whose records one list has. Only a deployment without authentication lists more than one.
const TENANTS_MAX: i64 = 1_000;

/// A list of operations along the index that has the rows of `which`. `$1` is the tenant, `$2` and `$3` the place after which a page begins,
/// `$4` the time after which all its records were created, and `$5` the maximum of rows; `$6` is the family, `$7` the state, `$8` the kind of
/// intent, `$9` the key, and `$10` the operation; those that are empty are not compared. Each row has `id`, `created_at_ms`, and whether it
/// `fits`.
pub(crate) fn of_operations(statements: &Statements, which: &str) -> String {
    let Statements { is_json, intent_kind, .. } = statements;
    format!(
        "SELECT operation_id AS id, created_at_ms, ($7 = '' OR state = $7) AND ($8 = '' OR
         CASE WHEN {is_json} THEN {intent_kind} END = $8) AND (length($9) = 0 OR key_id = $9)
         AND (length($10) = 0 OR operation_id = $10) AS fits
         FROM operations WHERE tenant = $1 AND family = $6 AND {which}
         AND created_at_ms > $4 AND created_at_ms <= $2 AND (created_at_ms < $2 OR operation_id < $3)
         ORDER BY created_at_ms DESC, operation_id DESC LIMIT $5"
    )
}

/// The custody operations of one kind. Payments are of one kind.
pub(crate) fn of_kind(Statements { is_json, intent_kind, .. }: &Statements) -> String {
    format!("family = 'custody' AND {is_json} AND {intent_kind} = $8")
}

/// A list of keys, as [`of_operations`]. `$6` is the state and `$7` the name; those that are empty are not compared.
pub(crate) fn of_keys(statements: &Statements, which: &str) -> String {
    let Statements { is_json, key_created_at: created, .. } = statements;
    format!(
        "SELECT key_id AS id, {created} AS created_at_ms, ($6 = '' OR state = $6) AND ($7 = '' OR key_ref = $7) AS fits
         FROM custody_keys WHERE tenant = $1 AND {is_json} AND {which}
         AND {created} > $4 AND {created} <= $2 AND ({created} < $2 OR key_id < $3)
         ORDER BY {created} DESC, key_id DESC LIMIT $5"
    )
}

/// The tenants that have operations, from one to the next in an index. Every key has an operation.
pub(crate) const TENANTS: &str = "WITH RECURSIVE tenants (tenant) AS (
        SELECT min(tenant) FROM operations
        UNION ALL SELECT (SELECT min(tenant) FROM operations WHERE tenant > tenants.tenant) FROM tenants WHERE tenant IS NOT NULL)
    SELECT tenant FROM tenants WHERE tenant IS NOT NULL LIMIT $1";

#[async_trait]
impl ListRecords for Store {
    async fn operations_listed(
        &self,
        visibility: &Visibility,
        filter: &OperationFilter,
        after: Option<Place>,
        n_max: u32,
    ) -> Result<Listed, Unavailable> {
        let statements = self.database.pool().statements();
        let search = |tenant: &Tenant| Search::of_operations(statements, tenant, filter);
        listed(self.database.pool(), visibility, search, filter.created, after, n_max).await
    }

    async fn keys_listed(
        &self,
        visibility: &Visibility,
        filter: &KeyFilter,
        after: Option<Place>,
        n_max: u32,
    ) -> Result<Listed, Unavailable> {
        let statements = self.database.pool().statements();
        let search = |_: &Tenant| Ok(Some(Search::of_keys(statements, filter)));
        listed(self.database.pool(), visibility, search, filter.created, after, n_max).await
    }
}

/// A statement, and what is bound beside the bounds of the page.
struct Search {
    sql: String,
    bound: Vec<Cell>,
    /// Whether its index has rows that may not fit.
    compares_rows: bool,
}

impl Search {
    /// `None` when no operation can fit.
    fn of_operations(
        statements: &Statements,
        tenant: &Tenant,
        filter: &OperationFilter,
    ) -> Result<Option<Self>, CanonicalError> {
        let OperationFilter { family, state, operation_type, key_ref, idempotency_key, .. } = filter;
        let kind = match (family, operation_type) {
            (_, None) | (Family::Product, Some(OperationType::Sign)) => "",
            (Family::Product, Some(_)) => return Ok(None),
            (Family::Custody, Some(OperationType::Sign)) => "asset_action",
            (Family::Custody, Some(other)) => other.as_str(),
        };
        let key = key_ref.as_ref().map(|key_ref| intent::key_id(tenant, key_ref)).transpose()?;
        let one = idempotency_key
            .as_ref()
            .map(|claim| intent::operation_id(tenant, *family, key_ref.as_ref(), claim));
        let one = one.transpose()?;
        let state = state.map_or("", |state| state.as_str());
        let of_kind = of_kind(statements);
        // The rows of an index, and how many of the conditions below it is restricted to.
        let (which, n_in_index) = if one.is_some() {
            ("operation_id = $10", 4)
        } else if filter.awaits_approvals {
            ("awaits_approvals = 1", 0)
        } else if key.is_some() {
            ("key_id = $9", 1)
        } else if !kind.is_empty() {
            (of_kind.as_str(), 1)
        } else if !state.is_empty() {
            ("state = $7", 1)
        } else {
            ("TRUE", 0)
        };
        let sql = of_operations(statements, which);
        let given = [!state.is_empty(), !kind.is_empty(), key.is_some(), one.is_some()];
        let n_given = given.into_iter().filter(|is_given| *is_given).count();
        let bound = vec![
            encode::family(*family).into(),
            state.into(),
            kind.into(),
            blob_or_first(key.map(|id| id.0)),
            blob_or_first(one.map(|id| id.0)),
        ];
        Ok(Some(Self { sql, bound, compares_rows: n_given > n_in_index }))
    }

    fn of_keys(statements: &Statements, filter: &KeyFilter) -> Self {
        let state = filter.state.map_or("", |state| state.as_str());
        let (which, name) = match &filter.key_ref {
            Some(key_ref) => ("key_ref = $7", key_ref.0.as_str()),
            None => ("TRUE", ""),
        };
        let sql = of_keys(statements, which);
        Self { sql, bound: vec![state.into(), name.into()], compares_rows: !state.is_empty() }
    }
}

/// A page over all tenants that the caller can see.
async fn listed(
    pool: &Pool,
    visibility: &Visibility,
    search: impl Fn(&Tenant) -> Result<Option<Search>, CanonicalError>,
    created: Created,
    after: Option<Place>,
    n_max: u32,
) -> Result<Listed, Unavailable> {
    let to_unavailable = |error: sqlx::Error| failed("a list could not be read", &error);
    let mut conn = pool.acquire().await.map_err(to_unavailable)?;
    let tenants = match visibility {
        Visibility::Tenant(tenant) => vec![tenant.clone()],
        Visibility::Everything => {
            let rows = conn.rows(TENANTS, &[TENANTS_MAX.into()]).await.map_err(to_unavailable)?;
            let tenant = |row| Ok(Tenant(decode::text("a tenant", row, "tenant")?.to_owned()));
            rows.iter().map(tenant).collect::<Result<_, Unavailable>>()?
        }
    };
    // A place of no record, at which nothing was created yet.
    let before = created.before.map(|at| Place { created_at: at, id: Hex32::ZERO });
    let from = after.into_iter().chain(before).min();
    let mut pages = Vec::with_capacity(tenants.len());
    for tenant in tenants {
        let search = search(&tenant).map_err(|error| failed("a list could not be read", &error))?;
        let Some(search) = search else { return Ok(Listed::default()) };
        pages.push(page(&mut conn, &tenant, search, created.after, from, n_max).await?);
    }
    Ok(merged(pages, n_max))
}

/// The fitting rows of one tenant, and the last row that was read if there may be more.
async fn page(
    conn: &mut Reader,
    tenant: &Tenant,
    search: Search,
    created_after: Option<EpochMs>,
    from: Option<Place>,
    n_max: u32,
) -> Result<Listed, Unavailable> {
    let n_rows = if search.compares_rows { ROWS_COMPARED_MAX } else { n_max.saturating_add(1) };
    let mut bound = vec![
        tenant.0.as_str().into(),
        from.map_or(i64::MAX, |place| instant(place.created_at)).into(),
        blob_or_first(from.map(|place| place.id)),
        created_after.map_or(-1, instant).into(),
        i64::from(n_rows).into(),
    ];
    bound.extend(search.bound);
    let rows = conn.rows(&search.sql, &bound).await;
    let rows = rows.map_err(|error| failed("a list could not be read", &error))?;
    let is_cut = rows.len() >= usize::try_from(n_rows).unwrap_or(usize::MAX);
    // A row whose id was damaged is left out.
    let next = rows.iter().rev().filter(|_| is_cut).find_map(|row| place(row).ok());
    let fitting = rows.iter().filter(|row| row.integer("fits") == Some(1));
    Ok(Listed { places: fitting.filter_map(|row| place(row).ok()).collect(), next })
}

fn place(row: &Row) -> Result<Place, Unavailable> {
    let created_at = decode::integer("a record of a list", row, "created_at_ms")?;
    let id = decode::hash("a record of a list", row, "id")?;
    Ok(Place { created_at: EpochMs(created_at.unsigned_abs()), id })
}

/// The first `n_max` places of all pages, as far as every page reaches.
fn merged(pages: Vec<Listed>, n_max: u32) -> Listed {
    let reached = pages.iter().filter_map(|page| page.next).max();
    let places = pages.into_iter().flat_map(|page| page.places);
    let mut places: Vec<_> = places.filter(|place| reached.is_none_or(|reached| *place >= reached)).collect();
    places.sort_unstable_by(|one, other| other.cmp(one));
    let n_max = usize::try_from(n_max).unwrap_or(usize::MAX);
    if places.len() <= n_max {
        return Listed { places, next: reached };
    }
    places.truncate(n_max);
    Listed { next: places.last().copied(), places }
}
