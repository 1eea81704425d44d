//! Finds the manifests of a home. Reads only.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use skillhost_files::{LinkPolicy, irregular_kind, read_beginning};
use skillhost_manifest::{ExtensionId, Manifest};
use skillhost_payload::{CallError, ErrorKind, OperatorCommand};

use crate::admission::Admission;
use crate::discovered::DiscoveredManifest;
use crate::home::Home;
use crate::installation::Installation;
use crate::rejection::{LoadPhase, LoadRejection};
use crate::reserved_ids::RESERVED_IDS;

/// The manifests of a home.
#[derive(Debug, Default)]
pub struct DiscoveryResult {
    /// The usable manifests, by id.
    pub manifests: BTreeMap<ExtensionId, DiscoveredManifest>,
    /// The unusable manifests.
    pub rejected: Vec<LoadRejection>,
    /// The manifests in the sandbox that a person has not approved in their current form, by id.
    /// None of their files may be used; each is also among the rejected.
    pub unapproved: BTreeMap<ExtensionId, DiscoveredManifest>,
    /// Notes about shadowed and ignored directories.
    pub notes: Vec<String>,
}

/// The limit of a manifest that is read in full; the parser has the same one.
const MANIFEST_LIMIT: u64 = 256 * 1024;

/// Reads `manifests/*/manifest.yaml` and `sandbox/extensions/*/manifest.yaml` of a home and, for
/// ids found in neither, the shipped ones of an installed copy. A manifest in the sandbox counts if
/// its text was approved; its other files are not read, and no code of it may run.
#[must_use]
pub fn discover_manifests(
    home: &Home,
    installation: Option<&Installation>,
    allow_shadowing: &[String],
) -> DiscoveryResult {
    discover_with(home, installation, allow_shadowing, |admission, found| {
        admission.check_manifest(found).map(|()| found.clone())
    })
}

/// Discovers manifests as [`discover_manifests`] does, for immediate use: an extension in the
/// sandbox counts if all its files are as approved, and has a private copy of them. With `only`,
/// this applies to one extension.
#[must_use]
pub fn discover_admitted(
    home: &Home,
    installation: Option<&Installation>,
    allow_shadowing: &[String],
    only: Option<&ExtensionId>,
) -> DiscoveryResult {
    discover_with(home, installation, allow_shadowing, |admission, found| {
        match only.is_none_or(|only| *only == found.manifest.id) {
            true => admission.admit(home, found),
            false => admission.check_manifest(found).map(|()| found.clone()),
        }
    })
}

/// Finds the extension in `sandbox/extensions/<id>`, approved or not.
///
/// # Errors
/// [`ErrorKind::NotFound`] for a missing extension, [`ErrorKind::Denied`] for an id in use, and the
/// errors of the manifest.
pub fn find_in_sandbox(
    home: &Home,
    installation: Option<&Installation>,
    allow_shadowing: &[String],
    id: &str,
) -> Result<DiscoveredManifest, CallError> {
    let id = ExtensionId::new(id).map_err(|error| {
        CallError::new(ErrorKind::InvalidArgument, error.to_string())
            .with_hint("use an id such as `rss_reader`")
    })?;
    let denied =
        |message: String| CallError::new(ErrorKind::Denied, message).with_hint("choose another id");
    if RESERVED_IDS.contains(&id.as_str()) {
        return Err(denied(format!("the id `{id}` is reserved by the kernel")));
    }
    let mut found = discover_manifests(home, installation, allow_shadowing);
    if let Some(found) = found.unapproved.remove(&id) {
        return Ok(found);
    }
    let place = home.extensions_dir().join(id.as_str()).join("manifest.yaml");
    match found.manifests.remove(&id) {
        Some(owner) if owner.path == place => Ok(owner),
        Some(_) => Err(denied(format!("the id `{id}` is used by a shipped extension"))),
        None => Err(unusable_manifest_error(&id, &place, &found.rejected)),
    }
}

