//! `web_search`: the results of a search service.

use std::time::Duration;

use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::{Secret, serde_json};
use ureq::http::{StatusCode, header};
use url::Url;

use crate::client::search_client;
use crate::fetch::URL_LIMIT;
use crate::html::extract_line;
use crate::untrusted::{mark_untrusted, to_line};

/// The endpoint of Brave's service.
const BRAVE_URL: &str = "https://api.search.brave.com/res/v1/web/search";
/// The maximum size of a response in bytes.
const RESPONSE_LIMIT: u64 = 2 << 20;
/// The maximum length of a query in characters.
const QUERY_LIMIT: usize = 400;
/// The number of results, by default and at most.
pub(crate) const DEFAULT_COUNT: usize = 8;
pub(crate) const MAX_COUNT: usize = 20;
/// The maximum lengths of a title and of a snippet, in characters.
const TITLE_LIMIT: usize = 200;
const SNIPPET_LIMIT: usize = 600;

/// The setting `search`.
#[derive(Debug, Clone, Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
pub(crate) struct SearchConfig {
    kind: SearchKind,
    url: Option<String>,
    /// The name of the secret with the key.
    key: Option<String>,
}

/// The protocol of a search service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(crate = "serde", rename_all = "snake_case")]
enum SearchKind {
    /// SearXNG, and every service with its JSON format.
    Searxng,
    /// Brave's web search, and every service with its JSON format.
    Brave,
}

/// The arguments of `web_search`.
#[derive(Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
pub(crate) struct SearchArgs {
    query: String,
    count: Option<usize>,
}

/// A configured search service.
#[derive(Clone)]
pub(crate) struct SearchService {
    kind: SearchKind,
    url: Url,
    key: Option<String>,
    client: ureq::Agent,
    timeout: Duration,
}

/// A result of a search.
#[derive(Debug, PartialEq, Eq)]
struct SearchResult {
    title: String,
    url: String,
    snippet: String,
}

impl SearchService {
    /// Validates the settings. The first request is sent by the first search.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] naming the setting.
    pub(crate) fn new(config: &SearchConfig, timeout: Duration) -> Result<Self> {
        let invalid = |reason: &str| {
            ExtensionError::invalid_argument(format!("config.search: {reason}"))
                .with_hint("see `search` in manifests/web_search/manifest.yaml")
        };
        let text = match (config.kind, &config.url) {
            (_, Some(url)) => url.as_str(),
            (SearchKind::Brave, None) => BRAVE_URL,
            (SearchKind::Searxng, None) => {
                return Err(invalid("`url` of the service is missing"));
            }
        };
        let mut url = Url::parse(text).map_err(|error| invalid(&format!("url: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid("url: only https:// and http:// are supported"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(invalid("url: a query or fragment is not valid; the search adds its own"));
        }
        // Errors name the address, and agents read errors.
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("url: a user name or password is not supported; use `key`"));
        }
        let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        if config.key.is_some() && url.scheme() == "http" && !is_local {
            return Err(invalid("url: a key requires https:// or a service on this machine"));
        }
        if config.kind == SearchKind::Brave && config.key.is_none() {
            return Err(invalid("`key` with the name of the secret is missing"));
        }
        // The address of an instance is usually that of its start page.
        if config.kind == SearchKind::Searxng && !url.path().ends_with("/search") {
            let path = format!("{}/search", url.path().trim_end_matches('/'));
            url.set_path(&path);
        }
        let (kind, key) = (config.kind, config.key.clone());
        Ok(Self { kind, url, key, client: search_client(is_local), timeout })
    }

