//! Limits of what a stranger may send to be verified, and of what an operator may pin.

/// Bytes of a registry file: a thousand approvers with a few keys each.
pub const REGISTRY_BYTES_MAX: usize = 1024 * 1024;

/// Entries of a registry.
pub const APPROVERS_MAX: usize = 1024;

/// Keys of one approver: some devices, and those that were revoked.
pub const KEYS_MAX: usize = 32;

/// Roles and tenants of an approver, origins of a credential.
pub const NAMES_MAX: usize = 64;

/// Bytes of a name: that of a string on the wire.
pub const NAME_BYTES_MAX: usize = 1024;

/// Bytes of a credential id. WebAuthn allows 1023; what authenticators make has at most a few hundred, and its base64
/// form must fit a string on the wire.
pub const CREDENTIAL_ID_BYTES_MAX: usize = 768;

/// Bytes of authenticator data: 37, and extensions that nobody reads.
pub const AUTHENTICATOR_DATA_BYTES_MAX: usize = 768;

/// Bytes of client data: type, challenge, origin, and what browsers add against careless readers.
pub const CLIENT_DATA_BYTES_MAX: usize = 768;

/// Bytes of a signature by a credential: DER of two 256-bit integers has at most 72, EdDSA has 64; what is longer is no
/// signature, and is not looked at.
pub const SIGNATURE_BYTES_MAX: usize = 80;

/// How far two clocks of a deployment may be apart, milliseconds: an approver's ahead of the verifier's, a node's behind the
/// gateway's.
pub const CLOCK_SKEW_MS: u64 = 5 * 60_000;
