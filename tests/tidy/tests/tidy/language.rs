//! Names and comments follow the language guide of CONTRIBUTING.md.
//!
//! The checks read the sources of the product as a compiler does; test modules are left out, except
//! where test names are checked. A limit is a share of all names or comments; a single exception needs no entry.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

use super::{none, read, rust_files};

/// Types whose definition depends on the platform or on a feature: one name, several definitions.
const CONDITIONAL_TYPES: &[(&str, &str)] = &[
    ("extensions/skill_registry/catalog", "RootDir"),
    ("kernel/sandbox", "SandboxLauncher"),
    ("kernel/sandbox", "SandboxedChild"),
    ("kernel/tasks", "DatabaseLink"),
];

/// The sources of the product, without tests and templates.
pub(super) fn product_sources() -> impl Iterator<Item = PathBuf> {
    rust_files().filter(|path| {
        let parts: Vec<_> = path.components().map(|part| part.as_os_str()).collect();
        let is_product = ["kernel", "extensions", "xtask"].iter().any(|top| parts[0] == *top);
        let is_source = parts.iter().any(|part| *part == "src");
        let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
        is_product && is_source && !is_test && !parts.iter().any(|part| *part == "templates")
    })
}

/// The directory of the crate that a source belongs to.
fn crate_of(path: &Path) -> PathBuf {
    path.ancestors().find(|parent| parent.ends_with("src")).unwrap().parent().unwrap().to_owned()
}

/// The names and doc comments of one source outside its test modules.
#[derive(Default)]
struct SourceItems {
    types: Vec<String>,
    /// Functions that no trait of another file prescribes.
    functions: Vec<String>,
    type_docs: Vec<String>,
    function_docs: Vec<String>,
    /// The first lines of all doc comments.
    docs: Vec<String>,
    /// The names of test functions, which test modules have.
    tests: Vec<String>,
    in_tests: bool,
    in_trait_impl: bool,
}

pub(super) fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| {
                list.tokens.to_string().split(|c: char| !c.is_alphanumeric()).any(|w| w == "test")
            })
    })
}

fn is_test_function(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().segments.last().is_some_and(|segment| segment.ident == "test")
    })
}

/// The first line of a doc comment.
fn first_doc_line(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else {
            return None;
        };
        let line = text.value().trim().to_owned();
        (pair.path.is_ident("doc") && !line.is_empty()).then_some(line)
    })
}

impl SourceItems {
    fn add_type(&mut self, name: &syn::Ident, attributes: &[syn::Attribute]) {
        if !self.in_tests {
            self.types.push(name.to_string());
            self.type_docs.extend(first_doc_line(attributes));
        }
    }

    fn add_function(&mut self, name: &syn::Ident, attributes: &[syn::Attribute]) {
        if is_test_function(attributes) {
            self.tests.push(name.to_string());
        } else if !self.in_tests && !self.in_trait_impl && name != "main" {
            self.functions.push(name.to_string());
            self.function_docs.extend(first_doc_line(attributes));
        }
    }
}

impl<'ast> Visit<'ast> for SourceItems {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Struct(it) => self.add_type(&it.ident, &it.attrs),
            syn::Item::Enum(it) => self.add_type(&it.ident, &it.attrs),
            syn::Item::Union(it) => self.add_type(&it.ident, &it.attrs),
            syn::Item::Trait(it) => self.add_type(&it.ident, &it.attrs),
            syn::Item::Type(it) => self.add_type(&it.ident, &it.attrs),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let before = self.in_tests;
        self.in_tests |= is_test_only(&module.attrs);
        visit::visit_item_mod(self, module);
        self.in_tests = before;
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.add_function(&function.sig.ident, &function.attrs);
        visit::visit_item_fn(self, function);
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        let before = self.in_trait_impl;
        self.in_trait_impl = block.trait_.is_some();
        visit::visit_item_impl(self, block);
        self.in_trait_impl = before;
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add_function(&function.sig.ident, &function.attrs);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.add_function(&function.sig.ident, &function.attrs);
        visit::visit_trait_item_fn(self, function);
    }
}

