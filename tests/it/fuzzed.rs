//! Ten thousand hostile credentials in every mode: none gets a 5xx, and none is authenticated.

use crate::harness::modes::{Credentials, Deployment, Mode, PROXY, UNTRUSTED_ADDRESS, request, test_caller};
use axum::http::HeaderValue;
use serde_json::Value;

const N: u64 = 10_000;

/// The request: it takes one scope, and an authorised caller gets an answer.
const PATH: &str = "/v1/log/key";

const NAMES: [&str; 7] = [
    "authorization",
    "x-client-id",
    "x-subject-id",
    "x-roles",
    "x-scopes",
    "x-tenant",
    "x-client-cert-sha256",
];

const FROM: [&str; 5] = [PROXY, UNTRUSTED_ADDRESS, "127.0.0.2", "::1", "::ffff:192.0.2.1"];

/// xorshift64*: the same sequence every time.
struct Random(u64);

impl Random {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides as u64).unwrap()
    }

    fn of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.roll(choices.len())]
    }
}

/// Strings of known attacks on gateways.
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

fn mangled(dice: &mut Random, mut value: Vec<u8>) -> Vec<u8> {
    for _ in 0..=dice.roll(3) {
        match dice.roll(8) {
            0 if !value.is_empty() => {
                let at = dice.roll(value.len());
                value[at] ^= 1 << dice.roll(8);
            }
            1 => value.truncate(dice.roll(value.len() + 1)),
            2 => {
                let at = dice.roll(value.len() + 1);
                value.insert(at, u8::try_from(dice.roll(256)).unwrap());
            }
            3 => value.extend_from_slice(dice.of(&TEXTS).as_bytes()),
            4 => value = value.repeat(dice.roll(4)),
            5 => value = dice.of(&TEXTS).as_bytes().to_vec(),
            6 if value.len() > 2 => {
                let at = dice.roll(value.len() - 1);
                value.swap(at, at + 1);
            }
            _ => value.extend(std::iter::repeat_n(b'A', dice.roll(40) * dice.roll(700))),
        }
    }
    if HeaderValue::from_bytes(&value).is_ok() { value } else { b"audit.read".to_vec() }
}

fn fuzzed(dice: &mut Random, good: &Credentials) -> Credentials {
    let mut headers: Vec<_> = good.headers.clone();
    for _ in 0..=dice.roll(3) {
        match dice.roll(5) {
            0 if !headers.is_empty() => drop(headers.remove(dice.roll(headers.len()))),
            1 => {
                let text = dice.of(&TEXTS).as_bytes().to_vec();
                let value = mangled(dice, text);
                headers.push((*dice.of(&NAMES), value));
            }
            2 if !headers.is_empty() => headers.push(dice.of(&headers).clone()),
            _ if !headers.is_empty() => {
                let at = dice.roll(headers.len());
                headers[at].1 = mangled(dice, headers[at].1.clone());
            }
            _ => {}
        }
    }
    Credentials { headers, from: FROM[dice.roll(FROM.len())] }
}

/// Whether these credentials are those of an authorised caller, computed independently of the gateway.
fn may_pass(mode: Mode, with: &Credentials, good_token: &str) -> bool {
    let all = |name: &str| with.headers.iter().filter(|(other, _)| *other == name).collect::<Vec<_>>();
    let only = |name: &str| match all(name).as_slice() {
        [(_, value)] => std::str::from_utf8(value).ok(),
        _ => None,
    };
    let says = |name: &str| only(name).is_some_and(|text| !text.is_empty());
    let identified = says("x-client-id") && says("x-subject-id");
    let has_scope =
        only("x-scopes").is_some_and(|text| text.split([' ', ',']).any(|word| word == "audit.read"));
    let speaks = NAMES[1..6].iter().any(|name| !all(name).is_empty());
    match mode {
        Mode::Bypass => !speaks || (identified && has_scope),
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
    let mut dice = Random(0x9e37_79b9_7f4a_7c15);
    let (mut let_in, mut kept_out) = (0, 0);
    for n in 0..N {
        let with = fuzzed(&mut dice, &good);
        let answer = deployment.world.send(request(&with, "GET", PATH, &Value::Null)).await;
        let status = answer.status.as_u16();
        let shown = || {
            let shown = |value: &[u8]| String::from_utf8_lossy(&value[..value.len().min(60)]).into_owned();
            with.headers.iter().map(|(name, value)| format!("{name}: {}", shown(value))).collect::<Vec<_>>()
        };
        assert!([200, 400, 401, 403].contains(&status), "{mode:?} {n}: {status} {:?}", shown());
        if status == 200 {
            assert!(may_pass(mode, &with, &token), "{mode:?} {n} from {}: {:?}", with.from, shown());
            let_in += 1;
        } else {
            assert!(answer.json["error"].is_string() && answer.json["message"].is_string(), "{mode:?} {n}");
            let message = answer.json.to_string();
            assert!(token.is_empty() || !message.contains(&token), "{mode:?} {n}: the token is repeated");
            kept_out += 1;
        }
    }
    // Both outcomes must occur, or the test has tried nothing.
    assert!(let_in > 50 && kept_out > 1_000, "{mode:?}: {let_in} {kept_out}");
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
