//! Errors of providers, classified by kind, hint and retryability.

use std::error::Error as _;
use std::time::Duration;

use genai::webc::StreamTimeout;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::Value;
use skillhost_conversation::{ModelError, ModelErrorKind as Kind};

use super::ProviderEndpoint;

/// The maximum length of a quoted provider message, in characters.
const MAX_QUOTE: usize = 400;

/// The error of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProviderError {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    pub(crate) hint: String,
    /// `true` if another attempt may succeed.
    pub(crate) is_retryable: bool,
    /// The delay that the provider requests.
    pub(crate) retry_after: Option<Duration>,
    /// `true` if no connection was made.
    is_unreachable: bool,
}

/// The topic of a provider's error message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorTopic {
    Overflow,
    Quota,
    Busy,
    Other,
}

impl ProviderError {
    fn new(kind: Kind, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let (message, hint) = (message.into(), hint.into());
        Self { kind, message, hint, is_retryable: false, retry_after: None, is_unreachable: false }
    }

    fn into_retryable(self) -> Self {
        Self { is_retryable: true, ..self }
    }

    /// Returns whether the provider may have worked on the request.
    pub(crate) fn may_be_charged(&self) -> bool {
        !self.is_unreachable && matches!(self.kind, Kind::Timeout | Kind::Network | Kind::Protocol)
    }

    /// Returns the error for a reply that exceeds the total timeout.
    pub(crate) fn timed_out(limit: Duration) -> Self {
        Self::new(
            Kind::Timeout,
            format!("reply timed out after {} ms", limit.as_millis()),
            "raise `timeout_ms` of the provider, or shorten the request",
        )
    }

    /// Returns the error for a reply that ended early.
    ///
    /// A reply that never started comes from a server of another kind.
    pub(crate) fn cut_off(endpoint: &ProviderEndpoint, started: bool) -> Self {
        if started {
            return Self::new(Kind::Network, "reply was interrupted", "try again").into_retryable();
        }
        Self::new(
            Kind::Protocol,
            format!(
                "response of {} is not valid for the protocol `{}`",
                endpoint.display_url(),
                endpoint.wire
            ),
            "check `wire` and `base_url` of the provider; most base URLs end in /v1",
        )
    }

    /// Returns the error for a reply with an invalid chunk.
    pub(crate) fn unreadable() -> Self {
        let message = "reply is not valid: a chunk is damaged";
        Self::new(Kind::Protocol, message, "try again").into_retryable()
    }

    /// Returns the error for a reply that exceeds the size limit.
    pub(crate) fn too_large() -> Self {
        Self::new(Kind::Protocol, "reply exceeds 8 MiB", "use another model")
    }

    /// Classifies an error of genai; `started` is `true` if a part of the reply had arrived.
    pub(crate) fn from_genai(
        error: genai::Error,
        endpoint: &ProviderEndpoint,
        started: bool,
    ) -> Self {
        use genai::Error;
        use genai::webc::Error as Web;
        match error {
            Error::WebStream { error, cause, .. } => match error.downcast::<Error>() {
                Ok(inner) => Self::from_genai(*inner, endpoint, started),
                Err(error) => match error.downcast::<StreamTimeout>() {
                    Ok(_) => Self::no_response(endpoint),
                    Err(error) => match error.downcast::<reqwest::Error>() {
                        Ok(error) => Self::from_transport(*error, endpoint),
                        Err(_) => Self::malformed(&cause, started),
                    },
                },
            },
            Error::HttpError { status, body, headers, .. }
            | Error::WebModelCall {
                webc_error: Web::ResponseFailedStatus { status, body, headers },
                ..
            } => Self::from_status(status, &headers, &body, endpoint),
            Error::WebModelCall { webc_error: Web::Reqwest(error), .. } => {
                Self::from_transport(error, endpoint)
            }
            Error::WebModelCall { .. } => Self::cut_off(endpoint, false),
            Error::ChatResponse { body, .. } => Self::from_body(&body),
            Error::StreamParse { serde_error, .. } => {
                Self::malformed(&serde_error.to_string(), started)
            }
            // The other errors contain the request or the reply, which must not appear in messages.
            Error::ChatResponseGeneration { cause, .. } => Self::malformed(&cause, started),
            _ => Self::malformed("not understood", started),
        }
    }

