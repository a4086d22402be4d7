//! Encodes commits as rows. This runs in the caller's task, so that the single writer only writes.
//!
//! A table's columns are listed once, here: a write inserts them, and a check compares stored rows with them.

pub(crate) mod policies;

use crate::error::{failed, unavailable};
use crate::sql::row::{Cell, Columns, blob, instant, integer};
use gateway_domain::canonical;
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::{Hex32, KeyId, OperationId};
use gateway_domain::intent::{Family, Intent};
use gateway_domain::key::CustodyKey;
use gateway_domain::names::compared;
use gateway_domain::operation::{Change, Event, Operation, Phase, Step, next};
use gateway_domain::policy::{Input, Outcome};
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::{Asked, Commit, DecisionRecord, KeyChange, PreviewRecord, SpendingRead};
use serde_json::json;

/// The format of the bodies that are written. [`decode`](crate::record::decode) must be able to read every released format; so far
/// there is one.
pub(crate) const FORMAT: i64 = 1;

pub(crate) struct Rows {
    pub(crate) id: OperationId,
    /// 0 if the operation must not exist yet.
    pub(crate) revision_before: i64,
    pub(crate) record_root_before: Hex32,
    pub(crate) operation: Columns,
    /// In order; never empty.
    pub(crate) events: Vec<EventRow>,
    pub(crate) keys: Vec<KeyRow>,
    /// The keys whose lists of custody operations get the operation.
    pub(crate) listed_keys: Vec<KeyId>,
    pub(crate) claim: Option<Columns>,
    pub(crate) spending: Option<Spending>,
    /// The row that says that a recipient is paid.
    pub(crate) paid: Option<Columns>,
    /// The spending totals that the commit is conditional on.
    pub(crate) spending_read: Option<SpendingRead>,
}

/// An event, without its index in the log.
pub(crate) struct EventRow {
    pub(crate) hash: Hex32,
    pub(crate) columns: Columns,
}

pub(crate) struct KeyRow {
    pub(crate) id: KeyId,
    /// `None` if the key must not exist yet.
    pub(crate) revision_before: Option<i64>,
    pub(crate) columns: Columns,
}

/// The change of the spending totals by a commit.
pub(crate) enum Spending {
    /// The payment's admission was decided at this time: it counts from now on.
    Admitted { at_ms: i64, columns: Columns },
    /// The payment failed after its admission was decided: it no longer counts.
    Voided,
}

/// A decision record that no operation changed with, without its index.
#[derive(Debug)]
pub(crate) struct EvaluationRow {
    /// Digest of the contents, from which the row's hash is computed once the row has its index.
    contents: Hex32,
    columns: Columns,
}

impl EvaluationRow {
    pub(crate) fn cell(&self, name: &str) -> Option<Cell> {
        self.columns.iter().find(|(known, _)| *known == name).map(|(_, cell)| cell.clone())
    }

    /// The columns at an index, which is in this column.
    pub(crate) fn at(&self, column: &'static str, index: i64) -> Columns {
        let mut columns = self.columns.clone();
        columns.extend([(column, index.into()), ("row_hash", blob(row_hash(index, self.contents)))]);
        columns
    }
}

pub(crate) fn commit(commit: &Commit) -> Result<Rows, Unavailable> {
    let Commit { operation, previous_record_root, .. } = commit;
    let id = operation.id;
    let n_events = u64::try_from(commit.events.len()).unwrap_or(u64::MAX);
    let revision_before = operation.revision.checked_sub(n_events).filter(|_| n_events > 0);
    let Some(revision_before) = revision_before.map(integer) else {
        return Err(unavailable(format_args!("a commit of operation `{id}` is inconsistent")));
    };
    let events = events(commit, revision_before)?;
    let record_root = events.last().map_or(*previous_record_root, |last| last.hash);
    let key = |change: &KeyChange| {
        let (id, revision_before) = (change.key.key_id, change.revision_before.map(integer));
        Ok(KeyRow { id, revision_before, columns: key_columns(&change.key)? })
    };
    let publishes = commit.events.iter().any(|it| matches!(it.event.change, Change::Published { .. }));
    Ok(Rows {
        id,
        revision_before,
        record_root_before: *previous_record_root,
        operation: operation_columns(operation, record_root)?,
        events,
        keys: commit.keys.iter().map(key).collect::<Result<_, Unavailable>>()?,
        listed_keys: if revision_before == 0 { listed_keys(operation) } else { Vec::new() },
        claim: commit.claim.as_ref().map(|claim| claim_columns(operation, claim)),
        spending: spending(operation, commit.events.iter().map(|chained| &chained.event)),
        spending_read: commit.spending.clone(),
        paid: if publishes { paid(operation) } else { None },
    })
}

