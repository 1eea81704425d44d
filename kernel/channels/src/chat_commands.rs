//! The commands that need no agent.

use skillhost_control::ChannelRole;
use skillhost_payload::{CallError, InboundOutcome};
use skillhost_tasks::{
    Decider, Decision, DecisionOutcome, Question, QuestionKind, Task, TaskFilter, TaskId, TaskState,
};

use crate::channel_hub::ChannelHub;
use crate::peer_message::{PeerMessage, choose_agent, owner_name};
use crate::shown_text::clean_line;

/// The number of tasks that are listed.
const MAX_TASKS: usize = 20;
/// The number of open questions that are read.
const MAX_QUESTIONS: usize = 1_000;
/// The least number of characters of a shortened id.
const MIN_ID_CHARS: usize = 6;

/// A command of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChatCommand {
    /// Begins a new thread.
    New,
    /// Lists the tasks of the conversation.
    Tasks,
    /// Cancels a task, or the only one.
    Cancel(Option<String>),
    /// Lists the open questions, or shows one again.
    Inbox(Option<String>),
    /// Answers a question.
    Answer { question: String, text: String },
    /// Lists the commands.
    Help,
}

impl ChatCommand {
    /// Parses a message; `None` for one that an agent gets.
    pub(crate) fn parse(text: &str, account: &str) -> Option<Self> {
        let text = text.trim();
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        // In groups, platforms add the name of the account that is meant.
        let word = match word.split_once('@') {
            Some((word, name)) if name.eq_ignore_ascii_case(account.trim_start_matches('@')) => {
                word
            }
            Some(_) => return None,
            None => word,
        };
        let rest = rest.trim();
        let argument = (!rest.is_empty()).then(|| rest.to_owned());
        match word.to_ascii_lowercase().as_str() {
            "/new" => Some(Self::New),
            "/tasks" => Some(Self::Tasks),
            "/cancel" => Some(Self::Cancel(argument)),
            "/inbox" => Some(Self::Inbox(argument)),
            "/help" | "/start" => Some(Self::Help),
            "/answer" => {
                let (question, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                Some(Self::Answer { question: question.to_owned(), text: text.trim().to_owned() })
            }
            _ => None,
        }
    }

    /// Returns whether a role may use the command.
    fn is_permitted(&self, role: ChannelRole) -> bool {
        role == ChannelRole::Owner || matches!(self, Self::New | Self::Help)
    }
}

impl ChannelHub {
    /// Executes a command and replies.
    pub(crate) async fn execute_command(
        &self,
        received: &PeerMessage<'_>,
        command: ChatCommand,
    ) -> Result<InboundOutcome, CallError> {
        self.update_peer(received).await?;
        if !command.is_permitted(received.peer.role) {
            self.finish_handled(received, "This command is for owners.", None).await?;
            return Ok(InboundOutcome::Accepted);
        }
        let reply = match command {
            ChatCommand::New => return self.begin_thread(received).await,
            ChatCommand::Help => help_text(received.peer.role).to_owned(),
            ChatCommand::Tasks => self.describe_tasks(received).await?,
            ChatCommand::Cancel(id) => self.cancel_task(received, id.as_deref()).await?,
            ChatCommand::Inbox(id) => self.show_inbox(received, id.as_deref()).await?,
            ChatCommand::Answer { question, text } => {
                self.answer_question(received, &question, &text).await?
            }
        };
        self.finish_handled(received, &reply, None).await?;
        Ok(InboundOutcome::Accepted)
    }

    async fn begin_thread(&self, received: &PeerMessage<'_>) -> Result<InboundOutcome, CallError> {
        let PeerMessage { channel, peer, message, .. } = received;
        let known = self.store.find_conversation(channel, &message.conversation).await?;
        let settings = self.environment.settings(channel);
        let Some(agent) = choose_agent(peer, &settings, known.as_ref()) else {
            let reply = "No agent is available to guests here.";
            self.finish_handled(received, reply, None).await?;
            return Ok(InboundOutcome::Accepted);
        };
        let thread = self.environment.create_thread(&agent).await?;
        let record = self.to_record(received, &thread, &agent);
        let reply = "A new thread begins: the agent does not remember what was said before.";
        self.finish_handled(received, reply, Some(record)).await?;
        Ok(InboundOutcome::Accepted)
    }

