//! The engine's port for the policy authorities: one in this process, or several in processes of their own. Both run the same code.

use async_trait::async_trait;
use gateway_domain::admission::{self, Admission, AdmissionDecision, Authorities};
use gateway_domain::approval::{Approval, LapsedApproval};
use gateway_domain::dsse::{self, Envelope};
use gateway_domain::error_chain;
use gateway_domain::evidence::{ChainedEvent, continued};
use gateway_domain::ids::Hex32;
use gateway_domain::names::is_same_person;
use gateway_domain::policy::SpendingTotals;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{AdmissionRequest, ReadError, ReadOperations, SignAdmission, SignError};
use gateway_engine::{Dependency, Unavailable};
use gateway_fleet::FindBundle;
use gateway_policy::{BUNDLE_SUPERSEDED, BUNDLE_UNKNOWN, BundleOffer, OfferBundleRequest};
use gateway_policy_host::Lifecycle;
use gateway_service::client::{CallError, ServiceClient, Url};
use gateway_service::telemetry::Descriptions;
use metrics::histogram;
use policy_authority::{
    Authority, DECISION_REFUSED, DECISIONS_MAX, DecisionAnswer, DecisionRequest, Unverified, Verifier,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::Instrument;

/// Time limit of a call to an authority: it verifies some signatures, runs the policy and writes its record.
const DECISION_WITHIN: Duration = Duration::from_secs(10);

/// Time limit of an offered bundle: the authority compiles it and runs its test vectors.
const OFFER_WITHIN: Duration = Duration::from_secs(50);

/// Time limit of a liveness check.
const CHECK_WITHIN: Duration = Duration::from_secs(2);

/// The longest text of an authority that is kept. A name of an approver that is longer is no one's.
const TEXT_CHARACTERS_MAX: usize = 1024;

/// The bundles that are or were active in the gateway.
pub(crate) struct StoredBundles(pub(crate) Arc<Lifecycle>);

#[async_trait]
impl FindBundle for StoredBundles {
    async fn find(&self, bundle_hash: Hex32) -> Result<Option<BundleOffer>, Unavailable> {
        let found = self.0.stored_bundle(bundle_hash).await?;
        Ok(found.map(|(files, activation)| BundleOffer { files, activation }))
    }
}

/// The authorities of a deployment, of which `threshold` must sign each decision.
pub struct PolicyAuthorities {
    members: Vec<Arc<Member>>,
    threshold: usize,
    reads: Arc<dyn ReadOperations>,
    /// Their keys and earlier ones, as nodes pin them.
    pinned: Authorities,
}

/// One authority.
struct Member {
    place: Place,
    /// The key that it must sign with.
    public_key: [u8; 32],
    bundles: Arc<StoredBundles>,
}

enum Place {
    /// Its key is in this process.
    Embedded(Arc<Embedded>),
    /// A process of its own; `number` is its position in the setting, from 1.
    Remote { client: ServiceClient, url: Url, number: usize },
}

struct Embedded {
    authority: Authority,
    verifier: Verifier,
    decisions: Arc<Semaphore>,
}

/// The histogram of this file.
pub(crate) const HISTOGRAMS: Descriptions =
    &[(DURATION, "Time until enough authorities signed a decision, or too few did, by result")];

const DURATION: &str = "operation_gateway_authority_decision_duration_seconds";

/// Why a member does not decide.
enum Failure {
    /// It does not have the bundle, or has a newer one.
    NeedsBundle(String),
    /// The policy denies the payment with what it admitted.
    Spent(SpendingTotals),
    /// It does not count an approval.
    Lapsed(LapsedApproval),
    /// It refuses, and will not do otherwise.
    Refused(String),
    /// It cannot now.
    Other(String),
}

impl PolicyAuthorities {
    /// An authority in this process, which checks what an authority of its own process does.
    pub(crate) fn embedded(
        authority: Authority,
        verifier: Verifier,
        reads: Arc<dyn ReadOperations>,
        bundles: StoredBundles,
    ) -> Self {
        let pinned = verifier.authorities.clone();
        let public_key = authority.public_key();
        let decisions = Arc::new(Semaphore::new(DECISIONS_MAX));
        let place = Place::Embedded(Arc::new(Embedded { authority, verifier, decisions }));
        let member = Member { place, public_key, bundles: Arc::new(bundles) };
        Self { members: vec![Arc::new(member)], threshold: 1, reads, pinned }
    }

    /// Authorities in processes of their own, each with the key that it signs with.
    pub(crate) fn remote(
        client: &ServiceClient,
        authorities: impl IntoIterator<Item = (Url, [u8; 32])>,
        threshold: usize,
        pinned: Authorities,
        reads: Arc<dyn ReadOperations>,
        bundles: StoredBundles,
    ) -> Self {
        let bundles = Arc::new(bundles);
        let member = |(number, (url, public_key))| {
            let place = Place::Remote { client: client.clone(), url, number };
            Arc::new(Member { place, public_key, bundles: Arc::clone(&bundles) })
        };
        Self { members: (1..).zip(authorities).map(member).collect(), threshold, reads, pinned }
    }

    /// Calls all members at once, and returns the results in the order in which they come.
    fn call_all<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        call: impl Fn(Arc<Member>) -> F,
    ) -> JoinSet<T> {
        let mut calls = JoinSet::new();
        for member in &self.members {
            calls.spawn(call(Arc::clone(member)).in_current_span());
        }
        calls
    }
}

