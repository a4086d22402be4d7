//! Circles: files of a crate that name each other's items, directly or through others.

use super::sources::{Arrows, Sources};
use crate::cargo::{self, list, text};
use crate::report::Finding;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The circles of our packages.
pub(super) fn check(packages: &[Value]) -> Vec<Finding> {
    let targets = packages.iter().flat_map(|package| list(package, "targets"));
    let is_program = |target: &&Value| {
        let kinds = list(target, "kind").iter().filter_map(Value::as_str);
        kinds.into_iter().any(|kind| matches!(kind, "lib" | "bin" | "cdylib"))
    };
    let mut found = Vec::new();
    for target in targets.filter(is_program) {
        match Sources::read(Path::new(text(target, "src_path"))) {
            Ok(sources) => {
                found.extend(circles(&sources.arrows()).iter().map(|circle| describe(&sources, circle)))
            }
            Err(error) => found.push(Finding::error(error)),
        }
    }
    found
}

fn describe(sources: &Sources, circle: &BTreeSet<usize>) -> Finding {
    let name = |file: &usize| {
        let path = sources.files.get(*file).map(|path| path.strip_prefix(cargo::root()).unwrap_or(path));
        path.map(|path| path.display().to_string()).unwrap_or_default()
    };
    let mut lines = format!("{} files are in a circle:", circle.len());
    for ((from, to), names) in &sources.arrows() {
        if circle.contains(from) && circle.contains(to) {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            lines.push_str(&format!("\n  {} -> {}: {}", name(from), name(to), names.join(", ")));
        }
    }
    Finding::error(lines)
}

/// The sets of at least two files that reach each other.
fn circles(arrows: &Arrows) -> BTreeSet<BTreeSet<usize>> {
    let mut to: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (from, file) in arrows.keys() {
        to.entry(*from).or_default().insert(*file);
    }
    let reached = |start: usize| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(file) = open.pop() {
            open.extend(to.get(&file).into_iter().flatten().filter(|next| reached.insert(**next)));
        }
        reached
    };
    let reached: BTreeMap<usize, BTreeSet<usize>> = to.keys().map(|file| (*file, reached(*file))).collect();
    let reaches = |from: usize, file: usize| reached.get(&from).is_some_and(|files| files.contains(&file));
    let circle = |file: &usize| {
        let others = reached.get(file).into_iter().flatten();
        others.copied().filter(|other| reaches(*other, *file)).collect::<BTreeSet<_>>()
    };
    to.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that tie the circles of a crate with these files; the first is the root.
    fn ties(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let sources = Sources::read(&folder.path().join(files[0].0)).unwrap();
        let arrows = sources.arrows();
        let found = circles(&arrows);
        let inside = |((from, to), _): &(&(usize, usize), _)| {
            found.iter().any(|it| it.contains(from) && it.contains(to))
        };
        arrows.iter().filter(inside).flat_map(|(_, names)| names.iter().cloned()).collect()
    }

    #[test]
    fn files_that_name_each_others_items_are_a_circle() {
        let direct = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; struct A;"),
            ("b.rs", "fn f(_: super::a::A) {} struct B;"),
        ];
        assert_eq!(ties(&direct), ["B", "A"]);
        let in_macro = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "fn a() { assert!(x, crate::b::b()); }"),
            ("b.rs", "fn b() { crate::a::a() }"),
        ];
        assert_eq!(ties(&in_macro), ["b", "a"]);
        let by_parent = [
            ("lib.rs", "pub mod a;"),
            ("a.rs", "mod b; pub struct A; fn f() { b::b() }"),
            ("a/b.rs", "use super::*; fn b() -> A { A }"),
        ];
        assert_eq!(ties(&by_parent), ["b", "A"]);
        let made = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "made!(Id); fn f() { crate::b::b() }"),
            ("b.rs", "use crate::a::Id; fn b() -> Id {}"),
        ];
        assert_eq!(ties(&made), ["b", "Id"]);
    }

    #[test]
    fn door_test_and_comment_are_no_arrow() {
        let door = [
            ("lib.rs", "pub mod a;"),
            ("a.rs", "mod b; pub use b::B; pub struct A;"),
            ("a/b.rs", "use super::A; pub struct B;"),
        ];
        assert!(ties(&door).is_empty());
        let through_door = [
            ("lib.rs", "pub mod a; mod c;"),
            ("a.rs", "mod b; pub use b::B; use crate::c::C;"),
            ("a/b.rs", "pub struct B;"),
            ("c.rs", "use crate::a::B; pub struct C;"),
        ];
        assert!(ties(&through_door).is_empty());
        let tests = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; struct A;"),
            ("b.rs", "/// [`crate::a::A`]\nstruct B;\n#[cfg(test)] mod tests { use crate::a::A; }"),
        ];
        assert!(ties(&tests).is_empty());
    }
}
