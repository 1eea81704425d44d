use skillhost_home::{ApprovalSurface, Home, HomeSource};

use super::*;

use super::faults::{Fault, with_fault};

const MANIFEST: &str = "id: tea\nname: Tea\nentrypoint: tea\n# the end\n";

/// A temporary home with the paths of the extension's builds.
struct TestHome {
    _directory: tempfile::TempDir,
    place: BuildPaths,
}

/// Creates a home with the extension `tea` without a build.
fn test_home() -> TestHome {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("sandbox/extensions/tea")).unwrap();
    let home = Home::open(directory.path(), HomeSource::Argument).unwrap();
    let place = BuildPaths::new(&home, "tea");
    fs::write(place.manifest(), MANIFEST).unwrap();
    TestHome { _directory: directory, place }
}

fn operator() -> Approver {
    Approver::operator(ApprovalSurface::Terminal)
}

/// Returns the bytes of the installed and the previous library, after checks of their consistency.
fn installed_state(place: &BuildPaths) -> String {
    let library = read(&place.source_dir().join(library_file_name("tea"))).unwrap();
    let manifest = fs::read_to_string(place.manifest()).unwrap();
    let parsed = skillhost_manifest::parse_manifest(&manifest).unwrap();
    let pin = parsed.sha256.map(|bytes| bytes.map(|byte| format!("{byte:02x}")).concat());
    let approvals = Approvals::load(&place.home).unwrap();
    let approval = approvals.approval("tea");
    assert!(manifest.ends_with("entrypoint: tea\n# the end\n"), "{manifest}");
    let (kept, metadata) = place.previous();
    let kept = read(&kept).unwrap();
    let metadata: Option<PreviousBuild> =
        read(&metadata).unwrap().map(|b| serde_json::from_slice(&b).unwrap());
    let Some(library) = library else {
        assert_eq!((pin, approval, kept, metadata), (None, None, None, None));
        return "nothing".to_owned();
    };
    let sha = sha256_hex(&library);
    let kept_sha = kept.as_deref().map(sha256_hex);
    assert_eq!(pin.as_deref(), Some(&*sha), "half installed");
    let approval = approval.expect("the build is approved");
    assert!(
        approval.covers(&read_extension_files(&place.source_dir()).unwrap()),
        "the approval covers other files"
    );
    assert_eq!(approval.library_sha256.as_deref(), Some(&*sha));
    assert_eq!(metadata.map(|kept| kept.sha256), kept_sha, "half kept");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    format!("{} before {}", text(library), kept.map_or("nothing".to_owned(), text))
}

/// Returns the approval of the directory with a library.
fn record(place: &BuildPaths, bytes: &[u8]) -> ApprovalRecord {
    let text = set_pin(&manifest(place), &sha256_hex(bytes)).unwrap();
    let parsed = skillhost_manifest::parse_manifest(&text).unwrap();
    let files = read_extension_files(&place.source_dir()).unwrap();
    let files = installed_files(&files, text, Some(("tea", bytes)));
    ApprovalRecord::approve(&parsed, &files, Some(Vec::new()), &operator())
}

fn new<'n>(place: &BuildPaths, bytes: &'n [u8], sha: &'n str) -> NewBuild<'n> {
    NewBuild { library: Some(("tea", bytes)), sha256: sha, record: Some(record(place, bytes)) }
}

fn manifest(place: &BuildPaths) -> String {
    fs::read_to_string(place.manifest()).unwrap()
}

fn install_library(place: &BuildPaths, bytes: &str) {
    let sha = sha256_hex(bytes.as_bytes());
    install_build(place, &manifest(place), &new(place, bytes.as_bytes(), &sha)).unwrap();
}

#[test]
fn rollback_swaps_two_builds() {
    let TestHome { place, _directory } = test_home();
    assert_eq!(installed_state(&place), "nothing");
    assert!(matches!(rollback(&place, &operator()), Err(BuildError::NoPreviousBuild { .. })));
    install_library(&place, "one");
    assert_eq!(installed_state(&place), "one before nothing");
    assert!(matches!(rollback(&place, &operator()), Err(BuildError::NoPreviousBuild { .. })));
    install_library(&place, "two");
    assert_eq!(installed_state(&place), "two before one");
    // A repeated build does not become its own predecessor.
    install_library(&place, "two");
    assert_eq!(installed_state(&place), "two before one");
    let done = rollback(&place, &operator()).unwrap();
    let (from, to) = (sha256_hex(b"two"), sha256_hex(b"one"));
    assert_eq!(done, RollbackResult { from, to, approved: true });
    assert_eq!(installed_state(&place), "one before two");
    rollback(&place, &operator()).unwrap();
    assert_eq!(installed_state(&place), "two before one");
    let mut remaining: Vec<_> =
        fs::read_dir(place.private_dir()).unwrap().map(|e| e.unwrap().file_name()).collect();
    remaining.sort();
    assert_eq!(remaining, ["previous", "previous.json"]);
}

