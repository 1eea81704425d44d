//! The names of files that are not part of a skill: the temporary files of this program and of
//! editors.
//!
//! Every writer of this program names its temporary files `.skillhost-tmp-<token>-<rest>`. The
//! token is the id of the process, or the id of an intent of the ledger. No scan, listing, version,
//! digest or export includes them, so a killed writer changes no skill; the next writer in the
//! directory removes its files.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

/// The start of the name of every temporary file and directory of this program.
pub const TEMPORARY_PREFIX: &str = ".skillhost-tmp-";

/// A temporary file that is younger may belong to a process that another machine or container runs.
const MIN_AGE: Duration = Duration::from_secs(60);

/// A temporary file that is older belongs to no write: its process id was given to another process.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// The number of entries of a directory that one sweep looks at.
const MAX_SWEPT: usize = 10_000;

/// The writer of a temporary file, parsed from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TemporaryOwner {
    /// A process.
    Process(u32),
    /// An intent of the ledger, which alone may remove the file.
    Ledger,
}

/// Returns a name for a temporary file of this process.
#[must_use]
pub fn temporary_name(rest: &str) -> String {
    format!("{TEMPORARY_PREFIX}{}-{rest}", std::process::id())
}

/// Returns a name for a temporary file that no other write of this or another process uses.
#[must_use]
pub fn unique_temporary_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // Only uniqueness matters, so no ordering is required.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    temporary_name(&number.to_string())
}

/// Returns whether a name is that of a temporary file or directory of this program.
#[must_use]
pub fn is_temporary(name: &str) -> bool {
    name.starts_with(TEMPORARY_PREFIX) || former_owner(name).is_some()
}

/// Returns whether a file of this name in a skill's directory is not part of the skill: a temporary
/// file of this program or of an editor.
pub fn is_leftover(name: &str) -> bool {
    is_temporary(name) || is_of_editor(name)
}

/// Returns whether a path below a skill's directory is not part of the skill.
pub fn is_leftover_path(path: &str) -> bool {
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    is_leftover(name) || above.split('/').any(is_temporary)
}

/// Returns whether editors use a name for locks, probes, backups or unfinished texts.
fn is_of_editor(name: &str) -> bool {
    let vim_swap = |name: &str| {
        let extension = name.strip_prefix('.').and_then(|rest| rest.rsplit_once('.'));
        extension.is_some_and(|(_, extension)| {
            matches!(extension.as_bytes(), [b's', b'w', b'a'..=b'z']) || extension == "kate-swp"
        })
    };
    name.ends_with('~')
        || name == "4913"
        || vim_swap(name)
        || name.starts_with(".#")
        || name.len() > 2 && name.starts_with('#') && name.ends_with('#')
        || name.starts_with(".~lock.") && name.ends_with('#')
        || name.starts_with(".goutputstream-")
        || name.ends_with("___jb_tmp___")
        || name.ends_with("___jb_old___")
        || name.strip_prefix("sed").is_some_and(is_random)
}

/// Returns whether a text is a `mkstemp` expansion of `XXXXXX`; a word in lower case does not
/// count.
fn is_random(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 6
        && bytes.iter().all(u8::is_ascii_alphanumeric)
        && !bytes.iter().all(u8::is_ascii_lowercase)
}

/// Returns the writer of a temporary file, or `None` for any other file.
fn owner(name: &str) -> Option<TemporaryOwner> {
    let Some(rest) = name.strip_prefix(TEMPORARY_PREFIX) else {
        return former_owner(name).map(TemporaryOwner::Process);
    };
    let (token, _) = rest.split_once('-')?;
    Some(token.parse().map_or(TemporaryOwner::Ledger, TemporaryOwner::Process))
}

/// Returns the process of a temporary file as earlier versions named it: `.SKILL.md.<pid>-<n>.tmp`,
/// `.core-tools-<pid>-<n>.tmp`.
fn former_owner(name: &str) -> Option<u32> {
    let stem = name.strip_prefix('.')?.strip_suffix(".tmp")?;
    let last = stem.rsplit_once('.').map_or(stem, |(_, last)| last);
    let last = last.strip_prefix("core-tools-").unwrap_or(last);
    let (process, number) = last.split_once('-')?;
    number.parse::<u64>().ok()?;
    process.parse().ok()
}

/// Removes the temporary files of killed writers from a directory; returns the number of entries.
///
/// # Errors
/// Those of the disk.
pub fn sweep_directory(path: &Path) -> io::Result<usize> {
    sweep(&Dir::open_ambient_dir(path, ambient_authority())?, false)
}

