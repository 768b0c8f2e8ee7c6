//! The console at work: terminal, loop, effects, and the way to the engine.
//!
//! ```text
//! keys, pastes, sizes ─┐                          ┌─▶ painter ─▶ terminal
//! signals ─────────────┼─▶ one bounded channel ─▶ loop (a thread of its own)
//! snapshots, events ───┤                          └─▶ effects ─▶ engine
//! answers ─────────────┘◀───────────────────────────────┘
//! ```
//!
//! The loop has a thread of its own because writing to a terminal may block for as long as somebody
//! holds it: that must not hold up what this process delivers.
//!
//! At the end the terminal is given back first; what is in flight is finished after, under its own
//! bounds, and a further signal cuts it short. Signals are heard here: whoever calls need not.

pub(crate) mod answers;
pub mod clipboard;
mod editor;
mod first_run;
mod input;
mod link;
mod look;
pub mod painter;
pub mod picture;
mod screen;
mod shown;
mod signals;
pub mod terminal;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

pub use self::first_run::run as ask_first;
pub use self::input::standard_input;
pub use self::look::Look;
pub use self::screen::{BACKGROUND_FRAME, FRAME, INPUTS_MAX, Next, Pause, Screen, ViewFunction};
pub use crate::console::state::event::Input;

use self::link::Linker;
use self::shown::Shown;
use self::terminal::Terminal;
use crate::ambient::{self, Clock};
use crate::console::effects::{Actor, Executions, Executor, Link};
use crate::console::paint::view;
use crate::console::state::State;
use crate::console::state::event::Event;
use crate::console::state::keymap::{Keymap, KeymapError};
use crate::console::state::saved::NamedViews;
use crate::console::state::settings::{Connect, ConnectProblem, ConsoleSettings, Deliver};
use crate::console::theme::{AUTO, Sources, ThemeError};
use crate::console::update;
use crate::console::update::say;
use crate::console::update::views::begin as begin_with_its_view;
use crate::domain::text;
use crate::engine::EngineError;

/// How long a screen that takes nothing may hold up the end.
const STALL_MAX: Duration = Duration::from_secs(2);
/// How long confirmed operations may hold up the end; the engine finishes them if the process stays.
const EXECUTIONS_MAX: Duration = Duration::from_secs(5);
/// Finishing that takes no longer is not talked about.
const QUIET: Duration = Duration::from_millis(300);
/// Cells of the window's title, at most.
const TITLE_MAX: usize = 80;

/// How the way to the engine ended.
type Linked = Result<(), ConsoleError>;

