//! A consumer of webhooks, which checks each request with another implementation of Standard Webhooks, and can be told to misbehave.

use super::secrets::write_private;
use axum::Router;
use axum::extract::State as Shared;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// What a consumer does with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Accept,
    Status(u16),
    /// Redirects to a path that would accept.
    Redirect,
    /// Never answers.
    Silent,
}

pub(crate) struct State {
    verifier: Webhook,
    pub(crate) mode: Mode,
    /// What was accepted: id and body.
    pub(crate) accepted: Vec<(String, Value)>,
    pub(crate) n_requests: usize,
    /// Requests at other paths.
    pub(crate) n_redirected: usize,
}

pub(crate) struct Consumer {
    pub(crate) address: String,
    state: Arc<Mutex<State>>,
    runtime: Option<Runtime>,
}

/// A secret of 24 bytes, as its file has it.
pub(crate) fn secret(byte: u8) -> String {
    format!("whsec_{}", STANDARD.encode([byte; 24]))
}

/// Writes a file with a secret.
pub(crate) fn write_secret(folder: &Path, byte: u8) -> String {
    let name = format!("webhook-{byte}.secret");
    write_private(folder.join(&name), secret(byte));
    name
}

/// Writes a file of webhooks.
pub(crate) fn write_file(folder: &Path, webhooks: &[Value]) -> PathBuf {
    let path = folder.join("webhooks.json");
    fs::write(&path, json!({ "webhooks": webhooks }).to_string()).unwrap();
    path
}

impl Consumer {
    /// Starts a consumer that verifies with this secret.
    pub(crate) fn start(byte: u8) -> Self {
        let state = State {
            verifier: Webhook::new(&secret(byte)).unwrap(),
            mode: Mode::Accept,
            accepted: Vec::new(),
            n_requests: 0,
            n_redirected: 0,
        };
        let mut consumer =
            Self { address: "127.0.0.1:0".to_owned(), state: Arc::new(Mutex::new(state)), runtime: None };
        consumer.up();
        consumer
    }

    /// Listens again after [`Self::down`].
    pub(crate) fn up(&mut self) {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind(&self.address)).unwrap();
        self.address = listener.local_addr().unwrap().to_string();
        let router = Router::new()
            .route("/hooks", post(receive))
            .fallback(receive_elsewhere)
            .with_state(Arc::clone(&self.state));
        runtime.spawn(async { axum::serve(listener, router).await });
        self.runtime = Some(runtime);
    }

    /// Cuts its connections, and listens no more.
    pub(crate) fn down(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }

    /// Its entry in the file of webhooks.
    pub(crate) fn entry(&self, folder: &Path, name: &str, secrets: &[u8]) -> Value {
        let files: Vec<_> = secrets.iter().map(|byte| write_secret(folder, *byte)).collect();
        let url = format!("http://{}/hooks", self.address);
        json!({"name": name, "url": url, "secret_files": files, "tenant": "*", "allow_private_addresses": true})
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

async fn receive(Shared(state): Shared<Arc<Mutex<State>>>, headers: HeaderMap, body: String) -> Response {
    let mode = {
        let mut state = state.lock().unwrap();
        state.n_requests += 1;
        state.mode
    };
    match mode {
        Mode::Silent => std::future::pending().await,
        Mode::Redirect => Redirect::temporary("/elsewhere").into_response(),
        Mode::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Mode::Accept => {
            let mut state = state.lock().unwrap();
            if state.verifier.verify(body.as_bytes(), &headers).is_err() {
                return StatusCode::UNAUTHORIZED.into_response();
            }
            let id = headers["webhook-id"].to_str().unwrap().to_owned();
            state.accepted.push((id, serde_json::from_str(&body).unwrap()));
            StatusCode::NO_CONTENT.into_response()
        }
    }
}

async fn receive_elsewhere(Shared(state): Shared<Arc<Mutex<State>>>) -> StatusCode {
    state.lock().unwrap().n_redirected += 1;
    StatusCode::NO_CONTENT
}
