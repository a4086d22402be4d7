use super::*;
use serde_json::json;

const NOW: EpochMs = EpochMs(1_000_000_000);

fn rules() -> ClaimRules {
    ClaimRules {
        issuer: Some("https://issuer.example".to_owned()),
        audience: Some("gateway".to_owned()),
        client: vec!["client_id".parse().unwrap(), "azp".parse().unwrap()],
        scopes: vec!["scope".parse().unwrap(), "scp".parse().unwrap()],
        roles: "roles".parse().unwrap(),
        tenant: "tenant".parse().unwrap(),
        facts: BTreeMap::new(),
        client_is_subject: false,
    }
}

fn good() -> Value {
    json!({
        "iss": "https://issuer.example",
        "aud": "gateway",
        "sub": "alice",
        "client_id": "desk",
        "scope": "operations.read  audit.read",
        "roles": ["approver", "operator"],
        "tenant": "acme",
        "jti": "t-1",
        "exp": 1_000_300,
        "nbf": 999_900,
    })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = good();
    claims[name] = value;
    claims
}

fn read_with(claims: &Value, rules: &ClaimRules) -> Result<Identity, TokenFault> {
    Claims::read(claims.as_object().unwrap(), rules)?.identity(NOW, None)
}

fn read(claims: &Value) -> Result<Identity, TokenFault> {
    read_with(claims, &rules())
}

#[test]
fn claims_of_a_caller_are_read() {
    let identity = read(&good()).unwrap();
    assert_eq!((identity.client_id.as_str(), identity.subject_id.as_str()), ("desk", "alice"));
    assert_eq!(identity.scopes, ["operations.read", "audit.read"]);
    assert_eq!(identity.roles, ["approver", "operator"]);
    assert_eq!(identity.tenant, Some(Tenant("acme".to_owned())));
    assert_eq!(identity.token_jti, Some(TokenId::new("t-1".to_owned())));
}

