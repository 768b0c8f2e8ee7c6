//! The certificates that this program shows of itself, and when they end: clients and brokers turn away then, and nothing else
//! tells of it before.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::domain::event::{due_time, rfc3339};
use crate::domain::time::Timestamp;
use crate::domain::words::about;

/// One that ends sooner is warned of.
const SOON: Duration = Duration::from_hours(14 * 24);

/// Types of DER values (X.690, 8).
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The files of certificates, with the keys that name them. They are read each time that is asked.
#[derive(Clone, Debug, Default)]
pub struct Certificates(Vec<(&'static str, PathBuf)>);

/// A certificate that ended, or ends soon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Which, and when.
    pub said: String,
    /// It ended.
    pub is_over: bool,
}

impl Certificates {
    /// Those that these keys of the configuration name.
    #[must_use]
    pub const fn new(named: Vec<(&'static str, PathBuf)>) -> Self {
        Self(named)
    }

    /// When each of them ends, as far as they can be read; that one cannot is told where it is used.
    #[must_use]
    pub fn ends(&self) -> Vec<(&'static str, Timestamp)> {
        let ends = self.0.iter().map(|(key, path)| Some((*key, ends_at(path)?)));
        ends.flatten().collect()
    }

    /// Those that ended by now, or end soon.
    #[must_use]
    pub fn ending(&self, now: Timestamp) -> Vec<Ending> {
        let soon = now.plus(SOON);
        let ending = self.0.iter().filter_map(|(key, path)| {
            let at = ends_at(path).filter(|at| *at < soon)?;
            let when = if at <= now {
                format!("ended {} ago", about(now.since(at)))
            } else {
                format!("ends in {}", about(at.since(now)))
            };
            Some(Ending {
                said: format!("{key} {} {when} ({}): renew it", path.display(), rfc3339(at)),
                is_over: at <= now,
            })
        });
        ending.collect()
    }
}

/// Whether the file has a certificate in it.
pub(crate) fn has_some(path: &Path) -> bool {
    CertificateDer::pem_file_iter(path).is_ok_and(|mut found| found.any(|one| one.is_ok()))
}

/// When the first certificate of a PEM file ends: that is our own, and those behind it lead to an authority.
fn ends_at(path: &Path) -> Option<Timestamp> {
    let own = CertificateDer::pem_file_iter(path).ok()?.next()?.ok()?;
    not_after(&own)
}

/// The end of a certificate's validity (RFC 5280, 4.1).
fn not_after(certificate: &[u8]) -> Option<Timestamp> {
    let (signed, _) = take(certificate, SEQUENCE)?;
    let (mut fields, _) = take(signed, SEQUENCE)?;
    if let Some((_, rest)) = take(fields, VERSION) {
        fields = rest;
    }
    // Number, algorithm, issuer.
    for _ in 0..3 {
        fields = value(fields)?.2;
    }
    let (validity, _) = take(fields, SEQUENCE)?;
    let (_, _, end) = value(validity)?;
    let (kind, text, _) = value(end)?;
    moment(kind, std::str::from_utf8(text).ok()?)
}

/// `YYMMDDHHMMSSZ` of this and the last century, or `YYYYMMDDHHMMSSZ`.
fn moment(kind: u8, text: &str) -> Option<Timestamp> {
    let whole = match kind {
        UTC_TIME if text.get(..2)? < "50" => format!("20{text}"),
        UTC_TIME => format!("19{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| whole.get(from..to);
    let written = format!(
        "{}-{}-{}T{}:{}:{}Z",
        part(0, 4)?,
        part(4, 6)?,
        part(6, 8)?,
        part(8, 10)?,
        part(10, 12)?,
        part(12, 14)?
    );
    due_time(&written).ok()
}

/// What is in the value that `bytes` begin with, where it is of this type, and what is behind it.
fn take(bytes: &[u8], kind: u8) -> Option<(&[u8], &[u8])> {
    let (found, inside, rest) = value(bytes)?;
    (found == kind).then_some((inside, rest))
}

/// The type of the value that `bytes` begin with, what is in it, and what is behind it.
fn value(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[kind, first], rest) = bytes.split_first_chunk()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        let length = length.iter().try_fold(0_usize, |sum, byte| {
            Some(sum.checked_mul(256)?.saturating_add(usize::from(*byte)))
        });
        (length?, rest)
    };
    let (inside, rest) = rest.split_at_checked(length)?;
    Some((kind, inside, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn a_certificate_that_ended_or_ends_soon_is_told_with_its_key_and_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.pem");
        let ending = |year: i32, month: u8, day: u8, now: &str| {
            let mut own = CertificateParams::new(vec!["redrive.example".to_owned()]).unwrap();
            own.not_before = date_time_ymd(2020, 1, 1);
            own.not_after = date_time_ymd(year, month, day);
            let key = KeyPair::generate().unwrap();
            std::fs::write(&path, own.self_signed(&key).unwrap().pem()).unwrap();
            let of = Certificates::new(vec![("api.tls.certificate", path.clone())]);
            let ends = of.ends()[0].1;
            assert_eq!(rfc3339(ends), format!("{year}-{month:02}-{day:02}T00:00:00Z"));
            of.ending(due_time(now).unwrap())
        };
        let over = ending(2026, 6, 30, "2026-07-01T00:00:00Z");
        assert!(over[0].is_over, "{over:?}");
        let said = format!("api.tls.certificate {} ended ", path.display());
        assert!(over[0].said.starts_with(&said), "{over:?}");
        let soon = ending(2026, 6, 30, "2026-06-20T00:00:00Z");
        assert!(!soon[0].is_over && soon[0].said.contains(" ends in "), "{soon:?}");
        assert_eq!(ending(2026, 6, 30, "2026-06-01T00:00:00Z"), []);
        // Years from 2050 on are written in another way.
        assert_eq!(ending(2061, 2, 3, "2026-06-01T00:00:00Z"), []);
    }

    #[test]
    fn what_is_no_certificate_is_not_judged() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.pem");
        for text in [
            "",
            "odd",
            "-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----\n",
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(ends_at(&path), None, "{text}");
        }
        assert_eq!(not_after(&[SEQUENCE, 0xff, 1]), None);
        assert_eq!(not_after(&[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
