//! The errors of a home and of its trust, as errors of the command line.

use std::path::Path;

use skillhost_home::HomeError;
use skillhost_payload::OperatorCommand;

use crate::error::CliError;
use crate::exit;

impl From<HomeError> for CliError {
    fn from(error: HomeError) -> Self {
        let hint = home_hint(&error);
        let code = match error {
            HomeError::NotFound | HomeError::Missing { .. } | HomeError::NoSandbox { .. } => {
                exit::NOT_FOUND
            }
            _ => exit::IO,
        };
        Self::new(code, error.to_string()).with_hint(hint)
    }
}

/// Returns the hint on an error of a home.
fn home_hint(error: &HomeError) -> String {
    let any = Path::new("DIR");
    match error {
        HomeError::NotFound => {
            format!("create one: {}", OperatorCommand::CreateHome { dir: any })
        }
        HomeError::Missing { path } | HomeError::NoSandbox { path } => {
            format!("make it one: {}", OperatorCommand::CreateHome { dir: path })
        }
        HomeError::Untrusted { path } => format!(
            "review its manifests and extensions, then: {} (or --trust-home for this call)",
            OperatorCommand::TrustHome { dir: Some(path) }
        ),
        HomeError::Changed { path, .. } => format!(
            "review its manifests and extensions again, then: {}; or remove it: {}",
            OperatorCommand::TrustHome { dir: Some(path) },
            OperatorCommand::RevokeHomeTrust { dir: path }
        ),
        HomeError::WorldWritable { path } => {
            format!("remove that permission: chmod o-w {}", path.display())
        }
        HomeError::UnsafeRecord { path, .. } => format!(
            "check that each line is yours, then: chmod go-w {0}; or remove the file \
             and trust each home again",
            path.display()
        ),
        HomeError::DamagedRecord { .. } => format!(
            "remove the line, then trust that home again: {}",
            OperatorCommand::TrustHome { dir: Some(any) }
        ),
        HomeError::LinkedDirectory { home, .. } => format!(
            "replace it with a directory; or look where it leads, then: {}",
            OperatorCommand::TrustHome { dir: Some(home) }
        ),
        HomeError::Io { .. } => "check that it exists and may be read and written".to_owned(),
        HomeError::NoStateDir => "set HOME, or use --trust-home".to_owned(),
        HomeError::Unrecordable { .. } => "rename the directory, or use --trust-home".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use skillhost_home::HomeChange;

    use super::*;

    #[test]
    fn hints_name_commands() {
        let path = Path::new("/home/a").to_owned();
        let hint = |error: HomeError| CliError::from(error).hints().join("\n");
        assert_eq!(hint(HomeError::NotFound), "create one: skillhost init DIR");
        assert_eq!(
            hint(HomeError::Missing { path: path.clone() }),
            "make it one: skillhost init /home/a"
        );
        assert_eq!(
            hint(HomeError::Changed { path: path.clone(), change: HomeChange::Replaced }),
            "review its manifests and extensions again, then: skillhost trust /home/a; \
             or remove it: skillhost trust --remove /home/a"
        );
        assert_eq!(
            hint(HomeError::UnsafeRecord { path, problem: "others may write to it" }),
            "check that each line is yours, then: chmod go-w /home/a; or remove the file and trust \
             each home again"
        );
    }
}
