//! A gateway, a policy authority and runtime nodes as processes of their own, over mutual TLS.

use crate::harness::cluster::Cluster;
use crate::harness::custody::{self, KEYS, key_path};
use crate::harness::delay::delaying_proxy;
use crate::harness::process::{EXECUTE, Process, SIGN, drive, post, publish_step, request};
use crate::harness::samples::{approval, payment, with};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

/// Takes a payment to its end.
#[track_caller]
fn pay(cluster: &Cluster, key: &str) -> Value {
    let paid = drive(cluster.address(), SIGN, &payment(key), &[EXECUTE, publish_step()]).unwrap();
    assert_eq!(paid["state"], "published", "{paid}");
    paid
}

/// Takes a custody operation to its end.
#[track_caller]
fn complete(cluster: &Cluster, path: &str, body: &Value, scope: &str) {
    let publish = json!({ "scope": scope, "requested_at_ms": 1 });
    let done = drive(cluster.address(), path, body, &[EXECUTE, ("/publish", Some(publish))]).unwrap();
    assert_eq!(done["state"], "published", "{done}");
}

#[test]
fn payment_custody_signature_and_reshare_run_through_separate_processes() {
    let cluster = Cluster::start(5);
    pay(&cluster, "k-1");
    complete(&cluster, KEYS, &custody::key("vault"), "epoch");
    complete(&cluster, &key_path("vault", "/sign"), &custody::sign("s-1"), "signature");
    complete(&cluster, &key_path("vault", "/refresh"), &custody::refresh("2"), "epoch");
    let case =
        json!({ "recovery_case_ref": "case-9", "recovering_participant": 2, "helper_participants": [0, 1] });
    let asked = key_path("vault", "/recover/contributions");
    let stated = post(cluster.address(), &asked, Some(&case)).unwrap();
    let recovery = with(custody::recover("3"), "/helper_share_cids", stated["helper_share_cids"].clone());
    let root = "expected_helper_admission_root";
    let recovery = with(recovery, &format!("/{root}"), stated[root].clone());
    complete(&cluster, &key_path("vault", "/recover"), &recovery, "epoch");
    complete(&cluster, &key_path("vault", "/reshare"), &custody::reshare("4"), "epoch");
    let signers = with(custody::sign("s-2"), "/requested_participants", json!([1, 3, 4]));
    complete(&cluster, &key_path("vault", "/sign"), &signers, "signature");
    let (status, readiness) = cluster.gateway.as_ref().unwrap().readiness();
    assert_eq!(status, 200, "{readiness}");
    cluster.stop();
}

/// The authorities keep bundles in memory: the one that was started again gets the bundle with the next operation.
#[test]
fn two_of_three_authorities_sign_while_one_is_down_and_one_alone_signs_nothing() {
    let mut cluster = Cluster::start_with_authorities(3, 3, 2);
    pay(&cluster, "three");
    cluster.authorities[0].kill();
    pay(&cluster, "two");
    let paid = post(cluster.address(), SIGN, Some(&payment("two"))).unwrap();
    let evidence = format!("/v1/operations/{}/evidence", paid["operation"]["operation_id"].as_str().unwrap());
    let (_, evidence) = request(cluster.address(), "GET", &evidence, None).unwrap();
    let signatures = evidence["decision"]["envelope"]["signatures"].as_array().unwrap();
    assert_eq!(signatures.len(), 2, "{signatures:?}");
    assert_eq!(cluster.gateway.as_ref().unwrap().readiness().0, 200);

    cluster.authorities[1].kill();
    let address = cluster.address();
    let submitted = post(address, SIGN, Some(&payment("one"))).unwrap();
    let path = format!("/v1/operations/{}", submitted["operation"]["operation_id"].as_str().unwrap());
    let approve =
        |subject| request(address, "POST", &format!("{path}/approve"), Some(&approval(subject))).unwrap();
    assert_eq!(approve("alice").0, 200);
    let (status, refused) = approve("bob");
    assert_eq!(status, 503, "{refused}");
    let (status, readiness) = cluster.gateway.as_ref().unwrap().readiness();
    assert_eq!(status, 503, "{readiness}");
    cluster.restart_authority(1);
    let address = cluster.address();
    let (status, admitted) =
        request(address, "POST", &format!("{path}/approve"), Some(&approval("bob"))).unwrap();
    assert_eq!((status, &admitted["state"]), (200, &json!("admitted")), "{admitted}");
}

