//! The removal of the temporary entries that killed writers left next to written files.

use std::io;
use std::time::Duration;

use cap_std::fs::Dir;
use skillhost_files::temporary::TEMPORARY_PREFIX;

/// An older entry belongs to a writer that was killed.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// The number of entries of a directory that one sweep looks at.
const MAX_SWEPT: usize = 10_000;

/// Removes the temporary entries that killed writers left in a directory.
pub(crate) fn sweep(dir: &Dir) -> io::Result<()> {
    for entry in dir.entries()?.take(MAX_SWEPT) {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_str().is_some_and(is_of_process) {
            continue;
        }
        let age = entry.metadata()?.modified()?.into_std().elapsed().unwrap_or_default();
        if age < MAX_AGE {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => dir.remove_dir_all(&name)?,
            false => dir.remove_file(&name)?,
        }
    }
    Ok(())
}

/// Returns whether a tool of this or an earlier version gives an entry such a name. Those of the skill
/// registry's ledger have another form and are removed by the ledger.
fn is_of_process(name: &str) -> bool {
    if name.starts_with(".core-tools-") {
        return name.ends_with(".tmp");
    }
    let token = name.strip_prefix(TEMPORARY_PREFIX).and_then(|rest| rest.split_once('-'));
    token.is_some_and(|(process, _)| process.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::SystemTime;

    use cap_std::ambient_authority;
    use skillhost_files::temporary::unique_temporary_name;

    use super::*;

    #[test]
    fn sweep_removes_old_entries_only() {
        let temp = tempfile::tempdir().unwrap();
        let (young, old) = (unique_temporary_name(), unique_temporary_name());
        let ledger = ".skillhost-tmp-01KXYZ0000000000000000000A-0";
        for name in [&*young, &*old, ".core-tools-7-0.tmp", ledger, "a.tmp"] {
            fs::write(temp.path().join(name), "half").unwrap();
        }
        for name in [&*old, ".core-tools-7-0.tmp", ledger, "a.tmp"] {
            let file = fs::File::options().write(true).open(temp.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - 2 * MAX_AGE).unwrap();
        }
        sweep(&Dir::open_ambient_dir(temp.path(), ambient_authority()).unwrap()).unwrap();
        let mut left: Vec<String> = fs::read_dir(temp.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut kept = vec![ledger.to_owned(), young, "a.tmp".to_owned()];
        kept.sort();
        assert_eq!(left, kept);
    }
}
