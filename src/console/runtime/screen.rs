//! The loop: wait for something, take everything that is there, then paint once.
//!
//! It knows neither the terminal nor the engine: events come from a channel, bytes go to a writer, and
//! what is to be done is handed on. So tests and measurements drive this very loop.
//!
//! At most one frame in [`FRAME`], and only after something happened. What the engine tells by itself
//! waits for [`BACKGROUND_FRAME`], so that a flood of it leaves room for the frame that a key causes.

use std::io::{self, Write};
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::look::Look;
use crate::ambient::{self, Clock};
use crate::console::runtime::painter::Painter;
use crate::console::runtime::{clipboard, picture};
use crate::console::state::State;
use crate::console::state::effect::{Content, EditJob, Effect, Picture, SaveJob};
use crate::console::state::event::{Event, Input};
use crate::console::theme::{Ground, Theme};
use crate::console::update;

/// The least time between two frames.
pub const FRAME: Duration = Duration::from_millis(10);
/// The least time before a frame that only shows what the engine told by itself.
pub const BACKGROUND_FRAME: Duration = Duration::from_millis(100);
/// Events taken before the next look at the frame's time.
const BATCH_MAX: usize = 512;
/// What the channel of a loop holds before whoever sends has to wait.
pub const INPUTS_MAX: usize = 1_024;

/// Paints a state; a parameter, so that a test can put a painter that fails in its place.
pub type ViewFunction = fn(&State, &Theme, &mut Buffer) -> Option<Position>;

/// How to go on when the screen has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// With another profile.
    Profile(String),
    /// With the same words, so that the configuration holds as it is now.
    Again,
}

/// Why the loop returned; all but the first two come back into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The operator leaves, or there is nobody left to show anything to.
    Quit,
    /// It was told to stop.
    Stopped,
    /// Give the terminal back for a while.
    Suspend,
    /// The terminal has to be taken again.
    Continued,
    /// An editor wants the terminal.
    Edit,
    /// The terminal can be told to send unambiguous key codes.
    KeyCodes,
    /// The terminal has to be told whether the mouse is wanted.
    Mouse,
}

/// The screen with everything that the loop needs.
#[derive(Debug)]
pub struct Screen<W> {
    /// What is shown.
    pub state: State,
    /// What an editor is wanted for.
    pub editing: Option<EditJob>,
    /// How to go on when the screen has ended.
    pub next: Option<Next>,
    look: Look,
    theme: Theme,
    view: ViewFunction,
    painter: Painter<W>,
    inputs: mpsc::Receiver<Input>,
    clock: Clock,
    frames: Frames,
}

/// When the next frame is due.
#[derive(Debug)]
struct Frames {
    dirty: Dirty,
    /// At this uptime the last one was painted.
    painted_at: Duration,
}

/// Whether what is shown may be out of date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Dirty {
    No,
    Background,
    Yes,
}

impl<W: Write> Screen<W> {
    /// A screen of which nothing is painted yet.
    pub fn new(
        state: State,
        theme: Theme,
        view: ViewFunction,
        out: W,
        inputs: mpsc::Receiver<Input>,
        clock: Clock,
    ) -> Self {
        Self {
            state,
            editing: None,
            next: None,
            look: Look::fixed(&theme),
            theme,
            view,
            painter: Painter::new(out),
            inputs,
            clock,
            frames: Frames {
                dirty: Dirty::Yes,
                painted_at: Duration::ZERO,
            },
        }
    }

    /// The theme follows from this: the terminal may be asked for its ground.
    #[must_use]
    pub fn following(mut self, look: Look) -> Self {
        self.look = look;
        self
    }

    /// Everything has to be painted again, at this size.
    pub fn repaint(&mut self, (columns, rows): (u16, u16)) {
        let now = self.clock.now();
        let _ = update(&mut self.state, now, Event::Resize { columns, rows });
        self.painter.forget();
        self.frames.want(Dirty::Yes);
    }

