//! `ledger fsck`: a sound store is found sound, and whatever is altered in one is found and named.

mod bundles;
pub(crate) mod history;
mod schema;
mod sound;
mod strays;
pub(crate) mod tampered;
mod unreadable;

use gateway_store::{Checked, Finding, Fsck, OpenError};
use std::path::Path;

/// Everything that is wrong with a database, and what was looked at.
async fn checked(database: &Path) -> Result<(Vec<Finding>, Checked), OpenError> {
    let mut fsck = Fsck::open(database.to_str().unwrap()).await?;
    let mut findings = Vec::new();
    let checked = fsck.check(&mut |finding| findings.push(finding)).await.unwrap();
    fsck.close().await;
    Ok((findings, checked))
}
