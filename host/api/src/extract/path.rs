//! `{operationId}` and `{keyRef}`: checked before anything else.

use crate::error::{ApiError, Code};
use crate::strict::TEXT_BYTES_MAX;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use gateway_domain::ids::{KeyRef, OperationId};

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

/// The key a path names.
pub struct PathKeyRef(pub KeyRef);

impl<S: Send + Sync> FromRequestParts<S> for PathKeyRef {
    type Rejection = ApiError;

    /// What is no text, or longer than any key's name, names no key.
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        let name =
            text.ok().filter(|Path(text)| text.len() <= TEXT_BYTES_MAX).map(|Path(text)| Self(KeyRef(text)));
        name.ok_or_else(|| {
            ApiError::new(Code::CustodyKeyNotFound, "a key's name is at most 1024 bytes of UTF-8")
        })
    }
}
