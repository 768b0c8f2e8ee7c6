//! The configuration: parsed, then resolved. What is resolved is valid, and nothing else reaches the
//! rest of the program.
//!
//! The file is `--config`, else `REDRIVE_CONFIG`, else `redrive/config.toml` in the user's
//! configuration directory, where it may be missing: then everything is embedded in the data
//! directory. A profile is laid over the sections, environment variables over both, and `--broker` over all of it.
//! Nothing is opened, created or connected to here, but the files that secrets are read from, and that of `SSL_CERT_FILE`.

mod alerts;
mod api;
mod delivery;
mod environment;
mod error;
mod events;
mod exposed;
mod keys;
mod kind;
mod memory;
mod operation;
mod print;
mod secret;
mod section;
mod storage;
mod telemetry;
mod template;
#[cfg(test)]
mod tests;
mod tree;

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use alerts::{AlertConfig, AlertWayConfig};
pub use api::{ApiConfig, ApiTls, ApiToken};
pub use delivery::{DeliveryConfig, EndpointConfig};
pub use environment::Environment;
pub use error::{ConfigError, Problem};
pub use events::{ConsumerConfig, EventsConfig, HandlerAction, HandlerConfig, RoutedType};
pub use operation::{
    ConsoleConfig, DaemonConfig, DeadConfig, JanitorConfig, MetricsConfig, NotifyChoice, OtherProfile, ProfileConfig,
};
pub use print::quoted;
pub use secret::SecretUrl;
pub use storage::{BrokerConfig, BrokerKind, StoreConfig};
pub use telemetry::TelemetryConfig;
pub use template::{schema, template, variables};

use crate::certificates::{self, Certificates};
use crate::domain::retention::Retention;
use keys::Keys;
use operation::ProfileKeys;
use print::Page;
use section::Section;
use template::SECTIONS;
use tree::{Node, Written};

const PROFILE: &str = "profile";
/// A daemon that is taken for dead sooner may only be slow for a moment.
const SOON_TAKEN_OVER: Duration = Duration::from_secs(5);
/// A configuration has at most this many bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// What the command line says about the configuration.
#[derive(Clone, Debug, Default)]
pub struct ConfigChoice {
    /// `--config`.
    pub file: Option<PathBuf>,
    /// `--profile`.
    pub profile: Option<String>,
    /// `--broker`: what the file and the variables say of another broker does not hold.
    pub broker: Option<BrokerUrl>,
}

/// A broker's URL as it was typed; it may have a password in it.
#[derive(Clone, PartialEq, Eq)]
pub struct BrokerUrl(pub String);

impl std::fmt::Debug for BrokerUrl {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a broker's URL")
    }
}

/// Everything that can be configured; always valid.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file it came from; none where everything is the default.
    pub file: Option<PathBuf>,
    /// `[store]`.
    pub store: StoreConfig,
    /// `[store] retention`.
    pub retention: Retention,
    /// `[broker]`.
    pub broker: BrokerConfig,
    /// `[delivery]`.
    pub delivery: DeliveryConfig,
    /// `[[endpoint]]`, each URL once.
    pub endpoints: Vec<EndpointConfig>,
    /// `[api]`.
    pub api: ApiConfig,
    /// `[events]`.
    pub events: EventsConfig,
    /// `[[consumer]]`, each name and queue once.
    pub consumers: Vec<ConsumerConfig>,
    /// `[[handler]]`, each type once.
    pub handlers: Vec<HandlerConfig>,
    /// `[[alert]]`, each name once.
    pub alerts: Vec<AlertConfig>,
    /// `[dead]`.
    pub dead: DeadConfig,
    /// `[janitor]`.
    pub janitor: JanitorConfig,
    /// `[metrics]`.
    pub metrics: MetricsConfig,
    /// `[telemetry]`.
    pub telemetry: TelemetryConfig,
    /// `[console]`.
    pub console: ConsoleConfig,
    /// The profile in use.
    pub profile: ProfileConfig,
    /// What others can read of it, and what is not as its surroundings say.
    exposed: Vec<String>,
    printed: String,
}

