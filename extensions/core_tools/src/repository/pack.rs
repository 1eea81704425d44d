//! Packs of objects and their indexes, read at positions without being mapped.

#[cfg(unix)]
use cap_std::fs::FileExt as _;
use cap_std::fs::{Dir, File};
use skillhost_files::jail;

use super::error::GitError;
use super::git_object::{GitObject, MAX_OBJECT, ObjectKind, inflate};
use super::object_id::ObjectId;

/// The longest chain of deltas; git makes chains of at most 4,095.
const MAX_CHAIN: usize = 5_000;

/// The position of the table of ids in an index, after the header and the fan-out table.
const IDS: u64 = 8 + 256 * 4;

/// A pack with its index.
pub(crate) struct Pack {
    index: File,
    data: File,
    data_length: u64,
    /// The number of objects whose id begins with this byte or a lower one.
    fanout: Box<[u32; 256]>,
}

/// An object of a pack before its deltas are applied, the last first.
pub(crate) struct PackedObject {
    /// The object that the deltas start from.
    pub(crate) base: GitObject,
    pub(crate) deltas: Vec<Vec<u8>>,
}

/// The head of an entry.
enum EntryKind {
    Whole(ObjectKind),
    /// A delta against the entry at this position.
    Offset(u64),
    /// A delta against this object.
    Reference(ObjectId),
}

impl Pack {
    /// Opens a pack by the name of its index.
    pub(crate) fn open(folder: &Dir, name: &str) -> Result<Self, GitError> {
        let open = |name: &str| {
            jail::open_regular(folder, name)
                .map_err(|_| GitError::Damaged("a pack is not readable"))
        };
        let (index, _) = open(name)?;
        let data_name = format!("{}.pack", name.strip_suffix(".idx").unwrap_or(name));
        let (data, metadata) = open(&data_name)?;
        let mut head = [0; IDS as usize];
        read_exact_at(&index, &mut head, 0)?;
        if head[..8] != *b"\xfftOc\0\0\0\x02" {
            return Err(GitError::Unsupported("an old format of pack indexes"));
        }
        let mut fanout = Box::new([0; 256]);
        for (count, bytes) in fanout.iter_mut().zip(head[8..].chunks(4)) {
            *count = be32(bytes);
        }
        if !fanout.is_sorted() {
            return Err(GitError::Damaged("the index of a pack is not sorted"));
        }
        Ok(Self { index, data, data_length: metadata.len(), fanout })
    }

    fn count(&self) -> u64 {
        u64::from(self.fanout[255])
    }

    /// Returns the range of the objects whose id begins with a byte.
    fn range(&self, first: u8) -> (u64, u64) {
        let start = match first {
            0 => 0,
            first => self.fanout[usize::from(first) - 1],
        };
        (u64::from(start), u64::from(self.fanout[usize::from(first)]))
    }

    fn id(&self, number: u64) -> Result<[u8; ObjectId::LENGTH], GitError> {
        let mut id = [0; ObjectId::LENGTH];
        read_exact_at(&self.index, &mut id, IDS + number * ObjectId::LENGTH as u64)?;
        Ok(id)
    }

