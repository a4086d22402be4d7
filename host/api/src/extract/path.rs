//! `{operationId}`: checked before anything else.

use crate::error::{ApiError, Code};
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use gateway_domain::ids::OperationId;

/// The operation a path names.
pub struct PathOperationId(pub OperationId);

impl<S: Send + Sync> FromRequestParts<S> for PathOperationId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        let id = text.ok().and_then(|Path(text)| text.parse().ok());
        id.map(Self).ok_or_else(|| {
            ApiError::new(Code::InvalidOperationId, "an operation id is 64 lowercase hexadecimal characters")
        })
    }
}
