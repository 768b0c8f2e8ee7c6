//! When the screen changes by time alone. A console that shows no age and waits for nothing sleeps.

use std::time::Duration;

use super::keys::SEQUENCE_WITHIN;
use super::{State, feeds, page, preview};
use crate::console::state::dialog::ARMED_AFTER;
use crate::console::state::{Link, Mode};
use crate::domain::time::Timestamp;

/// A snapshot is live for at least this.
const LIVE_MIN: Duration = Duration::from_secs(5);

impl State {
    /// How old a snapshot may be and still count as live.
    #[must_use]
    pub fn live_for(&self) -> Duration {
        self.session.refresh.saturating_mul(3).max(LIVE_MIN)
    }

    /// Whether what is shown was read as lately as it should be; what could not be read does not count.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.data
            .snapshot
            .as_ref()
            .and_then(|snapshot| snapshot.read_at())
            .is_some_and(|at| self.now.since(at) < self.live_for())
    }

    /// Whether the list in front is as new as it should be, when it is one that is fed.
    #[must_use]
    pub fn is_fed(&self) -> bool {
        let (feed, live_for) = (self.feed(), self.live_for());
        feed.is_none_or(|feed| {
            let at = feed.answered.as_ref().map(|(_, at)| *at);
            feed.problem.is_none()
                && at.is_none_or(|at| self.now.since(at) < live_for + feed.took + feed.pause(self.session.refresh))
        })
    }

    /// The next moment at which something changes although nothing happens; `None`: none.
    #[must_use]
    pub fn wake_at(&self) -> Option<Timestamp> {
        let armed = match &self.input.mode {
            Mode::Dialog(dialog) => dialog.planning.ready_at.map(|at| at.plus(ARMED_AFTER)),
            Mode::Filter(line) => Some(line.says_errors_from()),
            Mode::Browse
            | Mode::Find(_)
            | Mode::Policy(_)
            | Mode::Palette(_)
            | Mode::Columns(_)
            | Mode::Document(_)
            | Mode::When(_)
            | Mode::Menu(_)
            | Mode::Page(_)
            | Mode::Help(_) => None,
            Mode::Question(question) => Some(question.ready_at),
        };
        let stale = self
            .data
            .snapshot
            .as_ref()
            .map(|snapshot| snapshot.taken_at.plus(self.live_for()));
        let second = self
            .shows_an_age()
            .then(|| Timestamp::from_seconds(self.now.seconds().saturating_add(1)));
        let toasts = self.said.toasts.iter().map(|toast| toast.until);
        let fed = [feeds::due_at(self), page::due_at(self)];
        let fed = fed.into_iter().flatten().min();
        let looked = preview::due_at(self);
        let called = self.said.calls.due_at();
        let begun = self.input.last_key_at.filter(|_| !self.input.pending_keys.is_empty());
        let begun = begun.map(|at| at.plus(SEQUENCE_WITHIN));
        let moments = toasts.chain(
            [
                armed,
                stale,
                second,
                fed,
                looked,
                called,
                begun,
                self.session.window.until,
            ]
            .into_iter()
            .flatten(),
        );
        moments.filter(|at| *at > self.now).min()
    }

    /// Whether a time that counts on is on the screen.
    fn shows_an_age(&self) -> bool {
        let Some(snapshot) = &self.data.snapshot else {
            return matches!(self.data.link, Link::Connecting { .. });
        };
        if self.session.window.until.is_some() || matches!(self.input.mode, Mode::Page(_)) {
            return true;
        }
        let unreachable = snapshot.broker.problem.is_some() || snapshot.store.problem.is_some();
        unreachable || !self.is_live() || !self.nav.details.is_empty() || self.nav.view.screen().shows_an_age(self)
    }
}
