//! Checks of a request's head before its body is read.

use std::net::SocketAddr;

use http::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, StatusCode, Uri};

use super::{AccessPolicy, BearerToken};

/// The loopback names, which are always allowed as hosts.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// An error for a rejected request head; the client receives its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeadError {
    pub(super) status: StatusCode,
    pub(super) text: &'static str,
}

impl HeadError {
    const fn new(status: StatusCode, text: &'static str) -> Self {
        Self { status, text }
    }
}

/// The rules for request heads: `Host`, then `Origin`, then the bearer token.
#[derive(Debug)]
pub(super) struct HeadGuard {
    hosts: Vec<AllowedHost>,
    origins: Vec<AllowedOrigin>,
    token: Option<BearerToken>,
}

/// An allowed host name; any port if it has none.
#[derive(Debug, PartialEq, Eq)]
struct AllowedHost {
    host: String,
    port: Option<u16>,
}

/// An allowed origin of web pages; any port if it has none.
#[derive(Debug, PartialEq, Eq)]
enum AllowedOrigin {
    Null,
    Site { scheme: String, host: AllowedHost },
}

impl HeadGuard {
    /// Creates the rules of a server that listens at an address.
    pub(super) fn new(access: &AccessPolicy, address: SocketAddr) -> Self {
        let hosts = allowed_hosts(access, address);
        let origins = allowed_origins(access);
        Self {
            hosts: hosts.iter().filter_map(|host| parse_allowed_host(host)).collect(),
            origins: origins.iter().filter_map(|origin| parse_allowed_origin(origin)).collect(),
            token: access.token.clone(),
        }
    }

    /// Checks `Host`, `Origin` and token, in this order.
    ///
    /// # Errors
    /// [`HeadError`] for the first of them that is not allowed.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), HeadError> {
        self.check_host(uri, headers)?;
        self.check_origin(headers)?;
        match &self.token {
            Some(token) if !bearer_token(headers).is_some_and(|given| token.matches(given)) => {
                Err(HeadError::new(StatusCode::UNAUTHORIZED, "bearer token is required"))
            }
            _ => Ok(()),
        }
    }

    fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), HeadError> {
        const INVALID: HeadError = HeadError::new(StatusCode::BAD_REQUEST, "Host is not valid");
        let host = match single_value(headers, &HOST).map_err(|()| INVALID)? {
            Some(host) => host.parse::<Authority>().map_err(|_| INVALID)?,
            // HTTP/2 and absolute request targets carry the host in the target.
            None => uri.authority().cloned().ok_or(INVALID)?,
        };
        let (name, port) = (normalize_host(host.host()), host.port_u16());
        let fits = |allowed: &AllowedHost| {
            allowed.host == name && (allowed.port.is_none() || allowed.port == port)
        };
        match self.hosts.iter().any(fits) {
            true => Ok(()),
            false => Err(HeadError::new(StatusCode::FORBIDDEN, "Host is not allowed")),
        }
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), HeadError> {
        const DENIED: HeadError = HeadError::new(StatusCode::FORBIDDEN, "Origin is not allowed");
        // Only browsers send an origin; other clients pass without one.
        let Some(origin) = single_value(headers, &ORIGIN).map_err(|()| DENIED)? else {
            return Ok(());
        };
        if origin.eq_ignore_ascii_case("null") {
            return match self.origins.contains(&AllowedOrigin::Null) {
                true => Ok(()),
                false => Err(DENIED),
            };
        }
        let origin: Uri = origin.parse().map_err(|_| DENIED)?;
        let (Some(scheme), Some(site)) = (origin.scheme_str(), origin.authority()) else {
            return Err(DENIED);
        };
        let scheme = scheme.to_ascii_lowercase();
        // Browsers omit the default port, while an allowed origin may name it.
        let port = site.port_u16().or_else(|| default_port(&scheme));
        let name = normalize_host(site.host());
        let fits = |allowed: &AllowedOrigin| match allowed {
            AllowedOrigin::Null => false,
            AllowedOrigin::Site { scheme: other, host } => {
                *other == scheme && host.host == name && (host.port.is_none() || host.port == port)
            }
        };
        match self.origins.iter().any(fits) {
            true => Ok(()),
            false => Err(DENIED),
        }
    }
}

/// Returns the allowed host names of a server.
pub(super) fn allowed_hosts(access: &AccessPolicy, address: SocketAddr) -> Vec<String> {
    let mut hosts = LOOPBACK.map(str::to_owned).to_vec();
    // `0.0.0.0` and `::` are not addresses that a client can name.
    if !address.ip().is_unspecified() {
        hosts.push(address.ip().to_string());
    }
    hosts.extend(access.hosts.iter().cloned());
    hosts
}

/// Returns the allowed origins of web pages.
pub(super) fn allowed_origins(access: &AccessPolicy) -> Vec<String> {
    let loopback = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];
    loopback.map(str::to_owned).into_iter().chain(access.origins.iter().cloned()).collect()
}

fn parse_allowed_host(text: &str) -> Option<AllowedHost> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    // An IPv6 address without brackets is not a valid authority.
    Some(match text.parse::<Authority>() {
        Ok(found) => AllowedHost { host: normalize_host(found.host()), port: found.port_u16() },
        Err(_) => AllowedHost { host: normalize_host(text), port: None },
    })
}

