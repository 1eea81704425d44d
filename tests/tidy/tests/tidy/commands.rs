//! Libraries do not spell commands.
//!
//! A message that suggests a command takes it from one table, which a test of the command line
//! checks. A command in any other text would stay there when the command is renamed.

use std::path::Path;

use syn::buffer::{Cursor, TokenBuffer};
use syn::visit::{self, Visit};

use super::language::{is_test_only, product_sources};
use super::{in_any, none, read};

/// The sources that spell commands: the command line itself, with the chat, and the table.
const SPELLING: &[&str] = &[
    "kernel/chat",
    "kernel/cli",
    "kernel/terminal",
    "kernel/operations",
    "kernel/clients",
    "kernel/payload/src/operator_command.rs",
    "extensions/skill_registry/commands",
    "extensions/skill_registry/test_command",
    "xtask",
];

/// Further sources, each with the number of its texts that name a command.
const EXEMPT: &[(&str, usize)] = &[
    // The page of a rule is one text; a test of the command line reads it in docs/rules.md.
    ("extensions/skill_registry/rules/src/rules/suppression_unknown.rs", 1),
    // The command that serves the console belongs to it.
    ("kernel/console/src/error.rs", 1),
];

/// The file with the arguments of the command line.
const ARGUMENTS: &str = "kernel/cli/src/cli.rs";

/// The string literals of a source outside its tests and documentation, with those inside macros.
#[derive(Default)]
struct SourceLiterals {
    texts: Vec<String>,
}

impl SourceLiterals {
    fn add_tokens(&mut self, mut cursor: Cursor<'_>) {
        while !cursor.eof() {
            if let Some((literal, next)) = cursor.literal() {
                let text = syn::parse_str::<syn::LitStr>(&literal.to_string());
                self.texts.extend(text.ok().map(|text| text.value()));
                cursor = next;
            } else if let Some((inside, _, _, next)) = cursor.any_group() {
                self.add_tokens(inside);
                cursor = next;
            } else {
                cursor = cursor.token_tree().unwrap().1;
            }
        }
    }
}

impl<'ast> Visit<'ast> for SourceLiterals {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test_only(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        match &attribute.meta {
            // The message of an error is the attribute of its type.
            syn::Meta::List(list) => {
                self.add_tokens(TokenBuffer::new2(list.tokens.clone()).begin());
            }
            syn::Meta::NameValue(_) | syn::Meta::Path(_) => {}
        }
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.texts.push(text.value());
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.add_tokens(TokenBuffer::new2(call.tokens.clone()).begin());
    }
}

fn source_literals(path: &Path) -> Vec<String> {
    let mut literals = SourceLiterals::default();
    literals.visit_file(&syn::parse_file(&read(path)).unwrap());
    literals.texts
}

/// The names and aliases of the commands.
fn command_names() -> Vec<String> {
    let source = syn::parse_file(&read(Path::new(ARGUMENTS))).unwrap();
    let mut names = Vec::new();
    for item in &source.items {
        let syn::Item::Enum(commands) = item else { continue };
        if commands.ident != "TopLevelCommand" {
            continue;
        }
        for command in &commands.variants {
            names.push(command.ident.to_string().to_lowercase());
            let mut aliases = SourceLiterals::default();
            command.attrs.iter().for_each(|attribute| aliases.visit_attribute(attribute));
            names.extend(aliases.texts);
        }
    }
    assert!(names.iter().any(|name| name == "ext"), "{ARGUMENTS} has other names: {names:?}");
    names
}

/// Returns whether a text contains a command, with the name of the program or in quotes.
fn names_command(text: &str, commands: &[String]) -> bool {
    let follows = |start: &str, with_argument: bool| {
        text.match_indices(start).any(|(at, _)| {
            // An article makes it an object: a skillhost extension is not a command.
            if text[..at].ends_with("a ") {
                return false;
            }
            let rest = &text[at + start.len()..];
            let end = rest.find(|c: char| c != '-' && !c.is_ascii_alphanumeric());
            let (word, rest) = rest.split_at(end.unwrap_or(rest.len()));
            commands.iter().any(|name| name == word) && (!with_argument || rest.starts_with(' '))
        })
    };
    follows("skillhost ", false) || follows("`", true)
}

#[test]
fn libraries_spell_no_command() {
    let commands = command_names();
    let (mut findings, mut all) = (Vec::new(), 0);
    for path in product_sources().filter(|path| !in_any(path, SPELLING)) {
        let texts = source_literals(&path);
        all += texts.len();
        let found: Vec<_> =
            texts.into_iter().filter(|text| names_command(text, &commands)).collect();
        let exempt = EXEMPT.iter().find(|(exempt, _)| path == Path::new(exempt));
        if found.len() != exempt.map_or(0, |(_, count)| *count) {
            findings.push(format!("{}: {found:#?}", path.display()));
        }
    }
    assert!(all > 5_000, "only {all} texts were found");
    none("texts that spell a command; take it from `OperatorCommand`", &findings);
}
