//! What every request passes before its route and before its body: host, login, scope, content type.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::ambient::{self, Clock};
use crate::domain::id::ExecutionId;
use crate::domain::scope::{Prefix, Scope, Scopes};
use crate::domain::text::show;
use crate::domain::url::EndpointUrl;
use crate::engine::sight::Sight;
use crate::engine::{Access, Engine, NewNotification, WriteGrant};
use crate::telemetry::names::API_REQUESTS;
use crate::wire::problem::Problem;

use super::Shared;
use super::answer;
use super::extract;
use super::host;
use super::login::Failed;
use super::masked::masked;
use super::quota::Account;
use super::reveal;
use super::server::Peer;

/// Answered whatever token comes along.
const ALIVE: &str = "/healthz";
/// The answer to a wrong token comes this late.
const WRONG_TOKEN_PAUSE: Duration = Duration::from_millis(200);

/// What a route needs of whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nobody has to say who he is.
    Nothing,
    /// Any token: the route looks at its scopes by what is asked for.
    Token,
    /// A token with this scope.
    Scope(Scope),
}

impl Needs {
    pub(super) const fn scope(self) -> Option<Scope> {
        match self {
            Self::Nothing | Self::Token => None,
            Self::Scope(scope) => Some(scope),
        }
    }
}

/// What routes need, and what all of them share.
pub(super) struct Gate {
    shared: Arc<Shared>,
    needs: HashMap<(String, &'static str), Needs>,
}

impl Gate {
    /// `needs`: by method and path.
    pub(super) const fn new(shared: Arc<Shared>, needs: HashMap<(String, &'static str), Needs>) -> Self {
        Self { shared, needs }
    }
}

/// Who asks, and what he may.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    actor: String,
    scopes: Scopes,
    prefix: Option<Prefix>,
    account: Option<Arc<Account>>,
    /// What this route needs.
    needs: Option<Scope>,
}

impl Caller {
    fn nobody(needs: Option<Scope>) -> Self {
        Self {
            actor: "api".to_owned(),
            scopes: Scopes::default(),
            prefix: None,
            account: None,
            needs,
        }
    }

    /// The permission to change something.
    pub(super) fn grant(&self, reason: Option<String>) -> Result<WriteGrant, Problem> {
        self.grant_for(self.needs.unwrap_or(Scope::Admin), reason)
    }

    /// The permission for what needs this scope.
    pub(super) fn grant_for(&self, needs: Scope, reason: Option<String>) -> Result<WriteGrant, Problem> {
        let access = if self.scopes.allow(needs) {
            Access::Operator
        } else {
            Access::ReadOnly
        };
        access.grant(&self.actor, reason).ok_or_else(|| lacks(needs))
    }

    /// What he is called in the audit.
    pub(super) fn actor(&self) -> &str {
        &self.actor
    }

    /// Beside what the route needs: what this request needs.
    pub(super) fn must_have(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.allow(scope) {
            Ok(())
        } else {
            Err(lacks(scope))
        }
    }

    pub(super) fn allows(&self, scope: Scope) -> bool {
        self.scopes.allow(scope)
    }

    /// Whether nothing is masked for him.
    pub(super) fn sees_all(&self) -> bool {
        self.allows(Scope::Operate)
    }

    /// Whether he may see more than what everybody may.
    pub(super) fn may_look(&self) -> bool {
        self.allows(Scope::Read)
    }

    /// Refuses a notification that his token may not publish.
    pub(super) fn may_publish(&self, execution: &ExecutionId, url: &EndpointUrl) -> Result<(), Problem> {
        match &self.prefix {
            Some(prefix) if !prefix.covers(execution, url) => Err(beyond(prefix)),
            _ => Ok(()),
        }
    }

    /// Refuses what has neither execution nor URL.
    pub(super) fn may_publish_anywhere(&self) -> Result<(), Problem> {
        self.prefix.as_ref().map_or(Ok(()), |prefix| Err(beyond(prefix)))
    }

    /// Counts so many events, or refuses them where the quota of his token is used up.
    pub(super) fn pushes(&self, count: usize, now: Duration) -> Result<(), Problem> {
        let Some(account) = &self.account else { return Ok(()) };
        account.may_push()?;
        account.publishes(count, now)
    }

