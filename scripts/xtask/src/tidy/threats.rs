//! The threat model: each threat names tests that show its defence, and each of those exists.

use crate::finding::Finding;
use crate::tree::TextFile;
use std::collections::BTreeSet;

const PAGE: &str = "host/docs/threat-model.md";
/// What the tables of threats begin with.
const HEADER: &str = "| threat | defence | tests |";

pub(super) fn check(files: &[TextFile]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return vec![Finding::error(format!("`{PAGE}` is missing"))];
    };
    let tests = files.iter().filter(|file| file.is_rust()).flat_map(|file| tests(&file.text)).collect();
    unshown(&page.text, &tests)
}

/// The threats without a test, and the tests that do not exist.
fn unshown(page: &str, tests: &BTreeSet<&str>) -> Vec<Finding> {
    let (mut found, mut is_threats) = (Vec::new(), false);
    for (index, line) in page.lines().enumerate() {
        let mut error = |text: String| found.push(Finding::error(text).at(PAGE, index + 1));
        is_threats = line == HEADER || (is_threats && line.starts_with('|'));
        if !is_threats || line == HEADER || line.starts_with("|---") {
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let [_, _, shown] = cells.as_slice() else {
            error("a threat has a defence and tests, three cells in all".to_owned());
            continue;
        };
        let named: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            error("no test shows this defence".to_owned());
        }
        for name in named.into_iter().filter(|name| !tests.contains(name)) {
            error(format!("there is no test `{name}`"));
        }
    }
    found
}

/// The names of the functions that stand under an attribute of a test.
fn tests(code: &str) -> Vec<&str> {
    let is_test = |line: &str| line.starts_with("#[test]") || line.starts_with("#[tokio::test");
    let (mut found, mut is_awaited) = (Vec::new(), false);
    for line in code.lines().map(str::trim_start) {
        let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        match function.and_then(|rest| rest.split_once('(')) {
            Some((name, _)) if is_awaited => found.push(name),
            Some(_) | None => {}
        }
        is_awaited = is_test(line) || (is_awaited && function.is_none());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threat_needs_tests_that_exist() {
        let code =
            "#[test]\nfn here() {\n}\n#[tokio::test]\n#[cfg(unix)]\nasync fn there() {}\nfn helper() {}\n";
        let known: BTreeSet<&str> = tests(code).into_iter().collect();
        assert_eq!(known, BTreeSet::from(["here", "there"]));
        let page =
            |rows: &str| format!("| a | b |\n|---|---|\n| x | `y` |\n\n{HEADER}\n|---|---|---|\n{rows}\n");
        assert_eq!(unshown(&page("| a | b | `here`, `there` |"), &known).len(), 0);
        for rows in ["| a | b | `helper` |", "| a | b | none |", "| a | `here` |"] {
            assert_eq!(unshown(&page(rows), &known).len(), 1, "{rows}");
        }
    }
}
