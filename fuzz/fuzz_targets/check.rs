//! Fuzzes every rule of every profile.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skill_format::{EntryKind, FileEntry, SkillInput};
use skill_rules::{CheckOptions, CheckScope, Profile, check_skill};

fuzz_target!(|bytes: &[u8]| {
    let entry = |path: &str, kind| FileEntry { path: path.to_owned(), size: 10, mode: 0o644, kind };
    let files = [
        entry("SKILL.md", EntryKind::File),
        entry("references", EntryKind::Directory),
        entry("references/a.md", EntryKind::File),
        entry("x", EntryKind::Symlink { escapes: true }),
    ];
    let input =
        SkillInput { dir_name: "beads", file_name: Some("SKILL.md"), bytes, files: Some(&files) };
    for profile in Profile::ALL {
        for scope in [CheckScope::Validate, CheckScope::Lint] {
            let _ = check_skill(&input, CheckOptions { profile, scope });
        }
    }
});
