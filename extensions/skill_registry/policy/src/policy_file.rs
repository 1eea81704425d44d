//! The keys of a policy.

use std::cell::Cell;

use skill_rules::{Profile, RuleLevel};
use yaml_tree::Span;

use crate::path_patterns::PathPatterns;
use crate::policy::{IgnoreEntry, LintPolicy};
use crate::policy_error::PolicyError;
use crate::policy_tree::{
    NodeContent, PolicyField, PolicyNode, PolicySyntax, parse_settings, parse_toml,
};
use crate::selection::resolve_rules;

/// The limit on the entries of a list, which bounds the work per skill.
const MAX_ENTRIES: usize = 1_000;

const KEYS: [&str; 5] = ["profile", "allowed-fields", "severity", "paths", "ignore"];
const PATH_KEYS: [&str; 2] = ["include", "exclude"];
const IGNORE_KEYS: [&str; 3] = ["rules", "paths", "reason"];
const LEVELS: [(&str, RuleLevel); 4] = [
    ("off", RuleLevel::Off),
    ("note", RuleLevel::Note),
    ("warning", RuleLevel::Warning),
    ("error", RuleLevel::Error),
];

/// Parses a policy in a file of its own. The file and its directory are set by the caller.
///
/// # Errors
/// The text is not TOML, or has unknown keys or rules or values of a wrong type: every error that was
/// found, in the order of the file.
pub(crate) fn parse_policy(text: &str) -> Result<LintPolicy, Vec<PolicyError>> {
    // After a syntax error, keys may be missing that the file has.
    read_tree(&parse_toml(text)?, PolicySyntax::Toml)
}

/// Parses the policy in the settings of a home as [`parse_policy`] does; `None` if they have none.
///
/// # Errors
/// As [`parse_policy`], for YAML.
pub(crate) fn parse_settings_policy(text: &str) -> Result<Option<LintPolicy>, Vec<PolicyError>> {
    let Some(tree) = parse_settings(text)? else { return Ok(None) };
    read_tree(&tree, PolicySyntax::Yaml).map(Some)
}

fn read_tree(tree: &PolicyNode, syntax: PolicySyntax) -> Result<LintPolicy, Vec<PolicyError>> {
    let mut reader = PolicyReader { syntax, errors: Vec::new() };
    let policy = match reader.read_table(tree, "lint") {
        Some(fields) => reader.read_policy(fields),
        None => LintPolicy::default(),
    };
    if reader.errors.is_empty() {
        return Ok(policy);
    }
    reader.errors.sort_by_key(|error| (error.line, error.column));
    Err(reader.errors)
}

/// Returns the errors in the text of a policy, in the order of the file.
#[must_use]
pub fn check_policy(text: &str) -> Vec<PolicyError> {
    parse_policy(text).err().unwrap_or_default()
}

/// Returns the errors of the policy in the settings of a home, in the order of the file.
#[must_use]
pub fn check_settings_policy(text: &str) -> Vec<PolicyError> {
    parse_settings_policy(text).err().unwrap_or_default()
}

struct PolicyReader {
    syntax: PolicySyntax,
    errors: Vec<PolicyError>,
}

impl PolicyReader {
    fn read_policy(&mut self, fields: &[PolicyField]) -> LintPolicy {
        let mut policy = LintPolicy::default();
        self.check_keys(fields, &KEYS, "");
        for PolicyField { name, value, .. } in fields {
            match &**name {
                "profile" => policy.profile = self.read_profile(value),
                "allowed-fields" => {
                    let fields = self.read_texts(value, "allowed-fields");
                    policy.allowed_fields = fields.into_iter().map(|(name, _)| name).collect();
                }
                "severity" => policy.levels = self.read_levels(value),
                "paths" => {
                    if let Some(fields) = self.read_table(value, "paths") {
                        self.check_keys(fields, &PATH_KEYS, "paths.");
                        policy.include = self.read_patterns(fields, "include", "paths.include");
                        policy.exclude = self.read_patterns(fields, "exclude", "paths.exclude");
                    }
                }
                "ignore" => policy.ignores = self.read_ignores(value),
                _ => {}
            }
        }
        policy
    }

