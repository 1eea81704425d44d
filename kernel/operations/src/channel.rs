//! `skillhost channel`: the people of channels.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use skillhost_channels::{ChannelStore, PeerRecord, delivery_target, new_text_delivery};
use skillhost_control::{ChannelRole, ControlRequest, DEFAULT_AGENT, KernelLock, LoadReport};
use skillhost_home::{Home, Settings, now_ms, suggest_similar};
use skillhost_payload::{CallError, OperatorCommand, channel_interface};
use skillhost_tasks::{Task, TaskOutcome, TaskQueue};
use skillhost_terminal::{
    CliContext, CliError, CommandResult, TableColumn, display_safe, exit, text_or_stdin,
};

use crate::arguments::{ChannelCommand, ChannelPairArgs, ChannelRoleArg};
use crate::task_store::{open_queue, to_cli_error};
use crate::task_text::{format_time, one_line};

/// The interval at which a delivery is looked at.
const WAIT_INTERVAL: Duration = Duration::from_millis(200);
/// The time for which a delivery is awaited.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The channels of a home.
struct ChannelContext<'a> {
    session: &'a CliContext,
    home: Home,
    settings: Settings,
    store: ChannelStore,
    /// The loaded channels; `None` if no kernel runs.
    loaded: Option<BTreeSet<String>>,
}

/// A channel in a list.
#[derive(Serialize)]
struct ChannelSummary {
    id: String,
    /// Whether the running kernel has it; absent if none runs.
    loaded: Option<bool>,
    agent: String,
    guest_agents: Vec<String>,
    owners: usize,
    guests: usize,
}

/// Lists channels and people, pairs and removes people, and sends a text.
///
/// # Errors
/// The home is missing or not trusted, or the file of channels cannot be used.
pub fn cmd_channel(session: &CliContext, command: &ChannelCommand) -> CommandResult {
    let home = session.trusted_home()?;
    let settings = session.settings(&home)?.settings;
    let report = session.try_running_kernel::<LoadReport>(&home, &ControlRequest::Report)?;
    let channels = ChannelContext {
        session,
        settings,
        store: ChannelStore::in_directory(&home.data_dir("kernel")),
        loaded: report.map(|report| loaded_channels(&report)),
        home,
    };
    session.block_on(Box::pin(async {
        match command {
            ChannelCommand::List => channels.list_channels().await,
            ChannelCommand::Pair(args) => channels.pair_person(args).await,
            ChannelCommand::Peers { id } => channels.list_peers(id.as_deref()).await,
            ChannelCommand::Revoke { id, peer } => channels.revoke_person(id, peer).await,
            ChannelCommand::Test { id, text } => channels.send_test(id, text).await,
        }
    }))?
}

fn loaded_channels(report: &LoadReport) -> BTreeSet<String> {
    let is_channel =
        |interfaces: &[String]| interfaces.iter().any(|it| it == channel_interface::NAME);
    let loaded = report.loaded.iter().filter(|loaded| is_channel(&loaded.interfaces));
    loaded.map(|loaded| loaded.id.to_string()).collect()
}

