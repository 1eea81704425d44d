//! The tool by which an agent changes an extension's configuration.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use skillhost_core::{KernelError, NamedObject, spawn_blocking};
use skillhost_home::{
    ConfigOverrides, discover_manifests, load_overrides, overrides_path, store_overrides,
    suggest_similar,
};
use skillhost_payload::{ApprovalPolicy, CallError, ErrorKind, ToolSpec};

use super::session::RunSession;
use super::tool_spec::new_spec;
use crate::agent_runtime::AgentRuntime;

pub(super) const NAME: &str = "configure_extension";

/// The size limit of one extension's configuration, in bytes.
const MAX_CONFIG_BYTES: usize = 64 * 1024;

pub(super) fn tool_spec() -> ToolSpec {
    ToolSpec {
        needs_approval: ApprovalPolicy::Always,
        ..new_spec(
            NAME,
            "Sets keys of an extension's `config` and reloads it with them. Asks for approval \
             first. Keys of the operator's settings cannot be changed. When the extension rejects \
             the values, the configuration is unchanged. Never put a secret here: use \
             request_secure_input.",
            json!({
                "type": "object",
                "properties": {
                    "id": {
                        "type": "string", "minLength": 1,
                        "description": "The extension."
                    },
                    "values": {
                        "type": "object", "minProperties": 1,
                        "description": "Keys with their new values; null restores the value of \
                                        the manifest."
                    }
                },
                "required": ["id", "values"],
                "additionalProperties": false
            }),
        )
    }
}

#[derive(Deserialize)]
pub(super) struct ConfigureExtensionArgs {
    id: String,
    values: Map<String, Value>,
}

impl AgentRuntime {
    /// Stores the configuration and reloads the extension; restores the earlier one if the reload
    /// fails.
    pub(super) async fn configure_extension(
        &self,
        session: &RunSession,
        call_id: u64,
        ConfigureExtensionArgs { id, values }: ConfigureExtensionArgs,
    ) -> Result<String, CallError> {
        // Two calls at once would each store a file without the other's change.
        let _alone = {
            let _waiting = session.budget.start_wait(call_id);
            self.config_lock().lock().await
        };
        self.check_configurable(&id, &values)?;
        let path = overrides_path(self.extensions().home().root());
        let before = load_overrides(&path).map_err(|error| {
            CallError::new(ErrorKind::Io, error.to_string()).with_hint(error.hint())
        })?;
        let mut after = before.clone();
        let layer = after.entry(id.clone()).or_default();
        for (key, value) in values {
            match value {
                Value::Null => drop(layer.remove(&key)),
                value => drop(layer.insert(key, value)),
            }
        }
        // Checked before the write: a configuration over the limit never reaches the disk.
        let size = serde_json::to_string(&layer).map_or(usize::MAX, |text| text.len());
        if size > MAX_CONFIG_BYTES {
            let message =
                format!("configuration of {size} bytes exceeds the limit of {MAX_CONFIG_BYTES}");
            return Err(CallError::new(ErrorKind::TooLarge, message));
        }
        if layer.is_empty() {
            after.remove(&id);
        }
        let unwritable = |error: std::io::Error| {
            CallError::new(ErrorKind::Io, format!("{}: {error}", path.display()))
        };
        let store = |values: ConfigOverrides| {
            let path = path.clone();
            spawn_blocking(move || store_overrides(&path, &values))
        };
        store(after).await?.map_err(unwritable)?;
        if !self.extensions().state().instances.contains_key(id.as_str()) {
            return Ok(format!("`{id}` is configured. It is not loaded; restart the kernel."));
        }
        match self.reload(&id).await {
            Ok(_) => Ok(format!("`{id}` was reloaded with the new configuration.")),
            Err(error) => {
                // The next start would fail on the same values.
                store(before).await?.map_err(unwritable)?;
                Err(rejected_config_error(error))
            }
        }
    }

    /// Checks that the extension exists and that the operator's settings set none of the keys.
    fn check_configurable(&self, id: &str, values: &Map<String, Value>) -> Result<(), CallError> {
        let settings = self.extensions().settings();
        let (home, installation) = (self.extensions().home(), self.extensions().installation());
        let found = discover_manifests(home, installation, &settings.allow_shadowing);
        let known = found.manifests.get(id).or_else(|| found.unapproved.get(id));
        let Some(manifest) = known.map(|found| &found.manifest) else {
            let similar = suggest_similar(id, found.manifests.keys().map(|id| id.as_str()));
            let (what, id) = (NamedObject::Extension, skillhost_core::mistakes::truncate(id, 100));
            return Err(KernelError::NotFound { what, id, similar }.into());
        };
        if manifest.agent().is_some() {
            let message = format!("`{id}` is an agent and has no configuration");
            return Err(CallError::new(ErrorKind::InvalidArgument, message)
                .with_hint("change its manifest"));
        }
        if self.extensions().settings_file().is_none() {
            let message = "kernel settings were not loaded from a file";
            return Err(CallError::new(ErrorKind::Unavailable, message));
        }
        // Stored values would have no effect: the operator's settings are read last.
        let operators = settings.extensions.get(id);
        let fixed = values.keys().find(|key| operators.is_some_and(|own| own.contains_key(*key)));
        if let Some(key) = fixed {
            let message = format!(
                "`{key}` of `{id}` is set in the operator's settings, which take precedence"
            );
            return Err(CallError::new(ErrorKind::Conflict, message)
                .with_hint("ask the operator to change it in skillhost.yaml"));
        }
        Ok(())
    }
}

fn rejected_config_error(error: KernelError) -> CallError {
    let CallError { kind, message, hint } = CallError::from(error);
    let message = format!("{message}\nThe configuration is unchanged.");
    CallError { kind, message, hint }
}