/// Reads one source; test names only, where the whole file is a test.
fn read_items(path: &Path, is_test: bool) -> SourceItems {
    let file =
        syn::parse_file(&read(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut items = SourceItems { in_tests: is_test, ..SourceItems::default() };
    items.visit_file(&file);
    items.docs = items.type_docs.iter().chain(&items.function_docs).cloned().collect();
    items
}

fn product_items() -> Vec<(PathBuf, SourceItems)> {
    product_sources().map(|path| (path.clone(), read_items(&path, false))).collect()
}

/// Returns a finding where a share is above its limit, with the first examples.
fn check_share(subject: &str, examples: &[String], all: usize, limit: f64) -> Option<String> {
    let share = examples.len() as f64 * 100.0 / all.max(1) as f64;
    let shown = examples.iter().take(40).cloned().collect::<Vec<_>>().join("\n    ");
    (share > limit)
        .then(|| format!("{subject}: {share:.1} % of {all}, at most {limit} %\n    {shown}"))
}

/// Names of one kind with the sources that define them.
type NamedPlaces = Vec<(PathBuf, String)>;

fn collect(
    items: &[(PathBuf, SourceItems)],
    field: impl Fn(&SourceItems) -> &Vec<String>,
) -> NamedPlaces {
    let with_path = |(path, it): &(PathBuf, SourceItems)| {
        field(it).iter().map(|name| (path.clone(), name.clone())).collect::<Vec<_>>()
    };
    items.iter().flat_map(with_path).collect()
}

/// Formats the entries that a predicate selects, one line each.
fn select(all: &NamedPlaces, predicate: impl Fn(&str) -> bool) -> Vec<String> {
    let selected = all.iter().filter(|(_, name)| predicate(name));
    selected.map(|(path, name)| format!("{}: {name}", path.display())).collect()
}

fn first_word(line: &str) -> &str {
    line.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()
}

/// The types of every crate that have the same name as another, as findings.
fn check_repeated_types(types: &NamedPlaces) -> Vec<String> {
    let mut crates: BTreeMap<&str, BTreeMap<PathBuf, Vec<&PathBuf>>> = BTreeMap::new();
    for (path, name) in types.iter().filter(|(_, name)| name != "Result") {
        crates.entry(name).or_default().entry(crate_of(path)).or_default().push(path);
    }
    let mut findings = Vec::new();
    for (name, places) in &crates {
        for (folder, paths) in places.iter().filter(|(_, paths)| paths.len() > 1) {
            let is_conditional =
                CONDITIONAL_TYPES.iter().any(|(at, one)| folder.ends_with(at) && one == name);
            if !is_conditional {
                findings.push(format!("{name} is defined several times: {paths:?}"));
            }
        }
    }
    let several = crates.iter().filter(|(_, places)| places.len() > 1);
    let several: Vec<_> =
        several.map(|(name, places)| format!("{name}: {:?}", places.keys())).collect();
    findings.extend(check_share("type names of several crates", &several, crates.len(), 2.0));
    findings
}

#[test]
fn names_and_docs_follow_the_guide() {
    let items = product_items();
    let types = collect(&items, |it| &it.types);
    let mut findings = check_repeated_types(&types);
    let short = select(&types, |name| name.chars().filter(|c| c.is_uppercase()).count() == 1);
    findings.extend(check_share("one-word type names", &short, types.len(), 20.0));

    let functions = collect(&items, |it| &it.functions);
    let short = select(&functions, |name| !name.trim_matches('_').contains('_'));
    findings.extend(check_share("one-word functions", &short, functions.len(), 35.0));
    let banned = select(&functions, |name| BANNED_IDENTIFIERS.contains(&name));
    findings.extend(check_share("banned function names", &banned, functions.len(), 0.0));

    let docs = collect(&items, |it| &it.docs);
    let questions = ["What", "Who", "How", "Where"];
    let clauses = ["Why", "Which", "Whose", "When", "Whether"];
    let found = select(&docs, |line| questions.contains(&first_word(line)));
    findings.extend(check_share("docs that start with a question word", &found, docs.len(), 1.0));
    let found =
        select(&docs, |line| [&questions[..], &clauses].concat().contains(&first_word(line)));
    findings.extend(check_share("docs that start with a clause", &found, docs.len(), 3.0));

    let docs = collect(&items, |it| &it.function_docs);
    let found = select(&docs, |line| !first_word(line).ends_with('s'));
    findings.extend(check_share("function docs without a verb first", &found, docs.len(), 10.0));
    none("names and documentation", &findings);
}

/// The number of lines with code and of lines that are comments inside functions.
fn count_comment_lines(text: &str) -> (usize, usize) {
    let before_tests = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = || before_tests.lines().map(str::trim_start);
    let is_doc = |line: &&str| line.starts_with("///") || line.starts_with("//!");
    let code = lines().filter(|line| !line.is_empty() && !line.starts_with("//")).count();
    let comments = lines().filter(|line| line.starts_with("//") && !is_doc(line)).count();
    (code, comments)
}

#[test]
fn code_has_comments_with_reasons() {
    let (mut code, mut comments) = (0, 0);
    for path in product_sources() {
        let (more_code, more_comments) = count_comment_lines(&read(&path));
        code += more_code;
        comments += more_comments;
    }
    let per_thousand = comments as f64 * 1000.0 / code as f64;
    assert!(per_thousand >= 25.0, "{per_thousand:.1} comment lines per 1,000 lines, at least 25");
}

#[test]
fn test_names_are_short() {
    let mut names: Vec<(PathBuf, String)> = Vec::new();
    for path in
        rust_files().filter(|path| !path.starts_with("fuzz") && !path.starts_with("sandbox"))
    {
        if path.components().any(|part| part.as_os_str() == "templates") {
            continue;
        }
        let tests = read_items(&path, false).tests;
        names.extend(tests.into_iter().map(|name| (path.clone(), name)));
    }
    assert!(names.len() > 1_000, "only {} tests were found", names.len());
    let words = |name: &str| name.split('_').count();
    let mut counts: Vec<_> = names.iter().map(|(_, name)| words(name)).collect();
    counts.sort_unstable();
    let median = counts[counts.len() / 2];
    assert!(median <= 5, "the median test name has {median} words, at most 5");
    let pronouns = [
        "a",
        "an",
        "the",
        "it",
        "its",
        "he",
        "they",
        "what",
        "who",
        "whoever",
        "whatever",
        "whose",
        "which",
        "nobody",
        "somebody",
        "anybody",
        "nothing",
        "something",
        "everything",
        "one",
    ];
    let starts = names
        .iter()
        .filter(|(_, name)| name.split('_').next().is_some_and(|first| pronouns.contains(&first)));
    let starts: Vec<_> = starts.map(|(path, name)| format!("{}: {name}", path.display())).collect();
    let share = check_share("test names that start with an article", &starts, names.len(), 2.0);
    none("test names", &share.into_iter().collect::<Vec<_>>());
}

/// How often a word may occur in 10,000 words of comments.
const WORD_LIMITS: [(&str, f64); 15] = [
    ("what", 15.0),
    ("nothing", 5.0),
    ("says", 4.0),
    ("tells", 4.0),
    ("whole", 4.0),
    ("asked", 4.0),
    ("told", 0.0),
    ("stands", 1.0),
    ("nobody", 1.0),
    ("whoever", 0.0),
    ("whatever", 0.0),
    ("beside", 0.0),
    ("somebody", 0.0),
    ("anybody", 0.0),
    ("mend", 0.0),
];

#[test]
fn comments_use_standard_words() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut all = 0;
    for path in product_sources() {
        for line in
            read(&path).lines().filter_map(|line| line.split_once("//").map(|(_, c)| c.to_owned()))
        {
            // An underscore joins the parts of an identifier, which other checks read.
            let words = line.split(|c: char| !c.is_alphabetic() && c != '_');
            for word in words.filter(|word| !word.is_empty()) {
                *counts.entry(word.to_lowercase()).or_default() += 1;
                all += 1;
            }
        }
    }
    let above = WORD_LIMITS.iter().filter_map(|(word, limit)| {
        let per = counts.get(*word).copied().unwrap_or_default() as f64 * 10_000.0 / all as f64;
        (per > *limit).then(|| format!("{word}: {per:.1} in 10,000 words, at most {limit}"))
    });
    none("words that a standard term replaces", &above.collect::<Vec<_>>());
}

/// Identifiers that say neither what a function does nor what a value is.
const BANNED_IDENTIFIERS: [&str; 9] =
    ["refused", "told", "shown", "hear", "settle", "beside", "owed", "spot", "desk"];

/// Words and phrases that a standard term replaces wherever a person reads them.
const BANNED_WORDS: [&str; 17] = [
    "nobody",
    "somebody",
    "anybody",
    "whoever",
    "told",
    "stands",
    "beside",
    "mend",
    "mends",
    "anew",
    "meanwhile",
    "given up",
    "come to",
    "comes to",
    "taken into use",
    "are none",
    "what is",
];

/// The banned words of a text.
/// Identifiers and the placeholders of a format string are not words of the text.
fn find_banned_words(text: &str) -> Vec<&'static str> {
    let words: Vec<_> = text
        .split(|c: char| !c.is_alphanumeric() && !"_{}".contains(c))
        .filter(|word| !word.is_empty())
        .collect();
    let text = format!(" {} ", words.join(" ").to_lowercase());
    BANNED_WORDS.into_iter().filter(|word| text.contains(&format!(" {word} "))).collect()
}

