//! The examples of the OpenAPI document: its requests succeed in order, and its answers are theirs.

use crate::harness::custody;
use crate::harness::process::SIGN;
use crate::harness::samples::{self, with};
use crate::harness::world::World;
use gateway_api::openapi;
use gateway_domain::ids::Tenant;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{KeepWebhooks as _, WebhookClaim};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The document's example answers, by shape.
const ANSWERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/api/src/openapi/answers.json");

/// The time that stands for all, milliseconds since 1970.
const EXAMPLE_TIME: u64 = 1_790_000_000_000;

/// Replaces what differs from run to run by values of the same form, equal ones by equal ones.
#[derive(Default)]
struct Replacements(BTreeMap<String, String>);

impl Replacements {
    fn replace(&mut self, value: Value) -> Value {
        match value {
            Value::String(text) => json!(self.replace_in(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.replace(item)).collect(),
            Value::Object(members) => {
                let members = members.into_iter().map(|(name, value)| {
                    let is_time = name.ends_with("_at_ms") || name.ends_with("_since_ms");
                    let value = match name.as_str() {
                        "request_id" => json!("0f6c2a9d1be84753-1f"),
                        _ if is_time && value.is_number() => json!(EXAMPLE_TIME),
                        // A time, an id, and a digest of the query.
                        "next_cursor" => match value.as_str().and_then(|cursor| cursor.split_once('-')) {
                            Some((_, rest)) => json!(self.replace_in(&format!("{EXAMPLE_TIME}-{rest}"))),
                            None => value,
                        },
                        _ => self.replace(value),
                    };
                    (name, value)
                });
                Value::Object(members.collect())
            }
            other => other,
        }
    }

    /// Replaces each word that looks random: 64 or more hexadecimal digits, or an extended key.
    fn replace_in(&mut self, text: &str) -> String {
        let is_word = |c: char| c.is_ascii_alphanumeric();
        let mut shown = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(is_word) {
            let (before, from) = rest.split_at(at);
            let (word, after) = from.split_at(from.find(|c| !is_word(c)).unwrap_or(from.len()));
            shown += before;
            shown += &self.word(word);
            rest = after;
        }
        shown + rest
    }

    fn word(&mut self, word: &str) -> String {
        let is_hex = word.len() >= 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_fixed = word.bytes().all(|byte| byte == b'0')
            || ["5a", "6b", "7c"].iter().any(|byte| word == byte.repeat(32));
        if is_fixed || !(is_hex || word.starts_with("xpub")) {
            return word.to_owned();
        }
        // A compressed point keeps the first byte's form, which is random too.
        let number = self.0.len();
        let replacement = self.0.entry(word.to_owned()).or_insert_with(|| {
            let digest = hex::encode(Sha256::digest(number.to_be_bytes())).repeat(2);
            match word.len() {
                66 => format!("02{}", &digest[..64]),
                111 => format!("xpub{}", digest[..107].replace('0', "z")),
                length => digest[..length].to_owned(),
            }
        });
        replacement.clone()
    }
}

struct Flow {
    world: World,
    document: Value,
    /// The first answer of each shape whose result exists.
    answers: BTreeMap<String, Value>,
}

impl Flow {
    fn example(&self, path: &str, name: &str) -> Value {
        let post = &self.document["paths"][path]["post"]["requestBody"]["content"]["application/json"];
        let value = post["examples"][name]["value"].clone();
        assert!(value.is_object(), "{path} has no example `{name}`");
        value
    }

    fn keep(&mut self, shape: &str, answer: &Value) {
        self.answers.entry(shape.to_owned()).or_insert_with(|| answer.clone());
    }

    async fn get(&mut self, shape: &str, path: &str) -> Value {
        let answer = self.world.get(path).await.ok();
        self.keep(shape, &answer);
        answer
    }

    /// Shows a webhook, has everything sent to it again, and dismisses what it refused.
    async fn webhooks(&mut self) {
        let claim = WebhookClaim {
            name: "books".to_owned(),
            tenant: Some(Tenant("default".to_owned())),
            holder: [0; 16],
            now: EpochMs(0),
            until: EpochMs(u64::MAX),
        };
        self.world.store.webhook_claim(claim).await.unwrap();
        self.get("WebhooksResponse", "/v1/webhooks").await;
        let again = self.example("/v1/webhooks/{name}/resend", "all");
        let again = self.world.post("/v1/webhooks/books/resend", &again).await.ok();
        self.keep("WebhookView", &again);
        let dismissed = self.example("/v1/webhooks/{name}/dismiss", "all");
        self.world.post("/v1/webhooks/books/dismiss", &dismissed).await.ok();
    }

