//! Attempts: the newest of the log, and each further one as it comes.

use std::collections::HashSet;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::Session;
use super::delivery_args::Attempts;
use super::exit::{Exit, Failure};
use super::output::{Column, or_dash, shown};
use super::paged::tell_full;
use super::when::told_or_dash;
use crate::ambient;
use crate::domain::id::{Epoch, NotificationId};
use crate::domain::time::Timestamp;
use crate::engine::attempts::{self, AttemptFilter};
use crate::engine::query::{self, AttemptQuery};
use crate::engine::view::AttemptView;
use crate::wire::record::Attempt;
use crate::wire::{input, json, time};

const COLUMNS: &[Column] = &[
    Column::Text("started"),
    Column::Text("outcome"),
    Column::Number("status"),
    Column::Number("attempt"),
    Column::Number("took"),
    Column::Text("message"),
    Column::Text("endpoint"),
    Column::Text("error"),
];
/// How wide each of them is where rows come one by one.
const WIDTHS: &[usize] = &[24, 11, 6, 7, 8, 36, 30, 0];
/// Between two looks for more.
const PACE: Duration = Duration::from_millis(500);

pub(super) async fn attempts(session: &Session<'_>, which: &Attempts) -> Result<Exit, Failure> {
    let filter = which.filter.as_deref().map(AttemptFilter::parse).transpose()?;
    let mut query = AttemptQuery {
        queue: which.queue.as_deref().map(input::queue).transpose()?,
        url: which.url.as_deref().map(input::url).transpose()?,
        message: which.message_id.as_deref().map(input::id).transpose()?,
        limit: attempts::read_for(filter.as_ref(), which.limit),
    };
    // What comes is told apart from what was, among the newest.
    if which.follow {
        query.limit = input::LIMIT_MAX;
    }
    let page = session.engine.query(query::Attempts(query.clone())).await?;
    let found = attempts::fitting(filter.as_ref(), &page, which.limit);
    if !which.follow && filter.is_some() {
        tell_full(
            session.output,
            (page.items.len(), query.limit),
            "newest attempts",
            "use --queue, --url or --message-id to look further back",
        );
    }
    if which.follow {
        let fits =
            |attempt: &AttemptView, now: Timestamp| filter.as_ref().is_none_or(|filter| filter.fits(attempt, now));
        let mut tail = Tail::new(session);
        tail.print(found.into_iter().rev())?;
        return tail.follow(query, page.items, fits).await;
    }
    if filter.is_none() {
        tell_full(
            session.output,
            (found.len(), which.limit),
            "attempts",
            "raise --limit, or use --queue, --url or --message-id",
        );
    }
    let items: Vec<Attempt> = found.into_iter().map(Attempt::from).collect();
    session.output.list(&items, COLUMNS, |attempt| {
        cells(attempt, told_or_dash(attempt.started_at.as_deref()))
    })?;
    Ok(Exit::Done)
}

fn cells(attempt: &Attempt, started: String) -> Vec<String> {
    vec![
        started,
        attempt.class.to_owned(),
        attempt
            .status
            .map_or_else(|| "-".to_owned(), |status| status.to_string()),
        attempt.attempt.to_string(),
        format!("{} ms", attempt.duration_ms),
        attempt.message_id.clone(),
        attempt.url.clone(),
        or_dash(attempt.error.as_deref()),
    ]
}

/// One attempt among all: a message is tried again under another lease with the same number.
type Key = (NotificationId, u32, Epoch, Timestamp);

fn key(attempt: &AttemptView) -> Key {
    (
        attempt.message_id.clone(),
        attempt.number,
        attempt.epoch,
        attempt.started_at,
    )
}

/// A time as wide as every other.
fn to_the_millisecond(at: Timestamp) -> String {
    let whole = time(at).map(String::from).unwrap_or_default();
    let seconds = whole.split(['.', 'Z']).next().unwrap_or_default();
    format!("{seconds}.{:03}Z", at.micros().rem_euclid(1_000_000) / 1000)
}

/// Rows that are printed as they come.
struct Tail<'a> {
    session: &'a Session<'a>,
    is_first: bool,
}

impl<'a> Tail<'a> {
    const fn new(session: &'a Session<'a>) -> Self {
        Self {
            session,
            is_first: true,
        }
    }

    fn print<'b>(&mut self, attempts: impl Iterator<Item = &'b AttemptView>) -> Result<(), Failure> {
        let output = self.session.output;
        if std::mem::take(&mut self.is_first) && !output.is_json() {
            output.row_by_row::<Attempt>(COLUMNS, WIDTHS, None)?;
        }
        for attempt in attempts {
            let shape = Attempt::from(attempt);
            if output.is_json() {
                let mut line = json::compact(&shape);
                line.push(b'\n');
                super::output::print(&line)?;
            } else {
                let row = cells(&shape, to_the_millisecond(attempt.started_at));
                output.row_by_row(COLUMNS, WIDTHS, Some((&shape, &row)))?;
            }
        }
        Ok(())
    }

    /// Until Ctrl-C, and over every time that the store cannot be read.
    async fn follow(
        &mut self,
        query: AttemptQuery,
        known: Vec<AttemptView>,
        fits: impl Fn(&AttemptView, Timestamp) -> bool,
    ) -> Result<Exit, Failure> {
        let output = self.session.output;
        let mut stops = [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?];
        let mut known: HashSet<Key> = known.iter().map(key).collect();
        let mut is_unread = false;
        loop {
            let [interrupted, terminated] = &mut stops;
            tokio::select! {
                _ = interrupted.recv() => return Ok(Exit::Done),
                _ = terminated.recv() => return Ok(Exit::Done),
                () = ambient::sleep(PACE) => {}
            }
            let page = match self.session.engine.query(query::Attempts(query.clone())).await {
                Ok(page) => page,
                Err(error) if error.is_unreachable() => {
                    if !std::mem::replace(&mut is_unread, true) {
                        let why = crate::engine::error::chain(&error);
                        output.tell(&format!(
                            "attempts cannot be read, and are looked for until they can: {}",
                            shown(&why)
                        ));
                    }
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if std::mem::take(&mut is_unread) {
                output.tell("attempts can be read again");
            }
            let new: Vec<&AttemptView> = page
                .items
                .iter()
                .filter(|attempt| !known.contains(&key(attempt)))
                .collect();
            if !known.is_empty() && new.len() >= query.limit as usize {
                output.tell(&format!(
                    "more than {} attempts since the last look: some are not shown",
                    query.limit
                ));
            }
            self.print(new.into_iter().rev().filter(|attempt| fits(attempt, page.taken_at)))?;
            known = page.items.iter().map(key).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_a_row_has_always_its_milliseconds() {
        let at = Timestamp::from_seconds(1_795_753_595);
        assert_eq!(to_the_millisecond(at), "2026-11-27T04:26:35.000Z");
        assert_eq!(
            to_the_millisecond(at.plus(Duration::from_micros(981_400))),
            "2026-11-27T04:26:35.981Z"
        );
    }
}
