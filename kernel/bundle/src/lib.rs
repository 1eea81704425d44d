//! The shipped extensions and the files of an installation, as parts of the program.
//!
//! With the feature `contents` the program works alone: [`EXTENSIONS`] are the extensions that need
//! no library, and [`find_installation`] unpacks the files that are not next to the program. Where an
//! installation is, its libraries and files are used, as by a program without the feature.

#[cfg(feature = "contents")]
mod unpacked_files;

use skillhost_core::BundledExtension;
#[cfg(feature = "contents")]
use skillhost_home::FilesCheck;
use skillhost_home::{Environment, Installation, InstallationSearch};

/// The extensions whose code is part of the program.
#[cfg(feature = "contents")]
pub const EXTENSIONS: &[BundledExtension] = &[
    BundledExtension { entrypoint: "core_tools", module: bundled_core_tools::extension_module },
    BundledExtension { entrypoint: "echo", module: bundled_echo::extension_module },
    BundledExtension { entrypoint: "embedding", module: bundled_embedding::extension_module },
    BundledExtension {
        entrypoint: "skill_registry",
        module: bundled_skill_registry::extension_module,
    },
    BundledExtension { entrypoint: "telegram", module: bundled_telegram::extension_module },
    BundledExtension { entrypoint: "web_search", module: bundled_web_search::extension_module },
    BundledExtension { entrypoint: "webhook", module: bundled_webhook::extension_module },
];

/// The extensions whose code is part of the program: none.
#[cfg(not(feature = "contents"))]
pub const EXTENSIONS: &[BundledExtension] = &[];

/// The version of the program, and the bundled extensions.
#[cfg(feature = "contents")]
pub const VERSION_TEXT: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\nbundled: core_tools, echo, embedding, skill_registry, telegram, web_search, webhook"
);

/// The version of the program.
#[cfg(not(feature = "contents"))]
pub const VERSION_TEXT: &str = env!("CARGO_PKG_VERSION");

/// Finds the files that belong to the program: next to it, or else those that it contains, unpacked
/// to the user's cache. Files that differ from the program's are replaced.
#[must_use]
pub fn find_installation(environment: &Environment) -> InstallationSearch {
    match Installation::from_current_exe() {
        Some(found) => {
            InstallationSearch { installation: Some(found), ..InstallationSearch::default() }
        }
        None => find_unpacked(environment),
    }
}

#[cfg(not(feature = "contents"))]
fn find_unpacked(_: &Environment) -> InstallationSearch {
    InstallationSearch::default()
}

#[cfg(feature = "contents")]
fn find_unpacked(environment: &Environment) -> InstallationSearch {
    let unpacked = environment
        .cache_dir()
        .ok_or(unpacked_files::UnpackError::NoCache)
        .and_then(|cache| unpacked_files::unpack(&cache));
    match unpacked {
        Ok(unpacked) => {
            let note = unpacked.was_changed.then(|| {
                format!(
                    "the files of the program in {} had been changed; they are restored",
                    unpacked.dir.display()
                )
            });
            let check = Some(FilesCheck(unpacked_files::has_own_manifests));
            let installation = Installation { check, ..Installation::from_share_dir(unpacked.dir) };
            InstallationSearch { installation: Some(installation), failure: None, note }
        }
        Err(error) => {
            let reason = format!("the files of the program are not available: {error}");
            let hint = "name a directory that you can write to: XDG_CACHE_HOME=DIR".to_owned();
            InstallationSearch { failure: Some((reason, hint)), ..InstallationSearch::default() }
        }
    }
}

/// Expands a log filter: directives for the target `extension`, which the events of libraries have,
/// apply to bundled extensions as well. Their events occur in a span of that name.
#[must_use]
pub fn expand_log_filter(filter: &str) -> String {
    let mut expanded = filter.to_owned();
    if !EXTENSIONS.is_empty() {
        let levels = filter.split(',').filter_map(|one| one.trim().strip_prefix("extension="));
        for level in levels {
            expanded.push_str(",[extension]=");
            expanded.push_str(level);
        }
    }
    expanded
}

#[cfg(all(test, feature = "contents"))]
mod tests {
    use super::*;

    #[test]
    fn version_names_bundled_extensions() {
        let ids: Vec<_> = EXTENSIONS.iter().map(|one| one.entrypoint).collect();
        let expected = format!("{}\nbundled: {}", env!("CARGO_PKG_VERSION"), ids.join(", "));
        assert_eq!(VERSION_TEXT, expected);
    }

    #[test]
    fn modules_describe_their_own_builds() {
        for bundled in EXTENSIONS {
            let build = ((bundled.module)().build_info())();
            let package = format!("bundled-{}", bundled.entrypoint.replace('_', "-"));
            // The package of `web_search` is named after its directory.
            let package = package.replace("web-search", "web");
            assert!(build.contains(&format!("\"package\":\"{package}\"")), "{build}");
        }
    }

    #[test]
    fn extension_directives_cover_bundled_extensions() {
        assert_eq!(expand_log_filter("warn"), "warn");
        let filter = "warn,extension=debug";
        assert_eq!(expand_log_filter(filter), "warn,extension=debug,[extension]=debug");
        assert_eq!(expand_log_filter("extensions=debug"), "extensions=debug");
    }
}
