//! The peer that the router gets, and the ends of connections.

use super::*;
use axum::extract::Extension;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
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

async fn show_peer(Extension(peer): Extension<Peer>) -> Json<Value> {
    let certificate = peer.certificate_sha256.map(|hash| hash.to_string());
    Json(json!({ "address": peer.address.to_string(), "certificate": certificate }))
}

/// A server on this address, and the sender that stops it.
async fn serving(address: &str) -> (SocketAddr, watch::Sender<bool>, JoinHandle<()>) {
    serving_within(address, LIMITS).await
}

async fn serving_within(address: &str, limits: Limits) -> (SocketAddr, watch::Sender<bool>, JoinHandle<()>) {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/who", get(show_peer));
    let (stop, stopping) = watch::channel(false);
    let server = tokio::spawn(Server::new("test", listener, router, limits, None).run(stopping));
    (address, stop, server)
}

async fn get_who(address: SocketAddr, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /who HTTP/1.1\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn forwarding_headers_do_not_change_the_peer_address() {
    let (address, _stop, _server) = serving("127.0.0.1:0").await;
    let claims = "x-forwarded-for: 8.8.8.8\r\nforwarded: for=8.8.8.8\r\nx-real-ip: 8.8.8.8\r\n";
    let answer = get_who(address, claims).await;
    assert!(answer.ends_with(r#"{"address":"127.0.0.1","certificate":null}"#), "{answer}");
}

#[tokio::test]
async fn ipv4_client_of_an_ipv6_listener_has_its_ipv4_address() {
    let (address, _stop, _server) = serving("[::]:0").await;
    let answer = get_who(SocketAddr::from(([127, 0, 0, 1], address.port())), "").await;
    assert!(answer.contains(r#""address":"127.0.0.1""#), "{answer}");
}

#[tokio::test]
async fn idle_connection_is_closed_before_the_header_deadline() {
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
async fn stopping_server_answers_requests_in_progress_and_ends() {
    let (address, stop, server) = serving("127.0.0.1:0").await;
    let mut begun = TcpStream::connect(address).await.unwrap();
    begun.write_all(b"GET /who HTTP/1.1\r\n").await.unwrap();
    let answer = get_who(address, "").await;
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

#[tokio::test]
async fn connection_with_a_request_in_progress_is_never_evicted() {
    let limits = Limits { connections_max: 2, ..LIMITS };
    let (begun, finish) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let handler = {
        let (begun, finish) = (Arc::clone(&begun), Arc::clone(&finish));
        move || async move {
            begun.add_permits(1);
            finish.acquire().await.unwrap().forget();
            "finished"
        }
    };
    let router = Router::new().route("/slow", get(handler));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_stop, stopping) = watch::channel(false);
    tokio::spawn(Server::new("test", listener, router, limits, None).run(stopping));
    let mut slow = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /slow HTTP/1.1\r\nconnection: close\r\n\r\n").await.unwrap();
        begun.acquire().await.unwrap().forget();
        slow.push(stream);
    }
    // The limit is reached, and no connection can be evicted.
    for _ in 0..4 {
        let mut refused = TcpStream::connect(address).await.unwrap();
        assert!(matches!(refused.read_to_end(&mut Vec::new()).await, Ok(0) | Err(_)));
    }
    finish.add_permits(2);
    for mut stream in slow {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("finished"), "{answer}");
    }
}
