use skillhost_sdk::serde_json;

use super::*;
use crate::test_server::{TestServer, ok, redirect};

fn config(value: Value) -> SearchConfig {
    serde_json::from_value(value).unwrap()
}

fn service(kind: &str, server: &TestServer, path: &str) -> SearchService {
    let key = (kind == "brave").then_some("BRAVE_API_KEY");
    let value = json!({"kind": kind, "url": server.url(path), "key": key});
    SearchService::new(&config(value), Duration::from_secs(20)).unwrap()
}

fn args(query: &str, count: Option<usize>) -> SearchArgs {
    SearchArgs { query: query.to_owned(), count }
}

fn value(output: &ToolOutput) -> Value {
    serde_json::from_str(output.structured().unwrap()).unwrap()
}

const SEARXNG: &str = r#"{"query": "q", "number_of_results": 0, "answers": [], "results": [
  {"url": "https://a.example/x", "title": "A &amp; B", "content": "About\n <b>A</b>.", "engine": "e"},
  {"url": "javascript:alert(1)", "title": "No", "content": null},
  {"url": "http://b.example/", "title": null, "content": null},
  {"title": "No address"}]}"#;

const BRAVE: &str = r#"{"type": "search", "web": {"type": "search", "results": [
  {"title": "One", "url": "https://one.example/", "description": "The <strong>first</strong>", "age": "1"},
  {"title": "Two", "url": "https://two.example/", "description": "The second"}]}}"#;

#[test]
fn searxng_results_are_listed() {
    let server = TestServer::start(vec![ok("/base/search", "application/json", SEARXNG)]);
    let output = service("searxng", &server, "/base/").search(&args(" rust  & c ", None), None);
    let output = output.unwrap();
    let lines: Vec<_> = output.as_text().lines().collect();
    assert_eq!(lines[0], "2 results for `rust & c`; read a page with web_fetch");
    assert!(lines[1].starts_with("Untrusted content"), "{}", output.as_text());
    assert_eq!(lines[3..6], ["1. A & B", "   https://a.example/x", "   About A."]);
    let results = json!([
        {"title": "A & B", "url": "https://a.example/x", "snippet": "About A."},
        {"title": "", "url": "http://b.example/", "snippet": ""},
    ]);
    assert_eq!(value(&output)["results"], results);
    let long = format!(r#"{{"results": [{{"url": "https://a.example/{}"}}]}}"#, "a".repeat(2048));
    let other = TestServer::start(vec![ok("/search", "application/json", &long)]);
    let none = service("searxng", &other, "/").search(&args("q", None), None).unwrap();
    assert_eq!(value(&none)["results"], json!([]));
    let request = &server.requests()[0];
    assert!(request.starts_with("get /base/search?q=rust+%26+c&format=json http/1.1"), "{request}");
    assert!(!request.contains("authorization"), "{request}");
}

#[test]
fn brave_results_are_listed() {
    let server = TestServer::start(vec![ok("/web/search", "application/json", BRAVE)]);
    let output = service("brave", &server, "/web/search").search(&args("q", Some(1)), None);
    let results = json!([{"title": "One", "url": "https://one.example/", "snippet": "The first"}]);
    assert_eq!(value(&output.unwrap())["results"], results);
    let request = &server.requests()[0];
    assert!(request.starts_with("get /web/search?q=q&count=1 http/1.1"), "{request}");

    let server = TestServer::start(vec![ok("/", "application/json", "{\"type\": \"search\"}")]);
    let output = service("brave", &server, "/").search(&args("q", Some(99)), None).unwrap();
    assert_eq!(output.as_text(), "no results for `q`; try other words");
}

#[test]
fn failures_of_service_are_reported() {
    let status = |path, status: &str| (path, status.to_owned(), Vec::new());
    let server = TestServer::start(vec![
        status("/403/search", "403 Forbidden"),
        status("/429/search", "429 Too Many"),
        status("/500/search", "500 Broken"),
        redirect("/302/search", "http://127.0.0.1:9/"),
        ok("/html/search", "text/html", "<html>"),
        ok("/big/search", "application/json", &" ".repeat(3 << 20)),
    ]);
    let fault = |path: &str| {
        let error = service("searxng", &server, path).search(&args("q", None), None).unwrap_err();
        (error.kind(), error.hint().to_owned())
    };
    let (kind, hint) = fault("/403");
    assert_eq!(kind, ErrorKind::Denied);
    assert!(hint.starts_with("add `json` to `search.formats`"), "{hint}");
    assert_eq!(fault("/429"), (ErrorKind::Unavailable, "try again later".to_owned()));
    assert_eq!(fault("/500").0, ErrorKind::Unavailable);
    assert_eq!(fault("/404").0, ErrorKind::NotFound);
    assert_eq!(fault("/302").0, ErrorKind::Failed);
    assert_eq!(fault("/html").0, ErrorKind::Protocol);
    assert_eq!(fault("/big").0, ErrorKind::TooLarge);
    let denied = TestServer::start(vec![status("/", "401 Unauthorized")]);
    let error = service("brave", &denied, "/").search(&args("q", None), None).unwrap_err();
    assert_eq!(error.hint(), "check the value of the secret BRAVE_API_KEY");
}

#[test]
fn invalid_query_is_refused() {
    let server = TestServer::start(vec![]);
    for query in ["", " \n", &"a".repeat(401)] {
        let result = service("searxng", &server, "/").search(&args(query, None), None);
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument, "{query}");
    }
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[test]
fn invalid_settings_are_rejected() {
    let rejection = |value: Value| {
        let service = SearchService::new(&config(value), Duration::from_secs(1));
        let error = service.map(|_| ()).unwrap_err();
        error.message().strip_prefix("config.search: ").unwrap().to_owned()
    };
    assert_eq!(rejection(json!({"kind": "searxng"})), "`url` of the service is missing");
    assert_eq!(
        rejection(json!({"kind": "searxng", "url": "ftp://a/"})),
        "url: only https:// and http:// are supported"
    );
    assert_eq!(
        rejection(json!({"kind": "searxng", "url": "https://a/?q=1"})),
        "url: a query or fragment is not valid; the search adds its own"
    );
    assert_eq!(
        rejection(json!({"kind": "searxng", "url": "http://lan/", "key": "K"})),
        "url: a key requires https:// or a service on this machine"
    );
    for url in ["https://me@lan/", "https://me:word@lan/", "https://:word@lan/"] {
        let reason = rejection(json!({"kind": "searxng", "url": url}));
        assert_eq!(reason, "url: a user name or password is not supported; use `key`");
    }
    assert_eq!(rejection(json!({"kind": "brave"})), "`key` with the name of the secret is missing");
    assert!(rejection(json!({"kind": "searxng", "url": "x"})).starts_with("url: "));
    let brave = SearchService::new(&config(json!({"kind": "brave", "key": "K"})), Duration::ZERO);
    assert_eq!(brave.map(|it| it.url.to_string()).unwrap(), BRAVE_URL);
    assert!(serde_json::from_value::<SearchConfig>(json!({"kind": "google"})).is_err());
}