    fn no_response(endpoint: &ProviderEndpoint) -> Self {
        Self::new(
            Kind::Timeout,
            format!(
                "{} timed out after {} ms without data",
                endpoint.display_url(),
                endpoint.idle.as_millis()
            ),
            "raise `silence_ms` of the provider if its model requires more time",
        )
    }

    fn from_transport(error: reqwest::Error, endpoint: &ProviderEndpoint) -> Self {
        // The URL may contain a key, so only the display form appears in the message.
        let error = error.without_url();
        // The innermost cause, such as a refused connection, is the one that helps the operator.
        let mut cause = None;
        let mut source = error.source();
        while let Some(deeper) = source {
            cause = Some(deeper.to_string());
            source = deeper.source();
        }
        let cause = cause.unwrap_or_else(|| error.to_string());
        if error.is_connect() || error.is_timeout() {
            let unreachable = Self::new(
                Kind::Network,
                format!("{} is not reachable: {}", endpoint.display_url(), quote(&cause)),
                format!("start a server of `{}` there, or correct `base_url`", endpoint.wire),
            );
            return Self { is_unreachable: true, ..unreachable.into_retryable() };
        }
        Self::new(
            Kind::Network,
            format!("reply of {} was interrupted: {}", endpoint.display_url(), quote(&cause)),
            "try again",
        )
        .into_retryable()
    }

    fn malformed(cause: &str, started: bool) -> Self {
        match classify_error("", cause) {
            ErrorTopic::Overflow => Self::overflow(cause),
            ErrorTopic::Busy => Self::rate_limited(quote(cause), None),
            ErrorTopic::Quota | ErrorTopic::Other => Self {
                // After a valid part, the server is the right one and the error may be temporary.
                is_retryable: started,
                ..Self::new(
                    Kind::Protocol,
                    format!("reply is not valid: {}", quote(cause)),
                    "check `wire` and `base_url` of the provider",
                )
            },
        }
    }

    fn overflow(words: &str) -> Self {
        Self::new(
            Kind::TooLong,
            format!("request exceeds the model's context window: {}", quote(words)),
            "shorten the thread, or use a model with a larger context window",
        )
    }

    fn rate_limited(words: String, retry_after: Option<Duration>) -> Self {
        let hint = "retry later, or use another model";
        Self { retry_after, ..Self::new(Kind::Busy, words, hint).into_retryable() }
    }

    /// Classifies an error that is part of a reply.
    fn from_body(body: &Value) -> Self {
        let (code, words) = error_text(body);
        let words = words.unwrap_or_else(|| "provider stopped without a reason".to_owned());
        match classify_error(&code, &words) {
            ErrorTopic::Overflow => Self::overflow(&words),
            ErrorTopic::Busy => Self::rate_limited(quote(&words), None),
            ErrorTopic::Quota => Self::quota_exceeded(&words),
            ErrorTopic::Other => Self::new(Kind::Refused, quote(&words), "change the request"),
        }
    }

    fn quota_exceeded(words: &str) -> Self {
        Self::new(Kind::Refused, quote(words), "check the account at the provider")
    }