#[test]
fn documents_use_standard_words() {
    let documents = super::files().into_iter().filter(|path| {
        let is_document = path.extension().is_some_and(|extension| extension == "md");
        is_document && (path.starts_with("docs") || path.components().count() == 1)
    });
    let mut findings = Vec::new();
    for path in documents {
        for (index, line) in read(&path).lines().enumerate() {
            for word in find_banned_words(line) {
                findings.push(format!("{}:{}: {word}", path.display(), index + 1));
            }
        }
    }
    none("words that a standard term replaces", &findings);
}

/// The texts of a source outside its tests: help, messages, prompts and pages of rules.
#[derive(Default)]
struct SourceTexts {
    texts: Vec<String>,
}

impl<'ast> Visit<'ast> for SourceTexts {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test_only(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        // Doc comments are comments, except the help of the command line, which is a page of docs/.
        if !attribute.path().is_ident("doc") {
            visit::visit_attribute(self, attribute);
        }
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.texts.push(text.value());
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let tokens = call.tokens.to_string();
        self.texts.extend(tokens.split('"').skip(1).step_by(2).map(str::to_owned));
    }
}

#[test]
fn messages_use_standard_words() {
    let mut findings = Vec::new();
    for path in product_sources() {
        let mut texts = SourceTexts::default();
        texts.visit_file(&syn::parse_file(&read(&path)).unwrap());
        for text in texts.texts {
            let words = find_banned_words(&text);
            findings.extend(words.iter().map(|word| format!("{}: {word}: {text}", path.display())));
        }
    }
    none("words that a standard term replaces", &findings);
}
