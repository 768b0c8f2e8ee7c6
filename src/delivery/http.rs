//! The sender over HTTP: one attempt a call, one deadline over all of it.
//!
//! A request that a reused connection lost before any byte of an answer is sent once more over a new connection,
//! within the same deadline: a receiver that closes an idle connection just then has refused nothing.
//!
//! A 2xx counts only when it is whole, up to the limit to which it is read: one whose body does not come is a failed
//! attempt. Any other status counts from its head on. The TLS provider is the process's default and is set by the caller.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_LENGTH, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT};
use hyper::http::Extensions;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpInfo;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use secrecy::SecretString;

use crate::ambient::{self, Clock};
use crate::authorities::Authorities;
use crate::domain::egress::{AddressRefusal, AddressRules};
use crate::domain::outcome::{FailureKind, Outcome};
use crate::domain::signature::SigningSecret;
use crate::domain::text;
use crate::domain::url::{EndpointUrl, redact_query};

use super::body::{Borrowed, Lent};
use super::connector::{Connector, Traffic};
use super::failure::Failed;
use super::guard::Guard;
use super::headers::headers_of;
use super::lookups::Lookups;
use super::resolver::{CheckedResolver, DIALLED_PORT};
use super::target::{Target, Targets};
use super::{Method, Request, Sender, SenderHandle, Sent};

/// An answer is read to its end up to this many bytes (the snippet may be shorter), so that its
/// connection can be used again; past it the connection is dropped.
const RESPONSE_BYTES_READ: usize = 16 * 1024;
/// Of a `Location` this much is told.
const LOCATION_CHARS_MAX: usize = 180;
/// A `Retry-After` is kept up to this many bytes.
const RETRY_AFTER_BYTES_MAX: usize = 128;
/// Idle connections kept for one host, behind which many endpoints may stand: as many as there are
/// workers by default, so that a busy host is not connected to again and again.
const IDLE_PER_HOST_MAX: usize = 512;
/// How long an idle connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

const OURSELVES: HeaderValue = HeaderValue::from_static(concat!("redrive/", env!("CARGO_PKG_VERSION")));
const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");

/// How requests are sent.
#[derive(Clone, Debug)]
pub struct SenderSettings {
    /// The deadline over connect, send, headers and body.
    pub timeout: Duration,
    /// Bytes kept of an answer's body.
    pub response_snippet_bytes: usize,
    /// What may be connected to.
    pub rules: AddressRules,
    /// What is added to requests, by URL.
    pub endpoints: HashMap<EndpointUrl, EndpointSettings>,
}

/// What is added to requests to one URL.
#[derive(Clone, Debug, Default)]
pub struct EndpointSettings {
    /// Every one signs; none, and nothing is signed.
    pub secrets: Vec<SigningSecret>,
    /// Headers; they hold against those of a notification.
    pub headers: Vec<(String, SecretString)>,
}

/// Why there is no sender.
#[derive(Debug, thiserror::Error)]
pub enum SenderError {
    /// A configured header cannot be sent.
    #[error("cannot send the headers configured for endpoint {url:?}: {problem}")]
    Header {
        /// Which endpoint, redacted.
        url: String,
        /// Which header and why.
        problem: String,
    },
}

type Client = legacy::Client<Connector, Borrowed>;

/// Sends over HTTP and HTTPS.
#[derive(Debug)]
pub struct HttpSender {
    /// Uses connections again.
    pooled: Client,
    /// Makes a new connection for each request.
    fresh: Client,
    targets: Targets,
    guard: Arc<Guard>,
    resolver: CheckedResolver,
    timeout: Duration,
    snippet_bytes: usize,
    clock: Clock,
}

impl HttpSender {
    /// A sender with these settings.
    ///
    /// # Errors
    /// A configured header that cannot be sent.
    #[expect(clippy::new_ret_no_self, reason = "callers only ever hold the seam")]
    pub fn new(settings: SenderSettings, clock: Clock) -> Result<SenderHandle, SenderError> {
        let lookups = Lookups::new(clock.clone());
        let guard = Arc::new(Guard::new(settings.rules, Arc::clone(&lookups), clock.clone()));
        let resolver = CheckedResolver::new(Arc::clone(&guard), lookups, settings.timeout);
        let connector = Connector::new(resolver.clone(), tls(clock.clone()), clock.clone());
        Ok(Arc::new(Self {
            pooled: client(connector.clone(), IDLE_PER_HOST_MAX),
            fresh: client(connector, 0),
            targets: Targets::new(&settings.endpoints)?,
            guard,
            resolver,
            timeout: settings.timeout,
            snippet_bytes: settings.response_snippet_bytes,
            clock,
        }))
    }

