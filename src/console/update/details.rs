//! Open details: looked up when opened, again with every snapshot, closed from the inside out.

use std::sync::Arc;
use std::time::Duration;

use super::{State, preview, relatives};
use crate::console::state::detail::{About, Detail, DetailAnswer, DetailQuery, DetailTab, Extent, LeadsTo, Subject};
use crate::console::state::effect::Effect;
use crate::console::state::{Mode, View, payload};
use crate::console::table::End;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::dead::DeadGroup;

/// A query that has not answered for so long is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Details inside each other, at most.
const DETAILS_MAX: usize = 6;
/// Lines of the explanation, at most; a text's own lines are counted.
const LINES_OF_WHY_MAX: usize = 200;

/// Opens the selected row; in a detail, what it leads to.
pub(in crate::console) fn open(state: &mut State) -> Vec<Effect> {
    if state.is_beside() {
        // The preview that has the keys gets all of the screen.
        state.nav.preview.has_keys = false;
        return Vec::new();
    }
    if let Some(detail) = state.nav.details.last() {
        return match detail.leads_to() {
            Some(LeadsTo::Endpoint(url)) => push(state, Subject::Endpoint(url)),
            Some(LeadsTo::Queues(url)) => queues_of(state, &url),
            None => Vec::new(),
        };
    }
    let seeks = state.nav.view.screen().seeks(state);
    let Some(subject) = state.nav.view.screen().open(state) else {
        return Vec::new();
    };
    let effects = push(state, subject);
    if let (Some(seeks), Some(detail)) = (seeks, state.nav.details.last_mut()) {
        turn_to(detail, DetailTab::Attempts);
        detail.seeks = Some(seeks);
    }
    effects
}

/// Looks at the first messages of the queue in front.
pub(in crate::console) fn browse(state: &mut State) -> Vec<Effect> {
    let Some(detail) = state.nav.details.last_mut() else {
        return Vec::new();
    };
    turn_to(detail, DetailTab::Messages);
    detail.asked_at = Some(state.now);
    look(detail, Extent::WithMessages)
}

/// Closes the innermost, first what is looked for in it; the one behind it is looked up again.
pub(super) fn close(state: &mut State) -> Vec<Effect> {
    if let Some(detail) = state.nav.details.last_mut()
        && detail.reading.find.take().is_some()
    {
        return Vec::new();
    }
    let closed = state.nav.details.pop();
    if state.nav.details.is_empty() {
        preview::keep(state, closed);
    }
    let Some(detail) = state.nav.details.last_mut().filter(|detail| !holds_still(detail)) else {
        return Vec::new();
    };
    detail.asked_at = Some(state.now);
    look(detail, Extent::Whole)
}

/// Shows the letters of this group of dead letters, or all groups.
pub(super) fn set_group(state: &mut State, group: Option<Arc<DeadGroup>>) {
    let page = state.page();
    state.lists.dead.set(group, page);
}

/// Goes to the letters of this group.
pub(super) fn show_group(state: &mut State, group: Arc<DeadGroup>) -> Vec<Effect> {
    state.go(View::Dead);
    set_group(state, Some(group));
    Vec::new()
}

/// Opens a detail, on its view where no other detail is open.
pub(in crate::console) fn open_subject(state: &mut State, subject: Subject) -> Vec<Effect> {
    push(state, subject)
}

/// Whether it stays as it was read: looking again would take the message into hand once more.
pub(super) fn holds_still(detail: &Detail) -> bool {
    detail.letter().is_some() || detail.compared().is_some()
}

/// Looks once more at a dead letter that was edited from here: what is sent instead is part of it.
pub(super) fn look_again(state: &mut State, id: &str) -> Vec<Effect> {
    let now = state.now;
    let is_it = |detail: &&mut Detail| matches!(&detail.subject, Subject::Letter(open) if open == id);
    let Some(detail) = state.nav.details.iter_mut().find(is_it) else {
        return Vec::new();
    };
    detail.asked_at = Some(now);
    look(detail, Extent::Whole)
}

/// Looks once more at the letter that this run was about: it may be gone.
pub(super) fn run_ended(state: &mut State, run: &str) -> Vec<Effect> {
    let taken = state.lists.dead.taken.take_if(|(of, _)| of == run);
    taken.map_or_else(Vec::new, |(_, letter)| look_again(state, &letter))
}

