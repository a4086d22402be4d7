//! `tidy`: rules that neither the compiler nor clippy checks.

mod mutations;
mod paths;
mod threats;

use crate::cargo;
use crate::report::{Error, Finding};
use crate::tree::{self, TextFile};

/// A longer file gets a warning.
const FILE_LINES_USUAL: usize = 400;

/// A longer file is an error.
const FILE_LINES_MAX: usize = 800;

/// Texts that no file may contain, and why.
const FORBIDDEN: &[(&str, &str)] = &[
    ("#[ignore", "a test that never runs"),
    ("dead_code", "unused code is deleted, not allowed"),
    ("/work/", "a path of one machine"),
    ("/root/", "a path of one machine"),
    ("/home/", "a path of one machine"),
    ("/Users/", "a path of one machine"),
    ("artifactory", "a registry of one machine"),
    ("index.crates.io", "a registry of one machine"),
    ("sparse+", "a registry of one machine"),
];

/// Markers that must name their issue, as `TODO(#12)`.
const MARKERS: [&str; 2] = ["TODO", "FIXME"];

/// Words that are unclear in this project: name the role instead, write `cannot`, state how long.
const UNCLEAR: [&str; 6] = ["whoever", "nobody", "somebody", "stranger", "can not", "for ever"];

/// The beginnings of paths that may contain [`UNCLEAR`] words: files that are signed or released and must not change, and
/// snapshots of their texts.
const FROZEN: &[&str] = &[
    "bundles/cedar-example/",
    "bundles/payment-guard",
    "bundles/treasury/",
    "host/store/migrations/",
    "tests/it/bundle/snapshots/",
    "wit/policy.wit",
];

pub(crate) fn check() -> Result<Vec<Finding>, Error> {
    let files = tree::text_files()?;
    let tests = threats::test_names_of(&files);
    let mut found = threats::check(&files, &tests);
    found.extend(mutations::check(&files, &tests));
    found.extend(paths::check(&files));
    found.extend(check_white_space()?);
    // This file itself contains the forbidden words.
    for file in files.iter().filter(|file| !file.is_generated() && file.path != file!()) {
        found.extend(check_words(file));
        found.extend(check_length(file));
        found.extend(check_lints(file));
    }
    Ok(found)
}

/// Trailing white space and conflict markers, by `git diff --check` of all tracked files against an empty tree.
fn check_white_space() -> Result<Vec<Finding>, Error> {
    let empty_tree = cargo::output("git", &["hash-object", "-t", "tree", "/dev/null"])?;
    match cargo::output("git", &["diff", "--check", empty_tree.trim()]) {
        Ok(_) => Ok(Vec::new()),
        Err(Error::Failed { output, .. }) => Ok(vec![Finding::error(output)]),
        Err(error) => Err(error),
    }
}

/// Forbidden texts, markers without an issue, and unclear words.
fn check_words(file: &TextFile) -> Vec<Finding> {
    let mut found = Vec::new();
    let is_frozen = FROZEN.iter().any(|beginning| file.path.starts_with(beginning));
    for (index, line) in file.text.lines().enumerate() {
        let mut error = |text: String| found.push(Finding::error(text).at(&file.path, index + 1));
        for (text, why) in FORBIDDEN.iter().filter(|(text, _)| text_after(line, text).next().is_some()) {
            error(format!("`{text}`: {why}"));
        }
        for marker in MARKERS.iter().filter(|marker| text_after(line, marker).any(|rest| !has_number(rest))) {
            error(format!("`{marker}` without the number of an issue, as in `{marker}(#12)`"));
        }
        let lower = line.to_lowercase();
        for word in UNCLEAR.iter().filter(|word| !is_frozen && text_after(&lower, word).next().is_some()) {
            error(format!("`{word}`: say it in plain English"));
        }
    }
    found
}