    /// Names are checked when they are resolved; the connector does not ask the resolver for addresses.
    fn check_address(&self, url: &EndpointUrl) -> Result<(), AddressRefusal> {
        url.ip().map_or(Ok(()), |ip| self.guard.check(ip, url.port()))
    }

    fn prepare(&self, request: Request) -> Result<Prepared, Failed> {
        self.check_address(&request.url).map_err(refused)?;
        let target = self.targets.get(&request.url)?;
        let method = method_of(&request.method)?;
        let secrets = if request.secrets.is_empty() {
            &target.own.secrets
        } else {
            &request.secrets
        };
        let mut headers = headers_of(&request, &target.own.headers, secrets, self.clock.now())?;
        headers.entry(USER_AGENT).or_insert(OURSELVES);
        headers.entry(ACCEPT).or_insert(ANYTHING);
        if request.body.is_empty() && request.method == Method::Post {
            // The client leaves it out, and some servers then answer 411 (RFC 9110, 8.6).
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        Ok(Prepared {
            target,
            method,
            headers,
            body: Lent::new(request.body),
        })
    }

    async fn attempt(&self, request: Request, answer: &mut Answer) -> Result<Outcome, Failed> {
        self.guard.look().await;
        let prepared = self.prepare(request)?;
        let exchange = DIALLED_PORT.scope(prepared.target.port, self.exchange(&prepared, answer));
        match ambient::timeout(self.timeout, exchange).await {
            Ok(ended) => ended,
            Err(_) => Err(answer.at_deadline(self.timeout)),
        }
    }

    async fn exchange(&self, prepared: &Prepared, answer: &mut Answer) -> Result<Outcome, Failed> {
        let response = match self.pooled.request(prepared.to_http()).await {
            Err(error) if is_stale(&error) => {
                tracing::trace!(error = ?error, "an idle connection was closed just then: sending over a new one");
                self.fresh.request(prepared.to_http()).await
            }
            ended => ended,
        };
        let target = &prepared.target;
        let failed = |error| Failed::from_client(&error, &format!("{}:{}", target.host(), target.port));
        self.read(response.map_err(failed)?, answer).await
    }

    async fn read(&self, mut response: hyper::Response<Incoming>, answer: &mut Answer) -> Result<Outcome, Failed> {
        if let Some(info) = response.extensions().get::<HttpInfo>() {
            let peer = info.remote_addr();
            self.guard.check(peer.ip(), peer.port()).map_err(refused)?;
        }
        let status = response.status();
        answer.status = Some(status.as_u16());
        if status.is_redirection() {
            let location = response.headers().get(LOCATION).map(HeaderValue::as_bytes);
            answer.location = location.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        }
        let retry_after = response.headers().get(RETRY_AFTER);
        answer.retry_after = retry_after.map(|value| kept_retry_after(value.as_bytes()));
        let outcome = Outcome::Status(status.as_u16());
        let mut read = 0;
        while let Some(frame) = response.frame().await {
            let frame = frame.map_err(|error| Failed::from_body(&error))?;
            let Some(chunk) = frame.data_ref() else { continue };
            read += chunk.len();
            let room = self.snippet_bytes.saturating_sub(answer.snippet.len());
            answer.snippet.extend(chunk.iter().take(room));
            if read >= RESPONSE_BYTES_READ && answer.snippet.len() >= self.snippet_bytes {
                return Ok(outcome);
            }
        }
        if let Some(traffic) = response.extensions().get::<Arc<Traffic>>() {
            traffic.answer_ended();
        }
        Ok(outcome)
    }
}

fn refused(refusal: AddressRefusal) -> Failed {
    Failed::new(FailureKind::AddressRefused, &refusal.to_string())
}

/// A request that may be sent twice.
struct Prepared {
    target: Arc<Target>,
    method: hyper::Method,
    headers: HeaderMap,
    body: Lent,
}

impl Prepared {
    fn to_http(&self) -> hyper::Request<Borrowed> {
        let mut http = hyper::Request::new(self.body.lend());
        http.method_mut().clone_from(&self.method);
        http.uri_mut().clone_from(&self.target.uri);
        http.headers_mut().clone_from(&self.headers);
        http
    }
}

/// Whether a connection that had served before broke before any byte of an answer.
fn is_stale(error: &legacy::Error) -> bool {
    let mut extras = Extensions::new();
    if let Some(connection) = error.connect_info() {
        connection.get_extras(&mut extras);
    }
    extras.get::<Arc<Traffic>>().is_some_and(|traffic| traffic.is_stale())
}

#[async_trait]
impl Sender for HttpSender {
    fn refusal(&self, url: &EndpointUrl) -> Option<String> {
        self.check_address(url).err().map(|refusal| refusal.to_string())
    }

