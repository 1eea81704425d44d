//! The models of providers.

mod failure;
mod frames;
mod names;
mod reasoning_cache;
mod reply;
mod request;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use genai::adapter::AdapterKind;
use genai::chat::ChatStreamEvent;
use genai::resolver::{AuthData, Endpoint as GenaiEndpoint};
use genai::{Client, Headers, ModelIden, ServiceTarget};
use reqwest::{Url, redirect};
use skillhost_conversation::{
    ModelError, ModelMetadata, ModelProvider, ModelReply, ModelRequest, ReplyChunk,
};
use skillhost_home::ProviderProtocol;
use tokio::time::timeout;

use crate::retry::{RetryTimer, retry_delay};
use failure::ProviderError;
use frames::FrameObserver;
use reply::ProviderReply;
use request::{ProviderRequest, RequestTranslator};

pub(crate) use reasoning_cache::ReasoningCache;
pub(crate) use reply::estimate_usage;

/// The maximum length of a reply, in bytes.
const MAX_REPLY: usize = 8 << 20;

/// The address of a provider with its key and its timeouts.
#[derive(Clone)]
pub(crate) struct ProviderEndpoint {
    pub(crate) wire: ProviderProtocol,
    /// The base URL, with a final slash.
    pub(crate) base_url: Url,
    pub(crate) key: Option<String>,
    /// The name of the key, if the provider has one.
    pub(crate) key_name: Option<String>,
    pub(crate) connect: Duration,
    pub(crate) idle: Duration,
    pub(crate) total: Duration,
    pub(crate) retries: u32,
    pub(crate) stream: bool,
}

impl ProviderEndpoint {
    /// Returns the address without secrets.
    pub(crate) fn display_url(&self) -> String {
        // The user name, the password and the query may hold a key.
        let host = self.base_url.host_str().unwrap_or_default();
        let port = self.base_url.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}://{host}{port}{}", self.base_url.scheme(), self.base_url.path())
    }

    fn key_hint(&self) -> String {
        match &self.key_name {
            Some(name) => format!("check the value of {name}"),
            None => "set `key` of the provider to the name of its key".to_owned(),
        }
    }

    /// Creates a client for this endpoint.
    ///
    /// # Errors
    /// The message of the TLS library, if the machine has no trusted certificates.
    pub(crate) fn client(&self) -> Result<Client, String> {
        // Only the first call installs it; later calls fail with the same provider in place.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("skillhost/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.connect)
            // A redirect must not send the key to another host.
            .redirect(redirect::Policy::none());
        if self.base_url.scheme() == "http" {
            // Without certificates, since a machine may have none and http uses none.
            builder = builder.tls_certs_only([]);
        }
        // A proxy of the environment cannot reach the loopback address of this machine.
        if self.is_local() {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| error.without_url().to_string())?;
        Client::builder().with_reqwest(client).build().map_err(|error| error.to_string())
    }

    fn is_local(&self) -> bool {
        match self.base_url.host_str() {
            Some("localhost") => true,
            Some(host) => host
                .trim_matches(['[', ']'])
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback()),
            None => false,
        }
    }

    /// Returns the target for genai.
    fn target(&self, model: &str) -> ServiceTarget {
        let kind = match self.wire {
            ProviderProtocol::OpenaiResponses => AdapterKind::OpenAIResp,
            ProviderProtocol::Anthropic => AdapterKind::Anthropic,
            ProviderProtocol::Gemini => AdapterKind::Gemini,
            ProviderProtocol::Ollama => AdapterKind::Ollama,
            ProviderProtocol::Openai | ProviderProtocol::Script => AdapterKind::OpenAI,
        };
        let auth = match &self.key {
            Some(key) => AuthData::from_single(key.clone()),
            // genai requires a key for this protocol, while a custom server may require none.
            None if kind == AdapterKind::OpenAI => AuthData::RequestOverride {
                url: join_url(&self.base_url, "chat/completions"),
                headers: Headers::default(),
            },
            None => AuthData::from_single("none"),
        };
        ServiceTarget {
            endpoint: GenaiEndpoint::from_owned(self.base_url.as_str()),
            auth,
            // genai removes the text before the first `::` from a name.
            model: ModelIden::new(kind, format!("skillhost::{model}")),
        }
    }
}

fn join_url(base: &Url, path: &str) -> String {
    // `join` drops the query of the base, in which some servers expect a version.
    let mut url = base.join(path).unwrap_or_else(|_| base.clone());
    url.set_query(base.query());
    url.to_string()
}

/// A model of a provider.
pub(crate) struct ProviderModel {
    pub(crate) metadata: ModelMetadata,
    /// The provider's name of the model.
    pub(crate) model: String,
    pub(crate) max_output_tokens: Option<u32>,
    pub(crate) endpoint: ProviderEndpoint,
    pub(crate) client: Client,
    pub(crate) timer: Arc<dyn RetryTimer>,
    pub(crate) reasoning: Arc<ReasoningCache>,
}

