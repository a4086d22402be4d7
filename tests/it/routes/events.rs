use crate::harness::custody::{create_key, key_path, sign, submit};
use crate::harness::modes::TestCaller;
use crate::harness::process::SIGN;
use crate::harness::samples::{approval, path, payment, with};
use crate::harness::wire::poll_async;
use crate::harness::world::World;
use axum::body::{Body, BodyDataStream};
use axum::http::Request;
use futures_util::StreamExt;
use serde_json::{Value, json};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tower::ServiceExt;

const EVENTS: &str = "/v1/events";

/// A stream of server-sent events.
struct Events {
    body: BodyDataStream,
    unread: String,
}

/// A block of a stream: its `id`, and its `data`, if it has any.
#[derive(Debug, PartialEq)]
struct Block {
    id: Option<String>,
    data: Option<Value>,
}

/// The index in an event's id.
fn index(id: &str) -> u64 {
    id.split_once('-').unwrap().0.parse().unwrap()
}

impl Events {
    async fn open(world: &World, headers: &[(&str, &str)], path: &str) -> Self {
        let mut request = Request::get(path).header("host", "gateway");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).unwrap();
        request.extensions_mut().insert(gateway_service::transport::Peer {
            address: Ipv4Addr::LOCALHOST.into(),
            certificate_sha256: None,
        });
        let response = world.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no", "for nginx");
        Self { body: response.into_body().into_data_stream(), unread: String::new() }
    }

    /// The next block; `None` at the end of the stream.
    async fn block(&mut self) -> Option<Block> {
        loop {
            if let Some((block, rest)) = self.unread.split_once("\n\n") {
                let field = |name: &str| {
                    let line = block.lines().find_map(|line| line.strip_prefix(name));
                    line.map(|value| value.trim_start().to_owned())
                };
                let id = field("id:");
                let data = field("data:").map(|data| serde_json::from_str(&data).unwrap());
                assert_eq!(data.is_some(), field("event:").as_deref() == Some("operation"), "{block}");
                let block = Block { id, data };
                self.unread = rest.to_owned();
                return Some(block);
            }
            let bytes = tokio::time::timeout(Duration::from_secs(30), self.body.next()).await.unwrap()?;
            self.unread.push_str(std::str::from_utf8(&bytes.unwrap()).unwrap());
        }
    }

    /// The next event, and its id.
    async fn event(&mut self) -> Option<(String, Value)> {
        loop {
            let Block { id, data } = self.block().await?;
            if let Some(data) = data {
                return Some((id.unwrap(), data));
            }
        }
    }

    /// The remaining events.
    async fn rest(mut self) -> Vec<(String, Value)> {
        let mut events = Vec::new();
        while let Some(event) = self.event().await {
            events.push(event);
        }
        events
    }
}

fn id(operation: &Value) -> &str {
    operation["operation_id"].as_str().unwrap()
}

fn texts<'a>(events: &'a [(String, Value)], member: &str) -> Vec<&'a str> {
    events.iter().map(|(_, event)| event[member].as_str().unwrap()).collect()
}

async fn pay(world: &World, name: &str) -> Value {
    let operation = world.post(SIGN, &payment(name)).await.ok()["operation"].clone();
    for subject in ["alice", "bob"] {
        world.post(&path(&operation, "/approve"), &approval(subject)).await.ok();
    }
    world.post(&path(&operation, "/execute"), &json!({})).await.ok();
    operation
}

/// What a stream of the operation's events must have, from its evidence.
async fn expected(world: &World, operation: &Value) -> Vec<(u64, String)> {
    let evidence = world.get(&path(operation, "/evidence")).await.ok();
    let events = evidence["events"].as_array().unwrap().iter();
    let one = |event: &Value| {
        let change = &event["event"]["change"]["type"];
        (event["seq"].as_u64().unwrap(), change.as_str().unwrap().to_owned())
    };
    events.map(one).collect()
}

