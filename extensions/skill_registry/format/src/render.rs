//! Renderings for models and users: the catalog, instructions, resources, the XML block.
//!
//! All of them are pure functions: the same input gives the same bytes, because prompt caches
//! depend on it. Every cut of a rendering is in its report.

mod catalog;
mod content;
mod line;
mod prompt_xml;
mod resource;
mod selected;

pub use catalog::{
    CatalogItem, RenderReport, RenderedCatalog, described_id, listed_id, render_catalog,
};
pub use content::{LARGE_SKILL, SkillInstructions, render_instructions, wrap_content};
pub use line::{sanitize_line, shorten_description};
pub use prompt_xml::{PromptSkill, render_available_skills};
pub use resource::{ResourceKind, ResourceLine, mime_type};
pub use selected::{RenderedSelection, SessionLines, SkillSelection, render_selection};
