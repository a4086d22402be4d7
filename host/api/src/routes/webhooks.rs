//! `/v1/webhooks`: how far events were sent, and sending again. The webhooks themselves are in a file of the operator.

use crate::error::ApiError;
use crate::error::Code::*;
use crate::extract::{Body, Caller};
use crate::state::App;
use crate::warning::{self, Warning};
use crate::wire::webhooks::{DismissRequest, ResendRequest, WebhookView, WebhooksResponse};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use gateway_auth::Scope::*;
use gateway_engine::WebhookChanged;
use gateway_engine::ports::VisibleWebhooks;

/// Shows how far events were sent to each webhook of the caller's tenant.
#[utoipa::path(
    get, path = "/v1/webhooks", operation_id = "webhooks", tag = "webhooks",
    security(("bearer" = [WebhooksManage])), responses((status = 200, body = WebhooksResponse)),
)]
pub async fn list(caller: Caller, State(app): State<App>) -> Result<Json<WebhooksResponse>, ApiError> {
    let (webhooks, log_position) = app.engine().webhooks(&visible(&caller)).await?;
    Ok(Json(WebhooksResponse {
        webhooks: webhooks.into_iter().map(WebhookView::from).collect(),
        log_position,
    }))
}

/// Sends events to a webhook again: all from an index of the log on, in order, also those that it refused. Each has the id that it had.
#[utoipa::path(
    post, path = "/v1/webhooks/{name}/resend", operation_id = "webhook_resend", tag = "webhooks",
    security(("bearer" = [WebhooksManage])), request_body = ResendRequest,
    responses((status = 200, body = WebhookView)),
    params(("name" = String, Path, description = "The webhook's name", pattern = "^[a-z0-9-]{1,64}$")),
    extensions(("x-errors" = json!([InvalidRequest, NotFound]))),
)]
pub async fn resend(
    name: Result<Path<String>, PathRejection>,
    State(app): State<App>,
    caller: Caller,
    body: Body<ResendRequest>,
) -> Result<(HeaderMap, Json<WebhookView>), ApiError> {
    let changed = app.engine().webhook_resend(&visible(&caller), &name_of(name), body.checked).await?;
    answer(changed, &body.unknown)
}

/// Forgets events that a webhook refused, up to an index of the log. They are not sent again.
#[utoipa::path(
    post, path = "/v1/webhooks/{name}/dismiss", operation_id = "webhook_dismiss", tag = "webhooks",
    security(("bearer" = [WebhooksManage])), request_body = DismissRequest,
    responses((status = 200, body = WebhookView)),
    params(("name" = String, Path, description = "The webhook's name", pattern = "^[a-z0-9-]{1,64}$")),
    extensions(("x-errors" = json!([NotFound]))),
)]
pub async fn dismiss(
    name: Result<Path<String>, PathRejection>,
    State(app): State<App>,
    caller: Caller,
    body: Body<DismissRequest>,
) -> Result<(HeaderMap, Json<WebhookView>), ApiError> {
    let changed = app.engine().webhook_dismiss(&visible(&caller), &name_of(name), body.checked).await?;
    answer(changed, &body.unknown)
}

fn visible(caller: &Caller) -> VisibleWebhooks {
    VisibleWebhooks { of: caller.visibility(), of_all: caller.principal.has_scope(WebhooksOfAll) }
}

/// A name that is not UTF-8 is one of no webhook.
fn name_of(path: Result<Path<String>, PathRejection>) -> String {
    path.map(|Path(name)| name).unwrap_or_default()
}

fn answer(changed: WebhookChanged, unknown: &[String]) -> Result<(HeaderMap, Json<WebhookView>), ApiError> {
    match changed {
        WebhookChanged::Yes(status) => {
            Ok((warning::headers(&Warning::unknown_members(unknown)), Json(WebhookView::from(*status))))
        }
        WebhookChanged::Unknown => Err(ApiError::new(NotFound, "there is no such webhook")),
        WebhookChanged::NotSentYet { position } => {
            let message = format!("`/from` must be at most {position}: later events were not sent yet");
            Err(ApiError::new(InvalidRequest, message))
        }
    }
}
