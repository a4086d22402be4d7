//! Names of people and things, as they are compared and as they are seen.
//!
//! One person must not fill a quorum of two as `Alice` and `ALICE`, nor in two Unicode forms of one text. The spelling that came is
//! stored, hashed, signed and shown; wherever two subject ids must be equal or different, their [`ComparedName`]s are.

use icu_casemap::CaseMapper;
use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory};
use icu_properties::{CodePointMapData, CodePointSetData};
use std::borrow::Cow;

/// A subject id in the form in which it is compared: without default-ignorable code points, in NFKC, with full case folding, in NFKC
/// again, without white space at either end. Up to the white space this is Unicode's `toNFKC_Casefold` (chapter 3.13, R5). Another
/// program wrote the test vectors in `host/domain/vectors/names.json`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComparedName(String);

impl ComparedName {
    /// The form of this name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self(compared(name).into_owned())
    }

    /// The form as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text of a name's [`ComparedName`]; borrowed if the name has this form.
#[must_use]
pub fn compared(name: &str) -> Cow<'_, str> {
    if name.is_ascii() {
        let name = name.trim();
        return match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => Cow::Owned(name.to_ascii_lowercase()),
            false => Cow::Borrowed(name),
        };
    }
    let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    let name: String = name.chars().filter(|character| !ignorable.contains(*character)).collect();
    let nfkc = ComposingNormalizerBorrowed::new_nfkc();
    let normalized = nfkc.normalize(&name);
    let folded = CaseMapper::new().fold_string(&normalized);
    Cow::Owned(nfkc.normalize(&folded).trim().to_owned())
}

/// Whether two subject ids name one person.
#[must_use]
pub fn is_same_person(one: &str, other: &str) -> bool {
    one == other || compared(one) == compared(other)
}

/// Whether one of these subject ids names this person.
#[must_use]
pub fn names_person(subjects: &[String], subject_id: &str) -> bool {
    subjects.iter().any(|subject| is_same_person(subject, subject_id))
}

/// Assigned characters without a property that says so, of which nothing is seen. Found as the characters with an empty glyph in the
/// fonts Noto (core), DejaVu, Symbola and GNU Unifont, and those whose Unicode name says that they are blank, fill a gap, or only join or
/// select what is beside them; without those that the spelling of a script in modern use needs, such as the Khmer coeng.
const BLANK: [char; 11] = [
    '\u{2800}',  // braille pattern blank
    '\u{2d7f}',  // Tifinagh consonant joiner
    '\u{fffc}',  // object replacement character
    '\u{1107f}', // Brahmi number joiner
    '\u{11d45}', // Masaram Gondi virama
    '\u{11d97}', // Gunjala Gondi virama
    '\u{13441}', // Egyptian hieroglyph full blank
    '\u{13442}', // Egyptian hieroglyph half blank
    '\u{16fe4}', // Khitan small script filler
    '\u{1bc9d}', // Duployan thick letter selector
    '\u{1d159}', // musical symbol null notehead
];

/// Whether a character is shown as itself, or is the space. False for controls, format and bidirectional characters, other
/// spaces, default-ignorable, private-use and unassigned code points, and for characters of which nothing is seen.
#[must_use]
pub fn is_visible(character: char) -> bool {
    let is_shown = match CodePointMapData::<GeneralCategory>::new().get(character) {
        GeneralCategory::Control
        | GeneralCategory::Format
        | GeneralCategory::LineSeparator
        | GeneralCategory::ParagraphSeparator
        | GeneralCategory::PrivateUse
        | GeneralCategory::Surrogate
        | GeneralCategory::Unassigned => false,
        GeneralCategory::SpaceSeparator => character == ' ',
        _ => true,
    };
    is_shown
        && !BLANK.contains(&character)
        && !CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::Deserialize;
    use std::collections::BTreeSet;

    #[derive(Deserialize)]
    struct Vectors {
        compared: Vec<Compared>,
        default_ignorable: Vec<(u32, u32)>,
    }

    #[derive(Deserialize)]
    struct Compared {
        name: String,
        form: String,
    }

    /// `host/domain/vectors/names.py` wrote the vectors. It shares no code with this crate.
    fn vectors() -> Vectors {
        serde_json::from_str(include_str!("../vectors/names.json")).unwrap()
    }

    #[test]
    fn names_are_compared_as_another_program_compares_them() {
        let vectors = vectors().compared;
        assert!(vectors.len() > 40);
        for Compared { name, form } in vectors {
            assert_eq!(compared(&name), form, "{name:?}");
            assert_eq!(compared(&form), form, "{name:?}");
        }
    }

    #[test]
    fn default_ignorable_code_points_are_those_that_other_programs_list() {
        let ranges = vectors().default_ignorable;
        let listed = |code: u32| ranges.iter().any(|(first, last)| (*first..=*last).contains(&code));
        let property = CodePointSetData::new::<DefaultIgnorableCodePoint>();
        for code in 0..=u32::from(char::MAX) {
            assert_eq!(property.contains32(code), listed(code), "U+{code:04X}");
        }
    }

    #[test]
    fn spellings_of_one_person_are_the_same_and_other_people_are_not() {
        let spellings = [
            "Ren\u{e9}e",
            "rene\u{301}e",
            "REN\u{c9}E",
            " Ren\u{e9}e\t",
            "\u{ff32}\u{ff25}\u{ff2e}\u{c9}\u{ff25}",
            "Re\u{ad}n\u{e9}e\u{200b}",
        ];
        let forms: BTreeSet<_> = spellings.into_iter().map(ComparedName::of).collect();
        assert_eq!(forms.len(), 1, "{forms:?}");
        for other in ["renee", "ren\u{e9}e2", "ren\u{e9} e", ""] {
            assert!(!is_same_person(spellings[0], other), "{other}");
        }
        assert!(is_same_person("stra\u{df}e", "STRASSE") && is_same_person("\u{3a3}", "\u{3c2}"));
        assert!(!is_same_person("I", "\u{131}"), "the dotless i is another letter");
    }

    #[test]
    fn characters_of_which_nothing_is_seen_are_not_visible() {
        for blank in
            BLANK.into_iter().chain("\u{3164}\u{115f}\u{1160}\u{ffa0}\u{17b4}\u{180e}\u{200b}\u{a0}".chars())
        {
            assert!(!is_visible(blank), "U+{:04X}", u32::from(blank));
        }
        // What a modern spelling needs, or is seen: coeng, a virama, a braille pattern, the symbol for a space.
        for seen in "\u{17d2}\u{1039}\u{94d}\u{2801}\u{2420}\u{1d158} a\u{e9}".chars() {
            assert!(is_visible(seen), "U+{:04X}", u32::from(seen));
        }
    }

    proptest! {
        #[test]
        fn compared_form_of_a_compared_form_is_itself(name in "\\PC{0,12}") {
            let once = compared(&name).into_owned();
            prop_assert_eq!(compared(&once), once.as_str());
        }

        #[test]
        fn ascii_names_are_compared_like_all_others(name in "[ -~]{0,12}") {
            // The second spelling takes the long way.
            let long = format!("{name}\u{200b}");
            prop_assert_eq!(compared(&long), compared(&name));
        }
    }
}
