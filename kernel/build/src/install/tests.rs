use super::*;

use skillhost_kernel::{ApprovalSurface, Home, HomeSource};

use super::faults::{Fault, with_fault};

const MANIFEST: &str = "id: tea\nname: Tea\nentrypoint: tea\n# the end\n";

struct Scene {
    _folder: tempfile::TempDir,
    place: BuildPaths,
}

/// A home with the extension `tea` and no build of it.
fn scene() -> Scene {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("sandbox/extensions/tea")).unwrap();
    let home = Home::open(folder.path(), HomeSource::Argument).unwrap();
    let place = BuildPaths::new(&home, "tea");
    fs::write(place.manifest(), MANIFEST).unwrap();
    Scene { _folder: folder, place }
}

fn operator() -> Approver {
    Approver::operator(ApprovalSurface::Terminal)
}

/// What is in place, by the bytes of the library: all of it, or a description of the mess.
fn in_place(place: &BuildPaths) -> String {
    let library = read(&place.source_dir().join(library_name("tea"))).unwrap();
    let manifest = fs::read_to_string(place.manifest()).unwrap();
    let parsed = skillhost_manifest::parse_manifest(&manifest).unwrap();
    let pin = parsed.sha256.map(|bytes| bytes.map(|byte| format!("{byte:02x}")).concat());
    let approvals = Approvals::load(&place.home).unwrap();
    let approval = approvals.approval("tea");
    assert!(manifest.ends_with("entrypoint: tea\n# the end\n"), "{manifest}");
    let (kept, facts) = place.previous();
    let kept = read(&kept).unwrap();
    let facts: Option<PreviousBuild> =
        read(&facts).unwrap().map(|b| serde_json::from_slice(&b).unwrap());
    let Some(library) = library else {
        assert_eq!((pin, approval, kept, facts), (None, None, None, None));
        return "nothing".to_owned();
    };
    let sha = sha256_hex(&library);
    let kept_sha = kept.as_deref().map(sha256_hex);
    assert_eq!(pin.as_deref(), Some(&*sha), "half installed");
    let approval = approval.expect("it is approved");
    assert!(
        approval.covers(&read_tree(&place.source_dir()).unwrap()),
        "approved is something else"
    );
    assert_eq!(approval.library_sha256.as_deref(), Some(&*sha));
    assert_eq!(facts.map(|kept| kept.sha256), kept_sha, "half kept");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    format!("{} before {}", text(library), kept.map_or("nothing".to_owned(), text))
}

/// The approval of the folder with a library.
fn record(place: &BuildPaths, bytes: &[u8]) -> ApprovalRecord {
    let text = set_pin(&manifest(place), &sha256_hex(bytes)).unwrap();
    let parsed = skillhost_manifest::parse_manifest(&text).unwrap();
    let files = read_tree(&place.source_dir()).unwrap();
    let files = installed_files(&files, text, Some(("tea", bytes)));
    ApprovalRecord::approve(&parsed, &files, Some(Vec::new()), &operator())
}

fn new<'n>(place: &BuildPaths, bytes: &'n [u8], sha: &'n str) -> NewBuild<'n> {
    NewBuild { library: Some(("tea", bytes)), sha256: sha, record: Some(record(place, bytes)) }
}

fn manifest(place: &BuildPaths) -> String {
    fs::read_to_string(place.manifest()).unwrap()
}

fn put(place: &BuildPaths, bytes: &str) {
    let sha = sha256_hex(bytes.as_bytes());
    install_build(place, &manifest(place), &new(place, bytes.as_bytes(), &sha)).unwrap();
}

#[test]
fn a_build_replaces_the_one_before_and_can_be_taken_back_again_and_again() {
    let Scene { place, _folder } = scene();
    assert_eq!(in_place(&place), "nothing");
    assert!(matches!(rollback(&place, &operator()), Err(BuildError::NoPreviousBuild { .. })));
    put(&place, "one");
    assert_eq!(in_place(&place), "one before nothing");
    assert!(matches!(rollback(&place, &operator()), Err(BuildError::NoPreviousBuild { .. })));
    put(&place, "two");
    assert_eq!(in_place(&place), "two before one");
    // The same once more is not the one before.
    put(&place, "two");
    assert_eq!(in_place(&place), "two before one");
    let done = rollback(&place, &operator()).unwrap();
    let (from, to) = (sha256_hex(b"two"), sha256_hex(b"one"));
    assert_eq!(done, Swapped { from, to, approved: true });
    assert_eq!(in_place(&place), "one before two");
    rollback(&place, &operator()).unwrap();
    assert_eq!(in_place(&place), "two before one");
    let mut left: Vec<_> =
        fs::read_dir(place.private_dir()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["previous", "previous.json"]);
}

