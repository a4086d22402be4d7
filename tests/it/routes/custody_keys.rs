use super::assert_refused_by_name;
use crate::harness::custody::{
    KEYS, admit, client, create_key, execute, key, key_path, path, recover, refresh, reshare, rotate, sign,
    submit,
};
use crate::harness::modes::TestCaller;
use crate::harness::samples::{payment, with};
use crate::harness::world::World;
use serde_json::{Value, json};

#[tokio::test]
async fn missing_or_wrong_member_of_a_key_creation_is_named() {
    let world = World::ticking().await;
    let too_many: Vec<u16> = (0..65).collect();
    let cases = [
        ("/key_ref", Value::Null, "`/key_ref` is required"),
        ("/key_ref", json!(""), "`/key_ref` must not be empty"),
        ("/key_ref", json!("x".repeat(1025)), "`/key_ref` must be at most 1024 bytes"),
        ("/key_ref", json!("development/x"), "`/key_ref` must not begin with `development/`"),
        ("/tenant_id", json!(""), "`/tenant_id` must not be empty"),
        ("/asset_id", Value::Null, "`/asset_id` is required"),
        ("/purpose", json!(7), "`/purpose` must be a string, not a number"),
        ("/threshold", json!(0), "`/threshold` must be 2 to 3, the number of participants, not `0`"),
        ("/threshold", json!(1), "`/threshold` must be 2 to 3, the number of participants, not `1`"),
        ("/threshold", json!(4), "`/threshold` must be 2 to 3, the number of participants, not `4`"),
        ("/threshold", json!(-2), "`/threshold` must be an integer from 0 to 65535"),
        ("/participants", json!([0, 1, 1]), "`/participants` names participant `1` twice"),
        ("/participants", json!([]), "`/participants` must name 2 to 64 participants, not 0"),
        ("/participants", json!(too_many), "`/participants` must have at most 64 entries, not 65"),
        ("/participants", json!([0, 16]), "`/participants` names participant `16`; this deployment has"),
        ("/signature_profile", json!(""), "`/signature_profile` must not be empty"),
        ("/chains", json!("bitcoin"), "`/chains` must be an array"),
        ("/client", Value::Null, "`/client` is required"),
        (
            "/client/client_id",
            json!("operation-gateway"),
            "`/client/client_id` must not be `operation-gateway`",
        ),
    ];
    assert_refused_by_name(&world, KEYS, &key("bad"), &cases).await;
    world.get(&key_path("bad", "")).await.fails(404, "custody_key_not_found");
}

#[tokio::test]
async fn confusable_key_refs_are_refused_in_every_request() {
    let world = World::ticking().await;
    create_key(&world, "vault").await;
    let cases = [
        (".", "must not be `.` or `..`, which clients remove from paths"),
        ("..", "must not be `.` or `..`, which clients remove from paths"),
        (" ", "must not have a space at either end, or two in a row"),
        ("vault ", "must not have a space at either end, or two in a row"),
        ("vault\u{200b}", "must consist of visible characters and spaces, and has U+200B"),
        ("vault\u{202e}1", "must consist of visible characters and spaces, and has U+202E"),
        ("vault\n", "must consist of visible characters and spaces, and has U+000A"),
        ("cafe\u{301}", "must be in Unicode's normalization form C (NFC)"),
    ];
    for (name, rule) in cases {
        let requests = [
            (KEYS.to_owned(), with(key("x"), "/key_ref", json!(name)), "/key_ref"),
            (key_path("vault", "/rotate"), with(rotate("x"), "/new_key_ref", json!(name)), "/new_key_ref"),
            ("/v1/operations/sign".to_owned(), with(payment("x"), "/key_ref", json!(name)), "/key_ref"),
        ];
        for (path, body, pointer) in requests {
            let message = world.post(&path, &body).await.fails(400, "invalid_json");
            assert_eq!(message, format!("`{pointer}` {rule}"), "{name:?}");
        }
    }
    for name in ["caf\u{e9}", "cold vault 2"] {
        world.post(KEYS, &key(name)).await.ok();
    }
    // A path with such a name is not refused: the key is not found.
    world.get(&key_path("%00", "")).await.fails(404, "custody_key_not_found");
    world.get(&key_path("vault%00", "/operations")).await.fails(404, "custody_key_not_found");
    world.get(&key_path("vault%E2%80%8B", "")).await.fails(404, "custody_key_not_found");
}

