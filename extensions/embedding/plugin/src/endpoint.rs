//! A client of servers with OpenAI's embeddings API.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize, Serialize};
use skillhost_sdk::serde_json;
use skillhost_sdk::tokio::{self, sync::Semaphore};
use ureq::http::{StatusCode, Uri};
use ureq::tls::{RootCerts, TlsConfig};

/// The maximum number of texts in one request.
const MAX_BATCH: usize = 64;

/// The maximum number of bytes of a text that are sent: servers reject longer texts.
const TEXT_LIMIT: usize = 16 * 1024;

/// The maximum number of response bytes per component: a number takes less than 30 as JSON.
const COMPONENT_LIMIT: u64 = 32;

/// The maximum number of concurrent requests. A hanging request occupies its thread until its
/// timeout, even if the caller is gone.
const MAX_CONCURRENT: usize = 2;

/// The setting `endpoint`.
#[derive(Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
pub(crate) struct EndpointConfig {
    url: String,
    model: String,
    dimension: u32,
    key: Option<String>,
    #[serde(default = "default_timeout_ms")]
    timeout_ms: u64,
}

fn default_timeout_ms() -> u64 {
    10_000
}

/// A configured server and the state of its last request.
pub(crate) struct EmbeddingEndpoint {
    cx: ExtensionContext,
    config: EndpointConfig,
    agent: ureq::Agent,
    permits: Arc<Semaphore>,
    /// The error of the last request, if it failed.
    last_error: Mutex<Option<ExtensionError>>,
}

impl EmbeddingEndpoint {
    /// Validates the settings. The first request is sent when a text is embedded.
    pub(crate) fn new(cx: ExtensionContext, config: EndpointConfig) -> Result<Self> {
        let local = validate_config(&config)?;
        let agent = build_agent(Duration::from_millis(config.timeout_ms), local);
        let permits = Arc::new(Semaphore::new(MAX_CONCURRENT));
        Ok(Self { cx, config, agent, permits, last_error: Mutex::default() })
    }

    pub(crate) fn model(&self) -> EmbeddingModelInfo {
        let id = format!("{}#{}", self.config.url.trim_end_matches('/'), self.config.model);
        EmbeddingModelInfo { id, dimension: self.config.dimension }
    }

    /// Returns the error of the last request, without sending a new one.
    pub(crate) fn health(&self) -> Result<()> {
        match &*self.last_error.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    pub(crate) async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let result = self.embed_batches(texts).await;
        let last_error = result.as_ref().err().cloned();
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = last_error;
        result
    }

    async fn embed_batches(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let key = match &self.config.key {
            None => None,
            Some(name) => Some(self.cx.secret(name).await?.ok_or_else(|| {
                ExtensionError::new(
                    ErrorKind::Unavailable,
                    format!("the secret `{name}` is not set"),
                )
                .with_hint(format!("set {name} in the environment or in the home's .env"))
            })?),
        };
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(MAX_BATCH) {
            let texts = batch.iter().map(|text| truncate_text(text).to_owned()).collect();
            let request = EndpointRequest {
                agent: self.agent.clone(),
                url: format!("{}/embeddings", self.config.url.trim_end_matches('/')),
                key: key.as_ref().map(|key| key.expose().to_owned()),
                model: self.config.model.clone(),
                dimension: self.config.dimension as usize,
                texts,
            };
            // The permit moves into the thread, so that it is released only when the thread ends.
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            let task = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                request.send()
            });
            vectors.extend(task.await.map_err(|error| ExtensionError::failed(error.to_string()))??);
        }
        Ok(vectors)
    }
}

/// Returns the part of a text that is sent; never empty, because servers reject empty texts.
fn truncate_text(text: &str) -> &str {
    match text.trim() {
        "" => " ",
        text => &text[..text.floor_char_boundary(TEXT_LIMIT)],
    }
}