fn parse_allowed_origin(text: &str) -> Option<AllowedOrigin> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("null") {
        return Some(AllowedOrigin::Null);
    }
    // `:*` is the library's notation for any port, which is the default here.
    let uri: Uri = text.strip_suffix(":*").unwrap_or(text).parse().ok()?;
    let (scheme, site) = (uri.scheme_str()?.to_ascii_lowercase(), uri.authority()?);
    let host = AllowedHost { host: normalize_host(site.host()), port: site.port_u16() };
    Some(AllowedOrigin::Site { scheme, host })
}

fn normalize_host(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase()
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

/// Returns the single value of a header, or `None` if the header is absent.
///
/// # Errors
/// `Err` for a repeated header and for a value that is not ASCII text.
fn single_value<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        // A proxy in between may have checked a different one of the values.
        (Some(_), Some(_)) => Err(()),
    }
}

/// Returns the bearer token of a request.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> HeadGuard {
        let access = AccessPolicy {
            token: Some(BearerToken::new("0123456789abcdef").unwrap()),
            hosts: vec!["mcp.example:8443".to_owned(), "any.example".to_owned()],
            origins: vec!["https://app.example".to_owned(), "https://port.example:444".to_owned()],
        };
        HeadGuard::new(&access, "10.0.0.1:8787".parse().unwrap())
    }

    fn status(headers: &[(HeaderName, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().unwrap());
        }
        match guard().check(&Uri::from_static("/mcp"), &map) {
            Ok(()) => 200,
            Err(error) => error.status.as_u16(),
        }
    }

    const TOKEN: &str = "Bearer 0123456789abcdef";

    #[test]
    fn head_is_checked_in_order() {
        // Each error hides the later ones.
        let wrong = [(HOST, "evil.example"), (ORIGIN, "http://evil.example"), (AUTHORIZATION, "x")];
        let right = [(HOST, "localhost"), (ORIGIN, "http://localhost:1"), (AUTHORIZATION, TOKEN)];
        let [wrong_host, wrong_origin, wrong_token] = wrong;
        let [host, origin, token] = right;
        let text = |headers: &[(HeaderName, &str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(name, value.parse().unwrap());
            }
            guard().check(&Uri::from_static("/mcp"), &map).map_err(|error| error.text)
        };
        let all_wrong = [wrong_host, wrong_origin.clone(), wrong_token.clone()];
        assert_eq!(text(&all_wrong), Err("Host is not allowed"));
        let two_wrong = [host.clone(), wrong_origin, wrong_token.clone()];
        assert_eq!(text(&two_wrong), Err("Origin is not allowed"));
        let one_wrong = [host.clone(), origin.clone(), wrong_token];
        assert_eq!(text(&one_wrong), Err("bearer token is required"));
        assert_eq!(text(&[host, origin, token]), Ok(()));
    }

    #[test]
    fn only_allowed_hosts_pass() {
        for (host, expected) in [
            ("localhost", 200),
            ("LOCALHOST:1", 200),
            ("127.0.0.1:8787", 200),
            ("[::1]:8787", 200),
            ("10.0.0.1", 200),
            ("mcp.example:8443", 200),
            ("any.example:1", 200),
            ("mcp.example", 403),
            ("mcp.example:1", 403),
            ("localhost.evil.example", 403),
            ("evil.example", 403),
            ("10.0.0.2", 403),
            ("a b", 400),
            ("", 400),
        ] {
            assert_eq!(status(&[(HOST, host), (AUTHORIZATION, TOKEN)]), expected, "{host}");
        }
        assert_eq!(status(&[(AUTHORIZATION, TOKEN)]), 400);
        let twice = [(HOST, "localhost"), (HOST, "localhost"), (AUTHORIZATION, TOKEN)];
        assert_eq!(status(&twice), 400);
    }

    #[test]
    fn only_allowed_origins_pass() {
        for (origin, expected) in [
            ("http://localhost", 200),
            ("http://LOCALHOST:6274", 200),
            ("http://[::1]:1", 200),
            ("https://app.example", 200),
            ("https://app.example:1", 200),
            ("https://port.example:444", 200),
            ("https://port.example", 403),
            ("http://app.example", 403),
            ("https://localhost", 403),
            ("https://localhost.evil.example", 403),
            ("null", 403),
            ("file://", 403),
            ("evil", 403),
            ("", 403),
        ] {
            let headers = [(HOST, "localhost"), (ORIGIN, origin), (AUTHORIZATION, TOKEN)];
            assert_eq!(status(&headers), expected, "{origin}");
        }
        let twice = [
            (HOST, "localhost"),
            (ORIGIN, "http://localhost"),
            (ORIGIN, "http://evil.example"),
            (AUTHORIZATION, TOKEN),
        ];
        assert_eq!(status(&twice), 403);
        let null = AccessPolicy { origins: vec!["null".to_owned()], ..AccessPolicy::default() };
        let null = HeadGuard::new(&null, "127.0.0.1:1".parse().unwrap());
        let headers = HeaderMap::from_iter([
            (HOST, "localhost".parse().unwrap()),
            (ORIGIN, "null".parse().unwrap()),
        ]);
        assert_eq!(null.check(&Uri::from_static("/mcp"), &headers), Ok(()));
    }

    #[test]
    fn bearer_token_is_parsed() {
        let found = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            bearer_token(&headers).map(str::to_owned)
        };
        assert_eq!(found("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(found("bearer  abc ").as_deref(), Some("abc"));
        assert_eq!(found("Basic abc"), None);
        assert_eq!(found("Bearer"), None);
        assert_eq!(bearer_token(&HeaderMap::new()), None);
    }
}
