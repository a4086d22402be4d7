//! Bodies and queries of requests.

use serde::Serialize;
use serde_json::Value;

/// The caller, as a body names it. An authenticated gateway compares it with the credentials, and takes those without it.
#[derive(Clone, Debug, Serialize)]
pub struct Client {
    /// The calling system.
    pub client_id: String,
    /// The person or service account.
    pub subject_id: String,
    /// Its roles.
    pub roles: Vec<String>,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// Its tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

impl Client {
    /// A caller that names no roles and scopes, of the deployment's own tenant.
    #[must_use]
    pub fn new(client_id: &str, subject_id: &str) -> Self {
        Self {
            client_id: client_id.to_owned(),
            subject_id: subject_id.to_owned(),
            roles: Vec::new(),
            scopes: Vec::new(),
            tenant: None,
        }
    }
}

/// A payment to be signed: the body of `POST /v1/operations/sign`.
#[derive(Clone, Debug, Serialize)]
pub struct Payment {
    /// The same for every repeat of this payment, and for no other one.
    pub idempotency_key: String,
    /// The key that signs; the deployment's choice without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_ref: Option<String>,
    /// What is paid.
    pub payment: Terms,
    /// The participants that may sign.
    pub requested_participants: Vec<u16>,
    /// How many of them sign.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<u16>,
    /// `manual` or `automatic`: whether the result waits for a request to publish it.
    pub publication_mode: String,
    /// The caller.
    pub client: Client,
}

/// What is paid.
#[derive(Clone, Debug, Serialize)]
pub struct Terms {
    /// The account that pays.
    pub from_account: String,
    /// The account that is paid.
    pub to_account: String,
    /// The amount in minor units of the currency, such as cents.
    pub amount_minor: i64,
    /// The currency.
    pub currency: String,
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

impl Payment {
    /// A payment of `amount_minor` minor units, such as cents, on a key of the deployment's choice, which is published on request.
    #[must_use]
    pub fn new(
        idempotency_key: &str,
        from_account: &str,
        to_account: &str,
        amount_minor: i64,
        currency: &str,
        participants: &[u16],
        client: Client,
    ) -> Self {
        Self {
            idempotency_key: idempotency_key.to_owned(),
            key_ref: None,
            payment: Terms {
                from_account: from_account.to_owned(),
                to_account: to_account.to_owned(),
                amount_minor,
                currency: currency.to_owned(),
                reference: None,
            },
            requested_participants: participants.to_vec(),
            threshold: None,
            publication_mode: "manual".to_owned(),
            client,
        }
    }
}

/// The body of `approve`.
#[derive(Clone, Debug, Serialize)]
pub struct Approval {
    /// The approver.
    pub subject_id: String,
    /// The roles in which they approve.
    pub roles: Vec<String>,
    /// The approver's clock, milliseconds since 1970.
    pub approved_at_ms: i64,
    /// The approver's signature, as `operation-gateway approvers sign` makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<Value>,
}

/// The body of `reject`.
#[derive(Clone, Debug, Serialize)]
pub struct Rejection {
    /// The approver.
    pub subject_id: String,
    /// The roles in which they reject.
    pub roles: Vec<String>,
    /// The reason, for people.
    pub reason: String,
    /// The approver's clock, milliseconds since 1970.
    pub rejected_at_ms: i64,
    /// The approver's signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<Value>,
}

/// The body of `abort`.
#[derive(Clone, Debug, Serialize)]
pub struct Abort {
    /// The approver.
    pub subject_id: String,
    /// The roles in which they abort.
    pub roles: Vec<String>,
    /// The reason, for people.
    pub reason: String,
    /// The receivers of new shares that are lost; none before all have stored theirs.
    pub lost_participants: Vec<u16>,
    /// The approver's clock, milliseconds since 1970.
    pub aborted_at_ms: i64,
    /// The approver's signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<Value>,
}

/// What is asked for of a list or of events; what is absent includes all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// In this state.
    pub state: Option<String>,
    /// Of this type.
    pub operation_type: Option<String>,
    /// On the key of this name.
    pub key_ref: Option<String>,
    /// Submitted with this idempotency key. For custody operations it needs `key_ref`.
    pub idempotency_key: Option<String>,
    /// Created later, milliseconds since 1970.
    pub created_after_ms: Option<u64>,
    /// Created earlier, milliseconds since 1970.
    pub created_before_ms: Option<u64>,
    /// That await the caller's approval.
    pub awaiting_me: bool,
}

impl Filter {
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let all = [
            ("state", self.state.clone()),
            ("operation_type", self.operation_type.clone()),
            ("key_ref", self.key_ref.clone()),
            ("idempotency_key", self.idempotency_key.clone()),
            ("created_after_ms", number(self.created_after_ms)),
            ("created_before_ms", number(self.created_before_ms)),
            ("awaiting", self.awaiting_me.then(|| "me".to_owned())),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}
