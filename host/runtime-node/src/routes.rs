//! The node surface: the contract's node-level endpoints, and those beside it. Each handler parses the request and calls one
//! method of the node.

use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::contribution::{HelperAdmission, RecoveryCase};
use gateway_domain::ids::OperationId;
use gateway_domain::node_log::SignedLogHead;
use gateway_domain::operation::EffectStep;
use gateway_node::wire::{
    BODY_BYTES_MAX, BUNDLE_UNKNOWN, ExecuteAnswer, ExecuteBody, Health, LogEntries, MissingSharesAnswer,
    MissingSharesRequest, NodeAdmissionDecisionRequest, NodeOperationSubmitRequest, NodeOperationView,
    Nothing, OFFER_BODY_BYTES_MAX, OfferBundleRequest, PolicyReceiptAnswer, ReceiptAnswer, RecoverAnswer,
    Slot, StepRequest, WireFault,
};
use gateway_node::{
    Call, Code, CommitEpoch, Discard, Node, NodeError, NodeRejection, NodeStatus, Publication, ShownReceipt,
};
use gateway_service::answer::{self, ErrorAnswer};
use gateway_service::layers;
use gateway_service::quota::{self, Quotas};
use gateway_service::strict::Fault;
use gateway_service::telemetry;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Announcements that a node remembers, in memory only. The oldest is dropped first; its admission then has to carry it again.
const ANNOUNCED_MAX: usize = 4096;

/// Largest body of an announcement, bytes: it has digests, and the numbers of at most 64 participants.
const ANNOUNCEMENT_BYTES_MAX: usize = 16 * 1024;

/// The document that describes this surface, OpenAPI 3.1. The test `document` makes it from the wire types.
pub const OPENAPI: &str = include_str!("../openapi.json");

type Answer<T> = Result<Json<T>, ErrorAnswer>;

/// Most entries of the log in one answer.
const ENTRIES_MAX: u32 = 1000;

#[derive(Clone)]
struct App {
    node: Arc<Node>,
    announced: Arc<Mutex<Announced>>,
}

/// Announcements, in the order in which they came.
#[derive(Default)]
struct Announced {
    by_id: BTreeMap<OperationId, (u64, NodeOperationSubmitRequest)>,
    n_total: u64,
}

impl Announced {
    fn insert(&mut self, request: NodeOperationSubmitRequest) {
        let id = request.intent.operation_id;
        if self.by_id.len() >= ANNOUNCED_MAX && !self.by_id.contains_key(&id) {
            let oldest = self.by_id.iter().min_by_key(|(_, (number, _))| *number).map(|(id, _)| *id);
            oldest.map(|oldest| self.by_id.remove(&oldest));
        }
        self.n_total += 1;
        self.by_id.insert(id, (self.n_total, request));
    }
}

/// The routes that callers use, each within its quota.
pub fn router(node: Arc<Node>, quotas: Arc<Quotas>) -> Router {
    let app = App { node, announced: Arc::default() };
    let routes = Router::new()
        .route("/v1/node/operations", post(announce))
        .route("/v1/node/operations/{id}", get(show_operation))
        .route("/v1/node/operations/{id}/admission", post(admit))
        .route("/v1/node/operations/{id}/steps/policy-receipt", post(policy_receipt))
        .route("/v1/node/operations/{id}/steps/execute", post(execute))
        .route("/v1/node/operations/{id}/steps/commit-epoch", post(commit_epoch))
        .route("/v1/node/operations/{id}/steps/publish", post(publish))
        .route("/v1/node/operations/{id}/steps/discard", post(discard))
        .route("/v1/node/operations/{id}/steps/recover", post(recover))
        .route("/v1/node/bundles", post(offer_bundle))
        .route("/v1/node/keys/missing-shares", post(missing_shares))
        .route("/v1/node/keys/contributions", post(contribution))
        .route("/v1/node/log", get(log))
        .route("/v1/node/log/entries/{from}", get(log_entries))
        .route("/v1/node/status", get(status))
        .route_layer(from_fn_with_state(quotas, quota::limit))
        .route("/healthz", get(healthz))
        .route("/v1/openapi.json", get(openapi))
        .with_state(app);
    answer::with_layers(routes)
}

