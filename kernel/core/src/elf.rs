//! Checks an ELF file's headers against its length before it is mapped.
//!
//! `dlopen` maps all segments of the headers. If the file is shorter, the first access past its end
//! is a SIGBUS that kills the process, so a truncated copy has to be detected first.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// The reason why a file is not a loadable library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The file does not start as a 64-bit little-endian ELF file.
    #[error("not a shared library (no ELF header)")]
    NotElf,
    /// The file is an ELF file of another kind or for another machine.
    #[error("an ELF file, but not a shared library for this machine")]
    WrongKind,
    /// The headers describe more bytes than the file has.
    #[error("truncated: its headers describe {expected} bytes, the file has {actual}")]
    Truncated {
        /// Bytes the headers describe.
        expected: u64,
        /// Bytes in the file.
        actual: u64,
    },
    /// The file could not be read.
    #[error("unreadable: {0}")]
    Io(String),
}

// Sizes, types and machines of the ELF-64 object file format.
const HEADER: usize = 64;
const ET_DYN: u16 = 3;
const PT_LOAD: u32 = 1;
#[cfg(target_arch = "x86_64")]
const MACHINE: Option<u16> = Some(62);
#[cfg(target_arch = "aarch64")]
const MACHINE: Option<u16> = Some(183);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MACHINE: Option<u16> = None;

/// Checks that every loadable segment and the section table lie within the file.
///
/// # Errors
/// [`ElfError`].
pub(crate) fn check_elf_bounds(file: &mut File) -> Result<(), ElfError> {
    let io = |error: io::Error| ElfError::Io(error.to_string());
    let actual = file.metadata().map_err(io)?.len();
    if actual == 0 {
        return Err(ElfError::Empty);
    }
    let mut header = [0u8; HEADER];
    if actual < HEADER as u64 {
        let mut start = vec![0u8; actual as usize];
        file.read_exact(&mut start).map_err(io)?;
        return Err(match start.starts_with(b"\x7fELF") {
            true => ElfError::Truncated { expected: HEADER as u64, actual },
            false => ElfError::NotElf,
        });
    }
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    file.read_exact(&mut header).map_err(io)?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Err(ElfError::NotElf);
    }
    if u16_at(&header, 16) != ET_DYN || MACHINE.is_some_and(|m| u16_at(&header, 18) != m) {
        return Err(ElfError::WrongKind);
    }
    let (programs_at, sections_at) = (u64_at(&header, 32), u64_at(&header, 40));
    let (program_size, program_count) = (u16_at(&header, 54), u16_at(&header, 56));
    let (section_size, section_count) = (u16_at(&header, 58), u16_at(&header, 60));
    // The offsets below are those of a 64-bit program header.
    if program_size != 56 {
        return Err(ElfError::WrongKind);
    }
    let table = u64::from(program_size) * u64::from(program_count);
    let sections = u64::from(section_size) * u64::from(section_count);
    // A damaged header may contain any offset, so that sums saturate instead of overflowing.
    let mut expected = programs_at.saturating_add(table).max(sections_at.saturating_add(sections));
    if programs_at.saturating_add(table) > actual {
        return Err(ElfError::Truncated { expected, actual });
    }
    let mut programs = vec![0u8; table as usize];
    file.seek(SeekFrom::Start(programs_at)).map_err(io)?;
    file.read_exact(&mut programs).map_err(io)?;
    for program in programs.chunks_exact(usize::from(program_size)) {
        if u32_at(program, 0) == PT_LOAD {
            expected = expected.max(u64_at(program, 8).saturating_add(u64_at(program, 32)));
        }
    }
    if expected > actual { Err(ElfError::Truncated { expected, actual }) } else { Ok(()) }
}

// The offsets are constants within buffers of checked sizes.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn check_bytes(bytes: &[u8]) -> Result<(), ElfError> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        check_elf_bounds(&mut file)
    }

    /// Returns an ELF file with one loadable segment of `size` bytes.
    fn library(size: u64) -> Vec<u8> {
        let mut bytes = vec![0u8; 120];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[16..18].copy_from_slice(&ET_DYN.to_le_bytes());
        bytes[18..20].copy_from_slice(&MACHINE.unwrap_or_default().to_le_bytes());
        bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&1u16.to_le_bytes());
        bytes[64..68].copy_from_slice(&PT_LOAD.to_le_bytes());
        bytes[96..104].copy_from_slice(&size.to_le_bytes());
        bytes
    }

    #[test]
    fn incomplete_library_is_rejected() {
        assert_eq!(check_bytes(b""), Err(ElfError::Empty));
        assert_eq!(check_bytes(b"#!/bin/sh\n"), Err(ElfError::NotElf));
        assert_eq!(check_bytes(&[b'x'; 200]), Err(ElfError::NotElf));
        let short = ElfError::Truncated { expected: 64, actual: 20 };
        assert_eq!(check_bytes(&library(120)[..20]), Err(short));
        let headers_only = ElfError::Truncated { expected: 120, actual: 100 };
        assert_eq!(check_bytes(&library(120)[..100]), Err(headers_only));
        let segment = ElfError::Truncated { expected: 4096, actual: 120 };
        assert_eq!(check_bytes(&library(4096)), Err(segment));
        let overflow = ElfError::Truncated { expected: u64::MAX, actual: 120 };
        assert_eq!(check_bytes(&library(u64::MAX)), Err(overflow));
        let mut executable = library(120);
        executable[16] = 2;
        assert_eq!(check_bytes(&executable), Err(ElfError::WrongKind));
    }

    #[test]
    fn complete_library_is_accepted() {
        assert_eq!(check_bytes(&library(120)), Ok(()));
    }
}
