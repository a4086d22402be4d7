use super::*;
use crate::intent::{Intent, PublicationMode};
use crate::operation::Change;
use crate::testing::samples::{Kind, intent, submission};
use crate::time::EpochMs;
use proptest::prelude::*;

const SALT: Salt = Salt::new([7; 32]);

fn submitted(intent: Intent) -> Event {
    let change = Change::Submitted(Box::new(submission(intent, 2)));
    Event { at_ms: EpochMs(1), change, requested_by: None, settles: None }
}

/// Every type of change, and a submission of every kind of intent with its optional members filled in.
fn events() -> Vec<Event> {
    let mut events: Vec<Event> = serde_json::from_str(include_str!("../../golden/events.json")).unwrap();
    events.extend(Kind::ALL.map(|kind| submitted(fill_optional(intent(kind, PublicationMode::Manual)))));
    events
}

fn fill_optional(mut intent: Intent) -> Intent {
    let free = || std::iter::once(("note".to_owned(), "free text".to_owned())).collect();
    match &mut intent {
        Intent::Payment(payment) => payment.reference = Some("invoice 7".into()),
        Intent::AssetAction(action) => action.public_fields = free(),
        Intent::KeyCreate(create) => create.requested_signature_profile = Some("ed25519".into()),
        Intent::Refresh(refresh) => refresh.change.metadata = free(),
        Intent::Reshare(reshare) => reshare.change.metadata = free(),
        Intent::Rotate(rotate) => rotate.change.metadata = free(),
        Intent::Recover(recover) => {
            recover.helper_share_cids = vec!["cid-1".into()];
            recover.expected_helper_admission_root = Some("root".into());
        }
    }
    intent.naming(Some("frost-ed25519-sha512:00".into()))
}

fn sees_all(_: Visibility) -> bool {
    true
}

/// A change of this file is a change of the stored form.
#[test]
fn redacted_form_is_pinned() {
    let redacted: Vec<Value> = events().iter().map(|event| redact(event, &SALT).unwrap().event).collect();
    let golden: Vec<Value> =
        serde_json::from_str(include_str!("../../golden/redacted.json")).unwrap_or_default();
    if redacted != golden {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/redacted.json.new");
        std::fs::write(path, serde_json::to_string_pretty(&redacted).unwrap() + "\n").unwrap();
        panic!("the form has changed: {path}");
    }
}

/// Fails for a new member without a rule, so that its visibility is decided.
#[test]
fn every_member_is_listed() {
    for event in events() {
        for (visibility, field) in redact(&event, &SALT).unwrap().hidden {
            assert_ne!(
                visibility,
                Visibility::Sealed,
                "`{}` of {:?} is not listed",
                field.path,
                event.change
            );
        }
    }
}

#[test]
fn unlisted_member_is_sealed() {
    let event = json!({
        "at_ms": 1, "new": "secret-1",
        "change": { "type": "executed", "result_ref": "r", "signature": "secret-2", "more": ["secret-3"] },
        "asked_by": ["secret-4"], "~/\"\n": "secret-5", "settles": { "id": "1", "}\"{": { "]": "secret-6" } },
    });
    let redacted = redact_value(&event, &SALT).unwrap();
    assert!(!redacted.event.to_string().contains("secret"), "{}", redacted.event);
    assert_eq!(redacted.hidden.len(), 6);
    let opened = open(redacted.event.clone(), &redacted.disclosures(sees_all)).unwrap();
    assert_eq!(opened.event, event);
    let unknown = json!({ "at_ms": 1, "change": { "type": "unheard_of", "secret": "secret-5" } });
    let redacted = redact_value(&unknown, &SALT).unwrap();
    assert!(!redacted.event.to_string().contains("secret"));
    assert!(redacted.hidden.iter().all(|(visibility, _)| *visibility == Visibility::Sealed));
}

/// The chain hashes what an export shows.
#[test]
fn redacted_bytes_are_those_of_the_redacted_form() {
    for event in events() {
        let redacted = redact(&event, &SALT).unwrap();
        let (bytes, hides_something) = redacted_bytes(&event, &SALT).unwrap();
        assert_eq!(bytes, canonical::to_bytes(&redacted.event).unwrap());
        assert_eq!(hides_something, !redacted.hidden.is_empty());
        for (_, field) in &redacted.hidden {
            assert_eq!(field.commitment().unwrap(), canonical::digest("svc/field/v1", field).unwrap());
        }
    }
}

#[test]
fn event_with_all_fields_opened_is_the_original() {
    for event in events() {
        let redacted = redact(&event, &SALT).unwrap();
        let form = redacted.event.clone();
        let opened = open(form.clone(), &redacted.disclosures(sees_all)).unwrap();
        assert_eq!(opened.closed, Vec::<String>::new());
        assert_eq!(opened.event, serde_json::to_value(&event).unwrap());
        assert_eq!(serde_json::from_value::<Event>(opened.event).unwrap(), event);
        let unopened = open(form, &[]).unwrap();
        let n_hidden = redact(&event, &SALT).unwrap().hidden.len();
        assert_eq!(unopened.closed.len(), n_hidden);
    }
}

#[test]
fn accounts_and_free_texts_are_not_in_the_redacted_form() {
    for event in events() {
        let form = redact(&event, &SALT).unwrap().event.to_string();
        for hidden in ["acct-1", "free text", "drill", "invoice", "ext-77", "cid-1", "12500 <="] {
            assert!(!form.contains(hidden), "`{hidden}` in {form}");
        }
    }
}

