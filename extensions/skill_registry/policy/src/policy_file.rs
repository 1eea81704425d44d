//! The text of `skillhost-lint.toml`.

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;

use skill_rules::{Profile, RuleLevel};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::path_patterns::PathPatterns;
use crate::policy::{IgnoreEntry, LintPolicy};
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

/// An error in a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct PolicyError {
    /// The line, counted from 1.
    pub line: u32,
    /// The column in characters, counted from 1.
    pub column: u32,
    /// The message: a lower-case fragment without a final period.
    pub message: String,
    /// The suggested correction, if there is one.
    pub help: Option<String>,
}

type TomlValue<'i> = Spanned<DeValue<'i>>;

/// Parses a policy. The file and its directory are set by the caller.
///
/// # Errors
/// The text is not TOML, or has unknown keys or rules or values of a wrong type: every error that was
/// found, in the order of the file.
pub(crate) fn parse_policy(text: &str) -> Result<LintPolicy, Vec<PolicyError>> {
    let mut reader = PolicyReader { text, errors: Vec::new() };
    let (table, failed) = DeTable::parse_recoverable(text);
    for error in failed {
        let at = error.span().unwrap_or_default();
        let message = error.message().replace('\n', ", ");
        reader.report(at, format!("invalid TOML: {message}"), None);
    }
    // After a syntax error, keys may be missing that the file has.
    let policy = if reader.errors.is_empty() {
        reader.read_policy(table.get_ref())
    } else {
        LintPolicy::default()
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

struct PolicyReader<'t> {
    text: &'t str,
    errors: Vec<PolicyError>,
}

impl PolicyReader<'_> {
    fn read_policy(&mut self, table: &DeTable<'_>) -> LintPolicy {
        let mut policy = LintPolicy::default();
        self.check_keys(table, &KEYS, "");
        for (key, value) in table {
            match &**key.get_ref() {
                "profile" => policy.profile = self.read_profile(value),
                "allowed-fields" => {
                    let fields = self.read_texts(value, "allowed-fields");
                    policy.allowed_fields = fields.into_iter().map(|(name, _)| name).collect();
                }
                "severity" => policy.levels = self.read_levels(value),
                "paths" => {
                    if let Some(table) = self.read_table(value, "paths") {
                        self.check_keys(table, &PATH_KEYS, "paths.");
                        policy.include = self.read_patterns(table, "include", "paths.include");
                        policy.exclude = self.read_patterns(table, "exclude", "paths.exclude");
                    }
                }
                "ignore" => policy.ignores = self.read_ignores(value),
                _ => {}
            }
        }
        policy
    }

    fn read_profile(&mut self, value: &TomlValue<'_>) -> Option<Profile> {
        let name = self.read_text(value, "profile")?;
        let found = Profile::ALL.into_iter().find(|profile| profile.as_str() == name);
        if found.is_none() {
            let names = Profile::ALL.map(Profile::as_str);
            let help = nearest_name(&name, &names)
                .unwrap_or_else(|| format!("write one of `{}`", names.join("`, `")));
            self.report(value.span(), format!("profile `{name}` not found"), Some(help));
        }
        found
    }

    fn read_levels(&mut self, value: &TomlValue<'_>) -> Vec<(&'static str, RuleLevel)> {
        let mut levels = Vec::new();
        let Some(table) = self.read_table(value, "severity") else { return levels };
        for (key, value) in table {
            // `name.format = "off"` without quotes is a table of `name` in TOML.
            for (name, at, value) in flatten_keys(key.get_ref(), key.span(), value) {
                let rules = self.read_rule(&name, at);
                let Some(word) = self.read_text(value, &format!("severity.{name}")) else {
                    continue;
                };
                match LEVELS.iter().find(|(level, _)| *level == word) {
                    Some((_, level)) => levels.extend(rules.into_iter().map(|id| (id, *level))),
                    None => {
                        let names = LEVELS.map(|(level, _)| level);
                        let help = format!("write one of `{}`", names.join("`, `"));
                        let help = nearest_name(&word, &names).unwrap_or(help);
                        self.report(
                            value.span(),
                            format!("`{word}` is not a severity"),
                            Some(help),
                        );
                    }
                }
            }
        }
        levels
    }

    fn read_ignores(&mut self, value: &TomlValue<'_>) -> Vec<IgnoreEntry> {
        let DeValue::Array(list) = value.get_ref() else {
            self.report_type(value, "ignore", "a list of tables: write `[[ignore]]`");
            return Vec::new();
        };
        self.check_length(value, list.len());
        list.iter().filter_map(|entry| self.read_ignore(entry)).collect()
    }

    fn read_ignore(&mut self, value: &TomlValue<'_>) -> Option<IgnoreEntry> {
        let table = self.read_table(value, "ignore")?;
        self.check_keys(table, &IGNORE_KEYS, "ignore.");
        let mut rules = Vec::new();
        match table.get("rules") {
            Some(names) => {
                for (name, at) in self.read_texts(names, "ignore.rules") {
                    rules.extend(self.read_rule(&name, at));
                }
            }
            None => {
                let help = "add `rules = [\"RULE\"]`".to_owned();
                self.report(value.span(), "`ignore` without `rules`".to_owned(), Some(help));
            }
        }
        let reason = match table.get("reason") {
            Some(reason) => self.read_text(reason, "ignore.reason")?,
            None => String::new(),
        };
        if reason.trim().is_empty() {
            let help = "add `reason = \"…\"`: it is part of the reports".to_owned();
            self.report(value.span(), "`ignore` without a reason".to_owned(), Some(help));
        }
        let paths = self.read_patterns(table, "paths", "ignore.paths");
        let (line, column) = self.position(value.span().start);
        Some(IgnoreEntry { rules, paths, reason, line, column, used: Cell::new(false) })
    }

    fn read_rule(&mut self, name: &str, at: Range<usize>) -> Vec<&'static str> {
        resolve_rules(name).unwrap_or_else(|error| {
            let help = error.similar.first().map(|similar| format!("did you mean `{similar}`?"));
            self.report(at, error.to_string(), help);
            Vec::new()
        })
    }

    fn read_patterns(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        name: &str,
    ) -> Option<PathPatterns> {
        let patterns = self.read_texts(table.get(key)?, name);
        match PathPatterns::new(patterns.iter().map(|(pattern, _)| pattern.as_str())) {
            Ok(compiled) => Some(compiled),
            Err((index, reason)) => {
                let (pattern, at) = patterns.into_iter().nth(index).unwrap_or_default();
                let help = "write a path relative to this file, with `*`, `**` and `?`".to_owned();
                self.report(at, format!("`{pattern}` is not a pattern: {reason}"), Some(help));
                None
            }
        }
    }

    /// Reads a text, or a list of them, with their positions.
    fn read_texts(&mut self, value: &TomlValue<'_>, name: &str) -> Vec<(String, Range<usize>)> {
        match value.get_ref() {
            DeValue::String(text) => vec![(text.to_string(), value.span())],
            DeValue::Array(list) => {
                self.check_length(value, list.len());
                let texts = list.iter().take(MAX_ENTRIES);
                texts.filter_map(|item| Some((self.read_text(item, name)?, item.span()))).collect()
            }
            _ => {
                self.report_type(value, name, "a list of texts");
                Vec::new()
            }
        }
    }

    fn read_text(&mut self, value: &TomlValue<'_>, name: &str) -> Option<String> {
        let text = value.get_ref().as_str().map(str::to_owned);
        if text.is_none() {
            self.report_type(value, name, "a text");
        }
        text
    }

    fn read_table<'v, 'i>(
        &mut self,
        value: &'v TomlValue<'i>,
        name: &str,
    ) -> Option<&'v DeTable<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.report_type(value, name, "a table");
        }
        table
    }

    fn check_keys(&mut self, table: &DeTable<'_>, known: &[&str], prefix: &str) {
        for key in table.keys().filter(|key| !known.contains(&&**key.get_ref())) {
            let name = key.get_ref();
            let help = nearest_name(name, known)
                .unwrap_or_else(|| format!("the keys are `{}`", known.join("`, `")));
            self.report(key.span(), format!("unknown key `{prefix}{name}`"), Some(help));
        }
    }

    fn check_length(&mut self, value: &TomlValue<'_>, length: usize) {
        if length > MAX_ENTRIES {
            let message = format!("a list has {length} entries, at most {MAX_ENTRIES} are read");
            self.report(value.span(), message, None);
        }
    }

    fn report_type(&mut self, value: &TomlValue<'_>, name: &str, expected: &str) {
        let found = value.get_ref().type_str();
        self.report(value.span(), format!("`{name}` is {found} instead of {expected}"), None);
    }

    fn report(&mut self, at: Range<usize>, message: String, help: Option<String>) {
        let (line, column) = self.position(at.start);
        self.errors.push(PolicyError { line, column, message, help });
    }

    /// Returns the line and column of an offset.
    fn position(&self, offset: usize) -> (u32, u32) {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        (number(line), number(before[start..].chars().count() + 1))
    }
}

/// Returns the values below a key, with the keys between joined by dots.
fn flatten_keys<'v, 'i>(
    key: &str,
    at: Range<usize>,
    value: &'v TomlValue<'i>,
) -> Vec<(Cow<'v, str>, Range<usize>, &'v TomlValue<'i>)> {
    match value.get_ref() {
        // Ids have at most two parts.
        DeValue::Table(table) => {
            let inner = |(name, value): (&Spanned<Cow<'i, str>>, &'v TomlValue<'i>)| {
                (Cow::from(format!("{key}.{}", name.get_ref())), name.span(), value)
            };
            table.iter().map(inner).collect()
        }
        _ => vec![(Cow::from(key.to_owned()), at, value)],
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