impl ChannelContext<'_> {
    /// Returns the ids of channels that are known: loaded, in the settings, or with people.
    async fn known_ids(&self) -> Result<BTreeSet<String>, CliError> {
        let mut ids = self.loaded.clone().unwrap_or_default();
        ids.extend(self.settings.channels.keys().cloned());
        ids.extend(self.peers(None).await?.into_iter().map(|peer| peer.channel));
        Ok(ids)
    }

    async fn peers(&self, channel: Option<&str>) -> Result<Vec<PeerRecord>, CliError> {
        Ok(self.store.list_peers(channel).await.map_err(CallError::from)?)
    }

    async fn list_channels(&self) -> CommandResult {
        let peers = self.peers(None).await?;
        let count = |id: &str, role| {
            peers.iter().filter(|peer| peer.channel == id && peer.role == role).count()
        };
        let to_summary = |id: String| {
            let settings = self.settings.channels.get(&id).cloned().unwrap_or_default();
            ChannelSummary {
                loaded: self.loaded.as_ref().map(|loaded| loaded.contains(&id)),
                agent: settings.agent.unwrap_or_else(|| DEFAULT_AGENT.to_owned()),
                guest_agents: settings.guests,
                owners: count(&id, ChannelRole::Owner),
                guests: count(&id, ChannelRole::Guest),
                id,
            }
        };
        let channels: Vec<_> = self.known_ids().await?.into_iter().map(to_summary).collect();
        let output = self.session.output;
        if output.json {
            output.print_json(&json!({ "channels": channels }))?;
            return Ok(exit::OK);
        }
        if channels.is_empty() {
            output.print_note("no channel is loaded or configured");
            return Ok(exit::OK);
        }
        let rows: Vec<Vec<String>> = channels.iter().map(ChannelSummary::to_row).collect();
        let columns = [
            TableColumn::fixed("CHANNEL"),
            TableColumn::fixed("STATE"),
            TableColumn::text("AGENT"),
            TableColumn::fixed("OWNERS"),
            TableColumn::fixed("GUESTS").with_rank(1),
            TableColumn::text("GUEST AGENTS").with_rank(2),
        ];
        output.print_table(&columns, &rows)?;
        Ok(exit::OK)
    }

    /// Checks that a channel may exist: without a kernel, any extension may be one.
    async fn check_channel(&self, id: &str) -> Result<(), CliError> {
        let known = self.known_ids().await?;
        if known.contains(id) || self.loaded.is_none() && self.is_extension(id) {
            return Ok(());
        }
        let similar = suggest_similar(id, known.iter().map(String::as_str));
        let shown = display_safe(id);
        let error = CliError::new(exit::NOT_FOUND, format!("channel `{shown}` not found"));
        Err(match similar.as_slice() {
            [] => error.with_hint("see: skillhost channel list"),
            similar => error.with_hint(format!("did you mean {}?", similar.join(", "))),
        })
    }

    fn is_extension(&self, id: &str) -> bool {
        // A library declares the interface in its code, which is not loaded here.
        let shadowing = &self.settings.allow_shadowing;
        let found =
            skillhost_home::discover_manifests(&self.home, self.session.installation(), shadowing);
        found.manifests.keys().any(|known| known.as_str() == id)
    }

    async fn pair_person(&self, args: &ChannelPairArgs) -> CommandResult {
        let ChannelPairArgs { id, role, agent } = args;
        self.check_channel(id).await?;
        if *role == ChannelRoleArg::Owner && !agent.is_empty() {
            return Err(CliError::usage("`--agent` requires `--role guest`").with_hint(format!(
                "set the agent of owners in skillhost.yaml: channels: {{{id}: {{agent: ID}}}}"
            )));
        }
        let guests = self.settings.channels.get(id).map(|settings| settings.guests.len());
        if *role == ChannelRoleArg::Guest && agent.is_empty() && guests.unwrap_or_default() == 0 {
            return Err(CliError::usage("a guest requires an agent to talk to")
                .with_hint("name it: --agent ID, or list it under `guests` in skillhost.yaml"));
        }
        let role = ChannelRole::from(*role);
        let created = self.store.create_code(id, role, agent.clone(), now_ms()).await;
        let created = created.map_err(CallError::from)?;
        let output = self.session.output;
        if output.json {
            output.print_json(&json!({
                "channel": id,
                "role": role,
                "code": created.code,
                "expires_ms": created.expires_ms,
            }))?;
            return Ok(exit::OK);
        }
        output.print_line(&created.code)?;
        output.print_note(format!(
            "send this to `{id}` before {} UTC, in a direct conversation; it pairs one {}",
            format_time(created.expires_ms),
            role.as_str()
        ));
        if self.loaded.is_none() {
            let run = self.session.spell_command(OperatorCommand::RunKernel);
            output.print_note(format!("no kernel runs; this receives the code: {run}"));
        }
        Ok(exit::OK)
    }

    async fn list_peers(&self, channel: Option<&str>) -> CommandResult {
        let peers = self.peers(channel).await?;
        let output = self.session.output;
        if output.json {
            output.print_json(&json!({ "peers": peers }))?;
            return Ok(exit::OK);
        }
        if peers.is_empty() {
            output.print_note("no person is paired; see: skillhost channel pair CHANNEL");
            return Ok(exit::OK);
        }
        let rows: Vec<Vec<String>> = peers
            .iter()
            .map(|peer| {
                vec![
                    peer.channel.clone(),
                    one_line(&peer.id),
                    peer.role.as_str().to_owned(),
                    one_line(&peer.name),
                    format_time(peer.paired_ms),
                    peer.agents.join(", "),
                ]
            })
            .collect();
        let columns = [
            TableColumn::fixed("CHANNEL"),
            TableColumn::text("PERSON"),
            TableColumn::fixed("ROLE"),
            TableColumn::text("NAME"),
            TableColumn::fixed("PAIRED (UTC)").with_rank(1),
            TableColumn::text("AGENTS").with_rank(2),
        ];
        output.print_table(&columns, &rows)?;
        Ok(exit::OK)
    }

    async fn revoke_person(&self, channel: &str, peer: &str) -> CommandResult {
        if !self.store.revoke_peer(channel, peer).await.map_err(CallError::from)? {
            let (channel, peer) = (display_safe(channel), display_safe(peer));
            let message = format!("channel `{channel}` has no person `{peer}`");
            return Err(
                CliError::new(exit::NOT_FOUND, message).with_hint("see: skillhost channel peers")
            );
        }
        let output = self.session.output;
        if output.json {
            output.print_json(&json!({ "channel": channel, "peer": peer, "revoked": true }))?;
        } else {
            output.print_line(format!(
                "revoked {} on {}",
                display_safe(peer),
                display_safe(channel)
            ))?;
        }
        Ok(exit::OK)
    }

    async fn send_test(&self, channel: &str, text: &str) -> CommandResult {
        self.check_channel(channel).await?;
        let text = text_or_stdin(text)?;
        let peers = self.peers(Some(channel)).await?;
        let owners = peers.into_iter().filter(|peer| peer.role == ChannelRole::Owner);
        let places: Vec<_> = owners.filter_map(|peer| peer.direct).collect();
        if places.is_empty() {
            let message = format!("channel `{}` has no owner to write to", display_safe(channel));
            return Err(CliError::new(exit::NOT_FOUND, message)
                .with_hint(format!("pair one: skillhost channel pair {channel}")));
        }
        let queue = open_queue(self.session, &self.home)?;
        let target = delivery_target(&queue, channel).await?;
        let mut tasks = Vec::with_capacity(places.len());
        for place in &places {
            let task = new_text_delivery(&target, place, &text, None);
            tasks.push(queue.submit(task).await.map_err(to_cli_error)?.task);
        }
        // Without a kernel it is not sent now.
        if self.loaded.is_some() && KernelLock::holder(&self.home).is_some() {
            for task in &mut tasks {
                *task = wait_for_delivery(&queue, task).await?;
            }
        }
        self.print_deliveries(&tasks)
    }

    fn print_deliveries(&self, tasks: &[Task]) -> CommandResult {
        let output = self.session.output;
        let has_failed = |task: &Task| {
            task.state.is_terminal() && !matches!(task.outcome, Some(TaskOutcome::Completed { .. }))
        };
        let code = if tasks.iter().any(has_failed) { exit::FINDINGS } else { exit::OK };
        if output.json {
            output.print_json(&json!({ "tasks": tasks }))?;
            return Ok(code);
        }
        for task in tasks {
            let id = &task.id;
            output.print_line(match &task.outcome {
                Some(TaskOutcome::Completed { text, .. }) => format!("{id}: {}", one_line(text)),
                Some(TaskOutcome::Failed { message, .. }) => {
                    format!("{id}: failed: {}", one_line(message))
                }
                Some(TaskOutcome::Cancelled { .. }) => format!("{id}: cancelled"),
                None => format!("{id}: waits; see: skillhost task show {id}"),
            })?;
        }
        Ok(code)
    }
}

