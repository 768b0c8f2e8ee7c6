//! The URL of an endpoint, in the one spelling by which it is known everywhere.
//!
//! An endpoint is a URL in its WHATWG serialisation, without fragment: that spelling is hashed into
//! queue names and compared with addresses that must not be reached, so everybody has to arrive at
//! the same one (`http://0x7f.1` and full-width digits are `http://127.0.0.1/`). What that parser
//! would silently clean away (tabs, line ends, outer spaces) is refused instead. Whether the host
//! may be connected to is the matter of `egress`.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use url::{Host, Url};

/// A URL has at most this many bytes, as written and as serialised.
pub const URL_BYTES_MAX: usize = 8192;

/// The URL of an endpoint. Equal, ordered and hashed by its serialisation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointUrl {
    text: Arc<str>,
    // What follows is taken from `text` and can be compared after it without changing the result.
    host: (usize, usize),
    port: u16,
    scheme: Scheme,
    ip: Option<IpAddr>,
}

/// How the receiver is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// In the clear.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// As it stands in a URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// Why a text is not the URL of an endpoint; each with the mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Nothing was given.
    #[error("url is empty; give an absolute http or https URL")]
    Empty,
    /// More than [`URL_BYTES_MAX`].
    #[error("url has {bytes} bytes, and at most {URL_BYTES_MAX} are possible")]
    TooLong {
        /// How many it has.
        bytes: usize,
    },
    /// A character that a parser would silently drop or rewrite.
    #[error("url has {} at character {position}; percent-encode it or take it out", .character.escape_unicode())]
    Character {
        /// The character.
        character: char,
        /// Where it is, counted in characters from 1.
        position: usize,
    },
    /// No scheme: a path or a host alone.
    #[error("url is not absolute; begin it with http:// or https://")]
    Relative,
    /// A scheme that is not delivered to.
    #[error("url has the scheme {scheme:?}; only http and https are delivered to")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// A user name or password.
    #[error("url has user information before an @; send credentials in a header instead")]
    UserInformation,
    /// No host.
    #[error("url has no host; write it as http://host/path")]
    NoHost,
    /// The port 0.
    #[error("url has port 0, which nothing can listen on; leave it out or give the receiver's port")]
    PortZero,
    /// Something else.
    #[error("url cannot be read: {reason}")]
    Syntax {
        /// What the parser says.
        reason: String,
    },
}

impl EndpointUrl {
    /// The endpoint of this URL.
    ///
    /// # Errors
    /// What is wrong with it, before anything is cleaned up.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        refuse_what_would_be_cleaned(text)?;
        let mut url = Url::parse(text).map_err(from_parser)?;
        let scheme = match url.scheme() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            other => {
                return Err(UrlError::Scheme {
                    scheme: other.to_owned(),
                });
            }
        };
        if !url.username().is_empty() || url.password().is_some() || authority(text).contains('@') {
            return Err(UrlError::UserInformation);
        }
        let ip = match url.host() {
            None | Some(Host::Domain("")) => return Err(UrlError::NoHost),
            Some(Host::Domain(_)) => None,
            Some(Host::Ipv4(ip)) => Some(IpAddr::V4(ip)),
            Some(Host::Ipv6(ip)) => Some(IpAddr::V6(ip)),
        };
        let port = url.port_or_known_default().unwrap_or(0);
        if port == 0 {
            return Err(UrlError::PortZero);
        }
        url.set_fragment(None);
        if url.as_str().len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong {
                bytes: url.as_str().len(),
            });
        }
        // Without user information the host stands directly behind the slashes.
        let start = scheme.as_str().len() + "://".len();
        let host = (start, start + url.host_str().map_or(0, str::len));
        Ok(Self {
            text: url.as_str().into(),
            host,
            port,
            scheme,
            ip,
        })
    }

    /// The WHATWG serialisation.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The host: a name in ASCII (punycode), or an address, an IPv6 one in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.text.get(self.host.0..self.host.1).unwrap_or("")
    }

    /// The address, where the host is one and no name has to be resolved.
    #[must_use]
    pub const fn ip(&self) -> Option<IpAddr> {
        self.ip
    }

    /// The port, also where it is the scheme's own.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The scheme.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The URL for a log: each value in the query is replaced, because they are often credentials.
    #[must_use]
    pub fn redacted(&self) -> String {
        redact_query(&self.text)
    }
}

