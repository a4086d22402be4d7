//! TLS: accepted and refused clients, reloaded certificates, invalid files.

use crate::harness::certificates::{Authority, Certified};
use crate::harness::process::{Process, SECRET_MODES, request};
use crate::harness::samples::payment;
use crate::harness::secrets::make_private;
use crate::harness::tls::{Files, Trust, connect};
use crate::harness::wire::{eventually, get_on, read_answer, read_to_end};
use rustls::HandshakeKind;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

fn client(authority: &Authority) -> Certified {
    authority.client("treasury", "Acme")
}

fn expired(authority: &Authority) -> Certified {
    authority.client_until(2001, "treasury", "Acme")
}

/// Whether a request on a new connection is answered, to a client with this certificate that trusts `authority`.
fn is_served(process: &Process, authority: &Authority, client: Option<&Certified>) -> bool {
    let mut stream = connect(&process.address, &Trust::new(authority, client)).unwrap();
    get_on(&mut stream, "/healthz").is_ok_and(|(status, _)| status == 200)
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

/// A resumed session would bring back the client's earlier certificate without a new verification.
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
            assert_eq!(get_on(&mut stream, "/healthz").unwrap().0, 200);
            stream.conn.handshake_kind().unwrap()
        };
        assert_eq!([handshake(), handshake()], [HandshakeKind::Full, again], "{clients}");
    }
}

#[test]
fn payment_is_submitted_over_tls() {
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
    let (status, submitted) = read_answer(&mut stream).unwrap();
    assert_eq!((status, submitted["operation"]["state"].as_str()), (200, Some("pending_approval")));
    // The connection stays open for a second request.
    assert_eq!(get_on(&mut stream, "/healthz").unwrap().0, 200);
}

#[test]
fn clients_without_tls_get_nothing_from_a_tls_port() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    let files = Files::write(folder.path(), &ours.server(), &ours);
    let overrides = [files.settings("off"), vec![("tls_handshake_within_ms", "700")]].concat();
    let process = Process::start(folder.path(), None, &overrides);
    let plain = request(&process.address, "GET", "/healthz", None);
    assert!(plain.is_err(), "{plain:?}");
    // No handshake, and half of one: the gateway closes the connection at the handshake deadline.
    for sent in [&b""[..], b"\x16\x03\x01\x02\x00"] {
        let mut stream = TcpStream::connect(&process.address).unwrap();
        stream.write_all(sent).unwrap();
        assert_eq!(read_to_end(&mut stream), "");
    }
    // On a busy machine a handshake may take longer than the deadline, so the client tries again.
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
    assert_eq!(get_on(&mut open, "/healthz").unwrap().0, 200);

    Files::write(folder.path(), &new.server(), &new);
    assert!(is_served(&process, &old, Some(&treasury)), "not reloaded yet");
    process.sighup();
    process.wait_for_line("reloaded certificates");
    assert!(!is_served(&process, &old, Some(&treasury)), "clients of the old authority are refused");
    assert!(is_served(&process, &new, Some(&client(&new))));
    assert_eq!(get_on(&mut open, "/healthz").unwrap().0, 200, "open connections stay");

    // Invalid files change nothing.
    fs::write(&files.certificate, "-----BEGIN CERTIFICATE-----\nAAAA\n").unwrap();
    process.sighup();
    process.wait_for_line("could not reload certificates");
    assert!(is_served(&process, &new, Some(&client(&new))));
}

#[test]
fn invalid_tls_identities_prevent_startup() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    let identity = ours.server();
    let files = Files::write(folder.path(), &identity, &ours);
    let start = |client_auth: &str| {
        let line = Process::start_error(folder.path(), &files.settings(client_auth));
        assert!(!folder.path().join("gateway.db").exists(), "something was written");
        line.replace(folder.path().to_str().unwrap(), "FOLDER")
    };
    let write_key = |content: &str, mode| {
        make_private(&files.key);
        fs::write(&files.key, content).unwrap();
        fs::set_permissions(&files.key, fs::Permissions::from_mode(mode)).unwrap();
    };
    let prefix = "operation-gateway: tls:";
    write_key(&identity.key_pem(), 0o640);
    let exposed =
        format!("the private key cannot be read: the file `FOLDER/tls.key` has mode 0640; {SECRET_MODES}");
    assert_eq!(start("off"), format!("{prefix} {exposed}"));
    write_key("no key", 0o600);
    assert_eq!(start("off"), format!("{prefix} the file `FOLDER/tls.key` has no PEM private key"));
    write_key(&ours.server().key_pem(), 0o600);
    let line = start("off");
    assert!(line.starts_with(&format!("{prefix} certificate and private key cannot be used: ")), "{line}");
    write_key(&identity.key_pem(), 0o600);
    fs::write(&files.clients, "no certificates").unwrap();
    let line = start("required");
    assert_eq!(line, format!("{prefix} the file `FOLDER/clients.pem` is not a list of PEM certificates"));
    fs::remove_file(&files.certificate).unwrap();
    assert!(start("off").contains("the file `FOLDER/tls.pem` cannot be read"));
    fs::create_dir(&files.certificate).unwrap();
    assert!(start("off").contains("`FOLDER/tls.pem` is not a list of PEM certificates"));
}