    /// Returns the position of the first object whose id is not lower.
    fn lower_bound(&self, id: &[u8], (mut low, mut high): (u64, u64)) -> Result<u64, GitError> {
        while low < high {
            let middle = u64::midpoint(low, high);
            if self.id(middle)?[..id.len()] < *id {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Returns the position of an object in the pack.
    pub(crate) fn find(&self, id: &ObjectId) -> Result<Option<u64>, GitError> {
        let id = id.as_bytes();
        let range = self.range(id[0]);
        let number = self.lower_bound(id, range)?;
        if number == range.1 || self.id(number)? != *id {
            return Ok(None);
        }
        let count = self.count();
        // The table of checksums lies between the ids and the positions.
        let offsets = IDS + count * (ObjectId::LENGTH as u64 + 4);
        let mut short = [0; 4];
        read_exact_at(&self.index, &mut short, offsets + number * 4)?;
        let short = be32(&short);
        if short & 1 << 31 == 0 {
            return Ok(Some(u64::from(short)));
        }
        let mut long = [0; 8];
        let place = offsets + count * 4 + u64::from(short & !(1 << 31)) * 8;
        read_exact_at(&self.index, &mut long, place)?;
        Ok(Some(u64::from_be_bytes(long)))
    }

    /// Returns up to two ids that begin with these digits, in lower case.
    pub(crate) fn find_by_prefix(&self, prefix: &str) -> Result<Vec<ObjectId>, GitError> {
        let padded = format!("{prefix:0<40}");
        let Some(lowest) = ObjectId::from_hex(&padded) else { return Ok(Vec::new()) };
        let range = self.range(lowest.as_bytes()[0]);
        let start = self.lower_bound(lowest.as_bytes(), range)?;
        let mut found = Vec::new();
        for number in start..range.1.min(start + 2) {
            let id = ObjectId::from_slice(&self.id(number)?);
            found.extend(id.filter(|id| id.to_string().starts_with(prefix)));
        }
        Ok(found)
    }

    /// Reads an entry, and all entries that it is based on.
    pub(crate) fn read(&self, mut offset: u64) -> Result<PackedObject, GitError> {
        let mut deltas = Vec::new();
        let mut total = 0;
        loop {
            let (kind, size, place) = self.entry(offset)?;
            if size > MAX_OBJECT as u64 {
                return Err(GitError::TooLarge(size));
            }
            let data = self.inflate_at(place, size)?;
            match kind {
                EntryKind::Whole(kind) => {
                    return Ok(PackedObject { base: GitObject { kind, data }, deltas });
                }
                EntryKind::Offset(base) => {
                    deltas.push(data);
                    offset = base;
                }
                EntryKind::Reference(id) => {
                    deltas.push(data);
                    // Packs on disk are complete: only those that are sent refer to others.
                    let base = self.find(&id)?;
                    offset = base.ok_or(GitError::Damaged("the base of a delta is missing"))?;
                }
            }
            total += size;
            if deltas.len() > MAX_CHAIN || total > 4 * MAX_OBJECT as u64 {
                return Err(GitError::Damaged("a chain of deltas is too long"));
            }
        }
    }

    /// Reads the head of an entry: its kind, the size of its data, and where that begins.
    fn entry(&self, offset: u64) -> Result<(EntryKind, u64, u64), GitError> {
        let damaged = || GitError::Damaged("an entry of a pack is malformed");
        let mut head = [0; 40];
        let length = self.data_length.saturating_sub(offset).min(head.len() as u64);
        // The head has at most 10 and 20 bytes; near the end of the file there are fewer.
        let head = &mut head[..usize::try_from(length).unwrap_or(0)];
        read_exact_at(&self.data, head, offset)?;
        let mut bytes = head.iter().copied();
        let mut next = || bytes.next().ok_or_else(damaged);
        let first = next()?;
        let (mut size, mut shift, mut more, mut used) =
            (u64::from(first & 0x0f), 4, first & 0x80 != 0, 1_u64);
        while more {
            let byte = next()?;
            size |= u64::from(byte & 0x7f).checked_shl(shift).ok_or_else(damaged)?;
            shift += 7;
            more = byte & 0x80 != 0;
            used += 1;
        }
        let kind = match first >> 4 & 7 {
            1 => EntryKind::Whole(ObjectKind::Commit),
            2 => EntryKind::Whole(ObjectKind::Tree),
            3 => EntryKind::Whole(ObjectKind::Blob),
            4 => EntryKind::Whole(ObjectKind::Tag),
            6 => {
                let mut byte = next()?;
                used += 1;
                let mut back = u64::from(byte & 0x7f);
                while byte & 0x80 != 0 {
                    byte = next()?;
                    used += 1;
                    let higher = back.checked_add(1).and_then(|back| back.checked_mul(128));
                    back = higher.ok_or_else(damaged)? | u64::from(byte & 0x7f);
                }
                // A base lies before its delta, so no chain is endless.
                let base = offset.checked_sub(back).filter(|base| *base < offset);
                EntryKind::Offset(base.ok_or_else(damaged)?)
            }
            7 => {
                let start = usize::try_from(used).unwrap_or(usize::MAX);
                let id = head.get(start..).and_then(ObjectId::from_slice).ok_or_else(damaged)?;
                used += ObjectId::LENGTH as u64;
                EntryKind::Reference(id)
            }
            _ => return Err(damaged()),
        };
        Ok((kind, size, offset + used))
    }

    fn inflate_at(&self, place: u64, size: u64) -> Result<Vec<u8>, GitError> {
        // The most that zlib needs for incompressible data.
        let bound = size + size / 512 + 128;
        let length = self.data_length.saturating_sub(place).min(bound);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        read_exact_at(&self.data, &mut bytes, place)?;
        let limit = usize::try_from(size).unwrap_or(0);
        let data = inflate(&bytes, limit)?;
        if data.len() != limit {
            return Err(GitError::Damaged("an entry of a pack has another size"));
        }
        Ok(data)
    }
}

fn be32(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |value, byte| value << 8 | u32::from(*byte))
}

fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> Result<(), GitError> {
    match file.read_exact_at(buffer, offset) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(GitError::Damaged("a pack or its index is cut off"))
        }
        read => read.map_err(GitError::from),
    }
}
