//! Where the record is kept and which broker holds the queues: `[store]` and `[broker]`.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use url::Url;

use crate::domain::database;
use crate::domain::naming::{Naming, QueueType, hex};
use crate::domain::retention::Retention;

use super::error::Problem;
use super::secret::SecretUrl;
use super::section::Section;

/// From a second to a hundred years.
const RETENTION_S: std::ops::RangeInclusive<f64> = 1.0..=3_153_600_000.0;
/// Hides URLs where nobody chose a key: equal everywhere, so it only keeps them out of plain sight.
const URL_HASH_KEY_DEFAULT: &str = "redrive-default-url-hash-key";
/// Prefix and vhost together leave room for the hashes in a queue's name.
const PREFIX_AND_VHOST_BYTES_MAX: usize = 100;

/// Letters of host and vhost in the name of the file that nobody named.
const FILE_NAME_MAX: usize = 40;

pub(super) const STORE_KEYS: &[&str] = &["url", "retention"];
/// The keys of `store.retention`.
pub(super) const RETENTION_KEYS: &[&str] = &["attempts_s", "audit_s", "runs_s", "endpoints_s", "rescued_s", "types_s"];
pub(super) const BROKER_KEYS: &[&str] = &[
    "url",
    "management_url",
    "vhost",
    "queue_type",
    "queue_prefix",
    "url_hash_key",
    "provision",
    "tls",
];
/// The keys of `broker.tls`.
pub(super) const BROKER_TLS_KEYS: &[&str] = &["certificate", "key", "authority"];

/// `[store]`: where the record is kept.
#[derive(Clone, Debug)]
pub enum StoreConfig {
    /// A file.
    Sqlite {
        /// Which.
        path: PathBuf,
        /// Nobody named it.
        is_default: bool,
    },
    /// A server.
    Postgres {
        /// Where, with the password.
        url: SecretUrl,
    },
}

/// `[broker]`: which broker holds the queues.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// Which.
    pub kind: BrokerKind,
    /// The names on it.
    pub naming: Naming,
    /// Whether neither `broker.vhost` nor `broker.url` names a vhost.
    pub vhost_is_default: bool,
    /// Whether the vhost and the user's rights are made at start.
    pub provision: bool,
    /// Nobody chose a key: the one that everybody knows is used.
    pub url_hash_key_is_default: bool,
    /// What is proven to the broker beside the login.
    pub tls: Option<BrokerTls>,
}

/// The files of a client's certificate.
#[derive(Clone, Debug)]
pub struct BrokerTls {
    /// PEM, with those between it and an authority that the broker knows.
    pub certificate: PathBuf,
    /// PEM.
    pub key: PathBuf,
    /// PEM: an authority that is trusted beside those of the system.
    pub authority: Option<PathBuf>,
}

/// Which broker.
#[derive(Clone, Debug)]
pub enum BrokerKind {
    /// In the file of the `SQLite` store.
    Embedded,
    /// A server.
    RabbitMq {
        /// AMQP with user and password, without a vhost.
        amqp_url: SecretUrl,
        /// The management API with user and password.
        management_url: SecretUrl,
    },
}

impl StoreConfig {
    /// Whether it is the file that is used where nobody names a store.
    #[must_use]
    pub const fn is_default(&self) -> bool {
        matches!(self, Self::Sqlite { is_default: true, .. })
    }
}

pub(super) fn store(section: Section<'_>, data_home: Option<&Path>) -> Result<StoreConfig, Problem> {
    let Some(secret) = section.secret("url")? else {
        let directory = data_home.ok_or(Problem::Home)?;
        return Ok(StoreConfig::Sqlite {
            path: directory.join("redrive").join("redrive.db"),
            is_default: true,
        });
    };
    let written = secret.expose();
    match written.split_once(':') {
        Some(("sqlite", rest)) => {
            let path = rest.strip_prefix("//").unwrap_or(rest);
            if path.is_empty() || path == ":memory:" || path.contains('?') {
                return Err(secret.problem("must name a file after sqlite:, without options"));
            }
            Ok(StoreConfig::Sqlite {
                path: path.into(),
                is_default: false,
            })
        }
        Some(("postgres" | "postgresql", _)) => match (database::refusal(written), Url::parse(written)) {
            (Some(why), _) => Err(secret.problem(why)),
            (None, Ok(url)) => Ok(StoreConfig::Postgres {
                url: SecretUrl::new(&url),
            }),
            (None, Err(error)) => Err(secret.problem(format!("cannot be read: {error}"))),
        },
        _ => Err(secret.problem("must begin with postgres:// or sqlite:")),
    }
}

