//! The user at the terminal or behind a pipe, as the channel of a run.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anstyle::Style;
use async_trait::async_trait;
use skillhost_control::QuestionClosure;
use skillhost_conversation::{
    ApprovalDecision, ApprovalRequest, Channel, PersonQuestion, PersonReply, RunEvent, RunOutcome,
    SecretPrompt, SecretReply, UncertainCall, UncertainDecision,
};
use skillhost_terminal::{
    CliError, DIM, MarkdownLayout, MarkdownStream, Output, RED, ScreenSize, display_safe,
    summarize_arguments,
};
use tokio::task::JoinHandle;

use crate::closure_text::describe_closure;
use crate::indicator::{TurnActivity, TurnProgress};
use crate::screen::cut_line;
use crate::{approval_prompt, question_prompt, secret};

/// The number of characters of a call's arguments or result in a progress line.
const MAX_LINE_CHARS: usize = 160;

/// The width of replies where the terminal does not report its own, in columns.
const REPLY_WIDTH: usize = 80;

/// The time between two pictures of the indicator.
const TICK: Duration = Duration::from_millis(100);

/// The model of a home whose settings name none.
const BUILT_IN: &str = "script/demo";

const BUILT_IN_NOTE: &str = "these are the answers of a built-in script; to talk to a model, name it \
    under models.default in skillhost.yaml or with --model";

/// A channel that prints the events of a run and prompts for approvals.
pub(crate) struct TerminalChannel {
    output: Output,
    /// Whether a user can be prompted.
    present: bool,
    /// Whether the progress of a turn is shown.
    has_indicator: bool,
    inner: Mutex<TerminalState>,
    /// A lock that serializes prompts; an edit in progress keeps it.
    asking: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct TerminalState {
    /// The agent whose replies are printed as the chat; replies of other agents are summarized.
    agent: String,
    /// Tools approved for the session.
    approved: BTreeSet<String>,
    /// The printed text of the current reply since the last line break by other output.
    reply: String,
    /// Whether a part of the last reply was printed.
    printed: bool,
    /// The renderer of replies on a terminal; elsewhere they are printed as they are.
    markdown: Option<MarkdownStream>,
    /// The progress of the turn and its start; `None` between turns.
    progress: Option<(TurnProgress, Instant)>,
    /// Whether the last line of the terminal is the indicator.
    is_indicating: bool,
    /// Whether a prompt has the terminal.
    is_prompting: bool,
    /// Whether the user knows that the model is the built-in script; `None` until it is used.
    script_announced: Option<bool>,
    notes: Vec<String>,
    /// Whether the wait for the kernel was announced.
    waits: bool,
    /// The first error of standard output.
    failed: Option<CliError>,
}

impl TerminalChannel {
    pub(crate) fn new(output: Output, agent: &str, approved: &[String]) -> Self {
        // Prompts go to standard error, because standard output may be a pipe.
        let present = !output.json && io::stdin().is_terminal() && io::stderr().is_terminal();
        let has_screen = !output.json && io::stdout().is_terminal();
        let has_indicator = has_screen
            && io::stderr().is_terminal()
            && std::env::var_os("TERM").is_none_or(|name| name != "dumb");
        let layout = MarkdownLayout::new(output.uses_color(), REPLY_WIDTH);
        let inner = TerminalState {
            agent: agent.to_owned(),
            approved: approved.iter().cloned().collect(),
            markdown: has_screen.then(|| MarkdownStream::new(layout)),
            ..TerminalState::default()
        };
        Self { output, present, has_indicator, inner: Mutex::new(inner), asking: Arc::default() }
    }

    /// Starts the progress of a turn, which is shown until the guard is dropped.
    pub(crate) fn start_progress(self: &Arc<Self>) -> ProgressGuard {
        self.lock().progress = Some((TurnProgress::default(), Instant::now()));
        let channel = Arc::clone(self);
        let ticking = self.has_indicator.then(|| {
            tokio::spawn(async move {
                loop {
                    channel.show_progress();
                    tokio::time::sleep(TICK).await;
                }
            })
        });
        ProgressGuard { channel: Arc::clone(self), ticking }
    }

    /// Waits until no prompt uses the terminal.
    pub(crate) async fn wait_for_terminal(&self) {
        drop(self.asking.lock().await);
    }

    /// Draws the indicator in the last line.
    fn show_progress(&self) {
        let inner = &mut *self.lock();
        // A line of a reply that has not ended would be overwritten.
        if inner.is_prompting || !inner.reply.is_empty() {
            return;
        }
        let Some((progress, began)) = &inner.progress else { return };
        let width = self.output.width().unwrap_or(REPLY_WIDTH).saturating_sub(1);
        let line = progress.format(began.elapsed(), width);
        self.output.redraw_line(format_args!("{DIM}{}{DIM:#}", display_safe(&line)));
        inner.is_indicating = true;
    }