    /// Refuses a notification that his token may not publish, that is beyond its quota, or that would never be sent;
    /// counts it, and answers what to publish it with.
    pub(super) async fn begins_publish<'a>(
        &self,
        shared: &'a Shared,
        new: &NewNotification,
    ) -> Result<&'a Engine, Problem> {
        self.may_publish(&new.execution, &new.url)?;
        let engine = shared.engine()?;
        self.publishes(engine, new, &shared.clock).await?;
        engine.check_url(&new.url)?;
        Ok(engine)
    }

    /// Refuses an end mark that his token may not publish, or that is beyond its quota; counts it, and answers what to
    /// publish it with. No queue is made for it.
    pub(super) async fn begins_end<'a>(
        &self,
        shared: &'a Shared,
        execution: &ExecutionId,
        url: &EndpointUrl,
    ) -> Result<&'a Engine, Problem> {
        self.may_publish(execution, url)?;
        let engine = shared.engine()?;
        if let Some(account) = &self.account {
            account.publishes(1, shared.clock.uptime())?;
            account.message(engine, None, 0, &shared.clock).await?;
        }
        Ok(engine)
    }

    /// Counts a notification, or refuses it where the quota of his token is used up.
    async fn publishes(&self, engine: &Engine, new: &NewNotification, clock: &Clock) -> Result<(), Problem> {
        let Some(account) = &self.account else { return Ok(()) };
        account.publishes(1, clock.uptime())?;
        let queue = engine.naming().delivery_queue(&new.execution, &new.url);
        let headers = new.headers.iter().map(|(name, value)| name.len() + value.len());
        let bytes = new.body.len() + headers.sum::<usize>();
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        account.message(engine, Some(&queue), bytes, clock).await
    }
}

fn lacks(scope: Scope) -> Problem {
    Problem::new(
        403,
        format!(
            "this token lacks the scope {:?}: use one that has it (api.tokens)",
            scope.as_str()
        ),
    )
}

fn beyond(prefix: &Prefix) -> Problem {
    let what = match prefix {
        Prefix::Execution(prefix) => format!("for executions that begin with {prefix:?}"),
        Prefix::Url(url) => format!("to {} and below it", url.redacted()),
    };
    Problem::new(
        403,
        format!("this token publishes notifications {what} only: use one without that prefix (api.tokens)"),
    )
}

pub(super) async fn check(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("none", MatchedPath::as_str)
        .to_owned();
    let response = match admit(&gate, &request, &route) {
        Ok(caller) => match answered(&gate.shared, caller, &route, request, next).await {
            Ok(response) => response,
            Err(problem) => problem.into_response(),
        },
        Err(Refusal::Plain(problem)) => problem.into_response(),
        Err(Refusal::WrongToken(from)) => wrong_token(&gate.shared, from).await.into_response(),
    };
    let status = response.status().as_str().to_owned();
    metrics::counter!(API_REQUESTS, "route" => route, "status" => status).increment(1);
    response
}

/// The answer as whoever asks may see it: who may operate is answered whole, and that is told.
async fn answered(
    shared: &Shared,
    caller: Caller,
    route: &str,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    extract::check_text(request.uri())?;
    let asked = reveal::take_asked(&mut request, route)?;
    let is_read = request.method().is_safe();
    if !caller.sees_all() {
        if asked {
            return Err(lacks(Scope::Operate));
        }
        request.extensions_mut().insert(caller);
        let response = Sight::Masked.during(next.run(request)).await;
        let share = answer::share_of(&shared.settings.memory, is_read, &response).await?;
        return Ok(answer::with_share(masked(&shared.settings.masks, response).await, share).await);
    }
    let Some(target) = reveal::target(request.method(), route, request.uri().path()) else {
        request.extensions_mut().insert(caller);
        let response = next.run(request).await;
        let share = answer::share_of(&shared.settings.memory, is_read, &response).await?;
        return Ok(answer::with_share(response, share).await);
    };
    let grant = caller.grant(None)?;
    request.extensions_mut().insert(caller);
    let response = next.run(request).await;
    let share = answer::share_of(&shared.settings.memory, is_read, &response).await?;
    let response = reveal::told(shared, (target, asked), &grant, response).await;
    Ok(answer::with_share(response, share).await)
}

