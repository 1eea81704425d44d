//! The policy for the `Cargo.toml` of an extension.

use std::ops::Range;

use serde_json::json;
use skillhost_payload::OperatorCommand;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{AllowedDependency, CrateRecipe};
use crate::error::PolicyViolation;

const FILE: &str = "Cargo.toml";
const SDK: &str = "skillhost-sdk";

/// The keys of `[package]` that the recipe uses or that do not affect the build.
const PACKAGE: [&str; 7] =
    ["name", "version", "edition", "publish", "description", "license", "authors"];
/// The keys of a profile that affect only the compilation of the crate.
const PROFILE: [&str; 8] = [
    "opt-level",
    "lto",
    "codegen-units",
    "strip",
    "debug",
    "overflow-checks",
    "debug-assertions",
    "incremental",
];
const EDITIONS: [&str; 2] = ["2021", "2024"];

/// The maximum length of the name of a crate.
const MAX_NAME: usize = 64;

type SpannedValue<'v> = Spanned<DeValue<'v>>;

/// Parses the text and reports violations; returns `None` for invalid TOML.
pub(super) fn read_cargo_toml(
    text: &str,
    entrypoint: &str,
    allow: &[String],
    violations: &mut Vec<PolicyViolation>,
) -> Option<CrateRecipe> {
    let mut reader = CargoTomlReader { text, allow, violations };
    let document = match DeTable::parse(text) {
        Ok(document) => document.into_inner(),
        Err(error) => {
            let what = error.message().lines().next().unwrap_or("not TOML").to_owned();
            reader.report(error.span().unwrap_or(0..0), what, "correct it");
            return None;
        }
    };
    let mut recipe = CrateRecipe {
        name: String::new(),
        version: "0.0.0".to_owned(),
        edition: "2021".to_owned(),
        library: String::new(),
        dependencies: Vec::new(),
        profile: Vec::new(),
    };
    for (key, value) in &document {
        let place = key.span();
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("package", DeValue::Table(table)) => reader.package(table, &mut recipe),
            // Read after the loop, because a missing [lib] is a violation, too.
            ("lib", DeValue::Table(_)) => {}
            ("dependencies", DeValue::Table(table)) => reader.dependencies(table, &mut recipe),
            ("profile", DeValue::Table(table)) => reader.profiles(table, &mut recipe),
            // An empty table excludes the crate from workspaces in parent directories, like ours.
            ("workspace", DeValue::Table(table)) if table.is_empty() => {}
            ("workspace", _) => reader.report(
                place,
                "a workspace with members or settings is not allowed",
                "an extension is one crate; write an empty [workspace], or none",
            ),
            ("build-dependencies", _) => reader.report(
                place,
                "[build-dependencies] requires a build script, which is not allowed",
                "do the work of the script at start or by hand",
            ),
            ("patch" | "replace", _) => reader.report(
                place,
                format!("[{}] replaces the sources of crates", key.get_ref()),
                "remove it",
            ),
            ("target", _) => reader.report(
                place,
                "[target] makes the build depend on the system",
                "write the dependencies into [dependencies]",
            ),
            (other, _) => reader.report(
                place,
                format!("[{}] is not allowed", truncate_name(other)),
                "use only [package], [lib], [dependencies] and [profile.release]",
            ),
        }
    }
    reader.library(document.get("lib").map(Spanned::get_ref), entrypoint, &mut recipe);
    for table in ["package", "lib"] {
        if !document.contains_key(table) {
            let remedy = format!("see {}", OperatorCommand::CreateExtension);
            reader.report(0..0, format!("[{table}] is required"), &remedy);
        }
    }
    let package = document.get("package").and_then(|package| package.get_ref().as_table());
    if package.is_some_and(|package| !package.contains_key("name")) {
        reader.report(
            0..0,
            "[package] requires `name`",
            "use a name such as skillhost-ext-rss-reader",
        );
    }
    let has_sdk = |value: &SpannedValue<'_>| {
        value.get_ref().as_table().is_some_and(|table| table.contains_key(SDK))
    };
    if !document.get("dependencies").is_some_and(has_sdk) {
        reader.report(
            0..0,
            format!("[dependencies] requires {SDK}"),
            "write: skillhost-sdk = \"*\"; the build uses the SDK of the installation",
        );
    }
    Some(recipe)
}

/// A reader of a `Cargo.toml` that collects violations.
struct CargoTomlReader<'r> {
    text: &'r str,
    allow: &'r [String],
    violations: &'r mut Vec<PolicyViolation>,
}

