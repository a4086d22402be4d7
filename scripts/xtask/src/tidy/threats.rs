//! The threat model: every threat must name existing tests of its defence.

use crate::report::Finding;
use crate::tree::TextFile;
use std::collections::BTreeSet;

const PAGE: &str = "host/docs/threat-model.md";
/// The first line of each table of threats.
const HEADER: &str = "| threat | defence | tests |";

pub(super) fn check(files: &[TextFile], tests: &BTreeSet<&str>) -> Vec<Finding> {
    match files.iter().find(|file| file.path == PAGE) {
        Some(page) => check_page(&page.text, tests),
        None => vec![Finding::error(format!("`{PAGE}` is missing"))],
    }
}

/// The names of all tests.
pub(super) fn test_names_of(files: &[TextFile]) -> BTreeSet<&str> {
    files.iter().filter(|file| file.is_rust()).flat_map(|file| test_names(&file.text)).collect()
}

/// Reports threats without a test, names of tests that do not exist, and rows of another shape.
fn check_page(page: &str, tests: &BTreeSet<&str>) -> Vec<Finding> {
    let (mut found, mut is_threats) = (Vec::new(), false);
    for (index, line) in page.lines().enumerate() {
        let mut error = |text: String| found.push(Finding::error(text).at(PAGE, index + 1));
        is_threats = line == HEADER || (is_threats && line.starts_with('|'));
        if !is_threats || line == HEADER || line.starts_with("|---") {
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let [_, _, named_tests] = cells.as_slice() else {
            error("a row has three cells: threat, defence, tests".to_owned());
            continue;
        };
        let named: Vec<&str> = named_tests.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            error("no test of this defence".to_owned());
        }
        for name in named.into_iter().filter(|name| !tests.contains(name)) {
            error(format!("there is no test `{name}`"));
        }
    }
    found
}

/// The names of the functions with a test attribute.
fn test_names(code: &str) -> Vec<&str> {
    let is_test = |line: &str| line.starts_with("#[test]") || line.starts_with("#[tokio::test");
    let (mut found, mut follows_attribute) = (Vec::new(), false);
    for line in code.lines().map(str::trim_start) {
        let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        match function.and_then(|rest| rest.split_once('(')) {
            Some((name, _)) if follows_attribute => found.push(name),
            Some(_) | None => {}
        }
        follows_attribute = is_test(line) || (follows_attribute && function.is_none());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threat_without_existing_tests_is_found() {
        let code =
            "#[test]\nfn here() {\n}\n#[tokio::test]\n#[cfg(unix)]\nasync fn there() {}\nfn helper() {}\n";
        let known: BTreeSet<&str> = test_names(code).into_iter().collect();
        assert_eq!(known, BTreeSet::from(["here", "there"]));
        let page =
            |rows: &str| format!("| a | b |\n|---|---|\n| x | `y` |\n\n{HEADER}\n|---|---|---|\n{rows}\n");
        assert_eq!(check_page(&page("| a | b | `here`, `there` |"), &known).len(), 0);
        for rows in ["| a | b | `helper` |", "| a | b | none |", "| a | `here` |"] {
            assert_eq!(check_page(&page(rows), &known).len(), 1, "{rows}");
        }
    }
}
