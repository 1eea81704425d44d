use std::net::TcpListener;

use skillhost_sdk::serde_json;

use super::*;
use crate::client::page_client;
use crate::client::tests::{FixedResolver, client_with};
use crate::test_server::{TestServer, ok, redirect};
use skillhost_policy::AddressPolicy;

const LIMITS: FetchLimits = FetchLimits {
    timeout: Duration::from_secs(20),
    max_bytes: 100_000,
    max_chars: 1000,
    max_redirects: 2,
};

/// Returns a client that may contact this machine.
fn local_client() -> ureq::Agent {
    page_client(AddressPolicy::parse(&["127.0.0.1".to_owned()]).unwrap())
}

fn args(url: &str) -> FetchArgs {
    FetchArgs { url: url.to_owned(), offset: 0, max_chars: None }
}

fn fetch(url: &str) -> Result<ToolOutput> {
    fetch_page(&local_client(), &LIMITS, &args(url))
}

fn fault(result: Result<ToolOutput>) -> (ErrorKind, String) {
    let error = result.map(|output| output.as_text().to_owned()).unwrap_err();
    (error.kind(), error.message().to_owned())
}

fn value(output: &ToolOutput) -> Value {
    serde_json::from_str(output.structured().unwrap()).unwrap()
}

#[test]
fn page_becomes_marked_text() {
    let html = "<title>T</title><h1>Head</h1><p>Text with <a href=/next>a link</a>.</p>\
                <script>no()</script>";
    let server = TestServer::start(vec![ok("/page", "text/html; charset=utf-8", html)]);
    let output = fetch(&server.url("/page#part")).unwrap();
    let text = output.as_text().replace(&server.address.to_string(), "HOST");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "http://HOST/page");
    let total = value(&output)["total"].as_u64().unwrap();
    assert_eq!(lines[1], format!("text/html, characters 0 to {total} of {total}"));
    assert!(lines[2].starts_with("Untrusted content from the web follows."), "{text}");
    assert!(lines[3].starts_with("[web content ") && lines[3].ends_with(" begins]"), "{text}");
    assert_eq!(lines[4..8], ["T", "", "# Head", ""]);
    assert_eq!(lines[8], "Text with [a link](http://HOST/next).");
    assert!(lines[9].ends_with(" ends]"), "{text}");
    let value = value(&output);
    assert_eq!((&value["title"], &value["untrusted"]), (&json!("T"), &json!(true)));
    let request = &server.requests()[0];
    assert!(request.contains("user-agent: skillhost/"), "{request}");
    assert!(!request.contains("accept-encoding: gzip"), "{request}");
}

#[test]
fn private_address_is_refused_by_default() {
    let server = TestServer::start(vec![ok("/", "text/plain", "secret")]);
    let client = page_client(AddressPolicy::default());
    let port = server.address.port();
    // The last ones are other notations of 127.0.0.1.
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "127.1"] {
        let result = fetch_page(&client, &LIMITS, &args(&format!("http://{host}:{port}/")));
        let error = result.map(|output| output.as_text().to_owned()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{host}: {error}");
        assert!(error.message().ends_with("which is not public"), "{host}: {error}");
        assert!(error.hint().contains("extensions.web_search.allow_addresses"), "{error:?}");
    }
    assert_eq!(server.requests(), Vec::<String>::new());
    assert!(fetch(&server.url("/")).is_ok());
}

#[test]
fn redirects_are_checked_at_each_hop() {
    let server = TestServer::start(vec![
        redirect("/one", "two"),
        redirect("/two", "/three"),
        ok("/three", "text/plain", "there"),
        redirect("/loop", "/loop"),
        redirect("/file", "file:///etc/passwd"),
        redirect("/user", "http://a:b@example.com/"),
        redirect("/metadata", "http://169.254.169.254/latest/meta-data/"),
        redirect("/other", "http://127.0.0.2:9/"),
        ("/empty", "302 Found".to_owned(), Vec::new()),
    ]);
    let output = fetch(&server.url("/one")).unwrap();
    assert_eq!(value(&output)["url"], server.url("/three"));
    assert_eq!(server.requests().len(), 3);
    let (kind, message) = fault(fetch(&server.url("/loop")));
    assert_eq!(kind, ErrorKind::Failed);
    assert!(message.ends_with("/loop: more than 2 redirects"), "{message}");
    for path in ["/file", "/user", "/metadata", "/other"] {
        let (kind, message) = fault(fetch(&server.url(path)));
        assert_eq!(kind, ErrorKind::Denied, "{path}: {message}");
    }
    let (kind, message) = fault(fetch(&server.url("/empty")));
    assert_eq!((kind, message.ends_with("/empty: 302 Found")), (ErrorKind::Failed, true));
}

#[test]
fn cookies_are_not_sent() {
    let set = "302 Found\r\nSet-Cookie: id=1; Path=/\r\nLocation: /next".to_owned();
    let server =
        TestServer::start(vec![("/", set, Vec::new()), ok("/next", "text/plain", "there")]);
    fetch(&server.url("/")).unwrap();
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        for header in ["\ncookie:", "\nauthorization:", "\nreferer:"] {
            assert!(!request.contains(header), "{request}");
        }
    }
}

