//! Compares the schema of a database with the one that the migrations create.
//!
//! A security check: in a database without a constraint or trigger, another program could write rows that ours never would.

use crate::postgres::migrate;
use crate::postgres::readers::PgReaders;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use std::collections::BTreeMap;

/// Everything in the schema that connections use, by kind and name, with its definition.
const OBJECTS: &str = "WITH ours AS (
        SELECT oid, relname, relkind FROM pg_class
        WHERE relnamespace = current_schema()::regnamespace AND relname NOT IN ('_sqlx_migrations', '_sqlx_migrations_pkey'))
    SELECT 'table ' || relname || ', column ' || attname AS name, format('%s %s %s %s %s', attnum,
        format_type(atttypid, atttypmod), attnotnull, attcollation::regcollation, pg_get_expr(adbin, adrelid)) AS sql
        FROM ours JOIN pg_attribute ON attrelid = ours.oid LEFT JOIN pg_attrdef ON adrelid = ours.oid AND adnum = attnum
        WHERE relkind IN ('r', 'p', 'v', 'm') AND attnum > 0 AND NOT attisdropped
    UNION ALL SELECT 'table ' || relname, format('%s %s %s %s', relpersistence, relrowsecurity, relforcerowsecurity, reloptions)
        FROM ours JOIN pg_class USING (oid, relname, relkind)
    UNION ALL SELECT 'parent of ' || relname, inhparent::regclass::text FROM ours JOIN pg_inherits ON inhrelid = oid
    UNION ALL SELECT 'child of ' || relname, inhrelid::regclass::text FROM ours JOIN pg_inherits ON inhparent = oid
    UNION ALL SELECT 'constraint ' || conname || ' of ' || relname, pg_get_constraintdef(c.oid) || convalidated::text
        FROM ours JOIN pg_constraint AS c ON conrelid = ours.oid
    UNION ALL SELECT 'index ' || relname, pg_get_indexdef(oid) FROM ours WHERE relkind = 'i'
    UNION ALL SELECT 'view ' || relname, pg_get_viewdef(oid) FROM ours WHERE relkind IN ('v', 'm')
    UNION ALL SELECT 'trigger ' || tgname || ' of ' || relname, pg_get_triggerdef(t.oid) || tgenabled::text
        FROM ours JOIN pg_trigger AS t ON tgrelid = ours.oid WHERE NOT tgisinternal
    UNION ALL SELECT 'disabled constraint of ' || relname, count(*)::text
        FROM ours JOIN pg_trigger AS t ON tgrelid = ours.oid WHERE tgisinternal AND tgenabled <> 'O' GROUP BY relname
    UNION ALL SELECT 'function ' || proname || '(' || pg_get_function_identity_arguments(oid) || ')', pg_get_functiondef(oid)
        FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
    UNION ALL SELECT 'rule ' || rulename || ' of ' || relname, pg_get_ruledef(r.oid)
        FROM ours JOIN pg_rewrite AS r ON ev_class = ours.oid WHERE relkind <> 'v'";

type Objects = BTreeMap<String, String>;

/// The objects that differ from those that the migrations create, and how. The migrations run in a schema of their own, in a
/// transaction that is rolled back.
pub(crate) async fn faults(
    stored: &mut PgConnection,
    readers: &PgReaders,
) -> Result<Vec<(String, &'static str)>, sqlx::Error> {
    let schema: String = sqlx::query_scalar("SELECT current_schema()::text").fetch_one(&mut *stored).await?;
    let stored = objects(stored, &schema).await?;
    let mut conn = readers.pool.acquire().await?;
    let mut tx = conn.begin().await?;
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| sqlx::Error::Encode(error.to_string().into()))?;
    let scratch = format!("operation_gateway_fsck_{:016x}", u64::from_be_bytes(random));
    let begin = format!("CREATE SCHEMA {scratch}; SET LOCAL search_path = {scratch}");
    sqlx::raw_sql(AssertSqlSafe(begin)).execute(&mut *tx).await?;
    for (_, sql) in migrate::migrations() {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await?;
    }
    let expected = objects(&mut tx, &scratch).await?;
    tx.rollback().await?;
    Ok(differences(&stored, &expected))
}

pub(crate) fn migrations() -> Vec<&'static str> {
    migrate::migrations().map(|(name, _)| name).collect()
}

async fn objects(conn: &mut PgConnection, schema: &str) -> Result<Objects, sqlx::Error> {
    let rows: Vec<(String, Option<String>)> = sqlx::query_as(OBJECTS).fetch_all(conn).await?;
    let qualified = format!("{schema}.");
    Ok(rows.into_iter().map(|(name, sql)| (name, sql.unwrap_or_default().replace(&qualified, ""))).collect())
}

fn differences(stored: &Objects, expected: &Objects) -> Vec<(String, &'static str)> {
    let differing = expected.iter().filter_map(|(name, sql)| match stored.get(name) {
        None => Some((name.clone(), "missing")),
        Some(found) if found != sql => Some((name.clone(), "differs from what the migrations create")),
        Some(_) => None,
    });
    let strays = stored.keys().filter(|name| !expected.contains_key(*name));
    differing.chain(strays.map(|name| (name.clone(), "no migration creates it"))).collect()
}