/// Why a request gets no further.
enum Refusal {
    Plain(Problem),
    /// From there.
    WrongToken(IpAddr),
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Plain(problem)
    }
}

async fn wrong_token(shared: &Shared, from: IpAddr) -> Problem {
    if let Failed::Tell(count) = shared.logins.failed(from, shared.clock.uptime()) {
        tracing::warn!(address = %from, count, "requests with a wrong token");
        if let Ok(engine) = shared.engine() {
            engine.failed_logins(from, count).await;
        }
    }
    ambient::sleep(WRONG_TOKEN_PAUSE).await;
    unknown()
}

fn admit(gate: &Gate, request: &Request, route: &str) -> Result<Caller, Refusal> {
    let Some(peer) = request.extensions().get::<Peer>().copied() else {
        return Err(Problem::new(500, "the connection is not known").into());
    };
    host::check(request, &gate.shared.settings, peer)?;
    let method = request.method();
    let asked = if *method == Method::HEAD { &Method::GET } else { method };
    // The routes are public: who has any token is told by the router that he asked for one that is not there.
    let known = gate
        .needs
        .iter()
        .find(|((method, path), _)| method == asked.as_str() && *path == route);
    let needs = known.map_or(Needs::Token, |(_, needs)| *needs);
    if route == ALIVE {
        return Ok(Caller::nobody(None));
    }
    let caller = login(&gate.shared, request, peer, needs)?;
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    // What is not there is said to be not there, whatever was sent to it.
    if !reads
        && known.is_some()
        && let Some(why) = unread_body(request.headers())
    {
        return Err(Problem::new(415, why).into());
    }
    match needs.scope() {
        Some(Scope::Operate) if is_dry_run(request) && caller.scopes.allow(Scope::Read) => Ok(caller),
        Some(scope) if !caller.scopes.allow(scope) => Err(lacks(scope).into()),
        _ => Ok(caller),
    }
}

/// A plan is only looked at.
fn is_dry_run(request: &Request) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|pair| pair == "dry_run=true")
}

fn login(shared: &Shared, request: &Request, peer: Peer, route: Needs) -> Result<Caller, Refusal> {
    let needs = route.scope();
    if peer.is_owner {
        return Ok(Caller {
            actor: "api:unix".to_owned(),
            scopes: Scopes::new(vec![Scope::Admin]),
            ..Caller::nobody(needs)
        });
    }
    let Some(secret) = bearer(request.headers()) else {
        return match route {
            Needs::Nothing => Ok(Caller::nobody(needs)),
            Needs::Token | Needs::Scope(_) => Err(unknown().into()),
        };
    };
    let from = address(request, &shared.settings.trusted_proxies, peer);
    let now = shared.clock.uptime();
    if let Some(wait) = shared.logins.must_wait(from, secret, now) {
        let problem = Problem::new(
            429,
            "too many requests from this address had no valid token: wait for Retry-After, then send one of api.tokens",
        );
        return Err(Refusal::Plain(Problem {
            retry_after_s: Some(u32::try_from(wait.as_secs() + 1).unwrap_or(u32::MAX)),
            ..problem
        }));
    }
    let token = shared.settings.find(secret).ok_or(Refusal::WrongToken(from))?;
    shared.logins.succeeded(from, secret, now);
    Ok(Caller {
        actor: format!("api:{}", token.name()),
        scopes: token.scopes().clone(),
        prefix: token.prefix().cloned(),
        account: token.account().cloned(),
        needs,
    })
}

fn unknown() -> Problem {
    Problem::new(
        401,
        "send the header Authorization: Bearer TOKEN with one of api.tokens, or with what `redrive token` prints where \
         none is configured",
    )
}

/// Who asks: the last address of `X-Forwarded-For` that is no trusted proxy, where a trusted one brings it. What cannot be
/// read there is somebody whom a proxy names in its own way: what stands before it may be his word, and is not believed.
fn address(request: &Request, trusted: &[ipnet::IpNet], peer: Peer) -> IpAddr {
    let is_trusted = |address: &IpAddr| trusted.iter().any(|network| network.contains(&address.to_canonical()));
    if !is_trusted(&peer.remote) {
        return peer.remote;
    }
    let forwarded = request.headers().get_all("x-forwarded-for");
    let named: Vec<&str> = forwarded
        .iter()
        .flat_map(|value| value.to_str().unwrap_or_default().split(','))
        .collect();
    let mut read = named.into_iter().rev().map_while(forwarded_for);
    read.find(|address| !is_trusted(address)).unwrap_or(peer.remote)
}