impl Config {
    /// The certificates that it has this program show of itself.
    #[must_use]
    pub fn certificates(&self) -> Certificates {
        let api = self
            .api
            .tls
            .as_ref()
            .map(|tls| ("api.tls.certificate", &tls.certificate));
        let broker = self.broker.tls.as_ref();
        let broker = broker.map(|tls| ("broker.tls.certificate", &tls.certificate));
        let named = api.into_iter().chain(broker);
        Certificates::new(named.map(|(key, path)| (key, path.clone())).collect())
    }

    /// Finds, reads and resolves the configuration.
    ///
    /// # Errors
    /// The first thing that is wrong, with its field and the mend.
    pub fn load(choice: &ConfigChoice, environment: &Environment) -> Result<Self, ConfigError> {
        let Source { file, text, about } = read(choice, environment)?;
        let mut config = Self::resolve_for(&text, choice, environment).map_err(|problem| ConfigError {
            file: file.clone(),
            problem,
        })?;
        if let (Some(path), Some(about)) = (&file, &about) {
            let warning = Node::parse(&text).and_then(|document| exposed::of_file(path, about, &document));
            let warning = warning.map_err(|problem| ConfigError {
                file: file.clone(),
                problem,
            })?;
            config.exposed.extend(warning);
        }
        config.exposed.extend(untrusted(environment));
        config.file = file;
        Ok(config)
    }

    /// Resolves the text of a configuration.
    ///
    /// # Errors
    /// The first thing that is wrong, with its field and the mend.
    pub fn resolve(text: &str, profile: Option<&str>, environment: &Environment) -> Result<Self, Problem> {
        let choice = ConfigChoice {
            profile: profile.map(str::to_owned),
            ..ConfigChoice::default()
        };
        Self::resolve_for(text, &choice, environment)
    }

    fn resolve_for(text: &str, choice: &ConfigChoice, environment: &Environment) -> Result<Self, Problem> {
        let document = Node::parse(text)?;
        let profile = choice.profile.as_deref();
        let resolve = |profile| resolve_with(&document, profile, choice.broker.as_ref(), environment);
        let mut config = resolve(profile)?;
        for (name, other) in profiles(&document) {
            if Some(name.as_str()) != profile {
                config.profile.others.push(other_profile(name, other));
            }
            // A mistyped key is found before the day on which the profile is needed; what only this
            // profile's surroundings could tell is not asked for.
            if let Err(problem @ Problem::UnknownKey { .. }) = resolve(Some(name)) {
                return Err(problem);
            }
        }
        Ok(config)
    }

    /// The configuration as TOML, with everything that was left out and without secrets.
    #[must_use]
    pub fn print(&self) -> String {
        self.printed.clone()
    }

    /// Which vhost is used, where nobody named one: whoever expects another finds an empty broker.
    #[must_use]
    pub fn vhost_notice(&self) -> Option<String> {
        let is_rabbit = matches!(self.broker.kind, BrokerKind::RabbitMq { .. });
        (is_rabbit && self.broker.vhost_is_default).then(|| {
            format!(
                "broker.url names no vhost: redrive's own, {:?}, is used; for the broker's default one end the URL with /%2F",
                self.broker.naming.vhost
            )
        })
    }

    fn of_broker(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let BrokerKind::RabbitMq {
            amqp_url,
            management_url,
        } = &self.broker.kind
        {
            if self.broker.url_hash_key_is_default {
                warnings.push(
                    "broker.url_hash_key is not set: queue names hide URLs behind a key that everybody knows; \
                     set it before the first queue exists"
                        .to_owned(),
                );
            }
            let plain = [
                ("broker.url", amqp_url, "amqp", "amqps"),
                ("broker.management_url", management_url, "http", "https"),
            ];
            for (key, url, plain, tls) in plain {
                if goes_out(url.expose(), plain) {
                    warnings.push(format!(
                        "{key} sends its password and all messages in the clear to {}: use {tls}://",
                        url.shown()
                    ));
                }
            }
        }
        warnings
    }

