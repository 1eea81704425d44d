//! Ids of objects.

use std::fmt;

/// The SHA-1 of an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectId([u8; 20]);

impl ObjectId {
    /// The length in bytes.
    pub(crate) const LENGTH: usize = 20;

    /// Parses 40 hexadecimal digits.
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != 2 * Self::LENGTH {
            return None;
        }
        let mut id = [0; Self::LENGTH];
        for (byte, pair) in id.iter_mut().zip(text.chunks(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(id))
    }

    /// Returns the id that begins a slice.
    pub(crate) fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.get(..Self::LENGTH)?.try_into().ok().map(Self)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }

    /// Returns the first digits, for people.
    pub(crate) fn short(self) -> String {
        self.to_string()[..10].to_owned()
    }
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