    /// Takes an operation from its submission to publication.
    async fn publish(&mut self, family: &str, submitted: Value) -> Value {
        let mut view = submitted["operation"].clone();
        for (act, name) in
            [("approve", "first"), ("approve", "second"), ("execute", "plain"), ("publish", "signature")]
        {
            let body = self.example(&format!("{family}/{{operationId}}/{act}"), name);
            let path = format!("{family}/{}/{act}", view["operation_id"].as_str().unwrap());
            view = self.world.post(&path, &body).await.ok();
        }
        assert_eq!(view["state"], "published");
        view
    }
}

/// Sends the document's example requests in an order in which each succeeds; only ids and one receipt are filled in. Then
/// compares the answers with the document's. To write them anew, set UPDATE_EXAMPLES.
#[tokio::test]
async fn openapi_examples_run_in_order() {
    let mut flow =
        Flow { world: World::start().await, document: openapi::document(), answers: BTreeMap::new() };
    for name in ["before_quorum", "at_quorum"] {
        let body = flow.example("/v1/policy/preview", name);
        let preview = flow.world.post("/v1/policy/preview", &body).await.ok();
        assert_eq!(preview["decision"], "ALLOW", "{name}");
        flow.keep("PolicyPreview", &preview);
    }
    let submitted = flow.world.post(SIGN, &flow.example(SIGN, "payment")).await.ok();
    flow.keep("SignOperationResponse", &submitted);
    let payment = flow.publish("/v1/operations", submitted).await;
    flow.keep("OperationView", &payment);
    let of_key = |act: &str| format!("/v1/custody/keys/{{keyRef}}/{act}");
    let mut view = Value::Null;
    for (path, name) in [
        ("/v1/custody/keys".to_owned(), "two_of_three"),
        (of_key("sign"), "transfer"),
        (of_key("refresh"), "drill"),
        (of_key("recover"), "lost_share"),
        (of_key("reshare"), "three_of_four"),
        (of_key("rotate"), "new_key"),
    ] {
        let body = flow.example(&path, name);
        let submitted = flow.world.post(&path.replace("{keyRef}", "vault-1"), &body).await.ok();
        view = flow.publish("/v1/custody/operations", submitted.clone()).await;
        if name == "transfer" {
            flow.keep("CustodyOperationResponse", &submitted);
            flow.keep("CustodyOperationView", &view);
            flow.get("CustodyKeyView", &custody::key_path("vault-1", "")).await;
            flow.get("KeyDerivation", &custody::key_path("vault-1", "/derive?path=0/7")).await;
        }
    }
    let exported = flow.example("/v1/custody/operations/{operationId}/external-export", "settled");
    let exported = with(exported, "/publication_receipt", view["runtime"]["publication_receipt"].clone());
    let path = custody::path(&view, "/external-export");
    assert_eq!(flow.world.post(&path, &exported).await.ok()["external_export"]["state"], "Settled");
    flow.get("CustodyOperationsResponse", &custody::key_path("vault-1", "/operations?limit=1")).await;
    flow.get("OperationsResponse", "/v1/operations?limit=1").await;
    flow.get("CustodyKeysResponse", "/v1/custody/keys?limit=1").await;
    flow.get("HealthView", "/healthz").await;
    flow.get("ReadinessView", "/readyz").await;
    flow.get("PolicyBundlesResponse", "/v1/policy/bundles?limit=1").await;
    flow.get("LogInclusionView", "/v1/log/inclusion?index=1&size=4").await;
    flow.get("LogConsistencyView", "/v1/log/consistency?first=2&second=4").await;
    flow.webhooks().await;
    let evidence = flow.world.get(&samples::path(&payment, "/evidence")).await.ok();
    let recovery = evidence["effects"][0].clone();
    let recovered = flow.world.post(&samples::path(&payment, "/node-recovery"), &recovery).await.ok();
    flow.keep("OperationNodeRecoveryResponse", &recovered);
    let refused = flow.world.post(SIGN, &json!({ "idempotency_key": "", "payment": {} })).await;
    assert_eq!(refused.status, 400);
    flow.keep("ErrorBody", &refused.json);

    let mut replacements = Replacements::default();
    let answers = flow.answers.into_iter().map(|(shape, answer)| (shape, replacements.replace(answer)));
    let answers = serde_json::to_string_pretty(&Value::Object(answers.collect())).unwrap() + "\n";
    if std::env::var_os("UPDATE_EXAMPLES").is_some() {
        std::fs::write(ANSWERS, &answers).unwrap();
    }
    assert_same(&std::fs::read_to_string(ANSWERS).unwrap(), &answers);
}

#[track_caller]
fn assert_same(written: &str, answers: &str) {
    let differing = written.lines().zip(answers.lines()).find(|(one, other)| one != other);
    assert!(
        written == answers,
        "answers.json has other lines: {differing:?}; set UPDATE_EXAMPLES to write it"
    );
}