    /// What is possible but not advisable, each with the mend.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.of_broker();
        if self.delivery.take_over < SOON_TAKEN_OVER {
            warnings.push(format!(
                "delivery.take_over_s is {}, and a daemon proves each second that it lives: where one proof is late, others take \
                 its queues over; use at least {}",
                self.delivery.take_over.as_secs_f64(),
                SOON_TAKEN_OVER.as_secs()
            ));
        }
        if let StoreConfig::Sqlite { path, .. } = &self.store
            && path.is_relative()
        {
            warnings.push(format!(
                "store.url names {} without its folder: it is another file in each folder that redrive is started in; \
                 name it from the root on",
                path.display()
            ));
        }
        if let StoreConfig::Postgres { url } = &self.store
            && is_unprotected(url.expose())
        {
            warnings.push(format!(
                "store.url sends its password and everything in the store in the clear to {}: use sslmode=verify-full",
                url.shown()
            ));
        }
        if !self.api.listen.ip().is_loopback() && self.api.tls.is_none() {
            warnings.push(format!(
                "api.listen is {}, and tokens and messages come there in the clear: set api.tls, or let a proxy with TLS \
                 on this machine stand before 127.0.0.1",
                self.api.listen
            ));
        }
        if let Some(probe) = self.api.probe.filter(|probe| !probe.ip().is_loopback())
            && self.api.probe_metrics
        {
            warnings.push(format!(
                "api.probe is {probe}, and serves /metrics there to everybody, in the clear: leave api.probe_metrics out, \
                 or let api.probe be an address that only your own network reaches"
            ));
        }
        if let Some(url) = self.telemetry.otlp.as_deref().filter(|url| goes_out(url, "http")) {
            warnings.push(format!(
                "telemetry.otlp sends names of queues and receivers in the clear to {url}: use https://"
            ));
        }
        warnings.extend(self.intakes_of_our_own());
        warnings.extend(self.telemetry.warnings.iter().cloned());
        warnings.extend(self.exposed.iter().cloned());
        warnings
    }
}

impl Config {
    /// A queue of redrive's own, read as an intake, gives away its messages: dead letters would be events.
    fn intakes_of_our_own(&self) -> impl Iterator<Item = String> {
        let naming = &self.broker.naming;
        let ours = |one: &&ConsumerConfig| one.vhost == naming.vhost && one.queue.starts_with(&naming.prefix);
        self.consumers.iter().filter(ours).map(|consumer| {
            format!(
                "the [[consumer]] {:?} reads {:?}, which is named as redrive's own queues are (broker.queue_prefix): what is in \
                 such a queue, like a dead letter, becomes an event and is gone from there; name a queue of another service",
                consumer.name, consumer.queue
            )
        })
    }
}

/// Whether these bytes are a configuration. No file that they name is looked at: where they name one, it is enough that
/// they are TOML.
///
/// # Panics
/// What is printed of it is no TOML.
#[cfg(any(test, feature = "internals"))]
pub(crate) fn is_understood(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let Ok(document) = Node::parse(text) else { return false };
    let _ = document.to_value();
    if exposed::names_files(&document) {
        return true;
    }
    let environment = Environment {
        data_home: Some(PathBuf::from("data")),
        ..Environment::default()
    };
    let Ok(config) = Config::resolve(text, None, &environment) else {
        return false;
    };
    let _ = config.warnings();
    assert!(Node::parse(&config.print()).is_ok(), "what is printed is no TOML");
    true
}

/// Whoever names the authorities trusts no others; where none of them can be read, every certificate is refused.
fn untrusted(environment: &Environment) -> Option<String> {
    let of_file = |path: &str| match std::fs::File::open(path) {
        Err(error) => Some(format!("cannot be read ({error})")),
        Ok(_) => (!certificates::has_some(Path::new(path))).then(|| "has no certificate in it".to_owned()),
    };
    let holds_some = |folder: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| certificates::has_some(&entry.path()))
    };
    // Folders are listed with colons between them.
    let of_folders =
        |paths: &str| (!paths.split(':').any(holds_some)).then(|| "has no file with a certificate in it".to_owned());
    let file = environment
        .variable("SSL_CERT_FILE")
        .map(|path| ("SSL_CERT_FILE", path, of_file(path)));
    let folders = environment.variable("SSL_CERT_DIR").filter(|paths| !paths.is_empty());
    let folders = folders.map(|paths| ("SSL_CERT_DIR", paths, of_folders(paths)));
    // Both are read, and what one of them has is enough.
    let said = file
        .into_iter()
        .chain(folders)
        .map(|(name, path, why)| Some(format!("{name} names {path}, which {}", why?)))
        .collect::<Option<Vec<_>>>()?;
    (!said.is_empty()).then(|| {
        format!(
            "{}: no certificate of a receiver or of the broker is trusted; name what has PEM certificates, or unset it",
            said.join("; ")
        )
    })
}

