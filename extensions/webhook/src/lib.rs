//! The channel `webhook`: programs send signed messages to agents, and get replies as signed webhooks.
//!
//! Both directions use the symmetric scheme of the specification Standard Webhooks (`signature`).
//! `listener` reads requests, `receiver` verifies them and passes the messages to the kernel, `seen_ids`
//! remembers them against replays, `sender` delivers to the addresses that `guarded_client` allows.

mod guarded_client;
mod hook;
mod hook_clock;
mod hook_kernel;
mod listener;
mod receiver;
mod seen_ids;
mod sender;
mod service_state;
mod signature;
#[cfg(test)]
mod test_kernel;
mod utc_time;

use std::net::SocketAddr;
use std::time::Duration;

use skillhost_policy::AddressPolicy;
use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::{ChannelInfo, ChannelPeer, OutgoingMessage, SendOutcome};

use crate::hook::{HookConfig, HookTable};
use crate::hook_clock::{HookClock, SystemHookClock};
use crate::hook_kernel::HookKernel;
use crate::listener::listen_for_hooks;
use crate::receiver::HookReceiver;
use crate::seen_ids::SeenIds;
use crate::sender::HookSender;
use crate::service_state::ServiceState;

/// The length limit of a message's text, in UTF-16 code units.
const TEXT_LIMIT: usize = 60_000;
/// The pauses between attempts to receive hooks.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The `config` of the manifest.
#[derive(Debug, Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
struct WebhookConfig {
    listen: Option<String>,
    hooks: std::collections::BTreeMap<String, HookConfig>,
    allow_addresses: Vec<String>,
    timeout_ms: u64,
}

/// The extension.
struct WebhookExtension {
    kernel: Arc<dyn HookKernel>,
    hooks: Arc<HookTable>,
    listen: Option<SocketAddr>,
    sender: HookSender,
    clock: Arc<dyn HookClock>,
    state: Arc<ServiceState>,
    /// The file of the ids that were received.
    seen: std::path::PathBuf,
}

#[async_trait]
impl Extension for WebhookExtension {
    fn new(cx: ExtensionContext) -> Result<Self> {
        let config: WebhookConfig = cx.config()?;
        let listen = config.listen.as_deref().map(parse_listen).transpose()?;
        let hooks = HookTable::parse(&config.hooks).map_err(|reason| config_error(&reason))?;
        let policy = AddressPolicy::parse(&config.allow_addresses).map_err(|error| {
            config_error(&format!("allow_addresses: {error}"))
                .with_hint("use an address such as 127.0.0.1 or a network such as 10.0.0.0/8")
        })?;
        if !(1..=55_000).contains(&config.timeout_ms) {
            let timeout = config.timeout_ms;
            return Err(config_error(&format!("timeout_ms: {timeout} is not from 1 to 55000")));
        }
        let clock: Arc<dyn HookClock> = Arc::new(SystemHookClock);
        let timeout = Duration::from_millis(config.timeout_ms);
        let sender = HookSender::new(&policy, timeout, Arc::clone(&clock))?;
        Ok(Self {
            seen: cx.data_path().join("seen.json"),
            kernel: Arc::new(cx),
            hooks: Arc::new(hooks),
            listen,
            sender,
            clock,
            state: Arc::default(),
        })
    }

    async fn health_check(&self) -> Result<()> {
        self.state.check_health()?;
        for (name, secrets) in self.hooks.load_secrets(&*self.kernel).await? {
            secrets.map_err(|reason| {
                let message = format!("hook `{name}`: {reason}");
                ExtensionError::new(ErrorKind::Unavailable, message)
                    .with_hint("set the secret of the hook to whsec_ and 32 random bytes in base64")
            })?;
        }
        Ok(())
    }
}

/// Parses the address of the listener.
fn parse_listen(text: &str) -> Result<SocketAddr> {
    let address: SocketAddr = text.parse().map_err(|_| {
        config_error(&format!("listen: `{text}` is not an address with a port"))
            .with_hint("use an address such as 127.0.0.1:8377")
    })?;
    if !address.ip().is_loopback() {
        // Without TLS, messages could be read on the way.
        let message = format!("listen: {} is not an address of this machine alone", address.ip());
        return Err(config_error(&message)
            .with_hint("listen at 127.0.0.1, behind a proxy with TLS for other machines"));
    }
    Ok(address)
}

fn config_error(message: &str) -> ExtensionError {
    ExtensionError::invalid_argument(format!("config.{message}"))
        .with_hint("see `config` in manifests/webhook/manifest.yaml")
}

#[async_trait]
impl ServiceProvider for WebhookExtension {
    async fn run_background(&self, cancel: CancellationToken) -> Result<()> {
        let Some(address) = self.listen else { return Ok(()) };
        let mut pause = FIRST_PAUSE;
        loop {
            match self.receive_hooks(address, &cancel).await {
                Ok(()) => return Ok(()),
                // Another process of this home receives the hooks.
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    self.state.set_failure(None);
                }
                Err(error) => self.state.set_failure(Some(&error)),
            }
            tokio::select! {
                () = cancel.cancelled() => return Ok(()),
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
            }
        }
    }
}

impl WebhookExtension {
    /// Receives hooks until `cancel` is cancelled.
    async fn receive_hooks(&self, address: SocketAddr, cancel: &CancellationToken) -> Result<()> {
        // First, so that another process of this home keeps its port and its file of ids.
        self.kernel.require_receiver().await?;
        let seen = SeenIds::load(self.seen.clone(), self.clock.unix_time()).await?;
        let receiver = HookReceiver::new(
            Arc::clone(&self.kernel),
            Arc::clone(&self.hooks),
            Arc::clone(&self.clock),
            seen,
        );
        let listener = tokio::net::TcpListener::bind(address).await.map_err(|error| {
            ExtensionError::new(
                ErrorKind::Io,
                format!("hooks cannot be received at {address}: {error}"),
            )
            .with_hint("select a free port: `listen` of the extension webhook")
        })?;
        // Port 0 leaves the choice to the system.
        let address = listener.local_addr().unwrap_or(address);
        tracing::info!("hooks are received at http://{address}/hooks/NAME");
        self.state.set_failure(None);
        listen_for_hooks(listener, Arc::new(receiver), cancel).await;
        Ok(())
    }
}

#[async_trait]
impl ChannelProvider for WebhookExtension {
    fn info(&self) -> ChannelInfo {
        ChannelInfo {
            account: "webhook".to_owned(),
            text_limit: TEXT_LIMIT,
            format: "plain text that a program reads".to_owned(),
            has_buttons: false,
            can_edit: false,
        }
    }

    async fn send(&self, message: &OutgoingMessage) -> Result<SendOutcome> {
        self.sender.deliver(&self.hooks, &*self.kernel, message).await
    }

    async fn hint(&self, _peer: &ChannelPeer) -> Result<Option<String>> {
        Ok(Some(
            "The messages come from a program, and programs read the replies: answer without \
             greetings, in the form that the message asks for. No person reads questions here."
                .to_owned(),
        ))
    }
}

export_extension!(WebhookExtension: service, channel);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_stays_on_this_machine() {
        assert_eq!(parse_listen("127.0.0.1:8377").unwrap().port(), 8377);
        assert!(parse_listen("[::1]:8377").is_ok());
        for text in ["0.0.0.0:8377", "192.168.1.2:1", "[::]:1", "localhost:1", "127.0.0.1", ""] {
            assert_eq!(
                parse_listen(text).unwrap_err().kind(),
                ErrorKind::InvalidArgument,
                "{text}"
            );
        }
    }
}
