//! The limits of a request, at the limit and one above it: size, depth, array and string length on every route with a body,
//! the request target on every route, and the time limit. Routes come from `ROUTES`, so new ones are included.

use crate::harness::world::{Answer, World};
use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use gateway_api::ROUTES;
use gateway_api::state::App;
use operation_gateway::compose;
use serde_json::{Value, json};

const BODY_BYTES_MAX: usize = 8 * 1024;
const RECOVERY_BYTES_MAX: usize = 12 * 1024;

struct Route {
    path: String,
    bytes_max: usize,
    /// The error code for an invalid body.
    code: &'static str,
}

fn post_routes() -> Vec<Route> {
    let posts = ROUTES.iter().filter(|(method, ..)| *method == "POST");
    let routes = posts.map(|(_, path, _)| Route {
        path: path.replace("{operationId}", &"0".repeat(64)).replace("{keyRef}", "k"),
        bytes_max: if path.ends_with("/node-recovery") { RECOVERY_BYTES_MAX } else { BODY_BYTES_MAX },
        code: if path.ends_with("/execute") { "invalid_execute_request" } else { "invalid_json" },
    });
    routes.collect()
}

async fn world() -> World {
    let (body, recovery) = (BODY_BYTES_MAX.to_string(), RECOVERY_BYTES_MAX.to_string());
    World::with(&[("body_bytes_max", &body), ("recovery_body_bytes_max", &recovery)]).await
}

/// A body with this `client`, the member that every request has.
fn of_client(route: &Route, client: Value) -> String {
    let body = json!({ "client": client });
    if route.path == "/v1/policy/preview" { json!({ "intent": body }).to_string() } else { body.to_string() }
}

/// Sends one body above the limit, which must be refused with `expected_message`, and one at the limit, which must not.
async fn check_limit(world: &World, route: &Route, at: &str, above: &str, expected_message: &str) {
    let message = world.post_text(&route.path, above).await.fails(400, route.code);
    assert!(message.contains(expected_message), "{}: {message}", route.path);
    let Answer { status, json, .. } = world.post_text(&route.path, at).await;
    assert!(status.as_u16() < 500, "{}: {json}", route.path);
    assert!(
        !json["message"].as_str().unwrap_or_default().contains(expected_message),
        "{}: {json}",
        route.path
    );
}

#[tokio::test]
async fn body_above_the_size_limit_is_refused() {
    let world = world().await;
    for Route { path, bytes_max, .. } in post_routes() {
        let send = async |n_bytes: usize, declares: bool| {
            let mut request = Request::post(&path).header("content-type", "application/json");
            if declares {
                request = request.header("content-length", n_bytes);
            }
            let body = format!("{}{}", " ".repeat(n_bytes - 2), "{}");
            world.send(request.body(Body::from(body)).unwrap()).await
        };
        for declares in [true, false] {
            let message = send(bytes_max + 1, declares).await.fails(413, "payload_too_large");
            assert!(message.contains(&bytes_max.to_string()), "{path}: {message}");
            let at = send(bytes_max, declares).await;
            assert_ne!(at.status, StatusCode::PAYLOAD_TOO_LARGE, "{path}");
            assert!(at.status.as_u16() < 500, "{path}: {}", at.json);
        }
    }
}

#[tokio::test]
async fn body_above_the_depth_limit_is_refused() {
    let world = world().await;
    // The object itself is level one.
    let deep = |n: usize| format!("{{\"deep\":{}{}}}", "[".repeat(n - 1), "]".repeat(n - 1));
    for route in post_routes() {
        check_limit(&world, &route, &deep(64), &deep(65), "nested deeper than 64").await;
    }
}

#[tokio::test]
async fn array_above_the_length_limit_is_refused() {
    let world = world().await;
    for route in post_routes() {
        let roles = |n: usize| of_client(&route, json!({ "roles": vec!["r"; n] }));
        check_limit(&world, &route, &roles(64), &roles(65), "must have at most 64 entries").await;
    }
}

#[tokio::test]
async fn string_above_the_length_limit_is_refused() {
    let world = world().await;
    for route in post_routes() {
        let named = |n: usize| of_client(&route, json!({ "client_id": "n".repeat(n) }));
        check_limit(&world, &route, &named(1024), &named(1025), "must be at most 1024 bytes").await;
        // Counted in bytes, not in characters.
        let wide = |n: usize| of_client(&route, json!({ "client_id": "\u{e9}".repeat(n) }));
        check_limit(&world, &route, &wide(512), &wide(513), "must be at most 1024 bytes").await;
    }
}

#[tokio::test]
async fn target_above_the_length_limit_is_refused_on_every_route() {
    let world = World::start().await;
    for (method, path, _) in ROUTES.iter() {
        let path = path.replace("{operationId}", &"0".repeat(64)).replace("{keyRef}", "k");
        let target = |n_bytes: usize| format!("{path}?{}", "q".repeat(n_bytes - path.len() - 1));
        let message =
            world.call_as(&[], method, &target(8193), &Value::Null).await.fails(400, "invalid_request");
        assert!(message.contains("at most 8192 bytes"), "{path}: {message}");
        let at = world.call_as(&[], method, &target(8192), &Value::Null).await;
        let message = at.json["message"].as_str().unwrap_or_default();
        assert!(!message.contains("at most 8192 bytes"), "{path}: {message}");
    }
}

#[tokio::test]
async fn request_above_the_time_limit_gets_503() {
    let given = [("request_within_ms", "60"), ("body_within_ms", "50"), ("answer_within_ms", "50")];
    let world = World::with(&given).await;
    let app = App::new(
        world.engine.clone(),
        compose::open_authenticator(&world.settings).unwrap(),
        compose::options(&world.settings),
        String::new,
    );
    let limit = from_fn_with_state(app, gateway_api::layers::limit);
    let router = Router::new()
        .route("/never", get(std::future::pending::<()>))
        .layer(limit)
        .layer(from_fn(gateway_service::layers::observe));
    let answer = crate::harness::timed::send_to(router, Request::get("/never")).await;
    assert_eq!(answer.header("retry-after"), "1");
    answer.fails(503, "runtime_unavailable");
}
