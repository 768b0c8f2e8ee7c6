//! The start without any configuration: what is asked, and how the answers are tried.

use std::path::Path;
use std::time::Duration;

use crate::ambient::Clock;
use crate::broker::rabbitmq::{Probe, RabbitMq, RabbitSettings};
use crate::broker::{BrokerError, BrokerHealth, Owner};
use crate::cli::{Cli, Exit, Failure};
use crate::config::{BrokerConfig, BrokerKind, Config, Environment, StoreConfig};
use crate::console;
use crate::console::first_run::{Chosen, FirstRunSettings, Found, Tester};
use crate::domain::id::StoreId;
use crate::engine::error::chain;
use crate::engine::view::Check;
use crate::store::sqlite::SqliteStore;
use crate::store::{StoreError, postgres};

/// How long each part may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Variables that configure without a file.
const VARIABLES: [&str; 4] = [
    "REDRIVE_CONFIG",
    "REDRIVE_STORE_URL",
    "REDRIVE_BROKER_URL",
    "REDRIVE_MANAGEMENT_URL",
];

/// Whether nobody said anything about a configuration.
pub(super) fn is_first(cli: &Cli, config: &Config, environment: &Environment) -> bool {
    let choice = cli.config_choice();
    let said = choice.file.is_some() || VARIABLES.iter().any(|name| environment.variable(name).is_some());
    config.file.is_none() && !said
}

/// Asks; `None`: the operator leaves.
pub(super) async fn ask(config: Config, environment: Environment) -> Result<Option<Config>, Failure> {
    let embedded = match &config.store {
        StoreConfig::Sqlite { path, .. } => Some((path.clone(), path.exists())),
        StoreConfig::Postgres { .. } => None,
    };
    let home = environment.config_home.as_ref();
    let settings = FirstRunSettings {
        path: home.map(|home| home.join("redrive").join("config.toml")),
        embedded,
        environment,
        new_key: crate::files::new_secret()
            .map_err(|error| Failure::of(Exit::Failed, &error))?
            .into(),
    };
    let asked = console::ask_first(settings, Tester::new(|config| async move { tried(&config).await })).await;
    Ok(match super::console::ended(asked, None)? {
        Chosen::Leave => None,
        Chosen::Use(config) => Some(*config),
    })
}

/// Every part of it, as `doctor` would see it; nothing stays.
async fn tried(config: &Config) -> Found {
    // One provider in the process; whoever was first is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (store, identity) = store(config).await;
    let (mut is_fresh, mut is_of_another) = (false, false);
    let mut checks = match &config.broker.kind {
        BrokerKind::Embedded => Vec::new(),
        BrokerKind::RabbitMq {
            amqp_url,
            management_url,
        } => {
            let naming = config.broker.naming.clone();
            let mut settings = RabbitSettings::new(amqp_url.expose(), Some(management_url.expose()), naming);
            settings.tls = super::compose::client_tls(config);
            match RabbitMq::probe(settings, Clock::system(), identity.as_ref()).await {
                Ok(probe) => {
                    is_fresh = has_nothing_of_us(&probe);
                    is_of_another = matches!(probe.owner, Some(Owner::Other(_)));
                    broker(&probe, amqp_url.shown(), &config.broker)
                }
                Err(error) => vec![Check::broken("broker", error.to_string(), "check the address")],
            }
        }
    };
    checks.push(store);
    Found {
        checks,
        is_fresh,
        is_of_another,
    }
}

/// Whether no queue there has a name yet that a key made; a vhost that is missing has none.
fn has_nothing_of_us(probe: &Probe) -> bool {
    match &probe.entered {
        Ok(()) => !probe.prepared && !matches!(probe.owner, Some(Owner::Other(_))),
        Err(error) => matches!(error, BrokerError::Vhost { .. }),
    }
}

fn broker(probe: &Probe, url: &str, config: &BrokerConfig) -> Vec<Check> {
    let vhost = &config.naming.vhost;
    let unsaid = if config.vhost_is_default {
        ", as the URL names none"
    } else {
        ""
    };
    let health = &probe.health;
    let version = health.version.as_deref().unwrap_or("RabbitMQ");
    let mut checks = vec![match &probe.entered {
        Ok(()) => Check::fine("broker", format!("{version} at {url}, vhost {vhost}{unsaid}")),
        Err(error) => refused(error, health, unsaid),
    }];
    match &probe.rights {
        Some(Ok(())) => checks.push(Check::fine(
            "rights",
            "a queue could be made, bound, written, read and removed".to_owned(),
        )),
        Some(Err(error)) => checks.push(Check::broken(
            "rights",
            error.to_string(),
            "grant them, then try again; l only looks, which needs the right to read alone",
        )),
        None => {}
    }
    checks.extend(management(probe));
    if let Some(alarm) = &health.blocked {
        checks.push(Check::warning(
            "alarm",
            alarm.clone(),
            "free memory or disk on the broker: it takes no publishes",
        ));
    }
    if let Some(Owner::Other(other)) = &probe.owner {
        let other = other
            .as_ref()
            .map_or_else(|| "another store".to_owned(), |other| format!("the store {other}"));
        checks.push(Check::broken(
            "redrive",
            format!("daemons of {other} deliver what is on this vhost"),
            "enter the address of their store, or name another vhost behind the host: amqp://HOST/VHOST",
        ));
    } else if probe.entered.is_ok() {
        checks.push(Check::fine(
            "redrive",
            if probe.prepared {
                "it ran here before, with the same prefix and key".to_owned()
            } else {
                "nothing of it is there yet: the first start makes its exchange and queues".to_owned()
            },
        ));
    }
    checks
}

