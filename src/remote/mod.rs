//! The engine of a daemon elsewhere, reached over its HTTP API: what `redrive attach` and a profile with `daemon` work on.
//!
//! Promises: this process knows neither broker nor store and has no login of theirs; a daemon that is away is said and
//! looked for again; what is seen keeps its last content and time meanwhile; a plan is sent for execution once, and where
//! its answer is lost that is said, never repeated.

mod reader;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use reqwest::StatusCode;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;
use url::{Host, Url};

use crate::ambient::{self, Clock};
use crate::authorities::Authorities;
use crate::domain::connection;
use crate::domain::naming::Naming;
use crate::domain::text::show;
use crate::engine::dead::{DeadDetail, DeadSelection, Exported};
use crate::engine::handle::Attached;
use crate::engine::observe::{Feed, Observer};
use crate::engine::reveal::Reveal;
use crate::engine::snapshot::{NOT_ANSWERING, Silent, Snapshot};
use crate::engine::view::{Source, Unread};
use crate::engine::{Command, Done, EngineError, Event, Plan, RemoteEngine, WriteGrant};
use crate::wire::attach::{self, Changes, Execute, Hello, Named, PROTOCOL, Planned, Told};

use reader::{Frame, Frames, Lines};

/// For a connection to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// A question is answered in this time: as long as the daemon itself waits for what is slow, and the way.
const ANSWER: Duration = Duration::from_secs(60);
/// What is carried out may take long: a purge of millions, a test of a slow endpoint.
const EXECUTED: Duration = Duration::from_mins(15);
/// A stream says something at least every ten seconds.
const SILENCE: Duration = Duration::from_secs(25);
/// Between two measurements of the way to the daemon.
const MEASURED_EVERY: Duration = Duration::from_secs(10);
/// Before another try.
const RETRY: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];
/// Plans whose execution may still be wanted.
const PLANS_MAX: usize = 256;
/// News that a slow screen has not taken.
const NEWS_MAX: usize = 4096;
/// Bytes of a daemon's own words that are shown.
const SHOWN_MAX: usize = 400;
/// Letters of an export that wait to be written.
const EXPORTED_MAX: usize = 4;
/// An answer has at most this many bytes.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Why there is no connection to a daemon.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub(crate) struct ConnectError {
    /// For people, with the mend.
    pub(crate) why: String,
    /// Whether it can mend itself.
    pub(crate) waiting_helps: bool,
}

/// A daemon that this process is attached to.
#[derive(Debug)]
pub(crate) struct Daemon {
    http: Http,
    hello: Hello,
    naming: Naming,
    /// As its newest stream has it: the token may have other scopes after the daemon was started again.
    attached: watch::Sender<Attached>,
    /// The stream that brought the first word, until somebody observes.
    first: Mutex<Option<Frames>>,
    news: broadcast::Sender<Event>,
    /// Hashes of plans, and the ids that they wait under.
    plans: Mutex<VecDeque<(String, String)>>,
    clock: Clock,
}

/// What a daemon is asked with.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) secret: SecretString,
    /// Where it is from, for whoever has to correct it: `profile.live.token`.
    pub(crate) from: String,
}

/// The way to it.
#[derive(Clone, Debug)]
struct Http {
    client: reqwest::Client,
    base: Url,
    token: Option<Token>,
    clock: Clock,
    /// Since when it does not answer.
    away_since: Arc<Mutex<Option<crate::domain::time::Timestamp>>>,
}

