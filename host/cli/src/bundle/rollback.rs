//! `bundle rollback`: signs a record that makes a gateway return to a bundle that was active before.

use crate::bundle::key::Key;
use crate::bundle::{Error, layout};
use gateway_domain::dsse::Envelope;
use gateway_domain::time::EpochMs;
use gateway_policy::bundle::ActivationRecord;
use gateway_service::output::{Lines, ToLines};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The arguments of `bundle rollback`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Rollback {
    /// Hash of the bundle to return to
    #[arg(long, value_name = "HASH")]
    to: String,
    /// A number above every sequence that was active before
    #[arg(long, value_name = "N")]
    sequence: u64,
    /// The reason, for people
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Last millisecond at which the record is valid, since 1970
    #[arg(long = "not-after", value_name = "MILLISECONDS")]
    not_after_ms: Option<u64>,
}

/// The report of `bundle rollback` and `bundle countersign`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Recorded {
    pub(crate) record: ActivationRecord,
    /// Ids of all keys that signed the record, now and before.
    pub(crate) signers: Vec<String>,
    pub(crate) file: PathBuf,
}

impl ToLines for Recorded {
    fn add_to(&self, lines: &mut Lines) {
        let ActivationRecord { sequence, bundle_hash, reason, .. } = &self.record;
        lines.add(format_args!("back to     {bundle_hash}"));
        lines.add(format_args!("sequence    {sequence}"));
        lines.add(format_args!("reason      {reason}"));
        lines.add(format_args!("signed by   {}", self.signers.join(" ")));
        lines.add(format_args!("wrote       {}", self.file.display()));
    }
}

/// Signs a record with these keys and writes it to `out`.
pub(crate) fn rollback(rollback: &Rollback, keys: &[Key], out: &Path) -> Result<Recorded, Error> {
    if out.exists() {
        return Err(Error::Exists(out.to_owned()));
    }
    let record = ActivationRecord {
        sequence: rollback.sequence,
        bundle_hash: rollback.to.parse().map_err(|_| Error::Hash(rollback.to.clone()))?,
        reason: rollback.reason.clone(),
        not_after_ms: rollback.not_after_ms.map(EpochMs),
    };
    let keys: Vec<_> = keys.iter().map(|key| &key.signing).collect();
    write(record.sign(&keys)?, record, out)
}

/// Adds a signature to the record in `file`: the keys of several roles are seldom on one machine.
pub(crate) fn countersign(file: &Path, key: &Key) -> Result<Recorded, Error> {
    let unreadable =
        |fault: serde_json::Error| Error::Record { path: file.to_owned(), fault: fault.to_string() };
    let envelope: Envelope = serde_json::from_slice(&layout::read(file)?).map_err(unreadable)?;
    let signed = ActivationRecord::countersign(&envelope, &key.signing)?;
    write(signed, ActivationRecord::read(&envelope)?, file)
}

fn write(envelope: Envelope, record: ActivationRecord, out: &Path) -> Result<Recorded, Error> {
    layout::write(out, &layout::pretty_json(&envelope, out)?)?;
    let signers = envelope.signatures.into_iter().map(|signature| signature.keyid).collect();
    Ok(Recorded { record, signers, file: out.to_owned() })
}