#[async_trait]
impl ModelProvider for ProviderModel {
    fn metadata(&self) -> &ModelMetadata {
        &self.metadata
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        on_chunk: &mut (dyn FnMut(ReplyChunk) + Send),
    ) -> Result<ModelReply, ModelError> {
        let translated = self.translate(request);
        let mut attempts = 1;
        loop {
            let error = match self.attempt(&translated, on_chunk).await {
                Ok(reply) => {
                    return Ok(reply.into_reply(request, &translated.names, &self.reasoning));
                }
                // A provider may quote the key in its error.
                Err(error) => error.without_key(self.endpoint.key.as_deref()),
            };
            let delay = retry_delay(attempts, error.retry_after, self.timer.jitter())
                .filter(|_| error.is_retryable && attempts <= self.endpoint.retries);
            let Some(delay) = delay else {
                return Err(error.into_error(&self.metadata.name, attempts));
            };
            tracing::info!(
                model = self.metadata.name,
                "retry in {} ms: {}",
                delay.as_millis(),
                error.message
            );
            // The chunks of the failed attempt are discarded by the receiver.
            let may_be_charged = error.may_be_charged();
            on_chunk(ReplyChunk::ReplyRestarted { reason: error.message, may_be_charged });
            self.timer.wait(delay).await;
            on_chunk(ReplyChunk::RequestRepeated);
            attempts += 1;
        }
    }
}

impl ProviderModel {
    fn translate(&self, request: &ModelRequest) -> ProviderRequest {
        let translation = RequestTranslator {
            wire: self.endpoint.wire,
            model: &self.model,
            reasoning: &self.reasoning,
            max_output_tokens: self.max_output_tokens,
        };
        let mut translated = translation.translate(request);
        translated.options.stream_header_timeout = Some(self.endpoint.idle);
        translated.options.stream_read_timeout = Some(self.endpoint.idle);
        // genai sends no key to Ollama, but a server behind a proxy may require one.
        if let (ProviderProtocol::Ollama, Some(key)) = (self.endpoint.wire, &self.endpoint.key) {
            let bearer = ("authorization".to_owned(), format!("Bearer {key}"));
            translated.options.extra_headers = Some(Headers::from(bearer));
        }
        translated
    }

    async fn attempt(
        &self,
        translated: &ProviderRequest,
        on_chunk: &mut (dyn FnMut(ReplyChunk) + Send),
    ) -> Result<ProviderReply, ProviderError> {
        let total = self.endpoint.total;
        let reply = async {
            if self.endpoint.stream {
                self.stream_reply(translated, on_chunk).await
            } else {
                self.complete_reply(translated, on_chunk).await
            }
        };
        timeout(total, reply).await.unwrap_or_else(|_| Err(ProviderError::timed_out(total)))
    }

    async fn stream_reply(
        &self,
        translated: &ProviderRequest,
        on_chunk: &mut (dyn FnMut(ReplyChunk) + Send),
    ) -> Result<ProviderReply, ProviderError> {
        let target = self.endpoint.target(&self.model);
        let chat = translated.chat.clone();
        let mut reply = ProviderReply::default();
        let mut bytes = 0;
        let frames = Arc::new(FrameObserver::new(self.endpoint.wire));
        let options = translated.options.clone().with_raw_frame_sink_arc(frames.clone());
        let response = self.client.exec_chat_stream(target, chat, Some(&options)).await;
        let mut stream = response
            .map_err(|error| ProviderError::from_genai(error, &self.endpoint, false))?
            .stream;
        while let Some(event) = stream.next().await {
            let event = event.map_err(|error| {
                ProviderError::from_genai(error, &self.endpoint, frames.has_chunk())
            })?;
            // genai skips invalid chunks, so the reply would lack text without an error.
            if frames.has_unreadable() {
                return Err(ProviderError::unreadable());
            }
            match event {
                ChatStreamEvent::Chunk(chunk) => {
                    bytes += chunk.content.len();
                    reply.text.push_str(&chunk.content);
                    on_chunk(ReplyChunk::Text(chunk.content));
                }
                ChatStreamEvent::ReasoningChunk(chunk) => {
                    bytes += chunk.content.len();
                    reply.has_reasoning = true;
                }
                ChatStreamEvent::End(end) => {
                    let reply = reply.with_stream_end(end);
                    return match self.is_complete(&reply) {
                        true => Ok(reply),
                        false => {
                            Err(ProviderError::cut_off(&self.endpoint, frames.can_be_cut_off()))
                        }
                    };
                }
                ChatStreamEvent::ToolCallChunk(chunk) => {
                    // Each chunk repeats the arguments so far, so lengths are not added.
                    let length = chunk.tool_call.fn_arguments.as_str().map_or(0, str::len);
                    if length > MAX_REPLY {
                        return Err(ProviderError::too_large());
                    }
                }
                _ => {}
            }
            if bytes > MAX_REPLY {
                return Err(ProviderError::too_large());
            }
        }
        Err(ProviderError::cut_off(&self.endpoint, frames.can_be_cut_off()))
    }

    /// Returns `true` if a reply is complete.
    ///
    /// For three protocols genai reports an end for a stream that is merely interrupted.
    fn is_complete(&self, reply: &ProviderReply) -> bool {
        match self.endpoint.wire {
            ProviderProtocol::Gemini | ProviderProtocol::OpenaiResponses => reply.stop.is_some(),
            ProviderProtocol::Ollama => reply.stop.is_some() || reply.tokens.is_some(),
            _ => true,
        }
    }

    async fn complete_reply(
        &self,
        translated: &ProviderRequest,
        on_chunk: &mut (dyn FnMut(ReplyChunk) + Send),
    ) -> Result<ProviderReply, ProviderError> {
        let target = self.endpoint.target(&self.model);
        let response =
            self.client.exec_chat(target, translated.chat.clone(), Some(&translated.options)).await;
        let response =
            response.map_err(|error| ProviderError::from_genai(error, &self.endpoint, false))?;
        let reply = ProviderReply::from_response(response);
        if !reply.text.is_empty() {
            on_chunk(ReplyChunk::Text(reply.text.clone()));
        }
        Ok(reply)
    }
}
