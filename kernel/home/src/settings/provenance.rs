//! The sources of the settings in force.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use skillhost_manifest::Manifest;

use super::{CONFIGURED, ENV_PREFIX, LoadedSettings};

/// The source of a value that nothing sets.
const DEFAULT: &str = "default";

/// One value and its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingProvenance {
    /// Dotted key.
    pub key: String,
    /// The value.
    pub value: Value,
    /// `default`, the settings file, the variable, the manifest or the configuration by agents.
    pub source: String,
}

impl LoadedSettings {
    /// Lists every value in force with its source: the manifests' `config`, the configuration by
    /// agents, the settings file, a variable, or the default. A mapping is one row if all of it has
    /// one source, else a row for each part. `manifests` are those of the home with their files.
    #[must_use]
    pub fn provenance(&self, manifests: &[(&Manifest, &Path)]) -> Vec<SettingProvenance> {
        let mut rows = Vec::new();
        let shadowing = Value::from(self.settings.allow_shadowing.clone());
        self.add_rows(&["allow_shadowing"], &shadowing, DEFAULT, &mut rows);
        // A value that consists of fields is always valid JSON.
        let json = |settings: Result<Value, serde_json::Error>| settings.unwrap_or_default();
        let workspaces = json(serde_json::to_value(&self.settings.workspaces));
        self.add_rows(&["workspaces"], &workspaces, DEFAULT, &mut rows);
        let groups = [
            ("capability_modes", json(serde_json::to_value(&self.settings.capability_modes))),
            ("tool_aliases", json(serde_json::to_value(&self.settings.tool_aliases))),
            ("build", json(serde_json::to_value(&self.settings.build))),
            ("console", json(serde_json::to_value(&self.settings.console))),
            ("events", json(serde_json::to_value(&self.settings.events))),
            ("lint", Value::Object(self.settings.lint.clone())),
            ("mcp", json(serde_json::to_value(&self.settings.mcp))),
            ("processes", json(serde_json::to_value(&self.settings.processes))),
            ("supervisor", json(serde_json::to_value(self.settings.supervisor))),
            ("telemetry", json(serde_json::to_value(&self.settings.telemetry))),
        ];
        for (group, values) in groups {
            for (key, value) in values.as_object().into_iter().flatten() {
                self.add_rows(&[group, key], value, DEFAULT, &mut rows);
            }
        }
        let sandbox = &self.settings.sandbox;
        if sandbox.is_off {
            self.add_rows(&["sandbox"], &Value::from("off"), DEFAULT, &mut rows);
        }
        for (key, value) in sandbox.rows() {
            self.add_rows(&["sandbox", &key], &value, DEFAULT, &mut rows);
        }
        for (path, value) in self.settings.models.rows() {
            let path: Vec<_> = path.iter().map(String::as_str).collect();
            self.add_rows(&path, &value, DEFAULT, &mut rows);
        }
        let mut extensions: BTreeMap<&str, (Value, Option<&Path>)> = BTreeMap::new();
        for (manifest, path) in manifests {
            let config = self.settings.extension_config(manifest);
            extensions.insert(manifest.id.as_str(), (config, Some(path)));
        }
        for (id, keys) in &self.settings.extensions {
            // Settings of missing extensions are listed, too.
            extensions.entry(id).or_insert_with(|| (Value::Object(keys.clone()), None));
        }
        for (id, (config, path)) in extensions {
            let configured = self.settings.configured.get(id);
            let manifest = path.map(|path| path.display().to_string()).unwrap_or_default();
            for (key, value) in config.as_object().into_iter().flatten() {
                let below = match configured.is_some_and(|keys| keys.contains_key(key)) {
                    true => CONFIGURED,
                    false => &*manifest,
                };
                self.add_rows(&["extensions", id, key], value, below, &mut rows);
            }
        }
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        rows
    }

    /// Adds a row for a value, or for each of its parts if they have several sources. `below` is the
    /// source of what neither the settings file nor a variable sets.
    fn add_rows(
        &self,
        path: &[&str],
        value: &Value,
        below: &str,
        rows: &mut Vec<SettingProvenance>,
    ) {
        let mut parts = Vec::new();
        for (key, value) in value.as_object().into_iter().flatten() {
            self.add_rows(&[path, &[key]].concat(), value, below, &mut parts);
        }
        match parts.split_first() {
            Some((first, others)) if others.iter().any(|part| part.source != first.source) => {
                rows.append(&mut parts);
            }
            first => rows.push(SettingProvenance {
                key: path.join("."),
                value: value.clone(),
                source: match first {
                    Some((part, _)) => part.source.clone(),
                    None => self.source_of(path).unwrap_or_else(|| below.to_owned()),
                },
            }),
        }
    }

    /// Returns the variable or the file that sets a value without parts.
    fn source_of(&self, path: &[&str]) -> Option<String> {
        let metadata = self.figment.find_metadata(&path.join("."));
        // figment names the environment without a source.
        if metadata.is_some_and(|metadata| metadata.source.is_none()) {
            return Some(format!("variable {}", find_variable(path)));
        }
        let (file, written) = &self.written;
        let is_written = path.iter().try_fold(written, |value, key| value.get(key)).is_some();
        is_written.then(|| file.display().to_string())
    }
}

