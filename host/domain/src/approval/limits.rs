//! Limits of approvals, their signatures and the registry.

/// The largest registry file, bytes: a thousand approvers with a few keys each.
pub const REGISTRY_BYTES_MAX: usize = 1024 * 1024;

/// The most entries of a registry.
pub const APPROVERS_MAX: usize = 1024;

/// The most keys of one approver, including revoked ones.
pub const KEYS_MAX: usize = 32;

/// The most roles or tenants of an approver, and the most origins of a credential.
pub const NAMES_MAX: usize = 64;

/// The longest name, bytes: as long as a string in a request.
pub const NAME_BYTES_MAX: usize = 1024;

/// The longest credential id, bytes. WebAuthn allows 1023. Authenticators use at most a few hundred, and the base64
/// text must fit a string in a request.
pub const CREDENTIAL_ID_BYTES_MAX: usize = 768;

/// The most authenticator data, bytes: 37, and extensions, which are ignored.
pub const AUTHENTICATOR_DATA_BYTES_MAX: usize = 768;

/// The most client data, bytes: type, challenge, origin, and members that browsers add.
pub const CLIENT_DATA_BYTES_MAX: usize = 768;

/// The longest signature of a credential, bytes: DER of two 256-bit integers has at most 72, EdDSA has 64.
pub const SIGNATURE_BYTES_MAX: usize = 80;

/// The tolerated difference between two clocks, milliseconds: an approver's may be ahead of the verifier's, and a
/// node's behind the gateway's.
pub const CLOCK_SKEW_MS: u64 = 5 * 60_000;
