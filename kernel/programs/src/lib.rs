//! The programs of skills as tools of the kernel.
//!
//! `skill_programs` follows the skills: their programs are in the table of tools, and each caller is
//! offered those that it may see and that the operator granted. `program_calls` answers the calls: a
//! program runs with an approval, and a skill without a program returns its `instructions`.

mod instructions;
mod program_calls;
mod skill_programs;

pub use skill_programs::add_program_tools;
