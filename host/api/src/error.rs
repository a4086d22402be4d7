//! Errors of the API: `{ "error": code, "message": text, "request_id": id }`. [`Code`] lists all codes.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use gateway_auth::{BindingMismatch, Scope, Unauthenticated};
use gateway_domain::ids::Hex32;
use gateway_domain::key::fit::{EPOCH_CONFLICT, EPOCH_FENCE_MISMATCH, KEY_NOT_ACTIVE};
use gateway_domain::operation::Refusal;
use gateway_domain::policy::{DecisionId, Operand, Statement};
use gateway_engine::{Denial, Denied, Dependency, EngineError, Quota, Unavailable};
use gateway_service::layers;
use gateway_service::strict::Fault;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! codes {
    ($($name:ident = $text:literal, $status:ident;)*) => {
        /// Every error code (`host/docs/interface.md`, section *Errors*).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        #[expect(missing_docs, reason = "host/docs/interface.md lists the cause of each")]
        pub enum Code { $($name,)* }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The code on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The HTTP status of the code.
            #[must_use]
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }
        }
    };
}

codes! {
    InvalidJson = "invalid_json", BAD_REQUEST;
    InvalidOperationId = "invalid_operation_id", BAD_REQUEST;
    InvalidExecuteRequest = "invalid_execute_request", BAD_REQUEST;
    InvalidRequest = "invalid_request", BAD_REQUEST;
    AuthenticationRequired = "authentication_required", UNAUTHORIZED;
    InvalidToken = "invalid_token", UNAUTHORIZED;
    PolicyRejected = "policy_rejected", FORBIDDEN;
    AuditReplayForbidden = "audit_replay_forbidden", FORBIDDEN;
    InsufficientScope = "insufficient_scope", FORBIDDEN;
    ClientBindingMismatch = "client_binding_mismatch", FORBIDDEN;
    ApproverNotPermitted = "approver_not_permitted", FORBIDDEN;
    OriginNotPermitted = "origin_not_permitted", FORBIDDEN;
    OperationNotFound = "operation_not_found", NOT_FOUND;
    CustodyKeyNotFound = "custody_key_not_found", NOT_FOUND;
    NotFound = "not_found", NOT_FOUND;
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED;
    RequestTimeout = "request_timeout", REQUEST_TIMEOUT;
    EventNotInLog = "event_not_in_log", GONE;
    IdempotencyMismatch = "idempotency_mismatch", CONFLICT;
    OperationNotExecuted = "operation_not_executed", CONFLICT;
    ResultRefMismatch = "result_ref_mismatch", CONFLICT;
    PublicationReceiptMismatch = "publication_receipt_mismatch", CONFLICT;
    CustodyKeyExists = "custody_key_exists", CONFLICT;
    CustodyKeyNotActive = "custody_key_not_active", CONFLICT;
    CustodyKeyBusy = "custody_key_busy", CONFLICT;
    EpochConflict = "epoch_conflict", CONFLICT;
    OperationAdmitted = "operation_admitted", CONFLICT;
    OperationFailed = "operation_failed", CONFLICT;
    EpochFenceMismatch = "epoch_fence_mismatch", CONFLICT;
    RecoveryConflict = "recovery_conflict", CONFLICT;
    ExternalExportConflict = "external_export_conflict", CONFLICT;
    ConcurrentUpdate = "concurrent_update", CONFLICT;
    PayloadTooLarge = "payload_too_large", PAYLOAD_TOO_LARGE;
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE;
    PolicyAdmissionRateLimited = "policy_admission_rate_limited", TOO_MANY_REQUESTS;
    InternalError = "internal_error", INTERNAL_SERVER_ERROR;
    RuntimeUnavailable = "runtime_unavailable", SERVICE_UNAVAILABLE;
    PolicyUnavailable = "policy_unavailable", SERVICE_UNAVAILABLE;
    StoreUnavailable = "store_unavailable", SERVICE_UNAVAILABLE;
    AuthenticationUnavailable = "authentication_unavailable", SERVICE_UNAVAILABLE;
}

/// The authentication scheme for callers (RFC 6750).
const CHALLENGE: &str = "Bearer realm=\"operation-gateway\"";

/// The body of every error.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    /// The code, on which clients can rely.
    pub error: Code,
    /// What is wrong, for people. The wording may change.
    pub message: String,
    /// The response's `x-request-id`, which the gateway's log has too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Every fault of the request's body that can be found at once, at most 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Fault>,
    /// The reasons for which the policy denies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    /// SHA-256 of the canonical manifest of the bundle that denies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub bundle_hash: Option<Hex32>,
    /// The record of the denial, for `GET /v1/policy/decisions/{decisionId}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub decision_id: Option<DecisionId>,
}

