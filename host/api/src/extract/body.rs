//! Request bodies: size, media type, strict JSON, shape. Every fault has the contract's error body.

use crate::error::{ApiError, Code};
use crate::state::{App, UnknownFields};
use crate::strict::{self, Fault, Json};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderValue, header};
use http_body_util::LengthLimitError;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::time::timeout;
use zeroize::{Zeroize, Zeroizing};

/// A body of shape `T`.
pub struct Body<T> {
    /// The shape.
    pub value: T,
    /// Members of the body that the shape does not have.
    pub unknown: Vec<String>,
}

/// A body of shape `T`, where none at all is an empty object.
pub struct OptionalBody<T>(pub Body<T>);

/// A body whose secret members are taken out before anything else reads it; what is left is overwritten afterwards.
pub struct SecretBody(Json);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let bytes = bytes(request, app, app.options().body_bytes_max).await?;
        shape(&strict::parse(&bytes).map_err(ApiError::from)?, app)
    }
}

impl<T: DeserializeOwned> FromRequest<App> for OptionalBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let bytes = bytes(request, app, app.options().body_bytes_max).await?;
        shape(&parse_optional(&bytes)?, app).map(Self)
    }
}

impl SecretBody {
    /// Reads a body of at most `bytes_max` bytes; none at all is an empty object.
    ///
    /// # Errors
    /// [`ApiError`] when it is too large or too slow, or no JSON.
    pub async fn read(request: Request, app: &App, bytes_max: usize) -> Result<Self, ApiError> {
        Ok(Self(parse_optional(&bytes(request, app, bytes_max).await?)?))
    }

    /// Overwrites a secret object and leaves null. Nothing reads it: no signature profile uses one.
    ///
    /// # Errors
    /// [`ApiError`] when it is no object.
    pub fn wipe(&mut self, name: &str) -> Result<(), ApiError> {
        let Json::Object(members) = &mut self.0 else { return Ok(()) };
        let Some((_, value)) = members.iter_mut().find(|(member, _)| member == name) else { return Ok(()) };
        let mut value = std::mem::replace(value, Json::Null);
        let taken = match &value {
            Json::Null | Json::Object(_) => Ok(()),
            Json::Bool(_) | Json::Integer(_) | Json::OtherNumber | Json::Text(_) | Json::Array(_) => {
                Err(Fault::at(format!("/{name}"), format!("must be an object or null, not {}", value.kind()))
                    .into())
            }
        };
        value.zeroize();
        taken
    }

    /// Reads what is left.
    ///
    /// # Errors
    /// [`ApiError`] when it does not have the shape.
    pub fn shape<T: DeserializeOwned>(&self, app: &App) -> Result<Body<T>, ApiError> {
        shape(&self.0, app)
    }
}

impl Drop for SecretBody {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl From<Fault> for ApiError {
    fn from(fault: Fault) -> Self {
        Self::new(Code::InvalidJson, fault.to_string())
    }
}

fn shape<T: DeserializeOwned>(json: &Json, app: &App) -> Result<Body<T>, ApiError> {
    let reading = strict::read::<T>(json)?;
    match (app.options().unknown_fields, reading.unknown.first()) {
        (UnknownFields::Reject, Some(name)) => Err(Fault::at(name, "is not a member of this request").into()),
        (UnknownFields::Warn | UnknownFields::Reject, _) => {
            Ok(Body { value: reading.value, unknown: reading.unknown })
        }
    }
}

fn parse_optional(bytes: &[u8]) -> Result<Json, ApiError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Json::Object(Vec::new()));
    }
    Ok(strict::parse(bytes)?)
}

/// The whole body, overwritten when dropped: it may hold secrets.
async fn bytes(request: Request, app: &App, bytes_max: usize) -> Result<Zeroizing<Vec<u8>>, ApiError> {
    check_media_type(request.headers().get(header::CONTENT_TYPE))?;
    let too_large =
        || ApiError::new(Code::PayloadTooLarge, format!("the body must be at most {bytes_max} bytes"));
    let declared =
        request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: u64| length > bytes_max as u64) {
        return Err(too_large());
    }
    // One deadline for all of it: a client that sends a byte now and then is as slow as one that sends none.
    let reading = timeout(app.options().body_within, axum::body::to_bytes(request.into_body(), bytes_max));
    match reading.await {
        Ok(Ok(bytes)) => Ok(Zeroizing::new(Vec::from(bytes))),
        Ok(Err(error)) if is_too_large(&error) => Err(too_large()),
        Ok(Err(_)) => Err(ApiError::new(Code::InvalidJson, "the body did not arrive as it was announced")),
        Err(_) => Err(too_slow(app.options().body_within)),
    }
}

fn is_too_large(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<LengthLimitError>())
}

/// The rest of the body would be taken for the next request.
fn too_slow(within: Duration) -> ApiError {
    let message = format!("the body must arrive within {} ms", within.as_millis());
    ApiError::new(Code::RequestTimeout, message).with(header::CONNECTION, "close")
}

/// No media type is taken as JSON.
fn check_media_type(value: Option<&HeaderValue>) -> Result<(), ApiError> {
    let Some(value) = value else { return Ok(()) };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let named: String = essence.chars().take(64).collect();
    let message = format!("the body must be `application/json`, and its `Content-Type` is `{named}`");
    Err(ApiError::new(Code::UnsupportedMediaType, message))
}
