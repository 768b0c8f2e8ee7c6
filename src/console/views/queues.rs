//! The queues.
//!
//! ```text
//!    State ▲                 Waiting  Endpoint                Queue        Next attempt
//!  ▌ ! parked                     22  billing.example/hook    order-21.0…  -
//!    ▼ endpoint down              12  stock.example/changed   order-18.9…  in 8 s
//!    ● delivering                  3  shop.example/hook       order-17.7…  -
//!  its schedule is used up after 13 attempts: it waits for `redrive redeliver`
//!  1–3 of 12
//! ```

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use ratatui::layout::{Position, Rect};

use super::list::{self, Cell, Listed, OUTSIDE_MAX};
use super::{command_words, filtered, listed, moving};
use crate::console::state::action::Action;
use crate::console::state::detail::Subject;
use crate::console::state::feed::Listing;
use crate::console::state::lists::Lists;
use crate::console::state::pointed::{Pointed, Reach, Rows};
use crate::console::state::screen::{About, Screen, Selection};
use crate::console::state::{State, View};
use crate::console::table::ColumnWidth::Fixed;
use crate::console::table::{Column, Row, SortKey, key};
use crate::console::theme::Role;
use crate::console::widgets::canvas::Canvas;
use crate::console::widgets::words::{self, known, span, until};
use crate::domain::filter::{Field, FieldValue};
use crate::domain::id::QueueName;
use crate::domain::queue::QueueKind;
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::engine::snapshot::{self, QueueRow, Snapshot};

/// Columns of how queues move.
const MOVING: [&str; 5] = ["out", "spark", "empty_in", "failing", "p95"];

/// The view.
pub(super) struct Queues;

static ABOUT: About = About {
    title: "Queues",
    short_title: "Queues",
    reads: &["broker", "store"],
    go: Action::new("queues", "queues", &["2"])
        .help("Go to the queues.")
        .turns(|state| state.go_to_top(View::Queues)),
};

impl Screen for Queues {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn listing<'a>(&self, lists: &'a Lists) -> Option<&'a dyn Listing> {
        Some(&lists.queues)
    }

    fn listing_mut<'a>(&self, lists: &'a mut Lists) -> Option<&'a mut dyn Listing> {
        Some(&mut lists.queues)
    }

    fn paint(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
        list::paint(canvas, area, state, &state.lists.queues)
    }

    fn glance(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) {
        list::glance(canvas, area, state, &state.lists.queues, "");
    }

    fn badge(&self, _: &State, snapshot: &Snapshot) -> String {
        listed(&snapshot.broker, snapshot.queues.len())
    }

    fn shows_an_age(&self, state: &State) -> bool {
        let queues = &state.lists.queues;
        queues.window(queues.cursor.page).any(|position| {
            let row = queues.row(position);
            row.is_some_and(|row| row.next_attempt_at().is_some() || row.oldest_at().is_some())
        })
    }
}

impl Selection for Queues {
    fn subject(&self, state: &State) -> Option<Subject> {
        let row = state.lists.queues.selected_row();
        row.map(|row| Subject::Queue(row.name.clone()))
    }

    fn rows<'a>(&self, state: &'a State, reach: Reach) -> Rows<'a> {
        Rows::of(&state.lists.queues, reach, Pointed::Queue)
    }

    fn command(&self, state: &State) -> Option<Vec<String>> {
        let list = state.list()?;
        // A command of another process has no series.
        let is_known = |(column, _): &(&str, bool)| !MOVING.contains(column);
        let sort = list.sorted_by().filter(is_known).map(|(column, descending)| {
            let sign = if descending { "-" } else { "" };
            vec!["--sort".to_owned(), format!("{sign}{column}")]
        });
        let parts = [Some(command_words("queues")), filtered(list), sort];
        Some(parts.into_iter().flatten().flatten().collect())
    }
}

