//! Words that mean "not finished".

use crate::finding::Finding;
use crate::tree::TextFile;

/// Put together here, so that this file does not find itself.
const MARKERS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// In code only: what is not finished is not merged, what is not run is no test, and code that nobody calls goes.
const FORBIDDEN: [(&str, &str); 4] = [
    ("todo!", "`todo!`"),
    ("unimplemented!", "`unimplemented!`"),
    ("#[ignore", "a test that is never run"),
    ("dead_code", "code that nobody calls is deleted, not allowed"),
];

/// A marker names the issue it waits for: `(#12)` right behind it.
pub(super) fn check_text(file: &TextFile) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for marker in MARKERS.iter().filter(|marker| is_unnumbered(line, marker)) {
            let text = format!("`{marker}` without the number of an issue, as in `{marker}(#12)`");
            found.push(Finding::error(text).at(&file.path, index + 1));
        }
    }
    found
}

/// `code` is the file's text without comments and literals.
pub(super) fn check_code(file: &TextFile, code: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        for (_, why) in FORBIDDEN.iter().filter(|(word, _)| whole_words(line, word).next().is_some()) {
            found.push(Finding::error(*why).at(&file.path, index + 1));
        }
    }
    found
}

fn is_unnumbered(line: &str, marker: &str) -> bool {
    whole_words(line, marker).any(|after| {
        let number = after.strip_prefix("(#").and_then(|rest| rest.split_once(')'));
        !number.is_some_and(|(n, _)| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// What follows each place where `word` is not a part of a longer name.
fn whole_words<'a>(line: &'a str, word: &str) -> impl Iterator<Item = &'a str> {
    let is_name = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).filter_map(move |(at, found)| {
        let after = line.get(at + found.len()..)?;
        let starts = !line.get(..at)?.ends_with(is_name);
        (starts && !after.starts_with(is_name)).then_some(after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n_found(text: &str) -> (usize, usize) {
        let file = TextFile { path: "a.rs".to_owned(), text: text.to_owned() };
        (check_text(&file).len(), check_code(&file, text).len())
    }

    #[test]
    fn markers_need_a_number() {
        let marker = MARKERS[0];
        assert_eq!(n_found(&format!("// {marker}: later")), (1, 0));
        assert_eq!(n_found(&format!("// {marker}(#x)")), (1, 0));
        assert_eq!(n_found(&format!("// {marker}(#12): later")), (0, 0));
        assert_eq!(n_found(&format!("{marker}S and MY_{marker}")), (0, 0));
    }

    #[test]
    fn unfinished_code_is_found() {
        for code in
            ["todo!()", "unimplemented!(\"x\")", "#[ignore = \"slow\"]", "#![allow(unused, dead_code)]"]
        {
            assert_eq!(n_found(code), (0, 1), "{code}");
        }
        assert_eq!(n_found("my_todo!() #[ignored] "), (0, 0));
    }
}
