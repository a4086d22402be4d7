use super::super::resolve;
use super::super::tests::{EXCEPTIONS, PRODUCTION, settings};
use super::*;
use std::collections::BTreeMap;

fn auth(variables: &[(&str, &str)]) -> Result<Auth, Vec<String>> {
    settings(variables).map(|settings| settings.auth.mode)
}

const JWKS: [(&str, &str); 4] = [
    ("AUTH_MODE", "jwks"),
    ("JWKS_URL", "https://issuer.example/jwks"),
    ("TOKEN_ISSUER", "https://issuer.example"),
    ("TOKEN_AUDIENCE", "gateway"),
];

const INTROSPECTION: [(&str, &str); 4] = [
    ("AUTH_MODE", "introspection"),
    ("INTROSPECTION_URL", "https://issuer.example/introspect"),
    ("INTROSPECTION_CLIENT_ID", "gateway"),
    ("INTROSPECTION_CLIENT_SECRET_FILE", "secret"),
];

const HEADERS: [(&str, &str); 2] = [("AUTH_MODE", "trusted_headers"), ("TRUSTED_PROXIES", "10.0.0.0/8")];

#[test]
fn each_mode_parses_its_own_settings() {
    assert!(matches!(auth(&[]), Ok(Auth::Bypass)));
    assert!(matches!(auth(&HEADERS), Ok(Auth::TrustedHeaders { .. })));
    let Ok(Auth::Jwks { keys: IssuerKeys::Url { ca: None, .. }, max_age, rules, proxies }) = auth(&JWKS)
    else {
        panic!()
    };
    assert_eq!(max_age, Duration::from_secs(24 * 3600));
    assert_eq!(
        (rules.issuer.as_deref(), rules.audience.as_deref()),
        (Some("https://issuer.example"), Some("gateway"))
    );
    assert!(!rules.client_is_subject && rules.client.len() == 2 && proxies.is_empty());
    let Ok(Auth::Introspection { client_secret: ClientSecretSource::File(file), rules, .. }) =
        auth(&INTROSPECTION)
    else {
        panic!()
    };
    assert_eq!(file, PathBuf::from("secret"));
    assert!(rules.client_is_subject && rules.issuer.is_none() && rules.audience.is_none());
    let from_file = [&JWKS[..1], &JWKS[2..], &[("JWKS_FILE", "keys.json")]].concat();
    assert!(matches!(auth(&from_file), Ok(Auth::Jwks { keys: IssuerKeys::File(_), .. })));
}

#[test]
fn missing_setting_of_a_mode_is_named() {
    for mode in [&HEADERS[..], &JWKS, &INTROSPECTION] {
        for (name, _) in &mode[1..] {
            let without: Vec<_> = mode.iter().copied().filter(|(other, _)| other != name).collect();
            let expected = format!(
                "setting `{}` must be given while `auth_mode` is `{}`",
                name.to_lowercase(),
                mode[0].1
            );
            assert_eq!(auth(&without).unwrap_err(), [expected.as_str()]);
            let empty = [&without[..], &[(name, "")]].concat();
            assert_eq!(auth(&empty).unwrap_err(), [expected]);
        }
    }
}

/// A provider reports tokens of other deployments as active too.
#[test]
fn introspection_in_production_needs_issuer_and_audience() {
    let production = [&PRODUCTION[..], &[EXCEPTIONS]].concat();
    let both = [("TOKEN_ISSUER", "https://issuer.example"), ("TOKEN_AUDIENCE", "gateway")];
    let faults = |given: &[(&str, &str)]| {
        auth(&[&production[..], &INTROSPECTION, given].concat()).map(drop).err().unwrap_or_default()
    };
    let line =
        |name| format!("setting `{name}` must be given in production while `auth_mode` is `introspection`");
    assert_eq!(faults(&[]), [line("token_issuer"), line("token_audience")]);
    assert_eq!(faults(&both[..1]), [line("token_audience")]);
    assert_eq!(faults(&both[1..]), [line("token_issuer")]);
    let Ok(Auth::Introspection { rules, .. }) = auth(&[&production[..], &INTROSPECTION, &both].concat())
    else {
        panic!()
    };
    assert_eq!(
        (rules.issuer.as_deref(), rules.audience.as_deref()),
        (Some("https://issuer.example"), Some("gateway"))
    );
}

#[test]
fn claims_that_are_facts_have_names_of_their_own() {
    let claims = "department, cost_center=/org/cc,uri=https://bank.example/a=b";
    let Ok(Auth::Jwks { rules, .. }) = auth(&[&JWKS[..], &[("TOKEN_FACT_CLAIMS", claims)]].concat()) else {
        panic!()
    };
    let expected = [
        ("claim.cost_center", "/org/cc"),
        ("claim.department", "department"),
        ("claim.uri", "https://bank.example/a=b"),
    ];
    let expected = expected.map(|(fact, claim)| (fact.to_owned(), claim.parse().unwrap()));
    assert_eq!(rules.facts, expected.into());
}

