//! The pictures in `docs/images`: screens of the program on a terminal, as SVG. The test fails if the
//! program shows something else; `cargo xtask screenshots` updates them.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anstyle_svg::{Term, WIN10_CONSOLE};
use mock_model::{MockModel, Step};
use serde_json::json;
use test_support::TestHome;

use crate::agents_scene::agents_home;
use crate::fixtures::{agent_manifest, home, repository_root, shipped_manifest, start_kernel};

const COLUMNS: u16 = 100;
const ROWS: u16 = 200;

/// A picture of a terminal: the typed command and the bytes of its output.
struct Screenshot {
    name: &'static str,
    typed: &'static str,
    bytes: Vec<u8>,
}

impl Screenshot {
    /// Runs a command line of the program on a terminal.
    fn of_command(home: &TestHome, name: &'static str, typed: &'static str) -> Self {
        let mut command = home.command();
        let words = shlex::split(typed).expect("a command line");
        command.args(["--color", "always"]).args(&words[1..]);
        let left = home.on_terminal(&mut command, (COLUMNS, ROWS)).finish();
        assert!(left.output.status <= 1, "{typed}: {}", left.output);
        Self { name, typed, bytes: left.bytes }
    }

    /// Ends the output before the last occurrence of a text.
    fn cut_before(mut self, text: &str) -> Self {
        let text = text.as_bytes();
        let end = self.bytes.windows(text.len()).rposition(|bytes| bytes == text);
        self.bytes.truncate(end.expect("the output has the text"));
        self
    }

    /// Compares the picture with the committed file, or writes it.
    #[track_caller]
    fn check(&self, home: &TestHome) {
        let root = home.root().display().to_string();
        let screen = draw_styled(&self.bytes, |text| replace_volatile(text, &root));
        let svg = to_svg(self.typed, &screen);
        let path = images().join(format!("{}.svg", self.name));
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::create_dir_all(images()).unwrap();
            fs::write(&path, &svg).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == svg,
            "{} differs from the output; `cargo xtask screenshots` updates it. The screen:\n{screen}",
            path.display()
        );
    }
}

fn images() -> PathBuf {
    repository_root().join("docs/images")
}

/// Returns the lines on the screen after an output, with SGR sequences for styles; `replace` changes
/// the text of a line, whose styles are those of the positions before.
fn draw_styled(bytes: &[u8], replace: impl Fn(&str) -> String) -> String {
    let mut parser = vt100::Parser::new(ROWS.try_into().unwrap(), COLUMNS.try_into().unwrap(), 0);
    parser.process(bytes);
    let screen = parser.screen();
    let mut text = String::new();
    for row in 0..ROWS {
        // Runs of equal style.
        let mut runs: Vec<(String, String)> = Vec::new();
        for cell in (0..COLUMNS).filter_map(|column| screen.cell(row, column)) {
            if cell.is_wide_continuation() {
                continue;
            }
            let contents = if cell.has_contents() { cell.contents() } else { " " };
            let style = style_of(cell);
            match runs.last_mut() {
                Some((last, run)) if *last == style => run.push_str(contents),
                _ => runs.push((style, contents.to_owned())),
            }
        }
        if let Some((_, last)) = runs.last_mut() {
            last.truncate(last.trim_end().len());
        }
        for (style, run) in runs.iter().filter(|(_, run)| !run.is_empty()) {
            let run = replace(run);
            let _ = match style.is_empty() {
                true => write!(text, "{run}"),
                false => write!(text, "\u{1b}[{style}m{run}\u{1b}[0m"),
            };
        }
        text.push('\n');
    }
    text.trim_end().to_owned()
}

