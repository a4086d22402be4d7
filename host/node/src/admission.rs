//! Admission: the node accepts and stores a decision, or refuses it.

pub(crate) mod approvals;
pub(crate) mod bundles;
pub(crate) mod gate;
pub(crate) mod policy;
pub(crate) mod verify;

use crate::admission::approvals::check_registered;
use crate::admission::policy::{Held, Proven, check_facts, check_spending, document_refused};
use crate::admission::verify::{check_generation, check_named_key, verify};
use crate::call::AdmitRequest;
use crate::error::{NodeError, Stop, discarded, other_decision};
use crate::memory::generations::Generations;
use crate::node::Node;
use crate::settings::NodeConfig;
use crate::store;
use crate::store::log::{self, LogState};
use crate::store::operation::{self, AdmittedRequest, Row, View};
use crate::store::spending;
use crate::store::transaction::Transact;
use crate::store::vault::Generation;
use gateway_domain::admission::Admission;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::{Intent, OperationType, Payment};
use gateway_domain::operation::EffectStep;
use gateway_domain::policy::spending::Parties;
use gateway_domain::receipt::{Chain, NodeReceipt, ReceiptKind, ReceiptStatement};
use gateway_domain::time::EpochMs;
use gateway_policy::{Standing, TrustedBundle};
use gateway_spending::documents;
use gateway_sqlite::Connection;
use std::sync::Arc;

impl Node {
    /// Verifies a decision, its intent and its approvals, and stores them. A repeat of the call returns the same receipt.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with `AdmissionRefused`, `ApprovalRefused`, `AdmissionExpired`, `EpochConflict`,
    /// `AdmissionConflict` or `OperationDiscarded` (see [`Code`](crate::Code)); [`NodeError::Unavailable`], also when this
    /// node holds no share of a key that it must hold.
    pub async fn admit(&self, request: &AdmitRequest) -> Result<NodeReceipt, NodeError> {
        self.check_running()?;
        let (statement, admission_hash, bundle) = match self.verify_admission(request).await {
            Ok(verified) => verified,
            Err(error) => return self.repeated_admission(request).await?.ok_or(error),
        };
        let chain = self.chain_of(request.effect.operation, admission_hash);
        let store = StoreAdmission {
            receipt: chain.statement(&ReceiptKind::Admitted)?,
            chain,
            text: serde_json::to_string(&statement).map_err(NodeError::damaged)?,
            statement,
            generations: Arc::clone(&self.generations),
            is_pinned: self.bundles.is_pinned(bundle.bundle().hash()),
            bundle,
            config: Arc::clone(&self.config),
            now: self.now(),
        };
        let (receipt, log_index) = self.write(store).await?;
        self.issue_receipt(&receipt, log_index)
    }

    /// Makes all checks that do not need the node's keys, and its own run of the policy.
    async fn verify_admission(
        &self,
        request: &AdmitRequest,
    ) -> Result<(AdmittedRequest, Hex32, Arc<TrustedBundle>), NodeError> {
        let admission = verify(&self.config, request, self.now())?;
        check_registered(&self.config.settings.signed_approvals, request)?;
        let Admission { decision, admission_hash, .. } = admission;
        let statement = AdmittedRequest { request: request.clone(), decision };
        let hash = statement.decision.bundle_hash;
        let bundle = match self.bundles.find(hash) {
            Some(bundle) => bundle,
            None => self.bundle(&mut self.database.readers().acquire().await?, hash).await?,
        };
        self.check_policy(&bundle, &statement, Some(self.now())).await?;
        Ok((statement, admission_hash, bundle))
    }

    /// The receipt for a request that was admitted before and is repeated after the decision expired. `None` if this request
    /// was not admitted, or the operation was discarded since.
    async fn repeated_admission(&self, request: &AdmitRequest) -> Result<Option<NodeReceipt>, NodeError> {
        let mut conn = self.database.readers().at_hand().await?;
        let known = View::load(&mut conn, request.effect, None).await?.row;
        let Some(Row { admission_hash, last_step, statement: Some(statement), .. }) = known else {
            return Ok(None);
        };
        if last_step == EffectStep::Discard || statement.request != *request {
            return Ok(None);
        }
        let chain = self.chain_of(request.effect.operation, admission_hash);
        let receipt = chain.statement(&ReceiptKind::Admitted)?;
        Ok(Some(self.issue_receipt(&receipt, log::receipt_index(&mut conn, &receipt).await?)?))
    }
}

