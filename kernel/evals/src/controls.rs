//! The controls: a harness that cannot see a trigger must not report that there was none.
//!
//! They run real turns with a model of fixed replies, so that they are free of charge.

use skillhost_agents::RunRequest;
use skillhost_conversation::{Message, ModelProvider, Thread};
use std::sync::Arc;

use crate::error::EvalError;
use crate::overlay::OverlayKernel;
use crate::run_channel::RunChannel;
use crate::watched_model::{ControlModel, WatchLimits};

/// The observations of the controls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ControlReport {
    /// A user who names the skill gets it.
    pub(crate) is_activated: bool,
    /// The reason why a user does not get it.
    pub(crate) refusal: Option<String>,
    /// A model that reads the skill gets it.
    pub(crate) is_read: bool,
    /// The estimated tokens of a first request.
    pub(crate) first_tokens: u64,
}

/// Tries both ways in which a skill is triggered.
pub(crate) async fn run_controls(
    overlay: &OverlayKernel,
    agent: &str,
    skill_id: &str,
    model: &Arc<dyn ModelProvider>,
) -> Result<ControlReport, EvalError> {
    let mut report = ControlReport::default();
    let agents = overlay.kernel.agents();
    overlay.models.set_model(ControlModel::new(None), false);
    let mut thread = Thread::in_memory(agent);
    let activated = match agents.activate_skill(&mut thread, skill_id).await {
        Ok(_) => true,
        Err(error) => {
            report.refusal = Some(error.to_string());
            false
        }
    };
    run_control(overlay, &mut thread, agent).await?;
    report.is_activated =
        activated && thread.active_skills().iter().any(|skill| skill.skill_id == skill_id);

    overlay.models.set_model(ControlModel::new(Some(skill_id)), false);
    let mut thread = Thread::in_memory(agent);
    let limits = WatchLimits { skill_id: skill_id.to_owned(), ..WatchLimits::default() };
    overlay.models.start_run(limits);
    run_control(overlay, &mut thread, agent).await?;
    let run = overlay.models.finish_run();
    // A call alone is no trigger: the tool may have refused it.
    let has_text = thread
        .messages()
        .iter()
        .any(|message| matches!(message, Message::Tool { is_error: false, .. }));
    report.is_read = run.has_read && has_text;
    report.first_tokens = run.first_tokens;
    // The tested model again, for the runs.
    overlay.models.set_model(Arc::clone(model), true);
    Ok(report)
}

async fn run_control(
    overlay: &OverlayKernel,
    thread: &mut Thread,
    agent: &str,
) -> Result<(), EvalError> {
    let request = RunRequest { prompt: "control".to_owned(), ..RunRequest::default() };
    let run = overlay.kernel.agents().run_agent(thread, request, Arc::new(RunChannel::default()));
    match run.await {
        Ok(_) => Ok(()),
        Err(error) => Err(EvalError::Agent { agent: agent.to_owned(), reason: error.to_string() }),
    }
}

impl ControlReport {
    /// Checks the home with the skill and the one without it.
    ///
    /// # Errors
    /// [`EvalError::Harness`].
    pub(crate) fn check(with: &Self, without: &Self, skill_id: &str) -> Result<(), EvalError> {
        let fail = |reason: String| Err(EvalError::Harness { reason });
        if without.is_activated || without.is_read {
            return fail(format!("`{skill_id}` triggered in a home without it"));
        }
        match (with.is_activated, with.is_read) {
            // Each skill has at least one way; its own settings may close the other.
            (true, true) => Ok(()),
            (false, false) => {
                let refusal = with.refusal.as_ref().map(|reason| format!(" ({reason})"));
                let refusal = refusal.unwrap_or_default();
                fail(format!(
                    "`/{skill_id}` did not trigger{refusal}, and the agent cannot read it"
                ))
            }
            (true, false) | (false, true) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_tell_broken_harness_from_zero() {
        let seen = |is_activated, is_read| ControlReport {
            is_activated,
            is_read,
            ..ControlReport::default()
        };
        let check = |with, without| {
            ControlReport::check(&with, &without, "pdf").map_err(|error| error.to_string())
        };
        assert_eq!(check(seen(true, true), seen(false, false)), Ok(()));
        assert_eq!(check(seen(false, true), seen(false, false)), Ok(()));
        let broken = check(seen(false, false), seen(false, false)).unwrap_err();
        assert!(broken.starts_with("the harness cannot see triggers: `/pdf` did not"), "{broken}");
        for shadow in [seen(true, false), seen(false, true)] {
            let broken = check(seen(true, true), shadow).unwrap_err();
            assert!(broken.ends_with("triggered in a home without it"), "{broken}");
        }
    }
}
