//! The bans themselves: they hold only as long as clippy.toml, the workspace's lints and every crate say so.

use crate::error::Error;
use crate::finding::Finding;
use crate::tree;
use std::fs;
use toml::{Table, Value};

/// Key of clippy.toml, and a path it must have.
const CLIPPY: [(&str, &str); 3] = [
    ("disallowed-methods", "std::time::SystemTime::now"),
    ("disallowed-types", "std::collections::HashMap"),
    ("disallowed-types", "std::collections::HashSet"),
];

/// Lints that stay on.
const LINTS: [&str; 13] = [
    "allow_attributes_without_reason",
    "dbg_macro",
    "disallowed_methods",
    "disallowed_types",
    "expect_used",
    "indexing_slicing",
    "panic",
    "print_stderr",
    "print_stdout",
    "todo",
    "unimplemented",
    "unreachable",
    "unwrap_used",
];

pub(super) fn check() -> Result<Vec<Finding>, Error> {
    let mut found = clippy_bans(&tree::toml_file("clippy.toml")?);
    found.extend(workspace_lints(&tree::toml_file("Cargo.toml")?));
    for manifest in manifests()? {
        if !inherits_lints(&tree::toml_file(&manifest)?) {
            found.push(Finding::error("`[lints] workspace = true` is missing").in_file(&manifest));
        }
    }
    Ok(found)
}

fn clippy_bans(clippy: &Table) -> Vec<Finding> {
    let has = |key: &str, path: &str| {
        let banned = clippy.get(key).and_then(Value::as_array).into_iter().flatten();
        banned.into_iter().any(|entry| entry.get("path").unwrap_or(entry).as_str() == Some(path))
    };
    let gone = CLIPPY.iter().filter(|(key, path)| !has(key, path));
    gone.map(|(key, path)| {
        Finding::error(format!("the ban of `{path}` in `{key}` is gone")).in_file("clippy.toml")
    })
    .collect()
}

fn workspace_lints(manifest: &Table) -> Vec<Finding> {
    let lints = manifest.get("workspace").and_then(|it| it.get("lints"));
    let level = |tool: &str, lint: &str| lints?.get(tool)?.get(lint)?.as_str();
    let mut found: Vec<_> = LINTS
        .iter()
        .filter(|lint| !matches!(level("clippy", lint), Some("deny" | "forbid")))
        .map(|lint| Finding::error(format!("`clippy::{lint}` is no longer denied")).in_file("Cargo.toml"))
        .collect();
    if level("rust", "unsafe_code") != Some("forbid") {
        found.push(Finding::error("`unsafe_code` is no longer forbidden").in_file("Cargo.toml"));
    }
    found
}

fn inherits_lints(manifest: &Table) -> bool {
    manifest.get("lints").and_then(|it| it.get("workspace")).and_then(Value::as_bool) == Some(true)
}

/// Manifests of the workspace's crates, from the root.
fn manifests() -> Result<Vec<String>, Error> {
    let host = tree::root().join("host");
    let entries = fs::read_dir(&host).map_err(|source| Error::Read { path: "host".to_owned(), source })?;
    let mut found = vec!["scripts/xtask/Cargo.toml".to_owned(), "tests/Cargo.toml".to_owned()];
    for entry in entries.flatten().filter(|entry| entry.path().join("Cargo.toml").is_file()) {
        found.push(format!("host/{}/Cargo.toml", entry.file_name().to_string_lossy()));
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn a_ban_that_is_gone_is_found() {
        let all = r#"
            disallowed-methods = [{ path = "std::time::SystemTime::now", reason = "x" }]
            disallowed-types = ["std::collections::HashMap", { path = "std::collections::HashSet" }]
        "#;
        assert_eq!(clippy_bans(&table(all)), []);
        assert_eq!(clippy_bans(&table(&all.replace("HashSet", "BTreeSet"))).len(), 1);
        assert_eq!(clippy_bans(&table("")).len(), CLIPPY.len());
    }

    #[test]
    fn a_lint_that_is_weaker_is_found() {
        let lints: String = LINTS.iter().map(|lint| format!("{lint} = \"deny\"\n")).collect();
        let rust = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n[workspace.lints.clippy]\n";
        assert_eq!(workspace_lints(&table(&format!("{rust}{lints}"))), []);
        let weaker = lints.replace("panic = \"deny\"", "panic = \"warn\"");
        assert_eq!(workspace_lints(&table(&format!("{rust}{weaker}"))).len(), 1);
        assert_eq!(workspace_lints(&table("")).len(), LINTS.len() + 1);
    }

    #[test]
    fn a_crate_may_not_leave_the_lints() {
        assert!(inherits_lints(&table("lints.workspace = true")));
        assert!(!inherits_lints(&table("[package]\nname = \"x\"")));
    }
}
