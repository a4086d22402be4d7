//! TLS: which clients are accepted, and how certificates are reloaded.

use crate::harness::certificates::{Authority, Certified};
use crate::harness::process::{Process, command, request};
use crate::harness::samples::payment;
use crate::harness::tls::{Files, Trust, connect};
use crate::harness::wire::{answer, ask, eventually, rest};
use rustls::HandshakeKind;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn client(authority: &Authority) -> Certified {
    authority.client("treasury", "Acme")
}

fn expired(authority: &Authority) -> Certified {
    authority.client_until(2001, "treasury", "Acme")
}

/// Whether a request on a new connection is answered.
fn is_served(process: &Process, authority: &Authority, shown: Option<&Certified>) -> bool {
    let mut stream = connect(&process.address, &Trust::new(authority, shown)).unwrap();
    ask(&mut stream, "/healthz").is_ok_and(|(status, _)| status == 200)
}

#[test]
fn required_client_certificate_must_be_of_the_authority() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, others) = (Authority::new("ours"), Authority::new("theirs"));
    let files = Files::write(folder.path(), &ours.server(), &ours);
    let process = Process::start(folder.path(), None, &files.settings("required"));
    assert!(is_served(&process, &ours, Some(&client(&ours))));
    assert!(!is_served(&process, &ours, None));
    assert!(!is_served(&process, &ours, Some(&client(&others))));
    assert!(!is_served(&process, &ours, Some(&expired(&ours))), "expired");
    assert!(is_served(&process, &ours, Some(&client(&ours))));
}

#[test]
fn optional_client_certificate_of_another_authority_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, others) = (Authority::new("ours"), Authority::new("theirs"));
    let files = Files::write(folder.path(), &ours.server(), &ours);
    let process = Process::start(folder.path(), None, &files.settings("optional"));
    assert!(is_served(&process, &ours, None) && is_served(&process, &ours, Some(&client(&ours))));
    assert!(!is_served(&process, &ours, Some(&client(&others))));
    assert!(!is_served(&process, &ours, Some(&expired(&ours))), "expired");
}

/// A resumed session brings the earlier certificate back without a check that it is still valid.
#[test]
fn client_certificate_is_verified_on_every_connection() {
    let ours = Authority::new("ours");
    for (clients, again) in [
        ("off", HandshakeKind::Resumed),
        ("optional", HandshakeKind::Full),
        ("required", HandshakeKind::Full),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::write(folder.path(), &ours.server(), &ours);
        let process = Process::start(folder.path(), None, &files.settings(clients));
        let trust = Trust::new(&ours, Some(&client(&ours)));
        let handshake = || {
            let mut stream = connect(&process.address, &trust).unwrap();
            assert_eq!(ask(&mut stream, "/healthz").unwrap().0, 200);
            stream.conn.handshake_kind().unwrap()
        };
        assert_eq!([handshake(), handshake()], [HandshakeKind::Full, again], "{clients}");
    }
}

#[test]
fn payment_is_published_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, others) = (Authority::new("ours"), Authority::new("theirs"));
    let files = Files::write(folder.path(), &ours.server(), &ours);
    let process = Process::start(folder.path(), None, &files.settings("off"));
    assert!(is_served(&process, &ours, None));
    assert!(!is_served(&process, &others, None), "a client that trusts another authority does not connect");
    let mut stream = connect(&process.address, &Trust::new(&ours, None)).unwrap();
    let body = payment("encrypted").to_string();
    let head = "POST /v1/operations/sign HTTP/1.1\r\nhost: gateway\r\ncontent-length:";
    write!(stream, "{head} {}\r\n\r\n{body}", body.len()).unwrap();
    let (status, submitted) = answer(&mut stream).unwrap();
    assert_eq!((status, submitted["operation"]["state"].as_str()), (200, Some("pending_approval")));
    // Keep-alive: the same connection again.
    assert_eq!(ask(&mut stream, "/healthz").unwrap().0, 200);
}

