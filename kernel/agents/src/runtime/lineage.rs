//! The chain of agents that work on one task, each with a part delegated by the one before.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use skillhost_manifest::ExtensionId;
use skillhost_payload::{CallContext, CallError, ErrorKind, MAX_CALL_DEPTH as DEPTH};

/// The agents of a run's parents and its own, which counts as busy until this is dropped.
#[derive(Debug)]
pub(crate) struct DelegationChain {
    chain: Vec<ExtensionId>,
    /// Every agent at work for the same root thread.
    busy: Arc<Mutex<BTreeSet<ExtensionId>>>,
}

/// An error returned when a task cannot be delegated to an agent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DelegationError {
    /// The agent is itself one of the parents.
    Asked,
    /// The agent works on another task of the same root thread.
    Busy,
    /// The depth limit is reached.
    TooDeep,
}

impl DelegationChain {
    /// Creates the chain of a run without a parent.
    pub(crate) fn new(agent: &ExtensionId) -> Self {
        let busy = Arc::new(Mutex::new(BTreeSet::from([agent.clone()])));
        Self { chain: vec![agent.clone()], busy }
    }

    /// Extends the chain by a run that this one starts.
    pub(crate) fn delegate_to(&self, agent: &ExtensionId) -> Result<Self, DelegationError> {
        if self.chain.contains(agent) {
            return Err(DelegationError::Asked);
        }
        if self.chain.len() > DEPTH {
            return Err(DelegationError::TooDeep);
        }
        // An agent has one run per root thread: two could wait for each other.
        if !self.lock().insert(agent.clone()) {
            return Err(DelegationError::Busy);
        }
        let chain = self.chain.iter().chain([agent]).cloned().collect();
        Ok(Self { chain, busy: Arc::clone(&self.busy) })
    }

    pub(crate) fn is_busy(&self, agent: &ExtensionId) -> bool {
        self.lock().contains(agent)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<ExtensionId>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DelegationChain {
    fn drop(&mut self) {
        if let Some(own) = self.chain.last() {
            self.lock().remove(own);
        }
    }
}

/// Returns the error for the model whose task cannot be delegated.
pub(crate) fn to_call_error(agent: &ExtensionId, why: &DelegationError) -> CallError {
    let (kind, message, hint) = match why {
        DelegationError::Asked => (
            ErrorKind::Denied,
            format!("task came from `{agent}` and cannot be delegated back to it"),
            "reply with the results so far",
        ),
        DelegationError::Busy => (
            ErrorKind::Unavailable,
            format!("agent `{agent}` is busy with another task of this thread"),
            "delegate the task after it has replied",
        ),
        DelegationError::TooDeep => (
            ErrorKind::Denied,
            format!("task was already delegated {DEPTH} times"),
            "do it yourself, or reply with the results so far",
        ),
    };
    CallError::new(kind, message).with_hint(hint)
}

/// Returns the error of a delegation by a program that is called too deep.
pub(crate) fn check_depth(context: &CallContext) -> Result<(), CallError> {
    if context.call_chain.len() < DEPTH {
        return Ok(());
    }
    let message = format!("calls of programs and delegations are {DEPTH} levels deep, the limit");
    Err(CallError::new(ErrorKind::Denied, message)
        .with_hint("do it yourself, or reply with the results so far"))
}

/// Returns the line of an approval that names the programs which lead to a call.
pub(crate) fn describe_chain(context: &CallContext) -> Option<String> {
    let chain = &context.call_chain;
    let has_program = chain.iter().any(|step| step.starts_with("program "));
    has_program.then(|| format!("requested by {}", chain.join(" → ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ExtensionId {
        ExtensionId::new(text).unwrap()
    }

    #[test]
    fn cyclic_busy_deep_delegation_fails() {
        let a = DelegationChain::new(&id("a"));
        let b = a.delegate_to(&id("b")).unwrap();
        assert_eq!(b.delegate_to(&id("a")).unwrap_err(), DelegationError::Asked);
        assert_eq!(a.delegate_to(&id("b")).unwrap_err(), DelegationError::Busy);
        let c = b.delegate_to(&id("c")).unwrap();
        let d = c.delegate_to(&id("d")).unwrap();
        let e = d.delegate_to(&id("e")).unwrap();
        assert_eq!(e.delegate_to(&id("f")).unwrap_err(), DelegationError::TooDeep);
        drop(b);
        assert!(!a.is_busy(&id("b")) && a.is_busy(&id("a")) && a.is_busy(&id("c")));
        assert!(a.delegate_to(&id("b")).is_ok());
    }

    #[test]
    fn programs_and_delegations_share_depth_and_are_shown() {
        let context = |steps: &[&str]| CallContext {
            call_chain: steps.iter().map(ToString::to_string).collect(),
            ..CallContext::default()
        };
        let chain = ["program a", "agent b", "program c", "program d"];
        assert_eq!(check_depth(&context(&chain[..3])), Ok(()));
        assert_eq!(check_depth(&context(&chain)).unwrap_err().kind, ErrorKind::Denied);
        let shown = describe_chain(&context(&chain[..3])).unwrap();
        assert_eq!(shown, "requested by program a → agent b → program c");
        assert_eq!(describe_chain(&context(&chain[1..2])), None, "delegations alone are no news");
    }
}
