//! `skillhost.yaml` and the environment, with the source of every value.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use figment::providers::{Env, Serialized};
use figment::{Figment, Metadata, Profile, Provider};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use skillhost_files::{LinkPolicy, read_limited, read_limited_below};
use skillhost_manifest::Manifest;
use skillhost_policy::{SandboxSettings, deserialize_sandbox, sandbox_schema, serialize_sandbox};

use crate::home::Home;
use crate::similar_names::suggest_similar;

mod build;
mod capabilities;
mod channels;
mod configured;
mod console;
mod error;
mod events;
mod lint;
mod mcp;
mod models;
mod processes;
mod provenance;
mod supervisor;
mod tasks;
mod telemetry;
mod tool_aliases;
mod workspaces;

pub use build::BuildSettings;
use capabilities::CapabilitySettings;
pub use channels::ChannelSettings;
pub use configured::{ConfigOverrides, load_overrides, overrides_path, store_overrides};
use console::ConsoleSettings;
pub use error::SettingsError;
pub use events::EventsSettings;
pub use mcp::{McpCatalog, McpCatalogGlobs, McpCatalogKeyword, McpReviewMode, McpSettings};
pub use models::{
    ModelDefinition, ModelNameError, ModelsSettings, ProviderProtocol, ProviderSettings, TokenPrice,
};
pub use processes::ProcessSettings;
pub use provenance::{SettingProvenance, add_default_rows};
pub use supervisor::SupervisorSettings;
use tasks::TaskStoreSettings;
pub use telemetry::{GenAiConventions, TelemetrySettings};
use tool_aliases::ToolAliases;
pub use workspaces::WorkspaceSettings;

/// Prefix of the variables that override settings: `SKILLHOST_EXTENSIONS__SKILL_REGISTRY__…`.
const ENV_PREFIX: &str = "SKILLHOST_";

/// The largest settings file that is read, in bytes.
const SETTINGS_LIMIT: u64 = 1024 * 1024;

/// The deepest nesting of lists and mappings in a settings file.
const MAX_NESTING: usize = 64;

/// The file with the configuration by agents.
const CONFIGURED: &str = "sandbox/data/kernel/configured.json";

/// The contents of `skillhost.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Ids of shipped extensions that `sandbox/extensions` may shadow.
    pub allow_shadowing: Vec<String>,
    /// The effect of the security manifests of skills on the tool calls of agents.
    #[serde(skip_serializing_if = "CapabilitySettings::is_default")]
    pub capability_modes: CapabilitySettings,
    /// By channel id: the agents that answer there, and limits.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub channels: BTreeMap<String, ChannelSettings>,
    /// The web console.
    #[serde(skip_serializing_if = "ConsoleSettings::is_default")]
    pub console: ConsoleSettings,
    /// Delivery of events.
    pub events: EventsSettings,
    /// By extension id: keys that override the manifest's `config`.
    pub extensions: BTreeMap<String, Map<String, Value>>,
    /// The lint policy of the home: the keys of `skillhost-lint.toml`. Read by `lint`, not by the
    /// kernel.
    #[schemars(schema_with = "lint::lint_schema")]
    pub lint: Map<String, Value>,
    /// Visible skills and permissions of clients of the MCP server.
    pub mcp: McpSettings,
    /// The models that agents run on.
    pub models: ModelsSettings,
    /// Limits of process extensions.
    pub processes: ProcessSettings,
    /// Permissions and limits of foreign code: scripts and handler programs of skills, process
    /// extensions, builds and commands. `off` contains nothing.
    #[serde(serialize_with = "serialize_sandbox", deserialize_with = "deserialize_sandbox")]
    #[schemars(schema_with = "sandbox_schema")]
    pub sandbox: SandboxSettings,
    /// Restarts of a supervised kernel after a crash.
    pub supervisor: SupervisorSettings,
    /// The store of background tasks and questions.
    #[serde(skip_serializing_if = "TaskStoreSettings::is_default")]
    pub tasks: TaskStoreSettings,
    /// The export of runs and calls of tools as OpenTelemetry traces.
    #[serde(skip_serializing_if = "TelemetrySettings::is_default")]
    pub telemetry: TelemetrySettings,
    /// Further names of tools, by which skills require them.
    #[serde(skip_serializing_if = "ToolAliases::is_empty")]
    pub tool_aliases: ToolAliases,
    /// Builds of extensions in `sandbox/extensions`.
    pub build: BuildSettings,
    /// Directories outside of the home that agents may work in.
    pub workspaces: Vec<WorkspaceSettings>,
    /// By extension id: keys that agents have configured; they override the manifest's `config`,
    /// and `extensions` overrides them. Kept in a file of the kernel, not in the settings.
    #[serde(skip)]
    #[schemars(skip)]
    pub configured: BTreeMap<String, Map<String, Value>>,
}

