//! A client of the web console, with the headers that a browser sends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use test_support::{STUCK_AFTER, TestHome};

/// A response.
#[derive(Debug)]
pub(crate) struct ConsoleReply {
    pub(crate) status: u16,
    headers: String,
    pub(crate) body: String,
}

impl ConsoleReply {
    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.headers.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}\n{}", self.headers, self.body);
        self
    }
}

/// The address that `skillhost console` prints.
#[derive(Debug, Clone)]
pub(crate) struct ConsoleAddress {
    /// The host with the port.
    pub(crate) authority: String,
    pub(crate) token: String,
}

impl ConsoleAddress {
    pub(crate) fn of(home: &TestHome) -> Self {
        let url = home.skillhost(["console", "--json"]).success().json();
        let url = url["url"].as_str().unwrap().to_owned();
        let (authority, token) =
            url.strip_prefix("http://").unwrap().split_once("/login?token=").unwrap();
        Self { authority: authority.to_owned(), token: token.to_owned() }
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.authority)
    }

    pub(crate) fn port(&self) -> u16 {
        self.authority.rsplit_once(':').unwrap().1.parse().unwrap()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        stream.set_read_timeout(Some(STUCK_AFTER)).unwrap();
        stream
    }

    /// Sends a request with exactly these headers.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> ConsoleReply {
        let mut stream = self.connect();
        write_request(&mut stream, method, path, headers, body);
        let mut bytes = Vec::new();
        // A server that has refused the request may close the connection early.
        let _ = stream.read_to_end(&mut bytes);
        parse_reply(&String::from_utf8(bytes).unwrap())
    }
}

fn write_request(
    stream: &mut TcpStream,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) {
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}

fn parse_reply(text: &str) -> ConsoleReply {
    let (headers, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let status = headers.split(' ').nth(1).unwrap_or("0").parse().unwrap();
    let is_chunked = headers.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { join_chunks(body) } else { body.to_owned() };
    ConsoleReply { status, headers: headers.replace("\r\n", "\n"), body }
}

fn join_chunks(mut body: &str) -> String {
    let mut joined = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        joined.push_str(&rest[..size.min(rest.len())]);
        body = rest.get(size + 2..).unwrap_or("");
    }
    joined
}

/// Encodes the fields of a form.
pub(crate) fn encode_form(fields: &[(&str, &str)]) -> String {
    let encode = |text: &str| -> String {
        text.bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
                other => format!("%{other:02X}"),
            })
            .collect()
    };
    let pairs = fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Returns the value of the first attribute after a mark in a page.
pub(crate) fn value_after(page: &str, mark: &str) -> String {
    let rest = page.split_once(mark).unwrap_or_else(|| panic!("no {mark} in {page}")).1;
    rest.split('"').next().unwrap().to_owned()
}

/// A logged-in browser without JavaScript.
pub(crate) struct ConsoleClient {
    pub(crate) address: ConsoleAddress,
    pub(crate) cookie: String,
    pub(crate) csrf: String,
}

impl ConsoleClient {
    pub(crate) fn log_in(home: &TestHome) -> Self {
        let address = ConsoleAddress::of(home);
        let reply = post_login(&address, &address.token).expect(303);
        let cookie = reply.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let mut client = Self { address, cookie, csrf: String::new() };
        let page = client.get("/").expect(200).body;
        client.csrf = value_after(&page, "name=\"csrf\" content=\"");
        client
    }

    pub(crate) fn get(&self, path: &str) -> ConsoleReply {
        let headers = [
            ("Host", &*self.address.authority),
            ("Cookie", &*self.cookie),
            ("Sec-Fetch-Site", "none"),
        ];
        self.address.send("GET", path, &headers, "")
    }

    /// Sends a form of the console with its CSRF token.
    pub(crate) fn post(&self, path: &str, fields: &[(&str, &str)]) -> ConsoleReply {
        let csrf = [("csrf", &*self.csrf)];
        let body = encode_form(&[&csrf[..], fields].concat());
        self.post_with(path, "application/x-www-form-urlencoded", &[], &body)
    }

