//! Who is answered whole what the masks name: it is in the audit before it leaves.
//!
//! Programs are answered whole with a token that may operate, as ever; what they were answered is told once a minute
//! for each token and path. `?reveal=true` says that somebody means to look: without `operate` it is refused, and it
//! is told each time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::http::uri::{PathAndQuery, Uri};
use axum::response::{IntoResponse as _, Response};

use crate::engine::WriteGrant;
use crate::engine::reveal::Reveal;
use crate::wire::problem::Problem;

use super::Shared;
use super::masked::counted;

/// How a request asks for it.
const ASKED: &str = "reveal=true";
const NOT_ASKED: &str = "reveal=false";
/// What was told is not told again for so long.
const AGAIN: Duration = Duration::from_mins(1);
/// So many are remembered, at most: more is told more often.
const REMEMBERED_MAX: usize = 4_096;
/// What answers payloads, headers, metadata, answers of receivers, or parts of them; plans too. Options of subscriptions
/// are shown to nobody whole.
const BEARING: [(&str, &str); 25] = [
    ("GET", "/v1/attempts"),
    // These two tell of it themselves, before the first line that has something to hide.
    ("GET", "/v1/dead/export"),
    ("GET", "/v1/events/stream"),
    ("GET", "/v1/dead/{id}"),
    ("PATCH", "/v1/dead/{id}"),
    ("POST", "/v1/dead/patch"),
    ("POST", "/v1/dead/redrive"),
    ("GET", "/v1/events"),
    ("POST", "/v1/events/cancel"),
    ("POST", "/v1/events/reschedule"),
    ("POST", "/v1/events/retry"),
    ("POST", "/v1/queues/{name}/browse"),
    ("GET", RESCUED),
    ("GET", "/v1/runs/{id}"),
    ("GET", "/v1/types"),
    ("GET", "/v1/types/{type}"),
    ("PUT", "/v1/types/{type}"),
    ("POST", "/v1/types/{type}/claims"),
    ("GET", "/v1/types/{type}/claims/{claim}"),
    ("PATCH", "/v1/types/{type}/claims/{claim}"),
    ("GET", "/v1/types/{type}/events"),
    ("GET", "/v1/types/{type}/events/{reference}"),
    ("DELETE", "/v1/types/{type}/events/{reference}"),
    ("POST", "/v1/types/{type}/events/{reference}/reschedule"),
    ("POST", "/v1/types/{type}/events/{reference}/retry"),
];
/// A message that no client can decode: masks find nothing in its bytes, and so all of them count as one value.
const RESCUED: &str = "/v1/rescued/{id}";

/// What was told, to be told once.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<HashMap<(String, String), Duration>>);

impl Told {
    fn is_known(&self, who: &str, what: &str, now: Duration) -> bool {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = told.get(&(who.to_owned(), what.to_owned()));
        at.is_some_and(|at| now.saturating_sub(*at) < AGAIN)
    }

    fn remember(&self, who: &str, what: &str, now: Duration) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= REMEMBERED_MAX {
            told.retain(|_, at| now.saturating_sub(*at) < AGAIN);
        }
        if told.len() < REMEMBERED_MAX {
            told.insert((who.to_owned(), what.to_owned()), now);
        }
    }
}

/// Whether the request asks for it; the routes do not see that. A route that has nothing to hide refuses it.
pub(super) fn take_asked(request: &mut Request, route: &str) -> Result<bool, Problem> {
    let asked = take(request);
    let query = request.uri().query().unwrap_or_default();
    if query.split('&').any(|pair| pair.split('=').next() == Some("reveal")) {
        return Err(Problem::field("reveal", "reveal is true or false"));
    }
    let method = if *request.method() == Method::HEAD {
        &Method::GET
    } else {
        request.method()
    };
    let is_route = request.extensions().get::<MatchedPath>().is_some();
    if asked && is_route && !bears(method.as_str(), route) {
        let why = "this route answers nothing that masks hide: leave reveal out. Nothing was done";
        return Err(Problem::field("reveal", why));
    }
    Ok(asked)
}

