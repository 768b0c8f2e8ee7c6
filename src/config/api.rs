//! Where the HTTP API listens and who may use it: `[api]`.

use std::net::SocketAddr;

use secrecy::SecretString;

use super::error::Problem;
use super::section::Section;
use super::tree::{Node, Written};

pub(super) const API_KEYS: &[&str] = &["listen", "tokens", "hosts"];
pub(super) const TOKEN_KEYS: &[&str] = &["token", "read_only"];

/// `[api]`.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Who may use it; nobody named, and everybody on this machine may.
    pub tokens: Vec<ApiToken>,
    /// Names in `Host` by which it is reached, beside addresses and `localhost`.
    pub hosts: Vec<String>,
}

/// One bearer token.
#[derive(Clone, Debug)]
pub struct ApiToken {
    /// The token.
    pub token: SecretString,
    /// Whether it may only look.
    pub read_only: bool,
}

pub(super) fn api(section: Section<'_>) -> Result<ApiConfig, Problem> {
    let listen = match section.text("listen")? {
        None => SocketAddr::from(([127, 0, 0, 1], 8470)),
        Some(text) => text.parse().map_err(|_| {
            let problem =
                format!("is {text:?}, and must be an address and a port such as 127.0.0.1:8470 or [::1]:8470");
            section.problem("listen", problem)
        })?,
    };
    let tokens = section
        .items("tokens", "a list")?
        .iter()
        .map(|node| token(section, node))
        .collect::<Result<Vec<_>, _>>()?;
    if tokens.is_empty() && !listen.ip().is_loopback() {
        let problem = format!("is {listen}, which others reach; set api.tokens, or listen on 127.0.0.1");
        return Err(section.problem("listen", problem));
    }
    let hosts = section
        .texts("hosts")?
        .into_iter()
        .map(|(_, host)| host.to_ascii_lowercase())
        .collect();
    Ok(ApiConfig { listen, tokens, hosts })
}

/// A secret, or a table with the secret and what it may do.
fn token(section: Section<'_>, node: &Node) -> Result<ApiToken, Problem> {
    let (secret, read_only) = if node.get("token").is_some() || node.get("read_only").is_some() {
        let table = Section::new(Some(node), "", TOKEN_KEYS, section.environment())?;
        let secret = table
            .secret("token")?
            .ok_or_else(|| table.problem("token", "is missing"))?;
        (secret, table.flag("read_only", false)?)
    } else {
        (section.secret_of(node)?, false)
    };
    if secret.expose().is_empty() || !secret.expose().bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(secret.problem("must be visible ASCII characters without spaces, at least one"));
    }
    Ok(ApiToken {
        token: secret.text,
        read_only,
    })
}

/// What `REDRIVE_API_TOKEN` stands for.
pub(super) fn tokens_from_variable(variable: &str, token: &str) -> Written {
    Written::List(vec![Node {
        path: variable.to_owned(),
        line: None,
        written: Written::Text(token.to_owned()),
    }])
}