    fn from_status(
        status: StatusCode,
        headers: &HeaderMap,
        body: &str,
        endpoint: &ProviderEndpoint,
    ) -> Self {
        let parsed: Value = serde_json::from_str(body).unwrap_or_default();
        let (code, message) = error_text(&parsed);
        let words = message.unwrap_or_else(|| format!("status {status}"));
        let topic = classify_error(&code, &words);
        match status.as_u16() {
            // The provider's message is left out, since it may quote a part of the key.
            401 | 403 => Self::new(
                Kind::Key,
                format!("{} rejected the key (status {})", endpoint.display_url(), status.as_u16()),
                endpoint.key_hint(),
            ),
            404 | 405 => Self::new(
                Kind::Unknown,
                format!("{}: {}", endpoint.display_url(), quote(&words)),
                "check the model's name and `base_url`; most base URLs end in /v1",
            ),
            // Providers report an overflow with different statuses.
            _ if topic == ErrorTopic::Overflow => Self::overflow(&words),
            402 => Self::quota_exceeded(&words),
            // A used-up quota does not recover within the delays of a retry.
            429 if topic == ErrorTopic::Quota => Self::quota_exceeded(&words),
            413 => Self::overflow(&words),
            408 | 409 | 425 | 429 | 500..=599 => Self::rate_limited(
                format!("status {}: {}", status.as_u16(), quote(&words)),
                parse_retry_after(headers),
            ),
            // Redirects are disabled, because they could send the key to another host.
            300..=399 => Self::new(
                Kind::Refused,
                format!(
                    "{} redirects to another address (status {})",
                    endpoint.display_url(),
                    status.as_u16()
                ),
                "set `base_url` to the final address",
            ),
            number => Self::new(
                Kind::Refused,
                format!("status {number}: {}", quote(&words)),
                "change the request or the agent's `parameters`",
            ),
        }
    }

    /// Converts to the error of the model after the last attempt.
    pub(crate) fn into_error(self, model: &str, attempts: u32) -> ModelError {
        let mut message = self.message;
        if attempts > 1 {
            message.push_str(&format!(" (tried {attempts} times)"));
        }
        ModelError { kind: self.kind, model: model.to_owned(), message, hint: self.hint }
    }

    /// Replaces the key in the message and the hint.
    pub(crate) fn without_key(mut self, key: Option<&str>) -> Self {
        // A very short key would match parts of words.
        if let Some(key) = key.filter(|key| key.len() > 3) {
            self.message = self.message.replace(key, "***");
            self.hint = self.hint.replace(key, "***");
        }
        self
    }
}

/// Returns the code and the message of a provider's error.
fn error_text(body: &Value) -> (String, Option<String>) {
    // Gemini wraps the errors of streams in a list.
    let body = body.get(0).unwrap_or(body);
    let error = body.get("error").unwrap_or(body);
    let text = |keys: &[&str]| {
        let found = keys.iter().find_map(|key| error.get(key).and_then(Value::as_str));
        found.map(str::to_owned)
    };
    let code: Vec<_> =
        ["code", "type", "status"].iter().filter_map(|key| error.get(key)?.as_str()).collect();
    let words = text(&["message", "detail"]).or_else(|| error.as_str().map(str::to_owned));
    (code.join(" "), words)
}

fn classify_error(code: &str, words: &str) -> ErrorTopic {
    // Providers have no common codes, so their texts are matched as well.
    const OVERFLOW: [&str; 14] = [
        "context_length_exceeded",
        "exceed_context_size",
        "request_too_large",
        "context length",
        "context window",
        "context size",
        "context limit",
        "maximum context",
        "prompt is too long",
        "input is too long",
        "too many tokens",
        "input token count",
        "maximum number of tokens",
        "request too large",
    ];
    const QUOTA: [&str; 4] =
        ["insufficient_quota", "billing", "credit balance", "exceeded your current quota"];
    const BUSY: [&str; 9] = [
        "overloaded",
        "rate_limit",
        "rate limit",
        "server_error",
        "server had an error",
        "internal error",
        "unavailable",
        "try again",
        "api_error",
    ];
    let text = format!("{code} {words}").to_lowercase();
    let any = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if any(&OVERFLOW) {
        ErrorTopic::Overflow
    } else if any(&QUOTA) {
        ErrorTopic::Quota
    } else if any(&BUSY) {
        ErrorTopic::Busy
    } else {
        ErrorTopic::Other
    }
}

/// Returns the delay that a provider requests; a date is ignored.
fn parse_retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number("retry-after"));
    Duration::try_from_secs_f64(seconds?).ok()
}

/// Quotes a provider's message on one line, truncated.
fn quote(words: &str) -> String {
    let line: String =
        words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_QUOTE).collect();
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() > MAX_QUOTE { format!("{line} …") } else { line }
}
