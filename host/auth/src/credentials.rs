//! The credentials of a request: bearer token and client certificate.

use crate::addresses::Addresses;
use crate::headers::{CLIENT_CERT_SHA256, single_value};
use crate::jose::decode_base64url;
use crate::limits::TOKEN_BYTES_MAX;
use crate::{TokenFault, Unauthenticated};
use gateway_domain::ids::Hex32;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use std::net::IpAddr;

/// The peer of a connection, as the transport sees it. Nothing in it comes from headers. The server adds it to the extensions
/// of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The address that the connection comes from.
    pub address: IpAddr,
    /// SHA-256 of the client certificate in DER, when this server terminated TLS and verified the certificate.
    pub certificate_sha256: Option<Hex32>,
}

/// The bearer token of the header `authorization` (RFC 6750, section 2.1), which must be given once.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Result<&str, Unauthenticated> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let only = given.next().ok_or(Unauthenticated::Required("`authorization` must have a bearer token"))?;
    if given.next().is_some() {
        return Err(TokenFault::Repeated.into());
    }
    if only.len() > "Bearer ".len() + TOKEN_BYTES_MAX {
        return Err(TokenFault::TooLarge.into());
    }
    let text = only.to_str().map_err(|_| TokenFault::Malformed)?;
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Unauthenticated::Required("`authorization` must have a bearer token"));
    }
    let token = token.trim_matches(' ');
    if is_token(token) { Ok(token) } else { Err(TokenFault::Malformed.into()) }
}

/// RFC 6750's `b64token`: `1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"="`.
fn is_token(text: &str) -> bool {
    let token = text.trim_end_matches('=');
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte))
}

/// SHA-256 of the client's certificate. On a connection from a trusted proxy it comes from the header only, because the
/// connection's certificate is the proxy's.
pub(crate) fn client_certificate(
    headers: &HeaderMap,
    peer: &Peer,
    trusted_proxies: &Addresses,
) -> Result<Option<Hex32>, Unauthenticated> {
    if !trusted_proxies.contains(peer.address) {
        return Ok(peer.certificate_sha256);
    }
    let Some(text) = single_value(headers, CLIENT_CERT_SHA256)?.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let must = "must be 64 hexadecimal characters or 43 of base64url";
    fingerprint(text).map(Some).ok_or(Unauthenticated::Unreadable { name: CLIENT_CERT_SHA256, must })
}

/// Parses a hash in hexadecimal or base64url: proxies send either.
fn fingerprint(text: &str) -> Option<Hex32> {
    if text.len() == 64 {
        return text.to_ascii_lowercase().parse().ok();
    }
    thumbprint(text)
}

/// Parses a hash in base64url, the form in tokens (RFC 8705, section 3.1).
pub(crate) fn thumbprint(text: &str) -> Option<Hex32> {
    decode_base64url(text).and_then(|bytes| bytes.try_into().ok()).map(Hex32::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn token(values: &[&[u8]]) -> Result<String, Unauthenticated> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
        }
        bearer_token(&headers).map(str::to_owned)
    }

    #[test]
    fn one_authorization_header_with_one_bearer_token_is_accepted() {
        for good in ["Bearer a.b-c_d~e+f/g==", "bearer a.b-c_d~e+f/g==", "BEARER   a.b-c_d~e+f/g== "] {
            assert_eq!(token(&[good.as_bytes()]), Ok("a.b-c_d~e+f/g==".to_owned()));
        }
        for required in [&b"Basic YTpi"[..], b"", b"Bearers a", b"a.b.c", b"DPoP a.b.c", b"Bearer,a"] {
            assert!(matches!(token(&[required]), Err(Unauthenticated::Required(_))), "{required:?}");
        }
        assert!(matches!(token(&[]), Err(Unauthenticated::Required(_))));
        for malformed in [
            &b"Bearer"[..],
            b"Bearer ",
            b"Bearer a b",
            b"Bearer a,b",
            b"Bearer =",
            b"Bearer a=b",
            b"Bearer \xff",
        ] {
            assert_eq!(token(&[malformed]), Err(TokenFault::Malformed.into()), "{malformed:?}");
        }
        assert_eq!(token(&[b"Bearer a", b"Bearer a"]), Err(TokenFault::Repeated.into()));
        assert_eq!(token(&[b"Bearer a", b"Basic YTpi"]), Err(TokenFault::Repeated.into()));
        let long = [b"Bearer ".to_vec(), vec![b'a'; TOKEN_BYTES_MAX + 1]].concat();
        assert_eq!(token(&[&long]), Err(TokenFault::TooLarge.into()));
        assert!(token(&[&long[..long.len() - 1]]).is_ok());
    }

    #[test]
    fn a_trusted_proxy_names_the_certificate_and_other_peers_show_their_own() {
        let (own, clients) = (Hex32::new([1; 32]), Hex32::new([0xab; 32]));
        let peer = |address: &str| Peer { address: address.parse().unwrap(), certificate_sha256: Some(own) };
        let proxies: Addresses = "10.0.0.1".parse().unwrap();
        let seen = |address: &str, value: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(CLIENT_CERT_SHA256, value.parse().unwrap());
            }
            client_certificate(&headers, &peer(address), &proxies)
        };
        let hex = clients.to_string();
        for form in [hex.clone(), hex.to_uppercase(), "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s".into()] {
            assert_eq!(seen("10.0.0.1", Some(&form)), Ok(Some(clients)), "{form}");
            // Another peer has the certificate of its connection.
            assert_eq!(seen("10.0.0.2", Some(&form)), Ok(Some(own)), "{form}");
        }
        // The proxy's own certificate is not its client's.
        assert_eq!(seen("10.0.0.1", None), Ok(None));
        assert_eq!(seen("10.0.0.1", Some("")), Ok(None));
        for wrong in ["x", "zz", &hex[1..], "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s="] {
            assert!(
                matches!(seen("10.0.0.1", Some(wrong)), Err(Unauthenticated::Unreadable { .. })),
                "{wrong}"
            );
            assert_eq!(seen("10.0.0.2", Some(wrong)), Ok(Some(own)), "{wrong}");
        }
    }
}
