//! Reads the body of a request: its media type, its size and the time it takes are limited.

use axum::extract::Request;
use axum::http::{HeaderValue, header};
use http_body_util::LengthLimitError;
use std::time::Duration;
use tokio::time::timeout;
use zeroize::Zeroizing;

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The body is too large.
    #[error("the body must be at most {bytes_max} bytes")]
    TooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// The body is of another media type than JSON.
    #[error("the `Content-Type` must be `application/json`, not `{named}`")]
    MediaType {
        /// The first 64 characters of the type.
        named: String,
    },
    /// The body is compressed, or encoded otherwise.
    #[error("the body must be sent without `Content-Encoding: {named}`")]
    Encoded {
        /// The first 64 characters of the encoding.
        named: String,
    },
    /// The client closed the connection before the end of the body.
    #[error("the body could not be read to its end")]
    Interrupted,
    /// The body did not arrive in time.
    #[error("the body must arrive within {} ms", within.as_millis())]
    TooSlow {
        /// The limit.
        within: Duration,
    },
}

/// Reads the whole body. It may contain secrets, so the returned buffer is zeroized on drop; the HTTP server's are not.
pub async fn read(
    request: Request,
    bytes_max: usize,
    within: Duration,
) -> Result<Zeroizing<Vec<u8>>, BodyError> {
    let kind = Kind {
        media_type: request.headers().get(header::CONTENT_TYPE).cloned(),
        encoding: request.headers().get(header::CONTENT_ENCODING).cloned(),
    };
    let declared =
        request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    // A body of zero bytes has no media type and no encoding, whatever the headers say.
    if declared.is_some_and(|length: u64| length > 0) {
        kind.check()?;
    }
    if declared.is_some_and(|length| length > bytes_max as u64) {
        return Err(BodyError::TooLarge { bytes_max });
    }
    // One deadline for the whole body, so a client that sends it byte by byte cannot extend it.
    match timeout(within, axum::body::to_bytes(request.into_body(), bytes_max)).await {
        Ok(Ok(bytes)) => {
            if !bytes.is_empty() {
                kind.check()?;
            }
            Ok(Zeroizing::new(Vec::from(bytes)))
        }
        Ok(Err(error)) if is_too_large(&error) => Err(BodyError::TooLarge { bytes_max }),
        Ok(Err(_)) => Err(BodyError::Interrupted),
        Err(_) => Err(BodyError::TooSlow { within }),
    }
}

fn is_too_large(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<LengthLimitError>())
}

/// What the headers say of a body.
struct Kind {
    media_type: Option<HeaderValue>,
    encoding: Option<HeaderValue>,
}

impl Kind {
    /// A body without a media type is read as JSON.
    fn check(&self) -> Result<(), BodyError> {
        let text = |value: &Option<HeaderValue>| {
            value.as_ref().map(|value| value.to_str().unwrap_or_default().trim().to_owned())
        };
        let first = |text: &str| text.chars().take(64).collect();
        if let Some(encoding) = text(&self.encoding).filter(|text| !text.eq_ignore_ascii_case("identity")) {
            return Err(BodyError::Encoded { named: first(&encoding) });
        }
        let Some(media_type) = text(&self.media_type) else { return Ok(()) };
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case("application/json") {
            return Ok(());
        }
        Err(BodyError::MediaType { named: first(essence) })
    }
}