impl Daemon {
    /// Attaches to the daemon whose API is at `base`.
    ///
    /// # Errors
    /// It is not reached, refuses the token, or is of another release.
    pub(crate) async fn attach(base: &str, token: Option<Token>, clock: Clock) -> Result<Self, ConnectError> {
        let refused = |why: String| ConnectError {
            why,
            waiting_helps: false,
        };
        let base = base_of(base).map_err(refused)?;
        let client = client(clock.clone()).map_err(refused)?;
        let http = Http {
            client,
            base,
            token,
            clock: clock.clone(),
            away_since: Arc::default(),
        };
        let (hello, frames) = http.stream().await?;
        Ok(Self {
            naming: hello.naming(),
            attached: watch::Sender::new(hello.attached.clone()),
            hello,
            http,
            first: Mutex::new(Some(frames)),
            news: broadcast::channel(NEWS_MAX).0,
            plans: Mutex::default(),
            clock,
        })
    }

    /// Why the token of this process shows nothing, where it does not.
    pub(crate) fn may_not_look(&self) -> Option<String> {
        (!self.hello.may_look).then(|| self.http.may_not_look())
    }

    fn id_of(&self, plan: &Plan) -> Option<String> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let place = plans.iter().rposition(|(hash, _)| *hash == plan.hash)?;
        plans.remove(place).map(|(_, id)| id)
    }
}

fn base_of(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.host_str().is_some()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
    });
    let mut url = url.ok_or_else(|| {
        format!(
            "{:?} is not the address of a daemon: write it as https://HOST:8470, without user and query",
            show(text, SHOWN_MAX)
        )
    })?;
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

/// Whether the token would travel in the clear to another machine.
#[must_use]
pub(crate) fn is_in_the_clear(base: &str) -> bool {
    Url::parse(base).is_ok_and(|url| url.scheme() == "http") && !is_this_machine(base)
}

