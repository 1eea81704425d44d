//! The list of skills, kept as long as nothing changed: a client that reads it page by page, or asks
//! for one of a thousand skills, does not have it made anew every time.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::ErrorData;
use skillhost_contract::payload::PublishedSkills;

use super::{ServerShared, to_protocol_error};
use crate::backend::ClientSession;

/// The list, and of which generation it is.
type CachedList = ((u64, u64), Arc<PublishedSkills>);

/// The last list that was made.
#[derive(Default)]
pub(super) struct SkillListCache(Mutex<Option<CachedList>>);

impl ServerShared {
    /// Returns the skills that clients see.
    pub(super) async fn skills(
        &self,
        client: &ClientSession,
    ) -> Result<Arc<PublishedSkills>, ErrorData> {
        // Asked first: what changes while the list is made shows the next time.
        let generation =
            self.backend.generation(client).await.map_err(|error| to_protocol_error(&error))?;
        let kept = self.listed.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, skills)) = kept.filter(|(of, _)| *of == generation) {
            return Ok(skills);
        }
        let skills =
            self.backend.skills(client).await.map_err(|error| to_protocol_error(&error))?;
        let skills = Arc::new(skills);
        let kept = Some((generation, Arc::clone(&skills)));
        *self.listed.0.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        Ok(skills)
    }
}