/// The file that nobody named is one for each broker and vhost; the embedded broker is in it.
pub(super) fn store_of(store: StoreConfig, broker: &BrokerConfig) -> StoreConfig {
    match (store, &broker.kind) {
        (StoreConfig::Sqlite { path, is_default: true }, BrokerKind::RabbitMq { amqp_url, .. }) => {
            StoreConfig::Sqlite {
                path: path.with_file_name(file_of(amqp_url, &broker.naming.vhost)),
                is_default: true,
            }
        }
        (store, _) => store,
    }
}

/// Readable, and no two the same: what cannot stand in a name is left out of it, and the hash is over all.
fn file_of(amqp_url: &SecretUrl, vhost: &str) -> String {
    let url = Url::parse(amqp_url.expose()).ok();
    let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
    let port = url.as_ref().and_then(Url::port).map_or(
        if amqp_url.shown().starts_with("amqps:") {
            5671
        } else {
            5672
        },
        |port| port,
    );
    let readable: String = format!("{host}-{vhost}")
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .take(FILE_NAME_MAX)
        .collect();
    let all = Sha256::digest(format!("{host}\n{port}\n{vhost}").as_bytes());
    format!("redrive-{}-{}.db", readable.trim_end_matches('-'), hex(&all[..4]))
}

/// How long what grows in the store is kept; what is left out is kept for its default.
pub(super) fn retention(store: Section<'_>) -> Result<Retention, Problem> {
    let section = store.section("retention", RETENTION_KEYS)?;
    let default = Retention::default();
    let seconds = |key, default| section.seconds(key, RETENTION_S, default);
    Ok(Retention {
        attempts: seconds("attempts_s", default.attempts)?,
        audit: seconds("audit_s", default.audit)?,
        runs: seconds("runs_s", default.runs)?,
        endpoints: seconds("endpoints_s", default.endpoints)?,
        rescued: seconds("rescued_s", default.rescued)?,
        types: seconds("types_s", default.types)?,
    })
}

pub(super) fn broker(section: Section<'_>, store: &StoreConfig) -> Result<BrokerConfig, Problem> {
    let key = section.secret("url_hash_key")?;
    if key.as_ref().is_some_and(|key| key.expose().is_empty()) {
        return Err(section.problem("url_hash_key", "is empty; leave it out or give a long random text"));
    }
    let (kind, vhost_of_url) = kind(section)?;
    if matches!((&kind, store), (BrokerKind::Embedded, StoreConfig::Postgres { .. })) {
        let problem = "is the embedded broker, which lives in the file of an SQLite store; \
             give an amqp:// URL, or a sqlite: store.url";
        return Err(section.problem("url", problem));
    }
    let vhost_is_default = section.text("vhost")?.is_none() && vhost_of_url.is_none();
    let naming = Naming {
        prefix: prefix(section)?,
        vhost: vhost(section, vhost_of_url)?,
        url_hash_key: key.as_ref().map_or(URL_HASH_KEY_DEFAULT, |key| key.expose()).to_owned(),
        queue_type: queue_type(section)?,
    };
    if naming.prefix.len() + naming.vhost.len() > PREFIX_AND_VHOST_BYTES_MAX {
        let problem = format!("and broker.vhost together must have at most {PREFIX_AND_VHOST_BYTES_MAX} bytes");
        return Err(section.problem("queue_prefix", problem));
    }
    Ok(BrokerConfig {
        tls: tls(section, &kind)?,
        kind,
        naming,
        vhost_is_default,
        provision: section.flag("provision", true)?,
        url_hash_key_is_default: key.is_none(),
    })
}

fn tls(section: Section<'_>, kind: &BrokerKind) -> Result<Option<BrokerTls>, Problem> {
    if section.get("tls").is_none() {
        return Ok(None);
    }
    let table = section.section("tls", BROKER_TLS_KEYS)?;
    let file = |key| {
        table
            .path(key)?
            .ok_or_else(|| table.problem(key, "is missing; give the path of a PEM file"))
    };
    let tls = BrokerTls {
        certificate: file("certificate")?,
        key: file("key")?,
        authority: table.path("authority")?,
    };
    match kind {
        BrokerKind::RabbitMq { amqp_url, .. } if !amqp_url.shown().starts_with("amqps:") => Err(section.problem(
            "tls",
            "is what is shown to a broker with TLS; write broker.url as amqps://…",
        )),
        BrokerKind::RabbitMq { .. } | BrokerKind::Embedded => Ok(Some(tls)),
    }
}

