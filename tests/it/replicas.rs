//! Several gateways over one PostgreSQL database, as replicas behind a load balancer, with nodes and an authority of their own.

use crate::harness::certificates::Authority;
use crate::harness::cluster::Cluster;
use crate::harness::consumer::{Consumer, write_file};
use crate::harness::link::Link;
use crate::harness::port::Port;
use crate::harness::process::{EXECUTE, Process, SIGN, command, publish_step, request, text};
use crate::harness::samples::{approval, payment, with};
use crate::harness::secrets::write_private;
use crate::harness::wire::{eventually, poll, poll_within};
use gateway_store::testing::Scratch;
use gateway_store::{Fsck, Store};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

const STATES: [&str; 6] =
    ["pending_approval", "admitted", "receipt_materialized", "executing", "executed", "published"];

/// Gateways over one database.
struct Replicas {
    /// Nodes and authority.
    cluster: Mutex<Cluster>,
    gateways: Vec<Mutex<Process>>,
}

impl Replicas {
    fn start(n: usize, database_url: &str, settings: &[(&'static str, &str)]) -> Self {
        let mut cluster = Cluster::prepare(3, |address| address);
        cluster.gateway_settings.insert("database_url", database_url.to_owned());
        cluster.gateway_settings.insert("reconcile_every_ms", "200".to_owned());
        for (name, value) in settings {
            cluster.gateway_settings.insert(name, (*value).to_owned());
        }
        for index in 0..3 {
            cluster.start_node(index);
        }
        let start = || Mutex::new(Process::start_command(cluster.gateway_command()));
        let gateways = (0..n).map(|_| start()).collect();
        Self { cluster: Mutex::new(cluster), gateways }
    }

    fn address(&self, replica: usize) -> String {
        self.gateways[replica % self.gateways.len()].lock().unwrap().address.clone()
    }

    /// Kills a replica and starts it again.
    fn restart(&self, replica: usize) {
        let mut gateway = self.gateways[replica].lock().unwrap();
        gateway.kill();
        *gateway = Process::start_command(self.cluster.lock().unwrap().gateway_command());
    }

    fn stop(self) {
        for gateway in self.gateways {
            let (status, log) = gateway.into_inner().unwrap().terminate();
            assert!(status.success(), "{log:#?}");
        }
        self.cluster.into_inner().unwrap().stop();
    }

    /// The answer of a request, at one replica after the other until one answers it with 200.
    fn ask(&self, choice: &mut Choice, method: &str, path: &str, body: Option<&Value>) -> Value {
        let ask = || request(&self.address(choice.next()), method, path, body);
        match poll(ask, |answer| match answer {
            // Killed meanwhile, a dependency did not answer, or others changed the same at the same time.
            Err(_) | Ok((503, _)) => false,
            Ok((status, error)) => *status != 409 || error["error"] != "concurrent_update",
        }) {
            Ok((200, view)) => view,
            answer => panic!("{method} {path}: {answer:?}"),
        }
    }

    /// Takes a payment to its end, each request at a replica chosen anew. After each answer another replica must show as much.
    fn pay(&self, key: &str, choice: &mut Choice) -> String {
        let submitted = self.ask(choice, "POST", SIGN, Some(&payment(key)));
        let id = submitted["operation"]["operation_id"].as_str().unwrap().to_owned();
        let path = format!("/v1/operations/{id}");
        let mut shown = progress(&submitted["operation"]);
        let approvals = ["alice", "bob"].map(|subject| ("/approve", Some(approval(subject))));
        for (action, body) in approvals.into_iter().chain([EXECUTE, publish_step()]) {
            let view = self.ask(choice, "POST", &format!("{path}{action}"), body.as_ref());
            shown = shown.max(progress(&view));
            let read = self.ask(choice, "GET", &path, None);
            assert!(progress(&read) >= shown, "{key}{action}: older than what was acknowledged: {read}");
            shown = progress(&read);
        }
        assert_eq!(shown.0, STATES.len() - 1, "{key} is published");
        // The same submission is the same operation at every replica.
        let again = self.ask(choice, "POST", SIGN, Some(&payment(key)));
        assert_eq!(again["operation"]["operation_id"], json!(id));
        id
    }
}

/// How far an operation is: its state, and the number of its approvals.
fn progress(view: &Value) -> (usize, u64) {
    let state = view["state"].as_str().unwrap();
    let state = STATES.iter().position(|known| *known == state).unwrap_or_else(|| panic!("{view}"));
    (state, view["approvals"]["approved"].as_u64().unwrap())
}

/// Pseudorandom numbers from a seed.
struct Choice(u64);

impl Choice {
    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 40).unwrap()
    }
}

