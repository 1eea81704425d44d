//! The operator's operations on the channels of a home, which the command line and the console share.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use skillhost_control::{ChannelRole, DEFAULT_AGENT, LoadReport};
use skillhost_home::{ChannelSettings, suggest_similar};
use skillhost_payload::{CallError, ErrorKind, channel_interface};
use skillhost_tasks::{Task, TaskQueue};

use crate::channel_hub::delivery_target;
use crate::outgoing::new_text_delivery;
use crate::shown_text::clean_line;
use crate::store::{ChannelStore, PairingCode, PeerRecord};

/// The channels of a home, as its operator manages them.
pub struct ChannelOperations {
    store: ChannelStore,
    settings: BTreeMap<String, ChannelSettings>,
    loaded: Option<BTreeSet<String>>,
}

/// A channel in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChannelSummary {
    /// The id of its extension.
    pub id: String,
    /// Whether the running kernel has it; absent if none runs.
    pub loaded: Option<bool>,
    /// The agent that answers owners.
    pub agent: String,
    /// The agents that guests may talk to.
    pub guest_agents: Vec<String>,
    /// The number of owners.
    pub owners: usize,
    /// The number of guests.
    pub guests: usize,
}

/// Returns the channels that a kernel has loaded.
#[must_use]
pub fn loaded_channels(report: &LoadReport) -> BTreeSet<String> {
    let is_channel =
        |interfaces: &[String]| interfaces.iter().any(|it| it == channel_interface::NAME);
    let loaded = report.loaded.iter().filter(|loaded| is_channel(&loaded.interfaces));
    loaded.map(|loaded| loaded.id.to_string()).collect()
}

impl ChannelOperations {
    /// Creates the operations of a home; `loaded` is `None` if no kernel runs.
    #[must_use]
    pub fn new(
        store: ChannelStore,
        settings: BTreeMap<String, ChannelSettings>,
        loaded: Option<BTreeSet<String>>,
    ) -> Self {
        Self { store, settings, loaded }
    }

    /// Returns the people and conversations.
    #[must_use]
    pub fn store(&self) -> &ChannelStore {
        &self.store
    }

    /// Returns whether a kernel runs.
    #[must_use]
    pub fn has_kernel(&self) -> bool {
        self.loaded.is_some()
    }

    /// Lists the channels that are known: loaded, in the settings, or with people.
    ///
    /// # Errors
    /// The errors of the file of channels.
    pub async fn list_channels(&self) -> Result<Vec<ChannelSummary>, CallError> {
        let peers = self.store.list_peers(None).await?;
        let count = |id: &str, role| {
            peers.iter().filter(|peer| peer.channel == id && peer.role == role).count()
        };
        let to_summary = |id: String| {
            let settings = self.settings.get(&id).cloned().unwrap_or_default();
            ChannelSummary {
                loaded: self.loaded.as_ref().map(|loaded| loaded.contains(&id)),
                agent: settings.agent.unwrap_or_else(|| DEFAULT_AGENT.to_owned()),
                guest_agents: settings.guests,
                owners: count(&id, ChannelRole::Owner),
                guests: count(&id, ChannelRole::Guest),
                id,
            }
        };
        Ok(self.known_ids(&peers).into_iter().map(to_summary).collect())
    }

    fn known_ids(&self, peers: &[PeerRecord]) -> BTreeSet<String> {
        // Settings and people outlive an extension that is not loaded now.
        let mut ids = self.loaded.clone().unwrap_or_default();
        ids.extend(self.settings.keys().cloned());
        ids.extend(peers.iter().map(|peer| peer.channel.clone()));
        ids
    }

    /// Checks that a channel is known.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] with similar ids in the hint; the errors of the file of channels.
    pub async fn check_channel(&self, id: &str) -> Result<(), CallError> {
        let known = self.known_ids(&self.store.list_peers(None).await?);
        if known.contains(id) {
            return Ok(());
        }
        let similar = suggest_similar(id, known.iter().map(String::as_str));
        let message = format!("channel `{}` not found", clean_line(id));
        let error = CallError::new(ErrorKind::NotFound, message);
        Err(match similar.as_slice() {
            [] => error,
            similar => error.with_hint(format!("did you mean {}?", similar.join(", "))),
        })
    }

    /// Makes a code that pairs one person of a channel, which the caller has checked.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an owner with agents of their own, and for a guest who would
    /// have no agent to talk to; the errors of the file of channels.
    pub async fn create_code(
        &self,
        id: &str,
        role: ChannelRole,
        agents: Vec<String>,
        now_ms: u64,
    ) -> Result<PairingCode, CallError> {
        let guests = self.settings.get(id).map_or(0, |settings| settings.guests.len());
        // A guest without an agent would be paired and get no reply.
        let refused = match role {
            ChannelRole::Owner if !agents.is_empty() => {
                Some("agents can be chosen for a guest only")
            }
            ChannelRole::Guest if agents.is_empty() && guests == 0 => {
                Some("a guest requires an agent to talk to")
            }
            _ => None,
        };
        match refused {
            Some(message) => Err(CallError::new(ErrorKind::InvalidArgument, message).with_hint(
                "choose the agents of a guest; skillhost.yaml has those of owners, and of guests \
                 without a choice, under `channels`",
            )),
            None => Ok(self.store.create_code(id, role, agents, now_ms).await?),
        }
    }

    /// Submits a text to every owner of a channel.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if no owner has a conversation; the errors of the file of channels and
    /// of the queue.
    pub async fn submit_test(
        &self,
        queue: &TaskQueue,
        channel: &str,
        text: &str,
    ) -> Result<Vec<Task>, CallError> {
        let peers = self.store.list_peers(Some(channel)).await?;
        let owners = peers.into_iter().filter(|peer| peer.role == ChannelRole::Owner);
        let places: Vec<_> = owners.filter_map(|peer| peer.direct).collect();
        if places.is_empty() {
            let message = format!("channel `{}` has no owner to write to", clean_line(channel));
            return Err(CallError::new(ErrorKind::NotFound, message).with_hint("pair one first"));
        }
        // The queue may be shared with other homes, whose channels have the same ids.
        let target = delivery_target(queue, channel).await?;
        let mut tasks = Vec::with_capacity(places.len());
        for place in &places {
            // Without a key: each test is a message of its own.
            let task = new_text_delivery(&target, place, text, None);
            tasks.push(queue.submit(task).await?.task);
        }
        Ok(tasks)
    }
}
