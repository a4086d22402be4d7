//! Rows of bundles and activations. They are not derived from events, so each has a hash of itself. The hash reveals
//! damage, but a program that can write the database can also write the hash.

use crate::error::{failed, unavailable};
use crate::sql::row::{Cell, Columns, Hashes, Row, blob, instant};
use gateway_domain::canonical::{self, CanonicalError};
use gateway_domain::ids::Hex32;
use gateway_engine::Unavailable;
use gateway_engine::ports::{Activation, StoredBundle};

/// The row of an activation, without its hash and its place in the log.
pub(crate) struct ActivationRow {
    pub(crate) sequence: i64,
    pub(crate) at_ms: i64,
    pub(crate) bundle_hash: Hex32,
    pub(crate) kind: &'static str,
    pub(crate) signers: String,
    pub(crate) reason: String,
}

impl ActivationRow {
    /// The row's hash. `previous` is the hash of the previous row, zero for the first: sequences have gaps, so the
    /// chain of hashes reveals a missing row.
    pub(crate) fn hash(&self, previous: Hex32) -> Result<Hex32, CanonicalError> {
        let Self { sequence, at_ms, bundle_hash, kind, signers, reason } = self;
        canonical::digest(
            "svc/activation-row/v1",
            &(previous, sequence, at_ms, bundle_hash, kind, signers, reason),
        )
    }

    pub(crate) fn columns(&self) -> Columns {
        let Self { sequence, at_ms, bundle_hash, kind, signers, reason } = self;
        vec![
            ("sequence", (*sequence).into()),
            ("at_ms", (*at_ms).into()),
            ("bundle_hash", blob(*bundle_hash)),
            ("kind", (*kind).into()),
            ("signers", signers.as_str().into()),
            ("reason", reason.as_str().into()),
        ]
    }
}

/// Selects the last activation.
pub(crate) const LAST_ACTIVATION: &str =
    "SELECT sequence, bundle_hash, row_hash FROM policy_activations ORDER BY sequence DESC LIMIT 1";

/// Where a new activation belongs.
pub(crate) enum Place {
    /// Behind the row with this hash; zero for the first row.
    Behind(Hex32),
    /// The bundle is active, or a newer row activated it.
    Active,
    /// Another bundle with this sequence or a higher one was activated.
    Superseded { reached: u64 },
}

impl Place {
    /// Compares an activation with the row of [`LAST_ACTIVATION`].
    pub(crate) fn of(activation: &ActivationRow, last: Option<&Row>) -> Result<Self, sqlx::Error> {
        let Some(last) = last else { return Ok(Self::Behind(Hex32::ZERO)) };
        let damaged = |what: &'static str| sqlx::Error::Decode(what.into());
        let reached = last.integer("sequence");
        let reached = reached.ok_or_else(|| damaged("an activation's sequence is not a number"))?;
        if reached < activation.sequence {
            let previous = last.hash("row_hash");
            return previous.map(Self::Behind).ok_or_else(|| damaged("an activation's hash is not 32 bytes"));
        }
        Ok(match last.hash("bundle_hash") == Some(activation.bundle_hash) {
            true => Self::Active,
            false => Self::Superseded { reached: reached.unsigned_abs() },
        })
    }
}

pub(crate) struct BundleRows {
    pub(crate) bundle_hash: Hex32,
    pub(crate) bundle: Columns,
    /// Sorted by name.
    pub(crate) files: Vec<Columns>,
}

pub(crate) fn activation(activation: &Activation) -> Result<ActivationRow, Unavailable> {
    let to_unavailable = |error| failed("an activation's signers cannot be written as JSON", &error);
    // Sequences are compared, so a clamped one would be wrong.
    let sequence = i64::try_from(activation.sequence)
        .map_err(|_| unavailable("an activation's sequence is larger than the store's integers"))?;
    Ok(ActivationRow {
        sequence,
        at_ms: instant(activation.at_ms),
        bundle_hash: activation.bundle_hash,
        kind: activation.kind.as_str(),
        signers: serde_json::to_string(&activation.signers).map_err(to_unavailable)?,
        reason: activation.reason.clone(),
    })
}

pub(crate) fn bundle(bundle: StoredBundle) -> Result<BundleRows, Unavailable> {
    let StoredBundle { bundle_hash, bundle_id, files } = bundle;
    let to_unavailable = |error| failed(format_args!("bundle `{bundle_hash}` cannot be hashed"), &error);
    let mut listed = Vec::with_capacity(files.len());
    for (name, bytes) in files {
        let row_hash = file_hash(bundle_hash, &name, &bytes).map_err(to_unavailable)?;
        listed.push((name, row_hash, bytes));
    }
    listed.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    let names: Vec<_> = listed.iter().map(|(name, row_hash, _)| (name.as_str(), *row_hash)).collect();
    let row_hash = rows_hash(bundle_hash, &bundle_id, &names).map_err(to_unavailable)?;
    let bundle = vec![
        ("bundle_hash", blob(bundle_hash)),
        ("bundle_id", bundle_id.into()),
        ("row_hash", blob(row_hash)),
    ];
    let file = |(name, row_hash, bytes): (String, Hex32, Vec<u8>)| {
        vec![
            ("bundle_hash", blob(bundle_hash)),
            ("name", name.into()),
            ("bytes", Cell::Blob(bytes)),
            ("row_hash", blob(row_hash)),
        ]
    };
    Ok(BundleRows { bundle_hash, bundle, files: listed.into_iter().map(file).collect() })
}

pub(crate) fn file_hash(bundle_hash: Hex32, name: &str, bytes: &[u8]) -> Result<Hex32, CanonicalError> {
    canonical::digest("svc/bundle-file-row/v1", &(bundle_hash, name, canonical::digest_bytes("", bytes)))
}

/// The hash of a bundle's row. `files` are the names and hashes of its files' rows, sorted by name.
pub(crate) fn rows_hash(
    bundle_hash: Hex32,
    bundle_id: &str,
    files: &[(&str, Hex32)],
) -> Result<Hex32, CanonicalError> {
    canonical::digest("svc/bundle-row/v1", &(bundle_hash, bundle_id, files))
}