#[async_trait]
impl SignAdmission for PolicyAuthorities {
    /// Asks all authorities, and takes the first signatures over one decision that are enough. The others finish in the background,
    /// so that one without the bundle gets it.
    ///
    /// # Errors
    /// [`SignError::Outdated`]; [`SignError::Spent`], [`SignError::Lapsed`], [`SignError::Refused`] when so many refuse that the others
    /// are too few; [`Dependency::Authority`] when too few authorities answer, or agree; the detail has the reason of each.
    async fn sign(
        &self,
        request: AdmissionRequest<'_>,
        unrecorded: &[ChainedEvent],
    ) -> Result<Admission, SignError> {
        let started = Instant::now();
        let span =
            tracing::info_span!(target: "trace", "authority.decide", operation_id = %request.operation.id);
        let signed = self.decide(request, unrecorded).instrument(span).await;
        let result = match &signed {
            Ok(_) => "ok",
            Err(SignError::Spent(_) | SignError::Lapsed(_) | SignError::Refused(_)) => "denied",
            Err(SignError::Outdated | SignError::Unavailable(_)) => "error",
        };
        histogram!(DURATION, "result" => result).record(started.elapsed());
        signed
    }

    fn verify(&self, envelope: &Envelope) -> Option<AdmissionDecision> {
        admission::verify_signed(envelope, &self.pinned).ok().map(|admission| admission.decision)
    }

    /// Succeeds when enough authorities answer.
    async fn check(&self) -> Result<(), Unavailable> {
        let mut calls = self.call_all(|member| async move { member.check().await });
        let (mut n_alive, mut reasons) = (0, Vec::new());
        while let Some(answered) = calls.join_next().await {
            match answered.map_err(unavailable)? {
                Ok(()) => n_alive += 1,
                Err(why) => reasons.push(why),
            }
            if n_alive >= self.threshold {
                return Ok(());
            }
        }
        Err(unavailable(reasons.join("; ")))
    }
}

