//! The cached list of skills. It is valid for one generation of the backend, so that a client that
//! reads it page by page, or reads one of a thousand skills, does not cause a new list per request.

use std::sync::{Arc, Mutex, PoisonError};

use skillhost_payload::PublishedSkills;

use crate::backend::{Backend, BackendError, ClientSession};

/// The list with its generation.
type CachedList = ((u64, u64), Arc<PublishedSkills>);

/// A cache of the latest list.
#[derive(Default)]
pub(super) struct SkillListCache(Mutex<Option<CachedList>>);

impl SkillListCache {
    /// Returns the skills that clients see.
    pub(super) async fn load(
        &self,
        backend: &dyn Backend,
        client: &ClientSession,
    ) -> Result<Arc<PublishedSkills>, BackendError> {
        // Read before the list: a change during the listing then invalidates it at the next
        // request.
        let generation = backend.generation(client).await?;
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, skills)) = cached.filter(|(of, _)| *of == generation) {
            return Ok(skills);
        }
        let skills = Arc::new(backend.skills(client).await?);
        // Two concurrent requests may both make the list; the later one wins, and both are valid.
        let cached = Some((generation, Arc::clone(&skills)));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = cached;
        Ok(skills)
    }
}