/// The settings in force.
#[derive(Debug, Clone)]
pub struct LoadedSettings {
    /// The values.
    pub settings: Settings,
    figment: Figment,
    /// The settings file, and its values.
    written: (PathBuf, Value),
}

/// The values of a settings file as a figment provider that names the file.
struct SettingsFile<'a> {
    path: &'a Path,
    values: Settings,
}

impl Provider for SettingsFile<'_> {
    fn metadata(&self) -> Metadata {
        Metadata::from("settings file", self.path)
    }

    fn data(&self) -> Result<figment::value::Map<Profile, figment::value::Dict>, figment::Error> {
        Serialized::defaults(&self.values).data()
    }
}

impl Settings {
    /// Reads a settings file, the environment that overrides it, and the configuration by agents.
    ///
    /// # Errors
    /// [`SettingsError`] with line and column. A missing file means defaults.
    pub fn load(path: &Path) -> Result<LoadedSettings, SettingsError> {
        let values = read_values(path, LinkPolicy::Follow)?;
        let configured = match path.parent() {
            Some(home) => load_overrides(&overrides_path(home))?,
            None => BTreeMap::new(),
        };
        Self::with_environment(path, values, configured)
    }

    /// Reads the settings of a home as [`Settings::load`] does, but follows no links in an
    /// untrusted home.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn load_home(home: &Home) -> Result<LoadedSettings, SettingsError> {
        let path = home.settings_file();
        if !home.is_untrusted() {
            return Self::load(&path);
        }
        let values = read_values(&path, LinkPolicy::Refuse)?;
        let file = overrides_path(home.root());
        let bytes = read_limited_below(home.root(), CONFIGURED, SETTINGS_LIMIT);
        let configured = configured::decode(&file, bytes)?;
        Self::with_environment(&path, values, configured)
    }

    /// Merges the environment over the values of a settings file.
    fn with_environment(
        path: &Path,
        (values, written): (Self, Value),
        configured: configured::ConfigOverrides,
    ) -> Result<LoadedSettings, SettingsError> {
        // Only names of settings: SKILLHOST_HOME and SKILLHOST_LOG share the prefix.
        let environment = Env::prefixed(ENV_PREFIX)
            .filter(|key| {
                key == "allow_shadowing"
                    || [
                        "build__",
                        "events__",
                        "extensions__",
                        "mcp__",
                        "models__",
                        "processes__",
                        "supervisor__",
                        "telemetry__",
                    ]
                    .iter()
                    .any(|prefix| key.starts_with(prefix))
            })
            .split("__");
        let figment = Figment::from(SettingsFile { path, values }).merge(environment);
        let settings: Self = figment
            .extract()
            .map_err(|error| SettingsError::Environment { message: error.to_string() })?;
        // Not a part of the figment: the environment must not set it.
        let settings = Self { configured, ..settings };
        Ok(LoadedSettings { settings, figment, written: (path.to_owned(), written) })
    }

    /// Parses the text of a settings file; `path` appears in errors.
    ///
    /// # Errors
    /// [`SettingsError::Invalid`] with line and column.
    pub fn parse(path: &Path, text: &str) -> Result<Self, SettingsError> {
        // The parser takes quadratic time for deep nesting.
        if let Some(place) = skillhost_manifest::find_excessive_nesting(text, MAX_NESTING) {
            return Err(SettingsError::Invalid {
                path: path.to_owned(),
                line: place.line as usize,
                column: place.column as usize,
                message: format!("lists and mappings may be nested at most {MAX_NESTING} deep"),
                nearest: None,
            });
        }
        // An empty file, or one with only comments, contains no values.
        let parsed: Result<Option<Self>, _> = serde_yaml::from_str(text);
        parsed.map(Option::unwrap_or_default).map_err(|error| {
            let (line, column) =
                error.location().map_or((1, 1), |place| (place.line(), place.column()));
            let full = error.to_string();
            let mut message = full.split(" at line ").next().unwrap_or(&full).to_owned();
            // The parser's message for it is about tokens.
            if text.lines().nth(line.saturating_sub(1)).is_some_and(|line| line.starts_with('\t')) {
                "tab in the indentation; YAML allows only spaces there".clone_into(&mut message);
            }
            let nearest = suggest_key(&message);
            SettingsError::Invalid { path: path.to_owned(), line, column, message, nearest }
        })
    }

    /// Returns the JSON Schema of `skillhost.yaml`.
    #[must_use]
    pub fn schema() -> Value {
        let mut schema = schemars::schema_for!(Self).to_value();
        // The text must not depend on the order in which this build's parser keeps fields.
        schema.sort_all_objects();
        schema
    }

    /// Returns the configuration of an extension: the manifest's, overridden by the configuration
    /// by agents, overridden by the settings.
    #[must_use]
    pub fn extension_config(&self, manifest: &Manifest) -> Value {
        let mut config = manifest.config.as_object().cloned().unwrap_or_default();
        for layer in [&self.configured, &self.extensions] {
            if let Some(overrides) = layer.get(manifest.id.as_str()) {
                config.extend(overrides.clone());
            }
        }
        Value::Object(config)
    }
}

