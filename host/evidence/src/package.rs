//! The public half of a generation of shares, read from the bytes that nodes agree on.
//!
//! The root of a generation, which nodes sign in their receipts, covers these bytes. So a public key that is read from them is the one that the
//! nodes made; one that is written beside them is only a claim. The encoding is that of the `threshold` crate, which this crate does not
//! have in its tree: `1 ‖ profile ‖ threshold ‖ participants ‖ key ‖ (index ‖ verifying share)… ‖ chain code`, numbers of two bytes
//! big-endian, indexes ascending. A point has 32 bytes for Ed25519, 33 for secp256k1 (parity and x).

use gateway_domain::roster::ParticipantIndex;
use std::collections::BTreeSet;

const VERSION: u8 = 1;
const CHAIN_CODE_BYTES: usize = 32;

/// The parts of a package that evidence states elsewhere too.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) profile: &'static str,
    pub(crate) threshold: u16,
    pub(crate) participants: BTreeSet<ParticipantIndex>,
    /// The public key that signatures verify under: 32 bytes, hexadecimal.
    pub(crate) public_key_hex: String,
}

impl Package {
    /// Reads a package in hexadecimal. `None` if it is not exactly such an encoding.
    pub(crate) fn read(package_hex: &str) -> Option<Self> {
        let bytes = hex::decode(package_hex).ok().filter(|bytes| hex::encode(bytes) == package_hex)?;
        let mut rest = bytes.as_slice();
        let [version, profile] = *take(&mut rest)?;
        let (profile, n_parity_bytes) = match (version, profile) {
            (VERSION, 1) => ("frost-ed25519-sha512", 0),
            (VERSION, 2) => ("frost-secp256k1-sha256-tr", 1),
            _ => return None,
        };
        let threshold = number(&mut rest)?;
        let n_participants = number(&mut rest)?;
        let point = |rest: &mut &[u8]| {
            let (_parity, after) = rest.split_at_checked(n_parity_bytes)?;
            *rest = after;
            take::<32>(rest).map(hex::encode)
        };
        let public_key_hex = point(&mut rest)?;
        let mut participants = BTreeSet::new();
        for _ in 0..n_participants {
            let participant = ParticipantIndex(number(&mut rest)?);
            let is_ascending = participants.last().is_none_or(|last| *last < participant);
            point(&mut rest).filter(|_| is_ascending)?;
            participants.insert(participant);
        }
        let _chain_code: &[u8; CHAIN_CODE_BYTES] = take(&mut rest)?;
        rest.is_empty().then_some(Self { profile, threshold, participants, public_key_hex })
    }

    /// The contract's `public_key_artifact_ref` of the key.
    pub(crate) fn artifact_ref(&self) -> String {
        format!("{}:{}", self.profile, self.public_key_hex)
    }
}

fn take<'b, const N: usize>(rest: &mut &'b [u8]) -> Option<&'b [u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(first)
}

fn number(rest: &mut &[u8]) -> Option<u16> {
    take(rest).map(|bytes| u16::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A package of two participants, whose points are all the same byte.
    fn encoded(profile: u8, n_point_bytes: usize) -> Vec<u8> {
        let point = |byte: u8| vec![byte; n_point_bytes];
        [&[1, profile, 0, 2, 0, 2][..], &point(0xab), &[0, 0], &point(7), &[0, 3], &point(8), &[5; 32]]
            .concat()
    }

    #[test]
    fn package_states_profile_threshold_participants_and_key() {
        for (code, profile, n_point_bytes) in
            [(1, "frost-ed25519-sha512", 32), (2, "frost-secp256k1-sha256-tr", 33)]
        {
            let package = Package::read(&hex::encode(encoded(code, n_point_bytes))).unwrap();
            assert_eq!((package.profile, package.threshold), (profile, 2));
            assert_eq!(package.participants, BTreeSet::from([ParticipantIndex(0), ParticipantIndex(3)]));
            assert_eq!(package.artifact_ref(), format!("{profile}:{}", "ab".repeat(32)));
        }
    }

    #[test]
    fn other_encodings_are_not_packages() {
        let right = encoded(1, 32);
        assert!(Package::read(&hex::encode(&right)).is_some());
        for length in 0..right.len() {
            assert_eq!(Package::read(&hex::encode(&right[..length])), None, "{length} bytes");
        }
        let longer = [right.as_slice(), &[0]].concat();
        let other = |at: usize, byte: u8| {
            let mut bytes = right.clone();
            bytes[at] = byte;
            bytes
        };
        // Another version, an unknown profile, another length, and participants that do not ascend.
        for bytes in [longer, other(0, 2), other(1, 3), other(1, 2), other(5, 3), other(39, 3), other(39, 4)]
        {
            assert_eq!(Package::read(&hex::encode(bytes)), None);
        }
        assert_eq!(Package::read(&hex::encode(&right).to_uppercase()), None);
        assert_eq!(Package::read("no hexadecimal"), None);
    }
}
