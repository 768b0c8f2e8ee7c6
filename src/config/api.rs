//! Where the HTTP API listens and who may use it: `[api]`.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use secrecy::SecretString;

use crate::domain::scope::{Prefix, Quota, Scope, Scopes};

use super::delivery::networks;
use super::error::Problem;
use super::secret::Secret;
use super::section::Section;
use super::tree::{Node, Written};

pub(super) const API_KEYS: &[&str] = &[
    "listen",
    "unix",
    "tls",
    "tokens",
    "hosts",
    "connections_per_address",
    "trusted_proxies",
    "probe",
    "probe_metrics",
];
pub(super) const TOKEN_KEYS: &[&str] = &[
    "value",
    "env",
    "file",
    "name",
    "scopes",
    "prefix",
    "publishes_per_second",
    "queues",
    "bytes_waiting",
];
pub(super) const TLS_KEYS: &[&str] = &["certificate", "key"];

/// What cannot be guessed in a lifetime at a few guesses a second.
const TOKEN_LENGTH_MIN: usize = 24;
/// Below the user's data directory: the token that is made where none is configured.
const MADE_TOKEN: &str = "redrive/api-token";

/// `[api]`.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// A socket for this user alone.
    pub unix: Option<PathBuf>,
    /// With what it proves who it is, on `listen`.
    pub tls: Option<ApiTls>,
    /// Who may use it; nobody named, and whoever can read `made_token` may.
    pub tokens: Vec<ApiToken>,
    /// Where the token is that is made where none is configured; none without a directory of the user.
    pub made_token: Option<PathBuf>,
    /// Names in `Host` by which it is reached, beside addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Connections at once from one address.
    pub connections_per_address: usize,
    /// Who may name the address that it asks for.
    pub trusted_proxies: Vec<IpNet>,
    /// Where only `/healthz` and `/readyz` are served.
    pub probe: Option<SocketAddr>,
    /// Whether `/metrics` is served there too.
    pub probe_metrics: bool,
}

/// The files of a certificate.
#[derive(Clone, Debug)]
pub struct ApiTls {
    /// PEM, with those between it and a known authority.
    pub certificate: PathBuf,
    /// PEM.
    pub key: PathBuf,
}

/// One bearer token.
#[derive(Clone, Debug)]
pub struct ApiToken {
    /// Who has it, for the audit; else its place in the list.
    pub name: Option<String>,
    /// The token.
    pub value: SecretString,
    /// What it may do.
    pub scopes: Scopes,
    /// Where it may publish to, if not everywhere.
    pub prefix: Option<Prefix>,
    /// How much.
    pub quota: Quota,
}

pub(super) fn api(section: Section<'_>, data_home: Option<&Path>) -> Result<ApiConfig, Problem> {
    let listen = address(section, "listen")?.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 8470)));
    let tokens = section
        .items("tokens", "a list")?
        .iter()
        .map(|node| token(section, node))
        .collect::<Result<Vec<_>, _>>()?;
    check_names(section, &tokens)?;
    if tokens.is_empty() && !listen.ip().is_loopback() {
        let problem = format!("is {listen}, which others reach; set api.tokens, or listen on 127.0.0.1");
        return Err(section.problem("listen", problem));
    }
    let hosts = section
        .texts("hosts")?
        .into_iter()
        .map(|(_, host)| host.to_ascii_lowercase())
        .collect();
    Ok(ApiConfig {
        listen,
        unix: section.path("unix")?,
        tls: tls(section)?,
        tokens,
        made_token: data_home.map(|home| home.join(MADE_TOKEN)),
        hosts,
        connections_per_address: section.integer("connections_per_address", 1..=100_000, 256)?,
        trusted_proxies: networks(section, "trusted_proxies")?,
        probe: address(section, "probe")?,
        probe_metrics: section.flag("probe_metrics", false)?,
    })
}

fn address(section: Section<'_>, key: &str) -> Result<Option<SocketAddr>, Problem> {
    let read = |text: &str| {
        text.parse().map_err(|_| {
            let problem =
                format!("is {text:?}, and must be an address and a port such as 127.0.0.1:8470 or [::1]:8470");
            section.problem(key, problem)
        })
    };
    section.text(key)?.map(read).transpose()
}

fn tls(section: Section<'_>) -> Result<Option<ApiTls>, Problem> {
    if section.get("tls").is_none() {
        return Ok(None);
    }
    let table = section.section("tls", TLS_KEYS)?;
    let file = |key| {
        table
            .path(key)?
            .ok_or_else(|| table.problem(key, "is missing; give the path of a PEM file"))
    };
    Ok(Some(ApiTls {
        certificate: file("certificate")?,
        key: file("key")?,
    }))
}

