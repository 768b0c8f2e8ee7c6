//! Actions on whatever list is in front.

use super::look::filter_or_find;
use super::possible::{list, mark_range, selected, unmark};
use crate::console::state::action::{Action, Also, Context, Possible, require};
use crate::console::state::{State, link};
use crate::console::table::List;
use crate::console::update::{act, columns, filter, find, verbs};

pub(super) const LISTS: &[Action] = &[
    Action::new("filter", "filter", &["/"])
        .help("Type a filter, such as: depth > 100 and state = parked. Words that are no filter are looked for in all texts of the rows. In a payload: find a text.")
        .within(Context::Listing)
        .when(filter_or_find)
        .turns(|state| {
            if state.nav.details.is_empty() {
                filter::begin(state);
            } else {
                find::begin(state);
            }
        })
        .also(&[
            Also::Hinted,
            Also::Called(|state| (!state.nav.details.is_empty()).then_some("find")),
        ]),
    Action::new("mark", "mark", &["Space"])
        .help("Mark the selected row, or unmark it.")
        .within(Context::Marking)
        .when(selected)
        .turns(|state| with_list(state, |list| list.mark()))
        .hinted(),
    Action::new("mark_range", "mark range", &["v"])
        .help("Mark every row from the last mark to here.")
        .within(Context::Marking)
        .when(mark_range)
        .turns(|state| with_list(state, |list| list.mark_range())),
    Action::new("mark_shown", "mark shown", &["*"])
        .help("Mark every row that the filter shows.")
        .within(Context::Marking)
        .when(selected)
        .turns(|state| with_list(state, |list| list.mark_shown())),
    Action::new("unmark", "unmark", &["u"])
        .help("Remove all marks, also those that the filter hides.")
        .within(Context::Marking)
        .when(unmark)
        .turns(|state| with_list(state, |list| list.unmark()))
        .hinted(),
    Action::new("sort_next", "sort", &["s"])
        .help("Sort by the next column.")
        .within(Context::Listing)
        .when(list)
        .does(|state| act::sort(state, |list| list.sort_next()))
        .hinted(),
    Action::new("sort_reverse", "reverse", &["S"])
        .help("Reverse the order.")
        .within(Context::Listing)
        .when(list)
        .does(|state| act::sort(state, |list| list.sort_reverse())),
    Action::new("columns", "columns", &["t"])
        .help("Choose which columns are shown, in which order, and by which of them the list is sorted.")
        .within(Context::Listing)
        .when(list)
        .turns(columns::open),
    Action::new("copy_command", "copy command", &["C"])
        .help("Copy the command that prints what is shown, for a shell, a ticket or a runbook.")
        .when(|state| require(link::command(state).is_some(), "no command prints this"))
        .does(verbs::copy_command)
        .also(&[Also::OfRow]),
    Action::new("copy", "copy", &["c"])
        .help("Copy what the selected row is about to the clipboard: the name of the queue, the URL of the endpoint.")
        .within(Context::Listing)
        .when(copy)
        .does(act::copy)
        .also(&[Also::Hinted, Also::OfRow]),
];

fn with_list(state: &mut State, change: impl FnOnce(&mut dyn List)) {
    if let Some(list) = state.list_mut() {
        change(list);
    }
}

fn copy(state: &State) -> Possible {
    match state.nav.details.last() {
        Some(_) => Ok(()),
        None if state.list().is_none() => require(act::name_in_front(state).is_some(), "nothing is selected"),
        None => selected(state),
    }
}