impl ChannelSummary {
    fn to_row(&self) -> Vec<String> {
        let state = match self.loaded {
            Some(true) => "loaded",
            Some(false) => "not loaded",
            None => "no kernel",
        };
        vec![
            self.id.clone(),
            state.to_owned(),
            one_line(&self.agent),
            self.owners.to_string(),
            self.guests.to_string(),
            one_line(&self.guest_agents.join(", ")),
        ]
    }
}

async fn wait_for_delivery(queue: &TaskQueue, task: &Task) -> Result<Task, CliError> {
    let start = std::time::Instant::now();
    loop {
        let found = queue.find(&task.id).await.map_err(to_cli_error)?;
        let found = found.unwrap_or_else(|| task.clone());
        // One that is retried for hours is not awaited.
        if found.state.is_terminal() || start.elapsed() > MAX_WAIT {
            return Ok(found);
        }
        queue.store().wait_for_change(WAIT_INTERVAL).await;
    }
}

/// The people of a home's channels, for `skillhost status`.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ChannelReport {
    /// The numbers of owners and guests, by channel.
    pub(crate) channels: BTreeMap<String, ChannelCounts>,
    /// The reason why channels are off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<CallError>,
}

/// The people of one channel.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ChannelCounts {
    pub(crate) owners: usize,
    pub(crate) guests: usize,
}

