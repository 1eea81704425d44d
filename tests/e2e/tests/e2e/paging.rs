//! Tests of long output on a terminal.

use test_support::{Left, TestHome};

use crate::fixtures::home;

/// A home with an agent whose instructions are longer than a screen.
fn long_home() -> TestHome {
    let lines: String = (1..=60).map(|number| format!("    Line {number} of many.\n")).collect();
    let yaml = format!("id: longer\nname: Longer\nagent:\n  instructions: |\n{lines}");
    home().manifest("longer", &yaml)
}

/// Runs `agent show` with a pager on a terminal of 24 lines.
fn show_with(home: &TestHome, pager: &str) -> Left {
    let mut command = home.command();
    command.env("PAGER", pager).args(["agent", "show", "longer"]);
    home.on_terminal(&mut command, (120, 24)).finish()
}

#[test]
fn long_output_goes_to_pager() {
    let home = long_home();
    let left = show_with(&home, "sed -n '1p;/Line 60/p' | tr a-z A-Z");
    assert_eq!(left.output.status, 0);
    assert_eq!(left.output.stdout, "LONGER  LONGER\nLINE 60 OF MANY.\n");
    // A pager that the user leaves early is no failure.
    let left = show_with(&home, "head -n 2");
    assert_eq!((left.output.status, left.output.stdout.lines().count()), (0, 2), "{}", left.output);
}

#[test]
fn failing_pager_leaves_output() {
    let home = long_home();
    for (pager, reason) in [("/no/such/pager -x", "exit status: 127"), ("exit 3", "exit status: 3")]
    {
        let left = show_with(&home, pager);
        assert_eq!(left.output.status, 0);
        let shown = left.output.stdout;
        assert!(shown.contains("\nLine 60 of many.\n"), "{shown}");
        let note =
            format!("note: $PAGER ({pager}) failed: {reason}; the output was printed without it\n");
        assert!(shown.ends_with(&note), "{shown}");
        assert_eq!(shown.matches("note: ").count(), 1, "{shown}");
    }
}

#[test]
fn short_or_redirected_output_is_not_paged() {
    let home = long_home();
    let mut command = home.command();
    command.env("PAGER", "exit 3").args(["agent", "list"]);
    let left = home.on_terminal(&mut command, (80, 24)).finish();
    assert!(!left.output.stdout.contains("PAGER"), "{}", left.output);
    let run = |args: &[&str]| home.start(home.command().env("PAGER", "exit 3").args(args)).finish();
    let piped = run(&["agent", "show", "longer"]).success();
    assert!(piped.stdout.ends_with("Line 60 of many.\n") && piped.stderr.is_empty(), "{piped}");
    for off in ["", "cat"] {
        assert!(show_with(&home, off).output.stdout.ends_with("Line 60 of many.\n"));
    }
    let mut command = home.command();
    command.env("PAGER", "exit 3").args(["agent", "show", "longer", "--json"]);
    let json = home.on_terminal(&mut command, (80, 24)).finish();
    assert!(json.output.stdout.starts_with('{'), "{}", json.output);
}

#[test]
fn builtin_pager_leaves_on_key() {
    let home = long_home();
    let mut shell = home.command_of("sh".as_ref());
    shell.env("PAGER", "").args(["-c", "unset PAGER; exec \"$0\" agent show longer"]);
    shell.arg(test_support::binary());
    let mut pager = home.on_terminal(&mut shell, (80, 24));
    pager.wait_for("longer  Longer");
    pager.wait_for("q quits");
    pager.send("q");
    let left = pager.finish();
    assert_eq!(left.output.status, 0, "{}", left.output);
    assert!(left.modes_restored);
    assert!(!left.output.stdout.contains("Line 60 of many."), "{}", left.output);
}

#[test]
fn error_follows_held_output() {
    let home = long_home();
    let mut command = home.command();
    command.env("PAGER", "exit 3").args(["agent", "show", "nobody"]);
    let left = home.on_terminal(&mut command, (80, 24)).finish();
    assert_eq!(left.output.status, 3);
    assert!(left.output.stdout.starts_with("error: "), "{}", left.output);
}