/// A URL, or the end of one, with each value in its query replaced.
#[must_use]
pub fn redact_query(url: &str) -> String {
    let Some((before, query)) = url.split_once('?') else {
        return url.to_owned();
    };
    let hidden = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) => format!("{name}=***"),
        None if pair.is_empty() => String::new(),
        None => "***".to_owned(),
    });
    format!("{before}?{}", hidden.collect::<Vec<_>>().join("&"))
}

/// A text with the URLs in it [redacted](EndpointUrl::redacted), wherever they stand.
#[must_use]
pub fn redact_urls(text: &str) -> Cow<'_, str> {
    const MARK: &str = "://";
    if !text.contains('?') || !text.contains(MARK) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(MARK) {
        let (before, url) = rest.split_at(at);
        let end = url
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`'))
            .unwrap_or(url.len());
        let (url, behind) = url.split_at(end);
        shown.push_str(before);
        shown.push_str(&redact_query(url));
        rest = behind;
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// The redacted form, so that a log of a structure leaks nothing.
impl fmt::Debug for EndpointUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.redacted(), formatter)
    }
}

fn refuse_what_would_be_cleaned(text: &str) -> Result<(), UrlError> {
    if text.is_empty() {
        return Err(UrlError::Empty);
    }
    if text.len() > URL_BYTES_MAX {
        return Err(UrlError::TooLong { bytes: text.len() });
    }
    let refused = |character: char| character.is_control() || character.is_whitespace();
    match (1..).zip(text.chars()).find(|(_, character)| refused(*character)) {
        Some((position, character)) => Err(UrlError::Character { character, position }),
        None => Ok(()),
    }
}

/// What stands between the slashes and the path, as written: also an empty user name shows there.
fn authority(text: &str) -> &str {
    let slash = |character| character == '/' || character == '\\';
    let rest = text
        .split_once(':')
        .map_or("", |(_, rest)| rest.trim_start_matches(slash));
    rest.split(['/', '\\', '?', '#']).next().unwrap_or("")
}

fn from_parser(error: url::ParseError) -> UrlError {
    if error == url::ParseError::RelativeUrlWithoutBase {
        return UrlError::Relative;
    }
    if error == url::ParseError::EmptyHost {
        return UrlError::NoHost;
    }
    UrlError::Syntax {
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{EndpointUrl, Scheme, URL_BYTES_MAX, UrlError, redact_urls};

    #[track_caller]
    fn check(text: &str, serialised: &str) {
        assert_eq!(
            EndpointUrl::parse(text).map(|url| url.as_str().to_owned()),
            Ok(serialised.to_owned()),
            "{text:?}"
        );
    }

    #[track_caller]
    fn refused(text: &str, part: &str) {
        let error = EndpointUrl::parse(text).unwrap_err().to_string();
        assert!(error.starts_with("url ") && error.contains(part), "{text:?}: {error}");
    }

    #[test]
    fn every_spelling_of_an_endpoint_comes_to_one() {
        check("http://example.com", "http://example.com/");
        check("HTTP://EXAMPLE.com:80/a/../b?q=1#there", "http://example.com/b?q=1");
        check("https://example.com:443/", "https://example.com/");
        check("https://example.com:8443/%7e", "https://example.com:8443/%7e");
        check("http://bücher.example/ä", "http://xn--bcher-kva.example/%C3%A4");
        check("http://[2001:DB8::0:1]/", "http://[2001:db8::1]/");
    }

    #[test]
    fn every_spelling_of_loopback_is_127_0_0_1() {
        let spellings = [
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "127.1",
            "%31%32%37.0.0.1",
            "①②⑦.⓪.⓪.①",
            "１２７.０.０.１",
            "127.0.0.1.",
        ];
        for host in spellings {
            check(&format!("http://{host}/"), "http://127.0.0.1/");
        }
    }

    #[test]
    fn what_a_parser_would_clean_is_refused() {
        for text in [
            "http://a/\tb",
            "http://a/\r\nb",
            " http://a/",
            "http://a/ ",
            "http://a/b c",
            "http://a/\0",
            "http://a/\u{7f}",
        ] {
            refused(text, "percent-encode it");
        }
        refused("http://a/\u{3000}", r"\u{3000} at character 10");
        refused("http://a/\u{85}", r"\u{85} at character 10");
    }

    #[test]
    fn what_is_no_endpoint_is_refused_with_the_mend() {
        refused("", "empty");
        refused("/hook", "begin it with http://");
        refused("example.com", "begin it with http://");
        for scheme in [
            "file:///etc/passwd",
            "javascript:alert(1)",
            "http+unix://a/b",
            "ftp://a/b",
            "mailto:a@b.example",
        ] {
            refused(scheme, "only http and https");
        }
        for text in [
            "http://user:pass@host/",
            "http://user@host/",
            "http://@host/",
            "http:\\\\@host/",
            "http:@host/",
        ] {
            refused(text, "user information");
        }
        refused("http://", "no host");
        refused("https://?q", "no host");
        refused("http://host:0/", "port 0");
        refused("http://host:65536/", "cannot be read");
        refused("http://[fe80::1%25eth0]/", "cannot be read");
        refused("http://256.1.1.1/", "cannot be read");
    }

    #[test]
    fn a_url_is_bounded_as_written_and_as_serialised() {
        let base = "http://a/";
        let longest = format!("{base}{}", "x".repeat(URL_BYTES_MAX - base.len()));
        check(&longest, &longest);
        assert_eq!(
            EndpointUrl::parse(&format!("{longest}x")),
            Err(UrlError::TooLong {
                bytes: URL_BYTES_MAX + 1
            })
        );
        refused(&format!("{base}{}", "ä".repeat(4_000)), "24009 bytes");
    }

    #[test]
    fn the_parts_are_those_of_the_serialisation() {
        let url = EndpointUrl::parse("HTTPS://Example.com/a@b").unwrap();
        assert_eq!(
            (url.scheme(), url.host(), url.port(), url.ip()),
            (Scheme::Https, "example.com", 443, None)
        );
        let url = EndpointUrl::parse("http://[::1]:8080").unwrap();
        assert_eq!(
            (url.host(), url.port(), url.ip()),
            ("[::1]", 8080, Some("::1".parse().unwrap()))
        );
    }

    #[test]
    fn a_log_shows_no_value_of_a_query() {
        let url = EndpointUrl::parse("http://a/b?token=se%63ret&flag&&x=1=2").unwrap();
        assert_eq!(url.redacted(), "http://a/b?token=***&***&&x=***");
        assert_eq!(format!("{url:?}"), r#""http://a/b?token=***&***&&x=***""#);
        assert_eq!(EndpointUrl::parse("http://a/b").unwrap().redacted(), "http://a/b");
    }

    #[test]
    fn urls_are_redacted_wherever_they_stand_in_a_text() {
        assert_eq!(
            redact_urls("POST \"https://a/?t=1\" failed (see http://b?c), why? x=1"),
            "POST \"https://a/?t=***\" failed (see http://b?*** why? x=1",
        );
        for other in ["why? x=1", "http://a/b", ""] {
            assert_eq!(redact_urls(other), other);
        }
    }

    proptest! {
        #[test]
        fn the_serialisation_is_its_own(text in "https?:[/\\\\]{0,3}[a-z0-9.@:%\\[\\]é#?&=/_-]{0,40}") {
            if let Ok(url) = EndpointUrl::parse(&text) {
                prop_assert_eq!(EndpointUrl::parse(url.as_str()), Ok(url.clone()));
                prop_assert!(!url.host().is_empty());
                prop_assert!(url.as_str().is_ascii() && !url.as_str().contains('#'));
            }
        }

        #[test]
        fn any_text_is_survived(text in ".{0,80}") {
            let _ = EndpointUrl::parse(&text);
        }
    }
}
