//! What a program may request during one call: files of its skill and tools.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use skillhost_files::read_limited_below;
use skillhost_payload::{CallContext, CallError, ErrorKind, ToolOutput};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::protocol::{ProgramRequest, WireError};

/// The maximum length of a resource, in bytes; as JSON it has to fit into a line.
const MAX_RESOURCE: u64 = 2 * 1024 * 1024;

/// The method that reads a file of the skill.
const READ_FILE: &str = "skill/read";

/// The one way of programs to tools.
#[async_trait]
pub trait ToolInvoker: Send + Sync {
    /// Calls a tool in the name of a program.
    ///
    /// # Errors
    /// The error of the call; [`ErrorKind::Denied`] for a tool that the skill may not call.
    async fn invoke_tool(&self, call: ProgramToolCall) -> Result<ToolOutput, CallError>;
}

/// A call of a tool by a program.
#[derive(Debug, Clone)]
pub struct ProgramToolCall {
    /// The context of the program's own call; the last step of its chain is the program.
    pub context: CallContext,
    /// The only tools that the skill may call; `None` if it names none.
    pub allowed_tools: Option<Vec<String>>,
    /// The name of the tool.
    pub name: String,
    /// The arguments as JSON text.
    pub arguments: String,
}

/// A skill as its programs see it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramSkill {
    /// The name.
    pub name: String,
    /// The description.
    pub description: String,
    /// The text of SKILL.md below the frontmatter.
    pub instructions: String,
    /// Its other files.
    pub resources: Vec<SkillResource>,
    /// The directory, a private copy.
    pub dir_path: PathBuf,
}

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkillResource {
    /// The path in the directory of the skill.
    pub path: String,
    /// The kind.
    #[serde(rename = "type")]
    pub kind: ResourceKind,
}

/// The kind of a file of a skill, given by its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceKind {
    /// A program or a script.
    Code,
    /// A text for the model: `.md` or `.txt`.
    Instructions,
    /// Any other file.
    Data,
}

/// One call of a program, as the basis of what the program requests.
pub(crate) struct CallScope {
    pub(crate) context: CallContext,
    pub(crate) deadline: Instant,
    pub(crate) tools: Option<Arc<dyn ToolInvoker>>,
    pub(crate) allowed_tools: Option<Vec<String>>,
    pub(crate) skill: Arc<ProgramSkill>,
}

#[derive(Deserialize)]
struct CallReference {
    call: u64,
}

#[derive(Deserialize)]
struct ReadParams {
    path: String,
}

#[derive(Deserialize)]
struct InvokeParams {
    name: String,
    arguments: Box<RawValue>,
}

#[derive(Serialize)]
struct ResourceText {
    text: String,
}

#[derive(Serialize)]
struct ToolResult<'a> {
    text: &'a str,
    structured: Option<&'a RawValue>,
}

impl SkillResource {
    /// Returns the resource of a path in the directory of a skill.
    #[must_use]
    pub fn from_path(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        let kind = match extension.to_ascii_lowercase().as_str() {
            "js" | "mjs" | "cjs" | "ts" | "py" | "sh" | "bash" | "rb" | "pl" | "ps1" => {
                ResourceKind::Code
            }
            "md" | "txt" => ResourceKind::Instructions,
            _ => ResourceKind::Data,
        };
        Self { path: path.to_owned(), kind }
    }
}

impl CallScope {
    /// Returns the id of the call that a request belongs to.
    pub(crate) fn call_of(request: &ProgramRequest) -> Option<u64> {
        let params = request.params.as_deref()?;
        Some(serde_json::from_str::<CallReference>(params.get()).ok()?.call)
    }

    /// Returns whether a request reads a file of the skill.
    pub(crate) fn reads_file(request: &ProgramRequest) -> bool {
        request.method == READ_FILE
    }

