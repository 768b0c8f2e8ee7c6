//! The console on the configured store and broker, or on the demo's.
//!
//! Its screen is all that is written: a log only where `REDRIVE_LOG` asks for one, and then to a file.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::cli::{self, Cli, Exit, Failure, ThemeFound, ThemesAsked};
use crate::config::{self, BrokerKind, Config, Environment, SecretUrl, StoreConfig};
use crate::console::state::Place;
use crate::console::state::at::At;
use crate::console::state::call::Notify;
use crate::console::state::saved::{NAMES_MAX, NamedViews};
use crate::console::state::settings::{OtherProfile, Profiles};
use crate::console::theme::Sources;
use crate::console::{self, Connect, ConnectProblem, ConsoleError, ConsoleSettings, Deliver, Next};
use crate::domain::schema::SchemaMode;
use crate::domain::text;
use crate::engine::{Access, Engine, EngineError, EngineHandle};
use crate::telemetry::LogTarget;

use super::compose::{self, OpenError};

/// A log that is larger is begun anew.
const LOG_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// Columns of a label, and of the names of broker and store.
const LABEL_WIDTH_MAX: usize = 40;
const PLACE_WIDTH_MAX: usize = 120;
/// What `:save` keeps, beside the configuration.
const VIEWS_FILE: &str = "views.toml";
/// Between two looks of the demo's console: things happen fast there.
const DEMO_REFRESH: Duration = Duration::from_secs(1);

/// Shows the console until the operator leaves; answers how to go on, where he chose to.
pub(super) async fn run(
    config: Config,
    schema: SchemaMode,
    settings: ConsoleSettings,
) -> Result<Option<Next>, Failure> {
    let config = Arc::new(config);
    let failed = Arc::new(Mutex::new(None));
    let connect = Connect::new({
        let failed = Arc::clone(&failed);
        move || {
            let opening = open(Arc::clone(&config), schema, Arc::clone(&failed));
            async { opening.await.map(EngineHandle::from) }
        }
    });
    let result = Box::pin(console::run(connect, settings, CancellationToken::new())).await;
    let failed = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    ended(result, failed)
}

/// Whether the configured theme and keys can be used.
pub(super) fn check(config: &Config) -> Result<(), Failure> {
    let (theme, keys) = (config.console.theme.as_deref(), &config.console.keys);
    let checked = console::check(theme, keys, &named_views(config));
    ended(checked, None)
}

/// Themes, as far as they are asked for, and what is wrong with them.
pub(super) fn themes(asked: &ThemesAsked) -> Vec<ThemeFound> {
    let mut sources = Sources::of_user();
    let mut names = match asked {
        ThemesAsked::List => sources.names(),
        ThemesAsked::Check(names) if names.is_empty() => sources.names(),
        ThemesAsked::Check(names) => names.clone(),
    };
    for name in &mut names {
        if let Some(theme) = sources.add_file(Path::new(name.as_str())) {
            *name = theme;
        }
    }
    let found = names.iter().map(|name| match sources.find(name) {
        Ok(theme) => (
            Some(if theme.needs_more_than_16() {
                "true colour"
            } else {
                "16"
            }),
            None,
        ),
        Err(error) => (None, Some(error.to_string())),
    });
    let found: Vec<_> = found.collect();
    let named = names.into_iter().zip(found);
    named
        .map(|(name, (colours, problem))| ThemeFound {
            source: sources.origin(&name),
            name,
            colours,
            problem,
        })
        .collect()
}