/// A secret alone may do everything; a table says what its secret may do.
fn token(section: Section<'_>, node: &Node) -> Result<ApiToken, Problem> {
    let is_table = TOKEN_KEYS
        .iter()
        .any(|key| !matches!(*key, "env" | "file") && node.get(key).is_some());
    if !is_table {
        return Ok(ApiToken {
            name: None,
            value: checked(section.secret_of(node)?)?,
            scopes: Scopes::new(vec![Scope::Admin]),
            prefix: None,
            quota: Quota::default(),
        });
    }
    let table = Section::new(Some(node), "", TOKEN_KEYS, section.environment())?;
    let scopes = scopes(table)?;
    let prefix = match table.text("prefix")? {
        None => None,
        Some(text) => Some(Prefix::parse(text).map_err(|why| table.problem("prefix", why))?),
    };
    if prefix.is_some() && scopes.given() != [Scope::Publish] {
        return Err(table.problem(
            "prefix",
            "bounds what is published, so that the token has the scope \"publish\" alone; give others a token of their own",
        ));
    }
    Ok(ApiToken {
        name: name(table)?,
        value: checked(written_in(table, node)?)?,
        quota: quota(table, &scopes)?,
        scopes,
        prefix,
    })
}

/// What the audit names a token: nothing that could be taken for another one.
fn name(table: Section<'_>) -> Result<Option<String>, Problem> {
    let Some(name) = table.text("name")? else {
        return Ok(None);
    };
    let possible = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || name.len() > 64 || !name.bytes().all(possible) {
        return Err(table.problem("name", "must be 1 to 64 letters, digits, dots, underscores and hyphens"));
    }
    if matches!(name, "own" | "unix") || name.starts_with("token-") {
        let problem = format!("is {name:?}, which stands for those that have no name; give it another one");
        return Err(table.problem("name", problem));
    }
    Ok(Some(name.to_owned()))
}

fn check_names(section: Section<'_>, tokens: &[ApiToken]) -> Result<(), Problem> {
    let mut names = HashSet::new();
    let again = tokens
        .iter()
        .filter_map(|token| token.name.as_ref())
        .find(|name| !names.insert(*name));
    match again {
        Some(name) => Err(section.problem("tokens", format!("has two of the name {name:?}"))),
        None => Ok(()),
    }
}

fn quota(table: Section<'_>, scopes: &Scopes) -> Result<Quota, Problem> {
    for key in ["publishes_per_second", "queues", "bytes_waiting"] {
        if table.get(key).is_some() && !scopes.allow(Scope::Publish) {
            return Err(table.problem(
                key,
                "bounds what is published, and the token lacks the scope \"publish\"",
            ));
        }
    }
    Ok(Quota {
        publishes_per_second: table.integer_or_none("publishes_per_second", 1..=1_000_000)?,
        queues: table.integer_or_none("queues", 1..=10_000_000)?,
        bytes_waiting: table.integer_or_none("bytes_waiting", 1..=1_u64 << 50)?,
    })
}

/// The one of `value`, `env` and `file` that is given.
fn written_in(table: Section<'_>, node: &Node) -> Result<Secret, Problem> {
    let given: Vec<&(String, Node)> = node
        .entries()
        .iter()
        .filter(|(key, _)| matches!(key.as_str(), "value" | "env" | "file"))
        .collect();
    match given.as_slice() {
        [(key, value)] if key == "value" => table.secret_of(value),
        [place] => table.secret_of(&Node {
            path: node.path.clone(),
            line: node.line,
            written: Written::Table(vec![(*place).clone()]),
        }),
        _ => Err(table.problem("value", "is missing; give one of value, env and file")),
    }
}

fn scopes(table: Section<'_>) -> Result<Scopes, Problem> {
    let known = Scope::ALL.map(Scope::as_str).join(", ");
    let written = table.texts("scopes")?;
    if written.is_empty() {
        return Err(table.problem("scopes", format!("is missing; give a list of {known}")));
    }
    let scope = |(node, name): (&Node, &str)| {
        Scope::parse(name).ok_or_else(|| node.problem(format!("is {name:?}, and must be one of {known}")))
    };
    Ok(Scopes::new(written.into_iter().map(scope).collect::<Result<_, _>>()?))
}

fn checked(secret: Secret) -> Result<SecretString, Problem> {
    let length = secret.expose().len();
    if !secret.expose().bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(secret.problem("must be visible ASCII characters without spaces"));
    }
    if length < TOKEN_LENGTH_MIN {
        return Err(secret.problem(format!(
            "has {length} characters, and must have at least {TOKEN_LENGTH_MIN}: make one with `openssl rand -hex 32`"
        )));
    }
    Ok(secret.text)
}

/// What `REDRIVE_API_TOKEN` stands for.
pub(super) fn tokens_from_variable(variable: &str, token: &str) -> Written {
    Written::List(vec![Node {
        path: variable.to_owned(),
        line: None,
        written: Written::Text(token.to_owned()),
    }])
}
