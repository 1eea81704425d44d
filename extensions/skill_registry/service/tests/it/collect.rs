//! Discovery of skills in any directory, for the offline checks.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use skill_catalog::{FoundItem, ProblemKind, ResourceContent, find_skills};
use skill_format::{EntryKind, FILE_LIMIT};

fn write(path: impl AsRef<Path>, text: &str) {
    fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Returns one line for each item found, with paths relative to `root`.
fn found(root: &Path, path: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let shown = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    let end: ControlFlow<()> = find_skills(path, &mut |found| {
        lines.push(match found {
            FoundItem::Skill(skill) => {
                format!("{} {} {}", shown(&skill.dir), skill.dir_name, skill.file_name)
            }
            FoundItem::Problem(problem) => {
                format!("{} {:?}: {}", shown(&problem.path), problem.kind, problem.message)
            }
        });
        ControlFlow::Continue(())
    });
    assert_eq!(end, ControlFlow::Continue(()));
    lines
}

#[test]
fn directories_are_searched_in_order() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path();
    for path in [
        "b/SKILL.md",
        "b/inner/SKILL.md",
        "a/deep/er/skill.md",
        "c/Skill.md",
        ".claude/skills/d/SKILL.md",
        ".git/e/SKILL.md",
        "node_modules/f/SKILL.md",
        "z/readme.txt",
    ] {
        write(root.join(path), "x");
    }
    assert_eq!(
        found(root, root),
        [".claude/skills/d d SKILL.md", "a/deep/er er skill.md", "b b SKILL.md", "c c Skill.md",]
    );
    assert_eq!(found(root, &root.join("b")), ["b b SKILL.md"]);
    assert_eq!(found(root, &root.join("a/deep/er/skill.md")), ["a/deep/er er skill.md"]);
    assert_eq!(found(root, &root.join("z")), ["z NoSkill: SKILL.md not found in it or below it"]);
    assert_eq!(
        found(root, &root.join("z/readme.txt")),
        ["z/readme.txt NoSkill: it is neither a SKILL.md nor a directory"]
    );
    assert_eq!(found(root, &root.join("gone")), ["gone NotFound: it does not exist"]);
}

#[test]
fn caller_can_stop_search() {
    let temp = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        write(temp.path().join(name).join("SKILL.md"), "x");
    }
    let mut seen = 0;
    let end = find_skills(temp.path(), &mut |_| {
        seen += 1;
        if seen == 2 { ControlFlow::Break("enough") } else { ControlFlow::Continue(()) }
    });
    assert_eq!((end, seen), (ControlFlow::Break("enough"), 2));
}

#[cfg(unix)]
#[test]
fn links_and_fifos_are_not_read() {
    use std::os::unix::fs::symlink;

    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("root");
    write(root.join("real/SKILL.md"), "x");
    write(temp.path().join("outside/skill/SKILL.md"), "x");
    write(root.join("plain.txt"), "x");
    fs::create_dir_all(root.join("linked")).unwrap();
    symlink("../real/SKILL.md", root.join("linked/SKILL.md")).unwrap();
    symlink("real", root.join("same")).unwrap();
    symlink("../outside", root.join("away")).unwrap();
    symlink("plain.txt", root.join("to-a-file")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    fs::create_dir_all(root.join("folder/SKILL.md")).unwrap();
    let fifo = root.join("pipe/SKILL.md");
    fs::create_dir_all(fifo.parent().unwrap()).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let lines = found(&root, &root);
    assert_eq!(
        lines,
        [
            "away Link: it is a symbolic link that leads elsewhere, which is not followed",
            "folder/SKILL.md Unusable: it is a directory, not a regular file",
            "linked/SKILL.md Unusable: it is a symbolic link, which is not followed",
            "pipe/SKILL.md Unusable: it is a FIFO, not a regular file",
            "real real SKILL.md",
        ]
    );
    // The path itself may be a link.
    assert_eq!(found(&root, &root.join("away")), ["away/skill skill SKILL.md"]);
    assert_eq!(found(&root, &root.join("same")), ["same same SKILL.md"]);
}

#[cfg(target_os = "linux")]
#[test]
fn names_not_in_utf8_are_reported() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    let temp = tempfile::tempdir().unwrap();
    let odd = temp.path().join(OsStr::from_bytes(b"caf\xE9"));
    write(odd.join("SKILL.md"), "x");
    write(temp.path().join(OsStr::from_bytes(b"no-skill\xE9")).join("other"), "x");
    write(temp.path().join("good/SKILL.md"), "x");
    let message = "Unusable: the directory's name is not UTF-8";
    assert_eq!(
        found(temp.path(), temp.path()),
        [format!("caf\u{fffd} {message}"), "good good SKILL.md".to_owned()]
    );
    assert_eq!(found(temp.path(), &odd), [format!("caf\u{fffd} {message}")]);
}

