//! Which host a request names: a web page that rebinds its name to us is recognised by it.

use axum::http::header::{HOST, HeaderMap, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{Request, Uri};

use crate::wire::problem::Problem;

use super::server::Peer;
use super::settings::ApiSettings;

/// Refuses a request that was meant for another server, or that a web page made.
///
/// 1. The Host header, and the target where that is absolute, name this server.
/// 2. An Origin, which browsers send with what a script does, is this server's too.
/// 3. A browser does not say that another site started the request.
pub(super) fn check<B>(request: &Request<B>, settings: &ApiSettings, peer: Peer) -> Result<(), Problem> {
    let headers = request.headers();
    let host = header(headers, &HOST)?
        .ok_or_else(|| Problem::new(400, "the Host header is missing: send it with the name of this server"))?;
    let named = authority_host(host).is_some_and(|host| settings.answers_to(&host, peer.local));
    let target = request
        .uri()
        .host()
        .is_none_or(|host| settings.answers_to(host, peer.local));
    if !named || !target {
        return Err(Problem::new(
            421,
            "the Host header names another server: use the listen address, a loopback name, or add the name to api.hosts",
        ));
    }
    if let Some(origin) = header(headers, &ORIGIN)? {
        let ours = origin
            .parse::<Uri>()
            .ok()
            .and_then(|uri| uri.host().map(|host| settings.answers_to(host, peer.local)));
        if ours != Some(true) {
            return Err(Problem::new(
                403,
                "a web page of another origin sent this request: call the API from a program, or from a page of this server",
            ));
        }
    }
    match headers.get("sec-fetch-site").map(axum::http::HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => Err(Problem::new(
            403,
            "a web page of another site sent this request: call the API from a program, or from a page of this server",
        )),
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &axum::http::HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Problem::new(
            400,
            format!("the header {name} is given more than once: send it once"),
        ));
    }
    first
        .map(|value| value.to_str())
        .transpose()
        .map_err(|_| Problem::new(400, format!("the header {name} is not visible ASCII: send it as such")))
}

fn authority_host(text: &str) -> Option<String> {
    let authority: Authority = text.parse().ok()?;
    (!text.contains('@')).then(|| authority.host().to_owned())
}
