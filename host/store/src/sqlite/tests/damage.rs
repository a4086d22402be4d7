//! Rows that another program changed are reported and not returned.

use super::Folder;
use crate::contract::Deployment;
use crate::contract::samples::{
    decision, following, id, key_create, note, on_key, opening, opening_payment, preview, submission, written,
};
use crate::{Cursor, Store};
use gateway_domain::ids::{Hex32, KeyId, KeyRef};
use gateway_domain::operation::KeySlot;
use gateway_domain::policy::Moment;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{CommitOperations, ReadError, ReadOperations, Subject};

#[tokio::test]
async fn damaged_decision_record_is_marked_not_intact() {
    let damages = [
        ("events", "body = replace(body, 'payment-guard', 'payment-board')", (false, true, true)),
        ("events", "body = replace(body, '\"fuel_used\":1', '\"fuel_used\":2')", (false, true, true)),
        ("policy_decisions", "input = replace(input, 'acct-2', 'acct-3')", (true, false, true)),
        ("policy_decisions", "outcome = replace(outcome, 'DENY', 'ALLOW')", (true, false, true)),
        ("policy_decisions", "at_ms = at_ms + 1", (true, false, true)),
        ("policy_decisions", "operation_id = zeroblob(32)", (true, false, true)),
        (
            "policy_previews",
            "outcome = replace(outcome, '\"fuel_used\":1', '\"fuel_used\":2')",
            (true, true, false),
        ),
    ];
    for (table, damage, expected) in damages {
        let folder = Folder::new();
        let store = folder.open().await;
        written(&store, opening_payment(1)).await;
        store.decision_record(decision(2, Moment::Submit)).await.unwrap();
        store.preview_record(preview(EpochMs(3)), 9).await.unwrap();
        folder.tamper(&format!("UPDATE {table} SET {damage}")).await;
        let decisions = folder.decisions().await;
        let intact: Vec<_> = decisions.latest(9).await.unwrap().iter().map(|one| one.is_intact).collect();
        let mut intact_by_position = decisions.page(Cursor::default(), 9).await.unwrap();
        intact_by_position.sort_by_key(|one| one.position);
        let intact_by_position: Vec<_> = intact_by_position.iter().map(|one| one.is_intact).collect();
        assert_eq!(intact_by_position, [expected.0, expected.1, expected.2], "{table} {damage}");
        assert_eq!(intact.iter().filter(|intact| !**intact).count(), 1, "{table} {damage}");
        folder.tamper(&format!("UPDATE {table} SET format = 2")).await;
        assert!(decisions.page(Cursor::default(), 9).await.is_err());
    }
}

/// Applies each damage to a stopped store. After the restart its subject is refused, and the `sound` records are returned.
async fn assert_refused(begin: impl AsyncFn(&Store), sound: &[Subject], damages: &[(&str, Subject)]) {
    let read = async |store: &Store, subject| match subject {
        Subject::Operation(id) => store.operation_load(id).await.map(|found| found.is_some()),
        Subject::Key(id) => store.key_load(id).await.map(|found| found.is_some()),
    };
    for (damage, subject) in damages {
        let folder = Folder::new();
        let store = folder.open().await;
        begin(&store).await;
        store.close().await;
        // A store caches the records that it wrote. It reads the rows only after a restart.
        let store = folder.open().await;
        assert_eq!(read(&store, *subject).await, Ok(true), "{subject} before {damage}");
        store.close().await;
        folder.tamper(damage).await;
        let store = folder.open().await;
        let refused = read(&store, *subject).await.unwrap_err();
        let ReadError::Damaged(found) = refused else { panic!("{damage}: {refused:?}") };
        assert_eq!(found.subject, *subject, "{damage}");
        assert_eq!(store.damage(), std::slice::from_ref(&found), "{damage}");
        for other in sound.iter().filter(|other| *other != subject) {
            assert_eq!(read(&store, *other).await, Ok(true), "{other} after {damage}");
        }
        assert_eq!(store.damage(), [found], "{damage}");
        store.close().await;
    }
}