/// Validates the settings; returns whether the server is on this machine.
fn validate_config(config: &EndpointConfig) -> Result<bool> {
    let config_error = |reason: String| {
        ExtensionError::invalid_argument(format!("config.model.endpoint: {reason}"))
            .with_hint("see `model` in manifests/embedding/manifest.yaml")
    };
    let url: Uri = config.url.parse().map_err(|error| config_error(format!("url: {error}")))?;
    let (Some(scheme @ ("http" | "https")), Some(host)) = (url.scheme_str(), url.host()) else {
        return Err(config_error(format!(
            "url: `{}` does not start with https:// or http://",
            config.url
        )));
    };
    let local = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    if config.key.is_some() && scheme == "http" && !local {
        return Err(config_error(
            "url: a key requires https:// or a server on this machine".to_owned(),
        ));
    }
    if url.query().is_some() || config.url.contains('#') {
        return Err(config_error(
            "url: a query or fragment is not valid; /embeddings is appended".into(),
        ));
    }
    if !(1..=65_536).contains(&config.dimension) {
        return Err(config_error(format!(
            "dimension: {} is not from 1 to 65536",
            config.dimension
        )));
    }
    if !(1..=600_000).contains(&config.timeout_ms) {
        return Err(config_error(format!(
            "timeout_ms: {} is not from 1 to 600000",
            config.timeout_ms
        )));
    }
    Ok(local)
}

/// Creates a client with the root certificates of the operating system and without redirects.
fn build_agent(timeout: Duration, local: bool) -> ureq::Agent {
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    let config = ureq::Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(timeout))
        // The body of an error response explains it, so it is read like any other.
        .http_status_as_error(false)
        // A redirect could send the key and the texts to another server.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("skillhost/", env!("CARGO_PKG_VERSION")));
    // A proxy cannot reach a server on this machine.
    let config = if local { config.proxy(None) } else { config };
    config.build().into()
}

/// One request with all its data, for a thread that may block.
struct EndpointRequest {
    agent: ureq::Agent,
    url: String,
    key: Option<String>,
    model: String,
    dimension: usize,
    texts: Vec<String>,
}

#[derive(Serialize)]
#[serde(crate = "serde")]
struct EmbeddingsRequestBody<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
}

#[derive(Deserialize)]
#[serde(crate = "serde")]
struct EmbeddingsResponseBody {
    data: Vec<EmbeddingRow>,
}

#[derive(Deserialize)]
#[serde(crate = "serde")]
struct EmbeddingRow {
    index: usize,
    embedding: Vec<f32>,
}

impl EndpointRequest {
    fn send(self) -> Result<Vec<Vec<f32>>> {
        let body = EmbeddingsRequestBody {
            model: &self.model,
            input: &self.texts,
            encoding_format: "float",
        };
        let body = serde_json::to_vec(&body)
            .map_err(|error| ExtensionError::new(ErrorKind::Protocol, error.to_string()))?;
        let mut request = self.agent.post(&self.url).content_type("application/json");
        if let Some(key) = &self.key {
            request = request.header("Authorization", format!("Bearer {key}"));
        }
        let mut response = request.send(&body).map_err(|error| self.transport_error(&error))?;
        let numbers = self.texts.len().saturating_mul(self.dimension) as u64;
        let limit = numbers.saturating_mul(COMPONENT_LIMIT).saturating_add(64 * 1024);
        let status = response.status();
        let body = response.body_mut().with_config().limit(limit).read_to_vec();
        let body = body.map_err(|error| self.transport_error(&error))?;
        if status != StatusCode::OK {
            return Err(self.http_status_error(status, &body));
        }
        let response_body: EmbeddingsResponseBody =
            serde_json::from_slice(&body).map_err(|error| {
                self.malformed_response_error(&format!("response is not valid: {error}"))
            })?;
        self.to_vectors(response_body)
    }

    /// Returns the vectors in the order of the texts, normalized to length one.
    fn to_vectors(&self, response_body: EmbeddingsResponseBody) -> Result<Vec<Vec<f32>>> {
        let count = response_body.data.len();
        if count != self.texts.len() {
            return Err(self.malformed_response_error(&format!(
                "received {count} vectors for {} texts",
                self.texts.len()
            )));
        }
        let mut vectors = vec![Vec::new(); count];
        for EmbeddingRow { index, embedding } in response_body.data {
            if embedding.len() != self.dimension {
                let error = self.malformed_response_error(&format!(
                    "vectors have {} components, but `dimension` is {}",
                    embedding.len(),
                    self.dimension
                ));
                return Err(
                    error.with_hint("correct `dimension` of the endpoint in skillhost.yaml")
                );
            }
            match vectors.get_mut(index).filter(|vector| vector.is_empty()) {
                Some(vector) => *vector = normalize_vector(embedding),
                None => {
                    return Err(self.malformed_response_error(&format!(
                        "index {index} of a vector is not valid"
                    )));
                }
            }
        }
        Ok(vectors)
    }

