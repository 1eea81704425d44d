//! Finds, checks and opens an extension's library. No other file calls dlopen.
//!
//! Every step uses a private copy with a unique name: a write to a mapped file would crash the
//! process, and a second open of the same path would return the loaded library. Opened libraries
//! are never unloaded, because vtables, thread-locals and tracing callsites point into them.
#![expect(unsafe_code, reason = "opening a library runs its code; that is this file's purpose")]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use abi_stable::library::{AbiHeader, AbiHeaderRef, LibraryError};
use skillhost_contract::abi::ExtensionModuleRef;
use skillhost_contract::version::{CONTRACT, ContractVersion, ROOT_SYMBOL, VERSION_SYMBOL};
use skillhost_control::LoadTimings;
use skillhost_files::{hash_file, to_hex};
use skillhost_home::library_file_name;
use skillhost_manifest::{ExtensionId, Manifest};
use skillhost_payload::BuildInfo;

use crate::elf::{self, ElfError};

/// The reason why a library was not opened.
#[derive(Debug, thiserror::Error)]
pub enum LibraryLoadError {
    /// No searched directory contains a file of the name.
    #[error(
        "library `{name}` not found in the manifest's directory, the executable's directory or lib/skillhost"
    )]
    Missing {
        /// The file name.
        name: String,
        /// The searched directories, in order.
        searched: Vec<PathBuf>,
    },
    /// The directory of an extension in the sandbox contains no file of the name.
    #[error("library `{name}` not found in the manifest's directory")]
    MissingBeside {
        /// The file name.
        name: String,
        /// The directory.
        dir: PathBuf,
    },
    /// The only library of the name ships under another id.
    #[error("the library `{name}` of the installation is that of the extension `{owner}`")]
    OtherId {
        /// The file name.
        name: String,
        /// The id under which it ships.
        owner: String,
        /// The directory of the manifest.
        dir: PathBuf,
    },
    /// The file could not be read or copied.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The headers show that the file cannot be loaded.
    #[error("{}: {problem}", path.display())]
    Elf {
        /// The file.
        path: PathBuf,
        /// The reason.
        problem: ElfError,
    },
    /// The manifest pins another file.
    #[error("{}: its sha256 is {actual}, the manifest pins {expected}", path.display())]
    WrongDigest {
        /// The file.
        path: PathBuf,
        /// The sha256 in the manifest.
        expected: String,
        /// The sha256 of the file.
        actual: String,
    },
    /// The system's loader rejected the file.
    #[error("{}: {reason}", path.display())]
    Dlopen {
        /// The file.
        path: PathBuf,
        /// The loader's message.
        reason: String,
    },
    /// The library does not export the contract's symbols.
    #[error("{}: not a skillhost extension (it exports no `{symbol}`)", path.display())]
    NotAnExtension {
        /// The file.
        path: PathBuf,
        /// The missing symbol.
        symbol: &'static str,
    },
    /// The library uses a contract that this kernel does not support.
    #[error("{}: built for contract {built}, this kernel speaks {CONTRACT}", path.display())]
    WrongContract {
        /// The file.
        path: PathBuf,
        /// The library's contract.
        built: ContractVersion,
    },
    /// The layouts differ although the versions agree.
    #[error("{}: its layout differs from the contract: {reason}", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
        /// The error lines of the layout check.
        reason: String,
    },
}

impl LibraryLoadError {
    /// Returns a hint.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Missing { searched, .. } => {
                let places: Vec<_> =
                    searched.iter().map(|path| path.display().to_string()).collect();
                format!("build it, or copy it to one of: {}", places.join(", "))
            }
            Self::MissingBeside { dir, .. } => {
                format!("build it, or copy it to {}, then approve it", dir.display())
            }
            Self::OtherId { dir, .. } => {
                format!("put a library of the extension's own into {}", dir.display())
            }
            Self::Io { .. } => "check that the file exists and may be read".to_owned(),
            Self::Elf { .. } => "copy or build the library again".to_owned(),
            Self::WrongDigest { .. } => {
                "if the new file is the one you want, put its sha256 into the manifest".to_owned()
            }
            Self::Dlopen { .. } => {
                "build it on this system, or install the libraries it names".to_owned()
            }
            Self::NotAnExtension { .. } => {
                "export a type with skillhost_sdk::export_extension!".to_owned()
            }
            Self::WrongContract { .. } | Self::Layout { .. } => {
                format!("rebuild it with the skillhost-sdk of this kernel (contract {CONTRACT})")
            }
        }
    }

    /// Returns whether no code of the library has run before the error.
    pub(crate) fn is_before_open(&self) -> bool {
        matches!(
            self,
            Self::Missing { .. }
                | Self::MissingBeside { .. }
                | Self::OtherId { .. }
                | Self::Io { .. }
                | Self::Elf { .. }
                | Self::WrongDigest { .. }
        )
    }
}