impl Row for QueueRow {
    type Id = QueueName;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("state", "State", Fixed(19), 0, |row| key::rank(row.rank())),
        Column::new("depth", "Waiting", Fixed(9), 0, |row: &Self| key::count(row.depth())).count(),
        // Where it delivers to says more than its name, which is an execution and a hash.
        Column::new("endpoint", "Endpoint", key::fill(24, 4), 0, |row| {
            key::url(row.url.as_deref())
        }),
        Column::new("name", "Queue", key::fill(14, 2), 1, |row| {
            SortKey::Text(row.name.as_str())
        }),
        Column::new("next_attempt_at", "Next attempt", Fixed(12), 2, |row: &Self| {
            key::time(row.next_attempt_at())
        })
        .time(),
        // The oldest message has the earliest time: ages are sorted from the greatest by the times upwards.
        Column::new("age", "Oldest", Fixed(8), 3, |row: &Self| key::time(row.oldest_at())).time(),
        Column::new("attempts", "Tried", Fixed(8), 5, |row: &Self| {
            key::count(row.attempts().map(|(made, _)| made.into()))
        })
        .count(),
        Column::new("out", "Out/s", Fixed(7), 5, |row: &Self| moving::out_key(row.moving())).count(),
        Column::new("spark", "10 min", Fixed(10), 9, |row: &Self| {
            moving::out_key(row.moving())
        })
        .greatest_first(),
        Column::new("empty_in", "Empty in", Fixed(8), 9, |row: &Self| {
            moving::empty_in_key(row.time_to_empty())
        })
        .count(),
        Column::new("failing", "Failing", Fixed(7), 9, |row: &Self| {
            moving::failing_key(row.moving())
        })
        .count(),
        Column::new("p95", "p95", Fixed(7), 9, |row: &Self| moving::p95_key(row.moving())).count(),
        Column::new("delivered", "Delivered", Fixed(10), 6, |row: &Self| {
            key::count(row.delivered())
        })
        .count(),
        Column::new("owner", "Worker", key::fill(8, 1), 7, |row| key::text(row.owner())),
        Column::new("why", "Why", key::fill(20, 4), 8, |row| key::text(row.why())),
        Column::new("execution", "Execution", key::fill(10, 1), 9, |row| {
            key::text(row.execution())
        }),
    ];
    const FIELDS: &'static [Field] = snapshot::QUEUE_FIELDS;

    fn rows_of(snapshot: &Snapshot) -> Option<(Arc<Vec<Arc<Self>>>, Timestamp)> {
        let taken_at = snapshot.broker.taken_at.unwrap_or(snapshot.taken_at);
        Some((Arc::clone(&snapshot.queues), taken_at))
    }

    fn unread(snapshot: &Snapshot) -> Option<&str> {
        snapshot.broker.problem.as_deref().or(snapshot.store.problem.as_deref())
    }

    fn id(&self) -> QueueName {
        self.name.clone()
    }

    fn tie(&self, other: &Self) -> Ordering {
        self.rank()
            .cmp(&other.rank())
            .then_with(|| Reverse(self.depth()).cmp(&Reverse(other.depth())))
            .then_with(|| self.name.cmp(&other.name))
    }

    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        Self::field(self, name, now)
    }
}

impl Listed for QueueRow {
    const MANY: &'static str = "queues";
    const WHEN_NONE: &'static str = "Publish something: redrive publish --execution ID --url URL";
    const SAID_BY: &'static str = "why";

    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_> {
        match column {
            "state" => state(self),
            "name" => named(self),
            "depth" => depth(self),
            "endpoint" => Cell::url(self.url.as_deref()),
            "next_attempt_at" => Cell::or_none(self.next_attempt_at().map(|at| until(now, at)), Role::Warning),
            "age" => Cell::or_none(self.oldest_at().map(|at| span(now.since(at))), Role::Text),
            "attempts" => Cell::or_none(self.attempts().map(|(made, of)| format!("{made}/{of}")), Role::Warning),
            "execution" => Cell::or_none(self.execution(), Role::Text),
            "delivered" => Cell::or_none(self.delivered().map(words::count), Role::TextMuted),
            "out" => moving::out(self.moving()),
            "spark" => moving::spark(self.moving()),
            "empty_in" => moving::empty_in(self.time_to_empty()),
            "failing" => moving::failing(self.moving()),
            "p95" => moving::p95(self.moving()),
            "owner" => Cell::or_none(self.owner(), Role::TextMuted),
            "why" => Cell::new(self.says(now), Role::Text),
            _ => Cell::new("", Role::Text),
        }
    }

