use crate::harness::custody::{KEYS, create_key, key, key_path, sign, submit};
use crate::harness::modes::TestCaller;
use crate::harness::process::SIGN;
use crate::harness::samples::{approval, path, payment, with};
use crate::harness::world::World;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::io::read_to_string;
use tower::ServiceExt as _;

const OPERATIONS: &str = "/v1/operations";
const CUSTODY: &str = "/v1/custody/operations";

/// The ids of a list, from all its pages.
async fn ids(world: &World, headers: &[(&str, &str)], path: &str, member: &str, id: &str) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    let separator = if path.contains('?') { '&' } else { '?' };
    loop {
        let page = format!("{path}{separator}limit=2{cursor}");
        let page = world.call_as(headers, "GET", &page, &Value::Null).await.ok();
        let entries = page[member].as_array().unwrap();
        assert!(entries.len() <= 2);
        ids.extend(entries.iter().map(|entry| entry[id].as_str().unwrap().to_owned()));
        let Some(next) = page["next_cursor"].as_str() else { return ids };
        cursor = format!("&cursor={next}");
    }
}

async fn operations(world: &World, headers: &[(&str, &str)], path: &str) -> Vec<String> {
    ids(world, headers, path, "operations", "operation_id").await
}

fn id(operation: &Value) -> String {
    operation["operation_id"].as_str().unwrap().to_owned()
}

async fn pay(world: &World, name: &str) -> Value {
    world.post(SIGN, &payment(name)).await.ok()["operation"].clone()
}

#[tokio::test]
async fn answers_are_compressed_for_readers_that_ask() {
    let world = World::ticking().await;
    let operation = pay(&world, "one").await;
    pay(&world, "two").await;
    let asked = async |path: &str, encodings: &str| {
        let request = Request::get(path).header("host", "gateway").header("accept-encoding", encodings);
        let answer = world.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let encoding = answer.headers().get("content-encoding").cloned();
        (encoding, to_bytes(answer.into_body(), usize::MAX).await.unwrap())
    };
    let plain = world.get(OPERATIONS).await;
    assert_eq!(plain.headers.get("content-encoding"), None);
    assert_eq!(plain.header("vary"), "accept-encoding");
    let (encoding, bytes) = asked(OPERATIONS, "gzip, deflate, br").await;
    assert_eq!(encoding.unwrap(), "gzip");
    assert!(bytes.len() < plain.bytes.len() / 2, "{} of {}", bytes.len(), plain.bytes.len());
    assert_eq!(read_to_string(GzDecoder::new(&*bytes)).unwrap().as_bytes(), plain.bytes);
    let (encoding, bytes) = asked(&path(&operation, ""), "br").await;
    assert_eq!(
        (encoding, serde_json::from_slice::<Value>(&bytes).unwrap()["operation_id"].clone()),
        (None, operation["operation_id"].clone())
    );
}

#[tokio::test]
async fn operations_are_listed_newest_first_and_found_by_filters() {
    let world = World::ticking().await;
    create_key(&world, "cold").await;
    let mut made = Vec::new();
    for name in ["one", "two", "three", "four", "five"] {
        made.push(pay(&world, name).await);
    }
    let signed = submit(&world, &key_path("cold", "/sign"), &sign("s-1")).await;
    for subject in ["alice", "bob"] {
        world.post(&path(&made[1], "/approve"), &approval(subject)).await.ok();
    }
    let newest_first: Vec<_> = made.iter().rev().map(id).collect();
    assert_eq!(operations(&world, &[], OPERATIONS).await, newest_first);
    let all = world.get(OPERATIONS).await.ok();
    assert_eq!(all.get("next_cursor"), None);
    assert_eq!(
        all["operations"][4],
        world.get(&path(&made[0], "")).await.ok(),
        "an entry is the operation's view"
    );
    let times = ["created_after_ms", "created_before_ms"];
    let from = |number: usize| made[number]["created_at_ms"].as_u64().unwrap();
    for (filter, expected) in [
        ("state=admitted".to_owned(), &[1][..]),
        ("state=pending_approval".to_owned(), &[4, 3, 2, 0]),
        ("state=published".to_owned(), &[]),
        ("operation_type=sign".to_owned(), &[4, 3, 2, 1, 0]),
        ("operation_type=key_create".to_owned(), &[]),
        ("key_ref=treasury-1&state=admitted".to_owned(), &[1]),
        ("key_ref=cold".to_owned(), &[]),
        ("idempotency_key=three".to_owned(), &[2]),
        ("idempotency_key=thr%65e".to_owned(), &[2]),
        ("idempotency_key=six".to_owned(), &[]),
        ("idempotency_key=three&state=admitted".to_owned(), &[]),
        (format!("{}={}", times[0], from(2)), &[4, 3]),
        (format!("{}={}", times[1], from(2)), &[1, 0]),
        (format!("{}={}&{}={}", times[0], from(0), times[1], from(2)), &[1]),
    ] {
        let found = operations(&world, &[], &format!("{OPERATIONS}?{filter}")).await;
        assert_eq!(found, expected.iter().map(|number| id(&made[*number])).collect::<Vec<_>>(), "{filter}");
    }
    let of_key = operations(&world, &[], &format!("{CUSTODY}?key_ref=cold")).await;
    assert_eq!(of_key.len(), 2);
    assert_eq!(of_key[0], id(&signed));
    assert_eq!(operations(&world, &[], &format!("{CUSTODY}?operation_type=sign")).await, [id(&signed)]);
    let named = format!("{CUSTODY}?key_ref=cold&idempotency_key=s-1");
    assert_eq!(operations(&world, &[], &named).await, [id(&signed)]);
    let message = world.get(&format!("{CUSTODY}?idempotency_key=s-1")).await.fails(400, "invalid_request");
    assert!(message.contains("needs `key_ref`"), "{message}");
}