impl ChannelReport {
    /// Counts the people of a trusted home.
    ///
    /// # Errors
    /// The runtime of the process could not be started.
    pub(crate) fn load(session: &CliContext, home: &Home) -> Result<Self, CliError> {
        let store = ChannelStore::in_directory(&home.data_dir("kernel"));
        let listed = session.block_on(Box::pin(store.list_peers(None)))?;
        let mut report = Self::default();
        match listed {
            Ok(peers) => {
                for peer in peers {
                    let counts = report.channels.entry(peer.channel).or_default();
                    match peer.role {
                        ChannelRole::Owner => counts.owners += 1,
                        ChannelRole::Guest => counts.guests += 1,
                    }
                }
            }
            Err(error) => report.problem = Some(error.into()),
        }
        Ok(report)
    }

    /// Formats one line per channel.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .channels
            .iter()
            .map(|(id, ChannelCounts { owners, guests })| {
                let plural = |count: &usize| if *count == 1 { "" } else { "s" };
                let (owner, guest) = (plural(owners), plural(guests));
                format!("{}: {owners} owner{owner}, {guests} guest{guest}", display_safe(id))
            })
            .collect();
        lines.extend(self.problem.iter().map(|problem| {
            format!("off: {}; {}", display_safe(&problem.message), display_safe(&problem.hint))
        }));
        lines
    }
}

/// Checks the file with the people of a home's channels; `None` if it is in order or does not exist.
/// A damaged file is not changed.
///
/// # Errors
/// The home is not found, or it is broken.
pub fn find_channel_store_problem(session: &CliContext) -> Result<Option<CallError>, CliError> {
    let home = session.home()?;
    // The data of a home that is not trusted is not opened.
    if home.is_untrusted() {
        return Ok(None);
    }
    let store = ChannelStore::in_directory(&home.data_dir("kernel"));
    let checked = session.block_on(Box::pin(store.check_integrity()))?;
    Ok(checked.err().map(CallError::from))
}
