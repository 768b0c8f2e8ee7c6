//! Where the broker is and as whom we log in; the only place that holds the password.
//!
//! Neither errors nor `Debug` contain the password.

use std::fmt;

use url::{Host, Url};

use crate::broker::BrokerError;

/// Seconds between heartbeats: a dead peer is noticed after two (docs/rabbitmq.md, *Heartbeats*).
pub(super) const HEARTBEAT_S: u16 = 10;
/// Columns of a user and a host.
const SHOWN_MAX: usize = 200;

/// Host, port, scheme and login.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: bool,
    pub(super) user: String,
    pub(super) password: String,
}

/// As a person writes it, without the password.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "amqps" } else { "amqp" };
        let shown = |text: &str| crate::domain::text::show(text, SHOWN_MAX);
        write!(
            f,
            "{scheme}://{}@{}:{}",
            shown(&self.user),
            shown(&self.host),
            self.port
        )
    }
}

impl Address {
    /// Reads `amqp[s]://user:password@host:port`; path and query are left out, the vhost comes from the settings.
    pub(super) fn parse(text: &str) -> Result<Self, BrokerError> {
        let url = Url::parse(text).map_err(|error| refused(error.to_string()))?;
        let tls = match url.scheme() {
            "amqp" => false,
            "amqps" => true,
            _ => return Err(refused("the scheme must be amqp or amqps".to_owned())),
        };
        let host = match url.host() {
            Some(Host::Domain(host)) => decoded(host)?,
            Some(Host::Ipv4(host)) => host.to_string(),
            Some(Host::Ipv6(host)) => host.to_string(),
            None => String::new(),
        };
        let or = |text: String, fallback: &str| if text.is_empty() { fallback.to_owned() } else { text };
        Ok(Self {
            host: or(host, "localhost"),
            port: url.port().unwrap_or(if tls { 5671 } else { 5672 }),
            tls,
            user: or(decoded(url.username())?, "guest"),
            password: url.password().map_or(Ok("guest".to_owned()), decoded)?,
        })
    }

    /// Host and port, for people.
    pub(super) fn at(&self) -> String {
        let host = crate::domain::text::show(&self.host, SHOWN_MAX);
        if host.contains(':') {
            return format!("[{host}]:{}", self.port);
        }
        format!("{host}:{}", self.port)
    }
}

fn decoded(text: &str) -> Result<String, BrokerError> {
    percent_encoding::percent_decode_str(text)
        .decode_utf8()
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| refused("user, password and host must be UTF-8 after percent decoding".to_owned()))
}

fn refused(detail: String) -> BrokerError {
    BrokerError::Failed {
        operation: "reading broker.url",
        detail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_its_host_and_hides_its_password() {
        for (text, host, port) in [
            ("amqp://a:s3cret@h:1/x", "h", 1),
            ("amqps://a:s3cret@[::1]", "::1", 5671),
            ("amqp://a:s3cret@10.0.0.1/%2f?heartbeat=0", "10.0.0.1", 5672),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!((address.host.as_str(), address.port), (host, port), "{text}");
            assert_eq!(address.password, "s3cret");
            assert!(!format!("{address:?}").contains("s3cret"));
        }
    }

    #[test]
    fn odd_addresses_are_errors_without_the_password() {
        for text in [
            "",
            "x",
            "http://a:s3cret@h",
            "amqp:a:s3cret@h:99999",
            "amqp://a:s3cret%ff@h",
            "amqp://a:s3cret@h:99999",
        ] {
            let error = Address::parse(text).map(|_| ()).map_err(|error| error.to_string());
            assert!(
                error.as_ref().err().is_none_or(|error| !error.contains("s3cret")),
                "{error:?}"
            );
        }
        assert!(Address::parse("http://h").is_err());
        assert!(Address::parse("amqp://a:s3cret%ff@h").is_err());
    }
}