/// Whether this URL leaves the machine with that scheme.
fn goes_out(url: &str, scheme: &str) -> bool {
    let Ok(url) = url::Url::parse(url) else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    url.scheme() == scheme && !is_this_machine(host)
}

/// Whether this URL of a database leaves the machine, and says that TLS may be left out. Its parameters stand above the rest.
fn is_unprotected(url: &str) -> bool {
    let Ok(url) = url::Url::parse(url) else { return false };
    let last = |names: [&str; 2]| {
        let named = url.query_pairs().filter(|(key, _)| names.contains(&&**key));
        named.last().map(|(_, value)| value.into_owned())
    };
    let host = last(["host", "hostaddr"]).unwrap_or_else(|| url.host_str().unwrap_or_default().to_owned());
    let host = host.trim_matches(['[', ']']);
    let is_socket = host.is_empty() || host.starts_with("%2F") || host.starts_with('/');
    let mode = last(["sslmode", "ssl-mode"]).unwrap_or_default().to_ascii_lowercase();
    matches!(mode.as_str(), "disable" | "allow" | "prefer") && !is_socket && !is_this_machine(host)
}

fn is_this_machine(host: &str) -> bool {
    let is_loopback = |address: std::net::IpAddr| address.is_loopback();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
}

/// The text of a configuration, and the file that it stood in.
#[derive(Default)]
struct Source {
    file: Option<PathBuf>,
    text: String,
    /// Of the file that was open, whatever its name leads to now.
    about: Option<Metadata>,
}

