//! Where the HTTP API listens and who may use it: `[api]`.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use secrecy::{ExposeSecret as _, SecretString};

use crate::domain::scope::{Prefix, Quota, Scope, Scopes};
use crate::domain::value::Value;

use super::error::Problem;
use super::keys::{Keys as _, Secrecy, keys};
use super::kind::{
    Kind, address, flag, integer, list, networks, parsed, path, pem_file, table, table_value, text_value, typed, words,
};
use super::print::Page;
use super::secret::{HIDDEN, Secret};
use super::section::Section;
use super::tree::Node;

/// What cannot be guessed in a lifetime at a few guesses a second.
const TOKEN_LENGTH_MIN: usize = 24;
/// Below the user's data directory: the token that is made where none is configured.
const MADE_TOKEN: &str = "redrive/api-token";

/// Bytes of a name of a host.
const HOST_LENGTH_MAX: usize = 253;

/// A name of a token.
const NAME: &str = "^[A-Za-z0-9._-]{1,64}$";

keys! {
    /// The HTTP API.
    #[derive(Clone, Debug)]
    pub struct ApiConfig {
        /// Others than this machine are only served with tokens.
        ///
        /// Other machines are only served with tokens.
        listen: SocketAddr = address()
            .or(SocketAddr::from(([127, 0, 0, 1], 8470)));
        /// A socket for this user alone, beside `listen`.
        ///
        /// A socket for this user alone, beside `listen`; anyone who can open it may do everything.
        unix: Option<PathBuf> = path()
            .with("minLength", Value::Integer(1))
            .optional()
            .example("\"/run/redrive/api.sock\"");
        /// HTTPS on `listen`; files that change are read again.
        tls: Option<ApiTls> = table::<ApiTls>()
            .optional()
            .example("{ certificate = \"/etc/redrive/api.pem\", key = \"/etc/redrive/api.key\" }");
        /// Who may use it; without any, one is made at the first start.
        ///
        /// Without any, one is made at the first start; `redrive token` prints it. At least 24 characters each.
        /// A token alone may do everything; as a table it has scopes: read, publish, operate, admin.
        /// { value = …, scopes = ["publish"], prefix = "https://example.com/hooks" }; instead of value also env or file.
        /// A prefix is the URL below which, or the beginning of the executions for which, the token may publish.
        /// It also has quotas: publishes_per_second, queues (at once), bytes_waiting; past one the answer is 429.
        /// Each daemon counts for itself: with three of them, three times as much is taken. A token whose queues or bytes are
        /// bounded pushes no events. A name = "billing" is what the audit calls it; else that is its place in the list.
        tokens: Vec<ApiToken> = tokens();
        /// Names by which it is reached, beside addresses and localhost.
        ///
        /// Host names of the API, beside addresses and localhost.
        hosts: Vec<String> = list(parsed(host, String::clone), "a list of strings")
            .example("[]");
        /// Connections at once from one address.
        connections_per_address: usize = integer(2..=100_000).or(256);
        /// Networks of proxies: they name who asks, and have no bound of their own.
        ///
        /// Networks of proxies: they name the client (X-Forwarded-For), and have no bound of their own.
        trusted_proxies: Vec<IpNet> = networks()
            .example("[]");
        /// Where /healthz and /readyz are served to everybody, and nothing else.
        ///
        /// Where only /healthz and /readyz are served, without a token; with probe_metrics also /metrics.
        probe: Option<SocketAddr> = address()
            .optional()
            .example("\"0.0.0.0:8471\"");
        /// Whether /metrics is served there too.
        probe_metrics: bool = flag(false).bare();
    }
    beside {
        /// Where the token is that is made where none is configured; none without a directory of the user.
        made_token: Option<PathBuf> = made_token;
    }
}

keys! {
    /// The files of a certificate.
    #[derive(Clone, Debug)]
    pub struct ApiTls {
        /// Path of a PEM file, with the certificates between it and a known authority.
        certificate: PathBuf = pem_file();
        /// Path of a PEM file.
        key: PathBuf = pem_file();
    }
}