#[tokio::test]
async fn missing_or_wrong_member_of_a_custody_signature_is_named() {
    let world = World::ticking().await;
    create_key(&world, "cold").await;
    let cases = [
        ("/idempotency_key", Value::Null, "`/idempotency_key` is required"),
        ("/idempotency_key", json!(""), "`/idempotency_key` must not be empty"),
        (
            "/request_digest",
            json!("AB".repeat(32)),
            "`/request_digest` must be 64 lowercase hexadecimal characters",
        ),
        ("/typed_data_root", Value::Null, "`/typed_data_root` is required"),
        (
            "/requested_participants",
            json!([0, 9]),
            "`/requested_participants` must be participants of the key",
        ),
        ("/public_fields", json!({ "a": 1 }), "`/public_fields/a` must be a string"),
        ("/public_fields", json!({ "n".repeat(1025): "" }), "`/public_fields` must have names of at most"),
        ("/publication_mode", json!("later"), "`/publication_mode` must be one of `manual`, `automatic`"),
        ("/epoch_fence_token_hex", json!("xyz"), "`/epoch_fence_token_hex` must be 1 to 128"),
    ];
    assert_refused_by_name(&world, &key_path("cold", "/sign"), &sign("bad"), &cases).await;
}

#[tokio::test]
async fn missing_or_wrong_member_of_a_key_change_is_named() {
    let world = World::ticking().await;
    create_key(&world, "cold").await;
    let at = |action| key_path("cold", action);
    let cases = [
        ("/target_epoch", Value::Null, "`/target_epoch` is required"),
        ("/target_epoch", json!(""), "`/target_epoch` must be 1 to 128 characters"),
        ("/target_epoch", json!("é".repeat(129)), "`/target_epoch` must be 1 to 128 characters"),
        ("/target_epoch", json!(2), "`/target_epoch` must be a string"),
        ("/reason", json!(""), "`/reason` must not be empty"),
        ("/idempotency_key", json!(""), "`/idempotency_key` must not be empty"),
        ("/metadata", json!({ "a": null }), "`/metadata/a` must be a string"),
        ("/client/subject_id", json!(""), "`/client/subject_id` must not be empty"),
    ];
    for (action, valid) in
        [("/refresh", refresh("2")), ("/reshare", reshare("2")), ("/recover", recover("2"))]
    {
        assert_refused_by_name(&world, &at(action), &valid, &cases).await;
    }
    assert_refused_by_name(&world, &at("/rotate"), &rotate("new"), &cases).await;
    let cases = [
        ("/new_participants", json!([1]), "`/new_participants` must name 2 to 64"),
        ("/new_participants", json!([1, 2, 99]), "`/new_participants` names participant `99`"),
        ("/threshold", json!(5), "`/threshold` must be 2 to 4, the number of participants, not `5`"),
        ("/threshold", json!(1), "`/threshold` must be 2 to 4, the number of participants, not `1`"),
    ];
    assert_refused_by_name(&world, &at("/reshare"), &reshare("2"), &cases).await;
    let cases = [
        ("/new_key_ref", json!(""), "`/new_key_ref` must not be empty"),
        ("/new_key_ref", json!("cold"), "`/new_key_ref` must be another name"),
        ("/new_key_ref", json!("development/y"), "`/new_key_ref` must not begin with"),
        ("/participants", json!([2, 3, 3]), "`/participants` names participant `3` twice"),
        ("/threshold", json!(1), "`/threshold` must be 2 to 3, the number of participants, not `1`"),
    ];
    assert_refused_by_name(&world, &at("/rotate"), &rotate("new"), &cases).await;
    let cases = [
        (
            "/recovering_participant",
            json!(7),
            "`/recovering_participant` must be participants of the key: 0, 1, 2",
        ),
        ("/recovering_participant", json!(1), "`/helper_participants` must not name participant `1`"),
        ("/helper_participants", json!([0, 9]), "`/helper_participants` must be participants of the key"),
        ("/helper_participants", json!([0]), "`/helper_participants` must name 2 to 64"),
        ("/recovery_case_ref", json!(""), "`/recovery_case_ref` must not be empty"),
        ("/helper_share_cids", Value::Null, "`/helper_share_cids` is required"),
    ];
    assert_refused_by_name(&world, &at("/recover"), &recover("2"), &cases).await;
    let strict = with(with(key("wide"), "/participants", json!([0, 1, 2, 3])), "/threshold", json!(3));
    execute(&world, KEYS, &strict).await;
    let few = world.post(&key_path("wide", "/recover"), &recover("2")).await.fails(400, "invalid_json");
    assert_eq!(few, "`/helper_participants` must name at least 3 participants, the key's threshold");
}

