//! Vectors in the wire format of the `embedding` interface.

use skillhost_payload::ErrorKind;

use crate::error::{ExtensionError, Result};

fn to_length(dimension: u32) -> usize {
    // The maximum fails every comparison on platforms where the number does not fit.
    usize::try_from(dimension).unwrap_or(usize::MAX)
}

/// Encodes vectors for the wire. The wire format loses their number and sizes: they are checked
/// here.
pub(crate) fn encode_vectors(
    vectors: &[Vec<f32>],
    count: usize,
    dimension: u32,
) -> Result<Vec<u8>> {
    if vectors.len() != count {
        let message = format!("expected {count} vectors, received {}", vectors.len());
        return Err(ExtensionError::new(ErrorKind::Protocol, message));
    }
    if let Some(wrong) = vectors.iter().find(|vector| vector.len() != to_length(dimension)) {
        let message =
            format!("expected vectors of {dimension} components, received {}", wrong.len());
        return Err(ExtensionError::new(ErrorKind::Protocol, message));
    }
    Ok(vectors.iter().flatten().flat_map(|component| component.to_le_bytes()).collect())
}

/// Decodes the output of [`encode_vectors`]. The sender is another extension, so all is checked.
pub(crate) fn decode_vectors(bytes: &[u8], count: usize, dimension: u32) -> Result<Vec<Vec<f32>>> {
    // Saturating: a wrong dimension must give an error and no overflow.
    let vector_bytes = to_length(dimension).saturating_mul(size_of::<f32>());
    if bytes.len() != count.saturating_mul(vector_bytes) {
        let message = format!(
            "expected {count} vectors of {dimension} components of 4 bytes, received {} bytes",
            bytes.len()
        );
        return Err(ExtensionError::new(ErrorKind::Protocol, message));
    }
    let (components, _) = bytes.as_chunks();
    let vectors: Vec<Vec<f32>> = components
        .chunks(to_length(dimension))
        .map(|vector| vector.iter().map(|four| f32::from_le_bytes(*four)).collect())
        .collect();
    // One NaN would make every comparison with the stored vector meaningless.
    if vectors.iter().flatten().any(|component| !component.is_finite()) {
        let message = "received a vector with a component that is not finite";
        return Err(ExtensionError::new(ErrorKind::Protocol, message));
    }
    Ok(vectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_round_trip() {
        let vectors = vec![vec![0.5, -1.0, f32::MIN_POSITIVE], vec![0.0, -0.0, f32::MAX]];
        let bytes = encode_vectors(&vectors, 2, 3).unwrap();
        assert_eq!(bytes[..8], [0, 0, 0, 0x3f, 0, 0, 0x80, 0xbf]);
        assert_eq!(decode_vectors(&bytes, 2, 3).unwrap(), vectors);
    }

    #[test]
    fn wrong_vectors_fail_at_both_ends() {
        let encode_error = |result: Result<Vec<u8>>| {
            let error = result.unwrap_err();
            (error.kind(), error.message().to_owned())
        };
        let protocol_error = |message: &str| (ErrorKind::Protocol, message.to_owned());
        let one = [vec![1.0, 2.0]];
        assert_eq!(
            encode_error(encode_vectors(&one, 2, 2)),
            protocol_error("expected 2 vectors, received 1")
        );
        assert_eq!(
            encode_error(encode_vectors(&one, 1, 3)),
            protocol_error("expected vectors of 3 components, received 2")
        );
        // The total number of components is right.
        let odd = [vec![1.0], vec![2.0, 3.0, 4.0]];
        assert_eq!(
            encode_error(encode_vectors(&odd, 2, 2)),
            protocol_error("expected vectors of 2 components, received 1")
        );

        let decode_error = |bytes: &[u8], count| {
            let error = decode_vectors(bytes, count, 2).unwrap_err();
            (error.kind(), error.message().to_owned())
        };
        let short = "expected 2 vectors of 2 components of 4 bytes, received 15 bytes";
        assert_eq!(decode_error(&[0; 15], 2), protocol_error(short));
        let long = "expected 1 vectors of 2 components of 4 bytes, received 16 bytes";
        assert_eq!(decode_error(&[0; 16], 1), protocol_error(long));
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let bytes = encode_vectors(&[vec![1.0, wrong]], 1, 2).unwrap();
            let message = "received a vector with a component that is not finite";
            assert_eq!(decode_error(&bytes, 1), protocol_error(message));
        }
    }
}
