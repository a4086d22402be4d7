//! `arrows`: our crates depend on each other only as the table in `host/docs/architecture.md` permits, and no two files of a crate on
//! each other.

mod circles;
mod sources;

use crate::cargo::{self, list, text};
use crate::report::{Error, Finding};
use serde_json::Value;

/// Each package with the packages of ours that it may depend on. A new dependency changes the architecture: it needs an ADR, a
/// line in `host/docs/architecture.md`, and a line here.
const ALLOWED: &[(&str, &[&str])] = &[
    ("gateway-domain", &[]),
    ("gateway-threshold", &[]),
    ("gateway-seal", &[]),
    ("gateway-service", &["gateway-domain", "gateway-seal"]),
    ("gateway-sqlite", &[]),
    ("gateway-spending", &["gateway-domain", "gateway-sqlite"]),
    ("gateway-engine", &["gateway-domain"]),
    ("gateway-auth", &["gateway-domain"]),
    ("gateway-evidence", &["gateway-domain"]),
    ("gateway-store", &["gateway-domain", "gateway-engine", "gateway-spending", "gateway-sqlite"]),
    ("gateway-browser", &["gateway-domain", "gateway-evidence"]),
    ("gateway-client", &[]),
    ("gateway-console", &[]),
    ("gateway-policy", &["gateway-domain"]),
    ("gateway-policy-host", &["gateway-domain", "gateway-engine", "gateway-policy"]),
    (
        "gateway-cli",
        &[
            "gateway-client",
            "gateway-domain",
            "gateway-engine",
            "gateway-evidence",
            "gateway-policy",
            "gateway-seal",
            "gateway-service",
            "gateway-store",
        ],
    ),
    (
        "policy-authority",
        &[
            "gateway-domain",
            "gateway-policy",
            "gateway-seal",
            "gateway-service",
            "gateway-spending",
            "gateway-sqlite",
        ],
    ),
    (
        "gateway-node",
        &[
            "gateway-domain",
            "gateway-policy",
            "gateway-seal",
            "gateway-spending",
            "gateway-sqlite",
            "gateway-threshold",
        ],
    ),
    (
        "gateway-fleet",
        &[
            "gateway-domain",
            "gateway-engine",
            "gateway-node",
            "gateway-seal",
            "gateway-service",
            "gateway-threshold",
        ],
    ),
    (
        "gateway-api",
        &[
            "gateway-auth",
            "gateway-console",
            "gateway-domain",
            "gateway-engine",
            "gateway-evidence",
            "gateway-service",
        ],
    ),
    (
        "operation-gateway",
        &[
            "gateway-api",
            "gateway-auth",
            "policy-authority",
            "gateway-cli",
            "gateway-domain",
            "gateway-engine",
            "gateway-evidence",
            "gateway-policy",
            "gateway-policy-host",
            "gateway-fleet",
            "gateway-seal",
            "gateway-service",
            "gateway-store",
        ],
    ),
    (
        "runtime-node",
        &[
            "gateway-domain",
            "gateway-node",
            "gateway-policy",
            "gateway-seal",
            "gateway-service",
            "gateway-threshold",
        ],
    ),
    ("xtask", &[]),
];

/// Packages that may depend on all of ours.
const UNRESTRICTED: &[&str] = &["gateway-tests"];

const RUNTIMES: &[&str] = &["async-executor", "async-std", "futures-executor", "smol", "tokio"];

/// The gateway's API, authentication, engine and store, with what they bring: the nodes and the authority must work without.
const GATEWAY: &[&str] = &[
    "gateway-api",
    "gateway-auth",
    "gateway-cli",
    "gateway-engine",
    "gateway-store",
    "jsonwebtoken",
    "operation-gateway",
    "reqwest",
    "utoipa",
];

/// Packages, each with those that must not be among its direct and indirect dependencies.
const WITHOUT: &[(&str, &[&str])] = &[
    ("gateway-domain", RUNTIMES),
    ("gateway-evidence", RUNTIMES),
    ("gateway-threshold", RUNTIMES),
    ("gateway-seal", RUNTIMES),
    ("runtime-node", GATEWAY),
    ("policy-authority", GATEWAY),
];

/// Checks normal dependencies; dev-dependencies are unrestricted.
pub(crate) fn check() -> Result<Vec<Finding>, Error> {
    let packages = cargo::packages(&["--no-deps"])?;
    let mut found = check_edges(&edges(&packages));
    found.extend(circles::check(&packages));
    for (package, without) in WITHOUT {
        let tree =
            cargo::output("cargo", &["tree", "--edges", "normal", "--package", package, "--prefix", "none"])?;
        found.extend(check_tree(package, without, &tree));
    }
    Ok(found)
}

/// Each package with the packages of ours that it depends on.
fn edges(packages: &[Value]) -> Vec<(String, Vec<String>)> {
    let is_ours = |dependency: &&Value| {
        dependency.get("kind").is_some_and(Value::is_null) && dependency.get("path").is_some()
    };
    packages
        .iter()
        .map(|package| {
            let ours = list(package, "dependencies").iter().filter(is_ours);
            (text(package, "name").to_owned(), ours.map(|it| text(it, "name").to_owned()).collect())
        })
        .collect()
}

fn check_edges(edges: &[(String, Vec<String>)]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (from, to) in edges.iter().filter(|(from, _)| !UNRESTRICTED.contains(&from.as_str())) {
        let Some((_, allowed)) = ALLOWED.iter().find(|(package, _)| package == from) else {
            found.push(Finding::error(format!("`{from}` is missing from the table in {}", file!())));
            continue;
        };
        let new = to.iter().filter(|to| !allowed.contains(&to.as_str()));
        found.extend(new.map(|to| {
            Finding::error(format!(
                "new dependency `{from}` -> `{to}`: it needs an ADR and a line in {}",
                file!()
            ))
        }));
    }
    found
}

fn check_tree(package: &str, without: &[&str], tree: &str) -> Vec<Finding> {
    let mut names: Vec<_> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    names.sort_unstable();
    names.dedup();
    let found = names.into_iter().filter(|name| without.contains(name));
    found.map(|name| Finding::error(format!("`{package}` has `{name}` in its tree"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn new_normal_dependency_is_reported_and_dev_dependency_is_not() {
        let packages = [json!({ "name": "gateway-api", "dependencies": [
            { "name": "gateway-engine", "kind": null, "path": "/x" },
            { "name": "gateway-store", "kind": null, "path": "/x" },
            { "name": "gateway-policy", "kind": "dev", "path": "/x" },
            { "name": "axum", "kind": null },
        ]})];
        let found = check_edges(&edges(&packages));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].to_string().contains("`gateway-api` -> `gateway-store`"));
    }

    #[test]
    fn crate_missing_from_the_table_is_reported() {
        assert_eq!(check_edges(&[("gateway-new".to_owned(), Vec::new())]).len(), 1);
        assert_eq!(check_edges(&[("gateway-tests".to_owned(), vec!["gateway-api".to_owned()])]), []);
    }

    #[test]
    fn package_in_several_versions_is_reported_once() {
        let tree =
            "gateway-domain v0.1.0 (/x)\nserde v1.0.0\ntokio v1.0.0\ntokio v0.9.0 (*)\ntokio-util v0.7.0";
        assert_eq!(check_tree("gateway-domain", RUNTIMES, tree).len(), 1);
    }
}