/// `scripts/cluster`, which the README names, with the binaries under test.
#[test]
fn script_takes_the_flows_through_a_cluster_and_stops_it() {
    let folder = tempfile::tempdir().unwrap();
    let binaries = folder.path().join("debug");
    fs::create_dir(&binaries).unwrap();
    for (name, path) in [
        ("operation-gateway", env!("CARGO_BIN_EXE_gateway-under-test")),
        ("runtime-node", env!("CARGO_BIN_EXE_runtime-node-under-test")),
        ("policy-authority", env!("CARGO_BIN_EXE_policy-authority-under-test")),
    ] {
        symlink(path, binaries.join(name)).unwrap();
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/cluster");
    let data = folder.path().join("data");
    let output = Command::new(script).arg("--binaries").arg(&binaries).arg("--folder").arg(&data).output();
    let output = output.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.matches("-> published").count(), 5, "{text}");
    assert!(
        text.contains("signature      verifies") && text.contains("every check that was made holds"),
        "{text}"
    );
    assert!(text.trim_end().ends_with("epoch 2"), "{text}");
    for name in ["gateway", "authority", "node-0", "node-4"] {
        let log = fs::read_to_string(data.join(format!("{name}.log"))).unwrap();
        assert!(log.contains(" stopped"), "{log}");
    }
}

/// One round to the nodes for the admission, two for the execution of a signature, one for its publication. A busy machine can make
/// a step look like more, so the fastest of three counts.
#[test]
fn admission_execution_and_publication_take_one_two_and_one_rounds() {
    const ONE_WAY: Duration = Duration::from_millis(150);
    let mut cluster = Cluster::prepare(3, |port| delaying_proxy(port, ONE_WAY));
    (0..3).for_each(|index| cluster.start_node(index));
    cluster.start_gateway();
    // Makes the key, and opens the connections.
    pay(&cluster, "first");
    let address = cluster.address();
    let (publish, publication) = publish_step();
    let (alice, bob) = (approval("alice"), approval("bob"));
    let steps =
        [("/approve", Some(alice)), ("/approve", Some(bob)), ("/execute", None), (publish, publication)];
    let mut fastest = [Duration::MAX; 4];
    for number in ["second", "third", "fourth"] {
        let submitted = post(address, SIGN, Some(&payment(number))).unwrap();
        let path = format!("/v1/operations/{}", submitted["operation"]["operation_id"].as_str().unwrap());
        for ((action, body), fastest) in steps.iter().zip(&mut fastest) {
            let started = Instant::now();
            post(address, &format!("{path}{action}"), body.as_ref()).unwrap();
            *fastest = started.elapsed().min(*fastest);
        }
    }
    let n_rounds = fastest.map(|elapsed| elapsed.as_millis() / (2 * ONE_WAY).as_millis());
    assert_eq!(n_rounds, [0, 1, 2, 1], "{fastest:?}");
}

/// Two of three nodes are enough, and the gateway does not wait for the third.
#[test]
fn stopped_node_costs_nothing_while_the_threshold_is_there() {
    let mut cluster = Cluster::start(3);
    pay(&cluster, "before");
    cluster.node(1).signal("-STOP");
    let started = Instant::now();
    pay(&cluster, "stopped");
    let elapsed = started.elapsed();
    cluster.node(1).signal("-CONT");
    // A call to a node that does not answer is given up after 10 s.
    assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
    cluster.node(0).signal("-STOP");
    // The node that was stopped has missed nothing that it needs.
    pay(&cluster, "continued");
    cluster.node(0).signal("-CONT");
}

#[test]
fn killed_node_takes_part_again_after_its_restart() {
    let mut cluster = Cluster::start(3);
    pay(&cluster, "before");
    cluster.node(0).kill();
    pay(&cluster, "without");
    cluster.start_node(0);
    cluster.node(2).kill();
    pay(&cluster, "again");
}

