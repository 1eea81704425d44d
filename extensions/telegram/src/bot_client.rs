//! The client of the Bot API.

use std::error::Error as _;
use std::net::IpAddr;
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Response, redirect};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use skillhost_payload::is_hidden;
use url::Url;

use crate::bot_token::BotToken;

/// The longest response, in bytes: more than a full batch of the longest updates.
const RESPONSE_LIMIT: usize = 32 << 20;
/// The timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of a call that the server does not hold.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest description of an error, in characters.
const DESCRIPTION_LIMIT: usize = 200;
/// The wait after too many requests, if the server names none.
const DEFAULT_WAIT: Duration = Duration::from_secs(5);
/// The longest wait after too many requests.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// An error of a call. Its texts contain neither the token nor a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BotApiError {
    /// The token is not valid, or not any more.
    Unauthorized { code: u16 },
    /// Another receiver of updates is active.
    Conflict { description: String },
    /// Too many requests.
    Throttled { wait: Duration },
    /// The request can never succeed.
    Refused { code: u16, description: String },
    /// The server could not be reached, or failed.
    Transient { reason: String },
}

/// The envelope of a response.
#[derive(Deserialize)]
struct ResponseEnvelope<'a> {
    #[serde(default)]
    ok: bool,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error_code: Option<u16>,
    description: Option<String>,
    parameters: Option<ResponseParameters>,
}

#[derive(Deserialize)]
struct ResponseParameters {
    retry_after: Option<u64>,
}

/// A client of one server of the Bot API.
pub(crate) struct BotClient {
    http: Client,
    base: Url,
}

impl BotClient {
    /// Creates a client.
    ///
    /// # Errors
    /// The reason why the URL cannot be used.
    pub(crate) fn new(base_url: &str) -> Result<Self, String> {
        let mut base = Url::parse(base_url).map_err(|error| error.to_string())?;
        let is_local = is_loopback(&base);
        match base.scheme() {
            "https" => {}
            // The token is in the URL, and other machines would see it.
            "http" if is_local => {}
            _ => return Err("only https, or http to this machine, is supported".to_owned()),
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err("a user name is not supported".to_owned());
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err("a query is not supported".to_owned());
        }
        if !base.path().ends_with('/') {
            // Methods are appended to the path.
            base.set_path(&format!("{}/", base.path()));
        }
        // Only the first call installs it; later calls fail with the same provider in place.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("skillhost/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            // A redirect must not send the token to another host.
            .redirect(redirect::Policy::none());
        if is_local {
            // A proxy of the environment cannot reach this machine, and certificates may be missing.
            builder = builder.no_proxy();
            if base.scheme() == "http" {
                builder = builder.tls_certs_only([]);
            }
        }
        let http = builder.build().map_err(|error| error.without_url().to_string())?;
        Ok(Self { http, base })
    }

    /// Calls a method.
    ///
    /// # Errors
    /// [`BotApiError`].
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        token: &BotToken,
        method: &str,
        parameters: &Value,
    ) -> Result<T, BotApiError> {
        self.call_within(token, method, parameters, CALL_TIMEOUT).await
    }

    /// Calls a method whose response the server may hold back.
    ///
    /// # Errors
    /// [`BotApiError`].
    pub(crate) async fn call_within<T: DeserializeOwned>(
        &self,
        token: &BotToken,
        method: &str,
        parameters: &Value,
        timeout: Duration,
    ) -> Result<T, BotApiError> {
        let mut url = self.base.clone();
        // Not `join`, which takes the colon of a token for the end of a scheme.
        url.set_path(&format!("{}bot{}/{method}", self.base.path(), token.expose()));
        let request = self
            .http
            .post(url)
            .timeout(timeout)
            .header(CONTENT_TYPE, "application/json")
            .body(parameters.to_string());
        let response = request.send().await.map_err(|error| transport_error(error, token))?;
        let status = response.status().as_u16();
        let body = read_body(response, token).await?;
        let envelope: Option<ResponseEnvelope<'_>> = serde_json::from_slice(&body).ok();
        match envelope {
            Some(envelope) if envelope.ok && (200..300).contains(&status) => {
                let result = envelope.result.map_or("null", RawValue::get);
                serde_json::from_str(result)
                    .map_err(|error| transient(&format!("{method}: {}", describe_json(&error))))
            }
            Some(envelope) => Err(to_api_error(status, &envelope, token)),
            // A proxy answers with pages.
            None => Err(status_error(status, "the response is not JSON", None)),
        }
    }
}

/// Returns whether a URL names this machine.
fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => host
            .trim_matches(['[', ']'])
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback()),
        None => false,
    }
}

