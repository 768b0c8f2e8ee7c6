//! The first screen at work: terminal, keys, one try at a time, and the files that were said yes to.
//!
//! It has no engine and nothing in flight, so its end waits for nothing.

use std::{io, thread};

use secrecy::ExposeSecret as _;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::screen::INPUTS_MAX;
use super::shown::is_gone;
use super::{ConsoleError, input, signals};
use crate::ambient::Clock;
use crate::console::first_run::{
    Chosen, FirstEffect, FirstEvent, FirstRun, FirstRunSettings, Found, NewFile, Tester, Testing, update,
};
use crate::console::paint::first_run;
use crate::console::runtime::painter::Painter;
use crate::console::runtime::terminal::{self, Terminal};
use crate::console::state::event::{Event, Input};
use crate::console::theme::{self, Depth, Ground, Sources, Theme};
use crate::domain::text::show;
use crate::files;

const TITLE: &str = "redrive · first start";
/// Columns of a path and of an error.
const SHOWN_MAX: usize = 200;

/// Asks until something is chosen; a signal is a way to leave.
pub async fn run(settings: FirstRunSettings, tester: Tester) -> Result<Chosen, ConsoleError> {
    let (sender, result) = oneshot::channel();
    let runtime = Handle::current();
    let thread = thread::Builder::new()
        .name(terminal::SCREEN_THREAD.to_owned())
        .spawn(move || {
            let chosen = runtime.block_on(drive(settings, tester));
            let _ = sender.send(chosen);
        })
        .map_err(ConsoleError::Terminal)?;
    if let Ok(chosen) = result.await {
        return chosen;
    }
    match thread.join() {
        Err(panic) => std::panic::resume_unwind(panic),
        Ok(()) => Ok(Chosen::Leave),
    }
}

async fn drive(settings: FirstRunSettings, tester: Tester) -> Result<Chosen, ConsoleError> {
    let depth = Depth::detect(&io::stdout());
    let ground = Ground::of_variable(std::env::var("COLORFGBG").ok().as_deref());
    let theme = theme::choose(&Sources::builtin(), theme::for_ground(None, ground, depth), depth)?.theme;
    let terminal = Terminal::take(TITLE).map_err(ConsoleError::Terminal)?;
    let (sender, inputs) = mpsc::channel(INPUTS_MAX);
    let [end, quit, cut] = std::array::from_fn(|_| CancellationToken::new());
    let started = signals::start(sender.clone(), end.clone(), quit, cut).and_then(|()| input::start(&sender));
    started.map_err(ConsoleError::Terminal)?;
    let mut asking = Asking {
        first: FirstRun::new(settings, terminal::size()),
        painter: Painter::new(terminal::stdout().map_err(ConsoleError::Terminal)?),
        theme,
        terminal,
        inputs,
        tester,
        testing: None,
        clock: Clock::system(),
    };
    let chosen = asking.run(&end).await;
    drop(asking);
    input::stop_reading();
    match chosen {
        Err(error) if !is_gone(&error) => Err(ConsoleError::Terminal(error)),
        Err(_gone) => Ok(Chosen::Leave),
        Ok(chosen) => Ok(chosen),
    }
}

struct Asking {
    first: FirstRun,
    theme: Theme,
    painter: Painter<std::fs::File>,
    terminal: Terminal,
    inputs: mpsc::Receiver<Input>,
    tester: Tester,
    testing: Option<Testing>,
    clock: Clock,
}

impl Asking {
    async fn run(&mut self, end: &CancellationToken) -> io::Result<Chosen> {
        loop {
            let (first, theme) = (&self.first, &self.theme);
            self.painter
                .paint(first.size, |buffer| first_run(first, theme, buffer))?;
            let event = tokio::select! {
                () = end.cancelled() => return Ok(Chosen::Leave),
                input = self.inputs.recv() => match self.heard(input)? {
                    Heard::Event(event) => event,
                    Heard::Nothing => continue,
                    Heard::Gone => return Ok(Chosen::Leave),
                },
                found = answer(&mut self.testing) => {
                    self.testing = None;
                    FirstEvent::Tested(found)
                }
            };
            if let Some(chosen) = self.happen(event) {
                return Ok(chosen);
            }
        }
    }

