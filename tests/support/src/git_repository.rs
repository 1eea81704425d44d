//! Repositories of git, written object by object: a test needs no `git`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use miniz_oxide::deflate::compress_to_vec_zlib;
use sha1::{Digest as _, Sha1};

/// The id of an object.
pub type ObjectHash = [u8; 20];

/// A directory of a commit: the contents of its files and the ids of its directories.
#[derive(Default)]
struct TreeNode<'f> {
    files: BTreeMap<&'f str, &'f str>,
    directories: BTreeMap<&'f str, TreeNode<'f>>,
}

/// A repository that a test writes.
#[derive(Debug)]
pub struct GitRepository {
    root: PathBuf,
    /// Seconds since 1970 of the last commit.
    clock: i64,
}

impl GitRepository {
    /// Creates a repository without commits; `main` is checked out.
    #[must_use]
    pub fn create(root: impl Into<PathBuf>) -> Self {
        let repository = Self { root: root.into(), clock: 1_700_000_000 };
        for folder in ["objects/pack", "refs/heads"] {
            fs::create_dir_all(repository.git(folder)).expect("create a repository");
        }
        let config = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n";
        fs::write(repository.git("config"), config).expect("write the configuration");
        repository.check_out("main");
        repository
    }

    /// Returns a path in `.git`.
    #[must_use]
    pub fn git(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(".git").join(path)
    }

    /// Makes a branch the current one; changes no file.
    pub fn check_out(&self, branch: &str) {
        fs::write(self.git("HEAD"), format!("ref: refs/heads/{branch}\n")).expect("write HEAD");
    }

    /// Writes a reference.
    pub fn set_ref(&self, name: &str, id: &ObjectHash) {
        let path = self.git(name);
        fs::create_dir_all(path.parent().expect("a reference has a folder"))
            .expect("make a folder");
        fs::write(path, format!("{}\n", hex(id))).expect("write a reference");
    }

