//! Notifications: what changed, to clients that listen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, RoleServer, SubscriptionContext, SubscriptionSink};
use sha2::{Digest as _, Sha256};
use skillhost_contract::payload::PublishedContent;
use tokio::sync::watch;

use super::skills::find_skill;
use super::{McpRequestContext, ServerSession, ServerShared};
use crate::backend::{ChangeCounter, ClientSession};

/// A hash of something; nothing where it could not be had.
type ResourceHash = Option<[u8; 32]>;

/// The resources that a session watches, and what each was when it was looked at last.
#[derive(Default)]
pub(super) struct WatchedResources {
    resources: Mutex<BTreeMap<String, ResourceHash>>,
}

impl WatchedResources {
    pub(super) fn forget(&self, uri: &str) {
        self.lock().remove(uri);
    }

    fn remember(&self, uri: String, seen: ResourceHash, most: usize) -> bool {
        let mut resources = self.lock();
        let room = resources.len() < most || resources.contains_key(&uri);
        if room {
            resources.insert(uri, seen);
        }
        room
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, ResourceHash>> {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a session is told of changes with; each way has its own.
#[derive(Clone)]
enum NotifyTarget {
    Session(Peer<RoleServer>),
    Subscription(SubscriptionSink),
}

impl NotifyTarget {
    /// Tells what kinds of lists may be different. A client that did not ask for a kind does not get
    /// it; whether the rest arrives is seen at its connection.
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
        tracing::debug!(%error, "a client was not told of a change");
    }
}

/// Tells a session of the older versions of every change, for as long as it lasts.
pub(super) fn notify_session(session: &ServerSession, peer: Peer<RoleServer>) {
    let teller = ChangeNotifier {
        client: ClientSession {
            id: session.id.clone(),
            client: peer.peer_info().map_or_else(String::new, |info| info.client_info.name.clone()),
        },
        shared: Arc::clone(&session.shared),
        watched: Arc::clone(&session.watched),
        changes: session.changes.clone(),
        way: NotifyTarget::Session(peer.clone()),
    };
    tokio::spawn(async move {
        tokio::select! {
            () = closed(&peer) => {}
            () = teller.run() => {}
        }
    });
}

/// Returns when a client is gone.
async fn closed(peer: &Peer<RoleServer>) {
    while !peer.is_transport_closed() {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}

/// What a client may ask to be told: of everything, and of only so many resources.
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

/// Tells a subscription of what it asked for until it ends.
pub(super) async fn notify_subscription(
    session: &ServerSession,
    context: &SubscriptionContext,
) -> Result<(), ErrorData> {
    let client = session.client(context.request_context());
    let tell = async {
        let watched = Arc::new(WatchedResources::default());
        let limits = &session.shared.limits;
        for uri in context.accepted().resource_subscriptions.iter().flatten() {
            let seen = hash_resource(&session.shared, &client, uri).await;
            watched.remember(uri.clone(), seen, limits.watched);
        }
        let teller = ChangeNotifier {
            client: client.clone(),
            shared: Arc::clone(&session.shared),
            watched,
            changes: session.changes.clone(),
            way: NotifyTarget::Subscription(context.sink().clone()),
        };
        teller.run().await;
    };
    tokio::select! {
        () = context.cancelled() => {}
        // Else the library would wait for this one, although nobody reads what it says.
        () = session.left.cancelled() => {}
        () = tell => {}
    }
    Ok(())
}

/// Begins to watch a resource for a session of the older versions.
pub(super) async fn watch_resource(
    session: &ServerSession,
    context: &McpRequestContext,
    uri: String,
) -> Result<(), ErrorData> {
    let client = session.client(context);
    find_skill(&session.shared, &client, &uri).await?;
    let seen = hash_resource(&session.shared, &client, &uri).await;
    let most = session.shared.limits.watched;
    match session.watched.remember(uri, seen, most) {
        true => Ok(()),
        false => {
            let message = format!("more than {most} resources are watched");
            Err(ErrorData::invalid_params(message, None))
        }
    }
}

/// Waits for changes on behalf of one client and tells it.
struct ChangeNotifier {
    client: ClientSession,
    shared: Arc<ServerShared>,
    watched: Arc<WatchedResources>,
    /// Since the session began: a client may have asked before it was listened for changes.
    changes: watch::Receiver<ChangeCounter>,
    way: NotifyTarget,
}

impl ChangeNotifier {
    /// Returns when the backend is gone.
    async fn run(mut self) {
        let mut tools = self.tools().await;
        if self.changes.has_changed().unwrap_or(true) {
            // They may be the new ones already, and the client may have seen the old ones.
            tools = None;
        }
        loop {
            // A file beside a SKILL.md changes without a word, so those that are watched are looked
            // at from time to time.
            let again = tokio::time::sleep(self.shared.limits.watch);
            let changed = tokio::select! {
                changed = self.changes.changed() => match changed {
                    Ok(()) => true,
                    Err(_) => return,
                },
                () = again => false,
            };
            if changed {
                let now = self.tools().await;
                let different = now.is_none() || now != tools;
                tools = now;
                self.way.notify_lists_changed(different).await;
            }
            self.check_resources().await;
        }
    }

    async fn check_resources(&self) {
        let known: Vec<_> = self.watched.lock().clone().into_iter().collect();
        for (uri, seen) in known {
            let now = hash_resource(&self.shared, &self.client, &uri).await;
            if now == seen {
                continue;
            }
            // Unless it was forgotten meanwhile.
            let known = self.watched.lock().get_mut(&uri).map(|seen| *seen = now).is_some();
            if known {
                self.way.notify_updated(uri).await;
            }
        }
    }

    /// A hash of the tools as the client sees them.
    async fn tools(&self) -> ResourceHash {
        let tools = self.shared.backend.tools(&self.client).await.ok()?;
        Some(Sha256::digest(serde_json::to_vec(&tools).ok()?).into())
    }
}

/// Hashes what stands at an address.
async fn hash_resource(shared: &ServerShared, client: &ClientSession, uri: &str) -> ResourceHash {
    let skill = find_skill(shared, client, uri).await.ok()?;
    let details = shared.backend.details(client, &[&skill.id]).await.ok()?.pop()?;
    if let Some(files) = details.files {
        let file = files.iter().find(|file| file.uri == uri)?;
        return Some(Sha256::digest(&file.sha256).into());
    }
    let body = shared.backend.read(client, uri).await.ok()?;
    let (PublishedContent::Text(text) | PublishedContent::Base64(text)) = body.content;
    Some(Sha256::digest(text).into())
}
