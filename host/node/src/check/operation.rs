//! The checks of operations and the rows that belong to them: statement, answers to calls, used nonces, ceremony, new share.

use super::{CheckError, Checker, check_hash};
use crate::store::consumed::decode_package;
use crate::store::operation::{self, AdmittedRequest};
use crate::store::row_hash;
use crate::store::tables::{attempt, hash};
use gateway_domain::admission::{AdmissionDecision, PAYLOAD_TYPE, Target, admission_hash};
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::intent::OperationType;
use gateway_domain::operation::{ATTEMPTS_MAX, EffectStep};
use gateway_domain::receipt::Chain;
use gateway_sqlite::{Cell, Row};

/// An operation's row.
struct Stored {
    chain: Chain,
    last_step: EffectStep,
    head: Hex32,
}

/// The answers to an operation's calls: the name of the step, and the head of the chain after it.
struct Steps(Vec<(String, Option<Hex32>)>);

impl Steps {
    /// The heads after this step, one for each call; `None` for one that is not a hash.
    fn of(&self, step: EffectStep) -> impl Iterator<Item = Option<Hex32>> {
        self.0.iter().filter(move |(name, _)| name == step.as_str()).map(|(_, head)| *head)
    }

    fn check_has(&self, step: EffectStep) -> Result<(), CheckError> {
        match self.of(step).next() {
            Some(_) => Ok(()),
            None => Err(format!("the record of its step `{}` is missing", step.as_str()).into()),
        }
    }

    fn ends_in(&self, step: EffectStep, head: Hex32) -> bool {
        self.of(step).any(|after| after == Some(head))
    }
}

