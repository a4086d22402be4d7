//! The claims of a token, from the token itself or from introspection, and the rules that they must satisfy.

use crate::credentials::thumbprint;
use crate::limits::{LEEWAY_MS, LIST_ENTRIES_MAX, TEXT_BYTES_MAX};
use crate::{Identity, TokenFault, TokenId};
use gateway_domain::ids::{Hex32, Tenant};
use gateway_domain::time::EpochMs;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

/// The name of a claim, or a JSON pointer to it if it begins with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimName(String);

/// The rules for claims, and the names of the claims that providers name differently.
#[derive(Clone, Debug)]
pub struct ClaimRules {
    /// The only trusted issuer; `None` accepts any, for tokens that the provider itself validates.
    pub issuer: Option<String>,
    /// The audience that tokens must have; `None` accepts any, likewise.
    pub audience: Option<String>,
    /// The client id's claim: the first of these that exists.
    pub client: Vec<ClaimName>,
    /// The scopes' claim: the first of these that exists. A text has words, a list one scope in each element.
    pub scopes: Vec<ClaimName>,
    /// The roles' claim.
    pub roles: ClaimName,
    /// The tenant's claim.
    pub tenant: ClaimName,
    /// The claims that policies may read, by the names of their facts.
    pub facts: BTreeMap<String, ClaimName>,
    /// Whether the subject of a token without `sub` is the client. RFC 7662 does not require `sub`, RFC 9068 does.
    pub client_is_subject: bool,
}

/// The claims of a token from the issuer. [`Self::identity`] checks whether the token is valid now and for a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    identity: Identity,
    not_before_ms: u64,
    expires_ms: Option<u64>,
    /// The certificate it is bound to (RFC 8705).
    certificate: Option<Hex32>,
}

impl FromStr for ClaimName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() || text.contains(char::is_whitespace) || text == "/" {
            return Err("must be the name of a claim, or a JSON pointer to it");
        }
        Ok(Self(text.to_owned()))
    }
}

impl ClaimName {
    fn find<'a>(&self, claims: &'a Map<String, Value>) -> Option<&'a Value> {
        let found = match self.0.strip_prefix('/') {
            None => claims.get(&self.0),
            Some(path) => {
                let (first, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
                claims.get(&first.replace("~1", "/").replace("~0", "~"))?.pointer(rest)
            }
        };
        found.filter(|value| !value.is_null())
    }
}

impl Claims {
    /// Reads the claims of a token whose signature, or whose introspection, has been checked.
    ///
    /// # Errors
    /// [`TokenFault`]: `Issuer`, `Audience`, `Claim`, `TooMany`, `FactClaim`, `Unproved`.
    pub fn read(claims: &Map<String, Value>, rules: &ClaimRules) -> Result<Self, TokenFault> {
        check_issuer(claims, rules)?;
        check_audience(claims, rules)?;
        let client_id = rules.client.iter().find_map(|name| name.find(claims));
        let client_id = text(client_id, "client_id")?.ok_or(TokenFault::Claim("client_id"))?;
        let subject_id = match text(claims.get("sub"), "sub")? {
            Some(subject_id) => subject_id,
            None if rules.client_is_subject => client_id.clone(),
            None => return Err(TokenFault::Claim("sub")),
        };
        let scopes = rules.scopes.iter().find_map(|name| name.find(claims));
        Ok(Self {
            identity: Identity {
                client_id,
                subject_id,
                roles: texts(rules.roles.find(claims), "roles", |text| vec![text])?,
                scopes: texts(scopes, "scope", |text| text.split(' ').filter(|it| !it.is_empty()).collect())?,
                tenant: text(rules.tenant.find(claims), "tenant")?.map(Tenant),
                token_jti: text(claims.get("jti"), "jti")?.map(TokenId::new),
                cert_sha256: None,
                facts: Arc::new(facts(claims, rules)?),
            },
            not_before_ms: epoch_ms(claims.get("nbf"), "nbf")?.unwrap_or_default(),
            expires_ms: epoch_ms(claims.get("exp"), "exp")?,
            certificate: bound_certificate(claims.get("cnf"))?,
        })
    }

    /// The caller, if the token is valid now and is not bound to another certificate. The certificate becomes part of the
    /// identity even if the token is not bound to one.
    ///
    /// # Errors
    /// [`TokenFault`]: `Expired`, `NotYetValid`, `Unproved`.
    pub fn identity(&self, now: EpochMs, certificate: Option<Hex32>) -> Result<Identity, TokenFault> {
        if self.expires_ms.is_some_and(|expires_ms| expires_ms.saturating_add(LEEWAY_MS) <= now.0) {
            return Err(TokenFault::Expired);
        }
        if self.not_before_ms > now.0.saturating_add(LEEWAY_MS) {
            return Err(TokenFault::NotYetValid);
        }
        if self.certificate.is_some() && self.certificate != certificate {
            return Err(TokenFault::Unproved);
        }
        Ok(Identity { cert_sha256: certificate, ..self.identity.clone() })
    }

