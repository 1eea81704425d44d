//! Tests of the completed arguments.

use super::*;

#[test]
fn every_completed_argument_exists() {
    completed_command().debug_assert();
    let mut command = Cli::command();
    command.build();
    for (path, argument, _) in ARGUMENTS {
        let found = path.iter().try_fold(&command, |at, name| at.find_subcommand(name));
        let arguments = found.map(|found| found.get_arguments().any(|it| it.get_id() == argument));
        assert_eq!(arguments, Some(true), "{path:?} {argument}");
    }
}

#[test]
fn home_of_line_is_used() {
    let home = |line: &str| named_home(line.split(' ').map(OsString::from));
    assert_eq!(home("skillhost -- skillhost --home /a skill show "), Some("/a".into()));
    assert_eq!(home("skillhost -- skillhost skill show --home=/b x"), Some("/b".into()));
    assert_eq!(home("skillhost -- skillhost skill show --home"), None);
    assert_eq!(home("skillhost --home /c"), None);
}

#[test]
fn every_shell_has_script() {
    use clap::ValueEnum as _;
    for shell in Shell::value_variants() {
        let script = render_script(*shell).unwrap();
        assert!(script.contains(VARIABLE) && script.contains("skillhost"), "{shell}");
    }
}
