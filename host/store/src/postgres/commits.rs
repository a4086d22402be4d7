//! Commits of operations, many in one statement, whose rows are bound as one array for each column: an executor that starts once for
//! all of them takes a fraction of the time, and the end of the log is locked for fewer round trips.
//!
//! The statement has the conditions of all its commits. If one does not hold, it writes nothing, and returns the commits at fault, which
//! are left out of the next try. Commits that depend on one another, such as two of one operation, are in statements of their own.

use crate::change::{CommitWrite, FIXED, SET_KEY, due_after, full_after, is_exhausted, is_outdated};
use crate::postgres::arrays::{Statement, Table, Value, values};
use crate::record::encode::Spending;
use crate::record::frontier::{Appended, LogFrontier};
use crate::sql::row::{Row, integer};
use gateway_domain::ids::Hex32;
use gateway_engine::ports::{RateLimited, SpendingRead};
use gateway_spending::{TOTALS, TOTALS_OF};
use sqlx::PgConnection;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

type Outcome = RateLimited<Hex32>;

/// That all conditions hold.
const GO: &str = "NOT EXISTS (SELECT FROM failing)";

/// Writes the commits, and appends their events to the log. Returns the outcome of each, in their order.
pub(super) async fn write(
    conn: &mut PgConnection,
    log: &mut LogFrontier,
    commits: &[&CommitWrite],
) -> Result<Vec<Outcome>, sqlx::Error> {
    let mut outcomes = BTreeMap::new();
    let mut waiting: Vec<_> = commits.iter().copied().enumerate().collect();
    while !waiting.is_empty() {
        let (independent, later) = independent(waiting);
        waiting = later;
        write_independent(conn, log, independent, &mut outcomes).await?;
    }
    Ok(outcomes.into_values().collect())
}

type Numbered<'c> = (usize, &'c CommitWrite);

/// The commits of which none depends on one before it, and the others.
fn independent(commits: Vec<Numbered<'_>>) -> (Vec<Numbered<'_>>, Vec<Numbered<'_>>) {
    let mut touched = BTreeSet::new();
    commits.into_iter().partition(|(_, commit)| {
        let (touches, quota) = (touches(commit), quota(commit));
        let is_independent = touches.iter().chain(&quota).all(|touches| !touched.contains(touches));
        // One that waits keeps those behind it that depend on it waiting too.
        touched.extend(touches);
        touched.extend(quota.filter(|_| !is_independent));
        is_independent
    })
}

/// Names of what its conditions read, but for the quota.
fn touches(commit: &CommitWrite) -> Vec<String> {
    let rows = &commit.rows;
    let mut touches = vec![format!("operation {}", rows.id)];
    touches.extend(rows.keys.iter().map(|key| format!("key {}", key.id)));
    if let Some(claim) = &rows.claim {
        let texts = claim.iter().filter(|(name, _)| *name != "operation_id").map(|(_, cell)| cell);
        touches.push(texts.fold("claim".to_owned(), |name, text| format!("{name} {text}")));
    }
    if let Some(read) = &rows.spending_read {
        let tenant = &read.parties.tenant.0;
        touches.extend(read.parties.iter().map(|(party, name)| format!("{party:?} {tenant:?} {name:?}")));
    }
    touches
}

/// The name of its quota, of which one statement takes several tokens, one after the other.
fn quota(commit: &CommitWrite) -> Option<String> {
    commit.token.as_ref().map(|token| format!("quota {:?} {:?}", token.tenant.0, token.client_id))
}

