//! Console and commands on a daemon elsewhere: which one, and with which token.

use std::io::{self, BufRead as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use crate::ambient::Clock;
use crate::cli::{self, Cli, Exit, Failure};
use crate::config::{ApiConfig, Config, Environment};
use crate::console::state::Place;
use crate::console::{Connect, ConnectProblem, ConsoleSettings, Deliver, Next};
use crate::domain::text;
use crate::engine::EngineHandle;
use crate::files;
use crate::remote::{self, ConnectError, Daemon, Token};

/// Columns of an address.
const ADDRESS_WIDTH_MAX: usize = 100;

/// A daemon, and what it is asked with.
#[derive(Clone, Debug)]
pub(super) struct Target {
    url: String,
    token: Option<Token>,
}

/// The daemon of `redrive attach` or of the profile in use; `None`: this process opens broker and store itself.
pub(super) fn target(cli: &Cli, config: &Config, environment: &Environment) -> Result<Option<Target>, Failure> {
    let of_profile = config.profile.daemon.as_ref();
    let typed = cli.attaches();
    let Some(url) = typed
        .map(|(url, _)| url)
        .or(of_profile.map(|daemon| daemon.url.as_str()))
    else {
        return Ok(None);
    };
    if remote::is_in_the_clear(url) {
        cli::notice(&format!(
            "the token and all that is shown travel in the clear to {}: give the daemon api.tls, and attach with https://",
            text::show(url, ADDRESS_WIDTH_MAX)
        ));
    }
    let of_file = typed.and_then(|(_, file)| file).map(|file| {
        let secret = files::shown_secret(file).map_err(|error| wrong(format!("{}: {error}", file.display())))?;
        secret.ok_or_else(|| {
            wrong(format!(
                "{} is not there: --token-file names a file with a token",
                file.display()
            ))
        })
    });
    let token = match of_file.transpose()? {
        Some(token) => Some(of(token, "--token-file".to_owned())),
        None => known_token(config, environment, url)?,
    };
    let made = config.api.made_token.as_ref().filter(|made| made.exists());
    if let Some(made) = made.filter(|_| token.is_none() && remote::is_this_machine(url)) {
        cli::notice(&format!(
            "the token in {} is for the daemon of this user, and is not sent to {}: that daemon listens elsewhere",
            made.display(),
            text::show(url, ADDRESS_WIDTH_MAX)
        ));
    }
    let token = match token {
        None if cli::on_terminal() && typed.is_some() => asked(url)?,
        token => token,
    };
    Ok(Some(Target {
        url: url.to_owned(),
        token,
    }))
}

impl Target {
    /// Whether it is known with which token.
    pub(super) const fn has_token(&self) -> bool {
        self.token.is_some()
    }
}

/// The daemon that a profile names, with the token that is known; nothing is asked for.
pub(super) fn of_profile(config: &Config, environment: &Environment) -> Result<Option<Target>, Failure> {
    let Some(daemon) = &config.profile.daemon else {
        return Ok(None);
    };
    Ok(Some(Target {
        url: daemon.url.clone(),
        token: known_token(config, environment, &daemon.url)?,
    }))
}

/// An engine there.
pub(super) async fn engine(target: &Target) -> Result<EngineHandle, ConnectError> {
    let daemon = open_to_look(target).await?;
    Ok(EngineHandle::Remote(Arc::new(daemon)))
}

fn of(secret: impl Into<SecretString>, from: String) -> Token {
    Token {
        secret: secret.into(),
        from,
    }
}

fn wrong(why: String) -> Failure {
    Failure::new(Exit::Configuration, why)
}

/// That of the profile, of the environment, or the one that a daemon of this user made on this machine: it is sent to where
/// that daemon listens, and to no other address.
fn known_token(config: &Config, environment: &Environment, url: &str) -> Result<Option<Token>, Failure> {
    if let Some(token) = config.profile.daemon.as_ref().and_then(|daemon| daemon.token.clone()) {
        let profile = config.profile.name.as_deref().unwrap_or_default();
        return Ok(Some(of(token, format!("profile.{profile}.token"))));
    }
    if let Some(token) = environment.variable("REDRIVE_API_TOKEN") {
        return Ok(Some(of(token.to_owned(), "REDRIVE_API_TOKEN".to_owned())));
    }
    let Some(path) = config.api.made_token.as_ref().filter(|_| remote::is_this_machine(url)) else {
        return Ok(None);
    };
    let read = |path: &Path| files::shown_secret(path).map_err(|error| wrong(format!("{}: {error}", path.display())));
    let Some(token) = read(path)? else {
        return Ok(None);
    };
    let kept = read(&ApiConfig::listens_beside(path))?.and_then(|kept| kept.parse().ok());
    let addresses = [kept, Some(config.api.listen)];
    // At another one another user of the machine may listen, or of a machine that a tunnel leads to.
    let is_there = addresses.iter().flatten().any(|address| remote::is_at(url, *address));
    Ok(is_there.then(|| of(token, path.display().to_string())))
}

/// Asked for on the terminal, without showing what is typed.
fn asked(url: &str) -> Result<Option<Token>, Failure> {
    let failed = |error: io::Error| Failure::of(Exit::Failed, &error);
    let mut prompt = io::stderr().lock();
    let _ = write!(prompt, "Token of {}: ", text::show(url, ADDRESS_WIDTH_MAX));
    let _ = prompt.flush();
    let mut line = String::new();
    {
        let _hidden = Hidden::begin();
        io::stdin().lock().read_line(&mut line).map_err(failed)?;
    }
    let _ = writeln!(prompt);
    let token = line.trim();
    Ok((!token.is_empty()).then(|| of(token.to_owned(), "this terminal".to_owned())))
}

/// A terminal that does not show what is typed, until this is dropped.
struct Hidden(Option<rustix::termios::Termios>);

impl Hidden {
    fn begin() -> Self {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let Ok(before) = tcgetattr(io::stdin()) else {
            return Self(None);
        };
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        let set = tcsetattr(io::stdin(), OptionalActions::Now, &hidden);
        Self(set.is_ok().then_some(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = rustix::termios::tcsetattr(io::stdin(), rustix::termios::OptionalActions::Now, before);
        }
    }
}

/// One try.
async fn open(target: &Target) -> Result<Daemon, ConnectError> {
    // One provider in the process; whoever was first is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Daemon::attach(&target.url, target.token.clone(), Clock::system()).await
}

/// One try, for what shows things: a token that only publishes sees nothing.
async fn open_to_look(target: &Target) -> Result<Daemon, ConnectError> {
    let daemon = open(target).await?;
    match daemon.may_not_look() {
        None => Ok(daemon),
        Some(why) => Err(ConnectError {
            why,
            waiting_helps: false,
        }),
    }
}

/// How the process ends where it could not attach.
fn failure(error: &ConnectError) -> Failure {
    // What is no daemon of this release, or does not know the token, stays so until somebody changes that.
    let exit = if error.waiting_helps {
        Exit::Unreachable
    } else {
        Exit::Configuration
    };
    Failure::new(exit, error.why.clone())
}

/// Runs a command there.
pub(super) async fn command(cli: &Cli, target: Target, config: &Config) -> Result<Exit, Failure> {
    let daemon = open(&target).await.map_err(|error| failure(&error))?;
    let engine = EngineHandle::Remote(Arc::new(daemon));
    let result = cli::run(cli, &engine, &config.profile, &[]).await;
    engine.close().await;
    result
}

/// Shows the console of it until the operator leaves.
pub(super) async fn show(target: Target, settings: ConsoleSettings) -> Result<Option<Next>, Failure> {
    let first = match open_to_look(&target).await {
        Ok(daemon) => Some(daemon),
        Err(error) if error.waiting_helps => None,
        Err(error) => return Err(failure(&error)),
    };
    let settings = of_daemon(settings, &target);
    let failed = Arc::new(Mutex::new(None));
    let first = Arc::new(Mutex::new(first));
    let connect = Connect::new({
        let failed = Arc::clone(&failed);
        move || attached(target.clone(), Arc::clone(&first), Arc::clone(&failed))
    });
    let result = Box::pin(crate::console::run(connect, settings, CancellationToken::new())).await;
    let failed = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    super::console::ended(result, failed)
}

/// What was opened already, or another try.
async fn attached(
    target: Target,
    first: Arc<Mutex<Option<Daemon>>>,
    failed: Arc<Mutex<Option<Failure>>>,
) -> Result<EngineHandle, ConnectProblem> {
    let ready = first.lock().unwrap_or_else(PoisonError::into_inner).take();
    let opened = match ready {
        Some(daemon) => Ok(daemon),
        None => open_to_look(&target).await,
    };
    opened
        .map(|daemon| EngineHandle::Remote(Arc::new(daemon)))
        .map_err(|error| {
            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure(&error));
            ConnectProblem {
                text: error.why,
                waiting_helps: error.waiting_helps,
            }
        })
}

/// The settings of a console that has neither broker nor store of its own. The vhost, and what its token may do, the daemon
/// says each time that it is connected to.
fn of_daemon(settings: ConsoleSettings, target: &Target) -> ConsoleSettings {
    ConsoleSettings {
        deliver: Deliver::Never,
        place: Place {
            broker: text::show(&format!("daemon {}", target.url), ADDRESS_WIDTH_MAX),
            store: String::new(),
            ..settings.place
        },
        ..settings
    }
}
