//! A thread, the person who talks in it, and the agent's next turn: what `ask` and `chat` share.

mod person;
mod question;

use std::sync::Arc;

use serde_json::{Value, json};
use skillhost_kernel::{DEFAULT_AGENT, Kernel, RunError, RunOutcome, RunRequest, Thread, Threads};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli::TalkArgs;
use crate::error::CliError;
use crate::exit;
use crate::output::{DIM, show};
use crate::session::Session;
pub(super) use person::Person;
pub(super) use question::shown_details;

/// A conversation on a running kernel.
pub(super) struct Talk<'a> {
    pub(super) session: &'a Session,
    pub(super) kernel: &'a Kernel,
    pub(super) thread: Thread,
    pub(super) person: Arc<Person>,
    pub(super) interrupted: Signal,
    model: Option<String>,
}

impl<'a> Talk<'a> {
    /// Opens the thread or begins one; the kernel's services run from here on.
    pub(super) async fn begin(
        session: &'a Session,
        kernel: &'a Kernel,
        args: &TalkArgs,
    ) -> Result<Self, CliError> {
        // From here on Ctrl-C ends a turn and not the process.
        let interrupted = signal(SignalKind::interrupt())?;
        let thread = thread(session, kernel, args).await?;
        for rejected in &kernel.report().rejected {
            session.output.note(format!("{} is not loaded: {}", rejected.id, rejected.reason));
        }
        kernel.start_services().await;
        let person = Arc::new(Person::new(session.output, thread.agent(), &args.approve));
        let model = args.model.clone();
        Ok(Self { session, kernel, thread, person, interrupted, model })
    }

    /// Has the agent answer. Ctrl-C gives the turn up, a second one does not even wait for that.
    pub(super) async fn turn(&mut self, prompt: String) -> Result<RunOutcome, CliError> {
        let cancel = CancellationToken::new();
        let request = RunRequest {
            agent: Some(self.thread.agent().to_owned()),
            model: self.model.clone(),
            prompt,
            cancel: cancel.clone(),
            message_id: None,
        };
        let mut run =
            Box::pin(self.kernel.run_agent(&mut self.thread, request, self.person.clone()));
        let result = loop {
            tokio::select! {
                biased;
                result = &mut run => break result,
                _ = self.interrupted.recv() => {
                    if cancel.is_cancelled() {
                        break Err(RunError::Cancelled);
                    }
                    cancel.cancel();
                }
            }
        };
        drop(run);
        self.person.end_of_turn(result.as_ref().ok())?;
        let outcome = result?;
        self.summary(&outcome);
        Ok(outcome)
    }

    /// Begins another thread with an agent.
    pub(super) async fn switch(&mut self, agent: &str) -> Result<(), CliError> {
        let agent = self.kernel.agent(agent).await?.manifest.id.to_string();
        self.thread = Threads::of(self.kernel.home()).create(&agent)?;
        self.person.hear(&agent);
        Ok(())
    }

    /// The outcome as `--json` prints it.
    pub(super) fn json(&self, outcome: &RunOutcome) -> Result<Value, CliError> {
        let mut value = serde_json::to_value(outcome).map_err(std::io::Error::from)?;
        value["thread"] = json!(self.thread.id());
        value["notes"] = json!(self.person.notes());
        Ok(value)
    }

    /// One line of what it took.
    fn summary(&self, outcome: &RunOutcome) {
        let RunOutcome { model, turns, usage, cost, skills, .. } = outcome;
        let about = if usage.estimated { "approx. " } else { "" };
        let mut parts = vec![
            model.clone(),
            counted(u64::from(*turns), "request"),
            format!("{about}{} tokens in, {} out", usage.input, usage.output),
        ];
        parts.extend(cost.map(|cost| format!("cost {cost:.4}")));
        let skills: Vec<_> = skills.iter().map(|skill| skill.skill_id.as_str()).collect();
        if !skills.is_empty() {
            parts.push(format!("skills: {}", skills.join(", ")));
        }
        self.session.output.aside(format!("{DIM}{}{DIM:#}", show(&parts.join(" · "))));
    }
}

/// `1 request`, `2 requests`.
fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

async fn thread(session: &Session, kernel: &Kernel, args: &TalkArgs) -> Result<Thread, CliError> {
    let threads = Threads::of(kernel.home());
    let Some(id) = &args.thread else {
        let agent = args.agent.as_deref().unwrap_or(DEFAULT_AGENT);
        // Nothing is begun with an agent that is not there.
        let agent = kernel.agent(agent).await?.manifest.id.to_string();
        return Ok(threads.create(&agent)?);
    };
    let thread = threads.open(id)?;
    if let Some(agent) = args.agent.as_deref().filter(|agent| *agent != thread.agent()) {
        let message = format!("thread `{id}` is with `{}`, not with `{agent}`", thread.agent());
        return Err(CliError::new(exit::USAGE, message)
            .hint("leave --agent out, or begin a thread with that agent by leaving --thread out"));
    }
    if let Some(note) = thread.note() {
        session.output.note(format!("thread {id}: {note}"));
    }
    Ok(thread)
}
