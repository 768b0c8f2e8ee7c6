//! The composition root: configuration → store, broker, sender → engine → front. It holds no logic.

mod attach;
mod compose;
mod console;
mod daemon;
mod demo;
mod first_run;
mod listen;
mod reload;
mod store;
mod supervised;
mod survey;

use std::future::Future;
use std::time::Duration;

use crate::ambient::Clock;
use crate::cli::{self, Cli, Exit, Failure, Mode};
use crate::config::{Config, Environment};
use crate::console::Deliver;
use crate::domain::schema::SchemaMode;
use crate::domain::text;
use crate::engine::doctor::certificate_checks;
use crate::engine::{Access, Engine};
use crate::telemetry::{self, LogFormat, LogTarget};

/// What is logged by a command that is not the daemon, where nobody asks for more.
const LOG_OF_COMMANDS: &str = "error";
/// How long tasks that nobody waits for may take to end with the process.
const LEFTOVERS: Duration = Duration::from_secs(5);

/// Does what the arguments say.
#[must_use]
pub fn run(cli: &Cli) -> Exit {
    dispatch(cli).unwrap_or_else(|failure| cli::report(&failure))
}

/// Store and broker of a configuration, opened and made where they are missing.
pub(crate) async fn open(config: &Config) -> Result<Engine, Failure> {
    let engine = compose::engine(config, SchemaMode::Bring, None, compose::memory(config)).await;
    engine.map_err(|error| error.failure)
}

fn dispatch(cli: &Cli) -> Result<Exit, Failure> {
    let environment = Environment::of_process();
    let mode = cli.mode()?;
    cli.check_access(Access::Operator)?;
    match mode {
        Mode::Console => {
            check_terminal()?;
            let mut config = load(cli, &environment)?;
            let mut is_chosen = false;
            console::log(&environment)?;
            if let Some(target) = attach::target(cli, &config, &environment)? {
                let mut settings = console::settings(cli, &config)?;
                settings.reload = Some(reload::reload(cli.config_choice(), environment.clone(), &config));
                settings.survey = Some(survey::survey(cli.config_choice(), environment.clone()));
                return next(block_on(|| attach::show(target, settings))?);
            }
            if first_run::is_first(cli, &config, &environment) {
                let surroundings = environment.clone();
                match block_on(|| first_run::ask(config, surroundings))? {
                    Some(chosen) => config = chosen,
                    None => return Ok(Exit::Done),
                }
                is_chosen = true;
            }
            let mut settings = console::settings(cli, &config)?;
            settings.reload = Some(reload::reload(cli.config_choice(), environment.clone(), &config));
            settings.survey = Some(survey::survey(cli.config_choice(), environment.clone()));
            // What delivers makes what it needs, and so does who was just told that the first start makes it.
            let schema = if is_chosen || settings.deliver != Deliver::Never {
                SchemaMode::Bring
            } else {
                schema(&config, cli.access(access(&config)))
            };
            next(block_on(|| console::run(config, schema, settings))?)
        }
        Mode::Listen => receive(cli, &environment),
        Mode::Offline => offline(cli, &environment),
        Mode::Demo { daemon: false } => play_demo(cli, &environment),
        Mode::Demo { daemon: true } => {
            log(&environment, cli.log_filter(Some(LOG_OF_COMMANDS)))?;
            block_on(demo::serve)
        }
        Mode::Daemon => {
            log(&environment, cli.log_filter(None))?;
            deliver(cli, &environment).or_else(|failure| told(&environment, failure))
        }
        Mode::Store => {
            let config = load(cli, &environment)?;
            cli.check_access(access(&config))?;
            log(&environment, cli.log_filter(Some(LOG_OF_COMMANDS)))?;
            block_on(|| store::run(cli, config))
        }
        Mode::Command => {
            let config = load(cli, &environment)?;
            cli.check_access(access(&config))?;
            log(&environment, cli.log_filter(Some(LOG_OF_COMMANDS)))?;
            match attach::target(cli, &config, &environment)? {
                Some(target) => block_on(|| attach::command(cli, target, &config)),
                None => block_on(|| command(cli, config)),
            }
        }
    }
}

/// Why a daemon ends, where its log is for programs: each line is JSON, the last one as well.
fn told(environment: &Environment, failure: Failure) -> Result<Exit, Failure> {
    match log_format(environment) {
        Ok(LogFormat::Json) => {
            tracing::error!("{}", failure.causes().join(": "));
            Ok(failure.exit())
        }
        Ok(LogFormat::Human) | Err(_) => Err(failure),
    }
}

fn deliver(cli: &Cli, environment: &Environment) -> Result<Exit, Failure> {
    let config = load(cli, environment)?;
    if let Some(elsewhere) = &config.profile.daemon {
        let why = format!(
            "the profile in use is about the daemon at {}: a daemon needs a profile without `daemon`, or none",
            elsewhere.url
        );
        return Err(Failure::new(Exit::Configuration, why));
    }
    if cli.access(access(&config)) == Access::ReadOnly {
        return Err(Failure::new(Exit::Refused, "a daemon delivers: it cannot be read-only"));
    }
    let format = log_format(environment)?;
    block_on(|| daemon::run(config, format))
}

