//! Models that follow a script, deterministic and without a key or a network.

mod chance;
mod placeholder;
mod rules;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use skillhost_conversation::{
    Message, ModelError, ModelErrorKind, ModelMetadata, ModelProvider, ModelReply, ModelRequest,
    ModelToolCall, ReplyChunk, StopReason,
};

use crate::wire::estimate_usage;
pub(crate) use chance::ChanceDraws;
use placeholder::ScriptContext;
use rules::ScriptRule;

/// The maximum size of a script, in bytes.
const MAX_SCRIPT: u64 = 1 << 20;
/// The name of the bundled script in errors.
const BUNDLED_NAME: &str = "demo.yaml";

/// A script with the replies and tool calls of a model. The format is in docs/models.md.
#[derive(Debug, Clone)]
pub struct ModelScript {
    seed: u64,
    rules: Vec<ScriptRule>,
}

/// An error of loading a script.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a valid script.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Invalid {
        /// The path of the file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The column, counted from 1.
        column: usize,
        /// The description of the error.
        message: String,
    },
}

impl ModelScript {
    /// Returns the bundled script, the model `script/demo`.
    #[must_use]
    pub fn bundled() -> Self {
        // A test parses the file, so that this cannot fail in a release.
        let rules = Self::parse(Path::new(BUNDLED_NAME), include_str!("script/demo.yaml"));
        rules.unwrap_or(Self { seed: 0, rules: Vec::new() })
    }

    /// Loads a script from a file.
    ///
    /// # Errors
    /// [`ScriptError`], with line and column for invalid text.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let failed = |source| ScriptError::Io { path: path.to_owned(), source };
        let mut text = String::new();
        let file = File::open(path).map_err(failed)?;
        // One byte more than the limit distinguishes a file of exactly that size.
        file.take(MAX_SCRIPT + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > MAX_SCRIPT {
            return Err(failed(io::Error::other("larger than 1 MiB")));
        }
        Self::parse(path, &text)
    }

    /// Parses the text of a script; `path` is used in errors.
    ///
    /// # Errors
    /// [`ScriptError::Invalid`] with line and column.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ScriptError> {
        let parsed: Result<rules::ScriptFile, _> = serde_yaml::from_str(text);
        let file = parsed.map_err(|error| {
            let position = error.location().map(|position| (position.line(), position.column()));
            let (line, column) = position.unwrap_or((1, 1));
            let full = error.to_string();
            // The position is a field of the error and must not appear twice.
            let message = full.split(" at line ").next().unwrap_or(&full).to_owned();
            ScriptError::Invalid { path: path.to_owned(), line, column, message }
        })?;
        Ok(Self { seed: file.seed, rules: file.rules })
    }
}

/// A model that follows a script. Its reply depends on the request alone, except for rules with a
/// `chance`, which also depend on the number of earlier requests.
pub(crate) struct ScriptModel {
    script: ModelScript,
    metadata: ModelMetadata,
    draws: Arc<ChanceDraws>,
}

impl ScriptModel {
    pub(crate) fn new(
        script: ModelScript,
        metadata: ModelMetadata,
        draws: Arc<ChanceDraws>,
    ) -> Self {
        Self { script, metadata, draws }
    }

    /// Returns the first rule that matches a request and whose chance it has.
    fn find_rule(&self, context: &ScriptContext<'_>) -> Option<&ScriptRule> {
        let mut rules = self.script.rules.iter();
        rules.find(|rule| {
            let draws = || self.draws.next_unit(self.script.seed);
            rule.when.matches(context) && rule.chance.is_none_or(|chance| draws() < chance)
        })
    }
}

#[async_trait]
impl ModelProvider for ScriptModel {
    fn metadata(&self) -> &ModelMetadata {
        &self.metadata
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        on_chunk: &mut (dyn FnMut(ReplyChunk) + Send),
    ) -> Result<ModelReply, ModelError> {
        let context = ScriptContext::from_request(request, &self.metadata.name);
        let Some(rule) = self.find_rule(&context) else {
            return Err(ModelError {
                kind: ModelErrorKind::Refused,
                model: self.metadata.name.clone(),
                message: "no rule of the script matches the request".to_owned(),
                hint: "end the script with a rule without `when`".to_owned(),
            });
        };
        let text = rule.say.as_ref().map(|say| say.render(&context)).unwrap_or_default();
        for line in text.split_inclusive('\n') {
            on_chunk(ReplyChunk::Text(line.to_owned()));
        }
        // Ids must be unique within a thread, so they contain the number of the turn.
        let replies = request.messages.iter().filter(|it| matches!(it, Message::Assistant { .. }));
        let turn = replies.count();
        let call = |(number, call): (usize, &rules::ScriptedCall)| ModelToolCall {
            id: format!("script_{turn}_{number}"),
            name: call.tool.clone(),
            arguments: call.arguments.render(&context).to_string(),
        };
        let calls: Vec<_> = rule.call.iter().enumerate().map(call).collect();
        let usage = estimate_usage(request, &text, &calls);
        Ok(ModelReply { text, calls, usage, stop: StopReason::End, only_reasoning: false })
    }
}

#[cfg(test)]
mod tests;
