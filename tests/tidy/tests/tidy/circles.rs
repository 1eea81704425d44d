//! Import circles between the files of a crate.
//!
//! A circle makes its files one unit: none can be read, tested or moved without the others. A module
//! and one of its children may import each other; every larger circle is in the list below, which may
//! only become shorter.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

use super::{read, rust_files};

/// The files of each crate that are in a circle larger than a module and one child.
const FILES_IN_CIRCLES: &[(&str, usize)] =
    &[("extensions/skill_registry/plugin", 6), ("kernel/host", 5)];

/// A path of a module or an item, from the root of its crate.
type ItemPath = Vec<String>;

/// The imports of one file.
#[derive(Default)]
struct FileImports {
    /// The module that the file defines.
    module: ItemPath,
    /// The paths that the file names.
    named: BTreeSet<ItemPath>,
    /// The names that the file passes on to others, with their origin.
    reexported: BTreeMap<String, ItemPath>,
}

impl FileImports {
    /// Makes a path absolute; `None` for a path of another crate or of a local name.
    fn resolve(&self, path: &[String]) -> Option<ItemPath> {
        let mut base = match path.first()?.as_str() {
            "crate" => return Some(path[1..].to_vec()),
            "self" => return Some([&self.module[..], &path[1..]].concat()),
            "super" => self.module.clone(),
            _ => return None,
        };
        let mut rest = path;
        while rest.first().is_some_and(|segment| segment == "super") {
            base.pop()?;
            rest = &rest[1..];
        }
        Some([&base[..], rest].concat())
    }

    fn add_use(&mut self, tree: &syn::UseTree, prefix: &[String], is_public: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                let prefix = [prefix, &[path.ident.to_string()]].concat();
                self.add_use(&path.tree, &prefix, is_public);
            }
            syn::UseTree::Name(name) => self.add_name(prefix, &name.ident, &name.ident, is_public),
            syn::UseTree::Rename(name) => {
                self.add_name(prefix, &name.ident, &name.rename, is_public);
            }
            syn::UseTree::Glob(_) => self.named.extend(self.resolve(prefix)),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_use(tree, prefix, is_public));
            }
        }
    }

    fn add_name(&mut self, prefix: &[String], name: &syn::Ident, to: &syn::Ident, public: bool) {
        let path = [prefix, &[name.to_string()]].concat();
        // `pub use child::Name;` of a module names its own child.
        let own_child = [&["self".to_owned()], &path[..]].concat();
        let resolved = self.resolve(&path).or_else(|| self.resolve(&own_child));
        if public {
            self.reexported.extend(resolved.map(|origin| (to.to_string(), origin)));
        } else {
            self.named.extend(self.resolve(&path));
        }
    }
}

impl<'ast> Visit<'ast> for FileImports {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        // Tests may name everything; other inline modules are part of their file.
        let is_test = module.ident == "tests"
            || module.attrs.iter().any(|attribute| attribute.path().is_ident("cfg"));
        if !is_test && module.content.is_some() {
            self.module.push(module.ident.to_string());
            visit::visit_item_mod(self, module);
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_public = !matches!(item.vis, syn::Visibility::Inherited);
        self.add_use(&item.tree, &[], is_public);
    }

    /// `pub(crate)` names a reach and imports nothing.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.named.extend(self.resolve(&segments));
        visit::visit_path(self, path);
    }
}

/// The files of a crate by the path of the module that each defines.
fn crate_files(folder: &Path) -> BTreeMap<ItemPath, FileImports> {
    let source = folder.join("src");
    let files =
        rust_files().filter(|path| path.starts_with(&source) && !path.ends_with("tests.rs"));
    let modules = files.map(|path| {
        let below = path.strip_prefix(&source).unwrap().with_extension("");
        let mut module: ItemPath =
            below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        module.retain(|part| !["lib", "main", "mod"].contains(&part.as_str()));
        let mut imports = FileImports { module: module.clone(), ..FileImports::default() };
        imports.visit_file(&syn::parse_file(&read(&path)).unwrap());
        (module, imports)
    });
    modules.collect()
}

/// The module of the file that defines what a path names; re-exports are followed.
fn defining_file(files: &BTreeMap<ItemPath, FileImports>, path: &[String]) -> Option<ItemPath> {
    let mut path = path.to_vec();
    for _ in 0..10 {
        let module =
            (0..=path.len()).rev().map(|end| &path[..end]).find(|m| files.contains_key(*m))?;
        let rest = &path[module.len()..];
        let origin = rest.first().and_then(|name| files[module].reexported.get(name));
        match origin {
            Some(origin) => path = [&origin[..], &rest[1..]].concat(),
            None => return Some(module.to_vec()),
        }
    }
    None
}

/// The strongly connected parts of a graph that have more than one node.
fn find_circles(edges: &BTreeMap<ItemPath, BTreeSet<ItemPath>>) -> Vec<BTreeSet<ItemPath>> {
    let reachable = |from: &ItemPath| {
        let mut found = BTreeSet::new();
        let mut waiting = vec![from];
        while let Some(node) = waiting.pop() {
            for next in edges.get(node).into_iter().flatten() {
                if found.insert(next.clone()) {
                    waiting.push(next);
                }
            }
        }
        found
    };
    let all: BTreeMap<_, _> = edges.keys().map(|node| (node, reachable(node))).collect();
    let mut circles = BTreeSet::new();
    for (node, targets) in &all {
        let circle: BTreeSet<ItemPath> = targets
            .iter()
            .filter(|target| all.get(target).is_some_and(|back| back.contains(*node)))
            .cloned()
            .collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

fn is_module_with_child(circle: &BTreeSet<ItemPath>) -> bool {
    let mut modules = circle.iter();
    match (modules.next(), modules.next(), modules.next()) {
        (Some(first), Some(second), None) => {
            second.len() == first.len() + 1 && second.starts_with(first)
        }
        _ => false,
    }
}

#[test]
fn import_circles_become_fewer() {
    let mut folders: BTreeSet<PathBuf> = BTreeSet::new();
    for path in rust_files().filter(|path| !path.starts_with("tests") && !path.starts_with("fuzz"))
    {
        let source = path.ancestors().find(|parent| parent.ends_with("src"));
        folders.extend(source.and_then(Path::parent).map(Path::to_owned));
    }
    folders.retain(|folder| super::root().join(folder).join("Cargo.toml").is_file());
    let mut found = Vec::new();
    let mut shown = Vec::new();
    for folder in folders {
        let files = crate_files(&folder);
        let edges = files.iter().map(|(module, imports)| {
            let targets = imports.named.iter().filter_map(|path| defining_file(&files, path));
            (module.clone(), targets.filter(|target| target != module).collect())
        });
        let edges: BTreeMap<ItemPath, BTreeSet<ItemPath>> = edges.collect();
        let mut circles = find_circles(&edges);
        circles.retain(|circle| !is_module_with_child(circle));
        let count: usize = circles.iter().map(BTreeSet::len).sum();
        if count > 0 {
            found.push((folder.display().to_string(), count));
        }
        for circle in circles {
            let names: Vec<_> = circle.iter().map(|module| module.join("::")).collect();
            shown.push(format!("{}: {}", folder.display(), names.join(", ")));
        }
    }
    let listed: Vec<_> =
        FILES_IN_CIRCLES.iter().map(|(folder, count)| ((*folder).to_owned(), *count)).collect();
    assert!(
        found == listed,
        "files in circles are {found:#?}\nand the list is {listed:#?}\n{}",
        shown.join("\n")
    );
}
