//! Warnings: members of the answer that each name something in a request that was ignored or replaced. The same texts are in
//! `Warning` headers (RFC 7234, section 5.5), which clients that know only the interface specification can read.

use axum::http::{HeaderMap, HeaderValue, header};
use gateway_domain::intent::{Intent, KeyCreate};
use gateway_domain::policy::Missing;
use serde::Serialize;
use utoipa::ToSchema;

/// Something in a request that the gateway ignored or replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Warning {
    /// The code, on which clients can rely.
    pub code: WarningCode,
    /// What happened, for people. The wording may change.
    pub message: String,
    /// JSON pointer to the member of the request's body; empty for the whole body.
    pub pointer: String,
}

/// The codes of warnings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WarningCode {
    /// The interface has no such member; it was ignored.
    UnknownMember,
    /// The idempotency key was first used with another body; the answer shows the operation of that body.
    IdempotencyMismatch,
    /// The key is not in the epoch that the request is fenced to, and never will be: execution will fail.
    EpochFenceMismatch,
    /// The policy needs approvals of a group that the people in the registry of approvers cannot fill.
    GroupCannotBeFilled,
    /// The texts are no content ids or no root of the helpers' contributions: they were recorded, and the nodes do not compare them.
    ContributionsNotCompared,
    /// The signature profile is an alias; the key has the profile that it stands for.
    SignatureProfileReplaced,
}

impl Warning {
    fn new(code: WarningCode, pointer: &str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), pointer: pointer.to_owned() }
    }

    /// A warning for each ignored member.
    pub fn unknown_members(pointers: &[String]) -> Vec<Self> {
        let warning = |pointer: &String| {
            Self::new(WarningCode::UnknownMember, pointer, "is not a member of this request, and was ignored")
        };
        pointers.iter().map(warning).collect()
    }

    /// The warning that the body is not the one that created the operation.
    #[must_use]
    pub fn idempotency_mismatch() -> Self {
        let message = "this idempotency key was first used with another body";
        Self::new(WarningCode::IdempotencyMismatch, "", message)
    }

    /// The warning that the epoch fence does not hold.
    #[must_use]
    pub fn stale_fence() -> Self {
        let message = "epoch_fence_token_hex is not the key's active epoch root: execution will fail";
        Self::new(WarningCode::EpochFenceMismatch, "/epoch_fence_token_hex", message)
    }

    /// The warning that the people in the registry cannot fill a group of the policy's quorum.
    #[must_use]
    pub fn unfillable_group(missing: &Missing) -> Self {
        let message = format!(
            "if everyone in the registry of approvers approved, the quorum would still lack {missing}: add people, or cancel the operation"
        );
        Self::new(WarningCode::GroupCannotBeFilled, "", message)
    }

    /// The warnings that a recovery states contributions that the nodes do not compare.
    #[must_use]
    pub fn uncompared_contributions(intent: &Intent) -> Vec<Self> {
        let Intent::Recover(recover) = intent else { return Vec::new() };
        let warning = |pointer: &&str| {
            let name = pointer.trim_start_matches('/');
            let message = format!("{name} is recorded, and not compared with the helpers' contributions");
            Self::new(WarningCode::ContributionsNotCompared, pointer, message)
        };
        recover.uncompared_members().iter().map(warning).collect()
    }

    /// The warning that the creation of a key names an alias of a signature profile.
    #[must_use]
    pub fn replaced_profile(intent: &Intent) -> Option<Self> {
        let Intent::KeyCreate(create) = intent else { return None };
        let KeyCreate { requested_signature_profile: Some(requested), signature_profile, .. } = create else {
            return None;
        };
        let message = format!("signature_profile {requested} is replaced by {signature_profile}");
        Some(Self::new(WarningCode::SignatureProfileReplaced, "/signature_profile", message))
    }
}

/// The headers for warnings: one for all ignored members, and one for each other warning.
#[must_use]
pub fn headers(warnings: &[Warning]) -> HeaderMap {
    let (unknown, others): (Vec<_>, Vec<_>) =
        warnings.iter().partition(|warning| warning.code == WarningCode::UnknownMember);
    let mut headers = HeaderMap::new();
    if !unknown.is_empty() {
        let shown = |warning: &&Warning| {
            warning.pointer.chars().filter(|c| is_visible(*c)).take(64).collect::<String>()
        };
        let names = unknown.iter().map(shown).collect::<Vec<_>>().join(" ");
        append(&mut headers, &format!("ignored unknown members: {names}"));
    }
    for warning in others {
        append(&mut headers, &warning.message);
    }
    headers
}

/// Adds a `Warning`. Characters of `text` that are not visible ASCII or a space are left out.
fn append(headers: &mut HeaderMap, text: &str) {
    let shown: String = text.chars().filter(|c| is_visible(*c) || *c == ' ').collect();
    if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{shown}\"")) {
        headers.append(header::WARNING, value);
    }
}

const fn is_visible(c: char) -> bool {
    c.is_ascii_graphic() && c != '"' && c != '\\'
}
