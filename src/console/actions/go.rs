//! Actions that go to a view, or back.

use crate::console::state::View;
use crate::console::state::action::{Action, Section, named, require};
use crate::console::update::{act, health, palette, profiles, trail};

/// The views on the keys from 1 to 9, what is needed most besides them, and the other views.
pub(super) fn section() -> Section {
    let views = View::ALL.into_iter().map(|view| &view.screen().about().go);
    let (first, others): (Vec<_>, Vec<_>) = views.partition(|go| matches!(go.keys, [key] if ("1"..="9").contains(key)));
    Section {
        title: "Go",
        actions: first.into_iter().chain(ANYWHERE).chain(others).chain(NEXT).collect(),
    }
}

const ANYWHERE: &[Action] = &[
    Action::new(named::PALETTE, "go to, do", &[":"])
        .help("Find and do anything by its name: actions, views, queues, endpoints, runs; and commands such as write, profile, theme, export.")
        .does(palette::open)
        .hinted(),
    Action::new("profiles", "profiles", &["="])
        .help("Every profile of the configuration on one page: its worst state, what waits, what died, who delivers. Enter goes there.")
        .when(profiles::possible)
        .does(profiles::open),
    Action::new("health", "health", &["!"])
        .help("What doctor finds on one page, the worst first: the broker and each of its nodes (memory, disk, files, alarms, blocked connections), the store, clocks, daemons; and what to do.")
        .does(health::open),
    Action::new("go_back", "back there", &["[", "Alt+Left"])
        .help("Go back to where you were.")
        .when(|state| require(state.nav.trail.has_behind(), "there is no place before this one"))
        .does(trail::back),
    Action::new("go_forward", "forward", &["]", "Alt+Right"])
        .help("Go forward again.")
        .when(|state| require(state.nav.trail.has_ahead(), "there is no place after this one"))
        .does(trail::forward),
];

const NEXT: &[Action] = &[
    Action::new("next_view", "next view", &["Tab"])
        .help("Go to the preview beside the list, and back to the list; without one to the next view; in a detail, to its next part.")
        .does(|state| act::turn(state, 1)),
    Action::new("previous_view", "previous view", &["Shift+Tab"])
        .help("Go to the view before; in a detail, to the part before.")
        .does(|state| act::turn(state, -1)),
];