keys! {
    /// One bearer token, with what it may do.
    #[derive(Clone, Debug)]
    pub struct ApiToken {
        /// The token, of at least 24 characters.
        in_place as "value": () = elsewhere()
            .with("minLength", Value::Integer(24))
            .secrecy(Secrecy::Whole);
        /// Name of an environment variable.
        in_variable as "env": () = elsewhere();
        /// Path of a file.
        in_file as "file": () = elsewhere();
        /// Who has it, as the audit says; without one, its place in the list.
        name: Option<String> = parsed(name, String::clone).with("pattern", text_value(NAME)).optional();
        /// What it may do.
        scopes: Scopes = scopes();
        /// With the scope publish alone: a URL, below which it may publish, or how the ids of the executions begin.
        prefix: Option<Prefix> = parsed(Prefix::parse, |prefix| prefix.as_str().to_owned())
            .with("minLength", Value::Integer(1))
            .optional();
        /// Notifications, end marks and events that it may publish in a second.
        publishes_per_second: Option<u32> = integer(1..=1_000_000).optional();
        /// Delivery queues that may be there at once where it may publish to.
        queues: Option<u32> = integer(1..=10_000_000).optional();
        /// Bytes that may wait there: those of the bodies, and 512 for each message; those of headers for ten seconds, and on the embedded broker as long as they wait.
        bytes_waiting: Option<u64> = integer(1..=1_u64 << 50).optional();
    }
    beside {
        /// The token.
        value: SecretString = written_in;
    }
}

impl ApiToken {
    /// A secret alone may do everything.
    const fn of_all(value: SecretString, scopes: Scopes) -> Self {
        Self {
            in_place: (),
            in_variable: (),
            in_file: (),
            name: None,
            scopes,
            prefix: None,
            publishes_per_second: None,
            queues: None,
            bytes_waiting: None,
            value,
        }
    }

    /// How much.
    #[must_use]
    pub const fn quota(&self) -> Quota {
        Quota {
            publishes_per_second: self.publishes_per_second,
            queues: self.queues,
            bytes_waiting: self.bytes_waiting,
        }
    }

    /// With a secret, wherever it is kept.
    fn show(&self) -> Value {
        let mut shown = self.shown();
        shown.push(("value", text_value(HIDDEN)));
        shown.sort_by_key(|(key, _)| match *key {
            "value" => 0,
            "scopes" => 1,
            _ => 2,
        });
        table_value(shown)
    }
}

pub(super) fn api(root: Section<'_>, page: &mut Page) -> Result<ApiConfig, Problem> {
    let section = root.section::<ApiConfig>("api")?;
    let api = ApiConfig::read(section)?;
    let mut names = HashSet::new();
    let mut given = api.tokens.iter().filter_map(|token| token.name.as_ref());
    if let Some(again) = given.find(|name| !names.insert(*name)) {
        return Err(section.problem("tokens", format!("has two of the name {again:?}")));
    }
    let listen = api.listen;
    if api.tokens.is_empty() && !listen.ip().is_loopback() {
        let problem = format!("is {listen}, which others reach; set api.tokens, or listen on 127.0.0.1");
        return Err(section.problem("listen", problem));
    }
    if let Some(problem) = twice(&api.tokens) {
        return Err(section.problem("tokens", problem));
    }
    if let Some(probe) = api.probe.filter(|probe| is_taken(*probe, listen)) {
        let problem = format!("is {probe}, where api.listen ({listen}) is already; give it another port");
        return Err(section.problem("probe", problem));
    }
    page.table("[api]", &api);
    Ok(api)
}

/// A token that stands twice: only the scopes of the first would ever count.
fn twice(tokens: &[ApiToken]) -> Option<String> {
    let secret = |token: &ApiToken| token.value.expose_secret().to_owned();
    let mut seen: HashMap<String, usize> = HashMap::new();
    tokens.iter().enumerate().find_map(|(place, token)| {
        let first = seen.insert(secret(token), place)?;
        Some(format!(
            "has the same token as [{first}] and as [{place}], so that what the second one may do never counts; make \
             another one with `openssl rand -hex 32`, or leave one out"
        ))
    })
}

/// Whether two cannot listen at once. A port of 0 is any that is free.
fn is_taken(one: SocketAddr, other: SocketAddr) -> bool {
    let everywhere = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && (everywhere || one.ip() == other.ip())
}

/// A name as a request's `Host` header has it, without its port.
fn host(host: &str) -> Result<String, String> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if bare.parse::<IpAddr>().is_ok() {
        return Ok(bare.to_ascii_lowercase());
    }
    let possible = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if host.is_empty() || host.len() > HOST_LENGTH_MAX || !host.bytes().all(possible) {
        return Err(format!(
            "is {host:?}, and must be the name of a host alone, such as redrive.example.com, without scheme, port and path"
        ));
    }
    Ok(host.to_ascii_lowercase())
}