/// The nodes keep their nonces while the gateway restarts, so that the attempt it began can be completed.
#[test]
fn gateway_killed_between_the_shares_completes_the_same_signature() {
    let mut cluster = Cluster::start(3);
    pay(&cluster, "before");
    cluster.gateway.take().unwrap().terminate();
    let mut command = cluster.gateway_command();
    command.env("SVC_FAILPOINT", "mid-execute:1");
    let mut gateway = Process::start_command(command);
    let address = gateway.address.clone();
    let client = std::thread::spawn(move || drive(&address, SIGN, &payment("killed"), &[EXECUTE]));
    gateway.wait_for_line("failpoint ");
    gateway.kill();
    assert!(client.join().unwrap().is_err());
    cluster.start_gateway();
    let view = post(cluster.address(), SIGN, Some(&payment("killed"))).unwrap();
    let path = format!("/v1/operations/{}", view["operation"]["operation_id"].as_str().unwrap());
    let executed = post(cluster.address(), &format!("{path}/execute"), None).unwrap();
    assert_eq!(executed["state"], "executed", "{executed}");
    let (status, evidence) = request(cluster.address(), "GET", &format!("{path}/evidence"), None).unwrap();
    assert_eq!(status, 200);
    let text = evidence.to_string();
    assert_eq!(text.matches("\"type\":\"attempt_lost\"").count(), 0, "the first attempt was completed");
}

/// A caller needs a certificate for a name that the node's operator permits, not only one of the same authority.
#[test]
fn caller_whose_certificate_has_another_name_is_refused_in_the_handshake() {
    let mut cluster = Cluster::prepare(3, |port| port);
    (0..3).for_each(|index| cluster.start_node(index));
    cluster.pki.service_until(4096, "intruder").write(cluster.folder(), "intruder");
    for (name, end) in [("service_tls_certificate", "pem"), ("service_tls_key", "key")] {
        let path = cluster.folder().join(format!("intruder.{end}"));
        cluster.gateway_settings.insert(name, path.to_str().unwrap().to_owned());
    }
    cluster.start_gateway();
    let (status, readiness) = cluster.gateway.as_ref().unwrap().readiness();
    assert_eq!(status, 503);
    let text = readiness.to_string();
    assert!(text.contains("the node does not answer"), "{text}");
    let (status, answer) = request(cluster.address(), "POST", SIGN, Some(&payment("k"))).unwrap();
    assert_eq!(status, 503, "{answer}");
}

/// The one line with which a command refuses to start.
#[track_caller]
fn refusal(mut command: Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && !text.contains("panicked"), "{text}");
    let lines: Vec<_> = text
        .lines()
        .filter(|line| line.contains("runtime-node: ") || line.contains("operation-gateway: "))
        .collect();
    assert_eq!(lines.len(), 1, "{text}");
    lines[0].to_owned()
}

