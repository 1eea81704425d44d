//! Protected files that a run moves, hides or replaces.

use std::fs;
use std::path::PathBuf;

use skillhost_policy::IsolationLevel;
use skillhost_sandbox::{RevertAction, RunEnd};

use crate::fixture::{Victims, block_on, launcher, words};

const LEVELS: [IsolationLevel; 2] = [IsolationLevel::Namespaces, IsolationLevel::Landlock];

const EVIL: &str = "[core]\n\tfsmonitor = evil\n";

/// A work directory with files, and the runs in it.
struct WorkFixture {
    victims: Victims,
    level: IsolationLevel,
}

impl WorkFixture {
    fn create(level: IsolationLevel, files: &[(&str, &str)]) -> Self {
        let fixture = Self { victims: Victims::create(), level };
        for (path, text) in files {
            fs::create_dir_all(fixture.at(path).parent().unwrap()).unwrap();
            fs::write(fixture.at(path), text).unwrap();
        }
        fixture
    }

    fn at(&self, path: &str) -> PathBuf {
        self.victims.path("work").join(path)
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at(path)).ok()
    }

    fn run(&self, script: &str) -> RunEnd {
        let command = words(&["/bin/sh", "-c", &self.victims.fill(script)]);
        let exit = self.victims.run(&command, self.victims.policy(), self.level).unwrap();
        assert_eq!(exit.end.exit_code, Some(0), "{}", String::from_utf8_lossy(&exit.stderr));
        exit.end
    }

    /// Returns what was done about the paths in the work directory.
    fn actions(&self, end: &RunEnd) -> Vec<(String, RevertAction)> {
        let work = self.at("").display().to_string();
        let relative = |path: &str| path.trim_start_matches(&*work).to_owned();
        end.reverted.iter().map(|file| (relative(&file.path), file.action)).collect()
    }
}

const REPOSITORY: [(&str, &str); 5] = [
    ("repo/.git/config", "[core]\n\tpager = less\n"),
    ("repo/.git/hooks/pre-commit", "#!/bin/sh\n"),
    ("repo/.claude/settings.json", "{}"),
    ("repo/sub/SKILL.md", "# own"),
    ("repo/file", "text"),
];

/// A rename of a directory is ordinary: the user's files must not be lost.
#[test]
fn moved_directory_keeps_protected_files() {
    for level in LEVELS {
        let work = WorkFixture::create(level, &REPOSITORY);
        let end = work.run("mv repo other; mkdir deep; mv other deep/repo2");
        for (path, text) in REPOSITORY {
            let moved = path.replace("repo/", "deep/repo2/");
            assert_eq!(work.read(&moved).as_deref(), Some(text), "{level} {path} {end:?}");
        }
        assert!(!work.at("repo").exists(), "{level}");
        let moved = ["deep/repo2/.claude", "deep/repo2/.git/config", "deep/repo2/.git/hooks"];
        let mut expected: Vec<_> =
            moved.iter().map(|path| ((*path).to_owned(), RevertAction::Moved)).collect();
        expected.push(("deep/repo2/sub/SKILL.md".to_owned(), RevertAction::Moved));
        assert_eq!(work.actions(&end), expected, "{level}");
        assert!(end.reverted[0].from.as_ref().unwrap().ends_with("/repo/.claude"));
    }
}

#[test]
fn name_of_moved_directory_is_free_for_harmless_files() {
    for level in LEVELS {
        let work = WorkFixture::create(level, &REPOSITORY);
        let end = work.run(
            "mv repo other; mkdir -p repo/.git repo/sub; echo x >repo/sub/SKILL.md; \
             printf '[core]\\n\\tfsmonitor = evil\\n' >repo/.git/config",
        );
        for (path, text) in REPOSITORY {
            let moved = path.replace("repo/", "other/");
            assert_eq!(work.read(&moved).as_deref(), Some(text), "{level} {path} {end:?}");
        }
        for new in ["repo/.git/config", "repo/sub/SKILL.md"] {
            assert_eq!(work.read(new), None, "{level}");
            let removed = (new.to_owned(), RevertAction::Removed);
            assert!(work.actions(&end).contains(&removed), "{level} {end:?}");
        }
    }
}

/// What was no repository of the user must not become one.
#[test]
fn dormant_repository_does_not_become_active() {
    let files = [
        ("data/HEAD", "ref: refs/heads/main\n"),
        ("data/objects/x", ""),
        ("data/config", EVIL),
        ("vendor/.git/config", EVIL),
        ("vendor/.claude/settings.json", "evil"),
    ];
    for level in LEVELS {
        let work = WorkFixture::create(level, &files);
        let end = work.run("mkdir live; mv data live/.git; mv vendor/.git .");
        assert_eq!((work.read("live/.git/config"), work.read(".git/config")), (None, None));
        assert_eq!(work.read("data/config").as_deref(), Some(EVIL), "{level} {end:?}");
        assert_eq!(work.read("vendor/.git/config").as_deref(), Some(EVIL), "{level} {end:?}");
        let back = ("data/config".to_owned(), RevertAction::MovedBack);
        assert!(work.actions(&end).contains(&back), "{level} {end:?}");
        if level == IsolationLevel::Landlock {
            // A mount cannot be moved itself.
            let end = work.run("mv vendor/.claude .");
            assert_eq!(work.read("vendor/.claude/settings.json").as_deref(), Some("evil"));
            assert!(!work.at(".claude").exists(), "{end:?}");
        }
    }
}

