//! Entries named SKILL.md that are no regular skill files.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use skill_catalog::Audience;
use skill_service::{ReadResourceArgs, read_skill_resource};
use skillhost_payload::ErrorKind;

use crate::fixture::{StoreFixture, assert_quiet, events, findings, id, ids, skill_text};

fn fifo(fixture: &StoreFixture, rel: &str) {
    let path = fixture.path(rel);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

#[test]
fn irregular_files_are_skipped() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/good", "text");
    fifo(&fixture, "skills/fifo/SKILL.md");
    fs::create_dir_all(fixture.path("skills/directory/SKILL.md")).unwrap();
    fixture.write("elsewhere.md", skill_text("link", "text"));
    fs::create_dir(fixture.path("skills/link")).unwrap();
    symlink(fixture.path("elsewhere.md"), fixture.path("skills/link/SKILL.md")).unwrap();
    fs::create_dir(fixture.path("skills/socket")).unwrap();
    // The path of a socket has a length limit that a temporary directory may exceed.
    let socket = UnixListener::bind(fixture.path("skills/socket/SKILL.md"));
    let sparse = fixture.write("skills/sparse/SKILL.md", "");
    fs::File::options().write(true).open(sparse).unwrap().set_len(10 << 30).unwrap();

    let expected = |rule_of_socket: bool| {
        let mut all = vec![
            ("directory", "file.notRegular"),
            ("fifo", "file.notRegular"),
            ("link", "file.symlink"),
            ("sparse", "file.size"),
        ];
        if rule_of_socket {
            all.push(("socket", "file.notRegular"));
            all.sort_unstable();
        }
        all
    };
    let store = fixture.open();
    for pass in 0..3 {
        assert_eq!(ids(&store), ["good"]);
        let snapshot = store.snapshot();
        let mut reported: Vec<(&str, &str)> = snapshot
            .problems()
            .iter()
            .map(|problem| {
                assert!(problem.skipped);
                (problem.skill.as_ref().unwrap().as_str(), problem.diagnostic.rule)
            })
            .collect();
        reported.sort_unstable();
        assert_eq!(reported, expected(socket.is_ok()), "pass {pass}");
        match pass {
            0 => drop(store.poll_full()),
            _ => assert_quiet(&store),
        }
    }
}

#[test]
fn fifo_keeps_last_good_version() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "text");
    let store = fixture.open_warm();
    fs::remove_file(fixture.path("skills/demo/SKILL.md")).unwrap();
    fifo(&fixture, "skills/demo/SKILL.md");
    assert_eq!(events(&store), []);
    assert_eq!(crate::fixture::body(&store, "demo"), ("text".to_owned(), true));
    assert_eq!(
        findings(&store),
        [
            ("SKILL.md".to_owned(), "file.notRegular", false),
            ("SKILL.md".to_owned(), "file.lastGood", false),
        ]
    );
    assert_quiet(&store);
}

#[test]
fn repaired_skill_is_added() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/good", "text");
    let bad: [(&str, &[u8]); 6] = [
        ("brackets", &[b'['; 1 << 20]),
        ("empty", b""),
        ("no-description", b"---\nname: no-description\n---\nbody\n"),
        ("no-fence", b"# Just Markdown\n"),
        ("not-utf8", b"---\nname: not-utf8\ndescription: caf\xE9.\n---\nbody\n"),
        ("unclosed", b"---\nname: unclosed\ndescription: d\n"),
    ];
    for (name, bytes) in bad {
        fixture.write(&format!("skills/{name}/SKILL.md"), bytes);
    }
    let store = fixture.open_warm();
    assert_eq!(ids(&store), ["good"]);
    let snapshot = store.snapshot();
    let mut skipped: Vec<&str> = snapshot
        .problems()
        .iter()
        .filter(|problem| problem.skipped)
        .map(|problem| problem.skill.as_ref().unwrap().as_str())
        .collect();
    skipped.dedup();
    assert_eq!(skipped, bad.map(|(name, _)| name));
    assert_quiet(&store);

    let digest = fixture.skill("skills/empty", "not any more");
    let added = skill_catalog::SkillEvent::Added { id: id("empty"), digest: Some(digest) };
    assert_eq!(events(&store), [added]);
}

#[test]
fn file_size_limit_is_exact() {
    let fixture = StoreFixture::new();
    let head = skill_text("demo", "");
    let full = format!("{head}{}", "x".repeat(skill_format::FILE_LIMIT - head.len()));
    fixture.write("skills/demo/SKILL.md", &full);
    let store = fixture.open_warm();
    assert_eq!(ids(&store), ["demo"]);
    assert_eq!(store.snapshot().large_skills().count(), 1);
    fixture.write("skills/demo/SKILL.md", format!("{full}x"));
    assert_eq!(events(&store), []);
    assert_eq!(findings(&store)[0].1, "file.size");
    assert!(crate::fixture::body(&store, "demo").1);
}

#[test]
fn irregular_resource_is_denied() {
    let fixture = StoreFixture::new();
    fixture.skill("skills/demo", "text");
    fifo(&fixture, "skills/demo/pipe");
    fs::create_dir(fixture.path("skills/demo/directory")).unwrap();
    let store = fixture.open();
    let kind = |path: &str| {
        let args = ReadResourceArgs {
            skill_id: "demo".to_owned(),
            path: path.to_owned(),
            offset: None,
            limit: None,
        };
        read_skill_resource(&store.snapshot(), Audience::Model, &args).unwrap_err().kind
    };
    assert_eq!(kind("pipe"), ErrorKind::Denied);
    assert_eq!(kind("directory"), ErrorKind::InvalidArgument);
    assert_eq!(kind("pipe/x"), ErrorKind::Denied);
    assert_eq!(kind("SKILL.md/x"), ErrorKind::NotFound);
}