    /// Returns the name of the secret that the service requires.
    pub(crate) fn key_name(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Searches the web; blocks until the results are there.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an empty or long query, and one for each failure of the
    /// service.
    pub(crate) fn search(&self, args: &SearchArgs, key: Option<&Secret>) -> Result<ToolOutput> {
        let query = to_line(&args.query, QUERY_LIMIT + 1);
        if query.is_empty() || query.chars().count() > QUERY_LIMIT {
            let message = format!("`query` has {} characters", query.chars().count());
            return Err(ExtensionError::invalid_argument(message)
                .with_hint(format!("pass 1 to {QUERY_LIMIT} characters")));
        }
        let count = args.count.unwrap_or(DEFAULT_COUNT).clamp(1, MAX_COUNT);
        let body = self.request(&query, count, key)?;
        let results = self.read_results(&body, count)?;
        to_output(&query, &results)
    }

    fn request(&self, query: &str, count: usize, key: Option<&Secret>) -> Result<Vec<u8>> {
        let mut url = self.url.clone();
        url.query_pairs_mut().append_pair("q", query);
        match self.kind {
            SearchKind::Searxng => url.query_pairs_mut().append_pair("format", "json"),
            SearchKind::Brave => url.query_pairs_mut().append_pair("count", &count.to_string()),
        };
        let mut request = self.client.get(url.as_str()).header(header::ACCEPT, "application/json");
        if let Some(key) = key {
            request = match self.kind {
                SearchKind::Searxng => {
                    request.header(header::AUTHORIZATION, format!("Bearer {}", key.expose()))
                }
                SearchKind::Brave => request.header("X-Subscription-Token", key.expose()),
            };
        }
        let request = request.config().timeout_global(Some(self.timeout)).build();
        let mut response = request.call().map_err(|error| self.transport_error(&error))?;
        let status = response.status();
        let body = response.body_mut().with_config().limit(RESPONSE_LIMIT).read_to_vec();
        let body = body.map_err(|error| self.transport_error(&error))?;
        match status {
            StatusCode::OK => Ok(body),
            _ => Err(self.status_error(status)),
        }
    }

    fn read_results(&self, body: &[u8], count: usize) -> Result<Vec<SearchResult>> {
        let rows = match self.kind {
            SearchKind::Searxng => {
                serde_json::from_slice::<SearxngBody>(body).map(|body| body.results)
            }
            SearchKind::Brave => serde_json::from_slice::<BraveBody>(body)
                .map(|body| body.web.map(|web| web.results).unwrap_or_default()),
        };
        let rows = rows.map_err(|error| {
            let hint = match self.kind {
                SearchKind::Searxng => "check `url`; the service must allow the format `json`",
                SearchKind::Brave => "check `url` and `kind`",
            };
            let message = format!("{}: response is not valid: {error}", self.url);
            ExtensionError::new(ErrorKind::Protocol, message).with_hint(hint)
        })?;
        let results = rows.into_iter().filter_map(ResultRow::into_result);
        Ok(results.take(count).collect())
    }

    fn transport_error(&self, error: &ureq::Error) -> ExtensionError {
        let kind = match error {
            ureq::Error::Timeout(_) => ErrorKind::Timeout,
            ureq::Error::BodyExceedsLimit(_) => ErrorKind::TooLarge,
            _ => ErrorKind::Unavailable,
        };
        ExtensionError::new(kind, format!("{}: {error}", self.url))
    }

    fn status_error(&self, status: StatusCode) -> ExtensionError {
        let (kind, hint) = match (status.as_u16(), self.kind, &self.key) {
            // SearXNG answers so where its settings do not list the format.
            (403, SearchKind::Searxng, _) => (
                ErrorKind::Denied,
                "add `json` to `search.formats` in the settings of SearXNG, or check `key`"
                    .to_owned(),
            ),
            (401 | 403 | 422, _, Some(key)) => {
                (ErrorKind::Denied, format!("check the value of the secret {key}"))
            }
            (300..=399, ..) => (
                ErrorKind::Failed,
                "set `url` to the target; redirects of the service are not followed".to_owned(),
            ),
            (404, ..) => (ErrorKind::NotFound, "check `url` and `kind`".to_owned()),
            (429, ..) => (ErrorKind::Unavailable, "try again later".to_owned()),
            (500..=599, ..) => (ErrorKind::Unavailable, String::new()),
            _ => (ErrorKind::Failed, String::new()),
        };
        ExtensionError::new(kind, format!("{}: {status}", self.url)).with_hint(hint)
    }
}

#[derive(Deserialize)]
#[serde(crate = "serde")]
struct SearxngBody {
    results: Vec<ResultRow>,
}

#[derive(Deserialize)]
#[serde(crate = "serde")]
struct BraveBody {
    web: Option<BraveWeb>,
}

#[derive(Deserialize)]
#[serde(crate = "serde")]
struct BraveWeb {
    #[serde(default)]
    results: Vec<ResultRow>,
}

/// A result in either format.
#[derive(Deserialize)]
#[serde(crate = "serde")]
struct ResultRow {
    url: Option<String>,
    title: Option<String>,
    #[serde(alias = "description")]
    content: Option<String>,
}

impl ResultRow {
    /// Returns the result, or `None` if it has no address that can be fetched.
    fn into_result(self) -> Option<SearchResult> {
        let url = Url::parse(self.url?.trim()).ok()?;
        // `web_fetch` refuses others.
        if !matches!(url.scheme(), "http" | "https") || url.as_str().len() > URL_LIMIT {
            return None;
        }
        // Titles and snippets contain marks such as <strong>.
        let line =
            |text: Option<String>, limit| to_line(&extract_line(&text.unwrap_or_default()), limit);
        Some(SearchResult {
            title: line(self.title, TITLE_LIMIT),
            url: url.into(),
            snippet: line(self.content, SNIPPET_LIMIT),
        })
    }
}

fn to_output(query: &str, results: &[SearchResult]) -> Result<ToolOutput> {
    let values: Vec<_> = results
        .iter()
        .map(|it| json!({"title": it.title, "url": it.url, "snippet": it.snippet}))
        .collect();
    let structured = json!({"query": query, "results": values, "untrusted": true});
    let text = if results.is_empty() {
        format!("no results for `{query}`; try other words")
    } else {
        let row = |(index, result): (usize, &SearchResult)| {
            let SearchResult { title, url, snippet } = result;
            format!("{}. {title}\n   {url}\n   {snippet}", index + 1)
        };
        let rows: Vec<_> = results.iter().enumerate().map(row).collect();
        format!(
            "{} results for `{query}`; read a page with web_fetch\n{}",
            results.len(),
            mark_untrusted(&rows.join("\n"))
        )
    };
    ToolOutput::text(text).with_structured(&structured)
}

#[cfg(test)]
mod tests;
