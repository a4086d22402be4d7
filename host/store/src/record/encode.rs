//! Encodes commits as rows. This runs in the caller's task, so that the single writer only writes.

pub(crate) mod policies;

use crate::error::{failed, unavailable};
use crate::record::spending::spending_totals;
use crate::sql::rows::ReadRows;
use gateway_domain::canonical;
use gateway_domain::evidence::event_hash;
use gateway_domain::ids::{Hex32, KeyId, OperationId, Tenant};
use gateway_domain::intent::{Family, Intent, Payment};
use gateway_domain::operation::{Change, Operation, Phase, Step, next};
use gateway_domain::policy::{Input, Moment, Outcome};
use gateway_domain::redaction::{Salt, redact};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{Commit, DecisionRecord, KeyChange, PreviewRecord, SpendingRead};
use gateway_engine::{Token, Unavailable};

/// The format of the bodies that are written. [`crate::record::decode`] must be able to read every released format; so far
/// there is one.
pub(crate) const FORMAT: i64 = 1;

/// A commit as rows.
pub(crate) struct Rows {
    pub(crate) operation: OperationRow,
    /// In order; never empty.
    pub(crate) events: Vec<EventRow>,
    pub(crate) keys: Vec<KeyRow>,
    /// The keys whose lists of custody operations get the operation.
    pub(crate) listed_keys: Vec<KeyId>,
    pub(crate) claim: Option<ClaimRow>,
    pub(crate) spending: Option<Spending>,
    /// The spending totals that the commit is conditional on.
    pub(crate) spending_read: Option<SpendingCheck>,
}

/// A condition on spending totals: those of this payment are still the ones that were read.
pub(crate) struct SpendingCheck {
    tenant: Tenant,
    payment: Payment,
    read: SpendingRead,
}

impl SpendingCheck {
    /// Whether the totals have changed since they were read.
    pub(crate) async fn is_outdated<C: ReadRows>(&self, conn: &mut C) -> Result<bool, sqlx::Error> {
        let Self { tenant, payment, read } = self;
        Ok(spending_totals(conn, tenant, payment, read.now).await? != Some(read.totals))
    }
}

pub(crate) struct OperationRow {
    pub(crate) id: OperationId,
    pub(crate) tenant: String,
    pub(crate) family: &'static str,
    pub(crate) key_id: KeyId,
    pub(crate) state: &'static str,
    pub(crate) owes: bool,
    pub(crate) awaits_approvals: bool,
    /// 0 if the operation must not exist yet.
    pub(crate) revision_before: i64,
    pub(crate) revision: i64,
    pub(crate) record_root_before: Hex32,
    pub(crate) record_root: Hex32,
    pub(crate) created_at_ms: i64,
    pub(crate) updated_at_ms: i64,
    pub(crate) body: String,
}

pub(crate) struct EventRow {
    pub(crate) seq: i64,
    pub(crate) hash: Hex32,
    pub(crate) salt: Salt,
    pub(crate) body: String,
}

pub(crate) struct KeyRow {
    pub(crate) id: KeyId,
    pub(crate) tenant: String,
    pub(crate) key_ref: String,
    pub(crate) state: &'static str,
    pub(crate) busy_with: Option<OperationId>,
    /// `None` if the key must not exist yet.
    pub(crate) revision_before: Option<i64>,
    pub(crate) revision: i64,
    pub(crate) body: String,
}

pub(crate) struct ClaimRow {
    /// Empty for the product family.
    pub(crate) key_ref: String,
    pub(crate) idempotency_key: String,
}

/// The change of the spending totals by a commit.
pub(crate) enum Spending {
    /// The payment's admission was decided: it counts from now on.
    Admitted(SpendingRow),
    /// The payment failed after its admission was decided: it no longer counts.
    Voided,
}

pub(crate) struct SpendingRow {
    pub(crate) account: String,
    pub(crate) recipient: String,
    pub(crate) currency: String,
    pub(crate) at_ms: i64,
    pub(crate) amount_minor: i64,
}

/// A policy decision that changed no operation.
pub(crate) struct DecisionRow {
    pub(crate) operation_id: OperationId,
    pub(crate) tenant: String,
    pub(crate) intent_hash: Hex32,
    pub(crate) submitter: String,
    /// Whether the gateway repeats the evaluation each time it drives the operation.
    pub(crate) repeats: bool,
    pub(crate) evaluation: EvaluationRow,
}