impl PolicyAuthorities {
    async fn decide(
        &self,
        request: AdmissionRequest<'_>,
        unrecorded: &[ChainedEvent],
    ) -> Result<Admission, SignError> {
        let events = self.reads.operation_events(request.operation.id).await;
        let events = events.map_err(ReadError::into_unavailable)?;
        let events = continued(events, unrecorded).ok_or(SignError::Outdated)?;
        let sent = Arc::new(DecisionRequest {
            events: events.into_iter().map(Into::into).collect(),
            bundle_hash: request.policy.bundle_hash,
            policy: request.policy.into(),
            key: request.key.cloned(),
            derivation: request.derivation.cloned(),
            not_before_ms: request.not_before_ms,
            not_after_ms: request.not_after_ms,
        });
        let mut calls = self.call_all(|member| {
            let sent = Arc::clone(&sent);
            async move { member.decide(sent).await }
        });
        // By hash of the decision.
        let mut decisions: BTreeMap<Hex32, Vec<Admission>> = BTreeMap::new();
        let (mut reasons, mut refusals) = (Vec::new(), Refusals::default());
        while let Some(answered) = calls.join_next().await {
            let answer = answered.map_err(unavailable)?;
            match answer.and_then(|admission| check_asked(&request, admission).map_err(Failure::Other)) {
                Ok(admission) => {
                    let same = decisions.entry(admission.admission_hash).or_default();
                    same.push(admission);
                    if same.len() >= self.threshold {
                        calls.detach_all();
                        return joined(same).ok_or_else(|| unavailable("no authority signed").into());
                    }
                }
                Err(Failure::NeedsBundle(why) | Failure::Other(why)) => reasons.push(why),
                Err(Failure::Spent(totals)) => refusals.spent.push(totals),
                Err(Failure::Lapsed(lapsed)) => refusals.lapsed.push(lapsed),
                Err(Failure::Refused(why)) => refusals.refused.push(why),
            }
            let n_decisive = (self.members.len() + 1).saturating_sub(self.threshold);
            if let Some(refusal) = refusals.agreed(n_decisive, &request.operation.approvals) {
                calls.detach_all();
                return Err(refusal);
            }
        }
        reasons.extend(refusals.reasons());
        let n_signed = decisions.values().map(Vec::len).max().unwrap_or_default();
        if self.members.len() > 1 {
            let threshold = self.threshold;
            reasons.insert(
                0,
                format!("{n_signed} of {threshold} required authorities signed the same decision"),
            );
        }
        Err(unavailable(reasons.join("; ")).into())
    }
}

/// The refusals of authorities.
#[derive(Default)]
struct Refusals {
    spent: Vec<SpendingTotals>,
    lapsed: Vec<LapsedApproval>,
    refused: Vec<String>,
}

impl Refusals {
    /// What `n_decisive` authorities say alike, without which the others are too few for a decision: fewer, who may lie, change nothing.
    /// Approvals can be given again, and a denial is the policy's: both come before a refusal that ends the operation.
    fn agreed(&self, n_decisive: usize, approvals: &[Approval]) -> Option<SignError> {
        let lapsed: Vec<_> =
            approvals.iter().filter_map(|approval| self.agreed_lapse(n_decisive, approval)).collect();
        if !lapsed.is_empty() {
            return Some(SignError::Lapsed(lapsed));
        }
        if self.spent.len() >= n_decisive {
            // Each of the totals as the authority that admitted most states it.
            let raise = |totals: SpendingTotals, one: &SpendingTotals| totals.raised_to(one);
            return Some(SignError::Spent(self.spent.iter().fold(SpendingTotals::default(), raise)));
        }
        (self.refused.len() >= n_decisive).then(|| SignError::Refused(self.refused.join("; ")))
    }

    fn agreed_lapse(&self, n_decisive: usize, approval: &Approval) -> Option<LapsedApproval> {
        let is_named = |one: &&LapsedApproval| is_same_person(&one.subject_id, &approval.subject_id);
        let named: Vec<_> = self.lapsed.iter().filter(is_named).collect();
        let reason = named.first().filter(|_| named.len() >= n_decisive)?.reason.clone();
        Some(LapsedApproval { subject_id: approval.subject_id.clone(), reason })
    }

    /// The refusals, when too few agree.
    fn reasons(self) -> impl Iterator<Item = String> {
        let lapsed = self.lapsed.into_iter();
        let lapsed =
            lapsed.map(|one| format!("an approval of `{}` does not count: {}", one.subject_id, one.reason));
        let spent = self.spent.into_iter().map(|_| "more was admitted than the policy read".to_owned());
        lapsed.chain(spent).chain(self.refused)
    }
}

/// The decision with the signature of each authority, in the order of key ids.
fn joined(same: &[Admission]) -> Option<Admission> {
    let mut joined = same.first()?.clone();
    joined.envelope.signatures = same.iter().flat_map(|one| one.envelope.signatures.clone()).collect();
    joined.envelope.signatures.sort_by(|one, other| one.keyid.cmp(&other.keyid));
    Some(joined)
}