/// How the console ended; `failed` is why store and broker could not be opened the last time.
pub(super) fn ended<T>(result: Result<T, ConsoleError>, failed: Option<Failure>) -> Result<T, Failure> {
    match result {
        Ok(done) => Ok(done),
        Err(error @ ConsoleError::Connect(_)) => Err(failed.unwrap_or_else(|| Failure::of(Exit::Failed, &error))),
        // What the store refuses at the begin (other settings, a newer minimum) is the configuration's matter.
        Err(ConsoleError::Engine(error @ EngineError::Refused { .. })) => Err(Failure::of(Exit::Configuration, &error)),
        Err(ConsoleError::Engine(error)) => Err(error.into()),
        Err(error @ (ConsoleError::Keys(_) | ConsoleError::Theme(_) | ConsoleError::Views(_))) => {
            Err(Failure::of(Exit::Configuration, &error))
        }
        Err(error @ (ConsoleError::Terminal(_) | ConsoleError::Cut)) => Err(Failure::of(Exit::Failed, &error)),
    }
}

/// One try. The screen gets the reason, the exit code is kept for the end.
async fn open(
    config: Arc<Config>,
    schema: SchemaMode,
    failed: Arc<Mutex<Option<Failure>>>,
) -> Result<Engine, ConnectProblem> {
    match owned(&config, schema).await {
        Ok(engine) => Ok(engine),
        Err(error) => {
            let problem = ConnectProblem {
                text: error.failure.causes().join(": "),
                waiting_helps: error.waiting_helps,
            };
            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.failure);
            Err(problem)
        }
    }
}

/// Store and broker, if they belong together: what the daemons of another store deliver is not shown as this one's.
pub(super) async fn owned(config: &Config, schema: SchemaMode) -> Result<Engine, OpenError> {
    let engine = compose::engine(config, schema, None, compose::memory(config)).await?;
    if let Err(error) = engine.compare_owner().await {
        engine.close().await;
        return Err(error.into());
    }
    Ok(engine)
}

/// What the arguments and the configuration make of the console.
pub(super) fn settings(cli: &Cli, config: &Config) -> Result<ConsoleSettings, Failure> {
    let read_only = why_read_only(cli, config);
    if read_only.is_some() && cli.works() {
        return Err(Failure::new(
            Exit::Refused,
            "a console that works delivers: it cannot be read-only",
        ));
    }
    let access = access(read_only.as_deref());
    Ok(ConsoleSettings {
        theme: config.console.theme.clone(),
        keys: config.console.keys.clone(),
        mask: Arc::new(config.console.mask.clone()),
        refresh: config.console.refresh,
        access,
        actor: cli::actor("console"),
        reason: cli.reason().map(str::to_owned),
        deliver: deliver(cli, &config.broker.kind, access),
        place: place(config, read_only),
        profiles: profiles(cli, config),
        mouse: config.console.mouse,
        views: named_views(config),
        preview: config.console.preview,
        notify: notify(config.console.notify),
        titles: config.console.title,
        at: opens_at(cli)?,
        reload: None,
        survey: None,
    })
}

/// Where it opens, as typed.
fn opens_at(cli: &Cli) -> Result<Option<At>, Failure> {
    let at = cli.opens_at().map(At::parse).transpose();
    at.map_err(|why| Failure::new(Exit::Usage, format!("--at: {why}")))
}

/// How the terminal of this process is told to call.
pub(super) fn notify(choice: config::NotifyChoice) -> Notify {
    let environment = Environment::of_process();
    match choice {
        config::NotifyChoice::Auto => Notify::of_terminal(
            environment.variable("TERM").unwrap_or_default(),
            environment.variable("VTE_VERSION").is_some(),
        ),
        config::NotifyChoice::Off => Notify::Off,
        config::NotifyChoice::Bell => Notify::Bell,
        config::NotifyChoice::Osc9 => Notify::Osc9,
        config::NotifyChoice::Osc777 => Notify::Osc777,
    }
}

