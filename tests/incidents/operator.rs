//! A person at a console: reads the screen, presses keys, and is counted.

use std::time::Duration;

use crate::attached;
use crate::console::pty::{BOUND, Pty};
use crate::support::daemon::{Daemon, Installation};
use crate::support::wait::{at_moment, wait_until};

use super::KEYS_MAX;
use super::outside::who;

/// Between two letters that a hand types: what comes faster is taken for pasted text.
const HAND: Duration = Duration::from_millis(25);

pub(super) const ENTER: &str = "\r";
pub(super) const ESC: &str = "\x1b";
pub(super) const DOWN: &str = "\x1b[B";

/// Where somebody sits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seat {
    /// On the machine of the daemon, at 120 columns and 40 lines.
    Here,
    /// Elsewhere, attached to the daemon, at 80 columns and 24 lines: neither broker nor store is known there.
    Far,
}

impl Seat {
    fn size(self) -> (u16, u16) {
        match self {
            Self::Here => (120, 40),
            Self::Far => (80, 24),
        }
    }
}

/// Somebody at a console; whoever ends without [`Operator::leave`] has failed.
pub(super) struct Operator {
    pty: Pty,
    actor: String,
    /// What was pressed and typed.
    keys: Vec<String>,
    /// What he has where he sits, when that is elsewhere.
    _far: Option<Installation>,
}

impl Operator {
    /// Sits down at a console that shows live data of this daemon.
    pub(super) async fn seated(seat: Seat, installation: &Installation, daemon: &Daemon) -> Self {
        match seat {
            Seat::Here => Self::at(seat, installation, &[]).await,
            Seat::Far => Self::far(daemon, ("own", &attached::token(daemon))).await,
        }
    }

    /// Sits down elsewhere, with a token that has a name.
    pub(super) async fn far(daemon: &Daemon, (name, token): (&str, &str)) -> Self {
        let far = attached::far(daemon, token);
        let operator = Self::at(Seat::Far, &far, &["--profile", "far"]).await;
        Self {
            actor: format!("api:{name}"),
            _far: Some(far),
            ..operator
        }
    }

    /// Sits down where this installation is.
    pub(super) async fn at(seat: Seat, installation: &Installation, arguments: &[&str]) -> Self {
        let pty = Pty::start(&installation.program(arguments), seat.size());
        pty.shows("● live").await;
        Self {
            actor: format!("console:{} {}", who(), pty.name()),
            pty,
            keys: Vec::new(),
            _far: None,
        }
    }

    /// Who this is to the audit: `console:ana@db-7 pts/3`, or the token as `api:ana`.
    pub(super) fn actor(&self) -> &str {
        &self.actor
    }

    /// Who this is to others.
    pub(super) fn name(&self) -> &str {
        self.actor.strip_prefix("console:").unwrap_or(&self.actor)
    }

    /// Presses one key.
    pub(super) fn press(&mut self, key: &str) {
        self.keys.push(format!("{key:?}"));
        self.pty.key(key);
    }

    /// Types a text into the line that asks for it, letter by letter.
    pub(super) async fn types(&mut self, text: &str) {
        for letter in text.chars() {
            let before = self.pty.written();
            self.press(letter.encode_utf8(&mut [0; 4]));
            let echo = async || (self.pty.written() > before).then_some(());
            wait_until(format!("an echo of {letter:?}"), BOUND, echo).await;
            at_moment(HAND).await;
        }
    }

    /// Waits until all of these words are on the screen, wherever its lines end.
    pub(super) async fn sees(&self, words: &[&str]) {
        self.pty
            .until(&format!("the words {words:?}"), |screen| {
                let text = flat(screen);
                words.iter().all(|word| text.contains(word))
            })
            .await;
    }

    /// Waits until these words are not on the screen any more.
    pub(super) async fn sees_no(&self, words: &str) {
        self.pty.hides(words).await;
    }

    /// Presses the key of an action that changes something, and waits until its confirmation takes an answer.
    pub(super) async fn asks(&mut self, key: &str) {
        self.press(key);
        self.confirmation().await;
    }

    /// Waits until a confirmation takes an answer; then its whole text is on the screen.
    pub(super) async fn confirmation(&self) {
        self.pty
            .until_frame("a confirmation that takes an answer", |frame| {
                frame.contains("cancel ]") && !frame.contains("in a moment") && !frame.contains("Planning")
            })
            .await;
    }

    /// Says yes to a confirmation, where a key is enough.
    pub(super) async fn accepts(&mut self) {
        self.press("y");
        self.pty.hides("cancel ]").await;
    }

    /// Says yes by typing what the confirmation asks for.
    pub(super) async fn accepts_by_typing(&mut self, word: &str) {
        self.types(word).await;
        self.pty
            .until_frame("the word to be right", |frame| frame.contains("[ Enter  "))
            .await;
        self.press(ENTER);
        self.pty.hides("[ Enter  ").await;
    }

    /// The ground that a word stands on; `None`: it is not on the screen.
    pub(super) fn ground_of(&self, word: &str) -> Option<vt100::Color> {
        self.pty.look(|screen| {
            let (rows, columns) = screen.size();
            let cells = |row: u16| (0..columns.get()).filter_map(move |column| screen.cell(row, column));
            (0..rows.get()).find_map(|row| {
                let text: Vec<&str> = cells(row).map(vt100::Cell::contents).collect();
                let starts_there = |column: &usize| text[*column..].concat().starts_with(word);
                let column = (0..text.len()).find(starts_there)?;
                cells(row).nth(column).map(vt100::Cell::bgcolor)
            })
        })
    }

    /// Leaves; ten keys were enough.
    #[track_caller]
    pub(super) fn leave(self) -> impl Future<Output = ()> {
        let keys = self.keys.len();
        assert!(keys <= KEYS_MAX, "{keys} keys: {}", self.keys.join(", "));
        self.quit()
    }

    async fn quit(mut self) {
        self.pty.key("q");
        assert_eq!(self.pty.ended().await, 0);
        self.pty.assert_restored();
    }
}

/// The text without its lines: what is read does not depend on where a sentence was broken.
fn flat(screen: &str) -> String {
    let words = screen.replace('│', " ");
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}