/// An extension whose code is part of the program.
#[derive(Debug, Clone, Copy)]
pub struct BundledExtension {
    /// The base name of the library that it replaces.
    pub entrypoint: &'static str,
    /// Returns its root module.
    pub module: fn() -> ExtensionModuleRef,
}

/// An opened library whose layout was checked, or a bundled extension, which has the kernel's own.
pub(crate) struct LibraryModule {
    pub(crate) root: ExtensionModuleRef,
    pub(crate) build: BuildInfo,
    pub(crate) timings: LoadTimings,
}

impl LibraryModule {
    /// Returns the module of a root whose layout is the kernel's; errors name the file `path`.
    fn from_root(
        root: ExtensionModuleRef,
        path: &Path,
        timings: LoadTimings,
    ) -> Result<Self, LibraryLoadError> {
        let build = serde_json::from_str(&(root.build_info())()).map_err(|error| {
            LibraryLoadError::Layout { path: path.to_owned(), reason: error.to_string() }
        })?;
        Ok(Self { root, build, timings })
    }

    /// Returns the module of a bundled extension.
    pub(crate) fn from_bundled(
        bundled: BundledExtension,
        program: &Path,
    ) -> Result<Self, LibraryLoadError> {
        Self::from_root((bundled.module)(), program, LoadTimings::default())
    }
}

/// Returns whether a library is used only under the id that it ships with.
fn is_shipped_id(id: &ExtensionId, entrypoint: &str) -> bool {
    id.as_str().replace('-', "_") == entrypoint.replace('-', "_")
}

/// Finds the library of an operator's manifest: in its directory, in its crate's build directory;
/// and under the id that the library ships with, in the executable's directory or in the installed
/// library directory.
///
/// # Errors
/// [`LibraryLoadError::Missing`] with the searched directories, [`LibraryLoadError::OtherId`].
pub(crate) fn find_library(
    id: &ExtensionId,
    entrypoint: &str,
    manifest_dir: &Path,
) -> Result<PathBuf, LibraryLoadError> {
    let name = library_file_name(entrypoint);
    let mut searched = vec![manifest_dir.to_owned(), manifest_dir.join("target/release")];
    let is_there = |dir: &PathBuf| dir.join(&name).is_file();
    if let Some(dir) = searched.iter().find(|dir| is_there(dir)) {
        return Ok(dir.join(name));
    }
    let own = searched.len();
    let executable = std::env::current_exe().and_then(fs::canonicalize).ok();
    if let Some(dir) = executable.as_deref().and_then(Path::parent) {
        searched.push(dir.to_owned());
        // Test programs of a workspace are one level below the libraries.
        if dir.ends_with("deps") {
            searched.extend(dir.parent().map(Path::to_owned));
        }
        searched.extend(dir.parent().map(|prefix| prefix.join("lib/skillhost")));
    }
    match searched[own..].iter().find(|dir| is_there(dir)) {
        // Every shipped library is named after its id.
        Some(dir) if is_shipped_id(id, entrypoint) => Ok(dir.join(name)),
        Some(_) => {
            let (owner, dir) = (entrypoint.to_owned(), manifest_dir.to_owned());
            Err(LibraryLoadError::OtherId { name, owner, dir })
        }
        None => Err(LibraryLoadError::Missing { name, searched }),
    }
}

/// Finds the bundled extension of an operator's manifest. One that pins the digest of a library has
/// none: the program has no such file.
pub(crate) fn find_bundled(
    bundled: &[BundledExtension],
    manifest: &Manifest,
    entrypoint: &str,
) -> Option<BundledExtension> {
    let is_usable = manifest.sha256.is_none() && is_shipped_id(&manifest.id, entrypoint);
    bundled.iter().find(|one| is_usable && one.entrypoint == entrypoint).copied()
}

