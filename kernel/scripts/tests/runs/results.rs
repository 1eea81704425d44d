//! What scripts see and what their results contain.

use std::fs;
use std::process::Command;

use skillhost_files::sha256_hex;
use test_support::can_isolate;

use crate::fixture::{SkillFixture, has_program};

#[tokio::test]
async fn python_script_works_with_siblings_and_files() {
    if !can_isolate() || !has_program("python3") {
        return;
    }
    let main = "import sys, os, tempfile, subprocess, helper
data = open(os.path.join(os.environ['SKILL_DIR'], 'assets/in.txt')).read()
with tempfile.NamedTemporaryFile('w+') as f: f.write(data); f.flush()
open('out.txt', 'w').write(helper.twice(data))
print(sys.argv[1:], subprocess.run(['cat', 'out.txt'], capture_output=True, text=True).stdout)
print(os.path.dirname(os.path.abspath(__file__)).split(os.sep)[-2:], file=sys.stderr)
";
    let skill = SkillFixture::new(&[
        ("scripts/main.py", main),
        ("scripts/helper.py", "def twice(text): return text * 2\n"),
        ("assets/in.txt", "ab"),
    ]);
    let result = skill.run("scripts/main.py", &["a b", "$HOME; rm -rf /"]).await;
    assert_eq!((result.exit_code, result.ended_by), (Some(0), None), "{}", result.stderr);
    assert_eq!(result.stdout, "['a b', '$HOME; rm -rf /'] abab\n");
    assert_eq!(result.stderr, "['demo', 'scripts']\n");
    assert_eq!(result.digest, skill.tree().digest);
    let [file] = result.files.as_slice() else { panic!("{:?}", result.files) };
    assert_eq!((&*file.path, file.bytes), ("out.txt", 4));
    assert_eq!(file.sha256.as_deref(), Some(&*sha256_hex(b"abab")));
    assert_eq!(fs::read_to_string(skill.work().join("out.txt")).unwrap(), "abab");
    assert!(!skill.root().join("scripts/__pycache__").exists());
}

#[tokio::test]
async fn shell_and_perl_scripts_run() {
    if !can_isolate() || !has_program("bash") {
        return;
    }
    let skill = SkillFixture::new(&[
        ("scripts/pipe.sh", "printf 'b\\na\\n' | sort | tr '\\n' ' '; echo \"$TMPDIR\"; exit 3\n"),
        ("tool", "#!/usr/bin/env bash\r\necho unreachable\n"),
        ("plain", "#!/bin/sh\necho \"$1\"\n"),
        ("p.pl", "use strict; print join(',', map { $_ * 2 } @ARGV), \"\\n\";\n"),
    ]);
    let result = skill.run("scripts/pipe.sh", &[]).await;
    assert_eq!((&*result.stdout, result.exit_code), ("a b @scratch/tmp\n", Some(3)));
    assert!(result.to_tool_output().is_error);
    assert_eq!(skill.run("./plain", &["x"]).await.stdout, "x\n");
    assert_eq!(skill.run("p.pl", &["1", "2"]).await.stdout, "2,4\n");
    let error = skill.plan("tool", &[]).unwrap_err();
    assert!(error.message.contains("CRLF"), "{}", error.message);
}

#[tokio::test]
async fn crlf_python_shebang_runs() {
    if !can_isolate() || !has_program("python3") {
        return;
    }
    let skill = SkillFixture::new(&[("run", "#!/usr/bin/env python3\r\nprint('fine')\r\n")]);
    assert_eq!(skill.run("run", &[]).await.stdout, "fine\n");
}

#[tokio::test]
async fn node_scripts_of_each_kind_run() {
    if !can_isolate() || !has_program("node") {
        return;
    }
    let skill = SkillFixture::new(&[
        ("a.js", "console.log(require('./b.cjs').value, process.argv[2])\n"),
        ("b.cjs", "exports.value = 7\n"),
        (
            "c.mjs",
            "import { readFileSync } from 'node:fs'; import v from './d.mjs';\n\
                   console.log(v, readFileSync(new URL('SKILL.md', import.meta.url)).length > 3)\n",
        ),
        ("d.mjs", "export default 9\n"),
    ]);
    assert_eq!(skill.run("a.js", &["x"]).await.stdout, "7 x\n");
    assert_eq!(skill.run("c.mjs", &[]).await.stdout, "9 true\n");
}