    /// Lists the open tasks of the conversation.
    async fn open_tasks(&self, received: &PeerMessage<'_>) -> Result<Vec<Task>, CallError> {
        let PeerMessage { channel, message, .. } = received;
        let known = self.store.find_conversation(channel, &message.conversation).await?;
        let Some(known) = known else { return Ok(Vec::new()) };
        let mut open = Vec::new();
        for thread in self.store.list_threads(&known).await? {
            let states = vec![TaskState::Ready, TaskState::Running, TaskState::Waiting];
            let filter = TaskFilter { states, thread: Some(thread), ..TaskFilter::default() };
            open.extend(self.queue.list(filter).await?);
        }
        // Ids of tasks are ordered by time, also those of several threads.
        open.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(open)
    }

    async fn describe_tasks(&self, received: &PeerMessage<'_>) -> Result<String, CallError> {
        let open = self.open_tasks(received).await?;
        if open.is_empty() {
            return Ok("No task of this conversation is open.".to_owned());
        }
        let lines = open.iter().take(MAX_TASKS).map(|task| {
            let progress = task.progress.as_ref().map(|progress| match progress.total {
                Some(total) => format!(", {} of {total}", progress.done),
                None => format!(", {}", progress.done),
            });
            let (state, title) = (task.state.as_str(), clean_line(&task.title));
            format!("{} {state}{}: {title}", task.id, progress.unwrap_or_default())
        });
        let mut lines: Vec<String> = lines.collect();
        if open.len() > MAX_TASKS {
            lines.push(format!("and {} more", open.len() - MAX_TASKS));
        }
        Ok(lines.join("\n"))
    }

    async fn cancel_task(
        &self,
        received: &PeerMessage<'_>,
        given: Option<&str>,
    ) -> Result<String, CallError> {
        let open = self.open_tasks(received).await?;
        let given = given.map(str::to_lowercase);
        let wanted: Vec<&TaskId> = open
            .iter()
            .map(|task| &task.id)
            .filter(|id| given.as_ref().is_none_or(|given| is_id(given, id.as_str())))
            .collect();
        match wanted[..] {
            [] => Ok("No such task of this conversation is open. See /tasks.".to_owned()),
            [id] => {
                let by = format!("{} on {}", owner_name(&received.peer), received.channel);
                self.queue.cancel(id.clone(), &by).await?;
                Ok(format!("Task {id} is cancelled."))
            }
            _ => Ok("Several tasks are open. Name one: /cancel ID; see /tasks.".to_owned()),
        }
    }

    /// Lists the open questions that an owner of the channel may decide about.
    async fn open_questions(&self, channel: &str) -> Result<Vec<Question>, CallError> {
        let mut questions = self.queue.open_questions(MAX_QUESTIONS).await?;
        let mut own = Vec::new();
        for question in questions.drain(..) {
            let is_own = match question.kind {
                QuestionKind::Proposal => true,
                _ => {
                    let place = self.find_place(&question).await?;
                    place.is_some_and(|place| place.record.channel == channel)
                }
            };
            if is_own {
                own.push(question);
            }
        }
        Ok(own)
    }

    async fn show_inbox(
        &self,
        received: &PeerMessage<'_>,
        given: Option<&str>,
    ) -> Result<String, CallError> {
        if received.message.conversation.is_group {
            // It lists questions of other conversations.
            return Ok("/inbox is only available in a conversation with you alone.".to_owned());
        }
        let open = self.open_questions(received.channel).await?;
        let Some(given) = given.map(str::to_lowercase) else {
            if open.is_empty() {
                return Ok("No question is open.".to_owned());
            }
            let lines = open
                .iter()
                .map(|question| format!("{}: {}", question.id, clean_line(&question.title)));
            let lines: Vec<String> = lines.take(MAX_TASKS).collect();
            return Ok(format!("{}\nShow one: /inbox ID", lines.join("\n")));
        };
        let Some(question) = open.iter().find(|question| is_id(&given, &question.id)) else {
            return Ok("No such question is open. See /inbox.".to_owned());
        };
        let key = format!("again:{}", received.id);
        let conversation = &received.message.conversation;
        self.submit_question(question, received.channel, conversation, &received.peer.id, key)
            .await?;
        Ok(format!("Question {} follows.", question.id))
    }

