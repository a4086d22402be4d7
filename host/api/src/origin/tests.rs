//! How origins are read; `tests/it/origin.rs` has what becomes of requests.

use super::*;

#[test]
fn an_allowed_origin_is_a_scheme_a_host_and_a_port() {
    let allowed: AllowedOrigins = " https://Console.example ,,http://[::1]:3000".parse().unwrap();
    for at in ["console.example", "console.example:443", "[::1]:3000"] {
        assert!(allowed.has_host(&Authority::parse(at).unwrap()), "{at}");
    }
    for at in ["console.example:80", "console.example:9200", "[::1]"] {
        assert!(!allowed.has_host(&Authority::parse(at).unwrap()), "{at}");
    }
    assert_eq!("".parse(), Ok(AllowedOrigins::default()));
    for wrong in [
        "*",
        "null",
        "console.example",
        "https://",
        "https://a/",
        "https://a,b",
        "ftp://a",
        "https://u@a",
        "HTTPS://a",
    ] {
        assert!(wrong.parse::<AllowedOrigins>().is_err(), "{wrong}");
    }
}