#[tokio::test]
async fn operations_on_an_unknown_key_are_not_found() {
    let world = World::ticking().await;
    let bodies = [
        ("sign", sign("a")),
        ("refresh", refresh("2")),
        ("reshare", reshare("2")),
        ("rotate", rotate("n")),
        ("recover", recover("2")),
    ];
    for (action, body) in bodies {
        let path = key_path("unknown", &format!("/{action}"));
        world.post(&path, &body).await.fails(404, "custody_key_not_found");
    }
    for name in ["unknown", "%ff", "%00", "..%2F..", &"x".repeat(2000), "a%20b"] {
        world.get(&key_path(name, "")).await.fails(404, "custody_key_not_found");
        world.get(&key_path(name, "/operations")).await.fails(404, "custody_key_not_found");
    }
}

#[tokio::test]
async fn key_exists_from_its_submission_and_is_created_once() {
    let world = World::ticking().await;
    let create = submit(&world, KEYS, &key("cold")).await;
    let view = world.get(&key_path("cold", "")).await.ok();
    assert_eq!((&view["state"], &view["public_key_artifact_ref"]), (&json!("creating"), &json!("")));
    assert_eq!((&view["active_epoch"], &view["latest_operation_id"]), (&json!("1"), &create["operation_id"]));
    let again = world.post(KEYS, &key("cold")).await;
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.ok()["operation"], create);
    for (pointer, value) in
        [("/threshold", json!(3)), ("/asset_id", json!("eth")), ("/client/subject_id", json!("eve"))]
    {
        let other = with(key("cold"), pointer, value);
        world.post(KEYS, &other).await.fails(409, "custody_key_exists");
    }
    let created = create_key(&world, "cold").await;
    let artifact = created["public_key_artifact_ref"].as_str().unwrap();
    assert_eq!(created["state"], "active");
    let public_key = artifact.strip_prefix("frost-ed25519-sha512:").unwrap();
    assert_eq!((public_key.len(), hex::decode(public_key).is_ok()), (64, true));
    world.post(KEYS, &with(key("cold"), "/purpose", json!("hot"))).await.fails(409, "custody_key_exists");
}

#[tokio::test]
async fn failed_creation_frees_the_name_even_for_the_same_request() {
    let world = World::ticking().await;
    world.faults.set_rejecting(true);
    let first = admit(&world, KEYS, &key("cold")).await;
    world.post_nothing(&path(&first, "/execute")).await.fails(409, "operation_failed");
    assert_eq!(world.get(&key_path("cold", "")).await.ok()["state"], "failed");
    world.post(&key_path("cold", "/sign"), &sign("a")).await.fails(409, "custody_key_not_active");
    world.faults.set_rejecting(false);
    let second = submit(&world, KEYS, &key("cold")).await;
    assert_ne!(second["operation_id"], first["operation_id"]);
    assert_eq!(submit(&world, KEYS, &key("cold")).await, second);
    assert_eq!(create_key(&world, "cold").await["state"], "active");
    let operations = world.get(&key_path("cold", "/operations")).await.ok();
    let ids: Vec<_> =
        operations["operations"].as_array().unwrap().iter().map(|one| &one["operation_id"]).collect();
    assert_eq!(ids, [&second["operation_id"], &first["operation_id"]]);
}