/// A file that was named has to exist; the usual one may be missing.
fn read(choice: &ConfigChoice, environment: &Environment) -> Result<Source, ConfigError> {
    let named = choice
        .file
        .clone()
        .or_else(|| environment.variable("REDRIVE_CONFIG").map(PathBuf::from));
    let usual = || environment.usual_config();
    let is_named = named.is_some();
    let Some(file) = named.or_else(usual) else {
        return Ok(Source::default());
    };
    match read_text(&file) {
        Ok((text, about)) => Ok(Source {
            file: Some(file),
            text,
            about: Some(about),
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_named => Ok(Source::default()),
        Err(error) => Err(ConfigError {
            file: Some(file),
            problem: Problem::Read(error),
        }),
    }
}

fn read_text(file: &Path) -> std::io::Result<(String, Metadata)> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(file)?;
    let about = file.metadata()?;
    let mut bounded = file.take(FILE_BYTES_MAX + 1);
    bounded.read_to_string(&mut text)?;
    if bounded.limit() == 0 {
        let why = format!("it has more than {FILE_BYTES_MAX} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, why));
    }
    Ok((text, about))
}

fn resolve_with(
    document: &Node,
    profile: Option<&str>,
    broker: Option<&BrokerUrl>,
    environment: &Environment,
) -> Result<Config, Problem> {
    let known: Vec<&str> = SECTIONS.iter().map(|section| section.name).collect();
    Section::new(Some(document), "", &known, environment)?;
    let names: Vec<&str> = profiles(document).iter().map(|(name, _)| name.as_str()).collect();
    Section::new(document.get(PROFILE), PROFILE, &names, environment)?;
    let mut merged = document.clone();
    let chosen = profile.map(|name| choose(document, name)).transpose()?;
    if let Some(profile) = chosen {
        let sections = known.iter().filter(|name| **name != PROFILE);
        let keys: Vec<&str> = sections.chain(ProfileKeys::KEYS).copied().collect();
        Section::new(Some(profile), "", &keys, environment)?;
        let url = profile.get("broker").and_then(|broker| broker.get("url"));
        let host = url.map(|url| host_of(url, environment));
        leave_management_of_another_broker(&mut merged, host, environment);
        merged.overlay(profile);
    }
    let exposed = exposed::of_secrets(&merged)?;
    if broker.is_some() {
        // They are of the broker that the file means.
        merged.remove("broker", &["vhost", "management_url"]);
    }
    if let Some(url) = environment.variable("REDRIVE_BROKER_URL") {
        leave_management_of_another_broker(&mut merged, Some(host_in(url)), environment);
    }
    override_from_variables(&mut merged, environment);
    if let Some(BrokerUrl(url)) = broker {
        merged.set_from_variable("broker", "url", "--broker", Written::Text(url.clone()));
    }
    // The profile's own keys are at the root now, beside the sections.
    let keys: Vec<&str> = known.iter().chain(ProfileKeys::KEYS).copied().collect();
    let root = Section::new(Some(&merged), "", &keys, environment)?;
    let config = sections(root, profile)?;
    Ok(Config { exposed, ..config })
}

/// A host in small letters; `None` where a URL has none.
type Host = Option<String>;

/// That of a URL which may stand in a file or a variable. What cannot be read is told of where it is used.
fn host_of(url: &Node, environment: &Environment) -> Host {
    host_in(secret::read(url, environment).ok()?.expose())
}

fn host_in(url: &str) -> Host {
    Some(url::Url::parse(url).ok()?.host_str()?.to_ascii_lowercase())
}

/// The management API that was written beside another broker is not that of this one: its queues are others, by whatever
/// names.
fn leave_management_of_another_broker(below: &mut Node, host: Option<Host>, environment: &Environment) {
    let before = below.get("broker").and_then(|broker| broker.get("url"));
    let (Some(before), Some(host)) = (before, host) else {
        return;
    };
    let before = host_of(before, environment);
    if before.is_none() || before != host {
        below.remove("broker", &["management_url"]);
    }
}

/// In the order in which they are printed.
fn sections(root: Section<'_>, profile: Option<&str>) -> Result<Config, Problem> {
    let page = &mut Page::default();
    let profile = operation::profile(profile, root, page)?;
    let (store, broker) = storage::store_and_broker(root, page)?;
    let mut config = Config {
        file: None,
        store: store.url,
        retention: store.retention,
        delivery: delivery::delivery(root, broker.naming.queue_type, page)?,
        endpoints: delivery::endpoints(root, page)?,
        api: api::api(root, page)?,
        events: events::events(root, page)?,
        consumers: events::consumers(root, &broker.naming.vhost, page)?,
        handlers: events::handlers(root, page)?,
        alerts: alerts::alerts(root, page)?,
        dead: plain(root, "dead", page)?,
        janitor: plain(root, "janitor", page)?,
        metrics: plain(root, "metrics", page)?,
        telemetry: telemetry::telemetry(root, page)?,
        console: operation::console(root, page)?,
        profile,
        exposed: Vec::new(),
        printed: String::new(),
        broker,
    };
    config.printed = std::mem::take(&mut page.0);
    Ok(config)
}

/// A section that is what its keys are.
fn plain<K: Keys>(root: Section<'_>, name: &'static str, page: &mut Page) -> Result<K, Problem> {
    let keys = K::read(root.section::<K>(name)?)?;
    page.table(&format!("[{name}]"), &keys);
    Ok(keys)
}

fn profiles(document: &Node) -> &[(String, Node)] {
    document.get(PROFILE).map_or(&[], Node::entries)
}

/// What is shown of a profile that is not in use; what is wrong in it is found when it is.
fn other_profile(name: &str, profile: &Node) -> OtherProfile {
    let label = match profile.get("label").map(|node| &node.written) {
        Some(Written::Text(label)) => Some(label.clone()),
        Some(_) | None => None,
    };
    let protected = profile
        .get("protected")
        .is_some_and(|node| matches!(node.written, Written::Bool(true)));
    OtherProfile {
        name: name.to_owned(),
        label,
        protected,
    }
}

fn choose<'a>(document: &'a Node, name: &str) -> Result<&'a Node, Problem> {
    let found = profiles(document).iter().find(|(known, _)| known == name);
    found.map(|(_, profile)| profile).ok_or_else(|| Problem::Profile {
        name: name.to_owned(),
        known: profiles(document).iter().map(|(known, _)| known.clone()).collect(),
    })
}

fn override_from_variables(document: &mut Node, environment: &Environment) {
    for (name, section, key) in variables() {
        let Some(value) = environment.variable(name) else {
            continue;
        };
        let text = Written::Text(value.to_owned());
        let written = match key {
            // One of the list.
            "tokens" => Written::List(vec![Node {
                path: name.to_owned(),
                line: None,
                written: text,
            }]),
            _ => text,
        };
        document.set_from_variable(section, key, name, written);
    }
}
