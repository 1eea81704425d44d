//! The repository that a path lies in.

use cap_fs_ext::MetadataExt as _;
use cap_std::fs::Dir;
use skillhost_files::jail::{self, JailError};
use skillhost_sdk::{ErrorKind, ExtensionError};

use crate::path::DirectoryPath;
use crate::repository::Repository;
use crate::roots::{FileRoots, REPOSITORY, WalkBorder};
use crate::walk::WalkControl;

/// An open repository, and its place.
pub(crate) struct RepositoryPlace {
    pub(crate) repository: Repository,
    /// The directory with its files.
    pub(crate) worktree: Dir,
    /// The device of the worktree.
    pub(crate) device: u64,
    /// What lies in the worktree, but out of reach.
    pub(crate) border: WalkBorder,
    /// The path of the worktree for tools: empty, or with a slash at the end.
    pub(crate) prefix: String,
    /// The part of the repository that the path names, empty for all of it.
    pub(crate) filter: String,
}

impl RepositoryPlace {
    /// Finds the repository of a path: the nearest one at or above it, but not above the sandbox or
    /// the workspace. The path itself may be gone.
    pub(crate) fn find(
        roots: &FileRoots,
        path: Option<&str>,
        control: &WalkControl,
    ) -> Result<Self, ExtensionError> {
        let path = DirectoryPath::new(path)?;
        let root = roots.open_root(path.workspace())?;
        let border = root.border();
        let mut dir = root.dir;
        let mut prefix = DirectoryPath::root_of(&path).entry_prefix();
        let components: Vec<&str> =
            path.inner().into_iter().flat_map(|inner| inner.components()).collect();
        let mut found = git_entry(&dir)?.map(|is_directory| (is_directory, 0, prefix.clone()));
        let mut worktree = dir.try_clone()?;
        for (depth, component) in components.iter().enumerate() {
            let shown = path.to_text().unwrap_or_default();
            border.check(&dir, component, &shown, depth == 0)?;
            match jail::open_component(&dir, component) {
                Ok(inner) => dir = inner,
                Err(JailError::Link) => {
                    return Err(
                        crate::jail::EntryError::from(JailError::Link).with_directory(&path)
                    );
                }
                // A file, or one that is gone.
                Err(_) => break,
            }
            prefix = format!("{prefix}{component}/");
            if let Some(is_directory) = git_entry(&dir)? {
                found = Some((is_directory, depth + 1, prefix.clone()));
                worktree = dir.try_clone()?;
            }
        }
        let named = path.to_text().unwrap_or_else(|| "the sandbox".to_owned());
        let (is_directory, depth, prefix) = found.ok_or_else(|| no_repository_error(&named))?;
        if !is_directory {
            return Err(linked_worktree_error(&named));
        }
        let git = jail::open_component(&worktree, REPOSITORY)
            .map_err(|error| crate::jail::EntryError::from(error).with_directory(&path))?;
        let metadata = git.dir_metadata()?;
        if !border.admits(metadata.dev(), metadata.ino()) {
            return Err(no_repository_error(&named));
        }
        let repository = Repository::open(git, control)?;
        let filter = components[depth..].join("/");
        Ok(Self { repository, worktree, device: metadata.dev(), border, prefix, filter })
    }

    /// Returns whether the path that was named has this file of the repository.
    pub(crate) fn includes(&self, path: &str) -> bool {
        is_within(&self.filter, path)
    }
}

/// Returns whether a path is another one or lies below it; an empty one has all paths.
pub(crate) fn is_within(above: &str, path: &str) -> bool {
    let rest = path.strip_prefix(above);
    above.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns whether a directory has a `.git`, and whether that is a directory.
fn git_entry(dir: &Dir) -> Result<Option<bool>, ExtensionError> {
    match dir.symlink_metadata(REPOSITORY) {
        Ok(metadata) => Ok(Some(metadata.is_dir())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn no_repository_error(named: &str) -> ExtensionError {
    ExtensionError::not_found(format!("`{named}` is not in a repository of git")).with_hint(
        "name a workspace or a directory in it, such as workspace:LABEL; a repository above a \
         workspace is out of reach",
    )
}

fn linked_worktree_error(named: &str) -> ExtensionError {
    ExtensionError::new(
        ErrorKind::Unavailable,
        format!("the `.git` of `{named}` is a file or a link: its repository is elsewhere"),
    )
    .with_hint(
        "for a linked worktree or a submodule, the user can name the directory of the main \
         repository as a workspace; the files here can be read",
    )
}
