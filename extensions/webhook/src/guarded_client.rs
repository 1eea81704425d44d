//! The HTTP client of deliveries, which contacts only allowed addresses.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, redirect};
use skillhost_policy::AddressPolicy;
use skillhost_sdk::async_trait;
use url::{Host, Url};

/// The timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A lookup of host names; tests substitute their own.
#[async_trait]
pub(crate) trait NameLookup: Send + Sync + 'static {
    /// Returns the addresses of a host.
    async fn find_addresses(&self, host: &str) -> std::io::Result<Vec<IpAddr>>;
}

/// The resolver of the system.
pub(crate) struct SystemLookup;

#[async_trait]
impl NameLookup for SystemLookup {
    async fn find_addresses(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// The refusal of an address, as the error inside of the client's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusedAddressError {
    pub(crate) host: String,
    pub(crate) address: IpAddr,
}

impl fmt::Display for RefusedAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host `{}` has the address {}, which is not allowed", self.host, self.address)
    }
}

impl Error for RefusedAddressError {}

/// The rule for the addresses of one scheme.
#[derive(Debug, Clone)]
struct SchemePolicy {
    policy: AddressPolicy,
    /// Only addresses of the settings: without TLS, a message crosses no public network.
    only_listed: bool,
}

impl SchemePolicy {
    /// Checks that every address of a host is allowed. A host with only one refused address is
    /// refused: the choice among them would be the attacker's.
    fn check(&self, host: &str, addresses: &[IpAddr]) -> Result<(), RefusedAddressError> {
        let is_allowed = |address: &IpAddr| match self.only_listed {
            true => self.policy.is_listed(*address),
            false => self.policy.is_allowed(*address),
        };
        match addresses.iter().find(|address| !is_allowed(address)) {
            None => Ok(()),
            Some(address) => Err(RefusedAddressError { host: host.to_owned(), address: *address }),
        }
    }
}

/// A resolver that refuses hosts with addresses that are not allowed. The client connects to the
/// addresses that it returns and does not resolve the name again.
struct AddressResolver {
    policy: SchemePolicy,
    lookup: Arc<dyn NameLookup>,
}

impl Resolve for AddressResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, lookup) = (self.policy.clone(), Arc::clone(&self.lookup));
        Box::pin(async move {
            let addresses = lookup.find_addresses(name.as_str()).await?;
            policy.check(name.as_str(), &addresses)?;
            // The client replaces the port 0.
            let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}

/// A client for https to public and listed addresses, and for http to listed ones.
pub(crate) struct GuardedClient {
    secure: (Client, SchemePolicy),
    plain: (Client, SchemePolicy),
}

impl GuardedClient {
    /// Creates a client.
    ///
    /// # Errors
    /// The message of the TLS library, if the machine has no trusted certificates.
    pub(crate) fn new(
        policy: &AddressPolicy,
        timeout: Duration,
        lookup: &Arc<dyn NameLookup>,
    ) -> Result<Self, String> {
        // Only the first call installs it; later calls fail with the same provider in place.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = |only_listed: bool| {
            let policy = SchemePolicy { policy: policy.clone(), only_listed };
            let lookup = Arc::clone(lookup);
            let mut builder = Client::builder()
                .user_agent(concat!("skillhost/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(CONNECT_TIMEOUT)
                .timeout(timeout)
                .redirect(redirect::Policy::none())
                // A proxy would resolve the names itself, so no address could be checked.
                .no_proxy()
                // A kept connection would be used without a further check of its host.
                .pool_max_idle_per_host(0)
                .dns_resolver(Arc::new(AddressResolver { policy: policy.clone(), lookup }));
            if only_listed {
                // Without certificates, since a machine may have none and http uses none.
                builder = builder.tls_certs_only([]);
            }
            let client = builder.build().map_err(|error| error.without_url().to_string())?;
            Ok::<_, String>((client, policy))
        };
        Ok(Self { secure: client(false)?, plain: client(true)? })
    }

    /// Returns the client for an address of the settings.
    ///
    /// # Errors
    /// [`RefusedAddressError`] for an address in the URL itself, which is never resolved.
    pub(crate) fn client_for(&self, url: &Url) -> Result<&Client, RefusedAddressError> {
        let (client, policy) = if url.scheme() == "https" { &self.secure } else { &self.plain };
        let address: Option<IpAddr> = match url.host() {
            Some(Host::Ipv4(address)) => Some(address.into()),
            Some(Host::Ipv6(address)) => Some(address.into()),
            Some(Host::Domain(_)) | None => None,
        };
        if let Some(address) = address {
            policy.check(url.host_str().unwrap_or_default(), &[address])?;
        }
        Ok(client)
    }
}

/// Returns the refusal if an error of the client is one.
pub(crate) fn find_refused_address(error: &reqwest::Error) -> Option<&RefusedAddressError> {
    let mut source = error.source();
    while let Some(deeper) = source {
        if let Some(refused) = deeper.downcast_ref() {
            return Some(refused);
        }
        source = deeper.source();
    }
    None
}
