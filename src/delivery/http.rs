//! The sender over HTTP: one client, one attempt a call, one deadline over all of it.
//!
//! An answer counts only when it is whole, up to the limit to which it is read: a 2xx whose body does
//! not come is a failed attempt. The TLS provider is the process's default and is set by the caller.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{CONTENT_LENGTH, HeaderValue, RETRY_AFTER};
use secrecy::SecretString;

use crate::ambient::Clock;
use crate::domain::egress::AddressRules;
use crate::domain::outcome::{FailureKind, Outcome};
use crate::domain::signature::SigningSecret;
use crate::domain::url::EndpointUrl;

use super::failure::Failed;
use super::headers::headers_of;
use super::resolver::{CheckedResolver, DIALLED_PORT};
use super::target::{Target, Targets};
use super::{Method, Request, Sender, SenderHandle, Sent};

/// An answer is read to its end up to this many bytes (the snippet may be shorter), so that its
/// connection can be used again; past it the connection is dropped.
const RESPONSE_BYTES_READ: usize = 16 * 1024;
/// A `Retry-After` is kept up to this many bytes.
const RETRY_AFTER_BYTES_MAX: usize = 128;
/// Idle connections kept for one host, behind which many endpoints may stand: as many as there are
/// workers by default, so that a busy host is not connected to again and again.
const IDLE_PER_HOST_MAX: usize = 512;
/// How long an idle connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

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
    /// The client cannot be made.
    #[error("cannot set up the HTTP client")]
    Client(#[source] reqwest::Error),
}

/// Sends over HTTP and HTTPS.
#[derive(Debug)]
pub struct HttpSender {
    client: reqwest::Client,
    targets: Targets,
    rules: Arc<AddressRules>,
    timeout: Duration,
    snippet_bytes: usize,
    clock: Clock,
}

impl HttpSender {
    /// A sender with these settings.
    ///
    /// # Errors
    /// A configured header that cannot be sent, or a client that cannot be made.
    #[expect(clippy::new_ret_no_self, reason = "callers only ever hold the seam")]
    pub fn new(settings: SenderSettings, clock: Clock) -> Result<SenderHandle, SenderError> {
        let rules = Arc::new(settings.rules);
        Ok(Arc::new(Self {
            client: client(&rules)?,
            targets: Targets::new(&settings.endpoints, Arc::clone(&rules))?,
            rules,
            timeout: settings.timeout,
            snippet_bytes: settings.response_snippet_bytes,
            clock,
        }))
    }

    fn prepare(&self, request: Request) -> Result<(reqwest::Request, Arc<Target>), Failed> {
        let target = self.targets.get(&request.url)?;
        let method = method_of(&request.method)?;
        let secrets = if request.secrets.is_empty() {
            &target.own.secrets
        } else {
            &request.secrets
        };
        let headers = headers_of(&request, &target.own.headers, secrets, self.clock.now())?;
        let mut http = reqwest::Request::new(method, target.url.clone());
        *http.headers_mut() = headers;
        if !request.body.is_empty() {
            *http.body_mut() = Some(request.body.into());
        } else if request.method == Method::Post {
            // The client leaves it out, and some servers then answer 411 (RFC 9110, 8.6).
            http.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        Ok((http, target))
    }

    async fn attempt(&self, request: Request, answer: &mut Answer) -> Result<Outcome, Failed> {
        let (http, target) = self.prepare(request)?;
        let exchange = DIALLED_PORT.scope(target.port, self.exchange(http, answer));
        match tokio::time::timeout(self.timeout, exchange).await {
            Ok(ended) => ended,
            Err(_) => Err(answer.at_deadline(self.timeout)),
        }
    }

    async fn exchange(&self, http: reqwest::Request, answer: &mut Answer) -> Result<Outcome, Failed> {
        let mut response = self.client.execute(http).await.map_err(Failed::from_client)?;
        if let Some(peer) = response.remote_addr() {
            self.rules
                .check(peer.ip(), peer.port())
                .map_err(|refusal| Failed::new(FailureKind::AddressRefused, &refusal.to_string()))?;
        }
        answer.begun = true;
        answer.retry_after = response.headers().get(RETRY_AFTER).map(|value| {
            let bytes = value.as_bytes();
            String::from_utf8_lossy(bytes.get(..RETRY_AFTER_BYTES_MAX).unwrap_or(bytes)).into_owned()
        });
        let mut read = 0;
        while let Some(chunk) = response.chunk().await.map_err(Failed::from_client)? {
            read += chunk.len();
            let room = self.snippet_bytes.saturating_sub(answer.snippet.len());
            answer.snippet.extend(chunk.iter().take(room));
            if read >= RESPONSE_BYTES_READ && answer.snippet.len() >= self.snippet_bytes {
                break;
            }
        }
        Ok(Outcome::Status(response.status().as_u16()))
    }
}

#[async_trait]
impl Sender for HttpSender {
    async fn send(&self, request: Request) -> Sent {
        let started_at = self.clock.now();
        let begun = self.clock.uptime();
        let mut answer = Answer::default();
        let (outcome, error) = match self.attempt(request, &mut answer).await {
            Ok(outcome) => (outcome, None),
            Err(failed) => (Outcome::Failure(failed.kind), Some(failed.text)),
        };
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
    begun: bool,
    retry_after: Option<String>,
    snippet: Vec<u8>,
}

impl Answer {
    fn at_deadline(&self, timeout: Duration) -> Failed {
        let within = timeout.as_secs_f64();
        if self.begun {
            let text = format!("the answer began but did not end within {within} s");
            return Failed::new(FailureKind::BodyTimeout, &text);
        }
        Failed::new(FailureKind::Timeout, &format!("no answer within {within} s"))
    }
}

fn method_of(method: &Method) -> Result<reqwest::Method, Failed> {
    let refused = |name: &str| Failed::new(FailureKind::BadRequest, &format!("method {name:?} cannot be sent"));
    match method {
        Method::Post => Ok(reqwest::Method::POST),
        Method::Head => Ok(reqwest::Method::HEAD),
        // CONNECT would turn the connection into a tunnel.
        Method::Other(name) => match reqwest::Method::from_bytes(name.as_bytes()) {
            Ok(method) if method != reqwest::Method::CONNECT => Ok(method),
            Ok(_) | Err(_) => Err(refused(name)),
        },
    }
}

/// A machine without any root certificate can still deliver over plain HTTP: HTTPS fails there, attempt
/// by attempt, as untrusted.
fn client(rules: &Arc<AddressRules>) -> Result<reqwest::Client, SenderError> {
    builder(rules)
        .build()
        .or_else(|error| {
            tracing::warn!(?error, "no root certificates: no HTTPS endpoint can be trusted");
            builder(rules).tls_certs_only([]).build()
        })
        .map_err(SenderError::Client)
}

fn builder(rules: &Arc<AddressRules>) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(concat!("redrive/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_proxy()
        .http1_only()
        .dns_resolver(CheckedResolver::new(Arc::clone(rules)))
        .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .tcp_nodelay(true)
}
