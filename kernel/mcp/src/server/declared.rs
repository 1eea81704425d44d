//! The tools as they are declared to clients.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{MetaObject, Tool, ToolAnnotations};
use serde_json::{Map, Value};
use skillhost_payload::{CallEffect, TaskSupport, ToolSpec};

use crate::backend::{Backend, BackendError, ChangeCounter, ClientSession};

/// A cache of the exported tools by name, with the backend state to which it belongs.
#[derive(Default)]
pub(super) struct KnownTools(Mutex<Option<(ChangeCounter, ToolsByName)>>);

/// The exported tools by name.
type ToolsByName = Arc<BTreeMap<String, Arc<KnownTool>>>;

/// An exported tool.
pub(super) struct KnownTool {
    /// Its declaration to clients.
    pub(super) tool: Tool,
    /// Whether its calls become tasks.
    pub(super) task: TaskSupport,
}

impl KnownTool {
    /// Returns whether the tool declares an output schema.
    pub(super) fn declares_output(&self) -> bool {
        self.tool.output_schema.is_some()
    }
}

/// The key in the `_meta` of a tool for its support of tasks.
const TASK: &str = "skillhost/task";

impl KnownTools {
    /// Returns the exported tools, from the cache until the backend changes.
    pub(super) async fn load(
        &self,
        backend: &dyn Backend,
        client: &ClientSession,
        now: ChangeCounter,
    ) -> Result<ToolsByName, BackendError> {
        let Self(cache) = self;
        let known = cache.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, tools)) = known.filter(|(of, _)| *of == now) {
            return Ok(tools);
        }
        let specs = backend.tools(client).await?;
        let known = |spec: &ToolSpec| Arc::new(KnownTool { tool: to_tool(spec), task: spec.task });
        let tools = specs.iter().map(|spec| (spec.name.clone(), known(spec)));
        let tools: ToolsByName = Arc::new(tools.collect());
        let cache = &mut *cache.lock().unwrap_or_else(PoisonError::into_inner);
        *cache = Some((now, Arc::clone(&tools)));
        Ok(tools)
    }

    /// Returns an exported tool as of the last refresh, without waiting for the backend.
    pub(super) fn find(&self, name: &str) -> Option<Tool> {
        let Self(cache) = self;
        let cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.as_ref().and_then(|(_, tools)| tools.get(name).map(|known| known.tool.clone()))
    }
}

/// Returns the declared output schema of a tool, if its type is `object` as the protocol requires.
fn declared_output_schema(spec: &ToolSpec) -> Option<&Map<String, Value>> {
    let schema = spec.output_schema.as_ref()?.as_object()?;
    (schema.get("type")? == "object").then_some(schema)
}

/// Converts a specification to the declaration of a tool.
pub(super) fn to_tool(spec: &ToolSpec) -> Tool {
    let object = |value: &Value| Arc::new(value.as_object().cloned().unwrap_or_default());
    let annotations = ToolAnnotations::new()
        .read_only(spec.read_only)
        .destructive(spec.destructive)
        // Tool specifications have no such field, and no tool of the kernel reaches the network.
        .open_world(false);
    // A client has no key for a `keyed` tool, so its repeated call may have another effect. For a
    // tool without side effects the hint has no meaning.
    let annotations = match spec.call_effect() {
        CallEffect::Read if !spec.read_only => annotations.idempotent(true),
        CallEffect::Read | CallEffect::Keyed | CallEffect::Once => annotations,
    };
    let tool = Tool::new(spec.name.clone(), spec.description.clone(), object(&spec.input_schema))
        .with_annotations(annotations);
    let tool = match spec.task {
        TaskSupport::Never => tool,
        // The protocol lets the server decide for each call, so a tool does not declare it.
        support => {
            let mut meta = MetaObject::new();
            meta.insert(TASK.to_owned(), serde_json::json!(support));
            tool.with_meta(meta)
        }
    };
    match declared_output_schema(spec) {
        Some(schema) => tool.with_raw_output_schema(Arc::new(schema.clone())),
        None => tool,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn repeatable_tool_has_idempotent_hint() {
        let hint = |more: Value| {
            let mut spec = json!({"name": "a", "description": "", "input_schema": {}});
            spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            let tool = to_tool(&serde_json::from_value(spec).unwrap());
            tool.annotations.unwrap().idempotent_hint
        };
        assert_eq!(hint(json!({"effect": "read"})), Some(true));
        for more in [json!({}), json!({"effect": "keyed"}), json!({"read_only": true})] {
            assert_eq!(hint(more.clone()), None, "{more}");
        }
    }

    #[test]
    fn output_schema_must_be_object() {
        let mut spec: ToolSpec = serde_json::from_value(json!({
            "name": "a", "description": "", "input_schema": {},
        }))
        .unwrap();
        for (schema, is_declared) in [
            (None, false),
            (Some(json!({ "type": "object" })), true),
            (Some(json!({ "type": "array" })), false),
            (Some(json!(true)), false),
        ] {
            spec.output_schema = schema;
            assert_eq!(declared_output_schema(&spec).is_some(), is_declared, "{spec:?}");
            assert_eq!(to_tool(&spec).output_schema.is_some(), is_declared, "{spec:?}");
        }
    }
}
