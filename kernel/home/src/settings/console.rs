//! The settings of the web console.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The address on which the console listens by default: loopback, a port of the system's choice.
const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// The web console of a running kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, try_from = "ConsoleForm")]
#[schemars(!try_from)]
pub struct ConsoleSettings {
    /// `run` serves the console from its start; default: false. `skillhost console` starts it in any
    /// case.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enabled: bool,
    /// The address and port to listen on; default: `127.0.0.1:0`, a free port. An address other than
    /// loopback requires `public_origin`.
    #[schemars(with = "Option<String>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// The origin under which browsers reach the console through a proxy that ends TLS, such as
    /// `https://console.example.org`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_origin: Option<String>,
}

/// The keys as written, before they are checked together.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ConsoleForm {
    enabled: bool,
    listen: Option<String>,
    public_origin: Option<String>,
}

impl TryFrom<ConsoleForm> for ConsoleSettings {
    type Error = String;

    fn try_from(form: ConsoleForm) -> Result<Self, String> {
        let ConsoleForm { enabled, listen, public_origin } = form;
        let listen = match listen {
            Some(text) => Some(text.parse::<SocketAddr>().map_err(|_| {
                format!(
                    "console.listen `{text}` is not an address with a port, as `127.0.0.1:7717`"
                )
            })?),
            None => None,
        };
        if let Some(origin) = &public_origin
            && !is_https_origin(origin)
        {
            return Err(format!(
                "console.public_origin `{origin}` is not an origin as `https://console.example.org`"
            ));
        }
        let is_local = listen.is_none_or(|address| address.ip().is_loopback());
        if !is_local && public_origin.is_none() {
            return Err("console.listen is not a loopback address, which requires \
                        console.public_origin: browsers reach the console through TLS"
                .to_owned());
        }
        Ok(Self { enabled, listen, public_origin })
    }
}

/// Returns whether a text is an https origin: a host and perhaps a port, without a path.
fn is_https_origin(text: &str) -> bool {
    let is_host =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-:[]".contains(&byte);
    text.strip_prefix("https://").is_some_and(|host| !host.is_empty() && host.bytes().all(is_host))
}

impl ConsoleSettings {
    /// Returns whether no key is set.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the address to listen on.
    #[must_use]
    pub fn listen_address(&self) -> SocketAddr {
        self.listen.unwrap_or(DEFAULT_LISTEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConsoleSettings, String> {
        serde_yaml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn other_addresses_require_public_origin() {
        for (text, message) in [
            ("{listen: '0.0.0.0:80'}", "requires console.public_origin"),
            ("{listen: localhost}", "is not an address"),
            ("{public_origin: 'http://a.org'}", "is not an origin"),
            ("{public_origin: 'https://a.org/x'}", "is not an origin"),
            ("{public_origin: 'https://'}", "is not an origin"),
            ("{port: 1}", "unknown field"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
        let public = parse("{listen: '0.0.0.0:80', public_origin: 'https://a.org:8443'}").unwrap();
        assert_eq!(public.listen_address().to_string(), "0.0.0.0:80");
        let local = parse("{enabled: true}").unwrap();
        assert_eq!(
            (local.listen_address().to_string(), local.enabled),
            ("127.0.0.1:0".into(), true)
        );
    }
}
