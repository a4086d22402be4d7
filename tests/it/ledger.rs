//! `ledger fsck`: an undamaged store has no findings, and damage is found and named.

mod archive;
mod backup;
mod bundles;
pub(crate) mod history;
mod other_damage;
mod schema;
mod sound;
pub(crate) mod tampered;
mod unreadable;

use gateway_store::{Checked, Finding, Fsck, OpenError};
use std::path::Path;

/// All findings in a database, and the counts of checked rows.
async fn checked(database: &Path) -> Result<(Vec<Finding>, Checked), OpenError> {
    let mut fsck = Fsck::open(database.to_str().unwrap()).await?;
    let mut findings = Vec::new();
    let checked = fsck.check(&mut |finding| findings.push(finding)).await.unwrap();
    fsck.close().await;
    Ok((findings, checked))
}
