//! Tests of `skillhost skill render`: a skill as a page in the terminal.

use test_support::{Output, TestHome};

use crate::fixtures::{skill_md, stable_json};

const BODY: &str = r#"---
name: demo
description: Shows what a page can hold, *stars* included, and is long enough to be wrapped.
---
# Brewing tea

Boil **fresh** water, *not* stale, with `kettle --on` as [the guide](references/GUIDE.md) says.

## Steps
1. Warm the pot:

   ```sh
   kettle --on --temperature 95 && pour --into pot --until warm --then empty
   ```

2. 茶葉を一杯ずつ入れて、お湯を注ぎ、三分から五分ほど待ってから注ぎます。
   - one spoon each

> Never use the same leaves twice, whatever anybody says about it.

| tea | minutes |
|:----|--------:|
| 緑茶 | 2 |
| Assam, which is strong and takes some time | 5 |

2 * 3 = 6 &#27;[31m
"#;

fn demo_home() -> TestHome {
    TestHome::new().file("demo/SKILL.md", BODY)
}

fn render_colored(home: &TestHome, more: &[(&str, &str)]) -> Output {
    let mut command = home.command();
    command.env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1").envs(more.iter().copied());
    home.start(command.args(["skill", "render", "demo", "--width", "48"])).finish()
}

