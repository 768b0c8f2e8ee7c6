//! The lists that are asked for while they are in front.

use std::time::Duration;

use super::State;
use crate::console::Effect;
use crate::console::feed::{Batch, Fed, FedList, FedRows, FeedQuery};
use crate::console::state::{Link, View};
use crate::console::table::{ListFilter, Row};
use crate::domain::time::Timestamp;

/// How often what is lost next is asked for by the overview.
const OVERVIEW_EVERY: Duration = Duration::from_mins(1);

/// Asks for the list in front when that is due. What is frozen stays as it is.
pub(super) fn ask(state: &mut State) -> Vec<Effect> {
    if state.frozen_at.is_some() || state.link != Link::Open {
        return Vec::new();
    }
    grow(state);
    let Some(query) = wanted(state) else {
        return Vec::new();
    };
    let (now, refresh) = (state.now, pace(state));
    let Some(feed) = state.feed_mut() else {
        return Vec::new();
    };
    if feed.due_at(&query, refresh, now) > now {
        return Vec::new();
    }
    state.forget_questions();
    if let Some(feed) = state.feed_mut() {
        feed.asked = Some((query.clone(), now));
    }
    vec![Effect::Feed(query)]
}

/// The next time at which the list in front is asked for.
pub(super) fn due_at(state: &State) -> Option<Timestamp> {
    if state.frozen_at.is_some() || state.link != Link::Open {
        return None;
    }
    let query = wanted(state)?;
    Some(state.feed()?.due_at(&query, pace(state), state.now))
}

/// The overview needs no more than to know of the next hour.
fn pace(state: &State) -> Duration {
    if state.view == View::Overview {
        state.refresh.max(OVERVIEW_EVERY)
    } else {
        state.refresh
    }
}

/// Looks again at once: it was asked for, or something was changed.
pub(super) fn hurry(state: &mut State) {
    if let Some(feed) = state.feed_mut() {
        feed.hurry();
    }
}

/// Rows came. What was frozen meanwhile stays as it was.
pub(super) fn answered(state: &mut State, fed: Fed) -> Vec<Effect> {
    let now = state.now;
    let frozen = state.frozen_at.is_some();
    let feed = state.feed_of_mut(&fed.query);
    if frozen {
        feed.asked = None;
        return Vec::new();
    }
    if !feed.answer(&fed.query, now) {
        return Vec::new();
    }
    let job = match fed.rows {
        Ok(FedRows::Audit(batch)) => take(&mut state.audit, batch, fed.taken_at, now),
        Ok(FedRows::Policies(batch)) => take(&mut state.policies, batch, fed.taken_at, now),
        Ok(FedRows::Runs(batch)) => take(&mut state.runs, batch, fed.taken_at, now),
        Ok(FedRows::DeadGroups(batch)) => take(&mut state.dead_groups, batch, fed.taken_at, now),
        Ok(FedRows::DeadLetters(batch)) => take(&mut state.dead_letters, batch, fed.taken_at, now),
        Ok(FedRows::EventTypes(batch)) => {
            state.events.rates.record(&batch.rows, fed.taken_at);
            take(&mut state.events.types, batch, fed.taken_at, now)
        }
        Ok(FedRows::EventGroups(batch)) => take(&mut state.events.groups, batch, fed.taken_at, now),
        Ok(FedRows::Events(batch)) => take(&mut state.events.events, batch, fed.taken_at, now),
        Ok(FedRows::Expiring(batch)) => take(&mut state.expiring, batch, fed.taken_at, now),
        Ok(FedRows::Saves(batch)) => take(&mut state.saves, batch, fed.taken_at, now),
        Err(problem) => {
            feed.problem = Some(problem);
            None
        }
    };
    job.into_iter().collect()
}

fn take<R: Row>(list: &mut FedList<R>, batch: Batch<R>, taken_at: Timestamp, now: Timestamp) -> Option<Effect> {
    list.feed.more = batch.more;
    list.feed.progress = batch.progress;
    list.feed.lacks = batch.lacks.map(|lacks| lacks.as_str().to_owned());
    list.table.submit(batch.rows, taken_at, now)
}

/// What the list in front shows; behind an open detail there is none.
fn wanted(state: &State) -> Option<FeedQuery> {
    if !state.details.is_empty() {
        return None;
    }
    match state.view {
        View::Dead => Some(dead(state)),
        View::Policies => Some(FeedQuery::Policies),
        View::Runs => Some(FeedQuery::Runs {
            limit: state.runs.feed.limit,
        }),
        View::Audit => Some(FeedQuery::Audit {
            limit: state.audit.feed.limit,
        }),
        View::Events => Some(state.events.wanted()),
        View::Expiring if state.shows_saves => Some(FeedQuery::Saves {
            limit: state.saves.feed.limit,
        }),
        // The overview says what is lost next.
        View::Expiring | View::Overview => Some(FeedQuery::Expiring),
        View::Queues | View::Endpoints | View::Retries | View::Log => None,
    }
}

fn dead(state: &State) -> FeedQuery {
    let expression = |filter: &ListFilter| filter.applied.as_ref().map(|filter| filter.as_str().to_owned());
    match &state.dead_group {
        None => FeedQuery::DeadGroups {
            filter: expression(&state.dead_groups.table.filter),
        },
        Some(group) => FeedQuery::DeadLetters {
            group: group.fingerprint.clone(),
            filter: expression(&state.dead_letters.table.filter),
            limit: state.dead_letters.feed.limit,
        },
    }
}

fn grow(state: &mut State) {
    match state.view {
        View::Audit => state.audit.grow(),
        View::Runs => state.runs.grow(),
        View::Dead => state.dead_letters.grow(),
        View::Events => state.events.events.grow(),
        View::Expiring => state.saves.grow(),
        View::Overview | View::Queues | View::Endpoints | View::Retries | View::Policies | View::Log => {}
    }
}
