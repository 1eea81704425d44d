//! The teaching extension: one tool, one block of context, one service.
//!
//! This is an extension author's whole file. `depends_on`, `config` and the rest are in
//! `manifests/echo/manifest.yaml`; nothing here knows how a library is loaded.

use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize};

/// Repeats what it is told.
struct Echo {
    greeting: String,
}

/// The manifest's `config`.
#[derive(Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
struct EchoConfig {
    /// What the context block says; empty for no block.
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
        vec![ToolSpec::new("echo", "Repeats a text.", schema).read_only()]
    }

    async fn invoke(
        &self,
        cx: &CallContext,
        _tool: &str,
        args: ToolArgs<'_>,
    ) -> Result<ToolOutput> {
        let args: EchoArgs = args.parse()?;
        tracing::debug!(chars = args.text.chars().count(), "echo");
        ToolOutput::text(&args.text).with_structured(&json!({ "text": args.text, "caller": cx }))
    }
}

#[async_trait]
impl ContextProvider for Echo {
    fn context_priority(&self) -> i32 {
        200
    }

    async fn get_context(&self, _cx: &CallContext, _prompt: &str) -> Result<Option<Arc<str>>> {
        Ok((!self.greeting.is_empty()).then(|| self.greeting.as_str().into()))
    }
}

#[async_trait]
impl ServiceProvider for Echo {
    async fn run_background(&self, cancel: CancellationToken) -> Result<()> {
        cancel.cancelled().await;
        Ok(())
    }
}

export_extension!(Echo: tools, context, service);
