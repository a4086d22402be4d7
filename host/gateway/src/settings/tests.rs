//! Parsing of settings, and the line for each fault.

use super::*;
use gateway_seal::kek_source::KekSource;
use gateway_service::settings::ProcessSettings;
use std::collections::BTreeMap;

/// The settings with these environment variables.
pub(super) fn settings(variables: &[(&str, &str)]) -> Result<Settings, Vec<String>> {
    let environment =
        variables.iter().map(|(name, value)| (format!("SVC_OPERATION_GATEWAY_{name}"), (*value).to_owned()));
    Settings::parse(&resolve(&BTreeMap::new(), environment, None)?)
}

/// The settings that production requires, except those of authentication.
pub(super) const PRODUCTION: [(&str, &str); 6] = [
    ("PROFILE", "production"),
    ("AUTHORITY_KEY", "k"),
    ("LOG_KEY", "l"),
    ("LOG_ORIGIN", "bank.example/log"),
    ("POLICY_BUNDLE", "b"),
    ("POLICY_TRUST_ROOTS", "r"),
];

pub(super) const EXCEPTIONS: (&str, &str) =
    ("PRODUCTION_EXCEPTIONS", "unsigned_approvals, embedded_nodes,embedded_authority");

#[test]
fn development_profile_starts_without_settings() {
    let settings = settings(&[]).unwrap();
    assert_eq!((settings.approvals.required, settings.server.bind.port()), (2, 9200));
    assert_eq!(settings.operations.permitted_recipients, "*");
}

