use std::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;

use skillhost_policy::DomainPattern;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinHandle;

use super::*;

/// A server of the host that records what it receives, and a broker.
struct Network {
    broker: NetworkBroker,
    /// The ports of the broker and of the server.
    proxy: u16,
    server: u16,
    received: Arc<Mutex<Vec<u8>>>,
    _serving: JoinHandle<()>,
}

fn policy(allowed: &[&str]) -> NetworkPolicy {
    let parse = |text: &&str| DomainPattern::parse(text).unwrap();
    NetworkPolicy { allowed_domains: allowed.iter().map(parse).collect(), ..Default::default() }
}

/// Resolves `inside…` to this machine, `mixed…` to this machine and a public address.
fn resolver() -> NameResolver {
    NameResolver::from_function(|name| async move {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let public: IpAddr = "1.1.1.1".parse().unwrap();
        match name.split('.').next().unwrap() {
            "inside" => Ok(vec![local]),
            "mapped" => Ok(vec!["::ffff:127.0.0.1".parse().unwrap()]),
            "metadata" => Ok(vec!["169.254.169.254".parse().unwrap()]),
            "mixed" => Ok(vec![local, public]),
            "nothing" => Ok(Vec::new()),
            _ => Err(io::Error::other("no such name")),
        }
    })
}

impl Network {
    async fn start(policy: NetworkPolicy) -> Self {
        Self::start_behind(policy, None).await
    }

