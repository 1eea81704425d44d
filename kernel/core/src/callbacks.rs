//! The kernel's side of the calls that extensions make.

use std::sync::Weak;

use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use skillhost_events::topic;
use skillhost_manifest::ExtensionId;
use skillhost_payload::{
    AgentTask, CallError, ErrorKind, Event, SecretRequest, SecretValue, SubscribeRequest,
    SubscriptionId, ToolCall, UserNotice, channel_interface, host_method,
};

use crate::extension_calls::HostCalls;
use crate::extension_host::ExtensionHost;

/// The kernel's services for one extension.
pub(crate) struct HostCallbacks {
    extension: ExtensionId,
    depends_on: Vec<ExtensionId>,
    secrets: Vec<String>,
    host: Weak<ExtensionHost>,
}

/// A log event of an extension.
pub(crate) struct LogEvent<'a> {
    pub(crate) level: u8,
    pub(crate) target: &'a str,
    pub(crate) message: &'a str,
    pub(crate) fields: &'a str,
    pub(crate) spans: &'a str,
    pub(crate) file: &'a str,
    pub(crate) line: u32,
    pub(crate) call_id: u64,
}

/// Repeats an expression with a constant level, which `tracing` requires.
macro_rules! at_level {
    ($level:expr, $macro:ident) => {
        match $level {
            1 => $macro!(ERROR),
            2 => $macro!(WARN),
            3 => $macro!(INFO),
            4 => $macro!(DEBUG),
            _ => $macro!(TRACE),
        }
    };
}

impl HostCallbacks {
    pub(crate) fn new(manifest: &skillhost_manifest::Manifest, host: Weak<ExtensionHost>) -> Self {
        Self {
            extension: manifest.id.clone(),
            depends_on: manifest.depends_on.iter().map(|needed| needed.id.clone()).collect(),
            secrets: manifest.secrets.clone(),
            host,
        }
    }

    /// Returns whether a level is enabled. Filters apply to the target `extension`, because a
    /// filter directive cannot name a library's own targets.
    pub(crate) fn log_enabled(&self, level: u8, _target: &str) -> bool {
        macro_rules! enabled {
            ($level:ident) => {
                tracing::enabled!(target: "extension", tracing::Level::$level)
            };
        }
        at_level!(level, enabled)
    }

    pub(crate) fn log(&self, event: &LogEvent<'_>) {
        // Source locations help the author of an error and clutter the other levels.
        let location = (event.level == 1).then(|| format!("{}:{}", event.file, event.line));
        macro_rules! emit {
            ($level:ident) => {
                tracing::event!(
                    target: "extension",
                    tracing::Level::$level,
                    id = %self.extension,
                    origin = event.target,
                    spans = non_empty(event.spans),
                    fields = non_empty(event.fields),
                    call_id = (event.call_id != 0).then_some(event.call_id),
                    location,
                    "{}",
                    event.message
                )
            };
        }
        at_level!(event.level, emit);
    }