/// In the console, or where there is no terminal on standard output.
fn play_demo(cli: &Cli, environment: &Environment) -> Result<Exit, Failure> {
    if !cli::on_terminal() {
        log(environment, cli.log_filter(Some(LOG_OF_COMMANDS)))?;
        return block_on(demo::run);
    }
    check_terminal()?;
    let settings = console::settings_of_demo(cli)?;
    console::log(environment)?;
    block_on(|| demo::show(settings))
}

/// How the program continues after a console.
fn next(next: Option<crate::console::Next>) -> Result<Exit, Failure> {
    match next {
        None => Ok(Exit::Done),
        Some(next) => Err(console::go_on_with(&next)),
    }
}

fn receive(cli: &Cli, environment: &Environment) -> Result<Exit, Failure> {
    let Some(asked) = cli.listens()? else {
        return Ok(Exit::Done);
    };
    log(environment, cli.log_filter(Some(LOG_OF_COMMANDS)))?;
    block_on(|| listen::run(asked))
}

fn offline(cli: &Cli, environment: &Environment) -> Result<Exit, Failure> {
    if let Some(asked) = cli.themes() {
        return cli::print_themes(cli, &console::themes(&asked));
    }
    if cli.asks_for_names() {
        let config = load(cli, environment)?;
        if let Some(target) = attach::target(cli, &config, environment)? {
            return block_on(|| attach::command(cli, target, &config));
        }
    }
    if cli.checks_configuration() {
        log(environment, None)?;
        console::check(&load(cli, environment)?)?;
    }
    cli::offline(cli, environment)
}

async fn command(cli: &Cli, config: Config) -> Result<Exit, Failure> {
    if let Some(vhost) = config.vhost_notice().filter(|_| !cli.prints_json()) {
        cli::notice(&vhost);
    }
    let warnings = config.warnings();
    let schema = schema(&config, cli.access(access(&config)));
    let engine = match compose::engine(&config, schema, None, compose::memory(&config)).await {
        Ok(engine) => engine,
        Err(error) if cli::is_doctor(cli) => {
            let mut checks = compose::broker_checks(&config).await;
            checks.extend(certificate_checks(&config.certificates(), Clock::system().now()));
            return cli::doctor_without_engine(cli, error.failure, &checks, &warnings);
        }
        Err(error) => return Err(error.failure),
    };
    let result = cli::run(cli, &engine.clone().into(), &config.profile, &warnings).await;
    engine.close().await;
    result
}

/// A screen needs a terminal, and one that can move its cursor.
fn check_terminal() -> Result<(), Failure> {
    if !cli::on_terminal() {
        return Err(Failure::new(Exit::Usage, cli::NO_TERMINAL));
    }
    if cli::is_dumb() {
        return Err(Failure::new(Exit::Usage, cli::DUMB_TERMINAL));
    }
    Ok(())
}

/// Who only looks or gives an order takes the store as it is; the file that nobody named has nobody else to make it.
fn schema(config: &Config, access: Access) -> SchemaMode {
    if config.store.is_default() && access != Access::ReadOnly {
        SchemaMode::Bring
    } else {
        SchemaMode::Expect
    }
}

fn load(cli: &Cli, environment: &Environment) -> Result<Config, Failure> {
    Config::load(&cli.config_choice(), environment).map_err(|error| Failure::of(Exit::Configuration, &error))
}

const fn access(config: &Config) -> Access {
    cli::access(&config.profile)
}

/// `REDRIVE_LOG` filters, `REDRIVE_LOG_FORMAT=json` is for programs.
fn log(environment: &Environment, default: Option<&str>) -> Result<(), Failure> {
    let filter = environment.variable("REDRIVE_LOG").or(default);
    log_to(environment, LogTarget::StandardError, filter)
}

fn log_to(environment: &Environment, target: LogTarget, filter: Option<&str>) -> Result<(), Failure> {
    telemetry::log_to(target, log_format(environment)?, filter)
        .map_err(|error| Failure::of(Exit::Configuration, &error))
}

fn log_format(environment: &Environment) -> Result<LogFormat, Failure> {
    match environment.variable("REDRIVE_LOG_FORMAT") {
        Some("json") => Ok(LogFormat::Json),
        None => Ok(LogFormat::Human),
        Some(other) => Err(Failure::new(
            Exit::Configuration,
            format!(
                "REDRIVE_LOG_FORMAT is {:?}: write json for programs, or leave it out for lines that people read",
                text::show(other, 40)
            ),
        )),
    }
}

/// Runs on a thread of its own, whose stack is as large as that of all others: the main thread's is not.
fn block_on<T: Send, F: Future<Output = Result<T, Failure>>>(begin: impl FnOnce() -> F + Send) -> Result<T, Failure> {
    let work = || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::of(Exit::Failed, &error))?;
        let result = runtime.block_on(begin());
        // What is committed is committed: nothing that still runs keeps the process.
        runtime.shutdown_timeout(LEFTOVERS);
        result
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("redrive".to_owned())
            .spawn_scoped(scope, work);
        match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => Err(Failure::of(Exit::Failed, &error)),
        }
    })
}