/// The routes for the operator's own tools.
pub fn admin(node: Arc<Node>) -> Router {
    let routes = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(node);
    answer::with_layers(routes)
}

/// Announces an operation. The node remembers it until the admission, which is compared with it.
async fn announce(State(app): State<App>, request: Request) -> Answer<NodeOperationView> {
    let announced: NodeOperationSubmitRequest = answer::read_json(request, ANNOUNCEMENT_BYTES_MAX).await?;
    announced.check().map_err(fault)?;
    let id = announced.intent.operation_id;
    app.announced.lock().insert(announced);
    view(&app, id).await
}

async fn show_operation(State(app): State<App>, Path(id): Path<String>) -> Answer<NodeOperationView> {
    view(&app, parse_id(&id)?).await
}

async fn view(app: &App, id: OperationId) -> Answer<NodeOperationView> {
    let participant = app.node.participant();
    match app.node.operation(id).await.map_err(error)? {
        Some(state) => Ok(Json(NodeOperationView::stored(id, participant, state))),
        None if app.announced.lock().by_id.contains_key(&id) => {
            Ok(Json(NodeOperationView::announced(id, participant)))
        }
        None => {
            let message = "the node does not know this operation";
            Err(ErrorAnswer::new(StatusCode::NOT_FOUND, "operation_not_found", message))
        }
    }
}

async fn admit(State(app): State<App>, Path(id): Path<String>, request: Request) -> Answer<ReceiptAnswer> {
    let id = parse_id(&id)?;
    let request: NodeAdmissionDecisionRequest = read(request).await?;
    check_clock(request.now_ms)?;
    let announced = app.announced.lock().by_id.get(&id).map(|(_, request)| request.clone());
    show(&app.node, request.newest.as_ref()).await?;
    let request = request.admit_request(id, announced.as_ref()).map_err(fault)?;
    let receipt = app.node.admit(&request).await.map_err(error)?;
    app.announced.lock().by_id.remove(&id);
    Ok(Json(ReceiptAnswer { receipt }))
}

/// Refuses an admission if the caller's clock and the node's differ by more than [`CLOCK_SKEW_MS`]: one of the two cannot tell
/// whether a decision is valid.
fn check_clock(caller_ms: Option<u64>) -> Result<(), ErrorAnswer> {
    let now_ms = gateway_service::now().0;
    let difference_ms = caller_ms.map_or(0, |caller_ms| caller_ms.abs_diff(now_ms));
    if difference_ms <= CLOCK_SKEW_MS {
        return Ok(());
    }
    let seconds = difference_ms / 1000;
    Err(ErrorAnswer::unavailable(format!("the clocks of the caller and of the node differ by {seconds} s")))
}

async fn policy_receipt(
    State(app): State<App>,
    Path(id): Path<String>,
    request: Request,
) -> Answer<PolicyReceiptAnswer> {
    let (call, Nothing {}) = step(&app, &id, EffectStep::PolicyReceipt, request).await?;
    Ok(Json(app.node.policy_receipt(&call).await.map_err(error)?.into()))
}

async fn execute(State(app): State<App>, Path(id): Path<String>, request: Request) -> Answer<ExecuteAnswer> {
    let id = parse_id(&id)?;
    let StepRequest { context, newest, body }: StepRequest<ExecuteBody> = read(request).await?;
    let call = context.call(id, EffectStep::Execute).map_err(fault)?;
    show(&app.node, newest.as_ref()).await?;
    let ExecuteBody { discarded, package, start, messages } = body;
    let answer = match (context.slot, package, start, messages) {
        (Slot::Commitments, None, None, None) => {
            let answer = app.node.signing_commit(&call, &discarded).await.map_err(error)?;
            ExecuteAnswer::round_one(answer).map_err(error)?
        }
        (Slot::Share, Some(package), None, None) if discarded.is_empty() => {
            let package = package.parse().map_err(fault)?;
            ExecuteAnswer::share(app.node.signing_share(&call, &package).await.map_err(error)?)
        }
        (Slot::CeremonyStart, None, Some(start), None) => {
            let start = start.parse(discarded).map_err(fault)?;
            ExecuteAnswer::ceremony(app.node.ceremony_start(&call, &start).await.map_err(error)?)
        }
        (Slot::CeremonyMessages, None, None, Some(messages)) if discarded.is_empty() => {
            ExecuteAnswer::ceremony(app.node.ceremony_deliver(&call, &messages).await.map_err(error)?)
        }
        (Slot::DiscardAttempt, None, None, None) if discarded.is_empty() => {
            ExecuteAnswer::Discarded { receipt: app.node.discard_attempt(&call).await.map_err(error)? }
        }
        (
            Slot::Step
            | Slot::Commitments
            | Slot::Share
            | Slot::CeremonyStart
            | Slot::CeremonyMessages
            | Slot::DiscardAttempt,
            ..,
        ) => {
            return Err(vec![Fault::at("/body", "must have exactly the member of the slot")].into());
        }
    };
    Ok(Json(answer))
}

