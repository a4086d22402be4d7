//! Probes on a separate address.

use crate::harness::process::{Process, request, text};
use crate::harness::wire::{connect_from, get_on};

#[test]
fn readiness_and_metrics_move_to_the_admin_address() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[("admin_bind", "127.0.0.1:0")]);
    let admin = process.admin_address.clone().unwrap();
    assert_ne!(admin, process.address);
    let at = |address: &str, path: &str| {
        let (status, answer) = request(address, "GET", path, None).unwrap();
        (status, answer["error"].as_str().unwrap_or_default().to_owned())
    };
    let (ok, not_found) = ((200, String::new()), (404, "not_found".to_owned()));
    assert_eq!(at(&process.address, "/healthz"), ok);
    assert_eq!(at(&process.address, "/readyz"), not_found);
    assert_eq!(at(&process.address, "/metrics"), not_found);
    assert_eq!(at(&admin, "/healthz"), ok);
    assert_eq!(at(&admin, "/readyz"), ok);
    assert!(text(&admin, "/metrics").contains("operation_gateway_requests_total"));
    for path in ["/v1/openapi.json", "/v1/log/checkpoint", "/v1/operations/sign"] {
        assert_eq!(at(&admin, path), not_found);
    }
}

#[test]
fn readiness_and_metrics_are_on_the_main_address_without_an_admin_address() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[]);
    assert_eq!(process.admin_address, None);
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(request(&process.address, "GET", path, None).unwrap().0, 200);
    }
}

#[test]
fn probes_are_answered_while_both_addresses_are_full() {
    let folder = tempfile::tempdir().unwrap();
    let overrides =
        [("admin_bind", "127.0.0.1:0"), ("connections_max", "4"), ("connections_per_address_max", "2")];
    let process = Process::start(folder.path(), None, &overrides);
    let admin = process.admin_address.clone().unwrap();
    for address in [&process.address, &admin] {
        let held = [2, 2, 3, 3].map(|last| {
            let mut stream = connect_from(last, address).unwrap();
            assert_eq!(get_on(&mut stream, "/healthz").unwrap().0, 200);
            stream
        });
        for _ in 0..4 {
            assert_eq!(request(&admin, "GET", "/readyz", None).unwrap().0, 200);
            assert_eq!(request(address, "GET", "/healthz", None).unwrap().0, 200);
        }
        drop(held);
    }
    let evicted = "operation_gateway_connections_evicted_total{listener=\"admin\",waiting_for=\"request\"}";
    assert!(text(&admin, "/metrics").contains(evicted));
}