fn caller<'a>(subject: &'a str, tenant: &'a str, scopes: &'a str) -> Vec<(&'static str, &'a str)> {
    let tenant = Some(tenant);
    TestCaller { client: "desk", subject, roles: "approver", scopes, tenant }.headers()
}

/// As the body of a request names this caller.
fn client(subject: &str) -> Value {
    json!({ "client_id": "desk", "subject_id": subject, "roles": [], "scopes": [] })
}

#[tokio::test]
async fn approver_finds_what_awaits_it() {
    let world = World::ticking().await;
    let all = "operations.*";
    let (carol, alice) = (caller("carol", "default", all), caller("alice", "default", all));
    let mut made = Vec::new();
    for (subject, name) in [("carol", "one"), ("alice", "mine"), ("carol", "two"), ("carol", "three")] {
        let (headers, body) =
            (caller(subject, "default", all), with(payment(name), "/client", client(subject)));
        made.push(world.call_as(&headers, "POST", SIGN, &body).await.ok()["operation"].clone());
    }
    let awaiting = format!("{OPERATIONS}?awaiting=me");
    assert_eq!(operations(&world, &alice, &awaiting).await, [&made[3], &made[2], &made[0]].map(id));
    assert_eq!(operations(&world, &carol, &awaiting).await, [id(&made[1])]);
    world.call_as(&alice, "POST", &path(&made[2], "/approve"), &approval("alice")).await.ok();
    assert_eq!(operations(&world, &alice, &awaiting).await, [&made[3], &made[0]].map(id));
    world
        .call_as(&alice, "POST", &path(&made[0], "/cancel"), &json!({ "reason": "twice" }))
        .await
        .fails(403, "client_binding_mismatch");
    let bob = caller("bob", "default", all);
    world.call_as(&bob, "POST", &path(&made[2], "/approve"), &approval("bob")).await.ok();
    assert_eq!(operations(&world, &bob, &awaiting).await, [&made[3], &made[1], &made[0]].map(id));
    assert_eq!(operations(&world, &caller("alice", "other", all), &awaiting).await, <[String; 0]>::default());
    let message = world.get(&awaiting).await.fails(400, "invalid_request");
    assert!(message.contains("needs a caller"), "{message}");
}

#[tokio::test]
async fn lists_have_only_what_the_callers_tenant_and_scopes_give() {
    let world = World::ticking().await;
    let headers = |tenant| caller("carol", tenant, "operations.* custody.*");
    let create =
        |tenant: &str| with(with(key("vault"), "/tenant_id", json!(tenant)), "/client", client("carol"));
    let mut of_tenant = Vec::new();
    for tenant in ["acme", "other"] {
        let body = with(payment("one"), "/client", client("carol"));
        let paid = world.call_as(&headers(tenant), "POST", SIGN, &body).await.ok();
        world.call_as(&headers(tenant), "POST", KEYS, &create(tenant)).await.ok();
        of_tenant.push(id(&paid["operation"]));
    }
    for (tenant, own) in [("acme", &of_tenant[0]), ("other", &of_tenant[1])] {
        assert_eq!(&operations(&world, &headers(tenant), OPERATIONS).await, std::slice::from_ref(own));
        let keys = world.call_as(&headers(tenant), "GET", KEYS, &Value::Null).await.ok();
        assert_eq!(keys["keys"][0]["tenant_id"], tenant, "{keys}");
        assert_eq!(
            keys["keys"].as_array().unwrap().iter().filter(|key| key["tenant_id"] != tenant).count(),
            0
        );
    }
    assert_eq!(operations(&world, &headers("third"), OPERATIONS).await, <[String; 0]>::default());
    assert_eq!(operations(&world, &[], OPERATIONS).await.len(), 2, "without authentication, all tenants");
    // A place in the list of another tenant shows nothing of it.
    let cursor = world.call_as(&headers("acme"), "GET", CUSTODY, &Value::Null).await.ok();
    assert_eq!(cursor.get("next_cursor"), None);
    for (scopes, path) in
        [("custody.read", OPERATIONS), ("operations.read", CUSTODY), ("operations.read", KEYS)]
    {
        let answer = world.call_as(&caller("carol", "acme", scopes), "GET", path, &Value::Null).await;
        answer.fails(403, "insufficient_scope");
    }
}