    fn malformed_response_error(&self, reason: &str) -> ExtensionError {
        ExtensionError::new(ErrorKind::Protocol, format!("{}: {reason}", self.url))
    }

    fn transport_error(&self, error: &ureq::Error) -> ExtensionError {
        let kind = match error {
            ureq::Error::Timeout(_) => ErrorKind::Timeout,
            ureq::Error::BodyExceedsLimit(_) => ErrorKind::TooLarge,
            _ => ErrorKind::Unavailable,
        };
        ExtensionError::new(kind, format!("{}: {error}", self.url))
    }

    /// Returns the error for a status, with the printable start of the server's message.
    fn http_status_error(&self, status: StatusCode, body: &[u8]) -> ExtensionError {
        let text = String::from_utf8_lossy(body);
        let words: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
        let (kind, hint) = match status.as_u16() {
            // Hints name the setting that most likely causes the status.
            401 | 403 => (ErrorKind::Denied, "check the secret that `key` names"),
            404 => (ErrorKind::NotFound, "check `url` and `model`: /embeddings is added to `url`"),
            300..=399 => {
                (ErrorKind::Failed, "set `url` to the redirect target; redirects are not followed")
            }
            429 | 500..=599 => (ErrorKind::Unavailable, ""),
            _ => (ErrorKind::Failed, ""),
        };
        let message = format!("{}: {status} {}", self.url, words.trim());
        ExtensionError::new(kind, message.trim_end()).with_hint(hint)
    }
}

