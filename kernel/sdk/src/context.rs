//! Everything an extension can ask of the kernel.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use skillhost_contract::payload::{
    AgentAnswer, AgentTask, CallContext, ErrorKind, Event, ExtensionInit, SecretRequest,
    SecretValue, SkillContent, SkillCreatedReport, SkillGeneration, SkillRequest, SubscribeRequest,
    SubscriptionId, ToolCall, UserNotice, host_method, skill_interface,
};
use tokio_util::sync::CancellationToken;

use crate::embedding::EmbeddingClient;
use crate::error::{ExtensionError, Result};
use crate::guard::HostLink;
use crate::interface::{from_bytes, to_bytes};
use crate::output::ToolOutput;

/// The extension's view of the kernel; cheap to clone.
#[derive(Clone)]
pub struct ExtensionContext {
    init: Arc<ExtensionInit>,
    link: HostLink,
    cancel: CancellationToken,
}

impl fmt::Debug for ExtensionContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtensionContext").field("id", &self.init.id).finish_non_exhaustive()
    }
}

impl ExtensionContext {
    pub(crate) fn new(init: ExtensionInit, link: HostLink, cancel: CancellationToken) -> Self {
        Self { init: Arc::new(init), link, cancel }
    }

    /// The extension's id from its manifest.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.init.id
    }

    /// The home directory.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.init.home
    }

    /// What an installed copy of the product shares (`manifests`, `skills`), where there is one.
    #[must_use]
    pub fn share_dir(&self) -> Option<&Path> {
        self.init.share_dir.as_deref()
    }

    /// The extension's private directory, `sandbox/data/<id>`, created for its owner alone when it is
    /// first asked for.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when it cannot be created.
    pub fn data_dir(&self) -> Result<PathBuf> {
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(&self.init.data_dir)?;
        Ok(self.init.data_dir.clone())
    }

    /// Where [`ExtensionContext::data_dir`] is or would be, without creating it.
    #[must_use]
    pub fn data_path(&self) -> &Path {
        &self.init.data_dir
    }

    /// Reads the manifest's `config` with the settings' overrides.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] naming the field that is missing, wrong or not known.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_value(self.init.config.clone()).map_err(|error| {
            ExtensionError::invalid_argument(format!("config: {error}")).with_hint(format!(
                "look at `config` in the manifest and at `extensions.{}` in skillhost.yaml",
                self.init.id
            ))
        })
    }

    /// Is cancelled when the extension shuts down; for tasks the extension spawns itself.
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Publishes an event that nothing else led to. When this returns it is on the disk: handlers
    /// in manifests get it even if the kernel ends now.
    ///
    /// # Errors
    /// As for [`ExtensionContext::emit_event`].
    pub async fn emit<T: Serialize + Sync + ?Sized>(&self, topic: &str, payload: &T) -> Result<()> {
        self.emit_event(&Event::new(topic, "", raw(payload)?)).await
    }

    /// Publishes an event as part of what a call belongs to: it carries the call's correlation id on.
    ///
    /// # Errors
    /// As for [`ExtensionContext::emit_event`].
    pub async fn emit_for<T: Serialize + Sync + ?Sized>(
        &self,
        cx: &CallContext,
        topic: &str,
        payload: &T,
    ) -> Result<()> {
        let correlation_id = cx.correlation_id.clone();
        self.emit_event(&Event { correlation_id, ..Event::new(topic, "", raw(payload)?) }).await
    }

    /// Publishes an event with its correlation id and its key: of several events with one topic and
    /// key only the first is kept, so that publishing again is harmless.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] and [`ErrorKind::TooLarge`] for an event that cannot be kept,
    /// [`ErrorKind::Io`] when the disk fails, [`ErrorKind::Unavailable`] while the kernel shuts down.
    pub async fn emit_event(&self, event: &Event) -> Result<()> {
        self.link.call(host_method::EMIT, to_bytes(event)?).await.map(drop)
    }

    /// Subscribes to the events whose topic is `topic` or begins with `topic` and a dot; an empty
    /// topic means every event.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] while the kernel shuts down.
    pub async fn subscribe(&self, topic: &str) -> Result<EventStream> {
        let request = SubscribeRequest { topic: topic.to_owned() };
        let reply = self.link.call(host_method::SUBSCRIBE, to_bytes(&request)?).await?;
        Ok(EventStream { id: from_bytes(&reply)?, link: self.link.clone() })
    }

    /// Calls another extension's tool on behalf of the same caller.
    ///
    /// # Errors
    /// What the tool returns; [`ErrorKind::NotFound`] for an unknown tool.
    pub async fn call_tool<T: Serialize + Sync + ?Sized>(
        &self,
        cx: &CallContext,
        name: &str,
        arguments: &T,
    ) -> Result<ToolOutput> {
        let call =
            ToolCall { context: cx.clone(), name: name.to_owned(), arguments: raw(arguments)? };
        let reply = self.link.call(host_method::CALL_TOOL, to_bytes(&call)?).await?;
        Ok(ToolOutput::from_payload(from_bytes(&reply)?))
    }

    /// Gives a task to an agent on behalf of the same caller, and waits for its answer. The agent sees
    /// nothing but the task. Nobody can be asked for consent, so tools that need it are refused.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an unknown agent; what ended its work before it came to an answer.
    pub async fn run_agent(
        &self,
        cx: &CallContext,
        agent_id: &str,
        task: &str,
    ) -> Result<AgentAnswer> {
        let (context, agent_id, task) = (cx.clone(), agent_id.to_owned(), task.to_owned());
        let task = AgentTask { context, agent_id, task };
        from_bytes(&self.link.call(host_method::RUN_AGENT, to_bytes(&task)?).await?)
    }

    /// Gets the skill provider of a dependency.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] when the extension is not in this one's `depends_on`.
    pub fn skill_client(&self, extension: &str) -> Result<SkillClient> {
        self.depends_on(extension)?;
        Ok(SkillClient { extension: extension.to_owned(), link: self.link.clone() })
    }

    /// Gets the embedding provider of a dependency, which may be an optional one: whether it is
    /// loaded shows when it is asked.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] when the extension is not in this one's `depends_on`.
    pub fn embedding_client(&self, extension: &str) -> Result<EmbeddingClient> {
        self.depends_on(extension)?;
        Ok(EmbeddingClient::new(extension, self.link.clone()))
    }

    fn depends_on(&self, extension: &str) -> Result<()> {
        if self.init.depends_on.iter().any(|id| id == extension) {
            return Ok(());
        }
        Err(ExtensionError::new(
            ErrorKind::Denied,
            format!("`{extension}` is not in depends_on of `{}`", self.init.id),
        )
        .with_hint(format!("add `depends_on: [{extension}]` to the manifest")))
    }

    /// Shows one line to the person who runs the kernel.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] while the kernel shuts down.
    pub async fn notify(&self, text: &str) -> Result<()> {
        let notice = UserNotice { text: text.to_owned() };
        self.link.call(host_method::NOTIFY, to_bytes(&notice)?).await.map(drop)
    }

    /// Reads a secret named in the manifest's `secrets`.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] when the manifest does not name it.
    pub async fn secret(&self, name: &str) -> Result<Option<Secret>> {
        let request = SecretRequest { name: name.to_owned() };
        let reply = self.link.call(host_method::SECRET, to_bytes(&request)?).await?;
        Ok(from_bytes::<SecretValue>(&reply)?.value.map(Secret))
    }

    /// Asks the kernel to start again, e.g. after an extension was written.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] where nothing would start it again, [`ErrorKind::Conflict`] while
    /// a restart is under way.
    pub async fn request_restart(&self, reason: &str) -> Result<()> {
        let notice = UserNotice { text: reason.to_owned() };
        self.link.call(host_method::REQUEST_RESTART, to_bytes(&notice)?).await.map(drop)
    }
}

