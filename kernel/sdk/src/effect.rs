//! The `tool_effects` interface: previews the changes of a tool call.

use std::sync::Arc;

use async_trait::async_trait;
use skillhost_payload::{EffectRequest, ErrorKind, effect_interface};

use crate::args::ToolArgs;
use crate::codec::{from_bytes, to_bytes};
use crate::error::{ExtensionError, Result};
use crate::interface::Interface;
use crate::provider::EffectProvider;

/// The `tool_effects` interface of an [`EffectProvider`].
pub(crate) struct EffectInterface<T>(pub(crate) Arc<T>);

#[async_trait]
impl<T: EffectProvider> Interface for EffectInterface<T> {
    fn name(&self) -> &'static str {
        effect_interface::NAME
    }

    async fn call(&self, method: &str, payload: &[u8]) -> Result<Vec<u8>> {
        match method {
            effect_interface::PREVIEW => {
                let EffectRequest { context, tool, arguments, with_text } = from_bytes(payload)?;
                let args = ToolArgs::new(arguments.get());
                to_bytes(&self.0.preview(&context, &tool, args, with_text).await?)
            }
            other => {
                Err(ExtensionError::new(ErrorKind::Protocol, format!("unknown method `{other}`")))
            }
        }
    }
}
