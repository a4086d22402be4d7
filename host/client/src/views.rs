//! Answers of the gateway.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// An operation.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Operation {
    /// Its id: 64 hexadecimal characters.
    pub operation_id: String,
    /// Its state, such as `pending_approval`, `published` or `failed`.
    pub state: String,
    /// What it does, as it was submitted.
    pub intent: Map<String, Value>,
    /// The approvals so far.
    pub approvals: Approvals,
    /// The actions that are possible now: `approve`, `execute`, `publish`.
    pub next_actions: Vec<String>,
    /// Method and path of each possible action, and as `self` of the operation.
    pub links: BTreeMap<String, Link>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// The step that the gateway completes by itself.
    pub in_progress: Option<String>,
    /// Time of submission, milliseconds since 1970.
    pub created_at_ms: u64,
    /// Time of the latest change, milliseconds since 1970.
    pub updated_at_ms: u64,
    /// The other members.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Operation {
    /// Its path.
    ///
    /// Every view has one; an empty text without it leads to 404.
    #[must_use]
    pub fn path(&self) -> &str {
        self.links.get("self").map_or("", |link| link.href.as_str())
    }

    /// Whether nothing will change it any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.state.as_str(), "published" | "failed") && self.in_progress.is_none()
    }
}

/// The approvals of an operation.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Approvals {
    /// The number of people who approved and count.
    pub approved: u64,
    /// The number that is needed.
    pub required: u64,
    /// Who they are.
    pub subjects: Vec<String>,
    /// Who must approve yet.
    pub missing: Vec<MissingApprovals>,
    /// Until when the admission waits, epoch milliseconds; `None` if it does not.
    #[serde(default)]
    pub admit_not_before_ms: Option<u64>,
}

/// People who must approve yet. One person may count for several of these.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct MissingApprovals {
    /// The policy's name for those of whom they must be; `None` for anybody whose approval counts.
    pub group: Option<String>,
    /// How many.
    pub people: u64,
}

/// An action that is possible.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Link {
    /// The HTTP method.
    pub method: String,
    /// The path.
    pub href: String,
}

/// Why an operation failed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Failure {
    /// The code, on which programs can rely.
    pub code: String,
    /// What happened, for people.
    pub message: String,
    /// The participants that caused it by misbehaving.
    #[serde(default)]
    pub culprits: Vec<u16>,
}

/// A custody key.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Key {
    /// Its name.
    pub key_ref: String,
    /// Its state, such as `active`.
    pub state: String,
    /// The participants that hold shares.
    pub participants: Vec<u16>,
    /// How many of them sign.
    pub threshold: u16,
    /// Its public key, hexadecimal.
    pub public_key_hex: Option<String>,
    /// The epoch of its shares.
    pub active_epoch: Option<String>,
    /// The other members.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A part of a list.
#[derive(Clone, Debug, Deserialize)]
pub struct Page<T> {
    /// In order, newest first. There may be fewer than asked for, even none, although more follow.
    #[serde(alias = "operations", alias = "keys")]
    pub items: Vec<T>,
    /// What the next page begins with; `None` at the end of the list.
    pub next_cursor: Option<String>,
}

/// An event of an operation.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Event {
    /// Its name in the log of all events: `INDEX-PREFIX`, its index and the beginning of its hash.
    #[serde(skip_deserializing, default)]
    pub id: String,
    /// The operation.
    pub operation_id: String,
    /// The operation's path.
    pub href: String,
    /// The event's number in the operation.
    pub seq: u64,
    /// What happened, such as `approval_recorded`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The operation's state after it.
    pub state: String,
    /// The operation's type.
    pub operation_type: String,
    /// The name of the operation's key.
    pub key_ref: String,
    /// Time of the event, milliseconds since 1970.
    pub at_ms: u64,
}

/// Who the gateway takes the caller for.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct WhoAmI {
    /// Absent on a development gateway that authenticates no one.
    pub identity: Option<Identity>,
    /// Whether approvals are signed: `off`, `optional` or `required`.
    pub signed_approvals: String,
}

/// An authenticated caller.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Identity {
    /// The calling system.
    pub client_id: String,
    /// The person or service account.
    pub subject_id: String,
    /// The tenant.
    pub tenant: String,
    /// Its roles.
    pub roles: Vec<String>,
    /// Its scopes.
    pub scopes: Vec<String>,
}
