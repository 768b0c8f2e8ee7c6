//! The title of the terminal's window: the worst that stands, and where this is. Seen while another window is in front.
//!
//! ```text
//! ▼3 PRODUCTION redrive
//! ! PRODUCTION redrive
//! ```

use crate::console::state::{Link, State, Work, delivering};
use crate::domain::run::RunState;
use crate::domain::text::show;

/// Cells of the title, at most.
const TITLE_MAX: usize = 80;

impl State {
    /// The title; only ASCII where the screen has no more. Safe to send.
    #[must_use]
    pub fn title(&self, is_ascii: bool) -> String {
        let place = &self.session.place;
        let label = if place.label.is_empty() {
            &place.broker
        } else {
            &place.label
        };
        let worst = self.worst_sign(is_ascii);
        let parts = [worst.as_str(), label.as_str(), "redrive"];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        show(&parts.join(" "), TITLE_MAX)
    }

    /// The first of these that is so: nothing can be read, nothing is taken, nobody delivers, somebody is asked,
    /// endpoints are down.
    fn worst_sign(&self, is_ascii: bool) -> String {
        let Some(snapshot) = &self.data.snapshot else {
            return if is_ascii { "..." } else { "…" }.to_owned();
        };
        let unread = snapshot.broker.problem.is_some() || snapshot.store.problem.is_some();
        if unread || matches!(self.data.link, Link::Connecting { .. }) {
            return "?".to_owned();
        }
        let nobody = self.session.work != Work::Delivers && delivering(snapshot) == 0;
        if snapshot.alarm.is_some() || snapshot.incident.is_some() || (nobody && snapshot.store.taken_at.is_some()) {
            return "!".to_owned();
        }
        let asks = snapshot.runs.iter().any(|run| run.state() == RunState::Canary);
        let asks = if asks { "!" } else { "" };
        match snapshot.totals.endpoints_not_available() {
            0 => asks.to_owned(),
            down => format!("{asks}{}{down}", if is_ascii { "v" } else { "▼" }),
        }
    }
}