/// The rest of the line after each occurrence of `text` that is not part of a longer word or path.
fn text_after<'a>(line: &'a str, text: &str) -> impl Iterator<Item = &'a str> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let (is_path, ends_in_word) = (text.starts_with('/'), text.ends_with(is_word));
    line.match_indices(text).filter_map(move |(at, found)| {
        let (before, rest) = (line.get(..at)?, line.get(at + found.len()..)?);
        let continues = before.ends_with(is_word) || is_path && before.ends_with(['-', '.', '}', '/', '*']);
        (!(continues || ends_in_word && rest.starts_with(is_word))).then_some(rest)
    })
}

/// Whether the rest of a line begins with an issue's number, as in `(#12)`.
fn has_number(rest: &str) -> bool {
    let number = rest.strip_prefix("(#").and_then(|rest| rest.split_once(')'));
    number.is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

/// The length of a Rust file outside the tests.
fn check_length(file: &TextFile) -> Option<Finding> {
    let n_lines = file.text.lines().count();
    if !file.is_rust() || file.is_test() || n_lines <= FILE_LINES_USUAL {
        return None;
    }
    let finding = if n_lines > FILE_LINES_MAX {
        Finding::error(format!("{n_lines} lines; the limit is {FILE_LINES_MAX}"))
    } else {
        Finding::warning(format!("{n_lines} lines; the usual limit is {FILE_LINES_USUAL}"))
    };
    Some(finding.in_file(&file.path))
}

/// A member of a workspace must inherit its lints: otherwise none of them applies.
fn check_lints(file: &TextFile) -> Option<Finding> {
    let is_member = file.path.ends_with("Cargo.toml") && file.text.contains("\nversion.workspace = true");
    let is_missing = is_member && !file.text.contains("\n[lints]\nworkspace = true\n");
    is_missing.then(|| Finding::error("`[lints] workspace = true` is missing").in_file(&file.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: impl Into<String>) -> TextFile {
        TextFile { path: path.to_owned(), text: text.into() }
    }

    fn n_words(path: &str, text: &str) -> usize {
        check_words(&file(path, text)).len()
    }

    #[test]
    fn forbidden_texts_are_found_and_longer_words_are_not() {
        for (text, _) in FORBIDDEN {
            assert_eq!(n_words("a.rs", &format!("x {text} and ~ {text}")), 1, "{text}");
            assert_eq!(n_words("a.rs", &format!("x{text}")), 0, "{text}");
        }
        assert_eq!(n_words("a.sh", "cd ./target/work/main"), 0);
    }

    #[test]
    fn markers_need_the_number_of_an_issue() {
        for marker in MARKERS {
            assert_eq!(n_words("a.rs", &format!("// {marker}: later")), 1);
            assert_eq!(n_words("a.rs", &format!("// {marker}(#x)")), 1);
            assert_eq!(n_words("a.rs", &format!("// {marker}(#12): later")), 0);
            assert_eq!(n_words("a.rs", &format!("{marker}S and MY_{marker}")), 0);
        }
    }

    #[test]
    fn unclear_words_are_found_except_in_frozen_files() {
        assert_eq!(n_words("CONTRIBUTING.md", "Whoever wants can not."), 2);
        assert_eq!(n_words("wit/policy.wit", "Whoever wants can not."), 0);
    }

    #[test]
    fn long_files_are_found_unless_they_are_tests() {
        let check = |path, n_lines| check_length(&file(path, "x\n".repeat(n_lines))).map(|it| it.is_error());
        assert_eq!(check("host/a.rs", 400), None);
        assert_eq!(check("host/a.rs", 401), Some(false));
        assert_eq!(check("host/a.rs", 801), Some(true));
        for path in ["tests/it/a.rs", "host/a/tests/it/b.rs", "host/a/src/tests.rs", "host/a/src/tests/b.rs"]
        {
            assert_eq!(check(path, 900), None, "{path}");
        }
    }

    #[test]
    fn crate_without_the_workspace_lints_is_found() {
        let check = |text: &str| check_lints(&file("host/a/Cargo.toml", text)).is_some();
        let package = "[package]\nversion.workspace = true\n";
        assert!(check(package));
        assert!(!check(&format!("{package}\n[lints]\nworkspace = true\n")));
        assert!(!check("[package]\nversion = \"1.0.0\"\n"));
    }
}
