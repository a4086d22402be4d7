//! Every setting there is. `--help`, the environment, the file and the parser all come from here.

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Lower snake case: the key in the file. The flag is its kebab case, the environment variable
    /// `SVC_OPERATION_GATEWAY_` and its upper case.
    pub name: &'static str,
    /// In the development profile.
    pub development: &'static str,
    /// In production; none: it must be given.
    pub production: Option<&'static str>,
    /// Unit or shape of the value.
    pub unit: &'static str,
    /// What it settles.
    pub help: &'static str,
}

const fn both(name: &'static str, default: &'static str, unit: &'static str, help: &'static str) -> Setting {
    Setting { name, development: default, production: Some(default), unit, help }
}

const fn each(
    name: &'static str,
    development: &'static str,
    production: Option<&'static str>,
    unit: &'static str,
    help: &'static str,
) -> Setting {
    Setting { name, development, production, unit, help }
}

/// In the order of `--help`.
pub const SETTINGS: &[Setting] = &[
    both("profile", "development", "development|production", "Which defaults hold, and what is refused"),
    both("bind", "127.0.0.1:9200", "ADDRESS:PORT", "Where the API listens"),
    both(
        "admin_bind",
        "",
        "ADDRESS:PORT",
        "Where /readyz and /metrics are, in plain HTTP, instead of on bind; empty is on bind",
    ),
    both(
        "tls",
        "auto",
        "auto|on|off",
        "Whether bind speaks TLS; auto does with a certificate, and in production listens beyond loopback with nothing else",
    ),
    both(
        "tls_certificate",
        "",
        "FILE",
        "The gateway's certificate and those between it and its authority, PEM",
    ),
    both("tls_key", "", "FILE", "The private key of the certificate, PEM, mode 0600"),
    both("tls_client_ca", "", "FILE", "Authorities whose clients' certificates are believed, PEM"),
    both(
        "tls_client_auth",
        "off",
        "off|optional|required",
        "Whether a client shows a certificate; one that is shown is verified",
    ),
    both("connections_max", "1024", "CONNECTIONS", "Connections at once; one more is closed"),
    both(
        "connections_per_address_max",
        "256",
        "CONNECTIONS",
        "Connections at once from one address, or one /64 of IPv6; one more is closed",
    ),
    both("tls_handshake_within_ms", "10000", "MILLISECONDS", "How long a TLS handshake may take"),
    both(
        "header_within_ms",
        "10000",
        "MILLISECONDS",
        "How long a client may take to send a request's headers",
    ),
    both("body_within_ms", "20000", "MILLISECONDS", "How long a client may take to send a request's body"),
    both("idle_within_ms", "60000", "MILLISECONDS", "How long a connection may be without a request"),
    both(
        "write_within_ms",
        "30000",
        "MILLISECONDS",
        "How long a client may take to take the rest of an answer",
    ),
    both(
        "request_within_ms",
        "60000",
        "MILLISECONDS",
        "How long a request may take as a whole; more than body_within_ms and answer_within_ms",
    ),
    both("header_bytes_max", "32768", "BYTES", "Largest request line and headers together"),
    both("headers_max", "64", "HEADERS", "Most headers of a request"),
    both("database_url", "sqlite://data/gateway.db", "URL", "The gateway's store"),
    both("node_directory", "data/nodes", "DIRECTORY", "The embedded nodes' share stores"),
    both(
        "node_key",
        "",
        "FILE",
        "Key that the nodes' shares are sealed under, 32 bytes or hexadecimal, mode 0600; made on first start in \
         development; empty is node.key in the node directory",
    ),
    both(
        "node_passphrase_file",
        "",
        "FILE",
        "Instead of node_key: one line, mode 0600, that the key is stretched from",
    ),
    both("runtime_nodes", "embedded", "embedded", "Where the runtime nodes are"),
    both("node_count", "16", "NODES", "How many runtime nodes there are; participants are numbered below it"),
    each(
        "authority_key",
        "data/authority.key",
        None,
        "FILE",
        "Ed25519 seed that signs admission decisions, 32 bytes or hexadecimal, mode 0600; made on first start in development",
    ),
    both(
        "authority_keys_previous",
        "",
        "HEX,...",
        "Public keys that signed admission decisions before, whose decisions still hold",
    ),
    each(
        "log_key",
        "data/log.key",
        None,
        "FILE",
        "Ed25519 seed that signs checkpoints of the log of all events, 32 bytes or hexadecimal, mode 0600, another than authority_key; \
         made on first start in development",
    ),
    each(
        "log_origin",
        "operation-gateway.local/log",
        None,
        "NAME",
        "What checkpoints call the log: a URL without scheme that no other log has, without white space and +",
    ),
    each("policy_bundle", "bundles/payment-guard", None, "DIRECTORY", "The signed policy bundle"),
    each(
        "policy_trust_roots",
        "bundles/trust-development.json",
        None,
        "FILE",
        "Whose signatures on a bundle are believed",
    ),
    both(
        "policy_pins",
        "",
        "HASH,...",
        "Bundle hashes allowed besides their signatures; empty allows any signed one",
    ),
    both(
        "policy_activation",
        "",
        "FILE",
        "A signed activation record: which bundle is to be active again, whatever its sequence; empty is none",
    ),
    both(
        "policy_candidate",
        "",
        "DIRECTORY",
        "A signed bundle that sees what the active one sees and decides nothing; empty is none",
    ),
    both(
        "policy_watch_ms",
        "2000",
        "MILLISECONDS",
        "How often bundle, trust roots, record, candidate and approvers_file are looked at; 0 is only on SIGHUP",
    ),
    each(
        "auth_mode",
        "bypass",
        None,
        "bypass|trusted_headers|jwks|introspection",
        "How callers are authenticated; host/docs/authentication.md says what each mode needs",
    ),
    both(
        "trusted_proxies",
        "",
        "ADDRESS|CIDR,...",
        "Whose identity headers and x-client-cert-sha256 are believed; nobody else's ever are",
    ),
    both(
        "allowed_origins",
        "",
        "ORIGIN,...",
        "Origins, as https://console.example, whose pages may send requests besides those of the gateway's own host; \
         also the names by which a browser may reach it without authentication, besides loopback",
    ),
    both("jwks_url", "", "URL", "Where the issuer publishes its keys: https, or http on loopback"),
    both(
        "jwks_file",
        "",
        "FILE",
        "Instead of jwks_url: a JSON Web Key Set, read again when a key is not in it",
    ),
    both(
        "jwks_max_age_ms",
        "86400000",
        "MILLISECONDS",
        "How long keys hold that can not be fetched again; while they can be, they are every five minutes",
    ),
    both("token_issuer", "", "TEXT", "What `iss` of every token must be"),
    both("token_audience", "", "TEXT", "What `aud` of every token must be, or have"),
    both(
        "token_client_claims",
        "client_id,azp",
        "CLAIM,...",
        "Where tokens have the calling system, the first that is there; a name with / in front is a JSON pointer",
    ),
    both("token_roles_claim", "roles", "CLAIM", "Where tokens have the caller's roles"),
    both("token_tenant_claim", "tenant", "CLAIM", "Where tokens have the tenant"),
    each(
        "tenant_required",
        "false",
        Some("true"),
        "true|false",
        "Whether a caller without a tenant is refused; else it is of the tenant `default`, with all others that have none",
    ),
    both("introspection_url", "", "URL", "Where tokens are asked about: https, or http on loopback"),
    both("introspection_client_id", "", "TEXT", "Who the gateway is to the identity provider"),
    both(
        "introspection_client_secret_file",
        "",
        "FILE",
        "The proof of it, one line, mode 0600; or the secret itself in the environment variable \
         SVC_OPERATION_GATEWAY_INTROSPECTION_CLIENT_SECRET",
    ),
    both(
        "identity_provider_ca",
        "",
        "FILE",
        "Certificates in PEM that the identity provider's may be of; empty is the system's authorities",
    ),
    both(
        "required_approvals",
        "2",
        "APPROVALS",
        "Least approvals an operation needs; a bundle may ask for more",
    ),
    both(
        "signed_approvals",
        "off",
        "off|optional|required",
        "Whether approvals are signed by their approvers; the gateway and each node verify them against approvers_file",
    ),
    both(
        "approvers_file",
        "",
        "FILE",
        "Registry of the approvers' public keys; read again when it changes, and empty while signed_approvals is off",
    ),
    both(
        "production_exceptions",
        "",
        "NAME,...",
        "What production does without: unsigned_approvals, embedded_nodes, embedded_authority; each is in /readyz and the log",
    ),
    each("permitted_recipients", "*", Some(""), "ACCOUNT,...", "Accounts that may be paid; * is any"),
    each(
        "separation_of_duties",
        "false",
        Some("true"),
        "true|false",
        "Whether a submitter's own approval is refused",
    ),
    each(
        "auto_provision_keys",
        "true",
        Some("false"),
        "true|false",
        "Whether an operation without a key gets one made on first use, and a signature the key whose creation awaits approvals",
    ),
    each(
        "signature_profile_aliases",
        "*=frost-ed25519-sha512",
        Some(""),
        "NAME=PROFILE,...",
        "Other names under which keys may ask for a signature profile; * is any",
    ),
    each(
        "unknown_fields",
        "warn",
        Some("reject"),
        "warn|reject",
        "What becomes of body members the interface does not have",
    ),
    both("approval_ttl_ms", "86400000", "MILLISECONDS", "How long an operation waits for its quorum"),
    both("admission_ttl_ms", "86400000", "MILLISECONDS", "How long an admission decision holds"),
    both(
        "admission_rate",
        "50",
        "PER SECOND",
        "Submissions of one client in the long run; 0 switches the limit off",
    ),
    both("admission_burst", "100", "SUBMISSIONS", "Submissions of one client at once"),
    each(
        "preview_rate",
        "0",
        Some("100"),
        "PER SECOND",
        "Previews of one client in the long run; 0 switches the limit off",
    ),
    both("preview_burst", "1000", "PREVIEWS", "Previews of one client at once"),
    both(
        "preview_records_max",
        "100000",
        "PREVIEWS",
        "How many previews are kept on record, the newest; each is on disk before it is answered. 0 keeps none",
    ),
    both("body_bytes_max", "65536", "BYTES", "Largest request body"),
    both("recovery_body_bytes_max", "1048576", "BYTES", "Largest node-recovery body"),
    both("audit_bytes_max", "524288", "BYTES", "Largest audit export"),
    both(
        "answer_within_ms",
        "30000",
        "MILLISECONDS",
        "How long a caller waits for work that goes on without it",
    ),
    both("reconcile_every_ms", "1000", "MILLISECONDS", "How often work that nobody drives is looked for"),
    both(
        "shutdown_within_ms",
        "30000",
        "MILLISECONDS",
        "How long a stopping gateway waits for what is in flight",
    ),
    both("log", "info", "FILTER", "What is logged, as tracing filter directives"),
    both("log_format", "auto", "auto|pretty|json", "auto is pretty in a terminal, JSON otherwise"),
];

/// Secrets that the environment may have, and nothing else: arguments and files of settings are read by too many.
pub(super) const SECRETS: &[&str] = &[super::auth::CLIENT_SECRET];

/// What the environment variables begin with.
pub(super) const ENVIRONMENT_PREFIX: &str = "SVC_OPERATION_GATEWAY_";

impl Setting {
    /// The environment variable.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("{ENVIRONMENT_PREFIX}{}", self.name.to_uppercase())
    }

    /// The flag, without its dashes.
    #[must_use]
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }
}
