//! The development bypass: nobody is asked who they are, but whoever says so is held to it.

use crate::{Identity, Principal, Unauthenticated, headers};
use gateway_domain::ids::Tenant;

/// The caller by its identity headers, unrestricted when it sends none of them.
///
/// # Errors
/// [`Unauthenticated::Required`] when it sends some and leaves out who it is.
pub fn bypass<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Result<Principal, Unauthenticated> {
    if headers::ALL.iter().all(|name| header(name).is_none()) {
        return Ok(Principal::Unrestricted);
    }
    let required =
        |name: &str, why| header(name).filter(|text| !text.is_empty()).ok_or(Unauthenticated::Required(why));
    Ok(Principal::Identified(Identity {
        client_id: required(headers::CLIENT_ID, "`x-client-id` is missing beside other identity headers")?
            .to_owned(),
        subject_id: required(headers::SUBJECT_ID, "`x-subject-id` is missing beside other identity headers")?
            .to_owned(),
        roles: words(header(headers::ROLES)),
        scopes: words(header(headers::SCOPES)),
        tenant: header(headers::TENANT).filter(|text| !text.is_empty()).map(|text| Tenant(text.to_owned())),
    }))
}

/// Words separated by commas or spaces.
fn words(list: Option<&str>) -> Vec<String> {
    let words = list.unwrap_or_default().split([',', ' ']).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scope;

    fn call(headers: &[(&str, &'static str)]) -> Result<Principal, Unauthenticated> {
        bypass(|name| headers.iter().find(|(header, _)| *header == name).map(|(_, value)| *value))
    }

    #[test]
    fn whoever_says_who_it_is_is_held_to_it() {
        assert_eq!(call(&[]), Ok(Principal::Unrestricted));
        assert!(call(&[("x-scopes", "audit.read")]).is_err());
        let caller = call(&[
            ("x-client-id", "desk"),
            ("x-subject-id", "alice"),
            ("x-scopes", "operations.read,audit.read  x"),
        ])
        .unwrap();
        assert!(caller.holds(Scope::AuditRead) && !caller.holds(Scope::OperationsSign));
    }
}