/// Adds a row for each value in force below `key` that no row has: the defaults of the program that
/// reads the settings.
pub fn add_default_rows(key: &str, value: &Value, rows: &mut Vec<SettingProvenance>) {
    if rows.iter().any(|row| row.key == key && !row.value.is_object()) {
        return;
    }
    // The value of a row may be a mapping that lacks some of its keys.
    let whole = rows.iter().find(|row| row.key == key).map(|row| row.value.clone());
    let inner = format!("{key}.");
    let has_rows = whole.is_some() || rows.iter().any(|row| row.key.starts_with(&inner));
    match value.as_object().filter(|fields| !fields.is_empty() && has_rows) {
        Some(fields) => {
            let missing = fields.iter().filter(|(name, _)| {
                whole.as_ref().is_none_or(|whole| whole.get(name.as_str()).is_none())
            });
            for (name, value) in missing {
                add_default_rows(&format!("{key}.{name}"), value, rows);
            }
        }
        None if whole.is_none() => rows.push(SettingProvenance {
            key: key.to_owned(),
            value: value.clone(),
            source: DEFAULT.to_owned(),
        }),
        None => {}
    }
}

/// Returns the name of the variable that sets a value: it may set a mapping around it, and be written
/// in lower case.
fn find_variable(path: &[&str]) -> String {
    let expected =
        |length: usize| format!("{ENV_PREFIX}{}", path[..length].join("__")).to_uppercase();
    let names: Vec<String> =
        std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    let found = (1..=path.len())
        .rev()
        .find_map(|length| names.iter().find(|name| name.eq_ignore_ascii_case(&expected(length))));
    found.cloned().unwrap_or_else(|| expected(path.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Settings;
    use super::*;

    fn rows(text: &str, config: &Value) -> Vec<(String, Value, String)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("skillhost.yaml");
        std::fs::write(&path, text).unwrap();
        let loaded = Settings::load(&path).unwrap();
        let manifest = format!("id: echo\nname: Echo\nentrypoint: echo\nconfig: {config}\n");
        let manifest = skillhost_manifest::parse_manifest(&manifest).unwrap();
        let rows = loaded.provenance(&[(&manifest, Path::new("manifest.yaml"))]);
        let prefix = format!("{}/", dir.path().display());
        let rows = rows.into_iter().filter(|row| row.source != DEFAULT);
        rows.map(|row| (row.key, row.value, row.source.replace(&prefix, ""))).collect()
    }

    fn row(key: &str, value: Value, source: &str) -> (String, Value, String) {
        (key.to_owned(), value, source.to_owned())
    }

    #[test]
    fn mapping_of_one_source_is_one_row() {
        let config = json!({ "review": { "policy": "human", "limit": 3 } });
        let expected = row("extensions.echo.review", config["review"].clone(), "manifest.yaml");
        assert_eq!(rows("", &config), [expected]);
        let text = "extensions: {echo: {review: {policy: auto}}}";
        let expected = row("extensions.echo.review", json!({ "policy": "auto" }), "skillhost.yaml");
        assert_eq!(rows(text, &config), [expected]);
    }

    #[test]
    fn unwritten_parts_keep_their_source() {
        let text = "models: {known: {a/b: {context_window: 8}}}\nmcp: {catalog: {include: [a]}}\n";
        let found = rows(text, &json!({}));
        let expected = [
            row("mcp.catalog.include", json!(["a"]), "skillhost.yaml"),
            row("models.known.a/b", json!({ "context_window": 8 }), "skillhost.yaml"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn lint_policy_has_row_per_key() {
        let text = "lint:\n  profile: spec\n  severity: {name.*: off}\n";
        let expected = [
            row("lint.profile", json!("spec"), "skillhost.yaml"),
            row("lint.severity", json!({ "name.*": "off" }), "skillhost.yaml"),
        ];
        assert_eq!(rows(text, &json!({})), expected);
    }

    fn setting(key: &str, value: Value, source: &str) -> SettingProvenance {
        SettingProvenance { key: key.to_owned(), value, source: source.to_owned() }
    }

    #[test]
    fn missing_defaults_are_added() {
        let mut rows = vec![
            setting("x.list", json!([1]), "file"),
            setting("x.review", json!({ "policy": "human" }), "file"),
            setting("x.split.a", json!(1), "file"),
        ];
        let value = json!({
            "list": [1],
            "review": { "policy": "human", "agent": "a" },
            "split": { "a": 1, "b": 2 },
            "states": {},
        });
        add_default_rows("x", &value, &mut rows);
        let added: Vec<String> = rows[3..]
            .iter()
            .map(|row| format!("{} {} {}", row.key, row.value, row.source))
            .collect();
        let expected =
            ["x.review.agent \"a\" default", "x.split.b 2 default", "x.states {} default"];
        assert_eq!(added, expected);
    }
}