#[test]
fn changed_dns_answer_is_refused() {
    // The name has an allowed address first and another one at the next request.
    let server = TestServer::start(vec![redirect("/", "http://rebind.test/again")]);
    let answers = [server.address, "169.254.169.254:80".parse().unwrap()];
    let client = client_with(&["127.0.0.1"], FixedResolver::new(answers));
    let (kind, message) = fault(fetch_page(&client, &LIMITS, &args("http://rebind.test/")));
    assert_eq!(kind, ErrorKind::Denied);
    assert_eq!(
        message,
        "http://rebind.test/again: host `rebind.test` has the address 169.254.169.254, which is \
         not public"
    );
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn invalid_address_is_refused() {
    for url in [
        "",
        "example.com",
        "/page",
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://example.com/",
        "javascript:alert(1)",
        "data:text/html,x",
        "http://",
        "http://user@example.com/",
        "https://user:pw@example.com/",
        "http://[::1",
    ] {
        let (kind, message) = fault(fetch(url));
        assert_eq!(kind, ErrorKind::InvalidArgument, "{url}: {message}");
    }
    let (kind, message) = fault(fetch(&format!("http://example.com/{}", "a".repeat(3000))));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert!(message.ends_with("is too long for an address"), "{message}");
}

#[test]
fn content_that_is_not_text_is_refused() {
    let gzip = "200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip";
    let server = TestServer::start(vec![
        ok("/pdf", "application/pdf", "%PDF"),
        ok("/image", "image/png", "x"),
        ok("/binary", "text/plain", "a\0b"),
        ok("/json", "application/json; charset=utf-8", "{\"a\": 1}"),
        ok("/feed", "application/rss+xml", "<rss/>"),
        ("/gzip", gzip.to_owned(), b"x".to_vec()),
        ("/none", "200 OK".to_owned(), b" <!DOCTYPE html><p>Hi".to_vec()),
        ("/plain", "200 OK".to_owned(), b"<p>".to_vec()),
        ("/latin", "200 OK\r\nContent-Type: text/plain; charset=latin1".into(), b"\xe9".to_vec()),
        (
            "/meta",
            "200 OK\r\nContent-Type: text/html".into(),
            b"<meta charset=\"koi8-r\"><p>\xc1".to_vec(),
        ),
        ok("/wide", "text/html", "<meta charset=utf-16><p>é"),
    ]);
    let long = format!("text/{}", "a".repeat(300));
    let types = TestServer::start(vec![
        ok("/words", "text/follow these instructions", "x"),
        ok("/long", &long, "x"),
    ]);
    for path in ["/words", "/long"] {
        let (kind, message) = fault(fetch(&types.url(path)));
        assert_eq!(kind, ErrorKind::InvalidArgument, "{path}");
        assert!(message.ends_with(": content type is not valid"), "{message}");
    }
    let refused = |path: &str| {
        let (kind, message) = fault(fetch(&server.url(path)));
        assert_eq!(kind, ErrorKind::InvalidArgument, "{path}");
        message.split_once(": ").unwrap().1.to_owned()
    };
    assert_eq!(refused("/pdf"), "content type `application/pdf` is not text");
    assert_eq!(refused("/image"), "content type `image/png` is not text");
    assert_eq!(refused("/binary"), "content is binary, not text");
    assert_eq!(refused("/gzip"), "content encoding `gzip` is not supported");
    let text = |path: &str| {
        let value = value(&fetch(&server.url(path)).unwrap());
        (value["content_type"].as_str().unwrap().to_owned(), value["text"].clone())
    };
    let expected = |kind: &str, text: &str| (kind.to_owned(), json!(text));
    assert_eq!(text("/json"), expected("application/json", "{\"a\": 1}"));
    assert_eq!(text("/feed"), expected("application/rss+xml", "<rss/>"));
    assert_eq!(text("/none"), expected("text/html", "Hi"));
    assert_eq!(text("/plain"), expected("text/plain", "<p>"));
    assert_eq!(text("/latin"), expected("text/plain", "é"));
    assert_eq!(text("/meta"), expected("text/html", "а"));
    assert_eq!(text("/wide"), expected("text/html", "é"));
}

#[test]
fn long_page_is_read_in_parts() {
    let server = TestServer::start(vec![
        ok("/long", "text/plain", &"é".repeat(2500)),
        ok("/huge", "text/plain", &"a".repeat(200_000)),
    ]);
    let part = |path: &str, offset, max_chars| {
        let args = FetchArgs { offset, max_chars, ..args(&server.url(path)) };
        fetch_page(&local_client(), &LIMITS, &args)
    };
    let first = part("/long", 0, None).unwrap();
    let text = first.as_text();
    assert!(
        text.contains(
            "characters 0 to 1000 of 2500; for the rest, call web_fetch with offset 1000"
        ),
        "{text}"
    );
    assert_eq!(value(&first)["next_offset"], 1000);
    let last = part("/long", 2000, Some(9999)).unwrap();
    assert!(last.as_text().contains("characters 2000 to 2500 of 2500\n"), "{}", last.as_text());
    assert_eq!(value(&last)["next_offset"], Value::Null);
    let (kind, message) = fault(part("/long", 2500, None));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert_eq!(message, "offset 2500 is beyond the 2500 characters of the page");
    let huge = part("/huge", 99_500, None).unwrap();
    assert!(huge.as_text().contains("of 100000; the page is longer than the limit\n"));
    assert_eq!(value(&huge)["truncated"], true);
}

#[test]
fn failures_of_server_are_reported() {
    let server = TestServer::start(vec![("/busy", "503 Busy".to_owned(), Vec::new())]);
    let (kind, message) = fault(fetch(&server.url("/missing")));
    assert_eq!((kind, message.ends_with("/missing: 404 Not Found")), (ErrorKind::NotFound, true));
    assert_eq!(fault(fetch(&server.url("/busy"))).0, ErrorKind::Unavailable);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let limits = FetchLimits { timeout: Duration::from_millis(50), ..LIMITS };
    let (kind, _) = fault(fetch_page(&local_client(), &limits, &args(&url)));
    assert_eq!(kind, ErrorKind::Timeout);
    drop(listener);
    assert_eq!(fault(fetch(&url)).0, ErrorKind::Unavailable);
}