    pub(crate) fn post_json(&self, path: &str, body: &str) -> ConsoleReply {
        self.post_with(path, "application/json", &[("X-CSRF-Token", &self.csrf)], body)
    }

    fn post_with(&self, path: &str, mime: &str, more: &[(&str, &str)], body: &str) -> ConsoleReply {
        let origin = self.address.origin();
        let headers = [
            ("Host", &*self.address.authority),
            ("Origin", &*origin),
            ("Sec-Fetch-Site", "same-origin"),
            ("Cookie", &*self.cookie),
            ("Content-Type", mime),
        ];
        self.address.send("POST", path, &[&headers[..], more].concat(), body)
    }

    /// Opens a stream of server-sent events.
    pub(crate) fn stream(&self, path: &str) -> EventLines {
        let mut stream = self.address.connect();
        let headers = [("Host", &*self.address.authority), ("Cookie", &*self.cookie)];
        write_request(&mut stream, "GET", path, &headers, "");
        EventLines { reader: BufReader::new(stream) }
    }
}

/// The events of a stream.
pub(crate) struct EventLines {
    reader: BufReader<TcpStream>,
}

impl EventLines {
    /// Returns the data of the next event.
    pub(crate) fn next_data(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.reader.read_line(&mut line).unwrap() > 0, "the stream has ended");
            if let Some(data) = line.strip_prefix("data: ") {
                return data.trim_end().to_owned();
            }
        }
    }
}

/// Sends the form of the login page.
pub(crate) fn post_login(address: &ConsoleAddress, token: &str) -> ConsoleReply {
    let origin = address.origin();
    let headers = [
        ("Host", &*address.authority),
        ("Origin", &*origin),
        ("Sec-Fetch-Site", "same-origin"),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ];
    address.send("POST", "/login", &headers, &encode_form(&[("token", token)]))
}

/// Returns 500 texts that a page must not interpret.
pub(crate) fn hostile_texts() -> Vec<String> {
    let payloads = [
        "<script>alert(N)</script>",
        "<img src=x onerror=alert(N)>",
        "<svg onload=alert(N)>",
        "<iframe src=http://evil.example/N></iframe>",
        "<a href=\"javascript:alert(N)\">x</a>",
        "[x](javascript:alert(N))",
        "![x](http://evil.example/N.png)",
        "<style>@import 'http://evil.example/N'</style>",
        "<link rel=stylesheet href=http://evil.example/N>",
        "<form action=http://evil.example/N><input name=csrf></form>",
        "<meta http-equiv=refresh content='0;url=http://evil.example/N'>",
        "<base href=http://evil.example/N/>",
        "<div data-live id=main style=position:fixed>N</div>",
        "<template><img src=x onerror=alert(N)></template>",
        "{{N*N}} ${N} <%= N %>",
        "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(N)>",
        "<object data=http://evil.example/N></object><embed src=http://evil.example/N>",
        "<https://evil.example/N> <mailto:N@evil.example>",
        "&lt;script&gt;alert(N)&lt;/script&gt; &#60;b&#62;",
        "\u{202e}\u{200b}\u{feff}N\u{2066}",
        "<button formaction=javascript:alert(N)>N</button>",
        "<details open ontoggle=alert(N)>N",
        "<video src=http://evil.example/N onerror=alert(N)></video>",
        "</textarea></title></pre></script><script>alert(N)</script>",
        "| a | <img src=x onerror=alert(N)> |\n|-|-|\n| [y](data:text/html,N) | z |",
    ];
    let frames = [
        "T",
        "\"T\"",
        "'>T",
        "\">T",
        "`T`",
        "-->T<!--",
        "]]>T",
        "</pre>T",
        "> T",
        "# T",
        "* T",
        "```\nT\n```",
        "<!-- T",
        "</textarea>T",
        "</title>T",
        "</script>T",
        "\tT",
        "1. T",
        "**T**",
        "T\u{202e}",
    ];
    let mut texts = Vec::new();
    for payload in payloads {
        for frame in frames {
            let payload = payload.replace('N', &texts.len().to_string());
            texts.push(frame.replace('T', &payload));
        }
    }
    texts
}