    fn read_profile(&mut self, value: &PolicyNode) -> Option<Profile> {
        let name = self.read_text(value, "profile")?;
        let found = Profile::ALL.into_iter().find(|profile| profile.as_str() == name);
        if found.is_none() {
            let names = Profile::ALL.map(Profile::as_str);
            let help = nearest_name(&name, &names)
                .unwrap_or_else(|| format!("write one of `{}`", names.join("`, `")));
            self.report(value.place, format!("profile `{name}` not found"), Some(help));
        }
        found
    }

    fn read_levels(&mut self, value: &PolicyNode) -> Vec<(&'static str, RuleLevel)> {
        let mut levels = Vec::new();
        let Some(fields) = self.read_table(value, "severity") else { return levels };
        for field in fields {
            // `name.format = "off"` without quotes is a table of `name` in TOML.
            for (name, place, value) in flatten_keys(field) {
                let rules = self.read_rule(&name, place);
                let Some(word) = self.read_text(value, &format!("severity.{name}")) else {
                    continue;
                };
                match LEVELS.iter().find(|(level, _)| *level == word) {
                    Some((_, level)) => levels.extend(rules.into_iter().map(|id| (id, *level))),
                    None => {
                        let names = LEVELS.map(|(level, _)| level);
                        let help = format!("write one of `{}`", names.join("`, `"));
                        let help = nearest_name(&word, &names).unwrap_or(help);
                        let message = format!("`{word}` is not a severity");
                        self.report(value.place, message, Some(help));
                    }
                }
            }
        }
        levels
    }

    fn read_ignores(&mut self, value: &PolicyNode) -> Vec<IgnoreEntry> {
        let NodeContent::List(list) = &value.content else {
            let expected = match self.syntax {
                PolicySyntax::Toml => "a list of tables: write `[[ignore]]`",
                PolicySyntax::Yaml => "a list of mappings: write `- rules: [RULE]` below it",
            };
            self.report_type(value, "ignore", expected);
            return Vec::new();
        };
        self.check_length(value, list.len());
        list.iter().filter_map(|entry| self.read_ignore(entry)).collect()
    }

    fn read_ignore(&mut self, value: &PolicyNode) -> Option<IgnoreEntry> {
        let fields = self.read_table(value, "ignore")?;
        self.check_keys(fields, &IGNORE_KEYS, "ignore.");
        let mut rules = Vec::new();
        match find_field(fields, "rules") {
            Some(names) => {
                for (name, place) in self.read_texts(names, "ignore.rules") {
                    rules.extend(self.read_rule(&name, place));
                }
            }
            None => {
                let help = match self.syntax {
                    PolicySyntax::Toml => "add `rules = [\"RULE\"]`",
                    PolicySyntax::Yaml => "add `rules: [RULE]`",
                };
                let message = "`ignore` without `rules`".to_owned();
                self.report(value.place, message, Some(help.to_owned()));
            }
        }
        let reason = match find_field(fields, "reason") {
            Some(reason) => self.read_text(reason, "ignore.reason")?,
            None => String::new(),
        };
        if reason.trim().is_empty() {
            let help = match self.syntax {
                PolicySyntax::Toml => "add `reason = \"…\"`: it is part of the reports",
                PolicySyntax::Yaml => "add `reason: …`: it is part of the reports",
            };
            let message = "`ignore` without a reason".to_owned();
            self.report(value.place, message, Some(help.to_owned()));
        }
        let paths = self.read_patterns(fields, "paths", "ignore.paths");
        let Span { line, column } = value.place;
        Some(IgnoreEntry { rules, paths, reason, line, column, used: Cell::new(false) })
    }

