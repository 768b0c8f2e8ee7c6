//! The signature that lets a receiver know who sent a request: Standard Webhooks, symmetric (`v1`).
//!
//! What is signed is `id.timestamp.body` with the body's bytes as they are sent. Left out: the
//! asymmetric form (`v1a`) and verification, which is the receiver's side.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::id::NotificationId;

/// What a secret begins with.
pub const SECRET_PREFIX: &str = "whsec_";
/// The fewest bytes of a secret, decoded.
pub const SECRET_BYTES_MIN: usize = 24;
/// The most bytes of a secret, decoded.
pub const SECRET_BYTES_MAX: usize = 64;

/// A key to sign with. It never shows itself.
#[derive(Clone)]
pub struct SigningSecret(Hmac<Sha256>);

/// Why a text is no secret to sign with; it never repeats the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The prefix is missing.
    #[error("must begin with {SECRET_PREFIX}, followed by {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes in base64")]
    Prefix,
    /// What follows the prefix cannot be decoded.
    #[error("must be base64 after {SECRET_PREFIX}")]
    Base64,
    /// Too short to be safe, or longer than receivers accept.
    #[error("is {bytes} bytes after decoding; {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} are possible")]
    Length {
        /// How many there are.
        bytes: usize,
    },
}

impl SigningSecret {
    /// Reads `whsec_` and base64.
    ///
    /// # Errors
    /// What is wrong with it, without showing it.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let encoded = text.strip_prefix(SECRET_PREFIX).ok_or(SecretError::Prefix)?;
        let key = STANDARD.decode(encoded).map_err(|_| SecretError::Base64)?;
        if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&key.len()) {
            return Err(SecretError::Length { bytes: key.len() });
        }
        Hmac::new_from_slice(&key)
            .map(Self)
            .map_err(|_| SecretError::Length { bytes: key.len() })
    }

    /// One entry of the header `webhook-signature`: `v1,` and the signature in base64.
    #[must_use]
    pub fn sign(&self, id: &NotificationId, timestamp_s: &str, body: &[u8]) -> String {
        let mut mac = self.0.clone();
        for part in [id.as_str().as_bytes(), b".", timestamp_s.as_bytes(), b".", body] {
            mac.update(part);
        }
        let mut entry = String::with_capacity(47);
        entry.push_str("v1,");
        STANDARD.encode_string(mac.finalize().into_bytes(), &mut entry);
        entry
    }
}

impl std::fmt::Debug for SigningSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SigningSecret(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VECTORS: &str = include_str!("../../tests/vectors/signatures.json");

    #[test]
    fn signatures_are_those_of_the_vectors() {
        let cases: Vec<serde_json::Value> = serde_json::from_str(VECTORS).unwrap();
        assert!(!cases.is_empty());
        for case in &cases {
            let text = |key: &str| case[key].as_str().unwrap();
            let entry = SigningSecret::parse(text("secret")).unwrap().sign(
                &NotificationId::parse(text("id")).unwrap(),
                &case["timestamp"].to_string(),
                text("body").as_bytes(),
            );
            assert_eq!(entry, text("header"));
        }
    }

    #[test]
    fn a_secret_has_24_to_64_bytes() {
        let of = |bytes: usize| SigningSecret::parse(&format!("{SECRET_PREFIX}{}", STANDARD.encode(vec![7; bytes])));
        assert!(of(24).is_ok() && of(64).is_ok());
        assert_eq!(of(23).unwrap_err(), SecretError::Length { bytes: 23 });
        assert_eq!(of(65).unwrap_err(), SecretError::Length { bytes: 65 });
    }

    #[test]
    fn a_secret_that_is_none_is_refused_without_being_shown() {
        for (text, expected) in [("hunter2", SecretError::Prefix), ("whsec_h!", SecretError::Base64)] {
            let error = SigningSecret::parse(text).unwrap_err();
            assert_eq!(error, expected);
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        let secret = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        assert_eq!(format!("{secret:?}"), "SigningSecret(***)");
    }
}
