//! Acknowledged writes survive a SIGKILL of the process, and a copy or a restore that is killed leaves no database that does not open.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use gateway_sqlite::{Database, OpenError, Reader, restore};
use tokio::task::JoinSet;

use crate::support::{Add, Total, fresh, open, options, totals};

/// Environment variable of the child: the database to write.
const CHILD: &str = "GATEWAY_SQLITE_TEST_CHILD";

#[tokio::test]
async fn acknowledged_writes_survive_sigkill() {
    let (_folder, path) = fresh();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::child_writes_until_killed", "--nocapture"])
        .env(CHILD, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let acknowledged = |line: std::io::Result<String>| line.ok()?.strip_prefix("ack ")?.parse::<i64>().ok();
    let mut seen: Vec<i64> = lines.by_ref().filter_map(acknowledged).take(500).collect();
    assert_eq!(seen.len(), 500, "the child ended early");
    let refused = Database::<Total>::open(options(&path)).await.unwrap_err();
    assert!(matches!(refused, OpenError::InUse { .. }), "the child has it open: {refused:?}");
    // A reader finds all writes acknowledged so far, while the child continues to write.
    assert_eq!(missing(&path, &seen).await, []);
    child.kill().unwrap();
    child.wait().unwrap();
    // Writes reported in the pipe were acknowledged too.
    seen.extend(lines.filter_map(acknowledged));
    // A reader reads the log that the dead process left behind.
    assert_eq!(missing(&path, &seen).await, []);

    let database = open(&path).await;
    for id in &seen {
        let mut conn = database.readers().acquire().await.unwrap();
        let found: i64 = conn.value("SELECT id FROM entry WHERE id = ?1", &[(*id).into()]).await.unwrap();
        assert_eq!(found, *id);
    }
    let (rows, state) = totals(&database).await;
    assert_eq!(rows, state);
}

/// The entries that a reader does not find.
async fn missing(path: &Path, wanted: &[i64]) -> Vec<i64> {
    let reader = Reader::open(options(path)).await.unwrap();
    let rows = reader.readers().acquire().await.unwrap().rows("SELECT id FROM entry", &[]).await.unwrap();
    let found: BTreeSet<i64> = rows.iter().map(|row| row.get("id").unwrap()).collect();
    reader.close().await;
    wanted.iter().copied().filter(|id| !found.contains(id)).collect()
}

/// Environment variable of the child that copies or restores: the copy.
const COPY: &str = "GATEWAY_SQLITE_TEST_COPY";

const LINK: &str = "?link,?linkat";
const RENAME: &str = "?rename,?renameat,?renameat2";
const UNLINK: &str = "?unlink,?unlinkat";

/// Runs a child that strace kills when a thread makes such a call for the `n`-th time, on this file if one is given. Returns whether it was
/// killed.
fn is_killed_at((calls, n): (&str, usize), on: Option<&Path>, child: &str, files: (&Path, &Path)) -> bool {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
    strace.args(["-e", &format!("inject={calls}:signal=KILL:when={n}")]);
    if let Some(on) = on {
        strace.arg("-P").arg(on);
    }
    strace.arg(std::env::current_exe().unwrap()).args(["--exact", child, "--nocapture"]);
    strace.env(CHILD, files.0).env(COPY, files.1).stdout(Stdio::null());
    let status =
        strace.status().unwrap_or_else(|_| panic!("install strace (Debian: apt-get install strace)"));
    assert!(status.success() || status.signal() == Some(9), "{status}");
    !status.success()
}

/// Opens the database as a process that serves does, and counts its entries.
async fn n_opened(path: &Path) -> i64 {
    let database = open(path).await;
    let (n_entries, _) = totals(&database).await;
    database.close().await;
    n_entries
}

/// A database with four entries, as a process that was killed leaves it, and a copy with three.
async fn database_and_copy(folder: &Path) -> (PathBuf, PathBuf) {
    let (path, copy) = (folder.join("test.db"), folder.join("copy.db"));
    let running = folder.join("running.db");
    let database = open(&running).await;
    for id in 1..=4 {
        if id == 4 {
            let reader = Reader::open(options(&running)).await.unwrap();
            reader.copy_to(&copy, |_, _| {}).await.unwrap();
            reader.close().await;
        }
        database.write(Add(id)).await.unwrap();
    }
    for suffix in ["", "-wal"] {
        let name = |path: &Path| format!("{}{suffix}", path.display());
        fs::copy(name(&running), name(&path)).unwrap();
    }
    database.close().await;
    (path, copy)
}

#[tokio::test]
async fn restore_that_is_killed_anywhere_leaves_databases_that_open() {
    let mut n_killed = Vec::new();
    for calls in [LINK, RENAME] {
        let mut n = 1;
        loop {
            let (folder, _) = fresh();
            let (path, copy) = database_and_copy(folder.path()).await;
            let is_killed = is_killed_at((calls, n), None, "kill::child_restores", (&path, &copy));
            let first = n_opened(&path).await;
            assert_eq!(first, if is_killed { 4 } else { 3 });
            assert_eq!(path_kept(&path, 1).exists(), !is_killed, "the database has one name");
            restore(options(&path), &copy).await.unwrap();
            assert_eq!(n_opened(&path).await, 3);
            // Each database that was replaced is kept, and opens.
            let expected: &[i64] = if is_killed { &[4] } else { &[4, 3] };
            for (number, n_entries) in (1..).zip(expected) {
                assert_eq!(n_opened(&path_kept(&path, number)).await, *n_entries);
            }
            assert!(!path_kept(&path, expected.len() + 1).exists());
            if !is_killed {
                break;
            }
            n += 1;
        }
        n_killed.push(n - 1);
    }
    // One name is given, then three side files and the copy are renamed.
    assert_eq!(n_killed, [1, 4]);
}

fn path_kept(path: &Path, number: usize) -> PathBuf {
    PathBuf::from(format!("{}.before-restore-{number}", path.display()))
}

#[tokio::test]
async fn restore_after_one_that_was_killed_keeps_the_database_once() {
    let (folder, _) = fresh();
    let (path, copy) = database_and_copy(folder.path()).await;
    assert!(is_killed_at((RENAME, 4), None, "kill::child_restores", (&path, &copy)));
    assert_eq!(restore(options(&path), &copy).await.unwrap(), Some(path_kept(&path, 1)));
    assert_eq!((n_opened(&path).await, n_opened(&path_kept(&path, 1)).await), (3, 4));
    assert!(!path_kept(&path, 2).exists());
}

#[tokio::test]
async fn copy_that_is_killed_anywhere_opens_or_does_not_exist() {
    for (calls, exists) in [(LINK, false), (UNLINK, true)] {
        let (folder, _) = fresh();
        let (path, _) = database_and_copy(folder.path()).await;
        let (copy, partial) = (folder.path().join("other.db"), folder.path().join("other.db.partial"));
        assert!(is_killed_at((calls, 1), Some(&partial), "kill::child_copies", (&path, &copy)));
        assert_eq!((copy.exists(), partial.exists()), (exists, true));
        if exists {
            assert_eq!(n_opened(&copy).await, 4);
            assert!(!partial.exists());
        }
    }
}

/// What a restore leaves of a damaged database, whose log it cannot write into it, when it is killed before its last step.
#[tokio::test]
async fn log_that_an_interrupted_restore_took_away_comes_back() {
    let (folder, _) = fresh();
    let (path, _) = database_and_copy(folder.path()).await;
    let kept = path_kept(&path, 1);
    let log = |path: &Path| PathBuf::from(format!("{}-wal", path.display()));
    fs::hard_link(&path, &kept).unwrap();
    fs::rename(log(&path), log(&kept)).unwrap();
    // A log that appeared meanwhile is of another history.
    fs::copy(&path, log(&path)).unwrap();
    let refused = Database::<Total>::open(options(&path)).await.unwrap_err();
    assert!(matches!(&refused, OpenError::Unwritable { .. }), "{refused:?}");
    fs::remove_file(log(&path)).unwrap();
    assert_eq!(n_opened(&path).await, 4);
    assert!(!kept.exists() && !log(&kept).exists());
}

#[tokio::test]
async fn other_names_of_a_database_are_not_removed() {
    let (folder, _) = fresh();
    let (path, _) = database_and_copy(folder.path()).await;
    for name in ["test.db.before-restore-", "test.db.before-restore-1x", "test.db.partial-1", "x.partial"] {
        let other = folder.path().join(name);
        fs::hard_link(&path, &other).unwrap();
        let refused = Database::<Total>::open(options(&path)).await.unwrap_err();
        assert!(matches!(&refused, OpenError::OtherName { .. }), "{refused:?}");
        fs::remove_file(other).unwrap();
    }
    // Nor a file of its own with such a name.
    fs::copy(&path, folder.path().join("test.db.before-restore-1")).unwrap();
    let other = folder.path().join("other");
    fs::hard_link(&path, &other).unwrap();
    assert!(Database::<Total>::open(options(&path)).await.is_err());
    assert!(folder.path().join("test.db.before-restore-1").exists());
}

/// Not a test by itself: the child process of `restore_that_is_killed_anywhere_leaves_databases_that_open`.
#[tokio::test]
async fn child_restores() {
    let Some(copy) = std::env::var_os(COPY) else { return };
    let path = std::env::var_os(CHILD).map(PathBuf::from).unwrap();
    restore(options(&path), Path::new(&copy)).await.unwrap();
}

/// Not a test by itself: the child process of `copy_that_is_killed_anywhere_opens_or_does_not_exist`.
#[tokio::test]
async fn child_copies() {
    let Some(copy) = std::env::var_os(COPY) else { return };
    let path = std::env::var_os(CHILD).map(PathBuf::from).unwrap();
    let reader = Reader::open(options(&path)).await.unwrap();
    reader.copy_to(Path::new(&copy), |_, _| {}).await.unwrap();
    reader.close().await;
}

/// Not a test by itself: the child process of `acknowledged_writes_survive_sigkill`.
#[tokio::test]
async fn child_writes_until_killed() {
    let Some(path) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let database = Arc::new(open(&path).await);
    let mut writers = JoinSet::new();
    for lane in 0..8 {
        let database = Arc::clone(&database);
        writers.spawn(async move {
            for n in 0.. {
                let id = lane + 8 * n;
                database.write(Add(id)).await.unwrap();
                println!("ack {id}");
            }
        });
    }
    writers.join_all().await;
}