    /// The expiry, if the token has one.
    pub(crate) const fn expires_ms(&self) -> Option<u64> {
        self.expires_ms
    }
}

/// RFC 7519, section 4.1.1: one issuer, compared byte for byte.
fn check_issuer(claims: &Map<String, Value>, rules: &ClaimRules) -> Result<(), TokenFault> {
    let Some(issuer) = &rules.issuer else { return Ok(()) };
    if claims.get("iss").and_then(Value::as_str) == Some(issuer) { Ok(()) } else { Err(TokenFault::Issuer) }
}

/// RFC 7519, section 4.1.3: one audience, or a list with it.
fn check_audience(claims: &Map<String, Value>, rules: &ClaimRules) -> Result<(), TokenFault> {
    let Some(audience) = &rules.audience else { return Ok(()) };
    let is_for_us = match claims.get("aud") {
        Some(Value::String(only)) => only == audience,
        Some(Value::Array(list)) => list.iter().any(|one| one == audience),
        Some(_) | None => false,
    };
    if is_for_us { Ok(()) } else { Err(TokenFault::Audience) }
}

/// Whether a text is as one in a request body may be. Databases cannot store U+0000.
fn is_valid(text: &str) -> bool {
    !text.is_empty() && text.len() <= TEXT_BYTES_MAX && !text.contains('\0')
}

/// The facts that claims are: a text as it is, anything else as JSON without white space.
fn facts(claims: &Map<String, Value>, rules: &ClaimRules) -> Result<BTreeMap<String, String>, TokenFault> {
    let found = rules.facts.iter().filter_map(|(fact, name)| Some((fact, name.find(claims)?)));
    found.map(|(fact, value)| Ok((fact.clone(), fact_value(value)?))).collect()
}

fn fact_value(value: &Value) -> Result<String, TokenFault> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if text.len() > TEXT_BYTES_MAX || text.contains('\0') { Err(TokenFault::FactClaim) } else { Ok(text) }
}

/// An optional text, which must not be empty.
fn text(value: Option<&Value>, claim: &'static str) -> Result<Option<String>, TokenFault> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if is_valid(text) => Ok(Some(text.clone())),
        Some(_) => Err(TokenFault::Claim(claim)),
    }
}

/// An optional list of texts: an array, or one text that `split` divides.
fn texts<'a>(
    value: Option<&'a Value>,
    claim: &'static str,
    split: impl Fn(&'a str) -> Vec<&'a str>,
) -> Result<Vec<String>, TokenFault> {
    let fault = TokenFault::Claim(claim);
    let texts = match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => split(text),
        Some(Value::Array(list)) => list.iter().map(Value::as_str).collect::<Option<_>>().ok_or(fault)?,
        Some(_) => return Err(fault),
    };
    if texts.len() > LIST_ENTRIES_MAX {
        return Err(TokenFault::TooMany(claim));
    }
    if !texts.iter().all(|text| is_valid(text)) {
        return Err(fault);
    }
    Ok(texts.into_iter().map(str::to_owned).collect())
}

/// A `NumericDate` (RFC 7519: seconds, possibly with a fraction) in epoch milliseconds.
fn epoch_ms(value: Option<&Value>, claim: &'static str) -> Result<Option<u64>, TokenFault> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    if let Some(seconds) = value.as_u64() {
        return Ok(Some(seconds.saturating_mul(1000)));
    }
    let ms = value.as_f64().map(|seconds| seconds * 1000.0).filter(|ms| (0.0..1e18).contains(ms));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the value is between 0 and 10^18, and fractions of a millisecond do not matter"
    )]
    ms.map(|ms| Some(ms as u64)).ok_or(TokenFault::Claim(claim))
}

/// The certificate in the confirmation claim (RFC 7800). A token that is bound in another way is rejected, since that cannot be
/// checked here.
fn bound_certificate(confirmation: Option<&Value>) -> Result<Option<Hex32>, TokenFault> {
    let Some(confirmation) = confirmation.filter(|value| !value.is_null()) else { return Ok(None) };
    let members = confirmation.as_object().filter(|members| members.len() == 1);
    let text = members.and_then(|members| members.get("x5t#S256")).and_then(Value::as_str);
    text.and_then(thumbprint).map(Some).ok_or(TokenFault::Unproved)
}

#[cfg(test)]
mod tests;