/// Whether the daemon is on this machine.
#[must_use]
pub(crate) fn is_this_machine(base: &str) -> bool {
    let Ok(url) = Url::parse(base) else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse()
            .is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// Whether the daemon would be the one of this machine that listens on this address.
#[must_use]
pub(crate) fn is_at(base: &str, listens: SocketAddr) -> bool {
    let Ok(url) = Url::parse(base) else { return false };
    let is_there = match url.host() {
        Some(Host::Ipv4(host)) => IpAddr::V4(host) == listens.ip(),
        Some(Host::Ipv6(host)) => IpAddr::V6(host) == listens.ip(),
        Some(Host::Domain(host)) => host.eq_ignore_ascii_case("localhost"),
        None => false,
    };
    let is_everywhere = listens.ip().is_unspecified();
    is_this_machine(base) && (is_there || is_everywhere) && url.port_or_known_default() == Some(listens.port())
}

fn client(clock: Clock) -> Result<reqwest::Client, String> {
    reqwest::Client::builder()
        .tls_backend_preconfigured(Authorities::read(Vec::new(), clock).client())
        .connect_timeout(CONNECT)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .map_err(|error| error.without_url().to_string())
}

impl Http {
    fn address(&self) -> String {
        self.base.as_str().trim_end_matches('/').to_owned()
    }

    fn request(&self, method: reqwest::Method, path: &str) -> Result<reqwest::RequestBuilder, EngineError> {
        let url = self
            .base
            .join(path)
            .map_err(|error| EngineError::Refused { why: error.to_string() })?;
        let request = self.client.request(method, url);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token.secret.expose_secret()),
            None => request,
        })
    }

    /// Nobody answers there.
    fn away(&self, why: &str) -> EngineError {
        let mut since = self.away_since.lock().unwrap_or_else(PoisonError::into_inner);
        EngineError::Unread(Box::new(Unread {
            source: Source::Daemon,
            reason: format!("{}: {why}", self.not_answering()),
            since: *since.get_or_insert_with(|| self.clock.now()),
        }))
    }

    fn not_answering(&self) -> String {
        format!("the daemon at {} {NOT_ANSWERING}", self.address())
    }

    /// Why the token shows nothing here: it only publishes.
    fn may_not_look(&self) -> String {
        format!(
            "this token of the daemon at {} lacks the scope \"read\": attach with one that has it (api.tokens)",
            self.address()
        )
    }

    fn is_there(&self) {
        *self.away_since.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn post(&self, path: &str, body: Vec<u8>, within: Duration) -> Result<Vec<u8>, EngineError> {
        let request = self
            .request(reqwest::Method::POST, path)?
            .header("content-type", "application/json")
            .timeout(within)
            .body(body);
        let response = request.send().await.map_err(|error| self.away(&told(&error)))?;
        let status = response.status();
        let body = bounded(response).await.map_err(|why| self.away(&why))?;
        self.is_there();
        if status.is_success() {
            return Ok(body);
        }
        Err(self.error_of(status, &body))
    }

    /// It does not know the token, or was sent none.
    fn not_let_in(&self) -> EngineError {
        let address = self.address();
        EngineError::OtherOwner {
            why: match &self.token {
                Some(Token { from, .. }) => format!(
                    "the daemon at {address} does not know the token of {from}: it has to be one of the daemon's \
                     api.tokens; correct it there, or `redrive attach {address} --token-file FILE`"
                ),
                None => format!(
                    "the daemon at {address} asks for a token, and there is none: set profile.NAME.token or \
                     REDRIVE_API_TOKEN, or `redrive attach {address} --token-file FILE`"
                ),
            },
        }
    }

    /// What its refusal says.
    fn error_of(&self, status: StatusCode, body: &[u8]) -> EngineError {
        if let Ok(Told { error }) = serde_json::from_slice(body) {
            return error.into();
        }
        let detail = serde_json::from_slice::<serde_json::Value>(body)
            .ok()
            .and_then(|problem| Some(problem.get("detail")?.as_str()?.to_owned()));
        let detail = detail.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
        let why = format!(
            "{} answers {}: {}",
            self.address(),
            status.as_u16(),
            show(&detail, SHOWN_MAX)
        );
        match status {
            StatusCode::UNAUTHORIZED => self.not_let_in(),
            // The daemon's own sentence, which says what the token lacks: nothing before it, so that a toast shows all of it.
            StatusCode::FORBIDDEN => EngineError::Refused {
                why: show(&detail, SHOWN_MAX),
            },
            StatusCode::TOO_MANY_REQUESTS => EngineError::Busy { why },
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => self.away(&why),
            _ => EngineError::Refused { why },
        }
    }

    /// An answer that comes in parts, and may go on for ever; only its beginning has a bound.
    async fn begun(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, EngineError> {
        match ambient::timeout(ANSWER, request.send()).await {
            Ok(sent) => sent.map_err(|error| self.away(&told(&error))),
            Err(_) => Err(self.away("no answer in a minute")),
        }
    }

    /// Whether the process answers; nobody has to say who he is for that.
    async fn is_alive(&self) -> bool {
        let Ok(request) = self.request(reqwest::Method::GET, "healthz") else {
            return false;
        };
        let sent = ambient::timeout(CONNECT, request.send()).await;
        matches!(sent, Ok(Ok(response)) if response.status().is_success())
    }

    async fn stream(&self) -> Result<(Hello, Frames), ConnectError> {
        let failed = |error: EngineError| ConnectError {
            waiting_helps: error.is_unreachable(),
            why: if let EngineError::Unread(unread) = error {
                unread.reason
            } else {
                error.to_string()
            },
        };
        let path = format!("v1/attach/stream?protocol={PROTOCOL}");
        let request = self.request(reqwest::Method::GET, &path).map_err(failed)?;
        let response = self.begun(request).await.map_err(failed)?;
        let status = response.status();
        if !status.is_success() {
            let body = bounded(response).await.unwrap_or_default();
            let mut error = failed(self.error_of(status, &body));
            if status == StatusCode::NOT_FOUND {
                error.why = format!(
                    "{} has no route to attach to: it is an older redrive, or no redrive",
                    self.address()
                );
            }
            return Err(error);
        }
        let mut frames = Frames::new(response);
        match ambient::timeout(SILENCE, frames.next()).await {
            Ok(Ok(Frame::Hello(hello))) => {
                self.is_there();
                Ok((*hello, frames))
            }
            Ok(Ok(_)) => Err(failed(self.away("what it sends is not understood"))),
            Ok(Err(why)) => Err(failed(self.away(&why))),
            Err(_) => Err(failed(self.away("it says nothing"))),
        }
    }
}

/// An error of the client, without the URL, which is said anyway.
fn told(error: &reqwest::Error) -> String {
    let at = error.url().map(connection::at).unwrap_or_default();
    if let Some(words) = connection::told(error, &at) {
        return show(&words, SHOWN_MAX);
    }
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    show(&if text.is_empty() { error.to_string() } else { text }, SHOWN_MAX)
}

async fn bounded(mut response: reqwest::Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| told(&error))? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err("its answer has no end".to_owned());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn written(document: &impl Serialize) -> Result<Vec<u8>, EngineError> {
    serde_json::to_vec(document).map_err(|error| EngineError::Refused {
        why: format!("this cannot be sent: {error}"),
    })
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, EngineError> {
    ambient::beside(|| serde_json::from_slice(body)).map_err(|error| EngineError::of_another_release(&error))
}

/// An error behind which something may have been done: where the answer was lost, that is said.
fn uncertain(error: EngineError, unknown: &str) -> EngineError {
    let EngineError::Unread(mut unread) = error else {
        return error;
    };
    if unread.source == Source::Daemon {
        unread.reason = format!("{}. {unknown}", unread.reason);
    }
    EngineError::Unread(unread)
}

impl RemoteEngine for Daemon {
    fn naming(&self) -> &Naming {
        &self.naming
    }

    fn attached(&self) -> watch::Receiver<Attached> {
        self.attached.subscribe()
    }

    fn ask<'a>(&'a self, query: &'static str, given: Vec<u8>) -> BoxFuture<'a, Result<Vec<u8>, EngineError>> {
        async move {
            let body = Named::written(query, &given);
            self.http.post("v1/attach/ask", body, ANSWER).await
        }
        .boxed()
    }

    fn call<'a>(&'a self, call: &'static str, given: Vec<u8>) -> BoxFuture<'a, Result<Vec<u8>, EngineError>> {
        async move {
            let body = Named::written(call, &given);
            let answer = self.http.post("v1/attach/call", body, ANSWER).await;
            answer.map_err(|error| {
                uncertain(
                    error,
                    "Whether it was done is not known here; nothing is sent again by itself",
                )
            })
        }
        .boxed()
    }

    fn plan<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, Result<Plan, EngineError>> {
        async move {
            let answer = self.http.post("v1/attach/plan", written(command)?, ANSWER).await?;
            let Planned { id, plan } = read(&answer)?;
            let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
            if plans.len() >= PLANS_MAX {
                plans.pop_front();
            }
            plans.push_back((plan.hash.clone(), id));
            Ok(plan)
        }
        .boxed()
    }

    fn execute<'a>(&'a self, plan: &'a Plan, grant: &'a WriteGrant) -> BoxFuture<'a, Result<Done, EngineError>> {
        async move {
            if !grant.holds_at(self.clock.now()) {
                return Err(EngineError::Refused {
                    why: "the time in which changes are allowed is over".to_owned(),
                });
            }
            let id = self.id_of(plan).ok_or_else(|| EngineError::Refused {
                why: "this plan was sent to be carried out already: look at the audit, and plan again".to_owned(),
            })?;
            let asked = Execute {
                id,
                reason: grant.reason().map(ToOwned::to_owned),
            };
            let answer = self.http.post("v1/attach/execute", written(&asked)?, EXECUTED).await;
            let unknown =
                "Whether this was carried out is not known here: the audit says it; nothing is sent again by itself";
            read(&answer.map_err(|error| uncertain(error, unknown))?)
        }
        .boxed()
    }

    fn reveal<'a>(&'a self, reveal: &'a Reveal, grant: &'a WriteGrant) -> BoxFuture<'a, Result<(), EngineError>> {
        async move {
            if !grant.holds_at(self.clock.now()) {
                return Err(EngineError::Refused {
                    why: "the time in which it would be audited in your name is over".to_owned(),
                });
            }
            self.http.post("v1/attach/reveal", written(reveal)?, ANSWER).await?;
            Ok(())
        }
        .boxed()
    }

    fn export_dead(&self, selection: DeadSelection) -> BoxFuture<'_, Result<mpsc::Receiver<Exported>, EngineError>> {
        async move {
            let request = self.http.request(reqwest::Method::POST, "v1/attach/export")?;
            let request = request
                .header("content-type", "application/json")
                .body(written(&selection)?);
            let response = self.http.begun(request).await?;
            let status = response.status();
            if !status.is_success() {
                let body = bounded(response).await.map_err(|why| self.http.away(&why))?;
                return Err(self.http.error_of(status, &body));
            }
            let (letters, receiver) = mpsc::channel(EXPORTED_MAX);
            ambient::spawn(
                "attached export",
                exported(self.http.clone(), Lines::new(response), letters),
            );
            Ok(receiver)
        }
        .boxed()
    }

    fn events(&self) -> broadcast::Receiver<Event> {
        self.news.subscribe()
    }

    fn observe(&self, stop: CancellationToken) -> Observer {
        let (observer, feed) = Observer::fed();
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let following = Following {
            http: self.http.clone(),
            snapshots: feed.snapshots.clone(),
            news: self.news.clone(),
            attached: self.attached.clone(),
            clock: self.clock.clone(),
            latency: Arc::default(),
        };
        let measuring = measure(self.http.clone(), Arc::clone(&following.latency), stop.clone());
        ambient::spawn("attached latency", measuring);
        let asks = looks(self.http.clone(), Arc::clone(&feed.look_now), stop.clone());
        ambient::spawn("attached looks", asks);
        ambient::spawn("attached stream", follow(following, first, feed, stop));
        observer
    }

    fn close(&self) {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Passes the letters of an export on, until it ends or nobody wants them.
async fn exported(http: Http, mut lines: Lines, letters: mpsc::Sender<Exported>) {
    loop {
        let line = match ambient::timeout(ANSWER, lines.next()).await {
            Ok(Ok(Some(line))) => read::<attach::Exported<DeadDetail>>(&line),
            Ok(Ok(None)) => return,
            Ok(Err(why)) => Err(http.away(&why)),
            Err(_) => Err(http.away("it says nothing any more")),
        };
        let item = match line {
            Ok(attach::Exported::Letter(detail)) => Ok((detail, None)),
            Ok(attach::Exported::Ended(error)) => Err(error.into()),
            Err(error) => Err(error),
        };
        let is_over = item.is_err();
        if letters.send(item).await.is_err() || is_over {
            return;
        }
    }
}

/// Asks for a look whenever the screen wants one.
async fn looks(http: Http, wanted: Arc<Notify>, stop: CancellationToken) {
    while stop.run_until_cancelled(wanted.notified()).await.is_some() {
        // A daemon that is away is said by the stream.
        let _ = http.post("v1/attach/look", b"{}".to_vec(), ANSWER).await;
    }
}

struct Following {
    http: Http,
    snapshots: watch::Sender<Arc<Snapshot>>,
    news: broadcast::Sender<Event>,
    attached: watch::Sender<Attached>,
    clock: Clock,
    latency: Arc<Mutex<Option<Duration>>>,
}

/// Asks now and then for what takes no time, so that the time that it takes is that of the way.
async fn measure(http: Http, latency: Arc<Mutex<Option<Duration>>>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let begun = http.clock.uptime();
        let taken = http.is_alive().await.then(|| http.clock.uptime().saturating_sub(begun));
        *latency.lock().unwrap_or_else(PoisonError::into_inner) = taken;
        ambient::wait(&stop, MEASURED_EVERY).await;
    }
}

