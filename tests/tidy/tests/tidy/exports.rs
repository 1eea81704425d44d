//! The names that each crate exports.
//!
//! A crate shows little of itself, and only what another crate needs: a name that no other crate
//! uses, and that no exported signature needs, is removed from its root.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

use super::{none, read, root, rust_files};

/// The names that a crate may export; the payload has the shapes of every interface.
const MAX_NAMES: usize = 118;

/// Crates for authors of extensions, most of which are not in this repository.
const FOR_AUTHORS: &[&str] = &["kernel/sdk", "kernel/contract"];

/// The exported names of a crate.
#[derive(Default)]
struct ExportedNames {
    names: BTreeSet<String>,
}

impl ExportedNames {
    /// Adds what a file makes public, with its public modules.
    fn add_file(&mut self, file: &Path, modules: &Path) {
        let source = syn::parse_file(&read(file)).unwrap();
        self.add_items(&source.items, modules);
    }

    fn add_items(&mut self, items: &[syn::Item], modules: &Path) {
        for item in items {
            match item {
                syn::Item::Use(it) if is_public(&it.vis) && !is_hidden(&it.attrs) => {
                    self.add_use(&it.tree, modules);
                }
                syn::Item::Mod(it) if is_public(&it.vis) && !is_hidden(&it.attrs) => {
                    let below = modules.join(it.ident.to_string());
                    match &it.content {
                        Some((_, items)) => self.add_items(items, &below),
                        None => self.add_file(&below.with_extension("rs"), &below),
                    }
                }
                _ => self.names.extend(public_name(item)),
            }
        }
    }

    fn add_use(&mut self, tree: &syn::UseTree, modules: &Path) {
        match tree {
            syn::UseTree::Path(path) => match &*path.tree {
                // Everything of a module of this crate is exported one by one; the names of another
                // crate are its own.
                syn::UseTree::Glob(_) => {
                    let below = modules.join(path.ident.to_string());
                    if root().join(below.with_extension("rs")).is_file() {
                        self.add_file(&below.with_extension("rs"), &below);
                    }
                }
                tree => self.add_use(tree, modules),
            },
            syn::UseTree::Name(name) => self.names.extend([name.ident.to_string()]),
            syn::UseTree::Rename(name) => self.names.extend([name.rename.to_string()]),
            syn::UseTree::Glob(_) => {}
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_use(tree, modules));
            }
        }
    }
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

fn is_hidden(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("doc")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "hidden")
    })
}

fn public_name(item: &syn::Item) -> Option<String> {
    let (visibility, name) = match item {
        syn::Item::Const(it) => (&it.vis, &it.ident),
        syn::Item::Enum(it) => (&it.vis, &it.ident),
        syn::Item::Fn(it) => (&it.vis, &it.sig.ident),
        syn::Item::Static(it) => (&it.vis, &it.ident),
        syn::Item::Struct(it) => (&it.vis, &it.ident),
        syn::Item::Trait(it) => (&it.vis, &it.ident),
        syn::Item::Type(it) => (&it.vis, &it.ident),
        _ => return None,
    };
    is_public(visibility).then(|| name.to_string())
}

/// The names in the public signatures of a crate: a caller of a function also uses what it takes
/// and returns.
#[derive(Default)]
struct SignatureNames {
    names: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for SignatureNames {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Struct(_)
            | syn::Item::Enum(_)
            | syn::Item::Type(_)
            | syn::Item::Trait(_)
                if public_name(item).is_none() => {}
            syn::Item::Mod(module) if module.attrs.iter().any(|a| a.path().is_ident("cfg")) => {}
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        // The fields of a variant have no visibility of their own.
        if is_public(&field.vis) || matches!(field.vis, syn::Visibility::Inherited) {
            visit::visit_field(self, field);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if is_public(&function.vis) {
            visit::visit_signature(self, &function.sig);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        // A function of a trait has the visibility of the trait.
        if !matches!(function.vis, syn::Visibility::Restricted(_)) {
            visit::visit_signature(self, &function.sig);
        }
    }

    fn visit_item_use(&mut self, _: &'ast syn::ItemUse) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.names.extend(path.segments.iter().map(|segment| segment.ident.to_string()));
        visit::visit_path(self, path);
    }
}

/// The words of a file's code. Tests count: what they need of another crate is used.
fn words(path: &Path) -> BTreeSet<String> {
    let text = read(path);
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    lines.flat_map(|line| line.split(move |c| !is_part(c))).map(str::to_owned).collect()
}

/// The product's libraries that Rust code may import.
fn libraries() -> Vec<PathBuf> {
    let roots = rust_files().filter(|path| path.ends_with("src/lib.rs"));
    let product = roots.filter(|path| path.starts_with("kernel") || path.starts_with("extensions"));
    product.map(|path| path.parent().unwrap().parent().unwrap().to_owned()).collect()
}

#[test]
fn crates_export_few_names() {
    let mut findings = Vec::new();
    for folder in libraries() {
        let mut exported = ExportedNames::default();
        exported.add_file(&folder.join("src/lib.rs"), &folder.join("src"));
        let count = exported.names.len();
        if count > MAX_NAMES {
            findings.push(format!("{} has {count}", folder.display()));
        }
    }
    none(&format!("more than {MAX_NAMES} exported names"), &findings);
}

#[test]
fn exported_names_are_used_elsewhere() {
    let all: Vec<_> = rust_files().map(|path| (path.clone(), words(&path))).collect();
    let mut findings = Vec::new();
    for folder in libraries() {
        if FOR_AUTHORS.iter().any(|exempt| folder == Path::new(exempt)) {
            continue;
        }
        let mut exported = ExportedNames::default();
        exported.add_file(&folder.join("src/lib.rs"), &folder.join("src"));
        let mut signatures = SignatureNames::default();
        let source = folder.join("src");
        for path in rust_files().filter(|path| path.starts_with(&source)) {
            signatures.visit_file(&syn::parse_file(&read(&path)).unwrap());
        }
        let others: Vec<_> = all.iter().filter(|(path, _)| !path.starts_with(&source)).collect();
        let is_used = |name: &&String| {
            signatures.names.contains(*name)
                || others.iter().any(|(_, words)| words.contains(*name))
        };
        let names: Vec<_> = exported.names.iter().filter(|name| !is_used(name)).cloned().collect();
        if !names.is_empty() {
            findings.push(format!("{}: {}", folder.display(), names.join(", ")));
        }
    }
    none("exported names that no other crate uses", &findings);
}
