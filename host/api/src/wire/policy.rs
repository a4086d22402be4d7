//! Shapes of the policy preview.

use super::custody::{
    CustodyKeyCreateRequest, CustodyKeyRecoverRequest, CustodyKeyRefreshRequest, CustodyKeyReshareRequest,
    CustodyKeyRotateRequest, CustodySignRequest,
};
use super::operations::{ApproveOperationRequest, SignOperationRequest};
use super::{ClientBinding, RequestShape, not_empty};
use crate::state::Options;
use gateway_domain::approval::Approval;
use gateway_domain::ids::{Hex32, KeyRef};
use gateway_domain::intent::Intent;
use gateway_domain::policy::facts::{CALENDAR, classes};
use gateway_domain::policy::{Decision, Outcome};
use gateway_domain::time::EpochMs;
use gateway_engine::Approve;
use gateway_service::strict::Fault;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Body of `POST /v1/policy/preview`. Either `intent` or `custody`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct PolicyPreviewRequest {
    /// The payment to evaluate.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub intent: Option<Box<SignOperationRequest>>,
    /// The custody operation to evaluate.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub custody: Option<CustodyPreview>,
    /// Approvals of it, oldest first.
    #[serde(default)]
    pub approvals: Vec<ApproveOperationRequest>,
    /// Facts to assume, by name, instead of those of the deployment; null for one that it does not have. Such an evaluation is not recorded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    pub what_if: Option<BTreeMap<String, Option<String>>>,
}

/// A custody operation to evaluate: one of the bodies that create one.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(default)]
pub struct CustodyPreview {
    /// The name of the key; absent for `key_create`, which has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub key_ref: Option<String>,
    /// The creation of a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_create: Option<Box<CustodyKeyCreateRequest>>,
    /// A signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sign: Option<Box<CustodySignRequest>>,
    /// New shares for the same holders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Box<CustodyKeyRefreshRequest>>,
    /// New shares for other holders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reshare: Option<Box<CustodyKeyReshareRequest>>,
    /// A new key in place of the present one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotate: Option<Box<CustodyKeyRotateRequest>>,
    /// The recovery of a share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recover: Option<Box<CustodyKeyRecoverRequest>>,
}

/// What a preview is of.
#[derive(Debug)]
pub struct Previewed {
    /// Where the operation is in the body.
    pub pointer: &'static str,
    /// The key of a custody operation.
    pub key_ref: Option<KeyRef>,
    /// The requested work.
    pub intent: Intent,
    /// The caller, as the operation states it.
    pub client: ClientBinding,
    /// The approvals that it would have.
    pub approvals: Vec<Approval>,
}

impl RequestShape for PolicyPreviewRequest {
    type Checked = Previewed;

    fn check(&self, options: &Options) -> Result<Previewed, Fault> {
        let (pointer, key_ref, intent, client) = match (&self.intent, &self.custody) {
            (Some(intent), None) => {
                let checked = intent.check(options).map_err(|fault| fault.within("/intent"))?;
                ("/intent", None, checked, &intent.client)
            }
            (None, Some(custody)) => custody.check(options)?,
            (None, None) => return Err(Fault::at("/intent", "is required, unless `/custody` is given")),
            (Some(_), Some(_)) => return Err(Fault::at("/custody", "must be absent if `/intent` is given")),
        };
        client.check(&format!("{pointer}/client"))?;
        let approvals = self.approvals.iter().enumerate().map(|(index, approval)| {
            let pointer = format!("/approvals/{index}");
            let vote = approval.check(options).map_err(|fault| fault.within(&pointer))?;
            approval.client.as_ref().map_or(Ok(()), |client| client.check(&format!("{pointer}/client")))?;
            Ok(preview_approval(vote))
        });
        let approvals = approvals.collect::<Result<_, Fault>>()?;
        self.what_if.iter().flatten().try_for_each(|(name, _)| check_assumed(name))?;
        Ok(Previewed { pointer, key_ref, intent, client: client.clone(), approvals })
    }

    /// The client is the operation's.
    fn client(&self) -> Option<&ClientBinding> {
        None
    }
}