#[tokio::test]
async fn keys_are_listed_newest_first() {
    let world = World::ticking().await;
    for name in ["a", "b+c", "d"] {
        submit(&world, KEYS, &key(name)).await;
    }
    create_key(&world, "live").await;
    let keys = async |path: &str| ids(&world, &[], path, "keys", "key_ref").await;
    assert_eq!(keys(KEYS).await, ["live", "d", "b+c", "a"]);
    assert_eq!(keys(&format!("{KEYS}?state=active")).await, ["live"]);
    assert_eq!(keys(&format!("{KEYS}?state=creating")).await, ["d", "b+c", "a"]);
    assert_eq!(keys(&format!("{KEYS}?key_ref=b%2Bc")).await, ["b+c"]);
    assert_eq!(keys(&format!("{KEYS}?key_ref=b+c")).await, <[String; 0]>::default(), "a plus is a space");
    let listed = world.get(&format!("{KEYS}?key_ref=live")).await.ok();
    assert_eq!(listed["keys"][0], world.get(&key_path("live", "")).await.ok());
}

#[tokio::test]
async fn faulty_queries_of_lists_are_refused_by_name() {
    let world = World::ticking().await;
    for name in ["one", "two", "three"] {
        pay(&world, name).await;
    }
    let cursor = |page: &Value| page["next_cursor"].as_str().unwrap().to_owned();
    let plain = cursor(&world.get(&format!("{OPERATIONS}?limit=1")).await.ok());
    let filtered = cursor(&world.get(&format!("{OPERATIONS}?limit=1&state=pending_approval")).await.ok());
    assert_ne!(plain, filtered);
    let place = plain.rsplit_once('-').unwrap().0;
    for (path, expected) in [
        (format!("{OPERATIONS}?colour=blue"), "there is no parameter `colour`"),
        (format!("{KEYS}?operation_type=sign"), "there is no parameter `operation_type`"),
        (format!("{OPERATIONS}?state=done"), "`state` must be one of `submitted`, `pending_approval`"),
        (format!("{OPERATIONS}?state="), "`state` must be UTF-8, percent-encoded, not empty"),
        (format!("{OPERATIONS}?state=failed&state=failed"), "`state` must be given once"),
        (format!("{KEYS}?state=published"), "`state` must be one of `creating`"),
        (
            format!("{OPERATIONS}?operation_type=payment"),
            "`operation_type` must be one of `key_create`, `sign`",
        ),
        (format!("{OPERATIONS}?awaiting=alice"), "`awaiting` must be one of `me`"),
        (format!("{OPERATIONS}?key_ref=%00"), "`key_ref` must be UTF-8"),
        (format!("{OPERATIONS}?key_ref=%ff"), "`key_ref` must be UTF-8"),
        (
            format!("{OPERATIONS}?key_ref={}", "x".repeat(1025)),
            "`key_ref` must be at most 1024 bytes, not 1025",
        ),
        (
            format!("{OPERATIONS}?created_after_ms=yesterday"),
            "`created_after_ms` must be a time in milliseconds",
        ),
        (format!("{OPERATIONS}?created_before_ms=-1"), "`created_before_ms` must be a time in milliseconds"),
        (format!("{OPERATIONS}?limit=0"), "`limit` must be a whole number from 1 to 200"),
        (format!("{OPERATIONS}?limit=201"), "`limit` must be"),
        (format!("{OPERATIONS}?cursor=1"), "`cursor` must be the `next_cursor`"),
        (format!("{OPERATIONS}?cursor="), "`cursor` must be the `next_cursor`"),
        (format!("{OPERATIONS}?cursor={place}"), "`cursor` must be the `next_cursor`"),
        (format!("{OPERATIONS}?cursor={plain}-0"), "`cursor` must be the `next_cursor`"),
        (format!("{OPERATIONS}?cursor={plain}&cursor={plain}"), "`cursor` must be given once"),
        (format!("{OPERATIONS}?cursor={filtered}"), "`cursor` is of another list, or of other filters"),
        (format!("{OPERATIONS}?state=failed&cursor={filtered}"), "`cursor` is of another list"),
        (format!("{CUSTODY}?cursor={plain}"), "`cursor` is of another list"),
        (format!("{KEYS}?cursor={plain}"), "`cursor` is of another list"),
    ] {
        let message = world.get(&path).await.fails(400, "invalid_request");
        assert!(message.starts_with(expected), "{path}: {message}");
    }
    let end = format!("{OPERATIONS}?cursor=0-{}-{}", "0".repeat(64), plain.rsplit_once('-').unwrap().1);
    assert_eq!(world.get(&end).await.ok(), json!({ "operations": [] }));
}
