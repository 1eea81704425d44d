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
    use skillhost_policy::IsolationLevel;

    use crate::{can_isolate, can_isolate_at};

    #[test]
    fn test_program_is_its_own_launcher() {
        let levels = [IsolationLevel::Namespaces, IsolationLevel::Landlock];
        let reached = levels.map(can_isolate_at);
        // A machine may lack every level; then the launcher has refused, not failed.
        assert_eq!(can_isolate(), reached.contains(&true));
    }
}
