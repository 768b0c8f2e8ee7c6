//! What kind of failure an error of the HTTP client is, and how it is told.
//!
//! The chain of causes is walked once for the kind and once for the text, which is bounded.

use std::error::Error;
use std::io::{self, ErrorKind};

use hyper_util::client::legacy;

use crate::domain::connection;
use crate::domain::outcome::FailureKind;

use super::resolver::ResolveError;

/// A told error has at most this many bytes.
pub(super) const ERROR_BYTES_MAX: usize = 300;

/// An attempt that got no whole answer.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) kind: FailureKind,
    pub(super) text: String,
}

impl Failed {
    pub(super) fn new(kind: FailureKind, text: &str) -> Self {
        Self {
            kind,
            text: bounded(text),
        }
    }

    /// An error before an answer from `at`, a host and a port.
    pub(super) fn from_client(error: &legacy::Error, at: &str) -> Self {
        if let Some(words) = demands_certificate(error, at) {
            return Self::new(FailureKind::Tls, &words);
        }
        if !error.is_connect() {
            return Self::from_error(error, FailureKind::Other);
        }
        let mut failed = Self::from_error(error, FailureKind::ConnectRefused);
        let of_name = causes(error).find_map(|cause| match cause.downcast_ref() {
            Some(
                own @ (ResolveError::Silent(_)
                | ResolveError::Full(_)
                | ResolveError::Behind(_)
                | ResolveError::NoThread(..)),
            ) => Some(own.to_string()),
            Some(_) | None => None,
        });
        if let Some(words) = of_name.or_else(|| connection::told(error, at)) {
            failed.text = bounded(&words);
        }
        failed
    }

    /// An error while the answer's body came.
    pub(super) fn from_body(error: &hyper::Error) -> Self {
        Self::from_error(error, FailureKind::Other)
    }

    fn from_error(error: &(dyn Error + 'static), otherwise: FailureKind) -> Self {
        Self::new(kind_of(error).unwrap_or(otherwise), &told(error))
    }
}

/// Said with an alert (RFC 8446, 6.2) behind the handshake: the request was on its way by then.
fn demands_certificate(error: &(dyn Error + 'static), at: &str) -> Option<String> {
    let is_alert = causes(error).any(|cause| cause.to_string().contains("alert: CertificateRequired"));
    is_alert.then(|| format!("TLS: {at} demands a certificate of its clients, and receivers are shown none"))
}

/// The first cause that says what it is decides.
fn kind_of(error: &(dyn Error + 'static)) -> Option<FailureKind> {
    causes(error).find_map(|cause| {
        if let Some(cause) = cause.downcast_ref::<ResolveError>() {
            return Some(match cause {
                ResolveError::Refused(_) => FailureKind::AddressRefused,
                ResolveError::Lookup(error) if connection::is_out_of_files(error) => FailureKind::OwnLimit,
                ResolveError::Lookup(_) | ResolveError::Silent(_) | ResolveError::Behind(_) | ResolveError::Empty => {
                    FailureKind::Dns
                }
                ResolveError::Full(_) | ResolveError::NoThread(..) => FailureKind::OwnLimit,
                // Another lookup may find the good one alone.
                ResolveError::PartlyRefused(_) | ResolveError::Outside => FailureKind::Other,
            });
        }
        if let Some(cause) = cause.downcast_ref::<hyper::Error>() {
            return (cause.is_incomplete_message() || cause.is_closed() || cause.is_canceled())
                .then_some(FailureKind::Reset);
        }
        if cause.is::<rustls::Error>() {
            return Some(FailureKind::Tls);
        }
        cause.downcast_ref::<io::Error>().and_then(kind_of_io)
    })
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the kinds are open, and the rest says nothing here"
)]
fn kind_of_io(error: &io::Error) -> Option<FailureKind> {
    // An error inside an IO error is not among its causes.
    if let Some(inner) = error.get_ref() {
        if inner.is::<rustls::Error>() {
            return Some(FailureKind::Tls);
        }
        if let Some(inner) = inner.downcast_ref::<io::Error>() {
            return kind_of_io(inner);
        }
    }
    match error.kind() {
        ErrorKind::ConnectionRefused
        | ErrorKind::HostUnreachable
        | ErrorKind::NetworkUnreachable
        | ErrorKind::NetworkDown
        | ErrorKind::AddrNotAvailable => Some(FailureKind::ConnectRefused),
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::NotConnected
        | ErrorKind::UnexpectedEof => Some(FailureKind::Reset),
        ErrorKind::TimedOut => Some(FailureKind::Timeout),
        _ if connection::is_out_of_files(error) => Some(FailureKind::OwnLimit),
        _ => None,
    }
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// The chain in one line. A link that already says what its cause says does not get it twice.
fn told(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for cause in causes(error) {
        let link = cause.to_string();
        if text.ends_with(&link) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&link);
        if text.len() > ERROR_BYTES_MAX {
            break;
        }
    }
    text
}

fn bounded(text: &str) -> String {
    if text.len() <= ERROR_BYTES_MAX {
        return text.to_owned();
    }
    let mut end = ERROR_BYTES_MAX;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let cut = bounded(&"ä".repeat(ERROR_BYTES_MAX));
        assert_eq!(cut.chars().count(), ERROR_BYTES_MAX / 2 + 1);
        assert_eq!(bounded("short"), "short");
    }

    #[test]
    fn a_receiver_that_demands_a_certificate_is_told_as_that() {
        let alert = rustls::AlertDescription::CertificateRequired;
        let error = io::Error::new(ErrorKind::InvalidData, rustls::Error::AlertReceived(alert));
        assert_eq!(
            demands_certificate(&error, "hook.example:443").as_deref(),
            Some("TLS: hook.example:443 demands a certificate of its clients, and receivers are shown none")
        );
        let other = io::Error::new(ErrorKind::InvalidData, rustls::Error::DecryptError);
        assert_eq!(demands_certificate(&other, "hook.example:443"), None);
    }

    #[test]
    fn io_errors_have_their_kinds() {
        let kind = |kind: ErrorKind| kind_of_io(&io::Error::from(kind));
        assert_eq!(kind(ErrorKind::ConnectionRefused), Some(FailureKind::ConnectRefused));
        assert_eq!(kind(ErrorKind::BrokenPipe), Some(FailureKind::Reset));
        assert_eq!(kind(ErrorKind::TimedOut), Some(FailureKind::Timeout));
        assert_eq!(kind(ErrorKind::Other), None);
        for number in [23, 24] {
            let full = || io::Error::from_raw_os_error(number);
            assert_eq!(kind_of_io(&full()), Some(FailureKind::OwnLimit));
            assert_eq!(kind_of(&ResolveError::Lookup(full())), Some(FailureKind::OwnLimit));
        }
        let silent = ResolveError::Silent("hook.example".to_owned());
        assert_eq!(kind_of(&silent), Some(FailureKind::Dns));
        let threads = ResolveError::NoThread("hook.example".to_owned(), io::Error::from_raw_os_error(11));
        assert_eq!(kind_of(&threads), Some(FailureKind::OwnLimit));
        let wrapped = io::Error::new(ErrorKind::InvalidData, rustls::Error::DecryptError);
        assert_eq!(kind_of_io(&wrapped), Some(FailureKind::Tls));
    }
}