/// A reason or an obligation of the policy, with what the bundle's manifest says of it.
#[derive(Debug, Serialize, ToSchema)]
pub struct Reason {
    /// The code, which the manifest of the policy's bundle declares.
    pub code: String,
    /// The values compared or needed, by name; may be empty.
    pub operands: Vec<Operand>,
    /// What the code means, by the manifest; may be empty.
    pub text: String,
    /// What the caller can do, by the manifest; may be empty.
    pub remedy: String,
}

impl From<Denial> for Reason {
    fn from(Denial { statement, text, remedy }: Denial) -> Self {
        let Statement { code, operands } = statement;
        Self { code, operands, text, remedy }
    }
}

/// An error response.
#[derive(Debug)]
pub struct ApiError {
    code: Code,
    message: String,
    headers: Vec<(HeaderName, String)>,
    faults: Vec<Fault>,
    denial: Option<Box<Denied>>,
}

impl ApiError {
    /// An error with this code.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), headers: Vec::new(), faults: Vec::new(), denial: None }
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Adds the rate-limit headers, if there is a quota.
    fn with_quota(self, quota: Option<Quota>) -> Self {
        let headers = quota.into_iter().flat_map(rate_limit_headers);
        headers.fold(self, |error, (name, value)| error.with_header(name, value))
    }

    /// The caller lacks the scope that the endpoint requires.
    #[must_use]
    pub fn insufficient_scope(scope: Scope) -> Self {
        let code =
            if scope == Scope::AuditRead { Code::AuditReplayForbidden } else { Code::InsufficientScope };
        let challenge = format!("{CHALLENGE}, error=\"insufficient_scope\", scope=\"{}\"", scope.name());
        Self::new(code, format!("the caller needs the scope `{}`", scope.name()))
            .with_header(header::WWW_AUTHENTICATE, challenge)
    }

    /// Replaces `invalid_json` by `invalid_execute_request`, which the execute endpoints return in its place.
    #[must_use]
    pub fn for_execute(mut self) -> Self {
        if self.code == Code::InvalidJson {
            self.code = Code::InvalidExecuteRequest;
        }
        self
    }