async fn write_independent(
    conn: &mut PgConnection,
    log: &mut LogFrontier,
    mut commits: Vec<Numbered<'_>>,
    outcomes: &mut BTreeMap<usize, Outcome>,
) -> Result<(), sqlx::Error> {
    let outdated = outdated(conn, &commits).await?;
    outcomes.extend(outdated.iter().map(|number| (*number, RateLimited::Conflict)));
    commits.retain(|(number, _)| !outdated.contains(number));
    while !commits.is_empty() {
        let logs = appended(log, &commits);
        let mut failing = BTreeMap::new();
        let mut full_at_us = BTreeMap::new();
        for row in statement(log.next_index(), &commits, &logs)?.run(conn).await? {
            let number = number(&row)?;
            let full: Option<u64> = row.get::<Option<i64>>("full_at_us")?.map(i64::unsigned_abs);
            if row.get("is_failing")? {
                let exhausted = full.map(|full_at_us| RateLimited::Exhausted { full_at_us });
                failing.insert(number, exhausted.unwrap_or(RateLimited::Conflict));
            } else {
                full_at_us.extend(full.map(|full| (number, full)));
            }
        }
        if failing.is_empty() {
            for ((number, _), after) in commits.iter().zip(&logs) {
                let full_at_us = full_at_us.get(number).copied().unwrap_or_default();
                outcomes.insert(*number, RateLimited::Written { written: after.root, full_at_us });
            }
            logs.into_iter().next_back().into_iter().for_each(|last| *log = last.frontier);
            return Ok(());
        }
        commits.retain(|(number, _)| !failing.contains_key(number));
        outcomes.extend(failing);
    }
    Ok(())
}

