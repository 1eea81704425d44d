//! Models behind a provider's wire.

mod failure;
mod frames;
mod names;
mod reply;
mod request;
mod thoughts;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use genai::adapter::AdapterKind;
use genai::chat::ChatStreamEvent;
use genai::resolver::{AuthData, Endpoint as GenaiEndpoint};
use genai::{Client, Headers, ModelIden, ServiceTarget};
use reqwest::{Url, redirect};
use skillhost_kernel::{
    ModelError, ModelMetadata, ModelProvider, ModelReply, ModelRequest, ProviderProtocol,
    ReplyChunk,
};
use tokio::time::timeout;

use crate::retry::{RetryTimer, retry_delay};
use failure::ProviderError;
use frames::FrameObserver;
use reply::ProviderReply;
use request::{ProviderRequest, RequestTranslator};

pub(crate) use reply::estimate_usage;
pub(crate) use thoughts::ReasoningCache;

/// Bytes of an answer; more is no answer.
const LONGEST_ANSWER: usize = 8 << 20;

/// Where a provider is, and with what patience it is asked.
#[derive(Clone)]
pub(crate) struct ProviderEndpoint {
    pub(crate) wire: ProviderProtocol,
    /// Ends in a slash.
    pub(crate) base_url: Url,
    pub(crate) key: Option<String>,
    /// The name of the key, where the provider has one.
    pub(crate) key_name: Option<String>,
    pub(crate) connect: Duration,
    pub(crate) silence: Duration,
    pub(crate) whole: Duration,
    pub(crate) retries: u32,
    pub(crate) stream: bool,
}

impl ProviderEndpoint {
    /// The address without anything secret in it.
    pub(crate) fn display_url(&self) -> String {
        let host = self.base_url.host_str().unwrap_or_default();
        let port = self.base_url.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}://{host}{port}{}", self.base_url.scheme(), self.base_url.path())
    }

    fn key_hint(&self) -> String {
        match &self.key_name {
            Some(name) => format!("check the value of {name}"),
            None => "the server wants a key: name it with `key` of the provider".to_owned(),
        }
    }

    /// A client for this endpoint.
    ///
    /// # Errors
    /// The words of the TLS library, where the machine has no certificates to trust.
    pub(crate) fn client(&self) -> Result<Client, String> {
        // Only the first call installs; it is the same provider every time.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("skillhost/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.connect)
            // A key must not follow to another host.
            .redirect(redirect::Policy::none());
        if self.base_url.scheme() == "http" {
            // No certificates are needed, and a machine may have none.
            builder = builder.tls_certs_only([]);
        }
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

    /// The service as genai has it.
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
            // genai wants a key on this wire; a server of one's own may want none.
            None if kind == AdapterKind::OpenAI => AuthData::RequestOverride {
                url: joined(&self.base_url, "chat/completions"),
                headers: Headers::default(),
            },
            None => AuthData::from_single("none"),
        };
        ServiceTarget {
            endpoint: GenaiEndpoint::from_owned(self.base_url.as_str()),
            auth,
            // genai takes what is before the first `::` off a name.
            model: ModelIden::new(kind, format!("skillhost::{model}")),
        }
    }
}

fn joined(base: &Url, path: &str) -> String {
    let mut url = base.join(path).unwrap_or_else(|_| base.clone());
    url.set_query(base.query());
    url.to_string()
}

/// A model of a provider.
pub(crate) struct ProviderModel {
    pub(crate) facts: ModelMetadata,
    /// As the provider knows it.
    pub(crate) model: String,
    pub(crate) max_output_tokens: Option<u32>,
    pub(crate) endpoint: ProviderEndpoint,
    pub(crate) client: Client,
    pub(crate) pause: Arc<dyn RetryTimer>,
    pub(crate) thoughts: Arc<ReasoningCache>,
}

#[async_trait]
impl ModelProvider for ProviderModel {
    fn metadata(&self) -> &ModelMetadata {
        &self.facts
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        on_piece: &mut (dyn FnMut(ReplyChunk) + Send),
    ) -> Result<ModelReply, ModelError> {
        let asked = self.translate(request);
        let mut attempts = 1;
        loop {
            let failure = match self.attempt(&asked, on_piece).await {
                Ok(answer) => return Ok(answer.into_reply(request, &asked.names, &self.thoughts)),
                Err(failure) => failure.without_key(self.endpoint.key.as_deref()),
            };
            let pause = retry_delay(attempts, failure.wish, self.pause.jitter())
                .filter(|_| failure.passing && attempts <= self.endpoint.retries);
            let Some(pause) = pause else {
                return Err(failure.into_error(&self.facts.name, attempts));
            };
            tracing::info!(
                model = self.facts.name,
                "asking again in {} ms: {}",
                pause.as_millis(),
                failure.message
            );
            on_piece(ReplyChunk::ReplyRestarted { reason: failure.message });
            self.pause.wait(pause).await;
            attempts += 1;
        }
    }
}