/// Regression test: the gateway trusted a row that was changed without its events.
#[tokio::test]
async fn operation_that_differs_from_its_events_is_not_returned() {
    let begin = async |store: &Store| {
        let record = written(store, opening_payment(1)).await;
        written(store, following(&record, EpochMs(2), vec![note(1)])).await;
        written(store, opening_payment(2)).await;
    };
    let one = Subject::Operation(id(1));
    let of_one = |sql: &str| format!("{sql} WHERE operation_id = x'{}'", id(1));
    let damages = [
        of_one(
            "UPDATE operations SET body = json_set(body, '$.approvals', json('[]'), '$.phase', 'deciding')",
        ),
        of_one("UPDATE operations SET body = replace(body, '9007199254740993', '9007199254740994')"),
        of_one("UPDATE operations SET body = 'x'"),
        of_one("UPDATE operations SET owes = 1 - owes"),
        of_one("UPDATE operations SET state = 'admitted'"),
        of_one("UPDATE operations SET revision = revision + 1"),
        of_one("UPDATE operations SET record_root = zeroblob(32)"),
        of_one("UPDATE operations SET format = 2"),
        of_one("UPDATE events SET body = replace(body, '9007199254740993', '9007199254740994')"),
        of_one("UPDATE events SET body = '{}'"),
        of_one("UPDATE events SET format = 2"),
        of_one("UPDATE events SET salt = zeroblob(31)"),
        format!("UPDATE events SET seq = 9 WHERE seq = 3 AND operation_id = x'{}'", id(1)),
        format!("UPDATE events SET operation_id = x'{}', seq = 3 WHERE seq = 3", id(2)),
    ];
    let damages: Vec<_> = damages.iter().map(|sql| (sql.as_str(), one)).collect();
    let (last, others) = damages.split_last().unwrap();
    assert_refused(begin, &[one, Subject::Operation(id(2))], others).await;
    // An event that is moved to the other operation damages both.
    assert_refused(begin, &[], &[*last, (last.0, Subject::Operation(id(2)))]).await;
}

#[tokio::test]
async fn key_that_differs_from_its_events_is_not_returned() {
    let begin = async |store: &Store| {
        written(store, on_key(opening(submission(1, key_create()), EpochMs(1)), None)).await;
        written(store, opening_payment(2)).await;
    };
    let key = Subject::Key(submission(1, key_create()).key.key_id);
    let damages = [
        "UPDATE custody_keys SET body = json_set(body, '$.state', 'active')",
        "UPDATE custody_keys SET body = json_set(body, '$.purpose', 'payments')",
        "UPDATE custody_keys SET body = json_set(body, '$.public', json('{\"public_key_hex\":\"aa\",\"package_hex\":\"\"}'))",
        "UPDATE custody_keys SET body = 'x'",
        "UPDATE custody_keys SET state = 'active'",
        "UPDATE custody_keys SET tenant = 'other'",
        "UPDATE custody_keys SET revision = revision + 1",
        "UPDATE custody_keys SET format = 2",
        "DELETE FROM custody_keys",
    ];
    let damages: Vec<_> = damages.iter().map(|sql| (*sql, key)).collect();
    assert_refused(begin, &[Subject::Operation(id(2)), Subject::Operation(id(1))], &damages).await;
    // The operation that created the key is damaged, in its row or in its events.
    let of_creation =
        format!("UPDATE operations SET record_root = zeroblob(32) WHERE operation_id = x'{}'", id(1));
    let altered =
        format!("UPDATE events SET body = replace(body, 'cold', 'warm') WHERE operation_id = x'{}'", id(1));
    assert_refused(begin, &[Subject::Operation(id(2))], &[(&of_creation, key), (&altered, key)]).await;
}

#[tokio::test]
async fn repaired_record_is_returned_again() {
    let folder = Folder::new();
    let store = folder.open().await;
    written(&store, opening_payment(1)).await;
    store.close().await;
    let store = folder.open().await;
    folder.tamper("UPDATE operations SET state = 'admitted'").await;
    assert!(matches!(store.operation_load(id(1)).await, Err(ReadError::Damaged(_))));
    folder.tamper("UPDATE operations SET state = 'pending_approval'").await;
    assert!(store.operation_load(id(1)).await.unwrap().is_some());
    assert_eq!(store.damage(), []);
}

#[tokio::test]
async fn unreadable_event_error_names_the_operation() {
    let folder = Folder::new();
    let store = folder.open().await;
    written(&store, opening_payment(1)).await;
    for damage in ["format = 2", "format = 1, body = '{}'", "event_hash = x'00'"] {
        folder.tamper(&format!("UPDATE events SET {damage}")).await;
        let Err(ReadError::Damaged(damage)) = store.operation_events(id(1)).await else { panic!("{damage}") };
        assert_eq!(damage.subject, Subject::Operation(id(1)));
        assert!(damage.detail.contains(&id(1).to_string()), "{damage}");
    }
}

/// A scan over the keys must continue after such a row.
#[tokio::test]
async fn unreadable_key_row_is_skipped() {
    let folder = Folder::new();
    let store = folder.open().await;
    for byte in 1..=4 {
        let mut submission = submission(byte, key_create());
        let key_id = KeyId(Hex32::new([byte; 32]));
        submission.key = KeySlot { key_ref: KeyRef(format!("key-{byte}")), key_id };
        written(&store, on_key(opening(submission, EpochMs(1)), None)).await;
    }
    let all = store.keys_after(None, 9).await.unwrap();
    assert_eq!(all.len(), 4);
    folder.tamper(&format!("UPDATE custody_keys SET body = 'x' WHERE key_id = x'{}'", all[1].key_id)).await;
    assert_eq!(store.keys_after(None, 2).await.unwrap(), [all[0].clone(), all[2].clone()]);
    assert_eq!(store.keys_after(None, 9).await.unwrap().len(), 3);
}