/// Reads a body up to the limit.
async fn read_body(mut response: Response, token: &BotToken) -> Result<Vec<u8>, BotApiError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| transport_error(error, token))? {
        if body.len() + chunk.len() > RESPONSE_LIMIT {
            return Err(transient("the response is too large"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn transient(reason: &str) -> BotApiError {
    BotApiError::Transient { reason: reason.to_owned() }
}

/// Returns the innermost cause of an error of the connection, which names no URL.
fn transport_error(error: reqwest::Error, token: &BotToken) -> BotApiError {
    let (is_timeout, is_connect) = (error.is_timeout(), error.is_connect());
    // The URL contains the token.
    let error = error.without_url();
    let mut cause = error.to_string();
    let mut source = error.source();
    while let Some(deeper) = source {
        cause = deeper.to_string();
        source = deeper.source();
    }
    let cause = display_text(&cause, token);
    BotApiError::Transient {
        reason: match (is_timeout, is_connect) {
            (true, _) => "the request timed out".to_owned(),
            (false, true) => format!("the server is not reachable: {cause}"),
            (false, false) => format!("the connection was interrupted: {cause}"),
        },
    }
}

/// Describes an error of a JSON text without the text itself, which people wrote.
pub(crate) fn describe_json(error: &serde_json::Error) -> String {
    let kind = match error.classify() {
        serde_json::error::Category::Io | serde_json::error::Category::Eof => "ends too early",
        serde_json::error::Category::Syntax => "is not valid JSON",
        serde_json::error::Category::Data => "has an unexpected form",
    };
    format!("{kind} at column {}", error.column())
}

fn to_api_error(status: u16, envelope: &ResponseEnvelope<'_>, token: &BotToken) -> BotApiError {
    let description = envelope.description.as_deref().unwrap_or_default();
    let description = display_text(description, token);
    let wait = envelope.parameters.as_ref().and_then(|parameters| parameters.retry_after);
    // A server between the client and the API may change the status, not the body.
    status_error(envelope.error_code.unwrap_or(status), &description, wait)
}

fn status_error(code: u16, description: &str, wait: Option<u64>) -> BotApiError {
    let described = || match description.is_empty() {
        true => format!("status {code}"),
        false => description.to_owned(),
    };
    match code {
        401 | 404 => BotApiError::Unauthorized { code },
        409 => BotApiError::Conflict { description: described() },
        429 => BotApiError::Throttled {
            wait: wait.map_or(DEFAULT_WAIT, Duration::from_secs).clamp(
                // A wait of zero would be a busy loop.
                Duration::from_secs(1),
                MAX_WAIT,
            ),
        },
        400..=499 => BotApiError::Refused { code, description: described() },
        _ => transient(&format!("the server failed with status {code}: {}", described())),
    }
}

/// Returns an untrusted text in one short line, without the token and without hidden characters.
fn display_text(text: &str, token: &BotToken) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = token.mask(&line);
    line.chars().filter(|c| !is_hidden(*c)).take(DESCRIPTION_LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use fake_bot_api::{ApiFault, FakeBotApi};
    use serde_json::json;

    use super::*;

    const TOKEN: &str = "123456:AAF-secret_text";

    fn token() -> BotToken {
        BotToken::parse(TOKEN).unwrap()
    }

    async fn call(api: &FakeBotApi) -> Result<Value, BotApiError> {
        BotClient::new(&api.url()).unwrap().call(&token(), "getMe", &json!({})).await
    }

    #[test]
    fn base_url_is_checked() {
        for text in ["https://api.telegram.org", "http://127.0.0.1:1/a", "http://[::1]:1"] {
            assert!(BotClient::new(text).is_ok(), "{text}");
        }
        for text in [
            "http://api.telegram.org",
            "http://127.0.0.1.example.com",
            "ftp://127.0.0.1",
            "https://user@api.telegram.org",
            "https://api.telegram.org?a=b",
            "",
        ] {
            assert!(BotClient::new(text).is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn errors_are_classified() {
        let api = FakeBotApi::new(TOKEN);
        let status = |code, text: &str| ApiFault::Status(code, text.to_owned());
        let refused = |code, text: &str| BotApiError::Refused { code, description: text.into() };
        for (fault, expected) in [
            (status(401, "Unauthorized"), BotApiError::Unauthorized { code: 401 }),
            (status(404, "Not Found"), BotApiError::Unauthorized { code: 404 }),
            (status(400, "Bad Request: x"), refused(400, "Bad Request: x")),
            (status(403, "Forbidden"), refused(403, "Forbidden")),
            (status(409, "Conflict"), BotApiError::Conflict { description: "Conflict".into() }),
            (ApiFault::Throttle(7), BotApiError::Throttled { wait: Duration::from_secs(7) }),
            (ApiFault::Throttle(0), BotApiError::Throttled { wait: Duration::from_secs(1) }),
            (ApiFault::Throttle(u64::MAX), BotApiError::Throttled { wait: MAX_WAIT }),
            (
                status(502, "Bad Gateway"),
                transient("the server failed with status 502: Bad Gateway"),
            ),
            (
                ApiFault::Body("<html>".to_owned()),
                transient("the server failed with status 200: the response is not JSON"),
            ),
        ] {
            api.fail_next("getMe", fault.clone());
            assert_eq!(call(&api).await.unwrap_err(), expected, "{fault:?}");
        }
        assert_eq!(call(&api).await.unwrap()["username"], fake_bot_api::USERNAME);
    }

    #[tokio::test]
    async fn errors_never_contain_token() {
        let api = FakeBotApi::new(TOKEN);
        api.fail_next(
            "getMe",
            ApiFault::Status(400, format!("bad /bot{TOKEN}/getMe AAF-secret_text")),
        );
        api.fail_next("getMe", ApiFault::CutBefore);
        api.fail_next("getMe", ApiFault::Body("{\"ok\":true,\"result\":[".to_owned()));
        let mut texts: Vec<String> = Vec::new();
        for _ in 0..3 {
            texts.push(format!("{:?}", call(&api).await.unwrap_err()));
        }
        let url = api.url();
        drop(api);
        let client = BotClient::new(&url).unwrap();
        let gone = client.call::<Value>(&token(), "getMe", &json!({})).await.unwrap_err();
        texts.push(format!("{gone:?}"));
        for text in texts {
            assert!(!text.contains("AAF-secret_text") && !text.contains("127.0.0.1"), "{text}");
        }
    }

    #[tokio::test]
    async fn response_over_limit_is_refused() {
        let api = FakeBotApi::new(TOKEN);
        api.fail_next("getMe", ApiFault::Body(" ".repeat(RESPONSE_LIMIT + 1)));
        assert_eq!(call(&api).await.unwrap_err(), transient("the response is too large"));
    }
}