/// Asks again for the detail in front, unless an answer is due.
pub(super) fn refresh(state: &mut State) -> Vec<Effect> {
    let now = state.now;
    if state.nav.details.is_empty() {
        return preview::refresh(state);
    }
    if state.nav.details.last().is_some_and(holds_still) {
        return Vec::new();
    }
    match state.nav.details.last_mut() {
        Some(detail) if detail.due_at.is_none() && may_ask(detail, now) => {
            detail.asked_at = Some(now);
            look(detail, Extent::Whole)
        }
        Some(_) | None => Vec::new(),
    }
}

/// Whether no answer is due.
pub(super) fn may_ask(detail: &Detail, now: Timestamp) -> bool {
    detail.asked_at.is_none_or(|at| now.since(at) >= ASK_AGAIN_AFTER)
}

/// An answer came; one about something else, or older than what is shown, is dropped.
pub(super) fn answered(state: &mut State, mut answer: DetailAnswer) {
    fill(state, &answer);
    let nav = &mut state.nav;
    let mut open = nav.details.iter_mut().chain(&mut nav.preview.detail);
    let Some(detail) = open.find(|detail| detail.subject == answer.subject) else {
        return;
    };
    if let Some(shown) = &detail.answer {
        if shown.taken_at > answer.taken_at {
            return;
        }
        // Messages are looked at only when a key asks for it; until then the last look stays.
        answer.messages = answer.messages.or_else(|| shown.messages.clone());
        answer.map = answer.map.or_else(|| shown.map.clone());
    }
    // What is as it was need not be laid out again.
    let before = detail.answer.replace(answer);
    detail.asked_at = None;
    select_sought(detail);
    detail.selected = detail.selected.min(detail.entries().saturating_sub(1));
    let shown = |answer: &Option<DetailAnswer>| {
        let answer = answer.as_ref()?;
        payload::in_front(detail, answer).map(|message| message.key())
    };
    if shown(&before) != shown(&detail.answer) {
        detail.reading.turn_over();
    }
}

/// Selects the attempt that the detail was opened for.
fn select_sought(detail: &mut Detail) {
    let Some(sought) = detail.seeks.take() else { return };
    let attempts = detail.answer.as_ref().and_then(|answer| answer.attempts.as_ref().ok());
    let place = attempts.and_then(|attempts| {
        let mut attempts = attempts.iter();
        attempts.position(|one| one.message_id == sought.message && one.started_at == sought.started_at)
    });
    if let Some(place) = place {
        detail.selected = place;
    }
}

/// Lays out the payload in front; what is behind it, or was left, is masked again.
pub(super) fn lay_out(state: &mut State) {
    let columns = state.detail_columns();
    if state.nav.details.is_empty() {
        if let Some(preview) = &mut state.nav.preview.detail {
            preview.lay_out(&state.session.mask, columns);
        }
        return;
    }
    if let Some((front, behind)) = state.nav.details.split_last_mut() {
        behind.iter_mut().for_each(Detail::leave);
        front.lay_out(&state.session.mask, columns);
    }
}

/// An answer for a form that waits for it.
fn fill(state: &mut State, answer: &DetailAnswer) {
    let Mode::Policy(form) = &mut state.input.mode else {
        return;
    };
    if let (Subject::Policy(scope), Some(Ok(About::Policy { view, .. }))) = (&answer.subject, &answer.about)
        && form.scope == *scope
    {
        form.load(view);
    }
}

/// The next part of the detail in front.
pub(super) fn turn(state: &mut State, by: isize) -> Vec<Effect> {
    let now = state.now;
    let Some(detail) = state.nav.details.last_mut() else {
        return Vec::new();
    };
    let tabs = detail.subject.tabs();
    let place = tabs.iter().position(|tab| *tab == detail.tab).unwrap_or(0);
    let next = (place + tabs.len()).saturating_add_signed(by).checked_rem(tabs.len());
    if let Some(tab) = next.and_then(|next| tabs.get(next)) {
        turn_to(detail, *tab);
        // It is read only while it is in front.
        if detail.tab == DetailTab::Map {
            detail.asked_at = Some(now);
            return look(detail, Extent::Whole);
        }
    }
    Vec::new()
}

/// Selects an attempt or a message; where there is none, moves the text.
pub(super) fn step(state: &mut State, by: isize) {
    match state.nav.details.last_mut() {
        Some(detail) if detail.entries() > 0 => {
            let last = detail.entries().saturating_sub(1);
            let selected = detail.selected.saturating_add_signed(by).min(last);
            if selected != detail.selected {
                detail.reading.turn_over();
            }
            detail.selected = selected;
            detail.reading.rewind();
        }
        Some(_) => scroll(state, by),
        None => {}
    }
}

