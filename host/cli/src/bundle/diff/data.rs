//! Changes in a bundle's data, value by value.

use gateway_policy::BundleFiles;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// One difference. `old` alone means removed, `new` alone added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    /// The member of the manifest, or the file and the JSON pointer in it.
    pub(crate) what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) old: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) new: Option<String>,
}

/// The changed values, each named `file#pointer`. Of data that is not JSON, `diff` compares the hash in the manifest.
pub(super) fn changes(old: &BundleFiles, new: &BundleFiles) -> Vec<Change> {
    changed(&leaves(old), &leaves(new))
}

/// The members that differ between two maps.
pub(super) fn changed(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Vec<Change> {
    let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let change = |name: &String| {
        let (old, new) = (old.get(name).cloned(), new.get(name).cloned());
        (old != new).then(|| Change { what: name.clone(), old, new })
    };
    names.into_iter().filter_map(change).collect()
}

fn leaves(files: &BundleFiles) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (name, bytes) in files.iter().filter(|(name, _)| name.starts_with("data/")) {
        if let Ok(value) = serde_json::from_slice(bytes) {
            collect(&value, &format!("{name}#"), &mut all);
        }
    }
    all
}

/// Collects the values without members, which include empty lists and objects.
fn collect(value: &Value, at: &str, all: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, value) in members {
                collect(value, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), all);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, value) in items.iter().enumerate() {
                collect(value, &format!("{at}/{index}"), all);
            }
        }
        leaf => drop(all.insert(at.to_owned(), leaf.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str) -> Vec<String> {
        let files = |text: &str| BundleFiles::new([("data/a.json".to_owned(), text.into())]).unwrap();
        let show = |Change { what, old, new }: Change| format!("{what} {old:?} {new:?}");
        changes(&files(old), &files(new)).into_iter().map(show).collect()
    }

    #[test]
    fn each_changed_value_is_named_by_its_json_pointer() {
        assert!(check(r#"{"a":[1,{"b":2}]}"#, r#"{"a":[1,{"b":2}]}"#).is_empty());
        assert_eq!(
            check(r#"{"a":[1,{"b/c":2}],"gone":{}}"#, r#"{"a":[1,{"b/c":"2"}],"new":null}"#),
            [
                r##"data/a.json#/a/1/b~1c Some("2") Some("\"2\"")"##,
                r##"data/a.json#/gone Some("{}") None"##,
                r##"data/a.json#/new None Some("null")"##,
            ]
        );
    }
}