#[test]
fn each_wrong_value_is_reported_in_one_line_that_names_its_setting() {
    let skipped = [
        "policy_pins",
        "permitted_recipients",
        "database_url",
        "node_directory",
        "authority_key",
        "log_key",
        "log_origin",
        "witnessed_checkpoint",
        "trace_service",
        "log",
    ];
    let paths = [
        "policy_bundle",
        "policy_trust_roots",
        "policy_activation",
        "policy_candidate",
        "policy_documents",
        "node_key",
        "node_passphrase_file",
        "witness_policy",
        "webhooks_file",
        "tls_certificate",
        "tls_key",
    ];
    for setting in TABLE.all().filter(|one| !skipped.contains(&one.name) && !paths.contains(&one.name)) {
        let faults = settings(&[(&setting.name.to_uppercase(), "\u{1F980}")]).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains(setting.name) && !faults[0].contains('\n'), "{faults:?}");
    }
    for setting in ["database_url", "policy_bundle", "node_directory", "log_key", "log_origin", "log"] {
        assert!(settings(&[(&setting.to_uppercase(), "")]).unwrap_err()[0].contains(setting));
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table with a row per setting")]
fn numbers_outside_their_range_prevent_startup() {
    #[rustfmt::skip]
    let ranges: &[(&str, u64, u64)] = &[
        ("connections_max", 1, 1_000_000),
        ("tls_handshake_within_ms", 1, 316_224_000_000),
        ("header_within_ms", 1, 316_224_000_000),
        ("body_within_ms", 1, 316_224_000_000),
        ("idle_within_ms", 1, 316_224_000_000),
        ("write_within_ms", 1, 316_224_000_000),
        ("request_within_ms", 1, 316_224_000_000),
        ("header_bytes_max", 4096, 1_048_576),
        ("headers_max", 16, 1024),
        ("node_count", 2, 1024),
        ("policy_watch_ms", 0, 316_224_000_000),
        ("required_approvals", 0, 128),
        ("approval_ttl_ms", 1, 316_224_000_000),
        ("admission_ttl_ms", 1, 316_224_000_000),
        ("admission_rate", 0, 1_000_000),
        ("admission_burst", 0, 1_000_000),
        ("preview_rate", 0, 1_000_000),
        ("preview_burst", 0, 1_000_000),
        ("preview_records_max", 0, 100_000_000),
        ("spending_kept_days", 31, 3_650),
        ("refusals_kept_days", 0, 3_650),
        ("body_bytes_max", 1024, 16_777_216),
        ("recovery_body_bytes_max", 1024, 16_777_216),
        ("audit_bytes_max", 16_384, 524_288),
        ("answer_within_ms", 1, 316_224_000_000),
        ("database_connections", 2, 1000),
        ("reconcile_every_ms", 1, 316_224_000_000),
        ("witness_every_ms", 1, 316_224_000_000),
        ("shutdown_within_ms", 1, 316_224_000_000),
    ];
    // Not listed: `connections_per_address_max`, which must not exceed another setting, and `jwks_max_age_ms`, which needs a
    // mode.
    let counted = [
        "MILLISECONDS",
        "BYTES",
        "CONNECTIONS",
        "HEADERS",
        "NODES",
        "APPROVALS",
        "PER SECOND",
        "SUBMISSIONS",
        "PREVIEWS",
        "DAYS",
    ];
    for setting in TABLE.all().filter(|one| counted.contains(&one.unit)) {
        let elsewhere = ["connections_per_address_max", "jwks_max_age_ms"];
        let is_listed =
            ranges.iter().any(|(name, ..)| *name == setting.name) || elsewhere.contains(&setting.name);
        assert!(is_listed, "`{}` has no range here", setting.name);
    }
    for (name, least, most) in ranges {
        let line = |value: &str| {
            let faults = settings(&[(&name.to_uppercase(), value)]).map(drop).unwrap_err();
            faults.into_iter().find(|fault| fault.starts_with(&format!("setting `{name}` "))).unwrap()
        };
        let below = least.checked_sub(1).map(|below| below.to_string());
        let outside = [
            (most + 1).to_string(),
            u64::MAX.to_string(),
            "18446744073709551616".to_owned(),
            "-1".to_owned(),
        ];
        for value in outside.into_iter().chain(below) {
            let expected =
                format!("setting `{name}` must be a whole number from {least} to {most}, not `{value}`");
            assert_eq!(line(&value), expected);
        }
        for value in [least, most] {
            let faults =
                settings(&[(&name.to_uppercase(), &value.to_string())]).map(drop).err().unwrap_or_default();
            assert!(!faults.iter().any(|fault| fault.contains("a whole number")), "{faults:?}");
        }
    }
    assert!(
        settings(&[("CONNECTIONS_MAX", "8")]).unwrap_err()[0]
            .contains("must not be more than `connections_max`")
    );
}

#[test]
fn allowed_origins_refuses_wildcards_null_and_paths() {
    assert!(settings(&[("ALLOWED_ORIGINS", "https://console.example,http://localhost:3000")]).is_ok());
    for wrong in ["*", "null", "console.example", "https://console.example/"] {
        let faults = settings(&[("ALLOWED_ORIGINS", wrong)]).unwrap_err();
        assert!(
            faults.len() == 1 && faults[0].starts_with("setting `allowed_origins` must be origins"),
            "{faults:?}"
        );
    }
}

#[test]
fn node_key_is_a_file_or_a_passphrase_but_not_both() {
    let key = |variables: &[(&str, &str)]| settings(variables).map(|settings| settings.nodes.key);
    assert_eq!(key(&[]), Ok(KekSource::File("data/nodes/node.key".into())));
    assert_eq!(key(&[("NODE_DIRECTORY", "n")]), Ok(KekSource::File("n/node.key".into())));
    assert_eq!(key(&[("NODE_KEY", "k")]), Ok(KekSource::File("k".into())));
    assert_eq!(key(&[("NODE_PASSPHRASE_FILE", "p")]), Ok(KekSource::Passphrase("p".into())));
    let line = "setting `node_passphrase_file` must not be given together with `node_key`";
    let both = key(&[("NODE_KEY", "k"), ("NODE_PASSPHRASE_FILE", "p")]);
    assert_eq!(both, Err(vec![line.to_owned()]));
}

#[test]
fn log_origin_with_white_space_plus_or_invisible_characters_is_refused() {
    let origin = |name: &str| settings(&[("LOG_ORIGIN", name)]).map(|settings| settings.log_origin);
    assert_eq!(origin("bank.example/log").unwrap().as_str(), "bank.example/log");
    assert!(origin(&"x".repeat(255)).is_ok());
    for wrong in ["a b", "a+b", "a\u{a0}b", "a\u{202e}b", "a\u{200b}b", "a\u{0}b", &"x".repeat(256)] {
        let faults = origin(wrong).unwrap_err();
        assert!(faults.len() == 1 && faults[0].contains("log_origin"), "{faults:?}");
    }
    // Other faults are reported with it.
    assert_eq!(settings(&[("LOG_ORIGIN", ""), ("LOG_FORMAT", "")]).unwrap_err().len(), 2);
}

#[test]
fn production_refuses_development_conveniences() {
    let given = [&PRODUCTION[..], &[EXCEPTIONS]].concat();
    let faults = settings(&[&given[..], &[("AUTH_MODE", "bypass")]].concat()).unwrap_err();
    assert_eq!(faults, ["setting `auth_mode` must not be `bypass` in production"]);
    let any = ("SIGNATURE_PROFILE_ALIASES", "*=frost-ed25519-sha512");
    let faults = settings(&[&given[..], &[("AUTH_MODE", "bypass"), any]].concat()).unwrap_err();
    assert_eq!(faults.len(), 2, "{faults:?}");
    let faults = settings(&[("PROFILE", "production"), EXCEPTIONS]).unwrap_err();
    assert_eq!(faults.len(), 5, "{faults:?}");
    let headers = [("AUTH_MODE", "trusted_headers"), ("TRUSTED_PROXIES", "10.0.0.1")];
    assert!(settings(&[&given[..], &headers].concat()).is_ok());
    let none = ("REQUIRED_APPROVALS", "0");
    let faults = settings(&[&given[..], &headers, &[none]].concat()).unwrap_err();
    assert_eq!(faults, ["setting `required_approvals` must be at least 1 in production"]);
    // Faults of an incomplete mode and of other settings are reported together.
    let faults = settings(&[&given[..], &[("AUTH_MODE", "jwks"), none]].concat()).unwrap_err();
    assert_eq!(faults.len(), 4, "{faults:?}");
}

#[test]
fn production_refuses_an_unauthenticated_database_server_and_embedded_nodes_of_replicas() {
    let headers = [("AUTH_MODE", "trusted_headers"), ("TRUSTED_PROXIES", "10.0.0.1"), EXCEPTIONS];
    let faults_of = |url: &str| {
        settings(&[&PRODUCTION[..], &headers, &[("DATABASE_URL", url)]].concat()).err().unwrap_or_default()
    };
    let embedded = "setting `runtime_nodes` must be given with a PostgreSQL database: each replica would have other embedded nodes";
    assert_eq!(faults_of("sqlite://data/gateway.db"), [""; 0]);
    assert_eq!(faults_of("postgres://gateway@db.example/gateway?sslmode=verify-full"), [embedded]);
    let unverified =
        "setting `database_url` must have `sslmode=verify-full`, since its server is another machine";
    assert_eq!(faults_of("postgres://gateway@db.example/gateway"), [unverified, embedded]);
    let faults = faults_of("postgres://gateway:secret@127.0.0.1/gateway");
    assert!(faults[0].starts_with("setting `database_url` must not have a password"), "{faults:?}");
    assert!(!faults.join("").contains("secret"));
    assert!(settings(&[("DATABASE_URL", "postgres://gateway:secret@db.example/gateway")]).is_ok());
}

#[test]
fn production_must_name_each_exception_that_applies_and_no_other() {
    let faults_of = |more: &[(&str, &str)]| {
        let headers = [("AUTH_MODE", "trusted_headers"), ("TRUSTED_PROXIES", "10.0.0.1")];
        settings(&[&PRODUCTION[..], &headers, more].concat()).err().unwrap_or_default()
    };
    let signed = [("SIGNED_APPROVALS", "required"), ("APPROVERS_FILE", "a")];
    let embedded = ("PRODUCTION_EXCEPTIONS", "embedded_authority,embedded_nodes");
    assert_eq!(faults_of(&[EXCEPTIONS]), [""; 0]);
    assert_eq!(faults_of(&[signed[0], signed[1], embedded]), [""; 0]);
    assert_eq!(faults_of(&[]).len(), 3, "unsigned, and nodes and authority in one process");
    let unsigned = "setting `production_exceptions` must name `unsigned_approvals`: production requires `signed_approvals=required`";
    assert_eq!(faults_of(&[embedded]), [unsigned]);
    assert_eq!(faults_of(&[("SIGNED_APPROVALS", "optional"), signed[1], embedded]), [unsigned]);
    let needless =
        "setting `production_exceptions` must not name `unsigned_approvals`: these settings do not need it";
    assert_eq!(faults_of(&[signed[0], signed[1], EXCEPTIONS]), [needless]);
    let unknown = faults_of(&[("PRODUCTION_EXCEPTIONS", "everything")]);
    assert!(
        unknown[0].ends_with(
            "must be names among embedded_authority, embedded_nodes, unsigned_approvals, not `everything`"
        ),
        "{unknown:?}"
    );
    let development = settings(&[EXCEPTIONS]).unwrap_err();
    assert_eq!(development, ["setting `production_exceptions` must be empty in development"]);
}

#[test]
fn flag_wins_over_environment_over_file_and_unknown_names_are_reported() {
    let flags = BTreeMap::from([("bind".to_owned(), "127.0.0.1:1".to_owned())]);
    let environment = [("SVC_OPERATION_GATEWAY_BIND".to_owned(), "127.0.0.1:2".to_owned())];
    let file = "bind = \"127.0.0.1:3\"\nrequired_approvals = 5";
    let settings = Settings::parse(&resolve(&flags, environment, Some(file)).unwrap()).unwrap();
    assert_eq!((settings.server.bind.port(), settings.approvals.required), (1, 5));
    let unknown = [("SVC_OPERATION_GATEWAY_BLIND".to_owned(), String::new())];
    assert!(resolve(&flags, unknown, Some("colour = 1")).unwrap_err().len() == 2);
    assert!(resolve(&flags, [], Some("bind = [1]")).is_err() && resolve(&flags, [], Some("=")).is_err());
}

#[test]
fn variables_of_a_service_with_the_programs_name_are_no_settings() {
    let given = |name: &str, value: &str| {
        let variable = (format!("SVC_OPERATION_GATEWAY_{name}"), value.to_owned());
        resolve(&BTreeMap::new(), [variable], None)
    };
    for (name, value) in [
        ("PORT", "tcp://10.0.171.239:9200"),
        ("PORT_9200_TCP", "tcp://10.0.171.239:9200"),
        ("PORT_9200_TCP_PROTO", "tcp"),
        ("PORT_9200_TCP_PORT", "9200"),
        ("PORT_9200_TCP_ADDR", "10.0.171.239"),
        ("SERVICE_HOST", "10.0.171.239"),
        ("SERVICE_PORT", "9200"),
        ("SERVICE_PORT_HTTP", "9200"),
    ] {
        given(name, value).unwrap_or_else(|faults| panic!("{name}: {faults:?}"));
    }
    for (name, value) in [
        ("PORT", "9200"),
        ("PORTS", "tcp://10.0.171.239:9200"),
        ("PORT_HTTP", "9200"),
        ("SERVICE_PORT", "http"),
        ("SERVICE_HOST", "gateway"),
    ] {
        assert_eq!(given(name, value).unwrap_err().len(), 1, "{name}");
    }
}

#[test]
fn a_setting_of_the_file_may_stand_in_the_table_of_its_section() {
    let read =
        |file: &str| resolve(&BTreeMap::new(), [], Some(file)).map(|all| all.text("node_count").to_owned());
    assert_eq!(read("node_count = 5"), Ok("5".to_owned()));
    assert_eq!(read("[nodes]\nnode_count = 5\n[tls]\ntls = \"off\""), Ok("5".to_owned()));
    let elsewhere = "settings file: `node_count` in `[tls]` names no setting".to_owned();
    assert_eq!(read("[tls]\nnode_count = 5"), Err(vec![elsewhere]));
    let twice = "settings file: `node_count` is given twice".to_owned();
    assert_eq!(read("node_count = 5\n[nodes]\nnode_count = 5"), Err(vec![twice]));
    let unknown = "settings file: `elsewhere` must be a string, an integer or a boolean".to_owned();
    assert_eq!(read("[elsewhere]\nnode_count = 5"), Err(vec![unknown]));
}

#[test]
fn production_defaults_and_first_settings_name_settings_and_differ_from_development() {
    let find = |name: &str| TABLE.all().find(|setting| setting.name == name).unwrap();
    for (name, production) in PRODUCTION_DEFAULTS {
        assert_ne!(Some(find(name).default), *production, "{name}");
    }
    for name in FIRST {
        find(name);
    }
}

#[test]
fn tls_settings_are_complete_or_absent() {
    use gateway_service::transport::ClientAuth;
    let tls = |variables: &[(&str, &str)]| settings(variables).map(|settings| settings.tls.files);
    let line = |variables: &[(&str, &str)]| {
        let faults = tls(variables).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults[0].clone()
    };
    let (certificate, key) = (("TLS_CERTIFICATE", "c"), ("TLS_KEY", "k"));
    assert_eq!(tls(&[]), Ok(None));
    assert_eq!(tls(&[("TLS", "off")]), Ok(None));
    for mode in ["auto", "on"] {
        let files = tls(&[("TLS", mode), certificate, key]).unwrap().unwrap();
        assert_eq!(files.clients, ClientAuth::Off);
        assert_eq!((files.certificate.to_str(), files.key.to_str()), (Some("c"), Some("k")));
        assert!(line(&[("TLS", mode), certificate]).contains("needs both"));
        assert!(line(&[("TLS", mode), key]).contains("needs both"));
    }
    assert!(line(&[("TLS", "on")]).contains("needs both"));
    assert!(line(&[("TLS", "off"), certificate, key]).contains("must not be `off`"));
    let (optional, required) = (("TLS_CLIENT_AUTH", "optional"), ("TLS_CLIENT_AUTH", "required"));
    let authorities = ("TLS_CLIENT_CA", "a");
    let files = tls(&[certificate, key, optional, authorities]).unwrap().unwrap();
    assert_eq!(files.clients, ClientAuth::Optional("a".into()));
    let files = tls(&[certificate, key, required, authorities]).unwrap().unwrap();
    assert_eq!(files.clients, ClientAuth::Required("a".into()));
    assert!(line(&[certificate, key, required]).contains("`tls_client_ca` must be given"));
    assert!(line(&[certificate, key, authorities]).contains("`tls_client_ca` must not be given"));
    assert!(line(&[required, authorities]).contains("`tls_client_auth` must be `off` without TLS"));
}

#[test]
fn production_refuses_plain_http_beyond_loopback_unless_tls_is_off() {
    let given = [&PRODUCTION[..], &[("AUTH_MODE", "jwks")]].concat();
    // Ignores faults of other settings.
    let is_refused = |bind: &str, more: &[(&str, &str)]| {
        let faults = settings(&[&given[..], &[("BIND", bind)], more].concat()).err().unwrap_or_default();
        faults.iter().any(|fault| fault.starts_with("setting `tls` must be `off` for plain HTTP"))
    };
    for bind in ["0.0.0.0:9200", "[::]:9200", "10.0.0.1:9200", "[2001:db8::1]:9200", "[::ffff:10.0.0.1]:9200"]
    {
        assert!(is_refused(bind, &[]), "{bind}");
        assert!(!is_refused(bind, &[("TLS", "off")]), "{bind}");
        assert!(!is_refused(bind, &[("TLS_CERTIFICATE", "c"), ("TLS_KEY", "k")]), "{bind}");
    }
    for bind in ["127.0.0.1:9200", "127.8.8.8:9200", "[::1]:9200", "[::ffff:127.0.0.1]:9200"] {
        assert!(!is_refused(bind, &[]), "{bind}");
    }
    assert!(settings(&[("BIND", "0.0.0.0:9200")]).is_ok(), "development may");
}

#[test]
fn limits_of_connections_and_requests_must_fit_each_other() {
    let line = |variables: &[(&str, &str)]| {
        let faults = settings(variables).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults[0].clone()
    };
    let Settings { server, limits, .. } = settings(&[]).unwrap();
    assert_eq!((limits.connections_max, limits.connections_per_address_max), (1024, 256));
    assert!(limits.handshake_within < server.request_within && server.body_within < server.request_within);
    assert!(line(&[("CONNECTIONS_MAX", "255")]).contains("connections_per_address_max"));
    assert!(settings(&[("CONNECTIONS_MAX", "256")]).is_ok());
    assert!(line(&[("CONNECTIONS_MAX", "0")]).contains("connections_max"));
    assert!(line(&[("REQUEST_WITHIN_MS", "30000")]).contains("request_within_ms"));
    assert!(settings(&[("REQUEST_WITHIN_MS", "30001")]).is_ok());
    assert!(line(&[("BODY_WITHIN_MS", "60000")]).contains("request_within_ms"));
    assert!(line(&[("ADMIN_BIND", "127.0.0.1:9200")]).contains("another address than `bind`"));
    assert!(line(&[("ADMIN_BIND", "here")]).contains("admin_bind"));
    assert!(settings(&[("ADMIN_BIND", "127.0.0.1:9201")]).is_ok());
}

#[test]
fn earlier_authority_keys_must_be_public_keys() {
    let keys =
        |text: &str| settings(&[("AUTHORITY_KEYS_PREVIOUS", text)]).map(|it| it.authority.keys_previous);
    let (one, two) = ("ab".repeat(32), "cd".repeat(32));
    assert_eq!(keys(""), Ok(vec![]));
    assert_eq!(keys(&format!(" {one} ,{two},")).unwrap().len(), 2);
    for wrong in ["x", &one[1..], &format!("{one} {two}"), &one.to_uppercase()] {
        let faults = keys(wrong).unwrap_err();
        assert!(faults.len() == 1 && faults[0].contains("authority_keys_previous"), "{faults:?}");
    }
}

#[test]
fn production_names_an_authority_in_this_process_or_in_its_own() {
    let without = |more: &[(&str, &str)]| {
        let kept = PRODUCTION.iter().filter(|(name, _)| *name != "AUTHORITY_KEY");
        let jwks = [("AUTH_MODE", "trusted_headers"), ("TRUSTED_PROXIES", "127.0.0.1")];
        settings(&kept.chain(&jwks).chain(&[EXCEPTIONS]).chain(more).copied().collect::<Vec<_>>())
    };
    let faults = without(&[]).unwrap_err();
    assert_eq!(faults, ["setting `authority_key` must be given, or `authority_url`"]);
    let key = "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29";
    let remote = [
        ("AUTHORITY_URL", "https://authority.example:9400"),
        ("AUTHORITY_PUBLIC_KEY", key),
        ("SERVICE_TLS_CERTIFICATE", "c"),
        ("SERVICE_TLS_KEY", "k"),
        ("SERVICE_TLS_CA", "a"),
        ("PRODUCTION_EXCEPTIONS", "unsigned_approvals,embedded_nodes"),
    ];
    assert!(without(&remote).unwrap().authority.remote.len() == 1);
    let both = [&remote[..], &[("AUTHORITY_KEY", "k")]].concat();
    let faults = without(&both).unwrap_err();
    let expected =
        "setting `authority_key` must not be given together with `authority_url`, which has a key of its own";
    assert_eq!(faults, [expected]);
}

#[test]
fn authorities_have_different_keys_and_a_threshold_up_to_their_number() {
    let (one, two) = ("ab".repeat(32), "cd".repeat(32));
    let (both, same) = (format!("{one},{two}"), format!("{one},{one}"));
    let urls = "https://one.example:9400,https://two.example:9400";
    let authority = |urls: &str, keys: &str, threshold: &str| {
        let services = ["CERTIFICATE", "KEY", "CA"].map(|name| format!("SERVICE_TLS_{name}"));
        let mut given: Vec<_> = services.iter().map(|name| (name.as_str(), "f")).collect();
        given.extend([
            ("AUTHORITY_URL", urls),
            ("AUTHORITY_PUBLIC_KEY", keys),
            ("AUTHORITY_THRESHOLD", threshold),
        ]);
        settings(&given).map(|it| (it.authority.remote.len(), it.authority.threshold))
    };
    assert_eq!(authority(urls, &both, "2"), Ok((2, 2)));
    for (urls, keys, threshold, fault) in [
        (urls, both.as_str(), "3", "authority_threshold"),
        (urls, &both, "0", "authority_threshold"),
        (urls, &same, "2", "authority_public_key"),
        (urls, &one, "1", "authority_public_key"),
        ("https://one.example:9400", &both, "1", "authority_public_key"),
        ("one", &one, "1", "authority_url"),
    ] {
        let faults = authority(urls, keys, threshold).unwrap_err();
        assert!(faults[0].contains(&format!("`{fault}`")), "{urls} {keys} {threshold}: {faults:?}");
    }
    assert!(settings(&[("AUTHORITY_THRESHOLD", "2")]).is_err(), "there is one in this process");
}