/// The open members that have 32 bytes or more in hexadecimal. None of them is a digest from which an account, a reference or a reason
/// could be guessed: ids and names, public keys and what follows from them, what the caller chose, salted digests of credentials, and digests
/// over the signatures of nodes or of the key, which no reader of the redacted form has.
const OPEN_DIGESTS: [&str; 18] = [
    "bundle_hash",
    "epoch_fence_token_hex",
    "export_ref",
    "key_id",
    "merkle_root",
    "operation",
    "operation_id",
    "package_hash",
    "package_hex",
    "public_key_hex",
    "publication_receipt",
    "policy_receipt_id",
    "request_digest",
    "result_ref",
    "root",
    "salt",
    "sha256",
    "typed_data_root",
];

#[test]
fn open_digests_are_none_from_which_hidden_values_could_be_guessed() {
    fn walk(value: &Value, name: &str, found: &mut std::collections::BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                members
                    .iter()
                    .filter(|(name, _)| *name != "commitment")
                    .for_each(|(name, value)| walk(value, name, found));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, name, found)),
            Value::String(text) if text.len() >= 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                found.insert(name.to_owned());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = std::collections::BTreeSet::new();
    for event in events() {
        walk(&redact(&event, &SALT).unwrap().event, "", &mut found);
    }
    assert!(found.contains("operation_id") && found.contains("bundle_hash"), "{found:?}");
    let unlisted: Vec<_> = found.iter().filter(|name| !OPEN_DIGESTS.contains(&name.as_str())).collect();
    assert!(unlisted.is_empty(), "{unlisted:?}");
}

/// Two fields of one event, or one field in two events, do not reveal that their values are equal.
#[test]
fn equal_values_have_different_commitments() {
    let payment =
        |salt: &Salt| redact(&submitted(intent(Kind::Payment, PublicationMode::Manual)), salt).unwrap();
    let at =
        |redacted: &Redacted, pointer: &str| redacted.event.pointer(pointer).unwrap()["commitment"].clone();
    let (first, second) = (payment(&SALT), payment(&Salt::new([8; 32])));
    assert_ne!(at(&first, "/change/intent/from_account"), at(&second, "/change/intent/from_account"));
    let salts: std::collections::BTreeSet<Hex32> = first.hidden.iter().map(|(_, field)| field.salt).collect();
    assert_eq!(salts.len(), first.hidden.len());
}

#[test]
fn altered_disclosure_is_rejected() {
    let event = submitted(intent(Kind::Payment, PublicationMode::Manual));
    let redacted = redact(&event, &SALT).unwrap();
    let form = redacted.event.clone();
    let fields = redacted.disclosures(sees_all);
    for (index, field) in fields.iter().enumerate() {
        let with = |altered: Disclosure| {
            let mut fields = fields.clone();
            fields[index] = altered;
            open(form.clone(), &fields).unwrap_err()
        };
        let mismatch = DisclosureError::Mismatch(field.path.clone());
        assert_eq!(with(Disclosure { value: json!("another"), ..field.clone() }), mismatch);
        assert_eq!(with(Disclosure { salt: Hex32::ZERO, ..field.clone() }), mismatch);
        let elsewhere = "/at_ms".to_owned();
        let error = with(Disclosure { path: elsewhere.clone(), ..field.clone() });
        assert_eq!(error, DisclosureError::NoCommitment(elsewhere));
    }
    let mut masked = form;
    *masked.pointer_mut("/change/intent/to_account/shown").unwrap() = json!("…9999");
    let error = open(masked, &fields).unwrap_err();
    assert_eq!(error, DisclosureError::Mask("/change/intent/to_account".into()));
}

/// Callers can send such values.
#[test]
fn value_that_looks_like_a_commitment_is_kept() {
    let mut action = intent(Kind::AssetAction, PublicationMode::Manual);
    if let Intent::AssetAction(action) = &mut action {
        action.public_fields = std::iter::once(("commitment".to_owned(), "ab".repeat(32))).collect();
    }
    let event = submitted(action);
    let redacted = redact(&event, &SALT).unwrap();
    let form = redacted.event.clone();
    let opened = open(form, &redacted.disclosures(sees_all)).unwrap();
    assert_eq!(serde_json::from_value::<Event>(opened.event).unwrap(), event);
}

proptest! {
    #[test]
    fn masks_show_at_most_four_characters(name in "\\PC{0,12}") {
        let shown = last_four(&name);
        prop_assert!(shown.chars().count() <= 5);
        if name.chars().count() <= 4 {
            prop_assert_eq!(shown, "…");
        }
    }

    /// Whatever an object has, its commitments are at the paths of what they hide, and opening them restores it.
    #[test]
    fn any_object_is_redacted_and_opened(
        members in prop::collection::btree_map("\\PC{0,6}", "\\PC{0,8}", 0..5),
        event in 0..26_usize,
    ) {
        let mut object = serde_json::to_value(&events()[event]).unwrap();
        for (name, value) in &members {
            object[name] = json!({ name: [value, { value: name }] });
            object["change"][name] = json!(value);
        }
        let redacted = redact_value(&object, &SALT).unwrap();
        let opened = open(redacted.event.clone(), &redacted.disclosures(sees_all)).unwrap();
        prop_assert_eq!(opened.event, object);
    }

    #[test]
    fn open_does_not_panic_on_any_json(value in "\\PC{0,64}", path in "(/[a-z~0-9]{0,4}){0,4}") {
        let event = serde_json::from_str(&value).unwrap_or(json!({ "a": { "commitment": "x" }, "b": [value] }));
        let _ = open(event, &[Disclosure { path, salt: Hex32::ZERO, value: Value::Null }]);
    }
}