/// Until `stop`; a stream that breaks off is opened again.
async fn follow(following: Following, mut first: Option<Frames>, _feed: Feed, stop: CancellationToken) {
    let mut tries = 0;
    while !stop.is_cancelled() {
        let opened = match first.take() {
            Some(frames) => Ok(frames),
            None => match stop.run_until_cancelled(following.http.stream()).await {
                None => return,
                Some(Ok((hello, _))) if !hello.may_look => Err(following.http.may_not_look()),
                Some(Ok((hello, frames))) => {
                    following.attached.send_replace(hello.attached);
                    Ok(frames)
                }
                Some(Err(error)) => Err(error.why),
            },
        };
        let why = match opened {
            Ok(frames) => {
                tries = 0;
                match stop.run_until_cancelled(following.read(frames)).await {
                    None => return,
                    Some(why) => format!("{}: {why}", following.http.not_answering()),
                }
            }
            Err(why) => why,
        };
        following.is_away(&why);
        let pause = RETRY[tries.min(RETRY.len() - 1)];
        tries += 1;
        ambient::wait(&stop, pause).await;
    }
}

impl Following {
    /// Tells what a stream says until it ends, and why it ended.
    async fn read(&self, mut frames: Frames) -> String {
        // Its first snapshot is whole: what was seen before counts no more.
        let mut seen = Arc::new(Snapshot::default());
        loop {
            let frame = match ambient::timeout(SILENCE, frames.next()).await {
                Ok(Ok(frame)) => frame,
                Ok(Err(why)) => return why,
                Err(_) => return "it says nothing any more".to_owned(),
            };
            match frame {
                Frame::Seen(changes) => {
                    seen = Arc::new(Snapshot {
                        latency: *self.latency.lock().unwrap_or_else(PoisonError::into_inner),
                        ..Changes::after(*changes, &seen)
                    });
                    self.snapshots.send_replace(Arc::clone(&seen));
                }
                Frame::News(event) => {
                    // Nobody listens: nobody misses it.
                    let _ = self.news.send(*event);
                }
                Frame::Hello(_) | Frame::Nothing => {}
            }
        }
    }

