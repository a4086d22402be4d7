//! The requests that the page can make, and their answers.

use gateway_domain::approval::{Approvable, AwaitingView, Word};
use gateway_domain::ids::OperationId;
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_domain::{canonical, error_chain};
use gateway_evidence::{EvidenceReader, Roots, verify};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::error::Error;

/// A request of the page.
#[derive(Deserialize)]
#[serde(tag = "call", rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    /// Verifies evidence or an audit log, as `evidence verify` does.
    Verify {
        /// The pages of the document, as texts.
        pages: Vec<String>,
        /// The roots of trust, as text.
        roots: String,
        /// The operation that the document must be of.
        operation_id: Option<OperationId>,
        /// The time by the reader's clock, milliseconds since 1970.
        now_ms: EpochMs,
    },
    /// Compares a view with what it asks approvers to sign.
    Check {
        /// The operation's view, as text: numbers in it may be larger than scripts have.
        view: String,
    },
    /// Compares a view with what it asks approvers to sign, and makes the statement of one: an approval, a rejection or an abort.
    State {
        /// The operation's view, as text.
        view: String,
        /// The approver.
        subject_id: String,
        /// The roles in which they approve or reject.
        roles: Vec<String>,
        /// The time by the approver's clock, milliseconds since 1970.
        at_ms: i64,
        /// The reason of a rejection or an abort; without one, it is an approval.
        reason: Option<String>,
        /// The lost receivers, for an abort.
        #[serde(default)]
        lost: Option<BTreeSet<ParticipantIndex>>,
    },
}

/// Answers a request: with a JSON object, which has the member `error` if there is no other answer.
#[must_use]
pub fn answer(request: &[u8]) -> String {
    let answer = serde_json::from_slice(request).map_err(Into::into).and_then(answer_to);
    answer.unwrap_or_else(|error| json!({ "error": error_chain(error.as_ref()) })).to_string()
}

type Fault = Box<dyn Error + Send + Sync>;

fn answer_to(request: Request) -> Result<Value, Fault> {
    match request {
        Request::Verify { pages, roots, operation_id, now_ms } => {
            let roots = Roots::parse(roots.as_bytes())?;
            let pages = pages.iter().map(|page| gateway_evidence::parse(page.as_bytes()));
            let pages = pages.collect::<Result<_, _>>()?;
            let report =
                verify(pages, &EvidenceReader { operation_id, ..EvidenceReader::new(&roots, now_ms) });
            Ok(json!({ "verdict": report.verdict(), "checks": report.checks }))
        }
        Request::Check { view } => {
            let view = AwaitingView::read(gateway_evidence::parse(view.as_bytes())?)?;
            shown(&view.check()?)
        }
        Request::State { view, subject_id, roles, at_ms, reason, lost } => {
            let view = AwaitingView::read(gateway_evidence::parse(view.as_bytes())?)?;
            let approvable = view.check()?;
            let word = match (&reason, &lost) {
                (None, _) => Word::Approves { approved_at_ms: at_ms },
                (Some(reason), None) => Word::Rejects { reason, rejected_at_ms: at_ms },
                (Some(reason), Some(lost_participants)) => {
                    Word::Aborts { aborted_at_ms: at_ms, lost_participants, reason }
                }
            };
            let statement = approvable.subject.says(&subject_id, &roles, word);
            let mut shown = shown(&approvable)?;
            if let Some(members) = shown.as_object_mut() {
                let message = String::from_utf8(statement.message()?)?;
                members.insert("message".to_owned(), json!(message));
                members.insert("digest".to_owned(), json!(statement.digest()?));
            }
            Ok(shown)
        }
    }
}

/// What is signed, in the bytes whose hash it has.
fn shown(approvable: &Approvable<'_>) -> Result<Value, Fault> {
    let Approvable { subject, intent, key_ref } = approvable;
    let intent = String::from_utf8(canonical::to_bytes(intent)?)?;
    Ok(json!({
        "tenant": subject.tenant,
        "operation_id": subject.operation_id,
        "submitter": subject.submitter,
        "key_ref": key_ref,
        "key_id": subject.key_id,
        "intent_hash": subject.intent_hash,
        "intent": intent,
    }))
}
