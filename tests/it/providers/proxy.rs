//! nginx with client certificates, configured as in `host/docs/proxies.md`, and a gateway that trusts only this proxy.

use super::{unknown_operation, whole_life};
use crate::harness::certificates::Authority;
use crate::harness::http::{Answer, Call};
use crate::harness::process::Process;
use crate::harness::proxy::Proxy;
use crate::harness::tls::Trust;
use std::path::Path;

struct Front {
    gateway: Process,
    proxy: Proxy,
    clients: Authority,
    servers: Authority,
}

impl Front {
    fn start(folder: &Path) -> Self {
        let settings = [("auth_mode", "trusted_headers"), ("trusted_proxies", "127.0.0.1")];
        let gateway = Process::start(folder, None, &settings);
        let (clients, servers) = (Authority::new("Acme clients"), Authority::new("Acme servers"));
        let proxy = Proxy::start(&gateway.address, &clients, &servers);
        Self { gateway, proxy, clients, servers }
    }

    /// Sends through the proxy, with a certificate of this subject.
    fn send(&self, person: &str, call: &Call) -> Answer {
        call.send_tls(
            &self.proxy.address,
            &Trust::new(&self.servers, Some(&self.clients.client(person, "Acme"))),
        )
        .unwrap()
    }
}

/// Identity headers with every scope.
fn forged(call: Call) -> Call {
    let call = call.header("x-client-id", "treasury-portal").header("x-subject-id", "carol");
    call.header("x-roles", "operator")
        .header("X-Scopes", "operations.*,audit.read")
        .header("x-tenant", "acme")
}

#[test]
fn payment_is_published_through_nginx_with_client_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let front = Front::start(folder.path());
    whole_life("treasury-portal", &|person, call| front.send(person, &call));
}

#[test]
fn client_without_a_certificate_of_the_authority_is_stopped_at_the_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let front = Front::start(folder.path());
    let without_certificate = Trust::new(&front.servers, None);
    let answer = forged(unknown_operation()).send_tls(&front.proxy.address, &without_certificate).unwrap();
    assert_eq!(answer.status, 400, "{answer:?}");
    let elsewhere = Authority::new("Acme clients");
    let imitated = Trust::new(&front.servers, Some(&elsewhere.client("carol", "Acme")));
    let answer = forged(unknown_operation()).send_tls(&front.proxy.address, &imitated);
    assert!(answer.as_ref().is_err() || answer.as_ref().is_ok_and(|it| it.status == 400), "{answer:?}");
    // Issued by the authority, but unknown to this gateway.
    for (common, organisation) in [
        ("mallory", "Acme"),
        ("carol", "Elsewhere"),
        ("carol,O=Acme", "Acme"),
        ("CAROL", "Acme"),
        ("carol", "ACME"),
    ] {
        let shown = Trust::new(&front.servers, Some(&front.clients.client(common, organisation)));
        let answer = forged(unknown_operation()).send_tls(&front.proxy.address, &shown).unwrap();
        assert_eq!(answer.status, 403, "{common} {answer:?}");
        assert!(answer.json().is_null(), "the request reached the gateway: {answer:?}");
    }
}

#[test]
fn proxy_overwrites_identity_headers_of_clients() {
    let folder = tempfile::tempdir().unwrap();
    let front = Front::start(folder.path());
    // Alice may read and approve, whatever she sends.
    let evidence = forged(Call::get(&format!("/v1/operations/{}/audit-replay", "0".repeat(64))));
    front.send("alice", &evidence).fails(403, "audit_replay_forbidden");
    let submit =
        forged(Call::post("/v1/operations/sign", &super::payment_of("treasury-portal", "carol", "forged")));
    front.send("alice", &submit).fails(403, "insufficient_scope");
    // Carol may submit, and stays Carol whatever she sends.
    let other = Call::post("/v1/operations/sign", &super::payment_of("treasury-portal", "alice", "other"));
    front.send("carol", &other.header("x-subject-id", "alice")).fails(403, "client_binding_mismatch");
    front.send("alice", &unknown_operation()).fails(404, "operation_not_found");
}

#[test]
fn identity_headers_from_outside_the_proxy_have_no_effect() {
    let folder = tempfile::tempdir().unwrap();
    let front = Front::start(folder.path());
    let address = &front.gateway.address;
    forged(unknown_operation())
        .send_from("127.0.0.2", address)
        .unwrap()
        .fails(401, "authentication_required");
    let submit = Call::post("/v1/operations/sign", &super::payment_of("treasury-portal", "carol", "direct"));
    forged(submit).send_from("127.0.0.2", address).unwrap().fails(401, "authentication_required");
    // A `Forwarded` header that names the proxy does not help.
    let by_way = forged(unknown_operation())
        .header("x-forwarded-for", "127.0.0.1")
        .header("forwarded", "for=127.0.0.1");
    by_way.send_from("127.0.0.2", address).unwrap().fails(401, "authentication_required");
    // From the proxy's own address the same headers count.
    forged(unknown_operation()).send_from("127.0.0.1", address).unwrap().fails(404, "operation_not_found");
}
