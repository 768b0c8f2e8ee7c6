//! What is typed: a thread that waits for the terminal, and one that waits for its end.
//!
//! The library's reader turns in circles once the terminal is gone. So whoever ends the console calls
//! [`let_go`], which puts an empty pipe in the place of standard input: the reader waits for ever, and
//! what is typed from then on is the shell's.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::thread;

use crossterm::event::{Event as TerminalEvent, KeyEventKind};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::stdio;
use tokio::sync::mpsc;

use super::screen::Input;
use crate::console::Event;

/// Bytes of a paste, at most: what is behind is cut.
const PASTE_MAX: usize = 64 * 1024;

/// Starts both threads; they end with the channel, or wait until the process ends.
pub(super) fn start(inputs: &mpsc::Sender<Input>) -> std::io::Result<()> {
    let sender = inputs.clone();
    thread::Builder::new()
        .name("console input".to_owned())
        .spawn(move || read(&sender))?;
    let sender = inputs.clone();
    thread::Builder::new()
        .name("console hang-up".to_owned())
        .spawn(move || watch_hang_up(&sender))?;
    Ok(())
}

/// Leaves standard input to others.
pub(super) fn let_go() {
    static OPEN_END: OnceLock<OwnedFd> = OnceLock::new();
    if let Ok((empty, open_end)) = rustix::pipe::pipe()
        && OPEN_END.set(open_end).is_ok()
    {
        let _ = stdio::dup2_stdin(&empty);
    }
}

fn read(inputs: &mpsc::Sender<Input>) {
    // A terminal that does not answer costs two seconds here, where nothing waits for it but keys.
    if crossterm::terminal::supports_keyboard_enhancement().unwrap_or(false) {
        let _ = inputs.blocking_send(Input::KeyCodes);
    }
    loop {
        let input = match crossterm::event::read() {
            Ok(event) => translate(event).map(Input::Event),
            Err(_) => Some(Input::Gone),
        };
        let gone = matches!(input, Some(Input::Gone));
        if input.is_some_and(|input| inputs.blocking_send(input).is_err()) || gone {
            return;
        }
    }
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
        TerminalEvent::Resize(_, _) | TerminalEvent::Mouse(_) => None,
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