/// The token that a submission takes from its client's quota. See `gateway_engine::Token`.
pub(crate) struct TokenRow {
    pub(crate) tenant: String,
    pub(crate) client_id: String,
    pub(crate) now_us: i64,
    pub(crate) increment_us: i64,
    pub(crate) latest_us: i64,
    pub(crate) trusted_until_us: i64,
}

/// The columns that every decision record has: time, input and outcome of the evaluation.
#[derive(Debug)]
pub(crate) struct EvaluationRow {
    pub(crate) at_ms: i64,
    /// Digest of the contents, from which [`row_hash`] is computed once the row has its index.
    pub(crate) contents: Hex32,
    pub(crate) input: String,
    pub(crate) outcome: String,
}

/// The rows of a commit.
pub(crate) fn commit(commit: &Commit) -> Result<Rows, Unavailable> {
    let id = commit.operation.id;
    let n_events = u64::try_from(commit.events.len()).unwrap_or(u64::MAX);
    let revision_before = commit.operation.revision.checked_sub(n_events).filter(|_| n_events > 0);
    let Some(revision_before) = revision_before else {
        return Err(unavailable(format_args!("a commit of operation `{id}` is inconsistent")));
    };
    let events = events(commit, integer(revision_before))?;
    let record_root = events.last().map_or(commit.previous_record_root, |last| last.hash);
    let keys = commit.keys.iter().map(key_row).collect::<Result<_, _>>()?;
    let operation = operation_row(commit, integer(revision_before), record_root)?;
    let listed_keys = if revision_before == 0 { listed_keys(&commit.operation) } else { Vec::new() };
    let claim = commit.claim.as_ref().map(|claim| claim_row(commit, claim));
    let spending_read = match (&commit.operation.intent, commit.spending) {
        (Intent::Payment(payment), Some(read)) => {
            Some(SpendingCheck { tenant: commit.operation.tenant.clone(), payment: payment.clone(), read })
        }
        _ => None,
    };
    Ok(Rows { operation, events, keys, listed_keys, claim, spending: spending(commit), spending_read })
}

/// The row of a decision.
pub(crate) fn decision(record: &DecisionRecord) -> Result<DecisionRow, Unavailable> {
    let DecisionRecord { at_ms, operation_id, input, outcome } = record;
    Ok(DecisionRow {
        operation_id: *operation_id,
        tenant: input.tenant.0.clone(),
        intent_hash: input.intent_hash,
        submitter: serde_json::to_string(&input.submitter).map_err(|error| unwritable_decision(&error))?,
        repeats: input.moment == Moment::Admission,
        evaluation: evaluation(*at_ms, Some(*operation_id), input, outcome)?,
    })
}

/// The columns of a token.
pub(crate) fn token(token: &Token) -> TokenRow {
    TokenRow {
        tenant: token.tenant.0.clone(),
        client_id: token.client_id.clone(),
        now_us: integer(token.now_us),
        increment_us: integer(token.increment_us),
        latest_us: integer(token.latest_us),
        trusted_until_us: integer(token.trusted_until_us),
    }
}

/// The row of a preview.
pub(crate) fn preview(record: &PreviewRecord) -> Result<EvaluationRow, Unavailable> {
    evaluation(record.at_ms, None, &record.input, &record.outcome)
}

fn evaluation(
    at_ms: EpochMs,
    operation_id: Option<OperationId>,
    input: &Input,
    outcome: &Outcome,
) -> Result<EvaluationRow, Unavailable> {
    let at_ms = instant(at_ms);
    let input = serde_json::to_string(input).map_err(|error| unwritable_decision(&error))?;
    let outcome = serde_json::to_string(outcome).map_err(|error| unwritable_decision(&error))?;
    Ok(EvaluationRow { at_ms, contents: contents(at_ms, operation_id, &input, &outcome), input, outcome })
}

fn unwritable_decision(error: &serde_json::Error) -> Unavailable {
    failed("a policy decision cannot be written as JSON", error)
}

/// Digest of the contents of a decision record.
pub(crate) fn contents(at_ms: i64, operation_id: Option<OperationId>, input: &str, outcome: &str) -> Hex32 {
    let id = operation_id.map_or(Hex32::ZERO, |id| id.0);
    let (at_ms, n_bytes) = (at_ms.to_be_bytes(), (input.len() as u64).to_be_bytes());
    let parts = [&at_ms[..], &id.as_bytes()[..], &n_bytes[..], input.as_bytes(), outcome.as_bytes()];
    canonical::digest_bytes("svc/decision-row/v1", &parts.concat())
}

