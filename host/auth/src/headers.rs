//! The identity headers, lower case, by which a trusted proxy names the caller.

use crate::limits::{LIST_ENTRIES_MAX, TEXT_BYTES_MAX};
use crate::{Identity, Unauthenticated};
use gateway_domain::ids::{Hex32, Tenant};
use http::HeaderMap;
use std::sync::Arc;

/// The calling system.
pub const CLIENT_ID: &str = "x-client-id";
/// The person or service account.
pub const SUBJECT_ID: &str = "x-subject-id";
/// Roles, separated by commas or spaces.
pub const ROLES: &str = "x-roles";
/// Scopes, separated by commas or spaces.
pub const SCOPES: &str = "x-scopes";
/// The tenant.
pub const TENANT: &str = "x-tenant";
/// The headers that name the caller.
pub const ALL: [&str; 5] = [CLIENT_ID, SUBJECT_ID, ROLES, SCOPES, TENANT];
/// SHA-256 of the client's certificate, from a proxy that terminates TLS: hexadecimal or base64url.
pub const CLIENT_CERT_SHA256: &str = "x-client-cert-sha256";

/// The identity that the headers name; `None` when none of them is given.
///
/// # Errors
/// [`Unauthenticated::Required`] when client or subject is missing, [`Unauthenticated::Unreadable`] when a header cannot
/// be read.
pub(crate) fn identity(
    headers: &HeaderMap,
    cert_sha256: Option<Hex32>,
) -> Result<Option<Identity>, Unauthenticated> {
    let text = |name| text(headers, name);
    let (client_id, subject_id, tenant) = (text(CLIENT_ID)?, text(SUBJECT_ID)?, text(TENANT)?);
    let (roles, scopes) = (list(headers, ROLES)?, list(headers, SCOPES)?);
    if ALL.iter().all(|name| !headers.contains_key(*name)) {
        return Ok(None);
    }
    let missing = "`x-client-id` and `x-subject-id` must both be given";
    Ok(Some(Identity {
        client_id: client_id.ok_or(Unauthenticated::Required(missing))?.to_owned(),
        subject_id: subject_id.ok_or(Unauthenticated::Required(missing))?.to_owned(),
        roles,
        scopes,
        tenant: tenant.map(|tenant| Tenant(tenant.to_owned())),
        token_jti: None,
        cert_sha256,
        facts: Arc::default(),
    }))
}

/// The value of a header that may be given at most once; `None` when it is absent.
pub(crate) fn single_value<'a>(
    headers: &'a HeaderMap,
    name: &'static str,
) -> Result<Option<&'a str>, Unauthenticated> {
    let must = "must be given once, in ASCII";
    let unreadable = || Unauthenticated::Unreadable { name, must };
    let mut values = headers.get_all(name).iter();
    let Some(only) = values.next() else { return Ok(None) };
    let text = only.to_str().map_err(|_| unreadable())?;
    if values.next().is_some() { Err(unreadable()) } else { Ok(Some(text)) }
}

fn text<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, Unauthenticated> {
    let text = single_value(headers, name)?.filter(|text| !text.is_empty());
    match text {
        Some(text) if text.len() > TEXT_BYTES_MAX => {
            Err(Unauthenticated::Unreadable { name, must: "must have at most 1024 bytes" })
        }
        text => Ok(text),
    }
}

/// The words in a header, separated by commas or spaces.
fn list(headers: &HeaderMap, name: &'static str) -> Result<Vec<String>, Unauthenticated> {
    let text = single_value(headers, name)?.unwrap_or_default();
    let words: Vec<_> = text.split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    if words.len() > LIST_ENTRIES_MAX || words.iter().any(|word| word.len() > TEXT_BYTES_MAX) {
        let must = "must have at most 256 words of at most 1024 bytes";
        return Err(Unauthenticated::Unreadable { name, must });
    }
    Ok(words)
}