/// Finds a build in a crate's own `target` that is newer than the library that [`find_library`]
/// selects in the crate's directory. Returns that library and the newer build.
pub(crate) fn newer_build(entrypoint: &str, dir: &Path) -> Option<(PathBuf, PathBuf)> {
    let name = library_file_name(entrypoint);
    let modified = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
    let places = ["", "target/release", "target/debug"].map(|place| dir.join(place).join(&name));
    // Only the places that a load considers; `target/debug` is never loaded.
    let current = places[..2].iter().find(|path| path.is_file())?;
    let since = modified(current)?;
    let newer = places.iter().find(|path| modified(path).is_some_and(|time| time > since))?;
    Some((current.clone(), newer.clone()))
}

/// Finds the library of an extension that is used from a directory of its own, and only there.
///
/// # Errors
/// [`LibraryLoadError::MissingBeside`] with `shown`, the directory that people know.
pub(crate) fn find_own_library(
    entrypoint: &str,
    dir: &Path,
    shown: &Path,
) -> Result<PathBuf, LibraryLoadError> {
    let name = library_file_name(entrypoint);
    match dir.join(&name) {
        path if path.is_file() => Ok(path),
        _ => Err(LibraryLoadError::MissingBeside { name, dir: shown.to_owned() }),
    }
}

/// Opens a private copy of a library in `copies`; errors name the file `path`.
///
/// # Errors
/// [`LibraryLoadError`]; each is detected before the library's own code is trusted.
pub(crate) fn open_library(
    library: &Path,
    path: &Path,
    copies: &Path,
    pin: Option<&[u8; 32]>,
) -> Result<LibraryModule, LibraryLoadError> {
    let failed = |source| LibraryLoadError::Io { path: path.to_owned(), source };
    let source = fs::canonicalize(library).map_err(failed)?;
    let mut timings = LoadTimings::default();
    let mut clock = Instant::now();
    let copy = PrivateCopy::copy_from(&source, copies).map_err(failed)?;
    timings.copy_us = elapsed_micros(&mut clock);
    let mut file = File::open(&copy.path).map_err(failed)?;
    // The check is for ELF files; other systems use other formats.
    if cfg!(target_os = "linux") {
        elf::check_elf_bounds(&mut file)
            .map_err(|problem| LibraryLoadError::Elf { path: path.to_owned(), problem })?;
        timings.elf_us = elapsed_micros(&mut clock);
    }
    if let Some(expected) = pin {
        let actual = hash_file(&mut file).map_err(failed)?;
        if actual != *expected {
            return Err(LibraryLoadError::WrongDigest {
                path: path.to_owned(),
                expected: to_hex(expected),
                actual: to_hex(&actual),
            });
        }
        timings.sha256_us = elapsed_micros(&mut clock);
    }
    let root = open_checked(&copy.path, path)?;
    let module = LibraryModule::from_root(root, path, timings)?;
    timings.open_us = elapsed_micros(&mut clock);
    Ok(LibraryModule { timings, ..module })
}

/// Opens a copy with dlopen, then checks its version and its layout.
fn open_checked(copy: &Path, path: &Path) -> Result<ExtensionModuleRef, LibraryLoadError> {
    // SAFETY: runs the library's constructors. A native extension is trusted code; its file was
    // checked for completeness before.
    let library = unsafe { libloading::Library::new(copy) }.map_err(|error| {
        // libloading's own text is just "dlopen failed"; its source is the system's text.
        let reason = std::error::Error::source(&error).unwrap_or(&error).to_string();
        let reason = reason.replace(&copy.display().to_string(), "the library");
        LibraryLoadError::Dlopen { path: path.to_owned(), reason }
    })?;
    // Never unloaded: see the module documentation.
    let library = std::mem::ManuallyDrop::new(library);
    let missing = |symbol| LibraryLoadError::NotAnExtension { path: path.to_owned(), symbol };

    // SAFETY: the contract defines this symbol as a `u32`.
    let version = unsafe { library.get::<*const u32>(VERSION_SYMBOL.as_bytes()) }
        .map_err(|_| missing(VERSION_SYMBOL))?;
    // SAFETY: a symbol's address in a mapped library, aligned by its linker.
    let built = ContractVersion::unpack(unsafe { version.read() });
    if !built.is_loadable_by(CONTRACT) {
        return Err(LibraryLoadError::WrongContract { path: path.to_owned(), built });
    }
    // SAFETY: the contract defines this symbol as an abi_stable library header, which is checked by
    // a magic string before its other fields are used.
    let header = unsafe { library.get::<AbiHeaderRef>(ROOT_SYMBOL.as_bytes()) }
        .map_err(|_| missing(ROOT_SYMBOL))?;
    let layout = |error: LibraryError| LibraryLoadError::Layout {
        path: path.to_owned(),
        reason: summarize_layout_error(&error),
    };
    header.upgrade().map_err(layout)?.init_root_module::<ExtensionModuleRef>().map_err(layout)
}

