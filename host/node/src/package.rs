//! Signing packages as they are stored: JSON, bytes as hexadecimal.

use crate::error::NodeError;
use gateway_domain::ids::Hex32;
use gateway_threshold::Tweak;
use gateway_threshold::sign::SigningPackage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    message: String,
    commitments: BTreeMap<u16, String>,
    tweak: Option<Hex32>,
}

pub(crate) fn encode(package: &SigningPackage) -> Result<String, NodeError> {
    let stored = Stored {
        message: hex::encode(&package.message),
        commitments: package.commitments.iter().map(|(by, bytes)| (*by, hex::encode(bytes))).collect(),
        tweak: package.tweak.map(|tweak| Hex32::new(*tweak.as_bytes())),
    };
    serde_json::to_string(&stored).map_err(NodeError::damaged)
}

pub(crate) fn decode(text: &str) -> Result<SigningPackage, NodeError> {
    let stored: Stored = serde_json::from_str(text).map_err(NodeError::damaged)?;
    let bytes = |text: &str| hex::decode(text).map_err(NodeError::damaged);
    let commitments = stored.commitments.iter().map(|(by, text)| Ok((*by, bytes(text)?)));
    Ok(SigningPackage {
        message: bytes(&stored.message)?,
        commitments: commitments.collect::<Result<_, NodeError>>()?,
        tweak: stored
            .tweak
            .map(|tweak| Tweak::from_bytes(*tweak.as_bytes()))
            .transpose()
            .map_err(NodeError::damaged)?,
    })
}
