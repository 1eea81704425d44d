//! Import circles between the files of a crate.
//!
//! A circle makes its files one unit: none can be read, tested or moved without the others. A module
//! and one of its children may import each other; there is no larger circle.
//!
//! A call of a method counts as an import of the file with its `impl`, where the call tells the type:
//! `self.method()` and `Type::method()`. The type of another receiver is not known here; such a call
//! counts if the `impl` is not in the file of its type and only one method of the crate has the name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use syn::visit::{self, Visit};

use super::{none, read, rust_files};

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
    /// The types that the file defines.
    types: BTreeSet<String>,
    /// The inherent methods that the file defines, each with its type.
    methods: BTreeSet<(String, String)>,
    /// The calls of methods, with the type where the call tells it.
    calls: BTreeSet<(Option<String>, String)>,
    /// The type of the `impl` block that is visited.
    current: Option<String>,
    /// The modules of all files of the crate.
    all: Rc<BTreeSet<ItemPath>>,
}

impl FileImports {
    /// Makes a path absolute; `None` for a path of another crate or of a local name.
    fn resolve(&self, path: &[String]) -> Option<ItemPath> {
        let mut base = match path.first()?.as_str() {
            "crate" => return Some(path[1..].to_vec()),
            "self" => return Some([&self.module[..], &path[1..]].concat()),
            "super" => self.module.clone(),
            _ => {
                // A path may start with the name of a child.
                let below = [&self.module[..], path].concat();
                return self.all.contains(&below[..=self.module.len()]).then_some(below);
            }
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
        if public {
            self.reexported.extend(self.resolve(&path).map(|origin| (to.to_string(), origin)));
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

    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Struct(it) => drop(self.types.insert(it.ident.to_string())),
            syn::Item::Enum(it) => drop(self.types.insert(it.ident.to_string())),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        let syn::Type::Path(of) = &*block.self_ty else {
            return visit::visit_item_impl(self, block);
        };
        let name = of.path.segments.last().map(|segment| segment.ident.to_string());
        if let (Some(name), None) = (&name, &block.trait_) {
            for item in &block.items {
                if let syn::ImplItem::Fn(method) = item {
                    self.methods.insert((name.clone(), method.sig.ident.to_string()));
                }
            }
        }
        let outer = std::mem::replace(&mut self.current, name);
        visit::visit_item_impl(self, block);
        self.current = outer;
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let is_self = matches!(&*call.receiver, syn::Expr::Path(it) if it.path.is_ident("self"));
        let of = self.current.clone().filter(|_| is_self);
        self.calls.insert((of, call.method.to_string()));
        visit::visit_expr_method_call(self, call);
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
        if let [.., of, method] = &segments[..] {
            let of = if of == "Self" { self.current.clone() } else { Some(of.clone()) };
            self.calls.extend(of.map(|of| (Some(of), method.clone())));
        }
        visit::visit_path(self, path);
    }
}

/// The files of a crate by the path of the module that each defines.
fn crate_files(folder: &Path) -> BTreeMap<ItemPath, FileImports> {
    let source = folder.join("src");
    let files =
        rust_files().filter(|path| path.starts_with(&source) && !path.ends_with("tests.rs"));
    let modules: BTreeMap<PathBuf, ItemPath> = files
        .map(|path| {
            let below = path.strip_prefix(&source).unwrap().with_extension("");
            let parts = below.iter().map(|part| part.to_string_lossy().into_owned());
            let module = parts.filter(|part| !["lib", "main", "mod"].contains(&part.as_str()));
            let module = module.collect();
            (path, module)
        })
        .collect();
    let all: Rc<BTreeSet<ItemPath>> = Rc::new(modules.values().cloned().collect());
    let modules = modules.into_iter().map(|(path, module)| {
        let mut imports =
            FileImports { module: module.clone(), all: Rc::clone(&all), ..FileImports::default() };
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

/// The files with the methods that the calls of each file reach.
fn called_files(files: &BTreeMap<ItemPath, FileImports>) -> BTreeMap<ItemPath, BTreeSet<ItemPath>> {
    let mut by_type: BTreeMap<(&str, &str), BTreeSet<&ItemPath>> = BTreeMap::new();
    let mut by_name: BTreeMap<&str, BTreeSet<(&str, &ItemPath)>> = BTreeMap::new();
    for (module, file) in files {
        for (of, method) in &file.methods {
            by_type.entry((of, method)).or_default().insert(module);
            by_name.entry(method).or_default().insert((of, module));
        }
    }
    let reached = |of: &Option<String>, method: &str| -> Option<&ItemPath> {
        if let Some(of) = of {
            // Two types of one name, or a method of a trait or of another crate.
            let places = by_type.get(&(of.as_str(), method))?;
            return places.iter().next().copied().filter(|_| places.len() == 1);
        }
        let places = by_name.get(method)?;
        let (of, module) = places.iter().next().filter(|_| places.len() == 1)?;
        // One word may be a method of the standard library, too.
        let is_split = !files[*module].types.contains(*of) && method.contains('_');
        is_split.then_some(*module)
    };
    let called = files.iter().map(|(module, file)| {
        let targets = file.calls.iter().filter_map(|(of, method)| reached(of, method));
        (module.clone(), targets.cloned().collect())
    });
    called.collect()
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
fn imports_form_no_circles() {
    let mut folders: BTreeSet<PathBuf> = BTreeSet::new();
    for path in rust_files().filter(|path| !path.starts_with("tests") && !path.starts_with("fuzz"))
    {
        let source = path.ancestors().find(|parent| parent.ends_with("src"));
        folders.extend(source.and_then(Path::parent).map(Path::to_owned));
    }
    folders.retain(|folder| super::root().join(folder).join("Cargo.toml").is_file());
    let mut found = Vec::new();
    for folder in folders {
        let files = crate_files(&folder);
        let called = called_files(&files);
        let edges = files.iter().map(|(module, imports)| {
            let targets = imports.named.iter().filter_map(|path| defining_file(&files, path));
            let targets = targets.chain(called[module].iter().cloned());
            (module.clone(), targets.filter(|target| target != module).collect())
        });
        let edges: BTreeMap<ItemPath, BTreeSet<ItemPath>> = edges.collect();
        let mut circles = find_circles(&edges);
        circles.retain(|circle| !is_module_with_child(circle));
        for circle in circles {
            let names: Vec<_> = circle.iter().map(|module| module.join("::")).collect();
            found.push(format!("{}: {}", folder.display(), names.join(", ")));
        }
    }
    none("files that import each other", &found);
}
