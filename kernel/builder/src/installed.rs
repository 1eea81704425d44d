//! The files of an extension after an installation.

use skillhost_kernel::PlannedFile;

use crate::place::library_name;

/// Returns the files after the installation, with the pinned manifest and the library.
pub(crate) fn installed_files(
    files: &[PlannedFile],
    manifest: String,
    library: Option<(&str, &[u8])>,
) -> Vec<PlannedFile> {
    let mut files = with_manifest(files, manifest);
    if let Some((entrypoint, bytes)) = library {
        let path = library_name(entrypoint);
        files.retain(|file| file.path != path);
        files.push(PlannedFile { path, bytes: bytes.to_vec(), executable: false });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Returns the files with another text of the manifest.
pub(crate) fn with_manifest(files: &[PlannedFile], text: String) -> Vec<PlannedFile> {
    let mut files = files.to_vec();
    if let Some(file) = files.iter_mut().find(|file| file.path == "manifest.yaml") {
        file.bytes = text.into_bytes();
        file.executable = false;
    }
    files
}
