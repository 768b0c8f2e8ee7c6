//! Configuration → store, broker, sender → engine.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::ambient::Clock;
use crate::api::{ApiSettings, ApiToken, Opening};
use crate::broker::embedded::Embedded;
use crate::broker::rabbitmq::{ClientTls, RabbitMq, RabbitSettings};
use crate::broker::{BrokerError, BrokerHandle};
use crate::budget::Budget;
use crate::cli::{Exit, Failure};
use crate::config::{self, AlertConfig, AlertWayConfig, BrokerKind, Config, SecretUrl, StoreConfig};
use crate::delivery::{EndpointSettings, HttpSender, SenderHandle, SenderSettings};
use crate::domain::egress::AddressRules;
use crate::domain::event::{Backoff, HandlingRules};
use crate::domain::naming::Naming;
use crate::domain::schema::SchemaMode;
use crate::domain::scope::{Scope, Scopes};
use crate::engine::alerts::{AlertSettings, AlertWay, Chat};
use crate::engine::events::{EventSettings, HandlerAction, HandlerSettings, IntakeSettings};
use crate::engine::view::Check;
use crate::engine::{Engine, EngineError, EngineSettings, doctor};
use crate::files;
use crate::sqlite::{SqliteError, SqliteFile};
use crate::store::StoreHandle;
use crate::store::postgres::PostgresStore;
use crate::store::sqlite::SqliteStore;

/// Why there is no engine.
pub(super) struct OpenError {
    /// What to tell.
    pub(super) failure: Failure,
    /// Whether it can mend itself.
    pub(super) waiting_helps: bool,
    /// What could not be opened.
    pub(super) opening: Opening,
}

impl From<EngineError> for OpenError {
    fn from(error: EngineError) -> Self {
        Self {
            waiting_helps: error.is_unreachable(),
            opening: if matches!(error, EngineError::Broker(_)) {
                Opening::Broker
            } else {
                Opening::Store
            },
            failure: error.into(),
        }
    }
}

impl From<SqliteError> for OpenError {
    fn from(error: SqliteError) -> Self {
        let unusable = matches!(error, SqliteError::Unusable { .. } | SqliteError::Schema(_));
        let takes_no_writes = error.takes_no_writes().is_some();
        let exit = if unusable {
            Exit::Configuration
        } else if takes_no_writes {
            Exit::Failed
        } else {
            Exit::Unreachable
        };
        Self {
            waiting_helps: takes_no_writes || matches!(error, SqliteError::Busy),
            opening: Opening::Store,
            failure: Failure::of(exit, &error),
        }
    }
}

/// Opens store and broker; the store's schema is as `schema` says. `api` is where this process listens, if it does: it is never delivered to.
pub(super) async fn engine(
    config: &Config,
    schema: SchemaMode,
    api: Option<SocketAddr>,
    memory: Budget,
) -> Result<Engine, OpenError> {
    // One provider in the process; whoever was first is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let clock = Clock::system();
    let sender = sender(config, api, clock.clone())?;
    let (store, broker) = seams(config, schema, &clock).await?;
    Ok(Engine::new(store, broker, sender, settings(config, memory), clock))
}

async fn seams(config: &Config, schema: SchemaMode, clock: &Clock) -> Result<(StoreHandle, BrokerHandle), OpenError> {
    let naming = || config.broker.naming.clone();
    let (file, store): (_, StoreHandle) = match &config.store {
        StoreConfig::Sqlite { path, .. } => {
            let file = sqlite(path, schema).await?;
            let store = SqliteStore::open_with(file.clone(), clock.clone(), schema)
                .await
                .map_err(EngineError::from)?;
            (Some(file), Arc::new(store.owning_its_file()))
        }
        StoreConfig::Postgres { url } => {
            let store = PostgresStore::connect_to(url.expose(), patience(config.delivery.take_over), schema).await;
            (None, Arc::new(store.map_err(EngineError::from)?))
        }
    };
    let broker = match (&config.broker.kind, file) {
        (BrokerKind::Embedded, Some(file)) => {
            if schema == SchemaMode::Expect {
                Embedded::expect(&file).await?;
            }
            embedded(file, naming(), clock).await
        }
        (BrokerKind::Embedded, None) => {
            return Err(OpenError {
                failure: Failure::new(Exit::Configuration, "the embedded broker needs a sqlite: store.url"),
                waiting_helps: false,
                opening: Opening::Store,
            });
        }
        (
            BrokerKind::RabbitMq {
                amqp_url,
                management_url,
            },
            _,
        ) => rabbit(config, (amqp_url, management_url), clock),
    };
    Ok((store, broker.map_err(EngineError::from)?))
}

fn rabbit(
    config: &Config,
    (amqp, management): (&SecretUrl, &SecretUrl),
    clock: &Clock,
) -> Result<BrokerHandle, BrokerError> {
    let naming = config.broker.naming.clone();
    let mut settings = RabbitSettings::new(amqp.expose(), Some(management.expose()), naming);
    settings.provision = config.broker.provision;
    settings.tls = client_tls(config);
    RabbitMq::connect(settings, clock.clone())
}

