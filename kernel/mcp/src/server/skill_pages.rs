//! The cached pages of `skills/list`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::Skill;
use skillhost_payload::PublishedSkills;

/// The limit of cached pages of `skills/list`; the cache is cleared when it is full.
const MAX_PAGES: usize = 64;

/// The cached pages by the id of their first skill.
#[derive(Default)]
pub(super) struct SkillPages(Mutex<HashMap<String, SkillPage>>);

/// The entries of a page with the list and the stamp from which they were made.
pub(super) struct SkillPage {
    pub(super) list: Arc<PublishedSkills>,
    pub(super) skill_ids: Vec<String>,
    pub(super) stamp: u64,
    pub(super) entries: Arc<Vec<Skill>>,
}

impl SkillPages {
    /// Returns the cached entries of a page, if the list, the stamp and the skills are the same.
    pub(super) fn find(
        &self,
        list: &Arc<PublishedSkills>,
        skill_ids: &[&str],
        stamp: u64,
    ) -> Option<Arc<Vec<Skill>>> {
        let pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let page = pages.get(*skill_ids.first()?)?;
        // The list is cached, too, so the same list is the same allocation.
        let is_same = Arc::ptr_eq(&page.list, list)
            && page.stamp == stamp
            && page.skill_ids.iter().eq(skill_ids);
        is_same.then(|| Arc::clone(&page.entries))
    }

    /// Stores a page and drops those of an earlier list.
    pub(super) fn insert(&self, page: SkillPage) {
        let Some(first) = page.skill_ids.first().cloned() else { return };
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|_, cached| Arc::ptr_eq(&cached.list, &page.list));
        if pages.len() >= MAX_PAGES {
            pages.clear();
        }
        pages.insert(first, page);
    }
}
