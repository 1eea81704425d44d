//! A root directory of the run's own, which contains only the paths of its policy.

use std::ffi::CString;
use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
    mount_change, move_mount, open_tree, unmount,
};
use rustix::process::{chdir, pivot_root};

use super::error::{SetupError, StepContext as _};
use super::host_sockets::{hidden_runtime_directories, kept_runtime_files};
use super::policy_paths::{DEVICES, open_path, system_paths};
use crate::isolation::RefusalKind;
use crate::protocol::LaunchRequest;
use crate::sys::{MountAttributes, set_mount_attributes};

/// The directory at which the new root is built. It exists on every system.
const NEW_ROOT: &str = "/tmp";

/// The size of `/dev/shm`, in MiB.
const SHARED_MEMORY_MIB: u64 = 64;

/// The number of sockets that are covered.
const MAX_SOCKETS: usize = 1000;

/// A copy of a mounted tree that is not visible yet, and the path that it gets.
pub(super) struct DetachedTree {
    path: PathBuf,
    content: TreeContent,
}

enum TreeContent {
    Directory(OwnedFd),
    File(OwnedFd),
    /// A link of the system, such as `/bin`, and its target.
    Link(PathBuf),
}

/// Copies the trees that a run may see.
///
/// `owners` maps the owners of the files of the policy, for a run under another user.
pub(super) fn copy_trees(
    request: &LaunchRequest,
    owners: Option<BorrowedFd<'_>>,
) -> Result<Vec<DetachedTree>, SetupError> {
    let read_only =
        MountAttributes { read_only: true, no_set_id: true, no_devices: true, owners: None };
    let writable = MountAttributes { read_only: false, ..read_only };
    let device = MountAttributes { no_set_id: true, ..MountAttributes::default() };
    let mut trees = Vec::new();
    let kept = kept_runtime_files(request);
    for path in system_paths().chain(kept) {
        let meta = path.symlink_metadata().at(&path.display().to_string())?;
        let content = match meta.is_symlink() {
            true => TreeContent::Link(fs::read_link(path).at(&path.display().to_string())?),
            false => copy_tree(path, read_only)?,
        };
        trees.push(DetachedTree { path: path.to_owned(), content });
    }
    let files = &request.policy.filesystem;
    let is_writable = |path: &&PathBuf| {
        let is_reached = |outer: &PathBuf| {
            let mut denied = files.deny_read.iter();
            path.starts_with(outer)
                && !denied.any(|inner| inner.starts_with(outer) && path.starts_with(inner))
        };
        files.allow_write.iter().any(is_reached)
    };
    let readable = files.allow_read.iter().filter(|path| !is_writable(path));
    let sockets = &request.policy.network.allow_unix_sockets;
    // A socket can be connected to, but not changed, through a read-only mount.
    let wanted = readable
        .chain(sockets)
        .map(|path| (path, read_only))
        .chain(files.allow_write.iter().map(|path| (path, writable)));
    for (path, attributes) in wanted {
        // The file systems of the whole machine, such as `/proc`, have no other owners: the run reads
        // of them what `nobody` may.
        let content = match owners.filter(|_| path != Path::new("/")) {
            None => copy_tree(path, attributes)?,
            Some(_) => copy_tree(path, MountAttributes { owners, ..attributes })
                .map_err(|error| error.within("owners"))?,
        };
        trees.push(DetachedTree { path: path.clone(), content });
    }
    for path in DEVICES {
        trees.push(DetachedTree { path: path.into(), content: copy_tree(path.as_ref(), device)? });
    }
    // A directory is attached before those in it.
    trees.sort_by_key(|tree| tree.path.components().count());
    Ok(trees)
}

fn copy_tree(path: &Path, attributes: MountAttributes<'_>) -> Result<TreeContent, SetupError> {
    let name = path.display().to_string();
    let place = open_path(path).at(&name)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(&place, c"", flags).at(&name)?;
    set_mount_attributes(Some(tree.as_fd()), c"", attributes).at(&name)?;
    let kind = rustix::fs::fstat(&place).at(&name)?.st_mode;
    Ok(match rustix::fs::FileType::from_raw_mode(kind) {
        rustix::fs::FileType::Directory => TreeContent::Directory(tree),
        _ => TreeContent::File(tree),
    })
}

