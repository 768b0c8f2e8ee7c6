//! Where the record is kept and which broker holds the queues: `[store]` and `[broker]`.

use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use url::Url;

use crate::domain::database;
use crate::domain::naming::{Naming, QueueType, hex};
use crate::domain::retention::Retention;
use crate::domain::value::Value;

use super::error::Problem;
use super::keys::{Keys as _, Secrecy, keys};
use super::kind::{Kind, flag, parsed, path, pem_file, seconds, secret, table, text_value, typed, word};
use super::print::Page;
use super::secret::{Secret, SecretUrl, has_stray_login};
use super::section::Section;
use super::tree::Node;

/// From a second to a hundred years.
const RETENTION_S: std::ops::RangeInclusive<f64> = 1.0..=3_153_600_000.0;
/// Hides URLs where nobody chose a key: equal everywhere, so it only keeps them out of plain sight.
const URL_HASH_KEY_DEFAULT: &str = "redrive-default-url-hash-key";
/// Where neither its own key nor the URL names one.
const VHOST_DEFAULT: &str = "redrive";
/// Prefix and vhost together leave room for the hashes in a queue's name.
const PREFIX_AND_VHOST_BYTES_MAX: usize = 100;

/// Letters of host and vhost in the name of the file that nobody named.
const FILE_NAME_MAX: usize = 40;

keys! {
    /// Where the record is kept.
    pub(super) struct StoreKeys {
        /// "postgres://user:password@host/database" or "sqlite:PATH".
        url: StoreConfig = secret()
            .and_then(|secret, _| written_store(&secret), |store| Some(store.shown()))
            .or_with(default_store)
            .secrecy(Secrecy::Password)
            .variable("REDRIVE_STORE_URL")
            .example("\"sqlite:/var/lib/redrive/redrive.db\"");
        /// How many seconds what grows is kept.
        ///
        /// For how many seconds redrive keeps what grows, here a fortnight, a year, 30 days, 90 days, a year and 90 days: the attempt
        /// log (and at most 200000 rows of it); the audit, with older versions of policies (the end of what is
        /// removed is kept, and `redrive audit verify` begins there); runs that are over (and at most 1000);
        /// endpoints that are available, without a queue, without a policy and unused; messages that no client
        /// could decode; event types without a document, an event, a subscription, history and a policy, unused (at
        /// least two hours).
        retention: Retention = table::<Retention>()
            .or_with(|store| Retention::read(store.section::<Retention>("retention")?))
            .example(
                "{ attempts_s = 1209600, audit_s = 31536000, runs_s = 2592000, endpoints_s = 7776000, \
                 rescued_s = 31536000, types_s = 7776000 }",
            );
    }
}

keys! {
    /// How long what grows in the store is kept.
    for Retention {
        /// Of rows of the attempt log.
        attempts as "attempts_s": Duration = seconds(RETENTION_S).or(Self::default().attempts);
        /// Of lines of the audit, and of older versions of policies.
        audit as "audit_s": Duration = seconds(RETENTION_S).or(Self::default().audit);
        /// Of runs, from their end.
        runs as "runs_s": Duration = seconds(RETENTION_S).or(Self::default().runs);
        /// Of endpoints that are available, without a queue and without a policy, from when they were used last.
        endpoints as "endpoints_s": Duration = seconds(RETENTION_S).or(Self::default().endpoints);
        /// Of messages that no client could decode.
        rescued as "rescued_s": Duration = seconds(RETENTION_S).or(Self::default().rescued);
        /// Of event types without a document, an event, a subscription, history and a policy, from when they were used
        /// last; at least two hours.
        types as "types_s": Duration = seconds(RETENTION_S).or(Self::default().types);
    }
}

