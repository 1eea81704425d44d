//! The HTTP client of the exporter.

use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use http::{Request, Response};
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use reqwest::redirect;
use tokio::runtime::Handle;

/// The longest time to connect.
const CONNECT: Duration = Duration::from_secs(2);
/// The longest time of a request.
const TOTAL: Duration = Duration::from_secs(5);
/// The longest reply that is read, in bytes; a longer one is an error.
const MAX_REPLY: usize = 64 << 10;

/// Sends the requests of the exporter's thread in a tokio runtime.
#[derive(Debug)]
pub(crate) struct CollectorClient {
    client: reqwest::Client,
    runtime: Handle,
}

impl CollectorClient {
    /// Creates a client for a base URL; must be called in a tokio runtime.
    ///
    /// # Errors
    /// The message of the TLS library, if the machine has no trusted certificates.
    pub(crate) fn new(url: &str) -> Result<Self, String> {
        // Only the first call installs it; later calls fail with the same provider in place.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("skillhost/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .timeout(TOTAL)
            // A redirect must not send spans or headers to another host.
            .redirect(redirect::Policy::none());
        if url.starts_with("http://") {
            // Without certificates, since a machine may have none and http uses none.
            builder = builder.tls_certs_only([]);
        }
        // A proxy of the environment cannot reach the loopback address of this machine.
        if is_local(url) {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| error.without_url().to_string())?;
        Ok(Self { client, runtime: Handle::current() })
    }
}

/// Returns whether a URL is about this machine.
fn is_local(url: &str) -> bool {
    let url = reqwest::Url::parse(url).ok();
    url.as_ref().and_then(reqwest::Url::host_str).is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    })
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request)?;
        let client = self.client.clone();
        // The thread of the exporter has no runtime of its own, which even the first step needs.
        let reply = self.runtime.spawn(async move {
            let mut reply = client.execute(request).await?;
            let status = reply.status();
            let mut body = Vec::new();
            while let Some(chunk) = reply.chunk().await? {
                if body.len() + chunk.len() > MAX_REPLY {
                    return Err(HttpError::from("the reply is too long"));
                }
                body.extend_from_slice(&chunk);
            }
            Ok(Response::builder().status(status).body(Bytes::from(body))?)
        });
        reply.await?
    }
}