/// Makes all mounts of this namespace private, so that no change reaches the host.
pub(super) fn make_private() -> Result<(), SetupError> {
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE).at("private")
}

/// Builds the new root out of the trees and enters it.
pub(super) fn enter_new_root(
    request: &LaunchRequest,
    trees: Vec<DetachedTree>,
    user: u32,
    group: u32,
) -> Result<(), SetupError> {
    let root = Path::new(NEW_ROOT);
    mount_memory(root, c"mode=755,size=1m")?;
    let mut trees = trees.into_iter().peekable();
    // The view of the complete machine: its mount points exist already.
    let whole = trees.next_if(|tree| tree.path == Path::new("/"));
    if let Some(TreeContent::Directory(tree)) = whole.as_ref().map(|tree| &tree.content) {
        attach(tree, root)?;
    } else {
        for directory in ["tmp", "proc", "dev/shm", "etc"] {
            fs::create_dir_all(root.join(directory)).at(directory)?;
        }
    }
    let size = request.limits.temporary_mib;
    let options = format!("mode=1777,size={size}m,nr_inodes=20000");
    mount_memory(&root.join("tmp"), &CString::new(options).at("tmp")?)?;
    let options = format!("mode=1777,size={SHARED_MEMORY_MIB}m");
    mount_memory(&root.join("dev/shm"), &CString::new(options).at("shm")?)?;
    let runtime = hidden_runtime_directories(request);
    let is_inner = |tree: &DetachedTree| {
        request.policy.filesystem.is_inside_denied(&tree.path)
            || runtime.iter().any(|hidden| tree.path.starts_with(hidden))
    };
    let (inner, outer): (Vec<_>, Vec<_>) = trees.partition(is_inner);
    for tree in outer {
        attach_tree(root, &tree)?;
    }
    if whole.is_none() {
        write_system_files(root, user, group)?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", root.join("proc"), "proc", flags, None).at("proc")?;
    cover_unreadable_paths(request, root, inner, &runtime)?;
    cover_read_only_paths(request, root)?;
    cover_sockets(request, root)?;
    let read_only = MountAttributes { read_only: true, ..MountAttributes::default() };
    set_mount_attributes(None, &to_c_string(root)?, read_only).at("read-only root")?;
    chdir(root).at("root")?;
    // The old root is on top of the new one until it is detached.
    pivot_root(".", ".").at("pivot_root")?;
    unmount(".", UnmountFlags::DETACH).at("old root")?;
    chdir("/").at("root")
}

fn attach_tree(root: &Path, tree: &DetachedTree) -> Result<(), SetupError> {
    let name = tree.path.display().to_string();
    let target = below(root, &tree.path);
    let exists = target.symlink_metadata().is_ok();
    if let (Some(parent), false) = (target.parent(), exists) {
        fs::create_dir_all(parent).at(&name)?;
    }
    match &tree.content {
        TreeContent::Link(to) if !exists => symlink(to, &target).at(&name),
        TreeContent::Link(_) => Ok(()),
        TreeContent::Directory(mounted) => {
            if !exists {
                fs::create_dir(&target).at(&name)?;
            }
            attach(mounted, &target)
        }
        TreeContent::File(mounted) => {
            if !exists {
                fs::write(&target, "").at(&name)?;
            }
            attach(mounted, &target)
        }
    }
}

/// Writes the files of `/etc` and `/dev` that programs expect.
fn write_system_files(root: &Path, user: u32, group: u32) -> Result<(), SetupError> {
    for (name, text) in [
        ("passwd", format!("sandbox:x:{user}:{group}::/tmp:/bin/sh\n")),
        ("group", format!("sandbox:x:{group}:\n")),
        ("hosts", "127.0.0.1 localhost\n::1 localhost\n".to_owned()),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n".to_owned()),
    ] {
        fs::write(root.join("etc").join(name), text).at(name)?;
    }
    let links = [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ];
    for (name, to) in links {
        symlink(to, root.join("dev").join(name)).at(name)?;
    }
    Ok(())
}

/// Hides unreadable paths in what is attached, and attaches the trees that lie inside of them.
fn cover_unreadable_paths(
    request: &LaunchRequest,
    root: &Path,
    inner: Vec<DetachedTree>,
    runtime: &[PathBuf],
) -> Result<(), SetupError> {
    let read_only = MountAttributes { read_only: true, ..MountAttributes::default() };
    let mut covers = Vec::new();
    let reached: Vec<PathBuf> = inner.iter().map(|tree| tree.path.clone()).collect();
    let mut inner = inner.into_iter().peekable();
    let mut denied: Vec<_> = request.policy.filesystem.deny_read.iter().chain(runtime).collect();
    // A directory is covered before the paths in it, and these before the trees in them.
    denied.sort_by_key(|path| path.components().count());
    for path in denied {
        let depth = path.components().count();
        while let Some(tree) = inner.next_if(|tree| tree.path.components().count() < depth) {
            attach_tree(root, &tree)?;
        }
        let target = below(root, path);
        // A link is not followed: its target is visible only if the policy allows it.
        let meta = target.symlink_metadata().ok().filter(|meta| !meta.is_symlink());
        match meta {
            Some(meta) if meta.is_dir() => {
                // Nothing in it can be listed; what it contains can be reached by its name.
                let mode = match reached.iter().any(|inner| inner.starts_with(path)) {
                    _ if runtime.contains(path) => c"mode=755,size=4k",
                    true => c"mode=111,size=4k",
                    false => c"mode=0,size=4k",
                };
                mount_memory(&target, mode)?;
                covers.push((path, target));
            }
            Some(_) => cover(Path::new("/dev/null"), &target)?,
            None => {}
        }
    }
    for tree in inner {
        attach_tree(root, &tree)?;
    }
    for (path, target) in covers {
        let name = path.display().to_string();
        set_mount_attributes(None, &to_c_string(&target)?, read_only).at(&name)?;
    }
    Ok(())
}

/// Makes paths read-only in what is attached.
fn cover_read_only_paths(request: &LaunchRequest, root: &Path) -> Result<(), SetupError> {
    for path in request.policy.filesystem.deny_write.iter().chain(&request.protected) {
        let target = below(root, path);
        if target.symlink_metadata().is_ok_and(|meta| !meta.is_symlink()) {
            cover(&target, &target)?;
        }
    }
    Ok(())
}

/// Hides the sockets of other programs.
fn cover_sockets(request: &LaunchRequest, root: &Path) -> Result<(), SetupError> {
    if request.sockets.len() > MAX_SOCKETS {
        let message = format!("more than {MAX_SOCKETS} sockets are in allowed directories");
        return Err(SetupError::new(RefusalKind::Isolation, "sockets", message));
    }
    for path in &request.sockets {
        let target = below(root, path);
        // Inside of a hidden directory it does not exist.
        if target.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket()) {
            cover(Path::new("/dev/null"), &target)?;
        }
    }
    Ok(())
}

/// Attaches a read-only copy of a path at a path.
fn cover(source: &Path, target: &Path) -> Result<(), SetupError> {
    let read_only =
        MountAttributes { read_only: true, no_set_id: true, no_devices: true, owners: None };
    match copy_tree(source, read_only)? {
        TreeContent::Directory(tree) | TreeContent::File(tree) => attach(&tree, target),
        TreeContent::Link(_) => Ok(()),
    }
}

fn attach(tree: &OwnedFd, target: &Path) -> Result<(), SetupError> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, c"", CWD, target, flags).at(&target.display().to_string())
}

fn mount_memory(target: &Path, options: &std::ffi::CStr) -> Result<(), SetupError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", target, "tmpfs", flags, options).at(&target.display().to_string())
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn to_c_string(path: &Path) -> Result<CString, SetupError> {
    CString::new(path.as_os_str().as_bytes()).at("path")
}