/// What the doctor finds on a broker of its own, where there is no store to look further with.
pub(super) async fn broker_checks(config: &Config) -> Vec<Check> {
    let BrokerKind::RabbitMq {
        amqp_url,
        management_url,
    } = &config.broker.kind
    else {
        return Vec::new();
    };
    // One provider in the process; whoever was first is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match rabbit(config, (amqp_url, management_url), &Clock::system()) {
        Ok(broker) => {
            let checks = doctor::broker_checks(&*broker).await;
            broker.close().await;
            checks
        }
        Err(error) => vec![Check::broken("broker", error.to_string(), "check broker.url")],
    }
}

/// Whoever does not bring the tables makes no file either.
pub(super) async fn sqlite(path: &Path, schema: SchemaMode) -> Result<SqliteFile, SqliteError> {
    match schema {
        SchemaMode::Bring => SqliteFile::open(path).await,
        SchemaMode::Expect => SqliteFile::open_existing(path).await,
    }
}

/// What is proven to the broker beside the login.
pub(super) fn client_tls(config: &Config) -> Option<ClientTls> {
    config.broker.tls.as_ref().map(|tls| ClientTls {
        certificate: tls.certificate.clone(),
        key: tls.key.clone(),
        authority: tls.authority.clone(),
    })
}

/// How long a call of a database may take: a daemon whose network is split has given it up long before others
/// take over, and a busy server is not taken for one that is away.
pub(super) fn patience(take_over: Duration) -> Duration {
    (take_over / 2).clamp(Duration::from_secs(2), Duration::from_secs(5))
}

/// The embedded pair needs no set-up: whoever comes first prepares it.
async fn embedded(file: SqliteFile, naming: Naming, clock: &Clock) -> Result<BrokerHandle, BrokerError> {
    let broker = Embedded::open(file, naming, clock.clone()).await?;
    broker.prepare().await?;
    Ok(broker)
}

fn sender(config: &Config, api: Option<SocketAddr>, clock: Clock) -> Result<SenderHandle, OpenError> {
    let endpoints = config.endpoints.iter().map(|endpoint| {
        let settings = EndpointSettings {
            secrets: endpoint.secrets.clone(),
            headers: endpoint.headers.clone(),
        };
        (endpoint.url.clone(), settings)
    });
    let settings = SenderSettings {
        timeout: config.delivery.timeout,
        response_snippet_bytes: config.delivery.response_snippet_bytes,
        rules: AddressRules {
            allow: config.delivery.allow_networks.clone(),
            own: own_sockets(config, api),
            own_names: own_names(config),
            ..AddressRules::default()
        },
        endpoints: endpoints.collect(),
    };
    HttpSender::new(settings, clock).map_err(|error| OpenError {
        failure: Failure::of(Exit::Configuration, &error),
        waiting_helps: false,
        opening: Opening::Store,
    })
}

/// The sockets of our own API.
fn own_sockets(config: &Config, api: Option<SocketAddr>) -> Vec<SocketAddr> {
    let listen = api.unwrap_or(config.api.listen);
    config.api.probe.into_iter().chain([listen]).collect()
}

/// The hosts and ports of our own broker and database.
fn own_names(config: &Config) -> Vec<(String, u16)> {
    let mut urls = Vec::new();
    if let StoreConfig::Postgres { url } = &config.store {
        urls.push((url, 5432));
    }
    if let BrokerKind::RabbitMq {
        amqp_url,
        management_url,
    } = &config.broker.kind
    {
        urls.push((amqp_url, 5672));
        urls.push((management_url, 80));
    }
    let mut own = Vec::new();
    for (url, port_default) in urls {
        let Ok(url) = url::Url::parse(url.expose()) else {
            continue;
        };
        let port_default = if url.scheme() == "amqps" { 5671 } else { port_default };
        let port = url.port_or_known_default().unwrap_or(port_default);
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        if !host.is_empty() {
            own.push((host.to_owned(), port));
        }
    }
    own
}

/// What messages and bodies may take; the engine and the API draw on the same.
pub(super) fn memory(config: &Config) -> Budget {
    Budget::new(config.delivery.memory_mib.saturating_mul(1024 * 1024))
}

fn settings(config: &Config, memory: Budget) -> EngineSettings {
    let delivery = &config.delivery;
    let rates = config
        .endpoints
        .iter()
        .filter_map(|endpoint| Some((endpoint.url.clone(), endpoint.max_receives_per_second?)));
    EngineSettings {
        naming: config.broker.naming.clone(),
        workers: delivery.workers,
        slow_requests: delivery.slow_requests,
        job_queue_ttl: config.janitor.job_queue_ttl,
        dead_queues: config.dead.queues.clone(),
        leftover_pattern: config.janitor.leftover_pattern.clone(),
        save_before_expiry: config.janitor.save_before_expiry,
        prefetch: delivery.prefetch,
        memory,
        request_timeout: delivery.timeout,
        linger: delivery.linger,
        in_flight_per_endpoint: delivery.in_flight_per_endpoint,
        idle_queue_ttl: delivery.idle_queue_ttl,
        retry_after_cap: Duration::from_secs(delivery.retry_after_cap_s),
        default_policy: delivery.retry_policy.clone(),
        take_over: delivery.take_over,
        drain: delivery.drain,
        export_time: crate::engine::dead::EXPORT_TIME,
        discard_keep: config.janitor.discard_keep,
        retention: config.retention,
        rates: rates.collect(),
        events: events(config),
        masks: Arc::new(config.console.mask.clone()),
        alerts: config.alerts.iter().filter_map(|one| alert(one, config)).collect(),
        certificates: config.certificates(),
    }
}

