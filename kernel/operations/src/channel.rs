//! `skillhost channel`: the people of channels.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use skillhost_channels::{ChannelOperations, ChannelStore, ChannelSummary, loaded_channels};
use skillhost_control::{ChannelRole, ControlRequest, KernelLock, LoadReport};
use skillhost_home::{Home, Settings, now_ms};
use skillhost_payload::{CallError, ErrorKind, OperatorCommand};
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
    operations: ChannelOperations,
}

/// Lists channels and people, pairs and removes people, and sends a text.
///
/// # Errors
/// The home is missing or not trusted, or the file of channels cannot be used.
pub fn cmd_channel(session: &CliContext, command: &ChannelCommand) -> CommandResult {
    let home = session.trusted_home()?;
    let settings = session.settings(&home)?.settings;
    let report = session.try_running_kernel::<LoadReport>(&home, &ControlRequest::Report)?;
    let operations = ChannelOperations::new(
        ChannelStore::in_directory(&home.data_dir("kernel")),
        settings.channels.clone(),
        report.map(|report| loaded_channels(&report)),
    );
    let channels = ChannelContext { session, home, settings, operations };
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

impl ChannelContext<'_> {
    async fn list_channels(&self) -> CommandResult {
        let channels = self.operations.list_channels().await?;
        let output = self.session.output;
        if output.json {
            output.print_json(&json!({ "channels": channels }))?;
            return Ok(exit::OK);
        }
        if channels.is_empty() {
            output.print_note("no channel is loaded or configured");
            return Ok(exit::OK);
        }
        let rows: Vec<Vec<String>> = channels.iter().map(to_row).collect();
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
        let Err(error) = self.operations.check_channel(id).await else { return Ok(()) };
        if error.kind == ErrorKind::NotFound
            && !self.operations.has_kernel()
            && self.is_extension(id)
        {
            return Ok(());
        }
        let has_hint = !error.hint.is_empty();
        let error = CliError::from(error);
        Err(if has_hint { error } else { error.with_hint("see: skillhost channel list") })
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
        let hint = match role {
            ChannelRoleArg::Owner => {
                format!(
                    "set the agent of owners in skillhost.yaml: channels: {{{id}: {{agent: ID}}}}"
                )
            }
            ChannelRoleArg::Guest => {
                "name it: --agent ID, or list it under `guests` in skillhost.yaml".to_owned()
            }
        };
        let role = ChannelRole::from(*role);
        let created = self.operations.create_code(id, role, agent.clone(), now_ms()).await;
        let created = created.map_err(|error| match error.kind {
            ErrorKind::InvalidArgument => CliError::from(error).with_hint(hint),
            _ => CliError::from(error),
        })?;
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
        if !self.operations.has_kernel() {
            let run = self.session.spell_command(OperatorCommand::RunKernel);
            output.print_note(format!("no kernel runs; this receives the code: {run}"));
        }
        Ok(exit::OK)
    }

    async fn list_peers(&self, channel: Option<&str>) -> CommandResult {
        let peers = self.operations.store().list_peers(channel).await.map_err(CallError::from)?;
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
        let revoked = self.operations.store().revoke_peer(channel, peer).await;
        if !revoked.map_err(CallError::from)? {
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
        let queue = open_queue(self.session, &self.home)?;
        let submitted = self.operations.submit_test(&queue, channel, &text).await;
        let mut tasks = submitted.map_err(|error| match error.kind {
            ErrorKind::NotFound => CliError::from(error)
                .with_hint(format!("pair one: skillhost channel pair {channel}")),
            _ => CliError::from(error),
        })?;
        // Without a kernel it is not sent now.
        if self.operations.has_kernel() && KernelLock::holder(&self.home).is_some() {
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

fn to_row(channel: &ChannelSummary) -> Vec<String> {
    let state = match channel.loaded {
        Some(true) => "loaded",
        Some(false) => "not loaded",
        None => "no kernel",
    };
    vec![
        channel.id.clone(),
        state.to_owned(),
        one_line(&channel.agent),
        channel.owners.to_string(),
        channel.guests.to_string(),
        one_line(&channel.guest_agents.join(", ")),
    ]
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