keys! {
    /// Where messages wait.
    pub(super) struct BrokerKeys {
        /// "amqp://user:password@host", "amqps://…", or "embedded:".
        ///
        /// "amqp://user:password@host", "amqps://…", or "embedded:", which goes with an SQLite store only.
        url: Server = secret()
            .and_then(|secret, _| server(&secret), |server| Some(text_value(server.shown())))
            .or_with(|_| Ok(Server::Embedded))
            .secrecy(Secrecy::Password)
            .variable("REDRIVE_BROKER_URL")
            .example("\"embedded:\"");
        /// The management API; by default port 15672 of the broker's host.
        ///
        /// The management API; by default port 15672 of the broker's host, with the same user.
        management_url: Option<SecretUrl> = management_url();
        /// The virtual host.
        vhost: String = vhost();
        /// Quorum for clusters that replicate their queues.
        ///
        /// "classic", or "quorum" for clusters that replicate their queues.
        queue_type: QueueType = word(&[("classic", QueueType::Classic), ("quorum", QueueType::Quorum)])
            .or(QueueType::Classic);
        /// What every queue of ours begins with.
        queue_prefix: String = parsed(prefix, String::clone).or("redrive.".to_owned());
        /// Hides URLs in the names of queues; the same for publishers and daemons.
        ///
        /// Hides URLs in the names of queues. Publishers and daemons need the same one, and it cannot be
        /// changed while queues exist.
        url_hash_key: Option<Secret> = secret()
            .unless(|key| {
                let problem = "is empty; leave it out or give a long random text";
                key.expose().is_empty().then(|| problem.to_owned())
            })
            .optional()
            .example("{ file = \"/etc/redrive/url_hash_key\" }");
        /// Make the vhost and the user's rights at start.
        provision: bool = flag(true);
        /// Proven to a broker with TLS, beside the login; files are read again at each connection.
        ///
        /// For a broker with TLS that demands a certificate of its clients, beside the login: PEM files, read again at each
        /// connection. `authority` is trusted beside those of the system.
        tls: Option<BrokerTls> = table::<BrokerTls>()
            .optional()
            .example(
                "{ certificate = \"/etc/redrive/broker.pem\", key = \"/etc/redrive/broker.key\", \
                 authority = \"/etc/redrive/ca.pem\" }",
            );
    }
}

keys! {
    /// The files of a client's certificate.
    #[derive(Clone, Debug)]
    pub struct BrokerTls {
        /// Path of a PEM file, with the certificates between it and an authority that the broker knows.
        certificate: PathBuf = pem_file();
        /// Path of a PEM file.
        key: PathBuf = pem_file();
        /// Path of a PEM file: trusted beside the authorities of the system.
        authority: Option<PathBuf> = path().optional();
    }
}

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

    fn shown(&self) -> Value {
        match self {
            Self::Sqlite { path, .. } => text_value(format!("sqlite:{}", path.display())),
            Self::Postgres { url } => text_value(url.shown()),
        }
    }
}

fn default_store(section: Section<'_>) -> Result<StoreConfig, Problem> {
    let directory = section.environment().data_home.as_ref().ok_or(Problem::Home)?;
    Ok(StoreConfig::Sqlite {
        path: directory.join("redrive").join("redrive.db"),
        is_default: true,
    })
}

fn written_store(secret: &Secret) -> Result<StoreConfig, Problem> {
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
        Some(("postgres" | "postgresql", _)) => {
            let url = Url::parse(written);
            let unencoded = url.as_ref().ok().and_then(unencoded);
            match (unencoded.or_else(|| database::refusal(written)), url) {
                (Some(why), _) => Err(secret.problem(why)),
                (None, Ok(url)) => Ok(StoreConfig::Postgres {
                    url: SecretUrl::new(&url),
                }),
                (None, Err(error)) => Err(secret.problem(format!("cannot be read: {error}; {ENCODED}"))),
            }
        }
        _ => Err(secret.problem("must begin with postgres:// or sqlite:")),
    }
}