/// Verifies the answer of the authority with this key. Other signatures in it are dropped: each authority signs for itself.
fn verify_own(mut envelope: Envelope, public_key: &[u8; 32], now: EpochMs) -> Result<Admission, String> {
    let own = dsse::key_id(public_key);
    envelope.signatures.retain(|signature| signature.keyid == own);
    let pinned = Authorities::new([*public_key], 1).map_err(|error| error.to_string())?;
    admission::verify(&envelope, &pinned, now).map_err(|error| error_chain(&error))
}

/// Checks that the decision is for the operation and the verdict that this gateway records. The nodes compare everything.
fn check_asked(request: &AdmissionRequest<'_>, admission: Admission) -> Result<Admission, String> {
    let (decision, policy) = (&admission.decision, request.policy);
    if decision.operation_id != request.operation.id || decision.intent_hash != request.operation.intent_hash
    {
        return Err("the decision is for another operation".to_owned());
    }
    let is_recorded = decision.bundle_hash == policy.bundle_hash
        && decision.policy_input_hash == policy.input_hash
        && decision.policy_output_hash == policy.output_hash;
    if is_recorded { Ok(admission) } else { Err("the decision is for another verdict".to_owned()) }
}

impl Member {
    /// Asks for a decision. If the authority answers that it does not have the bundle, or that the bundle was superseded, offers it
    /// and asks once more.
    async fn decide(&self, sent: Arc<DecisionRequest>) -> Result<Admission, Failure> {
        let envelope = match self.ask(&sent).await {
            Err(Failure::NeedsBundle(why)) => {
                let found = self.bundles.find(sent.bundle_hash).await;
                let found = found.map_err(|error| Failure::Other(error.detail))?;
                self.offer(found.ok_or(Failure::Other(why))?).await.map_err(|why| self.named(why))?;
                self.ask(&sent).await
            }
            answer => answer,
        };
        let envelope = envelope.map_err(|why| self.named(why))?;
        let verified = verify_own(envelope, &self.public_key, gateway_service::now());
        verified.map_err(|why| self.named(Failure::Other(why)))
    }

    /// The failure, with the authority's number in its reason: callers see it, so it has no address.
    fn named(&self, failure: Failure) -> Failure {
        match failure {
            Failure::NeedsBundle(why) | Failure::Other(why) => Failure::Other(self.reason(why)),
            Failure::Refused(why) => Failure::Refused(self.reason(why)),
            Failure::Spent(_) | Failure::Lapsed(_) => failure,
        }
    }

    /// The reason, with the authority's number.
    fn reason(&self, why: String) -> String {
        match &self.place {
            Place::Embedded(_) => why,
            Place::Remote { number, .. } => format!("authority {number}: {why}"),
        }
    }

    async fn ask(&self, sent: &Arc<DecisionRequest>) -> Result<Envelope, Failure> {
        match &self.place {
            Place::Embedded(embedded) => {
                // Held until the work ends, also if no one waits for it any longer. The semaphore is never closed.
                let permit = Arc::clone(&embedded.decisions).acquire_owned().await;
                let (checking, sent) = (Arc::clone(embedded), Arc::clone(sent));
                let verified = blocking(move || {
                    let _permit = permit;
                    checking.verifier.verify(&sent, gateway_service::now())
                });
                let admission = match verified.await? {
                    Ok(verified) => embedded.verifier.admit(&embedded.authority, verified).await,
                    Err(unverified) => Err(unverified),
                };
                admission.map(|admission| admission.envelope).map_err(refused)
            }
            Place::Remote { client, url, .. } => {
                let url = join(url, "v1/authority/decisions")?;
                let DecisionAnswer { decision } =
                    client.post(url, sent.as_ref(), DECISION_WITHIN).await.map_err(failure)?;
                Ok(decision)
            }
        }
    }

    async fn offer(&self, offer: BundleOffer) -> Result<(), Failure> {
        match &self.place {
            Place::Embedded(embedded) => {
                let embedded = Arc::clone(embedded);
                let kept = blocking(move || embedded.verifier.policies.offer(offer, gateway_service::now()));
                kept.await?.map_err(|error| Failure::Other(error_chain(&error)))
            }
            Place::Remote { client, url, .. } => {
                let (url, request) = (join(url, "v1/authority/bundles")?, OfferBundleRequest::from(&offer));
                let _nothing: Value = client.post(url, &request, OFFER_WITHIN).await.map_err(failure)?;
                Ok(())
            }
        }
    }

