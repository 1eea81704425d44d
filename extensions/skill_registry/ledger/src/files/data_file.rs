//! Files of the data directory.

use std::path::Path;
use std::{fs, io};

use skillhost_files::{fault, sync_directory, sync_file};

/// Writes a file of the data directory atomically.
pub(crate) fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    fs::create_dir_all(dir)?;
    let mut hidden = std::ffi::OsString::from(".tmp-");
    hidden.push(name);
    let temporary = dir.join(hidden);
    // Synced before the rename: after a power loss the name must not refer to an empty file.
    let written = (|| {
        fault::failpoint("text.create")?;
        let mut file = fs::File::create(&temporary)?;
        fault::write_all(&mut file, text.as_bytes())?;
        fault::failpoint("text.sync")?;
        sync_file(&file)?;
        fault::failpoint("text.rename")?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // The first error is returned; a leftover file is swept later.
        let _ = fs::remove_file(&temporary);
        return written;
    }
    fault::failpoint("text.dir")?;
    sync_directory(dir)
}
