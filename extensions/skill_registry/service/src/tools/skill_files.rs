//! The files of a skill with their digests, from which the kernel runs scripts.

use skill_catalog::{Audience, RegistryError, SkillState, Snapshot, Store, TrustLevel};
use skill_compat::extended::{FileSystemScope, SecurityManifest};
use skill_format::{AllowedTools, sanitize_line};
use skillhost_files::jail::JailError;
use skillhost_files::{PackageError, PackageTree, package_digest};
use skillhost_payload::{
    ErrorKind, OperatorCommand, SkillFileScope, SkillSecurity, SkillTree, SkillTreeFile,
};

use super::{check_approved, find_visible};
use crate::declared_spec::{UnreadableDeclarations, read_declared};
use crate::publish::read_frontmatter;

/// Returns the files of a skill as they are now.
///
/// # Errors
/// [`ErrorKind::NotFound`] for an id that is unknown to the audience, [`ErrorKind::Denied`] without
/// an id and for a skill that is off, [`ErrorKind::TooLarge`] for a skill over 512 files or 16 MiB,
/// [`ErrorKind::Conflict`] if its SKILL.md is not valid as it is now, [`ErrorKind::Io`] if a file
/// cannot be read.
pub fn skill_tree(
    store: &Store,
    snapshot: &Snapshot,
    audience: Audience<'_>,
    id: Option<&str>,
) -> Result<SkillTree, RegistryError> {
    let Some(id) = id else {
        return Err(RegistryError::new(
            ErrorKind::Denied,
            "load a skill first".to_owned(),
            "load the skill whose files you want to use, or name it".to_owned(),
        ));
    };
    let skill = find_visible(snapshot, id, audience)?;
    if snapshot.state(skill) == SkillState::Off {
        let enable = OperatorCommand::EnableSkill { id: skill.id().as_str() };
        return Err(RegistryError::new(
            ErrorKind::Denied,
            format!("`{id}` is off"),
            format!("run `{enable}` to enable it"),
        ));
    }
    let dir = skill.open_directory().map_err(|error| directory_error(error, id))?;
    let tree = PackageTree::read(&dir).map_err(|error| to_registry_error(&error, id))?;
    let source = store.read(skill)?;
    let text = tree.files.iter().find(|file| file.path == skill.file().name());
    if text.is_none_or(|text| text.sha256 != source.digest.to_string()) {
        return Err(RegistryError::new(
            ErrorKind::Conflict,
            format!("the SKILL.md of `{id}` is changing, or is not valid as it is now"),
            "repair it, or try again".to_owned(),
        ));
    }
    let unapproved = match snapshot.created().get(skill.id()) {
        Some(created) => check_approved(skill, created, &source).is_err(),
        None => false,
    };
    let (root, below) = skill.resolved_location();
    let frontmatter = &source.frontmatter;
    Ok(SkillTree {
        skill_id: id.to_owned(),
        name: frontmatter.name.clone().unwrap_or_else(|| skill.id().to_string()),
        description: frontmatter.description.clone(),
        source: skill.source().to_owned(),
        root: root.path.join(below),
        is_operator_root: skill.trust() == TrustLevel::Operator && !unapproved,
        digest: package_digest(&tree.files),
        files: tree
            .files
            .into_iter()
            .map(|file| SkillTreeFile {
                path: file.path,
                bytes: file.bytes,
                sha256: file.sha256,
                executable: file.executable,
            })
            .collect(),
        allowed_tools: match &frontmatter.allowed_tools {
            AllowedTools::Absent => None,
            AllowedTools::List(tools) => Some(tools.clone()),
            // Unreadable restricts to no tool at all, since the intended list is unknown.
            AllowedTools::Unparsable => Some(Vec::new()),
        },
        sandbox: read_frontmatter(&source.text).remove("sandbox"),
        security: match read_declared(skill, frontmatter) {
            Ok(spec) => spec.security.as_ref().map(to_skill_security),
            Err(UnreadableDeclarations) => Some(NARROWEST),
        },
    })
}

/// The limits of a skill whose declarations cannot be read.
const NARROWEST: SkillSecurity = SkillSecurity {
    requires_network: Some(false),
    modifies_files: Some(false),
    executes_commands: Some(false),
    file_scope: Some(SkillFileScope::SkillDirectory),
};