/// Stores a verified admission.
struct StoreAdmission {
    chain: Chain,
    /// The statement of the receipt.
    receipt: ReceiptStatement,
    statement: AdmittedRequest,
    /// `statement` as JSON, as it is stored.
    text: String,
    generations: Arc<Generations>,
    /// The bundle that allows it, and whether the node's pins name it.
    bundle: Arc<TrustedBundle>,
    is_pinned: bool,
    config: Arc<NodeConfig>,
    now: EpochMs,
}

impl Transact for StoreAdmission {
    type Output = (ReceiptStatement, u64);

    async fn run(&self, conn: &mut Connection, log: &mut LogState) -> Result<Self::Output, Stop> {
        let AdmittedRequest { request, decision } = &self.statement;
        let view = View::load(conn, request.effect, Some(decision.key_id)).await?;
        if let Some(known) = view.row {
            if known.last_step == EffectStep::Discard {
                return Err(discarded().into());
            }
            if known.admission_hash != self.chain.admission_hash {
                return Err(other_decision().into());
            }
            return Ok((self.receipt.clone(), log::receipt_index(conn, &self.receipt).await?));
        }
        log.check_decided_since(request, decision)?;
        let me = self.chain.participant;
        let held = gate::check_generation(&self.statement, me, &view.key)?;
        let decode = |held: &Generation| self.generations.keys(held.root, || held.decode(decision.key_id));
        let keys = held.map(decode).transpose()?;
        if let Some(keys) = keys.as_deref() {
            check_named_key(&request.intent, keys)?;
        }
        let signs = keys.as_deref().filter(|_| decision.operation_type == OperationType::Sign);
        if let Some(keys) = signs {
            let payments = || self.generations.payments(decision.epoch_root, decision.key_id, keys);
            check_generation(&request.intent, decision, keys, payments)?;
        }
        let held = Held::of(held, keys.as_deref());
        let proven = check_facts(&self.config.settings, &self.statement, held, Some(self.now))?;
        let (standing, kept) =
            store::bundles::check_standing(conn, decision.bundle_hash, self.is_pinned, self.now).await?;
        let marks = documents::Marks::load(conn).await?;
        let raised = marks.raised(&proven.documents, self.now).map_err(|error| document_refused(&error))?;
        self.check_spending(conn, held, proven).await?;
        raised.store(conn).await?;
        if standing == Standing::Rises {
            store::bundles::activate(conn, decision.bundle_hash, &kept, self.now).await?;
        }
        if let Some((parties, payment)) = self.parties() {
            let id = self.chain.operation_id;
            spending::record(conn, id, &parties, payment.amount_minor, self.now).await?;
        }
        let log_index = log.size();
        let entry = log.append_receipt(&self.receipt, None)?;
        let known = Some((decision.key_id, self.text.as_str(), &entry));
        operation::insert(conn, &self.chain, EffectStep::Admission, self.receipt.transition_hash, known)
            .await?;
        Ok((self.receipt.clone(), log_index))
    }
}

impl StoreAdmission {
    /// The payment, if the operation is one, and its parties.
    fn parties(&self) -> Option<(Parties, &Payment)> {
        let AdmittedRequest { request, decision } = &self.statement;
        let Intent::Payment(payment) = &request.intent else { return None };
        Some((Parties::of(&request.owner.tenant, &request.submitter, decision.key_id, payment), payment))
    }

    /// Checks a payment against what this node admitted before, if the policy may limit amounts over time.
    async fn check_spending(
        &self,
        conn: &mut Connection,
        held: Option<Held<'_>>,
        proven: Proven,
    ) -> Result<(), Stop> {
        let parties = self.parties().and_then(|(parties, _)| self.bundle.evaluator().read_parties(parties));
        let Some(parties) = parties else { return Ok(()) };
        let totals = gateway_spending::read(conn, &parties, self.now, None).await?;
        let Self { config, bundle, statement, now, .. } = self;
        Ok(check_spending(&config.settings, bundle, statement, held, proven, &totals, *now)?)
    }
}
