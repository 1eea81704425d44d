//! The declarations of one skill as they are now.

use skill_catalog::{Skill, read_skill_yaml_in};
use skill_compat::extended::{ExtendedSpec, ParsedExtendedSpec};
use skill_format::Frontmatter;

/// The error of a `skill.yaml` that exists and cannot be read: it may state anything.
#[derive(Debug)]
pub(crate) struct UnreadableDeclarations;

/// Reads all declarations of a skill as they are now.
pub(crate) fn read_declared(
    skill: &Skill,
    frontmatter: &Frontmatter,
) -> Result<ExtendedSpec, UnreadableDeclarations> {
    let own = ExtendedSpec::from_frontmatter(frontmatter);
    Ok(own.merge_with(read_sidecar(skill)?))
}

/// Reads the `skill.yaml` of a skill.
pub(crate) fn read_sidecar(skill: &Skill) -> Result<ExtendedSpec, UnreadableDeclarations> {
    // Without a directory there is no file; the store reports it.
    let Ok(dir) = skill.open_directory() else { return Ok(ExtendedSpec::default()) };
    let text = read_skill_yaml_in(&dir).map_err(|_| UnreadableDeclarations)?;
    let id = skill.id().as_str();
    Ok(text.map_or_else(ExtendedSpec::default, |text| {
        ParsedExtendedSpec::parse_skill_yaml(&text, id).extended
    }))
}
