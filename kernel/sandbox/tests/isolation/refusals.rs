//! Runs that must not start.

use std::os::unix::ffi::OsStringExt as _;

use skillhost_policy::{IsolationLevel, PolicyRoots, parse_policy_json};
use skillhost_sandbox::{RefusalKind, SandboxError, SandboxSpec};

use crate::fixture::{Victims, block_on, launcher, words};

/// Narrows the policy of a run by a file with the keys of sandbox-runtime.
fn narrow(spec: &mut SandboxSpec, victims: &Victims, text: &str) {
    let layer = parse_policy_json(&victims.fill(text)).unwrap().layer;
    let (home, work) = (victims.path("victim"), victims.path("work"));
    spec.policy.narrow(&layer, PolicyRoots { home: &home, work: &work }).unwrap();
}

type Change = fn(&mut SandboxSpec, &Victims);

#[test]
fn refusals_name_cause_and_remedy() {
    let victims = Victims::create();
    let rows: [(&str, Change, RefusalKind, &str, &str); 13] = [
        (
            "symlinked work directory",
            |spec, victims| spec.policy.filesystem.allow_write = vec![victims.path("link")],
            RefusalKind::Policy,
            "link: it contains a symbolic link",
            "name the real path",
        ),
        (
            "work directory below a link",
            |spec, victims| spec.policy.filesystem.allow_read = vec![victims.path("link/.ssh")],
            RefusalKind::Policy,
            "symbolic link",
            "real path",
        ),
        (
            "missing path",
            |spec, _| spec.policy.filesystem.allow_read = vec!["/no/such".into()],
            RefusalKind::Policy,
            "/no/such: it does not exist",
            "create it",
        ),
        (
            "relative path",
            |spec, _| spec.policy.filesystem.deny_read = vec!["secret".into()],
            RefusalKind::Policy,
            "not absolute",
            "correct this path",
        ),
        (
            "denied start directory",
            |spec, victims| spec.policy.filesystem.deny_read = vec![victims.path("work")],
            RefusalKind::Policy,
            "the program starts in it, and `denyRead` has",
            "remove the entry",
        ),
        (
            "denied system",
            |spec, _| spec.policy.filesystem.deny_read = vec!["/".into()],
            RefusalKind::Policy,
            "no program runs without `/usr`",
            "remove the entry",
        ),
        (
            "missing program",
            |spec, _| spec.launch.program = "no-such-program".into(),
            RefusalKind::Start,
            "no-such-program",
            "allowRead",
        ),
        (
            "program that is not allowed",
            |spec, victims| spec.launch.program = victims.path("victim/tool"),
            RefusalKind::Start,
            "victim/tool",
            "allowRead",
        ),
        (
            "argument that is not UTF-8",
            |spec, _| spec.launch.arguments.push(std::ffi::OsString::from_vec(vec![0xff])),
            RefusalKind::Policy,
            "not UTF-8",
            "UTF-8 text",
        ),
        (
            "minimum above the levels",
            |spec, victims| {
                spec.levels.levels.remove(0);
                narrow(spec, victims, r#"{"minimum": "namespaces"}"#);
            },
            RefusalKind::Isolation,
            "no level of at least `namespaces`",
            "lower `minimum`",
        ),
        (
            "denied path at landlock",
            |spec, victims| {
                spec.levels.levels.remove(0);
                narrow(spec, victims, r#"{"filesystem": {"denyRead": ["{W}/private"]}}"#);
            },
            RefusalKind::Isolation,
            "landlock: deny_inside",
            "without denied paths",
        ),
        (
            "guarantee that landlock lacks",
            |spec, victims| {
                spec.levels.levels.remove(0);
                narrow(spec, victims, r#"{"require": ["modes", "names"]}"#);
            },
            RefusalKind::Isolation,
            "missing modes, names",
            "`require`",
        ),
        (
            "old Landlock",
            |spec, _| {
                spec.levels.levels.remove(0);
                spec.levels.landlock_abi = Some(2);
            },
            RefusalKind::Isolation,
            "version 3 is required, found 2",
            "Linux 6.2",
        ),
    ];
    for (name, change, kind, message, hint) in rows {
        let mut spec = victims.spec(&words(&["/bin/sh", "-c", "echo ran >ran"]), victims.policy());
        change(&mut spec, &victims);
        match block_on(launcher().run(spec)) {
            Err(SandboxError::Refused(refusal)) => {
                let text = refusal.to_string();
                assert_eq!(refusal.kind, kind, "{name}: {text}");
                assert!(text.contains(message), "{name}: {text}");
                assert!(
                    !hint.is_empty() && refusal.hint.contains(hint),
                    "{name}: {}",
                    refusal.hint
                );
            }
            other => panic!("{name}: {other:?}"),
        }
        assert!(!victims.path("work/ran").exists(), "{name}");
    }
}

#[test]
fn oversized_request_is_an_error() {
    let victims = Victims::create();
    let mut spec = victims.spec(&words(&["/bin/true"]), victims.policy());
    spec.launch.environment.insert("BIG".into(), "x".repeat(1 << 20).into());
    let error = block_on(launcher().run(spec)).unwrap_err();
    assert!(error.to_string().contains("larger than 1 MiB"), "{error}");
}

/// At the strongest level secrets and denied paths inside of allowed directories are hidden.
#[test]
fn denied_paths_are_hidden_inside_allowed_ones() {
    let victims = Victims::create();
    std::fs::write(victims.path("work/plain"), "p").unwrap();
    std::fs::write(victims.path("work/.env"), "SECRET=1").unwrap();
    std::fs::write(victims.path("work/.env.example"), "SECRET=").unwrap();
    std::fs::create_dir(victims.path("work/private")).unwrap();
    std::fs::write(victims.path("work/private/key"), "k").unwrap();
    std::fs::write(victims.path("work/fixed"), "f").unwrap();
    let script = "cat plain .env.example; cat .env; ls private; echo x >fixed; echo x >>.env; cat private/key; true";
    let mut spec = victims.spec(&words(&["/bin/sh", "-c", script]), victims.policy());
    narrow(
        &mut spec,
        &victims,
        r#"{"filesystem": {"denyRead": ["./private"], "denyWrite": ["fixed"]}}"#,
    );
    let exit = block_on(launcher().run(spec)).unwrap();
    assert_eq!(String::from_utf8_lossy(&exit.stdout), "pSECRET=", "{exit:?}");
    assert_eq!(std::fs::read_to_string(victims.path("work/fixed")).unwrap(), "f");
    assert_eq!(std::fs::read_to_string(victims.path("work/.env")).unwrap(), "SECRET=1");
}

/// A denied directory hides all but the paths in it that are allowed themselves.
#[test]
fn allowed_paths_inside_denied_ones_are_visible() {
    for level in [IsolationLevel::Namespaces, IsolationLevel::Landlock] {
        let victims = Victims::create();
        for path in
            ["data/own/deep/private/key", "data/own/file", "data/other/file", "data/tool.txt"]
        {
            std::fs::create_dir_all(victims.path(path).parent().unwrap()).unwrap();
            std::fs::write(victims.path(path), path).unwrap();
        }
        let mut policy = victims.policy();
        let files = &mut policy.filesystem;
        files.allow_write.push(victims.path("data/own"));
        files.allow_read.push(victims.path("data/tool.txt"));
        files.deny_read = vec![victims.path("data")];
        if level == IsolationLevel::Namespaces {
            files.allow_read.push(victims.base.path().to_owned());
            files.allow_read.push(victims.path("data/own/deep/private/key"));
            files.deny_read.push(victims.path("data/own/deep"));
        }
        let data = victims.path("data").display().to_string();
        let script = format!(
            "cd {data} || true; cat {data}/own/file {data}/tool.txt; echo x >{data}/own/new; \
             ls {data}; cat {data}/other/file; echo x >{data}/tool.txt; ls {data}/own/deep; \
             cat {data}/own/deep/private/key; echo"
        );
        let exit = victims.run(&words(&["/bin/sh", "-c", &script]), policy, level).unwrap();
        let output = "data/own/filedata/tool.txt";
        let key = "data/own/deep/private/key";
        let expected = match level {
            IsolationLevel::Namespaces => format!("{output}{key}\n"),
            // Its directory is not denied there: that would have to be enforced inside of another.
            _ => format!("{output}private\n{key}\n"),
        };
        assert_eq!(String::from_utf8_lossy(&exit.stdout), expected, "{level} {exit:?}");
        assert_eq!(std::fs::read_to_string(victims.path("data/own/new")).unwrap(), "x\n");
        assert!(exit.isolation.level == level && exit.end.reverted.is_empty(), "{exit:?}");
    }
}

/// Programs of the user would run hooks and obey configurations that a script has written.
#[test]
fn protected_names_are_reverted() {
    for level in [IsolationLevel::Namespaces, IsolationLevel::Landlock] {
        let victims = Victims::create();
        let at = |path: &str| victims.path("work").join(path);
        std::fs::create_dir_all(at("repo/.git/hooks")).unwrap();
        std::fs::write(at("repo/.git/config"), "[core]").unwrap();
        std::fs::write(at("repo/.git/hooks/old"), "old").unwrap();
        std::fs::write(at("SKILL.md"), "# own").unwrap();
        std::os::unix::fs::symlink("/usr", at("repo/.git/hooks/link")).unwrap();
        let pipe = at(".idea");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let script = "echo x >repo/.git/hooks/pre-commit; echo x >>repo/.git/config; \
            rm -f repo/.git/hooks/old; echo x >>SKILL.md; mkdir -p a/b/.claude c/.git/hooks; \
            echo x >a/b/.claude/settings.json; echo x >c/.git/hooks/post-merge; echo x >.bashrc; \
            ln -s /etc a/.vscode; echo kept >a/b/result";
        let command = words(&["/bin/sh", "-c", script]);
        let exit = victims.run(&command, victims.policy(), level).unwrap();
        assert_eq!(exit.end.ended_by, None, "{exit:?}");
        for gone in
            ["a/b/.claude", "c/.git/hooks", ".bashrc", "a/.vscode", "repo/.git/hooks/pre-commit"]
        {
            assert!(at(gone).symlink_metadata().is_err(), "{level} {gone} {:?}", exit.end);
        }
        for (path, text) in [
            ("repo/.git/config", "[core]"),
            ("repo/.git/hooks/old", "old"),
            ("SKILL.md", "# own"),
            ("a/b/result", "kept\n"),
        ] {
            assert_eq!(std::fs::read_to_string(at(path)).unwrap(), text, "{level} {path}");
        }
        for name in [".bashrc", "a/b/.claude", "a/.vscode", "c/.git/hooks"] {
            let path = at(name).display().to_string();
            let is_listed = exit.end.reverted.iter().any(|file| file.path == path);
            assert!(is_listed, "{level} {name} {:?}", exit.end.reverted);
        }
        let repairs = usize::from(level == IsolationLevel::Landlock) * 4;
        assert_eq!(exit.end.reverted.len(), 4 + repairs, "{level} {:?}", exit.end.reverted);
        assert!(pipe.exists() && at("repo/.git/hooks/link").exists());
    }
}

/// A repository that a run creates is complete, except for what git would execute.
#[test]
fn new_repository_remains_without_programs() {
    for level in [IsolationLevel::Namespaces, IsolationLevel::Landlock] {
        let victims = Victims::create();
        let at = |path: &str| victims.path("work").join(path);
        let script = "set -e; for name in good hook setting; do git init -q $name; done; \
            cd good; git config user.name n; git config user.email a@b; echo 1 >f; git add f; \
            git commit -qm first; git worktree add -q ../tree; cd ..; git clone -q good copy; \
            echo evil >hook/.git/hooks/pre-commit; git -C setting config core.fsmonitor evil; \
            git init -q --bare bare; git -C bare config core.fsmonitor evil; \
            mkdir hidden; touch hidden/HEAD hidden/config; mkdir hidden/objects; \
            printf '[core]\n fsmonitor = evil' >hidden/config; echo 'gitdir: hidden' >.git; \
            git init -q other; echo ../../hidden >other/.git/commondir";
        let command = words(&["/bin/sh", "-c", script]);
        let exit = victims.run(&command, victims.policy(), level).unwrap();
        assert_eq!(exit.end.exit_code, Some(0), "{}", String::from_utf8_lossy(&exit.stderr));
        for kept in [
            "good/.git/config",
            "copy/.git/config",
            "good/.git/worktrees/tree/commondir",
            "tree/.git",
        ] {
            assert!(at(kept).exists(), "{level} {kept} {:?}", exit.end.reverted);
        }
        let reverted: Vec<_> = exit.end.reverted.iter().map(|file| file.path.clone()).collect();
        let expected = [
            ".git",
            "bare/config",
            "hidden/config",
            "hook/.git/hooks",
            "other/.git/commondir",
            "setting/.git/config",
        ];
        assert_eq!(reverted, expected.map(|path| at(path).display().to_string()), "{level}");
        assert!(expected.iter().all(|path| !at(path).exists()));
    }
}

/// What is denied and did not exist does not exist afterwards.
#[test]
fn denied_new_file_is_removed() {
    let victims = Victims::create();
    let script = "echo x >.env; echo y >other";
    let mut spec = victims.spec(&words(&["/bin/sh", "-c", script]), victims.policy());
    narrow(&mut spec, &victims, r#"{"filesystem": {"denyWrite": [".env"]}}"#);
    let exit = block_on(launcher().run(spec)).unwrap();
    assert!(!victims.path("work/.env").exists() && victims.path("work/other").exists());
    assert_eq!(exit.end.reverted.len(), 1, "{:?}", exit.end);
}
