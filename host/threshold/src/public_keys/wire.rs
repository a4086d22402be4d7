//! The JSON form of [`PublicKeys`]: the same fields, bytes as lower-case hex.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Group, MALFORMED, PublicKeys};
use crate::{SignatureProfile, ThresholdError};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wire {
    profile: SignatureProfile,
    threshold: u16,
    verifying_key: String,
    verifying_shares: BTreeMap<u16, String>,
    chain_code: String,
}

impl From<PublicKeys> for Wire {
    fn from(keys: PublicKeys) -> Self {
        let PublicKeys { group, chain_code } = keys;
        Self {
            profile: group.profile,
            threshold: group.threshold,
            verifying_key: hex::encode(group.verifying_key),
            verifying_shares: group
                .verifying_shares
                .into_iter()
                .map(|(i, share)| (i, hex::encode(share)))
                .collect(),
            chain_code: hex::encode(chain_code),
        }
    }
}

impl TryFrom<Wire> for PublicKeys {
    type Error = ThresholdError;

    fn try_from(wire: Wire) -> Result<Self, Self::Error> {
        let share = |(participant, share): (u16, String)| Ok((participant, decode(&share)?));
        let group = Group {
            profile: wire.profile,
            threshold: wire.threshold,
            verifying_key: decode(&wire.verifying_key)?,
            verifying_shares: wire
                .verifying_shares
                .into_iter()
                .map(share)
                .collect::<Result<_, ThresholdError>>()?,
        };
        let chain_code = decode(&wire.chain_code)?.try_into().map_err(|_| MALFORMED)?;
        Ok(Self::new(group.checked()?, chain_code))
    }
}

fn decode(text: &str) -> Result<Vec<u8>, ThresholdError> {
    hex::decode(text).map_err(|_| MALFORMED)
}