    /// What was seen last stays, and says since when it is that old.
    fn is_away(&self, why: &str) {
        let problem = show(why, SHOWN_MAX);
        self.snapshots.send_modify(|present| {
            let mut away = Snapshot::clone(present);
            let (seen_at, now) = (away.taken_at, self.clock.now());
            let never = away.generation == 0;
            for part in [&mut away.broker, &mut away.store] {
                if part.problem.is_none() {
                    part.taken_at = (!never).then_some(seen_at);
                }
                part.problem = Some(problem.clone());
            }
            away.silent = Some(Silent::Daemon);
            away.generation += 1;
            away.taken_at = now;
            *present = Arc::new(away);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::is_at;

    #[test]
    fn a_daemon_of_this_machine_is_known_by_the_address_that_it_listens_on() {
        for (url, listens, expected) in [
            ("http://127.0.0.1:8470", "127.0.0.1:8470", true),
            ("http://localhost:8470/", "127.0.0.1:8470", true),
            ("https://[::1]:8470", "[::1]:8470", true),
            ("https://127.0.0.1", "0.0.0.0:443", true),
            ("http://127.0.0.1:9000", "127.0.0.1:8470", false),
            ("http://127.0.0.2:8470", "127.0.0.1:8470", false),
            ("http://10.0.0.1:8470", "0.0.0.0:8470", false),
            ("http://a.example:8470", "127.0.0.1:8470", false),
        ] {
            assert_eq!(is_at(url, listens.parse().unwrap()), expected, "{url} at {listens}");
        }
    }
}