/// Returns the parameters of the SGR sequence for the style of a cell.
fn style_of(cell: &vt100::Cell) -> String {
    let mut codes = Vec::new();
    for (code, is_set) in [
        ("1", cell.bold()),
        ("2", cell.dim()),
        ("3", cell.italic()),
        ("4", cell.underline()),
        ("7", cell.inverse()),
    ] {
        if is_set {
            codes.push(code.to_owned());
        }
    }
    for (code, color) in [(38, cell.fgcolor()), (48, cell.bgcolor())] {
        match color {
            vt100::Color::Default => {}
            vt100::Color::Idx(index) => codes.push(format!("{code};5;{index}")),
            vt100::Color::Rgb(r, g, b) => codes.push(format!("{code};2;{r};{g};{b}")),
        }
    }
    codes.join(";")
}

/// Replaces paths, process numbers, times and ids by fixed ones, most of the same width.
fn replace_volatile(text: &str, root: &str) -> String {
    let text = text.replace(root, "~/team");
    let mut before = "";
    let words = text.split(' ').map(|word| {
        let number = word.trim_end_matches(',');
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        match std::mem::replace(&mut before, word) {
            "process" if is_number => word.replace(number, "4711"),
            // The uptime.
            "for" if is_number => "2".to_owned(),
            // The number of lines depends on the length of a path.
            "of" if text.contains(" lines ") && text.ends_with(&format!(" of {number}")) => {
                "28".to_owned()
            }
            _ => match (word.get(..26), word.strip_prefix("operator-")) {
                (Some(id), _)
                    if id.starts_with("01") && id.bytes().all(|b| b.is_ascii_alphanumeric()) =>
                {
                    format!("01ja2b3c4d5e6f7g8h9jkmnpqr{}", &word[26..])
                }
                (_, Some(_)) => "operator-4711,".to_owned(),
                _ if word.ends_with('Z') && word.contains('T') && word.len() == 24 => {
                    "2026-01-02T03:04:05.000Z".to_owned()
                }
                _ => word.to_owned(),
            },
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn to_svg(typed: &str, screen: &str) -> String {
    let colors = Term::new()
        .palette(WIN10_CONSOLE)
        .fg_color(anstyle::RgbColor(0xd4, 0xd4, 0xd4).into())
        .bg_color(anstyle::RgbColor(0x1e, 0x1e, 0x1e).into());
    // 8.4 pixels a column.
    let term = colors.min_width_px(usize::from(COLUMNS) * 84 / 10);
    let svg = term.render_svg(&format!("\u{1b}[1m$ {typed}\u{1b}[0m\n{screen}\n"));
    // Lines of the file without blanks at their end, as in every other file here.
    svg.lines().map(str::trim_end).filter(|line| !line.is_empty()).fold(
        String::new(),
        |mut text, line| {
            text.push_str(line);
            text.push('\n');
            text
        },
    )
}

/// A skill.
pub(crate) const NOTES: &str = "---
name: release-notes
description: Writes release notes from merged changes, grouped by what they mean for users. Use when a \
                     release is prepared or a changelog is requested.
---
# Release notes

1. Leave out changes that users do not notice.
2. Write one line per change, with the effect for the user first.
";

const REVIEW: &str = "---
name: code-review
description: Reviews code changes for bugs, security holes and missing tests. Use when asked to review a \
                      diff, a branch or a pull request.
---
# Code review

Report the worst finding first, with file and line.
";

const FLAWED: &str = "---
name: Tea
description: Makes tea
---
# Tea

See [the times](references/times.md).
";

fn team() -> TestHome {
    home().skill("release-notes", NOTES).skill("code-review", REVIEW)
}

/// Proposes a change of the skill `release-notes`.
fn propose_change(home: &TestHome) {
    let text = NOTES.replace("for the user first.", "for the user first and its number last.");
    let arguments = json!({
        "skill_id": "release-notes",
        "new_content": text,
        "justification": "Reviewers asked for the number three times.",
    });
    home.skillhost(["tool", "call", "propose_skill_update", &arguments.to_string()]).success();
}

#[test]
fn screenshots_of_skills_are_current() {
    let home = team();
    Screenshot::of_command(&home, "skill-list", "skillhost skill list").check(&home);
    let typed = "skillhost skill search --explain 'review a pull request'";
    // The first part; the weights of the ranking follow.
    let search = Screenshot::of_command(&home, "skill-search", typed).cut_before("ranker standard");
    search.check(&home);
    let home = home.skill("tea", FLAWED);
    Screenshot::of_command(&home, "skill-lint", "skillhost skill lint sandbox/skills/tea")
        .check(&home);
}

#[test]
fn screenshot_of_review_is_current() {
    let home = team();
    propose_change(&home);
    let typed = "skillhost skill proposal review";
    let mut command = home.command();
    command.args(["--color", "always", "skill", "proposal", "review"]);
    // The review fills the height of the terminal. The lines below name a file, whose path may wrap.
    let mut terminal = home.on_terminal(&mut command, (COLUMNS, 27));
    terminal.wait_for("quit");
    terminal.send("q");
    let left = terminal.finish();
    let review = Screenshot { name: "proposal-review", typed, bytes: left.bytes };
    // The screen before the review ends.
    review.cut_before("\u{1b}[?1049l").check(&home);
}

#[test]
fn screenshots_of_kernel_are_current() {
    let notes = "  instructions: You write release notes.\n  uses_skills: [release-notes]\n";
    let home = team()
        .manifest("core_tools", &shipped_manifest("core_tools"))
        .manifest("notes_agent", &agent_manifest("notes_agent", notes));
    propose_change(&home);
    let kernel = start_kernel(&home);
    Screenshot::of_command(&home, "status", "skillhost status").check(&home);
    Screenshot::of_command(&home, "ext-list", "skillhost ext list").check(&home);
    drop(kernel);
}

#[test]
fn screenshot_of_chat_is_current() {
    let content = "one\nTWO, loud enough\nthree\n";
    let write = json!({ "path": "plan.md", "content": content }).to_string();
    let reply =
        "**plan.md** has a louder second line. To see it:\n\n```sh\ncat sandbox/plan.md\n```\n";
    let mock = MockModel::with([Step::calls("write_file", &write), Step::text(reply)]);
    let home = agents_home(&mock).file("sandbox/plan.md", "one\ntwo\nthree\n");
    let typed = "skillhost chat --agent worker";
    let mut command = home.command();
    command.args(["--color", "always", "chat", "--agent", "worker"]);
    let mut chat = home.on_terminal(&mut command, (COLUMNS, ROWS));
    chat.wait_for("> ");
    chat.send("Make the second line of the plan louder\r");
    chat.wait_for("then Enter");
    chat.send("y\n");
    chat.wait_for("cat sandbox/plan.md");
    chat.wait_for("> ");
    chat.send("/quit\r");
    let left = chat.finish();
    Screenshot { name: "chat", typed, bytes: left.bytes }.cut_before("/quit").check(&home);
}

#[test]
fn pictures_are_small_and_passive() {
    let svg = to_svg("echo '<script>'", "\u{1b}[31m</text><a href=\"x\">&amp;\u{1b}[0m \u{7}");
    assert!(svg.contains("$ echo '&lt;script&gt;'"), "{svg}");
    assert!(svg.contains("&lt;/text&gt;&lt;a href=\"x\"&gt;&amp;amp;"), "{svg}");
    let mut names: Vec<_> = fs::read_dir(images()).unwrap().map(|entry| entry.unwrap()).collect();
    names.sort_by_key(fs::DirEntry::file_name);
    let shown: Vec<_> =
        names.iter().map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert_eq!(
        shown,
        [
            "chat.svg",
            "ext-list.svg",
            "proposal-review.svg",
            "skill-lint.svg",
            "skill-list.svg",
            "skill-search.svg",
            "status.svg"
        ]
    );
    for entry in names {
        let text = fs::read_to_string(entry.path()).unwrap();
        assert!(text.len() < 20_000, "{entry:?}: {} bytes", text.len());
        for active in
            ["<script", "<image", "<a ", "href", "@import", "url(", "<foreignObject", "/tmp/"]
        {
            assert!(!text.contains(active), "{entry:?}: {active}");
        }
    }
}
