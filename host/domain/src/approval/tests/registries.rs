use super::{entry, key, public};
use crate::approval::{Approvers, ApproversFile};
use serde_json::{Value, json};

/// The error for a registry with these entries.
fn error_of(entries: &[Value]) -> String {
    let file = json!({ "format": "svc/approvers/v2", "approvers": entries });
    parse_error(&file.to_string())
}

/// As [`error_of`]; `None` for a registry that is accepted.
fn error_of_or_none(entry: Value) -> Option<String> {
    let file = json!({ "format": "svc/approvers/v2", "approvers": [entry] });
    Approvers::parse(file.to_string().as_bytes()).err().map(|error| error.to_string())
}

/// The error for a text, which must be one line.
#[track_caller]
fn parse_error(text: &str) -> String {
    let error = Approvers::parse(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

fn alice() -> Value {
    entry("alice", &["default"], &["approver"], &key(1))
}

fn webauthn() -> Value {
    let vectors: Value = serde_json::from_str(include_str!("../../../vectors/webauthn.json")).unwrap();
    vectors["registry"]["approvers"][0]["keys"][0].clone()
}

fn with(mut value: Value, pointer: &str, other: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match value.pointer_mut(parent).unwrap() {
        Value::Object(members) => drop(members.insert(name.to_owned(), other)),
        Value::Array(items) => items[name.parse::<usize>().unwrap()] = other,
        scalar => panic!("{scalar}"),
    }
    value
}

#[test]
fn invalid_entry_is_rejected() {
    let point_off_the_curve = format!("04{}", "01".repeat(64));
    let compressed = webauthn()["public_key"].as_str().unwrap()[..66].replacen("04", "02", 1);
    let with_webauthn =
        |pointer: &str, other: Value| with(with(alice(), "/keys/0", webauthn()), pointer, other);
    for (wrong, part) in [
        (
            with(alice(), "/subject_id", json!("")),
            "approver ``: `subject_id` must have names of 1 to 1024 bytes",
        ),
        (with(alice(), "/subject_id", json!("\u{200b} ")), "`subject_id` must have a visible character"),
        (with(alice(), "/tenants", json!([])), "`tenants` must have 1 to 64 entries"),
        (with(alice(), "/tenants", json!(["*", "default"])), "`tenants` must name tenants, or `*` alone"),
        (with(alice(), "/tenants", json!(["a", "a"])), "`tenants` has `a` twice"),
        (with(alice(), "/roles", json!([""])), "`roles` must have names"),
        (with(alice(), "/person", json!("")), "`person` must have 1 to 256 bytes of visible characters"),
        (
            with(alice(), "/attributes", json!({ "team": "a\u{7}" })),
            "`team` must have 1 to 256 bytes of visible",
        ),
        (
            with(alice(), "/attributes", json!({ "Team": "a" })),
            "an attribute's name must be a lowercase letter",
        ),
        (with(alice(), "/keys", json!(vec![webauthn(); 33])), "`keys` must have at most 32 entries"),
        // The neutral element, and bytes that are not a point of the curve.
        (
            with(alice(), "/keys/0/public_key", json!(format!("01{}", "00".repeat(31)))),
            "must be an Ed25519 public key",
        ),
        (
            with(alice(), "/keys/0/public_key", json!(format!("02{}", "00".repeat(31)))),
            "must be an Ed25519 public key",
        ),
        (
            with(with(alice(), "/keys/0/not_before_ms", json!(2)), "/keys/0/not_after_ms", json!(2)),
            "`not_before_ms` must be before",
        ),
        (with_webauthn("/keys/0/credential_id", json!("")), "`credential_id` must have 1 to 768 bytes"),
        (with_webauthn("/keys/0/rp_id", json!("")), "`rp_id` must be a domain"),
        (with_webauthn("/keys/0/origins", json!([])), "`origins` must have 1 to 64 entries"),
        (with_webauthn("/keys/0/public_key", json!(point_off_the_curve)), "uncompressed point of P-256"),
        (with_webauthn("/keys/0/public_key", json!(compressed)), "uncompressed point of P-256"),
        (with_webauthn("/keys/0/public_key", json!("zz")), "must be lowercase hexadecimal"),
        (with_webauthn("/keys/0/algorithm", json!("EdDSA")), "`public_key` must be 32 bytes"),
    ] {
        let error = error_of(&[wrong]);
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn text_that_is_not_a_registry_is_rejected() {
    let sound = json!({ "format": "svc/approvers/v2", "approvers": [alice()] });
    assert!(Approvers::parse(sound.to_string().as_bytes()).is_ok());
    let public = public(&key(1)).to_string();
    let text = sound.to_string();
    for (wrong, part) in [
        ("{".to_owned(), "EOF"),
        ("{}".to_owned(), "missing field `format`"),
        (
            text.replace("/v2", "/v1"),
            "format `svc/approvers/v1` instead of `svc/approvers/v2`: `operation-gateway approvers convert` converts it",
        ),
        (text.replace("/v2", "/v3"), "format `svc/approvers/v3` instead of `svc/approvers/v2`"),
        (text.replacen("\"roles\"", "\"person\":null,\"roles\"", 1), "left out"),
        (text.replacen("\"roles\":[\"approver\"],", "", 1), "`roles` must have 1 to 64 entries"),
        (
            json!({ "format": "svc/approvers/v2", "approvers": [with(alice(), "/keys", json!([]))] })
                .to_string(),
            "left out",
        ),
        (text.replacen("\"roles\"", "\"rules\"", 1), "unknown field `rules`"),
        (text.replacen("\"kind\"", "\"more\":1,\"kind\"", 1), "unknown field `more`"),
        (text.replacen("\"roles\"", "\"roles\":[\"approver\"],\"roles\"", 1), "duplicate field `roles`"),
        (
            text.replacen("\"public_key\"", &format!("\"public_key\":\"{public}\",\"public_key\""), 1),
            "duplicate",
        ),
        (text.replacen("\"kind\"", "\"kind\":\"ed25519\",\"kind\"", 1), "duplicate"),
        (text.replacen("\"kind\"", "\"not_after_ms\":null,\"kind\"", 1), "left out"),
        (text.replacen("\"ed25519\"", "\"rsa\"", 1), "unknown variant `rsa`"),
        (text.replacen(&public, &public.to_uppercase(), 1), "64 lowercase hexadecimal"),
        (text.clone() + "x", "trailing"),
        (json!(["svc/approvers/v2", [alice()]]).to_string(), "objects must be written with their names"),
        (" ".repeat(1024 * 1024 + 1), "more than 1048576 bytes"),
    ] {
        let error = parse_error(&wrong);
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn file_of_the_format_before_is_converted_without_loss() {
    let v1 = json!({ "format": "svc/approvers/v1", "approvers": [alice()] });
    let converted = ApproversFile::convert(v1.to_string().as_bytes()).unwrap();
    let v2 = json!({ "format": "svc/approvers/v2", "approvers": [alice()] });
    assert_eq!(serde_json::to_value(&converted).unwrap(), v2);
    assert!(Approvers::new(converted).is_ok());
    let newer = with(alice(), "/person", json!("alice.meier"));
    for (file, part) in [
        (v2, "format `svc/approvers/v2` instead of `svc/approvers/v1`"),
        (json!({ "format": "svc/approvers/v1", "approvers": [newer] }), "has no persons and attributes"),
    ] {
        let error = ApproversFile::convert(file.to_string().as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn persons_with_several_subjects_are_found() {
    let of = |subject: &str, person: Option<&str>, seed| {
        let entry = entry(subject, &["default"], &["approver"], &key(seed));
        person.map_or(entry.clone(), |person| with(entry, "/person", json!(person)))
    };
    let entries = [
        alice(),
        of("phone", Some("ALICE"), 2),
        of("bob", Some("bob"), 3),
        of("carol", Some("c.may"), 4),
        of("c.desk", Some("c.may"), 5),
    ];
    let file = json!({ "format": "svc/approvers/v2", "approvers": entries });
    let registry = Approvers::parse(file.to_string().as_bytes()).unwrap();
    let doubles = registry.doubles();
    let doubles: Vec<_> = doubles
        .iter()
        .map(|(person, subjects)| (person.as_str(), Vec::from_iter(subjects.iter().copied())))
        .collect();
    assert_eq!(doubles, [("alice", vec!["alice", "phone"]), ("c.may", vec!["c.desk", "carol"])]);
}

#[test]
fn key_or_credential_of_two_approvers_is_rejected() {
    let bob = |seed| entry("bob", &["default"], &["approver"], &key(seed));
    assert_eq!(error_of(&[alice(), bob(1)]), "approvers `alice` and `bob` have the same key");
    assert_eq!(
        error_of(&[alice(), entry("alice", &["default"], &["other"], &key(2))]),
        "approver `alice` appears twice for one tenant"
    );
    assert_eq!(
        error_of(&[alice(), entry("alice", &["*"], &["other"], &key(2))]),
        "approver `alice` appears twice for one tenant"
    );
    for (other, person) in
        [("Alice", "alice"), ("ALICE", "alice"), ("\u{ff41}lice", "alice"), ("rene\u{301}e", "REN\u{c9}E")]
    {
        let entries = [person, other].map(|subject| entry(subject, &["default"], &["approver"], &key(2)));
        let twice = format!("approver `{other}` appears twice for one tenant");
        let second = with(entries[1].clone(), "/keys/0/public_key", json!(public(&key(3))));
        assert_eq!(error_of(&[entries[0].clone(), second]), twice);
    }
    let namesake = entry("alice", &["second"], &["approver"], &key(2));
    let file = json!({ "format": "svc/approvers/v2", "approvers": [alice(), namesake] });
    assert!(Approvers::parse(file.to_string().as_bytes()).is_ok());
    // A plain key that is also a credential's key; then one credential id with two keys.
    let as_credential = with(webauthn(), "/algorithm", json!("EdDSA"));
    let as_credential = with(as_credential, "/public_key", json!(public(&key(1))));
    let two = with(bob(2), "/keys/0", as_credential);
    assert_eq!(error_of(&[alice(), two]), "approvers `alice` and `bob` have the same key");
    let one = with(alice(), "/keys/0", webauthn());
    let another = with(webauthn(), "/algorithm", json!("EdDSA"));
    let another = with(another, "/public_key", json!(public(&key(2))));
    let two = with(bob(2), "/keys/0", another);
    assert_eq!(error_of(&[one, two]), "approvers `alice` and `bob` have the same credential");
    let twice = with(alice(), "/keys", json!([alice()["keys"][0], alice()["keys"][0]]));
    assert_eq!(error_of(&[twice]), "approvers `alice` and `alice` have the same key");
}

/// An origin or a relying party that no browser writes would match no signature.
#[test]
fn origin_that_can_never_match_is_rejected() {
    let with_webauthn = |pointer: &str, other: &str| {
        error_of_or_none(with(with(alice(), "/keys/0", webauthn()), pointer, json!(other)))
    };
    let a_long_label = format!("https://{}.example", "a".repeat(64));
    for wrong in [
        "https://approve.example/",
        "https://approve.example:443",
        "https://approve.example:0443",
        "https://approve.example:0",
        "https://approve.example:65536",
        "https://approve.example:",
        "https://Approve.example",
        "HTTPS://approve.example",
        "https://büro.example",
        "https://approve.example?",
        "https://user@approve.example",
        "https://approve..example",
        "https://192.0.2.1",
        "https://[2001:db8::1]",
        "https://",
        "http://approve.example",
        "http://localhost:80",
        "http://notlocalhost",
        "approve.example",
        "null",
        "android:apk-key-hash:",
        &a_long_label,
    ] {
        let error = with_webauthn("/keys/0/origins/0", wrong).unwrap_or_default();
        assert!(
            error.contains(&format!("`{wrong}`")) && error.contains("`origins` must have"),
            "{wrong}: {error}"
        );
    }
    for right in [
        "https://approve.example",
        "https://approve.example:8443",
        "https://xn--bro-hoa.example",
        "https://localhost",
        "http://localhost:8080",
        "http://gateway.localhost",
        "android:apk-key-hash:RPDd65dfM7p9gYQCD8hbcvIe0fZ2qkSUzVtsqtkQAwE",
    ] {
        assert_eq!(with_webauthn("/keys/0/origins/0", right), None, "{right}");
    }
    for wrong in [
        "https://approve.example",
        "approve.example:8443",
        "Approve.example",
        "approve.example/",
        "192.0.2.1",
        ".",
    ] {
        let error = with_webauthn("/keys/0/rp_id", wrong).unwrap_or_default();
        assert!(
            error.contains(&format!("`{wrong}`")) && error.contains("`rp_id` must be"),
            "{wrong}: {error}"
        );
    }
    assert_eq!(with_webauthn("/keys/0/rp_id", "localhost"), None);
}
