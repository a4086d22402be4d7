use super::*;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn name(text: &str) -> PolicyName {
    text.parse().unwrap()
}

fn manifest(text: &str) -> toml::Table {
    text.parse().unwrap()
}

#[test]
fn every_file_of_the_sdk_is_in_a_new_policy() {
    let shipped: Vec<_> =
        SHARED.iter().filter_map(|(path, _)| path.strip_prefix("sdk/src/")).map(str::to_owned).collect();
    let folder = std::fs::read_dir(repository().join("policy-guest/sdk/src")).unwrap();
    let mut there: Vec<_> = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    there.sort();
    assert_eq!(shipped, there, "add what is missing to SHARED, in order");
}

#[test]
fn every_file_of_the_template_is_in_a_new_policy() {
    fn walk(folder: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            match entry.file_type().unwrap().is_dir() {
                true => walk(&entry.path(), &format!("{name}/"), found),
                false => found.push(name.replace("gitignore", ".gitignore")),
            }
        }
    }
    let mut there = Vec::new();
    walk(&repository().join("host/cli/template"), "", &mut there);
    there.sort();
    assert_eq!(FILES.iter().map(|(path, _)| (*path).to_owned()).collect::<Vec<_>>(), there);
}

#[test]
fn template_has_the_build_settings_of_the_committed_policies() {
    let ours = manifest(include_str!("../../../../../policy-guest/Cargo.toml"));
    let theirs = manifest(FILES.iter().find(|(path, _)| *path == "Cargo.toml").unwrap().1);
    assert_eq!(ours["profile"], theirs["profile"]);
    for key in ["lints", "package", "resolver"] {
        assert_eq!(ours["workspace"][key], theirs["workspace"][key], "{key}");
    }
    let runtime = |manifest: &toml::Table| manifest["workspace"]["dependencies"]["wit-bindgen-rt"].clone();
    assert_eq!(runtime(&ours), runtime(&theirs));
}

#[test]
fn new_policy_has_no_name_of_the_example_and_no_path_of_this_repository() {
    let files = files(&name("acme-limits")).unwrap();
    for (path, text) in &files {
        for spelling in ["example-policy", "example_policy", "ExamplePolicy"] {
            assert!(!text.contains(spelling), "{path}");
        }
    }
    assert!(files["component/src/lib.rs"].contains("export!(acme_limits::AcmeLimits)"));
    assert!(files["sdk/Cargo.toml"].contains(WIT_PATHS.1) && !files["sdk/Cargo.toml"].contains("../../"));
}

#[test]
fn lock_lists_the_sdks_dependencies_and_the_policys_packages_in_order() {
    let files = files(&name("zebra")).unwrap();
    let names: Vec<_> = files["Cargo.lock"].lines().filter(|line| line.starts_with("name = ")).collect();
    assert_eq!(names.first(), Some(&"name = \"gateway-policy-sdk\""));
    for name in ["wit-bindgen-rt", "zebra", "zebra-component"] {
        assert!(names.contains(&format!("name = \"{name}\"").as_str()), "{name}");
    }
    assert!(names.is_sorted(), "{names:?}");
    assert!(!files["Cargo.lock"].contains("payment-guard"));
}
