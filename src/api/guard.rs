//! What every request passes before its route: host, login, content type.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::engine::{Access, WriteGrant};
use crate::telemetry::names::API_REQUESTS;
use crate::wire::problem::Problem;

use super::Shared;
use super::host;
use super::server::Peer;

/// The only route that needs no token.
const OPEN: &str = "/healthz";

/// Who asks, and what they may.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    actor: String,
    access: Access,
}

impl Caller {
    /// The permission to change something.
    pub(super) fn grant(&self, reason: Option<String>) -> Result<WriteGrant, Problem> {
        self.access
            .grant(&self.actor, reason)
            .ok_or_else(|| Problem::new(403, "this token is read-only: use an operator token"))
    }
}

pub(super) async fn check(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("none", MatchedPath::as_str)
        .to_owned();
    let response = match admit(&shared, &request) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    };
    let status = response.status().as_str().to_owned();
    metrics::counter!(API_REQUESTS, "route" => route, "status" => status).increment(1);
    response
}

fn admit(shared: &Shared, request: &Request) -> Result<Caller, Problem> {
    let Some(peer) = request.extensions().get::<Peer>().copied() else {
        return Err(Problem::new(500, "the connection is not known"));
    };
    host::check(request, &shared.settings, peer)?;
    let caller = login(shared, request, peer)?;
    let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !reads && !is_json(request.headers()) {
        return Err(Problem::new(
            415,
            "state changes need the header Content-Type: application/json",
        ));
    }
    Ok(caller)
}

fn login(shared: &Shared, request: &Request, peer: Peer) -> Result<Caller, Problem> {
    if shared.settings.tokens.is_empty() {
        return Ok(Caller {
            actor: "api".to_owned(),
            access: Access::Operator,
        });
    }
    if request.uri().path() == OPEN {
        return Ok(Caller {
            actor: "api".to_owned(),
            access: Access::ReadOnly,
        });
    }
    let found = bearer(request.headers()).and_then(|secret| shared.settings.find(secret));
    if let Some(token) = found {
        return Ok(Caller {
            actor: format!("api:{}", token.name()),
            access: token.access(),
        });
    }
    let wait = shared.failed_logins.count(peer.remote, shared.clock.uptime());
    Err(wait.map_or_else(
        || {
            Problem::new(
                401,
                "send the header Authorization: Bearer TOKEN with one of api.tokens",
            )
        },
        |wait| Problem {
            retry_after_s: Some(u32::try_from(wait.as_secs() + 1).unwrap_or(u32::MAX)),
            ..Problem::new(429, "too many requests without a valid token")
        },
    ))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, secret) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}
