//! `/v1/policy/decisions`: what the policy decided, refusals and previews too.

use crate::error::ApiError;
use crate::error::Code::*;
use crate::extract::Caller;
use crate::extract::list::ListQuery;
use crate::extract::query::invalid_query;
use crate::state::App;
use crate::wire::decisions::{DecisionView, DecisionsResponse};
use axum::Json;
use axum::extract::{Path, RawQuery, State};
use gateway_auth::Scope::*;
use gateway_domain::ids::OperationId;
use gateway_domain::policy::{Decision, DecisionId, InvalidDecisionId};
use gateway_engine::ports::{DecisionFilter, SearchedFrom};

/// What decisions are found by.
const FILTERS: [&str; 8] = [
    "operation_id",
    "request_id",
    "idempotency_key",
    "subject_id",
    "decision",
    "code",
    "after_ms",
    "before_ms",
];

/// Finds recorded decisions, newest first.
#[utoipa::path(
    get, path = "/v1/policy/decisions", operation_id = "policy_decisions", tag = "policy",
    security(("bearer" = [AuditRead])), responses((status = 200, body = DecisionsResponse)),
    params(
        ("operation_id" = Option<String>, Query, description = "Only decisions on this operation, refused approvals too", pattern = "^[0-9a-f]{64}$"),
        ("request_id" = Option<String>, Query, description = "Only refusals and previews that this request caused. A decision that moved an operation is found by the operation"),
        ("idempotency_key" = Option<String>, Query, description = "Only decisions on the payment, or on the refused submissions, with this idempotency key"),
        ("subject_id" = Option<String>, Query, description = "Only decisions on what this subject submitted"),
        ("decision" = Option<Decision>, Query, description = "Only `ALLOW` or only `DENY`"),
        ("code" = Option<String>, Query, description = "Only decisions with this reason or obligation"),
        ("after_ms" = Option<u64>, Query, description = "Only later ones, milliseconds since 1970"),
        ("before_ms" = Option<u64>, Query, description = "Only earlier ones, milliseconds since 1970"),
        ("limit" = Option<u32>, Query, description = "Maximum number of decisions on a page; 50 by default", minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page, which had the same filters; without it the first page", pattern = "^[0-9]{1,19}-[0-9]{1,19}-[0-9]{1,19}-[0-9a-f]{16}$"),
    ),
)]
pub async fn list(
    caller: Caller,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Json<DecisionsResponse>, ApiError> {
    let query = ListQuery::parse("policy decisions", query.as_deref().unwrap_or_default(), &FILTERS)?;
    let text = |name| query.filters.text(name).map(str::to_owned);
    let filter = DecisionFilter {
        operation_id: query.filters.text("operation_id").map(operation_id).transpose()?,
        request_id: text("request_id"),
        idempotency_key: text("idempotency_key"),
        subject_id: text("subject_id"),
        decision: query.filters.word("decision", &Decision::ALL, Decision::as_str)?,
        code: text("code"),
        after: query.filters.time("after_ms")?,
        before: query.filters.time("before_ms")?,
    };
    let n_max = usize::try_from(query.n_max).unwrap_or(usize::MAX);
    let from = query.after.unwrap_or_default();
    let found = app.engine().decisions(&caller.visibility(), &filter, from, n_max).await?;
    let decisions = found.decisions.iter().map(|one| DecisionView::new(app.engine(), one)).collect();
    let next = Some(found.searched).filter(|searched: &SearchedFrom| !searched.is_end());
    Ok(Json(DecisionsResponse { decisions, next_cursor: query.cursor(next) }))
}

/// Shows a recorded decision.
#[utoipa::path(
    get, path = "/v1/policy/decisions/{decisionId}", operation_id = "policy_decision", tag = "policy",
    security(("bearer" = [AuditRead])), responses((status = 200, body = DecisionView)),
    params(("decisionId" = String, Path, description = "`decision_id` of a denial, or of a search", pattern = "^(refusal|preview|[0-9a-f]{64})-(0|[1-9][0-9]{0,17})$")),
    extensions(("x-errors" = json!([NotFound]))),
)]
pub async fn show(
    caller: Caller,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Json<DecisionView>, ApiError> {
    let id: DecisionId = id
        .parse()
        .map_err(|invalid: InvalidDecisionId| invalid_query(format!("the decision's id {invalid}")))?;
    let recorded = app.engine().decision(&caller.visibility(), id).await?;
    Ok(Json(DecisionView::new(app.engine(), &recorded)))
}

fn operation_id(text: &str) -> Result<OperationId, ApiError> {
    let wrong = "`operation_id` must be 64 lowercase hexadecimal characters";
    text.parse().map_err(|_| invalid_query(wrong.to_owned()))
}
