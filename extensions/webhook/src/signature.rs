//! Signatures of the specification Standard Webhooks, version 1.0.0: the symmetric scheme `v1`.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq as _};

/// The prefix of a secret.
const SECRET_PREFIX: &str = "whsec_";
/// The length of a secret in bytes, as the specification has it.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// The length of a signature in bytes.
const SIGNATURE_BYTES: usize = 32;
/// The signatures of one message that are compared.
const MAX_SIGNATURES: usize = 16;

/// A secret that signs messages.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SigningSecret(Vec<u8>);

impl SigningSecret {
    /// Parses a secret, `whsec_BASE64`; returns `None` for one of another form or length.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.strip_prefix(SECRET_PREFIX)?).ok()?;
        SECRET_BYTES.contains(&bytes.len()).then_some(Self(bytes))
    }

    /// Returns a secret that no sender has, for the work of a verification that fails.
    pub(crate) fn decoy() -> Self {
        Self(vec![0; *SECRET_BYTES.start()])
    }

    fn digest(&self, id: &str, timestamp: &str, body: &[u8]) -> [u8; SIGNATURE_BYTES] {
        // HMAC accepts keys of every length.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length");
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// Returns the signature of a message.
    pub(crate) fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        format!("v1,{}", STANDARD.encode(self.digest(id, timestamp, body)))
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

/// The head and the body of a signed message.
#[derive(Clone, Copy)]
pub(crate) struct SignedMessage<'a> {
    pub(crate) id: &'a str,
    pub(crate) timestamp: &'a str,
    /// The signatures, separated by spaces, each with its version.
    pub(crate) signatures: &'a str,
    pub(crate) body: &'a [u8],
}

impl SignedMessage<'_> {
    /// Returns whether one of the secrets signed the message. It takes the work of `width` secrets,
    /// however many there are, and does not end earlier where a signature is right.
    pub(crate) fn is_signed_by(&self, secrets: &[SigningSecret], width: usize) -> bool {
        let presented = self.presented();
        let decoy = SigningSecret::decoy();
        let mut found = Choice::from(0);
        for index in 0..width.max(secrets.len()) {
            let digest =
                secrets.get(index).unwrap_or(&decoy).digest(self.id, self.timestamp, self.body);
            let is_secret = Choice::from(u8::from(index < secrets.len()));
            for signature in &presented {
                found |= digest.ct_eq(signature) & is_secret;
            }
        }
        found.into()
    }

    /// Returns the signatures of the version `v1`; those of other versions are ignored.
    fn presented(&self) -> Vec<[u8; SIGNATURE_BYTES]> {
        let all = self.signatures.split(' ').take(MAX_SIGNATURES);
        let decode = |text: &str| STANDARD.decode(text.strip_prefix("v1,")?).ok()?.try_into().ok();
        all.filter_map(decode).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of the specification's libraries.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const MESSAGE: SignedMessage<'static> = SignedMessage {
        id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp: "1614265330",
        signatures: SIGNATURE,
        body: br#"{"test": 2432232314}"#,
    };

    fn secret() -> SigningSecret {
        SigningSecret::parse(SECRET).unwrap()
    }

    fn is_signed(message: SignedMessage<'_>) -> bool {
        message.is_signed_by(&[secret()], 1)
    }

    #[test]
    fn official_vectors_are_reproduced() {
        let SignedMessage { id, timestamp, body, .. } = MESSAGE;
        assert_eq!(secret().sign(id, timestamp, body), SIGNATURE);
        assert!(is_signed(MESSAGE));
        // The vector of the documentation of Svix, which wrote the scheme.
        let other = SigningSecret::parse("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").unwrap();
        let body = br#"{"email":"test@example.com","username":"test_user"}"#;
        let signature = other.sign("msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", "1649367553", body);
        assert_eq!(signature, "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=");
    }

    #[test]
    fn one_valid_signature_suffices() {
        let other = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        for (signatures, expected) in [
            (format!("{other} {SIGNATURE}"), true),
            (format!("v1a,x v2,y {SIGNATURE} v1,"), true),
            (format!("{} {SIGNATURE}", [other; 15].join(" ")), true),
            (format!("{} {SIGNATURE}", [other; 16].join(" ")), false),
            (format!("{other} {other}"), false),
            (SIGNATURE.replace("v1,", "v2,"), false),
            (SIGNATURE.replace("v1,", "v1a,"), false),
            (SIGNATURE.replace('=', ""), false),
            (SIGNATURE.replace(',', " "), false),
            (String::new(), false),
        ] {
            let message = SignedMessage { signatures: &signatures, ..MESSAGE };
            assert_eq!(is_signed(message), expected, "{signatures}");
        }
    }

    #[test]
    fn changed_parts_are_not_signed() {
        for changed in [
            SignedMessage { id: "msg_p5jXN8AQM9LWM0D4loKWxJe", ..MESSAGE },
            SignedMessage { timestamp: "1614265331", ..MESSAGE },
            SignedMessage { body: br#"{"test": 2432232315}"#, ..MESSAGE },
            SignedMessage { body: b"", ..MESSAGE },
        ] {
            assert!(!is_signed(changed));
        }
        assert!(!MESSAGE.is_signed_by(&[], 4));
        // The decoy is public, so what it signs must not count.
        let SignedMessage { id, timestamp, body, .. } = MESSAGE;
        let signatures = &SigningSecret::decoy().sign(id, timestamp, body);
        let forged = SignedMessage { signatures, ..MESSAGE };
        assert!(!forged.is_signed_by(&[secret()], 4) && !forged.is_signed_by(&[], 1));
    }

    #[test]
    fn each_of_several_secrets_signs() {
        let other = SigningSecret::parse(&format!("whsec_{}", STANDARD.encode([7; 64]))).unwrap();
        assert!(MESSAGE.is_signed_by(&[other.clone(), secret()], 1));
        assert!(MESSAGE.is_signed_by(&[secret(), other.clone()], 1));
        assert!(!MESSAGE.is_signed_by(&[other], 2));
    }

    #[test]
    fn secret_form_is_checked() {
        let encoded = |length: usize| format!("whsec_{}", STANDARD.encode(vec![1; length]));
        for (text, expected) in [
            (SECRET.to_owned(), true),
            (encoded(64), true),
            (encoded(23), false),
            (encoded(65), false),
            (SECRET.replace("whsec_", ""), false),
            (SECRET.replace("whsec_", "whpk_"), false),
            ("whsec_".to_owned(), false),
            ("whsec_not base64!".to_owned(), false),
        ] {
            assert_eq!(SigningSecret::parse(&text).is_some(), expected, "{text}");
        }
        assert_eq!(format!("{:?}", secret()), "SigningSecret(…)");
    }
}
