//! The one question: who calls?

use crate::credentials::{bearer_token, client_certificate};
use crate::headers::identity;
use crate::{Addresses, Identity, Introspection, Jwks, Peer, Principal, TokenFault, Unauthenticated};
use gateway_domain::ids::Hex32;
use http::HeaderMap;

/// How callers are authenticated (decisions.md 7).
pub struct Authenticator {
    mode: Mode,
    /// Whose word is taken about who calls, or about the certificate of whoever does.
    trusted_proxies: Addresses,
    /// Whether a caller without a tenant is nobody, instead of one of the tenant `default`.
    requires_tenant: bool,
}

enum Mode {
    /// Nobody is asked who they are, but whoever says so is held to it. For development alone.
    Bypass,
    /// A proxy has authenticated the caller, and says who it is.
    TrustedHeaders,
    /// Bearer tokens that are signed by an issuer whose keys are known.
    Jwks(Box<Jwks>),
    /// Bearer tokens that the identity provider is asked about.
    Introspection(Introspection),
}

impl Authenticator {
    /// The development bypass.
    #[must_use]
    pub fn bypass() -> Self {
        Self::of(Mode::Bypass, Addresses::default())
    }

    /// Identity headers, from these addresses alone.
    #[must_use]
    pub const fn trusted_headers(trusted_proxies: Addresses) -> Self {
        Self::of(Mode::TrustedHeaders, trusted_proxies)
    }

    /// Signed tokens. The proxies may say which certificate the client has.
    #[must_use]
    pub fn jwks(jwks: Jwks, trusted_proxies: Addresses) -> Self {
        Self::of(Mode::Jwks(Box::new(jwks)), trusted_proxies)
    }

    /// Tokens that the identity provider knows. The proxies may say which certificate the client has.
    #[must_use]
    pub const fn introspection(introspection: Introspection, trusted_proxies: Addresses) -> Self {
        Self::of(Mode::Introspection(introspection), trusted_proxies)
    }

    const fn of(mode: Mode, trusted_proxies: Addresses) -> Self {
        Self { mode, trusted_proxies, requires_tenant: false }
    }

    /// The same, and every caller must have a tenant: where the claim or the header is missing, nobody meets in `default`. The
    /// bypass asks nobody.
    #[must_use]
    pub const fn requiring_tenant(mut self, requires_tenant: bool) -> Self {
        self.requires_tenant = requires_tenant;
        self
    }

    /// Whether nobody has to say who they are.
    #[must_use]
    pub const fn is_bypass(&self) -> bool {
        matches!(self.mode, Mode::Bypass)
    }

    /// The caller of a request with these headers, on a connection from this peer.
    ///
    /// Identity headers mean something in two modes: in the bypass, to whoever tries scopes out, and from a trusted
    /// proxy in its own. Everywhere else they are not even read.
    ///
    /// # Errors
    /// [`Unauthenticated`].
    pub async fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<Principal, Unauthenticated> {
        if self.is_bypass() {
            let caller = identity(headers, None)?;
            return Ok(caller.map_or(Principal::Unrestricted, Principal::Identified));
        }
        let peer = peer.ok_or(Unauthenticated::Required("the connection has no known origin"))?;
        let certificate = || client_certificate(headers, peer, &self.trusted_proxies);
        let caller = match &self.mode {
            Mode::Bypass | Mode::TrustedHeaders => self.told_by_proxy(headers, peer, certificate)?,
            Mode::Jwks(jwks) => jwks.identity(bearer_token(headers)?, certificate()?).await?,
            Mode::Introspection(introspection) => {
                introspection.identity(bearer_token(headers)?, certificate()?).await?
            }
        };
        if self.requires_tenant && caller.tenant.is_none() {
            return Err(self.without_tenant());
        }
        Ok(Principal::Identified(caller))
    }

    const fn without_tenant(&self) -> Unauthenticated {
        match &self.mode {
            Mode::Bypass | Mode::TrustedHeaders => {
                Unauthenticated::Required("the proxy must say of which tenant the caller is")
            }
            Mode::Jwks(_) | Mode::Introspection(_) => {
                Unauthenticated::InvalidToken(TokenFault::Claim("tenant"))
            }
        }
    }

    fn told_by_proxy(
        &self,
        headers: &HeaderMap,
        peer: &Peer,
        certificate: impl Fn() -> Result<Option<Hex32>, Unauthenticated>,
    ) -> Result<Identity, Unauthenticated> {
        if !self.trusted_proxies.contains(peer.address) {
            return Err(Unauthenticated::Required("only a trusted proxy can say who calls"));
        }
        identity(headers, certificate()?)?.ok_or(Unauthenticated::Required("the proxy must say who calls"))
    }

    /// Begins what takes time, behind the callers' backs: to be called once, where there is a runtime.
    pub fn warm_up(&self) {
        match &self.mode {
            Mode::Bypass | Mode::TrustedHeaders | Mode::Introspection(_) => {}
            Mode::Jwks(jwks) => jwks.warm_up(),
        }
    }

    /// Fetches the issuer's keys again, now; none in a mode without keys.
    pub async fn reload_keys(&self) -> Option<Result<(), String>> {
        match &self.mode {
            Mode::Bypass | Mode::TrustedHeaders | Mode::Introspection(_) => None,
            Mode::Jwks(jwks) => Some(jwks.reload().await),
        }
    }

    /// Whether callers can be authenticated now.
    ///
    /// # Errors
    /// Why not: no address, no secret.
    pub async fn check(&self) -> Result<(), &'static str> {
        match &self.mode {
            Mode::Bypass | Mode::TrustedHeaders => Ok(()),
            Mode::Jwks(jwks) => jwks.check().await,
            Mode::Introspection(introspection) => introspection.check().await,
        }
    }
}
