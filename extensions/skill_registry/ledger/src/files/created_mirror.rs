//! The copy of the records of created skills next to the database.

use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};
use serde_json::json;
use skill_catalog::AgentAuthor;
use skill_format::Digest;
use skillhost_payload::format_compact_time;

use crate::files::data_file::write_file;
use crate::records::error::LedgerError;
use crate::records::note::LedgerNote;
use crate::session::LedgerSession;
use crate::sqlite::CreatedSkillRow;

/// The copy of these records, so that no skill becomes approved because the database is lost.
pub(crate) const MIRROR: &str = "created.json";

/// The content of the copy.
pub(crate) enum Mirror {
    /// The file does not exist.
    Missing,
    /// The file cannot be read.
    Unreadable,
    /// The records.
    Lines(Vec<CreatedSkillRow>),
}

/// A record in the copy.
#[derive(Serialize, Deserialize)]
struct MirrorLine {
    skill_id: String,
    author: AgentAuthor,
    approved: Option<Digest>,
    approved_by: Option<String>,
}

impl LedgerSession<'_> {
    /// Returns `true` if the copy exists.
    pub(crate) fn is_mirrored(&self) -> bool {
        self.ledger.data_dir.join(MIRROR).exists()
    }

    /// Renames a copy that cannot be read; it is not deleted.
    pub(crate) fn set_mirror_aside(&self) -> Result<(), LedgerError> {
        let path = self.ledger.data_dir.join(MIRROR);
        let aside = format!("{MIRROR}.corrupt-{}", format_compact_time(self.stamp.now_ms));
        match fs::rename(&path, path.with_file_name(aside)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(LedgerError::io("moved aside", &path, &error))
            }
            _ => Ok(()),
        }
    }

    /// Writes the records of created skills to the copy next to the database.
    pub(crate) fn mirror_created(&mut self) -> Result<(), LedgerError> {
        let lines: Vec<MirrorLine> = self
            .read(|work| work.all_created())?
            .into_iter()
            .map(|CreatedSkillRow { skill_id, author, approved, approved_by }| MirrorLine {
                skill_id,
                author,
                approved,
                approved_by,
            })
            .collect();
        let path = self.ledger.data_dir.join(MIRROR);
        let text = json!(lines).to_string();
        // If the database has no records, an unreadable copy is kept for a person to inspect.
        if lines.is_empty() && path.exists()
            || fs::read(&path).is_ok_and(|bytes| bytes == text.as_bytes())
        {
            return Ok(());
        }
        if let Err(error) = write_file(&path, &text) {
            self.ledger.note(LedgerNote::FileNotWritten { path, reason: error.to_string() });
        }
        Ok(())
    }
}

/// Reads the copy.
pub(crate) fn read_mirror(data_dir: &Path) -> Mirror {
    match fs::read_to_string(data_dir.join(MIRROR)) {
        Ok(text) => parse_mirror(&text).map_or(Mirror::Unreadable, Mirror::Lines),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Mirror::Missing,
        Err(_) => Mirror::Unreadable,
    }
}

fn parse_mirror(text: &str) -> Option<Vec<CreatedSkillRow>> {
    let lines: Vec<MirrorLine> = serde_json::from_str(text).ok()?;
    let created = |MirrorLine { skill_id, author, approved, approved_by }| CreatedSkillRow {
        skill_id,
        author,
        approved,
        approved_by,
    };
    Some(lines.into_iter().map(created).collect())
}
