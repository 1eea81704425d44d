//! Deltas of packed objects.

use super::git_object::MAX_OBJECT;

/// Applies a delta to its base; `None` if it is malformed.
pub(crate) fn apply_delta(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let mut rest = delta;
    if read_size(&mut rest)? != base.len() {
        return None;
    }
    let size = read_size(&mut rest).filter(|size| *size <= MAX_OBJECT)?;
    let mut out = Vec::with_capacity(size);
    while let Some((&code, after)) = rest.split_first() {
        rest = after;
        if code & 0x80 == 0 {
            // Zero is reserved.
            let literal = usize::from(code);
            if literal == 0 || literal > rest.len() {
                return None;
            }
            out.extend_from_slice(&rest[..literal]);
            rest = &rest[literal..];
        } else {
            let (mut offset, mut length) = (0_usize, 0_usize);
            for bit in 0..7 {
                if code & 1 << bit == 0 {
                    continue;
                }
                let (&byte, after) = rest.split_first()?;
                rest = after;
                match bit {
                    0..4 => offset |= usize::from(byte) << (8 * bit),
                    _ => length |= usize::from(byte) << (8 * (bit - 4)),
                }
            }
            let length = if length == 0 { 0x1_0000 } else { length };
            out.extend_from_slice(base.get(offset..offset.checked_add(length)?)?);
        }
        if out.len() > size {
            return None;
        }
    }
    (out.len() == size).then_some(out)
}

fn read_size(rest: &mut &[u8]) -> Option<usize> {
    let (mut size, mut shift) = (0_usize, 0);
    loop {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        size |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some(size);
        }
        if shift > 35 {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn copies_and_literals_are_applied() {
        // Sizes 5 and 7; copy 3 from offset 1; the literal `xy`; copy 2 from offset 0.
        let delta = [5, 7, 0x91, 1, 3, 2, b'x', b'y', 0x90, 2];
        assert_eq!(apply_delta(b"abcde", &delta).unwrap(), b"bcdxyab");
        for broken in [&delta[..9], &[5, 7, 0], &[4, 7, 0x91, 1, 3], &[5, 9, 0x91, 4, 3], &[]] {
            assert_eq!(apply_delta(b"abcde", broken), None, "{broken:?}");
        }
    }

    proptest! {
        #[test]
        fn any_delta_is_safe(base in prop::collection::vec(any::<u8>(), 0..64), delta in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = apply_delta(&base, &delta);
        }
    }
}
