//! Actions that open, look and read.

use super::{QUEUES, possible};
use crate::console::state::action::{Action, Also, Context, Possible, connected, named, require};
use crate::console::state::detail::{Detail, DetailTab, Subject};
use crate::console::state::effect::Effect;
use crate::console::state::heat::Zoom;
use crate::console::state::{State, View};
use crate::console::update::{act, details, feeds, find, menu, preview, reveal, snapshots};

const PAYLOADS: Context = Context::Views(&[View::Queues, View::Endpoints, View::Dead, View::Events]);

pub(super) const LOOK: &[Action] = &[
    Action::new(named::MENU, "actions", &["a"])
        .help("List what can be done with the selected row or the open detail: Enter does it, and so does the key beside it. What cannot be done now stands at the end, with the reason.")
        .opens_form(menu::open)
        .hinted(),
    Action::new(named::OPEN, "open", &["Enter"])
        .help("Open the selected row: why it moves or does not, its attempts. Again: the endpoint of a queue, the queues of an endpoint.")
        .within(Context::Opening)
        .when(open)
        .does(details::open)
        .also(&[Also::Hinted, Also::OfRow]),
    Action::new(named::BACK, "back", &["Esc"])
        .help("Close the open detail or dialog; else clear the filter, else the marks.")
        .when(back)
        .does(act::back)
        // Esc with nothing to close is no mistake.
        .also(&[Also::Hinted, Also::Silent]),
    Action::new("preview", "preview", &["e"])
        .help("Show the selected row beside its list, where the terminal has room, or not. Tab goes to it and back.")
        .within(Context::Listing)
        .does(preview::switch),
    Action::new(named::BROWSE, "messages", &["b"])
        .help("Look at the first messages of the open queue. They are returned to their place, and the broker marks them as redelivered.")
        .within(QUEUES)
        .when(browse)
        .does(details::browse)
        .hinted(),
    Action::new(named::PAYLOAD_FORM, "as text, bytes", &["x"])
        .help("Show payloads formatted, as they came, or as bytes; of an edited dead letter also the original.")
        .within(PAYLOADS)
        .when(payload_form)
        .turns(details::next_form)
        .hinted(),
    Action::new("wrap", "wrap", &["w"])
        .help("Wrap long lines of a payload, or cut them; then Left and Right scroll.")
        .within(PAYLOADS)
        .when(payload_form)
        .turns(details::wrap),
    Action::new(named::REVEAL, "reveal", &["M"])
        .help("Reveal what is masked in the shown message; the audit says who looked. Pressed again, or when you leave the message, it is masked again.")
        .within(PAYLOADS)
        .when(reveal)
        .does(reveal::toggle)
        .also(&[
            Also::Hinted,
            Also::Audited,
            Also::Called(|state| {
                let revealed = state.nav.details.last().is_some_and(|detail| detail.revealed.is_some());
                revealed.then_some("mask again")
            }),
        ]),
    Action::new(named::NEXT_MATCH, "next", &["n"])
        .help("Go to the next match in a payload; / begins the search.")
        .within(PAYLOADS)
        .when(step_match)
        .turns(|state| find::step(state, 1))
        .hinted(),
    Action::new(named::PREVIOUS_MATCH, "previous", &["p"])
        .help("Go to the previous match.")
        .within(PAYLOADS)
        .when(step_match)
        .turns(|state| find::step(state, -1)),
];

pub(super) const DATA: &[Action] = &[
    Action::new("freeze", "freeze", &["z"])
        .help("Freeze the screen until pressed again.")
        .when(|state| {
            let shown = state.data.snapshot.is_some() || state.data.frozen_at.is_some();
            require(shown, "nothing is shown yet")
        })
        .does(snapshots::freeze)
        .hinted(),
    Action::new("pause_attempts", "pause", &["Space"])
        .help("Keep the attempts that are shown until pressed again; what is made meanwhile is read then.")
        .within(Context::Views(&[View::Attempts]))
        .does(snapshots::freeze)
        .also(&[
            Also::Hinted,
            Also::Called(|state| state.data.frozen_at.is_some().then_some("go on")),
        ]),
    Action::new("heat_map", "map", &["h"])
        .help("Show the attempts as a map: a line for each endpoint, a cell for each few seconds, and how long they took. Again: longer cells, then the list.")
        .within(Context::Views(&[View::Attempts]))
        .turns(|state| state.lists.tail.zoom = Zoom::after(state.lists.tail.zoom))
        .also(&[
            Also::Hinted,
            Also::Called(|state| match state.lists.tail.zoom {
                None => None,
                Some(Zoom::Far) => Some("list"),
                Some(Zoom::Near | Zoom::Middle) => Some("longer cells"),
            }),
        ]),
    Action::new("refresh", "refresh", &["r"])
        .help("Refresh now.")
        .when(connected)
        .does(|state| {
            feeds::hurry(state);
            vec![Effect::Refresh]
        }),
];

fn open(state: &State) -> Possible {
    match state.nav.details.last() {
        Some(detail) if detail.event_type().is_some() && detail.tab != DetailTab::Subscriptions => {
            Err("it leads nowhere: Tab shows its subscriptions".into())
        }
        Some(detail) => require(detail.leads_to().is_some(), "its endpoint is not known"),
        None => state.nav.view.screen().opens(state),
    }
}

fn payload_form(state: &State) -> Possible {
    let shows = state.nav.details.last().is_some_and(|detail| {
        let begun = matches!(detail.tab, DetailTab::Messages | DetailTab::Payload);
        let has_another = detail.letter().is_some_and(|letter| letter.edited.is_some());
        begun || (detail.shows_payload() && has_text(detail)) || (has_another && detail.tab == DetailTab::Why)
    });
    require(shows, "no payload is open")
}

/// In a list a filter, in a payload what is looked for.
pub(super) fn filter_or_find(state: &State) -> Possible {
    match state.nav.details.last() {
        Some(detail) => require(detail.shows_payload() && has_text(detail), "no payload is open"),
        None => possible::list(state),
    }
}

fn step_match(state: &State) -> Possible {
    let find = state.nav.details.last().and_then(|detail| detail.reading.find.as_ref());
    let found = find.is_some_and(|find| !find.places.is_empty());
    require(found, "nothing was found: / looks for a text in a payload")
}

/// Who looks is written down, so where nothing can be written nobody looks.
fn reveal(state: &State) -> Possible {
    let page = state.nav.details.last().and_then(|detail| detail.reading.page.as_ref());
    let page = page.filter(|page| page.hidden > 0);
    let page = page.ok_or("nothing is masked here")?;
    if page.revealed {
        return Ok(());
    }
    if let Some(why) = state.session.read_only() {
        return Err(format!("who looks is written into the audit, and this is read-only: {why}").into());
    }
    connected(state)
}

fn has_text(detail: &Detail) -> bool {
    detail.reading.page.as_ref().is_some_and(|page| !page.lines.is_empty())
}

fn back(state: &State) -> Possible {
    let something = !state.nav.details.is_empty()
        || state.nav.view.screen().is_inside(&state.lists)
        || state.list().is_some_and(|list| {
            let marks = list.mark_counts();
            !list.filter().text.is_empty() || marks.all() > 0
        });
    require(something, "nothing is open")
}

fn browse(state: &State) -> Possible {
    connected(state)?;
    match state.nav.details.last().map(|detail| &detail.subject) {
        Some(Subject::Queue(_)) => Ok(()),
        Some(Subject::Endpoint(_)) => Err("an endpoint has no messages: open one of its queues".into()),
        Some(_) => Err("only a queue has messages".into()),
        None => Err("open a queue first".into()),
    }
}
