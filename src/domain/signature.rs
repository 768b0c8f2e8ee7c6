//! The signature that lets a receiver know who sent a request: Standard Webhooks, symmetric (`v1`).
//!
//! What is signed is `id.timestamp.body` with the body's bytes as they are sent. The receiver's side is here for the
//! receiver of development; it reads the body as it comes. Left out: the asymmetric form (`v1a`).

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
        let mut mac = self.begun(id.as_str(), timestamp_s);
        mac.update(body);
        let mut entry = String::with_capacity(47);
        entry.push_str("v1,");
        STANDARD.encode_string(mac.finalize().into_bytes(), &mut entry);
        entry
    }

    /// Begins to verify a request whose body is still to come.
    #[must_use]
    pub fn verifier(&self, id: &str, timestamp_s: &str) -> Verifier {
        Verifier(self.begun(id, timestamp_s))
    }

    fn begun(&self, id: &str, timestamp_s: &str) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        for part in [id, ".", timestamp_s, "."] {
            mac.update(part.as_bytes());
        }
        mac
    }
}

/// A signature while the body comes.
#[derive(Clone)]
pub struct Verifier(Hmac<Sha256>);

impl Verifier {
    /// The next part of the body.
    pub fn update(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    /// Whether one of the entries of the header `webhook-signature` is of this secret, this id, time and body.
    #[must_use]
    pub fn is_in(&self, header: &str) -> bool {
        let entries = header
            .split_ascii_whitespace()
            .filter_map(|entry| entry.strip_prefix("v1,"));
        let decoded = entries.filter_map(|entry| STANDARD.decode(entry).ok());
        decoded
            .into_iter()
            .any(|signature| self.0.clone().verify_slice(&signature).is_ok())
    }
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Verifier(***)")
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
    fn a_signature_is_verified_in_parts_and_another_body_id_time_or_secret_is_not_taken() {
        let cases: Vec<serde_json::Value> = serde_json::from_str(VECTORS).unwrap();
        let text = |key: &str| cases[0][key].as_str().unwrap();
        let (id, time, body, header) = (
            text("id"),
            cases[0]["timestamp"].to_string(),
            text("body"),
            text("header"),
        );
        let verified = |secret: &str, id: &str, time: &str, body: &str, header: &str| {
            let mut verifier = SigningSecret::parse(secret).unwrap().verifier(id, time);
            for part in body.as_bytes().chunks(3) {
                verifier.update(part);
            }
            verifier.is_in(header)
        };
        let secret = text("secret");
        let other = format!("{SECRET_PREFIX}{}", STANDARD.encode([7; 24]));
        assert!(verified(secret, id, &time, body, &format!("v1,AAAA v2,x {header}")));
        for (secret, id, time, body, header) in [
            (other.as_str(), id, time.as_str(), body, header),
            (secret, "other", &time, body, header),
            (secret, id, "0", body, header),
            (secret, id, &time, "other", header),
            (secret, id, &time, body, ""),
            (secret, id, &time, body, header.trim_start_matches("v1,")),
        ] {
            assert!(!verified(secret, id, time, body, header), "{id} {time} {body} {header}");
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
