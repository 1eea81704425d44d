//! Tests of invalid SKILL.md files: each is reported, and no other skill is affected.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use test_support::TestHome;

use crate::fixtures::{agent_manifest, home, run_as_reader};

/// Creates a home with one invalid skill of each kind next to the valid skill `greet`.
fn bad_skills_home() -> TestHome {
    let mut laughs = String::from("---\ndescription: Laughs.\nl0: &l0 [ha, ha]\n");
    for level in 1..40 {
        laughs.push_str(&format!("l{level}: &l{level} [*l{0}, *l{0}]\n", level - 1));
    }
    laughs.push_str("---\nBody.\n");
    let home = home()
        .skill("alias-bomb", &laughs)
        .skill("brackets", &"[".repeat(1 << 20))
        .skill("brackets-inside", &format!("---\ndescription: {}\n---\n", "[".repeat(60_000)))
        .skill("empty", "")
        .skill("no-frontmatter", "# A heading\n")
        .skill("no-end", "---\ndescription: Never ends.\n")
        .skill("too-long", &format!("---\ndescription: Long.\n---\n{}", "x".repeat(1 << 20)))
        .file("sandbox/skills/not-utf8/SKILL.md", b"---\ndescription: Caf\xe9.\n---\nBody.\n");
    let skills = home.path("sandbox/skills");
    for id in ["pipe", "folder", "link", "link-out", "sparse", "dangling"] {
        fs::create_dir(skills.join(id)).unwrap();
    }
    rustix::fs::mknodat(
        rustix::fs::CWD,
        skills.join("pipe/SKILL.md"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    fs::create_dir(skills.join("folder/SKILL.md")).unwrap();
    symlink("../greet/SKILL.md", skills.join("link/SKILL.md")).unwrap();
    symlink("/etc/passwd", skills.join("link-out/SKILL.md")).unwrap();
    symlink("nowhere", skills.join("dangling/SKILL.md")).unwrap();
    fs::File::create(skills.join("sparse/SKILL.md")).unwrap().set_len(10 << 30).unwrap();
    home
}

#[test]
fn list_reports_each_invalid_skill() {
    insta::assert_snapshot!(bad_skills_home().skillhost(["skill", "list"]), @"
    exit 0
    --- stdout
    alias-bomb       Laughs. [~2 tokens, sandbox]
    brackets-inside  [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[… [~0 tokens, sandbox]
    greet            Greets people. Use when somebody arrives. [~5 tokens, sandbox]
    --- stderr
    note: skipped [HOME]/sandbox/skills/brackets/SKILL.md: 1:1: error[frontmatter.missing]: the file does not start with `---`
    note: skipped [HOME]/sandbox/skills/dangling/SKILL.md: error[file.symlink]: it is a symbolic link, not a regular file
    note: skipped [HOME]/sandbox/skills/empty/SKILL.md: error[frontmatter.missing]: the file is empty
    note: skipped [HOME]/sandbox/skills/folder/SKILL.md: error[file.notRegular]: it is a directory, not a regular file
    note: skipped [HOME]/sandbox/skills/link/SKILL.md: error[file.symlink]: it is a symbolic link, not a regular file
    note: skipped [HOME]/sandbox/skills/link-out/SKILL.md: error[file.symlink]: it is a symbolic link, not a regular file
    note: skipped [HOME]/sandbox/skills/no-end/SKILL.md: 1:1: error[frontmatter.unclosed]: the frontmatter has no closing line `---`
    note: skipped [HOME]/sandbox/skills/no-frontmatter/SKILL.md: 1:1: error[frontmatter.missing]: the file does not start with `---`
    note: skipped [HOME]/sandbox/skills/not-utf8/SKILL.md: 2: error[file.encoding]: invalid UTF-8 at byte 20
    note: skipped [HOME]/sandbox/skills/pipe/SKILL.md: error[file.notRegular]: it is a FIFO, not a regular file
    note: skipped [HOME]/sandbox/skills/sparse/SKILL.md: error[file.size]: the file has 10737418240 bytes, at most 1048576 are read
    note: skipped [HOME]/sandbox/skills/too-long/SKILL.md: error[file.size]: the file has 1048603 bytes, at most 1048576 are read
    note: 105 warnings; `skillhost skill show ID` prints those of a skill
    ");
}

#[test]
fn kernel_serves_valid_skills() {
    let home = bad_skills_home()
        .manifest("greeter", &agent_manifest("greeter", "  uses_skills: [greet]\n"));
    let listed = home.skillhost(["tool", "call", "list_skills"]).success();
    insta::assert_snapshot!(listed.stdout, @"
    3 skills
    • `alias-bomb` — Laughs. [~2 tokens; sandbox]
    • `brackets-inside` — [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[… [~0 tokens; sandbox]
    • `greet` — Greets people. Use when somebody arrives. [~5 tokens; sandbox]
    ");
    let output = home.skillhost(["ask", "--print-prompt", "--agent", "greeter", "hi"]).success();
    insta::assert_snapshot!(output.stdout, @r#"
    <skill_content name="greet" digest="bac4baef64d29c6de0616a12b9b6e43eb74078226f01be2df8d4cad99799224c">
    Say hello to them.
    </skill_content>

    ---

    <available_skills>
    [Available Skills]
    • `greet` — Greets people. Use when somebody arrives.

    Use read_skill(skill_id) to load full instructions.
    </available_skills>
    You MUST load a skill, with skills.load or read_skill, before you use its instructions, files or scripts.
    "#);
    // The log names each omitted skill once.
    for id in ["brackets", "dangling", "folder", "link-out", "not-utf8", "pipe", "sparse"] {
        let path = format!("[HOME]/sandbox/skills/{id}/SKILL.md");
        assert_eq!(output.stderr.matches(&path).count(), 1, "{id}: {output}");
    }
    home.skillhost(["ext", "doctor"]).success();
}

#[test]
fn read_of_invalid_skill_gives_reason() {
    let home = bad_skills_home();
    for id in ["pipe", "folder", "link", "sparse", "brackets", "not-utf8", "empty", "no-end"] {
        let output = home.skillhost(["skill", "read", id]).exits(3);
        assert!(output.stderr.contains(id), "{output}");
    }
    insta::assert_snapshot!(home.skillhost(["skill", "read", "pipe"]), @"
    exit 3
    --- stderr
    error: the skill `pipe` is left out: it is a FIFO, not a regular file
    hint: replace it with a regular file
    ");
    insta::assert_snapshot!(home.skillhost(["skill", "show", "not-utf8"]), @"
    exit 3
    --- stderr
    error: the skill `not-utf8` is left out: invalid UTF-8 at byte 20
    hint: save the file as UTF-8
    ");
    let bomb = home.skillhost(["skill", "show", "alias-bomb"]).success();
    assert!(bomb.stdout.len() < 16_384, "{} bytes", bomb.stdout.len());
    assert!(bomb.stdout.contains("more findings are left out"), "{bomb}");
}

#[test]
fn json_problems_have_rule_and_position() {
    let listed = bad_skills_home().skillhost(["skill", "list", "--json"]).success().json();
    let problems = listed["problems"].as_array().unwrap();
    let mut rows: Vec<String> = problems
        .iter()
        .map(|one| {
            let place = format!("{}:{}", one["line"], one["column"]);
            format!("{} {} {place} {}", one["skill"], one["rule"], one["severity"]).replace('"', "")
        })
        .collect();
    // The alias bomb has many findings; the snapshot contains only one.
    let bombs = rows.extract_if(.., |row| row.starts_with("alias-bomb frontmatter.")).count();
    assert_eq!(bombs, 100);
    insta::assert_snapshot!(rows.join("\n"), @"
    alias-bomb file.moreFindings 0:0 note
    brackets frontmatter.missing 1:1 error
    brackets-inside name.required 1:0 warning
    brackets-inside description.maxLength 2:14 warning
    brackets-inside frontmatter.recovered 2:269 warning
    dangling file.symlink 0:0 error
    empty frontmatter.missing 0:0 error
    folder file.notRegular 0:0 error
    greet name.required 1:0 warning
    link file.symlink 0:0 error
    link-out file.symlink 0:0 error
    no-end frontmatter.unclosed 1:1 error
    no-frontmatter frontmatter.missing 1:1 error
    not-utf8 file.encoding 2:0 error
    pipe file.notRegular 0:0 error
    sparse file.size 0:0 error
    too-long file.size 0:0 error
    ");
}

#[test]
fn unreadable_skill_is_reported() {
    let home = home().skill("closed", "---\ndescription: Closed.\n---\nBody.\n");
    let path = home.path("sandbox/skills/closed/SKILL.md");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    insta::assert_snapshot!(run_as_reader(&home, &["skill", "list"]), @"
    exit 0
    --- stdout
    greet  Greets people. Use when somebody arrives. [~5 tokens, sandbox]
    --- stderr
    note: skipped [HOME]/sandbox/skills/closed/SKILL.md: error[file.unreadable]: it cannot be read: Permission denied (os error 13)
    note: 1 warning; `skillhost skill show ID` prints those of a skill
    ");
    insta::assert_snapshot!(run_as_reader(&home, &["skill", "read", "closed"]), @"
    exit 3
    --- stderr
    error: the skill `closed` is left out: it cannot be read: Permission denied (os error 13)
    hint: give the process permission to read it
    ");
    run_as_reader(&home, &["skill", "read", "greet"]).success();
}
