//! The management HTTP API: listing, policies, and what only an administrator may do.
//!
//! Delivery never needs it. Success is believed only where its body is JSON of the shape that was asked for: what a
//! proxy, a broken connection or a login page answers with 200 is a failure, and never an empty list. Within that,
//! answers are taken leniently: every field is optional, an element of a wrong shape is skipped or shown without
//! the field, and never costs the page. Bodies are bounded. Errors never contain the URL's credentials.

mod answers;
mod calls;
mod silence;

pub(super) use calls::{PAGES_MAX, Page};

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;

use self::silence::Silence;
use super::client_tls::{ClientTls, HttpClient};
use super::failure::{rights, with_mend};
use crate::ambient::Clock;
use crate::broker::BrokerError;
use crate::domain::broker_rules::Version;
use crate::domain::connection;

/// How long an answer may take: a page of 500 queues was measured below 2 s, and at 15 s on a busy broker.
const ANSWER: Duration = Duration::from_secs(30);
/// How long the one answer about all queues may take: 10,000 were measured at 6 to 8 s, and the broker gives up
/// after five minutes.
const ANSWER_ALL: Duration = Duration::from_mins(3);
/// How long a broker is as it told of itself: that changes with an upgrade.
const TOLD_GOOD: Duration = Duration::from_mins(1);
/// How long a connection may take to open.
pub(super) const CONNECT: Duration = Duration::from_secs(5);
/// Bytes of an answer that are read; a page of 500 queues has about 0.7 MB.
const BODY_BYTES_MAX: usize = 64 << 20;

/// A client of the management API for one vhost.
pub(super) struct Management {
    base: Url,
    user: String,
    password: SecretString,
    vhost: String,
    client: HttpClient,
    /// Uptime until which all queues are listed by pages.
    paged_until: Mutex<Option<Duration>>,
    /// What the broker told of itself, and when it was asked (uptime).
    told: Mutex<Option<(Duration, Told)>>,
    silence: Arc<Silence>,
}

impl fmt::Debug for Management {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Management({:?}, user {:?})", self.base.as_str(), self.user)
    }
}

/// What changes with an upgrade or a restart of the broker only.
#[derive(Clone, Copy)]
struct Told {
    version: Version,
    counts: bool,
}

/// An answer that is not an error of the transport.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Value,
}

impl Answer {
    /// A failure may have any body. Success to a question has one of JSON; to an order, that or none.
    fn read(method: &Method, status: StatusCode, bytes: &[u8]) -> Result<Self, BrokerError> {
        let body = match serde_json::from_slice(bytes) {
            Ok(body) => body,
            Err(_) if !status.is_success() || (bytes.is_empty() && *method != Method::GET) => Value::Null,
            Err(error) => return Err(not_understood(&error.to_string())),
        };
        Ok(Self { status, body })
    }
}

/// The elements of an answer that has to be a list.
fn list<'a>(body: &'a Value, of: &str) -> Result<&'a [Value], BrokerError> {
    let elements = body.as_array().map(Vec::as_slice);
    elements.ok_or_else(|| not_understood(&format!("it is no list of {of}")))
}

/// The API said that all is well, and said it with something that it never says.
fn not_understood(why: &str) -> BrokerError {
    BrokerError::Failed {
        operation: "a call of the management API",
        detail: format!(
            "its answer is not understood ({why}): check that broker.management_url is the broker's, and what stands between"
        ),
    }
}

/// What a name in a path keeps as it is. The server refuses more than a URL may have raw, such as `[`, and a tab would be
/// left out.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The path of a call, each part of it one segment.
fn path_below(base: &str, parts: &[&str]) -> String {
    let mut path = format!("{}/api", base.trim_end_matches('/'));
    for part in parts {
        path.push('/');
        path.extend(utf8_percent_encode(part, PLAIN));
    }
    path
}