    /// Clears the indicator, so that other output starts in the first column.
    fn hide_progress(&self, inner: &mut TerminalState) {
        if std::mem::take(&mut inner.is_indicating) {
            self.output.redraw_line("");
        }
    }

    /// Replaces the agent whose replies are printed as the chat.
    pub(crate) fn set_agent(&self, agent: &str) {
        agent.clone_into(&mut self.lock().agent);
    }

    /// Approves a tool for the session.
    pub(crate) fn approve_tool(&self, tool: &str) {
        self.lock().approved.insert(tool.to_owned());
    }

    /// Returns the tools approved for the session.
    pub(crate) fn approved_tools(&self) -> Vec<String> {
        self.lock().approved.iter().cloned().collect()
    }

    /// Returns the notes since the last call.
    pub(crate) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().notes)
    }

    /// Prints that a question was decided elsewhere, or that the answer of this terminal was late.
    pub(crate) fn announce_closure(&self, closure: &QuestionClosure, is_rejected: bool) {
        let inner = &mut *self.lock();
        self.break_line(inner);
        self.note(inner, describe_closure(closure, is_rejected));
    }

    /// Clears the state of a reply that the kernel sends again from its start.
    pub(crate) fn reset_reply(&self) {
        let inner = &mut *self.lock();
        self.break_line(inner);
        inner.printed = false;
        inner.waits = false;
    }

    /// Prints, once, that the connection is lost and the kernel is awaited.
    pub(crate) fn announce_reconnect(&self) {
        let inner = &mut *self.lock();
        self.break_line(inner);
        if !std::mem::replace(&mut inner.waits, true) {
            self.output.print_note("the kernel restarts; waiting for it");
        }
    }

    /// Ends the line, and prints a reply that was not streamed.
    pub(crate) fn end_of_turn(&self, outcome: Option<&RunOutcome>) -> Result<(), CliError> {
        let mut inner = self.lock();
        // Reported once, at the end of the turn: the run itself must not fail on output.
        if let Some(failed) = inner.failed.take() {
            return Err(failed);
        }
        let printed = std::mem::take(&mut inner.printed);
        if let Some(outcome) = outcome.filter(|_| !printed) {
            self.print(&mut inner, &outcome.text);
        }
        self.break_line(&mut inner);
        if inner.script_announced == Some(false) {
            inner.script_announced = Some(true);
            self.note(&mut inner, BUILT_IN_NOTE.to_owned());
        }
        inner.failed.take().map_or(Ok(()), Err)
    }

    fn lock(&self) -> MutexGuard<'_, TerminalState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn print(&self, inner: &mut TerminalState, text: &str) {
        // With `--json` the reply is part of the final object; a failed stream stays silent.
        if self.output.json || inner.failed.is_some() {
            return;
        }
        let Some(markdown) = &mut inner.markdown else {
            inner.reply.push_str(text);
            inner.failed = self.output.print_chunk(text).err();
            return;
        };
        markdown.set_width(self.output.width().unwrap_or(REPLY_WIDTH));
        let rendered = markdown.push(text);
        self.print_rendered(inner, &rendered);
    }

    /// Prints complete lines that are already sanitized.
    fn print_rendered(&self, inner: &mut TerminalState, lines: &str) {
        if !lines.is_empty() {
            self.hide_progress(inner);
            inner.failed = self.output.print_styled(lines).err();
        }
    }

    /// Ends the line of the reply, so that other output starts on a new one.
    fn break_line(&self, inner: &mut TerminalState) {
        if let Some(markdown) = &mut inner.markdown
            && inner.failed.is_none()
        {
            let rest = markdown.finish();
            self.print_rendered(inner, &rest);
        }
        self.hide_progress(inner);
        // A reply that already ends a line needs no empty line after it.
        if !inner.reply.is_empty() && !inner.reply.ends_with('\n') {
            self.print(inner, "\n");
        }
        inner.reply.clear();
    }

    fn note(&self, inner: &mut TerminalState, text: String) {
        self.hide_progress(inner);
        self.output.print_note(&text);
        inner.notes.push(text);
    }

    fn activity(&self, inner: &mut TerminalState, agent: &str, text: &str, style: Style) {
        let whose = match agent == inner.agent {
            true => String::new(),
            false => format!("{}: ", display_safe(agent)),
        };
        self.hide_progress(inner);
        // One line of a terminal for each; elsewhere the text is limited by its characters.
        let line = format!("{whose}{text}");
        let line = match ScreenSize::from_stream(&io::stderr()) {
            Some(screen) => cut_line(&line, screen.columns),
            None => line,
        };
        self.output.print_progress(format!("{style}{line}{style:#}"));
    }

    /// Counts an event in the progress of the turn.
    fn count_progress(inner: &mut TerminalState, event: &RunEvent) {
        let Some((progress, _)) = &mut inner.progress else { return };
        match event {
            RunEvent::Text { text, .. } => progress.add_text(text),
            RunEvent::ReplyRestarted { .. } => progress.restart_reply(),
            RunEvent::UsageReported { usage, .. } => progress.add_usage(usage),
            RunEvent::ToolStarted { tool, .. } => {
                progress.activity = TurnActivity::Calling(tool.clone());
            }
            RunEvent::ToolFinished { .. } => progress.activity = TurnActivity::Waiting,
            _ => {}
        }
    }
}