/// The file that nobody named is one for each broker and vhost; the embedded broker is in it.
fn store_of(store: StoreConfig, broker: &BrokerKeys) -> StoreConfig {
    match (store, &broker.url) {
        (StoreConfig::Sqlite { path, is_default: true }, Server::RabbitMq { amqp_url, .. }) => StoreConfig::Sqlite {
            path: path.with_file_name(file_of(amqp_url, &broker.vhost)),
            is_default: true,
        },
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

/// The broker as its URL names it.
#[derive(Clone)]
pub(super) enum Server {
    Embedded,
    RabbitMq {
        /// Without a vhost.
        amqp_url: SecretUrl,
        vhost: Option<String>,
    },
}

impl Server {
    fn shown(&self) -> &str {
        match self {
            Self::Embedded => "embedded:",
            Self::RabbitMq { amqp_url, .. } => amqp_url.shown(),
        }
    }

    fn vhost(&self) -> Option<&String> {
        match self {
            Self::Embedded => None,
            Self::RabbitMq { vhost, .. } => vhost.as_ref(),
        }
    }
}

/// Both are resolved together: the store that nobody named is one for each broker, and the embedded broker is in the store.
pub(super) fn store_and_broker(root: Section<'_>, page: &mut Page) -> Result<(StoreKeys, BrokerConfig), Problem> {
    let mut store = StoreKeys::read(root.section::<StoreKeys>("store")?)?;
    let section = root.section::<BrokerKeys>("broker")?;
    let broker = BrokerKeys::read(section)?;
    broker.check(section, &store.url)?;
    store.url = store_of(store.url, &broker);
    page.table("[store]", &store);
    page.table("[broker]", &broker);
    Ok((store, broker.resolved(section)))
}

impl BrokerKeys {
    fn check(&self, section: Section<'_>, store: &StoreConfig) -> Result<(), Problem> {
        if matches!((&self.url, store), (Server::Embedded, StoreConfig::Postgres { .. })) {
            let problem = "is the embedded broker, which lives in the file of an SQLite store; \
                 give an amqp:// URL, or a sqlite: store.url";
            return Err(section.problem("url", problem));
        }
        if self.queue_prefix.len() + self.vhost.len() > PREFIX_AND_VHOST_BYTES_MAX {
            let problem = format!("and broker.vhost together must have at most {PREFIX_AND_VHOST_BYTES_MAX} bytes");
            return Err(section.problem("queue_prefix", problem));
        }
        match &self.url {
            Server::RabbitMq { amqp_url, .. } if self.tls.is_some() && !amqp_url.shown().starts_with("amqps:") => {
                let problem = "is what is shown to a broker with TLS; write broker.url as amqps://…";
                Err(section.problem("tls", problem))
            }
            Server::RabbitMq { .. } | Server::Embedded => Ok(()),
        }
    }

    fn resolved(self, section: Section<'_>) -> BrokerConfig {
        let key = self.url_hash_key.as_ref();
        BrokerConfig {
            url_hash_key_is_default: key.is_none(),
            naming: Naming {
                prefix: self.queue_prefix,
                vhost: self.vhost,
                url_hash_key: key.map_or(URL_HASH_KEY_DEFAULT, Secret::expose).to_owned(),
                queue_type: self.queue_type,
            },
            vhost_is_default: section.get("vhost").is_none() && self.url.vhost().is_none(),
            provision: self.provision,
            tls: self.tls,
            kind: match (self.url, self.management_url) {
                (Server::RabbitMq { amqp_url, .. }, Some(management_url)) => BrokerKind::RabbitMq {
                    amqp_url,
                    management_url,
                },
                (Server::RabbitMq { .. } | Server::Embedded, _) => BrokerKind::Embedded,
            },
        }
    }
}

/// What ends the host of a URL, where it stands in a password.
const ENCODED: &str = "in a password or a name write / as %2F, \\ as %5C, ? as %3F, # as %23, @ as %40 and % as %25";

/// What a parameter of a URL of PostgreSQL may have an @ in.
const TAKE_AN_AT: [&str; 7] = [
    "user",
    "password",
    "dbname",
    "host",
    "options",
    "application_name",
    "sslrootcert",
];

/// Why a URL with a login is refused. Nothing tells a part of a password from a vhost with an @ in its name: both have to
/// be encoded.
fn unencoded(url: &Url) -> Option<String> {
    let takes_an_at = |key: &str| TAKE_AN_AT.contains(&key);
    (url.fragment().is_some() || has_stray_login(url, takes_an_at))
        .then(|| format!("has a # or an @ behind its host: {ENCODED}"))
}

fn server(secret: &Secret) -> Result<Server, Problem> {
    if secret.expose() == "embedded:" {
        return Ok(Server::Embedded);
    }
    let mut amqp = Url::parse(secret.expose()).map_err(|error| {
        secret.problem(format!(
            "cannot be read: {error}; write it as amqp://user:password@host or embedded:, and {ENCODED}"
        ))
    })?;
    if let Some(why) = unencoded(&amqp) {
        return Err(secret.problem(why));
    }
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
    Ok(Server::RabbitMq {
        amqp_url: SecretUrl::new(&amqp),
        vhost,
    })
}

/// Without a URL of its own the management API is expected on the AMQP host, at its usual port; without
/// a login of its own it gets that of AMQP. The embedded broker has none.
fn management_url() -> Kind<Option<SecretUrl>> {
    let written = |section: Section<'_>, node: &Node| match BrokerKeys::url().read(section, "url")? {
        Server::Embedded => Ok(None),
        Server::RabbitMq { amqp_url, .. } => {
            let secret = section.secret_of(node)?;
            let management = management(secret.expose(), &amqp_url);
            management.map(Some).map_err(|problem| secret.problem(problem))
        }
    };
    let absent = |section: Section<'_>| match BrokerKeys::url().read(section, "url")? {
        Server::Embedded => Ok(None),
        Server::RabbitMq { amqp_url, .. } => {
            let url = Url::parse(amqp_url.expose()).ok();
            let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
            let usual = match url.as_ref().map(Url::scheme) {
                Some("amqps") => format!("https://{host}:15671"),
                _ => format!("http://{host}:15672"),
            };
            let management = management(&usual, &amqp_url);
            management.map(Some).map_err(|problem| section.problem("url", problem))
        }
    };
    let shown = |url: &Option<SecretUrl>| url.as_ref().map(|url| text_value(url.shown()));
    Kind::new(secret().facts.schema, written, shown)
        .or_with(absent)
        .secrecy(Secrecy::Password)
        .variable("REDRIVE_MANAGEMENT_URL")
        .example("\"http://user:password@host:15672\"")
}