/// Returns the error for an id without a usable manifest at `place`.
fn unusable_manifest_error(
    id: &ExtensionId,
    place: &Path,
    rejected: &[LoadRejection],
) -> CallError {
    let rejected = rejected.iter().find(|it| it.manifest.parent() == place.parent());
    match rejected {
        // The directory has the id, the manifest another one.
        Some(other) if other.manifest == place && other.id != id.as_str() => {
            let message = format!(
                "sandbox/extensions/{id}/manifest.yaml has the id `{}`, and its directory is \
                 named `{id}`",
                other.id
            );
            CallError::new(ErrorKind::Conflict, message).with_hint(other.hint.clone())
        }
        Some(rejected) => CallError::new(ErrorKind::Failed, rejected.reason.clone())
            .with_hint(rejected.hint.clone()),
        None => CallError::new(
            ErrorKind::NotFound,
            format!("sandbox/extensions/{id}/manifest.yaml with `id: {id}` not found"),
        )
        .with_hint("write the manifest and the sources there first"),
    }
}

fn discover_with(
    home: &Home,
    installation: Option<&Installation>,
    allow_shadowing: &[String],
    admit: impl Fn(&Admission, &DiscoveredManifest) -> Result<DiscoveredManifest, LoadRejection>,
) -> DiscoveryResult {
    let mut found = DiscoveryResult::default();
    let untrusted = home.is_untrusted();
    let operators =
        ManifestSource { jailed: false, untrusted, found: DiscoveredManifest::of_operator };
    let mut shipped = read_manifests(&home.manifests_dir(), &operators, &mut found);
    let share_dir = installation.map_or(Ok(None), Installation::checked_share_dir);
    if let Err(changed) = share_dir {
        found.notes.push(format!(
            "{}: files were changed after the program had unpacked them, and its manifests are not \
             used; the next start of the program restores them",
            changed.display()
        ));
    }
    if let Ok(Some(dir)) = share_dir {
        // The home's own copy of a shipped manifest is its operator's choice.
        let own: Vec<_> = shipped.iter().map(|found| found.manifest.id.clone()).collect();
        let trusted = ManifestSource { untrusted: false, ..operators };
        let mut installed = read_manifests(&dir.join("manifests"), &trusted, &mut found);
        installed.retain(|found| !own.contains(&found.manifest.id));
        shipped.extend(installed);
    }
    for manifest in shipped {
        let id = manifest.manifest.id.clone();
        if let Some(first) = found.manifests.get(&id) {
            let hint = "choose another id".to_owned();
            found.rejected.push(id_taken_rejection(first, manifest, hint));
        } else {
            found.manifests.insert(id, manifest);
        }
    }
    let sandbox = ManifestSource { jailed: true, untrusted, found: DiscoveredManifest::of_sandbox };
    let added = read_manifests(&home.extensions_dir(), &sandbox, &mut found);
    let admission = Admission::open(home);
    found.notes.extend(admission.note(home));
    for manifest in added {
        let id = manifest.manifest.id.clone();
        // Each id has one directory, so that a new extension cannot take the id of an approved one.
        let dir = manifest.path.parent().map(directory_name).unwrap_or_default();
        if dir != id.as_str() {
            found.rejected.push(LoadRejection {
                id: id.to_string(),
                phase: LoadPhase::Discover,
                reason: format!("its id is `{id}`, and its directory `{dir}`"),
                hint: "give both the same name".to_owned(),
                manifest: manifest.path,
            });
            continue;
        }
        let first = found.manifests.get(&id);
        if let Some(first) = first.filter(|_| !allow_shadowing.iter().any(|a| *a == id.as_str())) {
            let hint = format!(
                "choose another id, or list `{id}` under allow_shadowing in skillhost.yaml"
            );
            found.rejected.push(id_taken_rejection(first, manifest, hint));
            continue;
        }
        match admit(&admission, &manifest) {
            Ok(admitted) => {
                found.notes.extend(first.map(|first| {
                    format!(
                        "{} takes over `{id}` from {} (allow_shadowing)",
                        manifest.path.display(),
                        first.path.display()
                    )
                }));
                found.manifests.insert(id, admitted);
            }
            Err(rejection) => {
                found.rejected.push(rejection);
                found.unapproved.insert(id, manifest);
            }
        }
    }
    found
}