#[async_trait]
impl Channel for TerminalChannel {
    fn on_event(&self, event: &RunEvent) {
        let inner = &mut *self.lock();
        Self::count_progress(inner, event);
        if let RunEvent::Text { agent_id, text } = event {
            // The text of a delegated run goes to the agent that delegated, not to the user.
            if *agent_id == inner.agent {
                inner.printed = true;
                self.print(inner, text);
            }
            return;
        }
        // Usage reports print no line and must not break that of the reply.
        if !matches!(event, RunEvent::UsageReported { .. }) {
            let is_restart = matches!(event, RunEvent::ReplyRestarted { agent_id, .. } if *agent_id == inner.agent);
            let has_started = match &mut inner.markdown {
                // A void reply is printed no further than it has been.
                Some(markdown) if is_restart => markdown.discard(),
                _ => !inner.reply.is_empty(),
            };
            self.break_line(inner);
            if let RunEvent::ReplyRestarted { agent_id, reason } = event {
                inner.printed &= *agent_id != inner.agent;
                let void = match has_started && *agent_id == inner.agent {
                    true => "; the reply above is void and starts over",
                    false => "",
                };
                self.note(inner, format!("{agent_id}: {reason}{void}"));
            }
        }
        match event {
            RunEvent::ToolStarted { agent_id, tool, arguments } => {
                // Another reply follows.
                inner.printed &= *agent_id != inner.agent;
                let arguments = one_line(&summarize_arguments(arguments));
                let call = format!("→ {} {arguments}", display_safe(tool));
                self.activity(inner, agent_id, &call, DIM);
            }
            RunEvent::ToolFinished { agent_id, tool, is_error, summary } => {
                let (tool, summary) = (display_safe(tool), one_line(summary));
                let (verb, style) = if *is_error { (" failed", RED) } else { ("", DIM) };
                self.activity(inner, agent_id, &format!("← {tool}{verb}: {summary}"), style);
            }
            RunEvent::SkillActive { agent_id, skill_id, digest } => {
                let digest = digest.get(..12).unwrap_or(digest);
                let skill = format!(
                    "skill {} is active, sha256 {}",
                    display_safe(skill_id),
                    display_safe(digest)
                );
                self.activity(inner, agent_id, &skill, DIM);
            }
            RunEvent::Compacted { agent_id, messages, before, after } => {
                let text = format!(
                    "{agent_id}: {messages} older messages were summarized, approx. {before} → {after} tokens"
                );
                self.note(inner, text);
            }
            RunEvent::Delegated { agent_id, to, task } => {
                let task = format!("⇒ {}: {}", display_safe(to), one_line(task));
                self.activity(inner, agent_id, &task, DIM);
            }
            RunEvent::UsageReported { model, .. } => {
                if model == BUILT_IN {
                    inner.script_announced.get_or_insert(false);
                }
            }
            RunEvent::Note { agent_id, text } => self.note(inner, format!("{agent_id}: {text}")),
            RunEvent::Text { .. } | RunEvent::ReplyRestarted { .. } => {}
        }
    }

    async fn request_approval(&self, request: &ApprovalRequest) -> ApprovalDecision {
        let alone = Arc::clone(&self.asking).lock_owned().await;
        let tool = &request.tool;
        // Tools that always require approval are excluded from session approvals.
        if !request.always && self.lock().approved.contains(tool) {
            return ApprovalDecision::Session;
        }
        if !self.present {
            let (reason, hint) = match request.always {
                true => (
                    "this call requires approval every time, but no approval channel is available",
                    String::new(),
                ),
                false => (
                    "no approval channel is available",
                    format!("; `--approve {tool}`, or `/approve {tool}` in a chat, approves it"),
                ),
            };
            let inner = &mut *self.lock();
            self.break_line(inner);
            self.note(inner, format!("`{tool}` was not called: {reason}{hint}"));
            return ApprovalDecision::Refuse { reason: reason.to_owned() };
        }
        let _prompting = PromptGuard::start(self);
        // The kernel stores the agent and thread of an approval for the session.
        approval_prompt::prompt_approval(self.output, request, alone).await
    }

