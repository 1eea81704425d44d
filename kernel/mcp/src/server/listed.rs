//! The cached list of skills. It is valid for one generation of the backend, so that a client that
//! reads it page by page, or reads one of a thousand skills, does not cause a new list per request.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::ErrorData;
use skillhost_payload::PublishedSkills;

use super::{ServerShared, to_protocol_error};
use crate::backend::ClientSession;

/// The list with its generation.
type CachedList = ((u64, u64), Arc<PublishedSkills>);

/// A cache of the latest list.
#[derive(Default)]
pub(super) struct SkillListCache(Mutex<Option<CachedList>>);

impl ServerShared {
    /// Returns the skills that clients see.
    pub(super) async fn skills(
        &self,
        client: &ClientSession,
    ) -> Result<Arc<PublishedSkills>, ErrorData> {
        // Read before the list: a change during the listing then invalidates it at the next
        // request.
        let generation =
            self.backend.generation(client).await.map_err(|error| to_protocol_error(&error))?;
        let cached = self.listed.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, skills)) = cached.filter(|(of, _)| *of == generation) {
            return Ok(skills);
        }
        let skills =
            self.backend.skills(client).await.map_err(|error| to_protocol_error(&error))?;
        let skills = Arc::new(skills);
        // Two concurrent requests may both make the list; the later one wins, and both are valid.
        let cached = Some((generation, Arc::clone(&skills)));
        *self.listed.0.lock().unwrap_or_else(PoisonError::into_inner) = cached;
        Ok(skills)
    }
}