#[tokio::test]
async fn stream_has_every_event_once_in_the_order_of_the_log_and_goes_on_where_it_ended() {
    let world = World::ticking().await;
    let (one, two) = (pay(&world, "one").await, pay(&world, "two").await);
    let all = Events::open(&world, &[], &format!("{EVENTS}?from=0")).await.rest().await;
    assert!(all.is_sorted_by(|(one, _), (next, _)| index(one) < index(next)), "{all:?}");
    for (_, event) in &all {
        let members: Vec<_> = event.as_object().unwrap().keys().collect();
        let ids_and_words =
            ["at_ms", "href", "key_ref", "operation_id", "operation_type", "seq", "state", "type"];
        assert_eq!(members, ids_and_words, "no content of a request");
    }
    for operation in [&one, &two] {
        let id = operation["operation_id"].as_str().unwrap();
        let own: Vec<_> = all.iter().filter(|(_, event)| event["operation_id"] == id).collect();
        let found: Vec<_> = own
            .iter()
            .map(|(_, event)| (event["seq"].as_u64().unwrap(), event["type"].as_str().unwrap().to_owned()))
            .collect();
        assert_eq!(found, expected(&world, operation).await);
        let state = &world.get(&path(operation, "")).await.ok()["state"];
        assert_eq!(&own.last().unwrap().1["state"], state);
        assert_eq!(own[0].1["href"], path(operation, ""));
    }
    for n_received in 1..all.len() {
        let last = &all[n_received - 1].0;
        let rest =
            Events::open(&world, &[("last-event-id", last)], &format!("{EVENTS}?from=0")).await.rest().await;
        assert_eq!(rest, all[n_received..]);
    }
    assert_eq!(Events::open(&world, &[], EVENTS).await.rest().await, [], "from now on");
    let id = one["operation_id"].as_str().unwrap();
    for filters in [
        &[("operation_id", id)][..],
        &[("state", "executed")],
        &[("operation_type", "sign")],
        &[("operation_type", "key_create"), ("state", "published")],
        &[("key_ref", "treasury-1"), ("operation_type", "sign"), ("state", "executing")],
    ] {
        let query: String = filters.iter().map(|(name, value)| format!("&{name}={value}")).collect();
        let found = Events::open(&world, &[], &format!("{EVENTS}?from=0{query}")).await.rest().await;
        let fits = |(_, event): &&(String, Value)| filters.iter().all(|(name, value)| event[name] == *value);
        let expected: Vec<_> = all.iter().filter(fits).cloned().collect();
        assert!(!expected.is_empty() && expected.len() < all.len(), "{query}");
        assert_eq!(found, expected, "{query}");
    }
    let none = Events::open(&world, &[], &format!("{EVENTS}?from=0&key_ref=another")).await.rest().await;
    assert_eq!(none, []);
}

#[tokio::test]
async fn listener_is_told_at_once() {
    let world = World::ticking().await;
    world.follow();
    let mut events = Events::open(&world, &[], &format!("{EVENTS}?operation_type=sign")).await;
    let operation = world.post(SIGN, &payment("one")).await.ok()["operation"].clone();
    let (_, first) = events.event().await.unwrap();
    assert_eq!((first["type"].as_str(), first["seq"].as_u64()), (Some("submitted"), Some(1)));
    assert_eq!(events.event().await.unwrap().1["state"], "pending_approval");
    let started = Instant::now();
    world.post(&path(&operation, "/approve"), &approval("alice")).await.ok();
    assert_eq!(events.event().await.unwrap().1["type"], "approval_recorded");
    assert!(started.elapsed() < Duration::from_secs(5), "not by a heartbeat");
}

#[tokio::test]
async fn events_are_those_of_the_callers_tenant_and_scopes() {
    let world = World::ticking().await;
    create_key(&world, "cold").await;
    submit(&world, &key_path("cold", "/sign"), &sign("s-1")).await;
    let caller = |tenant, scopes| {
        TestCaller { client: "desk", subject: "carol", roles: "operator", scopes, tenant: Some(tenant) }
            .headers()
    };
    let client = json!({ "client_id": "desk", "subject_id": "carol", "roles": [], "scopes": [] });
    for tenant in ["default", "other"] {
        let body = with(payment("one"), "/client", client.clone());
        world.call_as(&caller(tenant, "operations.*"), "POST", SIGN, &body).await.ok();
    }
    let from_0 = format!("{EVENTS}?from=0");
    let mut of_tenants = Vec::new();
    for (tenant, scopes, expected) in [
        ("default", "operations.read", &["/v1/operations/"][..]),
        ("default", "custody.read", &["/v1/custody/operations/"]),
        ("default", "operations.read custody.read", &["/v1/operations/", "/v1/custody/operations/"]),
        ("other", "operations.read custody.read", &["/v1/operations/", "/v1/custody/operations/"]),
        ("third", "operations.read custody.read", &[]),
    ] {
        let events = Events::open(&world, &caller(tenant, scopes), &from_0).await.rest().await;
        let hrefs = texts(&events, "href");
        let is_expected = |href: &&str| expected.iter().any(|prefix| href.starts_with(prefix));
        assert!(hrefs.iter().all(is_expected), "{tenant} {scopes}: {hrefs:?}");
        let is_found = |prefix: &&str| hrefs.iter().any(|href| href.starts_with(prefix));
        assert!(expected.iter().all(is_found), "{tenant} {scopes}: {hrefs:?}");
        of_tenants.push((tenant, hrefs.into_iter().map(str::to_owned).collect::<BTreeSet<_>>()));
    }
    for (tenant, hrefs) in &of_tenants {
        let others = of_tenants.iter().filter(|(other, _)| other != tenant);
        assert!(others.into_iter().all(|(_, others)| others.is_disjoint(hrefs)), "{of_tenants:?}");
    }
    let none = caller("default", "audit.read");
    world.call_as(&none, "GET", EVENTS, &Value::Null).await.fails(403, "insufficient_scope");
}