/// Moves the text.
pub(super) fn scroll(state: &mut State, by: isize) {
    if let Some(detail) = state.nav.details.last_mut() {
        let last = lines_max(detail).saturating_sub(1);
        detail.reading.scroll_by(by, last);
    }
}

/// To the first or last attempt or message; in a text, to its end.
pub(super) fn jump(state: &mut State, to: End) {
    let far = match to {
        End::First => isize::MIN,
        End::Last => isize::MAX,
    };
    step(state, far);
}

/// Shows payloads in the next form.
pub(in crate::console) fn next_form(state: &mut State) {
    if let Some(detail) = state.nav.details.last_mut() {
        let about = detail.answer.as_ref().and_then(|answer| answer.about.as_ref());
        let letter = match about {
            Some(Ok(About::Letter(letter))) => Some(&**letter),
            Some(_) | None => None,
        };
        detail.reading.next_form(letter);
    }
}

/// Long lines of a payload go on under themselves, or not.
pub(in crate::console) fn wrap(state: &mut State) {
    if let Some(detail) = state.nav.details.last_mut() {
        detail.reading.switch_wrap();
    }
}

/// Moves long lines that are not wrapped; answers whether there are such lines in front.
pub(super) fn shift(state: &mut State, by: isize) -> bool {
    let Some(detail) = state
        .nav
        .details
        .last_mut()
        .filter(|detail| !detail.reading.wraps && detail.shows_payload())
    else {
        return false;
    };
    detail.reading.shift_by(by);
    true
}

/// Opens a detail at one of its parts.
pub(super) fn open_at(state: &mut State, subject: Subject, tab: DetailTab) -> Vec<Effect> {
    let effects = push(state, subject);
    show_part(state, tab);
    effects
}

/// Turns the detail in front to one of its parts.
pub(super) fn show_part(state: &mut State, tab: DetailTab) {
    if let Some(detail) = state.nav.details.last_mut() {
        turn_to(detail, tab);
    }
}

/// What is open already comes to the front again; of very many the outermost goes.
fn push(state: &mut State, subject: Subject) -> Vec<Effect> {
    if let Some(place) = state.nav.details.iter().position(|open| open.subject == subject) {
        state.nav.details.truncate(place);
    }
    if state.nav.details.len() >= DETAILS_MAX {
        state.nav.details.remove(0);
    }
    state.data.tracks.look_at(&subject);
    let has_keys = std::mem::take(&mut state.nav.preview.has_keys);
    // What the preview has already is seen at once.
    let seen = state
        .nav
        .preview
        .detail
        .take_if(|seen| seen.subject == subject && !has_keys);
    let detail = Detail {
        answer: seen.and_then(|seen| seen.answer),
        ..Detail::new(subject, state.now)
    };
    let effects = look(&detail, Extent::Whole);
    state.nav.details.push(detail);
    effects
}

/// Looks up so much of it, and its map where that is in front.
pub(super) fn look(detail: &Detail, extent: Extent) -> Vec<Effect> {
    let extent = match extent {
        Extent::Brief | Extent::Whole if detail.tab == DetailTab::Map => Extent::WithMap,
        Extent::Brief | Extent::Whole | Extent::WithMessages | Extent::WithMap => extent,
    };
    vec![Effect::Look(DetailQuery {
        subject: detail.subject.clone(),
        extent,
    })]
}

fn turn_to(detail: &mut Detail, tab: DetailTab) {
    detail.tab = tab;
    detail.selected = 0;
    detail.reading.rewind();
    detail.reading.turn_over();
}

/// The queues that deliver to an endpoint, as a filter that can be seen and changed.
fn queues_of(state: &mut State, url: &EndpointUrl) -> Vec<Effect> {
    let expression = format!("endpoint = {}", crate::console::state::relatives::quoted(url.as_str()));
    relatives::filtered(state, View::Queues, &expression)
}

/// No text has more lines than this; of an explanation the exact number depends on how it is laid out.
/// Lines of a way, at most: three for each queue.
const MAP_LINES_MAX: usize = 100;

fn lines_max(detail: &Detail) -> usize {
    match &detail.reading.page {
        Some(page) if detail.shows_payload() => detail.lines_above() + page.lines.len(),
        _ if detail.answer.is_none() => 0,
        _ if detail.compared().is_some() => detail.compared_places().count(),
        Some(_) | None if detail.tab == DetailTab::Map => MAP_LINES_MAX,
        _ => LINES_OF_WHY_MAX,
    }
}