fn to_skill_security(manifest: &SecurityManifest) -> SkillSecurity {
    SkillSecurity {
        requires_network: manifest.requires_network,
        modifies_files: manifest.modifies_files,
        executes_commands: manifest.executes_commands,
        file_scope: manifest.file_system_scope.map(|scope| match scope {
            FileSystemScope::SkillDirectory => SkillFileScope::SkillDirectory,
            FileSystemScope::Workspace => SkillFileScope::Workspace,
            FileSystemScope::System => SkillFileScope::System,
        }),
    }
}

fn to_registry_error(error: &PackageError, id: &str) -> RegistryError {
    let (kind, hint) = match error {
        PackageError::TooLarge => (ErrorKind::TooLarge, "keep data outside of the skill"),
        PackageError::Name { .. } => (ErrorKind::InvalidArgument, "rename the file"),
        // It was listed a moment ago.
        PackageError::Entry { .. } => (ErrorKind::Conflict, "try again"),
        PackageError::Io { .. } => (ErrorKind::Io, "check that its files may be read"),
    };
    let reason = sanitize_line(&error.to_string());
    RegistryError::new(kind, format!("the files of `{id}`: {reason}"), hint.to_owned())
}

fn directory_error(error: JailError, id: &str) -> RegistryError {
    let (kind, reason) = match error {
        JailError::NotFound => (ErrorKind::NotFound, "not found".to_owned()),
        JailError::Io(error) => (ErrorKind::Io, sanitize_line(&error.to_string())),
        _ => (ErrorKind::Conflict, "not a directory, or reached through a link".to_owned()),
    };
    let message = format!("the directory of `{id}`: {reason}");
    RegistryError::new(kind, message, "check that it exists, then try again".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use skill_catalog::SystemClock;

    use super::*;
    use crate::RegistryConfig;

    fn open(home: &Path) -> Store {
        let options = RegistryConfig::default().options(home, None);
        Store::open(options, Arc::new(SystemClock)).unwrap()
    }

    fn tree(home: &Path, id: Option<&str>) -> Result<SkillTree, RegistryError> {
        let store = open(home);
        skill_tree(&store, &store.snapshot(), Audience::Operator, id)
    }

    fn write(home: &Path, path: &str, text: &str) {
        let path = home.join("sandbox/skills").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn tree_has_files_and_sandbox_layer() {
        let home = tempfile::tempdir().unwrap();
        write(
            home.path(),
            "pdf/SKILL.md",
            "---\nname: pdf\ndescription: Fills forms.\nallowed-tools: skills.run_script\n\
             sandbox: {limits: {seconds: 60}, filesystem: {allowRead: [~/x]}}\n---\nBody\n",
        );
        write(home.path(), "pdf/scripts/fill.py", "print()\n");
        let made = tree(home.path(), Some("pdf")).unwrap();
        assert_eq!(
            made.files.iter().map(|f| &*f.path).collect::<Vec<_>>(),
            ["SKILL.md", "scripts/fill.py"]
        );
        assert_eq!((&*made.name, &*made.description), ("pdf", "Fills forms."));
        assert_eq!(made.sandbox.as_ref().unwrap()["limits"]["seconds"], 60);
        assert_eq!(made.allowed_tools.as_deref(), Some(&["skills.run_script".to_owned()][..]));
        assert_eq!(made.root, home.path().join("sandbox/skills/pdf"));
        assert!(made.is_operator_root);
        assert!(made.digest.starts_with("sha256:"), "{}", made.digest);
        write(home.path(), "pdf/scripts/fill.py", "print(1)\n");
        assert_ne!(tree(home.path(), Some("pdf")).unwrap().digest, made.digest);
    }

    #[test]
    fn unknown_or_broken_skill_has_no_tree() {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), "a/SKILL.md", "---\nname: a\ndescription: A.\n---\n");
        assert_eq!(tree(home.path(), None).unwrap_err().kind, ErrorKind::Denied);
        assert_eq!(tree(home.path(), Some("b")).unwrap_err().kind, ErrorKind::NotFound);
        let store = open(home.path());
        let snapshot = store.snapshot();
        // From now on the store holds a good text, which is not the one of the files.
        skill_tree(&store, &snapshot, Audience::Operator, Some("a")).unwrap();
        write(home.path(), "a/SKILL.md", "no frontmatter any more");
        let error = skill_tree(&store, &snapshot, Audience::Operator, Some("a")).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
        write(home.path(), "a/SKILL.md", "---\nname: a\ndescription: A.\n---\n");
        for n in 0..600 {
            write(home.path(), &format!("a/{n}"), "");
        }
        assert_eq!(tree(home.path(), Some("a")).unwrap_err().kind, ErrorKind::TooLarge);
    }
}
