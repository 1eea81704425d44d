//! Parses, checks and renders SKILL.md; pure, no I/O.

mod diagnostic;
mod digest;
mod id;
mod render;
mod skill;
mod split;
mod text;
mod tokens;
pub mod tree;

pub use diagnostic::{Diagnostic, Severity};
pub use digest::{Digest, DigestError};
pub use id::{SkillId, SkillIdError};
pub use render::{
    Catalog, CatalogItem, Instructions, LARGE_SKILL, PromptSkill, RenderReport, ResourceKind,
    ResourceLine, SHORT_DESCRIPTION, available_skills_xml, catalog, description_short,
    instructions, mime_type, sanitise_line, skill_content,
};
pub use skill::{AllowedTools, Frontmatter, Parsed, SkillText, parse, parse_head};
pub use split::{FRONTMATTER_LIMIT, Head, head};
pub use text::{Decoded, FILE_LIMIT, decode};
pub use tokens::TokenCount;
pub use tree::{Span, Value};