/// The process is killed after every step, and the recovering process as well.
#[test]
fn crash_leaves_old_or_new_build() {
    let steps: Vec<_> = FORWARD.into_iter().chain([Step::Done]).collect();
    for (old, expected) in [(None, "new before nothing"), (Some("old"), "new before old")] {
        let untouched = old.map_or("nothing", |_| "old before nothing");
        for died_after in 0..=steps.len() {
            for died_again_after in 0..=steps.len() {
                let TestHome { place, _directory } = test_home();
                if let Some(old) = old {
                    install_library(&place, old);
                }
                let sha = sha256_hex(b"new");
                let new = new(&place, b"new", &sha);
                let intent = plan_install(&place, &manifest(&place), &new).unwrap();
                // The state before the intent is written.
                place.create_private_dir().unwrap();
                write(&place.staged(), b"new").unwrap();
                assert_eq!(installed_state(&place), untouched);
                assert_eq!(recover_install(&place).unwrap(), None, "no intent was written");
                assert_eq!(installed_state(&place), untouched);

                write_intent(&place, &intent, &new).unwrap();
                for died in [died_after, died_again_after] {
                    // The temporary file of a killed write.
                    fs::write(place.source_dir().join(".libtea.so.7-0.tmp"), "half").unwrap();
                    for step in &steps[..died] {
                        if !matches!(step, Step::Done) || read(&place.intent()).unwrap().is_some() {
                            perform(&place, &intent, *step).unwrap();
                        }
                    }
                    if read(&place.intent()).unwrap().is_none() {
                        break;
                    }
                }
                recover_install(&place).unwrap();
                assert_eq!(installed_state(&place), expected, "{died_after}, {died_again_after}");
                assert_eq!(recover_install(&place).unwrap(), None, "the recovery is complete");
            }
        }
    }
}

/// Every change of the disk fails once or permanently, before or after its effect; then the next
/// start recovers.
#[test]
fn failed_writes_have_reported_outcome() {
    for roll_back_too in [false, true] {
        let prepared = || {
            let test_home = test_home();
            install_library(&test_home.place, "one");
            if roll_back_too {
                install_library(&test_home.place, "two");
            }
            test_home
        };
        let work = |place: &BuildPaths| match roll_back_too {
            true => rollback(place, &operator()).map(drop),
            false => {
                let sha = sha256_hex(b"two");
                install_build(place, &manifest(place), &new(place, b"two", &sha))
            }
        };
        let (old, changed) = match roll_back_too {
            true => ("two before one", "one before two"),
            false => ("one before nothing", "two before one"),
        };
        let TestHome { place, _directory } = prepared();
        let (done, changes) = with_fault(None, || work(&place));
        done.unwrap();
        assert_eq!(installed_state(&place), changed);
        assert!(changes > 10, "{changes}");
        let mut unsettled = 0;
        for at in 0..changes {
            for (after, lasting) in [(false, false), (false, true), (true, false), (true, true)] {
                let TestHome { place, _directory } = prepared();
                let fault = Fault { at, after, lasting };
                let (done, _) = with_fault(Some(fault), || work(&place));
                let what = match &done {
                    Err(BuildError::Unsettled { what, .. }) => Some(*what),
                    _ => None,
                };
                unsettled += usize::from(what.is_some());
                if what.is_none() {
                    // The reported result is in effect at once.
                    let expected = if done.is_ok() { changed } else { old };
                    assert_eq!(installed_state(&place), expected, "{fault:?} {done:?}");
                }
                recover_install(&place).unwrap();
                let expected = match (done.is_ok(), what) {
                    (true, _) | (false, Some(FINISHES)) => changed,
                    (false, _) => old,
                };
                assert_eq!(installed_state(&place), expected, "{fault:?} {done:?}");
                assert_eq!(recover_install(&place).unwrap(), None);
            }
        }
        assert!(unsettled > 0, "some faults are permanent");
    }
}

#[test]
fn edited_manifest_waits_for_approval() {
    let TestHome { place, _directory } = test_home();
    let sha = sha256_hex(b"new");
    let new = new(&place, b"new", &sha);
    let intent = plan_install(&place, MANIFEST, &new).unwrap();
    write_intent(&place, &intent, &new).unwrap();
    let edited = MANIFEST.replace("name: Tea", "name: Green tea");
    fs::write(place.manifest(), &edited).unwrap();
    assert_eq!(recover_install(&place).unwrap(), Some(RecoveryOutcome::Finished));
    assert!(manifest(&place).contains("name: Green tea\n"));
    let approvals = Approvals::load(&place.home).unwrap();
    let approval = approvals.approval("tea").unwrap();
    assert!(!approval.covers(&read_extension_files(&place.source_dir()).unwrap()));
}

#[test]
fn recovery_respects_revoked_approval() {
    let TestHome { place, _directory } = test_home();
    let sha = sha256_hex(b"new");
    let new = new(&place, b"new", &sha);
    let intent = plan_install(&place, MANIFEST, &new).unwrap();
    write_intent(&place, &intent, &new).unwrap();
    FORWARD.into_iter().try_for_each(|step| perform(&place, &intent, step)).unwrap();
    let revoked = new.record.as_ref().unwrap().revoked(&operator());
    Approvals::append(&place.home, &revoked).unwrap();
    recover_install(&place).unwrap();
    assert_eq!(Approvals::load(&place.home).unwrap().approval("tea"), None);
}

