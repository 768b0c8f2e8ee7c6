//! Why no connection came about, in words: what a library says of it is the name and number of a system call.

use std::error::Error;
use std::io::{self, ErrorKind};

/// What keeps from connecting to `at`, a host and a port: said by this error, or by one of its causes. None where none of them
/// is about a connection, or where it was lost later.
#[must_use]
pub fn told(error: &(dyn Error + 'static), at: &str) -> Option<String> {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.find_map(|cause| {
        let of_system = cause.downcast_ref::<io::Error>().and_then(|error| of_system(error, at));
        of_system.or_else(|| of_text(&cause.to_string(), at))
    })
}

/// Whether this process, or this machine, may open no more files: that says nothing of what it wanted to reach.
#[must_use]
pub fn is_out_of_files(error: &io::Error) -> bool {
    // ENFILE and EMFILE, which have no kind of their own.
    matches!(error.raw_os_error(), Some(23 | 24))
}

/// Where a URL leads to, as [`told`] names it.
#[must_use]
pub fn at(url: &url::Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the kinds are open")]
fn of_system(error: &io::Error, at: &str) -> Option<String> {
    // An error inside an IO error is not among its causes.
    if let Some(words) = error.get_ref().and_then(|inner| told(inner, at)) {
        return Some(words);
    }
    match error.kind() {
        ErrorKind::ConnectionRefused => Some(format!("connection refused: nothing listens at {at}")),
        ErrorKind::TimedOut => Some(format!("no answer: the connection to {at} timed out")),
        ErrorKind::HostUnreachable => Some(format!("no host answers at {at}")),
        ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => Some(format!("no network leads to {at}")),
        _ if is_out_of_files(error) => {
            Some("too many files and connections are open here: raise the limit (ulimit -n)".to_owned())
        }
        _ => None,
    }
}

/// Libraries for names and for TLS have errors of their own, which `domain` does not know.
fn of_text(text: &str, at: &str) -> Option<String> {
    let host = at.rsplit_once(':').map_or(at, |(host, _)| host);
    if text.contains("failed to lookup address information") {
        return Some(if text.contains("Temporary failure") {
            format!("the name {host} cannot be looked up at present: no name server answers")
        } else {
            format!("the name {host} does not resolve")
        });
    }
    if text.starts_with("received corrupt message of type InvalidContentType") {
        return Some(format!("TLS: what listens at {at} does not speak it"));
    }
    let why = text.strip_prefix("invalid peer certificate: ")?;
    let is = |words: &[&str]| words.iter().any(|word| why.contains(word));
    Some(if is(&["UnknownIssuer"]) {
        format!("TLS: the certificate of {at} is not trusted: no authority that is known here signed it")
    } else if is(&["CaUsedAsEndEntity"]) {
        format!(
            "TLS: the certificate of {at} is that of an authority (as `openssl req -x509` makes it), which no server may show: \
             have one issued for {host}"
        )
    } else if is(&["not valid for name", "NotValidForName"]) {
        format!("TLS: the certificate of {at} is not for the name {host}")
    } else if is(&["expired", "Expired"]) {
        format!("TLS: the certificate of {at} has expired")
    } else if is(&["not valid yet", "NotValidYet"]) {
        format!("TLS: the certificate of {at} is not valid yet")
    } else {
        format!("TLS: the certificate of {at} is not trusted: {why}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a library wraps it.
    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Wrapped(#[source] io::Error);

    fn check(error: io::Error, expected: Option<&str>) {
        assert_eq!(told(&Wrapped(error), "db.example:5432").as_deref(), expected);
    }

    #[test]
    fn a_port_that_is_closed_is_told_in_words() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap().to_string();
        drop(listener);
        let error = Wrapped(std::net::TcpStream::connect(&at).unwrap_err());
        let expected = format!("connection refused: nothing listens at {at}");
        assert_eq!(told(&error, &at), Some(expected));
    }

    #[test]
    fn a_name_a_network_and_a_certificate_are_told_in_words() {
        let lookup = |why: &str| io::Error::other(format!("failed to lookup address information: {why}"));
        check(
            lookup("Name or service not known"),
            Some("the name db.example does not resolve"),
        );
        check(
            lookup("Temporary failure in name resolution"),
            Some("the name db.example cannot be looked up at present: no name server answers"),
        );
        check(
            io::Error::from_raw_os_error(113),
            Some("no host answers at db.example:5432"),
        );
        check(
            io::Error::from_raw_os_error(110),
            Some("no answer: the connection to db.example:5432 timed out"),
        );
        check(
            io::Error::other("invalid peer certificate: UnknownIssuer"),
            Some("TLS: the certificate of db.example:5432 is not trusted: no authority that is known here signed it"),
        );
        check(
            io::Error::other("invalid peer certificate: certificate expired: verification time 1 (UNIX)"),
            Some("TLS: the certificate of db.example:5432 has expired"),
        );
        check(
            io::Error::other("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))"),
            Some(
                "TLS: the certificate of db.example:5432 is that of an authority (as `openssl req -x509` makes it), which no \
                 server may show: have one issued for db.example",
            ),
        );
        check(io::Error::from_raw_os_error(104), None);
        check(io::Error::other("anything else"), None);
    }
}
