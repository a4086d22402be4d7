//! Tests of inner functions that calls do not reach while all other checks work: the last check of the nonce rule, and the
//! states of a share.

use crate::error::{Code, NodeError, Stop};
use crate::store::consumed::Consume;
use crate::store::log::LogState;
use crate::store::operation::{self, View};
use crate::store::rollback::{Readmission, Rollback};
use crate::store::sealing::{CreateIdentity, Rewrap, Sealing};
use crate::store::transaction::{MIGRATIONS, Transact, Transaction};
use crate::store::vault::{self, Generation, NewShare};
use crate::testing::{SUITES, asset_action, hex32, kek};
use gateway_domain::ids::{EpochName, Hex32, KeyId, OperationId};
use gateway_domain::key::epoch_root;
use gateway_domain::node_log::ReleasedShare;
use gateway_domain::operation::{EffectId, EffectStep};
use gateway_domain::receipt::{Chain, ReceiptKind};
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_sqlite::{Connection, Job as _, Row, State as _};
use gateway_threshold::keygen::{self, Params};
use gateway_threshold::{Message, Progress, Session};
use rand_core::OsRng;
use std::sync::Arc;

const KEY: KeyId = KeyId(Hex32::new([42; 32]));

async fn empty_store() -> Connection {
    let mut conn = Connection::in_memory(MIGRATIONS).unwrap();
    run(CreateIdentity(sealing()), &mut conn).await.unwrap();
    conn
}

fn sealing() -> Sealing {
    Sealing::new(Arc::new(kek(1)), ParticipantIndex(0))
}

fn chain(operation: u8) -> Chain {
    Chain {
        admission_hash: hex32(1),
        operation_id: OperationId(hex32(operation)),
        participant: ParticipantIndex(0),
    }
}

/// Runs a key generation of two participants and returns the share of participant 0.
fn new_share(epoch: &str, operation: u8) -> NewShare {
    let params = |me| Params {
        profile: SUITES[0].parse().unwrap(),
        me,
        roster: [0, 1].into(),
        threshold: 2,
        ceremony_id: [operation; 32],
    };
    let (mut zero, mut for_one) = keygen::start(params(0), &mut OsRng).unwrap();
    let (mut one, mut for_zero) = keygen::start(params(1), &mut OsRng).unwrap();
    loop {
        let (sent, output) = deliver(&mut zero, std::mem::take(&mut for_zero));
        for_zero = deliver(&mut one, std::mem::replace(&mut for_one, sent)).0;
        if let Some(output) = output {
            let (epoch, public_keys) = (EpochName(epoch.to_owned()), output.keys.to_bytes());
            return NewShare {
                key_id: KEY,
                root: epoch_root(KEY, &epoch, &hex::encode(&public_keys)).unwrap(),
                epoch,
                operation_id: OperationId(hex32(operation)),
                attempt: 1,
                made_at: EpochMs(1),
                public_keys,
                secret: output.share.unwrap().to_secret_bytes(),
            };
        }
    }
}

type Delivered = (Vec<Message>, Option<Box<gateway_threshold::Output>>);

fn deliver(session: &mut Session, messages: Vec<Message>) -> Delivered {
    let mut sent = vec![];
    for message in messages {
        match session.handle(message).unwrap() {
            Progress::Wait => {}
            Progress::Send(messages) => sent.extend(messages),
            Progress::Done { send, output } => return (send, Some(output)),
        }
    }
    (sent, None)
}

async fn insert_operation(conn: &mut Connection, operation: u8) {
    let statement = crate::store::operation::AdmittedRequest {
        request: crate::testing::Case::key_create(operation, KEY, 2, 2, SUITES[0]).request(),
        decision: crate::testing::Case::new(
            operation,
            KEY,
            gateway_domain::key::Epoch { name: EpochName("1".to_owned()), root: hex32(1) },
            2,
            asset_action(&[0, 1], 7),
        )
        .decision,
    };
    let statement = serde_json::to_string(&statement).unwrap();
    let receipt = chain(operation).statement(&ReceiptKind::Admitted).unwrap();
    let entry = log(conn).await.append_receipt(&receipt, None).unwrap();
    let known = Some((KEY, statement.as_str(), &entry));
    operation::insert(conn, &chain(operation), EffectStep::PolicyReceipt, receipt.transition_hash, known)
        .await
        .unwrap();
}

async fn log(conn: &mut Connection) -> LogState {
    LogState::load(conn).await.unwrap()
}

