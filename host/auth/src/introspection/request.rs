//! The introspection request and its answer (RFC 7662, section 2).

use crate::limits::ANSWER_BYTES_MAX;
use crate::provider::ProviderFault;
use crate::{ClientSecret, Provider};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use gateway_domain::json::{self, Floats};
use http::HeaderValue;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

/// The client credentials as HTTP Basic, each form-encoded first (RFC 6749, section 2.3.1).
pub(super) fn authorization(client_id: &str, secret: &ClientSecret) -> Result<HeaderValue, &'static str> {
    let credentials = Zeroizing::new(format!("{}:{}", &*encoded(client_id), &*encoded(secret.expose())));
    let basic = Zeroizing::new(format!("Basic {}", BASE64_STANDARD.encode(credentials.as_bytes())));
    let mut value =
        HeaderValue::from_str(&basic).map_err(|_| "the client's credentials do not fit into a header")?;
    value.set_sensitive(true);
    Ok(value)
}

/// Sends the request. Returns the claims of an active access token, and `None` for any other token.
pub(super) async fn send(
    provider: &Provider,
    authorization: &HeaderValue,
    token: &str,
) -> Result<Option<Map<String, Value>>, ProviderFault> {
    let form = format!("token={}&token_type_hint=access_token", &*encoded(token));
    let answer = provider.post(authorization.clone(), form, ANSWER_BYTES_MAX).await?;
    parse_answer(&answer)
}

fn parse_answer(answer: &[u8]) -> Result<Option<Map<String, Value>>, ProviderFault> {
    let Ok(Value::Object(claims)) = json::parse(answer, Floats::Allowed) else {
        return Err(ProviderFault::Malformed("not a JSON object"));
    };
    match claims.get("active") {
        Some(Value::Bool(false)) => Ok(None),
        Some(Value::Bool(true)) if is_access_token(claims.get("token_type")) => Ok(Some(claims)),
        // Another kind, such as a refresh token, is not valid as an access token.
        Some(Value::Bool(true)) => Ok(None),
        Some(_) | None => Err(ProviderFault::Malformed("`active` is neither true nor false")),
    }
}

fn is_access_token(token_type: Option<&Value>) -> bool {
    let is_one =
        |text: &str| text.eq_ignore_ascii_case("bearer") || text.eq_ignore_ascii_case("access_token");
    token_type.is_none_or(|value| value.is_null() || value.as_str().is_some_and(is_one))
}

/// Encodes a value as `application/x-www-form-urlencoded`. A space becomes `%20`, not `+`, which some readers do not decode.
fn encoded(text: &str) -> Zeroizing<String> {
    let mut encoded = Zeroizing::new(String::with_capacity(text.len().saturating_mul(3)));
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0').to_ascii_uppercase();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._*".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_form_encoded_before_they_are_joined() {
        let secret = ClientSecret::parse(&Zeroizing::new("p:a s+s%\u{e9}".to_owned())).unwrap();
        let value = authorization("gate:way", &secret).unwrap();
        assert!(value.is_sensitive() && !format!("{value:?}").contains("Basic"));
        let text = value.to_str().unwrap().strip_prefix("Basic ").unwrap();
        assert_eq!(BASE64_STANDARD.decode(text).unwrap(), b"gate%3Away:p%3Aa%20s%2Bs%25%C3%A9");
    }

    #[test]
    fn a_token_is_active_only_if_it_is_an_access_token_and_active_is_true() {
        let active = |text: &str| parse_answer(text.as_bytes()).map(|claims| claims.is_some()).ok();
        for yes in [r#"{"active":true}"#, r#"{"active":true,"token_type":"Bearer"}"#] {
            assert_eq!(active(yes), Some(true), "{yes}");
        }
        for no in [
            r#"{"active":false}"#,
            r#"{"active":false,"sub":"alice"}"#,
            r#"{"active":true,"token_type":"refresh_token"}"#,
            r#"{"active":true,"token_type":"DPoP"}"#,
            r#"{"active":true,"token_type":1}"#,
        ] {
            assert_eq!(active(no), Some(false), "{no}");
        }
        for malformed in [
            "",
            "true",
            "[]",
            "{}",
            r#"[{"active":true}]"#,
            r#"{"active":"true"}"#,
            r#"{"active":1}"#,
            r#"{"active":null}"#,
            r#"{"active":false,"active":true}"#,
            "<html>",
        ] {
            assert_eq!(active(malformed), None, "{malformed}");
        }
    }
}
