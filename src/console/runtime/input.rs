//! What is typed: a thread that waits for the terminal, and one that waits for its end.
//!
//! The reader asks the library by turns, so that an editor can have the terminal for a while: then it waits, and
//! reads nothing.
//!
//! The library's reader turns in circles once the terminal is gone. So whoever ends the console calls
//! [`let_go`], which puts an empty pipe in the place of standard input: the reader waits for ever, and
//! what is typed from then on is the shell's.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crossterm::event::{Event as TerminalEvent, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio;
use tokio::sync::mpsc;

use super::answers::{Answers, Heard};
use crate::console::state::event::{Event, Input, Mouse};

/// Events read in one go.
const AT_ONCE: usize = 256;
/// Bytes of a paste, at most: what is behind is cut.
const PASTE_MAX: usize = 64 * 1024;
/// How long the reader waits at once: so long an editor waits for the terminal at most.
const TURN: Duration = Duration::from_millis(250);
/// How long the library is asked for what is there already: in no time at all it looks nowhere.
const MOMENT: Duration = Duration::from_micros(50);
/// Between two characters of an answer of the terminal, at most.
const GAP: Duration = Duration::from_millis(50);

/// Starts both threads; they end with the channel, or wait until the process ends.
pub(super) fn start(inputs: &mpsc::Sender<Input>) -> std::io::Result<()> {
    let sender = inputs.clone();
    thread::Builder::new().name("console input".to_owned()).spawn(move || {
        // A console that hears nothing any more ends; what could end it from the keyboard would not be heard either.
        if catch_unwind(AssertUnwindSafe(|| read(&sender))).is_err() {
            let _ = sender.blocking_send(Input::Gone);
        }
    })?;
    let sender = inputs.clone();
    thread::Builder::new()
        .name("console hang-up".to_owned())
        .spawn(move || watch_hang_up(&sender))?;
    Ok(())
}

/// What standard input was before it was left to others.
static LEFT: OnceLock<OwnedFd> = OnceLock::new();

/// Ends the reader whose channel is closed: somebody else reads from now on.
pub(super) fn stop_reading() {
    drop(hold());
}

/// Leaves standard input to others.
pub(super) fn let_go() {
    static OPEN_END: OnceLock<OwnedFd> = OnceLock::new();
    if let Ok((empty, open_end)) = rustix::pipe::pipe()
        && OPEN_END.set(open_end).is_ok()
    {
        if let Ok(left) = stdio::stdin().try_clone_to_owned() {
            let _ = LEFT.set(left);
        }
        let _ = stdio::dup2_stdin(&empty);
    }
}

/// What standard input was before the console left it: for the program that goes on in this one's place.
#[must_use]
pub fn standard_input() -> Option<OwnedFd> {
    LEFT.get().and_then(|left| left.try_clone().ok())
}

fn read(inputs: &mpsc::Sender<Input>) {
    // A terminal that does not answer costs two seconds here, where nothing waits for it but keys.
    if crossterm::terminal::supports_keyboard_enhancement().unwrap_or(false) {
        let _ = inputs.blocking_send(Input::KeyCodes);
    }
    let mut answers = Answers::default();
    loop {
        for input in GATE.take(inputs, &mut answers) {
            let gone = matches!(input, Input::Gone);
            if inputs.blocking_send(input).is_err() || gone {
                return;
            }
        }
        if inputs.is_closed() {
            return;
        }
    }
}

static GATE: Gate = Gate {
    held: Mutex::new(false),
    let_on: Condvar::new(),
    reading: Mutex::new(()),
};

/// Keeps the reader from standard input while somebody else has the terminal.
struct Gate {
    held: Mutex<bool>,
    let_on: Condvar,
    /// Locked while something is read.
    reading: Mutex<()>,
}

/// The reader leaves standard input alone as long as it is there.
pub(super) struct Held(());

/// Nothing is read from now on.
pub(super) fn hold() -> Held {
    *GATE.held.lock().unwrap_or_else(PoisonError::into_inner) = true;
    // What is being read is read to its end.
    drop(GATE.reading.lock().unwrap_or_else(PoisonError::into_inner));
    Held(())
}

impl Drop for Held {
    fn drop(&mut self) {
        *GATE.held.lock().unwrap_or_else(PoisonError::into_inner) = false;
        GATE.let_on.notify_all();
    }
}

impl Gate {
    /// What there is to read, once standard input is ours; waits for it a while.
    fn take(&self, inputs: &mpsc::Sender<Input>, answers: &mut Answers) -> Vec<Input> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        while *held {
            held = self.let_on.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        if inputs.is_closed() {
            return Vec::new();
        }
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        drop(held);
        let mut inputs = Vec::new();
        wait(if answers.is_waiting() { GAP } else { TURN });
        let mut patience = MOMENT;
        while inputs.len() < AT_ONCE {
            match crossterm::event::poll(patience) {
                Ok(true) => {}
                Ok(false) => {
                    inputs.extend(answers.pause().into_iter().filter_map(heard));
                    break;
                }
                Err(_) => {
                    inputs.push(Input::Gone);
                    break;
                }
            }
            match crossterm::event::read() {
                Ok(event) => inputs.extend(answers.take(event).into_iter().filter_map(heard)),
                Err(_) => inputs.push(Input::Gone),
            }
            patience = if answers.is_waiting() { GAP } else { MOMENT };
        }
        inputs
    }
}

/// Until there is something to read, or for as long. Not by the library, which spends the last millisecond of each
/// wait in asking again and again.
fn wait(patience: Duration) {
    let stdin = stdio::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let patience = Timespec::try_from(patience).ok();
    // Woken early, it looks early.
    let _ = poll(&mut polled, patience.as_ref());
}

fn watch_hang_up(inputs: &mpsc::Sender<Input>) {
    let stdin = stdio::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::empty())];
    loop {
        match poll(&mut polled, None) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
    let_go();
    let _ = inputs.blocking_send(Input::Gone);
}

fn heard(heard: Heard) -> Option<Input> {
    match heard {
        Heard::Event(event) => translate(event).map(Input::Event),
        Heard::Ground(ground) => Some(Input::Ground(ground)),
    }
}

/// Releases are dropped; sizes come from the signal itself.
fn translate(event: TerminalEvent) -> Option<Event> {
    match event {
        TerminalEvent::Key(key) if key.kind == KeyEventKind::Release => None,
        TerminalEvent::Key(key) => Some(Event::Key(key)),
        TerminalEvent::Paste(mut text) => {
            text.truncate(text.floor_char_boundary(PASTE_MAX));
            Some(Event::Paste(text))
        }
        TerminalEvent::FocusGained => Some(Event::Focus(true)),
        TerminalEvent::FocusLost => Some(Event::Focus(false)),
        TerminalEvent::Mouse(mouse) => Mouse::read(mouse).map(Event::Mouse),
        TerminalEvent::Resize(_, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::*;

    #[test]
    fn releases_are_dropped_and_pastes_are_bounded() {
        let key = |kind| KeyEvent::new_with_kind(KeyCode::Char('y'), KeyModifiers::NONE, kind);
        assert!(translate(TerminalEvent::Key(key(KeyEventKind::Release))).is_none());
        for kind in [KeyEventKind::Press, KeyEventKind::Repeat] {
            assert!(matches!(translate(TerminalEvent::Key(key(kind))), Some(Event::Key(told)) if told.kind == kind));
        }
        let Some(Event::Paste(text)) = translate(TerminalEvent::Paste("é".repeat(PASTE_MAX))) else {
            panic!("a paste");
        };
        assert_eq!(text.len(), PASTE_MAX);
    }
}