impl Management {
    /// Reads `http[s]://user:password@host:port[/prefix]`; without user information the login of AMQP is used.
    pub(super) fn new(
        url: &str,
        (user, password): (&str, &str),
        vhost: &str,
        tls: Option<ClientTls>,
    ) -> Result<Self, BrokerError> {
        let mut base = Url::parse(url).map_err(|error| misconfigured(&error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(misconfigured("the scheme must be http or https"));
        }
        let decoded = |text: &str| {
            percent_encoding::percent_decode_str(text)
                .decode_utf8_lossy()
                .into_owned()
        };
        let (user, password) = if base.username().is_empty() {
            (user.to_owned(), password.to_owned())
        } else {
            (
                decoded(base.username()),
                base.password().map(decoded).unwrap_or_default(),
            )
        };
        // A URL with a host takes both; what it would refuse has neither.
        let _ = base.set_username("");
        let _ = base.set_password(None);
        base.set_query(None);
        base.set_fragment(None);
        let client = HttpClient::new(tls).map_err(|why| misconfigured(&why))?;
        Ok(Self {
            base,
            user,
            password: password.into(),
            vhost: vhost.to_owned(),
            client,
            paged_until: Mutex::default(),
            told: Mutex::default(),
            silence: Arc::default(),
        })
    }

    /// The broker's version; of a broker that does not tell it now, the one that it told before.
    pub(super) async fn version(&self, clock: &Clock) -> Option<Version> {
        Some(self.told(clock).await?.version)
    }

    async fn told(&self, clock: &Clock) -> Option<Told> {
        let known = *self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock.uptime();
        if let Some((at, told)) = known
            && now.saturating_sub(at) < TOLD_GOOD
        {
            return Some(told);
        }
        let told = self.overview().await.ok().and_then(|overview| {
            Some(Told {
                version: Version::parse(overview.version.as_deref()?)?,
                counts: overview.counts,
            })
        });
        if let Some(told) = told {
            *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, told));
        }
        told.or(known.map(|(_, told)| told))
    }

    fn paged_until(&self) -> Option<Duration> {
        *self.paged_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn page_until(&self, uptime: Duration) {
        *self.paged_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(uptime);
    }

    pub(super) fn vhost(&self) -> &str {
        &self.vhost
    }

    /// Who asks.
    pub(super) fn user(&self) -> &str {
        &self.user
    }

    /// Calls `path` (segments, unescaped) below `/api` and takes any status.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Answer, BrokerError> {
        let (status, bytes) = self.fetch(method.clone(), path, query, body, ANSWER).await?;
        Answer::read(&method, status, &bytes)
    }

    /// [`Management::fetch`], however long it takes within its bound.
    async fn ask(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<&Value>,
        within: Duration,
    ) -> Result<(StatusCode, Vec<u8>), BrokerError> {
        if let Some(dots) = path.iter().find(|part| matches!(**part, "." | "..")) {
            return Err(BrokerError::Failed {
                operation: "ask the management API",
                detail: format!("{dots:?} cannot stand in the path of a URL"),
            });
        }
        let mut request = self.request(method, path, query).timeout(within);
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body.to_string());
        }
        let answer = request.send().await.map_err(unreachable)?;
        Ok((answer.status(), bounded(answer).await?))
    }

    fn request(&self, method: Method, path: &[&str], query: &[(&str, &str)]) -> reqwest::RequestBuilder {
        let mut url = self.base.clone();
        url.set_path(&path_below(self.base.path(), path));
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.client
            .get()
            .request(method, url)
            .basic_auth(&self.user, Some(self.password.expose_secret()))
    }

    /// Calls and takes only success; `right` is what an error of rights says is missing.
    pub(super) async fn call(
        &self,
        operation: &'static str,
        right: &str,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
    ) -> Result<Value, BrokerError> {
        let answer = self.send(method, path, &[], body).await?;
        if answer.status.is_success() {
            return Ok(answer.body);
        }
        Err(self.refusal(operation, right, &answer).await)
    }

    /// What is at `path`; `None` where the API says that there is no such thing.
    pub(super) async fn find(
        &self,
        operation: &'static str,
        right: &str,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Option<Value>, BrokerError> {
        let answer = self.send(Method::GET, path, query, None).await?;
        match answer.status {
            status if status.is_success() => Ok(Some(answer.body)),
            // Without a document it is the path that is not known.
            StatusCode::NOT_FOUND if !answer.body.is_null() => Ok(None),
            _ => Err(self.refusal(operation, right, &answer).await),
        }
    }

    /// What an unsuccessful answer means. 401 is the login only when `/whoami` says so too (docs/rabbitmq.md, *Logins
    /// and rights*).
    pub(super) async fn refusal(&self, operation: &'static str, right: &str, answer: &Answer) -> BrokerError {
        let reason = answer.body.get("reason").and_then(Value::as_str).unwrap_or_default();
        match answer.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                match self.send(Method::GET, &["whoami"], &[], None).await {
                    Ok(me) if me.status.is_success() => rights(operation, right, &self.vhost, &self.user),
                    Ok(me) if me.body.get("reason").and_then(Value::as_str).is_some_and(no_tag) => {
                        BrokerError::Rights {
                            operation,
                            right: "the tag `management`".to_owned(),
                            mend: format!("grant it with `rabbitmqctl set_user_tags {} management`", self.user),
                        }
                    }
                    Ok(_) | Err(_) => BrokerError::Login {
                        user: self.user.clone(),
                    },
                }
            }
            StatusCode::NOT_FOUND if answer.body.is_null() => BrokerError::Management {
                detail: format!("{:?} has no management API (404)", self.base.as_str()),
                mend: "check broker.management_url, and `rabbitmq-plugins enable rabbitmq_management`".to_owned(),
            },
            status => {
                // Where the broker has no reason of its own it repeats the status.
                let status = status.to_string();
                let reason = if status.ends_with(reason) { "" } else { reason };
                BrokerError::Failed {
                    operation,
                    detail: format!("management API answers {status} {reason}")
                        .trim_end()
                        .to_owned(),
                }
            }
        }
    }
}

