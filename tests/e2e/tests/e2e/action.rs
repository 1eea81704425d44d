//! Tests of the shell steps in `action.yml`, run as GitHub's runner does.

use std::fs;
use std::path::Path;
use std::process::Command;

use sha2::{Digest as _, Sha256};
use test_support::{Output, TestHome, binary};

use crate::conventions::GOOD;
use crate::fixtures::repository_root;

/// Returns the script of a step.
fn script_of(step: &str) -> String {
    let text = fs::read_to_string(repository_root().join("action.yml")).unwrap();
    let (_, rest) = text.split_once(&format!("    - name: {step}\n")).unwrap();
    let (_, script) = rest.split_once("      run: |\n").unwrap();
    let lines = script.lines().take_while(|line| !line.starts_with("    - "));
    lines.map(|line| line.strip_prefix("        ").unwrap_or(line).to_owned() + "\n").collect()
}

/// Runs a step with the inputs in the environment. Programs in `bin/` of the home come first.
fn run_step(home: &TestHome, step: &str, inputs: &[(&str, &str)]) -> Output {
    let path = std::env::var("PATH").unwrap();
    let directory = binary().parent().unwrap().display().to_string();
    let mut command = home.command_of(Path::new("/bin/bash"));
    command
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &script_of(step)])
        .env("PATH", format!("{}:{directory}:{path}", home.path("bin").display()))
        .envs(inputs.iter().copied());
    home.start(&mut command).finish()
}

/// Runs the last step of the action.
fn run_action(home: &TestHome, inputs: &[(&str, &str)]) -> Output {
    let defaults = [
        ("SKILLHOST_COMMAND", "validate"),
        ("SKILLHOST_PROFILE", "spec"),
        ("SKILLHOST_FORMAT", "github"),
        ("SKILLHOST_OUTPUT", ""),
    ];
    run_step(home, "Check skills", &[&defaults[..], inputs].concat())
}

/// Runs the step that takes a given program, and returns its output with the directories that it
/// adds to the path.
fn use_given_program(home: &TestHome, binary: &str, sha256: &str) -> (Output, String) {
    let (target, added) = (home.path("target/skillhost"), home.path("added"));
    fs::write(&added, "").unwrap();
    let output = run_step(
        home,
        "Use the given program",
        &[
            ("SKILLHOST_BINARY", binary),
            ("SKILLHOST_SHA256", sha256),
            ("SKILLHOST_TARGET", target.to_str().unwrap()),
            ("GITHUB_PATH", added.to_str().unwrap()),
        ],
    );
    (output, fs::read_to_string(added).unwrap())
}

