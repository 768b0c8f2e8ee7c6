//! The place that the console was started for: gone to once there is something to see.

use super::{State, details, say, snapshots};
use crate::console::journal::Tone;
use crate::console::state::View;
use crate::console::state::at::At;
use crate::console::state::detail::Subject;
use crate::console::state::effect::Effect;

/// Goes there, the first time that something was read; who went elsewhere meanwhile stays there.
pub(super) fn go(state: &mut State) -> Vec<Effect> {
    let Some(at) = state.nav.at.take() else {
        return Vec::new();
    };
    if state.nav.view != View::default() || !state.nav.details.is_empty() {
        return Vec::new();
    }
    match at {
        At::View(view) => {
            state.go(view);
            Vec::new()
        }
        At::Queue(name) => {
            let queues = &mut state.lists.queues;
            queues.cursor.choose(name.clone());
            open(state, View::Queues, Subject::Queue(name))
        }
        At::Endpoint(text) => endpoint(state, &text),
        At::Run(id) => {
            let runs = &mut state.lists.runs.table;
            runs.cursor.choose(id.clone());
            open(state, View::Runs, Subject::Run(id))
        }
        At::Letter(id) => open(state, View::Dead, Subject::Letter(id)),
        At::Event(id) => open(state, View::Events, Subject::Event(id)),
    }
}

/// By its URL, or by what is shown of it where its query is hidden.
fn endpoint(state: &mut State, text: &str) -> Vec<Effect> {
    let found = state.data.snapshot.as_ref().and_then(|snapshot| {
        let mut urls = snapshot.endpoints.iter().map(|row| &row.endpoint.url);
        urls.find(|url| url.as_str() == text || url.redacted() == text).cloned()
    });
    let Some(url) = found else {
        state.go(View::Endpoints);
        let text = format!("no endpoint here is {}", say::name(text));
        say::toast(state, Tone::Warning, &text);
        return Vec::new();
    };
    let endpoints = &mut state.lists.endpoints;
    endpoints.cursor.choose(url.clone());
    open(state, View::Endpoints, Subject::Endpoint(url))
}

fn open(state: &mut State, view: View, subject: Subject) -> Vec<Effect> {
    state.go(view);
    let mut effects = snapshots::arrange_front(state);
    effects.extend(details::open_subject(state, subject));
    effects
}
