//! Evidence of changes of keys that were aborted, or that did without a lost node.

use super::{assert_holds, roots, verify};
use crate::harness::custody::{self, abort, admit, create_key, key_path, path, refresh, sign};
use crate::harness::modes::{TestCaller, test_caller};
use crate::harness::samples::with;
use crate::harness::world::World;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

const HOLDS: [&str; 6] = ["chain", "operation", "admission", "receipts", "key", "log"];

/// What node 2 cannot do any more.
pub(super) const BEGIN_CEREMONIES: &str = "BEFORE INSERT ON ceremony";
pub(super) const LOG_STEPS: &str = "BEFORE INSERT ON log_entry";
pub(super) const PROMOTE: &str = "BEFORE UPDATE ON share WHEN new.state = 'active'";

pub(super) async fn prevent(world: &World, what: &str) {
    change(world, format!("CREATE TRIGGER full {what} BEGIN SELECT RAISE(ABORT, 'disk full'); END")).await;
}

pub(super) async fn repair(world: &World) {
    change(world, "DROP TRIGGER full".to_owned()).await;
}

/// Changes the database of node 2 with another connection than the node's.
async fn change(world: &World, sql: String) {
    let path = world.settings.nodes.directory.join("node-2.db");
    let mut conn = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

/// The evidence of the operation, which holds, and the types of its last events.
async fn evidence(world: &World, operation: &Value, last: &[&str]) -> Value {
    let evidence = world.get(&path(operation, "/evidence")).await.ok();
    assert_holds(&verify(&evidence, &roots(world).await), &HOLDS);
    let types = evidence["events"].as_array().unwrap().iter().map(|entry| &entry["event"]["change"]["type"]);
    let types: Vec<_> = types.map(|name| name.as_str().unwrap()).collect();
    assert_eq!(types[types.len() - last.len()..], *last);
    evidence
}

/// Takes a refresh to the step that node 2 cannot make, and aborts it. Returns the view.
async fn aborted(world: &World, step: &str, lost: &[u16]) -> Value {
    let refreshing = admit(world, &key_path("cold", "/refresh"), &refresh("2")).await;
    assert_eq!(refreshing["links"]["abort"]["href"], path(&refreshing, "/abort"));
    prevent(world, step).await;
    world.post_nothing(&path(&refreshing, "/execute")).await.fails(503, "runtime_unavailable");
    if step == BEGIN_CEREMONIES {
        repair(world).await;
        prevent(world, LOG_STEPS).await;
    }
    world.post(&path(&refreshing, "/abort"), &abort("alice", lost)).await.ok()
}

async fn check_key(world: &World, epoch: &str) {
    let key = world.get(&key_path("cold", "")).await.ok();
    assert_eq!((&key["state"], &key["active_epoch"]), (&json!("active"), &json!(epoch)));
}

#[tokio::test]
async fn change_that_is_aborted_has_failed_with_the_receipts_of_the_nodes_that_answer() {
    let world = World::ticking().await;
    create_key(&world, "cold").await;
    let failed = aborted(&world, BEGIN_CEREMONIES, &[]).await;
    assert_eq!((&failed["state"], &failed["failure"]["code"]), (&json!("failed"), &json!("aborted")));
    assert_eq!(failed["failure"]["message"], "aborted by `alice`: its disk is lost");
    evidence(&world, &failed, &["rejection_recorded", "aborted", "discard_acked"]).await;
    check_key(&world, "1").await;
    custody::publish(&world, &key_path("cold", "/sign"), &sign("meanwhile")).await;
    let again = world.post(&path(&failed, "/abort"), &abort("ALICE", &[])).await.ok();
    assert_eq!(again["runtime"]["record_root"], failed["runtime"]["record_root"], "a repeat");
    world.post(&path(&failed, "/abort"), &abort("bob", &[])).await.fails(409, "epoch_conflict");

    let ended = world.post(&path(&failed, "/abort"), &abort("alice", &[2])).await.ok();
    let last = ["discard_acked", "rejection_recorded", "nodes_given_up", "failed"];
    write("aborted", &world, &evidence(&world, &ended, &last).await).await;
    world.post(&path(&ended, "/abort"), &abort("bob", &[2])).await.fails(409, "operation_failed");
}

#[tokio::test]
async fn change_does_without_a_receiver_that_is_lost_after_the_decision() {
    let world = World::ticking().await;
    create_key(&world, "cold").await;
    let executed = aborted(&world, PROMOTE, &[2]).await;
    assert_eq!(executed["state"], "executed");
    check_key(&world, "2").await;
    let published = world.post(&path(&executed, "/publish"), &custody::publication()).await;
    let published = published.ok();
    let last = ["rejection_recorded", "nodes_given_up", "executed", "publication_requested", "published"];
    write("without", &world, &evidence(&world, &published, &last).await).await;
}

#[tokio::test]
async fn abort_is_refused_where_it_has_no_meaning() {
    let world = World::ticking().await;
    create_key(&world, "cold").await;
    let signing = admit(&world, &key_path("cold", "/sign"), &sign("one")).await;
    assert_eq!(signing["links"]["abort"], Value::Null);
    let message =
        world.post(&path(&signing, "/abort"), &abort("alice", &[])).await.fails(409, "epoch_conflict");
    assert_eq!(
        message,
        "the operation cannot be aborted: it is a signature, and only a change of a key can be aborted"
    );
    let pending = custody::submit(&world, &key_path("cold", "/refresh"), &refresh("2")).await;
    world.post(&path(&pending, "/abort"), &abort("alice", &[])).await.fails(409, "epoch_conflict");
    let admitted = admit(&world, &key_path("cold", "/refresh"), &refresh("3")).await;
    world.post(&path(&admitted, "/abort"), &abort("alice", &[2])).await.fails(409, "epoch_conflict");
    for (body, message) in [
        (with(abort("alice", &[]), "/reason", Value::Null), "`/reason` is required"),
        (with(abort("alice", &[]), "/subject_id", Value::Null), "`/subject_id` is required"),
        (with(abort("alice", &[]), "/roles", Value::Null), "`/roles` is required"),
        (with(abort("alice", &[]), "/reason", json!("")), "`/reason` must not be empty"),
        (abort("alice", &[1024]), "`/lost_participants` must have at most 64 indices up to 1023"),
    ] {
        assert_eq!(world.post(&path(&admitted, "/abort"), &body).await.fails(400, "invalid_json"), message);
    }
    assert_eq!(world.post(&path(&admitted, "/abort"), &abort("alice", &[])).await.ok()["state"], "failed");
    world.post_nothing(&path(&admitted, "/execute")).await.fails(409, "operation_failed");
}

#[tokio::test]
async fn only_approvers_abort_a_change_of_a_key() {
    let world = World::ticking_with(&[("separation_of_duties", "true")]).await;
    create_key(&world, "cold").await;
    let admitted = admit(&world, &key_path("cold", "/refresh"), &refresh("2")).await;
    let submitter = admitted["approval_statement"]["submitter"].as_str().unwrap().to_owned();
    let at = path(&admitted, "/abort");
    // The submitter's approval would not count, in any spelling of its name.
    for subject in [&submitter, &submitter.to_uppercase()] {
        world.post(&at, &abort(subject, &[])).await.fails(403, "approver_not_permitted");
    }
    let operator =
        TestCaller { tenant: Some("default"), ..test_caller("alice", "custody.approve") }.headers();
    world.call_as(&operator, "POST", &at, &abort("bob", &[])).await.fails(403, "approver_not_permitted");
    let other_role = with(abort("alice", &[]), "/roles", json!(["treasurer"]));
    world.call_as(&operator, "POST", &at, &other_role).await.fails(403, "approver_not_permitted");
    assert_eq!(world.get(&path(&admitted, "")).await.ok()["state"], "admitted", "nothing has happened");
    let aborted = world.call_as(&operator, "POST", &at, &abort("alice", &[])).await.ok();
    assert_eq!(aborted["failure"]["code"], "aborted");
}

/// With UPDATE_VECTORS, writes the test vectors that `host/docs/evidence.md` names.
async fn write(name: &str, world: &World, evidence: &Value) {
    if std::env::var_os("UPDATE_VECTORS").is_none() {
        return;
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/evidence/vectors").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let roots = serde_json::to_value(world.roots().await).unwrap();
    for (file, value) in [("roots.json", &roots), ("evidence.json", evidence)] {
        std::fs::write(folder.join(file), serde_json::to_string_pretty(value).unwrap() + "\n").unwrap();
    }
}