/// An address, as proxies write it: some with the port.
fn forwarded_for(written: &str) -> Option<IpAddr> {
    let written = written.trim();
    if let Ok(with_port) = written.parse::<SocketAddr>() {
        return Some(with_port.ip());
    }
    let bare = written.trim_start_matches('[').trim_end_matches(']');
    bare.split('%').next()?.parse().ok()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, secret) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

/// Why the body cannot be read as it is.
fn unread_body(headers: &HeaderMap) -> Option<String> {
    if !is_json(headers) {
        return Some("state changes need the header Content-Type: application/json".to_owned());
    }
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(coding) = header(CONTENT_ENCODING).filter(|coding| !coding.eq_ignore_ascii_case("identity")) {
        let coding = show(coding, 40);
        return Some(format!(
            "Content-Encoding: {coding} is not read here: send the body as it is"
        ));
    }
    let mut parameters = header(CONTENT_TYPE)?.split(';').skip(1);
    let charset = parameters.find_map(|text| text.split_once('=').filter(|(name, _)| is_charset(name)))?;
    let charset = charset.1.trim().trim_matches('"');
    let is_utf8 = ["utf-8", "utf8", "us-ascii"]
        .iter()
        .any(|known| charset.eq_ignore_ascii_case(known));
    (!is_utf8).then(|| format!("charset={} is not read here: send JSON in UTF-8", show(charset, 40)))
}

fn is_charset(name: &str) -> bool {
    name.trim().eq_ignore_ascii_case("charset")
}

fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn a_body_that_is_not_json_in_utf_8_is_refused_by_what_it_is() {
        let why = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, "application/json".parse().unwrap());
            headers.insert(name, value.parse().unwrap());
            unread_body(&headers)
        };
        for (name, value, expected) in [
            ("content-encoding", "gzip", "Content-Encoding: gzip is not read"),
            (
                "content-type",
                "application/json; charset=utf-16",
                "charset=utf-16 is not read",
            ),
        ] {
            let why = why(name, value).unwrap();
            assert!(why.starts_with(expected), "{why}");
        }
        assert_eq!(why("content-encoding", "identity"), None);
        assert_eq!(why("content-type", "application/json; a=b; Charset=\"UTF-8\""), None);
        assert_eq!(why("content-type", "application/json"), None);
    }

    #[test]
    fn who_asks_is_whom_the_trusted_proxies_name_and_nobody_whom_that_one_names_himself() {
        let trusted = ["127.0.0.0/8".parse().unwrap(), "10.0.0.0/8".parse().unwrap()];
        let peer = Peer {
            remote: "127.0.0.1".parse().unwrap(),
            local: "127.0.0.1".parse().unwrap(),
            is_owner: false,
        };
        let asks = |forwarded: &str| {
            let request = Request::builder().header("x-forwarded-for", forwarded);
            address(&request.body(Body::empty()).unwrap(), &trusted, peer).to_string()
        };
        for (forwarded, expected) in [
            ("9.9.9.9, 8.8.8.8", "8.8.8.8"),
            ("9.9.9.9, 8.8.8.8, 10.1.1.1", "8.8.8.8"),
            ("9.9.9.9, 8.8.8.8:1234, 10.1.1.1:80", "8.8.8.8"),
            ("9.9.9.9, [2001:db8::1]:1234", "2001:db8::1"),
            ("9.9.9.9, [2001:db8::1]", "2001:db8::1"),
            ("9.9.9.9, fe80::1%eth0", "fe80::1"),
            ("9.9.9.9, unknown", "127.0.0.1"),
            ("9.9.9.9, unknown, 10.1.1.1", "127.0.0.1"),
            ("9.9.9.9, ", "127.0.0.1"),
        ] {
            assert_eq!(asks(forwarded), expected, "{forwarded}");
        }
    }
}
