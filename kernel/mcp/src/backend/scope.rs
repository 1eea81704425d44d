//! The skills that the settings let clients see: globs that have to be ones.

use globset::Glob;
use skillhost_contract::payload::CatalogScope;

/// A pattern of a scope is no glob.
#[derive(Debug, thiserror::Error)]
#[error("`{pattern}` is not a glob: {reason}")]
pub struct ScopeError {
    pattern: String,
    reason: String,
}

/// Checks a scope before a server starts with it. Whoever answers calls applies it: the skills, the
/// tools and the resources of a client are then the same ones.
pub(super) fn check_scope(catalog: &CatalogScope) -> Result<(), ScopeError> {
    let CatalogScope::Globs { include, exclude } = catalog else { return Ok(()) };
    for pattern in include.iter().chain(exclude) {
        Glob::new(pattern).map_err(|error| ScopeError {
            pattern: pattern.clone(),
            reason: error.kind().to_string(),
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_globs_stand_in_a_scope() {
        let checked = |include: &str, exclude: &str| {
            let (include, exclude) = (vec![include.to_owned()], vec![exclude.to_owned()]);
            check_scope(&CatalogScope::Globs { include, exclude })
                .map_err(|error| error.to_string())
        };
        assert_eq!(checked("a*", "{b,c}"), Ok(()));
        for (include, exclude) in [("[", "a"), ("a", "[")] {
            let error = checked(include, exclude).unwrap_err();
            assert!(error.starts_with("`[` is not a glob: "), "{error}");
        }
    }
}