fn raw<T: Serialize + ?Sized>(value: &T) -> Result<Box<RawValue>> {
    serde_json::to_string(value)
        .and_then(RawValue::from_string)
        .map_err(|error| ExtensionError::new(ErrorKind::Protocol, error.to_string()))
}

/// A stream of events; ends with the extension.
pub struct EventStream {
    id: SubscriptionId,
    link: HostLink,
}

impl EventStream {
    /// Waits for the next event. Events that arrive faster than they are read are dropped, oldest
    /// first, beyond a buffer of 256. A future that is dropped may take an event with it: in a
    /// `select!`, keep it across turns of the loop.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when the kernel shuts down.
    pub async fn next(&mut self) -> Result<Event> {
        from_bytes(&self.link.call(host_method::NEXT_EVENT, to_bytes(&self.id)?).await?)
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        if let Ok(payload) = to_bytes(&self.id) {
            self.link.call_detached(host_method::UNSUBSCRIBE, payload);
        }
    }
}

/// The skill provider of another extension.
#[derive(Clone)]
pub struct SkillClient {
    extension: String,
    link: HostLink,
}

impl SkillClient {
    /// See [`SkillProvider::get_skill_content`](crate::SkillProvider::get_skill_content).
    ///
    /// # Errors
    /// What the provider returns.
    pub async fn get_skill_content(&self, skill_id: &str) -> Result<SkillContent> {
        let request = SkillRequest { skill_id: skill_id.into() };
        from_bytes(&self.call(skill_interface::GET_SKILL_CONTENT, to_bytes(&request)?).await?)
    }

    /// See [`SkillProvider::generation`](crate::SkillProvider::generation).
    ///
    /// # Errors
    /// What the provider returns.
    pub async fn generation(&self) -> Result<u64> {
        let reply = self.call(skill_interface::GENERATION, Vec::new()).await?;
        Ok(from_bytes::<SkillGeneration>(&reply)?.generation)
    }

    /// See [`SkillProvider::skill_created`](crate::SkillProvider::skill_created).
    ///
    /// # Errors
    /// What the provider returns.
    pub async fn skill_created(&self, cx: &CallContext, skill_id: &str) -> Result<()> {
        let created = SkillCreatedReport { context: cx.clone(), skill_id: skill_id.to_owned() };
        from_bytes(&self.call(skill_interface::SKILL_CREATED, to_bytes(&created)?).await?)
    }

    async fn call(&self, method: &str, payload: Vec<u8>) -> Result<Vec<u8>> {
        let path = format!(
            "{}{}/{}/{method}",
            host_method::PROVIDER,
            self.extension,
            skill_interface::NAME
        );
        self.link.call(&path, payload).await
    }
}

/// A secret; it does not show itself when printed.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// The value.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
