//! The lists that are asked for while they are in front.

use std::sync::Arc;
use std::time::Duration;

use super::State;
use super::say::{self, counted};
use crate::console::state::call::Notify;
use crate::console::state::effect::Effect;
use crate::console::state::events::TypeRow;
use crate::console::state::feed::{Fed, FeedQuery, Listing};
use crate::console::state::{Link, View};
use crate::domain::time::Timestamp;
use crate::engine::expiring::ExpiringQueue;

/// How often what is lost next is asked for by the overview.
const OVERVIEW_EVERY: Duration = Duration::from_mins(1);

/// What is lost within this is called for.
const LOST_SOON: Duration = Duration::from_mins(10);
/// How often attempts that are followed are asked for.
const ATTEMPTS_EVERY: Duration = Duration::from_secs(1);

/// Asks for the list in front when that is due. What is frozen stays as it is.
pub(super) fn ask(state: &mut State) -> Vec<Effect> {
    if state.data.frozen_at.is_some() || state.data.link != Link::Open {
        return Vec::new();
    }
    grow(state);
    let (now, refresh) = (state.now, pace(state));
    let wanted = wanted(state);
    let due = |query: &FeedQuery| Some(state.feed()?.due_at(query, refresh, now) <= now);
    let Some(query) = wanted.filter(|query| due(query) == Some(true)) else {
        return watch(state);
    };
    state.forget_questions();
    if let Some(feed) = state.feed_mut() {
        feed.ask(query.clone(), now);
    }
    vec![Effect::Feed(query)]
}

/// What will be lost soon is looked for whatever is in front, where the operator wants to be called for it.
fn watch(state: &mut State) -> Vec<Effect> {
    let now = state.now;
    let is_asking = |listing: &&mut dyn Listing| listing.feed().is_some_and(|feed| feed.asked.is_some());
    if watched_at(state).is_none_or(|at| at > now) || state.lists.all_mut().iter().any(is_asking) {
        return Vec::new();
    }
    let Some(query) = View::Overview.screen().asks(&state.lists) else {
        return Vec::new();
    };
    state.lists.expiring.queues.feed.ask(query.clone(), now);
    vec![Effect::Feed(query)]
}

/// When that is due.
fn watched_at(state: &State) -> Option<Timestamp> {
    if state.terminal.notify == Notify::Off {
        return None;
    }
    let feed = &state.lists.expiring.queues.feed;
    Some(
        feed.answered
            .as_ref()
            .map_or(Timestamp::EPOCH, |(_, at)| at.plus(OVERVIEW_EVERY)),
    )
}

/// Calls for what is lost within minutes.
fn call_for_lost(state: &mut State, rows: &[Arc<ExpiringQueue>]) {
    let now = state.now;
    let soon = |row: &&Arc<ExpiringQueue>| {
        let at = row.expires_at.filter(|_| row.messages != Some(0));
        at.is_some_and(|at| at > now && at.since(now) <= LOST_SOON)
    };
    for row in rows.iter().filter(soon) {
        let messages = row
            .messages
            .map_or_else(|| "messages".to_owned(), |many| counted(many, "message"));
        let name = say::name(row.name.as_str());
        let left = row.expires_at.map_or(0, |at| at.since(now).as_secs() / 60 + 1);
        let text = format!("{messages} of queue {name} are lost within {}", counted(left, "minute"));
        say::call(state, &format!("expiring {name}"), &text);
    }
}

/// The next time at which the list in front is asked for.
pub(super) fn due_at(state: &State) -> Option<Timestamp> {
    if state.data.frozen_at.is_some() || state.data.link != Link::Open {
        return None;
    }
    let in_front = wanted(state).and_then(|query| Some(state.feed()?.due_at(&query, pace(state), state.now)));
    // What is overdue waits for the answer to another question, not for a time.
    let watched = watched_at(state).filter(|at| *at > state.now);
    in_front.into_iter().chain(watched).min()
}

/// The overview needs no more than to know of the next hour; who follows attempts wants to see them when they are made.
fn pace(state: &State) -> Duration {
    let refresh = state.session.refresh;
    if state.nav.view == View::Overview {
        refresh.max(OVERVIEW_EVERY)
    } else if state.nav.view == View::Attempts {
        refresh.min(ATTEMPTS_EVERY)
    } else {
        refresh
    }
}

/// Looks again at once: it was asked for, or something was changed, or can be read again. The other lists are asked for
/// as soon as they are in front.
pub(in crate::console) fn hurry(state: &mut State) {
    for listing in state.lists.all_mut() {
        if let Some(feed) = listing.feed_mut() {
            feed.hurry();
        }
    }
}

/// Rows came. What was frozen meanwhile stays as it was.
pub(super) fn answered(state: &mut State, fed: Fed) -> Vec<Effect> {
    let now = state.now;
    let frozen = state.data.frozen_at.is_some();
    let asks = |listing: &dyn Listing| {
        let asked = listing.feed().and_then(|feed| feed.asked.as_ref());
        asked.is_some_and(|(asked, _)| *asked == fed.query)
    };
    let mut listings = state.lists.all_mut().into_iter();
    let Some(listing) = listings.find(|listing| asks(*listing)) else {
        return Vec::new();
    };
    let Some(feed) = listing.feed_mut() else {
        return Vec::new();
    };
    if frozen {
        feed.asked = None;
        return Vec::new();
    }
    feed.answer(&fed.query, now);
    match fed.rows {
        Ok(rows) => {
            let job = listing.take(&rows, fed.taken_at, now);
            if let Some(expiring) = rows.batch::<ExpiringQueue>() {
                call_for_lost(state, &expiring.rows);
            }
            if let Some(types) = rows.batch::<TypeRow>() {
                state.lists.events.rates.record(&types.rows, fed.taken_at);
            }
            job.into_iter().map(Effect::Arrange).collect()
        }
        Err(problem) => {
            feed.fail(problem);
            Vec::new()
        }
    }
}

/// What the list in front shows; behind an open detail there is none, beside one there is.
fn wanted(state: &State) -> Option<FeedQuery> {
    if !state.nav.details.is_empty() && !state.is_beside() {
        return None;
    }
    state.nav.view.screen().asks(&state.lists)
}

fn grow(state: &mut State) {
    if let Some(listing) = state.nav.view.screen().listing_mut(&mut state.lists) {
        listing.grow();
    }
}
