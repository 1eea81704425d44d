//! Change notifications to clients that subscribe to them.

use std::sync::Arc;

use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, RoleServer, SubscriptionContext, SubscriptionSink};
use sha2::{Digest as _, Sha256};
use skillhost_payload::PublishedContent;
use tokio::sync::watch;

use super::session::{McpRequestContext, ServerSession, ServerShared};
use super::skills::find_skill;
use super::watched::{ResourceHash, WatchedResources};
use crate::backend::{ChangeCounter, ClientSession};

/// The destination of notifications: a session of the older versions or a subscription.
#[derive(Clone)]
enum NotifyTarget {
    Session(Peer<RoleServer>),
    Subscription(SubscriptionSink),
}

impl NotifyTarget {
    /// Sends a notification for each kind of list that may have changed and that the client has
    /// subscribed to. A failed delivery is only logged.
    async fn notify_lists_changed(&self, tools: bool) {
        match self {
            Self::Session(peer) => {
                if tools {
                    log_send_error(peer.notify_tool_list_changed().await);
                }
                log_send_error(peer.notify_resource_list_changed().await);
                log_send_error(peer.notify_prompt_list_changed().await);
            }
            Self::Subscription(sink) => {
                let accepted = sink.accepted();
                if tools && accepted.tools_list_changed == Some(true) {
                    log_send_error(sink.notify_tool_list_changed().await);
                }
                if accepted.resources_list_changed == Some(true) {
                    log_send_error(sink.notify_resource_list_changed().await);
                }
                if accepted.prompts_list_changed == Some(true) {
                    log_send_error(sink.notify_prompt_list_changed().await);
                }
            }
        }
    }

    async fn notify_updated(&self, uri: String) {
        match self {
            Self::Session(peer) => {
                let changed = ResourceUpdatedNotificationParam::new(uri);
                log_send_error(peer.notify_resource_updated(changed).await);
            }
            Self::Subscription(sink) => log_send_error(sink.notify_resource_updated(uri).await),
        }
    }
}

fn log_send_error<E: std::fmt::Display>(sent: Result<(), E>) {
    if let Err(error) = sent {
        // The connection's own task reports a lost client; here it is of no consequence.
        tracing::debug!(%error, "change notification not delivered");
    }
}

/// Spawns a task that notifies a session of the older versions of every change until it ends.
pub(super) fn notify_session(session: &ServerSession, peer: Peer<RoleServer>) {
    let notifier = ChangeNotifier {
        client: ClientSession {
            id: session.id.clone(),
            client: peer.peer_info().map_or_else(String::new, |info| info.client_info.name.clone()),
        },
        shared: Arc::clone(&session.shared),
        watched: Arc::clone(&session.watched),
        changes: session.changes.clone(),
        target: NotifyTarget::Session(peer.clone()),
    };
    tokio::spawn(async move {
        tokio::select! {
            () = wait_until_closed(&peer) => {}
            () = notifier.run() => {}
        }
    });
}

