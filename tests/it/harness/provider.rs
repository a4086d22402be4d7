//! A real identity provider: `oidc-provider` on Node.js, started by `tests/providers/oidc/server.mjs`.

use super::certificates::{Authority, Certified};
use super::child::Program;
use super::http::{Answer, Call};
use super::port::Port;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// The hint when Node.js or the package is missing.
const MISSING: &str = "Node.js 20 and its packages are needed: run ./scripts/test";

/// The secret with which the gateway authenticates, as client `gateway`, to introspect tokens.
pub(crate) const GATEWAY_SECRET: &str = "gateway-secret";

/// The `resource` of a token request, up to its query string, whose parameters tell `server.mjs` how to alter the token.
const RESOURCE: &str = "https://gateway.test/?";

pub(crate) struct Provider {
    program: Program,
    pub(crate) issuer: String,
    port: Port,
    tls_port: Option<u16>,
    folder: TempDir,
}

/// A client of the grant `client_credentials`.
fn client(id: &str, tenant: &str, roles: &[&str]) -> Value {
    let secret = format!("{id}-secret");
    json!({
        "client_id": id, "client_secret": secret, "token_endpoint_auth_method": "client_secret_post",
        "tenant": tenant, "roles": roles,
    })
}

/// All clients registered at the provider.
fn clients() -> Value {
    let portal = json!({
        "client_id": "portal", "client_secret": "portal-secret", "tenant": "acme",
        "token_endpoint_auth_method": "client_secret_post",
        "people": { "alice": ["approver"], "bob": ["approver"], "carol": ["operator"] },
    });
    let bank = json!({
        "client_id": "bank", "tenant": "acme", "roles": ["operator"],
        "token_endpoint_auth_method": "tls_client_auth", "tls_client_auth_subject_dn": "O=Acme\nCN=bank",
        "tls_client_certificate_bound_access_tokens": true,
    });
    let gateway = json!({ "client_id": "gateway", "client_secret": GATEWAY_SECRET, "grant_types": [] });
    let services =
        [("treasury", "acme", "operator"), ("auditor", "acme", "auditor"), ("rival", "globex", "operator")];
    let mut all = services.map(|(id, tenant, role)| client(id, tenant, &[role])).to_vec();
    all.extend([portal, bank, gateway]);
    json!(all)
}

impl Provider {
    pub(crate) fn start() -> Self {
        Self::start_on(tempfile::tempdir().unwrap(), Port::reserve(), json!(null))
    }

    /// Starts with a second listener, over TLS, that requires client certificates issued by `authority`.
    pub(crate) fn start_with_tls(authority: &Authority, server: &Certified) -> Self {
        let folder = tempfile::tempdir().unwrap();
        server.write(folder.path(), "server");
        fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let tls =
            json!({ "certificate": file("server.pem"), "key": file("server.key"), "ca": file("ca.pem") });
        Self::start_on(folder, Port::reserve(), tls)
    }

    /// Kills the provider and starts it again at the same address, with new signing keys and without TLS.
    pub(crate) fn restart(mut self) -> Self {
        self.kill();
        Self::start_on(self.folder, self.port, json!(null))
    }

    fn start_on(folder: TempDir, port: Port, tls: Value) -> Self {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("providers/oidc");
        assert!(sources.join("node_modules").exists(), "{MISSING}");
        let config = folder.path().join("provider.json");
        let written = json!({ "port": port.address.port(), "tls": tls, "clients": clients() });
        fs::write(&config, written.to_string()).unwrap();
        let mut program =
            Program::start(Command::new("node").arg(sources.join("server.mjs")).arg(config), MISSING);
        let listening: Value = serde_json::from_str(&program.wait_for_line("\"issuer\"")).unwrap();
        let issuer = listening["issuer"].as_str().unwrap().to_owned();
        let tls_port = listening["tls_port"].as_u64().map(|port| u16::try_from(port).unwrap());
        Self { program, issuer, port, tls_port, folder }
    }

    pub(crate) fn kill(&mut self) {
        self.program.kill();
    }

    pub(crate) fn address(&self) -> String {
        self.port.address.to_string()
    }

    pub(crate) fn tls_address(&self) -> String {
        format!("127.0.0.1:{}", self.tls_port.unwrap())
    }

    /// A token of the grant `client_credentials`. `alterations`: query parameters that `server.mjs` lists, as in `alg=ES256&ttl=5`.
    pub(crate) fn token(&self, client: &str, scope: &str, alterations: &str) -> String {
        let fields = [("grant_type", "client_credentials"), ("scope", scope)];
        self.request_token(client, &fields, alterations)
    }

    /// A token for a user, issued to the client `portal`.
    pub(crate) fn user_token(&self, user: &str, scope: &str, alterations: &str) -> String {
        let grant = "urn:operation-gateway:test:person";
        self.request_token(
            "portal",
            &[("grant_type", grant), ("person", user), ("scope", scope)],
            alterations,
        )
    }

    fn request_token(&self, client: &str, fields: &[(&str, &str)], alterations: &str) -> String {
        let secret = format!("{client}-secret");
        let call = token_call(client, fields, alterations, &[("client_secret", &secret)]);
        access_token(&call.send(&self.address()).unwrap())
    }
}

/// A client's token request.
pub(crate) fn token_call(
    client: &str,
    fields: &[(&str, &str)],
    alterations: &str,
    client_credentials: &[(&str, &str)],
) -> Call {
    let resource = format!("{RESOURCE}{alterations}");
    let mut all = vec![("client_id", client), ("resource", resource.as_str())];
    all.extend(fields);
    all.extend(client_credentials);
    Call::form("/token", &all)
}

/// The access token in a response, whose status must be 200.
#[track_caller]
pub(crate) fn access_token(answer: &Answer) -> String {
    answer.ok()["access_token"].as_str().unwrap().to_owned()
}