    /// Why it moves or does not; a warning goes before, else the first thing that will surprise.
    fn says(&self, _: Timestamp) -> Cow<'_, str> {
        let finding = self.findings().first().map(|finding| finding.effect.as_str());
        let warning = self.warnings().first().map(String::as_str).or(finding);
        match (warning, self.why()) {
            (None, why) => Cow::Borrowed(why.unwrap_or_default()),
            (Some(warning), None) => Cow::Owned(format!("! {}", show(warning, OUTSIDE_MAX))),
            (Some(warning), Some(why)) => {
                Cow::Owned(format!("! {} · {}", show(warning, OUTSIDE_MAX), show(why, OUTSIDE_MAX)))
            }
        }
    }
}

/// Where there is little room the hash behind the execution goes first.
fn named(row: &QueueRow) -> Cell<'_> {
    let name = name(row);
    let tells = row.execution().filter(|execution| name.starts_with(execution));
    match (row.findings(), tells) {
        ([], None) => Cell::new(name, Role::Text),
        ([], Some(tells)) => Cell::named(name, tells.len(), Role::Text),
        // What its arguments or a policy will do to it is told below the list.
        ([..], None) => Cell::new(format!("! {name}"), Role::Warning),
        ([..], Some(tells)) => Cell::named(format!("! {name}"), tells.len() + 2, Role::Warning),
    }
}

/// A queue's name from its execution on: what comes before is the same for all of them.
fn name(row: &QueueRow) -> &str {
    let whole = row.name.as_str();
    // It stands before the hash of the URL; its letters may stand before that as well.
    let named = whole.rsplit_once('.').map(|(named, _)| named);
    let begin = named
        .zip(row.execution())
        .and_then(|(named, execution)| named.strip_suffix(execution));
    begin.and_then(|begin| whole.get(begin.len()..)).unwrap_or(whole)
}

fn state(row: &QueueRow) -> Cell<'static> {
    let Some(state) = row.state else {
        if row.kind == QueueKind::Delivery {
            return Cell::new(words::UNKNOWN, Role::TextMuted);
        }
        return Cell::new(format!("· {}", row.kind.as_str()), Role::TextMuted);
    };
    let (symbol, role) = words::queue_state(state);
    Cell::new(format!("{symbol} {}", state.plain()), role)
}

fn depth(row: &QueueRow) -> Cell<'static> {
    let role = if row.depth() == Some(0) {
        Role::TextMuted
    } else {
        Role::Text
    };
    Cell::new(known(row.depth()), role)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::findings::Finding;
    use crate::domain::id::ExecutionId;
    use crate::engine::snapshot::QueueFacts;

    #[test]
    fn a_name_is_shown_from_its_execution_on_whose_letters_may_stand_before_it_too() {
        for (whole, execution, shown) in [
            (
                "redrive.d.0cc175b9c0f1b6a831c399e269772661",
                "d",
                "d.0cc175b9c0f1b6a831c399e269772661",
            ),
            (
                "redrive.0cc.1.0cc175b9c0f1b6a831c399e269772661",
                "0cc.1",
                "0cc.1.0cc175b9c0f1b6a831c399e269772661",
            ),
            // The execution was too long for the name.
            (
                "redrive.2c26.0cc175b9c0f1b6a831c399e269772661",
                "order",
                "redrive.2c26.0cc175b9c0f1b6a831c399e269772661",
            ),
        ] {
            let row = QueueRow::from(QueueFacts {
                execution: ExecutionId::parse(execution).ok(),
                ..QueueFacts::unknown(QueueName::parse(whole).unwrap(), QueueKind::Delivery)
            });
            assert_eq!(name(&row), shown);
        }
    }

    #[test]
    fn a_finding_stands_alone_where_nothing_else_is_to_be_said() {
        let said = |why: Option<&str>| {
            let facts = QueueFacts {
                why: why.map(|why| Arc::new(why.to_owned())),
                findings: vec![Finding {
                    code: "message_ttl",
                    effect: "what waits is dropped".to_owned(),
                    mend: "take it out of the policy",
                }],
                ..QueueFacts::unknown(QueueName::parse("legacy").unwrap(), QueueKind::Foreign)
            };
            QueueRow::from(facts).says(Timestamp::EPOCH).into_owned()
        };
        assert_eq!(said(None), "! what waits is dropped");
        assert_eq!(
            said(Some("nobody consumes it")),
            "! what waits is dropped · nobody consumes it"
        );
    }
}