/// The broker, and the vhost in its URL, if there is one.
fn kind(section: Section<'_>) -> Result<(BrokerKind, Option<String>), Problem> {
    let Some(secret) = section.secret("url")? else {
        return Ok((BrokerKind::Embedded, None));
    };
    if secret.expose() == "embedded:" {
        return Ok((BrokerKind::Embedded, None));
    }
    let mut amqp = Url::parse(secret.expose()).map_err(|error| {
        secret.problem(format!(
            "cannot be read: {error}; write it as amqp://user:password@host or embedded:"
        ))
    })?;
    if !matches!(amqp.scheme(), "amqp" | "amqps") {
        return Err(secret.problem("must begin with amqp://, amqps:// or embedded:"));
    }
    if amqp.host_str().is_none_or(str::is_empty) {
        return Err(secret.problem("has no host; write it as amqp://user:password@host"));
    }
    let vhost = match amqp.path().strip_prefix('/') {
        None | Some("") => None,
        Some(encoded) => Some(
            percent_encoding::percent_decode_str(encoded)
                .decode_utf8()
                .map_err(|_| secret.problem("has a vhost that is not UTF-8"))?
                .into_owned(),
        ),
    };
    amqp.set_path("");
    let kind = BrokerKind::RabbitMq {
        management_url: management(section, &amqp)?,
        amqp_url: SecretUrl::new(&amqp),
    };
    Ok((kind, vhost))
}

/// Without a URL of its own the management API is expected on the AMQP host, at its usual port; without
/// a login of its own it gets that of AMQP.
fn management(section: Section<'_>, amqp: &Url) -> Result<SecretUrl, Problem> {
    let written = section.secret("management_url")?;
    let problem = |text: String| match &written {
        Some(secret) => secret.problem(text),
        None => section.problem("url", text),
    };
    let text = match &written {
        Some(secret) => secret.expose().to_owned(),
        None if amqp.scheme() == "amqps" => format!("https://{}:15671", amqp.host_str().unwrap_or_default()),
        None => format!("http://{}:15672", amqp.host_str().unwrap_or_default()),
    };
    let mut url = Url::parse(&text)
        .map_err(|error| problem(format!("cannot be read: {error}; write it as http://host:15672")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(problem("must begin with http:// or https://".to_owned()));
    }
    if url.username().is_empty() {
        // Both fail only for URLs that cannot have a login, and this one can.
        let _ = url.set_username(amqp.username());
        let _ = url.set_password(amqp.password());
    }
    Ok(SecretUrl::new(&url))
}

fn vhost(section: Section<'_>, in_url: Option<String>) -> Result<String, Problem> {
    match (section.text("vhost")?, in_url) {
        (Some(""), _) => Err(section.problem("vhost", "is empty; write it as \"redrive\"")),
        (Some(written), Some(in_url)) if written != in_url => Err(section.problem(
            "vhost",
            format!("is {written:?}, and broker.url names vhost {in_url:?}; give it in one place"),
        )),
        (Some(written), _) => Ok(written.to_owned()),
        (None, Some(in_url)) => Ok(in_url),
        (None, None) => Ok("redrive".to_owned()),
    }
}

fn prefix(section: Section<'_>) -> Result<String, Problem> {
    let prefix = section.text("queue_prefix")?.unwrap_or("redrive.");
    let possible = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if prefix.is_empty() || prefix.starts_with("amq.") || !prefix.bytes().all(possible) {
        let problem = "must be letters, digits, dots, underscores and hyphens, and must not begin with amq.";
        return Err(section.problem("queue_prefix", problem));
    }
    Ok(prefix.to_owned())
}

fn queue_type(section: Section<'_>) -> Result<QueueType, Problem> {
    match section.text("queue_type")? {
        None | Some("classic") => Ok(QueueType::Classic),
        Some("quorum") => Ok(QueueType::Quorum),
        Some(other) => Err(section.problem(
            "queue_type",
            format!("is {other:?}, and must be \"classic\" or \"quorum\""),
        )),
    }
}
