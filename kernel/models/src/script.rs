//! Models that follow a script: no key, no network, the same answer every time.

mod placeholder;
mod rules;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use skillhost_kernel::{
    Message, ModelError, ModelErrorKind, ModelMetadata, ModelProvider, ModelReply, ModelRequest,
    ModelToolCall, ReplyChunk, StopReason,
};

use crate::wire::estimate_usage;
use placeholder::ScriptContext;
use rules::ScriptRule;

/// Bytes of a script.
const LARGEST: u64 = 1 << 20;
/// What an error calls the script that ships.
const SHIPPED: &str = "demo.yaml";

/// What a model says and calls, and when. The format is in docs/models.md.
#[derive(Debug, Clone)]
pub struct ModelScript {
    rules: Vec<ScriptRule>,
}

/// Why a script cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file says something it may not.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
}

impl ModelScript {
    /// The script that ships: the model `script/demo`.
    #[must_use]
    pub fn bundled() -> Self {
        // A test reads it, so that there are always rules.
        let rules = Self::parse(Path::new(SHIPPED), include_str!("script/demo.yaml"));
        rules.unwrap_or(Self { rules: Vec::new() })
    }

    /// Reads a script.
    ///
    /// # Errors
    /// [`ScriptError`], with line and column where the text is at fault.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let failed = |source| ScriptError::Io { path: path.to_owned(), source };
        let mut text = String::new();
        let file = File::open(path).map_err(failed)?;
        file.take(LARGEST + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > LARGEST {
            return Err(failed(io::Error::other("larger than 1 MiB")));
        }
        Self::parse(path, &text)
    }

    /// Reads the text of a script; `path` is for the error.
    ///
    /// # Errors
    /// [`ScriptError::Invalid`] with line and column.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ScriptError> {
        let parsed: Result<rules::ScriptFile, _> = serde_yaml::from_str(text);
        let rules = parsed.map(|file| file.rules).map_err(|error| {
            let place = error.location().map(|place| (place.line(), place.column()));
            let (line, column) = place.unwrap_or((1, 1));
            let full = error.to_string();
            let message = full.split(" at line ").next().unwrap_or(&full).to_owned();
            ScriptError::Invalid { path: path.to_owned(), line, column, message }
        })?;
        Ok(Self { rules })
    }
}

/// A model that follows a script. It keeps nothing: what it says depends on the request alone.
pub(crate) struct ScriptModel {
    script: ModelScript,
    facts: ModelMetadata,
}

impl ScriptModel {
    pub(crate) fn new(script: ModelScript, facts: ModelMetadata) -> Self {
        Self { script, facts }
    }
}

#[async_trait]
impl ModelProvider for ScriptModel {
    fn metadata(&self) -> &ModelMetadata {
        &self.facts
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        on_piece: &mut (dyn FnMut(ReplyChunk) + Send),
    ) -> Result<ModelReply, ModelError> {
        let scene = ScriptContext::from_request(request, &self.facts.name);
        let Some(rule) = self.script.rules.iter().find(|rule| rule.when.matches(&scene)) else {
            return Err(ModelError {
                kind: ModelErrorKind::Refused,
                model: self.facts.name.clone(),
                message: "no rule of the script fits what was said".to_owned(),
                hint: "end the script with a rule without `when`".to_owned(),
            });
        };
        let text = rule.say.as_ref().map(|say| say.render(&scene)).unwrap_or_default();
        for line in text.split_inclusive('\n') {
            on_piece(ReplyChunk::Text(line.to_owned()));
        }
        let said = request.messages.iter().filter(|it| matches!(it, Message::Assistant { .. }));
        let turn = said.count();
        let call = |(number, call): (usize, &rules::ScriptedCall)| ModelToolCall {
            id: format!("script_{turn}_{number}"),
            name: call.tool.clone(),
            arguments: call.arguments.render(&scene).to_string(),
        };
        let calls: Vec<_> = rule.call.iter().enumerate().map(call).collect();
        let usage = estimate_usage(request, &text, &calls);
        Ok(ModelReply { text, calls, usage, stop: StopReason::End, only_reasoning: false })
    }
}

#[cfg(test)]
mod tests;
