//! [`Json`] to text, for the one reader a secret object has.

use super::Json;

/// The value as JSON text. Numbers that were not kept are written as `null`.
#[must_use]
pub fn write(json: &Json) -> String {
    let mut out = String::with_capacity(256);
    value(json, &mut out);
    out
}

fn value(json: &Json, out: &mut String) {
    match json {
        Json::Null | Json::OtherNumber => out.push_str("null"),
        Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Json::Integer(value) => out.push_str(&value.to_string()),
        Json::Text(value) => text(value, out),
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                value(item, out);
            }
            out.push(']');
        }
        Json::Object(members) => {
            out.push('{');
            for (index, (name, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                text(name, out);
                out.push(':');
                value(member, out);
            }
            out.push('}');
        }
    }
}

fn text(value: &str, out: &mut String) {
    out.push('"');
    for character in value.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if u32::from(control) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            plain => out.push(plain),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let text = r#"{"a":[1,-2,true,null,"x\n\"\\é"],"b":{}}"#;
        let json = parse(text.as_bytes()).unwrap();
        assert_eq!(parse(write(&json).as_bytes()).unwrap(), json);
    }
}
