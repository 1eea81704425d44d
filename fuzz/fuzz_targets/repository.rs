//! Fuzzes the reader of git repositories with the tools that use it. The first byte selects the file
//! that the rest is; all other files of the repository are valid.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use core_tools::{FileRoots, WalkControl, git_diff, git_log};
use libfuzzer_sys::fuzz_target;
use miniz_oxide::deflate::compress_to_vec_zlib;
use serde_json::{Value, json};

/// The ids of the objects; the reader does not compute them.
const COMMIT: [u8; 20] = [0x11; 20];
const TREE: [u8; 20] = [0x22; 20];
const BLOB: [u8; 20] = [0x33; 20];
const BASE: [u8; 20] = [0x44; 20];

/// The largest result of a call, in bytes: the limits of its parts together.
const MAX_RESULT: usize = 4 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let home = home();
    let git = home.join("sandbox/.git");
    write_valid(&git);
    match kind % 8 {
        0 => fs::write(git.join("index"), rest).unwrap(),
        1 => write_object(&git, "commit", COMMIT, rest),
        2 => write_object(&git, "tree", TREE, rest),
        3 => fs::write(git.join("HEAD"), rest).unwrap(),
        4 => fs::write(git.join("packed-refs"), rest).unwrap(),
        5 => {
            let (base, delta) = rest.split_at(rest.len() / 2);
            let (entries, second) = delta_entries(base, delta);
            write_pack(&git, &entries, second);
        }
        6 => write_pack(&git, rest, rest.len() / 2),
        _ => {
            let (entries, second) = delta_entries(b"base", b"\x04\x04\x90\x04");
            write_pack(&git, &entries, second);
            fs::write(git.join("objects/pack/pack-1.idx"), rest).unwrap();
        }
    }
    let revision = String::from_utf8_lossy(rest);
    for (path, target) in [("", "worktree"), ("", "index"), ("a", "branch")] {
        let path = Some(path).filter(|path| !path.is_empty());
        call(git_diff_of(home, &json!({"path": path, "target": target, "base": "HEAD"})));
    }
    call(git_log_of(home, &json!({"path": "a/b"})));
    call(git_log_of(home, &json!({"revision": revision, "base": "HEAD~1"})));
});

fn home() -> &'static Path {
    static HOME: OnceLock<PathBuf> = OnceLock::new();
    HOME.get_or_init(|| {
        let home = tempfile::tempdir().unwrap().keep();
        fs::create_dir_all(home.join("sandbox/a")).unwrap();
        fs::write(home.join("sandbox/a/b"), "text\n").unwrap();
        for directory in ["objects/pack", "objects/11", "objects/22", "objects/33", "refs/heads"] {
            fs::create_dir_all(home.join("sandbox/.git").join(directory)).unwrap();
        }
        home
    })
}

fn git_diff_of(home: &Path, args: &Value) -> Option<usize> {
    let args = serde_json::from_value(args.clone()).unwrap();
    let done = git_diff(&FileRoots::new(home), &args, &control()).ok()?;
    Some(done.text.len() + done.structured.to_string().len())
}

fn git_log_of(home: &Path, args: &Value) -> Option<usize> {
    let args = serde_json::from_value(args.clone()).unwrap();
    let done = git_log(&FileRoots::new(home), &args, &control()).ok()?;
    Some(done.text.len() + done.structured.to_string().len())
}

fn call(length: Option<usize>) {
    assert!(length.is_none_or(|length| length < MAX_RESULT), "{length:?}");
}

fn control() -> WalkControl {
    WalkControl::new(Instant::now() + Duration::from_secs(30))
}

/// Writes a repository with one commit of the file `a`.
fn write_valid(git: &Path) {
    for file in ["index", "packed-refs", "objects/pack/pack-1.idx", "objects/pack/pack-1.pack"] {
        let _ = fs::remove_file(git.join(file));
    }
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(git.join("refs/heads/main"), hex(&COMMIT)).unwrap();
    write_object(git, "commit", COMMIT, format!("tree {}\n\nx", hex(&TREE)).as_bytes());
    write_object(git, "tree", TREE, &[b"100644 a\0", &BLOB[..]].concat());
    write_object(git, "blob", BLOB, b"text\n");
}

fn write_object(git: &Path, kind: &str, id: [u8; 20], data: &[u8]) {
    let whole = [format!("{kind} {}\0", data.len()).as_bytes(), data].concat();
    let hex = hex(&id);
    fs::write(git.join("objects").join(&hex[..2]).join(&hex[2..]), compress_to_vec_zlib(&whole, 1))
        .unwrap();
}

/// Returns an object and a delta against it, as a pack has them, and the position of the delta.
fn delta_entries(base: &[u8], delta: &[u8]) -> (Vec<u8>, usize) {
    let mut entries = entry(3, base.len());
    entries.extend(compress_to_vec_zlib(base, 1));
    let second = entries.len();
    entries.extend(entry(7, delta.len()));
    entries.extend(BASE);
    entries.extend(compress_to_vec_zlib(delta, 1));
    (entries, second)
}

fn entry(kind: u8, mut size: usize) -> Vec<u8> {
    let mut head = vec![kind << 4 | (size & 15) as u8];
    size >>= 4;
    while size > 0 {
        *head.last_mut().unwrap() |= 0x80;
        head.push((size & 0x7f) as u8);
        size >>= 7;
    }
    head
}

/// Writes a pack of two objects: the base of the file, and the file itself at `second`.
fn write_pack(git: &Path, entries: &[u8], second: usize) {
    let pack = [b"PACK\0\0\0\x02\0\0\0\x02", entries].concat();
    let mut index = b"\xfftOc\0\0\0\x02".to_vec();
    for byte in 0..=255_u8 {
        let count = u32::from(byte >= BASE[0]) + u32::from(byte >= BLOB[0]);
        index.extend(count.to_be_bytes());
    }
    index.extend([BASE, BLOB].concat());
    index.extend([0; 8]);
    for offset in [0, second] {
        index.extend((12 + offset as u32).to_be_bytes());
    }
    index.extend([0; 40]);
    fs::write(git.join("objects/pack/pack-1.pack"), pack).unwrap();
    fs::write(git.join("objects/pack/pack-1.idx"), index).unwrap();
}

fn hex(id: &[u8; 20]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
