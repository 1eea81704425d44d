//! Characters that are not visible.

/// Returns whether a character is a control character or invisible: the default-ignorable code
/// points of Unicode (zero-width blanks and joiners, the soft hyphen, bidirectional controls,
/// fillers, variation selectors, tags), and the separators and annotations that format text.
///
/// Line breaks and tabs are control characters too; a caller that accepts them excludes them first.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    match c {
        // Printable ASCII comes first: nearly all input characters end here.
        ' '..='~' => false,
        // Default_Ignorable_Code_Point of Unicode 17.
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}' => {
            true
        }
        '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' => true,
        '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' => true,
        '\u{FFA0}' | '\u{FFF0}'..='\u{FFF8}' | '\u{1BCA0}'..='\u{1BCA3}' => true,
        '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}' => true,
        // Line and paragraph separator, interlinear annotation.
        '\u{2028}'..='\u{2029}' | '\u{FFF9}'..='\u{FFFB}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_ignorable_characters_are_hidden() {
        let hidden = "\u{0}\n\u{1b}\u{7f}\u{85}\u{ad}\u{34f}\u{61c}\u{115f}\u{17b4}\u{180e}\u{200b}\u{200c}\
                      \u{200d}\u{200e}\u{2028}\u{202e}\u{2060}\u{2064}\u{2066}\u{206f}\u{3164}\u{fe0f}\u{feff}\
                      \u{ffa0}\u{fff9}\u{1d173}\u{e0001}\u{e0041}\u{e0100}\u{e01ef}";
        for c in hidden.chars() {
            assert!(is_hidden(c), "{:x}", u32::from(c));
        }
        for c in "aZ0 ~\u{a0}\u{e9}\u{645}\u{915}\u{e2a}\u{6280}\u{1f600}\u{20e3}\u{fffd}".chars() {
            assert!(!is_hidden(c), "{:x}", u32::from(c));
        }
    }
}