/// Requires that the store is sound, and that each operation was decided and signed once.
fn assert_decided_and_signed_once(url: &str, expected: &BTreeSet<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut fsck, mut findings) = (Fsck::open(url).await.unwrap(), Vec::new());
        fsck.check(&mut |finding| findings.push(finding)).await.unwrap();
        assert_eq!(findings, []);
        fsck.close().await;
        let sql = "SELECT encode(operation_id, 'hex'),
                count(*) FILTER (WHERE body::jsonb #>> '{change,type}' = 'decision_signed'),
                count(*) FILTER (WHERE body::jsonb #>> '{change,type}' = 'executed')
            FROM events JOIN (SELECT operation_id FROM operations WHERE family = 'product') AS payments USING (operation_id)
            GROUP BY operation_id";
        let mut conn = <sqlx::PgConnection as sqlx::Connection>::connect(url).await.unwrap();
        let rows: Vec<(String, i64, i64)> =
            sqlx::query_as(sql).fetch_all(&mut conn).await.unwrap();
        assert!(rows.iter().all(|(_, n_decisions, n_results)| (*n_decisions, *n_results) == (1, 1)), "{rows:?}");
        assert_eq!(&rows.into_iter().map(|(id, ..)| id).collect::<BTreeSet<_>>(), expected);
    });
}

/// Runs `n_clients` clients that each make `n_payments`, while `disturb` is called again and again.
fn pay_while(
    replicas: &Replicas,
    (n_clients, n_payments): (u64, u64),
    disturb: impl Fn(u64) + Sync,
) -> BTreeSet<String> {
    let (done, is_done) = channel::<()>();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..n_clients)
            .map(|client| {
                scope.spawn(move || {
                    let mut choice = Choice(client + 1);
                    let pay = |n| replicas.pay(&format!("client-{client}-{n}"), &mut choice);
                    (0..n_payments).map(pay).collect::<Vec<_>>()
                })
            })
            .collect();
        let disturb = &disturb;
        scope.spawn(move || {
            let has_ended =
                || is_done.recv_timeout(Duration::from_millis(400)) != Err(RecvTimeoutError::Timeout);
            (0..).take_while(|_| !has_ended()).for_each(disturb);
        });
        let paid: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        drop(done);
        paid.into_iter().flat_map(|paid| paid.unwrap()).collect()
    })
}

#[test]
fn payments_driven_through_replicas_that_are_killed_are_decided_and_signed_once() {
    let scratch = Scratch::new();
    let replicas = Replicas::start(3, &scratch.url(), &[]);
    let restart = |round: u64| {
        if round < 9 {
            replicas.restart(usize::try_from(round % 3).unwrap());
        }
    };
    let paid = pay_while(&replicas, (4, 5), restart);
    assert_eq!(paid.len(), 20);
    assert_decided_and_signed_once(&scratch.url(), &paid);
    replicas.stop();
}

/// A server of this test's own.
struct Server(PathBuf);

impl Server {
    fn start(folder: &Path) -> (Self, String) {
        let server = Self(folder.join("postgres"));
        let url = server.run("start");
        (server, format!("{}/postgres", url.trim()))
    }