fn id_taken_rejection(
    first: &DiscoveredManifest,
    newcomer: DiscoveredManifest,
    hint: String,
) -> LoadRejection {
    let id = &first.manifest.id;
    LoadRejection {
        id: id.to_string(),
        phase: LoadPhase::Discover,
        reason: format!("the id `{id}` is already used by {}", first.path.display()),
        hint,
        manifest: newcomer.path,
    }
}

/// A source of manifests and its rules.
#[derive(Clone, Copy)]
struct ManifestSource {
    /// Manifests that are links are rejected.
    jailed: bool,
    /// The home is not trusted: every link is rejected.
    untrusted: bool,
    /// Creates the entry from a manifest, its path and its text.
    found: fn(Manifest, PathBuf, &str) -> DiscoveredManifest,
}

/// Reads every manifest one level below a directory, in the order of the directory names.
fn read_manifests(
    dir: &Path,
    source: &ManifestSource,
    discovered: &mut DiscoveryResult,
) -> Vec<DiscoveredManifest> {
    let &ManifestSource { jailed, untrusted, found: found_as } = source;
    let DiscoveryResult { rejected, notes, .. } = discovered;
    if untrusted && dir.is_symlink() {
        rejected.push(symlink_rejection(dir));
        return Vec::new();
    }
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            rejected.push(unreadable_rejection(dir, dir, &error));
            return Vec::new();
        }
    };
    let mut dirs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    // The order of `read_dir` differs between file systems.
    dirs.sort();
    let mut found = Vec::new();
    // A hidden directory is unfinished: a new extension is written there and renamed.
    dirs.retain(|path| !directory_name(path).starts_with('.'));
    for dir in dirs.into_iter().filter(|path| path.is_dir()) {
        let path = dir.join("manifest.yaml");
        if untrusted && dir.is_symlink() {
            rejected.push(symlink_rejection(&dir));
            continue;
        }
        match fs::symlink_metadata(&path) {
            // Operators may link installed manifests; agents may not.
            Ok(found) if found.is_symlink() && (jailed || untrusted) => {
                rejected.push(unreadable_rejection(
                    &dir,
                    &path,
                    &irregular_file_error(found.file_type()),
                ));
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match misnamed_rejection(&dir) {
                    Some(rejection) => rejected.push(rejection),
                    None => notes.extend(missing_manifest_note(&dir)),
                }
                continue;
            }
            _ => {}
        }
        match read_manifest_text(&path) {
            Ok(text) => match skillhost_manifest::parse_manifest(&text) {
                Ok(manifest) => found.push(found_as(manifest, path, &text)),
                Err(errors) => {
                    let lines: Vec<_> =
                        errors.iter().map(|error| format!("{}:{error}", path.display())).collect();
                    rejected.push(LoadRejection {
                        id: directory_name(&dir),
                        phase: LoadPhase::Parse,
                        reason: lines.join("\n"),
                        hint: format!(
                            "correct the manifest; {} prints its schema",
                            OperatorCommand::PrintManifestSchema
                        ),
                        manifest: path,
                    });
                }
            },
            Err(error) => rejected.push(unreadable_rejection(&dir, &path, &error)),
        }
    }
    found
}

/// Reads the text of a manifest that its operator has placed or approved.
///
/// # Errors
/// The system's error, and text that is not UTF-8.
pub fn read_manifest_text(path: &Path) -> io::Result<String> {
    let kind = fs::metadata(path)?.file_type();
    if !kind.is_file() {
        return Err(irregular_file_error(kind));
    }
    // One byte more than the limit, so that the parser reports the size.
    let bytes = read_beginning(path, MANIFEST_LIMIT + 1, LinkPolicy::Follow)?;
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count() + 1;
        io::Error::new(io::ErrorKind::InvalidData, format!("line {line} is not UTF-8 text"))
    })
}

/// Frequent wrong names of a manifest.
const MISNAMED: [&str; 4] = ["manifest.yml", "Manifest.yaml", "manifest.json", "manifest.toml"];

/// Directories that tools create among extensions.
const NO_EXTENSIONS: [&str; 3] = ["target", "__pycache__", "node_modules"];

