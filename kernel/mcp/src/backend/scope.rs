//! Validation of the catalog scope, the globs that select the skills visible to clients.

use globset::Glob;
use skillhost_payload::CatalogScope;

/// An error for a scope pattern that is not a valid glob.
#[derive(Debug, thiserror::Error)]
#[error("`{pattern}` is not a valid glob: {reason}")]
pub struct ScopeError {
    pattern: String,
    reason: String,
}

/// Validates a scope before a server starts with it.
///
/// The skill provider applies the scope to every call, so that skills, tools and resources of a
/// client are consistent.
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
    fn scope_requires_valid_globs() {
        let checked = |include: &str, exclude: &str| {
            let (include, exclude) = (vec![include.to_owned()], vec![exclude.to_owned()]);
            check_scope(&CatalogScope::Globs { include, exclude })
                .map_err(|error| error.to_string())
        };
        assert_eq!(checked("a*", "{b,c}"), Ok(()));
        for (include, exclude) in [("[", "a"), ("a", "[")] {
            let error = checked(include, exclude).unwrap_err();
            assert!(error.starts_with("`[` is not a valid glob: "), "{error}");
        }
    }
}
