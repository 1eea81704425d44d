//! What goes wrong with a provider, sorted: what it is, what to do, whether to try again.

use std::error::Error as _;
use std::time::Duration;

use genai::webc::StreamTimeout;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::Value;
use skillhost_kernel::{ModelError, ModelErrorKind as Kind};

use super::ProviderEndpoint;

/// Characters of a provider's own words that are repeated.
const LONGEST_QUOTE: usize = 400;

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProviderError {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    pub(crate) hint: String,
    /// Trying again may help.
    pub(crate) passing: bool,
    /// How long the provider asks to be left alone.
    pub(crate) wish: Option<Duration>,
}

/// What the words of a provider are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorTopic {
    Overflow,
    Money,
    Busy,
    Other,
}

impl ProviderError {
    fn new(kind: Kind, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: hint.into(), passing: false, wish: None }
    }

    fn retryable(self) -> Self {
        Self { passing: true, ..self }
    }

    /// The answer took longer than the whole of it may take.
    pub(crate) fn too_slow(limit: Duration) -> Self {
        Self::new(
            Kind::Timeout,
            format!("no whole answer within {} ms", limit.as_millis()),
            "raise `timeout_ms` of the provider, or ask for less",
        )
    }

    /// The answer ended before it was complete.
    pub(crate) fn cut_off(endpoint: &ProviderEndpoint, begun: bool) -> Self {
        if begun {
            return Self::new(Kind::Network, "the answer was cut off", "try again").retryable();
        }
        Self::new(
            Kind::Protocol,
            format!(
                "what {} answers is not what `{}` promises",
                endpoint.display_url(),
                endpoint.wire
            ),
            "check `wire` and `base_url` of the provider; most base URLs end in /v1",
        )
    }

    /// A part of the answer is damaged.
    pub(crate) fn unreadable() -> Self {
        let message = "the answer cannot be read: a chunk of it is damaged";
        Self::new(Kind::Protocol, message, "try again").retryable()
    }

    /// The answer is larger than anything a model says.
    pub(crate) fn too_large() -> Self {
        Self::new(Kind::Protocol, "the answer does not end", "ask another model")
    }

    /// Sorts an error of genai. `begun`: something of an answer had come.
    pub(crate) fn from_genai(
        error: genai::Error,
        endpoint: &ProviderEndpoint,
        begun: bool,
    ) -> Self {
        use genai::Error;
        use genai::webc::Error as Web;
        match error {
            Error::WebStream { error, cause, .. } => match error.downcast::<Error>() {
                Ok(inner) => Self::from_genai(*inner, endpoint, begun),
                Err(error) => match error.downcast::<StreamTimeout>() {
                    Ok(_) => Self::no_response(endpoint),
                    Err(error) => match error.downcast::<reqwest::Error>() {
                        Ok(error) => Self::transport(*error, endpoint),
                        Err(_) => Self::malformed(&cause, begun),
                    },
                },
            },
            Error::HttpError { status, body, headers, .. }
            | Error::WebModelCall {
                webc_error: Web::ResponseFailedStatus { status, body, headers },
                ..
            } => Self::status(status, &headers, &body, endpoint),
            Error::WebModelCall { webc_error: Web::Reqwest(error), .. } => {
                Self::transport(error, endpoint)
            }
            Error::WebModelCall { .. } => Self::cut_off(endpoint, false),
            Error::ChatResponse { body, .. } => Self::from_body(&body),
            Error::StreamParse { serde_error, .. } => {
                Self::malformed(&serde_error.to_string(), begun)
            }
            // The others hold the request or the answer, which are not for people.
            Error::ChatResponseGeneration { cause, .. } => Self::malformed(&cause, begun),
            _ => Self::malformed("not understood", begun),
        }
    }

    fn no_response(endpoint: &ProviderEndpoint) -> Self {
        Self::new(
            Kind::Timeout,
            format!(
                "{} was silent for {} ms",
                endpoint.display_url(),
                endpoint.silence.as_millis()
            ),
            "raise `silence_ms` of the provider if its model thinks for longer",
        )
    }

    fn transport(error: reqwest::Error, endpoint: &ProviderEndpoint) -> Self {
        // The URL may hold a key; what is shown of it is chosen here.
        let error = error.without_url();
        let mut cause = None;
        let mut source = error.source();
        while let Some(deeper) = source {
            cause = Some(deeper.to_string());
            source = deeper.source();
        }
        let cause = cause.unwrap_or_else(|| error.to_string());
        if error.is_connect() || error.is_timeout() {
            return Self::new(
                Kind::Network,
                format!("{} was not reached: {}", endpoint.display_url(), quote(&cause)),
                format!("is a server of `{}` running there? see `base_url`", endpoint.wire),
            )
            .retryable();
        }
        Self::new(
            Kind::Network,
            format!("the answer of {} was cut off: {}", endpoint.display_url(), quote(&cause)),
            "try again",
        )
        .retryable()
    }

    fn malformed(cause: &str, begun: bool) -> Self {
        match classify_error("", cause) {
            ErrorTopic::Overflow => Self::overflow(cause),
            ErrorTopic::Busy => Self::rate_limited(quote(cause), None),
            ErrorTopic::Money | ErrorTopic::Other => Self {
                passing: begun,
                ..Self::new(
                    Kind::Protocol,
                    format!("the answer cannot be read: {}", quote(cause)),
                    "check `wire` and `base_url` of the provider",
                )
            },
        }
    }

    fn overflow(words: &str) -> Self {
        Self::new(
            Kind::TooLong,
            format!("the request does not fit into the model's window: {}", quote(words)),
            "shorten the conversation, or use a model with a larger window",
        )
    }

    fn rate_limited(words: String, wish: Option<Duration>) -> Self {
        let hint = "wait a while, or use another model";
        Self { wish, ..Self::new(Kind::Busy, words, hint).retryable() }
    }

    /// An error that came within an answer.
    fn from_body(body: &Value) -> Self {
        let (code, words) = error_text(body);
        let words = words.unwrap_or_else(|| "the provider broke off without a reason".to_owned());
        match classify_error(&code, &words) {
            ErrorTopic::Overflow => Self::overflow(&words),
            ErrorTopic::Busy => Self::rate_limited(quote(&words), None),
            ErrorTopic::Money => Self::quota_exceeded(&words),
            ErrorTopic::Other => Self::new(Kind::Refused, quote(&words), "change the request"),
        }
    }

    fn quota_exceeded(words: &str) -> Self {
        Self::new(Kind::Refused, quote(words), "look at the account at the provider")
    }

    fn status(
        status: StatusCode,
        headers: &HeaderMap,
        body: &str,
        endpoint: &ProviderEndpoint,
    ) -> Self {
        let parsed: Value = serde_json::from_str(body).unwrap_or_default();
        let (code, said) = error_text(&parsed);
        let words = said.unwrap_or_else(|| format!("status {status}"));
        let about = classify_error(&code, &words);
        match status.as_u16() {
            // A provider may repeat a part of the key.
            401 | 403 => Self::new(
                Kind::Key,
                format!("{} refuses the key (status {})", endpoint.display_url(), status.as_u16()),
                endpoint.key_hint(),
            ),
            404 | 405 => Self::new(
                Kind::Unknown,
                format!("{}: {}", endpoint.display_url(), quote(&words)),
                "check the model's name and `base_url`; most base URLs end in /v1",
            ),
            _ if about == ErrorTopic::Overflow => Self::overflow(&words),
            402 => Self::quota_exceeded(&words),
            429 if about == ErrorTopic::Money => Self::quota_exceeded(&words),
            413 => Self::overflow(&words),
            408 | 409 | 425 | 429 | 500..=599 => Self::rate_limited(
                format!("status {}: {}", status.as_u16(), quote(&words)),
                retry_after(headers),
            ),
            300..=399 => Self::new(
                Kind::Refused,
                format!(
                    "{} sends us elsewhere (status {})",
                    endpoint.display_url(),
                    status.as_u16()
                ),
                "name the final address as `base_url`",
            ),
            number => Self::new(
                Kind::Refused,
                format!("status {number}: {}", quote(&words)),
                "change the request or the agent's `parameters`",
            ),
        }
    }

    /// The error of the model after the last attempt.
    pub(crate) fn into_error(self, model: &str, attempts: u32) -> ModelError {
        let mut message = self.message;
        if attempts > 1 {
            message.push_str(&format!(" (tried {attempts} times)"));
        }
        ModelError { kind: self.kind, model: model.to_owned(), message, hint: self.hint }
    }

    /// Takes a key out of everything that is said.
    pub(crate) fn without_key(mut self, key: Option<&str>) -> Self {
        if let Some(key) = key.filter(|key| key.len() > 3) {
            self.message = self.message.replace(key, "***");
            self.hint = self.hint.replace(key, "***");
        }
        self
    }
}

/// The code and the words of a provider's error.
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
    const MONEY: [&str; 4] =
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
    } else if any(&MONEY) {
        ErrorTopic::Money
    } else if any(&BUSY) {
        ErrorTopic::Busy
    } else {
        ErrorTopic::Other
    }
}

/// How long a provider asks to be left alone; a date is not read.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number("retry-after"));
    Duration::try_from_secs_f64(seconds?).ok()
}

/// A provider's words on one line, shortened.
fn quote(words: &str) -> String {
    let line: String =
        words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_QUOTE).collect();
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() > LONGEST_QUOTE { format!("{line} …") } else { line }
}
