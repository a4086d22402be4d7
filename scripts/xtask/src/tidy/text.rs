//! Whitespace, in every text file.

use crate::finding::Finding;
use crate::tree::TextFile;

pub(super) fn check(file: &TextFile) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in file.text.split('\n').enumerate() {
        let mut error = |text: &str| found.push(Finding::error(text).at(&file.path, index + 1));
        if line.ends_with([' ', '\t', '\r']) {
            error("white space at the end of the line");
        }
        if file.is_rust() && line.contains('\t') {
            error("tab");
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        found.push(Finding::error("no newline at the end of the file").in_file(&file.path));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(path: &str, text: &str) -> Vec<String> {
        let file = TextFile { path: path.to_owned(), text: text.to_owned() };
        check(&file).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn white_space_is_found_where_it_hurts() {
        assert!(check_text("a.md", "a\n\n\tb\n").is_empty());
        assert!(check_text("a.md", "").is_empty());
        assert_eq!(check_text("a.md", "a\nb \n"), ["error: a.md:2: white space at the end of the line"]);
        assert_eq!(check_text("a.rs", "a\tb\n"), ["error: a.rs:1: tab"]);
        assert_eq!(check_text("a.md", "a"), ["error: a.md: no newline at the end of the file"]);
    }
}