#[tokio::test]
async fn signature_profile_aliases_of_the_deployment_are_accepted() {
    let world = World::ticking().await;
    let aliased = with(key("aliased"), "/signature_profile", json!("ecdsa-\u{e9}\"x"));
    let answer = world.post(KEYS, &aliased).await;
    assert_eq!(
        answer.header("warning"),
        "299 - \"signature_profile ecdsa-x is replaced by frost-ed25519-sha512\""
    );
    let shown = answer.ok()["operation"].clone();
    assert_eq!(shown["warnings"][0]["code"], "signature_profile_replaced");
    assert_eq!(shown["warnings"][0]["pointer"], "/signature_profile");
    let intent = shown["intent"].clone();
    assert_eq!(intent["signature_profile"], "frost-ed25519-sha512");
    assert_eq!(intent["requested_signature_profile"], "ecdsa-\u{e9}\"x");
    let exact =
        world.post(KEYS, &with(key("exact"), "/signature_profile", json!("frost-secp256k1-sha256-tr"))).await;
    assert_eq!(exact.header("warning"), "");
    assert_eq!(exact.ok()["operation"]["intent"]["requested_signature_profile"], Value::Null);
    let strict = World::with(&[("signature_profile_aliases", "bip340=frost-secp256k1-sha256-tr")]).await;
    let message = strict.post(KEYS, &aliased).await.fails(400, "invalid_json");
    assert_eq!(
        message,
        "`/signature_profile` must be one of `frost-ed25519-sha512`, `frost-secp256k1-sha256-tr`, `bip340`"
    );
}

#[tokio::test]
async fn epochs_are_checked_before_anything_is_created() {
    let world = World::ticking().await;
    create_key(&world, "cold").await;
    execute(&world, &key_path("cold", "/refresh"), &refresh("5")).await;
    for (action, body) in [
        ("/refresh", refresh("5")),
        ("/refresh", refresh("1")),
        ("/reshare", reshare("4")),
        ("/recover", recover("005")),
    ] {
        let body = with(body, "/idempotency_key", Value::Null);
        world.post(&key_path("cold", action), &body).await.fails(409, "epoch_conflict");
    }
    submit(&world, &key_path("cold", "/refresh"), &refresh("blue")).await;
}

#[tokio::test]
async fn request_without_an_idempotency_key_is_identified_by_its_content() {
    let world = World::ticking().await;
    create_key(&world, "cold").await;
    let unnamed = |epoch| with(refresh(epoch), "/idempotency_key", Value::Null);
    let refresh_path = key_path("cold", "/refresh");
    let first = submit(&world, &refresh_path, &unnamed("2")).await;
    assert_eq!(submit(&world, &refresh_path, &unnamed("2")).await, first);
    assert_ne!(submit(&world, &refresh_path, &unnamed("3")).await["operation_id"], first["operation_id"]);
    let named = submit(&world, &refresh_path, &refresh("2")).await;
    let other = world.post(&refresh_path, &with(refresh("2"), "/reason", json!("other"))).await;
    assert!(other.header("warning").contains("another body"));
    let other = other.ok()["operation"].clone();
    assert_eq!(other["intent"]["reason"], named["intent"]["reason"]);
    assert_eq!(other["warnings"][0]["code"], "idempotency_mismatch");
}

