//! The network of sandboxed programs: a proxy in the kernel that connects to the allowed hosts.
//!
//! The run has a network namespace of its own, in which nothing but the listener of this proxy can
//! be reached. The proxy speaks HTTP (`CONNECT` and absolute addresses) and SOCKS 5 on one port. It
//! decides by the name that the program gives, resolves the name itself, and connects to an
//! address that it has checked. `destination` has these decisions, `http_proxy` and `socks_proxy`
//! the protocols, `parent_proxy` the way through a proxy of the network, and `contacts` the record
//! of the decisions.

mod contacts;
mod destination;
mod http_proxy;
mod parent_proxy;
mod socks_proxy;

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use skillhost_policy::NetworkPolicy;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

pub use contacts::HostContact;

use destination::{HostAccess, NameResolver};
use parent_proxy::ParentProxy;

/// The port of the proxy in the network namespace of a run.
pub const PROXY_PORT: u16 = 3128;

/// The number of connections at a time; further ones wait.
const MAX_CONNECTIONS: usize = 64;

/// The time in which a client must begin to speak.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);

/// The variables by which programs find the proxy.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// The proxy of one run. It ends with all its connections on drop.
#[derive(Debug)]
pub struct NetworkBroker {
    access: Arc<HostAccess>,
    accepting: AbortHandle,
}

impl NetworkBroker {
    /// Serves a listener that was opened in the network namespace of the run, in this runtime.
    ///
    /// # Errors
    /// The descriptor is not a listener.
    pub fn start(listener: OwnedFd, policy: NetworkPolicy) -> io::Result<Self> {
        let parent = ParentProxy::from_environment();
        Self::start_with(listener, policy, NameResolver::system(), parent)
    }

    fn start_with(
        listener: OwnedFd,
        policy: NetworkPolicy,
        resolver: NameResolver,
        parent: Option<ParentProxy>,
    ) -> io::Result<Self> {
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let access = Arc::new(HostAccess::new(policy, resolver, parent));
        let accepting = tokio::spawn(accept_connections(listener, Arc::clone(&access)));
        Ok(Self { access, accepting: accepting.abort_handle() })
    }

    /// Returns the decisions so far, by host.
    #[must_use]
    pub fn contacts(&self) -> Vec<HostContact> {
        self.access.contacts()
    }
}

impl Drop for NetworkBroker {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Returns the variables of a run that make its programs use the proxy.
///
/// All of them name an HTTP proxy: it serves every kind of connection by `CONNECT`, and several
/// libraries fail on a proxy of another kind.
#[must_use]
pub fn proxy_environment(policy: &NetworkPolicy) -> Vec<(&'static str, String)> {
    if policy.allowed_domains.is_empty() {
        return Vec::new();
    }
    let mut variables: Vec<_> = PROXY_VARIABLES
        .iter()
        .map(|name| (*name, format!("http://127.0.0.1:{PROXY_PORT}")))
        .collect();
    // The run's own servers, unless the name stands for those of the host.
    let own =
        ["localhost", "127.0.0.1", "::1"].into_iter().filter(|name| !policy.allows_host(name));
    let own = own.collect::<Vec<_>>().join(",");
    variables.extend([("NO_PROXY", own.clone()), ("no_proxy", own)]);
    // Node.js considers the others only then.
    variables.push(("NODE_USE_ENV_PROXY", "1".to_owned()));
    variables
}

async fn accept_connections(listener: tokio::net::TcpListener, access: Arc<HostAccess>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // Dropped with this task, and then all connections end.
    let mut connections = JoinSet::new();
    loop {
        // The semaphore is not closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let access = Arc::clone(&access);
                connections.spawn(async move {
                    serve_connection(stream, access).await;
                    drop(place);
                });
            }
            // Too many open files; a connection will end.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn serve_connection(stream: TcpStream, access: Arc<HostAccess>) {
    let mut first = [0];
    match timeout(GREETING_TIMEOUT, stream.peek(&mut first)).await {
        Ok(Ok(1)) if first[0] == socks_proxy::VERSION => socks_proxy::serve(stream, &access).await,
        Ok(Ok(1)) => http_proxy::serve(stream, access).await,
        _ => {}
    }
}

#[cfg(test)]
mod tests;
