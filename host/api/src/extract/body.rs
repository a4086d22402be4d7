//! Reads request bodies: media type, size, deadline, strict JSON (see [`strict`]), and the rules of each shape.

use crate::error::{ApiError, Code};
use crate::openapi::examples::example_of;
use crate::state::{App, UnknownFields};
use crate::wire::RequestShape;
use axum::extract::{FromRequest, Request};
use axum::http::header;
use gateway_service::body::{self, BodyError};
use gateway_service::strict::{self, Fault, FaultCode, Reading};
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

async fn read_bytes(request: Request, app: &App, bytes_max: usize) -> Result<Zeroizing<Vec<u8>>, ApiError> {
    body::read(request, bytes_max, app.options().body_within).await.map_err(|error| {
        let message = error.to_string();
        match error {
            BodyError::TooLarge { .. } => ApiError::new(Code::PayloadTooLarge, message),
            BodyError::MediaType { .. } | BodyError::Encoded { .. } => {
                ApiError::new(Code::UnsupportedMediaType, message)
            }
            BodyError::Interrupted => ApiError::new(Code::InvalidJson, message),
            // Closes the connection, as RFC 9110 asks for with 408: the rest of the body may never arrive.
            BodyError::TooSlow { .. } => {
                ApiError::new(Code::RequestTimeout, message).with_header(header::CONNECTION, "close")
            }
        }
    })
}