    /// Answers a question that was shown in this conversation to this person, with its bytes as they
    /// were shown.
    async fn answer_question(
        &self,
        received: &PeerMessage<'_>,
        given: &str,
        text: &str,
    ) -> Result<String, CallError> {
        let PeerMessage { channel, peer, message, .. } = received;
        let given = given.to_lowercase();
        if text.is_empty() || given.len() < MIN_ID_CHARS {
            return Ok("Use: /answer ID TEXT".to_owned());
        }
        let open = self.open_questions(channel).await?;
        let not_found = || "No such question is open here. See /inbox.".to_owned();
        let Some(question) = open.iter().find(|question| is_id(&given, &question.id)) else {
            return Ok(not_found());
        };
        let shown = self.store.list_shown(&question.id).await?;
        let here = shown.iter().find(|shown| {
            shown.channel == *channel
                && shown.conversation.id == message.conversation.id
                && shown.conversation.topic == message.conversation.topic
        });
        let Some(here) = here else { return Ok(not_found()) };
        if here.peer != peer.id {
            return Ok("This question is not yours.".to_owned());
        }
        // An approval requires its button, which is bound to what the message shows.
        if !matches!(question.kind, QuestionKind::Choice | QuestionKind::Uncertain) {
            return Ok("This question is decided with its buttons.".to_owned());
        }
        if !question.options.is_empty() && !question.options.iter().any(|option| option == text) {
            return Ok(format!("The answers are: {}", clean_line(&question.options.join(", "))));
        }
        let decision = Decision {
            question: question.id.clone(),
            digest: here.digest.clone(),
            choice: text.to_owned(),
            reason: None,
            decider: Decider { name: owner_name(peer), surface: (*channel).to_owned() },
        };
        match self.questions.decide(decision).await? {
            DecisionOutcome::Decided { .. } => Ok("Your answer was stored.".to_owned()),
            DecisionOutcome::Closed { question } => Ok(self.describe_closed(&question)),
            DecisionOutcome::DigestMismatch { .. } => {
                Ok("The question has changed since it was shown. See /inbox.".to_owned())
            }
        }
    }
}

/// Returns whether a text is an id or the beginning of it.
fn is_id(given: &str, id: &str) -> bool {
    given == id || (given.len() >= MIN_ID_CHARS && id.starts_with(given))
}

fn help_text(role: ChannelRole) -> &'static str {
    match role {
        ChannelRole::Owner => {
            "/new begins a new thread\n/tasks lists the open tasks of this conversation\n/cancel ID \
             cancels one\n/inbox lists the open questions; /inbox ID shows one\n/answer ID TEXT \
             answers a question\nEverything else is for the agent."
        }
        ChannelRole::Guest => "/new begins a new thread\nEverything else is for the agent.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_parsed() {
        let parse = |text: &str| ChatCommand::parse(text, "helper_bot");
        assert_eq!(parse("/new"), Some(ChatCommand::New));
        assert_eq!(parse(" /NEW@Helper_Bot \n"), Some(ChatCommand::New));
        assert_eq!(parse("/new@other_bot"), None);
        assert_eq!(parse("/cancel 01K"), Some(ChatCommand::Cancel(Some("01K".into()))));
        let answer = ChatCommand::Answer { question: "q".into(), text: "two words".into() };
        assert_eq!(parse("/answer q  two words"), Some(answer));
        for text in ["/etc/hosts is what?", "new", "/newer", "say /new", ""] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn guests_have_few_commands() {
        let permitted = |command: ChatCommand| command.is_permitted(ChannelRole::Guest);
        assert!(permitted(ChatCommand::New) && permitted(ChatCommand::Help));
        let answer = ChatCommand::Answer { question: "q".into(), text: "t".into() };
        for command in
            [ChatCommand::Tasks, ChatCommand::Cancel(None), ChatCommand::Inbox(None), answer]
        {
            assert!(!permitted(command));
        }
    }
}