    async fn check(&self) -> Result<(), String> {
        match &self.place {
            Place::Embedded(_) => Ok(()),
            Place::Remote { client, url, .. } => {
                let health = url.join("healthz").map_err(|error| self.reason(error.to_string()))?;
                let alive: Result<Value, CallError> = client.get(health, CHECK_WITHIN).await;
                alive.map(drop).map_err(|error| self.reason(error_chain(&error)))
            }
        }
    }
}

/// The refusal of the embedded authority.
fn refused(unverified: Unverified) -> Failure {
    match unverified {
        Unverified::BundleUnknown { .. } | Unverified::Superseded(_) => {
            Failure::NeedsBundle(unverified.to_string())
        }
        Unverified::Spent { totals, .. } => Failure::Spent(totals),
        _ => match unverified.lapsed() {
            Some(lapsed) => Failure::Lapsed(lapsed),
            None if unverified.is_final() => Failure::Refused(unverified.to_string()),
            None => Failure::Other(unverified.to_string()),
        },
    }
}

/// The refusal of an authority in a process of its own, or that it does not answer.
fn failure(error: CallError) -> Failure {
    match &error {
        CallError::Refused { body, .. }
            if [BUNDLE_UNKNOWN, BUNDLE_SUPERSEDED].contains(&body.error.as_str()) =>
        {
            Failure::NeedsBundle(error_chain(&error))
        }
        CallError::Refused { body, .. } => match (&body.totals, &body.lapsed) {
            (Some(totals), _) => Failure::Spent(totals.clone()),
            (None, Some(lapsed)) => Failure::Lapsed(LapsedApproval {
                subject_id: shortened(&lapsed.subject_id),
                reason: shortened(&lapsed.reason),
            }),
            (None, None) if body.error == DECISION_REFUSED => Failure::Refused(shortened(&body.message)),
            (None, None) => Failure::Other(shortened(&error_chain(&error))),
        },
        CallError::NoAnswer(_) | CallError::Malformed(_) => Failure::Other(shortened(&error_chain(&error))),
    }
}

/// An authority's text as it is shown, logged and recorded for good.
fn shortened(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(TEXT_CHARACTERS_MAX).collect()
}

fn join(url: &Url, path: &str) -> Result<Url, Failure> {
    url.join(path).map_err(|error| Failure::Other(error.to_string()))
}

/// Runs work that takes a core for some time, away from the threads that serve connections.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Failure::Other(error.to_string()))
}