fn take(request: &mut Request) -> bool {
    let uri = request.uri();
    let query = uri.query().unwrap_or_default();
    let is_ours = |pair: &&str| *pair == ASKED || *pair == NOT_ASKED;
    if !query.split('&').any(|pair| is_ours(&pair)) {
        return false;
    }
    let asked = query.split('&').any(|pair| pair == ASKED);
    let rest: Vec<&str> = query.split('&').filter(|pair| !is_ours(pair)).collect();
    let path = if rest.is_empty() {
        uri.path().to_owned()
    } else {
        format!("{}?{}", uri.path(), rest.join("&"))
    };
    let mut parts = uri.clone().into_parts();
    // It was one with more in it.
    if let Ok(path) = PathAndQuery::try_from(path) {
        parts.path_and_query = Some(path);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    asked
}

/// Whether what a route answers can have anything to hide.
pub(super) fn bears(method: &str, route: &str) -> bool {
    BEARING
        .iter()
        .any(|(of, bearing)| of.eq_ignore_ascii_case(method) && *bearing == route)
}

/// What is told of.
pub(super) struct Target {
    text: String,
    /// So many values are hidden in it, whatever is found.
    at_least: usize,
}

/// What is told of, if it can have anything to hide.
pub(super) fn target(method: &Method, route: &str, path: &str) -> Option<Target> {
    bears(method.as_str(), route).then(|| Target {
        text: format!("{method} {path}"),
        at_least: usize::from(route == RESCUED),
    })
}

/// The answer, once the audit has who is answered.
pub(super) async fn told(
    shared: &Shared,
    (target, asked): (Target, bool),
    grant: &WriteGrant,
    response: Response,
) -> Response {
    if !response.status().is_success() {
        return response;
    }
    let now = shared.clock.uptime();
    if !asked && shared.told.is_known(grant.actor(), &target.text, now) {
        return response;
    }
    let (response, hidden) = counted(&shared.settings.masks, response).await;
    let hidden = hidden.max(target.at_least);
    if hidden == 0 {
        return response;
    }
    let reveal = Reveal {
        target: target.text,
        hidden,
    };
    let written = match shared.engine() {
        Ok(engine) => engine.reveal(&reveal, grant).await.map_err(Problem::from),
        Err(problem) => Err(problem),
    };
    match written {
        Ok(()) => {
            shared.told.remember(grant.actor(), &reveal.target, now);
            response
        }
        Err(problem) => problem.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn what_asks_for_it_is_taken_out_of_the_query() {
        let taken = |uri: &str| {
            let mut request = axum::http::Request::builder().uri(uri).body(Body::empty()).unwrap();
            let asked = take(&mut request);
            (asked, request.uri().to_string())
        };
        for (uri, expected) in [
            ("/v1/dead/a?reveal=true", (true, "/v1/dead/a")),
            (
                "/v1/dead?limit=1&reveal=true&group=b",
                (true, "/v1/dead?limit=1&group=b"),
            ),
            ("/v1/dead?reveal=false", (false, "/v1/dead")),
            ("/v1/dead?reveal=yes", (false, "/v1/dead?reveal=yes")),
            (
                "/v1/dead?filter=reveal%3Dtrue",
                (false, "/v1/dead?filter=reveal%3Dtrue"),
            ),
            ("/v1/dead", (false, "/v1/dead")),
        ] {
            assert_eq!(taken(uri), (expected.0, expected.1.to_owned()), "{uri}");
        }
    }

    #[test]
    fn what_was_told_is_told_again_after_a_while_and_memory_has_a_bound() {
        let (told, second) = (Told::default(), Duration::from_secs);
        told.remember("a", "x", second(0));
        assert!(told.is_known("a", "x", second(59)) && !told.is_known("a", "x", second(60)));
        assert!(!told.is_known("b", "x", second(1)) && !told.is_known("a", "y", second(1)));
        for number in 0..2 * REMEMBERED_MAX {
            told.remember("a", &number.to_string(), second(70));
        }
        assert!(told.0.lock().unwrap().len() <= REMEMBERED_MAX);
        assert!(told.is_known("a", "0", second(71)));
    }
}