impl CargoTomlReader<'_> {
    fn report(&mut self, place: Range<usize>, what: impl Into<String>, remedy: &str) {
        let before = &self.text.as_bytes()[..place.start.min(self.text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        self.violations.push(PolicyViolation {
            file: FILE.to_owned(),
            line: (place != (0..0)).then(|| u32::try_from(line).unwrap_or(u32::MAX)),
            what: what.into(),
            remedy: remedy.to_owned(),
        });
    }

    fn package(&mut self, table: &DeTable<'_>, recipe: &mut CrateRecipe) {
        for (key, value) in table {
            let (name, place) = (key.get_ref().as_ref(), value.span());
            match (name, value.get_ref().as_str()) {
                ("name", Some(text)) if is_name(text) => text.clone_into(&mut recipe.name),
                ("name", _) => self.report(
                    place,
                    "`name` must be a letter followed by letters, digits, `_` and `-`",
                    "use a name such as skillhost-ext-rss-reader",
                ),
                ("version", Some(text)) if is_version(text) => {
                    text.clone_into(&mut recipe.version);
                }
                ("version", _) => {
                    self.report(
                        place,
                        "`version` must be three numbers",
                        "use a version such as \"0.1.0\"",
                    );
                }
                ("edition", Some(text)) if EDITIONS.contains(&text) => {
                    text.clone_into(&mut recipe.edition);
                }
                ("edition", _) => {
                    self.report(place, "`edition` must be \"2021\" or \"2024\"", "write \"2024\"");
                }
                ("build", _) if value.get_ref().as_bool() == Some(false) => {}
                ("build" | "links", _) => self.report(
                    key.span(),
                    format!("`{name}` requires a build script, which is not allowed"),
                    "do the work of the script at start or by hand",
                ),
                ("workspace", _) => self.report(
                    key.span(),
                    "`workspace` is not allowed in [package]",
                    "remove it; an extension is a separate crate",
                ),
                (other, _) if PACKAGE.contains(&other) => {}
                (other, _) => self.report(
                    key.span(),
                    format!("`{}` is not allowed in [package]", truncate_name(other)),
                    "use only name, version, edition, publish, description, license and authors",
                ),
            }
        }
    }

    fn library(&mut self, lib: Option<&DeValue<'_>>, entrypoint: &str, recipe: &mut CrateRecipe) {
        let Some(DeValue::Table(table)) = lib else { return };
        // Cargo's own default for the name of a library.
        recipe.library = recipe.name.replace('-', "_");
        let mut place = 0..0;
        let mut is_cdylib = false;
        for (key, value) in table {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("name", DeValue::String(text)) if is_name(text) && !text.contains('-') => {
                    text.as_ref().clone_into(&mut recipe.library);
                    place = value.span();
                }
                ("crate-type" | "crate_type", DeValue::Array(types)) => {
                    let mut types = types.iter().map(|one| one.get_ref().as_str());
                    is_cdylib = types.next() == Some(Some("cdylib")) && types.next().is_none();
                    if !is_cdylib {
                        self.report(
                            value.span(),
                            "`crate-type` must be [\"cdylib\"] only",
                            "write: crate-type = [\"cdylib\"]",
                        );
                        // Reported already; a second violation below would confuse.
                        is_cdylib = true;
                    }
                }
                ("path", DeValue::String(text)) if text == "src/lib.rs" => {}
                ("path", _) => self.report(
                    value.span(),
                    "`path` must be \"src/lib.rs\"",
                    "put the library's root there",
                ),
                ("proc-macro" | "proc_macro", DeValue::Boolean(false)) => {}
                ("proc-macro" | "proc_macro", _) => self.report(
                    key.span(),
                    "a procedural macro runs inside the compiler and is not allowed",
                    "write a macro_rules! macro, or the code itself",
                ),
                (other, _) => self.report(
                    key.span(),
                    format!("`{}` is not allowed in [lib]", truncate_name(other)),
                    "use only `name` and `crate-type`",
                ),
            }
        }
        if !is_cdylib {
            self.report(0..0, "[lib] requires `crate-type`", "write: crate-type = [\"cdylib\"]");
        }
        if recipe.library != entrypoint {
            self.report(
                place,
                format!(
                    "the library is named `{}`, but the manifest's entrypoint is `{entrypoint}`",
                    recipe.library
                ),
                "give both the same name",
            );
        }
    }

    fn dependencies(&mut self, table: &DeTable<'_>, recipe: &mut CrateRecipe) {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let place = key.span();
            if name == SDK {
                self.sdk(value);
                continue;
            }
            if !self.allow.iter().any(|allowed| allowed == name) || !is_name(name) {
                let what = match foreign_source(value.get_ref()) {
                    Some(kind) => format!("`{}` is a {kind} dependency", truncate_name(name)),
                    None => {
                        format!("`{}` is not in the list of allowed crates", truncate_name(name))
                    }
                };
                let remedy = match self.allow {
                    [] => "use skillhost-sdk and the standard library; an operator may allow more \
                           under build.allow in skillhost.yaml"
                        .to_owned(),
                    names => format!(
                        "use only {}; an operator may allow more under build.allow in \
                         skillhost.yaml",
                        names.join(", ")
                    ),
                };
                self.report(place, what, &remedy);
                continue;
            }
            if let Some(dependency) = self.dependency(name, value) {
                recipe.dependencies.push(dependency);
            }
        }
    }

    /// Checks the dependency on the SDK, whose source the build replaces by that of the
    /// installation.
    fn sdk(&mut self, value: &SpannedValue<'_>) {
        let allowed = |key: &str| ["path", "version"].contains(&key);
        match value.get_ref() {
            DeValue::String(_) => {}
            DeValue::Table(table) if table.keys().all(|key| allowed(key.get_ref())) => {}
            _ => self.report(
                value.span(),
                format!("{SDK} allows only a path or a version"),
                "write: skillhost-sdk = \"*\"",
            ),
        }
    }

    fn dependency(&mut self, name: &str, value: &SpannedValue<'_>) -> Option<AllowedDependency> {
        let mut dependency = AllowedDependency {
            name: name.to_owned(),
            version: String::new(),
            features: Vec::new(),
            default_features: true,
        };
        let mut is_valid = true;
        match value.get_ref() {
            DeValue::String(text) => text.as_ref().clone_into(&mut dependency.version),
            DeValue::Table(table) => {
                for (key, value) in table {
                    match (key.get_ref().as_ref(), value.get_ref()) {
                        ("version", DeValue::String(text)) => {
                            text.as_ref().clone_into(&mut dependency.version);
                        }
                        ("default-features", DeValue::Boolean(on)) => {
                            dependency.default_features = *on;
                        }
                        ("features", DeValue::Array(names)) => {
                            let names = names.iter().filter_map(|one| one.get_ref().as_str());
                            dependency.features = names.map(str::to_owned).collect();
                        }
                        (other, _) => {
                            is_valid = false;
                            self.report(
                                key.span(),
                                format!(
                                    "`{}` is not allowed in a dependency",
                                    truncate_name(other)
                                ),
                                "use only version, features and default-features; allowed crates \
                                 come from crates.io",
                            );
                        }
                    }
                }
            }
            _ => {}
        }
        if is_valid && !is_requirement(&dependency.version) {
            self.report(
                value.span(),
                "a version is required",
                "use one such as \"1\" or \"0.4.2\"",
            );
            is_valid = false;
        }
        is_valid.then_some(dependency)
    }

    fn profiles(&mut self, table: &DeTable<'_>, recipe: &mut CrateRecipe) {
        for (key, value) in table {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("release", DeValue::Table(table)) => recipe.profile = self.profile(table),
                // The build does not use this profile, but its keys must be allowed ones, too.
                ("dev", DeValue::Table(table)) => drop(self.profile(table)),
                (other, _) => self.report(
                    key.span(),
                    format!("[profile.{}] is not allowed", truncate_name(other)),
                    "use only [profile.release]",
                ),
            }
        }
    }

    fn profile(&mut self, table: &DeTable<'_>) -> Vec<(String, String)> {
        let mut kept = Vec::new();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let text = match value.get_ref() {
                DeValue::String(text) => Some(json!(text).to_string()),
                DeValue::Boolean(on) => Some(on.to_string()),
                DeValue::Integer(number) => Some(number.to_string()),
                _ => None,
            };
            match (name, text) {
                ("panic", Some(text)) if text == "\"unwind\"" => {}
                ("panic", _) => self.report(
                    value.span(),
                    "`panic` must be \"unwind\": a panic is caught and becomes an error",
                    "write: panic = \"unwind\"",
                ),
                (name, Some(text)) if PROFILE.contains(&name) => {
                    kept.push((name.to_owned(), text));
                }
                (other, _) => self.report(
                    key.span(),
                    format!("`{}` is not allowed in a profile", truncate_name(other)),
                    "use only keys that affect the compilation of the crate itself",
                ),
            }
        }
        kept
    }
}

/// Returns the kind of a dependency's source if it is not crates.io.
fn foreign_source(value: &DeValue<'_>) -> Option<&'static str> {
    let table = value.as_table()?;
    let has = |name: &str| table.contains_key(name);
    match () {
        () if has("git") => Some("git"),
        () if has("path") => Some("path"),
        () if has("registry") || has("registry-index") => Some("private registry's"),
        () => None,
    }
}

fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
}

fn is_version(text: &str) -> bool {
    text.len() <= MAX_NAME
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b".+-".contains(&b))
}

fn is_requirement(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_NAME
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b".+-^~=<>*, ".contains(&b))
}

/// Truncates and escapes a name, so that no file can forge or flood a message.
fn truncate_name(name: &str) -> String {
    name.chars().take(MAX_NAME).flat_map(char::escape_debug).collect()
}