fn alert(alert: &AlertConfig, config: &Config) -> Option<AlertSettings> {
    let way = match &alert.way {
        AlertWayConfig::Command { command, directory } => AlertWay::Command {
            command: command.clone(),
            directory: directory.clone(),
        },
        AlertWayConfig::Url { url, secrets } => AlertWay::Url {
            url: url.clone(),
            secrets: secrets.clone(),
        },
        AlertWayConfig::Chat { chat, url } => AlertWay::Chat {
            chat: [Chat::Slack, Chat::Teams, Chat::Discord]
                .into_iter()
                .find(|one| one.as_str() == *chat)?,
            url: url.clone(),
        },
    };
    Some(AlertSettings {
        name: alert.name.clone(),
        way,
        on: alert.on.clone(),
        every: alert.every,
        profile: config.profile.name.clone(),
    })
}

fn events(config: &Config) -> EventSettings {
    let handler = |handler: &config::HandlerConfig| HandlerSettings {
        event_type: handler.event_type.clone(),
        action: match &handler.action {
            config::HandlerAction::Command { command, directory } => HandlerAction::Command {
                command: command.clone(),
                directory: directory.clone(),
            },
            config::HandlerAction::Webhook => HandlerAction::Webhook,
        },
    };
    let routed = |routed: &config::RoutedType| (routed.key.clone(), routed.event_type.clone());
    let consumer = |consumer: &config::ConsumerConfig| IntakeSettings {
        name: consumer.name.clone(),
        vhost: consumer.vhost.clone(),
        queue: consumer.queue.clone(),
        exchange: consumer.exchange.clone(),
        bindings: consumer.bindings.clone(),
        event_type: consumer.event_type.clone(),
        types: consumer.types.iter().map(routed).collect(),
        reference: consumer.reference.clone(),
        nbf: consumer.nbf.clone(),
        payload: consumer.payload.clone(),
    };
    EventSettings {
        rules: HandlingRules {
            cutoff: config.events.cutoff,
            backoff: Backoff {
                base: config.events.backoff_base,
                cap: config.events.backoff_cap,
            },
        },
        lease: config.events.lease,
        workers: config.events.workers,
        ahead: crate::engine::events::AHEAD,
        handlers: config.handlers.iter().map(handler).collect(),
        consumers: config.consumers.iter().map(consumer).collect(),
    }
}

/// The API's own part of the configuration; `bound` is where it listens really. A token is made where there is none.
pub(super) fn api_settings(config: &Config, bound: SocketAddr, memory: Budget) -> Result<ApiSettings, Failure> {
    use secrecy::ExposeSecret as _;
    let api = &config.api;
    let token = |(index, token): (usize, &crate::config::ApiToken)| {
        let name = token.name.clone().unwrap_or_else(|| format!("token-{}", index + 1));
        ApiToken::new(
            &name,
            token.value.expose_secret(),
            token.scopes.clone(),
            token.prefix.clone(),
        )
        .with(token.quota())
    };
    let mut tokens: Vec<ApiToken> = api.tokens.iter().enumerate().map(token).collect();
    if tokens.is_empty() {
        tokens.push(made_token(api, bound)?);
    }
    Ok(ApiSettings {
        listen: bound,
        hosts: api.hosts.clone(),
        tokens,
        connections_per_address: api.connections_per_address,
        trusted_proxies: api.trusted_proxies.clone(),
        probe_metrics: api.probe_metrics,
        memory,
        masks: config.console.mask.clone(),
    })
}

/// No other user of this machine is ever the operator. Beside the token is kept where it may be sent: here.
fn made_token(api: &crate::config::ApiConfig, bound: SocketAddr) -> Result<ApiToken, Failure> {
    let wrong = |why: String| Failure::new(Exit::Configuration, why);
    let path = api.made_token.as_ref();
    let path = path.ok_or_else(|| wrong("api.tokens is not set, and there is no home directory for a token".into()))?;
    let secret = files::made_secret(path).map_err(|error| {
        let path = path.display();
        wrong(format!(
            "{path}, the token of this user, cannot be used: {error}; fix that, or set api.tokens"
        ))
    })?;
    let beside = crate::config::ApiConfig::listens_beside(path);
    if let Err(error) = files::write_over(&beside, format!("{bound}\n").as_bytes()) {
        tracing::warn!(file = ?beside, error = ?error, "where this daemon listens is not kept beside its token: commands send that to api.listen alone");
    }
    Ok(ApiToken::new("own", &secret, Scopes::new(vec![Scope::Admin]), None))
}