#[tokio::test]
async fn key_operations_are_paged_newest_first() {
    let world = World::ticking().await;
    create_key(&world, "cold").await;
    for number in 0..7 {
        submit(&world, &key_path("cold", "/sign"), &sign(&format!("s-{number}"))).await;
    }
    let all = world.get(&key_path("cold", "/operations")).await.ok();
    assert_eq!(all["operations"].as_array().unwrap().len(), 8);
    assert_eq!(all.get("next_cursor"), None);
    assert_eq!(all["operations"][7]["operation_type"], "key_create");
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&key_path("cold", &format!("/operations?limit=3{cursor}"))).await.ok();
        seen.extend(page["operations"].as_array().unwrap().clone());
        let Some(next) = page["next_cursor"].as_str() else { break };
        assert_eq!(page["operations"].as_array().unwrap().len(), 3);
        cursor = format!("&cursor={next}");
    }
    assert_eq!(json!(seen), all["operations"]);
    assert_eq!(world.get(&key_path("cold", "")).await.ok()["latest_operation_id"], seen[0]["operation_id"]);
    for bad in [
        "limit=0",
        "limit=201",
        "limit=x",
        "limit=-1",
        "limit=+1",
        "limit=1&limit=2",
        "limit=",
        "cursor=x",
        "cursor=%00",
        "cursor=+1",
        "cursor=",
        "cursor=9223372036854775808",
    ] {
        let path = key_path("cold", &format!("/operations?{bad}"));
        world.get(&path).await.fails(400, "invalid_request");
    }
    world.get(&key_path("cold", "/operations?limit=200&colour=blue&cursor=9223372036854775807")).await.ok();
}

/// The identity headers of Dora, who submits the requests of these tests.
fn identity<'a>(tenant: &'a str, scopes: &'a str) -> Vec<(&'static str, &'a str)> {
    let tenant = Some(tenant);
    TestCaller { client: "custody", subject: "dora", roles: "operator", scopes, tenant }.headers()
}

#[tokio::test]
async fn key_of_another_tenant_gets_exactly_the_answer_of_an_unknown_key() {
    let world = World::ticking().await;
    let client_without_scopes = with(client(), "/scopes", json!([]));
    let body = with(with(key("ours"), "/tenant_id", json!("acme")), "/client", client_without_scopes.clone());
    let headers = |tenant| identity(tenant, "custody.*");
    let create = world.call_as(&headers("acme"), "POST", KEYS, &body).await.ok()["operation"].clone();
    world.call_as(&headers("acme"), "GET", &key_path("ours", ""), &Value::Null).await.ok();
    for suffix in ["", "/operations"] {
        let theirs = world.call_as(&headers("other"), "GET", &key_path("ours", suffix), &Value::Null).await;
        let missing = world.call_as(&headers("other"), "GET", &key_path("none", suffix), &Value::Null).await;
        assert_eq!(theirs.without_request_id().replace("ours", "none"), missing.without_request_id());
        theirs.fails(404, "custody_key_not_found");
    }
    for (action, body) in [("/sign", sign("a")), ("/refresh", refresh("2")), ("/rotate", rotate("n"))] {
        let body = with(body, "/client", client_without_scopes.clone());
        let answer = world.call_as(&headers("other"), "POST", &key_path("ours", action), &body).await;
        answer.fails(404, "custody_key_not_found");
    }
    for suffix in ["", "/evidence"] {
        let answer = world.call_as(&headers("other"), "GET", &path(&create, suffix), &Value::Null).await;
        answer.fails(404, "operation_not_found");
    }
    let foreign = with(body, "/tenant_id", json!("other"));
    world.call_as(&headers("acme"), "POST", KEYS, &foreign).await.fails(403, "client_binding_mismatch");
    let claimed = with(with(key("x"), "/client/tenant", json!("acme")), "/tenant_id", json!("other"));
    world.post(KEYS, &claimed).await.fails(403, "client_binding_mismatch");
}

