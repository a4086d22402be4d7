//! `/v1/webhooks`: how far events were sent, and sending again. The webhooks themselves are in a file of the operator.

use crate::error::ApiError;
use crate::error::Code::*;
use crate::extract::{Body, Caller};
use crate::state::App;
use crate::warning::{self, Warning};
use crate::wire::webhooks::{ResendRequest, WebhookView, WebhooksResponse};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use gateway_auth::Scope::*;
use gateway_engine::Resent;

/// Shows how far events were sent to each webhook of the caller's tenant.
#[utoipa::path(
    get, path = "/v1/webhooks", operation_id = "webhooks", tag = "webhooks",
    security(("bearer" = [WebhooksManage])), responses((status = 200, body = WebhooksResponse)),
)]
pub async fn list(caller: Caller, State(app): State<App>) -> Result<Json<WebhooksResponse>, ApiError> {
    let (webhooks, log_position) = app.engine().webhooks(&caller.visibility()).await?;
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
    Path(name): Path<String>,
    State(app): State<App>,
    caller: Caller,
    body: Body<ResendRequest>,
) -> Result<(HeaderMap, Json<WebhookView>), ApiError> {
    match app.engine().webhook_resend(&caller.visibility(), &name, body.checked).await? {
        Resent::Yes(status) => {
            let warnings = Warning::unknown_members(&body.unknown);
            Ok((warning::headers(&warnings), Json(WebhookView::from(*status))))
        }
        Resent::Unknown => Err(ApiError::new(NotFound, "there is no such webhook")),
        Resent::NotSentYet { position } => {
            let message = format!("`/from` must be at most {position}: later events were not sent yet");
            Err(ApiError::new(InvalidRequest, message))
        }
    }
}
