//! Ten thousand altered credentials in each mode: none gets a 5xx, and only those that still authorise the caller are accepted.

use crate::harness::modes::{Credentials, Deployment, Mode, PROXY, UNTRUSTED_ADDRESS, request, test_caller};
use axum::http::HeaderValue;
use serde_json::Value;

const N: u64 = 10_000;

/// The requested path, which requires the scope `audit.read`.
const PATH: &str = "/v1/log/key";

/// Headers that authenticate a caller.
const NAMES: [&str; 7] = [
    "authorization",
    "x-client-id",
    "x-subject-id",
    "x-roles",
    "x-scopes",
    "x-tenant",
    "x-client-cert-sha256",
];

/// Addresses of peers.
const FROM: [&str; 5] = [PROXY, UNTRUSTED_ADDRESS, "127.0.0.2", "::1", "::ffff:192.0.2.1"];

/// xorshift64*, with the same sequence in every run.
struct Random(u64);

impl Random {
    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound as u64).unwrap()
    }

    fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

/// Header values as known attacks on gateways use them.
const TEXTS: [&str; 26] = [
    "",
    " ",
    "Bearer",
    "Bearer ",
    "bearer null",
    "Bearer undefined",
    "Bearer a.b.c",
    "Bearer eyJhbGciOiJub25lIn0.e30.",
    "Bearer eyJhbGciOiJIUzI1NiJ9.e30.AAAA",
    "Bearer ....",
    "Basic YWRtaW46YWRtaW4=",
    "Negotiate abc",
    "Bearer\ta",
    "Bearer a, Bearer b",
    "audit.read",
    "audit.read,audit.read",
    "AUDIT.READ",
    "audit.*",
    "*",
    "admin",
    "alice",
    "alice\tbob",
    "' OR '1'='1",
    "${jndi:ldap://127.0.0.1/a}",
    "../../etc/passwd",
    "%00",
];

/// The value after one to three random changes; `audit.read` if that is not a valid header value.
fn alter_value(random: &mut Random, mut value: Vec<u8>) -> Vec<u8> {
    for _ in 0..=random.below(3) {
        match random.below(8) {
            0 if !value.is_empty() => {
                let at = random.below(value.len());
                value[at] ^= 1 << random.below(8);
            }
            1 => value.truncate(random.below(value.len() + 1)),
            2 => {
                let at = random.below(value.len() + 1);
                value.insert(at, u8::try_from(random.below(256)).unwrap());
            }
            3 => value.extend_from_slice(random.choose(&TEXTS).as_bytes()),
            4 => value = value.repeat(random.below(4)),
            5 => value = random.choose(&TEXTS).as_bytes().to_vec(),
            6 if value.len() > 2 => {
                let at = random.below(value.len() - 1);
                value.swap(at, at + 1);
            }
            _ => value.extend(std::iter::repeat_n(b'A', random.below(40) * random.below(700))),
        }
    }
    if HeaderValue::from_bytes(&value).is_ok() { value } else { b"audit.read".to_vec() }
}

/// The credentials with one to three headers removed, added, repeated or altered, from a random address.
fn alter_credentials(random: &mut Random, good: &Credentials) -> Credentials {
    let mut headers: Vec<_> = good.headers.clone();
    for _ in 0..=random.below(3) {
        match random.below(5) {
            0 if !headers.is_empty() => drop(headers.remove(random.below(headers.len()))),
            1 => {
                let text = random.choose(&TEXTS).as_bytes().to_vec();
                let value = alter_value(random, text);
                headers.push((*random.choose(&NAMES), value));
            }
            2 if !headers.is_empty() => headers.push(random.choose(&headers).clone()),
            _ if !headers.is_empty() => {
                let at = random.below(headers.len());
                headers[at].1 = alter_value(random, headers[at].1.clone());
            }
            _ => {}
        }
    }
    Credentials { headers, from: FROM[random.below(FROM.len())] }
}

/// Whether these credentials may be accepted, computed independently of the gateway.
fn may_be_accepted(mode: Mode, with: &Credentials, good_token: &str) -> bool {
    let all = |name: &str| with.headers.iter().filter(|(other, _)| *other == name).collect::<Vec<_>>();
    let only = |name: &str| match all(name).as_slice() {
        [(_, value)] => std::str::from_utf8(value).ok(),
        _ => None,
    };
    let has_value = |name: &str| only(name).is_some_and(|text| !text.is_empty());
    let identified = has_value("x-client-id") && has_value("x-subject-id");
    let has_scope =
        only("x-scopes").is_some_and(|text| text.split([' ', ',']).any(|word| word == "audit.read"));
    let has_identity_header = NAMES[1..6].iter().any(|name| !all(name).is_empty());
    match mode {
        Mode::Bypass => !has_identity_header || (identified && has_scope),
        Mode::TrustedHeaders => with.from == PROXY && identified && has_scope,
        Mode::Jwks | Mode::Introspection => only("authorization").is_some_and(|text| {
            let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
            scheme.eq_ignore_ascii_case("bearer") && token.trim_matches(' ') == good_token
        }),
    }
}

async fn fuzz(mode: Mode) {
    let deployment = Deployment::start(mode).await;
    let good = deployment.credentials(test_caller("alice", "audit.read"));
    let token = String::from_utf8(good.headers[0].1.clone()).unwrap();
    let token = token.strip_prefix("Bearer ").unwrap_or_default().to_owned();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut n_accepted, mut n_refused) = (0, 0);
    for n in 0..N {
        let with = alter_credentials(&mut random, &good);
        let answer = deployment.world.send(request(&with, "GET", PATH, &Value::Null)).await;
        let status = answer.status.as_u16();
        let shown = || {
            let shown = |value: &[u8]| String::from_utf8_lossy(&value[..value.len().min(60)]).into_owned();
            with.headers.iter().map(|(name, value)| format!("{name}: {}", shown(value))).collect::<Vec<_>>()
        };
        assert!([200, 400, 401, 403].contains(&status), "{mode:?} {n}: {status} {:?}", shown());
        if status == 200 {
            assert!(may_be_accepted(mode, &with, &token), "{mode:?} {n} from {}: {:?}", with.from, shown());
            n_accepted += 1;
        } else {
            assert!(answer.json["error"].is_string() && answer.json["message"].is_string(), "{mode:?} {n}");
            let message = answer.json.to_string();
            assert!(token.is_empty() || !message.contains(&token), "{mode:?} {n}: the token is repeated");
            n_refused += 1;
        }
    }
    // Both outcomes must occur often.
    assert!(n_accepted > 50 && n_refused > 1_000, "{mode:?}: {n_accepted} {n_refused}");
}

#[tokio::test]
async fn hostile_credentials_in_bypass_mode_are_refused() {
    fuzz(Mode::Bypass).await;
}

#[tokio::test]
async fn hostile_credentials_in_trusted_headers_mode_are_refused() {
    fuzz(Mode::TrustedHeaders).await;
}

#[tokio::test]
async fn hostile_credentials_in_jwks_mode_are_refused() {
    fuzz(Mode::Jwks).await;
}

#[tokio::test]
async fn hostile_credentials_in_introspection_mode_are_refused() {
    fuzz(Mode::Introspection).await;
}
