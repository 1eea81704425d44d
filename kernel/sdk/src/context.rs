//! The services that the kernel offers to an extension.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use skillhost_payload::{
    AgentAnswer, AgentTask, CallContext, ErrorKind, Event, ExtensionInit, SecretRequest,
    SecretValue, SkillContent, SkillGeneration, SkillReport, SkillRequest, SubscribeRequest,
    SubscriptionId, ToolCall, UserNotice, host_method, skill_interface,
};
use tokio_util::sync::CancellationToken;

use crate::codec::{from_bytes, to_bytes};
use crate::embedding_client::EmbeddingClient;
use crate::error::{ExtensionError, Result};
use crate::link::HostLink;
use crate::output::ToolOutput;

/// A handle through which an extension uses the kernel; cheap to clone.
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

    /// Returns the connection to the kernel.
    pub(crate) fn link(&self) -> &HostLink {
        &self.link
    }

    /// Returns the extension's id from its manifest.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.init.id
    }

    /// Returns the home directory.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.init.home
    }

    /// Returns the shared directory of an installed copy (`manifests`, `skills`), or `None` without
    /// one.
    #[must_use]
    pub fn share_dir(&self) -> Option<&Path> {
        self.init.share_dir.as_deref()
    }

    /// Returns the extension's private directory, `sandbox/data/<id>`, and creates it if missing.
    ///
    /// Only its owner has access to it.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when it cannot be created.
    pub fn data_dir(&self) -> Result<PathBuf> {
        // On demand: an extension that stores no data leaves no directory behind.
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(&self.init.data_dir)?;
        Ok(self.init.data_dir.clone())
    }

    /// Returns the path of [`ExtensionContext::data_dir`] without creating the directory.
    #[must_use]
    pub fn data_path(&self) -> &Path {
        &self.init.data_dir
    }

    /// Parses the manifest's `config` with the overrides of the settings.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] naming the field that is missing, wrong or unknown.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_value(self.init.config.clone()).map_err(|error| {
            ExtensionError::invalid_argument(format!("config: {error}")).with_hint(format!(
                "check `config` in the manifest and `extensions.{}` in skillhost.yaml",
                self.init.id
            ))
        })
    }

    /// Returns a token that is cancelled at shutdown, for tasks that the extension spawns itself.
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Publishes an event without a cause. On return it is durable: handlers in manifests receive
    /// it even if the kernel terminates immediately.
    ///
    /// # Errors
    /// As for [`ExtensionContext::emit_event`].
    pub async fn emit<T: Serialize + Sync + ?Sized>(&self, topic: &str, payload: &T) -> Result<()> {
        self.emit_event(&Event::new(topic, "", to_raw_value(payload)?)).await
    }

    /// Publishes an event with the correlation id of a call.
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
        self.emit_event(&Event { correlation_id, ..Event::new(topic, "", to_raw_value(payload)?) })
            .await
    }

    /// Publishes an event with its correlation id and its idempotency key.
    ///
    /// Of several events with one topic and key only the first is stored, so a repeated call is
    /// harmless.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] and [`ErrorKind::TooLarge`] for an event that cannot be
    /// stored, [`ErrorKind::Io`] when the disk fails, [`ErrorKind::Unavailable`] while the kernel
    /// shuts down.
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
    /// The error of the tool; [`ErrorKind::NotFound`] for an unknown tool.
    pub async fn call_tool<T: Serialize + Sync + ?Sized>(
        &self,
        cx: &CallContext,
        name: &str,
        arguments: &T,
    ) -> Result<ToolOutput> {
        let call = ToolCall {
            context: cx.clone(),
            name: name.to_owned(),
            arguments: to_raw_value(arguments)?,
        };
        let reply = self.link.call(host_method::CALL_TOOL, to_bytes(&call)?).await?;
        Ok(ToolOutput::from_payload(from_bytes(&reply)?))
    }

    /// Delegates a task to an agent on behalf of the same caller and returns its reply.
    ///
    /// The agent sees only the task. No approval channel is available, so tools that require
    /// approval are rejected.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an unknown agent; otherwise the error that ended the run.
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

    /// Returns a client of a dependency's skill provider.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] when the extension is not in this one's `depends_on`.
    pub fn skill_client(&self, extension: &str) -> Result<SkillClient> {
        self.check_dependency(extension)?;
        Ok(SkillClient { extension: extension.to_owned(), link: self.link.clone() })
    }

    /// Returns a client of a dependency's embedding provider.
    ///
    /// The dependency may be optional: the first request fails if it is not loaded.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] when the extension is not in this one's `depends_on`.
    pub fn embedding_client(&self, extension: &str) -> Result<EmbeddingClient> {
        self.check_dependency(extension)?;
        Ok(EmbeddingClient::new(extension, self.link.clone()))
    }

    fn check_dependency(&self, extension: &str) -> Result<()> {
        // The kernel checks this as well; here the message reaches the author at start-up.
        if self.init.depends_on.iter().any(|id| id == extension) {
            return Ok(());
        }
        Err(ExtensionError::new(
            ErrorKind::Denied,
            format!("`{extension}` is not in depends_on of `{}`", self.init.id),
        )
        .with_hint(format!("add `depends_on: [{extension}]` to the manifest")))
    }

    /// Displays one line to the operator.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] while the kernel shuts down.
    pub async fn notify(&self, text: &str) -> Result<()> {
        let notice = UserNotice { text: text.to_owned() };
        self.link.call(host_method::NOTIFY, to_bytes(&notice)?).await.map(drop)
    }

    /// Reads a secret named in the manifest's `secrets`; `None` if it is not set.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] when the manifest does not name it.
    pub async fn secret(&self, name: &str) -> Result<Option<Secret>> {
        let request = SecretRequest { name: name.to_owned() };
        let reply = self.link.call(host_method::SECRET, to_bytes(&request)?).await?;
        Ok(from_bytes::<SecretValue>(&reply)?.value.map(Secret))
    }

    /// Requests a restart of the kernel, for example after a new extension was written.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] without a supervisor, [`ErrorKind::Conflict`] while a restart is
    /// in progress.
    pub async fn request_restart(&self, reason: &str) -> Result<()> {
        let notice = UserNotice { text: reason.to_owned() };
        self.link.call(host_method::REQUEST_RESTART, to_bytes(&notice)?).await.map(drop)
    }
}