#[tokio::test]
async fn queries_that_cannot_be_are_refused() {
    let world = World::ticking().await;
    let operation = world.post(SIGN, &payment("one")).await.ok()["operation"].clone();
    let show = path(&operation, "");
    for (path, expected) in [
        (format!("{EVENTS}?colour=blue"), "there is no parameter `colour`"),
        (format!("{EVENTS}?state=done"), "`state` must be one of"),
        (format!("{EVENTS}?operation_id=1"), "`operation_id` must be 64"),
        (format!("{EVENTS}?from=-1"), "`from` must be a whole number"),
        (format!("{show}?wait_ms=10"), "must be given together"),
        (format!("{show}?unless_state=admitted"), "must be given together"),
        (format!("{show}?wait_ms=30001&unless_state=admitted"), "at most 30000"),
        (format!("{show}?wait_ms=ten&unless_state=admitted"), "`wait_ms` must be a whole number"),
        (format!("{show}?wait_ms=10&unless_state=done"), "`unless_state` must be one of"),
    ] {
        let message = world.get(&path).await.fails(400, "invalid_request");
        assert!(message.contains(expected), "{path}: {message}");
    }
    for id in ["", "x", "-1", "3", "99999999999999999999-0123456789abcdef", "03-0123456789abcdef"] {
        let answer = world.call_as(&[("last-event-id", id)], "GET", EVENTS, &Value::Null).await;
        let message = answer.fails(400, "invalid_request");
        assert!(message.contains("`Last-Event-ID`"), "{id}: {message}");
    }
}

#[tokio::test]
async fn reader_waits_until_the_state_is_another() {
    let world = Arc::new(World::ticking().await);
    world.follow();
    let operation = world.post(SIGN, &payment("one")).await.ok()["operation"].clone();
    let wait = |ms: u32, state: &str| path(&operation, &format!("?wait_ms={ms}&unless_state={state}"));
    let started = Instant::now();
    let shown = world.get(&wait(30_000, "submitted")).await.ok();
    assert_eq!(shown["state"], "pending_approval");
    assert!(started.elapsed() < Duration::from_secs(5), "it is another already");

    let started = Instant::now();
    let shown = world.get(&wait(200, "pending_approval")).await.ok();
    assert_eq!(shown["state"], "pending_approval");
    assert!(started.elapsed() >= Duration::from_millis(200));

    let (reader, url) = (Arc::clone(&world), wait(30_000, "pending_approval"));
    let mut waiting = tokio::spawn(async move { reader.get(&url).await.ok() });
    world.post(&path(&operation, "/approve"), &approval("alice")).await.ok();
    let told = tokio::time::timeout(Duration::from_millis(100), &mut waiting).await;
    assert!(told.is_err(), "the state is the same after one approval");
    let started = Instant::now();
    world.post(&path(&operation, "/approve"), &approval("bob")).await.ok();
    assert_eq!(waiting.await.unwrap()["state"], "admitted");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn stream_ends_when_the_gateway_stops_though_events_are_left() {
    let world = World::ticking().await;
    pay(&world, "one").await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let engine = world.engine.clone();
    let following = tokio::spawn(async move { engine.follow_log(async { drop(stopped.await) }).await });
    let mut events = Events::open(&world, &[], &format!("{EVENTS}?from=0")).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(events.event().await.unwrap().0);
    }
    stop.send(()).unwrap();
    following.await.unwrap();
    assert_eq!(events.rest().await, []);
    // The client goes on there at another replica, or after the restart.
    world.follow();
    let next = loop {
        let mut rest = Events::open(&world, &[("last-event-id", &ids[2])], EVENTS).await;
        if let Some((id, _)) = rest.event().await {
            break id;
        }
    };
    assert_eq!(index(&next), index(&ids[2]) + 1);
}

