//! `tidy`: what neither the compiler nor clippy checks.

mod threats;

use crate::cargo;
use crate::report::{Error, Finding};
use crate::tree::{self, TextFile};

/// A file should be read in one sitting.
const FILE_LINES_USUAL: usize = 400;

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

/// Words that are never plain English here: name the role, write `cannot`, say how long.
const UNCLEAR: [&str; 6] = ["whoever", "nobody", "somebody", "stranger", "can not", "for ever"];

/// The beginnings of paths that must not contain [`UNCLEAR`] words.
const PLAIN: &[&str] = &[
    "scripts/",
    ".config/",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "README.md",
    "SECURITY.md",
    "bundles/README.md",
    "policy-guest/",
    "tests/providers/",
    "tests/schemathesis/",
    "host/api/",
    "host/auth/",
    "host/authority/",
    "host/cli/",
    "host/domain/golden/",
    "host/domain/src/",
    "host/domain/tests/",
    "host/domain/vectors/",
    "host/engine/",
    "host/evidence/",
    "host/gateway/benches/",
    "host/gateway/src/",
    "host/node/src/",
    "host/node/tests/",
    "host/runtime/",
    "host/seal/",
    "host/sqlite/",
    "host/store/src/",
    "host/threshold/",
    "host/docs/adding.md",
    "host/docs/approvals.md",
    "host/docs/architecture.md",
    "host/docs/authentication.md",
    "host/docs/decision-records.md",
    "host/docs/evidence.md",
    "host/docs/interface.md",
    "host/docs/ledger.md",
    "host/docs/operations.md",
    "host/docs/performance.md",
    "host/docs/policy-authors.md",
    "host/docs/policy-data.md",
    "host/docs/policy-reviewers.md",
    "host/docs/proxies.md",
    "host/docs/threat-model.md",
];

pub(crate) fn check() -> Result<Vec<Finding>, Error> {
    let files = tree::text_files()?;
    let mut found = threats::check(&files);
    found.extend(white_space()?);
    // This file contains the forbidden words.
    for file in files.iter().filter(|file| !file.is_generated() && file.path != file!()) {
        found.extend(words(file));
        found.extend(too_long(file));
        found.extend(without_lints(file));
    }
    Ok(found)
}

/// Git's own check of every tracked file: the difference to an empty tree.
fn white_space() -> Result<Vec<Finding>, Error> {
    let empty_tree = cargo::output("git", &["hash-object", "-t", "tree", "/dev/null"])?;
    match cargo::output("git", &["diff", "--check", empty_tree.trim()]) {
        Ok(_) => Ok(Vec::new()),
        Err(Error::Failed { output, .. }) => Ok(vec![Finding::error(output)]),
        Err(error) => Err(error),
    }
}

fn words(file: &TextFile) -> Vec<Finding> {
    let mut found = Vec::new();
    let is_plain = PLAIN.iter().any(|beginning| file.path.starts_with(beginning));
    for (index, line) in file.text.lines().enumerate() {
        let mut error = |text: String| found.push(Finding::error(text).at(&file.path, index + 1));
        for (text, why) in FORBIDDEN.iter().filter(|(text, _)| after(line, text).next().is_some()) {
            error(format!("`{text}`: {why}"));
        }
        for marker in MARKERS.iter().filter(|marker| after(line, marker).any(|rest| !has_number(rest))) {
            error(format!("`{marker}` without the number of an issue, as in `{marker}(#12)`"));
        }
        let lower = line.to_lowercase();
        for word in UNCLEAR.iter().filter(|word| is_plain && after(&lower, word).next().is_some()) {
            error(format!("`{word}`: say it in plain English"));
        }
    }
    found
}

/// The rest of the line after each place where `text` is not part of a longer word or path.
fn after<'a>(line: &'a str, text: &str) -> impl Iterator<Item = &'a str> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let (is_path, ends_in_word) = (text.starts_with('/'), text.ends_with(is_word));
    line.match_indices(text).filter_map(move |(at, found)| {
        let (before, rest) = (line.get(..at)?, line.get(at + found.len()..)?);
        let continues = before.ends_with(is_word) || is_path && before.ends_with(['-', '.', '}', '/', '*']);
        (!(continues || ends_in_word && rest.starts_with(is_word))).then_some(rest)
    })
}

fn has_number(rest: &str) -> bool {
    let number = rest.strip_prefix("(#").and_then(|rest| rest.split_once(')'));
    number.is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

fn too_long(file: &TextFile) -> Option<Finding> {
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

/// A member of a workspace that does not inherit its lints escapes all of them.
fn without_lints(file: &TextFile) -> Option<Finding> {
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
        words(&file(path, text)).len()
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
    fn unclear_words_are_found_in_plain_paths_only() {
        assert_eq!(n_words("CONTRIBUTING.md", "Whoever wants can not."), 2);
        assert_eq!(n_words("other.md", "Whoever wants can not."), 0);
    }

    #[test]
    fn long_files_are_found_unless_they_are_tests() {
        let check = |path, n_lines| too_long(&file(path, "x\n".repeat(n_lines))).map(|it| it.is_error());
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
        let check = |text: &str| without_lints(&file("host/a/Cargo.toml", text)).is_some();
        let package = "[package]\nversion.workspace = true\n";
        assert!(check(package));
        assert!(!check(&format!("{package}\n[lints]\nworkspace = true\n")));
        assert!(!check("[package]\nversion = \"1.0.0\"\n"));
    }
}
