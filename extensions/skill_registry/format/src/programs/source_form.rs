//! The forms in which a source text offers a program, recognized without running it.

/// The names that a module of a program defines.
const NAMES: [&str; 3] = ["handler", "Tool", "tool"];

/// Returns whether a source text may define a program. A text that only looks like one fails when
/// it is loaded.
pub(super) fn has_program_form(name: &str, text: &str) -> bool {
    if name.ends_with(".py") {
        return text.lines().any(defines_in_python);
    }
    ["export default", "module.exports =", "exports.", "export {", "export{"]
        .iter()
        .any(|form| text.contains(form))
        || text.lines().any(exports_in_javascript)
}

/// Returns whether a line at the top level of a Python module binds one of the names.
fn defines_in_python(line: &str) -> bool {
    if let Some(imported) = line.strip_prefix("from ").and_then(|rest| rest.split_once(" import "))
    {
        return imported.1.split(',').any(|item| {
            let bound = item.trim_matches(|c: char| c.is_whitespace() || "()".contains(c));
            NAMES.contains(&bound.rsplit(' ').next().unwrap_or(bound))
        });
    }
    // Only at the start of a line: methods are indented.
    let rest = ["async def ", "def ", "class "]
        .iter()
        .find_map(|keyword| line.strip_prefix(keyword))
        .unwrap_or(line);
    NAMES.iter().any(|name| {
        rest.strip_prefix(name)
            .map(str::trim_start)
            .is_some_and(|rest| rest.starts_with(['(', ':', '=']) && !rest.starts_with("=="))
    })
}

/// Returns whether a line of an ES module exports one of the names.
fn exports_in_javascript(line: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix("export ") else { return false };
    let words = rest.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'));
    words.filter(|word| !word.is_empty()).take(4).any(|word| NAMES.contains(&word))
}
