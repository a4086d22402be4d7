//! Places that exist on one machine only: absolute paths, and registries that are not crates.io itself.

use crate::finding::Finding;
use crate::tree::TextFile;

/// Put together here, so that this file does not find itself.
const PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Names of registry mirrors, and of crates.io's own index, which only a machine's own settings need to name.
const REGISTRIES: [&str; 3] =
    [concat!("arti", "factory"), concat!("index.", "crates.io"), concat!("sparse", "+http")];

const LOCAL: [&str; 2] = [concat!("local", "host:"), concat!("127.0", ".0.1:")];

pub(super) fn check(file: &TextFile) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let mut error = |text: String| found.push(Finding::error(text).at(&file.path, index + 1));
        if let Some(path) = PATHS.iter().find(|path| names_path(line, path)) {
            error(format!("`{path}` is a path of one machine"));
        }
        let is_local_registry = line.contains("registry") && LOCAL.iter().any(|host| line.contains(host));
        if is_local_registry || REGISTRIES.iter().any(|registry| line.contains(registry)) {
            error("a registry of one machine".to_owned());
        }
    }
    found
}

/// Whether a path starts there, rather than going on: a folder of that name in our tree is fine.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        !before.is_some_and(|character| character.is_alphanumeric() || "_-.}/*".contains(character))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n_found(text: String) -> usize {
        check(&TextFile { path: "a.sh".to_owned(), text }).len()
    }

    #[test]
    fn paths_and_registries_of_one_machine_are_found() {
        for path in PATHS {
            assert_eq!(n_found(format!("cd {path}main")), 1, "{path}");
            assert_eq!(n_found(format!("cd ./target{path}main and ~ {path}")), 1, "{path}");
            assert_eq!(n_found(format!("cd ./target{path}main")), 0, "{path}");
        }
        for registry in REGISTRIES {
            assert_eq!(n_found(format!("url = \"{registry}\"")), 1, "{registry}");
        }
        for host in LOCAL {
            assert_eq!(n_found(format!("registry = \"http://{host}8081\"")), 1, "{host}");
            assert_eq!(n_found(format!("curl http://{host}8080/healthz")), 0, "{host}");
        }
    }
}
