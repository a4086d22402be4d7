//! A crate's source files as the compiler sees them: which item each module has, and which items of others each file names.
//!
//! Tests are left out, and so are comments. What a macro defines belongs to the module in which it is named.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

/// The names of a path, such as `crate`, `ids`, `Hex32`.
type Names = Vec<String>;

/// What a name in a module stands for.
enum Named {
    /// An item that the module defines, or a module in it.
    Here,
    /// Another path, by a `use`.
    Path(Names),
}

#[derive(Default)]
struct Module {
    file: usize,
    names: BTreeMap<String, Named>,
    globs: Vec<Names>,
    /// The paths that the module's code has, and those of its private `use` items.
    mentioned: BTreeSet<Names>,
}

/// A crate's files, and its modules by path.
#[derive(Default)]
pub(super) struct Sources {
    /// The files, in the order in which their modules are declared.
    pub(super) files: Vec<PathBuf>,
    modules: BTreeMap<Names, Module>,
}

/// For two files, the names that the first takes from the second.
pub(super) type Arrows = BTreeMap<(usize, usize), BTreeSet<String>>;

impl Sources {
    /// Reads the file of the crate's root, and those of its modules.
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let mut sources = Self::default();
        let folder = root.parent().unwrap_or(Path::new("")).to_owned();
        sources.read_file(root, &folder, vec!["crate".to_owned()])?;
        Ok(sources)
    }

    fn read_file(&mut self, path: &Path, folder: &Path, module: Names) -> Result<(), String> {
        let wrong = |error: &dyn std::fmt::Display| format!("`{}` cannot be read: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
        let parsed = syn::parse_file(&text).map_err(|error| wrong(&error))?;
        self.files.push(path.to_owned());
        self.add_module(self.files.len() - 1, folder, module, parsed.items)
    }

    fn add_module(
        &mut self,
        file: usize,
        folder: &Path,
        path: Names,
        items: Vec<Item>,
    ) -> Result<(), String> {
        let mut module = Module { file, ..Module::default() };
        for item in items.into_iter().filter(|item| !is_test(attributes(item))) {
            match item {
                Item::Use(used) => {
                    let is_private = matches!(used.vis, syn::Visibility::Inherited);
                    module.add_use(&used.tree, &mut Vec::new(), is_private);
                }
                Item::Mod(inner) => {
                    let name = inner.ident.to_string();
                    let (path, folder) =
                        ([path.as_slice(), std::slice::from_ref(&name)].concat(), folder.join(&name));
                    match inner.content {
                        Some((_, items)) => self.add_module(file, &folder, path, items)?,
                        None => {
                            let beside = folder.with_extension("rs");
                            let inside = folder.join("mod.rs");
                            let source = if beside.exists() { beside } else { inside };
                            self.read_file(&source, &folder, path)?;
                        }
                    }
                    module.names.insert(name, Named::Here);
                }
                other => {
                    if let Some(name) = defined_name(&other) {
                        module.names.insert(name, Named::Here);
                    }
                    Mentions(&mut module.mentioned).visit_item(&other);
                }
            }
        }
        self.modules.insert(path, module);
        Ok(())
    }

    /// Every arrow from one file to another.
    pub(super) fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (path, module) in &self.modules {
            for mentioned in &module.mentioned {
                if let Some((file, name)) = self.defined_in(path, mentioned, 0)
                    && file != module.file
                {
                    arrows.entry((module.file, file)).or_default().insert(name);
                }
            }
        }
        arrows
    }

    /// The file that defines what `names` stands for in the module `at`. `None` if it is a module, or no item of this crate.
    fn defined_in(&self, at: &[String], names: &[String], depth: usize) -> Option<(usize, String)> {
        let (first, rest) = names.split_first()?;
        let module = self.modules.get(at)?;
        if depth > 16 {
            return None;
        }
        match first.as_str() {
            "crate" => self.defined_in(at.get(..1)?, rest, depth),
            "self" => self.defined_in(at, rest, depth),
            "super" => self.defined_in(at.get(..at.len().checked_sub(1)?)?, rest, depth),
            name => match module.names.get(name) {
                Some(Named::Path(path)) => self.defined_in(at, &[path.as_slice(), rest].concat(), depth + 1),
                Some(Named::Here) => {
                    let inner = [at, std::slice::from_ref(first)].concat();
                    if !self.modules.contains_key(&inner) {
                        return Some((module.file, name.to_owned()));
                    }
                    let found = self.defined_in(&inner, rest, depth);
                    let by_macro = || {
                        let (module, name) = (self.modules.get(&inner)?, rest.first()?);
                        let is_known = module.names.contains_key(name) || is_relative(name);
                        (!is_known).then(|| (module.file, name.clone()))
                    };
                    found.or_else(by_macro)
                }
                None => {
                    let by_glob =
                        |path: &Names| self.defined_in(at, &[path.as_slice(), names].concat(), depth + 1);
                    module.globs.iter().find_map(by_glob)
                }
            },
        }
    }
}