/// Rejects a directory whose manifest has a wrong name.
fn misnamed_rejection(dir: &Path) -> Option<LoadRejection> {
    let mut names = MISNAMED.iter().filter(|name| fs::symlink_metadata(dir.join(name)).is_ok());
    let name = names.next()?;
    Some(LoadRejection {
        id: directory_name(dir),
        phase: LoadPhase::Discover,
        reason: format!("{} is not read", dir.join(name).display()),
        hint: "name it manifest.yaml".to_owned(),
        manifest: dir.join(name),
    })
}

/// Notes a directory without a manifest.
fn missing_manifest_note(dir: &Path) -> Option<String> {
    let name = directory_name(dir);
    if NO_EXTENSIONS.contains(&name.as_str()) {
        return None;
    }
    Some(format!(
        "{} is not an extension: manifest.yaml not found; write it, or move the directory elsewhere",
        dir.display()
    ))
}

fn irregular_file_error(kind: fs::FileType) -> io::Error {
    let name = irregular_kind(kind);
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {name}, not a regular file"))
}

fn unreadable_rejection(dir: &Path, path: &Path, error: &io::Error) -> LoadRejection {
    let hint = match error.kind() {
        io::ErrorKind::InvalidInput => "replace it with a regular file",
        _ => "check that it is a UTF-8 text file that may be read",
    };
    LoadRejection {
        id: directory_name(dir),
        phase: LoadPhase::Discover,
        reason: format!("{}: {error}", path.display()),
        hint: hint.to_owned(),
        manifest: path.to_owned(),
    }
}

fn symlink_rejection(dir: &Path) -> LoadRejection {
    LoadRejection {
        hint: "copy its target, or review it and trust the home".to_owned(),
        reason: format!(
            "{}: a symbolic link, which is not followed in a home that is not trusted",
            dir.display()
        ),
        ..unreadable_rejection(dir, dir, &io::ErrorKind::InvalidInput.into())
    }
}