/// Checks a fact to assume.
fn check_assumed(name: &str) -> Result<(), Fault> {
    let pointer = || format!("/what_if/{}", name.replace('~', "~0").replace('/', "~1"));
    if CALENDAR.iter().any(|beginning| name.starts_with(beginning)) {
        return Err(Fault::at(pointer(), "follows from `time.now_ms`: assume that"));
    }
    if name.ends_with('*') || classes(name).is_empty() {
        return Err(Fault::at(pointer(), "is not a fact: `wit/policy.wit` has the names"));
    }
    Ok(())
}

type Checked<'a> = (&'static str, Option<KeyRef>, Intent, &'a ClientBinding);

impl CustodyPreview {
    fn check(&self, options: &Options) -> Result<Checked<'_>, Fault> {
        let Self { key_ref: _, key_create, sign, refresh, reshare, rotate, recover } = self;
        let of_key = [
            self.on_key("/custody/sign", sign.as_deref(), options),
            self.on_key("/custody/refresh", refresh.as_deref(), options),
            self.on_key("/custody/reshare", reshare.as_deref(), options),
            self.on_key("/custody/rotate", rotate.as_deref(), options),
            self.on_key("/custody/recover", recover.as_deref(), options),
        ];
        let create = key_create.as_deref().map(|create| {
            let pointer = "/custody/key_create";
            let (key_ref, intent) = create.check(options).map_err(|fault| fault.within(pointer))?;
            Ok((pointer, Some(key_ref), intent, &create.client))
        });
        let mut given = of_key.into_iter().flatten().chain(create);
        match (given.next(), given.next()) {
            (Some(one), None) => one,
            (None, _) | (Some(_), Some(_)) => {
                let message = "must have exactly one of `key_create`, `sign`, `refresh`, `reshare`, `rotate` and `recover`";
                Err(Fault::at("/custody", message))
            }
        }
    }

    fn on_key<'a, R: RequestShape<Checked = Intent>>(
        &self,
        pointer: &'static str,
        request: Option<&'a R>,
        options: &Options,
    ) -> Option<Result<Checked<'a>, Fault>> {
        let request = request?;
        let checked = || {
            let intent = request.check(options).map_err(|fault| fault.within(pointer))?;
            let named = self.key_ref.as_deref().unwrap_or_default();
            let key_ref = KeyRef(not_empty("/custody/key_ref", named)?);
            let client =
                request.client().ok_or_else(|| Fault::at(format!("{pointer}/client"), "is required"))?;
            Ok((pointer, Some(key_ref), intent, client))
        };
        Some(checked())
    }
}

/// The approval as it would be recorded, except that its time is the claimed one. A signature is not verified: it would be
/// over the id of an operation, which does not exist.
fn preview_approval(vote: Approve) -> Approval {
    Approval {
        approved_at_ms: EpochMs(u64::try_from(vote.claimed_at_ms).unwrap_or_default()),
        subject_id: vote.subject_id,
        roles: vote.roles,
        registered: None,
        claimed_at_ms: vote.claimed_at_ms,
        signature: None,
    }
}

/// The result of an evaluation.
#[derive(Debug, Serialize, ToSchema)]
pub struct PolicyPreview {
    /// `ALLOW` or `DENY`.
    pub decision: Decision,
    /// Id of the bundle that was evaluated.
    pub bundle_id: String,
    /// SHA-256 of the bundle's canonical manifest.
    #[schema(value_type = String)]
    pub bundle_hash: Hex32,
    /// The reasons for the decision, as `code: operands`.
    pub reasons: Vec<String>,
    /// Obligations that the policy attaches to the decision, as `code: operands`.
    pub obligations: Vec<String>,
    /// The facts that the policy read, as `name=value`, in the order of reading.
    pub facts: Vec<String>,
}

impl From<&Outcome> for PolicyPreview {
    fn from(outcome: &Outcome) -> Self {
        Self {
            decision: outcome.decision,
            bundle_id: outcome.bundle_id.clone(),
            bundle_hash: outcome.bundle_hash,
            reasons: outcome.reason_texts(),
            obligations: outcome.obligations.iter().map(ToString::to_string).collect(),
            facts: outcome.facts.iter().map(ToString::to_string).collect(),
        }
    }
}