    /// Paints nothing until the process is continued: after a stop was asked for, this thread may go on
    /// for a moment, and the terminal is the shell's. What is typed meanwhile is not ours.
    pub async fn until_continued(
        &mut self,
        stop: &CancellationToken,
        carry_out: &mut (dyn FnMut(Effect) + Send),
    ) -> io::Result<()> {
        loop {
            let input = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                input = self.inputs.recv() => input,
            };
            match input {
                None | Some(Input::Continued | Input::Gone) => return Ok(()),
                Some(
                    Input::Suspend
                    | Input::KeyCodes
                    | Input::Ground(_)
                    | Input::Event(Event::Key(_) | Event::Paste(_) | Event::Mouse(_)),
                ) => {}
                Some(Input::Event(event)) => {
                    self.happen(event, carry_out)?;
                }
            }
        }
    }

    /// Something happens outside of the loop.
    pub fn tell(&mut self, event: Event, carry_out: &mut (dyn FnMut(Effect) + Send)) -> io::Result<()> {
        self.happen(event, carry_out).map(drop)
    }

    /// Paints nothing until `other` is done, which has the terminal meanwhile; what is typed is not ours.
    /// `stopped` is called when the terminal's job is to be stopped.
    pub async fn while_away<T>(
        &mut self,
        other: impl Future<Output = T>,
        stopped: fn() -> io::Result<()>,
        carry_out: &mut (dyn FnMut(Effect) + Send),
    ) -> io::Result<T> {
        tokio::pin!(other);
        loop {
            let input = tokio::select! {
                done = &mut other => return Ok(done),
                input = self.inputs.recv() => input,
            };
            match input {
                Some(Input::Suspend) => stopped()?,
                Some(
                    Input::Event(Event::Key(_) | Event::Paste(_) | Event::Mouse(_))
                    | Input::Continued
                    | Input::KeyCodes
                    | Input::Ground(_),
                ) => {}
                Some(Input::Event(event)) => {
                    self.happen(event, carry_out)?;
                }
                // Nobody is left to edit anything.
                None | Some(Input::Gone) => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }

    /// Runs until there is a reason to pause. `carry_out` must not wait. `Err`: the terminal takes nothing more.
    pub async fn run(
        &mut self,
        stop: &CancellationToken,
        carry_out: &mut (dyn FnMut(Effect) + Send),
    ) -> io::Result<Pause> {
        loop {
            let wait = self.paint_if_due()?;
            let wake = self.wake_in();
            let first = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(Pause::Stopped),
                input = self.inputs.recv() => input.unwrap_or(Input::Gone),
                () = sleep(wait) => continue,
                () = sleep(wake) => Event::Tick.into(),
            };
            if let Some(pause) = self.take(first, carry_out)? {
                return Ok(pause);
            }
        }
    }

    /// Paints when something changed and a frame is due; answers how long until the next one is.
    fn paint_if_due(&mut self) -> io::Result<Option<Duration>> {
        let due_in = self.frames.due_in(self.clock.uptime());
        if due_in != Some(Duration::ZERO) {
            return Ok(due_in);
        }
        self.frames.painted(self.clock.uptime());
        let (state, theme, view) = (&self.state, &self.theme, self.view);
        self.painter
            .paint(state.terminal.size, |buffer| view(state, theme, buffer))?;
        // Behind the first frame, which waits for nobody's answer.
        if let Some(question) = self.look.question(self.clock.uptime()) {
            self.painter.send(question)?;
        }
        if self.state.terminal.titles {
            self.painter.entitle(self.state.title(self.theme.is_ascii()))?;
        }
        Ok(None)
    }

    /// Until something on the screen changes by itself; never at once, whatever the state says.
    fn wake_in(&self) -> Option<Duration> {
        let at = self.state.wake_at()?;
        Some(at.since(self.clock.now()).max(FRAME))
    }

    /// Takes this input and those that wait behind it, up to a pause.
    fn take(&mut self, first: Input, carry_out: &mut (dyn FnMut(Effect) + Send)) -> io::Result<Option<Pause>> {
        let mut next = Some(first);
        let mut resized = None;
        for _ in 0..BATCH_MAX {
            let Some(input) = next.take().or_else(|| self.inputs.try_recv().ok()) else {
                break;
            };
            let pause = match input {
                // Of a burst only the last size counts.
                Input::Event(Event::Resize { columns, rows }) => {
                    resized = Some((columns, rows));
                    None
                }
                Input::Event(event) => self.happen(event, carry_out)?,
                Input::Suspend => Some(Pause::Suspend),
                Input::Continued => Some(Pause::Continued),
                Input::Gone => Some(Pause::Quit),
                Input::KeyCodes => Some(Pause::KeyCodes),
                Input::Ground(ground) => {
                    self.ground(ground);
                    None
                }
            };
            if pause.is_some() {
                self.resize(resized, carry_out)?;
                return Ok(pause);
            }
        }
        self.resize(resized, carry_out)
    }

    fn resize(
        &mut self,
        size: Option<(u16, u16)>,
        carry_out: &mut (dyn FnMut(Effect) + Send),
    ) -> io::Result<Option<Pause>> {
        match size {
            Some((columns, rows)) => self.happen(Event::Resize { columns, rows }, carry_out),
            None => Ok(None),
        }
    }

    /// What the screen shows, as a text that can be kept.
    fn picture(&self, how: Picture) -> String {
        let (width, height) = self.state.terminal.size;
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        let _ = (self.view)(&self.state, &self.theme, &mut buffer);
        match how {
            Picture::Text => picture::text(&buffer),
            Picture::Svg => picture::svg(&buffer, "redrive"),
        }
    }

    /// Uses another theme, as far as the terminal can show it.
    fn retheme(&mut self, name: &str) {
        let result = match self.look.rename(name) {
            Ok(choice) => {
                let said = choice
                    .notice
                    .unwrap_or_else(|| format!("theme {}", choice.theme.name()));
                self.theme = choice.theme;
                Ok(said)
            }
            Err(error) => Err(error.to_string()),
        };
        let _ = update(&mut self.state, self.clock.now(), Event::Themed(result));
        self.frames.want(Dirty::Yes);
    }

    /// The terminal's ground is known now.
    fn ground(&mut self, ground: Ground) {
        if let Some(theme) = self.look.answer(ground, self.clock.uptime()) {
            self.theme = theme;
            self.frames.want(Dirty::Yes);
        }
    }

    fn happen(&mut self, event: Event, carry_out: &mut (dyn FnMut(Effect) + Send)) -> io::Result<Option<Pause>> {
        self.frames.want(if matches!(event, Event::Engine(_)) {
            Dirty::Background
        } else {
            Dirty::Yes
        });
        let mut pause = None;
        for effect in update(&mut self.state, self.clock.now(), event) {
            match effect {
                Effect::Copy(text) => self.painter.send(&clipboard::sequence(&text))?,
                Effect::Call(text) => self.painter.send(&self.state.terminal.notify.sequence(&text))?,
                Effect::Suspend => pause = Some(Pause::Suspend),
                Effect::Edit(job) => {
                    self.editing = Some(job);
                    pause = Some(Pause::Edit);
                }
                Effect::Quit => return Ok(Some(Pause::Quit)),
                Effect::Profile(name) => {
                    self.next = Some(Next::Profile(name));
                    return Ok(Some(Pause::Quit));
                }
                Effect::Again => {
                    self.next = Some(Next::Again);
                    return Ok(Some(Pause::Quit));
                }
                Effect::Mouse => pause = Some(Pause::Mouse),
                Effect::Theme(name) => self.retheme(&name),
                Effect::Screen { picture, path } => {
                    let content = Content::Text(self.picture(picture));
                    carry_out(Effect::Save(SaveJob { path, content }));
                }
                Effect::Refresh
                | Effect::Arrange(_)
                | Effect::Look(_)
                | Effect::Feed(_)
                | Effect::Find(_)
                | Effect::Save(_)
                | Effect::Keep { .. }
                | Effect::Survey(_)
                | Effect::TryProfile(_)
                | Effect::Check
                | Effect::Window(_)
                | Effect::Reload
                | Effect::Pace(_)
                | Effect::Plan { .. }
                | Effect::Reveal(_)
                | Effect::Outcome(_)
                | Effect::Execute { .. } => carry_out(effect),
            }
        }
        Ok(pause)
    }
}

impl Frames {
    /// What is shown may be out of date.
    fn want(&mut self, dirty: Dirty) {
        self.dirty = self.dirty.max(dirty);
    }

    /// Until the next one, nothing when it is due; `None`: nothing changed.
    fn due_in(&self, uptime: Duration) -> Option<Duration> {
        let least = match self.dirty {
            Dirty::No => return None,
            Dirty::Background => BACKGROUND_FRAME,
            Dirty::Yes => FRAME,
        };
        Some(least.saturating_sub(uptime.saturating_sub(self.painted_at)))
    }

    /// One is painted.
    const fn painted(&mut self, uptime: Duration) {
        (self.dirty, self.painted_at) = (Dirty::No, uptime);
    }
}

/// `None`: never.
async fn sleep(span: Option<Duration>) {
    match span {
        Some(span) => ambient::sleep(span).await,
        None => std::future::pending().await,
    }
}