impl Checker<'_> {
    pub(super) async fn check_operation(&mut self, row: &Row) -> Result<(), CheckError> {
        let id = OperationId(hash(row, "operation_id").ok_or("`operation_id` is not an operation's id")?);
        let admission_hash = hash(row, "admission_hash").ok_or("`admission_hash` is not a hash")?;
        let last_step = row.text("stage").and_then(operation::step_of_stage);
        let last_step = last_step.ok_or("`stage` is not a stage of an operation")?;
        let head = hash(row, "head").ok_or("`head` is not a hash")?;
        let chain = Chain { admission_hash, operation_id: id, participant: self.me };
        let stored = Stored { chain, last_step, head };
        let steps = self.load_steps(id).await?;
        let Some(index) = row.integer("statement_index") else {
            if last_step != EffectStep::Discard || *row.cell("key_id") != Cell::Null {
                return Err("`statement_index` is missing".into());
            }
            check_discarded(&stored, &steps)?;
            return self.check_is_logged(id, head).await;
        };
        let sql = "SELECT body FROM statement WHERE statement_index = ?1";
        let found = self.conn.row(sql, &[index.into()]).await?.ok_or("its statement is missing")?;
        let statement = read(&found).ok_or("its statement cannot be read")?;
        if hash(row, "key_id") != Some(statement.decision.key_id.0) {
            return Err("`key_id` does not match its statement".into());
        }
        check_statement(&stored, &statement)?;
        self.check_last_step(&stored, &statement.decision, &steps).await?;
        self.check_made_share(&stored, &statement.decision).await?;
        self.check_is_logged(id, head).await
    }

    /// Checks that the steps before the last one are recorded, and that the head follows from them.
    async fn check_last_step(
        &mut self,
        stored: &Stored,
        decision: &AdmissionDecision,
        steps: &Steps,
    ) -> Result<(), CheckError> {
        let Stored { chain, last_step, head } = stored;
        let is_signature = decision.operation_type == OperationType::Sign;
        let after_receipt = Some(chain.after_receipt()?);
        if steps.of(EffectStep::PolicyReceipt).any(|after| after != after_receipt) {
            return Err("the record of its step `policy-receipt` does not match its admission".into());
        }
        match last_step {
            EffectStep::Decision | EffectStep::Admission => {}
            EffectStep::PolicyReceipt | EffectStep::Execute => steps.check_has(EffectStep::PolicyReceipt)?,
            EffectStep::CommitEpoch | EffectStep::Publish => {
                steps.check_has(EffectStep::PolicyReceipt)?;
                if !is_signature {
                    steps.check_has(EffectStep::CommitEpoch)?;
                }
            }
            EffectStep::Discard => return check_discarded(stored, steps),
        }
        let follows = match last_step {
            EffectStep::Decision | EffectStep::Admission => *head == chain.after_admission()?,
            EffectStep::PolicyReceipt => Some(*head) == after_receipt,
            EffectStep::Execute => self.head_follows_attempt(stored).await?,
            EffectStep::CommitEpoch | EffectStep::Publish | EffectStep::Discard => {
                steps.ends_in(*last_step, *head)
            }
        };
        if follows { Ok(()) } else { Err("`head` does not match `stage` and the recorded steps".into()) }
    }

    /// Whether the head is the one after a recorded attempt: one whose nonces were used, or at a ceremony that began.
    async fn head_follows_attempt(&mut self, stored: &Stored) -> Result<bool, CheckError> {
        let id = stored.chain.operation_id.to_string();
        let sql = "SELECT max(attempt) FROM consumed WHERE operation_id = ?1";
        let used: Option<u32> = self.conn.value(sql, &[id.as_str().into()]).await?;
        let sql = "SELECT max(attempt) FROM ceremony WHERE operation_id = ?1";
        let begun: Option<u32> = self.conn.value(sql, &[id.into()]).await?;
        // The ceremony's row has its latest attempt; an earlier one may have staged the share.
        for attempt in used.into_iter().chain(1..=begun.unwrap_or_default().min(ATTEMPTS_MAX)) {
            if stored.chain.after_execute(attempt)? == stored.head {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Checks that the share made by the operation is stored.
    async fn check_made_share(
        &mut self,
        stored: &Stored,
        decision: &AdmissionDecision,
    ) -> Result<(), CheckError> {
        let made = [EffectStep::Execute, EffectStep::CommitEpoch, EffectStep::Publish];
        let is_made = made.contains(&stored.last_step);
        let target = decision.target.as_ref().filter(|_| is_made);
        let Some(Target { key_id, epoch, participants, .. }) = target else { return Ok(()) };
        if !participants.as_set().contains(&self.me) {
            return Ok(());
        }
        let sql = "SELECT s.operation_id, s.attempt, c.attempt AS begun FROM share s \
                   LEFT JOIN ceremony c ON c.operation_id = s.operation_id \
                   WHERE s.key_id = ?1 AND s.epoch = ?2";
        let share = self.conn.row(sql, &[key_id.to_string().into(), epoch.0.as_str().into()]).await?;
        let share = share.ok_or("the share that it made is missing")?;
        if hash(&share, "operation_id") != Some(stored.chain.operation_id.0) {
            return Err("the share that it made has another `operation_id`".into());
        }
        if share.integer("begun") < share.integer("attempt") {
            return Err("the record of the ceremony that made its share is missing".into());
        }
        Ok(())
    }

    async fn load_steps(&mut self, id: OperationId) -> Result<Steps, CheckError> {
        // The operation's effect ids begin with its id and `.`, and `/` is the character after `.`.
        let sql = "SELECT effect_id, transition_hash FROM effect \
                   WHERE effect_id > ?1 || '.' AND effect_id < ?1 || '/'";
        let rows = self.conn.rows(sql, &[id.to_string().into()]).await?;
        let step = |row: &Row| {
            let id = row.text("effect_id")?;
            Some((id.split('.').nth(1)?.to_owned(), hash(row, "transition_hash")))
        };
        Ok(Steps(rows.iter().filter_map(step).collect()))
    }

    pub(super) async fn check_statement(&mut self, row: &Row) -> Result<(), CheckError> {
        let body = row.text("body").ok_or("`body` is not text")?;
        check_hash(row, row_hash::statement(body))?;
        let statement = read(row).ok_or("`body` is not a statement")?;
        let sql = "SELECT statement_index FROM operation WHERE operation_id = ?1";
        let found = self.conn.row(sql, &[statement.decision.operation_id.to_string().into()]).await?;
        if found.and_then(|found| found.integer("statement_index")) == row.integer("statement_index") {
            Ok(())
        } else {
            Err("the row belongs to no operation".into())
        }
    }

    pub(super) async fn check_effect(&mut self, row: &Row) -> Result<(), CheckError> {
        let id = row.text("effect_id").ok_or("`effect_id` is not text")?;
        let content = row.text("content").ok_or("`content` is not text")?;
        let transition = row.text("transition_hash").ok_or("`transition_hash` is not text")?;
        check_hash(row, row_hash::effect(id, content, transition))?;
        if hash(row, "content").is_none() || hash(row, "transition_hash").is_none() {
            return Err("`content` or `transition_hash` is not a hash".into());
        }
        self.check_operation_exists(id.split('.').next().unwrap_or_default()).await
    }

    pub(super) async fn check_consumed(&mut self, row: &Row) -> Result<(), CheckError> {
        let text = |column| row.text(column).ok_or_else(|| format!("`{column}` is not text"));
        let (id, packed) = (text("operation_id")?, text("package")?);
        let (commitment_hash, package_hash) = (text("commitment_hash")?, text("package_hash")?);
        let stored = row_hash::Consumed {
            operation_id: id,
            attempt: attempt(row).ok_or("`attempt` is not a number from 1")?,
            commitment_hash,
            package_hash,
            package: packed,
            share: &hex::encode(row.bytes("share").ok_or("`share` is missing")?),
        };
        check_hash(row, stored.hash())?;
        let package = decode_package(packed).map_err(|_| "`package` cannot be read")?;
        if hash(row, "package_hash") != Some(Hex32::new(package.hash())) {
            return Err("`package_hash` does not match `package`".into());
        }
        self.check_operation_exists(id).await
    }

    pub(super) async fn check_ceremony(&mut self, row: &Row) -> Result<(), CheckError> {
        let id = row.text("operation_id").ok_or("`operation_id` is not text")?;
        let attempt = attempt(row).ok_or("`attempt` is not a number from 1")?;
        check_hash(row, row_hash::ceremony(id, attempt))?;
        self.check_operation_exists(id).await
    }

    async fn check_operation_exists(&mut self, id: &str) -> Result<(), CheckError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM operation WHERE operation_id = ?1)";
        if self.conn.value(sql, &[id.into()]).await? {
            Ok(())
        } else {
            Err("the row belongs to no operation".into())
        }
    }
}

fn read(row: &Row) -> Option<AdmittedRequest> {
    serde_json::from_str(row.text("body")?).ok()
}

/// Checks a discarded operation, which may not have been admitted here.
fn check_discarded(stored: &Stored, steps: &Steps) -> Result<(), CheckError> {
    if stored.head != stored.chain.after_discard()? {
        return Err("`head` does not match `stage` and the recorded steps".into());
    }
    if steps.ends_in(EffectStep::Discard, stored.head) {
        return Ok(());
    }
    Err("the record of its step `discard` is missing".into())
}

/// Checks that the statement belongs to the operation, and that its decision is the one in the signed envelope.
fn check_statement(stored: &Stored, statement: &AdmittedRequest) -> Result<(), CheckError> {
    let AdmittedRequest { request, decision } = statement;
    let payload =
        request.envelope.payload(PAYLOAD_TYPE).map_err(|_| "its statement is not a signed decision")?;
    if admission_hash(&payload) != stored.chain.admission_hash {
        return Err("`admission_hash` does not match its statement".into());
    }
    if decision.payload()? != payload || decision.operation_id != stored.chain.operation_id {
        return Err("the decision of its statement is not the signed one".into());
    }
    Ok(())
}
