//! Paths that the documentation names in backticks exist.

use crate::cargo;
use crate::report::Finding;
use crate::tree::TextFile;

/// Folders at the top, and one that some pages leave out.
const ROOTS: [&str; 6] = ["host/", "policy-guest/", "wit/", "bundles/", "tests/", "scripts/"];

/// Characters of patterns and of parts that a reader fills in.
const OPEN: [char; 6] = ['*', '<', '{', '$', '…', '='];

pub(super) fn check(files: &[TextFile]) -> Vec<Finding> {
    let pages = files.iter().filter(|file| file.path.ends_with(".md"));
    pages.flat_map(|page| check_page(page, |path| cargo::root().join(path).exists())).collect()
}

fn check_page(page: &TextFile, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        // Every second part is between backticks.
        for named in line.split('`').skip(1).step_by(2).filter(|named| is_path(named)) {
            let path = named.split("::").next().unwrap_or_default();
            if !exists(path) {
                let finding = Finding::error(format!("`{named}` does not exist"));
                found.push(finding.at(&page.path, index + 1));
            }
        }
    }
    found
}

/// Whether a text in backticks is the whole path of a file or folder here.
fn is_path(text: &str) -> bool {
    ROOTS.iter().any(|root| text.starts_with(root))
        && !text.contains(OPEN)
        && !text.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_that_does_not_exist_is_found() {
        let text = "`host/engine/src/fit.rs` and `host/engine/src/`\n`host/<name>/x.rs`, `tests/*.rs`, `wit/a.wit::World`\n`wit/b.wit`\n";
        let page = TextFile { path: "host/docs/page.md".to_owned(), text: text.to_owned() };
        let found = check_page(&page, |path| ["host/engine/src/", "wit/a.wit"].contains(&path));
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("fit.rs") && found[1].contains("b.wit"), "{found:?}");
    }
}