fn directory_name(dir: &Path) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approvals::{
        ApprovalRecord, ApprovalSurface, Approvals, Approver, read_extension_files,
    };
    use crate::home::HomeSource;

    fn write(home: &Path, place: &str, text: &str) {
        let dir = home.join(place);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("manifest.yaml"), text).unwrap();
    }

    #[test]
    fn shadowing_requires_setting() {
        let temp = tempfile::tempdir().unwrap();
        write(temp.path(), "manifests/a", "id: a\nname: Shipped\nentrypoint: a\n");
        write(temp.path(), "sandbox/extensions/a", "id: a\nname: Added\nentrypoint: a\n");
        write(temp.path(), "sandbox/extensions/b", "id: b\n");
        let home = Home::open(temp.path(), HomeSource::Argument).unwrap();

        let found = discover_manifests(&home, None, &[]);
        assert_eq!(found.manifests["a"].manifest.name, "Shipped");
        let rejected: Vec<_> = found
            .rejected
            .iter()
            .map(|r| (r.id.as_str(), r.phase, r.reason.lines().count()))
            .collect();
        assert_eq!(rejected, [("b", LoadPhase::Parse, 2), ("a", LoadPhase::Discover, 1)]);

        let allowed = ["a".to_owned()];
        let found = discover_manifests(&home, None, &allowed);
        assert_eq!(found.manifests["a"].manifest.name, "Shipped", "it is not approved");
        assert_eq!(found.unapproved["a"].manifest.name, "Added");
        assert_eq!(found.rejected.last().unwrap().phase, LoadPhase::Approve);

        let dir = temp.path().join("sandbox/extensions/a");
        let files = read_extension_files(&dir).unwrap();
        let approver = Approver::operator(ApprovalSurface::CommandLine);
        let manifest = &found.unapproved["a"].manifest;
        let record = ApprovalRecord::approve(manifest, &files, None, &approver);
        Approvals::append(&home, &record).unwrap();
        let found = discover_manifests(&home, None, &allowed);
        assert_eq!(found.manifests["a"].manifest.name, "Added");
        assert_eq!(found.notes.len(), 1);
        // The manifest is approved, another file is new: the entry is listed, and not usable.
        fs::write(dir.join("liba.so"), "").unwrap();
        assert_eq!(discover_manifests(&home, None, &allowed).manifests["a"].manifest.name, "Added");
        let found = discover_admitted(&home, None, &allowed, None);
        assert_eq!(found.manifests["a"].manifest.name, "Shipped");
        let rejection = found.rejected.last().unwrap();
        assert_eq!(
            rejection.reason,
            "its files have changed since they were approved: new liba.so"
        );
    }

    #[test]
    fn folder_without_manifest_is_reported() {
        let temp = tempfile::tempdir().unwrap();
        let extensions = temp.path().join("sandbox/extensions");
        for dir in ["empty", "yml", ".hidden", "target"] {
            fs::create_dir_all(extensions.join(dir)).unwrap();
        }
        fs::write(extensions.join("yml/manifest.yml"), "id: yml\n").unwrap();
        fs::create_dir(extensions.join("link")).unwrap();
        let manifest = extensions.join("link/manifest.yaml");
        std::os::unix::fs::symlink("/etc/hostname", manifest).unwrap();
        fs::write(extensions.join("file"), "").unwrap();
        let home = Home::open(temp.path(), HomeSource::Argument).unwrap();
        let found = discover_manifests(&home, None, &[]);
        let path = |name: &str| home.extensions_dir().join(name).display().to_string();
        let rejected: Vec<_> =
            found.rejected.iter().map(|it| (&*it.id, &*it.reason, &*it.hint)).collect();
        let reason = format!("{} is not read", path("yml/manifest.yml"));
        let link = "it is a symbolic link, not a regular file";
        let link = format!("{}: {link}", path("link/manifest.yaml"));
        assert_eq!(
            rejected,
            [
                ("link", &*link, "replace it with a regular file"),
                ("yml", &*reason, "name it manifest.yaml")
            ]
        );
        let note = "is not an extension: manifest.yaml not found; write it, or move the directory \
                    elsewhere";
        assert_eq!(found.notes, [format!("{} {note}", path("empty"))]);
    }

    #[test]
    fn home_copy_shadows_shipped_manifest() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().join("home");
        write(&home, "manifests/a", "id: a\nname: Own copy\nentrypoint: a\n");
        write(&home, "sandbox/extensions/c", "id: c\nname: Added\nentrypoint: c\n");
        let share = temp.path().join("share");
        write(&share, "manifests/a", "id: a\nname: Shipped\nentrypoint: a\n");
        write(&share, "manifests/c", "id: c\nname: Shipped\nentrypoint: c\n");
        let installation = Installation::from_share_dir(share);
        let home = Home::open(&home, HomeSource::Argument).unwrap();
        let found = discover_manifests(&home, Some(&installation), &[]);
        let names: Vec<_> =
            found.manifests.values().map(|found| found.manifest.name.as_str()).collect();
        assert_eq!(names, ["Own copy", "Shipped"]);
        assert_eq!(found.rejected.len(), 1);
        assert_eq!(found.rejected[0].id, "c");
    }

    #[test]
    fn changed_unpacked_manifests_are_ignored() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("home/sandbox")).unwrap();
        let share = temp.path().join("share");
        write(&share, "manifests/a", "id: a\nname: Shipped\nentrypoint: a\n");
        let home = Home::open(&temp.path().join("home"), HomeSource::Argument).unwrap();
        let is_unchanged = |dir: &Path| !dir.join("manifests/b").exists();
        let check = Some(crate::FilesCheck(is_unchanged));
        let installation = Installation { check, ..Installation::from_share_dir(share.clone()) };
        let found = discover_manifests(&home, Some(&installation), &[]);
        assert_eq!((found.manifests.len(), found.notes), (1, Vec::new()));
        write(&share, "manifests/b", "id: b\nname: B\ncommand: [sh]\n");
        let found = discover_manifests(&home, Some(&installation), &[]);
        assert_eq!(found.manifests.len(), 0);
        let note = "files were changed after the program had unpacked them";
        assert!(found.notes[0].contains(note), "{:?}", found.notes);
    }
}
