//! Frames of LSP: a header with the length of a JSON text, and the text.

use std::io::{self, BufRead, Read as _, Write};

use serde_json::Value;

/// The maximum length of a message; longer ones are skipped. The limit on a SKILL.md is lower.
const MAX_MESSAGE: u64 = 32 << 20;

/// The maximum length of a line of a header.
const MAX_HEADER: u64 = 4 << 10;

/// A frame that was read.
#[derive(Debug, PartialEq)]
pub(crate) enum Frame {
    /// A message.
    Message(Value),
    /// A frame without a usable message, with the reason. The next frame can be read.
    Malformed(String),
}

/// Reads the next frame; `None` at the end of the stream.
///
/// # Errors
/// The stream fails.
pub(crate) fn read_frame(input: &mut impl BufRead) -> io::Result<Option<Frame>> {
    let mut length = None;
    let mut has_header = false;
    loop {
        let mut line = Vec::new();
        if input.by_ref().take(MAX_HEADER).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim();
        if line.is_empty() {
            // Blank lines between frames are not the end of a header.
            if has_header {
                break;
            }
            continue;
        }
        has_header = true;
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("Content-Length")
        {
            length = value.trim().parse::<u64>().ok();
        }
    }
    let Some(length) = length else {
        return Ok(Some(Frame::Malformed("the header has no valid Content-Length".to_owned())));
    };
    if length > MAX_MESSAGE {
        io::copy(&mut input.by_ref().take(length), &mut io::sink())?;
        let reason = format!("the message has {length} bytes, more than {MAX_MESSAGE}");
        return Ok(Some(Frame::Malformed(reason)));
    }
    let mut bytes = Vec::new();
    // `take` instead of a buffer of the announced length, which may be wrong.
    if (input.by_ref().take(length).read_to_end(&mut bytes)? as u64) < length {
        return Ok(None);
    }
    Ok(Some(match serde_json::from_slice(&bytes) {
        Ok(message) => Frame::Message(message),
        Err(error) => Frame::Malformed(format!("the message is not JSON: {error}")),
    }))
}

/// Writes a message as a frame.
///
/// # Errors
/// The stream fails.
pub(crate) fn write_frame(output: &mut impl Write, message: &Value) -> io::Result<()> {
    let text = message.to_string();
    write!(output, "Content-Length: {}\r\n\r\n{text}", text.len())?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn frames(bytes: &[u8]) -> Vec<Frame> {
        let mut input = bytes;
        let mut frames = Vec::new();
        while let Some(frame) = read_frame(&mut input).unwrap() {
            frames.push(frame);
        }
        frames
    }

    #[test]
    fn malformed_frames_do_not_end_reading() {
        let mut bytes = b"Content-Length: 3\r\n\r\n{,}Content-Length: x\r\n\r\n".to_vec();
        bytes.extend(b"\r\nno header\r\n\r\nContent-Length: 2\r\nContent-Type: a\r\n\r\n\xFF\xFE");
        write_frame(&mut bytes, &json!({"a": "é"})).unwrap();
        let found = frames(&bytes);
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(found[..4].iter().all(|frame| matches!(frame, Frame::Malformed(_))), "{found:?}");
        assert_eq!(found[4], Frame::Message(json!({"a": "é"})));
    }

    #[test]
    fn long_and_truncated_frames_use_no_memory() {
        assert_eq!(frames(b"Content-Length: 9999999999999\r\n\r\n{}").len(), 1);
        assert_eq!(frames(b"Content-Length: 30000000\r\n\r\n{}"), []);
        assert_eq!(frames(b"Content-Length"), []);
    }
}