pub(crate) fn decision(record: &DecisionRecord) -> Result<EvaluationRow, Unavailable> {
    let DecisionRecord { at_ms, operation_id, asked, input, outcome } = record;
    let submitter = serde_json::to_string(&input.submitter).map_err(|error| unwritable_decision(&error))?;
    let mut row = evaluation(*at_ms, Some(*operation_id), asked, input, outcome)?;
    row.columns.extend([
        ("idempotency_key", asked.idempotency_key.as_deref().unwrap_or_default().into()),
        ("tenant", input.tenant.0.as_str().into()),
        ("operation_id", blob(operation_id.0)),
        ("intent_hash", blob(input.intent_hash)),
        ("submitter", submitter.into()),
    ]);
    Ok(row)
}

pub(crate) fn preview(record: &PreviewRecord) -> Result<EvaluationRow, Unavailable> {
    evaluation(record.at_ms, None, &record.asked, &record.input, &record.outcome)
}

fn evaluation(
    at_ms: EpochMs,
    operation_id: Option<OperationId>,
    asked: &Asked,
    input: &Input,
    outcome: &Outcome,
) -> Result<EvaluationRow, Unavailable> {
    let at_ms = instant(at_ms);
    let input = serde_json::to_string(input).map_err(|error| unwritable_decision(&error))?;
    let outcome = serde_json::to_string(outcome).map_err(|error| unwritable_decision(&error))?;
    let contents = contents(at_ms, operation_id, asked, &input, &outcome);
    let columns = vec![
        ("at_ms", at_ms.into()),
        ("request_id", asked.request_id.as_deref().unwrap_or_default().into()),
        ("format", FORMAT.into()),
        ("input", input.into()),
        ("outcome", outcome.into()),
    ];
    Ok(EvaluationRow { contents, columns })
}

fn unwritable_decision(error: &serde_json::Error) -> Unavailable {
    failed("a policy decision cannot be written as JSON", error)
}

/// Digest of the contents of a decision record.
pub(crate) fn contents(
    at_ms: i64,
    operation_id: Option<OperationId>,
    Asked { request_id, idempotency_key }: &Asked,
    input: &str,
    outcome: &str,
) -> Hex32 {
    let id = operation_id.map_or(Hex32::ZERO, |id| id.0);
    let asked = json!([request_id, idempotency_key]).to_string();
    let n_bytes = [&asked, input].map(|text| (text.len() as u64).to_be_bytes());
    let [n_asked, n_input] = &n_bytes;
    let numbers = [&at_ms.to_be_bytes()[..], id.as_bytes(), n_asked, n_input];
    let texts = [asked.as_bytes(), input.as_bytes(), outcome.as_bytes()];
    let parts: Vec<_> = numbers.into_iter().chain(texts).collect();
    canonical::digest_bytes("svc/decision-row/v2", &parts.concat())
}

/// The hash of a decision record at an index. It reveals a record that was damaged, copied or moved to another index.
/// It is not keyed, so a program that can write the database can also write the hash.
pub(crate) fn row_hash(index: i64, contents: Hex32) -> Hex32 {
    let parts = [&index.to_be_bytes()[..], &contents.as_bytes()[..]];
    canonical::digest_bytes("svc/decision-place/v1", &parts.concat())
}

fn events(commit: &Commit, revision_before: i64) -> Result<Vec<EventRow>, Unavailable> {
    let id = commit.operation.id;
    let mut rows = Vec::with_capacity(commit.events.len());
    for (seq, chained) in (revision_before.saturating_add(1)..).zip(&commit.events) {
        let ChainedEvent { event, salt, hash } = chained;
        let body = serde_json::to_string(event).map_err(|error| unwritable(id, &error))?;
        let columns = vec![
            ("operation_id", blob(id.0)),
            ("seq", seq.into()),
            ("event_hash", blob(*hash)),
            ("salt", Cell::Blob(salt.as_bytes().to_vec())),
            ("format", FORMAT.into()),
            ("body", body.into()),
        ];
        rows.push(EventRow { hash: *hash, columns });
    }
    Ok(rows)
}