/// The commits whose conditions on spending totals no longer hold.
async fn outdated(conn: &mut PgConnection, commits: &[Numbered<'_>]) -> Result<BTreeSet<usize>, sqlx::Error> {
    let checks: Vec<_> = commits
        .iter()
        .filter_map(|(number, commit)| commit.rows.spending_read.as_ref().map(|read| (*number, read)))
        .collect();
    if checks.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut wanted = Table::default();
    let of_check = |(number, read): &(usize, &SpendingRead)| {
        let number = *number;
        gateway_spending::bound(&read.parties, read.now).into_iter().map(move |bound| (number, bound))
    };
    let bound: Vec<_> = checks.iter().flat_map(of_check).collect();
    for (number, bound) in &bound {
        wanted.push(job(*number).into_iter().chain(TOTALS_OF.into_iter().zip(bound.iter().map(Value::from))));
    }
    let mut statement = Statement::default();
    statement.rows("wanted", &wanted)?;
    // The last one first: `$1` is also the beginning of `$10`.
    let totals = (1..)
        .zip(TOTALS_OF)
        .collect::<Vec<_>>()
        .into_iter()
        .rfold(TOTALS.to_owned(), |totals, (parameter, name)| {
            totals.replace(&format!("${parameter}"), &format!("wanted.{name}"))
        });
    statement.end =
        format!("SELECT wanted.job, totals.* FROM wanted CROSS JOIN LATERAL ({totals}) AS totals");
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for row in statement.run(conn).await? {
        found.entry(number(&row)?).or_default().push(row);
    }
    let is_outdated = |(number, read): &&(usize, &SpendingRead)| {
        is_outdated(read, found.get(number).map(Vec::as_slice).unwrap_or_default())
    };
    Ok(checks.iter().filter(is_outdated).map(|(number, _)| *number).collect())
}

/// The log after each of the commits.
fn appended(log: &LogFrontier, commits: &[Numbered<'_>]) -> Vec<Appended> {
    let mut logs: Vec<Appended> = Vec::with_capacity(commits.len());
    for (_, commit) in commits {
        let before = logs.last().map_or(log, |last| &last.frontier);
        let appended = before.append(commit.rows.events.iter().map(|event| event.hash));
        logs.push(appended);
    }
    logs
}

/// The rows of commits, by table.
#[derive(Default)]
struct Tables<'c> {
    created: Table<'c>,
    changed: Table<'c>,
    appended: Table<'c>,
    nodes: Table<'c>,
    claims: Table<'c>,
    listed: Table<'c>,
    keys: Table<'c>,
    admitted: Table<'c>,
    voided: Table<'c>,
    paid: Table<'c>,
    tokens: Table<'c>,
}

impl<'c> Tables<'c> {
    /// The rows of commits that append to a log of `first` entries, which is then as `logs` say.
    fn of(first: i64, commits: &[Numbered<'c>], logs: &'c [Appended]) -> Self {
        let (mut tables, mut next) = (Self::default(), first);
        for ((number, commit), after) in commits.iter().zip(logs) {
            tables.operation(*number, commit, after.root.as_bytes());
            let rows = &commit.rows;
            let id = Value::Blob(rows.id.0.as_bytes());
            for key in &rows.listed_keys {
                tables.listed.push([
                    ("key_id", Value::Blob(key.0.as_bytes())),
                    ("ledger_index", Value::Integer(next)),
                    ("operation_id", id),
                ]);
            }
            for event in &rows.events {
                tables.appended.push(values(&event.columns).chain([("ledger_index", Value::Integer(next))]));
                next = next.saturating_add(1);
            }
            for node in &after.nodes {
                tables.nodes.push([
                    ("level", Value::Integer(i64::from(node.level))),
                    ("position", Value::Integer(integer(node.index))),
                    ("hash", Value::Blob(node.hash.as_bytes())),
                ]);
            }
            for key in &rows.keys {
                let before = Value::Integer(key.revision_before.unwrap_or(NO_KEY));
                let job = job(*number).into_iter().chain([("revision_before", before)]);
                tables.keys.push(job.chain(values(&key.columns)));
            }
            if let Some(claim) = &rows.claim {
                tables.claims.push(job(*number).into_iter().chain(values(claim)));
            }
            match &rows.spending {
                None => {}
                Some(Spending::Admitted { columns, .. }) => tables.admitted.push(values(columns)),
                Some(Spending::Voided) => tables.voided.push([("operation_id", id)]),
            }
            if let Some(columns) = &rows.paid {
                tables.paid.push(values(columns));
            }
            tables.token(*number, commit);
        }
        tables
    }

    fn operation(&mut self, number: usize, commit: &'c CommitWrite, ledger_root: &'c [u8]) {
        let rows = &commit.rows;
        let columns = values(&rows.operation).chain([("ledger_root", Value::Blob(ledger_root))]);
        if rows.revision_before == 0 {
            let due = values(&rows.operation).find(|(name, _)| *name == "updated_at_ms");
            let due = due.map(|(_, updated_at_ms)| ("due_ms", updated_at_ms));
            self.created.push(job(number).into_iter().chain(columns).chain(due));
        } else {
            let before = [
                ("revision_before", Value::Integer(rows.revision_before)),
                ("record_root_before", Value::Blob(rows.record_root_before.as_bytes())),
            ];
            self.changed.push(job(number).into_iter().chain(before).chain(columns));
        }
    }

    /// The token of a commit, with its place among those of the same quota.
    fn token(&mut self, number: usize, commit: &'c CommitWrite) {
        let Some(token) = &commit.token else { return };
        let quota = [("tenant", Value::Text(&token.tenant.0)), ("client_id", Value::Text(&token.client_id))];
        let same = quota.map(|(_, name)| name);
        let before = self.tokens.rows.iter().filter(|row| row.get(1..3) == Some(&same));
        let place = ("place", Value::Integer(index(before.count())));
        let instants = [
            ("now_us", token.now_us),
            ("increment_us", token.increment_us),
            ("latest_us", token.latest_us),
            ("trusted_until_us", token.trusted_until_us),
        ];
        let instants = instants.map(|(name, at_us)| (name, Value::Integer(integer(at_us))));
        self.tokens.push(job(number).into_iter().chain(quota).chain([place]).chain(instants));
    }
}

/// The commits that create an operation that exists.
const EXISTING: &str = "SELECT job, TRUE FROM created JOIN operations USING (operation_id)";

/// The commits whose operation is no longer the one that they change.
const CHANGED: &str =
    "SELECT job, FALSE FROM changed LEFT JOIN operations AS stored ON stored.operation_id = changed.operation_id
    AND stored.revision = changed.revision_before AND stored.record_root = changed.record_root_before
    WHERE stored.operation_id IS NULL";

/// The commits whose claim exists. What all its texts together are is the index.
const CLAIMED: &str = "SELECT job, FALSE FROM claims JOIN idempotency_claims AS stored
    ON stored.tenant || stored.family || stored.key_ref || stored.idempotency_key
        = claims.tenant || claims.family || claims.key_ref || claims.idempotency_key
    AND stored.tenant = claims.tenant AND stored.family = claims.family AND stored.key_ref = claims.key_ref
    AND stored.idempotency_key = claims.idempotency_key";

/// The revision of a key that does not exist.
const NO_KEY: i64 = -1;

/// The commits of which a key is no longer the one that they change, or exists.
const KEY_CHANGED: &str = "SELECT job, FALSE FROM keys LEFT JOIN custody_keys AS stored USING (key_id)
    WHERE coalesce(stored.revision, -1) <> keys.revision_before";

/// Columns of our own rows, which no table has.
const OURS: [&str; 3] = ["job", "revision_before", "record_root_before"];

/// The statement that writes the commits.
fn statement(first: i64, commits: &[Numbered<'_>], logs: &[Appended]) -> Result<Statement, sqlx::Error> {
    let tables = Tables::of(first, commits, logs);
    let mut statement = Statement::default();
    let mut conflicts = Vec::new();
    let Tables { created, changed, claims, keys, tokens, voided, .. } = &tables;
    for (name, table, condition) in [
        ("created", created, EXISTING),
        ("changed", changed, CHANGED),
        ("claims", claims, CLAIMED),
        ("keys", keys, KEY_CHANGED),
    ] {
        if statement.rows(name, table)? {
            conflicts.push(condition);
        }
    }
    statement.part("conflicting (job, exists)", &conflicts.join(" UNION ALL "));
    statement.end.push_str("SELECT job, TRUE AS is_failing, full_at_us FROM failing");
    if statement.rows("tokens", tokens)? {
        statement.part("taking (job, place, tenant, client_id, full_at_us, is_exhausted)", &taking());
        statement.part("failing (job, full_at_us)", FAILING);
        statement.part("tokens_taken", &take());
        statement.part("quotas_dropped", DROP_FULL);
        let _infallible =
            write!(statement.end, " UNION ALL SELECT job, FALSE, full_at_us FROM taking WHERE {GO}");
    } else {
        statement.part("failing (job, full_at_us)", "SELECT job, NULL::bigint FROM conflicting");
    }
    insert(&mut statement, "operations", "created", created, "");
    change(&mut statement, changed);
    for (into, name, table) in [
        ("events", "appended", &tables.appended),
        ("ledger_nodes", "nodes", &tables.nodes),
        ("key_operations", "listed", &tables.listed),
        ("spending", "admitted", &tables.admitted),
        ("paid", "paid_now", &tables.paid),
    ] {
        statement.rows(name, table)?;
        insert(&mut statement, into, name, table, "");
    }
    insert(&mut statement, "idempotency_claims", "claims", claims, "");
    insert(&mut statement, "custody_keys", "keys", keys, SET_KEY);
    if statement.rows("voided", voided)? {
        let sql = "DELETE FROM spending USING voided WHERE spending.operation_id = voided.operation_id AND ";
        statement.part("spending_voided", &format!("{sql}{GO}"));
    }
    Ok(statement)
}

/// The commits that cannot be written, and when the quota is full of those that have no token left. An operation that exists is a conflict
/// even then, because its submission is a replay.
const FAILING: &str = "SELECT job, NULL::bigint FROM conflicting
    WHERE exists OR NOT EXISTS (SELECT FROM taking WHERE taking.job = conflicting.job AND is_exhausted)
    UNION ALL SELECT job, full_at_us FROM taking
    WHERE is_exhausted AND NOT EXISTS (SELECT FROM conflicting WHERE conflicting.job = taking.job AND exists)";

/// The tokens, one after the other for each quota: whether it had none left, and when it is full then. A commit that is not written takes
/// none.
fn taking() -> String {
    let next = |stored: &str, from: &str| {
        let full_after = full_after(stored, "tokens.now_us", "tokens.latest_us", "tokens.increment_us");
        let is_exhausted = is_exhausted(stored, "tokens.latest_us", "tokens.trusted_until_us");
        format!(
            "SELECT tokens.job, tokens.place, tokens.tenant, tokens.client_id,
             CASE WHEN quota.is_exhausted OR EXISTS (SELECT FROM conflicting WHERE conflicting.job = tokens.job) THEN {stored}
             ELSE {full_after} END, quota.is_exhausted
             FROM {from}, LATERAL (SELECT coalesce({is_exhausted}, FALSE) AS is_exhausted) AS quota"
        )
    };
    let first =
        next("stored.full_at_us", "tokens LEFT JOIN admission_budgets AS stored USING (tenant, client_id)");
    let later = next(
        "before.full_at_us",
        "taking AS before JOIN tokens ON tokens.tenant = before.tenant AND tokens.client_id = before.client_id
         AND tokens.place = before.place + 1",
    );
    format!("{first} WHERE place = 0 UNION ALL {later}")
}

fn take() -> String {
    format!(
        "INSERT INTO admission_budgets (tenant, client_id, full_at_us)
         SELECT DISTINCT ON (tenant, client_id) tenant, client_id, full_at_us FROM taking WHERE {GO}
         ORDER BY tenant, client_id, place DESC
         ON CONFLICT (tenant, client_id) DO UPDATE SET full_at_us = excluded.full_at_us"
    )
}

/// Deletes some full quotas of others, two for each token, so that the table shrinks.
const DROP_FULL: &str = "DELETE FROM admission_budgets WHERE (tenant, client_id) IN (
    SELECT stored.tenant, stored.client_id FROM admission_budgets AS stored
    WHERE full_at_us <= (SELECT min(now_us) FROM tokens)
    AND NOT EXISTS (SELECT FROM tokens WHERE tokens.tenant = stored.tenant AND tokens.client_id = stored.client_id)
    ORDER BY full_at_us LIMIT 2 * (SELECT count(*) FROM tokens))";

/// Inserts the rows with this name, if there are any.
fn insert(statement: &mut Statement, into: &str, from: &str, rows: &Table<'_>, end: &str) {
    if rows.is_empty() {
        return;
    }
    let stored: Vec<_> = rows.names.iter().copied().filter(|name| !OURS.contains(name)).collect();
    let names = stored.join(", ");
    let sql = format!("INSERT INTO {into} ({names}) SELECT {names} FROM {from} WHERE {GO}{end}");
    statement.part(&format!("{into}_written"), &sql);
}

/// Changes the operations of these rows.
fn change(statement: &mut Statement, changed: &Table<'_>) {
    if changed.is_empty() {
        return;
    }
    let set = changed.names.iter().filter(|name| !OURS.contains(name) && !FIXED.contains(name));
    let set: Vec<_> = set.map(|name| format!("{name} = changed.{name}")).collect();
    let due = due_after("operations", "changed.updated_at_ms");
    let sql = format!(
        "UPDATE operations SET {}, waited_ms = 0, due_ms = {due} FROM changed
         WHERE operations.operation_id = changed.operation_id AND {GO}",
        set.join(", ")
    );
    statement.part("operations_changed", &sql);
}

/// The column with a commit's number.
fn job(number: usize) -> [(&'static str, Value<'static>); 1] {
    [("job", Value::Integer(index(number)))]
}

/// The number of the commit that a returned row is about.
fn number(row: &Row) -> Result<usize, sqlx::Error> {
    usize::try_from(row.get::<i64>("job")?).map_err(|error| sqlx::Error::Decode(error.into()))
}

fn index(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
