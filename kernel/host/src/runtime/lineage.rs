//! Which agents work on one task: each was given its part by the one before it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use skillhost_manifest::ExtensionId;

/// Tasks are handed on at most so often, one run within the other.
pub(crate) const DEPTH: usize = 4;

/// The agents above a run and the run's own, which is busy as long as this lives.
#[derive(Debug)]
pub(crate) struct DelegationChain {
    chain: Vec<ExtensionId>,
    /// Every agent that works for the same conversation.
    busy: Arc<Mutex<BTreeSet<ExtensionId>>>,
}

/// Why an agent is not given a task.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DelegationError {
    /// The task came from it.
    Asked,
    /// It works on another task of the same conversation.
    Busy,
    /// It was handed on too often.
    TooDeep,
}

impl DelegationChain {
    /// The lineage of a run that nobody else began.
    pub(crate) fn new(agent: &ExtensionId) -> Self {
        let busy = Arc::new(Mutex::new(BTreeSet::from([agent.clone()])));
        Self { chain: vec![agent.clone()], busy }
    }

    /// The lineage of a run that this one begins.
    pub(crate) fn delegate_to(&self, agent: &ExtensionId) -> Result<Self, DelegationError> {
        if self.chain.contains(agent) {
            return Err(DelegationError::Asked);
        }
        if self.chain.len() > DEPTH {
            return Err(DelegationError::TooDeep);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ExtensionId {
        ExtensionId::new(text).unwrap()
    }

    #[test]
    fn a_task_goes_neither_back_nor_twice_to_one_agent_nor_on_for_ever() {
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
}
