//! The request that every engine evaluates: a payment at its admission, approved by two people.

use gateway_domain::approval::Approval;
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::{Hex32, KeyRef, Tenant};
use gateway_domain::intent::{Intent, Payment, PublicationMode, SigningTerms};
use gateway_domain::policy::{Facts, Moment, Request};
use gateway_domain::roster::Roster;
use gateway_domain::time::EpochMs;
use std::error::Error;

/// A request in the gateway's own types. Converting it to an engine's input is part of the measured time.
pub(crate) struct Case {
    tenant: Tenant,
    key_ref: KeyRef,
    submitter: ClientBinding,
    intent: Intent,
    intent_hash: Hex32,
    approvals: [Approval; 2],
    pub(crate) facts: Facts,
}

impl Case {
    /// A payment to `recipient`; `acct-2` and `acct-3` are permitted.
    pub(crate) fn to(recipient: &str) -> Result<Self, Box<dyn Error>> {
        let intent = payment(recipient)?;
        Ok(Self {
            tenant: Tenant("default".into()),
            key_ref: KeyRef("treasury".into()),
            submitter: submitter(),
            intent_hash: intent.hash()?,
            intent,
            approvals: ["bob", "carol"].map(approval),
            facts: facts(),
        })
    }

    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            moment: Moment::Admission,
            intent_hash: self.intent_hash,
            tenant: &self.tenant,
            key_ref: &self.key_ref,
            submitter: &self.submitter,
            intent: &self.intent,
            approvals: &self.approvals,
        }
    }

    /// # Errors
    /// If it is not a payment, which cannot happen.
    pub(crate) fn payment(&self) -> Result<&Payment, &'static str> {
        match &self.intent {
            Intent::Payment(payment) => Ok(payment),
            _ => Err("the intent is not a payment"),
        }
    }
}

fn submitter() -> ClientBinding {
    ClientBinding {
        client_id: "client-1".into(),
        subject_id: "alice".into(),
        roles: vec!["submitter".into()],
        scopes: vec!["operations.sign".into()],
        registered: None,
        cert_sha256: None,
        token_jti: None,
        tenant: None,
    }
}

fn payment(recipient: &str) -> Result<Intent, Box<dyn Error>> {
    Ok(Intent::Payment(Payment {
        key_ref: None,
        from_account: "acct-1".into(),
        to_account: recipient.into(),
        amount_minor: 12_500,
        currency: "EUR".into(),
        reference: Some("invoice 17".into()),
        terms: SigningTerms {
            requested_participants: Roster::parse(&[0, 1, 2])?,
            threshold: None,
            bip32: None,
            taproot: None,
            epoch_fence_token_hex: None,
            public_key_artifact_ref: None,
            publication_mode: PublicationMode::Manual,
        },
    }))
}

fn approval(subject: &str) -> Approval {
    Approval {
        subject_id: subject.into(),
        roles: vec!["approver".into()],
        registered: None,
        claimed_at_ms: 1,
        approved_at_ms: EpochMs(1_700_000_000_000),
        signature: None,
    }
}

fn facts() -> Facts {
    let facts = [
        ("deployment.permitted_recipients", "acct-2,acct-3"),
        ("deployment.required_approvals", "2"),
        ("deployment.separation_of_duties", "true"),
        ("time.now_ms", "1700000000000"),
    ];
    Facts::from_pairs(facts.map(|(name, value)| (name.to_owned(), value.to_owned())))
}