/// Runs the work as the writer does, with the log as it is stored.
async fn run<T: Transact>(work: T, conn: &mut Connection) -> Result<T::Output, Stop> {
    let mut log = log(conn).await;
    work.run(conn, &mut log).await
}

fn consume(
    operation: u8,
    (completed_attempt, attempt): (u32, u32),
    commitment: u8,
    epoch_root: Hex32,
) -> Consume {
    let signed = ReceiptKind::Signed { attempt, signed_digest: hex32(6), package_hash: hex32(5) };
    Consume {
        chain: chain(operation),
        statement: chain(operation).statement(&signed).unwrap(),
        released: ReleasedShare { key_id: KEY, signed_digest: hex32(6), package_hash: hex32(5) },
        not_before_ms: EpochMs(0),
        epoch_root,
        attempt,
        completed_attempt,
        commitment_hash: hex32(commitment),
        package: "{}".to_owned(),
        share: vec![1],
    }
}

fn code<T: std::fmt::Debug>(answer: Result<T, Stop>) -> Code {
    match answer {
        Err(Stop::Refused(NodeError::Rejected(rejection))) => rejection.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn nonces_are_consumed_once_over_attempts_and_operations() {
    let mut conn = empty_store().await;
    let share = new_share("1", 9);
    vault::stage(&mut conn, &sealing(), &share).await.unwrap();
    vault::promote(&mut conn, KEY, &share.epoch, EpochMs(2)).await.unwrap();
    insert_operation(&mut conn, 1).await;
    insert_operation(&mut conn, 2).await;
    run(consume(1, (0, 2), 7, share.root), &mut conn).await.unwrap();
    assert_eq!(
        code(run(consume(1, (0, 2), 8, share.root), &mut conn).await),
        Code::SessionConsumed,
        "the same attempt"
    );
    assert_eq!(
        code(run(consume(1, (2, 3), 7, share.root), &mut conn).await),
        Code::SessionConsumed,
        "the same nonces"
    );
    assert_eq!(
        code(run(consume(2, (0, 1), 7, share.root), &mut conn).await),
        Code::SessionConsumed,
        "for another operation"
    );
    assert_eq!(code(run(consume(1, (0, 1), 8, share.root), &mut conn).await), Code::AttemptSuperseded);
    assert_eq!(
        code(run(consume(1, (0, 3), 8, share.root), &mut conn).await),
        Code::AttemptSuperseded,
        "another attempt was completed since round one"
    );
    assert_eq!(
        code(run(consume(3, (0, 1), 8, share.root), &mut conn).await),
        Code::StepOutOfOrder,
        "an unknown operation"
    );
    run(consume(1, (2, 3), 8, share.root), &mut conn).await.unwrap();
}

/// Appends to the log, and refuses.
struct AppendAndRefuse;

impl Transact for AppendAndRefuse {
    type Output = ();

    async fn run(&self, _conn: &mut Connection, log: &mut LogState) -> Result<(), Stop> {
        log.append_receipt(&chain(1).statement(&ReceiptKind::Admitted).unwrap(), None)?;
        Err(NodeError::lost("refused").into())
    }
}

/// Otherwise the next entry would leave a gap.
#[tokio::test]
async fn refused_work_does_not_change_the_log() {
    let mut conn = empty_store().await;
    let mut log = log(&mut conn).await;
    let refused = Transaction(AppendAndRefuse).apply(&mut conn, &mut log).await.unwrap();
    assert!(matches!(refused, Err(NodeError::Lost { .. })));
    assert_eq!(log.size(), 0);
}

/// The nonces of a readmitted node are dropped, so no call reaches this check.
#[tokio::test]
async fn no_share_of_an_earlier_decision_leaves_a_readmitted_node() {
    let mut conn = empty_store().await;
    let share = new_share("1", 9);
    vault::stage(&mut conn, &sealing(), &share).await.unwrap();
    vault::promote(&mut conn, KEY, &share.epoch, EpochMs(2)).await.unwrap();
    insert_operation(&mut conn, 1).await;
    let readmitted = Some(Readmission { log_index: 0, at_ms: EpochMs(5) });
    let mut log = log(&mut conn).await;
    log.rollback = Some(Rollback { size_shown: 0, lost_from: 0, readmitted });
    let of_decision =
        |not_before: u64| Consume { not_before_ms: EpochMs(not_before), ..consume(1, (0, 1), 7, share.root) };
    let refused = of_decision(5).run(&mut conn, &mut log).await;
    assert_eq!(code(refused), Code::DecidedBeforeReadmission);
    of_decision(6).run(&mut conn, &mut log).await.unwrap();
}

#[tokio::test]
async fn no_share_leaves_under_an_inactive_epoch() {
    let mut conn = empty_store().await;
    let (first, second) = (new_share("1", 9), new_share("2", 10));
    insert_operation(&mut conn, 1).await;
    assert_eq!(
        code(run(consume(1, (0, 1), 7, first.root), &mut conn).await),
        Code::EpochConflict,
        "before its promotion"
    );
    vault::stage(&mut conn, &sealing(), &first).await.unwrap();
    vault::promote(&mut conn, KEY, &first.epoch, EpochMs(2)).await.unwrap();
    vault::stage(&mut conn, &sealing(), &second).await.unwrap();
    run(consume(1, (0, 1), 7, first.root), &mut conn).await.unwrap();
    vault::promote(&mut conn, KEY, &second.epoch, EpochMs(2)).await.unwrap();
    assert_eq!(
        code(run(consume(1, (0, 2), 8, first.root), &mut conn).await),
        Code::EpochConflict,
        "after the next epoch's promotion"
    );
}

#[tokio::test]
async fn a_share_is_staged_active_retired_and_erased() {
    let mut conn = empty_store().await;
    let (first, second) = (new_share("1", 9), new_share("2", 10));
    vault::stage(&mut conn, &sealing(), &first).await.unwrap();
    assert!(active(&mut conn).await.is_none());
    assert!(!view(&mut conn).await.key.is_known);
    vault::promote(&mut conn, KEY, &first.epoch, EpochMs(2)).await.unwrap();
    assert!(view(&mut conn).await.key.is_known);
    let held = active(&mut conn).await.unwrap();
    assert_eq!(held.used, Some((EpochMs(1), EpochMs(2))), "made, and used since");
    let keys = held.decode(KEY).unwrap();
    let secret = vault::load_share(&mut conn, &sealing(), KEY, &held.epoch, &keys).await.unwrap();
    assert_eq!(*secret.to_secret_bytes(), *first.secret);
    vault::stage(&mut conn, &sealing(), &second).await.unwrap();
    vault::promote(&mut conn, KEY, &second.epoch, EpochMs(2)).await.unwrap();
    assert_eq!(active(&mut conn).await.unwrap().epoch, second.epoch);
    assert!(
        vault::load_share(&mut conn, &sealing(), KEY, &held.epoch, &keys).await.is_err(),
        "a retired share does not sign"
    );
    assert_eq!(states(&mut conn).await, [("1", "retired", true), ("2", "active", true)].map(to_owned));
    vault::erase_retired(&mut conn, KEY).await.unwrap();
    assert_eq!(states(&mut conn).await, [("1", "erased", false), ("2", "active", true)].map(to_owned));
    assert_eq!(
        code(vault::stage(&mut conn, &sealing(), &first).await),
        Code::EpochConflict,
        "a key never has the same epoch twice"
    );
    let kept = vault::load_promoted(&mut conn, KEY, &first.epoch).await.unwrap().unwrap();
    assert_eq!(kept.root, first.root, "signatures under it can still be checked");
}

#[tokio::test]
async fn public_keys_changed_in_the_file_are_rejected() {
    let mut conn = empty_store().await;
    let (mine, other) = (new_share("1", 9), new_share("1", 10));
    vault::stage(&mut conn, &sealing(), &mine).await.unwrap();
    vault::promote(&mut conn, KEY, &mine.epoch, EpochMs(2)).await.unwrap();
    let sql = "UPDATE share SET public_keys = ?1";
    conn.run(sql, &[other.public_keys.as_slice().into()]).await.unwrap();
    let refused = active(&mut conn).await.unwrap().decode(KEY).unwrap_err();
    assert!(refused.to_string().contains("public keys do not match their root"), "{refused}");
}

#[tokio::test]
async fn a_share_moved_to_another_key_or_generation_does_not_open() {
    for (column, value) in [("key_id", hex32(43).to_string()), ("epoch", "2".to_owned())] {
        let mut conn = empty_store().await;
        let mine = new_share("1", 9);
        vault::stage(&mut conn, &sealing(), &mine).await.unwrap();
        vault::promote(&mut conn, KEY, &mine.epoch, EpochMs(2)).await.unwrap();
        let keys = active(&mut conn).await.unwrap().decode(KEY).unwrap();
        let sql = format!("UPDATE share SET {column} = '{value}'");
        conn.run(&sql, &[]).await.unwrap();
        let (key_id, epoch) = match column {
            "key_id" => (KeyId(hex32(43)), mine.epoch),
            _ => (KEY, EpochName(value)),
        };
        let refused = vault::load_share(&mut conn, &sealing(), key_id, &epoch, &keys).await.unwrap_err();
        assert!(NodeError::from(refused).to_string().contains("moved from another row"));
    }
}

/// A share staged under the old key-encryption key would be lost with it.
#[tokio::test]
async fn a_share_is_not_staged_under_a_replaced_key_encryption_key() {
    let mut conn = empty_store().await;
    let new = Arc::new(kek(2));
    vault::stage(&mut conn, &sealing(), &new_share("1", 9)).await.unwrap();
    run(Rewrap { old: sealing(), new: Arc::clone(&new) }, &mut conn).await.unwrap();
    let refused = vault::stage(&mut conn, &sealing(), &new_share("2", 10)).await.unwrap_err();
    assert!(NodeError::from(refused).is_wrong_kek());
    vault::stage(&mut conn, &Sealing::new(new, ParticipantIndex(0)), &new_share("2", 10)).await.unwrap();
    let again = run(Rewrap { old: sealing(), new: Arc::new(kek(3)) }, &mut conn).await;
    let Err(again) = again else { panic!("{again:?}") };
    assert!(NodeError::from(again).is_wrong_kek());
}

async fn view(conn: &mut Connection) -> View {
    let effect = EffectId { operation: OperationId(hex32(99)), step: EffectStep::Admission, attempt: 1 };
    View::load(conn, effect, Some(KEY)).await.unwrap()
}

async fn active(conn: &mut Connection) -> Option<Generation> {
    view(conn).await.key.active
}

fn to_owned((epoch, state, secret): (&str, &str, bool)) -> (String, String, bool) {
    (epoch.to_owned(), state.to_owned(), secret)
}

async fn states(conn: &mut Connection) -> Vec<(String, String, bool)> {
    let sql = "SELECT epoch, state, secret IS NOT NULL FROM share ORDER BY epoch";
    let rows = conn.rows(sql, &[]).await.unwrap();
    let state = |row: &Row| (row.at(0).unwrap(), row.at(1).unwrap(), row.at(2).unwrap());
    rows.iter().map(state).collect()
}

async fn findings(conn: &mut Connection) -> Vec<String> {
    let checked = crate::check::shares_on(conn, &sealing(), ParticipantIndex(0)).await.unwrap();
    checked.into_iter().map(|damage| damage.what).collect()
}

/// Decryption proves that the share was not altered, but not that it is the right one.
#[tokio::test]
async fn a_share_that_opens_but_does_not_match_its_public_keys_is_found() {
    let mut conn = empty_store().await;
    let (mine, other) = (new_share("1", 9), new_share("1", 10));
    let mixed = NewShare { secret: other.secret, ..mine };
    vault::stage(&mut conn, &sealing(), &mixed).await.unwrap();
    assert_eq!(findings(&mut conn).await, ["`secret` opens, but is not the share of `public_keys`"]);
    let mut conn = empty_store().await;
    let garbled = NewShare { secret: zeroize::Zeroizing::new(vec![7; 70]), ..new_share("1", 9) };
    vault::stage(&mut conn, &sealing(), &garbled).await.unwrap();
    assert_eq!(findings(&mut conn).await, ["`secret` opens, but is not a share"]);
}

#[tokio::test]
async fn a_share_must_match_the_last_step_of_its_operation() {
    let mut conn = empty_store().await;
    vault::stage(&mut conn, &sealing(), &new_share("1", 9)).await.unwrap();
    assert_eq!(findings(&mut conn).await, ["the operation that made it is missing"]);
    insert_operation(&mut conn, 9).await;
    for (step, state, what) in [
        (EffectStep::PolicyReceipt, "staged", Some("the operation that made it has made no share")),
        (EffectStep::Execute, "staged", None),
        (
            EffectStep::CommitEpoch,
            "staged",
            Some("`state` does not match the step of the operation that made it"),
        ),
        (EffectStep::CommitEpoch, "active", None),
        (EffectStep::Publish, "active", None),
        (
            EffectStep::Execute,
            "active",
            Some("`state` does not match the step of the operation that made it"),
        ),
        (EffectStep::Discard, "active", Some("the operation that made it has made no share")),
    ] {
        let sql = "UPDATE operation SET stage = ?1;\n\
                   UPDATE share SET state = ?2, used_since_ms = iif(?2 = 'staged', NULL, 2), row_hash = NULL";
        conn.run(sql, &[operation::stage_of(step).into(), state.into()]).await.unwrap();
        assert_eq!(findings(&mut conn).await, what.into_iter().collect::<Vec<_>>(), "{step:?}, {state}");
    }
}