    /// With TLS if its folder has `server.pem` and `server.key`.
    fn run(&self, what: &str) -> String {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/postgres");
        let mut command = Command::new(script);
        command.arg(what).env("POSTGRES_STATE", &self.0);
        let folder = self.0.parent().unwrap();
        if folder.join("server.pem").exists() {
            command.env("POSTGRES_TLS", folder);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Server {
    /// Runs SQL as the superuser.
    fn sql(&self, url: &str, sql: &str) {
        let psql = Path::new(self.run("find").trim()).join("psql");
        let output =
            Command::new(psql).args(["--quiet", "--set=ON_ERROR_STOP=1", url, "--command", sql]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Lets the user `gateway` in with a password only.
    fn ask_for_passwords(&self, url: &str) {
        let data = fs::read_to_string(self.0.join("data")).unwrap();
        let rules = Path::new(data.trim()).join("pg_hba.conf");
        let others = fs::read_to_string(&rules).unwrap();
        fs::write(&rules, format!("host all gateway 127.0.0.1/32 scram-sha-256\n{others}")).unwrap();
        self.sql(url, "SELECT pg_reload_conf()");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.run("stop");
    }
}

#[test]
fn password_that_is_rotated_is_read_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let (server, url) = Server::start(folder.path());
    server.sql(&url, "CREATE ROLE gateway LOGIN");
    server.sql(&url, "CREATE DATABASE gateway OWNER gateway TEMPLATE template0");
    server.ask_for_passwords(&url);
    let file = folder.path().join("password");
    let rotate = |password: &str| {
        server.sql(&url, &format!("ALTER ROLE gateway PASSWORD '{password}'"));
        write_private(&file, format!("*:*:*:*:{password}\n"));
    };
    rotate("first-secret");
    let own = url.replace("postgres@", "gateway@").replace("/postgres", "/gateway");
    let mut gateway = command(folder.path(), &[("database_url", own.as_str())]);
    gateway.env("PGPASSFILE", &file);
    let gateway = Process::start_command(gateway);
    let pay = |id: &str| {
        let (status, answer) = request(&gateway.address, "POST", SIGN, Some(&payment(id))).unwrap();
        assert_eq!(status, 200, "{answer}");
        let path = format!("/v1/operations/{}", answer["operation"]["operation_id"].as_str().unwrap());
        assert_eq!(request(&gateway.address, "GET", &path, None).unwrap().0, 200);
    };
    pay("before");
    rotate("second-secret");
    // As a failover does.
    server.sql(&url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'gateway'");
    for n in 0..12 {
        pay(&format!("after-{n}"));
    }
    let (status, log) = gateway.terminate();
    assert!(status.success(), "{log:#?}");
    assert!(!log.iter().any(|line| line.contains("-secret")), "{log:#?}");
}

#[test]
fn database_server_that_crashes_under_load_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let (server, url) = Server::start(folder.path());
    let replicas = Replicas::start(2, &url, &[]);
    let crash = |round: u64| {
        if round < 6 {
            server.run("crash");
        }
    };
    let paid = pay_while(&replicas, (3, 4), crash);
    assert_eq!(paid.len(), 12);
    for replica in 0..2 {
        let (status, readiness) = request(&replicas.address(replica), "GET", "/readyz", None).unwrap();
        assert_eq!(status, 200, "{readiness}");
    }
    assert_decided_and_signed_once(&url, &paid);
    replicas.stop();
}

/// Two payments of 60 at two replicas at once, of which only one fits a limit of 100 a day.
#[test]
fn daily_limit_holds_for_payments_admitted_at_different_replicas_at_once() {
    let scratch = Scratch::new();
    let strict = concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/payment-guard-strict");
    let replicas = Replicas::start(2, &scratch.url(), &[("policy_bundle", strict)]);
    let payment_of = |key: String| {
        let body = with(payment(&key), "/payment/currency", json!("XTS"));
        with(body, "/payment/amount_minor", json!(60))
    };
    let approve = |replica: usize, id: &str, subject: &str| {
        let path = format!("/v1/operations/{id}/approve");
        request(&replicas.address(replica), "POST", &path, Some(&approval(subject))).unwrap()
    };
    let mut choice = Choice(7);
    let ids: Vec<String> = (0..2)
        .map(|n| {
            let submitted = replicas.ask(&mut choice, "POST", SIGN, Some(&payment_of(format!("limit-{n}"))));
            let id = submitted["operation"]["operation_id"].as_str().unwrap().to_owned();
            assert_eq!(approve(n, &id, "alice").0, 200);
            id
        })
        .collect();
    let answers: Vec<_> = thread::scope(|scope| {
        let last = |n: usize| {
            scope.spawn({
                let (ids, approve) = (&ids, &approve);
                move || approve(n, &ids[n], "bob")
            })
        };
        let approving: Vec<_> = (0..2).map(last).collect();
        approving.into_iter().map(|approving| approving.join().unwrap()).collect()
    });
    let states: Vec<_> = ids
        .iter()
        .map(|id| replicas.ask(&mut choice, "GET", &format!("/v1/operations/{id}"), None))
        .collect();
    let n_admitted = states.iter().filter(|view| view["state"] == "admitted").count();
    assert_eq!(n_admitted, 1, "{answers:?} {states:?}");
    replicas.stop();
}

/// The authority may know a payment that the other replica decided before this one sees it, and counts what a conflict then decides again.
#[test]
fn payments_of_one_account_at_two_replicas_at_once_fill_the_limit_exactly_and_none_waits() {
    let scratch = Scratch::new();
    let strict = concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/payment-guard-strict");
    let replicas = Replicas::start(2, &scratch.url(), &[("policy_bundle", strict)]);
    let approve = |replica: usize, path: &str, subject: &str| {
        let path = format!("{path}/approve");
        request(&replicas.address(replica), "POST", &path, Some(&approval(subject))).unwrap()
    };
    let mut choice = Choice(11);
    let paths: Vec<_> = (0..16)
        .map(|n| {
            let body = with(payment(&format!("fill-{n}")), "/payment/currency", json!("XTS"));
            let recipient = ["acct-2", "acct-3"][n % 2];
            let body = with(body, "/payment/to_account", json!(recipient));
            let body = with(body, "/payment/amount_minor", json!(10));
            let submitted = replicas.ask(&mut choice, "POST", SIGN, Some(&body));
            let path = format!("/v1/operations/{}", submitted["operation"]["operation_id"].as_str().unwrap());
            assert_eq!(approve(n, &path, "alice").0, 200);
            path
        })
        .collect();
    let answers: Vec<_> = thread::scope(|scope| {
        let approve = &approve;
        let last = |(n, path): (usize, &String)| {
            let path = path.clone();
            scope.spawn(move || approve(n, &path, "bob"))
        };
        let approving: Vec<_> = paths.iter().enumerate().map(last).collect();
        approving.into_iter().map(|approving| approving.join().unwrap()).collect()
    });
    let (admitted, denied): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(status, _)| *status == 200);
    assert_eq!(admitted.len(), 10, "{denied:?}");
    for (status, answer) in denied {
        assert_eq!((status, answer["error"].as_str()), (403, Some("policy_rejected")), "{answer}");
    }
    replicas.stop();
}

#[test]
fn replica_with_another_log_key_than_an_earlier_one_writes_nothing() {
    let scratch = Scratch::new();
    let mut replicas = Replicas::start(1, &scratch.url(), &[]);
    let mut command = replicas.cluster.lock().unwrap().gateway_command();
    command.arg("--log-origin=other.example/log");
    replicas.gateways.push(Mutex::new(Process::start_command(command)));
    let (status, readiness) = request(&replicas.address(1), "GET", "/readyz", None).unwrap();
    let detail = readiness["checks"]["replicas"]["detail"].as_str().unwrap_or_default().to_owned();
    assert!(status == 503 && detail.contains("which was here first, differs in: log key"), "{readiness}");
    let (status, answer) = request(&replicas.address(1), "POST", SIGN, Some(&payment("one"))).unwrap();
    assert!(status == 503 && answer["message"].as_str().unwrap().contains(&detail), "{answer}");
    assert_eq!(request(&replicas.address(0), "GET", "/readyz", None).unwrap().0, 200);
    let submitted = request(&replicas.address(0), "POST", SIGN, Some(&payment("one"))).unwrap();
    assert_eq!(submitted.0, 200, "{submitted:?}");

    // Once the earlier one has stopped, the other one is right.
    let (status, log) = replicas.gateways.remove(0).into_inner().unwrap().terminate();
    assert!(status.success(), "{log:#?}");
    let readiness = || request(&replicas.address(0), "GET", "/readyz", None).unwrap();
    poll_within(Duration::from_secs(15), readiness, |(status, _)| *status == 200);
    replicas.stop();
}

#[test]
fn start_waits_for_a_database_server_that_starts_later() {
    let (folder, scratch, port) = (tempfile::tempdir().unwrap(), Scratch::new(), Port::reserve());
    let url = scratch.url();
    let server = url.split("127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
    let later = url.replace(server, &port.address.port().to_string());
    let start = || Process::spawn(command(folder.path(), &[("database_url", &later)]));

    // It can be stopped meanwhile.
    let mut stopped = start();
    let line = stopped.wait_for_line("waiting for the database's server");
    assert!(line.contains("Connection refused"), "{line}");
    let (status, log) = stopped.terminate();
    assert!(status.success(), "{log:#?}");

    let mut started = start();
    started.wait_for_line("waiting for the database's server");
    let _link = Link::open_at(TcpListener::bind(port.address).unwrap(), server.parse().unwrap());
    started.wait_for_line("operation-gateway listens");
    let (status, log) = started.terminate();
    assert!(status.success(), "{log:#?}");

    // A server that answers and refuses is not waited for.
    let unknown = format!("{url}_unknown");
    let refused = Process::start_error(folder.path(), &[("database_url", &unknown)]);
    assert!(refused.contains("does not exist"), "{refused}");
}

#[tokio::test]
async fn database_server_is_authenticated_by_its_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let (ca, other) = (Authority::new("database"), Authority::new("other"));
    ca.server().write(at, "server");
    for (name, ca) in [("ca.pem", &ca), ("other.pem", &other)] {
        fs::write(at.join(name), ca.pem()).unwrap();
    }
    let (_server, url) = Server::start(at);
    let open = async |host: &str, mode: &str, ca: &str| {
        let url = url.replace("127.0.0.1", host);
        let url = format!("{url}?sslmode={mode}&sslrootcert={}", at.join(ca).display());
        match Store::open(&url).await {
            Ok(store) => {
                store.close().await;
                None
            }
            Err(error) => Some(error.to_string()),
        }
    };
    assert_eq!(open("127.0.0.1", "verify-full", "ca.pem").await, None);
    // Its certificate is for 127.0.0.1.
    assert_eq!(open("localhost", "verify-ca", "ca.pem").await, None);
    for (host, ca, expected) in [
        ("localhost", "ca.pem", "certificate not valid for name"),
        ("127.0.0.1", "other.pem", "UnknownIssuer"),
    ] {
        let refused = open(host, "verify-full", ca).await.unwrap();
        assert!(refused.contains("cannot be opened: ") && refused.contains(expected), "{refused}");
    }

    // A server without TLS, or one in the middle that suppresses it.
    let plain = tempfile::tempdir().unwrap();
    let (_plain, url) = Server::start(plain.path());
    let refused = Store::open(&format!("{url}?sslmode=verify-full")).await.unwrap_err().to_string();
    assert!(refused.contains("cannot be opened: server does not support TLS"), "{refused}");
}

/// Runs `doctor`; returns its exit code and the lines of the findings about other processes.
fn doctor(cluster: &Cluster) -> (i32, Vec<String>) {
    let output = cluster.gateway_command().arg("doctor").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let is_about = |line: &&str| {
        ["database", "authority", "nodes"]
            .contains(&line.get(9..).unwrap_or_default().split(' ').next().unwrap())
    };
    (output.status.code().unwrap(), text.lines().filter(is_about).map(str::to_owned).collect())
}

#[test]
fn doctor_asks_nodes_authority_and_database_server() {
    let scratch = Scratch::new();
    let mut replicas = Replicas::start(1, &scratch.url(), &[]);
    let cluster = replicas.cluster.get_mut().unwrap();
    let (code, lines) = doctor(cluster);
    assert_eq!((code, lines.len()), (0, 5), "{lines:#?}");
    assert!(lines.iter().all(|line| line.starts_with("ok ")), "{lines:#?}");

    // A node that is another one than the pinned identity says, one that is down, and a database that does not exist.
    let urls = cluster.gateway_settings["runtime_nodes"].clone();
    let urls: Vec<_> = urls.split(',').collect();
    cluster.gateway_settings.insert("runtime_nodes", format!("{},{},{}", urls[1], urls[0], urls[2]));
    cluster.gateway_settings.insert("database_url", format!("{}_absent", scratch.url()));
    cluster.nodes[2].take().unwrap().kill();
    let (code, lines) = doctor(cluster);
    let find = |what: &str| {
        lines.iter().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}: {lines:#?}"))
    };
    assert_eq!(code, 1);
    for (what, why) in [
        ("node 0 at", "does not have the pinned identity"),
        ("node 1 at", "does not have the pinned identity"),
        ("node 2 at", ": "),
        ("_absent", "does not exist"),
    ] {
        let line = find(what);
        assert!(line.starts_with("error ") && line.contains(why), "{line}");
    }
    assert!(find("authority").starts_with("ok "), "{lines:#?}");
    cluster.gateway_settings.insert("runtime_nodes", urls.join(","));
    cluster.gateway_settings.insert("database_url", scratch.url());
    cluster.start_node(2);
    replicas.stop();
}

#[test]
fn webhook_is_sent_to_by_one_replica_and_by_another_one_when_it_dies() {
    let (scratch, folder) = (Scratch::new(), tempfile::tempdir().unwrap());
    let consumer = Consumer::start(1);
    let file = write_file(folder.path(), &[consumer.entry(folder.path(), "books", &[1])]);
    let replicas = Replicas::start(2, &scratch.url(), &[("webhooks_file", file.to_str().unwrap())]);
    let mut choice = Choice(7);
    let begun =
        || replicas.gateways[0].lock().unwrap().get("/v1/webhooks")["webhooks"][0]["is_sent_to"] == true;
    eventually("a replica sends", begun);
    let mut paid = BTreeSet::from([replicas.pay("one", &mut choice)]);
    let has_all = |paid: &BTreeSet<String>| {
        let state = consumer.state();
        let is_published = |id: &String| {
            let is_it = |body: &Value| {
                body["data"]["operation_id"] == json!(id) && body["type"] == "operation.published"
            };
            state.accepted.iter().any(|(_, body)| is_it(body))
        };
        paid.iter().all(is_published)
    };
    eventually("the payment is told", || has_all(&paid));
    let n_accepted = |name: &str| {
        let metrics =
            replicas.gateways.iter().map(|gateway| text(&gateway.lock().unwrap().address, "/metrics"));
        let name =
            format!("operation_gateway_webhook_requests_total{{webhook=\"books\",result=\"{name}\"}} ");
        let of_one = |metrics: String| -> u64 {
            metrics.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
        };
        metrics.map(of_one).collect::<Vec<_>>()
    };
    let sent = n_accepted("accepted");
    assert_eq!(sent.iter().filter(|n| **n > 0).count(), 1, "{sent:?}");
    let n_told = consumer.state().accepted.len();
    let ids: BTreeSet<_> = consumer.state().accepted.iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(ids.len(), n_told, "nothing is sent twice");
    // The one that sends dies, and stays away.
    let sender = sent.iter().position(|n| *n > 0).unwrap();
    replicas.gateways[sender].lock().unwrap().kill();
    let died = Instant::now();
    for number in 0..3 {
        paid.insert(replicas.pay(&format!("after-{number}"), &mut choice));
    }
    eventually("the other one sends", || has_all(&paid));
    println!("told {:?} after the death of the replica that sent", died.elapsed());
    assert!(died.elapsed() < Duration::from_secs(40), "{:?}", died.elapsed());
    *replicas.gateways[sender].lock().unwrap() =
        Process::start_command(replicas.cluster.lock().unwrap().gateway_command());
    replicas.stop();
}