#[test]
fn setting_of_another_mode_is_refused() {
    let all = [&HEADERS[1..], &JWKS[1..], &INTROSPECTION[1..]].concat();
    let more = [
        ("JWKS_FILE", "f"),
        ("JWKS_MAX_AGE_MS", "1"),
        ("IDENTITY_PROVIDER_CA", "f"),
        ("INTROSPECTION_CLIENT_SECRET", "s"),
    ];
    let claims = ["TOKEN_CLIENT_CLAIMS", "TOKEN_SCOPES_CLAIMS", "TOKEN_ROLES_CLAIM", "TOKEN_TENANT_CLAIM"];
    let claims = claims.map(|name| (name, "c"));
    let all = [&all[..], &more, &claims, &[("TOKEN_FACT_CLAIMS", "c")]].concat();
    assert_eq!(all.len(), MODES_OF_SETTINGS.len());
    for mode in [&[("AUTH_MODE", "bypass")][..], &HEADERS, &JWKS, &INTROSPECTION] {
        let (_, chosen) = mode[0];
        for one in all.iter().filter(|one| !mode.iter().any(|(name, _)| *name == one.0)) {
            let name = one.0.to_lowercase();
            let (_, modes) = MODES_OF_SETTINGS.iter().find(|(other, _)| *other == name).unwrap();
            let mode_of = MODES.iter().find(|(other, _)| *other == chosen).unwrap().1;
            let faults = auth(&[mode, &[*one]].concat()).err().unwrap_or_default();
            if !modes.contains(&mode_of) {
                let expected = format!("setting `{name}` must not be given while `auth_mode` is `{chosen}`");
                assert_eq!(faults, [expected]);
            }
        }
    }
    let both = auth(&[&JWKS[..], &[("JWKS_FILE", "f")]].concat()).unwrap_err();
    assert_eq!(both, ["setting `jwks_file` must not be given together with `jwks_url`"]);
    let both = auth(&[&INTROSPECTION[..], &[("INTROSPECTION_CLIENT_SECRET", "s")]].concat()).unwrap_err();
    let line = "setting `introspection_client_secret_file` must not be given together with `introspection_client_secret`";
    assert_eq!(both, [line]);
    let without_url = [&JWKS[..1], &JWKS[2..], &[("JWKS_FILE", "f"), ("IDENTITY_PROVIDER_CA", "f")]].concat();
    assert_eq!(
        auth(&without_url).unwrap_err(),
        ["setting `identity_provider_ca` must not be given together with `jwks_file`"]
    );
}

#[test]
fn each_wrong_value_is_reported_in_one_line_that_names_its_setting() {
    for (mode, name, wrong) in [
        (&HEADERS[..], "TRUSTED_PROXIES", "nginx"),
        (&HEADERS, "TRUSTED_PROXIES", "0.0.0.0/0"),
        (&JWKS, "TRUSTED_PROXIES", "10.0.0.1/8"),
        (&JWKS, "JWKS_URL", "http://issuer.example/jwks"),
        (&JWKS, "JWKS_MAX_AGE_MS", "0"),
        (&JWKS, "JWKS_MAX_AGE_MS", "a day"),
        (&JWKS, "TOKEN_CLIENT_CLAIMS", "a claim"),
        (&JWKS, "TOKEN_CLIENT_CLAIMS", ","),
        (&JWKS, "TOKEN_SCOPES_CLAIMS", ","),
        (&JWKS, "TOKEN_SCOPES_CLAIMS", "scope,/"),
        (&JWKS, "TOKEN_ROLES_CLAIM", ""),
        (&JWKS, "TOKEN_TENANT_CLAIM", "/"),
        (&JWKS, "TOKEN_FACT_CLAIMS", "Department"),
        (&JWKS, "TOKEN_FACT_CLAIMS", "cost.center=cc"),
        (&JWKS, "TOKEN_FACT_CLAIMS", "=cc"),
        (&JWKS, "TOKEN_FACT_CLAIMS", "cc="),
        (&JWKS, "TOKEN_FACT_CLAIMS", "cc,cc=other"),
        (&INTROSPECTION, "INTROSPECTION_URL", "https://user:secret@issuer.example/"),
    ] {
        let others: Vec<_> = mode.iter().copied().filter(|(other, _)| *other != name).collect();
        let faults = auth(&[&others[..], &[(name, wrong)]].concat()).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains(&format!("`{}`", name.to_lowercase())), "{faults:?}");
        assert!(!faults[0].contains("secret@"), "{faults:?}");
    }
}

#[test]
fn client_secret_comes_from_the_environment_only_and_is_never_shown() {
    let given = [&INTROSPECTION[..3], &[("INTROSPECTION_CLIENT_SECRET", "canary-7c1")]].concat();
    let settings = auth(&given).unwrap();
    assert!(matches!(
        &settings,
        Auth::Introspection { client_secret: ClientSecretSource::Environment(_), .. }
    ));
    assert!(!format!("{settings:?}").contains("canary"));
    let environment =
        given.iter().map(|(name, value)| (format!("SVC_OPERATION_GATEWAY_{name}"), (*value).to_owned()));
    let resolved = resolve(&BTreeMap::new(), environment, None).unwrap();
    assert!(!format!("{resolved:?}").contains("canary"));
    assert!(
        resolved.iter().all(|(setting, text, _)| !text.contains("canary") && setting.name != CLIENT_SECRET)
    );
    let file = "introspection_client_secret = \"canary-7c1\"";
    let fault = resolve(&BTreeMap::new(), [], Some(file)).unwrap_err();
    assert!(fault.len() == 1 && !fault[0].contains("canary"), "{fault:?}");
}
