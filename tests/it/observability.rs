//! What an operator sees: traces, the access log, and metrics that the dashboard and the alerts ask for.

use crate::harness::cluster::Cluster;
use crate::harness::collector::{Collector, Span};
use crate::harness::consumer::{self, Consumer};
use crate::harness::http::Call;
use crate::harness::process::{EXECUTE, Process, SIGN, command, drive, post, publish_step, request, text};
use crate::harness::samples::payment;
use crate::harness::wire::{poll, poll_within};
use crate::harness::witness::{Witness, log_key, policy};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, io};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// The span and its ancestors, as `service name`, from the root.
fn path(spans: &[Span], of: &Span) -> Vec<String> {
    let parent = spans.iter().find(|span| span.id == of.parent);
    let mut path = parent.map(|parent| path(spans, parent)).unwrap_or_default();
    path.push(format!("{} {}", of.service, of.name));
    path
}

#[test]
fn one_trace_runs_from_http_through_policy_authority_nodes_and_store() {
    let collector = Collector::start();
    let mut cluster = Cluster::prepare(3, |address| address);
    cluster.gateway_settings.insert("trace_ratio", "1".into());
    cluster.set_everywhere(&[("otlp_endpoint", &collector.url)]);
    (0..3).for_each(|index| cluster.start_node(index));
    cluster.start_gateway();
    let submitted = post(cluster.address(), SIGN, Some(&payment("traced"))).unwrap();
    let id = submitted["operation"]["operation_id"].as_str().unwrap().to_owned();
    drive(cluster.address(), SIGN, &payment("traced"), &[]).unwrap();
    let execute = Call::new("POST", &format!("/v1/operations/{id}/execute"), String::new());
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-00");
    let executed = execute.header("traceparent", &parent).send(cluster.address()).unwrap();
    assert_eq!(executed.status, 200, "{}", executed.text);
    cluster.stop();

    let all = collector.spans();
    let trace_of = |route: &str| {
        let is_root = |span: &&Span| span.name == format!("POST {route}");
        let roots: Vec<_> = all.iter().filter(is_root).collect();
        let trace = roots.last().unwrap_or_else(|| panic!("no span of {route} in {all:#?}")).trace.clone();
        let spans: Vec<_> = all.iter().filter(|span| span.trace == trace).cloned().collect();
        let paths: BTreeSet<_> = spans.iter().map(|span| path(&spans, span).join(" > ")).collect();
        (spans, paths)
    };
    // The second approval reaches the quorum.
    let (_, approved) = trace_of("/v1/operations/{operationId}/approve");
    let root = "operation-gateway POST /v1/operations/{operationId}/approve";
    let effect = format!("{root} > operation-gateway effect");
    for expected in [
        root.to_owned(),
        format!("{root} > operation-gateway store.commit"),
        format!("{root} > operation-gateway policy.evaluate"),
        format!("{effect} > operation-gateway policy.evaluate"),
        format!(
            "{effect} > operation-gateway authority.decide > policy-authority POST /v1/authority/decisions"
        ),
        format!(
            "{effect} > operation-gateway node.call > runtime-node POST /v1/node/operations/{{id}}/admission"
        ),
    ] {
        assert!(approved.contains(&expected), "`{expected}` is not in {approved:#?}");
    }
    let (spans, executed) = trace_of("/v1/operations/{operationId}/execute");
    assert!(spans.iter().all(|span| span.trace == hex::decode(TRACE).unwrap()), "the client's trace");
    let root = spans.iter().find(|span| span.name.starts_with("POST /v1/operations/")).unwrap();
    assert_eq!(root.parent, hex::decode("00f067aa0ba902b7").unwrap());
    assert_eq!(root.attributes["http.route"], "/v1/operations/{operationId}/execute");
    assert_eq!(root.attributes["operation_id"], id);
    assert!(executed.iter().any(|path| path.contains("node.call > runtime-node POST ")), "{executed:#?}");
    // No account, amount, approver or idempotency key.
    let seen = format!("{all:?}");
    for secret in ["acct-", "alice", "traced\"", "125"] {
        let attributes = all.iter().flat_map(|span| span.attributes.values());
        assert!(
            attributes.into_iter().all(|value| !value.contains(secret) || value.len() >= 64),
            "{secret}: {seen}"
        );
    }
}