/// Removes the temporary files of dead processes from a directory; returns the number of entries.
///
/// With `ledger`, files of interrupted changes of the ledger are removed, too; its caller holds the
/// ledger's lock and has recovered every interrupted change.
pub fn sweep(dir: &Dir, ledger: bool) -> io::Result<usize> {
    let mut swept = 0;
    for entry in dir.entries()?.take(MAX_SWEPT) {
        let entry = entry?;
        let name = entry.file_name();
        let Some(owner) = name.to_str().and_then(owner) else { continue };
        let is_over = match owner {
            TemporaryOwner::Ledger => ledger,
            TemporaryOwner::Process(process) => {
                let age = entry.metadata()?.modified()?.into_std().elapsed().unwrap_or_default();
                age >= MAX_AGE || age >= MIN_AGE && !is_running(process)
            }
        };
        if !is_over {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => dir.remove_dir_all(&name)?,
            false => dir.remove_file(&name)?,
        }
        swept += 1;
    }
    Ok(swept)
}

/// Returns whether a process with this id exists.
#[cfg(unix)]
fn is_running(process: u32) -> bool {
    use rustix::process::{Pid, test_kill_process};
    let id = i32::try_from(process).ok().and_then(Pid::from_raw);
    id.is_some_and(|id| test_kill_process(id) != Err(rustix::io::Errno::SRCH))
}

/// Returns whether a process with this id exists; without a way to find out, its files are removed
/// by age.
#[cfg(not(unix))]
fn is_running(_: u32) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn leftover_names_are_recognized() {
        for name in [
            ".skillhost-tmp-01KXYZ0000000000000000000A-0",
            ".skillhost-tmp-4711-0",
            ".SKILL.md.4711-0.tmp",
            ".core-tools-4711-12.tmp",
            "SKILL.md~",
            ".SKILL.md.swp",
            ".SKILL.md.swx",
            ".SKILL.md.kate-swp",
            "4913",
            ".#SKILL.md",
            "#SKILL.md#",
            ".~lock.a.odt#",
            ".goutputstream-ABC123",
            "SKILL.md___jb_tmp___",
            "sedAb3x9Z",
            "sed123456",
        ] {
            assert!(is_leftover(name), "{name}");
        }
    }

    #[test]
    fn resource_names_are_kept() {
        for name in [
            "SKILL.md",
            "sedatives",
            "sed.md",
            "sedAb3x9",
            "4914",
            "a.swp",
            ".gitignore",
            ".env.tmp",
            "report.tmp",
            ".a.tmp",
            "#",
            "#1",
            ".editorconfig",
        ] {
            assert!(!is_leftover(name), "{name}");
        }
    }

    #[test]
    fn owners_are_read_from_names() {
        let process = |id| Some(TemporaryOwner::Process(id));
        assert_eq!(owner(".skillhost-tmp-12-new-pdf"), process(12));
        assert_eq!(owner(".SKILL.md.7-0.tmp"), process(7));
        assert_eq!(owner(".core-tools-8-1.tmp"), process(8));
        let intent = ".skillhost-tmp-01KXYZ0000000000000000000A-0";
        assert_eq!(owner(intent), Some(TemporaryOwner::Ledger));
        assert_eq!(owner("SKILL.md~"), None);
    }

    fn aged(dir: &Path, name: &str, age: Duration) {
        fs::write(dir.join(name), "half").unwrap();
        let file = fs::File::options().write(true).open(dir.join(name)).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn sweep_spares_living_writers() {
        let temp = tempfile::tempdir().unwrap();
        let own = std::process::id();
        let (recent, old) = (Duration::from_secs(120), Duration::from_secs(7_200));
        // No system assigns this id to a process.
        for (name, age) in [
            (".skillhost-tmp-2147483646-0", recent),
            (".SKILL.md.2147483646-0.tmp", recent),
            (".skillhost-tmp-2147483646-1", Duration::ZERO),
            (&*format!(".skillhost-tmp-{own}-0"), recent),
            (&*format!(".skillhost-tmp-{own}-1"), old),
            (".skillhost-tmp-01KXYZ0000000000000000000A-0", old),
            ("notes~", old),
        ] {
            aged(temp.path(), name, age);
        }
        let dir = Dir::open_ambient_dir(temp.path(), ambient_authority()).unwrap();
        let names = || {
            let entries = fs::read_dir(temp.path()).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        assert_eq!(sweep(&dir, false).unwrap(), 3);
        let intent = ".skillhost-tmp-01KXYZ0000000000000000000A-0";
        let (young, living) = (".skillhost-tmp-2147483646-1", format!(".skillhost-tmp-{own}-0"));
        let mut left = vec![intent, young, &living, "notes~"];
        left.sort_unstable();
        assert_eq!(names(), left);
        assert_eq!(sweep(&dir, true).unwrap(), 1);
        assert!(!names().contains(&intent.to_owned()));
    }
}
