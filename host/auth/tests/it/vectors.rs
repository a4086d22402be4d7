//! The examples of RFC 7515 and RFC 8037.

use gateway_auth::TokenFault;
use gateway_auth::jose::{Compact, Key};
use serde_json::{Value, json};

const CLAIMS: &str =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

fn key(jwk: &Value) -> Key {
    Key::parse(jwk.as_object().unwrap()).unwrap()
}

fn payload(token: &str, jwk: &Value) -> Result<String, TokenFault> {
    Ok(String::from_utf8(Compact::parse(token)?.verified_payload(&key(jwk))?).unwrap())
}

/// Checks that the token verifies, and that it does not with a character of its signature changed.
fn check(token: &str, jwk: &Value, expected: &str) {
    assert_eq!(payload(token, jwk).as_deref(), Ok(expected));
    let signature = token.rfind('.').unwrap() + 1;
    // The last character has unused bits, which must be zero.
    for index in signature..token.len() {
        let other = if &token[index..=index] == "A" { "B" } else { "A" };
        let changed = format!("{}{other}{}", &token[..index], &token[index + 1..]);
        assert!(payload(&changed, jwk).is_err(), "{index}");
    }
}

#[test]
fn rfc_7515_a_2_rs256() {
    let jwk = json!({ "kty": "RSA", "e": "AQAB", "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ" });
    let signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    let claims = "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}";
    check(&format!("eyJhbGciOiJSUzI1NiJ9.{CLAIMS}.{signature}"), &jwk, claims);
}

#[test]
fn rfc_7515_a_3_es256() {
    let jwk = json!({
        "kty": "EC",
        "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    });
    let signature = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    let claims = "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}";
    check(&format!("eyJhbGciOiJFUzI1NiJ9.{CLAIMS}.{signature}"), &jwk, claims);
}

#[test]
fn rfc_8037_a_4_eddsa() {
    let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" });
    let token = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    check(token, &jwk, "Example of Ed25519 signing");
}

/// The algorithms of RFC 7515, appendices A.1 (HMAC) and A.5 (unsecured), are not supported.
#[test]
fn rfc_7515_a_1_hmac_and_a_5_unsecured_are_rejected() {
    let hmac = format!(
        "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.{CLAIMS}.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    );
    assert_eq!(Compact::parse(&hmac).unwrap_err(), TokenFault::Algorithm);
    let unsecured = format!("eyJhbGciOiJub25lIn0.{CLAIMS}.");
    assert_eq!(Compact::parse(&unsecured).unwrap_err(), TokenFault::Malformed);
}
