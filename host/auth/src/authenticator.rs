//! [`Authenticator`]: identifies the caller of a request by its headers and its peer.

use crate::credentials::{bearer_token, client_certificate};
use crate::headers::identity;
use crate::{Addresses, Identity, Introspection, Jwks, Peer, Principal, TokenFault, Unauthenticated};
use gateway_domain::ids::Hex32;
use http::HeaderMap;

/// Authenticates callers in one of four modes (`host/docs/interface.md`, section *Authentication*).
pub struct Authenticator {
    mode: Mode,
    /// The proxies that are trusted to name the caller or the client's certificate.
    trusted_proxies: Addresses,
    /// Whether a caller without a tenant is rejected instead of belonging to the tenant `default`.
    requires_tenant: bool,
}

enum Mode {
    /// Development only: no credentials are required, and identity headers are trusted.
    Bypass,
    /// A trusted proxy has authenticated the caller, and names it in identity headers.
    TrustedHeaders,
    /// Bearer tokens signed by an issuer whose public keys are known.
    Jwks(Box<Jwks>),
    /// Bearer tokens that the identity provider validates.
    Introspection(Introspection),
}

impl Authenticator {
    /// The development bypass: no credentials are required.
    #[must_use]
    pub fn bypass() -> Self {
        Self::new(Mode::Bypass, Addresses::default())
    }

    /// Identity headers, from proxies at these addresses only.
    #[must_use]
    pub const fn trusted_headers(trusted_proxies: Addresses) -> Self {
        Self::new(Mode::TrustedHeaders, trusted_proxies)
    }

    /// Signed tokens. The proxies may name the client's certificate.
    #[must_use]
    pub fn jwks(jwks: Jwks, trusted_proxies: Addresses) -> Self {
        Self::new(Mode::Jwks(Box::new(jwks)), trusted_proxies)
    }

    /// Tokens that the identity provider validates. The proxies may name the client's certificate.
    #[must_use]
    pub const fn introspection(introspection: Introspection, trusted_proxies: Addresses) -> Self {
        Self::new(Mode::Introspection(introspection), trusted_proxies)
    }

    const fn new(mode: Mode, trusted_proxies: Addresses) -> Self {
        Self { mode, trusted_proxies, requires_tenant: false }
    }

    /// Sets whether callers without a tenant claim or header are rejected. Otherwise they share the tenant `default`. The bypass
    /// never rejects them.
    #[must_use]
    pub const fn require_tenant(mut self, requires_tenant: bool) -> Self {
        self.requires_tenant = requires_tenant;
        self
    }

    /// Whether this is the development bypass.
    #[must_use]
    pub const fn is_bypass(&self) -> bool {
        matches!(self.mode, Mode::Bypass)
    }

    /// The caller of a request with these headers, on a connection from this peer.
    ///
    /// Identity headers are read in two modes only: in the bypass, and from a trusted proxy in trusted-headers mode.
    pub async fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<Principal, Unauthenticated> {
        if self.is_bypass() {
            let caller = identity(headers, None)?;
            return Ok(caller.map_or(Principal::Unrestricted, Principal::Identified));
        }
        let peer = peer.ok_or(Unauthenticated::Required("the address of the connection is unknown"))?;
        let certificate = || client_certificate(headers, peer, &self.trusted_proxies);
        let caller = match &self.mode {
            Mode::Bypass | Mode::TrustedHeaders => self.identity_from_proxy(headers, peer, certificate)?,
            Mode::Jwks(jwks) => jwks.identity(bearer_token(headers)?, certificate()?).await?,
            Mode::Introspection(introspection) => {
                introspection.identity(bearer_token(headers)?, certificate()?).await?
            }
        };
        if self.requires_tenant && caller.tenant.is_none() {
            return Err(self.missing_tenant());
        }
        Ok(Principal::Identified(caller))
    }

    const fn missing_tenant(&self) -> Unauthenticated {
        match &self.mode {
            Mode::Bypass | Mode::TrustedHeaders => {
                Unauthenticated::Required("the proxy must name the caller's tenant")
            }
            Mode::Jwks(_) | Mode::Introspection(_) => {
                Unauthenticated::InvalidToken(TokenFault::Claim("tenant"))
            }
        }
    }

    fn identity_from_proxy(
        &self,
        headers: &HeaderMap,
        peer: &Peer,
        certificate: impl Fn() -> Result<Option<Hex32>, Unauthenticated>,
    ) -> Result<Identity, Unauthenticated> {
        if !self.trusted_proxies.contains(peer.address) {
            return Err(Unauthenticated::Required("only a trusted proxy may name the caller"));
        }
        identity(headers, certificate()?)?.ok_or(Unauthenticated::Required("the proxy must name the caller"))
    }

    /// Begins to fetch keys in the background. Call once, in an async runtime.
    pub fn warm_up(&self) {
        match &self.mode {
            Mode::Bypass | Mode::TrustedHeaders | Mode::Introspection(_) => {}
            Mode::Jwks(jwks) => jwks.keys.warm_up(),
        }
    }

    /// Fetches the issuer's keys now; `None` in a mode without keys.
    pub async fn reload_keys(&self) -> Option<Result<(), String>> {
        match &self.mode {
            Mode::Bypass | Mode::TrustedHeaders | Mode::Introspection(_) => None,
            Mode::Jwks(jwks) => Some(jwks.keys.reload().await),
        }
    }

    /// Whether callers can be authenticated now.
    ///
    /// # Errors
    /// The reason, without addresses or secrets.
    pub async fn check(&self) -> Result<(), &'static str> {
        match &self.mode {
            Mode::Bypass | Mode::TrustedHeaders => Ok(()),
            Mode::Jwks(jwks) => jwks.keys.check().await,
            Mode::Introspection(introspection) => introspection.check().await,
        }
    }
}