/// The hash of a decision record at an index. It reveals a record that was damaged, copied or moved to another index.
/// It is not keyed, so a program that can write the database can also write the hash.
pub(crate) fn row_hash(index: i64, contents: Hex32) -> Hex32 {
    let parts = [&index.to_be_bytes()[..], &contents.as_bytes()[..]];
    canonical::digest_bytes("svc/decision-place/v1", &parts.concat())
}

/// An instant as a column. Larger values are stored as `i64::MAX`.
pub(crate) fn instant(at: EpochMs) -> i64 {
    integer(at.0)
}

fn events(commit: &Commit, revision_before: i64) -> Result<Vec<EventRow>, Unavailable> {
    let id = commit.operation.id;
    let mut rows = Vec::with_capacity(commit.events.len());
    let mut previous = commit.previous_record_root;
    for (seq, event) in (revision_before.saturating_add(1)..).zip(&commit.events) {
        let fresh = fresh_salt()?;
        let to_unavailable =
            |error| failed(format_args!("an event of operation `{id}` cannot be hashed"), &error);
        let redacted = redact(event, &fresh).map_err(to_unavailable)?;
        let salt = if redacted.hides_nothing() { Salt::UNUSED } else { fresh };
        let hash = event_hash(previous, &redacted.event).map_err(to_unavailable)?;
        let body = serde_json::to_string(event).map_err(|error| unwritable(id, &error))?;
        rows.push(EventRow { seq, hash, salt, body });
        previous = hash;
    }
    Ok(rows)
}

fn fresh_salt() -> Result<Salt, Unavailable> {
    let mut random = [0; 32];
    getrandom::fill(&mut random)
        .map_err(|error| failed("the operating system provided no randomness for an event", &error))?;
    Ok(Salt::new(random))
}

pub(crate) fn operation_row(
    commit: &Commit,
    revision_before: i64,
    record_root: Hex32,
) -> Result<OperationRow, Unavailable> {
    let operation = &commit.operation;
    Ok(OperationRow {
        id: operation.id,
        tenant: operation.tenant.0.clone(),
        family: family(operation.intent.family()),
        key_id: operation.key.key_id,
        state: operation.state().as_str(),
        owes: next(operation) != Step::Rest,
        awaits_approvals: operation.phase == Phase::PendingApproval,
        revision_before,
        revision: integer(operation.revision),
        record_root_before: commit.previous_record_root,
        record_root,
        created_at_ms: instant(operation.created_at_ms),
        updated_at_ms: instant(operation.updated_at_ms),
        body: serde_json::to_string(operation).map_err(|error| unwritable(operation.id, &error))?,
    })
}

pub(crate) fn key_row(change: &KeyChange) -> Result<KeyRow, Unavailable> {
    let KeyChange { key, revision_before } = change;
    let id = key.key_id;
    let unwritable = |error| failed(format_args!("key `{id}` cannot be written as JSON"), &error);
    Ok(KeyRow {
        id,
        tenant: key.tenant.0.clone(),
        key_ref: key.key_ref.0.clone(),
        state: key.state.as_str(),
        busy_with: key.busy_with,
        revision_before: revision_before.map(integer),
        revision: integer(key.revision),
        body: serde_json::to_string(key).map_err(unwritable)?,
    })
}

pub(crate) fn claim_row(commit: &Commit, idempotency_key: &str) -> ClaimRow {
    let key_ref = match commit.operation.intent.family() {
        Family::Product => String::new(),
        Family::Custody => commit.operation.key.key_ref.0.clone(),
    };
    ClaimRow { key_ref, idempotency_key: idempotency_key.to_owned() }
}

/// The change of the spending totals by a commit: only payments change them. A payment that is decided and fails in
/// one commit counts as failed.
pub(crate) fn spending(commit: &Commit) -> Option<Spending> {
    let Intent::Payment(payment) = &commit.operation.intent else { return None };
    let last = |is_it: fn(&Change) -> bool| commit.events.iter().rfind(|event| is_it(&event.change));
    if commit.operation.admission.is_some() && last(|it| matches!(it, Change::Failed { .. })).is_some() {
        return Some(Spending::Voided);
    }
    let decided = last(|it| matches!(it, Change::DecisionSigned { .. }))?;
    Some(Spending::Admitted(SpendingRow {
        account: payment.from_account.clone(),
        recipient: payment.to_account.clone(),
        currency: payment.currency.clone(),
        at_ms: instant(decided.at_ms),
        amount_minor: payment.amount_minor.max(0),
    }))
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

/// A column cannot hold more than `i64::MAX`; larger numbers are stored as that.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unwritable(id: OperationId, error: &serde_json::Error) -> Unavailable {
    failed(format_args!("operation `{id}` cannot be written as JSON"), error)
}
