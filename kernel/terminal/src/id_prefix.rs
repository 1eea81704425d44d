//! Ids on the command line, which may be shortened to a unique prefix.

use crate::error::CliError;
use crate::exit;
use crate::sanitize::sanitize;

/// The number of candidates that an error lists.
const MAX_CANDIDATES: usize = 10;

/// Returns the id that `given` names: itself where it is an id, else the only id that starts with
/// it. Without such an id it is returned unchanged, for an error that names similar ids.
///
/// `kind` is the plural of the things that have the ids, such as `agents`.
///
/// # Errors
/// Several ids start with it; the hints list them.
pub fn resolve_id<'a>(
    kind: &str,
    given: &str,
    ids: impl IntoIterator<Item = &'a str>,
) -> Result<String, CliError> {
    let mut found: Vec<&str> = Vec::new();
    for id in ids {
        if id == given {
            return Ok(given.to_owned());
        }
        if id.starts_with(given) {
            found.push(id);
        }
    }
    found.sort_unstable();
    found.dedup();
    match found.as_slice() {
        // An empty argument is a mistake in a script, not a prefix.
        _ if given.is_empty() => Ok(String::new()),
        [] => Ok(given.to_owned()),
        [only] => Ok((*only).to_owned()),
        several => {
            let message = format!("`{}` is the beginning of several {kind}", sanitize(given));
            let mut hint = several[..several.len().min(MAX_CANDIDATES)].join(", ");
            if several.len() > MAX_CANDIDATES {
                hint.push_str(&format!(" and {} more", several.len() - MAX_CANDIDATES));
            }
            Err(CliError::new(exit::USAGE, message).with_hint(format!("give more of: {hint}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: [&str; 4] = ["code-review", "code", "core_tools", "release-notes"];

    fn resolve(given: &str) -> Result<String, String> {
        resolve_id("skills", given, IDS)
            .map_err(|error| format!("{}: {}", error.message(), error.hints().join(" ")))
    }

    #[test]
    fn exact_id_wins_over_prefix() {
        assert_eq!(resolve("code"), Ok("code".to_owned()));
    }

    #[test]
    fn unique_prefix_is_completed() {
        assert_eq!(resolve("code-"), Ok("code-review".to_owned()));
        assert_eq!(resolve("r"), Ok("release-notes".to_owned()));
    }

    #[test]
    fn ambiguous_prefix_lists_candidates() {
        let error = "`co` is the beginning of several skills: \
                     give more of: code, code-review, core_tools";
        assert_eq!(resolve("co"), Err(error.to_owned()));
        let many: Vec<String> = (10..30).map(|number| format!("a{number}")).collect();
        let error = resolve_id("skills", "a", many.iter().map(String::as_str)).unwrap_err();
        assert!(error.hints()[0].ends_with("a19 and 10 more"), "{error:?}");
    }

    #[test]
    fn unknown_id_stays() {
        assert_eq!(resolve("zzz"), Ok("zzz".to_owned()));
        assert_eq!(resolve(""), Ok(String::new()));
    }
}