/// The same for the demo, which asks no configuration.
pub(super) fn settings_of_demo(cli: &Cli) -> Result<ConsoleSettings, Failure> {
    let read_only = (cli.access(Access::Operator) == Access::ReadOnly).then(|| "--read-only".to_owned());
    Ok(ConsoleSettings {
        theme: None,
        keys: std::collections::BTreeMap::new(),
        mask: Arc::new(crate::domain::mask::MaskRules::usual()),
        refresh: DEMO_REFRESH,
        access: access(read_only.as_deref()),
        actor: cli::actor("console"),
        reason: cli.reason().map(str::to_owned),
        deliver: Deliver::Elsewhere,
        place: Place {
            label: "DEMO".to_owned(),
            colour: None,
            broker: "embedded".to_owned(),
            store: "sqlite in a scratch directory".to_owned(),
            read_only,
        },
        profiles: Profiles::default(),
        mouse: false,
        preview: true,
        // What the demo breaks, it breaks on purpose.
        notify: Notify::Off,
        titles: true,
        at: opens_at(cli)?,
        views: NamedViews::default(),
        reload: None,
        survey: None,
    })
}

/// The views of the configuration, and those that this user kept beside the usual one. A file that cannot be read is as
/// none: it is written anew when something is kept.
fn named_views(config: &Config) -> NamedViews {
    let file = Environment::of_process()
        .usual_config()
        .map(|usual| usual.with_file_name(VIEWS_FILE));
    let text = file.as_deref().and_then(|file| fs::read_to_string(file).ok());
    let read: toml::Table = toml::from_str(&text.unwrap_or_default()).unwrap_or_default();
    let views = read.get("console").and_then(|console| console.get("views"));
    let views = views.and_then(toml::Value::as_table).into_iter().flatten();
    let kept = views.filter_map(|(name, line)| Some((name.clone(), line.as_str()?.to_owned())));
    NamedViews {
        configured: config.console.views.clone(),
        kept: kept.take(NAMES_MAX).collect(),
        file,
        start: config.console.start.clone(),
    }
}

/// A protected profile gives the right to change something for a time, unless nobody may.
fn profiles(cli: &Cli, config: &Config) -> Profiles {
    let only_looks = cli.access(Access::Operator) == Access::ReadOnly || config.profile.read_only;
    let others = config.profile.others.iter();
    let usual = Environment::of_process().usual_config();
    let file = config.file.as_ref().filter(|file| usual.as_ref() != Some(*file));
    Profiles {
        // A command is pasted elsewhere.
        file: file.map(|file| {
            std::path::absolute(file)
                .unwrap_or_else(|_| file.clone())
                .display()
                .to_string()
        }),
        current: config.profile.name.clone(),
        protected: config.profile.protected,
        window: config.profile.protected && !only_looks,
        others: others.map(other_profile).collect(),
    }
}

/// What is shown of a profile that is not in use.
pub(super) fn other_profile(other: &config::OtherProfile) -> OtherProfile {
    OtherProfile {
        name: other.name.clone(),
        says: text::show(&other.says(), LABEL_WIDTH_MAX),
    }
}

/// What the console calls the profile in use.
pub(super) fn label(config: &Config) -> String {
    let profile = &config.profile;
    let label = profile.label.as_deref().or(profile.name.as_deref()).unwrap_or_default();
    text::show(label, LABEL_WIDTH_MAX)
}

/// Goes on with another profile, or with what the configuration says now: the program begins anew, so that nothing of
/// before is left over. Returns only when that is not possible.
pub(super) fn go_on_with(next: &Next) -> Failure {
    let typed = std::env::args_os().skip(1);
    let (arguments, with) = match next {
        Next::Profile(profile) => (with_profile(typed, profile), format!("the profile {profile:?}")),
        Next::Again => (typed.collect(), "the configuration as it is now".to_owned()),
    };
    let begin = |program| {
        let mut command = Command::new(program);
        command.args(arguments);
        // The console left it, so that what is typed after its end is not its own.
        if let Some(terminal) = console::runtime::standard_input() {
            command.stdin(terminal);
        }
        command.exec()
    };
    let begun = std::env::current_exe().map(begin);
    let error = begun.unwrap_or_else(|error| error);
    Failure::new(Exit::Failed, format!("cannot continue with {with}: {error}"))
}

