//! The list of mutations that `scripts/mutations` runs: each still applies to the code, and names an existing test.

use crate::cargo::{list, text};
use crate::report::Finding;
use crate::tree::TextFile;
use serde_json::Value;
use std::collections::BTreeSet;

const LIST: &str = "scripts/mutations.json";

pub(super) fn check(files: &[TextFile], tests: &BTreeSet<&str>) -> Vec<Finding> {
    let Some(listed) = files.iter().find(|file| file.path == LIST) else {
        return vec![Finding::error(format!("`{LIST}` is missing"))];
    };
    match serde_json::from_str(&listed.text) {
        Ok(listed) => check_list(&listed, files, tests),
        Err(error) => vec![Finding::error(format!("not JSON: {error}")).in_file(LIST)],
    }
}

/// Reports rows without mutations, and mutations that do not apply or name no test.
fn check_list(listed: &Value, files: &[TextFile], tests: &BTreeSet<&str>) -> Vec<Finding> {
    let mut found = Vec::new();
    for row in list(listed, "rows") {
        let number = row.get("row").map(ToString::to_string).unwrap_or_default();
        let mut error = |text: String| {
            found.push(Finding::error(format!("row {number}: {text}")).in_file(LIST));
        };
        if list(row, "mutations").is_empty() {
            error("no mutation of this check".to_owned());
        }
        for mutation in list(row, "mutations") {
            let [file, old, new, test] = ["file", "old", "new", "test"].map(|name| text(mutation, name));
            let code = files.iter().find(|known| known.path == file);
            let n_found = code.map_or(0, |code| code.text.matches(old).count());
            if old.is_empty() || n_found != 1 {
                error(format!("`{old}` occurs {n_found} times in `{file}`; it must once"));
            }
            if old == new {
                error(format!("`{old}` is replaced by itself"));
            }
            if !tests.contains(test) {
                error(format!("there is no test `{test}`"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn mutation_that_does_not_apply_or_names_no_test_is_found() {
        let files = [TextFile { path: "a.rs".to_owned(), text: "if x { y } if x { z }".to_owned() }];
        let tests = BTreeSet::from(["rule"]);
        let n_found = |file: &str, old: &str, new: &str, test: &str| {
            let mutation = json!({ "file": file, "old": old, "new": new, "package": "a", "test": test });
            check_list(&json!({ "rows": [{ "row": 1, "mutations": [mutation] }] }), &files, &tests).len()
        };
        assert_eq!(n_found("a.rs", "{ y }", "", "rule"), 0);
        for (file, old, new, test) in [
            ("a.rs", "if x", "", "rule"),
            ("a.rs", "if w", "", "rule"),
            ("a.rs", "", "w", "rule"),
            ("b.rs", "{ y }", "", "rule"),
            ("a.rs", "{ y }", "{ y }", "rule"),
            ("a.rs", "{ y }", "", "other"),
        ] {
            assert_eq!(n_found(file, old, new, test), 1, "{file} {old} {new} {test}");
        }
        assert_eq!(check_list(&json!({ "rows": [{ "row": 1, "mutations": [] }] }), &files, &tests).len(), 1);
    }
}
