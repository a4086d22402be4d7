//! Bodies that are sent, and lists that are read.

use super::connection::{CLIENT_ID, Caller};
use super::output::CallError;
use gateway_client::{Error, Gateway, Page};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Largest body that is read from a file.
const BODY_BYTES_MAX: u64 = 1 << 20;

/// Entries of a list that are asked for at once.
pub(super) const PAGE: u32 = 100;

/// What is submitted, from a file. It may leave out its `client`, which is then the caller.
pub(super) async fn submission(file: &Path, gateway: &Gateway, caller: &Caller) -> Result<Value, CallError> {
    let mut body = read_body(file)?;
    if let Some(members) = body.as_object_mut()
        && !members.contains_key("client")
    {
        members.insert("client".to_owned(), client(gateway, caller).await?);
    }
    Ok(body)
}

/// The caller, as a body names it: whom the gateway takes it for.
pub(super) async fn client(gateway: &Gateway, caller: &Caller) -> Result<Value, CallError> {
    let known = gateway.whoami().await?.identity;
    Ok(match known {
        Some(who) => json!({
            "client_id": who.client_id, "subject_id": who.subject_id, "roles": [], "scopes": [], "tenant": who.tenant,
        }),
        None => json!({
            "client_id": CLIENT_ID, "subject_id": caller.subject.as_deref().unwrap_or(CLIENT_ID), "roles": [], "scopes": [],
        }),
    })
}

/// A JSON body from a file, or from standard input.
pub(super) fn read_body(path: &Path) -> Result<Value, CallError> {
    let mut text = Vec::new();
    let unusable = |why: String| CallError::Unusable(format!("`{}` {why}", path.display()));
    let read = match path.to_str() {
        Some("-") => std::io::stdin().lock().take(BODY_BYTES_MAX).read_to_end(&mut text),
        _ => File::open(path).and_then(|file| file.take(BODY_BYTES_MAX).read_to_end(&mut text)),
    };
    read.map_err(|error| unusable(format!("cannot be read: {error}")))?;
    serde_json::from_slice(&text).map_err(|error| unusable(format!("is not JSON: {error}")))
}

/// The first entries of a list, at most `limit`. `page` asks for those after a cursor.
pub(super) async fn first<T>(
    limit: usize,
    page: impl AsyncFn(Option<String>) -> Result<Page<T>, Error>,
) -> Result<Vec<T>, CallError> {
    let (mut all, mut cursor) = (Vec::new(), None);
    while all.len() < limit {
        let Page { items, next_cursor } = page(cursor).await?;
        all.extend(items);
        cursor = next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    all.truncate(limit);
    Ok(all)
}