#[test]
fn collector_that_never_answers_costs_no_request_and_no_stop() {
    let collector = Collector::silent();
    let folder = tempfile::tempdir().unwrap();
    let settings = [("otlp_endpoint", collector.url.as_str()), ("trace_ratio", "1")];
    let process = Process::start(folder.path(), None, &settings);
    let started = Instant::now();
    // More spans than the queue holds.
    for _ in 0..5000 {
        assert_eq!(process.call("GET", "/healthz", None).0, 200);
    }
    drive(&process.address, SIGN, &payment("k-1"), &[EXECUTE, publish_step()]).unwrap();
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    let dropped = |reason: &str| {
        let metrics = text(&process.address, "/metrics");
        let name = format!("operation_gateway_trace_spans_dropped_total{{reason=\"{reason}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok()).unwrap()
    };
    // A batch that is not accepted is counted.
    poll_within(Duration::from_secs(20), || dropped("collector"), |n_dropped| *n_dropped > 0);
    let stopped = Instant::now();
    let (status, log) = process.terminate();
    assert!(status.success(), "{log:#?}");
    assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());
    let warned = log.iter().filter(|line| line.contains("does not accept spans")).count();
    assert_eq!(warned, 1, "once, not for each batch");
}

#[test]
fn access_log_has_one_line_for_each_request_without_paths_or_bodies() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[]);
    let view = drive(&process.address, SIGN, &payment("secret-key-7"), &[EXECUTE]).unwrap();
    let id = view["operation_id"].as_str().unwrap().to_owned();
    let traced = Call::get(&format!("/v1/operations/{id}?secret-query"));
    traced.header("traceparent", &format!("00-{TRACE}-00f067aa0ba902b7-01")).send(&process.address).unwrap();
    Call::get("/secret-path").send(&process.address).unwrap();
    let (_, log) = process.terminate();
    let lines: Vec<Value> = log.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let access: Vec<_> = lines.iter().filter(|line| line["target"] == "access").collect();
    let expected = [
        ("POST", "/v1/operations/sign", 200),
        ("POST", "/v1/operations/{operationId}/approve", 200),
        ("POST", "/v1/operations/{operationId}/approve", 200),
        ("POST", "/v1/operations/{operationId}/execute", 200),
        ("GET", "/v1/operations/{operationId}", 200),
        ("GET", "(unmatched)", 404),
    ];
    let seen: Vec<_> = access
        .iter()
        .map(|line| {
            let text = |name: &str| line[name].as_str().unwrap();
            (text("method"), text("route"), line["status"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(seen, expected, "{access:#?}");
    for line in &access[..5] {
        assert_eq!(line["operation_id"], id.as_str(), "{line}");
        assert!(line["bytes"].as_u64().unwrap() > 0 && line["duration_us"].as_u64().unwrap() > 0, "{line}");
        assert!(!line["request_id"].as_str().unwrap().is_empty(), "{line}");
    }
    assert_eq!(access[4]["trace_id"], TRACE);
    assert_eq!(access[3]["trace_id"], Value::Null);
    let text = format!("{access:?}");
    assert!(!text.contains("secret"), "{text}");

    let quiet = Process::start(folder.path(), None, &[("log", "info,access=off")]);
    quiet.get("/healthz");
    let (_, log) = quiet.terminate();
    assert!(log.iter().all(|line| !line.contains("\"access\"")), "{log:#?}");
}

/// Names of metrics with their labels.
type Metrics = BTreeMap<String, BTreeSet<String>>;

/// The metrics of a text in Prometheus's format.
fn metrics(text: &str) -> Metrics {
    let mut metrics = Metrics::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (name, rest) = line.split_at(line.find(['{', ' ']).unwrap());
        let labels = metrics.entry(name.to_owned()).or_default();
        let inside = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |it| it.0);
        // A value may contain `{`, as routes do, so only what is before `="` counts.
        let names = inside.split("=\"").filter_map(|part| part.rsplit(['"', ',']).next());
        labels.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
        if name.ends_with("_bucket") {
            labels.insert("le".into());
        }
        if rest.contains("route=") {
            labels.extend(["route", "status"].map(str::to_owned));
        }
    }
    metrics
}

/// The metrics that a query names, with the labels that it matches, and the labels that it groups by.
fn named(query: &str) -> (Vec<(String, Vec<String>)>, Vec<String>) {
    let mut found = Vec::new();
    for (at, _) in query.match_indices("operation_gateway_") {
        let rest = &query[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let matched = rest[end..].strip_prefix('{').map_or("", |rest| rest.split_once('}').unwrap().0);
        let labels = matched.split(',').filter(|part| part.contains('"')).map(|part| {
            let end = part.find(['=', '!']).unwrap();
            part[..end].trim().to_owned()
        });
        found.push((rest[..end].to_owned(), labels.collect()));
    }
    let groups = query.split("by (").skip(1).flat_map(|rest| rest.split_once(')').unwrap().0.split(','));
    (found, groups.map(|label| label.trim().to_owned()).collect())
}

#[test]
fn dashboard_and_alerts_name_metrics_and_labels_that_the_gateway_has() {
    let folder = tempfile::tempdir().unwrap();
    let witness = Witness::start(1, &log_key(folder.path()));
    let witnesses = policy(folder.path(), &[&witness], 1);
    let consumer = Consumer::start(1);
    let webhooks = consumer::write_file(folder.path(), &[consumer.entry(folder.path(), "books", &[1])]);
    let settings =
        [("witness_policy", witnesses.to_str().unwrap()), ("webhooks_file", webhooks.to_str().unwrap())];
    let process = Process::start(folder.path(), None, &settings);
    drive(&process.address, SIGN, &payment("k-1"), &[EXECUTE, publish_step()]).unwrap();
    // A page of another site.
    let call = Call::new("POST", SIGN, "{}".into()).header("origin", "https://elsewhere.example");
    assert_eq!(call.send(&process.address).unwrap().status, 403);
    // The nodes' gauges are set every second.
    let has_nodes = |text: &String| text.contains("operation_gateway_node_usable{");
    let text = poll(|| text(&process.address, "/metrics"), has_nodes);
    let real = metrics(&text);

    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/observability");
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(format!("{folder}/dashboard.json")).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut queries: Vec<String> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect();
    let alerts = fs::read_to_string(format!("{folder}/alerts.yaml")).unwrap();
    let rules = alerts.split("expr: ").skip(1).map(|rest| {
        let end = rest.find("for: ").into_iter().chain(rest.find("labels: ")).min().unwrap();
        rest[..end].to_owned()
    });
    queries.extend(rules);
    assert!(queries.len() > 40, "{}", queries.len());
    for query in &queries {
        let (found, groups) = named(query);
        assert!(!found.is_empty(), "{query}");
        for (name, matched) in found {
            let labels = real.get(&name).unwrap_or_else(|| panic!("`{name}` is not in {text}"));
            for label in matched.iter().chain(&groups).filter(|label| *label != "instance") {
                assert!(labels.contains(label), "`{name}` has no label `{label}`: {query}");
            }
        }
    }
    // Every metric is described, in the page for operators too; durations are histograms.
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/docs/observability.md");
    let page = fs::read_to_string(page).unwrap();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        assert!(text.contains(&format!("# HELP {name} ")), "`{name}` is not described");
        assert!(page.contains(&format!("`{name}`")), "`{name}` is not in the page");
        assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
        assert_eq!(name.ends_with("_duration_seconds"), kind == "histogram", "{line}");
    }
    let mut documented = page.split('`').filter(|name| name.starts_with("operation_gateway_"));
    assert!(documented.all(|name| LATER.contains(&name) || text.contains(&format!("# TYPE {name} "))));
}

/// Metrics that appear with their first event, or over PostgreSQL only.
const LATER: [&str; 10] = [
    "operation_gateway_database_readers",
    "operation_gateway_witness_refusals_total",
    "operation_gateway_caller_requests_refused_total",
    "operation_gateway_connections_cut_total",
    "operation_gateway_connections_evicted_total",
    "operation_gateway_connections_refused_total",
    "operation_gateway_node_damaged",
    "operation_gateway_policy_faults_total",
    "operation_gateway_policy_shadow_total",
    "operation_gateway_node_usable",
];

/// A log collector that hangs leaves the pipe full, of standard output too.
#[test]
fn reader_of_the_log_that_stalls_stops_neither_requests_nor_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let (log, writer) = io::pipe().unwrap();
    let start = |writer: io::PipeWriter| {
        let mut command = command(folder.path(), &[]);
        command.stdout(writer.try_clone().unwrap()).stderr(writer).spawn().unwrap()
    };
    let mut gateway = start(writer);
    let mut log = BufReader::new(log);
    let address = loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "the gateway ended");
        let line: Value = serde_json::from_str(&line).unwrap();
        if line["message"].as_str().unwrap_or_default().contains("listens") {
            break line["address"].as_str().unwrap().to_owned();
        }
    };
    // A pipe takes 64 KiB, which is some hundred lines, and 8,192 wait.
    let n_lost = || {
        let name = "operation_gateway_log_lines_dropped_total{reason=\"queue\"} ";
        let metrics = text(&address, "/metrics");
        metrics.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok()).unwrap()
    };
    let mut n_requests = 0;
    while n_lost() < 100 {
        assert!(n_requests < 20_000, "no line was dropped");
        for _ in 0..500 {
            assert_eq!(request(&address, "GET", "/v1/nothing", None).unwrap().0, 404);
        }
        n_requests += 500;
    }
    let stopped = Command::new("kill").arg(gateway.id().to_string()).status().unwrap();
    assert!(stopped.success());
    let status = poll_within(Duration::from_secs(20), || gateway.try_wait().unwrap(), Option::is_some);
    assert!(status.unwrap().success(), "{status:?}");
}