fn unavailable(why: impl fmt::Display) -> Unavailable {
    Unavailable::new(Dependency::Authority, why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::admission::Derivation;
    use gateway_domain::ids::OperationId;
    use gateway_domain::intent::{PublicationMode, key_id};
    use gateway_domain::operation::{Operation, open, replay};
    use gateway_domain::policy::Outcome;
    use gateway_domain::testing::samples::{self, Kind, hex32};

    const NOW: EpochMs = EpochMs(1_000);

    fn operation() -> Operation {
        let mut submission = samples::submission(samples::intent(Kind::Payment, PublicationMode::Manual), 2);
        submission.key.key_id = key_id(&submission.tenant, &submission.key.key_ref).unwrap();
        let approvals: Vec<Approval> =
            ["alice", "bob"].map(|subject| samples::approval(subject, NOW)).into_iter().collect();
        Operation { approvals, ..replay(&open(submission, NOW)).unwrap() }
    }

    fn outcome() -> Outcome {
        samples::verdict(&["alice".to_owned(), "bob".to_owned()], 2)
    }

    /// The admission by the authority with this seed.
    fn signed_by(seed: u8) -> Admission {
        let operation = operation();
        let key = gateway_domain::key::CustodyKey { key_id: operation.key.key_id, ..samples::key() };
        let policy = outcome();
        let derivation = Derivation {
            payments: true,
            path: None,
            taproot: None,
            tweak: hex32(1),
            public_key_hex: key.payments_public_key_hex(),
        };
        let request = AdmissionRequest {
            operation: &operation,
            policy: &policy,
            key: Some(&key),
            derivation: Some(&derivation),
            not_before_ms: NOW,
            not_after_ms: EpochMs(2_000),
        };
        Authority::new(&[seed; 32]).sign(&request).unwrap()
    }

    /// One of three authorities of which two must sign may lie.
    #[test]
    fn one_liar_among_three_authorities_neither_takes_an_approval_back_nor_keeps_one() {
        let approvals = operation().approvals;
        let lapsed =
            |subject_id: &str| LapsedApproval { subject_id: subject_id.into(), reason: "key_revoked".into() };
        let after = |lapsed: Vec<LapsedApproval>, n_spent: usize, n_refused: usize| {
            let spent = vec![SpendingTotals::default(); n_spent];
            let refusals = Refusals { spent, lapsed, refused: vec!["no".to_owned(); n_refused] };
            refusals.agreed(2, &approvals).map(|error| match error {
                SignError::Lapsed(lapsed) => {
                    lapsed.into_iter().map(|one| one.subject_id).collect::<Vec<_>>().join(" ")
                }
                SignError::Spent(_) => "spent".to_owned(),
                SignError::Refused(why) => why,
                SignError::Outdated => "outdated".to_owned(),
                SignError::Unavailable(why) => panic!("{why}"),
            })
        };
        assert_eq!(after(vec![lapsed("alice")], 1, 1), None);
        assert_eq!(after(vec![lapsed("alice"), lapsed("bob")], 0, 0), None);
        assert_eq!(after(vec![lapsed("alice")], 0, 2).as_deref(), Some("no; no"));
        assert_eq!(after(vec![lapsed("alice")], 2, 0).as_deref(), Some("spent"));
        // The operation's spelling, once, and no person who has not approved.
        let named = vec![lapsed("ALICE"), lapsed("alice"), lapsed("zed"), lapsed("zed")];
        assert_eq!(after(named, 0, 0).as_deref(), Some("alice"));
        assert_eq!(after(vec![lapsed("zed"), lapsed("zed")], 0, 0), None);
    }

    #[test]
    fn answer_of_an_authority_needs_its_own_signature_and_keeps_no_other() {
        let keys = [1, 2].map(|seed| Authority::new(&[seed; 32]).public_key());
        let mut both = signed_by(1).envelope;
        both.signatures.extend(signed_by(2).envelope.signatures);
        for key in &keys {
            let own = verify_own(both.clone(), key, NOW).unwrap().envelope.signatures;
            assert!(own.len() == 1 && own[0].keyid == dsse::key_id(key));
        }
        assert!(verify_own(signed_by(1).envelope, &keys[1], NOW).is_err());
        let mut twice = signed_by(1).envelope;
        twice.signatures.extend(twice.signatures.clone());
        assert!(verify_own(twice, &keys[0], NOW).is_err());
        let same = [1, 2].map(|seed| verify_own(both.clone(), &keys[seed - 1], NOW).unwrap());
        let pinned = Authorities::new(keys, 2).unwrap();
        admission::verify(&joined(&same).unwrap().envelope, &pinned, NOW).unwrap();
    }

    #[test]
    fn decision_for_another_operation_or_verdict_is_refused() {
        let (operation, policy) = (operation(), outcome());
        let request = AdmissionRequest {
            operation: &operation,
            policy: &policy,
            key: None,
            derivation: None,
            not_before_ms: NOW,
            not_after_ms: NOW,
        };
        check_asked(&request, signed_by(1)).unwrap();
        let changes: [fn(&mut Admission); 5] = [
            |it| it.decision.operation_id = OperationId(hex32(99)),
            |it| it.decision.intent_hash = hex32(99),
            |it| it.decision.bundle_hash = hex32(99),
            |it| it.decision.policy_input_hash = hex32(99),
            |it| it.decision.policy_output_hash = hex32(99),
        ];
        for change in changes {
            let mut other = signed_by(1);
            change(&mut other);
            assert!(check_asked(&request, other).is_err());
        }
    }
}