/// The process is killed after every step, and the one that finishes its work after every step too.
#[test]
fn a_process_that_dies_at_any_step_leaves_the_old_build_or_the_new_one() {
    let steps: Vec<_> = FORWARD.into_iter().chain([Step::Done]).collect();
    for (old, expected) in [(None, "new before nothing"), (Some("old"), "new before old")] {
        let untouched = old.map_or("nothing", |_| "old before nothing");
        for died_after in 0..=steps.len() {
            for died_again_after in 0..=steps.len() {
                let Scene { place, _folder } = scene();
                if let Some(old) = old {
                    put(&place, old);
                }
                let sha = sha256_hex(b"new");
                let new = new(&place, b"new", &sha);
                let intent = plan_install(&place, &manifest(&place), &new).unwrap();
                // Everything before the decision.
                place.make().unwrap();
                write(&place.staged(), b"new").unwrap();
                assert_eq!(in_place(&place), untouched);
                assert_eq!(recover_install(&place).unwrap(), None, "nothing was decided");
                assert_eq!(in_place(&place), untouched);

                write_intent(&place, &intent, &new).unwrap();
                for died in [died_after, died_again_after] {
                    // What a killed write leaves beside the file.
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
                assert_eq!(in_place(&place), expected, "{died_after}, {died_again_after}");
                assert_eq!(recover_install(&place).unwrap(), None, "it is done");
            }
        }
    }
}

/// Every change of the disk fails once, or from then on, before or after it was made; then the next
/// start recovers.
#[test]
fn failed_writes_end_in_one_reported_state() {
    for roll_back_too in [false, true] {
        let begun = || {
            let scene = scene();
            put(&scene.place, "one");
            if roll_back_too {
                put(&scene.place, "two");
            }
            scene
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
        let Scene { place, _folder } = begun();
        let (done, changes) = with_fault(None, || work(&place));
        done.unwrap();
        assert_eq!(in_place(&place), changed);
        assert!(changes > 10, "{changes}");
        let mut unsettled = 0;
        for at in 0..changes {
            for (after, lasting) in [(false, false), (false, true), (true, false), (true, true)] {
                let Scene { place, _folder } = begun();
                let fault = Fault { at, after, lasting };
                let (done, _) = with_fault(Some(fault), || work(&place));
                let what = match &done {
                    Err(BuildError::Unsettled { what, .. }) => Some(*what),
                    _ => None,
                };
                unsettled += usize::from(what.is_some());
                if what.is_none() {
                    // What was reported is so at once.
                    let expected = if done.is_ok() { changed } else { old };
                    assert_eq!(in_place(&place), expected, "{fault:?} {done:?}");
                }
                recover_install(&place).unwrap();
                let expected = match (done.is_ok(), what) {
                    (true, _) | (false, Some(FINISHES)) => changed,
                    (false, _) => old,
                };
                assert_eq!(in_place(&place), expected, "{fault:?} {done:?}");
                assert_eq!(recover_install(&place).unwrap(), None);
            }
        }
        assert!(unsettled > 0, "some disks fail for good");
    }
}

#[test]
fn manifest_edited_after_crash_waits_for_approval() {
    let Scene { place, _folder } = scene();
    let sha = sha256_hex(b"new");
    let new = new(&place, b"new", &sha);
    let intent = plan_install(&place, MANIFEST, &new).unwrap();
    write_intent(&place, &intent, &new).unwrap();
    let edited = MANIFEST.replace("name: Tea", "name: Green tea");
    fs::write(place.manifest(), &edited).unwrap();
    assert_eq!(recover_install(&place).unwrap(), Some(Recovered::Finished));
    assert!(manifest(&place).contains("name: Green tea\n"));
    let approvals = Approvals::load(&place.home).unwrap();
    let approval = approvals.approval("tea").unwrap();
    assert!(!approval.covers(&read_tree(&place.source_dir()).unwrap()));
}

#[test]
fn recovery_does_not_revive_a_revoked_approval() {
    let Scene { place, _folder } = scene();
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
fn a_step_that_fails_puts_everything_back() {
    let Scene { place, _folder } = scene();
    let sha = sha256_hex(b"new");
    let new = new(&place, b"new", &sha);
    // A folder where the library has to be: it is staged and decided on, and cannot be put there.
    let library = place.source_dir().join(library_name("tea"));
    fs::create_dir(&library).unwrap();
    fs::write(library.join("in the way"), "").unwrap();
    let failed = install_build(&place, MANIFEST, &new);
    assert!(matches!(failed, Err(BuildError::Io { .. })), "{failed:?}");
    assert_eq!(manifest(&place), MANIFEST);
    assert_eq!(recover_install(&place).unwrap(), None);
    fs::remove_dir_all(&library).unwrap();
    assert_eq!(in_place(&place), "nothing");

    // The journal cannot be read.
    put(&place, "one");
    put(&place, "two");
    let record = place.home.data_dir("kernel").join("approvals.jsonl");
    let good = fs::read(&record).unwrap();
    fs::write(&record, "{\n").unwrap();
    let failed = install_build(&place, &manifest(&place), &new);
    assert!(matches!(failed, Err(BuildError::Approvals(_))), "{failed:?}");
    fs::write(&record, good).unwrap();
    assert_eq!(in_place(&place), "two before one");
    assert_eq!(recover_install(&place).unwrap(), None);
}

#[test]
fn rollback_approves_nothing_that_changed() {
    let edited = "id: tea\nname: T\nentrypoint: tea\n# the end\n";
    let library = library_name("tea");
    let edits = [("manifest.yaml", edited), ("more.rs", "fn more() {}"), (&*library, "planted")];
    for (name, text) in edits {
        let Scene { place, _folder } = scene();
        put(&place, "one");
        put(&place, "two");
        fs::write(place.source_dir().join(name), text).unwrap();
        let done = rollback(&place, &operator()).unwrap();
        let files = read_tree(&place.source_dir()).unwrap();
        let approvals = Approvals::load(&place.home).unwrap();
        let covered = approvals.approval("tea").is_some_and(|approval| approval.covers(&files));
        // The planted library is gone; everything else that was approved is still so.
        assert_eq!((done.approved, covered), (text == "planted", text == "planted"), "{name}");
    }
    // A library that nobody approved was kept, and does not come back.
    let Scene { place, _folder } = scene();
    put(&place, "one");
    fs::write(place.source_dir().join(library_name("tea")), "planted").unwrap();
    put(&place, "two");
    let refused = rollback(&place, &operator());
    assert!(matches!(refused, Err(BuildError::NoPreviousBuild { .. })), "{refused:?}");
}

#[test]
fn what_has_changed_in_between_is_not_installed() {
    let Scene { place, _folder } = scene();
    let sha = sha256_hex(b"new");
    let new = new(&place, b"new", &sha);
    fs::write(place.manifest(), MANIFEST.replace("Tea", "Coffee")).unwrap();
    let refused = install_build(&place, MANIFEST, &new);
    assert!(matches!(refused, Err(BuildError::Changed { .. })), "{refused:?}");
    assert!(!place.private_dir().exists());

    put(&place, "one");
    put(&place, "two");
    let renamed = manifest(&place).replace("entrypoint: tea", "entrypoint: coffee");
    fs::write(place.manifest(), renamed).unwrap();
    let refused = rollback(&place, &operator());
    assert!(matches!(refused, Err(BuildError::PreviousBuildMismatch { .. })), "{refused:?}");
}

#[test]
fn files_of_a_process_extension_are_pinned_and_recorded() {
    let Scene { place, _folder } = scene();
    let text = "id: tea\nname: Tea\nentrypoint: {command: [python3, server.py]}\n";
    if skillhost_manifest::parse_manifest(text).is_err() {
        panic!("a process extension's manifest is read");
    }
    fs::write(place.manifest(), text).unwrap();
    let sha = sha256_hex(b"files");
    let pinned = set_pin(text, &sha).unwrap();
    let files = installed_files(&read_tree(&place.source_dir()).unwrap(), pinned, None);
    let parsed = skillhost_manifest::parse_manifest(text).unwrap();
    let record = ApprovalRecord::approve(&parsed, &files, Some(Vec::new()), &operator());
    let new = NewBuild { library: None, sha256: &sha, record: Some(record) };
    install_build(&place, text, &new).unwrap();
    let expected = text.replace("entrypoint", &format!("sha256: {sha}\nentrypoint"));
    assert_eq!(manifest(&place), expected);
    let approvals = Approvals::load(&place.home).unwrap();
    assert!(approvals.approval("tea").unwrap().covers(&read_tree(&place.source_dir()).unwrap()));
    assert!(matches!(rollback(&place, &operator()), Err(BuildError::NoPreviousBuild { .. })));
}