/// Why the console ended otherwise than by the operator's wish.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// Store and broker cannot be opened, and waiting does not help.
    #[error("{}", .0.text)]
    Connect(ConnectProblem),
    /// This process cannot begin to deliver.
    #[error("cannot deliver")]
    Engine(#[source] EngineError),
    /// The terminal cannot be used.
    #[error("the terminal cannot be used")]
    Terminal(#[source] io::Error),
    /// The configured keys cannot be used.
    #[error(transparent)]
    Keys(#[from] KeymapError),
    /// The named views cannot be used.
    #[error("{0}")]
    Views(String),
    /// There is no such theme, or it cannot be used.
    #[error(transparent)]
    Theme(#[from] ThemeError),
    /// A signal ended it before everything was finished.
    #[error("stopped before everything in flight was finished")]
    Cut,
}

/// Whether a console could be shown with these settings: its theme, its keys, its named views.
pub fn check(theme: Option<&str>, keys: &BTreeMap<String, String>, views: &NamedViews) -> Result<(), ConsoleError> {
    Keymap::from_config(keys)?;
    views.check().map_err(ConsoleError::Views)?;
    if let Some(name) = theme.filter(|name| *name != AUTO) {
        Sources::of_user().find(name)?;
    }
    Ok(())
}

/// Shows the console until the operator leaves, a signal ends it, or `stop`. Answers how to go on, where that was
/// asked for.
pub async fn run(
    connect: Connect,
    settings: ConsoleSettings,
    stop: CancellationToken,
) -> Result<Option<Next>, ConsoleError> {
    Box::pin(run_with_view(view, connect, settings, stop)).await
}

/// [`run`] with another function that paints: for a test of what happens when that fails.
pub async fn run_with_view(
    view: ViewFunction,
    connect: Connect,
    settings: ConsoleSettings,
    stop: CancellationToken,
) -> Result<Option<Next>, ConsoleError> {
    let clock = Clock::system();
    let look = Look::of_terminal(settings.theme.clone());
    let choice = look.choose()?;
    let mut state = first_state(&settings, terminal::size(), &clock)?;
    state.session.themes = Sources::of_user().names();
    if let Some(notice) = choice.notice {
        say::notice(&mut state, &notice);
    }
    let mut terminal = Terminal::take(&title(&settings)).map_err(ConsoleError::Terminal)?;
    terminal.use_mouse(settings.mouse).map_err(ConsoleError::Terminal)?;
    let (sender, inputs) = mpsc::channel(INPUTS_MAX);
    let session = Session::start(connect, &settings, sender, clock.clone())?;
    let out = terminal::stdout().map_err(ConsoleError::Terminal)?;
    let screen = Screen::new(state, choice.theme, view, out, inputs, clock).following(look);
    session.show(screen, terminal, stop).await
}

/// Everything around the loop.
struct Session {
    executor: Executor,
    executions: Executions,
    link: Arc<OnceLock<Link>>,
    linker: JoinHandle<Linked>,
    closes_engine: bool,
    /// The screen has to end.
    end: CancellationToken,
    /// The operator left.
    quit: CancellationToken,
    /// Looking and delivering have to end.
    stop_link: CancellationToken,
    /// Nothing is waited for any more.
    cut: CancellationToken,
}

impl Session {
    fn start(
        connect: Connect,
        settings: &ConsoleSettings,
        inputs: mpsc::Sender<Input>,
        clock: Clock,
    ) -> Result<Self, ConsoleError> {
        let [end, quit, stop_link, cut] = std::array::from_fn(|_| CancellationToken::new());
        signals::start(inputs.clone(), end.clone(), quit.clone(), cut.clone()).map_err(ConsoleError::Terminal)?;
        input::start(&inputs).map_err(ConsoleError::Terminal)?;
        let link = Arc::new(OnceLock::new());
        let actor = Actor {
            access: settings.access,
            name: settings.actor.clone(),
            reason: settings.reason.clone(),
            window: settings.profiles.window,
        };
        let executor = Executor::new(Arc::clone(&link), actor, inputs.clone(), clock.clone())
            .reading(settings.reload.clone())
            .surveying(settings.survey.clone());
        let linker = Linker {
            connect,
            link: Arc::clone(&link),
            grants: executor.grants(),
            inputs,
            clock,
            refresh: settings.refresh,
            deliver: settings.deliver,
            stop: stop_link.clone(),
        };
        Ok(Self {
            executions: executor.executions(),
            executor,
            link,
            linker: ambient::spawn("console link", linker.run()),
            closes_engine: settings.deliver != Deliver::Elsewhere,
            end,
            quit,
            stop_link,
            cut,
        })
    }

    /// Shows the screen to its end, and finishes after it.
    async fn show(
        mut self,
        screen: Screen<std::fs::File>,
        terminal: Terminal,
        stop: CancellationToken,
    ) -> Result<Option<Next>, ConsoleError> {
        let mut shown = Shown::on_thread(screen, terminal, self.executor, self.end.clone())?;
        let (mut screen_ended, mut link_ended) = (None, None);
        tokio::select! {
            ended = shown.ended() => {
                self.quit.cancel();
                screen_ended = Some(ended);
            }
            // It ends by itself only when it failed.
            ended = &mut self.linker => link_ended = Some(ended),
            () = self.end.cancelled() => {}
            () = stop.cancelled() => {}
        }
        self.end.cancel();
        if screen_ended.is_none() {
            screen_ended = ambient::timeout(STALL_MAX, shown.ended()).await.ok();
        }
        terminal::give_back();
        input::let_go();
        self.stop_link.cancel();
        let finishing = Finishing {
            executions: self.executions,
            link: self.link,
            linker: self.linker,
            closes_engine: self.closes_engine,
        };
        let finished = tokio::select! {
            finished = finishing.finish(link_ended) => finished,
            () = self.cut.cancelled() => Err(ConsoleError::Cut),
        };
        match screen_ended {
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            Some(Ok(shown)) => finished.and(shown),
            None => finished.map(|()| None),
        }
    }
}

/// What is left to do when the screen has ended.
struct Finishing {
    executions: Executions,
    link: Arc<OnceLock<Link>>,
    linker: JoinHandle<Linked>,
    closes_engine: bool,
}

impl Finishing {
    /// Says so where it takes a moment.
    async fn finish(self, link_ended: Option<Result<Linked, JoinError>>) -> Result<(), ConsoleError> {
        let ending = self.end(link_ended);
        tokio::pin!(ending);
        tokio::select! {
            ended = &mut ending => return ended,
            () = ambient::sleep(QUIET) => {}
        }
        tell("finishing what is in flight; Ctrl-C stops at once");
        ending.await
    }

    async fn end(self, link_ended: Option<Result<Linked, JoinError>>) -> Result<(), ConsoleError> {
        let executed = async {
            if !self.executions.end(EXECUTIONS_MAX).await {
                tell("an operation that was confirmed has not ended yet: the audit says what came of it");
            }
        };
        let linked = async {
            match link_ended {
                Some(ended) => ended,
                None => self.linker.await,
            }
        };
        let ((), linked) = tokio::join!(executed, linked);
        if let Some(link) = self.link.get()
            && self.closes_engine
        {
            link.engine.close().await;
        }
        match linked {
            Ok(linked) => linked,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_cancelled) => Ok(()),
            },
        }
    }
}

/// On standard error, after the screen.
fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The title of the terminal's window.
fn title(settings: &ConsoleSettings) -> String {
    let place = &settings.place;
    let label = if place.label.is_empty() {
        &place.broker
    } else {
        &place.label
    };
    text::show(&format!("redrive · {label}"), TITLE_MAX)
}

/// What is shown before anything is known.
fn first_state(settings: &ConsoleSettings, (columns, rows): (u16, u16), clock: &Clock) -> Result<State, ConsoleError> {
    let keymap = Keymap::from_config(&settings.keys)?;
    settings.views.check().map_err(ConsoleError::Views)?;
    let now = clock.now();
    let mut state = State::new(settings, Arc::new(keymap), now);
    let _ = update(&mut state, now, Event::Resize { columns, rows });
    begin_with_its_view(&mut state);
    Ok(state)
}