/// A vhost that is missing is made at the first start, where the management API lets us.
fn refused(error: &BrokerError, health: &BrokerHealth, unsaid: &str) -> Check {
    let text = error.to_string();
    if let BrokerError::Vhost { vhost, .. } = error
        && health.management
    {
        return Check::warning(
            "broker",
            format!("vhost {vhost:?} does not exist{unsaid}"),
            "the console offers to make it (V), and the first daemon makes it; or name another one behind the host: \
             amqp://HOST/VHOST",
        );
    }
    let mend = match error {
        BrokerError::Login { .. } => "check user and password",
        BrokerError::Unreachable { .. } => "check host and port, and that the broker runs",
        BrokerError::Vhost { .. } => "name another vhost behind the host: amqp://HOST/VHOST",
        BrokerError::Unknown { .. }
        | BrokerError::Blocked { .. }
        | BrokerError::Limit { .. }
        | BrokerError::Rights { .. }
        | BrokerError::Management { .. }
        | BrokerError::OtherArguments { .. }
        | BrokerError::NoExchange { .. }
        | BrokerError::Undecodable { .. }
        | BrokerError::Failed { .. } => "fix that, then try again",
    };
    Check::broken("broker", text, mend)
}

/// Nothing where it says of the same login what the broker said.
fn management(probe: &Probe) -> Option<Check> {
    let health = &probe.health;
    let told = probe.entered.as_ref().err().map(BrokerError::found);
    match &health.management_problem {
        None if health.management => Some(Check::fine("management", "answers".to_owned())),
        Some(problem) if told.as_ref() == Some(problem) => None,
        // Its plugin is not what is wrong there.
        _ if matches!(probe.entered, Err(BrokerError::Unreachable { .. })) => Some(Check::warning(
            "management",
            "does not answer either".to_owned(),
            "check the host first",
        )),
        problem => Some(Check::warning(
            "management",
            problem.clone().unwrap_or_else(|| "does not answer".to_owned()),
            &format!(
                "{}: without it depths and policies are not known",
                health
                    .management_mend
                    .as_deref()
                    .unwrap_or("enable rabbitmq_management, or correct its address")
            ),
        )),
    }
}

/// The check, and what the broker knows the store by.
async fn store(config: &Config) -> (Check, Option<StoreId>) {
    match &config.store {
        StoreConfig::Sqlite { path, .. } => (sqlite(path), SqliteStore::identity_at(path).await),
        StoreConfig::Postgres { url } => {
            let found = postgres::probe(url.expose(), PATIENCE).await;
            let identity = found.as_ref().ok().and_then(|found| found.identity.clone());
            (database(found), identity)
        }
    }
}

fn database(found: Result<postgres::Probe, StoreError>) -> Check {
    match found {
        Ok(found) if found.prepared => Check::fine(
            "store",
            format!("PostgreSQL {}; redrive ran there before", found.version),
        ),
        Ok(found) if found.may_create => Check::fine(
            "store",
            format!("PostgreSQL {}; the first start makes its schema", found.version),
        ),
        Ok(found) => Check::broken(
            "store",
            format!("PostgreSQL {}: this user cannot make a schema", found.version),
            "GRANT CREATE ON DATABASE … TO this user, or name another one",
        ),
        Err(error) => Check::broken("store", chain(&error), "check the address, and that the database runs"),
    }
}

/// Nothing is created to find out.
fn sqlite(path: &Path) -> Check {
    let shown = path.display();
    if path.exists() {
        return Check::fine("store", format!("the file {shown} of an earlier start"));
    }
    let there = path.ancestors().skip(1).find(|ancestor| ancestor.exists());
    let writable = there.is_some_and(|directory| {
        rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_ok() && directory.is_dir()
    });
    if writable {
        Check::fine("store", format!("the file {shown}, which the first start makes"))
    } else {
        Check::broken(
            "store",
            format!("{shown} cannot be made"),
            "name another file, as sqlite:PATH",
        )
    }
}