fn digest_of(path: &Path) -> String {
    let digest = Sha256::digest(fs::read(path).unwrap());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn given_program_is_used_after_verification() {
    if !Path::new("/bin/bash").exists() {
        return;
    }
    let script = "#!/bin/sh\necho given\n";
    let home = TestHome::new().file("-tools/skillhost", script);
    let digest = digest_of(&home.path("-tools/skillhost"));
    let directory = home.path("target/skillhost/given/bin");
    for binary in ["-tools/skillhost", home.path("-tools/skillhost").to_str().unwrap()] {
        let (output, added) = use_given_program(&home, binary, &digest.to_uppercase());
        output.success();
        assert_eq!(added, format!("{}\n", directory.display()));
        let printed = Command::new(directory.join("skillhost")).output().unwrap().stdout;
        assert_eq!(printed, b"given\n");
    }
}

#[test]
fn given_archive_is_unpacked() {
    let home = TestHome::new().file("tree/skillhost-1/bin/skillhost", "#!/bin/sh\necho packed\n");
    let archive = home.path("skillhost-1.tar.gz");
    let mut tar = Command::new("tar");
    tar.args(["-czf"]).arg(&archive).arg("-C").arg(home.path("tree")).arg("skillhost-1");
    if !Path::new("/bin/bash").exists() || !tar.status().is_ok_and(|status| status.success()) {
        return;
    }
    let (output, _) = use_given_program(&home, "skillhost-1.tar.gz", &digest_of(&archive));
    output.success();
    let program = home.path("target/skillhost/given/bin/skillhost");
    assert_eq!(Command::new(program).output().unwrap().stdout, b"packed\n");
}

#[test]
fn unverified_program_is_refused() {
    if !Path::new("/bin/bash").exists() {
        return;
    }
    // A download that happens is recorded.
    let curl = "#!/bin/sh\necho \"$*\" >> \"$HOME/requests\"\nwhile [ \"$1\" != --output ]; do shift; done\n\
                echo program > \"$2\"\n";
    let home = TestHome::new().file("bin/curl", curl).file("skillhost", "other\n");
    let mut command = Command::new("chmod");
    command.arg("+x").arg(home.path("bin/curl")).status().unwrap();
    let url = "https://127.0.0.1/skillhost";
    let zeros = "0".repeat(64);
    let refuse = |binary: &str, sha256: &str, error: &str| {
        let (output, added) = use_given_program(&home, binary, sha256);
        assert!(output.exits(2).stdout.starts_with(&format!("::error::{error}")), "{binary}");
        assert_eq!(added, "", "{binary}");
        let given = home.path("target/skillhost/given");
        assert!(!given.join("bin/skillhost").exists() && !given.join("download").exists());
    };
    let required = "the input binary requires the input sha256";
    refuse(url, "", required);
    refuse("skillhost", "", required);
    refuse(url, &zeros[1..], required);
    refuse(url, &format!("{zeros}\n{zeros}"), required);
    refuse("", &zeros, "the input sha256 requires the input binary");
    for scheme in ["http://127.0.0.1/skillhost", "file:///skillhost"] {
        refuse(scheme, &zeros, "the input binary is neither a path nor an https URL");
    }
    let requests = home.outside().join("user/requests");
    assert!(!requests.exists(), "nothing is downloaded without a digest");
    refuse(
        "skillhost",
        &zeros,
        &format!("the input binary has the SHA-256 digest {}", digest_of(&home.path("skillhost"))),
    );
    refuse(url, &zeros, "the input binary has the SHA-256 digest ");
    let requests = fs::read_to_string(requests).unwrap();
    assert!(requests.contains("--proto =https"), "{requests}");
    assert!(requests.trim_end().ends_with(&format!("-- {url}")), "{requests}");
    let digest =
        Sha256::digest(b"program\n").iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    use_given_program(&home, url, &digest).0.success();
}

#[test]
fn action_annotates_and_fails() {
    if !Path::new("/bin/bash").exists() {
        return;
    }
    let home = TestHome::new().file("a b/beads/SKILL.md", GOOD).file("jars/SKILL.md", GOOD);
    let good = run_action(&home, &[("SKILLHOST_PATHS", "a b/beads")]).success();
    assert_eq!(good.stdout, "1 skill: valid\n");
    let bad = run_action(&home, &[("SKILLHOST_PATHS", "a b\njars\n\n")]).exits(1);
    assert!(bad.stdout.starts_with("::error file=jars/SKILL.md,line=2,col=7,title="), "{bad}");
    let into = [("SKILLHOST_PATHS", "jars"), ("SKILLHOST_OUTPUT", "out.sarif")];
    let written =
        run_action(&home, &[&into[..], &[("SKILLHOST_FORMAT", "sarif")]].concat()).exits(1);
    assert_eq!(written.stdout, "");
    assert!(fs::read_to_string(home.path("out.sarif")).unwrap().contains("\"2.1.0\""));
}

#[test]
fn action_inputs_are_not_executed() {
    let text = fs::read_to_string(repository_root().join("action.yml")).unwrap();
    let mut in_script = false;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        in_script = (in_script && (indent > 6 || line.is_empty())) || line.trim() == "run: |";
        assert!(!in_script || !line.contains("${{"), "{line}");
    }
    if !Path::new("/bin/bash").exists() {
        return;
    }
    let home = TestHome::new().file("beads/SKILL.md", GOOD);
    let evil = "x; touch pwned #$(touch pwned)`touch pwned`\" || touch pwned\n--help";
    run_action(&home, &[("SKILLHOST_PATHS", evil)]).exits(3);
    for command in [evil, "fmt", "lint --fix"] {
        let inputs = [("SKILLHOST_PATHS", "beads"), ("SKILLHOST_COMMAND", command)];
        let denied = run_action(&home, &inputs).exits(2);
        let error = "::error::the input command is neither validate nor lint\n";
        assert_eq!((&*denied.stdout, &*denied.stderr), (error, ""));
    }
    for input in ["SKILLHOST_PROFILE", "SKILLHOST_FORMAT"] {
        let denied = run_action(&home, &[("SKILLHOST_PATHS", "beads"), (input, evil)]).exits(2);
        assert!(!denied.stdout.contains("Usage"), "{denied}");
    }
    let mut names: Vec<_> =
        fs::read_dir(home.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["beads", "sandbox"]);
}

#[test]
fn action_scripts_parse_as_shell() {
    let text = fs::read_to_string(repository_root().join("action.yml")).unwrap();
    for script in text.split("      run: |\n").skip(1) {
        let script: Vec<&str> =
            script.lines().take_while(|line| line.starts_with("        ")).collect();
        let Ok(checked) = Command::new("bash").args(["-n", "-c", &script.join("\n")]).output()
        else {
            return;
        };
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}
