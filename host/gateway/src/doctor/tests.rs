use super::*;
use crate::settings;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

/// A deployment in a folder of its own, in the development profile.
struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>, mode: u32) -> String {
        fs::write(self.path(name), content).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
        self.path(name)
    }

    /// Writes a certificate that signs itself, with its key. Returns both files.
    fn certificate(&self, name: &str, (year, month, day): (i32, u8, u8)) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![format!("{name}.localhost")]).unwrap();
        params.not_after = date_time_ymd(year, month, day);
        let certificate = params.self_signed(&key).unwrap();
        let certificate = self.write(&format!("{name}.pem"), certificate.pem(), 0o644);
        (certificate, self.write(&format!("{name}.key"), key.serialize_pem(), 0o600))
    }

    /// The warnings and errors with these settings, as level, part and text, with the folder as `FOLDER`.
    async fn findings(&self, given: &[(&str, &str)]) -> Vec<String> {
        let bundles = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bundles");
        let mut flags: BTreeMap<String, String> = [
            ("database_url", format!("sqlite://{}", self.path("gateway.db"))),
            ("node_directory", self.path("nodes")),
            ("authority_key", self.path("authority.key")),
            ("log_key", self.path("log.key")),
            ("policy_bundle", format!("{bundles}/payment-guard")),
            ("policy_trust_roots", format!("{bundles}/trust-development.json")),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        flags.extend(given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let settings = Settings::parse(&settings::resolve(&flags, [], None).unwrap()).unwrap();
        let found = check(&settings, gateway_service::now()).await;
        let found = found.into_iter().filter(|finding| finding.level != Level::Ok);
        let line = |finding: Finding| {
            assert!(!finding.action.is_empty(), "{finding:?}");
            let line = format!("{} {}: {}", finding.level.as_str(), finding.part, finding.what);
            line.replace(self.0.path().to_str().unwrap(), "FOLDER")
        };
        found.map(line).collect()
    }

    /// The errors with these settings.
    async fn errors(&self, given: &[(&str, &str)]) -> Vec<String> {
        let mut found = self.findings(given).await;
        found.retain(|line| line.starts_with("error "));
        found
    }
}

#[tokio::test]
async fn new_deployment_has_only_warnings_and_nothing_is_created() {
    let world = World::new();
    assert_eq!(
        world.findings(&[]).await,
        [
            "warning settings: the development profile has unsafe defaults, and its gateway may not authenticate callers",
            "warning keys: `authority_key`: the file `FOLDER/authority.key` does not exist yet",
            "warning keys: `log_key`: the file `FOLDER/log.key` does not exist yet",
            "warning keys: `node_key`: the file `FOLDER/nodes/node.key` does not exist yet",
            "warning database: the database does not exist yet",
        ]
    );
    assert_eq!(fs::read_dir(world.0.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn exposed_and_shared_keys_are_errors() {
    let world = World::new();
    world.write("authority.key", [1; 32], 0o600);
    world.write("log.key", [1; 32], 0o600);
    assert_eq!(world.errors(&[]).await, ["error keys: log key: must be another key than the authority's"]);
    world.write("log.key", [2; 32], 0o644);
    let exposed = "error keys: `log_key`: the file `FOLDER/log.key` has mode 0644; it must be 0600 or 0400, or 0640 or 0440 if root owns it and this process is not root's";
    assert_eq!(world.errors(&[]).await, [exposed]);
}

#[tokio::test]
async fn missing_node_key_is_an_error_while_nodes_have_databases() {
    let world = World::new();
    fs::create_dir(world.path("nodes")).unwrap();
    world.write("nodes/node-0.db", "", 0o600);
    let errors = world.errors(&[]).await;
    assert!(
        errors.iter().any(|line| line.starts_with("error keys: the key of the embedded nodes: ")),
        "{errors:?}"
    );
    assert!(!Path::new(&world.path("nodes/node.key")).exists());
}

#[tokio::test]
async fn unusable_policy_registry_and_database_are_errors() {
    let world = World::new();
    let (roots, registry) = (world.write("roots.json", "{}", 0o600), world.path("approvers.json"));
    let database = world.write("gateway.db", "not a database, but a text that is long enough", 0o600);
    let given = [
        ("policy_trust_roots", roots.as_str()),
        ("signed_approvals", "required"),
        ("approvers_file", registry.as_str()),
        ("database_url", database.as_str()),
    ];
    let errors = world.errors(&given).await;
    let parts: Vec<_> = errors.iter().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(parts, ["error policy", "error approvers", "error database"], "{errors:?}");
}

#[tokio::test]
async fn certificates_that_end_soon_are_warned_of_and_expired_ones_are_errors() {
    let world = World::new();
    let (certificate, key) = world.certificate("old", (2001, 2, 3));
    let errors = world.errors(&[("tls_certificate", &certificate), ("tls_key", &key)]).await;
    assert_eq!(errors, ["error certificates: a certificate in `FOLDER/old.pem` has expired"]);

    let (certificate, _) = world.certificate("new", (2031, 2, 3));
    let ends = first_end(Path::new(&certificate)).unwrap();
    assert_eq!(ends, EpochMs(1_927_843_200_000));
    for (n_days, expected) in [(31, Level::Ok), (29, Level::Warning), (0, Level::Error)] {
        let settings = Settings::parse(&settings::resolve(&BTreeMap::new(), [], None).unwrap()).unwrap();
        let now = EpochMs(ends.0 - n_days * DAY_MS);
        let mut doctor = Doctor { settings: &settings, now, findings: Vec::new() };
        doctor.certificate(Path::new(&certificate));
        let levels: Vec<_> = doctor.findings.iter().map(|finding| finding.level).collect();
        assert_eq!(levels, [expected], "{n_days}");
    }
}

#[tokio::test]
async fn clocks_that_differ_are_findings() {
    let settings = Settings::parse(&settings::resolve(&BTreeMap::new(), [], None).unwrap()).unwrap();
    for (differs_ms, expected) in [
        (0, None),
        (CLOCKS_DIFFER_MS + 5_000, Some(Level::Warning)),
        (CLOCK_SKEW_MS + 5_000, Some(Level::Error)),
    ] {
        let now = gateway_service::now();
        let mut doctor = Doctor { settings: &settings, now, findings: Vec::new() };
        doctor.clock("node 0".to_owned(), EpochMs(now.0 + differs_ms));
        assert_eq!(doctor.findings.first().map(|finding| finding.level), expected, "{differs_ms}");
    }
}

#[test]
fn invalid_settings_are_findings_and_other_processes_texts_stay_on_their_line() {
    let findings = [setting_fault("setting `bind` must be\n\u{1b}[2K an address".to_owned())];
    let text = lines(&findings, false).unwrap().as_str().to_owned();
    assert_eq!(text.lines().count(), 2);
    assert!(
        text.starts_with("error    settings        setting `bind` must be\\u{a}\\u{1b}[2K an address\n"),
        "{text}"
    );
    assert!(text.contains("-> correct the setting"));

    let parsed: Value = serde_json::from_str(lines(&findings, true).unwrap().as_str()).unwrap();
    assert_eq!(parsed["findings"][0]["level"], "error");
    assert_eq!(parsed["findings"][0]["part"], "settings");
}

#[tokio::test]
async fn witness_policy_and_kept_checkpoint_are_read() {
    let world = World::new();
    let kept = world.path("log.checkpoint");
    let key = "witness.example/w1+df1c0a35+BIE5dw6ofRdfVqNUZsNMfszLjYqRtO43ol32D1uPybOU";
    let good = world.write("good", format!("witness a {key} https://w.example\nquorum a\n"), 0o644);
    let wrong = world.write("wrong", format!("witness a {key} https://w.example\nquorum b\n"), 0o644);
    let findings = async |policy: &str| {
        let mut found = world.findings(&[("witness_policy", policy), ("witnessed_checkpoint", &kept)]).await;
        found.retain(|line| line.contains(" witnesses: "));
        found
    };
    assert_eq!(findings(&good).await, ["warning witnesses: there is no witnessed checkpoint yet"]);
    let line = "error witnesses: witness policy `FOLDER/wrong`: line 2: no earlier line defines `b`";
    assert_eq!(findings(&wrong).await, [line]);
    world.write("log.checkpoint", "x", 0o600);
    let found = findings("").await;
    assert!(
        found.len() == 1 && found[0].starts_with("error witnesses: witnessed checkpoint `FOLDER/"),
        "{found:?}"
    );
}

#[tokio::test]
async fn what_the_running_gateway_cannot_do_is_an_error() {
    for (answer, expected) in [
        (r#"{"status":"ready","checks":{"store":{"status":"ok"}}}"#, vec![]),
        (
            r#"{"status":"not_ready","checks":{"store":{"status":"ok"},"audit_append":{"status":"failed","detail":"the disk is full"}}}"#,
            vec!["error gateway: the running gateway's check `audit_append` fails: the disk is full"],
        ),
        (
            "hello",
            vec![
                "error gateway: the address of the gateway does not answer as one: it answers with 503 Service Unavailable",
            ],
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let text = format!(
            "HTTP/1.1 503 Service Unavailable\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{answer}",
            answer.len()
        );
        let server = std::thread::spawn(move || {
            // The first connection only finds out whether it listens.
            drop(listener.accept().unwrap());
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            assert!(stream.read(&mut request).unwrap() > 0);
            stream.write_all(text.as_bytes()).unwrap();
        });
        let found = World::new().findings(&[("bind", &address)]).await;
        let found: Vec<_> = found.iter().filter(|line| line.contains(" gateway: ")).collect();
        assert_eq!(found, expected.iter().collect::<Vec<_>>(), "{answer}");
        server.join().unwrap();
    }
}
