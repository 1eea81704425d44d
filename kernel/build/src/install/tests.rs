use super::*;

use skillhost_kernel::{Home, HomeSource};

const MANIFEST: &str = "id: tea\nname: Tea\nentrypoint: tea\n# the end\n";

struct Scene {
    _folder: tempfile::TempDir,
    place: Place,
}

/// A home with the extension `tea` and no build of it.
fn scene() -> Scene {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("sandbox/extensions/tea")).unwrap();
    let home = Home::at(folder.path(), HomeSource::Argument).unwrap();
    let place = Place::new(&home, "tea");
    fs::write(place.manifest(), MANIFEST).unwrap();
    Scene { _folder: folder, place }
}

/// What is in place, by the bytes of the library: all of it, or a description of the mess.
fn in_place(place: &Place) -> String {
    let library = read(&place.folder().join(library_name("tea"))).unwrap();
    let manifest = fs::read_to_string(place.manifest()).unwrap();
    let parsed = skillhost_manifest::parse(&manifest).unwrap();
    let pin = parsed.sha256.map(|bytes| bytes.map(|byte| format!("{byte:02x}")).concat());
    let recorded = Installed::read(&place.home).unwrap();
    let recorded = recorded.get("tea").map(|code| code.sha256.clone());
    assert!(manifest.ends_with("entrypoint: tea\n# the end\n"), "{manifest}");
    let (kept, facts) = place.previous();
    let kept = read(&kept).unwrap();
    let facts: Option<Kept> = read(&facts).unwrap().map(|b| serde_json::from_slice(&b).unwrap());
    let Some(library) = library else {
        assert_eq!((pin, recorded, kept, facts), (None, None, None, None));
        return "nothing".to_owned();
    };
    let sha = sha256(&library);
    let kept_sha = kept.as_deref().map(sha256);
    assert_eq!((pin.as_deref(), recorded.as_deref()), (Some(&*sha), Some(&*sha)), "half installed");
    assert_eq!(facts.map(|kept| kept.sha256), kept_sha, "half kept");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    format!("{} before {}", text(library), kept.map_or("nothing".to_owned(), text))
}

fn manifest(place: &Place) -> String {
    fs::read_to_string(place.manifest()).unwrap()
}

fn put(place: &Place, bytes: &str) {
    let sha = sha256(bytes.as_bytes());
    let new = New { library: Some(("tea", bytes.as_bytes())), sha256: &sha, by: "operator" };
    install(place, &manifest(place), &new).unwrap();
}

#[test]
fn a_build_replaces_the_one_before_and_can_be_taken_back_again_and_again() {
    let Scene { place, _folder } = scene();
    assert_eq!(in_place(&place), "nothing");
    assert!(matches!(roll_back(&place, "operator"), Err(BuildError::NothingBefore { .. })));
    put(&place, "one");
    assert_eq!(in_place(&place), "one before nothing");
    assert!(matches!(roll_back(&place, "operator"), Err(BuildError::NothingBefore { .. })));
    put(&place, "two");
    assert_eq!(in_place(&place), "two before one");
    // The same once more is not the one before.
    put(&place, "two");
    assert_eq!(in_place(&place), "two before one");
    let (from, to) = roll_back(&place, "operator").unwrap();
    assert_eq!((from, to), (sha256(b"two"), sha256(b"one")));
    assert_eq!(in_place(&place), "one before two");
    roll_back(&place, "operator").unwrap();
    assert_eq!(in_place(&place), "two before one");
    let mut left: Vec<_> =
        fs::read_dir(place.own()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["previous", "previous.json"]);
}

/// The process is killed after every step, and the one that finishes its work after every step too.
#[test]
fn a_process_that_dies_at_any_step_leaves_the_old_build_or_the_new_one() {
    for (old, expected) in [(None, "new before nothing"), (Some("old"), "new before old")] {
        let untouched = old.map_or("nothing", |_| "old before nothing");
        for died_after in 0..=STEPS.len() {
            for died_again_after in 0..=STEPS.len() {
                let Scene { place, _folder } = scene();
                if let Some(old) = old {
                    put(&place, old);
                }
                let sha = sha256(b"new");
                let new = New { library: Some(("tea", b"new")), sha256: &sha, by: "operator" };
                let intent = intend(&place, &manifest(&place), &new).unwrap();
                // Everything before the decision.
                write(&place.staged(), b"new").unwrap_or_else(|_| {
                    place.make().unwrap();
                    write(&place.staged(), b"new").unwrap();
                });
                assert_eq!(in_place(&place), untouched);
                assert!(!recover(&place).unwrap(), "nothing was decided");
                assert_eq!(in_place(&place), untouched);

                decide(&place, &intent, &new).unwrap();
                for died in [died_after, died_again_after] {
                    // What a killed write leaves beside the file.
                    fs::write(place.folder().join(".libtea.so.7-0.tmp"), "half").unwrap();
                    for step in &STEPS[..died] {
                        if !matches!(step, Step::Done) || read(&place.intent()).unwrap().is_some() {
                            perform(&place, &intent, *step).unwrap();
                        }
                    }
                    if read(&place.intent()).unwrap().is_none() {
                        break;
                    }
                }
                recover(&place).unwrap();
                assert_eq!(in_place(&place), expected, "{died_after}, {died_again_after}");
                assert!(!recover(&place).unwrap(), "it is done");
            }
        }
    }
}

