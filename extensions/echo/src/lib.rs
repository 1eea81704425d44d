//! The example extension: one tool, one context block, one service.
//!
//! This file is a complete extension. `depends_on`, `config` and the other metadata are in
//! `manifests/echo/manifest.yaml`; the SDK hides the loading of the library.

use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize};

/// The extension with its configured greeting.
struct Echo {
    greeting: String,
}

/// The `config` of the manifest.
#[derive(Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
struct EchoConfig {
    /// The text of the context block; no block if it is empty.
    #[serde(default)]
    greeting: String,
}

/// The arguments of the tool.
#[derive(Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
struct EchoArgs {
    text: String,
}

#[async_trait]
impl Extension for Echo {
    fn new(cx: ExtensionContext) -> Result<Self> {
        let config: EchoConfig = cx.config()?;
        Ok(Self { greeting: config.greeting })
    }
}

#[async_trait]
impl ToolProvider for Echo {
    fn tools(&self, _cx: &CallContext) -> Vec<ToolSpec> {
        let schema = json!({
            "type": "object",
            "properties": { "text": { "type": "string", "description": "What to repeat" } },
            "required": ["text"],
            "additionalProperties": false,
        });
        // The tool changes nothing, so it is marked as read-only.
        vec![ToolSpec::new("echo", "Repeats a text.", schema).read_only()]
    }

    async fn invoke(&self, cx: &CallContext, _: &str, args: ToolArgs<'_>) -> Result<ToolOutput> {
        let args: EchoArgs = args.parse()?;
        tracing::debug!(chars = args.text.chars().count(), "echo");
        ToolOutput::text(&args.text).with_structured(&json!({ "text": args.text, "caller": cx }))
    }
}

#[async_trait]
impl ContextProvider for Echo {
    fn context_priority(&self) -> i32 {
        // Lower comes first: skills have 60 and memory 100, so the greeting is last.
        200
    }

    async fn get_context(&self, _cx: &CallContext, _prompt: &str) -> Result<Option<Arc<str>>> {
        Ok((!self.greeting.is_empty()).then(|| self.greeting.as_str().into()))
    }
}

#[async_trait]
impl ServiceProvider for Echo {
    async fn run_background(&self, cancel: CancellationToken) -> Result<()> {
        // A real service would work here until the kernel cancels it.
        cancel.cancelled().await;
        Ok(())
    }
}

export_extension!(Echo: tools, context, service);
