//! The sandbox launcher in test programs.

use skillhost_sandbox::exit_if_launcher;

/// Makes every program that links this crate its own launcher. The harness of tests has no `main`
/// of its own that could begin with [`exit_if_launcher`], as that of the product does.
#[ctor::ctor(unsafe)]
fn become_launcher() {
    exit_if_launcher();
}

#[cfg(test)]
mod tests {
    use skillhost_policy::SandboxPolicy;
    use skillhost_sandbox::{InputMode, LaunchSpec, LevelSelection, SandboxLauncher, SandboxSpec};

    #[tokio::test]
    async fn test_program_is_its_own_launcher() {
        let work = tempfile::tempdir().unwrap();
        let launch = LaunchSpec {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), "echo here".into()],
            environment: Default::default(),
            folder: work.path().to_owned(),
        };
        let spec = SandboxSpec {
            launch,
            policy: SandboxPolicy::with_work_directory(work.path()),
            stdin: InputMode::Null,
            channel: None,
            levels: LevelSelection::default(),
        };
        match SandboxLauncher::default().run(spec).await {
            Ok(exit) => assert_eq!(exit.stdout, b"here\n"),
            // A machine without any level: the launcher has answered all the same.
            Err(error) => assert!(error.to_string().contains("isolation"), "{error}"),
        }
    }
}
