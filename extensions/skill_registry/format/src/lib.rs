//! A parser, checker and renderer of SKILL.md files; pure, no I/O.
//!
//! ```
//! use skill_format::{CatalogItem, parse_skill, render_catalog};
//!
//! let file = b"---\nname: beads\ndescription: Counts beads. Use when: asked.\n---\n# Beads\n";
//! let skill = parse_skill("beads", file)
//!     .map_err(|rejected| format!("{:?}", rejected.diagnostics))?;
//! assert_eq!(skill.body(), "# Beads\n");
//! // `: ` in an unquoted value is not YAML. The field is kept as text and reported.
//! assert_eq!(skill.parsed.diagnostics[0].rule, "frontmatter.recovered");
//!
//! let description = skill.parsed.frontmatter.map(|it| it.description).unwrap_or_default();
//! let block = render_catalog(&[CatalogItem { id: "beads", description: &description }], 8_000);
//! let line = "\u{2022} `beads` \u{2014} Counts beads. Use when: asked.\n";
//! assert!(block.is_some_and(|block| block.text.contains(line)));
//! # Ok::<(), String>(())
//! ```
//!
//! Steps for one file: bytes → [`decode_file`] → text → [`find_fences`] finds the fences →
//! [`tree::parse_frontmatter`] builds a tree of strings → [`parse_skill`] applies the loading rules
//! → [`Frontmatter`] and body. A reader that stops at the closing fence uses [`find_head`] and
//! [`parse_head`].
//!
//! Invariants for any input:
//! - No function panics, and the number of parser events per file is bounded.
//! - No value is typed and no field is dropped; text that is not valid YAML is kept as text.
//! - Either there is a [`Frontmatter`], or one of the [`Diagnostic`]s is an error.
//! - Renderings are pure functions, never longer than their budget, and untrusted text in them can
//!   neither leave its line nor close its element.

mod diagnostic;
mod digest;
mod id;
mod input;
mod json_error;
mod programs;
mod render;
mod skill;
mod split;
mod text;
mod tokens;
pub mod tree;

pub use diagnostic::{Diagnostic, Severity};
pub use digest::{Digest, DigestError};
pub use id::{SkillId, SkillIdError};
pub use input::{
    EVALS_DIRECTORY, EntryKind, FileEntry, SKILL_YAML, SKILL_YAML_LIMIT, SkillInput, is_case_file,
};
pub use json_error::JsonParseError;
pub use programs::{
    DiscoveredPrograms, ParsedToolManifest, ProgramFile, ProgramFiles, TOOL_JSON, TOOL_JSON_LIMIT,
    ToolKind, ToolManifest,
};
pub use render::{
    CatalogItem, LARGE_SKILL, PromptSkill, RenderReport, RenderedCatalog, RenderedSelection,
    ResourceKind, ResourceLine, SessionLines, SkillInstructions, SkillSelection, described_id,
    listed_id, mime_type, render_available_skills, render_catalog, render_instructions,
    render_selection, sanitize_line, shorten_description, wrap_content,
};
pub use skill::{
    AllowedTools, Frontmatter, ParsedSkill, SkillText, infer_core_type, is_valid_name, parse_head,
    parse_skill, parse_with_fences,
};
pub use split::{FRONTMATTER_LIMIT, FrontmatterFences, HeadStatus, find_fences, find_head};
pub use text::{DecodedText, FILE_LIMIT, decode_file};
pub use tokens::TokenCount;
