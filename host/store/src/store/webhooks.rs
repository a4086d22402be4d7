//! How far the log was sent to each webhook.
//!
//! These rows are not hashed as records are: they decide when an event is sent, and each event can be compared with its operation.

use crate::change::{Change, InTurn};
use crate::record::decode;
use crate::sql::connection::Connection;
use crate::sql::row::{Cell, Row, instant, integer};
use crate::store::Store;
use async_trait::async_trait;
use gateway_domain::ids::Tenant;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{
    DeadLetter, KeepWebhooks, VisibleWebhooks, Webhook, WebhookClaim, WebhookFailure, WebhookProgress,
};
use gateway_engine::{Unavailable, Visibility};

const WEBHOOKS: &str = "SELECT name, tenant, position, resends, held_until_ms, failure, failing_since_ms,
        (SELECT count(*) FROM webhook_dead_letters AS dead WHERE dead.name = webhooks.name) AS n_dead
    FROM webhooks";
const DEAD_LETTERS: &str = "SELECT ledger_index, at_ms, why FROM webhook_dead_letters WHERE name = $1
    ORDER BY ledger_index LIMIT $2";
/// `WHERE true` lets SQLite tell the conflict clause from a join.
const ADD: &str = "INSERT INTO webhooks (name, position)
    SELECT $1, coalesce(max(ledger_index) + 1, 0) FROM events WHERE true ON CONFLICT (name) DO NOTHING";
/// A time further ahead than a process asks for whose clock is ahead by as long is not one of ours.
const CLAIM: &str = "UPDATE webhooks SET tenant = nullif($2, ''), holder = $3, held_until_ms = $5
    WHERE name = $1 AND (holder = $3 OR held_until_ms <= $4 OR held_until_ms > 2 * $5 - $4) RETURNING name";
const DROP_OTHERS_DEAD: &str =
    "DELETE FROM webhook_dead_letters WHERE name = $1 AND EXISTS (SELECT 1 FROM webhooks
    WHERE webhooks.name = webhook_dead_letters.name AND coalesce(tenant, '') <> $2)";
const ADVANCE: &str =
    "UPDATE webhooks SET position = $4, failure = nullif($5, ''), failing_since_ms = nullif($6, 0), held_until_ms = $7
    WHERE name = $1 AND holder = $2 AND resends = $3 AND position = $8 RETURNING name";
const ADD_DEAD: &str =
    "INSERT INTO webhook_dead_letters (name, ledger_index, at_ms, why) VALUES ($1, $2, $3, $4)
    ON CONFLICT (name, ledger_index) DO UPDATE SET at_ms = excluded.at_ms, why = excluded.why";
const KEEP_NEWEST_DEAD: &str = "DELETE FROM webhook_dead_letters WHERE name = $1 AND ledger_index < (SELECT min(ledger_index) FROM
    (SELECT ledger_index FROM webhook_dead_letters WHERE name = $1 ORDER BY ledger_index DESC LIMIT $2) AS newest)";
const DISMISS: &str = "DELETE FROM webhook_dead_letters WHERE name = $1 AND ledger_index <= $2";
const EXISTS: &str = "SELECT name FROM webhooks WHERE name = $1";
const SET_BACK: &str = "UPDATE webhooks SET position = $2, resends = resends + 1
    WHERE name = $1 AND position >= $2 RETURNING name";
const DROP_DEAD: &str = "DELETE FROM webhook_dead_letters WHERE name = $1 AND ledger_index >= $2";

/// Dead letters that are kept. The events themselves are in the log.
const DEAD_LETTERS_KEPT: i64 = 1000;

#[async_trait]
impl KeepWebhooks for Store {
    async fn webhooks(&self, visible: &VisibleWebhooks) -> Result<Vec<Webhook>, Unavailable> {
        let VisibleWebhooks { of, of_all } = visible;
        let (condition, bound) = match of {
            Visibility::Everything => ("WHERE tenant IS NOT NULL", Vec::new()),
            Visibility::Tenant(tenant) => ("WHERE tenant = $1", vec![Cell::from(tenant.0.as_str())]),
        };
        let or_of_all = if *of_all { "OR tenant IS NULL" } else { "" };
        self.webhooks_where(&format!("{WEBHOOKS} {condition} {or_of_all} ORDER BY name"), &bound).await
    }

    async fn webhook(&self, name: &str) -> Result<Option<Webhook>, Unavailable> {
        let sql = format!("{WEBHOOKS} WHERE name = $1");
        Ok(self.webhooks_where(&sql, &[name.into()]).await?.pop())
    }

    async fn dead_letters(&self, name: &str, n_max: u32) -> Result<Vec<DeadLetter>, Unavailable> {
        let rows = self
            .database
            .pool()
            .rows(
                DEAD_LETTERS,
                &[name.into(), i64::from(n_max).into()],
                format!("the webhook `{name}` could not be read"),
            )
            .await?;
        let letter = |row: &Row| {
            let number = |column| decode::integer("a dead letter", row, column).map(i64::unsigned_abs);
            Ok(DeadLetter {
                index: number("ledger_index")?,
                at: EpochMs(number("at_ms")?),
                why: row.text("why").unwrap_or_default().to_owned(),
            })
        };
        rows.iter().map(letter).collect()
    }

