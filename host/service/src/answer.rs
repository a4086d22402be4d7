//! Answers of the services behind the gateway: JSON, and errors with the same body as the gateway's.

use crate::body::{self, BodyError};
use crate::layers;
use crate::strict::{Fault, read_exact};
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use gateway_domain::approval::LapsedApproval;
use gateway_domain::policy::SpendingTotals;
use gateway_seal::relay::Complaint;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::timeout;
use tower_http::catch_panic::CatchPanicLayer;

/// Longest path and query together, bytes.
const TARGET_BYTES_MAX: usize = 1024;

/// Time limit for a request's body.
const BODY_WITHIN: Duration = Duration::from_secs(20);

/// Time limit for a whole request. Ceremonies compute for seconds at most.
const REQUEST_WITHIN: Duration = Duration::from_secs(60);

/// The body of every error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// The code, on which clients can rely.
    pub error: String,
    /// What is wrong, for people. The wording may change.
    pub message: String,
    /// The response's `x-request-id`, which the service's log has too.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request_id: Option<String>,
    /// Participants that are proven to have misbehaved, if that is the reason.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub culprits: Vec<u16>,
    /// What proves it, if only the service has that: a wrong message to it, with its sender's signature.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub complaint: Option<Box<Complaint>>,
    /// What an authority admitted for a payment's account and recipient, if that is why it refuses the payment.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub totals: Option<SpendingTotals>,
    /// The approval that an authority does not count, if that is why it refuses.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub lapsed: Option<Box<LapsedApproval>>,
    /// Every fault of the request's body that can be found at once.
    #[serde(skip_serializing_if = "Vec::is_empty", skip_deserializing, default)]
    pub errors: Vec<Fault>,
}

/// An error response.
#[derive(Clone, Debug)]
pub struct ErrorAnswer(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    status: StatusCode,
    code: &'static str,
    message: String,
    culprits: Vec<u16>,
    complaint: Option<Box<Complaint>>,
    totals: Option<SpendingTotals>,
    lapsed: Option<LapsedApproval>,
    faults: Vec<Fault>,
    header: Option<(HeaderName, &'static str)>,
}

impl ErrorAnswer {
    /// An error with this status and code.
    #[must_use]
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let (message, culprits, faults) = (message.into(), Vec::new(), Vec::new());
        let (complaint, totals, lapsed, header) = (None, None, None, None);
        Self(Box::new(Parts { status, code, message, culprits, complaint, totals, lapsed, faults, header }))
    }

    /// Adds the participants that misbehaved, and what proves it.
    #[must_use]
    pub fn with_culprits(mut self, culprits: Vec<u16>, complaint: Option<Box<Complaint>>) -> Self {
        (self.0.culprits, self.0.complaint) = (culprits, complaint);
        self
    }

    /// Adds what an authority admitted.
    #[must_use]
    pub fn with_totals(mut self, totals: SpendingTotals) -> Self {
        self.0.totals = Some(totals);
        self
    }

    /// Adds the approval that an authority does not count.
    #[must_use]
    pub fn with_lapsed(mut self, lapsed: LapsedApproval) -> Self {
        self.0.lapsed = Some(lapsed);
        self
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.0.header = Some((name, value));
        self
    }

    /// 503: the service cannot answer now; the same request may succeed later.
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        let answer = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        answer.with_header(header::RETRY_AFTER, "1")
    }
}

impl From<Vec<Fault>> for ErrorAnswer {
    fn from(faults: Vec<Fault>) -> Self {
        let first = faults.first().map(ToString::to_string).unwrap_or_default();
        let mut answer = Self::new(StatusCode::BAD_REQUEST, "invalid_json", first);
        answer.0.faults = faults;
        answer
    }
}

impl From<BodyError> for ErrorAnswer {
    fn from(error: BodyError) -> Self {
        let message = error.to_string();
        match error {
            BodyError::TooLarge { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message)
            }
            BodyError::MediaType { .. } | BodyError::Encoded { .. } => {
                Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
            }
            BodyError::Interrupted => Self::new(StatusCode::BAD_REQUEST, "invalid_json", message),
            BodyError::TooSlow { .. } => {
                let answer = Self::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message);
                answer.with_header(header::CONNECTION, "close")
            }
        }
    }
}

impl IntoResponse for ErrorAnswer {
    fn into_response(self) -> Response {
        let Parts { status, code, message, culprits, complaint, totals, lapsed, faults, header } = *self.0;
        let body = ErrorBody {
            error: code.to_owned(),
            message,
            request_id: layers::current_request_id(),
            culprits,
            complaint,
            totals,
            lapsed: lapsed.map(Box::new),
            errors: faults,
        };
        let mut response = (status, axum::Json(body)).into_response();
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, axum::http::HeaderValue::from_static(value));
        }
        response
    }
}

/// Reads a JSON body of at most `bytes_max` bytes with [`read_exact`].
///
/// # Errors
/// [`ErrorAnswer`] when the body is of another media type, too large, too slow or interrupted, or does not fit `T`.
pub async fn read_json<T: DeserializeOwned + Serialize>(
    request: Request,
    bytes_max: usize,
) -> Result<T, ErrorAnswer> {
    let bytes = body::read(request, bytes_max, BODY_WITHIN).await?;
    read_exact(&bytes).map_err(|fault| vec![fault].into())
}

/// The routes with the layers that every service has.
pub fn with_layers(router: Router) -> Router {
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn(limit))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn(layers::observe))
}

async fn limit(request: Request, next: Next) -> Response {
    if let Err(message) = layers::check_head(&request, TARGET_BYTES_MAX) {
        return ErrorAnswer::new(StatusCode::BAD_REQUEST, "invalid_request", message).into_response();
    }
    timeout(REQUEST_WITHIN, next.run(request)).await.unwrap_or_else(|_| {
        ErrorAnswer::unavailable("the request was not finished in time; send it again").into_response()
    })
}

/// The answer to a request whose handler panicked. The panic hook logs the panic.
fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    let message = "the service failed; nothing was lost, the request may be sent again";
    ErrorAnswer::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message).into_response()
}

async fn not_found() -> ErrorAnswer {
    ErrorAnswer::new(StatusCode::NOT_FOUND, "not_found", "no such path; GET /v1/openapi.json lists them")
}

/// axum adds the `Allow` header.
async fn method_not_allowed() -> ErrorAnswer {
    let message = "this path does not support this method; see the `Allow` header";
    ErrorAnswer::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}
