//! A witness of the log (C2SP `tlog-witness`) that keeps the last size and root, checks what it is sent as the protocol demands, and can
//! be told to lie.

use super::certificates::Authority;
use super::secrets::write_private;
use super::world::parse_settings;
use axum::Router;
use axum::extract::State as Shared;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signer as _, SigningKey};
use gateway_domain::ids::Hex32;
use gateway_domain::log::{KeyName, SignedCheckpoint, VerifierKey, verify_consistency};
use gateway_service::transport::{ClientAuth, Server, Tls, TlsFiles};
use operation_gateway::log_signer::LogSigner;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// The settings' default.
pub(crate) const ORIGIN: &str = "operation-gateway.local/log";

/// What a witness does with a checkpoint that it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Honest,
    /// Signs with another key.
    OtherKey,
    /// Signs another checkpoint, and says it is this one.
    OtherText,
    /// Signs with a clock that is ahead.
    Future,
    /// Signs with a clock that is almost ten minutes behind, which is allowed.
    Late,
    /// Sends the cosignature, and much more.
    Huge,
    /// Sends a byte every second, without end.
    Silent,
    /// Redirects to a witness that would cosign.
    Redirect,
    /// Answers a conflict that has no size.
    NonsenseConflict,
    /// Answers every request with a conflict, each time another size below the checkpoint's.
    EndlessConflict,
    /// Says that it has a log that is larger than the checkpoint's.
    Ahead,
    /// Fails.
    Broken,
}

/// A request and the status of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) old: u64,
    pub(crate) size: u64,
    pub(crate) status: u16,
}

pub(crate) struct State {
    seed: u8,
    log: VerifierKey,
    pub(crate) mode: Mode,
    /// Size and root of the last checkpoint that it cosigned.
    pub(crate) last: Option<(u64, Hex32)>,
    pub(crate) seen: Vec<Seen>,
}

pub(crate) struct Witness {
    url: String,
    seed: u8,
    state: Arc<Mutex<State>>,
    _runtime: Runtime,
}

/// Writes the log's key to the gateway's folder before it starts; returns the public half.
pub(crate) fn log_key(folder: &Path) -> VerifierKey {
    let seed = [9; 32];
    write_private(folder.join("log.key"), hex::encode(seed));
    verifier_key(&seed)
}

fn verifier_key(seed: &[u8; 32]) -> VerifierKey {
    let public = LogSigner::new(ORIGIN.parse().unwrap(), seed).public_key();
    VerifierKey::new(
        ORIGIN.parse().unwrap(),
        gateway_domain::ed25519::PublicKey::from_bytes(&public).unwrap(),
    )
}

fn name(seed: u8) -> KeyName {
    format!("witness.example/{seed}").parse().unwrap()
}

fn key_id_and_bytes(seed: u8) -> (Vec<u8>, Vec<u8>) {
    let key = SigningKey::from_bytes(&[seed; 32]).verifying_key().to_bytes();
    let typed = [&[4][..], &key].concat();
    let id =
        Sha256::new().chain_update(name(seed).as_str()).chain_update(b"\n").chain_update(&typed).finalize();
    (id[..4].to_vec(), typed)
}

/// The verifier key of the witness with this seed.
pub(crate) fn vkey(seed: u8) -> String {
    let (id, typed) = key_id_and_bytes(seed);
    format!("{}+{}+{}", name(seed), hex::encode(id), STANDARD.encode(typed))
}

/// Writes a policy of these witnesses, of which `needed` must cosign.
pub(crate) fn policy(folder: &Path, witnesses: &[&Witness], needed: usize) -> PathBuf {
    let line = |one: &&Witness| format!("witness w{} {} {}\n", one.seed, vkey(one.seed), one.url);
    let names = witnesses.iter().map(|one| format!(" w{}", one.seed)).collect::<String>();
    let lines = witnesses.iter().map(line).collect::<String>();
    write_policy(folder, &format!("{lines}group all-of-them {needed}{names}\nquorum all-of-them\n"))
}

pub(crate) fn write_policy(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("witnesses");
    fs::write(&path, text).unwrap();
    path
}

impl Witness {
    /// Starts a witness of the log with this key.
    pub(crate) fn start(seed: u8, log: &VerifierKey) -> Self {
        Self::start_with(seed, log, "http", |listener, router| {
            tokio::spawn(async { axum::serve(listener, router).await });
        })
    }

    /// As [`Self::start`], over TLS with a certificate of this authority.
    pub(crate) fn start_tls(seed: u8, log: &VerifierKey, authority: &Authority) -> Self {
        let folder = tempfile::tempdir().unwrap();
        authority.server().write(folder.path(), "witness");
        let tls = Tls::open(TlsFiles {
            certificate: folder.path().join("witness.pem"),
            key: folder.path().join("witness.key"),
            clients: ClientAuth::Off,
        });
        let (tls, limits) = (Arc::new(tls.unwrap()), parse_settings(folder.path(), &[]).limits);
        Self::start_with(seed, log, "https", |listener, router| {
            let (stop, stopping) = tokio::sync::watch::channel(false);
            let server = Server::new("witness", listener, router, limits, Some(tls));
            tokio::spawn(async {
                server.run(stopping).await;
                drop(stop);
            });
        })
    }