    fn read_rule(&mut self, name: &str, place: Span) -> Vec<&'static str> {
        resolve_rules(name).unwrap_or_else(|error| {
            let help = error.similar.first().map(|similar| format!("did you mean `{similar}`?"));
            self.report(place, error.to_string(), help);
            Vec::new()
        })
    }

    fn read_patterns(
        &mut self,
        fields: &[PolicyField],
        key: &str,
        name: &str,
    ) -> Option<PathPatterns> {
        let patterns = self.read_texts(find_field(fields, key)?, name);
        match PathPatterns::new(patterns.iter().map(|(pattern, _)| pattern.as_str())) {
            Ok(compiled) => Some(compiled),
            Err((index, reason)) => {
                let (pattern, place) = patterns.into_iter().nth(index).unwrap_or_default();
                let help = "write a path relative to this file, with `*`, `**` and `?`".to_owned();
                let message = format!("`{pattern}` is not a pattern: {reason}");
                self.report(place, message, Some(help));
                None
            }
        }
    }

    /// Reads a text, or a list of them, with their places.
    fn read_texts(&mut self, value: &PolicyNode, name: &str) -> Vec<(String, Span)> {
        match &value.content {
            NodeContent::Text(text) => vec![(text.clone(), value.place)],
            NodeContent::List(list) => {
                self.check_length(value, list.len());
                let texts = list.iter().take(MAX_ENTRIES);
                texts.filter_map(|item| Some((self.read_text(item, name)?, item.place))).collect()
            }
            NodeContent::Table(_) | NodeContent::Other(_) => {
                self.report_type(value, name, "a list of texts");
                Vec::new()
            }
        }
    }

    fn read_text(&mut self, value: &PolicyNode, name: &str) -> Option<String> {
        match &value.content {
            NodeContent::Text(text) => Some(text.clone()),
            _ => {
                self.report_type(value, name, "a text");
                None
            }
        }
    }

    fn read_table<'v>(&mut self, value: &'v PolicyNode, name: &str) -> Option<&'v [PolicyField]> {
        match &value.content {
            NodeContent::Table(fields) => Some(fields),
            _ => {
                let expected = match self.syntax {
                    PolicySyntax::Toml => "a table",
                    PolicySyntax::Yaml => "a mapping",
                };
                self.report_type(value, name, expected);
                None
            }
        }
    }

    fn check_keys(&mut self, fields: &[PolicyField], known: &[&str], prefix: &str) {
        for PolicyField { name, place, .. } in fields {
            if !known.contains(&name.as_str()) {
                let help = nearest_name(name, known)
                    .unwrap_or_else(|| format!("the keys are `{}`", known.join("`, `")));
                self.report(*place, format!("unknown key `{prefix}{name}`"), Some(help));
            }
        }
    }

    fn check_length(&mut self, value: &PolicyNode, length: usize) {
        if length > MAX_ENTRIES {
            let message = format!("a list has {length} entries, at most {MAX_ENTRIES} are read");
            self.report(value.place, message, None);
        }
    }

    fn report_type(&mut self, value: &PolicyNode, name: &str, expected: &str) {
        let found = value.type_name(self.syntax);
        self.report(value.place, format!("`{name}` is {found} instead of {expected}"), None);
    }

    fn report(&mut self, place: Span, message: String, help: Option<String>) {
        let Span { line, column } = place;
        self.errors.push(PolicyError { line, column, message, help });
    }
}

fn find_field<'v>(fields: &'v [PolicyField], name: &str) -> Option<&'v PolicyNode> {
    fields.iter().find(|field| field.name == name).map(|field| &field.value)
}

/// Returns the values below a key, with the keys between joined by dots.
fn flatten_keys(field: &PolicyField) -> Vec<(String, Span, &PolicyNode)> {
    match &field.value.content {
        // Ids have at most two parts.
        NodeContent::Table(fields) => {
            let inner =
                |below: &'_ PolicyField| (format!("{}.{}", field.name, below.name), below.place);
            fields
                .iter()
                .map(|below| {
                    let (name, place) = inner(below);
                    (name, place, &below.value)
                })
                .collect()
        }
        _ => vec![(field.name.clone(), field.place, &field.value)],
    }
}

fn nearest_name(name: &str, known: &[&str]) -> Option<String> {
    /// The minimum similarity: below it, two names share little.
    const MIN_SIMILARITY: f64 = 0.75;
    let similarity = |other: &&&str| strsim::jaro_winkler(&name.to_lowercase(), other);
    let best = known.iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)))?;
    (similarity(&best) > MIN_SIMILARITY).then(|| format!("did you mean `{best}`?"))
}

#[cfg(test)]
mod tests;
