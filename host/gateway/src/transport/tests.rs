//! What the server tells the router of a connection.

use super::*;
use axum::extract::Extension;
use axum::routing::get;
use axum::{Json, Router};
use gateway_auth::Peer;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const LIMITS: Limits = Limits {
    connections_max: 8,
    connections_per_address_max: 8,
    handshake_within: Duration::from_secs(60),
    header_within: Duration::from_secs(60),
    idle_within: Duration::from_secs(60),
    write_within: Duration::from_secs(60),
    header_bytes_max: 16 * 1024,
    headers_max: 16,
};

async fn who(Extension(peer): Extension<Peer>) -> Json<Value> {
    let certificate = peer.certificate_sha256.map(|hash| hash.to_string());
    Json(json!({ "address": peer.address.to_string(), "certificate": certificate }))
}

/// A server on a port of this address, and the word that stops it.
async fn serving(address: &str) -> (SocketAddr, watch::Sender<bool>, JoinHandle<()>) {
    serving_within(address, LIMITS).await
}

async fn serving_within(address: &str, limits: Limits) -> (SocketAddr, watch::Sender<bool>, JoinHandle<()>) {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/who", get(who));
    let (stop, stopping) = watch::channel(false);
    let server = tokio::spawn(Server::new("test", listener, router, limits, None).run(stopping));
    (address, stop, server)
}

async fn asked(address: SocketAddr, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /who HTTP/1.1\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_request_carries_its_connections_address_and_no_header_changes_it() {
    let (address, _stop, _server) = serving("127.0.0.1:0").await;
    let claims = "x-forwarded-for: 8.8.8.8\r\nforwarded: for=8.8.8.8\r\nx-real-ip: 8.8.8.8\r\n";
    let answer = asked(address, claims).await;
    assert!(answer.ends_with(r#"{"address":"127.0.0.1","certificate":null}"#), "{answer}");
}

#[tokio::test]
async fn a_client_of_ipv4_has_its_own_address_on_a_listener_of_ipv6() {
    let (address, _stop, _server) = serving("[::]:0").await;
    let answer = asked(SocketAddr::from(([127, 0, 0, 1], address.port())), "").await;
    assert!(answer.contains(r#""address":"127.0.0.1""#), "{answer}");
}

#[tokio::test]
async fn an_idle_connection_ends_whatever_time_headers_have() {
    let limits = Limits { idle_within: Duration::from_millis(100), ..LIMITS };
    let (address, _stop, _server) = serving_within("127.0.0.1:0", limits).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /who HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    let ended = timeout(LIMITS.header_within / 2, stream.read_to_string(&mut answer)).await;
    assert!(ended.is_ok(), "it stays open");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn a_server_that_is_told_ends_when_its_last_connection_does() {
    let (address, stop, server) = serving("127.0.0.1:0").await;
    let mut begun = TcpStream::connect(address).await.unwrap();
    begun.write_all(b"GET /who HTTP/1.1\r\n").await.unwrap();
    let answer = asked(address, "").await;
    assert!(answer.starts_with("HTTP/1.1 200 "));
    stop.send(true).unwrap();
    // A request that has begun is still answered, and ends its connection.
    begun.write_all(b"host: gateway\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    begun.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("connection: close"), "{answer}");
    server.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