async fn commit_epoch(
    State(app): State<App>,
    Path(id): Path<String>,
    request: Request,
) -> Answer<ReceiptAnswer> {
    let (call, commit): (_, CommitEpoch) = step(&app, &id, EffectStep::CommitEpoch, request).await?;
    receipt(app.node.commit_epoch(&call, &commit).await)
}

async fn publish(State(app): State<App>, Path(id): Path<String>, request: Request) -> Answer<ReceiptAnswer> {
    let (call, publication): (_, Publication) = step(&app, &id, EffectStep::Publish, request).await?;
    receipt(app.node.publish(&call, &publication).await)
}

async fn discard(State(app): State<App>, Path(id): Path<String>, request: Request) -> Answer<ReceiptAnswer> {
    let (call, discard): (_, Discard) = step(&app, &id, EffectStep::Discard, request).await?;
    receipt(app.node.discard(&call, &discard).await)
}

/// The receipts for a step that the node has made, for a caller that lost them. The context is that of the step.
async fn recover(State(app): State<App>, Path(id): Path<String>, request: Request) -> Answer<RecoverAnswer> {
    let id = parse_id(&id)?;
    let StepRequest { context, newest, body: Nothing {} } = read(request).await?;
    let call = context.call(id, context.step.op_class).map_err(fault)?;
    show(&app.node, newest.as_ref()).await?;
    let receipts = app.node.recover(&call).await.map_err(error)?;
    Ok(Json(RecoverAnswer { receipts }))
}

async fn offer_bundle(State(app): State<App>, request: Request) -> Answer<Nothing> {
    let offer: OfferBundleRequest = answer::read_json(request, OFFER_BODY_BYTES_MAX).await?;
    app.node.offer_bundle(offer.parse().map_err(|why| fault(why.into()))?).await.map_err(error)?;
    Ok(Json(Nothing {}))
}

async fn missing_shares(State(app): State<App>, request: Request) -> Answer<MissingSharesAnswer> {
    let MissingSharesRequest { keys } = read(request).await?;
    let missing = app.node.missing_shares(&keys).await.map_err(error)?.into_iter().collect();
    Ok(Json(MissingSharesAnswer { missing }))
}

/// What the node would contribute to a recovery.
async fn contribution(State(app): State<App>, request: Request) -> Answer<HelperAdmission> {
    let case: RecoveryCase = read(request).await?;
    app.node.contribution(&case).await.map(Json).map_err(error)
}

/// The signed head of the node's log.
async fn log(State(app): State<App>) -> Answer<SignedLogHead> {
    app.node.log_head().await.map(Json).map_err(error)
}

/// The entries from a position on, at most [`ENTRIES_MAX`].
async fn log_entries(State(app): State<App>, Path(from): Path<String>) -> Answer<LogEntries> {
    let Ok(from) = from.parse() else {
        let message = "the position in the log must be a number, from 0";
        return Err(ErrorAnswer::new(StatusCode::BAD_REQUEST, "invalid_request", message));
    };
    let entries = app.node.log_entries(from, ENTRIES_MAX).await.map_err(error)?;
    Ok(Json(LogEntries { entries }))
}