    /// Serves a request of the program.
    pub(crate) async fn serve(&self, request: &ProgramRequest) -> Result<Box<RawValue>, WireError> {
        let served = match request.method.as_str() {
            READ_FILE => self.read_resource(request).await,
            "tool/invoke" => self.invoke_tool(request).await,
            other => {
                let message = format!("unknown method `{other}`");
                Err(CallError::new(ErrorKind::InvalidArgument, message))
            }
        };
        served.map_err(|error| WireError::from_call_error(&error))
    }

    async fn read_resource(&self, request: &ProgramRequest) -> Result<Box<RawValue>, CallError> {
        let ReadParams { path } = parse_params(request)?;
        let path = path.strip_prefix("./").unwrap_or(&path).to_owned();
        // Only listed files, so that no path of a program reaches the file system.
        let is_listed = |resource: &SkillResource| resource.path == path;
        if path != "SKILL.md" && !self.skill.resources.iter().any(is_listed) {
            let message = format!("the skill has no file `{path}`");
            return Err(CallError::new(ErrorKind::NotFound, message)
                .with_hint("`ctx.skill.resources` lists its files"));
        }
        let (root, name) = (self.skill.dir_path.clone(), path.clone());
        let read = spawn_blocking(move || read_limited_below(&root, &name, MAX_RESOURCE));
        let bytes = read.await.map_err(io::Error::other).flatten().map_err(|error| {
            let kind = match error.kind() {
                io::ErrorKind::FileTooLarge => ErrorKind::TooLarge,
                _ => ErrorKind::Io,
            };
            CallError::new(kind, format!("{path}: {error}"))
                .with_hint("read it from `ctx.skill.dirPath`")
        })?;
        let text = String::from_utf8(bytes).map_err(|_| {
            CallError::new(ErrorKind::InvalidArgument, format!("{path} is not UTF-8 text"))
                .with_hint("read it from `ctx.skill.dirPath`")
        })?;
        to_raw(&ResourceText { text })
    }

    async fn invoke_tool(&self, request: &ProgramRequest) -> Result<Box<RawValue>, CallError> {
        let InvokeParams { name, arguments } = parse_params(request)?;
        let Some(tools) = &self.tools else {
            return Err(CallError::new(ErrorKind::Unavailable, "no tools are available here"));
        };
        let remaining = self.deadline.saturating_duration_since(Instant::now()).as_millis();
        let mut context = self.context.clone();
        context.deadline_ms = Some(u64::try_from(remaining).unwrap_or(u64::MAX));
        let call = ProgramToolCall {
            context,
            allowed_tools: self.allowed_tools.clone(),
            name,
            arguments: arguments.get().to_owned(),
        };
        let invoked = timeout_at(self.deadline, tools.invoke_tool(call)).await;
        let late = || CallError::new(ErrorKind::Timeout, "the time of the program's call is over");
        let output = invoked.map_err(|_| late())??;
        if output.is_error {
            return Err(CallError::new(ErrorKind::Failed, output.text));
        }
        to_raw(&ToolResult { text: &output.text, structured: output.structured.as_deref() })
    }
}

fn parse_params<T: DeserializeOwned>(request: &ProgramRequest) -> Result<T, CallError> {
    let params = request.params.as_deref().map_or("null", RawValue::get);
    serde_json::from_str(params).map_err(|error| {
        CallError::new(ErrorKind::InvalidArgument, format!("params of {}: {error}", request.method))
    })
}

fn to_raw(value: &impl Serialize) -> Result<Box<RawValue>, CallError> {
    to_raw_value(value).map_err(|error| CallError::protocol_error(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_gives_kind() {
        let kind = |path| SkillResource::from_path(path).kind;
        assert_eq!(kind("lib/yahoo-api.js"), ResourceKind::Code);
        assert_eq!(kind("references/REFERENCE.md"), ResourceKind::Instructions);
        assert_eq!(kind("NOTES.TXT"), ResourceKind::Instructions);
        assert_eq!(kind("assets/t.json"), ResourceKind::Data);
        assert_eq!(kind("dir.md/LICENSE"), ResourceKind::Data);
    }
}