fn management(text: &str, amqp_url: &SecretUrl) -> Result<SecretUrl, String> {
    let mut url = Url::parse(text)
        .map_err(|error| format!("cannot be read: {error}; write it as http://host:15672, and {ENCODED}"))?;
    if let Some(why) = unencoded(&url) {
        return Err(why);
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with http:// or https://".to_owned());
    }
    if let Some(amqp) = Url::parse(amqp_url.expose()).ok().filter(|_| url.username().is_empty()) {
        // Both fail only for URLs that cannot have a login, and this one can.
        let _ = url.set_username(amqp.username());
        let _ = url.set_password(amqp.password());
    }
    Ok(SecretUrl::new(&url))
}

/// In its own key or in the URL.
fn vhost() -> Kind<String> {
    let written = |section: Section<'_>, node: &Node| {
        let written = node.text()?;
        match BrokerKeys::url().read(section, "url")?.vhost() {
            _ if written.is_empty() => Err(node.problem("is empty; write it as \"redrive\"")),
            Some(in_url) if written != in_url => Err(node.problem(format!(
                "is {written:?}, and broker.url names vhost {in_url:?}; give it in one place"
            ))),
            Some(_) | None => Ok(written.to_owned()),
        }
    };
    let in_url = |section: Section<'_>| {
        let server = BrokerKeys::url().read(section, "url")?;
        Ok(server.vhost().map_or_else(|| VHOST_DEFAULT.to_owned(), String::clone))
    };
    Kind::new(typed("string"), written, |vhost| Some(text_value(vhost)))
        .or(VHOST_DEFAULT.to_owned())
        .or_with(in_url)
        .bare()
}

fn prefix(prefix: &str) -> Result<String, String> {
    let possible = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if prefix.is_empty() || prefix.starts_with("amq.") || !prefix.bytes().all(possible) {
        let problem = "must be letters, digits, dots, underscores and hyphens, and must not begin with amq.";
        return Err(problem.to_owned());
    }
    Ok(prefix.to_owned())
}