    async fn webhook_claim(&self, claim: WebhookClaim) -> Result<Option<Webhook>, Unavailable> {
        let WebhookClaim { name, tenant, holder, now, until } = claim;
        // Only this process has a file, whatever an earlier one has claimed.
        let now = if self.database.is_shared() { now } else { EpochMs(u64::MAX) };
        let of = || Cell::from(name.as_str());
        let tenant = Cell::from(tenant.map_or_else(String::new, |tenant| tenant.0));
        let holder = Cell::Blob(holder.to_vec());
        let claim = InTurn(vec![
            (ADD, vec![of()]),
            (DROP_OTHERS_DEAD, vec![of(), tenant.clone()]),
            (CLAIM, vec![of(), tenant, holder, instant(now).into(), instant(until).into()]),
        ]);
        let what = format!("the webhook `{name}` could not be claimed");
        if self.database.write_apart(claim, what).await?.is_empty() {
            Ok(None)
        } else {
            self.webhook(&name).await
        }
    }

    async fn webhook_advance(&self, progress: WebhookProgress) -> Result<bool, Unavailable> {
        let what = format!("the place of the webhook `{}` could not be written", progress.name);
        if progress.dead_letters.is_empty() {
            return self.database.write_apart(Advance(progress), what).await;
        }
        self.database.write(Advance(progress), what).await
    }

    async fn dead_letters_dismiss(&self, name: &str, through: u64) -> Result<bool, Unavailable> {
        let what = format!("the dead letters of the webhook `{name}` could not be deleted");
        let dismiss =
            InTurn(vec![(DISMISS, vec![name.into(), integer(through).into()]), (EXISTS, vec![name.into()])]);
        Ok(!self.database.write(dismiss, what).await?.is_empty())
    }

    async fn webhook_set_back(&self, name: &str, position: u64) -> Result<bool, Unavailable> {
        let what = format!("the place of the webhook `{name}` could not be written");
        self.database.write(SetBack { name: name.to_owned(), position: integer(position) }, what).await
    }
}

impl Store {
    async fn webhooks_where(&self, sql: &str, bound: &[Cell]) -> Result<Vec<Webhook>, Unavailable> {
        let rows = self.database.pool().rows(sql, bound, "the webhooks could not be read").await?;
        rows.iter().map(webhook).collect()
    }
}

fn webhook(row: &Row) -> Result<Webhook, Unavailable> {
    let number = |column| decode::integer("a webhook", row, column).map(i64::unsigned_abs);
    let since = row.integer("failing_since_ms").map(|ms| EpochMs(ms.unsigned_abs()));
    let failure = since.zip(row.text("failure"));
    Ok(Webhook {
        name: row.text("name").unwrap_or_default().to_owned(),
        tenant: row.text("tenant").map(|tenant| Tenant(tenant.to_owned())),
        position: number("position")?,
        n_resends: number("resends")?,
        held_until: EpochMs(number("held_until_ms")?),
        failure: failure.map(|(since, why)| WebhookFailure { since, why: why.to_owned() }),
        n_dead_letters: number("n_dead")?,
    })
}

struct Advance(WebhookProgress);

impl Change for Advance {
    type Output = bool;

    async fn run<C: Connection>(&self, conn: &mut C) -> Result<bool, sqlx::Error> {
        let WebhookProgress { name, holder, n_resends, from, position, failure, dead_letters, until } =
            &self.0;
        let (why, since) =
            failure.as_ref().map_or(("", 0), |failure| (failure.why.as_str(), instant(failure.since)));
        let bound = [
            name.as_str().into(),
            Cell::Blob(holder.to_vec()),
            integer(*n_resends).into(),
            integer(*position).into(),
            why.into(),
            since.into(),
            instant(*until).into(),
            integer(*from).into(),
        ];
        if conn.rows(ADVANCE, &bound).await?.is_empty() {
            return Ok(false);
        }
        for letter in dead_letters {
            let bound = [
                name.as_str().into(),
                integer(letter.index).into(),
                instant(letter.at).into(),
                letter.why.as_str().into(),
            ];
            conn.rows(ADD_DEAD, &bound).await?;
        }
        if !dead_letters.is_empty() {
            conn.rows(KEEP_NEWEST_DEAD, &[name.as_str().into(), DEAD_LETTERS_KEPT.into()]).await?;
        }
        Ok(true)
    }
}

struct SetBack {
    name: String,
    position: i64,
}

impl Change for SetBack {
    type Output = bool;

    async fn run<C: Connection>(&self, conn: &mut C) -> Result<bool, sqlx::Error> {
        let bound = [self.name.as_str().into(), self.position.into()];
        if conn.rows(SET_BACK, &bound).await?.is_empty() {
            return Ok(false);
        }
        conn.rows(DROP_DEAD, &bound).await?;
        Ok(true)
    }
}
