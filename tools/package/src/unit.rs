//! The unit of systemd's user manager that runs the kernel of any home.

use std::path::Path;
use std::process::Command;

use crate::Result;

/// The path of the installed program.
const PROGRAM: &str = "/usr/bin/skillhost";

/// Returns a template of the unit that the program prints for one home. Its instance is the path of
/// the home.
///
/// # Errors
/// The program fails, or prints a unit of another form.
pub fn print_unit(program: &Path) -> Result<String> {
    let directory = tempfile::tempdir()?;
    let directory = directory.path().canonicalize()?;
    let home = directory.join("agents");
    let run = |words: &[&str]| -> Result<String> {
        let mut command = Command::new(program);
        command.args(words).env("HOME", &directory).current_dir(&directory);
        for variable in ["XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "SKILLHOST_HOME"] {
            command.env_remove(variable);
        }
        let output = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("skillhost {}: {errors}", words.join(" ")).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    };
    let path = home.to_str().ok_or("a temporary directory whose name is not UTF-8")?;
    run(&["init", path])?;
    let unit = run(&["--home", path, "service", "install", "--print=systemd"])?;
    to_template(&unit, &program.canonicalize()?, &home)
}

/// Replaces the program and the home of a unit. The specifier `%f` is the instance as a path.
fn to_template(unit: &str, program: &Path, home: &Path) -> Result<String> {
    let mut text = unit.to_owned();
    for (path, replacement) in [(program, PROGRAM), (home, "%f")] {
        let quoted = format!("\"{}\"", path.display());
        if text.matches(&quoted).count() != 1 {
            return Err(format!("the unit does not contain {quoted} once:\n{unit}").into());
        }
        text = text.replace(&quoted, replacement);
    }
    let instruction = "# One instance for each home:\n\
         # systemctl --user enable --now \"skillhost@$(systemd-escape --path ~/agents).service\"\n";
    Ok(format!("{instruction}{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_of_home_becomes_template() {
        let unit = "[Service]\nExecStart=\"/b/skillhost\" \"--home\" \"/h\" \"run\"\n";
        let template = to_template(unit, Path::new("/b/skillhost"), Path::new("/h")).unwrap();
        assert!(
            template.ends_with("[Service]\nExecStart=/usr/bin/skillhost \"--home\" %f \"run\"\n")
        );
        to_template("[Service]\n", Path::new("/b/skillhost"), Path::new("/h")).unwrap_err();
    }
}
