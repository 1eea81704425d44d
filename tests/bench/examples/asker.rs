//! An extension that requests vectors of the embedding extension and reports the time.

use std::time::Instant;

use serde::Deserialize;
use skillhost_sdk::prelude::*;

struct Asker {
    cx: ExtensionContext,
}

/// The arguments of the tool.
#[derive(Deserialize)]
struct Ask {
    texts: Vec<String>,
}

#[async_trait]
impl Extension for Asker {
    fn new(cx: ExtensionContext) -> Result<Self> {
        Ok(Self { cx })
    }
}

#[async_trait]
impl ToolProvider for Asker {
    fn tools(&self, _cx: &CallContext) -> Vec<ToolSpec> {
        vec![ToolSpec::new("ask", "Asks for vectors.", json!({"type": "object"}))]
    }

    /// Takes the texts, in turn one to a call; returns the microseconds of each call.
    async fn invoke(
        &self,
        _cx: &CallContext,
        _tool: &str,
        args: ToolArgs<'_>,
    ) -> Result<ToolOutput> {
        let Ask { texts } = args.parse()?;
        let client = self.cx.embedding_client("embedding")?;
        let mut times = Vec::with_capacity(texts.len());
        for text in &texts {
            let started = Instant::now();
            client.embed(&[text]).await?;
            times.push(started.elapsed().as_secs_f64() * 1e6);
        }
        ToolOutput::text("").with_structured(&times)
    }
}

export_extension!(Asker: tools);
