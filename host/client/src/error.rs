//! Why a request failed.

use serde::Deserialize;
use serde_json::Value;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The gateway answered with an error.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The gateway did not answer. It may have acted: the same request can be sent again.
    #[error("the gateway does not answer")]
    NoAnswer(#[source] reqwest::Error),
    /// The gateway's answer is not of the expected form.
    #[error("the gateway's answer has another form than expected: {0}")]
    Malformed(String),
    /// The time was over.
    #[error("the operation is still `{state}`")]
    StillWaiting {
        /// Its state.
        state: String,
    },
    /// The client cannot be made like this.
    #[error("{0}")]
    Unusable(String),
}

/// The gateway's error.
#[derive(Clone, Debug, Deserialize)]
pub struct Refusal {
    /// The HTTP status.
    #[serde(skip)]
    pub status: u16,
    /// The code, on which programs can rely, such as `operation_failed`.
    #[serde(rename = "error")]
    pub code: String,
    /// What is wrong, for people.
    pub message: String,
    /// The id of the request, for the gateway's operator.
    #[serde(default)]
    pub request_id: Option<String>,
    /// Every fault of a body.
    #[serde(default)]
    pub errors: Vec<Value>,
    /// The reasons for which the policy denies: `code`, `operands` (`name` and `value`), and `text` and `remedy` of the manifest.
    #[serde(default)]
    pub reasons: Vec<Value>,
    /// The record of the policy's decision.
    #[serde(default)]
    pub decision_id: Option<String>,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}): {}", self.status, self.code, self.message)?;
        // The message is about the first fault.
        for fault in self.errors.iter().skip(1) {
            write!(f, "; `{}` {}", text(fault, "pointer"), text(fault, "message"))?;
        }
        let explained = self.reasons.iter().flat_map(|reason| [text(reason, "text"), text(reason, "remedy")]);
        for explanation in explained.filter(|explanation| !explanation.is_empty()) {
            write!(f, "; {explanation}")?;
        }
        self.decision_id.iter().try_for_each(|id| write!(f, " (decision {id})"))
    }
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}

impl Error {
    /// The gateway's code, if it answered with one.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => Some(&refusal.code),
            Self::NoAnswer(_) | Self::Malformed(_) | Self::StillWaiting { .. } | Self::Unusable(_) => None,
        }
    }
}