/// Reads the values of a settings file, and which of them it contains; a missing file has defaults.
fn read_values(path: &Path, links: LinkPolicy) -> Result<(Settings, Value), SettingsError> {
    match read_limited(path, SETTINGS_LIMIT, links) {
        Ok(bytes) => {
            let text = decode_text(path, bytes)?;
            let values = Settings::parse(path, &text)?;
            // Parsed again without defaults, to distinguish the written values.
            Ok((values, serde_yaml::from_str(&text).unwrap_or_default()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Default::default()),
        Err(source) => Err(SettingsError::Io { path: path.to_owned(), source }),
    }
}

/// Returns the most similar valid key for the parser's message about an unknown key, which lists
/// the valid ones.
fn suggest_key(message: &str) -> Option<String> {
    let quoted = |text: &'_ str| -> Vec<String> {
        text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let (_, keys) = message.split_once("unknown field ")?;
    let (unknown, known) = keys.split_once(", expected ")?;
    let (unknown, known) = (quoted(unknown), quoted(known));
    suggest_similar(unknown.first()?, known.iter().map(String::as_str)).into_iter().next()
}

/// Returns the text of a settings file; the error for invalid UTF-8 has line and column.
fn decode_text(path: &Path, bytes: Vec<u8>) -> Result<String, SettingsError> {
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let start = good.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        SettingsError::Invalid {
            path: path.to_owned(),
            line: good.iter().filter(|byte| **byte == b'\n').count() + 1,
            column: good.len() - start + 1,
            message: "not UTF-8 text".to_owned(),
            nearest: None,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::home::HomeSource;

    fn load(text: &str) -> Result<LoadedSettings, SettingsError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("skillhost.yaml");
        fs::write(&path, text).unwrap();
        Settings::load(&path)
    }

    #[test]
    fn settings_override_manifest_config_keys() {
        let loaded = load("extensions: {echo: {greeting: hi}}").unwrap();
        let manifest = skillhost_manifest::parse_manifest(
            "id: echo\nname: Echo\nentrypoint: echo\nconfig: {greeting: hello, other: 1}\n",
        )
        .unwrap();
        let config = loaded.settings.extension_config(&manifest);
        assert_eq!(config, serde_json::json!({"greeting": "hi", "other": 1}));
        let file = Path::new("manifests/echo/manifest.yaml");
        let rows = loaded.provenance(&[(&manifest, file)]);
        let keys: Vec<_> = rows.iter().map(|row| (&*row.key, row.value.to_string())).collect();
        let expected = [
            ("allow_shadowing", "[]".to_owned()),
            ("build.allow", "[]".to_owned()),
            ("build.memory_limit_mib", "4096".to_owned()),
            ("build.time_limit_ms", "600000".to_owned()),
            ("extensions.echo.greeting", "\"hi\"".to_owned()),
            ("extensions.echo.other", "1".to_owned()),
            ("mcp.catalog", "\"all\"".to_owned()),
            ("mcp.consent", "\"off\"".to_owned()),
            ("mcp.review", "\"off\"".to_owned()),
            ("models.default", "\"script/demo\"".to_owned()),
            ("processes.memory_limit_mib", "1024".to_owned()),
            ("sandbox.unsandboxed", "[]".to_owned()),
            ("supervisor.crashes", "5".to_owned()),
            ("supervisor.delay_ms", "1000".to_owned()),
            ("supervisor.silence_ms", "30000".to_owned()),
            ("supervisor.within_ms", "300000".to_owned()),
            ("workspaces", "[]".to_owned()),
        ];
        assert_eq!(keys, expected);
        let sources: BTreeMap<_, _> = rows.iter().map(|row| (&*row.key, &*row.source)).collect();
        assert_eq!(sources["extensions.echo.other"], "manifests/echo/manifest.yaml");
        assert!(sources["extensions.echo.greeting"].ends_with("/skillhost.yaml"), "{sources:?}");
        let defaults = sources.values().filter(|source| **source == "default");
        assert_eq!(defaults.count(), rows.len() - 2);
    }

    #[test]
    fn written_defaults_name_the_file() {
        let text =
            "mcp: {review: \"off\"}\nmodels: {agents: {a.b: x/y-1.5}, known: {x/y-1.5: {}}}\n";
        let rows = load(text).unwrap().provenance(&[]);
        let written: Vec<_> =
            rows.iter().filter(|row| row.source != "default").map(|row| &*row.key).collect();
        assert_eq!(written, ["mcp.review", "models.agents.a.b", "models.known.x/y-1.5"]);
    }

    #[test]
    fn deep_nesting_is_rejected() {
        for deep in ["[", "{", "- ", "a: [", "\t[", "\"a\" 'b': {"] {
            let text = deep.repeat(50_000);
            let started = std::time::Instant::now();
            let error = load(&text).unwrap_err();
            assert!(matches!(error, SettingsError::Invalid { .. }), "{deep:?}: {error}");
            // The parser would take seconds.
            assert!(started.elapsed() < std::time::Duration::from_secs(1), "{deep:?}");
        }
        let error = load(&format!("mcp: {}", "[".repeat(100))).unwrap_err();
        assert!(
            error.to_string().ends_with(":1:69: lists and mappings may be nested at most 64 deep"),
            "{error}"
        );
    }

    #[test]
    fn untrusted_settings_follow_no_link() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("home/sandbox")).unwrap();
        let file = dir.path().join("elsewhere.yaml");
        fs::write(&file, "allow_shadowing: [a]\n").unwrap();
        let link = dir.path().join("home/skillhost.yaml");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let home = Home::open(&dir.path().join("home"), HomeSource::Argument).unwrap();
        assert_eq!(Settings::load_home(&home).unwrap().settings.allow_shadowing, ["a"]);
        let home = home.into_untrusted();
        let error = Settings::load_home(&home).unwrap_err();
        assert!(error.to_string().ends_with("a symbolic link, not a regular file"), "{error}");
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        assert!(matches!(Settings::load_home(&home), Err(SettingsError::Io { .. })));
        assert!(matches!(Settings::load(&link), Err(SettingsError::Io { .. })));
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(dir.path(), home.root().join("sandbox/data")).unwrap();
        let error = Settings::load_home(&home).unwrap_err();
        assert!(error.to_string().contains("configured.json: a symbolic link"), "{error}");
    }

    #[test]
    fn missing_file_has_defaults() {
        assert_eq!(load("").unwrap().settings, Settings::default());
        assert_eq!(load("# nothing\n").unwrap().settings, Settings::default());
        let missing = Settings::load(Path::new("/nonexistent/skillhost.yaml")).unwrap();
        assert_eq!(missing.settings, Settings::default());
    }

    #[test]
    fn invalid_entry_names_its_position() {
        let error = load("\nextension: {}\n").unwrap_err();
        assert_eq!(error.hint(), "did you mean `extensions`?");
        assert!(matches!(error, SettingsError::Invalid { line: 2, column: 1, .. }), "{error}");
        let text = "models:\n  providers:\n    lab: {wire: openai, base_ur: x}\n";
        let error = load(text).unwrap_err();
        assert_eq!(error.hint(), "did you mean `base_url`?");
        assert!(matches!(error, SettingsError::Invalid { line: 3, .. }), "{error}");
        let error = load("extensions: [1]").unwrap_err();
        assert!(matches!(error, SettingsError::Invalid { line: 1, .. }), "{error}");
    }
}
