//! Snapshots of the screen of `skillhost chat` in terminals of several widths, with and without
//! colors.

use mock_model::{MockModel, Step};
use serde_json::json;

use crate::agents_scene::agents_home;

const REPLY: &str = "\
# Plan

The file **plan.md** has a new second line, because `two` was not loud enough for a terminal of any width.

1. Read it:
   ```sh
   cat sandbox/plan.md
   ```
2. Then say so, in a sentence that is long enough to be wrapped at sixty columns.
   - or at eighty, where that is wide enough

| file | lines | state |
|------|------:|-------|
| plan.md | 3 | changed |
| notes.md | 120 | as it was |

> Quoted from the file.

```rust
fn main() {
    println!(\"a line of code that is longer than sixty columns, and is not wrapped by words\");
}
```

The end.
";

/// Returns the screen of a terminal after its output, without blank rows at the end.
fn draw_screen(bytes: &[u8], columns: u16, with_styles: bool) -> String {
    let mut parser = vt100::Parser::new(200.try_into().unwrap(), columns.try_into().unwrap(), 0);
    parser.process(bytes);
    let screen = parser.screen();
    let rows: Vec<String> = (0..200)
        .map(|row| {
            let (mut text, mut last) = (String::new(), String::new());
            for cell in (0..columns).filter_map(|column| screen.cell(row, column)) {
                let style = if with_styles { describe_style(cell) } else { String::new() };
                if style != last {
                    text.push_str(if style.is_empty() { "⟦⟧" } else { &style });
                    last = style;
                }
                text.push_str(if cell.has_contents() { cell.contents() } else { " " });
            }
            text.trim_end().trim_end_matches("⟦⟧").trim_end().to_owned()
        })
        .collect();
    let mut text = rows.join("\n").trim_end().to_owned();
    // Ids keep their width, so that lines wrap as they did.
    let ids: Vec<String> = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| word.len() == 26 && word.starts_with("01"))
        .map(str::to_owned)
        .collect();
    for id in ids {
        text = text.replace(&id, "01thread000000000000000000");
    }
    text
}

fn describe_style(cell: &vt100::Cell) -> String {
    let mut parts = Vec::new();
    match cell.fgcolor() {
        vt100::Color::Default => {}
        vt100::Color::Idx(index) => parts.push(format!("c{index}")),
        vt100::Color::Rgb(r, g, b) => parts.push(format!("{r},{g},{b}")),
    }
    for (name, is_set) in [
        ("bold", cell.bold()),
        ("dim", cell.dim()),
        ("italic", cell.italic()),
        ("underline", cell.underline()),
        ("inverse", cell.inverse()),
    ] {
        if is_set {
            parts.push(name.to_owned());
        }
    }
    if parts.is_empty() { String::new() } else { format!("⟦{}⟧", parts.join(" ")) }
}

#[test]
fn chat_fits_every_width() {
    for (columns, color) in [60, 80, 120, 200].into_iter().flat_map(|c| [(c, true), (c, false)]) {
        let content =
            "one\nTWO, which is a line that is longer than sixty columns and is marked again\n";
        let write = json!({ "path": "plan.md", "content": content }).to_string();
        let mock = MockModel::with([Step::calls("write_file", &write), Step::text(REPLY)]);
        let home = agents_home(&mock).file("sandbox/plan.md", "one\ntwo\n");
        let when = if color { "always" } else { "never" };
        let args = ["chat", "--agent", "worker", "--color", when];
        let mut chat = home.on_terminal(home.command().args(args), (columns, 40));
        chat.wait_for("> ");
        chat.send("Change the plan\r");
        chat.wait_for("then Enter");
        chat.send("y\n");
        chat.wait_for("The end.");
        chat.wait_for("> ");
        chat.send("/cost\r");
        chat.wait_for("price unknown");
        chat.wait_for("> ");
        chat.send("/quit\r");
        let session = chat.finish();
        assert_eq!(session.output.status, 0, "{}", session.output);
        let screen = draw_screen(&session.bytes, columns, color);
        // Without colors there is none on the screen.
        if !color {
            assert_eq!(draw_screen(&session.bytes, columns, true), screen);
        }
        let name = if color { "color" } else { "plain" };
        insta::assert_snapshot!(format!("chat_{columns}_{name}"), screen);
    }
}

#[test]
fn progress_is_shown_on_terminals_only() {
    let mock = MockModel::with([
        Step::text("A block that is not complete.").held(),
        Step::text("Half of it, and then the other half.").held_midway(),
        Step::text("Piped."),
    ]);
    let home = agents_home(&mock);
    let mut chat = home.on_terminal(home.command().args(["chat", "--agent", "worker"]), (80, 24));
    chat.wait_for("> ");
    chat.send("Wait\r");
    chat.wait_for("waiting for the model · 0 s · Ctrl-C cancels");
    mock.release();
    chat.wait_for("A block that is not complete.");
    chat.wait_for("> ");
    chat.send("Write\r");
    chat.wait_for("writing · ");
    chat.wait_for("tokens · Ctrl-C cancels");
    mock.release();
    chat.wait_for("Half of it, and then the other half.");
    chat.wait_for("> ");
    chat.send("/quit\r");
    let session = chat.finish();
    assert_eq!(session.output.status, 0, "{}", session.output);
    let screen = draw_screen(&session.bytes, 80, false);
    assert!(!screen.contains("Ctrl-C cancels"), "{screen}");
    let output = home.skillhost(["ask", "--agent", "worker", "Hi"]).success();
    assert!(!output.stderr.contains("Ctrl-C cancels"), "{output}");
    assert_eq!(output.stdout, "Piped.\n");
}
