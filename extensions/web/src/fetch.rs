//! `web_fetch`: the text of one page.

use std::io::Read as _;
use std::time::{Duration, Instant};

use encoding_rs::{Encoding, UTF_8};
use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize};
use ureq::Body;
use ureq::http::{HeaderMap, Response, StatusCode, header};
use url::Url;

use crate::client::as_refused_address;
use crate::html::extract_text;
use crate::untrusted::{mark_untrusted, remove_hidden, to_line};

/// The start of a page that may name its encoding, in bytes.
const ENCODING_PREFIX: usize = 1024;
/// The maximum length of an address in bytes.
pub(crate) const URL_LIMIT: usize = 2048;
/// The maximum length of a content type, as RFC 6838 has it, in bytes.
const TYPE_LIMIT: usize = 127 + 1 + 127;

/// The arguments of `web_fetch`.
#[derive(Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
pub(crate) struct FetchArgs {
    pub(crate) url: String,
    /// The character of the page's text at which the result begins.
    #[serde(default)]
    pub(crate) offset: usize,
    pub(crate) max_chars: Option<usize>,
}

/// The limits of a fetch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FetchLimits {
    /// For all hops together.
    pub(crate) timeout: Duration,
    pub(crate) max_bytes: usize,
    pub(crate) max_chars: usize,
    pub(crate) max_redirects: usize,
}

/// Fetches the text of a page; blocks until it is there.
///
/// # Errors
/// [`ErrorKind::Denied`] for an address that is not public, [`ErrorKind::InvalidArgument`] for a URL
/// that is not valid and content that is not text, and one for each failure of the server.
pub(crate) fn fetch_page(
    client: &ureq::Agent,
    limits: &FetchLimits,
    args: &FetchArgs,
) -> Result<ToolOutput> {
    let start = parse_url(&args.url, None)?;
    let (url, mut response) = follow_redirects(client, limits, start)?;
    let status = response.status();
    if status != StatusCode::OK {
        return Err(status_error(&url, status));
    }
    let content_type = ContentType::from_headers(response.headers())
        .map_err(|error| content_error(&url, &error))?;
    let (bytes, is_cut) = read_body(&mut response, &url, limits.max_bytes)?;
    let page = to_page(&url, &content_type, &bytes).map_err(|error| content_error(&url, &error))?;
    let page = FetchedPage { is_cut: is_cut || page.is_cut, ..page };
    to_output(&url, &page, args, limits)
}

