//! The decision on one connection: the name, its addresses, and the connection itself.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use skillhost_policy::{DomainPattern, NetworkPolicy, is_public_address};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::contacts::{ContactRecord, HostContact};
use crate::parent_proxy::ParentProxy;

/// The time for the resolution of a name, and for a connection to one address.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// The time for the resolution of a name that the proxy of the network resolves, too.
const PROXIED_RESOLUTION_TIMEOUT: Duration = Duration::from_secs(2);

/// The number of addresses of a host that are tried.
const MAX_ADDRESSES: usize = 4;

type Resolution = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// The resolution of names.
#[derive(Clone)]
pub(crate) struct NameResolver(Arc<dyn Fn(String) -> Resolution + Send + Sync>);

/// The hosts that a run may reach.
#[derive(Debug)]
pub(crate) struct HostAccess {
    policy: NetworkPolicy,
    resolver: NameResolver,
    /// The proxy of the machine's network.
    parent: Option<ParentProxy>,
    contacts: Mutex<ContactRecord>,
}

/// The reason why there is no connection, with the host in a form that is safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The text is not a host name or address.
    #[error("the host is not valid: {reason}")]
    Invalid { reason: &'static str },
    /// The policy does not allow it.
    #[error("{host}: {reason}")]
    Refused { host: String, reason: String },
    /// It is allowed, but cannot be reached.
    #[error("{host} cannot be reached: {reason}")]
    Unreachable { host: String, reason: String },
}

impl NameResolver {
    /// Returns the resolution of the system.
    pub(crate) fn system() -> Self {
        Self::from_function(|name| async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }

    pub(crate) fn from_function<F>(resolve: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        Self(Arc::new(move |name| Box::pin(resolve(name))))
    }
}

impl fmt::Debug for NameResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NameResolver")
    }
}

impl HostAccess {
    pub(crate) fn new(
        policy: NetworkPolicy,
        resolver: NameResolver,
        parent: Option<ParentProxy>,
    ) -> Self {
        Self { policy, resolver, parent, contacts: Mutex::default() }
    }

    pub(crate) fn contacts(&self) -> Vec<HostContact> {
        self.contacts.lock().unwrap_or_else(PoisonError::into_inner).list()
    }

    /// Connects to a host, if the policy allows it, and records the decision.
    pub(crate) async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, ConnectError> {
        let decision = self.find_addresses(host).await;
        let (name, refused) = match &decision {
            Ok((name, _)) => (name.as_str(), None),
            Err(ConnectError::Invalid { reason }) => ("(not valid)", Some(*reason)),
            Err(ConnectError::Refused { host, reason }) => (host.as_str(), Some(reason.as_str())),
            Err(ConnectError::Unreachable { host, .. }) => (host.as_str(), None),
        };
        self.contacts.lock().unwrap_or_else(PoisonError::into_inner).add(name, refused);
        let (host, addresses) = decision?;
        if let Some(parent) = self.parent_for(&host) {
            let connection = parent.connect(&host, port).await;
            let reason = |error: io::Error| error.to_string();
            return connection
                .map_err(|error| ConnectError::Unreachable { host, reason: reason(error) });
        }
        // Not by name again: a second resolution could give another address.
        let mut last = "no address".to_owned();
        for address in addresses.into_iter().take(MAX_ADDRESSES) {
            let connection = TcpStream::connect(SocketAddr::new(address, port));
            match timeout(STEP_TIMEOUT, connection).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = format!("{address}: {error}"),
                Err(_) => last = format!("{address}: timed out"),
            }
        }
        Err(ConnectError::Unreachable { host, reason: last })
    }

    /// Returns the host in its usual form, with its allowed addresses.
    pub(crate) async fn find_addresses(
        &self,
        host: &str,
    ) -> Result<(String, Vec<IpAddr>), ConnectError> {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let pattern = DomainPattern::parse(bare)
            .map_err(|invalid| ConnectError::Invalid { reason: invalid.reason })?;
        let host = pattern.as_str().to_owned();
        if host.starts_with('*') {
            return Err(ConnectError::Invalid { reason: "it is a pattern" });
        }
        if !self.policy.allows_host(&host) {
            let reason = match self.policy.denies_host(&host) {
                true => "it is in `network.deniedDomains`",
                false => "it is not in `network.allowedDomains`",
            };
            return Err(ConnectError::Refused { host, reason: reason.to_owned() });
        }
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok((host, vec![address]));
        }
        let parent = self.parent_for(&host);
        let limit = if parent.is_some() { PROXIED_RESOLUTION_TIMEOUT } else { STEP_TIMEOUT };
        let unreachable = |reason: String| ConnectError::Unreachable { host: host.clone(), reason };
        let found = timeout(limit, (self.resolver.0)(host.clone()))
            .await
            .map_err(|_| unreachable("the resolution timed out".to_owned()))
            .and_then(|found| found.map_err(|error| unreachable(error.to_string())));
        let found = match found {
            // Behind a proxy this machine may have no names of other networks.
            Err(_) if parent.is_some() => return Ok((host, Vec::new())),
            found => found?,
        };
        let (allowed, refused): (Vec<_>, Vec<_>) = found
            .into_iter()
            .map(|address| address.to_canonical())
            .partition(|address| self.allows_address(*address));
        match (allowed.is_empty(), refused.first()) {
            (true, Some(address)) => {
                let reason = format!(
                    "it resolves to {address}, which `network.allowedDomains` does not list and is not public"
                );
                let reason = match self.policy.denies_host(&address.to_string()) {
                    true => {
                        format!("it resolves to {address}, which is in `network.deniedDomains`")
                    }
                    false => reason,
                };
                Err(ConnectError::Refused { host, reason })
            }
            _ => Ok((host, allowed)),
        }
    }

    /// Returns the proxy through which a host is reached, if it is not reached directly.
    fn parent_for(&self, host: &str) -> Option<&ParentProxy> {
        self.parent.as_ref().filter(|parent| parent.serves(host))
    }

    /// Tests whether an address to which an allowed name resolves may be contacted.
    fn allows_address(&self, address: IpAddr) -> bool {
        let text = address.to_string();
        !self.policy.denies_host(&text)
            && (is_public_address(address) || self.policy.allows_host(&text))
    }
}