impl Module {
    fn add_use(&mut self, tree: &UseTree, before: &mut Names, is_private: bool) {
        let (name, path) = match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.add_use(&path.tree, before, is_private);
                before.pop();
                return;
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_use(tree, before, is_private));
                return;
            }
            UseTree::Glob(_) => return self.globs.push(before.clone()),
            UseTree::Name(name) if name.ident == "self" => (before.last().cloned(), before.clone()),
            UseTree::Name(name) => (Some(name.ident.to_string()), with(before, &name.ident)),
            UseTree::Rename(rename) => (Some(rename.rename.to_string()), with(before, &rename.ident)),
        };
        // `use child::Item` may also name another crate; that one is found nowhere here.
        if is_private {
            self.mentioned.insert(path.clone());
        }
        if let Some(name) = name.filter(|name| path.as_slice() != std::slice::from_ref(name)) {
            self.names.insert(name, Named::Path(path));
        }
    }
}

fn with(before: &[String], last: &syn::Ident) -> Names {
    [before, &[last.to_string()]].concat()
}

/// Collects the paths that code has, and those in the arguments of macros.
struct Mentions<'a>(&'a mut BTreeSet<Names>);

impl Visit<'_> for Mentions<'_> {
    fn visit_path(&mut self, path: &syn::Path) {
        self.0.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_attribute(&mut self, _: &Attribute) {}

    fn visit_item(&mut self, item: &Item) {
        if let Item::Use(used) = item {
            let mut module = Module::default();
            module.add_use(&used.tree, &mut Vec::new(), true);
            self.0.append(&mut module.mentioned);
        } else if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_macro(&mut self, called: &syn::Macro) {
        self.visit_path(&called.path);
        self.tokens(called.tokens.clone());
    }
}

impl Mentions<'_> {
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut n_colons) = (Names::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => n_colons += 1,
                TokenTree::Ident(name) => {
                    if n_colons != 2 {
                        self.0.insert(std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    n_colons = 0;
                }
                TokenTree::Group(group) => {
                    self.0.insert(std::mem::take(&mut path));
                    self.tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {
                    self.0.insert(std::mem::take(&mut path));
                    n_colons = 0;
                }
            }
        }
        self.0.insert(path);
    }
}

/// Whether the name stands for a module by its place.
fn is_relative(name: &str) -> bool {
    matches!(name, "crate" | "self" | "super")
}

/// Whether the item is compiled for tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    let is = |attribute: &Attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
    };
    attributes.iter().any(is)
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Union(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

/// The name that the item gives to its module.
fn defined_name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(it) => &it.ident,
        Item::Enum(it) => &it.ident,
        Item::Fn(it) => &it.sig.ident,
        Item::Macro(it) => it.ident.as_ref()?,
        Item::Static(it) => &it.ident,
        Item::Struct(it) => &it.ident,
        Item::Trait(it) => &it.ident,
        Item::Type(it) => &it.ident,
        Item::Union(it) => &it.ident,
        _ => return None,
    };
    Some(name.to_string())
}
