//! SKILL.md files that cannot be used: each is named, and no other skill is affected.

use std::fs;
use std::os::unix::fs::symlink;

use test_support::TestHome;

use crate::scene::{agent, home};

/// One of each, beside the good skill `greet`.
fn scene() -> TestHome {
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
fn each_is_named_with_what_is_wrong_and_the_good_one_is_listed() {
    insta::assert_snapshot!(scene().skillhost(["skill", "list"]), @"
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
fn the_kernel_serves_the_good_ones() {
    let home = scene().manifest("greeter", &agent("greeter", "  uses_skills: [greet]\n"));
    let listed = home.skillhost(["tool", "call", "list_skills"]).success();
    insta::assert_snapshot!(listed.stdout, @"
    3 skills
    • `alias-bomb` — Laughs. [~2 tokens; sandbox]
    • `brackets-inside` — [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[… [~0 tokens; sandbox]
    • `greet` — Greets people. Use when somebody arrives. [~5 tokens; sandbox]
    ");
    insta::assert_snapshot!(home.skillhost(["ask", "--print-prompt", "--agent", "greeter", "hi"]), @r#"
    exit 0
    --- stdout
    <skill_content name="greet" digest="bac4baef64d29c6de0616a12b9b6e43eb74078226f01be2df8d4cad99799224c">
    Say hello to them.
    </skill_content>

    ---

    [Available Skills]
    • `alias-bomb` — Laughs.
    • `brackets-inside` — [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[…
    • `greet` — Greets people. Use when somebody arrives.

    Use read_skill(skill_id) to load full instructions.
    "#);
    home.skillhost(["ext", "doctor"]).success();
}

#[test]
fn reading_one_says_why_it_is_not_there() {
    let home = scene();
    for id in ["pipe", "folder", "link", "sparse", "brackets", "not-utf8", "empty", "no-end"] {
        let output = home.skillhost(["skill", "read", id]).exits(3);
        assert!(output.stderr.contains(id), "{output}");
    }
    insta::assert_snapshot!(home.skillhost(["skill", "read", "pipe"]), @"
    exit 3
    --- stderr
    error: there is no skill `pipe`
    hint: list_skills shows what there is
    ");
    insta::assert_snapshot!(home.skillhost(["skill", "show", "not-utf8"]), @"
    exit 3
    --- stderr
    error: there is no skill `not-utf8`
    hint: list_skills shows what there is
    ");
    let bomb = home.skillhost(["skill", "show", "alias-bomb"]).success();
    assert!(bomb.stdout.len() < 16_384, "{} bytes", bomb.stdout.len());
    assert!(bomb.stdout.contains("more findings are left out"), "{bomb}");
}

#[test]
fn every_problem_is_in_the_json_with_rule_and_place() {
    let listed = scene().skillhost(["skill", "list", "--json"]).success().json();
    let problems = listed["problems"].as_array().unwrap();
    let mut rows: Vec<String> = problems
        .iter()
        .map(|one| {
            let place = format!("{}:{}", one["line"], one["column"]);
            format!("{} {} {place} {}", one["skill"], one["rule"], one["severity"]).replace('"', "")
        })
        .collect();
    // One of the bomb's many.
    let bombs = rows.extract_if(.., |row| row.starts_with("alias-bomb frontmatter.")).count();
    assert_eq!(bombs, 100);
    insta::assert_snapshot!(rows.join("\n"), @"
    alias-bomb frontmatter.anchor 3:5 skipped=false
    alias-bomb frontmatter.anchor 4:5 skipped=false
    alias-bomb frontmatter.alias 4:10 skipped=false
    alias-bomb frontmatter.alias 4:15 skipped=false
    alias-bomb frontmatter.anchor 5:5 skipped=false
    alias-bomb frontmatter.alias 5:10 skipped=false
    alias-bomb frontmatter.alias 5:15 skipped=false
    alias-bomb frontmatter.anchor 6:5 skipped=false
    alias-bomb frontmatter.alias 6:10 skipped=false
    alias-bomb frontmatter.alias 6:15 skipped=false
    alias-bomb frontmatter.anchor 7:5 skipped=false
    alias-bomb frontmatter.alias 7:10 skipped=false
    alias-bomb frontmatter.alias 7:15 skipped=false
    alias-bomb frontmatter.anchor 8:5 skipped=false
    alias-bomb frontmatter.alias 8:10 skipped=false
    alias-bomb frontmatter.alias 8:15 skipped=false
    alias-bomb frontmatter.anchor 9:5 skipped=false
    alias-bomb frontmatter.alias 9:10 skipped=false
    alias-bomb frontmatter.alias 9:15 skipped=false
    alias-bomb frontmatter.anchor 10:5 skipped=false
    alias-bomb frontmatter.alias 10:10 skipped=false
    alias-bomb frontmatter.alias 10:15 skipped=false
    alias-bomb frontmatter.anchor 11:5 skipped=false
    alias-bomb frontmatter.alias 11:10 skipped=false
    alias-bomb frontmatter.alias 11:15 skipped=false
    alias-bomb frontmatter.anchor 12:5 skipped=false
    alias-bomb frontmatter.alias 12:10 skipped=false
    alias-bomb frontmatter.alias 12:15 skipped=false
    alias-bomb frontmatter.anchor 13:6 skipped=false
    alias-bomb frontmatter.alias 13:12 skipped=false
    alias-bomb frontmatter.alias 13:17 skipped=false
    alias-bomb frontmatter.anchor 14:6 skipped=false
    alias-bomb frontmatter.alias 14:12 skipped=false
    alias-bomb frontmatter.alias 14:18 skipped=false
    alias-bomb frontmatter.anchor 15:6 skipped=false
    alias-bomb frontmatter.alias 15:12 skipped=false
    alias-bomb frontmatter.alias 15:18 skipped=false
    alias-bomb frontmatter.anchor 16:6 skipped=false
    alias-bomb frontmatter.alias 16:12 skipped=false
    alias-bomb frontmatter.alias 16:18 skipped=false
    alias-bomb frontmatter.anchor 17:6 skipped=false
    alias-bomb frontmatter.alias 17:12 skipped=false
    alias-bomb frontmatter.alias 17:18 skipped=false
    alias-bomb frontmatter.anchor 18:6 skipped=false
    alias-bomb frontmatter.alias 18:12 skipped=false
    alias-bomb frontmatter.alias 18:18 skipped=false
    alias-bomb frontmatter.anchor 19:6 skipped=false
    alias-bomb frontmatter.alias 19:12 skipped=false
    alias-bomb frontmatter.alias 19:18 skipped=false
    alias-bomb frontmatter.anchor 20:6 skipped=false
    alias-bomb frontmatter.alias 20:12 skipped=false
    alias-bomb frontmatter.alias 20:18 skipped=false
    alias-bomb frontmatter.anchor 21:6 skipped=false
    alias-bomb frontmatter.alias 21:12 skipped=false
    alias-bomb frontmatter.alias 21:18 skipped=false
    alias-bomb frontmatter.anchor 22:6 skipped=false
    alias-bomb frontmatter.alias 22:12 skipped=false
    alias-bomb frontmatter.alias 22:18 skipped=false
    alias-bomb frontmatter.anchor 23:6 skipped=false
    alias-bomb frontmatter.alias 23:12 skipped=false
    alias-bomb frontmatter.alias 23:18 skipped=false
    alias-bomb frontmatter.anchor 24:6 skipped=false
    alias-bomb frontmatter.alias 24:12 skipped=false
    alias-bomb frontmatter.alias 24:18 skipped=false
    alias-bomb frontmatter.anchor 25:6 skipped=false
    alias-bomb frontmatter.alias 25:12 skipped=false
    alias-bomb frontmatter.alias 25:18 skipped=false
    alias-bomb frontmatter.anchor 26:6 skipped=false
    alias-bomb frontmatter.alias 26:12 skipped=false
    alias-bomb frontmatter.alias 26:18 skipped=false
    alias-bomb frontmatter.anchor 27:6 skipped=false
    alias-bomb frontmatter.alias 27:12 skipped=false
    alias-bomb frontmatter.alias 27:18 skipped=false
    alias-bomb frontmatter.anchor 28:6 skipped=false
    alias-bomb frontmatter.alias 28:12 skipped=false
    alias-bomb frontmatter.alias 28:18 skipped=false
    alias-bomb frontmatter.anchor 29:6 skipped=false
    alias-bomb frontmatter.alias 29:12 skipped=false
    alias-bomb frontmatter.alias 29:18 skipped=false
    alias-bomb frontmatter.anchor 30:6 skipped=false
    alias-bomb frontmatter.alias 30:12 skipped=false
    alias-bomb frontmatter.alias 30:18 skipped=false
    alias-bomb frontmatter.anchor 31:6 skipped=false
    alias-bomb frontmatter.alias 31:12 skipped=false
    alias-bomb frontmatter.alias 31:18 skipped=false
    alias-bomb frontmatter.anchor 32:6 skipped=false
    alias-bomb frontmatter.alias 32:12 skipped=false
    alias-bomb frontmatter.alias 32:18 skipped=false
    alias-bomb frontmatter.anchor 33:6 skipped=false
    alias-bomb frontmatter.alias 33:12 skipped=false
    alias-bomb frontmatter.alias 33:18 skipped=false
    alias-bomb frontmatter.anchor 34:6 skipped=false
    alias-bomb frontmatter.alias 34:12 skipped=false
    alias-bomb frontmatter.alias 34:18 skipped=false
    alias-bomb frontmatter.anchor 35:6 skipped=false
    alias-bomb frontmatter.alias 35:12 skipped=false
    alias-bomb frontmatter.alias 35:18 skipped=false
    alias-bomb frontmatter.anchor 36:6 skipped=false
    alias-bomb frontmatter.alias 36:12 skipped=false
    alias-bomb frontmatter.alias 36:18 skipped=false
    alias-bomb file.moreFindings 0:0 skipped=false
    brackets frontmatter.missing 1:1 skipped=true
    brackets-inside name.required 1:0 skipped=false
    brackets-inside description.maxLength 2:14 skipped=false
    brackets-inside frontmatter.recovered 2:269 skipped=false
    dangling file.symlink 0:0 skipped=true
    empty frontmatter.missing 0:0 skipped=true
    folder file.notRegular 0:0 skipped=true
    greet name.required 1:0 skipped=false
    link file.symlink 0:0 skipped=true
    link-out file.symlink 0:0 skipped=true
    no-end frontmatter.unclosed 1:1 skipped=true
    no-frontmatter frontmatter.missing 1:1 skipped=true
    not-utf8 file.encoding 2:0 skipped=true
    pipe file.notRegular 0:0 skipped=true
    sparse file.size 0:0 skipped=true
    too-long file.size 0:0 skipped=true
    ");
}

#[test]
fn a_skill_that_may_not_be_read_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    if rustix::process::geteuid().is_root() {
        // Nothing is unreadable for root; extensions/skill_registry/store tests what the scan does.
        return;
    }
    let home = home();
    let path = home.path("sandbox/skills/greet/SKILL.md");
    fs::set_permissions(&path, fs::Permissions::from_mode(0)).unwrap();
    let output = home.skillhost(["skill", "list"]).success();
    assert!(output.stderr.contains("greet/SKILL.md"), "{output}");
}