fn no_tag(reason: &str) -> bool {
    reason.contains("Not management user")
}

async fn bounded(mut answer: reqwest::Response) -> Result<Vec<u8>, BrokerError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
        if bytes.len() + chunk.len() > BODY_BYTES_MAX {
            return Err(BrokerError::Management {
                detail: format!("an answer has more than {BODY_BYTES_MAX} bytes"),
                mend: "ask for smaller pages".to_owned(),
            });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn unreachable(error: reqwest::Error) -> BrokerError {
    use std::error::Error as _;
    let at = error.url().map(connection::at).unwrap_or_default();
    let error = error.without_url();
    let detail = connection::told(&error, &at).unwrap_or_else(|| {
        let mut detail = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            detail = format!("{detail}: {cause}");
            source = cause.source();
        }
        with_mend(detail)
    });
    BrokerError::Management {
        detail,
        mend: "check broker.management_url, and `rabbitmq-plugins enable rabbitmq_management`".to_owned(),
    }
}

fn misconfigured(detail: &str) -> BrokerError {
    BrokerError::Management {
        detail: detail.to_owned(),
        mend: "broker.management_url is http[s]://[user:password@]host:port".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_is_taken_out_of_the_url() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let management = Management::new("http://a:s3%2Fcret@h:1/x?q", ("b", "c"), "v", None).unwrap();
        assert_eq!(management.base.as_str(), "http://h:1/x");
        assert_eq!(management.user, "a");
        assert_eq!(management.password.expose_secret(), "s3/cret");
        assert!(!format!("{management:?}").contains("cret"));
        assert_eq!(Management::new("http://h", ("b", "c"), "v", None).unwrap().user, "b");
        assert!(Management::new("amqp://a:s3cret@h", ("b", "c"), "v", None).is_err());
    }
}