#[test]
fn a_manifest_that_was_edited_after_the_crash_keeps_the_edit() {
    let Scene { place, _folder } = scene();
    let sha = sha256(b"new");
    let new = New { library: Some(("tea", b"new")), sha256: &sha, by: "operator" };
    let intent = intend(&place, MANIFEST, &new).unwrap();
    decide(&place, &intent, &new).unwrap();
    let edited = MANIFEST.replace("name: Tea", "name: Green tea");
    fs::write(place.manifest(), &edited).unwrap();
    assert!(recover(&place).unwrap());
    assert_eq!(in_place(&place), "new before nothing");
    assert!(manifest(&place).contains("name: Green tea\n"));
}

#[test]
fn a_step_that_fails_puts_everything_back() {
    let Scene { place, _folder } = scene();
    // A folder where the library has to be: it is staged and decided on, and cannot be put there.
    let library = place.folder().join(library_name("tea"));
    fs::create_dir(&library).unwrap();
    fs::write(library.join("in the way"), "").unwrap();
    let sha = sha256(b"new");
    let new = New { library: Some(("tea", b"new")), sha256: &sha, by: "operator" };
    let failed = install(&place, MANIFEST, &new);
    assert!(matches!(failed, Err(BuildError::Io { .. })), "{failed:?}");
    assert_eq!(manifest(&place), MANIFEST);
    assert!(!recover(&place).unwrap());
    fs::remove_dir_all(&library).unwrap();
    assert_eq!(in_place(&place), "nothing");

    // The record cannot be written: the last thing that can fail.
    put(&place, "one");
    put(&place, "two");
    let record = place.home.data_dir("kernel").join("installed.json");
    let good = fs::read(&record).unwrap();
    fs::write(&record, "{").unwrap();
    let failed = install(&place, &manifest(&place), &new);
    assert!(matches!(failed, Err(BuildError::Io { .. })), "{failed:?}");
    fs::write(&record, good).unwrap();
    assert_eq!(in_place(&place), "two before one");
    assert!(!recover(&place).unwrap());
}

#[test]
fn what_has_changed_in_between_is_not_installed() {
    let Scene { place, _folder } = scene();
    let sha = sha256(b"new");
    let new = New { library: Some(("tea", b"new")), sha256: &sha, by: "operator" };
    fs::write(place.manifest(), MANIFEST.replace("Tea", "Coffee")).unwrap();
    let refused = install(&place, MANIFEST, &new);
    assert!(matches!(refused, Err(BuildError::Changed { .. })), "{refused:?}");
    assert!(!place.own().exists());

    put(&place, "one");
    put(&place, "two");
    let renamed = manifest(&place).replace("entrypoint: tea", "entrypoint: coffee");
    fs::write(place.manifest(), renamed).unwrap();
    let refused = roll_back(&place, "operator");
    assert!(matches!(refused, Err(BuildError::OtherLibrary { .. })), "{refused:?}");
}

#[test]
fn files_of_a_process_extension_are_pinned_and_recorded() {
    let Scene { place, _folder } = scene();
    let text = "id: tea\nname: Tea\nentrypoint: {command: [python3, server.py]}\n";
    if skillhost_manifest::parse(text).is_err() {
        panic!("a process extension's manifest is read");
    }
    fs::write(place.manifest(), text).unwrap();
    let sha = sha256(b"files");
    install(&place, text, &New { library: None, sha256: &sha, by: "operator" }).unwrap();
    let expected = text.replace("entrypoint", &format!("sha256: {sha}\nentrypoint"));
    assert_eq!(manifest(&place), expected);
    let recorded = Installed::read(&place.home).unwrap();
    assert_eq!(recorded.get("tea").unwrap().sha256, sha);
    assert!(matches!(roll_back(&place, "operator"), Err(BuildError::NothingBefore { .. })));
}
