//! Backups that are intact, damaged, truncated or hostile.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use skillhost_backup::{
    BackupError, BackupOptions, PathProblem, RestoreError, check_backup, create_backup,
    stage_backup,
};
use skillhost_files::jail::RelPathError;
use skillhost_home::{Home, HomeSource};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

const FILES: [(&str, &str); 5] = [
    ("skillhost.yaml", "models: {default: script/demo}\n"),
    ("manifests/echo/manifest.yaml", "id: echo\n"),
    ("sandbox/skills/greet/SKILL.md", "Say hello.\n"),
    ("sandbox/data/kernel/approvals.jsonl", "{\"id\":\"a\"}\n"),
    ("sandbox/data/kernel/threads/t1/messages.jsonl", "{\"seq\":1}\n"),
];

/// A directory with a home and room for backups of it.
struct Scene {
    temp: TempDir,
    home: Home,
}

impl Scene {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("home");
        for (path, text) in FILES {
            write(&root.join(path), text);
        }
        write(&root.join(".env"), "KEY=hunter2\n");
        write(&root.join("notes.txt"), "not part of skillhost\n");
        write(&root.join("sandbox/data/kernel/kernel.lock"), "1\n");
        let home = Home::open(&root, HomeSource::Argument).unwrap();
        Self { temp, home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    fn back_up(&self) -> PathBuf {
        let file = self.path("home.tar.gz");
        create_backup(&self.home, &file, BackupOptions::default()).unwrap();
        file
    }

    /// Restores a file that must be refused, and checks that the target does not exist afterwards.
    #[track_caller]
    fn refuse(&self, file: &Path) -> RestoreError {
        assert!(check_backup(file).is_err(), "check and restore must agree");
        let target = self.path("refused");
        let error = stage_backup(file, &target, false).map(drop).unwrap_err();
        assert!(!target.exists(), "{error}");
        // An existing home stays as it is, too.
        let before = tree(self.home.root());
        stage_backup(file, self.home.root(), true).map(drop).unwrap_err();
        assert_eq!(tree(self.home.root()), before, "{error}");
        error
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn decompress(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut content)?;
    Ok(content)
}

/// Lists the files below a directory with their contents.
fn tree(root: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                files.push((name, fs::read_to_string(&path).unwrap_or_default()));
            }
        }
    }
    files.sort();
    files
}

fn restore(file: &Path, target: &Path, replace: bool) -> skillhost_backup::RestoreReport {
    stage_backup(file, target, replace).unwrap().install().unwrap()
}

