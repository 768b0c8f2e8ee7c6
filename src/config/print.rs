//! The resolved configuration as TOML, for people: everything that was left out is there, secrets are not.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use crate::domain::mask::MaskRule;
use crate::domain::policy::{PolicyOwner, RetryPolicy};
use crate::domain::retention::Retention;
use crate::domain::value::Value;

use super::secret::HIDDEN;
use super::{
    AlertConfig, AlertWayConfig, ApiConfig, BrokerConfig, BrokerKind, Config, ConsumerConfig, DeliveryConfig,
    EndpointConfig, EventsConfig, HandlerAction, HandlerConfig, ProfileConfig, StoreConfig,
};

pub(super) fn print(config: &Config) -> String {
    let mut page = Page::default();
    profile(&mut page, &config.profile);
    store(&mut page, &config.store);
    retention(&mut page, &config.retention);
    broker(&mut page, &config.broker);
    delivery(&mut page, &config.delivery);
    config.endpoints.iter().for_each(|it| endpoint(&mut page, it));
    api(&mut page, &config.api);
    events(&mut page, &config.events);
    config.consumers.iter().for_each(|it| consumer(&mut page, it));
    config.handlers.iter().for_each(|it| handler(&mut page, it));
    config.alerts.iter().for_each(|it| alert(&mut page, it));
    page.begin("[dead]");
    page.texts("queues", config.dead.queues.iter().cloned());
    page.begin("[janitor]");
    page.seconds("discard_keep_s", config.janitor.discard_keep);
    page.seconds("job_queue_ttl_s", config.janitor.job_queue_ttl);
    page.text("leftover_pattern", config.janitor.leftover_pattern.as_str());
    page.plain("save_before_expiry", config.janitor.save_before_expiry);
    page.begin("[metrics]");
    if let Some((host, port)) = &config.metrics.statsd {
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.clone()
        };
        page.text("statsd", &format!("{host}:{port}"));
    }
    let dialect = if config.metrics.has_labels {
        "dogstatsd"
    } else {
        "statsd"
    };
    page.text("statsd_dialect", dialect);
    page.begin("[telemetry]");
    page.optional_text("otlp", config.telemetry.otlp.as_deref());
    if !config.telemetry.headers.is_empty() {
        headers(&mut page, &config.telemetry.headers);
    }
    page.begin("[console]");
    page.optional_text("theme", config.console.theme.as_deref());
    let table = |texts: &std::collections::BTreeMap<String, String>| {
        let texts = texts
            .iter()
            .map(|(name, text)| (name.clone(), Toml::Text(text.clone())));
        Toml::Table(texts.collect())
    };
    page.plain("keys", table(&config.console.keys));
    page.plain("views", table(&config.console.views));
    page.optional_text("start", config.console.start.as_deref());
    page.plain("mouse", config.console.mouse);
    page.seconds("refresh_s", config.console.refresh);
    let written = |rules: &[MaskRule]| rules.iter().map(|rule| rule.as_str().to_owned()).collect::<Vec<_>>();
    page.texts("mask", written(config.console.mask.hidden()).into_iter());
    page.texts("unmask", written(config.console.mask.shown()).into_iter());
    page.0
}

/// As comments: what a profile is made of is in the sections already.
fn profile(page: &mut Page, profile: &ProfileConfig) {
    let Some(name) = &profile.name else { return };
    let _ = writeln!(page.0, "# profile = {}", Toml::Text(name.clone()));
    for (key, value) in [("label", &profile.label), ("colour", &profile.colour)] {
        if let Some(value) = value {
            let _ = writeln!(page.0, "# {key} = {}", Toml::Text(value.clone()));
        }
    }
    let _ = writeln!(page.0, "# protected = {}", profile.protected);
    let _ = writeln!(page.0, "# read_only = {}", profile.read_only);
    if let Some(daemon) = &profile.daemon {
        let _ = writeln!(page.0, "# daemon = {}", Toml::Text(daemon.url.clone()));
        if daemon.token.is_some() {
            let _ = writeln!(page.0, "# token = {}", Toml::Text(HIDDEN.to_owned()));
        }
    }
}

fn store(page: &mut Page, store: &StoreConfig) {
    page.begin("[store]");
    match store {
        StoreConfig::Sqlite { path, .. } => page.text("url", &format!("sqlite:{}", path.display())),
        StoreConfig::Postgres { url } => page.text("url", url.shown()),
    }
}

fn retention(page: &mut Page, retention: &Retention) {
    let spans = [
        ("attempts_s", retention.attempts),
        ("audit_s", retention.audit),
        ("runs_s", retention.runs),
        ("endpoints_s", retention.endpoints),
        ("rescued_s", retention.rescued),
        ("types_s", retention.types),
    ];
    let written = spans.map(|(key, span)| (key.to_owned(), Toml::Plain(span.as_secs_f64().to_string())));
    page.plain("retention", Toml::Table(written.into()));
}