/// Parses and checks a URL of a model, or the target of a redirect.
fn parse_url(text: &str, base: Option<&Url>) -> Result<Url> {
    let invalid = |reason: &str| {
        let shown = to_line(text, 200);
        ExtensionError::invalid_argument(format!("`{shown}` {reason}"))
            .with_hint("pass a complete address such as https://example.com/page")
    };
    if text.len() > URL_LIMIT {
        return Err(invalid("is too long for an address"));
    }
    let parsed = Url::options().base_url(base).parse(text.trim());
    let url = parsed.map_err(|error| invalid(&format!("is not a valid address: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("is not an http or https address"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("contains a user name, which is not supported"));
    }
    Ok(url)
}

/// Requests a page and follows its redirects, each of which is checked like the first address.
fn follow_redirects(
    client: &ureq::Agent,
    limits: &FetchLimits,
    mut url: Url,
) -> Result<(Url, Response<Body>)> {
    let deadline = Instant::now() + limits.timeout;
    for _ in 0..=limits.max_redirects {
        url.set_fragment(None);
        let rest = deadline.saturating_duration_since(Instant::now());
        // A duration of zero would mean no timeout.
        let rest = rest.max(Duration::from_millis(1));
        let request = client.get(url.as_str()).config().timeout_global(Some(rest)).build();
        let response = request
            .header(header::ACCEPT, "text/html, text/*;q=0.9, application/json;q=0.8, */*;q=0.1")
            .call()
            .map_err(|error| request_error(&url, &error))?;
        if !response.status().is_redirection() {
            return Ok((url, response));
        }
        let target = response.headers().get(header::LOCATION);
        let Some(target) = target.map(|target| String::from_utf8_lossy(target.as_bytes())) else {
            return Ok((url, response));
        };
        url = parse_url(&target, Some(&url)).map_err(|error| {
            let message = format!("redirect of {}: {}", display_url(&url), error.message());
            ExtensionError::new(ErrorKind::Denied, message)
        })?;
    }
    let message = format!("{}: more than {} redirects", display_url(&url), limits.max_redirects);
    Err(ExtensionError::failed(message).with_hint("fetch another address of the page"))
}

fn request_error(url: &Url, error: &ureq::Error) -> ExtensionError {
    if let Some(refused) = as_refused_address(error) {
        let message = format!("{}: {refused}", display_url(url));
        return ExtensionError::new(ErrorKind::Denied, message).with_hint(
            "only public addresses can be fetched; an operator can add others to \
             `extensions.web_search.allow_addresses` in skillhost.yaml",
        );
    }
    let message = format!("{}: {error}", display_url(url));
    match error {
        ureq::Error::Timeout(_) => ExtensionError::new(ErrorKind::Timeout, message),
        ureq::Error::HostNotFound => ExtensionError::not_found(message)
            .with_hint("check the address, or find the page with web_search"),
        _ => ExtensionError::new(ErrorKind::Unavailable, message),
    }
}

fn status_error(url: &Url, status: StatusCode) -> ExtensionError {
    let message = format!("{}: {status}", display_url(url));
    match status.as_u16() {
        404 | 410 => ExtensionError::not_found(message)
            .with_hint("check the address, or find the page with web_search"),
        401 | 403 => ExtensionError::new(ErrorKind::Denied, message)
            .with_hint("the page requires a login or refuses programs; use another source"),
        429 | 500..=599 => ExtensionError::new(ErrorKind::Unavailable, message),
        _ => ExtensionError::failed(message),
    }
}

/// Returns the error for content that cannot be shown as text.
fn content_error(url: &Url, reason: &str) -> ExtensionError {
    ExtensionError::invalid_argument(format!("{}: {reason}", display_url(url)))
        .with_hint("only HTML and text can be fetched; look for a page about this file")
}

/// Returns an address for a message.
fn display_url(url: &Url) -> String {
    to_line(url.as_str(), 300)
}

/// The type of a page's content.
#[derive(Debug, PartialEq, Eq)]
struct ContentType {
    kind: ContentKind,
    encoding: Option<&'static Encoding>,
    /// As the server sends it, for the result.
    essence: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContentKind {
    Html,
    Text,
    /// The server names no type.
    Unknown,
}

impl ContentType {
    /// Returns the type in the headers of a response.
    ///
    /// # Errors
    /// The reason why the content cannot be shown as text.
    fn from_headers(headers: &HeaderMap) -> Result<Self, String> {
        // No encoding was requested, so a compressed page is not decompressed either.
        let coding = headers.get(header::CONTENT_ENCODING).map(|it| it.to_str().unwrap_or("?"));
        if let Some(coding) = coding.filter(|coding| !coding.eq_ignore_ascii_case("identity")) {
            return Err(format!("content encoding `{}` is not supported", to_line(coding, 40)));
        }
        let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let mut parts = value.unwrap_or_default().split(';');
        let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let charset = parts.find_map(|part| {
            let (key, value) = part.split_once('=')?;
            key.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
        });
        // The result names the type outside of the marks around untrusted text.
        let is_type = |c: char| c.is_ascii_alphanumeric() || "!#$&^_.+-/".contains(c);
        if essence.len() > TYPE_LIMIT || !essence.chars().all(is_type) {
            return Err("content type is not valid".to_owned());
        }
        let is_xml = |subtype: &str| matches!(subtype, "xml" | "rss+xml" | "atom+xml");
        let kind = match essence.split_once('/') {
            None => ContentKind::Unknown,
            Some(("text", "html")) | Some(("application", "xhtml+xml")) => ContentKind::Html,
            Some(("text", _)) => ContentKind::Text,
            Some(("application", subtype))
                if is_xml(subtype)
                    || subtype.ends_with("+json")
                    || ["json", "yaml", "x-yaml", "toml", "javascript", "x-ndjson", "sql"]
                        .contains(&subtype) =>
            {
                ContentKind::Text
            }
            Some(_) => {
                return Err(format!("content type `{}` is not text", to_line(&essence, 80)));
            }
        };
        let encoding = charset.and_then(|label| Encoding::for_label(label.as_bytes()));
        Ok(Self { kind, encoding, essence })
    }
}

/// Reads a body up to a limit; the flag is set if it is longer.
fn read_body(response: &mut Response<Body>, url: &Url, limit: usize) -> Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    let reader = response.body_mut().as_reader();
    // One byte more than the limit shows that the page is longer.
    reader
        .take(limit as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| request_error(url, &error.into()))?;
    let is_cut = bytes.len() > limit;
    bytes.truncate(limit);
    Ok((bytes, is_cut))
}

/// The text of a page.
struct FetchedPage {
    title: Option<String>,
    content_type: String,
    text: String,
    is_cut: bool,
}

/// Converts the body of a response to text.
///
/// # Errors
/// The reason why it cannot be shown as text.
fn to_page(url: &Url, content_type: &ContentType, bytes: &[u8]) -> Result<FetchedPage, String> {
    let is_html = match content_type.kind {
        ContentKind::Html => true,
        ContentKind::Text => false,
        ContentKind::Unknown => looks_like_html(bytes),
    };
    let encoding = content_type.encoding.or_else(|| is_html.then(|| find_encoding(bytes))?);
    let (text, ..) = encoding.unwrap_or(UTF_8).decode(bytes);
    // Some servers send files of any kind as text.
    let sample = text.chars().take(ENCODING_PREFIX);
    let broken = sample.filter(|c| matches!(c, '\0' | '\u{fffd}')).count();
    if broken > ENCODING_PREFIX / 20 || text.contains('\0') {
        return Err("content is binary, not text".to_owned());
    }
    let content_type = match (content_type.essence.as_str(), is_html) {
        ("", true) => "text/html".to_owned(),
        ("", false) => "text/plain".to_owned(),
        (essence, _) => essence.to_owned(),
    };
    Ok(if is_html {
        let page = extract_text(&text, url);
        FetchedPage { title: page.title, content_type, text: page.text, is_cut: page.is_cut }
    } else {
        FetchedPage { title: None, content_type, text: remove_hidden(&text), is_cut: false }
    })
}

fn looks_like_html(bytes: &[u8]) -> bool {
    let start = bytes.trim_ascii_start();
    let start = start[..start.len().min(14)].to_ascii_lowercase();
    start.starts_with(b"<!doctype html") || start.starts_with(b"<html")
}

/// Returns the encoding that the start of an HTML page names.
fn find_encoding(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = &bytes[..bytes.len().min(ENCODING_PREFIX)];
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    let (_, after) = start.split_once("charset")?;
    let label = after.trim_start().strip_prefix('=')?.trim_start();
    let label = label.trim_start_matches(['"', '\'']);
    let end = label.find(|c: char| c.is_whitespace() || "\"'/;>".contains(c))?;
    let encoding = Encoding::for_label(&label.as_bytes()[..end])?;
    // A page whose declaration can be read as ASCII is not UTF-16; browsers decide likewise.
    Some(if encoding.is_ascii_compatible() { encoding } else { UTF_8 })
}

/// Returns the part of a page that the arguments select.
fn to_output(
    url: &Url,
    page: &FetchedPage,
    args: &FetchArgs,
    limits: &FetchLimits,
) -> Result<ToolOutput> {
    let total = page.text.chars().count();
    if args.offset > 0 && args.offset >= total {
        let message =
            format!("offset {} is beyond the {total} characters of the page", args.offset);
        return Err(ExtensionError::invalid_argument(message).with_hint("pass a smaller offset"));
    }
    let count = args.max_chars.unwrap_or(limits.max_chars).clamp(1, limits.max_chars);
    let part: String = page.text.chars().skip(args.offset).take(count).collect();
    let end = args.offset + part.chars().count();
    let more = match end < total {
        true => format!("; for the rest, call web_fetch with offset {end}"),
        false if page.is_cut => "; the page is longer than the limit".to_owned(),
        false => String::new(),
    };
    let title = page.title.as_deref().map(|title| format!("{title}\n\n")).unwrap_or_default();
    let text = format!(
        "{}\n{}, characters {} to {end} of {total}{more}\n{}",
        display_url(url),
        page.content_type,
        args.offset,
        mark_untrusted(&format!("{title}{part}")),
    );
    ToolOutput::text(text).with_structured(&json!({
        "url": url.as_str(),
        "content_type": page.content_type,
        "title": page.title,
        "offset": args.offset,
        "total": total,
        "next_offset": (end < total).then_some(end),
        "truncated": page.is_cut,
        "untrusted": true,
        "text": part,
    }))
}

#[cfg(test)]
mod tests;
