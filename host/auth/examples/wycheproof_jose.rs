//! Runs Project Wycheproof's JSON Web Signature files through our keys and tokens:
//! `cargo run -p gateway-auth --example wycheproof_jose -- <json_web_signature_test.json>…`
//!
//! The files are `testvectors_v1` of github.com/C2SP/wycheproof. It fails if a vector is accepted that is not marked valid, and
//! prints the valid vectors that are rejected, such as those of unsupported algorithms.

#![allow(clippy::print_stdout, reason = "it prints a report")]

use gateway_auth::jose::{Compact, Key};
use serde_json::Value;
use std::error::Error;
use std::process::ExitCode;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut is_sound = true;
    for path in std::env::args().skip(1) {
        let document: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
        let (mut n_rejected, mut n_accepted) = (0, 0);
        for group in list(&document, "testGroups") {
            let jwk = group.get("public").or_else(|| group.get("private")).cloned().unwrap_or_default();
            for test in list(group, "tests") {
                let outcome = accepts(&jwk, test.get("jws").and_then(Value::as_str).unwrap_or_default());
                let is_valid = test.get("result").is_some_and(|result| result == "valid");
                let shown = || format!("{} {}: {}", test["tcId"], group["comment"], test["comment"]);
                match (&outcome, is_valid) {
                    (Ok(()), true) => n_accepted += 1,
                    (Err(_), false) => n_rejected += 1,
                    (Ok(()), false) => {
                        is_sound = false;
                        println!("FALSE ACCEPT {}", shown());
                    }
                    (Err(why), true) => println!("valid, rejected: {}: {why}", shown()),
                }
            }
        }
        println!("{path}: {n_accepted} valid accepted, {n_rejected} invalid rejected");
    }
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn accepts(jwk: &Value, token: &str) -> Result<(), String> {
    let jwk = jwk.as_object().ok_or("no key")?;
    let key = Key::parse(jwk).map_err(|fault| fault.to_string())?;
    let token = Compact::parse(token).map_err(|fault| fault.to_string())?;
    // A key set finds the key by its `kid`.
    let kid = jwk.get("kid").and_then(Value::as_str);
    if kid != token.key_id.as_deref() {
        return Err("the token names another key".to_owned());
    }
    token.verified_payload(&key).map(drop).map_err(|fault| fault.to_string())
}
