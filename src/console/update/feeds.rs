//! The lists that are asked for while they are in front.

use std::time::Duration;

use super::State;
use crate::console::state::effect::Effect;
use crate::console::state::events::TypeRow;
use crate::console::state::feed::{Fed, FeedQuery, Listing};
use crate::console::state::{Link, View};
use crate::domain::time::Timestamp;

/// How often what is lost next is asked for by the overview.
const OVERVIEW_EVERY: Duration = Duration::from_mins(1);

/// Asks for the list in front when that is due. What is frozen stays as it is.
pub(super) fn ask(state: &mut State) -> Vec<Effect> {
    if state.data.frozen_at.is_some() || state.data.link != Link::Open {
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
    if state.data.frozen_at.is_some() || state.data.link != Link::Open {
        return None;
    }
    let query = wanted(state)?;
    Some(state.feed()?.due_at(&query, pace(state), state.now))
}

/// The overview needs no more than to know of the next hour.
fn pace(state: &State) -> Duration {
    if state.nav.view == View::Overview {
        state.session.refresh.max(OVERVIEW_EVERY)
    } else {
        state.session.refresh
    }
}

/// Looks again at once: it was asked for, or something was changed.
pub(in crate::console) fn hurry(state: &mut State) {
    if let Some(feed) = state.feed_mut() {
        feed.hurry();
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
            if let Some(types) = rows.batch::<TypeRow>() {
                state.lists.events.rates.record(&types.rows, fed.taken_at);
            }
            job.into_iter().map(Effect::Arrange).collect()
        }
        Err(problem) => {
            feed.problem = Some(problem);
            Vec::new()
        }
    }
}

/// What the list in front shows; behind an open detail there is none.
fn wanted(state: &State) -> Option<FeedQuery> {
    if !state.nav.details.is_empty() {
        return None;
    }
    state.nav.view.screen().asks(&state.lists)
}

fn grow(state: &mut State) {
    if let Some(listing) = state.nav.view.screen().listing_mut(&mut state.lists) {
        listing.grow();
    }
}