impl ApiConfig {
    /// Where it is kept at which address the daemon listens that uses the made token.
    #[must_use]
    pub fn listens_beside(made_token: &Path) -> PathBuf {
        made_token.with_extension("listens")
    }
}

#[expect(clippy::unnecessary_wraps, reason = "as each field that is no key")]
fn made_token(section: Section<'_>) -> Result<Option<PathBuf>, Problem> {
    let home = section.environment().data_home.as_ref();
    Ok(home.map(|home| home.join(MADE_TOKEN)))
}

/// Secrets, and tables that say what theirs may do.
fn tokens() -> Kind<Vec<ApiToken>> {
    let one_of = [
        table_value(super::kind::secret().facts.schema),
        table_value(table::<ApiToken>().facts.schema),
    ];
    let schema = vec![("anyOf", Value::List(one_of.into()))];
    let one = Kind::new(schema, token, |token: &ApiToken| Some(token.show())).inner(ApiToken::rows);
    list(one, "a list")
        .secrecy(Secrecy::Whole)
        .variable("REDRIVE_API_TOKEN")
        .example("[]")
}

fn token(section: Section<'_>, node: &Node) -> Result<ApiToken, Problem> {
    let is_table = ApiToken::KEYS
        .iter()
        .any(|key| !matches!(*key, "env" | "file") && node.get(key).is_some());
    if !is_table {
        let value = checked(section.secret_of(node)?)?;
        return Ok(ApiToken::of_all(value, Scopes::new(vec![Scope::Admin])));
    }
    let table = section.inside::<ApiToken>(node)?;
    let token = ApiToken::read(table)?;
    if token.prefix.is_some() && token.scopes.given() != [Scope::Publish] {
        return Err(table.problem(
            "prefix",
            "bounds what is published, so that the token has the scope \"publish\" alone; give others a token of their own",
        ));
    }
    let quotas = ["publishes_per_second", "queues", "bytes_waiting"];
    match quotas.into_iter().find(|key| table.get(key).is_some()) {
        Some(key) if !token.scopes.allow(Scope::Publish) => Err(table.problem(
            key,
            "bounds what is published, and the token lacks the scope \"publish\"",
        )),
        Some(_) | None => Ok(token),
    }
}

/// What the audit names a token: nothing that could be taken for another one.
fn name(name: &str) -> Result<String, String> {
    let possible = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || name.len() > 64 || !name.bytes().all(possible) {
        return Err("must be 1 to 64 letters, digits, dots, underscores and hyphens".to_owned());
    }
    if matches!(name, "own" | "unix") || name.starts_with("token-") {
        return Err(format!(
            "is {name:?}, which stands for those that have no name; give it another one"
        ));
    }
    Ok(name.to_owned())
}

/// A place of the token, which [`written_in`] reads.
fn elsewhere() -> Kind<()> {
    Kind::new(typed("string"), |_, _| Ok(()), |()| None).or_with(|_| Ok(()))
}

/// The one of `value`, `env` and `file` that is given.
fn written_in(table: Section<'_>) -> Result<SecretString, Problem> {
    let is_place = |entry: &&(String, Node)| matches!(entry.0.as_str(), "value" | "env" | "file");
    let given: Vec<&(String, Node)> = table.entries().iter().filter(is_place).collect();
    match given.as_slice() {
        [(key, value)] if key == "value" => checked(table.secret_of(value)?),
        [place] => checked(table.secret_in(place)?),
        _ => Err(table.problem("value", "is missing; give one of value, env and file")),
    }
}

fn scopes() -> Kind<Scopes> {
    let names = || Scope::ALL.map(Scope::as_str);
    let known = names().join(", ");
    let missing = format!("is missing; give a list of {known}");
    let scope = move |name: &str| Scope::parse(name).ok_or_else(|| format!("is {name:?}, and must be one of {known}"));
    let list = words(names().into(), scope, |scope: &Scope| scope.as_str()).with("minItems", Value::Integer(1));
    let mut scopes = list.and_then(
        move |scopes, place| {
            let given = Some(scopes).filter(|scopes| !scopes.is_empty());
            given.map(Scopes::new).ok_or_else(|| place.problem(missing.clone()))
        },
        |scopes| {
            Some(Value::List(
                scopes.given().iter().map(|scope| text_value(scope.as_str())).collect(),
            ))
        },
    );
    scopes.facts.is_required = true;
    scopes
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
