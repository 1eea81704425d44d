//! The HTTP clients: one for pages, which contacts public addresses only, and one for the search
//! service.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use skillhost_policy::AddressPolicy;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    ConnectionDetails, Connector, DefaultConnector, NextTimeout, Transport,
};

/// The name of this client in requests.
const USER_AGENT: &str = concat!("skillhost/", env!("CARGO_PKG_VERSION"));

/// Returns a client of the search service, which the operator's settings name. It uses the proxy of
/// the environment, except for a service on this machine.
pub(crate) fn search_client(is_local: bool) -> ureq::Agent {
    let config = base_config();
    let config = if is_local { config.proxy(None) } else { config };
    config.build().into()
}

/// Returns a client of pages that contacts only addresses that the policy allows.
pub(crate) fn page_client(policy: AddressPolicy) -> ureq::Agent {
    guarded_client(policy, DefaultResolver::default())
}

fn guarded_client(policy: AddressPolicy, lookup: impl Resolver) -> ureq::Agent {
    let policy = Arc::new(policy);
    let config = base_config()
        // A proxy would resolve the names itself, so nothing could be checked.
        .proxy(None)
        // A kept connection would be used without a further check of its host.
        .max_idle_connections(0)
        .build();
    let resolver = GuardedResolver { policy: Arc::clone(&policy), lookup };
    let connector = AddressGuard { policy }.chain(DefaultConnector::default());
    ureq::Agent::with_parts(config, connector, resolver)
}

/// Returns the common configuration: the certificates of the operating system, no redirects.
fn base_config() -> ureq::config::ConfigBuilder<ureq::typestate::AgentScope> {
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    ureq::Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        // Each hop is checked by the caller.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(USER_AGENT)
}

/// The refusal of an address, as the error inside of the client's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RefusedAddress {
    pub(crate) host: String,
    pub(crate) address: IpAddr,
}

impl fmt::Display for RefusedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host `{}` has the address {}, which is not public", self.host, self.address)
    }
}

impl std::error::Error for RefusedAddress {}

/// Returns the refusal if an error of the client is one.
pub(crate) fn as_refused_address(error: &ureq::Error) -> Option<&RefusedAddress> {
    match error {
        ureq::Error::Other(inner) => inner.downcast_ref(),
        _ => None,
    }
}

/// Checks that every address of a host is allowed. A host with only one refused address is refused:
/// the choice among them would be the attacker's.
fn check_addresses(
    policy: &AddressPolicy,
    uri: &Uri,
    addresses: &ResolvedSocketAddrs,
) -> Result<(), ureq::Error> {
    match addresses.iter().find(|address| !policy.is_allowed(address.ip())) {
        None => Ok(()),
        Some(address) => Err(ureq::Error::Other(Box::new(RefusedAddress {
            host: uri.host().unwrap_or_default().to_owned(),
            address: address.ip(),
        }))),
    }
}

/// A resolver that refuses hosts with addresses that are not allowed. The client connects to the
/// addresses that it returns and does not resolve the name again.
struct GuardedResolver<R> {
    policy: Arc<AddressPolicy>,
    lookup: R,
}

impl<R> fmt::Debug for GuardedResolver<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuardedResolver")
    }
}

impl<R: Resolver> Resolver for GuardedResolver<R> {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let addresses = self.lookup.resolve(uri, config, timeout)?;
        check_addresses(&self.policy, uri, &addresses)?;
        Ok(addresses)
    }
}

/// A check of the addresses directly before the connection, whichever way they were found.
#[derive(Debug)]
struct AddressGuard {
    policy: Arc<AddressPolicy>,
}

impl<T: Transport> Connector<T> for AddressGuard {
    type Out = T;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<T>,
    ) -> Result<Option<T>, ureq::Error> {
        check_addresses(&self.policy, details.uri, &details.addrs)?;
        Ok(chained)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::SocketAddr;
    use std::sync::Mutex;

    use super::*;

    /// A resolver with a list of answers for every host, the last of which is repeated.
    #[derive(Debug)]
    pub(crate) struct FixedResolver(Mutex<Vec<SocketAddr>>);

    impl FixedResolver {
        pub(crate) fn new(addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
            Self(Mutex::new(addresses.into_iter().collect()))
        }
    }

    impl Resolver for FixedResolver {
        fn resolve(
            &self,
            _: &Uri,
            _: &Config,
            _: NextTimeout,
        ) -> Result<ResolvedSocketAddrs, ureq::Error> {
            let mut answers = self.0.lock().unwrap();
            let address = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
            let mut addresses = self.empty();
            addresses.push(address);
            Ok(addresses)
        }
    }

    pub(crate) fn client_with(policy: &[&str], resolver: FixedResolver) -> ureq::Agent {
        let texts: Vec<_> = policy.iter().map(|&text| text.to_owned()).collect();
        guarded_client(AddressPolicy::parse(&texts).unwrap(), resolver)
    }

    #[test]
    fn loopback_is_refused_in_every_notation() {
        let client = page_client(AddressPolicy::default());
        for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"] {
            let error = client.get(format!("http://{host}:9/")).call().unwrap_err();
            assert!(as_refused_address(&error).is_some(), "{host}: {error}");
        }
    }

    #[test]
    fn each_check_refuses_alone() {
        let policy = Arc::new(AddressPolicy::default());
        let expected = RefusedAddress {
            host: "example.com".to_owned(),
            address: "127.0.0.1".parse().unwrap(),
        };
        let lookup = || FixedResolver::new(["127.0.0.1:9".parse().unwrap()]);
        let config = || base_config().proxy(None).build();
        let resolver = GuardedResolver { policy: Arc::clone(&policy), lookup: lookup() };
        let guard = AddressGuard { policy }.chain(DefaultConnector::default());
        for client in [
            ureq::Agent::with_parts(config(), DefaultConnector::default(), resolver),
            ureq::Agent::with_parts(config(), guard, lookup()),
        ] {
            let error = client.get("http://example.com/").call().unwrap_err();
            assert_eq!(as_refused_address(&error), Some(&expected));
        }
        let text = "host `example.com` has the address 127.0.0.1, which is not public";
        assert_eq!(expected.to_string(), text);
    }
}