/// Summarizes the differences of a layout report, which contains both type trees in full.
fn summarize_layout_error(error: &LibraryError) -> String {
    let full = error.to_string();
    match error {
        LibraryError::AbiInstability(_) => {}
        // The text of this error contains both headers byte by byte.
        LibraryError::InvalidAbiHeader(header) => {
            let AbiHeader { abi_major, abi_minor, .. } = *header;
            return match header.magic_string == AbiHeader::VALUE.magic_string {
                true => format!("it was built with abi_stable {abi_major}.{abi_minor}"),
                false => "its root is not a library header".to_owned(),
            };
        }
        _ => return full.split_whitespace().collect::<Vec<_>>().join(" "),
    }
    let found = layout_differences(&full);
    if found.is_empty() { full.chars().take(400).collect() } else { found.join("; ") }
}

/// Returns the first differences of a layout report, without duplicates: location, kind, both
/// sides.
fn layout_differences(report: &str) -> Vec<String> {
    const LIMIT: usize = 4;
    let mut place = "the root";
    let mut found = Vec::new();
    let mut lines = report.lines().map(str::trim).filter(|line| !line.is_empty());
    while let Some(line) = lines.next() {
        if line == "Layout of expected type:" {
            place = lines.find_map(|line| line.strip_prefix("type:")).unwrap_or(place);
        } else if let Some(what) = line.strip_prefix("Error:") {
            let mut side = |title: &str| {
                let text = lines.by_ref().skip_while(|line| *line != title).nth(1);
                text.map_or("nothing", |text| text.strip_prefix("field_name:").unwrap_or(text))
            };
            let (expected, actual) = (side("Expected:"), side("Found:"));
            let text = format!("{place}: {what} (expected {expected}, found {actual})");
            if !found.contains(&text) {
                found.push(text);
            }
        }
    }
    found.truncate(LIMIT);
    found
}

/// A copy of a library under a unique name, removed from the directory when dropped. A mapped
/// library remains usable without its name.
struct PrivateCopy {
    path: PathBuf,
}

impl PrivateCopy {
    fn copy_from(source: &Path, dir: &Path) -> io::Result<Self> {
        // A home that is not writable, or full, is still usable: the copy is then created in the
        // system's directory. An error of the source occurs there as well.
        Self::create(source, dir).or_else(|_| Self::create(source, &std::env::temp_dir()))
    }

    fn create(source: &Path, dir: &Path) -> io::Result<Self> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        // An existing file of another process must not be reused.
        let mut from = File::open(source)?;
        fs::create_dir_all(dir)?;
        let nanos = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or(Duration::ZERO)
            .subsec_nanos();
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        let path = dir.join(format!(
            ".{stem}-{}-{number}-{nanos:08x}{}",
            std::process::id(),
            std::env::consts::DLL_SUFFIX
        ));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // Other users must neither read nor replace the copy.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o700);
        let mut to = options.open(&path)?;
        let copy = Self { path };
        io::copy(&mut from, &mut to)?;
        Ok(copy)
    }
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        // A failure has no remedy here, and the unique name prevents a conflict.
        let _ = fs::remove_file(&self.path);
    }
}

fn elapsed_micros(clock: &mut Instant) -> u64 {
    let elapsed = clock.elapsed();
    *clock = Instant::now();
    u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::layout_differences;

    #[test]
    fn layout_report_keeps_only_differences() {
        let error = "Error:unexpected field\nExpected:\n    field_name:one\n    type:u32\n\
                     Found:\n    field_name:two\n    type:u32\n\n";
        let size = "Error:incompatible type size\nExpected:\n    16\nFound:\n    24\n";
        let inner = "Layout of expected type:\n    --- Type Layout ---\n    type:Inner\n";
        let report = format!("Compared <this>:\n  type:Root\n\n{size}{inner}{error}{error}");
        assert_eq!(
            layout_differences(&report),
            [
                "the root: incompatible type size (expected 16, found 24)",
                "Inner: unexpected field (expected one, found two)",
            ]
        );
        assert_eq!(layout_differences("no report"), Vec::<String>::new());
    }
}
