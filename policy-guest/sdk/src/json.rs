//! Reads JSON in the form that the gateway writes: no white space, members sorted by name, whole numbers only.
//!
//! For the small parts of a document that [`crate::Data::get`] returns. It does not validate them.

use std::borrow::Cow;

/// The members of an object by name, each value as JSON; `None` if `json` is not an object.
#[must_use]
pub fn members(json: &str) -> Option<impl Iterator<Item = (Cow<'_, str>, &str)>> {
    let parts = Parts(json.strip_prefix('{')?.strip_suffix('}')?);
    Some(parts.filter_map(|part| {
        let (name, value) = part.split_at_checked(end_of_string(part))?;
        Some((text(name)?, value.strip_prefix(':')?))
    }))
}

/// The items of a list, each as JSON; `None` if `json` is not a list.
#[must_use]
pub fn items(json: &str) -> Option<impl Iterator<Item = &str>> {
    Some(Parts(json.strip_prefix('[')?.strip_suffix(']')?))
}

/// The text of a string; `None` if `json` is not a string.
#[must_use]
pub fn text(json: &str) -> Option<Cow<'_, str>> {
    let inside = json.strip_prefix('"')?.strip_suffix('"')?;
    if inside.contains('\\') { unescaped(inside).map(Cow::Owned) } else { Some(Cow::Borrowed(inside)) }
}

/// Splits at commas, except at those in strings and in nested lists and objects.
struct Parts<'a>(&'a str);

impl<'a> Iterator for Parts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let (part, rest) = self.0.split_at_checked(end_of_part(self.0))?;
        self.0 = rest.strip_prefix(',').unwrap_or_default();
        Some(part)
    }
}

fn end_of_part(json: &str) -> usize {
    let bytes = json.as_bytes();
    let (mut at, mut depth) = (0, 0_u32);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at += end_of_string(json.get(at..).unwrap_or_default()).saturating_sub(1),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    json.len()
}

/// The length of the string that `json` starts with, including its quotes.
fn end_of_string(json: &str) -> usize {
    let mut escaped = true;
    for (at, byte) in json.bytes().enumerate() {
        match byte {
            // The opening quote counts as escaped, so that it does not end the string.
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    json.len()
}

/// RFC 8259, section 7. The gateway never escapes characters beyond the basic multilingual plane: no surrogate pairs.
fn unescaped(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        plain.push(match characters.next()? {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => code_point(&mut characters)?,
            other => other,
        });
    }
    Some(plain)
}

fn code_point(characters: &mut std::str::Chars<'_>) -> Option<char> {
    let mut code = 0;
    for _ in 0..4 {
        code = code * 16 + characters.next()?.to_digit(16)?;
    }
    char::from_u32(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(json: &str) -> Vec<(String, &str)> {
        members(json).unwrap().map(|(name, value)| (name.into_owned(), value)).collect()
    }

    #[test]
    fn commas_in_nested_values_do_not_split() {
        let json = r#"{"a":[1,{"b":"]},{"}],"c":"x,\"y\\","d":{},"":null,"é,":-7}"#;
        let expected =
            [("a", r#"[1,{"b":"]},{"}]"#), ("c", r#""x,\"y\\""#), ("d", "{}"), ("", "null"), ("é,", "-7")];
        let found = all(json);
        assert!(found.iter().map(|(name, value)| (name.as_str(), *value)).eq(expected), "{found:?}");
        assert_eq!(
            items(r#"[[1,2],"a,b",{"c":3}]"#).unwrap().collect::<Vec<_>>(),
            ["[1,2]", r#""a,b""#, r#"{"c":3}"#]
        );
        assert!(all("{}").is_empty() && items("[]").unwrap().next().is_none());
    }

    #[test]
    fn other_types_of_json_give_none() {
        for json in ["[]", "5", "null", "\"{}\"", "", "{", "true"] {
            assert!(members(json).is_none(), "{json}");
        }
        for json in ["{}", "5", "", "[", "\"[]\""] {
            assert!(items(json).is_none(), "{json}");
        }
        assert!(text("5").is_none() && text("\"").is_none() && text("").is_none());
    }

    #[test]
    fn strings_written_by_serde_json_are_read_back() {
        for original in ["", "plain", "\"\\/\u{8}\u{c}\n\r\t\u{1}\u{1f}\u{7f}", "naïve 🔑", "\\u0041"] {
            let json = serde_json::to_string(original).unwrap();
            assert_eq!(text(&json).unwrap(), original);
            let object = serde_json::json!({ original: [original] }).to_string();
            assert_eq!(all(&object)[0].0, original);
        }
        assert_eq!(text(r#""a\u00e9\/\q""#).unwrap(), "aé/q");
        assert!(text(r#""\u12""#).is_none());
    }
}