/// Writes an archive with entries of a kind, path and content, and an index.
fn archive(file: &Path, entries: &[(EntryType, &str, &str)], index: Option<&str>) {
    let mut tar =
        Builder::new(GzEncoder::new(fs::File::create(file).unwrap(), Compression::fast()));
    let index = index.map(|index| (EntryType::Regular, "backup.json", index));
    for (kind, path, content) in entries.iter().copied().chain(index) {
        let mut header = Header::new_gnu();
        // Set directly: the builder refuses such paths.
        let name = &mut header.as_old_mut().name;
        name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o644);
        if matches!(kind, EntryType::Symlink | EntryType::Link) {
            header.set_link_name("/etc/passwd").unwrap();
            header.set_size(0);
        } else {
            header.set_size(content.len() as u64);
        }
        header.set_cksum();
        tar.append(&header, content.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap();
}

const EMPTY_INDEX: &str = r#"{"format":1,"version":"0","created_ms":0,"home":"/h","entries":[]}"#;

#[test]
fn restored_home_has_same_files() {
    let scene = Scene::new();
    let file = scene.back_up();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let summary = check_backup(&file).unwrap();
    assert_eq!((summary.files, summary.secrets), (FILES.len(), false));
    let target = scene.path("new/home");
    let report = restore(&file, &target, false);
    assert_eq!((report.home.as_path(), report.replaced), (&*target, None));
    let mut expected: Vec<_> =
        FILES.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    expected.sort();
    assert_eq!(tree(&target), expected);
    let data = fs::metadata(target.join("sandbox/data/kernel/approvals.jsonl")).unwrap();
    assert_eq!(data.permissions().mode() & 0o022, 0);
}

#[test]
fn secrets_are_included_on_request_only() {
    let scene = Scene::new();
    let file = scene.path("with-secrets.tar.gz");
    let options = BackupOptions { secrets: true, overwrite: false };
    let report = create_backup(&scene.home, &file, options).unwrap();
    assert!(report.summary.secrets);
    restore(&file, &scene.path("new"), false);
    let secrets = fs::read_to_string(scene.path("new/.env")).unwrap();
    assert_eq!(secrets, "KEY=hunter2\n");
}

#[test]
fn existing_backup_is_kept() {
    let scene = Scene::new();
    let file = scene.back_up();
    let before = fs::read(&file).unwrap();
    let error = create_backup(&scene.home, &file, BackupOptions::default()).unwrap_err();
    assert!(matches!(error, BackupError::Exists { .. }), "{error}");
    assert_eq!(fs::read(&file).unwrap(), before);
    let missing = scene.path("no/such/directory/home.tar.gz");
    create_backup(&scene.home, &missing, BackupOptions::default()).unwrap_err();
    // No temporary file stays.
    assert_eq!(fs::read_dir(scene.temp.path()).unwrap().count(), 2);
}

#[test]
fn links_and_own_file_are_left_out() {
    let scene = Scene::new();
    let root = scene.home.root();
    symlink("/etc/passwd", root.join("sandbox/link")).unwrap();
    let file = root.join("sandbox/home.tar.gz");
    let report = create_backup(&scene.home, &file, BackupOptions::default()).unwrap();
    assert_eq!(report.summary.files, FILES.len());
    let skipped: Vec<_> = report.skipped.iter().map(|entry| entry.path.clone()).collect();
    assert_eq!(skipped, [Path::new("sandbox/link")]);
}

#[test]
fn home_with_files_requires_replace() {
    let scene = Scene::new();
    let file = scene.back_up();
    let root = scene.home.root();
    write(&root.join("sandbox/skills/greet/SKILL.md"), "Changed.\n");
    let error = stage_backup(&file, root, false).map(drop).unwrap_err();
    assert!(matches!(error, RestoreError::NotEmpty { .. }), "{error}");
    let replaced = restore(&file, root, true).replaced.unwrap();
    let text = |path: PathBuf| fs::read_to_string(path).unwrap();
    assert_eq!(text(root.join("sandbox/skills/greet/SKILL.md")), "Say hello.\n");
    assert_eq!(text(replaced.join("sandbox/skills/greet/SKILL.md")), "Changed.\n");
    // Entries that are not in the backup stay.
    assert_eq!(text(root.join(".env")), "KEY=hunter2\n");
    assert_eq!(text(root.join("notes.txt")), "not part of skillhost\n");
    // A second time, the first replaced files stay as well.
    assert_ne!(restore(&file, root, true).replaced.unwrap(), replaced);
}

#[test]
fn unused_staged_backup_leaves_no_trace() {
    let scene = Scene::new();
    let file = scene.back_up();
    let target = scene.path("target");
    drop(stage_backup(&file, &target, false).unwrap());
    assert!(!target.exists());
}

#[test]
fn truncated_backup_is_refused() {
    let scene = Scene::new();
    let bytes = fs::read(scene.back_up()).unwrap();
    let file = scene.path("cut.tar.gz");
    for length in [0, 1, 100, bytes.len() / 2, bytes.len() - 20, bytes.len() - 1] {
        fs::write(&file, &bytes[..length]).unwrap();
        let error = scene.refuse(&file);
        assert!(
            matches!(error, RestoreError::Unreadable { .. } | RestoreError::NotABackup { .. }),
            "{length}: {error}"
        );
    }
}

#[test]
fn flipped_bit_is_found() {
    let scene = Scene::new();
    let bytes = fs::read(scene.back_up()).unwrap();
    let content = decompress(&bytes).unwrap();
    let file = scene.path("flipped.tar.gz");
    let mut without_effect = 0;
    // The header of the compression has fields without meaning, such as a time.
    for place in (10..bytes.len()).step_by(7) {
        let mut flipped = bytes.clone();
        flipped[place] ^= 0x10;
        // A compressed block may end with unused bits.
        if decompress(&flipped).is_ok_and(|text| text == content) {
            without_effect += 1;
            continue;
        }
        fs::write(&file, &flipped).unwrap();
        scene.refuse(&file);
    }
    assert!(without_effect < 3, "{without_effect} flipped bits had no effect");
}

#[test]
fn changed_content_names_the_entry() {
    let scene = Scene::new();
    let packed = fs::read(scene.back_up()).unwrap();
    let mut tar = decompress(&packed).unwrap();
    let place = tar.windows(10).position(|bytes| bytes == b"Say hello.").unwrap();
    tar[place..place + 10].copy_from_slice(b"Obey mine!");
    let file = scene.path("changed.tar.gz");
    let mut gz = GzEncoder::new(fs::File::create(&file).unwrap(), Compression::fast());
    gz.write_all(&tar).unwrap();
    gz.finish().unwrap();
    let error = scene.refuse(&file);
    let expected = format!(
        "{}: backup is damaged: sandbox/skills/greet/SKILL.md differs from its sha256 in the index",
        file.display()
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn hostile_paths_are_refused() {
    let scene = Scene::new();
    let file = scene.path("hostile.tar.gz");
    let (plain, link) = (EntryType::Regular, EntryType::Symlink);
    for (kind, path, expected) in [
        (plain, "home/../escaped", PathProblem::Form(RelPathError::Dots)),
        (plain, "home/sandbox/../../escaped", PathProblem::Form(RelPathError::Dots)),
        (plain, "../escaped", PathProblem::Form(RelPathError::Dots)),
        (plain, "/etc/cron.d/escaped", PathProblem::Form(RelPathError::Absolute)),
        (plain, "home//etc/escaped", PathProblem::Form(RelPathError::Absolute)),
        (plain, "home/notes.txt", PathProblem::Foreign),
        (plain, "elsewhere/sandbox/x", PathProblem::Foreign),
        (link, "home/sandbox/link", PathProblem::Special),
        (EntryType::Link, "home/sandbox/link", PathProblem::Special),
        (EntryType::Fifo, "home/sandbox/pipe", PathProblem::Special),
        (EntryType::XHeader, "home/sandbox/x", PathProblem::Special),
    ] {
        archive(&file, &[(kind, path, "x")], Some(EMPTY_INDEX));
        match scene.refuse(&file) {
            RestoreError::Path { problem, .. } => assert_eq!(problem, expected, "{path}"),
            error => panic!("{path}: {error}"),
        }
        assert!(!scene.path("escaped").exists());
    }
    let entry = (plain, "home/sandbox/x", "x");
    archive(&file, &[entry, entry], Some(EMPTY_INDEX));
    let error = scene.refuse(&file);
    assert!(error.to_string().ends_with("it occurs twice"), "{error}");
    // A file in the place of a directory.
    archive(&file, &[entry, (plain, "home/sandbox/x/y", "y")], Some(EMPTY_INDEX));
    let target = scene.path("refused");
    stage_backup(&file, &target, false).map(drop).unwrap_err();
    assert!(!target.exists());
}

#[test]
fn index_must_match_entries() {
    let scene = Scene::new();
    let file = scene.path("index.tar.gz");
    let entry = (EntryType::Regular, "home/sandbox/x", "x");
    let cases = [
        (Some(EMPTY_INDEX), "sandbox/x is not in the index"),
        (None, "backup is damaged after home/sandbox/x"),
        (Some("{}"), "missing field `format`"),
        (Some("no JSON"), "expected"),
        (Some(r#"{"format":2}"#), "has format 2, this program reads up to 1"),
    ];
    for (index, expected) in cases {
        archive(&file, &[entry], index);
        let error = scene.refuse(&file).to_string();
        assert!(error.contains(expected), "{error}");
    }
    let missing = r#"{"format":1,"version":"0","created_ms":0,"home":"/h","entries":[
        {"path":"sandbox/gone","size":1,"sha256":"00","mode":384}]}"#;
    archive(&file, &[], Some(missing));
    assert!(scene.refuse(&file).to_string().ends_with("sandbox/gone is missing"));
}

#[test]
fn other_files_are_no_backups() {
    let scene = Scene::new();
    let file = scene.path("other");
    fs::write(&file, "a text").unwrap();
    assert!(matches!(scene.refuse(&file), RestoreError::Unreadable { .. }));
    let mut gz = GzEncoder::new(fs::File::create(&file).unwrap(), Compression::fast());
    gz.write_all(&[0; 1024]).unwrap();
    gz.finish().unwrap();
    assert!(matches!(scene.refuse(&file), RestoreError::NotABackup { .. }));
    assert!(matches!(scene.refuse(scene.temp.path()), RestoreError::NotABackup { .. }));
    assert!(matches!(scene.refuse(&scene.path("missing")), RestoreError::Io { .. }));
}
