//! A proxy of the machine's network, through which the kernel itself reaches other hosts.
//!
//! It is stated by the usual variables of the environment. The broker decides by the name as
//! always, and then asks this proxy for a connection to the name with `CONNECT`.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The variables that name a proxy, the first one that is set counts.
const VARIABLES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"];

/// The variables that name hosts without a proxy.
const EXCEPTIONS: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The port of a proxy without a stated one.
const DEFAULT_PORT: u16 = 80;

/// The time for the connection and for the answer of the proxy.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest header of an answer, in bytes.
const MAX_ANSWER: usize = 16 << 10;

/// A proxy that speaks HTTP.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ParentProxy {
    host: String,
    port: u16,
    /// The value of `Proxy-Authorization`.
    authorization: Option<String>,
    /// Names, ends of names and addresses that are reached directly, in lower case.
    exceptions: Vec<String>,
}

// Without the password.
impl std::fmt::Debug for ParentProxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ParentProxy({}:{})", self.host, self.port)
    }
}

impl ParentProxy {
    /// Returns the proxy that the environment of this process states.
    pub(crate) fn from_environment() -> Option<Self> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    pub(crate) fn from_variables(read: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let first = |names: &[&str]| {
            let mut values = names.iter().filter_map(|name| read(name));
            values.find(|value| !value.trim().is_empty())
        };
        let text = first(&VARIABLES)?;
        let Some(mut proxy) = Self::parse(text.trim()) else {
            // Not the text, which may have a password.
            tracing::warn!("the proxy of the environment is not used: its scheme is not http");
            return None;
        };
        let exceptions = first(&EXCEPTIONS).unwrap_or_default();
        let exceptions = exceptions.split(',').map(|name| name.trim().to_ascii_lowercase());
        proxy.exceptions = exceptions.filter(|name| !name.is_empty()).collect();
        Some(proxy)
    }

    /// Parses `[http://][USER:PASSWORD@]HOST[:PORT][/]`.
    fn parse(text: &str) -> Option<Self> {
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some(_) => return None,
            None => text,
        };
        let authority = rest.split('/').next().unwrap_or_default();
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        let (host, port) = match place.rsplit_once(':') {
            // The colons of an address in brackets do not separate a port.
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (place, DEFAULT_PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let authorization =
            user.map(|user| format!("Basic {}", STANDARD.encode(decode_percent(user))));
        (!host.is_empty()).then_some(Self { host, port, authorization, exceptions: Vec::new() })
    }

    /// Tests whether a host is reached through the proxy: not this machine, and no exception.
    pub(crate) fn serves(&self, host: &str) -> bool {
        let is_local = host == "localhost"
            || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback());
        let is_excepted = |exception: &String| {
            let end = exception.trim_start_matches("*").trim_start_matches('.');
            let above = host.strip_suffix(end);
            exception == "*" || above.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        !is_local && !self.exceptions.iter().any(is_excepted)
    }

    /// Connects to a host through the proxy, which resolves the name.
    ///
    /// # Errors
    /// The proxy cannot be reached, or refuses the connection.
    pub(crate) async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the proxy timed out");
        let connection = TcpStream::connect((self.host.as_str(), self.port));
        let mut stream = timeout(STEP_TIMEOUT, connection).await.map_err(late)??;
        timeout(STEP_TIMEOUT, self.open_tunnel(&mut stream, host, port)).await.map_err(late)??;
        Ok(stream)
    }

    async fn open_tunnel(&self, stream: &mut TcpStream, host: &str, port: u16) -> io::Result<()> {
        let place = match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        let mut request = format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n");
        if let Some(value) = &self.authorization {
            request.push_str(&format!("Proxy-Authorization: {value}\r\n"));
        }
        stream.write_all((request + "\r\n").as_bytes()).await?;
        let mut answer = Vec::new();
        // One byte at a time: what follows the header is the host's.
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() == MAX_ANSWER {
                return Err(io::Error::other("the answer of the proxy is too long"));
            }
            answer.push(stream.read_u8().await?);
        }
        let text = String::from_utf8_lossy(&answer);
        let line: String = text.lines().next().unwrap_or_default().chars().take(200).collect();
        let status = line.split(' ').nth(1).unwrap_or_default();
        match line.starts_with("HTTP/1.") && status.len() == 3 && status.starts_with('2') {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "the proxy {}:{} answered {:?}",
                self.host, self.port, line
            ))),
        }
    }
}

/// Replaces `%XX` with its byte.
fn decode_percent(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(variables: &[(&str, &str)]) -> Option<ParentProxy> {
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name);
        ParentProxy::from_variables(|name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn variables_state_proxy() {
        for (text, shown) in [
            ("http://proxy.example.org:3128", "ParentProxy(proxy.example.org:3128)"),
            ("http://proxy.example.org/", "ParentProxy(proxy.example.org:80)"),
            ("proxy:8080", "ParentProxy(proxy:8080)"),
            ("HTTP://[::1]:8080", "ParentProxy(::1:8080)"),
            ("http://user:secret@proxy:1", "ParentProxy(proxy:1)"),
        ] {
            let found = proxy(&[("https_proxy", text)]);
            assert_eq!(format!("{:?}", found.unwrap()), shown);
        }
        let found = proxy(&[("HTTPS_PROXY", ""), ("HTTP_PROXY", "http://us%65r:p%40ss%@p")]);
        // user:p@ss%
        assert_eq!(found.unwrap().authorization.as_deref(), Some("Basic dXNlcjpwQHNzJQ=="));
        for text in ["", "https://proxy:1", "socks5://proxy:1", "http://:1", "http://proxy:port"] {
            assert_eq!(proxy(&[("HTTPS_PROXY", text)]), None, "{text}");
        }
        assert_eq!(proxy(&[("NO_PROXY", "*")]), None);
    }

    #[test]
    fn exceptions_are_direct() {
        let found = proxy(&[
            ("ALL_PROXY", "proxy:1"),
            ("no_proxy", "Example.org, .inside.net,*.wild.com,10.0.0.1"),
        ]);
        let found = found.unwrap();
        for host in ["example.org", "a.example.org", "b.inside.net", "c.wild.com", "10.0.0.1"] {
            assert!(!found.serves(host), "{host}");
        }
        for host in ["localhost", "127.0.0.1", "127.1.2.3", "::1"] {
            assert!(!found.serves(host), "{host}");
        }
        for host in ["badexample.org", "example.com", "10.0.0.10", "1.1.1.1"] {
            assert!(found.serves(host), "{host}");
        }
        let all = proxy(&[("ALL_PROXY", "proxy:1"), ("NO_PROXY", "*")]).unwrap();
        assert!(!all.serves("example.com"));
    }
}
