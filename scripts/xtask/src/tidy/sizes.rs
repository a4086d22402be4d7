//! Sizes of files and functions that production is made of.

use super::functions::functions;
use crate::finding::Finding;
use crate::tree::TextFile;

/// As a rule a file is read in one sitting.
const FILE_LINES_USUAL: usize = 400;

/// Never more than this.
const FILE_LINES_MAX: usize = 800;

/// Two screens; a function that does not fit does more than one thing.
const FUNCTION_LINES_MAX: usize = 70;

/// `code` is the file's text without comments and literals.
pub(super) fn check(file: &TextFile, code: &str) -> Vec<Finding> {
    if file.is_test() {
        return Vec::new();
    }
    let n_lines = file.text.lines().count();
    let mut found: Vec<_> = too_long_file(n_lines).map(|it| it.in_file(&file.path)).into_iter().collect();
    for function in functions(code).into_iter().filter(|it| it.n_lines > FUNCTION_LINES_MAX) {
        let text =
            format!("`{}` has {} lines, {FUNCTION_LINES_MAX} at most", function.name, function.n_lines);
        found.push(Finding::error(text).at(&file.path, function.line));
    }
    found
}

fn too_long_file(n_lines: usize) -> Option<Finding> {
    if n_lines > FILE_LINES_MAX {
        return Some(Finding::error(format!("{n_lines} lines, {FILE_LINES_MAX} at most")));
    }
    (n_lines > FILE_LINES_USUAL)
        .then(|| Finding::warning(format!("{n_lines} lines, as a rule {FILE_LINES_USUAL} at most")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_file(path: &str, text: String) -> Vec<String> {
        let file = TextFile { path: path.to_owned(), text };
        check(&file, &file.text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn files_and_functions_have_their_limits() {
        let function = |n: usize| format!("fn long() {{\n{}}}\n", "x\n".repeat(n - 2));
        assert!(check_file("host/a.rs", function(70)).is_empty());
        assert_eq!(
            check_file("host/a.rs", function(71)),
            ["error: host/a.rs:1: `long` has 71 lines, 70 at most"]
        );
        assert!(check_file("host/a.rs", "x\n".repeat(400)).is_empty());
        assert!(check_file("host/a.rs", "x\n".repeat(401)).concat().starts_with("warning"));
        assert!(check_file("host/a.rs", "x\n".repeat(801)).concat().starts_with("error"));
    }

    #[test]
    fn tests_may_be_as_long_as_they_need() {
        for path in ["tests/it/a.rs", "host/a/tests/it/b.rs", "host/a/src/tests.rs", "host/a/src/tests/b.rs"]
        {
            assert!(check_file(path, "x\n".repeat(900)).is_empty(), "{path}");
        }
    }
}