#[tokio::test]
async fn git_works_in_work_directory() {
    if !can_isolate() || !has_program("git") || !has_program("bash") {
        return;
    }
    let skill = SkillFixture::new(&[("log.sh", "git log --format=%s && git status --short\n")]);
    let git = |arguments: &[&str]| {
        let done = Command::new("git")
            .args(["-c", "user.name=A", "-c", "user.email=a@example.org"])
            .args(arguments)
            .current_dir(skill.work())
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    git(&["init", "-q"]);
    fs::write(skill.work().join("a"), "1").unwrap();
    git(&["add", "a"]);
    git(&["commit", "-qm", "first"]);
    fs::write(skill.work().join("b"), "2").unwrap();
    let result = skill.run("log.sh", &[]).await;
    assert_eq!(result.stdout, "first\n?? b\n", "{}", result.stderr);
}

#[tokio::test]
async fn variables_and_workdir_reach_script() {
    if !can_isolate() || !has_program("bash") {
        return;
    }
    let mut skill = SkillFixture::new(&[(
        "scripts/a.sh",
        "echo \"$A $PWD $HOME\"; env | cut -d= -f1 | sort\n",
    )]);
    skill.variables.insert("A".into(), "b c".into());
    skill.workdir = "sub/dir".into();
    let result = skill.run("scripts/a.sh", &[]).await;
    let work = skill.work().join("sub/dir");
    assert!(result.stdout.starts_with(&format!("b c {} @scratch/home\n", work.display())));
    let names: Vec<_> = result.stdout.lines().skip(1).collect();
    for name in ["SKILLHOST_HOME", "CARGO", "OPENAI_API_KEY", "SSH_AUTH_SOCK", "PYTHONPATH"] {
        assert!(!names.contains(&name), "{name} in {names:?}");
    }
    skill.workdir = "@skill/scripts".into();
    let result = skill.run("scripts/a.sh", &[]).await;
    assert!(result.stdout.starts_with("b c @skill/scripts "), "{}", result.stdout);
}

#[tokio::test]
async fn binary_output_is_marked() {
    if !can_isolate() || !has_program("bash") {
        return;
    }
    let skill = SkillFixture::new(&[("a.sh", "head -c 300 /dev/zero; printf '\\033[2Jred' >&2\n")]);
    let result = skill.run("a.sh", &[]).await;
    assert!(result.stdout.starts_with("[300 bytes that are not text, as base64]\nAAAA"));
    assert_eq!(result.stderr, "\\u{1b}[2Jred");
}

#[tokio::test]
async fn script_reads_given_input() {
    if !can_isolate() || !has_program("bash") {
        return;
    }
    let script = "IFS= read -r first; echo \"$first\"; tail -c 3; test -p /dev/fd/0 && echo pipe";
    let skill = SkillFixture::new(&[("a.sh", script), ("ignore.sh", "exit 3")]);
    let input = skill.work().join("in.txt");
    // More than a pipe holds.
    fs::write(&input, format!("one\n{}end", "x".repeat(300 << 10))).unwrap();
    let open = || {
        let options = fs::OpenOptions::new().read(true).write(true).open(&input);
        Some(options.unwrap())
    };
    let result = skill.run_with_input("a.sh", open()).await;
    assert_eq!((&*result.stdout, &*result.raw_stdout), ("one\nendpipe\n", &b"one\nendpipe\n"[..]));
    assert_eq!(skill.run_with_input("ignore.sh", open()).await.exit_code, Some(3));
    let empty = skill.run("a.sh", &[]).await;
    assert_eq!(empty.stdout, "\n", "{}", empty.stderr);
}

/// The modules of a package name each other with the package, as with `python -m`.
#[tokio::test]
async fn python_script_imports_its_package() {
    if !can_isolate() || !has_program("python3") {
        return;
    }
    let skill = SkillFixture::new(&[
        ("tools/inner/main.py", "from tools.shared import value\nimport json\nprint(value)\n"),
        ("tools/inner/__init__.py", ""),
        ("tools/__init__.py", ""),
        ("tools/shared.py", "value = 'of the package'\n"),
        ("json.py", "raise SystemExit('not the library')\n"),
        ("plain/main.py", "import json, sys; print(json.dumps(sys.path[0].split('/')[-1]))\n"),
    ]);
    let result = skill.run("plain/main.py", &[]).await;
    assert_eq!(result.stdout, "\"plain\"\n", "{}", result.stderr);
    let result = skill.run("tools/inner/main.py", &[]).await;
    // As with `python -m` in the root of the skill, its modules come first.
    assert_eq!((result.exit_code, &*result.stderr), (Some(1), "not the library\n"));
    fs::remove_file(skill.root().join("json.py")).unwrap();
    let result = skill.run("tools/inner/main.py", &[]).await;
    assert_eq!(result.stdout, "of the package\n", "{}", result.stderr);
}

/// A shell script starts the same python as a Python script, with its packages.
#[tokio::test]
async fn shell_script_starts_same_python() {
    if !can_isolate() || !has_program("python3") || !has_program("bash") {
        return;
    }
    let print = "import sys; print(sys.executable, sys.prefix)";
    let skill = SkillFixture::new(&[
        ("a.py", print),
        ("a.sh", &format!("python3 -c '{print}'\n")),
        ("b.sh", "echo $PATH\n"),
    ]);
    let direct = skill.run("a.py", &[]).await;
    let from_shell = skill.run("a.sh", &[]).await;
    let prefix = |text: &str| text.trim_end().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(prefix(&from_shell.stdout), prefix(&direct.stdout), "{}", from_shell.stderr);
    let without = skill.run("b.sh", &[]).await;
    assert!(without.stdout.starts_with("/usr/local/bin:"), "{}", without.stdout);
}