    fn start_with(
        seed: u8,
        log: &VerifierKey,
        scheme: &str,
        serve: impl FnOnce(TcpListener, Router),
    ) -> Self {
        let state = State { seed, log: log.clone(), mode: Mode::Honest, last: None, seen: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let router = Router::new()
            .route("/w/add-checkpoint", post(add_checkpoint))
            .route("/honest/add-checkpoint", post(add_checkpoint_honestly))
            .with_state(Arc::clone(&state));
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("{scheme}://{}/w", listener.local_addr().unwrap());
        {
            let _entered = runtime.enter();
            serve(listener, router);
        }
        Self { url, seed, state, _runtime: runtime }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The size of the last checkpoint that it cosigned.
    pub(crate) fn size(&self) -> u64 {
        self.state().last.map_or(0, |(size, _)| size)
    }
}

async fn add_checkpoint(Shared(state): Shared<Arc<Mutex<State>>>, body: String) -> Response {
    let mode = state.lock().unwrap().mode;
    if mode == Mode::Silent {
        std::future::pending::<()>().await;
    }
    state.lock().unwrap().answer(mode, &body)
}

async fn add_checkpoint_honestly(Shared(state): Shared<Arc<Mutex<State>>>, body: String) -> Response {
    state.lock().unwrap().answer(Mode::Honest, &body)
}

fn conflict(size: u64) -> Response {
    (StatusCode::CONFLICT, [(header::CONTENT_TYPE, "text/x.tlog.size")], format!("{size}\n")).into_response()
}

impl State {
    fn answer(&mut self, mode: Mode, body: &str) -> Response {
        let (head, note) = body.split_once("\n\n").unwrap();
        let mut lines = head.split('\n');
        let old: u64 = lines.next().unwrap().strip_prefix("old ").unwrap().parse().unwrap();
        let proof: Vec<Hex32> =
            lines.map(|line| Hex32::new(STANDARD.decode(line).unwrap().try_into().unwrap())).collect();
        let checkpoint: SignedCheckpoint = note.parse().unwrap();
        let response = self.check(mode, old, &proof, &checkpoint);
        let (size, status) = (checkpoint.unverified().size(), response.status().as_u16());
        self.seen.push(Seen { old, size, status });
        response
    }

    fn check(&mut self, mode: Mode, old: u64, proof: &[Hex32], checkpoint: &SignedCheckpoint) -> Response {
        let head = checkpoint.unverified();
        match mode {
            Mode::Redirect => return Redirect::temporary("/honest/add-checkpoint").into_response(),
            Mode::NonsenseConflict => return (StatusCode::CONFLICT, "7 or so\n").into_response(),
            Mode::EndlessConflict => return conflict(if old == 1 { 0 } else { 1 }),
            Mode::Ahead => return conflict(head.size() + 1000),
            Mode::Broken => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            Mode::Honest
            | Mode::OtherKey
            | Mode::OtherText
            | Mode::Future
            | Mode::Late
            | Mode::Huge
            | Mode::Silent => {}
        }
        if head.origin() != self.log.name().as_str() {
            return StatusCode::NOT_FOUND.into_response();
        }
        if checkpoint.verify(std::slice::from_ref(&self.log)).is_err() {
            return StatusCode::FORBIDDEN.into_response();
        }
        if old > head.size() {
            return StatusCode::BAD_REQUEST.into_response();
        }
        let (last, root) = self.last.unwrap_or((0, Hex32::ZERO));
        if old != last || (old == head.size() && root != head.root()) {
            return conflict(last);
        }
        let is_proved = match old {
            0 => proof.is_empty(),
            _ => verify_consistency(old, head.size(), proof, root, head.root()).is_ok(),
        };
        if !is_proved {
            return StatusCode::UNPROCESSABLE_ENTITY.into_response();
        }
        self.last = Some((head.size(), head.root()));
        self.cosignature(mode, &head.to_string()).into_response()
    }

    fn cosignature(&self, mode: Mode, text: &str) -> String {
        let now = gateway_service::now().0 / 1000;
        let time = match mode {
            Mode::Future => now + 3600,
            Mode::Late => now - 595,
            _ => now,
        };
        let text = if mode == Mode::OtherText { format!("{text}more\n") } else { text.to_owned() };
        let seed = if mode == Mode::OtherKey { self.seed + 100 } else { self.seed };
        let message = format!("cosignature/v1\ntime {time}\n{text}");
        let signature = SigningKey::from_bytes(&[seed; 32]).sign(message.as_bytes()).to_bytes();
        let bytes = [&key_id_and_bytes(self.seed).0[..], &time.to_be_bytes(), &signature].concat();
        let line = format!("\u{2014} {} {}\n", name(self.seed), STANDARD.encode(bytes));
        if mode == Mode::Huge { line.repeat(100_000) } else { line }
    }
}