    /// Starts a broker whose network has a proxy, by its port.
    async fn start_behind(policy: NetworkPolicy, parent: Option<u16>) -> Self {
        let parent = parent.map(|port| {
            let variable = |name: &str| match name {
                "HTTPS_PROXY" => Some(format!("http://u:p@127.0.0.1:{port}")),
                "NO_PROXY" => Some("direct.org".to_owned()),
                _ => None,
            };
            ParentProxy::from_variables(variable).unwrap()
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = listener.local_addr().unwrap().port();
        let broker =
            NetworkBroker::start_with(listener.into(), policy, resolver(), parent).unwrap();
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let server = listener.local_addr().unwrap().port();
        let received = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&received);
        let _serving = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let record = Arc::clone(&record);
                tokio::spawn(async move {
                    let mut bytes = [0; 4096];
                    while let Ok(read @ 1..) = stream.read(&mut bytes).await {
                        record.lock().unwrap().extend_from_slice(&bytes[..read]);
                        let answer =
                            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: x\r\n\r\nok";
                        let _ = stream.write_all(answer).await;
                    }
                });
            }
        });
        Self { broker, proxy, server, received, _serving }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.proxy)).await.unwrap()
    }

    /// Sends bytes, in which `PORT` is that of the server, and returns everything until the end.
    async fn ask(&self, text: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(text.replace("PORT", &self.server.to_string()).as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A reset is an end, too.
        let _ = timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn received(&self) -> String {
        String::from_utf8_lossy(&self.received.lock().unwrap()).into_owned()
    }

    fn contacts(&self) -> Vec<(String, bool, u64)> {
        let contacts = self.broker.contacts().into_iter();
        contacts.map(|contact| (contact.host, contact.refused.is_none(), contact.count)).collect()
    }
}

const LOCAL: &[&str] = &["*.example.org", "127.0.0.1"];

#[tokio::test]
async fn allowed_host_receives_rewritten_request() {
    let network = Network::start(policy(LOCAL)).await;
    let answer = network
        .ask("POST http://inside.Example.org:PORT/a?b=1 HTTP/1.1\r\nHost: evil.org\r\nProxy-Authorization: x\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\nContent-Length: 3\r\n\r\nabc")
        .await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok"), "{answer}");
    assert!(!answer.to_lowercase().contains("keep-alive: x"), "{answer}");
    let received = network.received().to_lowercase();
    assert!(received.starts_with("post /a?b=1 http/1.1\r\n"), "{received}");
    assert!(received.contains(&format!("host: inside.example.org:{}\r\n", network.server)));
    assert!(received.contains("x-end: 2") && received.ends_with("\r\n\r\nabc"), "{received}");
    for gone in ["evil", "proxy", "x-hop"] {
        assert!(!received.contains(gone), "{gone} {received}");
    }
    assert_eq!(network.contacts(), [("inside.example.org".to_owned(), true, 1)]);
}

#[tokio::test]
async fn tunnel_passes_bytes_to_any_port() {
    let network = Network::start(policy(LOCAL)).await;
    let mut stream = network.connect().await;
    let request = format!("CONNECT inside.example.org:{} HTTP/1.1\r\n\r\n", network.server);
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = [0; 4096];
    let read = stream.read(&mut bytes).await.unwrap();
    assert!(bytes[..read].starts_with(b"HTTP/1.1 200"));
    stream.write_all(b"\x16\x03any bytes").await.unwrap();
    let read = stream.read(&mut bytes).await.unwrap();
    assert!(bytes[..read].ends_with(b"ok"));
    assert_eq!(network.received(), "\x16\x03any bytes");
}

#[tokio::test]
async fn refused_host_is_named_with_setting() {
    let mut rules = policy(LOCAL);
    rules.denied_domains = vec![DomainPattern::parse("bad.example.org").unwrap()];
    let network = Network::start(rules).await;
    for (host, reason) in [
        ("evil.org", "it is not in `network.allowedDomains`"),
        ("example.org", "it is not in `network.allowedDomains`"),
        ("inside.example.org.evil.org", "it is not in `network.allowedDomains`"),
        ("bad.example.org", "it is in `network.deniedDomains`"),
        ("metadata.example.org", "it resolves to 169.254.169.254"),
        ("10.0.0.1", "it is not in `network.allowedDomains`"),
        ("[::1]", "it is not in `network.allowedDomains`"),
        ("127.0.0.2", "it is not in `network.allowedDomains`"),
    ] {
        for request in [
            format!("GET http://{host}:PORT/ HTTP/1.1\r\nHost: inside.example.org\r\n\r\n"),
            format!("CONNECT {host}:PORT HTTP/1.1\r\nHost: inside.example.org\r\n\r\n"),
        ] {
            let answer = network.ask(&request).await;
            let name = host.trim_matches(['[', ']']);
            let first = format!("HTTP/1.1 403 {name}: {reason}");
            assert!(answer.starts_with(&first), "{answer}");
            assert!(answer.contains("below `sandbox` in the settings"), "{answer}");
        }
    }
    assert_eq!(network.received(), "");
    assert!(network.contacts().iter().all(|(_, allowed, count)| !allowed && *count == 2));
}

/// A name under the control of an attacker may resolve to anything.
#[tokio::test]
async fn name_of_private_address_is_refused() {
    let network = Network::start(policy(&["*.example.org"])).await;
    for host in ["inside.example.org", "mapped.example.org"] {
        let answer = network.ask(&format!("GET http://{host}:PORT/ HTTP/1.1\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        assert!(answer.contains("it resolves to 127.0.0.1"), "{answer}");
    }
    let access = HostAccess::new(policy(&["*.example.org"]), resolver(), None);
    let (_, addresses) = access.find_addresses("mixed.example.org").await.unwrap();
    assert_eq!(addresses, ["1.1.1.1".parse::<IpAddr>().unwrap()], "only the public one");
    assert_eq!(network.received(), "");
}

#[tokio::test]
async fn listed_address_is_reached_in_each_notation() {
    let network = Network::start(policy(&["127.0.0.1", "mapped.example.org"])).await;
    for host in ["127.0.0.1", "[::ffff:127.0.0.1]", "mapped.example.org"] {
        let answer = network.ask(&format!("GET http://{host}:PORT/ HTTP/1.0\r\n\r\n")).await;
        assert!(answer.ends_with("ok"), "{host} {answer}");
    }
}

#[tokio::test]
async fn unreachable_host_is_a_gateway_error() {
    let network = Network::start(policy(LOCAL)).await;
    for host in ["unknown.example.org", "nothing.example.org"] {
        let answer = network.ask(&format!("CONNECT {host}:443 HTTP/1.1\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
        assert!(answer.contains(host), "{answer}");
    }
    // Nothing listens on the first port.
    let answer = network.ask("GET http://127.0.0.1:1/ HTTP/1.1\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
}

#[tokio::test]
async fn malformed_requests_reach_no_host() {
    let network = Network::start(policy(LOCAL)).await;
    let long = "x".repeat(70_000);
    let many = "a: b\r\n".repeat(200);
    let rows = [
        ("GET http://inside.example.org@evil.org/ HTTP/1.1\r\n\r\n", "400"),
        ("GET http://evil.org@127.0.0.1:PORT/ HTTP/1.1\r\n\r\n", "400"),
        ("CONNECT evil@127.0.0.1:PORT HTTP/1.1\r\n\r\n", "400"),
        ("GET http://2130706433:PORT/ HTTP/1.1\r\n\r\n", "400"),
        ("GET http://0x7f.1:PORT/ HTTP/1.1\r\n\r\n", "400"),
        ("GET http://*.example.org:PORT/ HTTP/1.1\r\n\r\n", "400"),
        ("GET http://127.0.0.1%00.example.org:PORT/ HTTP/1.1\r\n\r\n", "400"),
        ("GET https://127.0.0.1:PORT/ HTTP/1.1\r\n\r\n", "400"),
        ("GET ftp://127.0.0.1:PORT/ HTTP/1.1\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", "400"),
        ("OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", "400"),
        ("CONNECT 127.0.0.1 HTTP/1.1\r\n\r\n", "400"),
        ("CONNECT 127.0.0.1:99999 HTTP/1.1\r\n\r\n", "400"),
        ("GET http://127.0.0.1:99999/ HTTP/1.1\r\n\r\n", "400"),
        (
            "GET http://127.0.0.1:PORT/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            "400",
        ),
        (
            "GET http://127.0.0.1:PORT/ HTTP/1.1\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
            "400",
        ),
        ("GET http://127.0.0.1:PORT/ HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "400"),
        ("GET http://127.0.0.1:PORT/ HTTP/1.1\r\nContent-Length : 1\r\n\r\na", "400"),
        (" GET http://127.0.0.1:PORT/ HTTP/1.1\r\n\r\n", "400"),
        (&format!("GET http://127.0.0.1:PORT/{long} HTTP/1.1\r\n\r\n"), "4"),
        (&format!("GET http://127.0.0.1:PORT/ HTTP/1.1\r\na: {long}\r\n\r\n"), "431"),
        (&format!("GET http://127.0.0.1:PORT/ HTTP/1.1\r\n{many}\r\n"), "431"),
        ("\x16\x03\x01\x02\x00", ""),
        ("\x04\x01\x00\x50\x7f\x00\x00\x01\x00", ""),
    ];
    for (request, status) in rows {
        let answer = network.ask(request).await;
        let shown = &request[..request.len().min(120)];
        let expected = if status.is_empty() { "" } else { "HTTP/1.1 " };
        assert!(answer.starts_with(&format!("{expected}{status}")), "{shown}: {answer}");
    }
    assert_eq!(network.received(), "");
}

/// The bytes after a request are not another one for the host.
#[tokio::test]
async fn smuggled_request_is_not_forwarded() {
    let network = Network::start(policy(LOCAL)).await;
    for request in [
        "GET http://127.0.0.1:PORT/one HTTP/1.1\r\n\r\nGET http://127.0.0.1:PORT/two HTTP/1.1\r\n\r\n",
        "POST http://127.0.0.1:PORT/one HTTP/1.1\r\nContent-Length: 0\r\n\r\nGET /two HTTP/1.1\r\n\r\n",
        "POST http://127.0.0.1:PORT/one HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /two HTTP/1.1\r\n\r\n",
        "POST http://127.0.0.1:PORT/one HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /two HTTP/1.1\r\n\r\n",
        "POST http://127.0.0.1:PORT/one HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /two HTTP/1.1\r\n\r\n",
        "GET http://127.0.0.1:PORT/one HTTP/1.1\r\nA: b\r\n\tc: /two\r\nGET /two HTTP/1.1\r\n\r\n",
        "POST http://127.0.0.1:PORT/one HTTP/1.1\r\nConnection: content-length\r\nContent-Length: 20\r\n\r\nGET /two HTTP/1.1\r\n\r\n",
    ] {
        network.received.lock().unwrap().clear();
        network.ask(request).await;
        let received = network.received();
        let heads = received.matches(" HTTP/1.1\r\n").count();
        // The body of the last one looks like a request, and has its length.
        let is_body = received.to_lowercase().contains("content-length: 20");
        assert!(heads <= 1 || is_body, "{request}: {received}");
    }
}

#[tokio::test]
async fn socks_clients_follow_same_rules() {
    let network = Network::start(policy(LOCAL)).await;
    let port = network.server.to_be_bytes();
    let by_name = |name: &str| {
        let length = u8::try_from(name.len()).unwrap();
        [&[5, 1, 0, 5, 1, 0, 3, length], name.as_bytes(), &port].concat()
    };
    let by_address =
        |command, address: [u8; 4]| [&[5, 1, 0, 5, command, 0, 1][..], &address, &port].concat();
    let rows = [
        (by_name("inside.example.org"), Some(0)),
        (by_address(1, [127, 0, 0, 1]), Some(0)),
        (by_name("evil.org"), Some(2)),
        (by_name("metadata.example.org"), Some(2)),
        (by_address(1, [10, 0, 0, 1]), Some(2)),
        (by_name("unknown.example.org"), Some(4)),
        (by_name("a b"), Some(8)),
        (by_name(""), Some(8)),
        (by_address(2, [127, 0, 0, 1]), Some(7)),
        (by_address(3, [127, 0, 0, 1]), Some(7)),
        (vec![5, 1, 0, 5, 1, 0, 9, 0, 0], Some(8)),
        (vec![5, 1, 0, 4, 1, 0, 1, 127, 0, 0, 1, 0, 80], None),
        (vec![5, 1, 2], None),
        (vec![5, 0], None),
    ];
    for (request, code) in rows {
        let mut stream = network.connect().await;
        stream.write_all(&request).await.unwrap();
        let mut answer = [0; 12];
        match (stream.read_exact(&mut answer).await, code) {
            (Ok(_), Some(code)) => assert_eq!(answer[..4], [5, 0, 5, code], "{request:?}"),
            (Err(_), None) => {}
            (other, _) => panic!("{request:?} {other:?} {answer:?}"),
        }
        if code == Some(0) {
            stream.write_all(b"ping").await.unwrap();
            let mut bytes = [0; 15];
            stream.read_exact(&mut bytes).await.unwrap();
            assert_eq!(&bytes, b"HTTP/1.1 200 OK");
        }
    }
}

/// A client that does not speak holds no place for ever, and others are served meanwhile.
#[tokio::test(start_paused = true)]
async fn slow_client_is_closed() {
    let network = Network::start(policy(LOCAL)).await;
    for begin in
        ["", "G", "GET http://127.0.0.1:1/ HTTP/1.1\r\nHost:", "\x05", "\x05\x01\x00\x05\x01"]
    {
        let start = tokio::time::Instant::now();
        network.ask(begin).await;
        assert!(start.elapsed() < Duration::from_secs(20), "{begin:?}");
    }
}

#[tokio::test]
async fn dropped_broker_closes_connections() {
    let network = Network::start(policy(LOCAL)).await;
    let mut tunnel = network.connect().await;
    let request = format!("CONNECT 127.0.0.1:{} HTTP/1.1\r\n\r\n", network.server);
    tunnel.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = [0; 4096];
    assert!(tunnel.read(&mut bytes).await.unwrap() > 0);
    drop(network.broker);
    // An end or a reset.
    assert_eq!(tunnel.read(&mut bytes).await.unwrap_or(0), 0);
}

#[test]
fn variables_name_proxy_only_for_allowed_hosts() {
    assert!(proxy_environment(&policy(&[])).is_empty());
    let variables = |policy| std::collections::BTreeMap::from_iter(proxy_environment(&policy));
    let some = variables(policy(&["a.org"]));
    assert_eq!(some["HTTPS_PROXY"], "http://127.0.0.1:3128");
    assert_eq!(some["no_proxy"], "localhost,127.0.0.1,::1");
    assert_eq!(variables(policy(&["127.0.0.1"]))["NO_PROXY"], "localhost,::1");
}

/// Serves one connection as a proxy with this answer, then as the host; returns what it receives.
async fn parent_proxy(answer: &'static str) -> (u16, JoinHandle<String>) {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = Vec::new();
        let mut bytes = [0; 4096];
        for answer in [answer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"] {
            match stream.read(&mut bytes).await {
                Ok(read @ 1..) => received.extend_from_slice(&bytes[..read]),
                _ => break,
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        String::from_utf8(received).unwrap()
    });
    (port, serving)
}

#[tokio::test]
async fn parent_proxy_connects_by_name() {
    let (port, serving) = parent_proxy("HTTP/1.1 200 Connection established\r\n\r\n").await;
    let rules = policy(&["outside.org", "metadata.example.org", "direct.org"]);
    let network = Network::start_behind(rules, Some(port)).await;
    // This machine cannot resolve the name.
    let answer = network.ask("GET http://outside.org/a HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok"), "{answer}");
    let received = serving.await.unwrap().to_lowercase();
    let connect = "connect outside.org:80 http/1.1\r\nhost: outside.org:80\r\n\
                   proxy-authorization: basic dtpw\r\n\r\nget /a http/1.1\r\n";
    assert!(received.starts_with(connect), "{received}");
    for (host, status) in [
        ("evil.org", "403 evil.org: it is not in"),
        ("metadata.example.org", "403 metadata.example.org: it resolves to 169.254.169.254"),
        ("direct.org", "502 direct.org cannot be reached: no such name"),
    ] {
        let answer = network.ask(&format!("CONNECT {host}:443 HTTP/1.1\r\n\r\n")).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    assert_eq!(network.received(), "");
}

#[tokio::test]
async fn refusal_of_parent_proxy_is_named() {
    let rules = policy(&["outside.org"]);
    for (answer, reason) in [
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407 Proxy Authentication"),
        ("SSH-2.0-x\r\n\r\n", "SSH-2.0-x"),
    ] {
        let (port, _serving) = parent_proxy(answer).await;
        let network = Network::start_behind(rules.clone(), Some(port)).await;
        let answer = network.ask("CONNECT outside.org:443 HTTP/1.1\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 502 outside.org cannot be reached"), "{answer}");
        assert!(answer.contains(&format!("the proxy 127.0.0.1:{port}")) && answer.contains(reason));
    }
    // Nothing listens there.
    let network = Network::start_behind(rules, Some(1)).await;
    let answer = network.ask("CONNECT outside.org:443 HTTP/1.1\r\n\r\n").await;
    assert!(answer.contains("refused"), "{answer}");
}