    fn heard(&mut self, input: Option<Input>) -> io::Result<Heard> {
        Ok(match input {
            None | Some(Input::Gone) => Heard::Gone,
            Some(Input::Event(Event::Key(key))) => Heard::Event(FirstEvent::Key(key)),
            Some(Input::Event(Event::Paste(text))) => Heard::Event(FirstEvent::Paste(text)),
            Some(Input::Event(Event::Resize { columns, rows })) => Heard::Event(FirstEvent::Resize(columns, rows)),
            Some(Input::Suspend) => {
                if terminal::can_suspend() {
                    terminal::give_back();
                    terminal::suspend()?;
                }
                Heard::Nothing
            }
            Some(Input::Continued) => {
                self.terminal.take_again()?;
                self.painter.forget();
                let (columns, rows) = terminal::size();
                Heard::Event(FirstEvent::Resize(columns, rows))
            }
            Some(Input::Event(_) | Input::KeyCodes | Input::Ground(_)) => Heard::Nothing,
        })
    }

    fn happen(&mut self, event: FirstEvent) -> Option<Chosen> {
        match update(&mut self.first, self.clock.now(), event)? {
            FirstEffect::End(chosen) => Some(chosen),
            FirstEffect::Test(config) => {
                self.testing = Some(self.tester.test(config));
                None
            }
            FirstEffect::Forget => {
                self.testing = None;
                None
            }
            FirstEffect::Write(files) => {
                let result = write(&files);
                self.happen(FirstEvent::Written(result))
            }
        }
    }
}

enum Heard {
    Event(FirstEvent),
    Nothing,
    Gone,
}

/// For ever where nothing is being tried.
async fn answer(testing: &mut Option<Testing>) -> Found {
    match testing {
        Some(testing) => testing.await,
        None => std::future::pending().await,
    }
}

/// Writes all of them or, where one of them exists already, none.
fn write(files: &[NewFile]) -> Result<(), String> {
    let path = |file: &NewFile| show(&file.path.to_string_lossy(), SHOWN_MAX);
    if let Some(taken) = files.iter().find(|file| file.path.symlink_metadata().is_ok()) {
        return Err(format!("{} exists already, and nothing is overwritten", path(taken)));
    }
    for (at, file) in files.iter().enumerate() {
        if let Err(error) = create(file) {
            let text = format!("{}: {}", path(file), show(&error.to_string(), SHOWN_MAX));
            let before: Vec<String> = files.iter().take(at).map(path).collect();
            return Err(if before.is_empty() {
                text
            } else {
                format!("{text}; written before: {}", before.join(", "))
            });
        }
    }
    Ok(())
}

/// For its owner alone, in a directory that is made where it is missing.
fn create(file: &NewFile) -> io::Result<()> {
    if let Some(directory) = file.path.parent() {
        files::make_directory(directory)?;
    }
    files::write_new(&file.path, file.text.expose_secret().as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn files_are_new_and_private_and_all_or_none_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| NewFile {
            path: directory.path().join("redrive").join(name),
            text: "secret\n".to_owned().into(),
            says: "",
        };
        assert_eq!(write(&[file("broker.url"), file("config.toml")]), Ok(()));
        for name in ["broker.url", "config.toml"] {
            let found = file(name).path.metadata().unwrap();
            assert_eq!(found.permissions().mode() & 0o777, 0o600, "{name}");
        }
        let why = write(&[file("another"), file("config.toml")]).unwrap_err();
        assert!(why.contains("config.toml exists already"), "{why}");
        assert!(!file("another").path.exists(), "none is written where one is taken");
        assert!(!format!("{:?}", file("x")).contains("secret"));
    }
}