#[test]
fn failed_step_is_undone() {
    let TestHome { place, _directory } = test_home();
    let sha = sha256_hex(b"new");
    let new = new(&place, b"new", &sha);
    // A directory at the path of the library: the intent is written, but the library cannot be.
    let library = place.source_dir().join(library_file_name("tea"));
    fs::create_dir(&library).unwrap();
    fs::write(library.join("in the way"), "").unwrap();
    let failed = install_build(&place, MANIFEST, &new);
    assert!(matches!(failed, Err(BuildError::Io { .. })), "{failed:?}");
    assert_eq!(manifest(&place), MANIFEST);
    assert_eq!(recover_install(&place).unwrap(), None);
    fs::remove_dir_all(&library).unwrap();
    assert_eq!(installed_state(&place), "nothing");

    // The approval journal is not readable.
    install_library(&place, "one");
    install_library(&place, "two");
    let record = place.home.data_dir("kernel").join("approvals.jsonl");
    let good = fs::read(&record).unwrap();
    fs::write(&record, "{\n").unwrap();
    let failed = install_build(&place, &manifest(&place), &new);
    assert!(matches!(failed, Err(BuildError::Approvals(_))), "{failed:?}");
    fs::write(&record, good).unwrap();
    assert_eq!(installed_state(&place), "two before one");
    assert_eq!(recover_install(&place).unwrap(), None);
}

#[test]
fn rollback_approves_nothing_that_changed() {
    let edited = "id: tea\nname: T\nentrypoint: tea\n# the end\n";
    let library = library_file_name("tea");
    let edits = [("manifest.yaml", edited), ("more.rs", "fn more() {}"), (&*library, "planted")];
    for (name, text) in edits {
        let TestHome { place, _directory } = test_home();
        install_library(&place, "one");
        install_library(&place, "two");
        fs::write(place.source_dir().join(name), text).unwrap();
        let done = rollback(&place, &operator()).unwrap();
        let files = read_extension_files(&place.source_dir()).unwrap();
        let approvals = Approvals::load(&place.home).unwrap();
        let covered = approvals.approval("tea").is_some_and(|approval| approval.covers(&files));
        // The planted library is replaced; all other approved files are still approved.
        assert_eq!((done.approved, covered), (text == "planted", text == "planted"), "{name}");
    }
    // An unapproved library was kept as the previous one, but is not restored.
    let TestHome { place, _directory } = test_home();
    install_library(&place, "one");
    fs::write(place.source_dir().join(library_file_name("tea")), "planted").unwrap();
    install_library(&place, "two");
    let result = rollback(&place, &operator());
    assert!(matches!(result, Err(BuildError::NoPreviousBuild { .. })), "{result:?}");
}

#[test]
fn changed_manifest_is_not_installed() {
    let TestHome { place, _directory } = test_home();
    let sha = sha256_hex(b"new");
    let new = new(&place, b"new", &sha);
    fs::write(place.manifest(), MANIFEST.replace("Tea", "Coffee")).unwrap();
    let result = install_build(&place, MANIFEST, &new);
    assert!(matches!(result, Err(BuildError::Changed { .. })), "{result:?}");
    assert!(!place.private_dir().exists());

    install_library(&place, "one");
    install_library(&place, "two");
    let renamed = manifest(&place).replace("entrypoint: tea", "entrypoint: coffee");
    fs::write(place.manifest(), renamed).unwrap();
    let result = rollback(&place, &operator());
    assert!(matches!(result, Err(BuildError::PreviousBuildMismatch { .. })), "{result:?}");
}

#[test]
fn process_extension_files_are_pinned() {
    let TestHome { place, _directory } = test_home();
    let text = "id: tea\nname: Tea\nentrypoint: {command: [python3, server.py]}\n";
    if skillhost_manifest::parse_manifest(text).is_err() {
        panic!("the manifest of a process extension is not valid");
    }
    fs::write(place.manifest(), text).unwrap();
    let sha = sha256_hex(b"files");
    let pinned = set_pin(text, &sha).unwrap();
    let files = installed_files(&read_extension_files(&place.source_dir()).unwrap(), pinned, None);
    let parsed = skillhost_manifest::parse_manifest(text).unwrap();
    let record = ApprovalRecord::approve(&parsed, &files, Some(Vec::new()), &operator());
    let new = NewBuild { library: None, sha256: &sha, record: Some(record) };
    install_build(&place, text, &new).unwrap();
    let expected = text.replace("entrypoint", &format!("sha256: {sha}\nentrypoint"));
    assert_eq!(manifest(&place), expected);
    let approvals = Approvals::load(&place.home).unwrap();
    assert!(
        approvals
            .approval("tea")
            .unwrap()
            .covers(&read_extension_files(&place.source_dir()).unwrap())
    );
    assert!(matches!(rollback(&place, &operator()), Err(BuildError::NoPreviousBuild { .. })));
}