    /// Writes a file of the worktree.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("make a folder");
        fs::write(path, text).expect("write a file");
    }

    /// Writes a commit with these files and moves a branch to it. Every commit is a minute newer
    /// than the one before.
    pub fn commit(
        &mut self,
        branch: &str,
        parents: &[ObjectHash],
        files: &[(&str, &str)],
        message: &str,
    ) -> ObjectHash {
        self.clock += 60;
        let mut top = TreeNode::default();
        for (path, text) in files {
            let mut node = &mut top;
            let mut parts: Vec<&str> = path.split('/').collect();
            let name = parts.pop().expect("a path has a name");
            for part in parts {
                node = node.directories.entry(part).or_default();
            }
            node.files.insert(name, text);
        }
        let tree = self.write_tree(&top);
        let mut text = format!("tree {}\n", hex(&tree));
        for parent in parents {
            text.push_str(&format!("parent {}\n", hex(parent)));
        }
        let person = format!("Ada <ada@example.org> {} +0000", self.clock);
        text.push_str(&format!("author {person}\ncommitter {person}\n\n{message}\n"));
        let id = self.write_object("commit", text.as_bytes());
        self.set_ref(&format!("refs/heads/{branch}"), &id);
        id
    }

    /// Writes the files of a commit to the worktree, and an index that does not know their times.
    pub fn restore(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            self.write(path, text);
        }
        self.write_index(files);
    }

    /// Writes an index with these files.
    pub fn write_index(&self, files: &[(&str, &str)]) {
        let mut files = files.to_vec();
        files.sort_unstable();
        let mut index = b"DIRC\0\0\0\x02".to_vec();
        index.extend(u32::try_from(files.len()).expect("few files").to_be_bytes());
        for (path, text) in files {
            let start = index.len();
            index.extend([0; 24]);
            index.extend(0o100_644_u32.to_be_bytes());
            index.extend([0; 8]);
            index.extend(u32::try_from(text.len()).expect("a short text").to_be_bytes());
            index.extend(self.write_object("blob", text.as_bytes()));
            index.extend(u16::try_from(path.len()).expect("a short path").to_be_bytes());
            index.extend(path.as_bytes());
            let length = index.len() - start;
            index.resize(start + (length / 8 + 1) * 8, 0);
        }
        let sum = Sha1::digest(&index);
        index.extend(sum);
        fs::write(self.git("index"), index).expect("write the index");
    }

    fn write_tree(&self, node: &TreeNode<'_>) -> ObjectHash {
        // A directory is sorted as if its name ended with a slash.
        let mut entries: BTreeMap<String, (String, ObjectHash)> = BTreeMap::new();
        for (name, text) in &node.files {
            let id = self.write_object("blob", text.as_bytes());
            entries.insert((*name).to_owned(), (format!("100644 {name}\0"), id));
        }
        for (name, inner) in &node.directories {
            entries.insert(format!("{name}/"), (format!("40000 {name}\0"), self.write_tree(inner)));
        }
        let mut bytes = Vec::new();
        for (head, id) in entries.values() {
            bytes.extend(head.as_bytes());
            bytes.extend(id);
        }
        self.write_object("tree", &bytes)
    }

    /// Writes an object as a file of its own.
    pub fn write_object(&self, kind: &str, data: &[u8]) -> ObjectHash {
        let (id, whole) = whole_object(kind, data);
        let hex = hex(&id);
        let path = self.git("objects").join(&hex[..2]).join(&hex[2..]);
        fs::create_dir_all(path.parent().expect("an object has a folder")).expect("make a folder");
        fs::write(path, compress_to_vec_zlib(&whole, 6)).expect("write an object");
        id
    }

    /// Moves blobs into a pack: the first whole, each other one as a delta against the one before,
    /// by its position and by its id in turn.
    pub fn pack_blobs(&self, texts: &[&str]) {
        let mut pack = b"PACK\0\0\0\x02".to_vec();
        pack.extend(u32::try_from(texts.len()).expect("few objects").to_be_bytes());
        let mut entries: Vec<(ObjectHash, usize)> = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            let (id, _) = whole_object("blob", text.as_bytes());
            let offset = pack.len();
            match number.checked_sub(1) {
                None => {
                    pack.extend(entry_head(3, text.len()));
                    pack.extend(compress_to_vec_zlib(text.as_bytes(), 6));
                }
                Some(before) => {
                    let (base, place) = entries[before];
                    let delta = literal_delta(texts[before].len(), text);
                    if number % 2 == 1 {
                        pack.extend(entry_head(6, delta.len()));
                        pack.extend(back_offset(offset - place));
                    } else {
                        pack.extend(entry_head(7, delta.len()));
                        pack.extend(base);
                    }
                    pack.extend(compress_to_vec_zlib(&delta, 6));
                }
            }
            entries.push((id, offset));
            let hex = hex(&id);
            // The object is in the pack only.
            let _ = fs::remove_file(self.git("objects").join(&hex[..2]).join(&hex[2..]));
        }
        pack.extend(Sha1::digest(&pack));
        entries.sort_unstable();
        let mut index = b"\xfftOc\0\0\0\x02".to_vec();
        for byte in 0..=255_u8 {
            let count = entries.iter().filter(|(id, _)| id[0] <= byte).count();
            index.extend(u32::try_from(count).expect("few objects").to_be_bytes());
        }
        entries.iter().for_each(|(id, _)| index.extend(id));
        entries.iter().for_each(|_| index.extend([0; 4]));
        for (_, offset) in &entries {
            index.extend(u32::try_from(*offset).expect("a small pack").to_be_bytes());
        }
        index.extend([0; 40]);
        fs::write(self.git("objects/pack/pack-1.pack"), pack).expect("write a pack");
        fs::write(self.git("objects/pack/pack-1.idx"), index).expect("write an index of a pack");
    }
}

/// Returns the id in hexadecimal digits.
#[must_use]
pub fn hex(id: &ObjectHash) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn whole_object(kind: &str, data: &[u8]) -> (ObjectHash, Vec<u8>) {
    let mut whole = format!("{kind} {}\0", data.len()).into_bytes();
    whole.extend(data);
    (Sha1::digest(&whole).into(), whole)
}

fn entry_head(kind: u8, mut size: usize) -> Vec<u8> {
    let mut head = vec![kind << 4 | u8::try_from(size & 15).expect("four bits")];
    size >>= 4;
    while size > 0 {
        *head.last_mut().expect("it has a byte") |= 0x80;
        head.push(u8::try_from(size & 0x7f).expect("seven bits"));
        size >>= 7;
    }
    head
}

fn back_offset(mut distance: usize) -> Vec<u8> {
    let mut bytes = vec![u8::try_from(distance & 0x7f).expect("seven bits")];
    distance >>= 7;
    while distance > 0 {
        distance -= 1;
        bytes.insert(0, 0x80 | u8::try_from(distance & 0x7f).expect("seven bits"));
        distance >>= 7;
    }
    bytes
}

/// Returns a delta that copies nothing of its base.
fn literal_delta(base: usize, text: &str) -> Vec<u8> {
    let size = |mut size: usize| {
        let mut bytes = Vec::new();
        loop {
            let low = u8::try_from(size & 0x7f).expect("seven bits");
            size >>= 7;
            bytes.push(if size > 0 { low | 0x80 } else { low });
            if size == 0 {
                return bytes;
            }
        }
    };
    let mut delta = size(base);
    delta.extend(size(text.len()));
    for chunk in text.as_bytes().chunks(100) {
        delta.push(u8::try_from(chunk.len()).expect("at most 100"));
        delta.extend(chunk);
    }
    delta
}
