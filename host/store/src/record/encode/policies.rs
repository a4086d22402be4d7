//! Rows of bundles and activations. They are not derived from events, so each has a hash of itself. The hash reveals
//! damage, but a program that can write the database can also write the hash.

use super::instant;
use crate::error::{failed, unavailable};
use gateway_domain::canonical::{self, CanonicalError};
use gateway_domain::ids::Hex32;
use gateway_engine::Unavailable;
use gateway_engine::ports::{Activation, StoredBundle};

/// The row of an activation, without its hash.
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
}

/// Selects the last activation.
pub(crate) const LAST_ACTIVATION: &str =
    "SELECT sequence, bundle_hash, row_hash FROM policy_activations ORDER BY sequence DESC LIMIT 1";

/// Sequence, bundle hash and row hash, as [`LAST_ACTIVATION`] selects them.
pub(crate) type LastActivation = (i64, Vec<u8>, Vec<u8>);

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
    /// Compares an activation with the last one.
    pub(crate) fn of(activation: &ActivationRow, last: Option<LastActivation>) -> Result<Self, sqlx::Error> {
        let Some((reached, bundle_hash, row_hash)) = last else { return Ok(Self::Behind(Hex32::ZERO)) };
        if reached < activation.sequence {
            let previous = row_hash.try_into().map(Hex32::new);
            let previous =
                previous.map_err(|_| sqlx::Error::Decode("an activation's hash is not 32 bytes".into()))?;
            return Ok(Self::Behind(previous));
        }
        Ok(match bundle_hash == activation.bundle_hash.as_bytes() {
            true => Self::Active,
            false => Self::Superseded { reached: reached.unsigned_abs() },
        })
    }
}

/// The rows of a bundle and its files.
pub(crate) struct BundleRows {
    pub(crate) bundle_hash: Hex32,
    pub(crate) bundle_id: String,
    pub(crate) row_hash: Hex32,
    /// Sorted by name.
    pub(crate) files: Vec<FileRow>,
}

pub(crate) struct FileRow {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) row_hash: Hex32,
}

/// The row of an activation.
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

/// The rows of a bundle.
pub(crate) fn bundle(bundle: StoredBundle) -> Result<BundleRows, Unavailable> {
    let StoredBundle { bundle_hash, bundle_id, files } = bundle;
    let to_unavailable = |error| failed(format_args!("bundle `{bundle_hash}` cannot be hashed"), &error);
    let row = |(name, bytes): (String, Vec<u8>)| {
        let row_hash = file_hash(bundle_hash, &name, &bytes)?;
        Ok(FileRow { name, bytes, row_hash })
    };
    let mut files: Vec<_> = files.into_iter().map(row).collect::<Result<_, _>>().map_err(to_unavailable)?;
    files.sort_by(|one, other| one.name.cmp(&other.name));
    let listed: Vec<_> = files.iter().map(|file| (file.name.as_str(), file.row_hash)).collect();
    let row_hash = rows_hash(bundle_hash, &bundle_id, &listed).map_err(to_unavailable)?;
    Ok(BundleRows { bundle_hash, bundle_id, row_hash, files })
}

/// The hash of one file's row.
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