/// As after the restoration of an older copy: the log is shorter, or has grown again with other events.
#[tokio::test]
async fn id_of_an_event_that_is_not_in_the_log_is_refused() {
    let world = World::ticking().await;
    pay(&world, "one").await;
    let from_0 = format!("{EVENTS}?from=0");
    let all = Events::open(&world, &[], &from_0).await.rest().await;
    let end = index(&all.last().unwrap().0) + 1;
    let other = |id: &str| {
        let (index, prefix) = id.split_once('-').unwrap();
        let flipped = format!("{:016x}", u64::from_str_radix(prefix, 16).unwrap() ^ 1);
        format!("{index}-{flipped}")
    };
    let (first, last) = (&all[0].0, &all[all.len() - 1].0);
    let prefix = last.split_once('-').unwrap().1;
    for id in [other(first), other(last), format!("{end}-{prefix}"), format!("{}-{prefix}", i64::MAX)] {
        for path in [EVENTS, &from_0] {
            let answer = world.call_as(&[("last-event-id", &id)], "GET", path, &Value::Null).await;
            let message = answer.fails(410, "event_not_in_log");
            assert!(
                message.contains(&format!("`{id}`")) && message.contains("listen without an id"),
                "{message}"
            );
        }
    }
    for beyond in [end + 1, i64::MAX as u64] {
        let message = world.get(&format!("{EVENTS}?from={beyond}")).await.fails(410, "event_not_in_log");
        assert!(message.contains(&format!("`{beyond}`")), "{message}");
    }
    for rest in [
        Events::open(&world, &[("last-event-id", last)], EVENTS).await,
        Events::open(&world, &[], &format!("{EVENTS}?from={end}")).await,
    ] {
        assert_eq!(rest.rest().await, []);
    }
}

/// A database that is replaced while the gateway runs, as by a standby that was behind.
#[tokio::test]
async fn stream_of_a_log_that_was_replaced_ends_and_is_not_continued() {
    let world = World::ticking().await;
    world.follow();
    let operation = pay(&world, "one").await;
    let mut events = Events::open(&world, &[], &format!("{EVENTS}?from=0")).await;
    let last = loop {
        let (id, event) = events.event().await.unwrap();
        if event["type"] == "executed" && event["operation_id"] == operation["operation_id"] {
            break id;
        }
    };
    let mut conn =
        SqliteConnectOptions::new().filename(world.folder().join("gateway.db")).connect().await.unwrap();
    let sql = "UPDATE events SET event_hash = zeroblob(32) WHERE ledger_index = ?";
    sqlx::query(sql).bind(i64::try_from(index(&last)).unwrap()).execute(&mut conn).await.unwrap();
    assert_eq!(events.rest().await, [], "it ends");
    let answer = world.call_as(&[("last-event-id", &last)], "GET", EVENTS, &Value::Null).await;
    answer.fails(410, "event_not_in_log");
}

#[tokio::test]
async fn damaged_operation_is_left_out_and_stops_no_other() {
    let world = World::ticking().await;
    let (damaged, sound) = (pay(&world, "one").await, pay(&world, "two").await);
    let mut conn =
        SqliteConnectOptions::new().filename(world.folder().join("gateway.db")).connect().await.unwrap();
    let sql = "UPDATE events SET body = '{}' WHERE seq = 2 AND operation_id = unhex(?)";
    sqlx::query(sql).bind(id(&damaged)).execute(&mut conn).await.unwrap();
    let all = Events::open(&world, &[], &format!("{EVENTS}?from=0&operation_type=sign")).await.rest().await;
    assert!(
        !all.is_empty() && texts(&all, "operation_id").iter().all(|found| *found == id(&sound)),
        "{all:?}"
    );
}

#[tokio::test]
async fn few_requests_wait_at_a_time() {
    let world = Arc::new(World::ticking().await);
    world.follow();
    let operation = world.post(SIGN, &payment("one")).await.ok()["operation"].clone();
    let wait = path(&operation, "?wait_ms=20000&unless_state=pending_approval");
    let waiting: Vec<_> = (0..128)
        .map(|_| {
            let (world, wait) = (Arc::clone(&world), wait.clone());
            // The request that asks whether all places are taken takes one while it asks.
            tokio::spawn(async move {
                loop {
                    let answer = world.get(&wait).await;
                    if answer.status != 503 {
                        return answer.ok();
                    }
                    // A refusal awaits nothing, so that this loop would keep the request that has its place from ending.
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let briefly = path(&operation, "?wait_ms=1&unless_state=pending_approval");
    let refused = poll_async(async || world.get(&briefly).await, |answer| answer.status == 503).await;
    refused.fails(503, "runtime_unavailable");
    assert_eq!(
        world.get(&path(&operation, "")).await.ok()["state"],
        "pending_approval",
        "reading is possible"
    );
    world.post(&path(&operation, "/cancel"), &json!({ "reason": "enough" })).await.ok();
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap()["state"], "failed");
    }
}