    async fn request_secret(&self, ask: &SecretPrompt) -> SecretReply {
        let _alone = self.asking.lock().await;
        self.break_line(&mut self.lock());
        if !self.present {
            let (reason, name) = ("no terminal is available", &ask.name);
            let hint = format!("write {name}=… into .env, or ask again from a terminal");
            let inner = &mut *self.lock();
            self.note(inner, format!("the secret `{name}` was not given: {reason}; {hint}"));
            return SecretReply::Refused { reason: reason.to_owned() };
        }
        let _prompting = PromptGuard::start(self);
        secret::prompt_secret(self.output, ask).await
    }

    async fn resolve_uncertain_call(&self, call: &UncertainCall) -> UncertainDecision {
        let _alone = self.asking.lock().await;
        if !self.present {
            let inner = &mut *self.lock();
            self.break_line(inner);
            let text = format!(
                "`{}` may have happened and was not called again: no terminal is available",
                display_safe(&call.tool)
            );
            self.note(inner, text);
            return UncertainDecision::Stop;
        }
        let _prompting = PromptGuard::start(self);
        question_prompt::prompt_uncertain_call(self.output, call).await
    }

    async fn ask_person(&self, question: &PersonQuestion) -> PersonReply {
        let _alone = self.asking.lock().await;
        if !self.present {
            let inner = &mut *self.lock();
            self.break_line(inner);
            let agent = display_safe(&question.agent_id);
            self.note(
                inner,
                format!("{agent}: a question has no answer: no terminal is available"),
            );
            return PersonReply::Refused { reason: "no terminal is available".to_owned() };
        }
        let _prompting = PromptGuard::start(self);
        question_prompt::prompt_question(self.output, question).await
    }
}

/// A guard that shows the progress of a turn until it is dropped.
pub(crate) struct ProgressGuard {
    channel: Arc<TerminalChannel>,
    ticking: Option<JoinHandle<()>>,
}

impl Drop for ProgressGuard {
    fn drop(&mut self) {
        if let Some(ticking) = &self.ticking {
            ticking.abort();
        }
        let inner = &mut *self.channel.lock();
        inner.progress = None;
        self.channel.hide_progress(inner);
    }
}

/// A guard that keeps the indicator away from a prompt, also from one that is canceled.
struct PromptGuard<'a>(&'a TerminalChannel);

impl<'a> PromptGuard<'a> {
    fn start(channel: &'a TerminalChannel) -> Self {
        let inner = &mut *channel.lock();
        channel.break_line(inner);
        inner.is_prompting = true;
        Self(channel)
    }
}

impl Drop for PromptGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().is_prompting = false;
    }
}

/// Returns the beginning of a text on one line.
fn one_line(text: &str) -> String {
    let line = display_safe(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(always: bool) -> ApprovalRequest {
        ApprovalRequest {
            agent_id: "worker".into(),
            tool: "delete_file".into(),
            extension: "core_tools".into(),
            arguments: "{}".into(),
            destructive: true,
            always,
            details: None,
            call_key: None,
            effect_digest: None,
            extension_sha256: None,
            can_park: false,
        }
    }

    #[tokio::test]
    async fn session_approval_excludes_always_ask_tools() {
        let person = TerminalChannel::new(Output { json: true }, "worker", &["delete_file".into()]);
        let channel: &dyn Channel = &person;
        assert_eq!(channel.request_approval(&request(false)).await, ApprovalDecision::Session);
        let ApprovalDecision::Refuse { reason } = channel.request_approval(&request(true)).await
        else {
            panic!("it was allowed");
        };
        assert_eq!(
            reason,
            "this call requires approval every time, but no approval channel is available"
        );
        let unattended = TerminalChannel::new(Output { json: true }, "worker", &[]);
        let channel: &dyn Channel = &unattended;
        let expected =
            ApprovalDecision::Refuse { reason: "no approval channel is available".into() };
        assert_eq!(channel.request_approval(&request(false)).await, expected);
        assert_eq!(
            unattended.take_notes(),
            [
                "`delete_file` was not called: no approval channel is available; `--approve delete_file`, \
              or `/approve delete_file` in a chat, approves it"
            ]
        );
        unattended.approve_tool("delete_file");
        assert_eq!(channel.request_approval(&request(false)).await, ApprovalDecision::Session);
        assert_eq!(unattended.approved_tools(), ["delete_file"]);
    }

    #[test]
    fn tool_call_prints_one_sanitized_line() {
        assert_eq!(one_line("{\n  \"a\": \"\u{1b}[2J\"\n}"), "{ \"a\": \"\\u{1b}[2J\" }");
        assert_eq!(one_line(&"ü".repeat(200)), format!("{}…", "ü".repeat(160)));
    }
}
