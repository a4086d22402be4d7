//! Changes of keys by the events of operations.

use super::*;
use crate::ids::OperationId;
use crate::intent::PublicationMode;
use crate::key::fit::check_epoch;
use crate::key::{EPOCHS_MAX, PublicKey};
use crate::operation::Failure;
use crate::operation::{Staged, Submission, open, replay};
use crate::roster::{Roster, Threshold};
use crate::testing::samples::{Kind, intent, submission};
use crate::time::EpochMs;

fn operation(kind: Kind, number: u8) -> Operation {
    let intent = intent(kind, PublicationMode::Manual);
    let submission =
        Submission { operation_id: OperationId(Hex32::new([number; 32])), ..submission(intent, 1) };
    replay(&open(submission, EpochMs(1))).unwrap()
}

fn rotation() -> Submission {
    submission(intent(Kind::Rotate, PublicationMode::Manual), 1)
}

fn failed() -> Change {
    let failure = Failure { code: "approval_expired".into(), detail: String::new(), culprits: vec![] };
    Change::Failed { failure, policy: None, receipts: vec![] }
}

fn active() -> CustodyKey {
    let create = operation(Kind::KeyCreate, 1);
    let Intent::KeyCreate(intent) = &create.intent else { panic!() };
    CustodyKey { state: KeyState::Active, ..CustodyKey::creating(&create, intent) }
}

/// The keys after a change of the operation, in an event at 2 ms.
fn after(keys: Keys, operation: &Operation, change: &Change) -> Keys {
    let event = Event { at_ms: EpochMs(2), change: change.clone(), requested_by: None, settles: None };
    super::after(keys, operation, &event)
}

/// The subject key after a change of the operation.
fn subject(key: &CustodyKey, operation: &Operation, change: &Change) -> CustodyKey {
    let keys = Keys { subject: Some(key.clone()), successor: None };
    after(keys, operation, change).subject.unwrap()
}

fn staged(epoch: &str) -> Change {
    Change::EpochDecided {
        staged: Box::new(Staged {
            epoch: Epoch { name: EpochName(epoch.into()), root: Hex32::new([9; 32]) },
            public: PublicKey { public_key_hex: "aa".into(), package_hex: "bb".into() },
            participants: Roster::parse(&[1, 2]).unwrap(),
            threshold: Threshold(2),
        }),
        receipts: vec![],
    }
}

const REQUESTED: Change = Change::ExecutionRequested { requested_at_ms: None };
const EXECUTED: Change = Change::Executed { result_ref: Hex32::ZERO, signature: None, receipts: vec![] };

#[test]
fn only_the_operation_that_executes_on_a_key_changes_it() {
    let (holder, waiting) = (operation(Kind::Refresh, 2), operation(Kind::Reshare, 3));
    let busy = subject(&active(), &holder, &REQUESTED);
    assert_eq!((busy.busy_with, busy.state), (Some(holder.id), KeyState::Refreshing));
    for change in [failed(), REQUESTED, staged("9"), EXECUTED] {
        assert_eq!(subject(&busy, &waiting, &change), busy);
    }
    assert_eq!(subject(&busy, &holder, &failed()).busy_with, None);
    let rotated = CustodyKey { state: KeyState::Rotated, ..active() };
    assert_eq!(subject(&rotated, &waiting, &failed()), rotated);
}

#[test]
fn epoch_begins_when_its_shares_are_decided() {
    let refresh = operation(Kind::Refresh, 2);
    let before = CustodyKey { epoch_since_ms: Some(EpochMs(1)), ..active() };
    let busy = subject(&before, &refresh, &REQUESTED);
    assert_eq!(busy.epoch_since_ms, Some(EpochMs(1)));
    assert_eq!(subject(&busy, &refresh, &failed()).epoch_since_ms, Some(EpochMs(1)));
    let decided = subject(&busy, &refresh, &staged("9"));
    assert_eq!((decided.epoch.name.0.as_str(), decided.epoch_since_ms), ("9", Some(EpochMs(2))));
}

#[test]
fn creation_that_fails_before_execution_fails_its_key() {
    let create = operation(Kind::KeyCreate, 1);
    let Intent::KeyCreate(intent) = &create.intent else { panic!() };
    let creating = CustodyKey::creating(&create, intent);
    assert_eq!(subject(&creating, &create, &failed()).state, KeyState::Failed);
}