#[test]
fn skill_is_read_with_its_files() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("beads");
    write(dir.join("SKILL.md"), "text");
    write(dir.join("references/a.md"), "abc");
    let mut read = Vec::new();
    let _: ControlFlow<()> = find_skills(&dir, &mut |found| {
        let FoundItem::Skill(mut skill) = found else { panic!("{found:?}") };
        assert_eq!(skill.path(), dir.join("SKILL.md"));
        assert_eq!(skill.read(false).unwrap().files, None);
        read.push(skill.read(true).unwrap());
        ControlFlow::Continue(())
    });
    assert_eq!(read.len(), 1);
    assert_eq!((&*read[0].file_name, read[0].bytes.as_slice()), ("SKILL.md", &b"text"[..]));
    let files = read[0].files.as_deref().unwrap();
    let shown: Vec<_> = files
        .iter()
        .map(|file| (file.path.as_str(), file.kind == EntryKind::Directory, file.size))
        .map(|(path, directory, size)| (path, directory, if directory { 0 } else { size }))
        .collect();
    assert_eq!(
        shown,
        [("SKILL.md", false, 4), ("references", true, 0), ("references/a.md", false, 3)]
    );
}

#[cfg(unix)]
#[test]
fn escaping_links_are_detected() {
    use std::os::unix::fs::symlink;

    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("beads");
    write(dir.join("SKILL.md"), "text");
    write(dir.join("references/a.md"), "abc");
    write(temp.path().join("secret"), "x");
    for (target, name) in [
        ("references/a.md", "in"),
        ("../secret", "out"),
        ("/etc/hostname-that-is-not-there", "out-dangling"),
        ("references/none.md", "in-dangling"),
        ("../beads/references", "in-again"),
        ("out", "out-by-way-of-another"),
    ] {
        symlink(target, dir.join(name)).unwrap();
    }
    let mut links = Vec::new();
    let _: ControlFlow<()> = find_skills(&dir, &mut |found| {
        let FoundItem::Skill(mut skill) = found else { panic!("{found:?}") };
        for file in skill.read(true).unwrap().files.unwrap() {
            if let EntryKind::Symlink { escapes } = file.kind {
                links.push((file.path, escapes));
            }
        }
        ControlFlow::Continue(())
    });
    let links: Vec<_> = links.iter().map(|(path, escapes)| (path.as_str(), *escapes)).collect();
    assert_eq!(
        links,
        [
            ("in", false),
            ("in-again", false),
            ("in-dangling", false),
            ("out", true),
            ("out-by-way-of-another", true),
            ("out-dangling", true),
        ]
    );
}

#[test]
fn oversized_file_is_not_read() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("huge/SKILL.md");
    write(&path, "");
    fs::File::options().write(true).open(&path).unwrap().set_len(10 << 30).unwrap();
    let mut problems = Vec::new();
    let _: ControlFlow<()> = find_skills(temp.path(), &mut |found| {
        let FoundItem::Skill(mut skill) = found else { panic!("{found:?}") };
        problems.push(skill.read(false).unwrap_err());
        ControlFlow::Continue(())
    });
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].rule, "file.maxSize");
    assert_eq!(
        problems[0].message,
        format!("the file has 10737418240 bytes, more than the limit of {FILE_LIMIT}")
    );
}

#[test]
fn text_resources_are_read() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("beads");
    write(dir.join("SKILL.md"), "text");
    write(dir.join("references/a.md"), "äöü");
    fs::write(dir.join("nul.txt"), "a\0b").unwrap();
    fs::write(dir.join("latin1.txt"), b"caf\xE9").unwrap();
    fs::write(dir.join("limit.txt"), "x".repeat(16 << 20)).unwrap();
    fs::File::create(dir.join("huge.txt")).unwrap().set_len((16 << 20) + 1).unwrap();
    write(temp.path().join("secret"), "x");
    let _: ControlFlow<()> = find_skills(&dir, &mut |found| {
        let FoundItem::Skill(skill) = found else { panic!("{found:?}") };
        let read = |path| skill.read_resource(path);
        assert_eq!(read("references/a.md"), Ok(ResourceContent::Text("äöü".to_owned())));
        assert_eq!(read("nul.txt"), Ok(ResourceContent::Binary));
        assert_eq!(read("latin1.txt"), Ok(ResourceContent::Binary));
        assert!(
            matches!(read("limit.txt"), Ok(ResourceContent::Text(text)) if text.len() == 16 << 20)
        );
        assert_eq!(read("huge.txt"), Ok(ResourceContent::TooLarge));
        for (path, kind, message) in [
            ("gone.md", ProblemKind::NotFound, "it does not exist"),
            ("references", ProblemKind::Unreadable, "it is not a regular file"),
            ("../secret", ProblemKind::Unreadable, "a path cannot have a component `.` or `..`"),
        ] {
            let problem = read(path).unwrap_err();
            assert_eq!((problem.kind, &*problem.message), (kind, message), "{path}");
            assert_eq!(problem.path, dir.join(path));
        }
        ControlFlow::Continue(())
    });
}