    pub(crate) async fn call(&self, method: &str, payload: &[u8]) -> Result<Vec<u8>, CallError> {
        let host = self.host.upgrade().ok_or_else(shutdown_error)?;
        let services = || host.services().ok_or_else(shutdown_error);
        match method {
            host_method::EMIT => {
                let mut event: Event = decode_request(payload)?;
                // The source comes from the kernel: an extension cannot publish in another's name.
                event.source = self.extension.to_string();
                host.events.publish(event).await?;
                Ok(Vec::new())
            }
            host_method::SUBSCRIBE => {
                let request: SubscribeRequest = decode_request(payload)?;
                let id = host.events.subscribe(&self.extension, &request.topic);
                encode_reply(&SubscriptionId { id })
            }
            host_method::NEXT_EVENT => {
                let SubscriptionId { id } = decode_request(payload)?;
                encode_reply(&*host.events.next_event(&self.extension, id).await?)
            }
            host_method::UNSUBSCRIBE => {
                let SubscriptionId { id } = decode_request(payload)?;
                host.events.unsubscribe(&self.extension, id);
                Ok(Vec::new())
            }
            host_method::CALL_TOOL => {
                let mut call: ToolCall = decode_request(payload)?;
                // The key is that of the extension's own call: two calls that it makes in turn would
                // pass for one.
                call.context.idempotency_key = None;
                call.context.input = None;
                encode_reply(&services()?.call_tool(call).await?)
            }
            host_method::RUN_AGENT => {
                let task: AgentTask = decode_request(payload)?;
                encode_reply(&services()?.run_agent(task).await?)
            }
            host_method::NOTIFY => {
                self.publish_notice(&host, topic::NOTICE, payload).map(|_| Vec::new())
            }
            host_method::STORE_TASK_STEP => {
                let request = decode_request(payload)?;
                services()?.store_task_step(self.extension.as_str(), request).await?;
                Ok(Vec::new())
            }
            host_method::REPORT_TASK_PROGRESS => {
                let report = decode_request(payload)?;
                services()?.report_task_progress(self.extension.as_str(), report).await?;
                Ok(Vec::new())
            }
            host_method::RECEIVE_MESSAGE => {
                let channel = self.require_channel(&host)?;
                let message = decode_request(payload)?;
                encode_reply(&services()?.receive_message(channel, message).await?)
            }
            host_method::PRESS_BUTTON => {
                let channel = self.require_channel(&host)?;
                let button = decode_request(payload)?;
                encode_reply(&services()?.press_button(channel, button).await?)
            }
            host_method::LOAD_CHANNEL_CURSOR => {
                let channel = self.require_channel(&host)?;
                encode_reply(&services()?.load_channel_cursor(channel).await?)
            }
            host_method::STORE_CHANNEL_CURSOR => {
                let channel = self.require_channel(&host)?;
                let cursor = decode_request(payload)?;
                services()?.store_channel_cursor(channel, cursor).await?;
                Ok(Vec::new())
            }
            host_method::REQUEST_RESTART => {
                let UserNotice { text } = decode_request(payload)?;
                services()?.request_restart(&text, self.extension.as_str()).await?;
                Ok(Vec::new())
            }
            host_method::SECRET => {
                let request: SecretRequest = decode_request(payload)?;
                // Only declared secrets are available, because the approval lists them.
                if !self.secrets.contains(&request.name) {
                    return Err(CallError::new(
                        ErrorKind::Denied,
                        format!("the manifest does not name the secret `{}`", request.name),
                    )
                    .with_hint(format!("add `secrets: [{}]` to the manifest", request.name)));
                }
                encode_reply(&SecretValue { value: host.secrets.get(&request.name) })
            }
            other => match other.strip_prefix(host_method::PROVIDER) {
                Some(path) => self.call_provider(&host, path, payload).await,
                None => {
                    Err(CallError::new(ErrorKind::Protocol, format!("unknown method `{other}`")))
                }
            },
        }
    }

    /// Returns the channel that this extension is: its own id, so that none receives messages in
    /// the name of another.
    fn require_channel(&self, host: &ExtensionHost) -> Result<&str, CallError> {
        let id = self.extension.as_str();
        let instance = host.pin_instance(id).ok_or_else(|| {
            // During its start the replies could not be sent.
            CallError::new(ErrorKind::Unavailable, format!("`{id}` is not loaded yet"))
        })?;
        if !instance.provides(channel_interface::NAME) {
            let message = format!("`{id}` is not a channel");
            return Err(CallError::new(ErrorKind::Denied, message)
                .with_hint("implement `ChannelProvider` and export `channel`"));
        }
        Ok(id)
    }

    async fn call_provider(
        &self,
        host: &ExtensionHost,
        path: &str,
        payload: &[u8],
    ) -> Result<Vec<u8>, CallError> {
        // The method is the rest of the path and may contain slashes.
        let mut parts = path.splitn(3, '/');
        let (Some(extension), Some(interface), Some(method)) =
            (parts.next(), parts.next(), parts.next())
        else {
            return Err(CallError::new(ErrorKind::Protocol, format!("malformed path `{path}`")));
        };
        if !self.depends_on.iter().any(|id| id == extension) {
            return Err(CallError::new(
                ErrorKind::Denied,
                format!("`{extension}` is not in depends_on of `{}`", self.extension),
            )
            .with_hint(format!("add `depends_on: [{extension}]` to the manifest")));
        }
        let instance = host.pin_instance(extension).ok_or_else(|| {
            CallError::new(ErrorKind::Unavailable, format!("`{extension}` is not loaded"))
        })?;
        instance.call(interface, method, payload.to_vec(), host.limits.tool).await
    }