#[test]
fn node_with_wrong_files_does_not_start_and_says_why_in_one_line() {
    let mut cluster = Cluster::prepare(2, |port| port);
    let at = cluster.folder().to_owned();
    let valid = cluster.node_settings[0].clone();
    cluster.pki.service_until(2000, "node-0").write(&at, "expired");
    fs::write(at.join("none.json"), r#"{"nodes":[]}"#).unwrap();
    fs::write(at.join("text.db"), "not a database, but long enough to be one of another program").unwrap();
    let path = |name: &str| at.join(name).to_str().unwrap().to_owned();
    let cases: [(&[(&'static str, String)], &str); 8] = [
        (&[("node_key", path("node-1-key/node.key"))], "sealed under another key"),
        (&[("database", path("node-1/node.db"))], "sealed under another key"),
        (
            &[("database", path("node-1/node.db")), ("node_key", path("node-1-key/node.key"))],
            "altered, or moved from another row",
        ),
        (&[("database", path("text.db"))], "the node's store cannot be opened"),
        (&[("database", path("missing.db"))], "run `runtime-node init`"),
        (&[("peers_file", path("none.json"))], "pins another identity for participant 0, or none"),
        (&[("tls_certificate", path("expired.pem")), ("tls_key", path("expired.key"))], "is not valid now"),
        (&[("authority_keys", String::new())], "must name at least one authority"),
    ];
    for (changes, expected) in cases {
        cluster.node_settings[0] = valid.clone();
        cluster.node_settings[0].extend(changes.iter().cloned());
        let line = refusal(cluster.node_command(0));
        assert_eq!(line.matches(expected).count(), 1, "{line}");
    }
}

#[test]
fn identities_are_pinned_only_with_the_fingerprints_that_were_read_out() {
    let mut cluster = Cluster::prepare(2, |port| port);
    let at = cluster.folder().to_owned();
    let peers = at.join("compared.json");
    cluster.node_settings[0].insert("peers_file", peers.to_str().unwrap().to_owned());
    let pin = |fingerprints: &[&str]| {
        let mut command = cluster.node_command(0);
        command.arg("pin").args(["node-0.json", "node-1.json"].map(|file| at.join(file)));
        command.args(fingerprints.iter().flat_map(|fingerprint| ["--fingerprint", fingerprint]));
        command.output().unwrap()
    };
    let all = String::from_utf8(pin(&[]).stdout).unwrap();
    let fingerprints: Vec<_> = all.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    fs::remove_file(&peers).unwrap();
    let refused = pin(&fingerprints[..1]);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && error.contains(fingerprints[1]), "{error}");
    assert!(!peers.exists(), "something was pinned");
    assert!(pin(&fingerprints).status.success() && peers.exists());
}

#[test]
fn gateway_whose_nodes_are_half_configured_does_not_start() {
    let mut cluster = Cluster::prepare(3, |port| port);
    let at = cluster.folder().to_owned();
    let valid = cluster.gateway_settings.clone();
    cluster.pki.service_until(2000, "operation-gateway").write(&at, "expired");
    let path = |name: &str| at.join(name).to_str().unwrap().to_owned();
    let two = valid["runtime_nodes"].rsplit_once(',').unwrap().0.to_owned();
    let cases: [(&[(&'static str, String)], &str); 8] = [
        (&[("runtime_node_pins", String::new())], "`runtime_node_pins` must be given together"),
        (&[("runtime_nodes", String::new())], "`runtime_node_pins` must not be given without"),
        (&[("runtime_nodes", two)], "names participants 0 to 1, and the file pins 0, 1, 2"),
        (&[("runtime_nodes", "http://127.0.0.1:1,https://x".into())], "must be URLs such as"),
        (&[("service_tls_key", String::new())], "`service_tls_certificate` must be given together"),
        (
            &[("authority_public_key", String::new())],
            "`authority_public_key` must be a different key for each URL",
        ),
        (&[("runtime_node_pins", path("ca.pem"))], "file of identities"),
        (
            &[("service_tls_certificate", path("expired.pem")), ("service_tls_key", path("expired.key"))],
            "is not valid now",
        ),
    ];
    for (changes, expected) in cases {
        cluster.gateway_settings = valid.clone();
        cluster.gateway_settings.extend(changes.iter().cloned());
        let line = refusal(cluster.gateway_command());
        assert!(line.contains(expected), "{line}");
        assert!(!at.join("gateway.db").exists(), "{expected}");
    }
}

#[test]
fn node_that_does_not_answer_is_not_logged_as_damaged() {
    let mut cluster = Cluster::start(3);
    cluster.nodes[2].take().unwrap().kill();
    let gateway = cluster.gateway.as_mut().unwrap();
    let line = gateway.wait_for_line("a node cannot be used");
    assert!(line.contains("\"participant\":\"2\"") && !line.contains("damaged"), "{line}");
    cluster.start_node(2);
    cluster.gateway.as_mut().unwrap().wait_for_line("a node answers again");
    let (_, log) = cluster.gateway.take().unwrap().terminate();
    assert!(!log.iter().any(|line| line.contains("a node is damaged")), "{log:#?}");
    cluster.stop();
}
