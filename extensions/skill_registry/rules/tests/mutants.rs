//! Ten thousand seeded mutants of SKILL.md, passed to every parser and rule.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use skill_format::tree::parse_counted;
use skill_format::{EntryKind, FileEntry, SkillInput, decode_file, find_fences, parse_skill};
use skill_rules::fmt::{FmtOptions, format_skill};
use skill_rules::{CheckOptions, CheckScope, Profile, check_skill};

/// The maximum number of parser events for one frontmatter.
const EVENT_LIMIT: usize = 16_000;

const SEEDS: [&str; 10] = [
    "---\nname: beads\ndescription: Counts beads. Use when asked.\n---\n# Beads\n\n1. Count.\n",
    "---\r\nname: beads\r\ndescription: >-\r\n  Use when: asked\r\n  or told\r\n---\r\nBody\r\n",
    "---\nname: beads # why\n# skillhost: allow(name.format)\ndescription: \"q\\\"x: y\"\n---\n",
    "---\nmetadata:\n  a: b: c\n  list:\n  - x\n  - y: z: w\n  version: 1.10\ntags: [a, 'b']\n---\n",
    "---\nname: &a x\ndescription: *a\nlicense: !!str MIT\nname: y\n---\n[x](references/a.md)\n",
    "---\nname: x\ndescription: |+\n  a\n   b\n\n\nallowed-tools:\n  - Read\n  - Bash(git:*)\n---\nx",
    "---\nrequires: [a, b]\nmetadata: {\"e\": {\"bins\": [\"jq\"]}}\ndescription: \u{fc}\u{200b}\n---\n",
    "\n---  \nname:x\ndescription:y\n...\n%YAML 1.2\n---\n```sh\n[a](b)\n```\n<b>\u{202e}</b>\n",
    "---\nsecurity:\n  requires: [fs.read]\ntests:\n  - name: one\n    given: x\n---\n../../etc\n",
    "---\ntools:\n  - name: jq\n    version: \">=1.6\"\ncomposition:\n  conflicts: [b]\n---\n# A\n## B\n",
];

const TOKENS: [&str; 40] = [
    ":",
    ": ",
    "- ",
    "\n",
    "\r",
    "\t",
    "  ",
    "\"",
    "'",
    "[",
    "]",
    "{",
    "}",
    ",",
    "#",
    " #",
    "&a ",
    "*a",
    "!t ",
    "|\n",
    ">-\n",
    "? ",
    "%",
    "@",
    "\0",
    "\u{85}",
    "\u{feff}",
    "...\n",
    "---\n",
    "](",
    "<!--",
    "`",
    "```\n",
    "\u{e0041}",
    "name",
    "metadata:\n",
    "requires: ",
    "../",
    "http://",
    "\u{1f600}",
];

/// A small generator (xorshift64*), so that the mutants are the same on every machine.
struct Random(u64);

impl Random {
    fn number_below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let value = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(value).expect("a pointer has 64 bits") % limit
    }
}

fn mutant(random: &mut Random) -> Vec<u8> {
    let mut chars: Vec<char> = SEEDS[random.number_below(SEEDS.len())].chars().collect();
    for _ in 0..=random.number_below(6) {
        let at = random.number_below(chars.len() + 1);
        let end = (at + random.number_below(12)).min(chars.len());
        match random.number_below(4) {
            0 => drop(chars.drain(at..end)),
            1 => {
                let copy: Vec<char> = chars[at..end].to_vec();
                let to = random.number_below(chars.len() + 1);
                chars.splice(to..to, copy);
            }
            2 => {
                let other = SEEDS[random.number_below(SEEDS.len())];
                chars.splice(at..at, other.chars().skip(random.number_below(60)).take(40));
            }
            _ => drop(chars.splice(at..at, TOKENS[random.number_below(TOKENS.len())].chars())),
        }
    }
    let mut bytes: Vec<u8> = chars.into_iter().collect::<String>().into_bytes();
    match random.number_below(20) {
        // Bytes that are not text must be handled as well.
        0 if !bytes.is_empty() => {
            let at = random.number_below(bytes.len());
            bytes[at] ^= 0x80;
        }
        1 => {
            let units = String::from_utf8_lossy(&bytes).into_owned();
            bytes = [0xFF, 0xFE].into_iter().collect();
            bytes.extend(units.encode_utf16().flat_map(u16::to_le_bytes));
        }
        _ => {}
    }
    bytes
}

fn files() -> Vec<FileEntry> {
    let entry = |path: &str, kind| FileEntry { path: path.to_owned(), size: 10, mode: 0o644, kind };
    vec![
        entry("SKILL.md", EntryKind::File),
        entry("references", EntryKind::Directory),
        entry("references/a.md", EntryKind::File),
        entry("x", EntryKind::Symlink { escapes: true }),
    ]
}

/// Passes every mutant to `examine` and reports the mutant of a panic.
fn for_each_mutant(examine: impl Fn(usize, &[u8])) {
    let mut random = Random(0x5EED);
    for number in 0..10_000 {
        let bytes = mutant(&mut random);
        let examined = catch_unwind(AssertUnwindSafe(|| examine(number, &bytes)));
        examined
            .unwrap_or_else(|_| panic!("mutant {number}: {:?}", String::from_utf8_lossy(&bytes)));
    }
}

#[test]
fn mutants_have_bounded_parser_cost() {
    let most = AtomicUsize::new(0);
    for_each_mutant(|_, bytes| {
        let Ok(decoded) = decode_file(bytes) else { return };
        let Some(fences) = find_fences(&decoded.text) else { return };
        let (_, events) = parse_counted(&decoded.text[fences.yaml], 2);
        assert!(events <= EVENT_LIMIT.min(40 + 10 * bytes.len()), "{events} events");
        most.fetch_max(events, Ordering::Relaxed);
    });
    let most = most.into_inner();
    assert!(most > 100, "the mutants reach the parser: {most}");
}

#[test]
fn mutants_pass_rules_of_every_profile() {
    let files = files();
    for_each_mutant(|number, bytes| {
        let (dir_name, file_name) = ("beads", Some("SKILL.md"));
        let input = SkillInput { dir_name, file_name, bytes, files: Some(&files) };
        let in_turn = |number: usize| Profile::ALL[number % Profile::ALL.len()];
        let _ =
            check_skill(&input, CheckOptions { profile: in_turn(number), scope: CheckScope::Lint });
        let profile = in_turn(number / Profile::ALL.len());
        let report = check_skill(&input, CheckOptions { profile, scope: CheckScope::Validate });
        let loads =
            parse_skill("beads", bytes).is_ok_and(|skill| skill.parsed.frontmatter.is_some());
        if matches!(profile, Profile::Lenient | Profile::Spec | Profile::Anthropic) {
            assert!(loads || !report.is_valid(), "{profile:?}");
        }
    });
}

#[test]
fn mutants_are_formatted_idempotently() {
    let formatted = AtomicUsize::new(0);
    for_each_mutant(|number, bytes| {
        let Ok(decoded) = decode_file(bytes) else { return };
        let options = FmtOptions { portable: number % 4 == 0 };
        let Ok(result) = format_skill(&decoded.text, options) else { return };
        formatted.fetch_add(1, Ordering::Relaxed);
        let again = format_skill(&result.text, options).expect("what was formatted can be again");
        assert_eq!(again.text, result.text);
        let body = |text: &str| find_fences(text).map(|it| text[it.body_start..].to_owned());
        assert_eq!(body(&decoded.text), body(&result.text));
    });
    let formatted = formatted.into_inner();
    assert!(formatted > 3_000, "most mutants can be formatted: {formatted}");
}