#[test]
fn claims_that_policies_may_read_are_texts_or_json() {
    let facts = [("claim.department", "department"), ("claim.cost_center", "/org/cost center")];
    let facts = facts.map(|(fact, claim)| (fact.to_owned(), ClaimName(claim.to_owned())));
    let rules = ClaimRules { facts: facts.into(), ..rules() };
    let read = |department: Value| {
        let mut claims = with("department", department);
        claims["org"] = json!({ "cost center": "7" });
        let facts = read_with(&claims, &rules)?.facts;
        assert_eq!(facts.get("claim.cost_center").map(String::as_str), Some("7"));
        Ok(facts.get("claim.department").cloned())
    };
    for (value, fact) in [
        (json!("treasury"), Some("treasury")),
        (json!(""), Some("")),
        (json!(true), Some("true")),
        (json!(7), Some("7")),
        (json!(["a", "b c"]), Some(r#"["a","b c"]"#)),
        (json!({"b": 1, "a": null}), Some(r#"{"a":null,"b":1}"#)),
        (Value::Null, None),
        (json!("x".repeat(1024)), Some("x".repeat(1024).as_str())),
    ] {
        assert_eq!(read(value.clone()), Ok(fact.map(str::to_owned)), "{value}");
    }
    for value in [json!("x".repeat(1025)), json!(["x".repeat(1021)]), json!("a\0b")] {
        assert_eq!(read(value.clone()), Err(TokenFault::FactClaim), "{value}");
    }
    assert!(read_with(&good(), &rules).unwrap().facts.is_empty());
}

#[test]
fn issuer_and_audience_must_match_exactly() {
    for issuer in [
        json!("https://issuer.example/"),
        json!("https://ISSUER.example"),
        json!(["https://issuer.example"]),
        json!(""),
        json!(null),
        json!(7),
    ] {
        assert_eq!(read(&with("iss", issuer.clone())), Err(TokenFault::Issuer), "{issuer}");
    }
    for audience in [
        json!("gateway2"),
        json!(["other"]),
        json!([["gateway"]]),
        json!([]),
        json!(null),
        json!({"gateway": 1}),
    ] {
        assert_eq!(read(&with("aud", audience.clone())), Err(TokenFault::Audience), "{audience}");
    }
    assert!(read(&with("aud", json!(["other", "gateway"]))).is_ok());
    let open = ClaimRules { issuer: None, audience: None, ..rules() };
    assert!(read_with(&with("iss", json!(null)), &open).is_ok());
}

#[test]
fn a_token_is_valid_between_nbf_and_exp_with_a_minute_of_leeway() {
    let seconds = NOW.0 / 1000;
    for (exp, is_valid) in [
        (json!(seconds - 61), false),
        (json!(seconds - 60), false),
        (json!(seconds - 59), true),
        (json!(seconds as f64 - 59.5), true),
        (json!(seconds as f64 - 60.5), false),
        (json!(u64::MAX), true),
        (json!(0), false),
    ] {
        assert_eq!(read(&with("exp", exp.clone())).is_ok(), is_valid, "exp {exp}");
    }
    assert_eq!(read(&with("exp", json!(seconds - 60))), Err(TokenFault::Expired));
    for (nbf, is_valid) in [
        (json!(seconds + 60), true),
        (json!(seconds + 61), false),
        (json!(seconds as f64 + 60.5), false),
        (json!(u64::MAX), false),
        (json!(null), true),
    ] {
        assert_eq!(read(&with("nbf", nbf.clone())).is_ok(), is_valid, "nbf {nbf}");
    }
    assert_eq!(read(&with("nbf", json!(seconds + 61))), Err(TokenFault::NotYetValid));
    for name in ["exp", "nbf"] {
        for wrong in [json!("1000300"), json!(-1), json!(-0.5), json!(1e300), json!([1]), json!(true)] {
            assert!(matches!(read(&with(name, wrong.clone())), Err(TokenFault::Claim(_))), "{name} {wrong}");
        }
    }
}

#[test]
fn claims_of_another_type_or_size_are_rejected() {
    let long = "x".repeat(1025);
    for (name, wrong) in [
        ("sub", json!(null)),
        ("sub", json!("")),
        ("sub", json!(7)),
        ("sub", json!(long)),
        ("sub", json!("a\u{0}")),
        ("roles", json!(["a\u{0}"])),
        ("client_id", json!(null)),
        ("client_id", json!(["desk"])),
        ("client_id", json!("")),
        ("roles", json!({"approver": true})),
        ("roles", json!([1])),
        ("roles", json!([""])),
        ("roles", json!([long])),
        ("scope", json!(7)),
        ("scope", json!([["operations.sign"]])),
        ("tenant", json!("")),
        ("tenant", json!(["acme"])),
        ("tenant", json!(long)),
        ("jti", json!(7)),
        ("jti", json!("")),
    ] {
        assert!(matches!(read(&with(name, wrong.clone())), Err(TokenFault::Claim(_))), "{name} {wrong}");
    }
}

#[test]
fn lists_have_at_most_256_entries_and_a_longer_one_is_refused_by_name() {
    let many = |n: u32| json!((0..n).map(|i| format!("r{i}")).collect::<Vec<_>>());
    assert_eq!(read(&with("roles", many(256))).unwrap().roles.len(), 256);
    for name in ["roles", "scope"] {
        let fault = read(&with(name, many(257))).unwrap_err();
        assert!(fault.to_string().contains("must have at most 256 entries"), "{fault}");
    }
}

#[test]
fn claims_are_found_under_the_configured_names() {
    let mut claims = with("scope", json!(null));
    claims.as_object_mut().unwrap().remove("scope");
    claims["scp"] = json!(["operations.sign"]);
    assert_eq!(read(&claims).unwrap().scopes, ["operations.sign"]);
    let mut claims = with("azp", json!("robot"));
    assert_eq!(read(&claims).unwrap().client_id, "desk");
    claims.as_object_mut().unwrap().remove("client_id");
    assert_eq!(read(&claims).unwrap().client_id, "robot");
    assert_eq!(read(&with("roles", json!("one role"))).unwrap().roles, ["one role"]);
    assert!(read(&with("roles", json!(null))).unwrap().roles.is_empty());
    let deep = ClaimRules { roles: "/realm_access/ro~1les/0".parse().unwrap(), ..rules() };
    let claims = with("realm_access", json!({"ro/les": [["deep"]]}));
    assert_eq!(read_with(&claims, &deep).unwrap().roles, ["deep"]);
    let scopes = ["permissions", "/realm_access/scopes"].map(|name| name.parse().unwrap());
    let others = ClaimRules { scopes: scopes.into(), ..rules() };
    // The fixed names no longer count.
    assert_eq!(read_with(&with("scp", json!(["operations.sign"])), &others).unwrap().scopes, [""; 0]);
    let claims = with("permissions", json!(["custody.read", "audit.read"]));
    assert_eq!(read_with(&claims, &others).unwrap().scopes, ["custody.read", "audit.read"]);
    let claims = with("realm_access", json!({"scopes": "custody.read  audit.read"}));
    assert_eq!(read_with(&claims, &others).unwrap().scopes, ["custody.read", "audit.read"]);
    let uri = ClaimRules { tenant: "https://bank.example/tenant".parse().unwrap(), ..rules() };
    let claims = with("https://bank.example/tenant", json!("acme2"));
    assert_eq!(read_with(&claims, &uri).unwrap().tenant, Some(Tenant("acme2".to_owned())));
}

#[test]
fn a_missing_subject_is_the_client_only_with_introspection() {
    let claims = with("sub", json!(null));
    assert_eq!(read(&claims), Err(TokenFault::Claim("sub")));
    let introspected = ClaimRules { client_is_subject: true, ..rules() };
    assert_eq!(read_with(&claims, &introspected).unwrap().subject_id, "desk");
}

#[test]
fn a_bound_token_requires_its_certificate() {
    let thumbprint = "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s";
    let own = Hex32::new([0xab; 32]);
    let bound = with("cnf", json!({"x5t#S256": thumbprint}));
    let claims = Claims::read(bound.as_object().unwrap(), &rules()).unwrap();
    assert_eq!(claims.identity(NOW, Some(own)).unwrap().cert_sha256, Some(own));
    assert_eq!(claims.identity(NOW, None), Err(TokenFault::Unproved));
    assert_eq!(claims.identity(NOW, Some(Hex32::ZERO)), Err(TokenFault::Unproved));
    for wrong in [
        json!({"jkt": thumbprint}),
        json!({"x5t#S256": thumbprint, "jkt": thumbprint}),
        json!({"x5t#S256": format!("{thumbprint}=")}),
        json!({"x5t#S256": own.to_string()}),
        json!({"x5t#S256": 7}),
        json!({}),
        json!(thumbprint),
        json!([thumbprint]),
    ] {
        assert_eq!(read(&with("cnf", wrong.clone())), Err(TokenFault::Unproved), "{wrong}");
    }
    // The certificate of an unbound token goes into the identity too.
    let unbound = Claims::read(good().as_object().unwrap(), &rules()).unwrap();
    assert_eq!(unbound.identity(NOW, Some(own)).unwrap().cert_sha256, Some(own));
}