    async fn is_allowed(&self, url: &EndpointUrl) -> bool {
        self.guard.look().await;
        if url.ip().is_some() {
            return self.check_address(url).is_ok();
        }
        let lookup = self.resolver.addresses(url.host(), url.port());
        matches!(ambient::timeout(self.timeout, lookup).await, Ok(Ok(_)))
    }

    async fn send(&self, request: Request) -> Sent {
        let started_at = self.clock.now();
        let begun = self.clock.uptime();
        let mut answer = Answer::default();
        let url = request.url.clone();
        let (outcome, error) = match self.attempt(request, &mut answer).await {
            Ok(outcome) => (outcome, None),
            Err(failed) => (answer.outcome_of(failed.kind), Some(failed.text)),
        };
        let error = answer.redirect(&url).or(error);
        Sent {
            outcome,
            retry_after: answer.retry_after,
            error,
            response: (!answer.snippet.is_empty()).then_some(answer.snippet),
            started_at,
            duration: self.clock.uptime().saturating_sub(begun),
        }
    }
}

/// What came before the attempt ended, in whatever way.
#[derive(Debug, Default)]
struct Answer {
    /// From the head on.
    status: Option<u16>,
    /// Of a redirection.
    location: Option<String>,
    retry_after: Option<String>,
    snippet: Vec<u8>,
}

impl Answer {
    fn at_deadline(&self, timeout: Duration) -> Failed {
        let within = timeout.as_secs_f64();
        if self.status.is_some() {
            let text = format!("the answer began but did not end within {within} s");
            return Failed::new(FailureKind::BodyTimeout, &text);
        }
        Failed::new(FailureKind::Timeout, &format!("no answer within {within} s"))
    }

    /// What an attempt that failed so amounts to: a receiver that says no has said it, whatever becomes of the words
    /// that it adds.
    fn outcome_of(&self, kind: FailureKind) -> Outcome {
        match self.status {
            Some(status) if !(200..=299).contains(&status) => Outcome::Status(status),
            Some(_) | None => Outcome::Failure(kind),
        }
    }

    /// Where the receiver wants requests to `url` to be sent.
    fn redirect(&self, url: &EndpointUrl) -> Option<String> {
        let location = self.location.as_deref()?;
        let mut to = url::Url::parse(url.as_str()).and_then(|url| url.join(location)).ok()?;
        // A URL without a host has no user either.
        let _ = to.set_username("").and_then(|()| to.set_password(None));
        to.set_fragment(None);
        let mend = if matches!(to.scheme(), "http" | "https") {
            ": publish to that URL"
        } else {
            ""
        };
        let to = text::show(&redact_query(to.as_str()), LOCATION_CHARS_MAX);
        Some(format!(
            "the receiver redirects to {to}, and redirects are not followed{mend}"
        ))
    }
}

/// What is kept of a `Retry-After`.
pub(crate) fn kept_retry_after(value: &[u8]) -> String {
    String::from_utf8_lossy(value.get(..RETRY_AFTER_BYTES_MAX).unwrap_or(value)).into_owned()
}

fn method_of(method: &Method) -> Result<hyper::Method, Failed> {
    let refused = |name: &str| Failed::new(FailureKind::BadRequest, &format!("method {name:?} cannot be sent"));
    match method {
        Method::Post => Ok(hyper::Method::POST),
        Method::Head => Ok(hyper::Method::HEAD),
        // CONNECT would turn the connection into a tunnel.
        Method::Other(name) => match hyper::Method::from_bytes(name.as_bytes()) {
            Ok(method) if method != hyper::Method::CONNECT => Ok(method),
            Ok(_) | Err(_) => Err(refused(name)),
        },
    }
}

/// A machine without any root certificate can still deliver over plain HTTP: HTTPS fails there, attempt
/// by attempt, as untrusted.
fn tls(clock: Clock) -> ClientConfig {
    let authorities = Authorities::read(Vec::new(), clock);
    if authorities.is_empty() {
        tracing::warn!("no root certificates: no HTTPS endpoint can be trusted");
    }
    let mut config = authorities.client();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}

fn client(connector: Connector, idle_per_host: usize) -> Client {
    legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(idle_per_host)
        .build(connector)
}
