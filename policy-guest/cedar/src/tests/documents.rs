//! Signed documents: their types, and documents that are missing or malformed.

use super::{PERMIT_ALL, files, refused, said};
use crate::prepared::Prepared;
use gateway_policy_sdk::testing::{approved, asset_action, data, facts, key_change, payment};
use gateway_policy_sdk::{Decision, Moment, Request, Verdict};

/// The verdict with these documents, by name and JSON text.
fn with_documents(request: &Request, policies: &str, schema: &str, documents: &[(&str, &str)]) -> Verdict {
    let files = files(&[("policies.cedar", policies), ("schema.cedarschema", schema)]);
    crate::evaluate(request, &facts(&[]), &files, &data(documents))
}

/// The verdict denies since the request cannot be evaluated, with this fault.
#[track_caller]
fn assert_fault(verdict: &Verdict, fault: &str) {
    assert_eq!((verdict.decision, &*verdict.reasons[0].code), (Decision::Deny, "cedar_error"), "{verdict:?}");
    assert_eq!(said(verdict), format!("fault {fault}\n"));
}

#[test]
fn document_is_read_by_its_type() {
    let policies = r#"permit (principal, action == Action::"payment", resource)
        when { context.documents.limits.most > context.payment.amount_minor && context.documents.limits.open }
        when { context.documents.limits.share.lessThan(decimal("0.5")) }
        when { context.documents.limits.until >= datetime("2026-01-01").offset(context.documents.limits.slack) }
        when { context.documents.limits.accounts.contains(resource) && context.documents.holidays.contains("2026-12-25") }
        unless { context.documents.limits has note && context.documents.limits.note == "none" };"#;
    let schema = "type Limits = { most: Long, open: Bool, share: decimal, until: datetime, slack: duration, accounts: Set<Account>,
            note?: String };
        type Documents = { limits: Limits, holidays: Set<String> };";
    let decision = |account: &str, limits: &str| {
        let documents = [("limits", limits), ("holidays", r#"["2026-12-25"]"#)];
        with_documents(&payment(account, "b", 1), policies, schema, &documents).decision
    };
    let limits = |more: &str| {
        format!(
            r#"{{"most":2,"open":true,"share":"0.25","until":"2026-01-02","slack":"24h","accounts":[{{"type":"Account","id":"a"}}]{more}}}"#
        )
    };
    assert_eq!(decision("a", &limits("")), Decision::Allow);
    assert_eq!(decision("a", &limits(r#","note":"some""#)), Decision::Allow);
    assert_eq!(decision("a", &limits(r#","note":"none""#)), Decision::Deny);
    assert_eq!(decision("b", &limits("")), Decision::Deny, "an account that is not listed");
}

#[test]
fn document_that_is_not_of_its_type_denies_and_names_the_place() {
    let policies =
        r#"permit (principal, action, resource) when { context.documents.list.names.contains("a") };"#;
    let schema = r#"type Documents = { list: { names: Set<String>, "n/1"?: Long, share?: decimal, day?: datetime, to?: Account } };"#;
    for (list, fault) in [
        (r#"[]"#, " is not of its type in the schema"),
        (r#""{\"names\":5}""#, "/names is not of its type in the schema"),
        (r#""text""#, " is not of its type in the schema"),
        (r#"{}"#, "/names is missing"),
        (r#"{"names":"a"}"#, "/names is not of its type in the schema"),
        (r#"{"names":["a",null]}"#, "/names/1 is not of its type in the schema"),
        (r#"{"names":[{"__extn":{"fn":"unknown","arg":"x"}}]}"#, "/names/0 is not of its type in the schema"),
        (r#"{"names":{"__expr":"[\"a\"]"}}"#, "/names is not of its type in the schema"),
        (r#"{"names":["a"],"more":1}"#, "/more is not in its type in the schema"),
        (r#"{"names":["a"],"n/1":"1"}"#, "/n~11 is not of its type in the schema"),
        (r#"{"names":["a"],"n/1":1.5}"#, "/n~11 is not of its type in the schema"),
        (r#"{"names":["a"],"n/1":9223372036854775808}"#, "/n~11 is not of its type in the schema"),
        (r#"{"names":["a"],"share":"1"}"#, "/share is not of its type in the schema"),
        (r#"{"names":["a"],"day":"2026-02-30"}"#, "/day is not of its type in the schema"),
        (r#"{"names":["a"],"to":{"type":"Subject","id":"a"}}"#, "/to is not of its type in the schema"),
        (r#"{"names":["a"],"to":{"type":"Account"}}"#, "/to is not of its type in the schema"),
    ] {
        let verdict = with_documents(&payment("a", "b", 1), policies, schema, &[("list", list)]);
        assert_fault(&verdict, &format!("document list{fault}"));
    }
    let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
    let verdict = with_documents(&payment("a", "b", 1), policies, schema, &[("list", &deep)]);
    assert_fault(&verdict, "document list is not of its type in the schema");
}

#[test]
fn missing_document_denies_the_requests_whose_policies_name_it() {
    let policies = r#"permit (principal, action, resource);
        forbid (principal, action == Action::"payment", resource) when { context.documents.closed.contains("2026") };
        forbid (principal, action in Action::"key_change", resource) when { context.documents.frozen.contains("x") };"#;
    let schema = "type Documents = { closed: Set<String>, frozen: Set<String> };";
    let with =
        |request: &Request, documents: &[(&str, &str)]| with_documents(request, policies, schema, documents);
    assert_fault(
        &with(&payment("a", "b", 1), &[("frozen", "[]")]),
        "document closed is missing or has expired",
    );
    assert_fault(
        &with(&key_change("refresh"), &[("closed", "[]")]),
        "document frozen is missing or has expired",
    );
    assert_eq!(with(&payment("a", "b", 1), &[("closed", "[]")]).decision, Decision::Allow);
    assert_eq!(with(&payment("a", "b", 1), &[("closed", r#"["2026"]"#)]).decision, Decision::Deny);
    assert_eq!(with(&key_change("refresh"), &[("frozen", "[]")]).decision, Decision::Allow);
    assert_eq!(with(&asset_action(), &[]).decision, Decision::Allow, "no policy names a document");
}

#[test]
fn documents_of_policies_with_groups_are_read_for_every_action() {
    let policies = r#"permit (principal, action, resource);
        @quorum("1 listed") forbid (principal, action, resource);
        @group("listed") permit (principal, action == Action::"approve", resource)
        when { context.documents.treasurers.contains(principal) };"#;
    let schema = "type Documents = { treasurers: Set<Subject> };";
    let request = approved(asset_action(), Moment::Admission, &["bob"]);
    assert_fault(
        &with_documents(&request, policies, schema, &[]),
        "document treasurers is missing or has expired",
    );
    for (listed, decision) in [("bob", Decision::Allow), ("eve", Decision::Deny)] {
        let treasurers = format!(r#"[{{"type":"Subject","id":"{listed}"}}]"#);
        let verdict = with_documents(&request, policies, schema, &[("treasurers", &treasurers)]);
        assert_eq!(verdict.decision, decision, "{verdict:?}");
    }
}

#[test]
fn optional_document_may_be_missing_and_must_be_of_its_type() {
    let policies = r#"permit (principal, action, resource)
        unless { context.documents has closed && !context.documents.closed.isEmpty() };"#;
    let with = |documents: &[(&str, &str)]| {
        let schema = "type Documents = { closed?: Set<String> };";
        with_documents(&payment("a", "b", 1), policies, schema, documents)
    };
    assert_eq!(with(&[]).decision, Decision::Allow);
    assert_eq!(with(&[("closed", "[]")]).decision, Decision::Allow);
    assert_eq!(with(&[("closed", r#"["2026"]"#)]).decision, Decision::Deny);
    assert_fault(&with(&[("closed", "[1]")]), "document closed/0 is not of its type in the schema");
    let fault = refused(&[
        (
            "policies.cedar",
            "permit (principal, action, resource) when { context.documents.closed.isEmpty() };",
        ),
        ("schema.cedarschema", "type Documents = { closed?: Set<String> };"),
    ]);
    assert!(fault.starts_with("data/policies.cedar:1:45: ") && fault.contains("closed"), "{fault}");
}

const BY_VALUE: &str = r#"permit (principal, action, resource);
    forbid (principal, action == Action::"payment", resource)
    unless { context.payment has value && context.payment.value.lessThanOrEqual(decimal("10.00")) };"#;

#[test]
fn value_of_a_payment_follows_from_the_document_with_exchange_rates() {
    let value = |amount, documents: &[(&str, &str)]| {
        let schema = "type Documents = { rates?: Rates };";
        with_documents(&payment("a", "b", amount), BY_VALUE, schema, documents)
    };
    let rates = r#"{"currency":"CHF","rates":{"EUR":{"rate":"0.5","decimals":2}}}"#;
    assert_eq!(value(2_000, &[("rates", rates)]).decision, Decision::Allow);
    assert_eq!(value(2_001, &[("rates", rates)]).decision, Decision::Deny);
    for documents in [&[][..], &[("rates", r#"{"currency":"CHF","rates":{}}"#)]] {
        let verdict = value(1, documents);
        assert_eq!(
            (verdict.decision, &*verdict.reasons[0].code),
            (Decision::Deny, "cedar_forbid"),
            "no rate"
        );
    }
    for (rates, fault) in [
        (
            r#"{"currency":"CHF","rates":{"EUR":{"rate":"0","decimals":2}}}"#,
            "`EUR` needs a `rate` above 0 with at most 8 places, and at most 18 `decimals`",
        ),
        (
            r#"{"currency":"CHF","rates":{"USD":{"rate":"0.0","decimals":2}}}"#,
            "`USD` needs a `rate` above 0 with at most 8 places, and at most 18 `decimals`",
        ),
        (r#"{"currency":"CHF"}"#, "missing field `rates` at line 1 column 18"),
        (
            r#"{"currency":"CHF","rates":{"EUR":"1"}}"#,
            "`EUR` needs a `rate` above 0 with at most 8 places, and at most 18 `decimals`",
        ),
    ] {
        assert_fault(&value(1, &[("rates", rates)]), &format!("document rates: {fault}"));
    }
}

#[test]
fn required_exchange_rates_deny_the_payments_that_need_them_only() {
    let schema = r#"type Documents = { "ecb": Rates };"#;
    let with = |request: &Request, policies, documents: &[(&str, &str)]| {
        with_documents(request, policies, schema, documents)
    };
    assert_fault(&with(&payment("a", "b", 1), BY_VALUE, &[]), "document ecb is missing or has expired");
    assert_eq!(with(&key_change("refresh"), BY_VALUE, &[]).decision, Decision::Allow);
    assert_eq!(with(&payment("a", "b", 1), PERMIT_ALL, &[]).decision, Decision::Allow);
    let in_francs =
        r#"permit (principal, action, resource) when { context.documents.ecb.currency == "CHF" };"#;
    let rates = |currency| format!(r#"{{"currency":"{currency}","rates":{{}}}}"#);
    for (currency, decision) in [("CHF", Decision::Allow), ("EUR", Decision::Deny)] {
        let verdict = with(&payment("a", "b", 1), in_francs, &[("ecb", &rates(currency))]);
        assert_eq!(verdict.decision, decision, "{verdict:?}");
    }
}

#[test]
fn documents_that_cannot_be_meant_are_refused() {
    for (schema, fault) in [
        ("type Documents = Long;", "type `Documents` is not a record"),
        ("type Documents = { n: Long };", "the document `n` has a type that none can have"),
        ("type Documents = { s: String };", "the document `s` has a type that none can have"),
        ("type Documents = { p: Payment };", "the document `p` has a type that none can have"),
        ("type Documents = { r: { of: Rates } };", "the document `r` has a type that none can have"),
        ("type Documents = { a: Rates, b?: Rates };", "`a` and `b` are both of type Rates"),
    ] {
        let found = refused(&[("policies.cedar", PERMIT_ALL), ("schema.cedarschema", schema)]);
        assert!(found.starts_with(&format!("data/schema.cedarschema: {fault}")), "{found}");
    }
    let texts = [
        ("policies.cedar", format!("{PERMIT_ALL:?}")),
        ("schema.cedarschema", format!("{:?}", "type Documents = { rates: Rates };")),
        ("rates.json", crate::rates::SAMPLE.to_owned()),
    ];
    let both = data(&texts.each_ref().map(|(file, text)| (*file, text.as_str())));
    let fault = Prepared::read(&both).err().unwrap();
    assert!(
        fault.starts_with("data/rates.json: the exchange rates are those of the document `rates`"),
        "{fault}"
    );
}

#[test]
fn samples_are_of_the_types_of_the_documents() {
    let policies = r#"permit (principal, action == Action::"payment", resource)
        when { context.payment has value && context.documents.all.b && context.documents.all.e.contains(Subject::"sample") };"#;
    let schema = "type Documents = { rates: Rates, all: { l: Long, b: Bool, s: String, d: decimal, t: datetime, u: duration,
        e: Set<Subject> } };";
    let (_, types) = crate::schema::read(&files(&[("schema.cedarschema", schema)])).unwrap();
    let samples = ["rates", "all"].map(|name| (name, types.documents.sample(name).unwrap()));
    let samples = samples.each_ref().map(|(name, text)| (*name, text.as_str()));
    let verdict = with_documents(&payment("a", "b", 1), policies, schema, &samples);
    assert_eq!(verdict.decision, Decision::Allow, "{verdict:?}");
}