/// Without an identity, the tenant is `client.tenant`, or `default` if it has such a key, or that of the only key with the name.
#[tokio::test]
async fn caller_without_identity_finds_keys_by_name() {
    let world = World::ticking().await;
    for tenant in ["acme", "other"] {
        submit(&world, KEYS, &with(key(&format!("only-{tenant}")), "/tenant_id", json!(tenant))).await;
        submit(&world, KEYS, &with(key("shared"), "/tenant_id", json!(tenant))).await;
    }
    let operation = submit(&world, &key_path("only-acme", "/sign"), &sign("a")).await;
    assert_eq!(operation["tenant_id"], "acme");
    let message = world.get(&key_path("shared", "")).await.fails(400, "invalid_request");
    assert!(message.contains("several tenants have a key `shared`"), "{message}");
    world.post(&key_path("shared", "/sign"), &sign("a")).await.fails(400, "invalid_request");
    let named = with(sign("a"), "/client/tenant", json!("other"));
    assert_eq!(submit(&world, &key_path("shared", "/sign"), &named).await["tenant_id"], "other");
    submit(&world, KEYS, &key("shared")).await;
    assert_eq!(submit(&world, &key_path("shared", "/sign"), &sign("a")).await["tenant_id"], "default");
}

#[tokio::test]
async fn each_route_requires_its_scope() {
    let world = World::ticking().await;
    create_key(&world, "cold").await;
    let sign_path = key_path("cold", "/sign");
    let without_scopes = |body| with(body, "/client/scopes", json!([]));
    let cases = [
        ("POST", KEYS.to_owned(), without_scopes(key("k")), "custody.manage"),
        ("POST", sign_path.clone(), without_scopes(sign("s")), "custody.sign"),
        ("POST", key_path("cold", "/refresh"), without_scopes(refresh("2")), "custody.manage"),
        ("POST", key_path("cold", "/reshare"), without_scopes(reshare("2")), "custody.manage"),
        ("POST", key_path("cold", "/rotate"), without_scopes(rotate("n")), "custody.manage"),
        ("POST", key_path("cold", "/recover"), without_scopes(recover("2")), "custody.manage"),
        ("GET", key_path("cold", ""), Value::Null, "custody.read"),
        ("GET", key_path("cold", "/operations"), Value::Null, "custody.read"),
    ];
    for (method, path, body, scope) in &cases {
        for wrong in [
            "",
            "operations.*",
            "audit.read",
            if *scope == "custody.sign" { "custody.manage" } else { "operations.sign" },
        ] {
            let answer = world.call_as(&identity("default", wrong), method, path, body).await;
            answer.fails(403, "insufficient_scope");
        }
        world.call_as(&identity("default", scope), method, path, body).await.ok();
    }
}

#[tokio::test]
async fn custody_submissions_above_the_rate_limit_are_refused() {
    let world = World::with(&[("admission_rate", "1"), ("admission_burst", "2")]).await;
    submit(&world, KEYS, &key("one")).await;
    submit(&world, KEYS, &key("two")).await;
    world.post(KEYS, &key("three")).await.fails(429, "policy_admission_rate_limited");
    submit(&world, KEYS, &key("one")).await;
}

/// Such an operation may be submitted and approved (`host/docs/interface.md`, section *Keys*).
#[tokio::test]
async fn operation_on_a_key_in_creation_executes_only_once_the_key_is_active() {
    let world = World::with(&[("auto_provision_keys", "false")]).await;
    submit(&world, KEYS, &key("cold")).await;
    for (action, body) in [("/sign", sign("early")), ("/refresh", refresh("2"))] {
        let early = admit(&world, &key_path("cold", action), &body).await;
        assert_eq!(
            (&early["state"], &early["approvals"]["approved"]),
            (&json!("pending_approval"), &json!(2))
        );
        let message =
            world.post_nothing(&path(&early, "/execute")).await.fails(409, "custody_key_not_active");
        assert_eq!(message, "the key is `creating`");
        let now = world.get(&path(&early, "")).await.ok();
        assert_eq!(now["next_actions"], json!(["approve", "execute"]), "the quorum is reached");
    }
    create_key(&world, "cold").await;
    let early = submit(&world, &key_path("cold", "/sign"), &sign("early")).await;
    assert_eq!(world.post_nothing(&path(&early, "/execute")).await.ok()["state"], "executed");
    let newest = key_path("cold", "/operations?limit=1");
    assert_eq!(world.get(&newest).await.ok()["operations"].as_array().unwrap().len(), 1);
}