/// What follows from an operation's events. `ledger_root` follows from the whole log, and `due_ms` and `waited_ms` from nothing.
pub(crate) fn operation_columns(operation: &Operation, record_root: Hex32) -> Result<Columns, Unavailable> {
    let body = serde_json::to_string(operation).map_err(|error| unwritable(operation.id, &error))?;
    Ok(vec![
        ("operation_id", blob(operation.id.0)),
        ("tenant", operation.tenant.0.as_str().into()),
        ("family", family(operation.intent.family()).into()),
        ("key_id", blob(operation.key.key_id.0)),
        ("submitter", compared(operation.submitter.person()).as_ref().into()),
        ("state", operation.state().as_str().into()),
        ("owes", (next(operation) != Step::Rest).into()),
        ("awaits_approvals", (operation.phase == Phase::PendingApproval).into()),
        ("resumes_at_ms", operation.admit_not_before().map_or(0, instant).into()),
        ("revision", integer(operation.revision).into()),
        ("record_root", blob(record_root)),
        ("created_at_ms", instant(operation.created_at_ms).into()),
        ("updated_at_ms", instant(operation.updated_at_ms).into()),
        ("format", FORMAT.into()),
        ("body", body.into()),
    ])
}

pub(crate) fn key_columns(key: &CustodyKey) -> Result<Columns, Unavailable> {
    let id = key.key_id;
    let unwritable = |error| failed(format_args!("key `{id}` cannot be written as JSON"), &error);
    Ok(vec![
        ("key_id", blob(id.0)),
        ("tenant", key.tenant.0.as_str().into()),
        ("key_ref", key.key_ref.0.as_str().into()),
        ("state", key.state.as_str().into()),
        ("busy_with", key.busy_with.map(|id| blob(id.0)).into()),
        ("revision", integer(key.revision).into()),
        ("format", FORMAT.into()),
        ("body", serde_json::to_string(key).map_err(unwritable)?.into()),
    ])
}

/// The claim, and the operation that has it.
pub(crate) fn claim_columns(operation: &Operation, idempotency_key: &str) -> Columns {
    let of = operation.intent.family();
    // Claims of the product family span keys.
    let key_ref = match of {
        Family::Product => "",
        Family::Custody => &operation.key.key_ref.0,
    };
    vec![
        ("tenant", operation.tenant.0.as_str().into()),
        ("family", family(of).into()),
        ("key_ref", key_ref.into()),
        ("idempotency_key", idempotency_key.into()),
        ("operation_id", blob(operation.id.0)),
    ]
}

/// The change of the spending totals by these events, after which the operation is this: only payments change them. A payment that is
/// decided and fails in one commit counts as failed.
pub(crate) fn spending<'e>(
    operation: &Operation,
    events: impl DoubleEndedIterator<Item = &'e Event> + Clone,
) -> Option<Spending> {
    let Intent::Payment(payment) = &operation.intent else { return None };
    let last = |is_it: fn(&Change) -> bool| events.clone().rfind(|event| is_it(&event.change));
    if operation.admission.is_some() && last(|it| matches!(it, Change::Failed { .. })).is_some() {
        return Some(Spending::Voided);
    }
    let decided = last(|it| matches!(it, Change::DecisionSigned { .. }))?;
    let at_ms = instant(decided.at_ms);
    let columns = vec![
        ("operation_id", blob(operation.id.0)),
        ("tenant", operation.tenant.0.as_str().into()),
        ("account", payment.from_account.as_str().into()),
        ("recipient", payment.to_account.as_str().into()),
        ("submitter", compared(operation.submitter.person()).as_ref().into()),
        ("key_id", operation.key.key_id.to_string().into()),
        ("currency", payment.currency.as_str().into()),
        ("at_ms", at_ms.into()),
        ("amount_minor", payment.amount_minor.max(0).into()),
    ];
    Some(Spending::Admitted { at_ms, columns })
}

/// The row of a published payment.
pub(crate) fn paid(operation: &Operation) -> Option<Columns> {
    let (Intent::Payment(payment), Phase::Published) = (&operation.intent, &operation.phase) else {
        return None;
    };
    let decision = &operation.admission.as_ref()?.decision;
    Some(vec![
        ("operation_id", blob(operation.id.0)),
        ("key_id", blob(operation.key.key_id.0)),
        ("recipient", payment.to_account.as_str().into()),
        ("at_ms", instant(decision.not_before_ms).into()),
    ])
}

/// The keys that list an operation: none for the product family, two for a rotation.
pub(crate) fn listed_keys(operation: &Operation) -> Vec<KeyId> {
    match operation.intent.family() {
        Family::Product => Vec::new(),
        Family::Custody => [Some(&operation.key), operation.successor.as_ref()]
            .into_iter()
            .flatten()
            .map(|key| key.key_id)
            .collect(),
    }
}

pub(crate) const fn family(family: Family) -> &'static str {
    match family {
        Family::Product => "product",
        Family::Custody => "custody",
    }
}

fn unwritable(id: OperationId, error: &serde_json::Error) -> Unavailable {
    failed(format_args!("operation `{id}` cannot be written as JSON"), error)
}
