//! What the replicas of a database say of themselves, so that one with other keys or another policy is noticed.

use crate::error::{failed, unavailable};
use crate::postgres::readers::PgReaders;
use crate::sql::row::{Cell, Hashes, Row, blob};
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// For how long a replica counts after it last said something. Several times the interval at which each does.
const LIVES_FOR: &str = "20 seconds";

/// The own row is written, and the rows of others are read as they were before. One that began after this statement and was faster lasts
/// a little longer than this one's own; only a row that lasts twice as long is not one of ours.
const MEET: &str = "WITH gone AS (DELETE FROM replicas WHERE until <= now() - interval '1 hour'),
    own AS (
        INSERT INTO replicas (replica, since, until, identity, policy, policy_since)
        VALUES ($1, now(), now() + $4::interval, $2, $3, now())
        ON CONFLICT (replica) DO UPDATE SET until = excluded.until, identity = excluded.identity, policy = excluded.policy,
            since = CASE WHEN replicas.until <= now() THEN now() ELSE replicas.since END,
            policy_since = CASE WHEN replicas.policy IS NOT DISTINCT FROM excluded.policy
                THEN replicas.policy_since ELSE now() END
        RETURNING since, policy_since)
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS clock_ms,
        (extract(epoch FROM own.since) * 1000000)::bigint AS since_us, other.replica, other.identity, other.policy,
        coalesce((other.since, other.replica) < (own.since, $1), false)::int::bigint AS is_earlier,
        coalesce(extract(epoch FROM now() - greatest(own.policy_since, other.policy_since)), 0)::bigint AS policies_for_s
    FROM own LEFT JOIN replicas AS other
        ON other.replica <> $1 AND other.until > now() AND other.until <= now() + 2 * $4::interval
    ORDER BY other.since, other.replica";

/// Prepares a statement that returns a row if the replica may write, and for longer than the next one waits for its lock.
pub(super) const MAY_WRITE: &str = "PREPARE may_write (bytea, bigint) AS SELECT 1 FROM replicas
    WHERE replica = $1 AND (extract(epoch FROM since) * 1000000)::bigint = $2
    AND until > clock_timestamp() + current_setting('lock_timeout')::interval";

const LEAVE: &str = "DELETE FROM replicas WHERE replica = $1";

/// What a replica says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    /// What all replicas must have in common, by name. Never a secret.
    pub identity: BTreeMap<String, String>,
    /// Hash of its active policy bundle.
    pub policy: Option<Hex32>,
}

/// Another replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The beginning of its random name, hexadecimal.
    pub name: String,
    /// What it says of itself. `None` if its row cannot be read.
    pub presence: Option<Presence>,
    /// Whether it was here before this one.
    pub is_earlier: bool,
    /// For how long both have had their policy bundles, seconds.
    pub policies_for: Duration,
}

/// The other replicas that are here, and the clock of the database server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    /// In the order in which they came.
    pub others: Vec<Peer>,
    /// The server's time.
    pub clock: EpochMs,
}

/// Says that this replica is here, and returns the others, and since when it is here without a break.
pub(super) async fn meet(
    readers: &PgReaders,
    replica: &[u8],
    presence: &Presence,
) -> Result<(Peers, Since), Unavailable> {
    let what = "the other replicas could not be read";
    let identity = serde_json::to_string(&presence.identity).map_err(|error| failed(what, &error))?;
    let bound =
        [Cell::Blob(replica.to_vec()), identity.into(), presence.policy.map(blob).into(), LIVES_FOR.into()];
    let rows = readers.rows(MEET, &bound).await.map_err(|error| failed(what, &error))?;
    let own = |column| rows.first().and_then(|row| row.integer(column));
    let clock = EpochMs(own("clock_ms").unwrap_or_default().unsigned_abs());
    let since = own("since_us").ok_or_else(|| unavailable(what))?;
    Ok((Peers { others: rows.iter().filter_map(peer).collect(), clock }, Since(since)))
}

/// When a replica came, microseconds of the server's clock. A replica that was not heard of comes again, later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Since(i64);

/// Whether this replica may write. One that was stopped for a while, and goes on, may not before it has met the others again: one with
/// other keys may have taken its place.
#[derive(Debug)]
pub(super) struct MayWrite {
    replica: [u8; 16],
    /// Since when the replica is here, if it was found to agree with the others. [`Self::UNMET`] before it met any.
    since: AtomicI64,
}

impl MayWrite {
    const UNMET: i64 = i64::MAX;
    const NEVER: i64 = i64::MIN;

    pub(super) const fn new(replica: [u8; 16]) -> Self {
        Self { replica, since: AtomicI64::new(Self::UNMET) }
    }

    pub(super) fn set(&self, permitted: Option<Since>) {
        self.since.store(permitted.map_or(Self::NEVER, |Since(since)| since), Ordering::SeqCst);
    }

    /// Executes [`MAY_WRITE`]. `None` if the replica met no others: only gateways do.
    pub(super) fn statement(&self) -> Option<String> {
        let since = self.since.load(Ordering::SeqCst);
        (since != Self::UNMET).then(|| {
            let replica = u128::from_be_bytes(self.replica);
            format!("EXECUTE may_write ('\\x{replica:032x}', {since});")
        })
    }

    pub(super) const fn replica(&self) -> &[u8; 16] {
        &self.replica
    }
}

pub(super) async fn leave(readers: &PgReaders, replica: &[u8]) -> Result<(), sqlx::Error> {
    readers.rows(LEAVE, &[Cell::Blob(replica.to_vec())]).await.map(drop)
}

fn peer(row: &Row) -> Option<Peer> {
    let name = row.bytes("replica")?.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let identity = row.text("identity").and_then(|text| serde_json::from_str(text).ok());
    let has_policy = *row.cell("policy") != Cell::Null;
    let policy = if has_policy { row.hash("policy").map(Some) } else { Some(None) };
    let presence = identity.zip(policy).map(|(identity, policy)| Presence { identity, policy });
    let policies_for = row.integer("policies_for_s").and_then(|seconds| seconds.try_into().ok());
    Some(Peer {
        name,
        presence,
        is_earlier: row.integer("is_earlier") == Some(1),
        policies_for: Duration::from_secs(policies_for.unwrap_or_default()),
    })
}
