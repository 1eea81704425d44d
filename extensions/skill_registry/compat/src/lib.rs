//! The behavior of other tools and standards around SKILL.md; pure, no I/O.
//!
//! Modules:
//! - [`mod@reference`]: the reference validator, quirks included.
//! - [`extended`]: the declarations of the SkillsCraft specification.
//! - `eligibility`, [`graph`]: the consequences of these declarations, for one skill and for a
//!   catalog.
//! - [`role`]: labels of skills.
//!
//! Invariants for every input: no function panics, and the same input has the same result.

mod eligibility;
pub mod extended;
pub mod graph;
pub mod reference;
pub mod role;

pub use eligibility::{
    AvailableTool, Eligibility, MissingRequirement, check_eligibility, describe_tool_problems,
    unchecked_tools,
};
