//! The roots as one scan finds them.

use std::cell::OnceCell;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::RootDir;
use crate::options::SkillRoot;
use crate::skill::LinkTarget;

/// The outcome of opening a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootStatus {
    Open,
    Missing,
    Failed(ErrorKind),
}

/// A root for the length of one scan.
#[derive(Debug)]
pub(crate) struct OpenRoot {
    pub(crate) root: Arc<SkillRoot>,
    pub(crate) dir: Result<RootDir, std::io::Error>,
    /// The path with every link resolved; found out when the first link needs it.
    canonical: OnceCell<Option<PathBuf>>,
}

impl OpenRoot {
    pub(crate) fn open(root: &Arc<SkillRoot>) -> Self {
        Self { root: Arc::clone(root), dir: RootDir::open(&root.path), canonical: OnceCell::new() }
    }

    pub(crate) fn status(&self) -> RootStatus {
        match &self.dir {
            Ok(_) => RootStatus::Open,
            Err(error) if error.kind() == ErrorKind::NotFound => RootStatus::Missing,
            Err(error) => RootStatus::Failed(error.kind()),
        }
    }

    fn canonical(&self) -> Option<&PathBuf> {
        self.canonical.get_or_init(|| fs::canonicalize(&self.root.path).ok()).as_ref()
    }
}

/// Finds the other roots that lie inside the root with this index, as paths below it.
///
/// Skills below an inner root belong to it: they have its label and at most its trust.
pub(crate) fn nested_roots(roots: &[OpenRoot], index: usize) -> Vec<String> {
    let below = |(at, inner): (usize, &OpenRoot)| {
        let rel = inner.canonical()?.strip_prefix(roots[index].canonical()?).ok()?.to_str()?;
        (at != index && !rel.is_empty()).then(|| rel.to_owned())
    };
    // A single root cannot contain another one.
    if roots.len() == 1 { Vec::new() } else { roots.iter().enumerate().filter_map(below).collect() }
}

/// The target of a link in a root.
#[derive(Debug)]
pub(crate) enum LinkResolution {
    /// A directory inside a root.
    Inside(LinkTarget),
    /// A directory outside every root, or a root itself.
    Outside(PathBuf),
    /// A target that is not a directory.
    NotDirectory,
    /// Nowhere, for this reason.
    Dangling(std::io::Error),
}

/// Follows the link at `rel` below the root with this index.
///
/// The answer is a path that is opened without following any link, so it is safe even if the link
/// is changed in between.
pub(crate) fn resolve_link(roots: &[OpenRoot], index: usize, rel: &str) -> LinkResolution {
    let link = roots[index].root.path.join(rel);
    let target = match fs::canonicalize(link) {
        Ok(target) => target,
        Err(error) => return LinkResolution::Dangling(error),
    };
    if !target.is_dir() {
        return LinkResolution::NotDirectory;
    }
    let inside = roots.iter().enumerate().filter(|(_, root)| root.dir.is_ok());
    let best = inside
        .filter_map(|(index, root)| Some((index, target.strip_prefix(root.canonical()?).ok()?)))
        .filter_map(|(index, below)| Some((index, below.to_str()?)))
        .filter(|(_, below)| !below.is_empty())
        // The innermost root limits the trust of the target.
        .min_by_key(|(_, below)| below.len());
    match best {
        Some((at, below)) => LinkResolution::Inside(LinkTarget {
            root: Arc::clone(&roots[at].root),
            index: at as u16,
            rel: below.into(),
        }),
        None => LinkResolution::Outside(target),
    }
}