#[test]
fn directories_are_checked_although_they_are_unreadable() {
    for level in LEVELS {
        let work = WorkFixture::create(level, &[]);
        let end = work.run(
            "umask 0; mkdir -p o/repo/.git o/closed; echo {} >o/repo/.mcp.json; mkdir o/closed/.claude; \
             printf '[core]\\n\\tfsmonitor = evil\\n' >o/repo/.git/config; echo 1 >o/repo/result; \
             chmod 0311 o/repo; chmod 0 o/closed/.claude o/closed; chmod 0511 o",
        );
        for gone in ["o/repo/.git/config", "o/repo/.mcp.json", "o/closed/.claude"] {
            assert!(work.at(gone).symlink_metadata().is_err(), "{level} {gone} {end:?}");
            let removed = (gone.to_owned(), RevertAction::Removed);
            assert!(work.actions(&end).contains(&removed), "{level} {end:?}");
        }
        assert_eq!(fs::read_dir(work.at("o/repo")).unwrap().count(), 2, "{level}");
        assert_eq!(fs::read_dir(work.at("o/closed")).unwrap().count(), 0, "{level}");
        // The next run is not affected.
        assert!(work.run("cat o/repo/result").reverted.is_empty(), "{level}");
    }
}

/// A `.git` can be a file that names another directory.
#[test]
fn repository_elsewhere_must_be_harmless() {
    for level in LEVELS {
        let files = [
            ("mine/.git", "gitdir: ../somewhere\n"),
            ("data/bare/HEAD", "ref: refs/heads/main\n"),
            ("data/bare/objects/x", ""),
            ("data/bare/config", EVIL),
            (".agents/bare/HEAD", "ref: refs/heads/main\n"),
            (".agents/bare/objects/x", ""),
        ];
        let work = WorkFixture::create(level, &files);
        std::os::unix::fs::symlink("data", work.at("link")).unwrap();
        let end = work.run(
            "mkdir a b c d e f g h; echo 'gitdir: {S}/bare' >a/.git; ln -s {S}/bare b/.git; \
             echo 'gitdir: ../data/bare' >c/.git; ln -s ../data/bare d/.git; \
             echo 'gitdir: ../.agents/bare' >e/.git; echo 'gitdir: ../link/bare' >f/.git; \
             git init -q good; git -C good config user.name n; \
             echo 'gitdir: ../good/.git' >g/.git; ln -s ../good/.git h/.git; \
             echo 'gitdir: {S}/bare' >mine/.git || true",
        );
        for directory in ["a", "b", "c", "d", "e", "f"] {
            let file = format!("{directory}/.git");
            assert!(work.at(&file).symlink_metadata().is_err(), "{level} {file} {end:?}");
            assert!(work.actions(&end).contains(&(file, RevertAction::Removed)), "{end:?}");
        }
        assert_eq!(work.read("mine/.git").as_deref(), Some("gitdir: ../somewhere\n"), "{level}");
        for kept in ["g/.git", "h/.git", "good/.git/config"] {
            assert!(work.at(kept).exists(), "{level} {kept} {end:?}");
        }
    }
}

#[test]
fn restored_file_does_not_follow_link() {
    for level in LEVELS {
        let work = WorkFixture::create(level, &[("a/b/.claude/x", "own")]);
        let outside = work.victims.path("outside");
        fs::create_dir(&outside).unwrap();
        let end =
            work.run(&format!("mv a away; rm -rf away 2>/dev/null; ln -s {} a", outside.display()));
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{level} {end:?}");
        let kept = if level == IsolationLevel::Landlock { "a" } else { "away" };
        assert_eq!(work.read(&format!("{kept}/b/.claude/x")).as_deref(), Some("own"), "{level}");
    }
}

/// Another program can make room for a file of the run at a protected path.
#[test]
fn file_in_place_of_removed_one_is_set_aside() {
    use tokio::io::AsyncReadExt as _;
    let work = WorkFixture::create(IsolationLevel::Namespaces, &[(".mcp.json", "own")]);
    // A write may also reach the file that is just being removed.
    let script = "echo ready; until [ \"$(cat .mcp.json)\" = evil ]; do \
        sleep 0.01; echo evil 2>/dev/null >.mcp.json; done";
    let mut spec = work.victims.spec(&words(&["/bin/sh", "-c", script]), work.victims.policy());
    spec.levels.levels = vec![work.level];
    let end = block_on(async {
        let mut child = launcher().spawn(spec).await.unwrap();
        let mut line = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut line).await.unwrap();
        fs::remove_file(work.at(".mcp.json")).unwrap();
        child.wait().await.unwrap()
    });
    assert_eq!(work.read(".mcp.json").as_deref(), Some("own"), "{end:?}");
    assert_eq!(work.read(".mcp.json.set-aside-1").as_deref(), Some("evil\n"), "{end:?}");
}

#[test]
fn many_reverted_files_are_counted() {
    for level in LEVELS {
        let work = WorkFixture::create(level, &[]);
        let end = work.run(
            "i=0; while [ $i -lt 1000 ]; do mkdir d$i; echo x >d$i/.mcp.json; i=$((i+1)); done",
        );
        assert_eq!((end.reverted.len(), end.more_reverted), (200, 800), "{level}");
        assert!(!work.at("d999/.mcp.json").exists());
    }
}