/// Waits until a client has disconnected.
async fn wait_until_closed(peer: &Peer<RoleServer>) {
    // The library offers no future for this, so the state is polled.
    while !peer.is_transport_closed() {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}

/// Returns the accepted part of a subscription: every list, and resources up to the limit.
pub(super) fn accept_filter(
    session: &ServerSession,
    requested: &SubscriptionFilter,
) -> SubscriptionFilter {
    let mut accepted = requested.clone();
    if let Some(uris) = &mut accepted.resource_subscriptions {
        uris.truncate(session.shared.limits.watched);
    }
    accepted
}

/// Notifies a subscription of the changes that it covers until it ends.
pub(super) async fn notify_subscription(
    session: &ServerSession,
    context: &SubscriptionContext,
) -> Result<(), ErrorData> {
    let client = session.client(context.request_context());
    let notify = async {
        let watched = Arc::new(WatchedResources::default());
        let limits = &session.shared.limits;
        for uri in context.accepted().resource_subscriptions.iter().flatten() {
            let seen = hash_resource(&session.shared, &client, uri).await;
            watched.remember(uri.clone(), seen, limits.watched);
        }
        let notifier = ChangeNotifier {
            client: client.clone(),
            shared: Arc::clone(&session.shared),
            watched,
            changes: session.changes.clone(),
            target: NotifyTarget::Subscription(context.sink().clone()),
        };
        notifier.run().await;
    };
    tokio::select! {
        () = context.cancelled() => {}
        // Otherwise the library would wait for this subscription, although the client has
        // disconnected.
        () = session.disconnected.cancelled() => {}
        () = notify => {}
    }
    Ok(())
}

/// Starts watching a resource for a session of the older versions.
pub(super) async fn watch_resource(
    session: &ServerSession,
    context: &McpRequestContext,
    uri: String,
) -> Result<(), ErrorData> {
    let client = session.client(context);
    find_skill(&session.shared, &client, &uri).await?;
    let seen = hash_resource(&session.shared, &client, &uri).await;
    let limit = session.shared.limits.watched;
    match session.watched.remember(uri, seen, limit) {
        true => Ok(()),
        false => {
            let message = format!("more than {limit} resources are watched");
            Err(ErrorData::invalid_params(message, None))
        }
    }
}

/// A task that waits for changes and notifies one client of them.
struct ChangeNotifier {
    client: ClientSession,
    shared: Arc<ServerShared>,
    watched: Arc<WatchedResources>,
    /// Changes since the start of the session, because a client may have read a list before this
    /// task started.
    changes: watch::Receiver<ChangeCounter>,
    target: NotifyTarget,
}

impl ChangeNotifier {
    /// Runs until the backend is dropped.
    async fn run(mut self) {
        let mut tools = self.tools().await;
        if self.changes.has_changed().unwrap_or(true) {
            // These may already be the new tools, while the client has seen the old ones.
            tools = None;
        }
        loop {
            // A change of another file of a skill produces no event, so watched resources are also
            // compared at an interval.
            let interval = tokio::time::sleep(self.shared.limits.watch);
            let changed = tokio::select! {
                changed = self.changes.changed() => match changed {
                    Ok(()) => true,
                    Err(_) => return,
                },
                () = interval => false,
            };
            if changed {
                let now = self.tools().await;
                // An unreadable list counts as changed: a superfluous notification is harmless.
                let different = now.is_none() || now != tools;
                tools = now;
                self.target.notify_lists_changed(different).await;
            }
            self.check_resources().await;
        }
    }

    async fn check_resources(&self) {
        // Copied, because the lock must not be held across an `await`.
        let watched: Vec<_> = self.watched.lock().clone().into_iter().collect();
        for (uri, seen) in watched {
            let now = hash_resource(&self.shared, &self.client, &uri).await;
            if now == seen {
                continue;
            }
            // The client may have unsubscribed since the copy was made.
            let is_watched = self.watched.lock().get_mut(&uri).map(|seen| *seen = now).is_some();
            if is_watched {
                self.target.notify_updated(uri).await;
            }
        }
    }

    /// Returns a hash of the tools that the client sees.
    async fn tools(&self) -> ResourceHash {
        let tools = self.shared.backend.tools(&self.client).await.ok()?;
        Some(Sha256::digest(serde_json::to_vec(&tools).ok()?).into())
    }
}

/// Returns the hash of the resource at an address.
async fn hash_resource(shared: &ServerShared, client: &ClientSession, uri: &str) -> ResourceHash {
    let skill = find_skill(shared, client, uri).await.ok()?;
    let details = shared.backend.details(client, &[&skill.id]).await.ok()?.pop()?;
    if let Some(files) = details.files {
        // The digest of the file saves reading its content.
        let file = files.iter().find(|file| file.uri == uri)?;
        return Some(Sha256::digest(&file.sha256).into());
    }
    let body = shared.backend.read(client, uri).await.ok()?;
    let (PublishedContent::Text(text) | PublishedContent::Base64(text)) = body.content;
    Some(Sha256::digest(text).into())
}