fn normalize_vector(mut vector: Vec<f32>) -> Vec<f32> {
    let squares: f64 = vector.iter().map(|number| f64::from(*number) * f64::from(*number)).sum();
    let length = squares.sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|number| *number = (f64::from(*number) / length) as f32);
    }
    vector
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use super::*;

    /// Spawns a server for one request; joining it returns the head and body of the request.
    fn server(status: &str, body: &str) -> (String, JoinHandle<(String, Value)>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") {
                let start = head.len();
                assert_ne!(reader.read_line(&mut head).unwrap(), 0);
                let line = head[start..].to_ascii_lowercase();
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            // The client may have closed the connection already.
            let _ = stream.write_all(answer.as_bytes());
            (head.to_ascii_lowercase(), serde_json::from_slice(&body).unwrap())
        });
        (url, thread)
    }

    fn request(url: &str, texts: &[&str]) -> EndpointRequest {
        EndpointRequest {
            agent: build_agent(Duration::from_secs(60), true),
            url: format!("{url}/embeddings"),
            key: Some("s3cret".to_owned()),
            model: "small".to_owned(),
            dimension: 2,
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        }
    }

    /// Returns kind, message and hint of the error for a response to a request for two texts.
    fn fault(status: &str, body: impl Into<String>) -> (ErrorKind, String, String) {
        let (url, thread) = server(status, &body.into());
        let error = request(&url, &["a", "b"]).send().unwrap_err();
        let _ = thread.join();
        let message = error.message().replace(&url, "URL");
        (error.kind(), message, error.hint().to_owned())
    }

    #[test]
    fn vectors_follow_text_order() {
        let answer = json!({"object": "list", "data": [
            {"index": 1, "embedding": [0.0, 2.0]},
            {"index": 0, "embedding": [3.0, -4.0], "object": "embedding"},
        ], "usage": {"total_tokens": 2}});
        let (url, thread) = server("200 OK", &answer.to_string());
        let vectors = request(&url, &["one \"text\"", "zwei"]).send().unwrap();
        assert_eq!(vectors, [vec![0.6, -0.8], vec![0.0, 1.0]]);
        let (head, body) = thread.join().unwrap();
        assert!(head.starts_with("post /v1/embeddings http/1.1\r\n"), "{head}");
        assert!(head.contains("\r\nauthorization: bearer s3cret\r\n"), "{head}");
        assert!(head.contains("\r\ncontent-type: application/json\r\n"), "{head}");
        let input = ["one \"text\"", "zwei"];
        assert_eq!(body, json!({"model": "small", "input": input, "encoding_format": "float"}));
    }

    #[test]
    fn invalid_response_is_reported() {
        let fault = |status: &str, body: String| {
            let (kind, message, hint) = fault(status, body);
            assert!(!format!("{message}{hint}").contains("s3cret"), "{message}");
            (kind, message, hint)
        };
        let expected =
            |kind, message: &str, hint: &str| (kind, message.to_owned(), hint.to_owned());
        let data = |list: Value| json!({ "data": list }).to_string();
        let one = json!({"index": 0, "embedding": [1, 1]});
        assert_eq!(
            fault("200 OK", data(json!([one]))),
            expected(ErrorKind::Protocol, "URL/embeddings: received 1 vectors for 2 texts", "")
        );
        assert_eq!(
            fault("200 OK", data(json!([one, one]))),
            expected(ErrorKind::Protocol, "URL/embeddings: index 0 of a vector is not valid", "")
        );
        assert_eq!(
            fault("200 OK", data(json!([one, {"index": 1, "embedding": [1, 2, 3]}]))),
            expected(
                ErrorKind::Protocol,
                "URL/embeddings: vectors have 3 components, but `dimension` is 2",
                "correct `dimension` of the endpoint in skillhost.yaml"
            )
        );
        let (kind, message, _) = fault("200 OK", "<html>".to_owned());
        assert_eq!(kind, ErrorKind::Protocol);
        assert!(message.starts_with("URL/embeddings: response is not valid: expected value"));
        assert_eq!(
            fault("401 Unauthorized", "no such\u{1b} key\n".to_owned()),
            expected(
                ErrorKind::Denied,
                "URL/embeddings: 401 Unauthorized no such key",
                "check the secret that `key` names"
            )
        );
        assert_eq!(
            fault("503 Service Unavailable", String::new()),
            expected(ErrorKind::Unavailable, "URL/embeddings: 503 Service Unavailable", "")
        );
        let (kind, message, _) = fault("200 OK", " ".repeat(100_000));
        assert_eq!(kind, ErrorKind::TooLarge, "{message}");
    }

    #[test]
    fn redirect_is_not_followed() {
        let elsewhere = "302 Found\r\nlocation: http://127.0.0.1:9/";
        let (kind, message, hint) = fault(elsewhere, "");
        assert_eq!((kind, &*message), (ErrorKind::Failed, "URL/embeddings: 302 Found"));
        assert_eq!(hint, "set `url` to the redirect target; redirects are not followed");
    }

    #[test]
    fn unreachable_server_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let mut silent = request(&url, &["a"]);
        silent.agent = build_agent(Duration::from_millis(50), true);
        assert_eq!(silent.send().unwrap_err().kind(), ErrorKind::Timeout);
        drop(listener);
        assert_eq!(request(&url, &["a"]).send().unwrap_err().kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn sent_text_is_truncated_and_nonempty() {
        assert_eq!(
            [truncate_text(""), truncate_text(" \n"), truncate_text(" a ")],
            [" ", " ", "a"]
        );
        assert_eq!(truncate_text(&"é".repeat(10_000)), "é".repeat(8_192));
        assert_eq!(truncate_text(&format!("a{}", "é".repeat(10_000))).len(), TEXT_LIMIT - 1);
    }

    #[test]
    fn invalid_settings_are_rejected() {
        let checked = |rest: Value| {
            let mut config = json!({"url": "https://host/v1", "model": "m", "dimension": 2});
            config.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            validate_config(&serde_json::from_value(config).unwrap()).map_err(|error| {
                error.message().strip_prefix("config.model.endpoint: ").unwrap().to_owned()
            })
        };
        let rejection = |rest: Value| checked(rest).unwrap_err();
        assert_eq!(checked(json!({"key": "K"})), Ok(false));
        assert_eq!(checked(json!({"url": "http://lan:8080"})), Ok(false));
        assert_eq!(checked(json!({"url": "http://127.0.0.1:8080/v1/", "key": "K"})), Ok(true));
        assert_eq!(
            rejection(json!({"url": "http://lan/v1", "key": "K"})),
            "url: a key requires https:// or a server on this machine"
        );
        let scheme = "url: `ftp://host/` does not start with https:// or http://";
        assert_eq!(rejection(json!({"url": "ftp://host/"})), scheme);
        assert_eq!(
            rejection(json!({"url": "https://host/?a=b"})),
            "url: a query or fragment is not valid; /embeddings is appended"
        );
        assert!(rejection(json!({"url": "https://a b"})).starts_with("url: "));
        assert_eq!(rejection(json!({"dimension": 0})), "dimension: 0 is not from 1 to 65536");
        assert_eq!(rejection(json!({"timeout_ms": 0})), "timeout_ms: 0 is not from 1 to 600000");
    }
}
