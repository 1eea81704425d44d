//! The resources that a client watches.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A hash of a resource, or `None` if the resource could not be read.
pub(super) type ResourceHash = Option<[u8; 32]>;

/// The resources that a session watches, each with its hash at the last check.
#[derive(Default)]
pub(super) struct WatchedResources {
    resources: Mutex<BTreeMap<String, ResourceHash>>,
}

impl WatchedResources {
    /// Stops watching a resource.
    pub(super) fn forget(&self, uri: &str) {
        self.lock().remove(uri);
    }

    /// Watches a resource; returns `false` if the limit is reached.
    pub(super) fn remember(&self, uri: String, seen: ResourceHash, limit: usize) -> bool {
        let mut resources = self.lock();
        // A repeated request for the same resource must succeed at the limit, too.
        let has_room = resources.len() < limit || resources.contains_key(&uri);
        if has_room {
            resources.insert(uri, seen);
        }
        has_room
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<String, ResourceHash>> {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
