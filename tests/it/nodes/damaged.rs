//! The real process with a node whose share is damaged, missing, or of an earlier epoch.

use super::execute;
use crate::harness::custody::{key, key_path, refresh};
use crate::harness::process::{Process, SIGN, run, stdout, text};
use crate::harness::samples::{self, payment};
use crate::harness::secrets::write_private;
use crate::ledger::history::run_sql;
use serde_json::json;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Overwrites one byte of each sealed share.
const DAMAGE: &str = "UPDATE share SET secret = CAST(substr(secret, 1, 99) || \
    x'00' || substr(secret, 101) AS BLOB) WHERE substr(secret, 100, 1) <> x'00'";

/// The offset of a byte of the active sealed share in the database file.
async fn offset_of_the_secret(path: &Path) -> u64 {
    let mut conn = SqliteConnectOptions::new().filename(path).read_only(true).connect().await.unwrap();
    let sql = "SELECT secret FROM share WHERE state = 'active'";
    let secret: Vec<u8> = sqlx::query_scalar(sql).fetch_one(&mut conn).await.unwrap();
    conn.close().await.unwrap();
    let file = fs::read(path).unwrap();
    file.windows(secret.len()).position(|window| window == secret).unwrap() as u64 + 100
}

/// Flips one bit of the byte at this offset.
fn flip(path: &Path, offset: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
}

fn damage_metric(participant: u16, n_findings: u32) -> String {
    format!("operation_gateway_node_damaged{{participant=\"{participant}\"}} {n_findings}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_share_is_reported_and_the_other_nodes_sign() {
    let folder = tempfile::tempdir().unwrap();
    let node = |participant: u16| folder.path().join(format!("nodes/node-{participant}.db"));
    let process = Process::start(folder.path(), None, &[]);
    execute(&process, SIGN, &payment("before"));
    assert_eq!(process.readiness().1["checks"]["nodes"]["detail"], json!(null));
    process.terminate();
    let undamaged = fs::read(node(1)).unwrap();
    run_sql(&node(1), DAMAGE).await;
    let (code, out, _) = run(folder.path(), &[], &["nodes", "check"]);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!((code, lines[0], lines[2], lines.len()), (1, "node 0: ok", "node 2: ok", 3), "{out}");
    assert!(lines[1].starts_with("node 1: share, key_id ") && lines[1].contains(", epoch 1: "), "{out}");

    let mut process = Process::start(folder.path(), None, &[]);
    let (status, view) = process.readiness();
    let detail = view["checks"]["nodes"]["detail"].as_str().unwrap();
    assert_eq!((status, &view["checks"]["nodes"]["status"]), (200, &json!("ok")), "{view}");
    assert!(detail.starts_with("node 1: share, key_id "), "{view}");
    let metrics = text(&process.address, "/metrics");
    assert!(metrics.contains(&damage_metric(1, 1)) && metrics.contains(&damage_metric(0, 0)), "{metrics}");
    let paid = execute(&process, SIGN, &payment("after"));
    let paid = process.get(&samples::path(&paid, ""));
    assert_eq!(paid["result"]["signers"], json!([0, 2]), "{paid}");

    // A second damaged node, in its file while the gateway runs: too few nodes are left for the threshold.
    let offset = offset_of_the_secret(&node(2)).await;
    flip(&node(2), offset);
    assert!(process.wait_for_line("a node is damaged").contains("\"participant\":\"2\""));
    let (status, view) = process.readiness();
    let detail = view["checks"]["nodes"]["detail"].as_str().unwrap();
    assert_eq!((status, view["status"].as_str()), (503, Some("not_ready")), "{view}");
    assert!(detail.contains("node 1: share") && detail.contains("node 2: share"), "{view}");
    flip(&node(2), offset);
    process.wait_for_line("a node is sound again");
    assert_eq!(process.readiness().0, 200);

    process.terminate();
    // The copy is older than the steps that the node made with a damaged share.
    fs::write(node(1), undamaged).unwrap();
    assert!(stdout(run(folder.path(), &[], &["nodes", "readmit", "1"])).starts_with("node 1 was readmitted"));
    let process = Process::start(folder.path(), None, &[]);
    assert_eq!(process.readiness().1["checks"]["nodes"]["detail"], json!(null));
    let (code, out, _) = run(folder.path(), &[], &["nodes", "check"]);
    assert_eq!((code, out.as_str()), (0, "node 0: ok\nnode 1: ok\nnode 2: ok\n"), "while the gateway runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn outdated_or_missing_node_database_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nodes/node-1.db");
    let process = Process::start(folder.path(), None, &[]);
    execute(&process, "/v1/custody/keys", &key("vault"));
    process.terminate();
    let older = fs::read(&path).unwrap();
    let process = Process::start(folder.path(), None, &[]);
    execute(&process, &key_path("vault", "/refresh"), &refresh("2"));
    process.terminate();
    let newer = fs::read(&path).unwrap();
    fs::write(&path, older).unwrap();
    // Readiness reports why the node is not used, and `nodes check` also what is wrong with its share.
    let assert_reported = |reason: &str, what: &str| {
        let process = Process::start(folder.path(), None, &[]);
        let (status, view) = process.readiness();
        let detail = view["checks"]["nodes"]["detail"].as_str().unwrap_or_default();
        assert!(status == 200 && detail.starts_with("node 1: ") && detail.ends_with(reason), "{view}");
        let (code, out, _) = run(folder.path(), &[], &["nodes", "check"]);
        let line = out.lines().find(|line| line.starts_with("node 1: share, key_id ")).unwrap();
        assert!(code == 1 && line.ends_with(what), "{out}");
        process.terminate();
    };
    assert_reported(
        "rolled_back, one 1: the node has stopped: its database is older than what it signed, and 1 more",
        "the node's share is of epoch `1`, not `2`",
    );
    fs::remove_file(&path).unwrap();
    assert_reported("the node has no database", "the node has no database");
    write_private(&path, newer);
    assert_eq!(run(folder.path(), &[], &["nodes", "check"]).0, 0);
}
