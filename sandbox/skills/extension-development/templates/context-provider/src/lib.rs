//! The operator's rules as a block in every prompt.
//!
//! The pattern to keep: the text is rendered once and shared. A turn costs one pointer copy, and
//! the block is byte-identical from turn to turn, as prompt caches require.

use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize};

/// The manifest's `config`.
#[derive(Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
struct Config {
    rules: Vec<String>,
}

/// Renders the block, or returns `None` if there are no rules.
fn render(rules: &[String]) -> Option<Arc<str>> {
    if rules.is_empty() {
        return None;
    }
    // One line per rule: a line break inside a rule must not look like a separate rule.
    let lines: Vec<String> = rules
        .iter()
        .map(|rule| format!("- {}", rule.split_whitespace().collect::<Vec<_>>().join(" ")))
        .collect();
    Some(format!("[House rules]\n{}", lines.join("\n")).into())
}

/// The extension.
struct HouseRules {
    block: Option<Arc<str>>,
}

#[async_trait]
impl Extension for HouseRules {
    fn new(cx: ExtensionContext) -> Result<Self> {
        let config: Config = cx.config()?;
        Ok(Self { block: render(&config.rules) })
    }
}

#[async_trait]
impl ContextProvider for HouseRules {
    /// Places the block before the skill catalog (60) and memory (100).
    fn context_priority(&self) -> i32 {
        50
    }

    async fn get_context(&self, _cx: &CallContext, _prompt: &str) -> Result<Option<Arc<str>>> {
        // Prepare slow content in a service: after two seconds the kernel continues without this
        // block.
        Ok(self.block.clone())
    }
}

export_extension!(HouseRules: context);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_one_line_per_rule() {
        let rules = ["Be brief.".to_owned(), "Say\n  why.".to_owned()];
        assert_eq!(render(&rules).as_deref(), Some("[House rules]\n- Be brief.\n- Say why."));
    }

    #[test]
    fn no_rules_give_no_block() {
        assert_eq!(render(&[]), None);
    }
}