fn broker(page: &mut Page, broker: &BrokerConfig) {
    page.begin("[broker]");
    match &broker.kind {
        BrokerKind::Embedded => page.text("url", "embedded:"),
        BrokerKind::RabbitMq {
            amqp_url,
            management_url,
        } => {
            page.text("url", amqp_url.shown());
            page.text("management_url", management_url.shown());
        }
    }
    page.text("vhost", &broker.naming.vhost);
    page.text("queue_type", broker.naming.queue_type.as_str());
    page.text("queue_prefix", &broker.naming.prefix);
    if !broker.url_hash_key_is_default {
        page.text("url_hash_key", HIDDEN);
    }
    page.plain("provision", broker.provision);
    if let Some(tls) = &broker.tls {
        let files = [
            ("certificate", Some(&tls.certificate)),
            ("key", Some(&tls.key)),
            ("authority", tls.authority.as_ref()),
        ];
        page.plain("tls", self::files(files));
    }
}

/// Where files are, by the names of their keys.
fn files<'a>(files: impl IntoIterator<Item = (&'a str, Option<&'a PathBuf>)>) -> Toml {
    let file =
        |(name, path): (&str, Option<&PathBuf>)| Some((name.to_owned(), Toml::Text(path?.display().to_string())));
    Toml::Table(files.into_iter().filter_map(file).collect())
}

fn delivery(page: &mut Page, delivery: &DeliveryConfig) {
    page.begin("[delivery]");
    page.plain("workers", delivery.workers);
    page.plain("slow_requests", delivery.slow_requests);
    page.plain("prefetch", delivery.prefetch);
    page.plain("memory_mib", delivery.memory_mib);
    page.seconds("timeout_s", delivery.timeout);
    page.seconds("linger_s", delivery.linger);
    page.plain("in_flight_per_endpoint", delivery.in_flight_per_endpoint);
    page.seconds("idle_queue_ttl_s", delivery.idle_queue_ttl);
    page.texts(
        "allow_networks",
        delivery.allow_networks.iter().map(ToString::to_string),
    );
    page.plain("response_snippet_bytes", delivery.response_snippet_bytes);
    page.plain("retry_after_cap_s", delivery.retry_after_cap_s);
    page.seconds("take_over_s", delivery.take_over);
    page.seconds("drain_s", delivery.drain);
    page.plain("retry_policy", policy(&delivery.retry_policy));
}

fn policy(policy: &RetryPolicy) -> Toml {
    toml(&policy.to_value(PolicyOwner::Default))
}

fn endpoint(page: &mut Page, endpoint: &EndpointConfig) {
    page.begin("[[endpoint]]");
    page.text("url", &endpoint.url.redacted());
    page.texts("secret", endpoint.secrets.iter().map(|_| HIDDEN.to_owned()));
    headers(page, &endpoint.headers);
    if let Some(rate) = endpoint.max_receives_per_second {
        page.plain("max_receives_per_second", rate);
    }
}

fn headers(page: &mut Page, headers: &[(String, SecretString)]) {
    let hidden = headers
        .iter()
        .map(|(name, _)| (name.clone(), Toml::Text(HIDDEN.to_owned())));
    page.plain("headers", Toml::Table(hidden.collect()));
}

fn api(page: &mut Page, api: &ApiConfig) {
    page.begin("[api]");
    page.text("listen", &api.listen.to_string());
    page.optional_text("unix", api.unix.as_ref().and_then(|path| path.to_str()));
    if let Some(tls) = &api.tls {
        let files = [("certificate", Some(&tls.certificate)), ("key", Some(&tls.key))];
        page.plain("tls", self::files(files));
    }
    let tokens = api.tokens.iter().map(|token| {
        let scopes = token
            .scopes
            .given()
            .iter()
            .map(|scope| Toml::Text(scope.as_str().to_owned()));
        let mut keys = vec![
            ("value".to_owned(), Toml::Text(HIDDEN.to_owned())),
            ("scopes".to_owned(), Toml::List(scopes.collect())),
        ];
        keys.extend(
            token
                .name
                .iter()
                .map(|name| ("name".to_owned(), Toml::Text(name.clone()))),
        );
        keys.extend(
            token
                .prefix
                .iter()
                .map(|prefix| ("prefix".to_owned(), Toml::Text(prefix.as_str().to_owned()))),
        );
        let quota = [
            ("publishes_per_second", token.quota.publishes_per_second.map(u64::from)),
            ("queues", token.quota.queues.map(u64::from)),
            ("bytes_waiting", token.quota.bytes_waiting),
        ];
        keys.extend(
            quota
                .into_iter()
                .filter_map(|(key, most)| Some((key.to_owned(), Toml::Plain(most?.to_string())))),
        );
        Toml::Table(keys)
    });
    page.plain("tokens", Toml::List(tokens.collect()));
    page.texts("hosts", api.hosts.iter().cloned());
    page.plain("connections_per_address", api.connections_per_address);
    page.texts("trusted_proxies", api.trusted_proxies.iter().map(ToString::to_string));
    page.optional_text("probe", api.probe.map(|probe| probe.to_string()).as_deref());
    page.plain("probe_metrics", api.probe_metrics);
}

