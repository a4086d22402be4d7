//! Reads request bodies: media type, size, deadline, strict JSON (see [`strict`]), and the rules of each shape.

use crate::error::{ApiError, Code};
use crate::openapi::example_of;
use crate::state::{App, UnknownFields};
use crate::strict::{self, Fault, FaultCode, Reading};
use crate::wire::RequestShape;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderValue, header};
use http_body_util::LengthLimitError;
use std::time::Duration;
use tokio::time::timeout;
use zeroize::Zeroizing;

/// A JSON request body, deserialized into `T` and checked.
pub struct Body<T: RequestShape> {
    /// The deserialized body.
    pub value: T,
    /// The values that were checked and parsed.
    pub checked: T::Checked,
    /// JSON pointers to members of the body that `T` does not have; at most 16.
    pub unknown: Vec<String>,
}

impl<T: RequestShape> FromRequest<App> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        Self::parse(&read_bytes(request, app, app.options().body_bytes_max).await?, app)
    }
}

impl<T: RequestShape> Body<T> {
    /// Reads a body of at most `bytes_max` bytes; a blank one is an empty object.
    ///
    /// # Errors
    /// [`ApiError`] if the body is of another media type, too large, too slow or interrupted, or for every fault of its content.
    /// Members that `T` does not have are faults only where the settings say so.
    pub async fn read_optional(request: Request, app: &App, bytes_max: usize) -> Result<Self, ApiError> {
        let bytes = read_bytes(request, app, bytes_max).await?;
        let is_blank = bytes.iter().all(u8::is_ascii_whitespace);
        Self::parse(if is_blank { b"{}" } else { &bytes }, app)
    }

    fn parse(bytes: &[u8], app: &App) -> Result<Self, ApiError> {
        let options = app.options();
        let check = |Reading { value, unknown }: &Reading<T>| {
            if let (UnknownFields::Reject, Some(pointer)) = (options.unknown_fields, unknown.first()) {
                let fault = Fault::at(pointer, "is not a member of this request");
                return Err(fault.of(FaultCode::UnknownMember));
            }
            let checked = value.check(options)?;
            value.client().map_or(Ok(()), |client| client.check("/client"))?;
            Ok(checked)
        };
        let (Reading { value, unknown }, checked) = strict::read_checked(bytes, example_of::<T>, check)?;
        Ok(Self { value, checked, unknown })
    }
}

/// Reads the whole body. It may contain secrets, so the returned buffer is zeroized on drop; the HTTP server's are not.
async fn read_bytes(request: Request, app: &App, bytes_max: usize) -> Result<Zeroizing<Vec<u8>>, ApiError> {
    let media_type = request.headers().get(header::CONTENT_TYPE).cloned();
    let too_large =
        || ApiError::new(Code::PayloadTooLarge, format!("the body must be at most {bytes_max} bytes"));
    let declared =
        request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    // A body of zero bytes has no media type, whatever the header says.
    if declared.is_some_and(|length: u64| length > 0) {
        check_media_type(media_type.as_ref())?;
    }
    if declared.is_some_and(|length| length > bytes_max as u64) {
        return Err(too_large());
    }
    // One deadline for the whole body, so a client that sends it byte by byte cannot extend it.
    let reading = timeout(app.options().body_within, axum::body::to_bytes(request.into_body(), bytes_max));
    match reading.await {
        Ok(Ok(bytes)) => {
            if !bytes.is_empty() {
                check_media_type(media_type.as_ref())?;
            }
            Ok(Zeroizing::new(Vec::from(bytes)))
        }
        Ok(Err(error)) if is_too_large(&error) => Err(too_large()),
        Ok(Err(_)) => Err(ApiError::new(Code::InvalidJson, "the body could not be read to its end")),
        Err(_) => Err(too_slow(app.options().body_within)),
    }
}

fn is_too_large(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<LengthLimitError>())
}

/// Asks for the connection to be closed, as RFC 9110 does for 408: the rest of the body may never arrive.
fn too_slow(within: Duration) -> ApiError {
    let message = format!("the body must arrive within {} ms", within.as_millis());
    ApiError::new(Code::RequestTimeout, message).with_header(header::CONNECTION, "close")
}

/// A body without a media type is read as JSON.
fn check_media_type(value: Option<&HeaderValue>) -> Result<(), ApiError> {
    let Some(value) = value else { return Ok(()) };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let named: String = essence.chars().take(64).collect();
    let message = format!("the `Content-Type` must be `application/json`, not `{named}`");
    Err(ApiError::new(Code::UnsupportedMediaType, message))
}