#[test]
fn rotation_takes_the_new_name_at_submission_and_retires_the_old_key_when_executed() {
    let rotate = operation(Kind::Rotate, 4);
    let submitted = Change::Submitted(Box::new(rotation()));
    let before = Keys { subject: Some(active()), successor: None };
    let reserved = after(before.clone(), &rotate, &submitted);
    assert_eq!(reserved.subject, before.subject);
    let new = reserved.successor.clone().unwrap();
    assert_eq!((new.state, new.created_by, new.revision), (KeyState::Creating, rotate.id, 0));
    assert_eq!((new.epoch.name.0.as_str(), new.replaces.as_ref()), ("2", Some(&active().key_ref)));
    assert_eq!((new.participants.n_participants(), new.threshold), (4, Threshold(3)));

    let freed = after(reserved.clone(), &rotate, &failed());
    assert_eq!(freed.subject, before.subject);
    assert!(freed.successor.as_ref().unwrap().is_name_free());
    let again = operation(Kind::Rotate, 5);
    let again = after(freed, &again, &submitted).successor.unwrap();
    assert_eq!(
        (again.state, again.created_by.0, again.revision),
        (KeyState::Creating, Hex32::new([5; 32]), 2)
    );

    let executing = after(reserved, &rotate, &REQUESTED);
    let (old, new) = (executing.subject.as_ref().unwrap(), executing.successor.as_ref().unwrap());
    assert_eq!((old.state, new.state), (KeyState::Rotating, KeyState::Creating));
    let decided = after(executing, &rotate, &staged("2"));
    assert_eq!(decided.subject.as_ref().unwrap().epoch, active().epoch);
    let Keys { subject, successor } = after(decided, &rotate, &EXECUTED);
    let (old, new) = (subject.unwrap(), successor.unwrap());
    assert_eq!((old.state, old.busy_with), (KeyState::Rotated, None));
    assert_eq!((new.state, new.busy_with, new.public.is_some()), (KeyState::Active, None, true));
    assert_eq!((old.replaced_by.as_ref(), old.replaces.as_ref()), (Some(&new.key_ref), None));
    assert_eq!((new.replaces.as_ref(), new.replaced_by.as_ref()), (Some(&old.key_ref), None));
}

#[test]
fn second_rotation_to_the_same_name_changes_nothing() {
    let submitted = Change::Submitted(Box::new(rotation()));
    let before = Keys { subject: Some(active()), successor: None };
    let first = after(before, &operation(Kind::Rotate, 4), &submitted);
    let other = operation(Kind::Rotate, 5);
    for change in [submitted, REQUESTED, staged("9"), EXECUTED, failed()] {
        assert_eq!(after(first.clone(), &other, &change).successor, first.successor);
    }
}

#[test]
fn epoch_names_are_unique_and_decimal_ones_increase() {
    let mut key = active();
    let refresh = |key: &CustodyKey, epoch: &str| {
        let Intent::Refresh(mut refresh) = intent(Kind::Refresh, PublicationMode::Manual) else { panic!() };
        refresh.change.target_epoch = EpochName(epoch.into());
        check_epoch(key, &Intent::Refresh(refresh)).is_ok()
    };
    key.epoch.name = EpochName("blue".into());
    key.past_epochs = vec![EpochName("1".into()), EpochName("9".into())];
    for fine in ["10", "010", "340282366920938463463374607431768211456", "red", "9a", "-1", " 1"] {
        assert!(refresh(&key, fine), "{fine}");
    }
    for wrong in ["1", "9", "blue", "2", "0", "00", "09", "8"] {
        assert!(!refresh(&key, wrong), "{wrong}");
    }
    assert!(check_epoch(&key, &intent(Kind::Rotate, PublicationMode::Manual)).is_ok());
    key.past_epochs = vec![EpochName("x".into()); EPOCHS_MAX];
    assert!(!refresh(&key, "y"));
}

#[test]
fn only_an_epoch_that_signed_is_kept_as_past_epoch() {
    let refresh = operation(Kind::Refresh, 2);
    let generated = CustodyKey {
        public: Some(PublicKey { public_key_hex: "aa".into(), package_hex: "bb".into() }),
        ..active()
    };
    let busy = subject(&generated, &refresh, &REQUESTED);
    assert_eq!(subject(&busy, &refresh, &staged("2")).past_epochs, [EpochName("1".into())]);
    let ungenerated = subject(&active(), &refresh, &REQUESTED);
    assert_eq!(subject(&ungenerated, &refresh, &staged("2")).past_epochs, []);
}