fn to_raw_value<T: Serialize + ?Sized>(value: &T) -> Result<Box<RawValue>> {
    serde_json::to_string(value)
        .and_then(RawValue::from_string)
        .map_err(|error| ExtensionError::new(ErrorKind::Protocol, error.to_string()))
}

/// A stream of events; closed when the extension shuts down.
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
        // A destructor can neither await the reply nor report an error.
        if let Ok(payload) = to_bytes(&self.id) {
            self.link.call_detached(host_method::UNSUBSCRIBE, payload);
        }
    }
}

/// A client of another extension's skill provider.
#[derive(Clone)]
pub struct SkillClient {
    extension: String,
    link: HostLink,
}

impl SkillClient {
    /// Calls [`SkillProvider::get_skill_content`](crate::SkillProvider::get_skill_content).
    ///
    /// # Errors
    /// The error of the provider.
    pub async fn get_skill_content(&self, skill_id: &str) -> Result<SkillContent> {
        let request = SkillRequest { skill_id: skill_id.into() };
        from_bytes(&self.call(skill_interface::GET_SKILL_CONTENT, to_bytes(&request)?).await?)
    }

    /// Calls [`SkillProvider::generation`](crate::SkillProvider::generation).
    ///
    /// # Errors
    /// The error of the provider.
    pub async fn generation(&self) -> Result<u64> {
        let reply = self.call(skill_interface::GENERATION, Vec::new()).await?;
        Ok(from_bytes::<SkillGeneration>(&reply)?.generation)
    }

    /// Calls [`SkillProvider::skill_created`](crate::SkillProvider::skill_created).
    ///
    /// # Errors
    /// The error of the provider.
    pub async fn skill_created(&self, cx: &CallContext, skill_id: &str) -> Result<()> {
        let created = SkillReport { context: cx.clone(), skill_id: skill_id.to_owned() };
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

/// A secret whose value is hidden in `Debug` output.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Returns the value.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A configuration is often logged as a unit; the value must not end up there.
        f.write_str("Secret(…)")
    }
}
