//! A full disk.

use std::io;
use std::sync::{Arc, Mutex};

use skillhost_files::AppendSink;

/// A disk in memory with limited space.
#[derive(Clone)]
pub struct SmallDisk {
    /// The content.
    pub bytes: Arc<Mutex<Vec<u8>>>,
    /// The space, in bytes.
    pub room: Arc<Mutex<usize>>,
    /// True if the bytes of a failed write cannot be removed.
    pub stuck: Arc<Mutex<bool>>,
}

impl SmallDisk {
    /// Makes an empty disk.
    #[must_use]
    pub fn with_room(room: usize) -> Self {
        Self { bytes: Arc::default(), room: Arc::new(Mutex::new(room)), stuck: Arc::default() }
    }

    /// Returns the content.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8(self.bytes.lock().expect("no holder panics").clone()).expect("UTF-8")
    }
}

impl AppendSink for SmallDisk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut kept = self.bytes.lock().expect("no holder panics");
        let fits = (*self.room.lock().expect("no holder panics"))
            .saturating_sub(kept.len())
            .min(bytes.len());
        kept.extend(&bytes[..fits]);
        match fits == bytes.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        if *self.stuck.lock().expect("no holder panics") {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        self.bytes.lock().expect("no holder panics").truncate(length as usize);
        Ok(())
    }
}
