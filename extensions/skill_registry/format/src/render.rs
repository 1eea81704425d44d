//! Renderings for models and people: the catalog, instructions, resources, the XML block.
//!
//! All of them are pure functions: the same input gives the same bytes, because prompt caches
//! depend on it. What a rendering cuts is in its report, never silent.

mod catalog;
mod content;
mod line;
mod prompt_xml;
mod resource;
mod selected;

pub use catalog::{Catalog, CatalogItem, RenderReport, catalog};
pub use content::{Instructions, LARGE_SKILL, instructions, skill_content};
pub use line::{SHORT_DESCRIPTION, description_short, sanitise_line};
pub use prompt_xml::{PromptSkill, available_skills_xml};
pub use resource::{ResourceKind, ResourceLine, mime_type};
pub use selected::{Choice, Selected, Shown, selected};
