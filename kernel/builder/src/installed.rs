//! The files of an extension after an installation.

use skillhost_files::TreeFile;

use skillhost_home::library_file_name;

/// Returns the files after the installation, with the pinned manifest and the library.
pub(crate) fn installed_files(
    files: &[TreeFile],
    manifest: String,
    library: Option<(&str, &[u8])>,
) -> Vec<TreeFile> {
    let mut files = with_manifest(files, manifest);
    if let Some((entrypoint, bytes)) = library {
        let path = library_file_name(entrypoint);
        files.retain(|file| file.path != path);
        files.push(TreeFile { path, bytes: bytes.to_vec(), executable: false });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Returns the files with another text of the manifest.
pub(crate) fn with_manifest(files: &[TreeFile], text: String) -> Vec<TreeFile> {
    let mut files = files.to_vec();
    if let Some(file) = files.iter_mut().find(|file| file.path == "manifest.yaml") {
        file.bytes = text.into_bytes();
        file.executable = false;
    }
    files
}