#[test]
fn render_fits_width() {
    insta::assert_snapshot!(demo_home().skillhost(["skill", "render", "demo", "--width", "48"]), @r"
    exit 0
    --- stdout
    demo
    ● Verifier #2E5FA3, approx. 120 tokens
    Shows what a page can hold, *stars* included,
    and is long enough to be wrapped.
    ────────────────────────────────────────────────
    # Brewing tea

    Boil fresh water, not stale, with kettle --on as
    the guide (references/GUIDE.md) says.

    ## Steps

    1. Warm the pot:
          kettle --on --temperature 95 && pour
        --into pot --until warm --then empty
    2. 茶葉を一杯ずつ入れて、お湯を注ぎ、三分から五
       分ほど待ってから注ぎます。
      • one spoon each

    ▐ Never use the same leaves twice, whatever
    ▐ anybody says about it.

    │                 tea                  │minutes│
    ├──────────────────────────────────────┼───────┤
    │緑茶                                  │      2│
    │Assam, which is strong and takes some │      5│
    │time                                  │       │

    2 * 3 = 6 \u{1b}[31m
    ");
}

#[test]
fn colors_follow_role() {
    let home = demo_home();
    let page = render_colored(&home, &[]).success();
    insta::assert_snapshot!(page.stdout.replace('\u{1b}', "^"), @r"
    ^[1m^[38;5;25mdemo^[0m
    ^[38;5;25m● Verifier #2E5FA3, approx. 120 tokens^[0m
    ^[2mShows what a page can hold, *stars* included,^[0m
    ^[2mand is long enough to be wrapped.^[0m
    ^[38;5;25m────────────────────────────────────────────────^[0m
    ^[38;5;25m^[1m^[4mBrewing tea^[0m

    Boil ^[1mfresh^[0m water, ^[3mnot^[0m stale, with ^[38;5;25mkettle --on^[39m as
    the guide (references/GUIDE.md) says.

    ^[38;5;25m^[4mSteps^[0m

    1^[38;5;244m.^[39m Warm the pot:
          kettle --on --temperature 95 && pour
        --into pot --until warm --then empty
    2^[38;5;244m.^[39m 茶葉を一杯ずつ入れて、お湯を注ぎ、三分から五
       分ほど待ってから注ぎます。
      ^[38;5;25m•^[39m one spoon each

    ^[38;5;25m▌^[39m Never use the same leaves twice, whatever
    ^[38;5;25m▌^[39m anybody says about it.

    ^[38;5;239m│^[39m                 tea                  ^[38;5;239m│^[39mminutes^[38;5;239m│^[39m
    ^[38;5;239m├^[39m^[38;5;239m──────────────────────────────────────^[39m^[38;5;239m┼^[39m^[38;5;239m───────^[39m^[38;5;239m┤^[39m
    ^[38;5;239m│^[39m緑茶                                  ^[38;5;239m│^[39m      2^[38;5;239m│^[39m
    ^[38;5;239m│^[39mAssam, which is strong and takes some ^[38;5;239m│^[39m      5^[38;5;239m│^[39m
    ^[38;5;239m│^[39mtime                                  ^[38;5;239m│^[39m       ^[38;5;239m│^[39m

    2 * 3 = 6 \u{1b}[31m
    ");
    let plain = home.skillhost(["skill", "render", "demo", "--width", "48"]).stdout;
    assert!(!plain.contains('\u{1b}'));
    assert_eq!(render_colored(&home, &[("NO_COLOR", "1")]).stdout, plain);
    let many = render_colored(&home, &[("COLORTERM", "truecolor")]).stdout;
    assert!(many.contains("\u{1b}[38;2;46;95;163m") && !many.contains("[38;5;25m"), "{many}");
}

#[test]
fn untrusted_text_is_escaped() {
    let text =
        "---\nname: \"a\\e]0;x\"\ndescription: \"\\e[2J\u{202e}b\"\n---\n\u{1b}[31mred `\u{9b}`\n";
    let home = TestHome::new().file("demo/SKILL.md", text);
    let steers = |c: char| c == '\u{9b}' || c == '\u{202e}' || c == '\u{7}';
    let plain = home.skillhost(["skill", "render", "demo"]).success().stdout;
    assert!(!plain.contains(steers) && !plain.contains('\u{1b}'), "{plain:?}");
    for expected in ["a\\u{1b}]0;x", "\\u{1b}[2J\\u{202e}b", "\\u{1b}[31mred \\u{9b}"] {
        assert!(plain.contains(expected), "{plain}");
    }
    let render_colored = render_colored(&home, &[]).stdout;
    assert!(!render_colored.contains(steers), "{render_colored:?}");
    for code in render_colored.split('\u{1b}').skip(1) {
        let digits = code.strip_prefix('[').and_then(|code| code.split_once('m')).unwrap().0;
        assert!(digits.chars().all(|c| c.is_ascii_digit() || c == ';'), "{code:?}");
    }
}

#[test]
fn skill_argument_is_path_or_id() {
    let home = demo_home().skill("greet", &skill_md("Greets people.", "Say hello."));
    let by = |name: &str| home.skillhost(["skill", "render", name]).success().stdout;
    assert_eq!(by("demo"), by("demo/SKILL.md"));
    assert_eq!(by("greet"), by("sandbox/skills/greet"));
    insta::assert_snapshot!(by("greet"), @"
    greet
    ● Verifier #2E5FA3, approx. 3 tokens
    Greets people.
    ────────────────────────────────────────────────────────────────────────────────
    Say hello.
    ");
    insta::assert_snapshot!(stable_json(&home.skillhost(["skill", "render", "greet", "--json"])), @r##"
    {
      "color": "#2E5FA3",
      "description": "Greets people.",
      "name": "greet",
      "role": "Verifier",
      "schema_version": 1,
      "skill_id": "greet",
      "text": "greet\n● Verifier #2E5FA3, approx. 3 tokens\nGreets people.\n────────────────────────────────────────────────────────────────────────────────\nSay hello.\n",
      "tokens": 3,
      "trit": 2,
      "width": 80
    }
    "##);
}

#[test]
fn unrenderable_skill_is_reported() {
    let home = demo_home()
        .file("several/a/SKILL.md", skill_md("A.", "a"))
        .file("several/b/SKILL.md", skill_md("B.", "b"))
        .file("mute/SKILL.md", "---\nname: mute\n---\n")
        .file("empty/notes.txt", "");
    for (name, code) in [("nobody", 3), ("no/where", 3), ("several", 2), ("mute", 1), ("empty", 1)]
    {
        let output = home.skillhost(["skill", "render", name]).exits(code);
        assert!(output.stdout.is_empty() && output.stderr.contains("error: "), "{output}");
    }
}