async fn status(State(app): State<App>) -> Json<NodeStatus> {
    Json(app.node.status().await)
}

/// Liveness: answers while the process runs, and checks nothing.
async fn healthz() -> Json<Health> {
    Json(Health { status: "ok".into(), version: env!("CARGO_PKG_VERSION").into() })
}

async fn readyz(State(node): State<Arc<Node>>) -> (StatusCode, Json<NodeStatus>) {
    let status = node.status().await;
    let code = if status.is_usable { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(status))
}

async fn metrics() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], telemetry::metrics())
}

async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI)
}

async fn read<T: DeserializeOwned + Serialize>(request: Request) -> Result<T, ErrorAnswer> {
    answer::read_json(request, BODY_BYTES_MAX).await
}

/// Reads the request of a step of one call.
async fn step<B: DeserializeOwned + Serialize>(
    app: &App,
    id: &str,
    step: EffectStep,
    request: Request,
) -> Result<(Call, B), ErrorAnswer> {
    let id = parse_id(id)?;
    let StepRequest { context, newest, body }: StepRequest<B> = read(request).await?;
    if context.slot != Slot::Step {
        return Err(vec![Fault::at("/slot", "must be `step`")].into());
    }
    let call = context.call(id, step).map_err(fault)?;
    show(&app.node, newest.as_ref()).await?;
    Ok((call, body))
}

/// Shows the node the newest of its receipts that the caller knows.
async fn show(node: &Node, newest: Option<&ShownReceipt>) -> Result<(), ErrorAnswer> {
    match newest {
        Some(newest) => node.show_newest(newest).await.map_err(error),
        None => Ok(()),
    }
}

fn receipt(answer: Result<gateway_domain::receipt::NodeReceipt, NodeError>) -> Answer<ReceiptAnswer> {
    answer.map(|receipt| Json(ReceiptAnswer { receipt })).map_err(error)
}

fn parse_id(id: &str) -> Result<OperationId, ErrorAnswer> {
    id.parse().map(OperationId).inspect(|id| layers::note_operation(id)).map_err(|_| {
        let message = "the operation id must be 64 lowercase hexadecimal characters";
        ErrorAnswer::new(StatusCode::BAD_REQUEST, "invalid_operation_id", message)
    })
}

fn fault(WireFault { pointer, message }: WireFault) -> ErrorAnswer {
    vec![Fault::at(pointer, message)].into()
}

/// The error of the node. Its code is the rejection's, so that the caller can tell them apart.
fn error(error: NodeError) -> ErrorAnswer {
    match error {
        NodeError::Rejected(NodeRejection { code, detail, culprits, complaint }) => {
            let status = match code {
                Code::AdmissionRefused | Code::ApprovalRefused | Code::PolicyRefused => StatusCode::FORBIDDEN,
                Code::AdmissionExpired
                | Code::BundleSuperseded
                | Code::AdmissionConflict
                | Code::EpochConflict
                | Code::StepOutOfOrder
                | Code::EffectConflict
                | Code::AttemptSuperseded
                | Code::AttemptNotDiscarded
                | Code::SessionConsumed
                | Code::PackageRefused
                | Code::ResultRefused
                | Code::CeremonyMisbehaviour
                | Code::RelayMisbehaviour
                | Code::OperationDiscarded
                | Code::DecidedBeforeReadmission
                | Code::ReceiptRefused => StatusCode::CONFLICT,
            };
            let culprits = culprits.into_iter().map(|culprit| culprit.0).collect();
            ErrorAnswer::new(status, code.as_str(), detail).with_culprits(culprits, complaint)
        }
        NodeError::BundleUnknown { bundle_hash } => {
            ErrorAnswer::new(StatusCode::CONFLICT, BUNDLE_UNKNOWN, bundle_hash.to_string())
        }
        NodeError::Lost { reason } => ErrorAnswer::new(StatusCode::CONFLICT, "attempt_lost", reason),
        NodeError::Unavailable { detail, source } => {
            if let Some(source) = source {
                tracing::warn!(error = source.as_ref() as &dyn std::error::Error, "{detail}");
            }
            ErrorAnswer::unavailable(detail)
        }
    }
}