    /// The code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (bundle_hash, decision_id) = self
            .denial
            .as_ref()
            .map_or((None, None), |denied| (Some(denied.bundle_hash), denied.decision_id));
        let reasons = self.denial.map_or_else(Vec::new, |denied| denied.reasons);
        let body = axum::Json(ErrorBody {
            error: self.code,
            message: self.message,
            request_id: layers::current_request_id(),
            errors: self.faults,
            reasons: reasons.into_iter().map(Reason::from).collect(),
            bundle_hash,
            decision_id,
        });
        let mut response = (self.code.status(), body).into_response();
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

/// The faults of a request's body, of which there is at least one.
impl From<Vec<Fault>> for ApiError {
    fn from(faults: Vec<Fault>) -> Self {
        let first = faults.first().map(ToString::to_string).unwrap_or_default();
        let message = match faults.len() {
            0 | 1 => first,
            n_faults => format!("{first} (the first of {n_faults} faults, which `errors` lists)"),
        };
        Self { faults, ..Self::new(Code::InvalidJson, message) }
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        match error {
            EngineError::OperationNotFound => Self::new(
                Code::OperationNotFound,
                "no such operation; check the id, and whether the path is the one for custody operations",
            ),
            EngineError::KeyNotFound(_) => Self::new(Code::CustodyKeyNotFound, message),
            EngineError::DecisionNotFound(_) => Self::new(Code::NotFound, message),
            EngineError::KeyAmbiguous(_) => Self::new(
                Code::InvalidRequest,
                format!("{message}; name the tenant in `client.tenant` or in the identity headers"),
            ),
            EngineError::NoChild(why) => {
                Self::new(Code::InvalidRequest, format!("`path` has no child key: {why}"))
            }
            EngineError::KeyExists(_) => Self::new(Code::CustodyKeyExists, message),
            EngineError::Refused(refusal) => Self::from(refusal),
            EngineError::PolicyRejected { denied, quota, .. } => {
                Self { denial: Some(denied), ..Self::new(Code::PolicyRejected, message).with_quota(quota) }
            }
            EngineError::RateLimited { quota, .. } => rate_limited(&message, quota),
            EngineError::Invalid { pointer, .. } => vec![Fault::at(pointer, message)].into(),
            EngineError::NotInLog(_) => Self::new(
                Code::EventNotInLog,
                format!(
                    "{message}: the gateway was restored from an older copy since, or the event is another gateway's; read again what \
                     you follow, and listen without an id"
                ),
            ),
            EngineError::Conflict => {
                Self::new(Code::ConcurrentUpdate, format!("{message}; send the request again"))
            }
            EngineError::Unavailable(unavailable) => Self::from(unavailable),
            EngineError::Damaged(damage) => {
                tracing::error!(subject = %damage.subject, detail = damage.detail, "record is damaged");
                let message = format!(
                    "the stored record of {} was changed outside the gateway; requests for it fail until an operator \
                     restores it",
                    damage.subject
                );
                Self::new(Code::InternalError, message)
            }
            EngineError::Internal(detail) => {
                tracing::error!(detail, "internal error");
                Self::new(
                    Code::InternalError,
                    "the gateway failed; nothing was lost, the request may be sent again",
                )
            }
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        if let Refusal::PublicationScope { allowed } = refusal {
            return vec![Fault::at("/scope", format!("must be {allowed}"))].into();
        }
        let code = match &refusal {
            Refusal::NotExecuted { .. } => Code::OperationNotExecuted,
            Refusal::ResultRefMismatch { .. } => Code::ResultRefMismatch,
            Refusal::PublicationScope { .. } => Code::InvalidJson,
            Refusal::ApproverNotPermitted { .. } | Refusal::ApprovalNotSigned { .. } => {
                Code::ApproverNotPermitted
            }
            Refusal::PolicyRejected { .. } => Code::PolicyRejected,
            Refusal::NotSubmitter => Code::ClientBindingMismatch,
            Refusal::Admitted => Code::OperationAdmitted,
            Refusal::Failed(failure) => match failure.code.as_str() {
                EPOCH_FENCE_MISMATCH => Code::EpochFenceMismatch,
                EPOCH_CONFLICT => Code::EpochConflict,
                KEY_NOT_ACTIVE => Code::CustodyKeyNotActive,
                _ => Code::OperationFailed,
            },
            Refusal::KeyNotActive { .. } => Code::CustodyKeyNotActive,
            Refusal::KeyBusy => Code::CustodyKeyBusy,
            Refusal::EpochConflict(_) | Refusal::NotAbortable(_) => Code::EpochConflict,
            Refusal::RecoveryConflict { .. } => Code::RecoveryConflict,
            Refusal::PublicationReceiptMismatch => Code::PublicationReceiptMismatch,
            Refusal::ExportConflict(_) => Code::ExternalExportConflict,
        };
        Self::new(code, refusal.to_string())
    }
}

impl From<Unavailable> for ApiError {
    fn from(unavailable: Unavailable) -> Self {
        let code = match unavailable.dependency {
            Dependency::Store => Code::StoreUnavailable,
            Dependency::Policy | Dependency::Authority => Code::PolicyUnavailable,
            Dependency::Runtime => Code::RuntimeUnavailable,
        };
        tracing::warn!(
            dependency = unavailable.dependency.as_str(),
            detail = unavailable.detail,
            "unavailable"
        );
        Self::new(code, format!("{unavailable}; nothing was lost, send the request again"))
            .with_header(header::RETRY_AFTER, "1")
    }
}

impl From<Unauthenticated> for ApiError {
    /// RFC 6750, section 3: the challenge for a request without a token has no error code.
    fn from(unauthenticated: Unauthenticated) -> Self {
        let message = unauthenticated.to_string();
        match unauthenticated {
            Unauthenticated::Required(_) => Self::new(Code::AuthenticationRequired, message)
                .with_header(header::WWW_AUTHENTICATE, CHALLENGE),
            Unauthenticated::Unreadable { .. } => Self::new(Code::InvalidRequest, message),
            Unauthenticated::InvalidToken(fault) => {
                let challenge =
                    format!("{CHALLENGE}, error=\"invalid_token\", error_description=\"{fault}\"");
                Self::new(Code::InvalidToken, message).with_header(header::WWW_AUTHENTICATE, challenge)
            }
            Unauthenticated::Unavailable(_) => {
                let message = format!("{message}; nothing was done, send the request again");
                Self::new(Code::AuthenticationUnavailable, message).with_header(header::RETRY_AFTER, "5")
            }
        }
    }
}

impl From<BindingMismatch> for ApiError {
    fn from(mismatch: BindingMismatch) -> Self {
        Self::new(Code::ClientBindingMismatch, mismatch.to_string())
    }
}

/// The quota as headers (IETF draft-ietf-httpapi-ratelimit-headers-03). `RateLimit-Reset` is the time until
/// the quota is full, in seconds, rounded up.
#[must_use]
pub fn rate_limit_headers(quota: Quota) -> [(HeaderName, String); 3] {
    let Quota { limit, remaining, full_in_ms, .. } = quota;
    [
        (HeaderName::from_static("ratelimit-limit"), limit.to_string()),
        (HeaderName::from_static("ratelimit-remaining"), remaining.to_string()),
        (HeaderName::from_static("ratelimit-reset"), full_in_ms.div_ceil(1000).to_string()),
    ]
}

fn rate_limited(message: &str, quota: Quota) -> ApiError {
    let retry_after_ms = quota.retry_after_ms;
    let seconds = retry_after_ms.div_ceil(1000).max(1).to_string();
    let message = format!("{message}; retry in {retry_after_ms} ms");
    ApiError::new(Code::PolicyAdmissionRateLimited, message)
        .with_header(header::RETRY_AFTER, seconds)
        .with_quota(Some(quota))
}