    /// Publishes a notice in the extension's name; returns the number of listeners outside
    /// extensions.
    fn publish_notice(
        &self,
        host: &ExtensionHost,
        topic: &str,
        payload: &[u8],
    ) -> Result<usize, CallError> {
        let notice: UserNotice = decode_request(payload)?;
        let payload = serde_json::value::to_raw_value(&notice)
            .map_err(|error| CallError::protocol_error(&error))?;
        let source = self.extension.to_string();
        Ok(host.events.notify_listeners(Event::new(topic, source, payload)))
    }
}

impl HostCalls for HostCallbacks {
    fn call_host<'a>(
        &'a self,
        method: &'a str,
        payload: &'a [u8],
    ) -> BoxFuture<'a, Result<Vec<u8>, CallError>> {
        Box::pin(self.call(method, payload))
    }
}

/// Returns `None` for an empty text, so that its field is omitted.
fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn shutdown_error() -> CallError {
    CallError::new(ErrorKind::Unavailable, "the kernel shuts down")
}

fn decode_request<T: DeserializeOwned>(payload: &[u8]) -> Result<T, CallError> {
    serde_json::from_slice(payload).map_err(|error| {
        CallError::new(ErrorKind::Protocol, format!("the request is not valid: {error}"))
    })
}

fn encode_reply<T: Serialize>(value: &T) -> Result<Vec<u8>, CallError> {
    serde_json::to_vec(value).map_err(|error| CallError::protocol_error(&error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::extension_host::ExtensionHostOptions;
    use crate::limits::KernelLimits;
    use skillhost_home::{Home, HomeSource, SecretStore, Settings};

    /// Returns the error of a kernel without extensions for an extension with this `depends_on`.
    async fn answer(depends_on: &str, method: &str) -> (ErrorKind, String) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sandbox")).unwrap();
        let home = Home::open(folder.path(), HomeSource::Argument).unwrap();
        let host = Arc::new(ExtensionHost::new(ExtensionHostOptions {
            home,
            settings: Settings::default(),
            settings_file: None,
            installation: None,
            bundled: &[],
            limits: KernelLimits::default(),
            loaders: Vec::new(),
            secrets: SecretStore::default(),
        }));
        let manifest = format!("id: b\nname: b\nentrypoint: b\ndepends_on: {depends_on}\n");
        let manifest = skillhost_manifest::parse_manifest(&manifest).unwrap();
        let callbacks = HostCallbacks::new(&manifest, Arc::downgrade(&host));
        let error = callbacks.call(method, b"{}").await.unwrap_err();
        (error.kind, error.message)
    }

    /// The SDK rejects most of these calls; an extension need not use the SDK.
    #[tokio::test]
    async fn unknown_methods_are_denied() {
        let denied = "`a` is not in depends_on of `b`".to_owned();
        assert_eq!(answer("[c]", "provider/a/skill/generation").await, (ErrorKind::Denied, denied));
        let absent = "`a` is not loaded".to_owned();
        let reply = answer("[a]", "provider/a/skill/generation").await;
        assert_eq!(reply, (ErrorKind::Unavailable, absent));
        let malformed = "malformed path `a/skill`".to_owned();
        assert_eq!(answer("[a]", "provider/a/skill").await, (ErrorKind::Protocol, malformed));
        let early = "`b` is not loaded yet".to_owned();
        let reply = answer("[a]", "receive_message").await;
        assert_eq!(reply, (ErrorKind::Unavailable, early));
        let unknown = "unknown method `reboot`".to_owned();
        assert_eq!(answer("[a]", "reboot").await, (ErrorKind::Protocol, unknown));
        let (kind, message) = answer("[a]", "subscribe").await;
        assert_eq!(kind, ErrorKind::Protocol);
        assert!(
            message.starts_with("the request is not valid: missing field `topic`"),
            "{message}"
        );
    }
}