/// The same arguments with this profile.
fn with_profile(arguments: impl Iterator<Item = OsString>, profile: &str) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut skips = false;
    for argument in arguments {
        let is_value = std::mem::replace(&mut skips, argument == "--profile");
        let is_joined = argument.to_str().is_some_and(|text| text.starts_with("--profile="));
        if !is_value && !is_joined && !skips {
            kept.push(argument);
        }
    }
    kept.extend(["--profile".into(), profile.into()]);
    kept
}

const fn access(read_only: Option<&str>) -> Access {
    match read_only {
        Some(_) => Access::ReadOnly,
        None => Access::Operator,
    }
}

fn why_read_only(cli: &Cli, config: &Config) -> Option<String> {
    let why = if cli.access(Access::Operator) == Access::ReadOnly {
        "--read-only"
    } else if config.profile.read_only {
        "read-only profile"
    } else if config.profile.protected {
        "protected profile: starts read-only"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// An embedded broker has nobody else who would deliver; one that only looks leaves it at that.
fn deliver(cli: &Cli, broker: &BrokerKind, access: Access) -> Deliver {
    match broker {
        BrokerKind::Embedded | BrokerKind::RabbitMq { .. } if cli.works() => Deliver::Always,
        BrokerKind::Embedded if access != Access::ReadOnly => Deliver::WhenAlone,
        BrokerKind::Embedded | BrokerKind::RabbitMq { .. } => Deliver::Never,
    }
}

fn place(config: &Config, read_only: Option<String>) -> Place {
    let profile = &config.profile;
    let broker = match &config.broker.kind {
        BrokerKind::Embedded => "embedded".to_owned(),
        BrokerKind::RabbitMq { amqp_url, .. } => {
            let unsaid = if config.broker.vhost_is_default {
                " (vhost not named)"
            } else {
                ""
            };
            format!("rabbitmq {}/{}{unsaid}", host(amqp_url), config.broker.naming.vhost)
        }
    };
    let store = match &config.store {
        StoreConfig::Sqlite { path, .. } => format!("sqlite {}", path.display()),
        StoreConfig::Postgres { url } => {
            let database = url::Url::parse(url.expose()).map(|url| url.path().to_owned());
            format!("postgres {}{}", host(url), database.unwrap_or_default())
        }
    };
    Place {
        label: label(config),
        colour: profile.colour.clone(),
        broker: text::show(&broker, PLACE_WIDTH_MAX),
        store: text::show(&store, PLACE_WIDTH_MAX),
        read_only,
    }
}

/// Host and port; neither user nor password.
fn host(url: &SecretUrl) -> String {
    let Ok(url) = url::Url::parse(url.expose()) else {
        return String::new();
    };
    let host = url.host_str().unwrap_or_default();
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The log of a console: a file, and only where somebody asked for it.
pub(super) fn log(environment: &Environment) -> Result<(), Failure> {
    let Some(filter) = environment.variable("REDRIVE_LOG") else {
        return Ok(());
    };
    let Some(directory) = environment.state_home.as_ref().map(|home| home.join("redrive")) else {
        let why = "REDRIVE_LOG is set, and there is no place for a log: set XDG_STATE_HOME or HOME";
        return Err(Failure::new(Exit::Configuration, why));
    };
    let file = log_file(&directory).map_err(|error| {
        let path = directory.join("console.log");
        Failure::new(
            Exit::Configuration,
            format!("the log {:?} cannot be written: {error}", path.to_string_lossy()),
        )
    })?;
    super::log_to(environment, LogTarget::File(file), Some(filter))
}

fn log_file(directory: &Path) -> io::Result<File> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let mut options = OpenOptions::new();
    let file = options
        .append(true)
        .create(true)
        .mode(0o600)
        .open(directory.join("console.log"))?;
    if file.metadata()?.len() > LOG_BYTES_MAX {
        file.set_len(0)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use clap::Parser as _;

    use super::*;

    fn settings_for(line: &str, text: &str, profile: Option<&str>) -> Result<ConsoleSettings, Exit> {
        let environment = Environment {
            data_home: Some("/data".into()),
            ..Environment::default()
        };
        let config = Config::resolve(text, profile, &environment).unwrap();
        let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
        settings(&cli, &config).map_err(|failure| failure.exit())
    }

    const SERVERS: &str = "[broker]\nurl = \"amqp://me:secret@mq.example\"\n\
        [store]\nurl = \"postgres://me:secret@db.example:5433/records\"\n\
        [profile.live]\nlabel = \"LIVE\"\ncolour = \"red\"\nprotected = true\n\
        [profile.audit]\nread_only = true\n";

    #[test]
    fn the_place_is_named_without_credentials() {
        let place = settings_for("redrive", SERVERS, Some("live")).unwrap().place;
        assert_eq!(place.label, "LIVE");
        assert_eq!(place.colour.as_deref(), Some("red"));
        assert_eq!(place.broker, "rabbitmq mq.example/redrive (vhost not named)");
        assert_eq!(place.store, "postgres db.example:5433/records");
        let place = settings_for("redrive", "", None).unwrap().place;
        assert_eq!((place.label.as_str(), place.broker.as_str()), ("", "embedded"));
        assert_eq!(place.store, "sqlite /data/redrive/redrive.db");
    }

    #[test]
    fn who_cannot_write_is_told_why() {
        for (line, profile, why) in [
            ("redrive", None, None),
            ("redrive --read-only", None, Some("--read-only")),
            ("redrive", Some("audit"), Some("read-only profile")),
            ("redrive", Some("live"), Some("protected profile: starts read-only")),
        ] {
            let settings = settings_for(line, SERVERS, profile).unwrap();
            assert_eq!(settings.place.read_only.as_deref(), why, "{line} {profile:?}");
            assert_eq!(settings.access == Access::ReadOnly, why.is_some(), "{line} {profile:?}");
        }
    }

    #[test]
    fn it_delivers_when_asked_and_where_nobody_else_would() {
        let deliver = |line, text| settings_for(line, text, None).map(|settings| settings.deliver);
        assert_eq!(deliver("redrive", SERVERS), Ok(Deliver::Never));
        assert_eq!(deliver("redrive --work", SERVERS), Ok(Deliver::Always));
        assert_eq!(deliver("redrive", ""), Ok(Deliver::WhenAlone));
        assert_eq!(deliver("redrive --work", ""), Ok(Deliver::Always));
        assert_eq!(deliver("redrive --read-only", ""), Ok(Deliver::Never));
        assert_eq!(deliver("redrive --work --read-only", ""), Err(Exit::Refused));
    }

    #[test]
    fn another_profile_takes_the_place_of_the_one_that_was_typed() {
        let with = |line: &str| {
            let words = with_profile(line.split_whitespace().map(OsString::from), "live");
            words
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(with(""), "--profile live");
        assert_eq!(
            with("--profile staging --config a.toml"),
            "--config a.toml --profile live"
        );
        assert_eq!(with("--read-only --profile=staging"), "--read-only --profile live");
    }

    #[test]
    fn a_protected_profile_can_be_written_for_a_time_unless_nobody_may() {
        for (line, profile, window) in [
            ("redrive", Some("live"), true),
            ("redrive --read-only", Some("live"), false),
            ("redrive", Some("audit"), false),
            ("redrive", None, false),
        ] {
            let profiles = settings_for(line, SERVERS, profile).unwrap().profiles;
            assert_eq!(profiles.window, window, "{line} {profile:?}");
        }
        let profiles = settings_for("redrive", SERVERS, Some("live")).unwrap().profiles;
        assert_eq!(profiles.others.len(), 1);
        assert_eq!(profiles.others[0].name, "audit");
    }

    #[test]
    fn the_log_is_private_and_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("state").join("redrive");
        let file = log_file(&directory).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        file.set_len(LOG_BYTES_MAX).unwrap();
        assert_eq!(log_file(&directory).unwrap().metadata().unwrap().len(), LOG_BYTES_MAX);
        file.set_len(LOG_BYTES_MAX + 1).unwrap();
        assert_eq!(log_file(&directory).unwrap().metadata().unwrap().len(), 0);
    }
}