#[test]
fn plain_http_and_silent_clients_get_nothing_from_a_tls_port() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    let files = Files::write(folder.path(), &ours.server(), &ours);
    let given = [files.settings("off"), vec![("tls_handshake_within_ms", "700")]].concat();
    let process = Process::start(folder.path(), None, &given);
    let plain = request(&process.address, "GET", "/healthz", None);
    assert!(plain.is_err(), "{plain:?}");
    // Cut off at the handshake deadline.
    let mut silent = TcpStream::connect(&process.address).unwrap();
    assert_eq!(rest(&mut silent), "");
    let mut half = TcpStream::connect(&process.address).unwrap();
    half.write_all(b"\x16\x03\x01\x02\x00").unwrap();
    assert_eq!(rest(&mut half), "");
    // A client whose handshake exceeds the deadline tries again.
    eventually("a TLS client is served", || is_served(&process, &ours, None));
}

#[test]
fn sighup_reloads_certificates_and_keeps_connections() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::new("ours"), Authority::new("theirs"));
    let files = Files::write(folder.path(), &old.server(), &old);
    let mut process = Process::start(folder.path(), None, &files.settings("required"));
    let treasury = client(&old);
    let mut open = connect(&process.address, &Trust::new(&old, Some(&treasury))).unwrap();
    assert_eq!(ask(&mut open, "/healthz").unwrap().0, 200);

    Files::write(folder.path(), &new.server(), &new);
    assert!(is_served(&process, &old, Some(&treasury)), "not reloaded yet");
    process.sighup();
    process.wait_for_line("reloaded certificates");
    assert!(!is_served(&process, &old, Some(&treasury)), "the old authority's clients are out");
    assert!(is_served(&process, &new, Some(&client(&new))));
    assert_eq!(ask(&mut open, "/healthz").unwrap().0, 200, "open connections stay");

    // Unusable files change nothing.
    fs::write(&files.certificate, "-----BEGIN CERTIFICATE-----\nAAAA\n").unwrap();
    process.sighup();
    process.wait_for_line("could not reload certificates");
    assert!(is_served(&process, &new, Some(&client(&new))));
}

/// The one-line error of a start that must fail.
fn refused(folder: &Path, given: &[(&str, &str)]) -> String {
    let output = command(folder, given).output().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("operation-gateway: ")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(!folder.join("gateway.db").exists(), "something was written");
    lines[0].replace(folder.to_str().unwrap(), "FOLDER")
}

#[test]
fn invalid_tls_identities_stop_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    let identity = ours.server();
    let files = Files::write(folder.path(), &identity, &ours);
    let start = |clients: &str| refused(folder.path(), &files.settings(clients));
    let key = |content: &str, mode| {
        fs::set_permissions(&files.key, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&files.key, content).unwrap();
        fs::set_permissions(&files.key, fs::Permissions::from_mode(mode)).unwrap();
    };
    let prefix = "operation-gateway: tls:";
    key(&identity.key_pem(), 0o640);
    let exposed =
        "the private key cannot be read: the file `FOLDER/tls.key` has mode 0640; it must be 0600 or 0400";
    assert_eq!(start("off"), format!("{prefix} {exposed}"));
    key("no key", 0o600);
    assert_eq!(start("off"), format!("{prefix} the file `FOLDER/tls.key` has no PEM private key"));
    key(&ours.server().key_pem(), 0o600);
    let line = start("off");
    assert!(line.starts_with(&format!("{prefix} certificate and private key cannot be used: ")), "{line}");
    key(&identity.key_pem(), 0o600);
    fs::write(&files.clients, "nobody").unwrap();
    let line = start("required");
    assert_eq!(line, format!("{prefix} the file `FOLDER/clients.pem` is not a list of PEM certificates"));
    fs::remove_file(&files.certificate).unwrap();
    assert!(start("off").contains("the file `FOLDER/tls.pem` cannot be read"));
    fs::create_dir(&files.certificate).unwrap();
    assert!(start("off").contains("`FOLDER/tls.pem` is not a list of PEM certificates"));
}
