//! The skills in the sandbox: existing ones are read-only, new ones are reported.

use cap_fs_ext::{DirExt as _, MetadataExt as _};
use cap_std::fs::Dir;
use skillhost_payload::OperatorCommand;
use skillhost_sdk::{CallContext, ErrorKind, ExtensionError, Result, SkillClient};

use crate::jail::{FileEntryKind, classify_entry, has_skill_file, is_skill_file};
use crate::path::FilePath;
use crate::roots::{FileRoots, REPOSITORY};

/// The limit on the examined entries; a larger directory is rejected as undecidable.
const LOOKED_AT: usize = 20_000;

/// Returns the id of the skill that a new file creates, or `None` for another file.
pub(crate) fn new_skill(roots: &FileRoots, path: &FilePath) -> Result<Option<String>> {
    let (_, name) = path.split();
    if !is_skill_file(name) {
        return Ok(None);
    }
    let denied = |message: String, hint: &str| {
        Err(ExtensionError::new(ErrorKind::Denied, message).with_hint(hint))
    };
    if path.workspace().is_some() {
        return denied(
            format!("`{path}` would be a skill's file"),
            "create skills in the sandbox: skills/<id>/SKILL.md",
        );
    }
    if name != "SKILL.md" {
        return denied(format!("`{path}` would be a skill's file"), "write it as SKILL.md");
    }
    let parents = path.components().count() - 1;
    let Some(id) = path.parent_name().filter(|id| parents > 1 || *id != "skills") else {
        return denied(
            format!("`{path}` would make a directory of skills a skill"),
            "a skill has a directory of its own: skills/<id>/SKILL.md",
        );
    };
    let (dir, _) = path.as_str().rsplit_once('/').unwrap_or_default();
    match roots.open_directory(&FilePath::new(dir)?.into()) {
        Ok(dir) if inspect_directory(&dir, path)?.skill => denied(
            format!("`{path}` would hide the skills below it"),
            "a skill has a directory of its own: skills/<id>/SKILL.md",
        ),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(Some(id.to_owned())),
    }
}

/// The entries of a directory, at any depth.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DirectoryContents {
    pub(crate) entries: usize,
    pub(crate) skill: bool,
    pub(crate) odd: bool,
    /// The files of version control are in it.
    pub(crate) repository: bool,
}

/// Examines a directory; `path` is the one in an error.
pub(crate) fn inspect_directory(dir: &Dir, path: &FilePath) -> Result<DirectoryContents> {
    let mut holds =
        DirectoryContents { skill: has_skill_file(dir)?, ..DirectoryContents::default() };
    let mut dirs = vec![dir.try_clone()?];
    let device = dir.dir_metadata()?.dev();
    while let Some(dir) = dirs.pop() {
        for entry in dir.entries()? {
            let entry = entry?;
            holds.entries += 1;
            if holds.entries > LOOKED_AT {
                return Err(ExtensionError::new(
                    ErrorKind::TooLarge,
                    format!("`{path}` has more than {LOOKED_AT} entries"),
                )
                .with_hint("work on smaller parts of it"));
            }
            let metadata = entry.metadata()?;
            holds.repository |= entry.file_name().eq_ignore_ascii_case(REPOSITORY);
            match classify_entry(&metadata) {
                // The files of a mounted file system are not those of the directory.
                _ if metadata.dev() != device => holds.odd = true,
                FileEntryKind::File => {}
                FileEntryKind::Directory => {
                    let inner = dir.open_dir_nofollow(entry.file_name())?;
                    holds.skill |= has_skill_file(&inner)?;
                    dirs.push(inner);
                }
                FileEntryKind::Link | FileEntryKind::Special => holds.odd = true,
            }
        }
    }
    Ok(holds)
}

/// Announces new skills to the registry before they are written, so that an unapproved skill is
/// never served as trusted. After an error no file may be written.
pub(crate) async fn announce_skills(
    registry: Option<&SkillClient>,
    cx: &CallContext,
    ids: &[String],
) -> Result<()> {
    for id in ids {
        let Some(registry) = registry else {
            return Err(ExtensionError::new(
                ErrorKind::Unavailable,
                "skill registry not available",
            )
            .with_hint("without it no skill can be created"));
        };
        match registry.get_skill_content(id).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                let hint = "no skill can be created without the registry; ask the operator";
                return Err(error.with_hint(hint));
            }
            // It is there, and be it that it cannot be read or bound.
            Ok(_) | Err(_) => {
                return Err(ExtensionError::new(
                    ErrorKind::Conflict,
                    format!("skill `{id}` already exists"),
                )
                .with_hint("choose another id, or change it with propose_skill_update"));
            }
        }
        registry.skill_created(cx, id).await?;
    }
    Ok(())
}

/// Makes the registry examine the written skills. Returns the report about them.
pub(crate) async fn report_written_skills(
    registry: Option<&SkillClient>,
    cx: &CallContext,
    ids: &[String],
) -> String {
    let mut said = String::new();
    for id in ids {
        said.push_str(&format!(
            "\n`{id}` is a new skill, not approved: it grants nothing and cannot be bound until a \
             person approves it with `{}`.",
            OperatorCommand::ApproveSkill { id, digest: None }
        ));
        if let Some(registry) = registry
            && let Err(error) = registry.skill_created(cx, id).await
        {
            said.push_str(&format!(" The registry will see it a little later ({error})."));
        }
    }
    said
}