impl ProviderModel {
    fn translate(&self, request: &ModelRequest) -> ProviderRequest {
        let translation = RequestTranslator {
            wire: self.endpoint.wire,
            model: &self.model,
            thoughts: &self.thoughts,
            max_output_tokens: self.max_output_tokens,
        };
        let mut asked = translation.translate(request);
        asked.options.stream_header_timeout = Some(self.endpoint.silence);
        asked.options.stream_read_timeout = Some(self.endpoint.silence);
        if let (ProviderProtocol::Ollama, Some(key)) = (self.endpoint.wire, &self.endpoint.key) {
            let bearer = ("authorization".to_owned(), format!("Bearer {key}"));
            asked.options.extra_headers = Some(Headers::from(bearer));
        }
        asked
    }

    async fn attempt(
        &self,
        asked: &ProviderRequest,
        on_piece: &mut (dyn FnMut(ReplyChunk) + Send),
    ) -> Result<ProviderReply, ProviderError> {
        let whole = self.endpoint.whole;
        let answer = async {
            if self.endpoint.stream {
                self.stream_reply(asked, on_piece).await
            } else {
                self.complete_reply(asked, on_piece).await
            }
        };
        timeout(whole, answer).await.unwrap_or_else(|_| Err(ProviderError::too_slow(whole)))
    }

    async fn stream_reply(
        &self,
        asked: &ProviderRequest,
        on_piece: &mut (dyn FnMut(ReplyChunk) + Send),
    ) -> Result<ProviderReply, ProviderError> {
        let target = self.endpoint.target(&self.model);
        let chat = asked.chat.clone();
        let mut answer = ProviderReply::default();
        let mut bytes = 0;
        let frames = Arc::new(FrameObserver::new(self.endpoint.wire));
        let options = asked.options.clone().with_raw_frame_sink_arc(frames.clone());
        let response = self.client.exec_chat_stream(target, chat, Some(&options)).await;
        let mut stream = response
            .map_err(|error| ProviderError::from_genai(error, &self.endpoint, false))?
            .stream;
        while let Some(event) = stream.next().await {
            let event = event.map_err(|error| {
                ProviderError::from_genai(error, &self.endpoint, frames.has_chunk())
            })?;
            if frames.has_unreadable() {
                return Err(ProviderError::unreadable());
            }
            match event {
                ChatStreamEvent::Chunk(chunk) => {
                    bytes += chunk.content.len();
                    answer.text.push_str(&chunk.content);
                    on_piece(ReplyChunk::Text(chunk.content));
                }
                ChatStreamEvent::ReasoningChunk(chunk) => {
                    bytes += chunk.content.len();
                    answer.thought = true;
                }
                ChatStreamEvent::End(end) => {
                    let answer = answer.with_stream_end(end);
                    return match self.is_complete(&answer) {
                        true => Ok(answer),
                        false => {
                            Err(ProviderError::cut_off(&self.endpoint, frames.can_be_cut_off()))
                        }
                    };
                }
                ChatStreamEvent::ToolCallChunk(chunk) => {
                    // Each chunk repeats what came before it.
                    let length = chunk.tool_call.fn_arguments.as_str().map_or(0, str::len);
                    if length > LONGEST_ANSWER {
                        return Err(ProviderError::too_large());
                    }
                }
                _ => {}
            }
            if bytes > LONGEST_ANSWER {
                return Err(ProviderError::too_large());
            }
        }
        Err(ProviderError::cut_off(&self.endpoint, frames.can_be_cut_off()))
    }

    /// Whether an end that genai reports is one: on three wires it makes one up where a stream just
    /// stops.
    fn is_complete(&self, answer: &ProviderReply) -> bool {
        match self.endpoint.wire {
            ProviderProtocol::Gemini | ProviderProtocol::OpenaiResponses => answer.stop.is_some(),
            ProviderProtocol::Ollama => answer.stop.is_some() || answer.tokens.is_some(),
            _ => true,
        }
    }

    async fn complete_reply(
        &self,
        asked: &ProviderRequest,
        on_piece: &mut (dyn FnMut(ReplyChunk) + Send),
    ) -> Result<ProviderReply, ProviderError> {
        let target = self.endpoint.target(&self.model);
        let response =
            self.client.exec_chat(target, asked.chat.clone(), Some(&asked.options)).await;
        let response =
            response.map_err(|error| ProviderError::from_genai(error, &self.endpoint, false))?;
        let answer = ProviderReply::from_response(response);
        if !answer.text.is_empty() {
            on_piece(ReplyChunk::Text(answer.text.clone()));
        }
        Ok(answer)
    }
}