fn events(page: &mut Page, events: &EventsConfig) {
    page.begin("[events]");
    page.plain("cutoff", events.cutoff);
    page.seconds("backoff_base_s", events.backoff_base);
    page.seconds("backoff_cap_s", events.backoff_cap);
    page.seconds("lease_s", events.lease);
    page.plain("workers", events.workers);
}

fn consumer(page: &mut Page, consumer: &ConsumerConfig) {
    page.begin("[[consumer]]");
    page.text("name", &consumer.name);
    page.text("vhost", &consumer.vhost);
    page.text("queue", &consumer.queue);
    page.optional_text("exchange", consumer.exchange.as_deref());
    page.texts("bindings", consumer.bindings.iter().cloned());
    page.text("type", consumer.event_type.as_str());
    let types = consumer.types.iter().map(|(key, event_type)| {
        Toml::Table(vec![
            ("key".to_owned(), Toml::Text(key.clone())),
            ("type".to_owned(), Toml::Text(event_type.as_str().to_owned())),
        ])
    });
    page.plain("types", Toml::List(types.collect()));
    page.text("reference", &consumer.reference);
    page.optional_text("nbf", consumer.nbf.as_deref());
    page.optional_text("payload", consumer.payload.as_deref());
}

fn handler(page: &mut Page, handler: &HandlerConfig) {
    page.begin("[[handler]]");
    page.text("type", handler.event_type.as_str());
    match &handler.action {
        HandlerAction::Command { command, directory } => {
            page.texts("command", command.iter().cloned());
            page.optional_text("directory", directory.as_ref().and_then(|path| path.to_str()));
        }
        HandlerAction::Webhook => page.plain("webhook", true),
    }
}

fn alert(page: &mut Page, alert: &AlertConfig) {
    page.begin("[[alert]]");
    page.text("name", &alert.name);
    match &alert.way {
        AlertWayConfig::Command { command, directory } => {
            page.texts("command", command.iter().cloned());
            page.optional_text("directory", directory.as_ref().and_then(|path| path.to_str()));
        }
        AlertWayConfig::Url { url, secrets } => {
            page.text("url", &url.redacted());
            page.texts("secret", secrets.iter().map(|_| HIDDEN.to_owned()));
        }
        AlertWayConfig::Chat { chat, .. } => page.text(chat, HIDDEN),
    }
    page.texts("on", alert.on.iter().map(|kind| kind.as_str().to_owned()));
    page.seconds("every_s", alert.every);
}

/// The text so far.
#[derive(Default)]
struct Page(String);

impl Page {
    fn begin(&mut self, header: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(header);
        self.0.push('\n');
    }

    fn plain(&mut self, key: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{key} = {value}");
    }

    fn text(&mut self, key: &str, value: &str) {
        self.plain(key, Toml::Text(value.to_owned()));
    }

    fn optional_text(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }

    fn texts(&mut self, key: &str, values: impl Iterator<Item = String>) {
        self.plain(key, Toml::List(values.map(Toml::Text).collect()));
    }

    fn seconds(&mut self, key: &str, span: Duration) {
        self.plain(key, span.as_secs_f64());
    }
}

/// A value on one line.
enum Toml {
    Text(String),
    Plain(String),
    List(Vec<Toml>),
    Table(Vec<(String, Toml)>),
}

impl std::fmt::Display for Toml {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let joined = |parts: Vec<String>| parts.join(", ");
        match self {
            Self::Text(text) => formatter.write_str(&quoted(text)),
            Self::Plain(text) => formatter.write_str(text),
            Self::List(items) => write!(
                formatter,
                "[{}]",
                joined(items.iter().map(ToString::to_string).collect())
            ),
            Self::Table(entries) if entries.is_empty() => formatter.write_str("{}"),
            Self::Table(entries) => {
                let entry = |(key, value): &(String, Self)| format!("{} = {value}", key_text(key));
                write!(formatter, "{{ {} }}", joined(entries.iter().map(entry).collect()))
            }
        }
    }
}

fn toml(value: &Value) -> Toml {
    match value {
        Value::Null => Toml::Text(String::new()),
        Value::Bool(flag) => Toml::Plain(flag.to_string()),
        Value::Integer(integer) => Toml::Plain(integer.to_string()),
        Value::Number(number) => Toml::Plain(format!("{number:?}")),
        Value::Text(text) => Toml::Text(text.clone()),
        Value::List(items) => Toml::List(items.iter().map(toml).collect()),
        Value::Table(entries) => Toml::Table(entries.iter().map(|(key, value)| (key.clone(), toml(value))).collect()),
    }
}

fn key_text(key: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if !key.is_empty() && key.bytes().all(bare) {
        return key.to_owned();
    }
    quoted(key)
}

/// A text as TOML writes it.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            other if other.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(other));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
