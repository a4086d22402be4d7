//! nginx with client certificates, configured as in `host/docs/authentication.md`, and a gateway that trusts only this proxy.

use super::{publish_payment, unknown_operation};
use crate::harness::certificates::Authority;
use crate::harness::http::{Answer, Call};
use crate::harness::process::{Process, SIGN};
use crate::harness::proxy::Proxy;
use crate::harness::tls::Trust;
use std::path::Path;

/// A gateway behind nginx, with the authorities of client and server certificates.
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

    /// Sends through the proxy, with a certificate for this person.
    fn send(&self, person: &str, call: &Call) -> Answer {
        let certificate = self.clients.client(person, "Acme");
        call.send_tls(&self.proxy.address, &Trust::new(&self.servers, Some(&certificate))).unwrap()
    }
}

/// The request with identity headers of Carol and more scopes than she has.
fn with_forged_headers(call: Call) -> Call {
    let call = call.header("x-client-id", "treasury-portal").header("x-subject-id", "carol");
    call.header("x-roles", "operator")
        .header("X-Scopes", "operations.*,audit.read")
        .header("x-tenant", "acme")
}

#[test]
fn payment_is_published_through_nginx_with_client_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let front = Front::start(folder.path());
    publish_payment("treasury-portal", &|person, call| front.send(person, &call));
}

#[test]
fn client_without_a_known_certificate_is_refused_by_the_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let front = Front::start(folder.path());
    let without_certificate = Trust::new(&front.servers, None);
    let answer = with_forged_headers(unknown_operation())
        .send_tls(&front.proxy.address, &without_certificate)
        .unwrap();
    assert_eq!(answer.status, 400, "{answer:?}");
    let other_authority = Authority::new("Acme clients");
    let imitated = Trust::new(&front.servers, Some(&other_authority.client("carol", "Acme")));
    let answer = with_forged_headers(unknown_operation()).send_tls(&front.proxy.address, &imitated);
    assert!(answer.as_ref().is_err() || answer.as_ref().is_ok_and(|it| it.status == 400), "{answer:?}");
    // Certificates of the authority whose subjects the proxy does not know.
    for (common, organisation) in [
        ("mallory", "Acme"),
        ("carol", "Elsewhere"),
        ("carol,O=Acme", "Acme"),
        ("CAROL", "Acme"),
        ("carol", "ACME"),
    ] {
        let shown = Trust::new(&front.servers, Some(&front.clients.client(common, organisation)));
        let answer = with_forged_headers(unknown_operation()).send_tls(&front.proxy.address, &shown).unwrap();
        assert_eq!(answer.status, 403, "{common} {answer:?}");
        assert!(answer.json().is_null(), "the request reached the gateway: {answer:?}");
    }
}

#[test]
fn proxy_overwrites_identity_headers_of_clients() {
    let folder = tempfile::tempdir().unwrap();
    let front = Front::start(folder.path());
    // Alice may read and approve, whatever headers she sends.
    let evidence = with_forged_headers(Call::get(&format!("/v1/operations/{}/audit-replay", "0".repeat(64))));
    front.send("alice", &evidence).fails(403, "audit_replay_forbidden");
    let submit =
        with_forged_headers(Call::post(SIGN, &super::payment_of("treasury-portal", "carol", "forged")));
    front.send("alice", &submit).fails(403, "insufficient_scope");
    // Carol may submit, and remains Carol whatever headers she sends.
    let other = Call::post(SIGN, &super::payment_of("treasury-portal", "alice", "other"));
    front.send("carol", &other.header("x-subject-id", "alice")).fails(403, "client_binding_mismatch");
    front.send("alice", &unknown_operation()).fails(404, "operation_not_found");
}

#[test]
fn identity_headers_from_outside_the_proxy_have_no_effect() {
    let folder = tempfile::tempdir().unwrap();
    let front = Front::start(folder.path());
    let address = &front.gateway.address;
    with_forged_headers(unknown_operation())
        .send_from(2, address)
        .unwrap()
        .fails(401, "authentication_required");
    let submit = Call::post(SIGN, &super::payment_of("treasury-portal", "carol", "direct"));
    with_forged_headers(submit).send_from(2, address).unwrap().fails(401, "authentication_required");
    // A `Forwarded` header that names the proxy does not help.
    let forwarded = with_forged_headers(unknown_operation())
        .header("x-forwarded-for", "127.0.0.1")
        .header("forwarded", "for=127.0.0.1");
    forwarded.send_from(2, address).unwrap().fails(401, "authentication_required");
    // From the proxy's own address the same headers count.
    with_forged_headers(unknown_operation()).send_from(1, address).unwrap().fails(404, "operation_not_found");
}
