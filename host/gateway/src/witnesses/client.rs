//! Asks one witness for its cosignature: `POST <prefix>/add-checkpoint` (C2SP `tlog-witness`). A witness may lie, be slow or send
//! anything: each request has a deadline, an answer a limit, and nothing is followed or retried but one conflict of sizes.

use gateway_auth::ProviderUrl;
use gateway_domain::error_chain;
use gateway_domain::log::SignedCheckpoint;
use gateway_domain::log::witness::{
    ANSWER_BYTES_MAX, AnswerError, RequestError, add_checkpoint, conflict_size,
};
use gateway_engine::{Engine, EngineError};
use gateway_service::client::read_at_most;
use reqwest::{Client, StatusCode, Url, redirect};
use std::time::Duration;
use tokio::time::timeout;

/// Time limit for opening a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// Time limit for a cosignature, with both requests.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The client of one witness.
#[derive(Clone, Debug)]
pub(super) struct WitnessClient {
    client: Client,
    url: Url,
}

/// Why there is no cosignature.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("does not answer")]
    NoAnswer(#[source] reqwest::Error),
    #[error("did not answer within {} s", ANSWER_WITHIN.as_secs())]
    Timeout,
    #[error("answers with status {0}")]
    Status(StatusCode),
    #[error("has a log of {theirs} entries, above the {ours} of the checkpoint that it was sent")]
    Ahead { theirs: u64, ours: u64 },
    #[error("refuses the log of {0} entries: it has another one of this size, or another one now")]
    Conflict(u64),
    #[error("refuses the proof that the log grew from {old} to {size} entries")]
    Inconsistent { old: u64, size: u64 },
    #[error("sent a wrong answer")]
    Answer(#[from] AnswerError),
    #[error("answers a conflict without a size")]
    ConflictSize,
    #[error("could not be asked")]
    Request(#[from] RequestError),
    #[error("could not be asked")]
    Engine(#[from] EngineError),
}

impl Refusal {
    /// For metrics.
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::NoAnswer(_) | Self::Timeout => "no_answer",
            Self::Status(_) => "status",
            Self::Ahead { .. } => "ahead",
            Self::Conflict(_) => "conflict",
            Self::Inconsistent { .. } => "inconsistent",
            Self::Answer(_) | Self::ConflictSize => "invalid",
            Self::Request(_) | Self::Engine(_) => "not_sent",
        }
    }

    /// The size that the witness says it has, which is not signed: it only chooses the next proof.
    pub(super) const fn size(&self) -> Option<u64> {
        match self {
            Self::Ahead { theirs: size, .. } | Self::Conflict(size) => Some(*size),
            Self::NoAnswer(_)
            | Self::Timeout
            | Self::Status(_)
            | Self::Inconsistent { .. }
            | Self::Answer(_)
            | Self::ConflictSize
            | Self::Request(_)
            | Self::Engine(_) => None,
        }
    }
}

/// The first answer to a checkpoint.
enum Asked {
    Cosigned(String),
    /// The witness is at another size.
    At(u64),
}

impl WitnessClient {
    /// A client for the witness with this submission prefix: an `https` URL, or an `http` one on loopback.
    pub(super) fn new(prefix: &str) -> Result<Self, String> {
        let url = format!("{}/add-checkpoint", prefix.trim_end_matches('/'));
        let url: ProviderUrl = url.parse().map_err(|error| format!("the URL `{prefix}` {error}"))?;
        let url = url.as_url().clone();
        if url.query().is_some() {
            return Err(format!("the URL `{prefix}` must not have a query"));
        }
        let client = Client::builder()
            // Neither a redirect nor a proxy of the environment may send requests to another host than the configured one.
            .redirect(redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_WITHIN)
            .user_agent("operation-gateway");
        // Plain HTTP on loopback needs no authorities, and a container may have none installed.
        let client = if url.scheme() == "http" { client.tls_certs_only([]) } else { client };
        let client = client.build().map_err(|error| error_chain(&error))?;
        Ok(Self { client, url })
    }

    /// The answer of the witness to this checkpoint, which is not verified yet. `old` is the size that it has as far as is known; if
    /// it names another one, it is asked a second time with that.
    pub(super) async fn ask(
        &self,
        engine: &Engine,
        checkpoint: &SignedCheckpoint,
        old: u64,
    ) -> Result<String, Refusal> {
        timeout(ANSWER_WITHIN, self.ask_twice(engine, checkpoint, old)).await.unwrap_or(Err(Refusal::Timeout))
    }

    async fn ask_twice(
        &self,
        engine: &Engine,
        checkpoint: &SignedCheckpoint,
        old: u64,
    ) -> Result<String, Refusal> {
        let size = checkpoint.unverified().size();
        // A size above ours was never proved: 0 has the witness name its size again.
        let old = if old > size { 0 } else { old };
        let theirs = match self.ask_once(engine, checkpoint, old).await? {
            Asked::Cosigned(answer) => return Ok(answer),
            Asked::At(theirs) if theirs > size => return Err(Refusal::Ahead { theirs, ours: size }),
            Asked::At(theirs) if theirs == old => return Err(Refusal::Conflict(theirs)),
            Asked::At(theirs) => theirs,
        };
        match self.ask_once(engine, checkpoint, theirs).await? {
            Asked::Cosigned(answer) => Ok(answer),
            Asked::At(again) => Err(Refusal::Conflict(again)),
        }
    }

    async fn ask_once(
        &self,
        engine: &Engine,
        checkpoint: &SignedCheckpoint,
        old: u64,
    ) -> Result<Asked, Refusal> {
        let size = checkpoint.unverified().size();
        let proof = if old == 0 || old == size {
            Vec::new()
        } else {
            let proof = engine.log_consistency(old, size).await?;
            proof.map(|proof| proof.hashes).ok_or(RequestError::Sizes { old, size })?
        };
        let (status, answer) = self.post(add_checkpoint(old, &proof, checkpoint)?).await?;
        match status {
            StatusCode::OK => Ok(Asked::Cosigned(answer)),
            StatusCode::CONFLICT => conflict_size(&answer).map(Asked::At).ok_or(Refusal::ConflictSize),
            StatusCode::UNPROCESSABLE_ENTITY => Err(Refusal::Inconsistent { old, size }),
            status => Err(Refusal::Status(status)),
        }
    }

    async fn post(&self, body: String) -> Result<(StatusCode, String), Refusal> {
        // The log does not show the URL, which is the operator's setting.
        let no_answer = |error: reqwest::Error| Refusal::NoAnswer(error.without_url());
        let mut response = self.client.post(self.url.clone()).body(body).send().await.map_err(no_answer)?;
        let bytes = read_at_most(&mut response, ANSWER_BYTES_MAX).await.map_err(no_answer)?;
        let answer =
            String::from_utf8(bytes.ok_or(AnswerError::TooLong)?).map_err(|_| AnswerError::NotLines)?;
        Ok((response.status(), answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn witness_url_is_a_prefix_over_tls_or_on_loopback() {
        for (prefix, url) in [
            ("https://w.example", "https://w.example/add-checkpoint"),
            ("https://w.example/a/b/", "https://w.example/a/b/add-checkpoint"),
            ("http://127.0.0.1:1", "http://127.0.0.1:1/add-checkpoint"),
        ] {
            assert_eq!(WitnessClient::new(prefix).unwrap().url.as_str(), url);
        }
        for wrong in ["http://w.example", "https://w.example?x=1", "https://u:p@w.example", "w.example", ""] {
            assert!(WitnessClient::new(wrong).is_err(), "{wrong}");
        }
    }
}
