//! Dead letters: the groups of those that failed alike, and the letters of the one that was opened.
//!
//! ```text
//!    Letters ▼  What            Where                      Last         Trend
//!  ▌      412   status 422      billing.example/events/v2  12 s ago     ▲ 40 / h
//!          11   rejected        orders                     3h02m ago    · 0 / h
//!  412 letters: status 422 at billing.example/events/v2, the first 2d04h ago; Enter shows them
//!  1–2 of 2 · looking through dead.orders: 12,000 of 50,000
//! ```

mod feed;

use std::borrow::Cow;
use std::cmp::Ordering;

use ratatui::layout::{Position, Rect};

use crate::console::state::action::Action;
use crate::console::state::detail::Subject;
use crate::console::state::feed::{FeedQuery, Listing};
use crate::console::state::lists::Lists;
use crate::console::state::relatives::{self, Relatives};
use crate::console::state::screen::{About, Screen, Selection};
use crate::console::state::{State, View};
use crate::console::table::ColumnWidth::Fixed;
use crate::console::table::export::{self, Record};
use crate::console::table::{Column, Filtering as _, Row, key};
use crate::console::theme::Role;
use crate::console::views::endpoints::status_role;
use crate::console::views::list::{self, Cell, Listed, OUTSIDE_MAX};
use crate::console::views::{command_words, filtered};
use crate::console::widgets::canvas::{Canvas, below, row};
use crate::console::widgets::words::{self, ago, count, plural, size, until};
use crate::domain::dead_letter::{DeadLetter, DeadLetterId};
use crate::domain::filter::{Field, FieldValue};
use crate::domain::id::QueueName;
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::domain::url::redact_urls;
use crate::engine::dead::DeadGroup;
use crate::engine::snapshot::{DEAD_FIELDS, Snapshot};
use crate::wire;

/// Where words are looked for, in groups as in letters: an opened group has the letters that its row counted.
const SEARCHED: &[&str] = &[
    "begins",
    "message",
    "execution",
    "origin",
    "queue",
    "url",
    "reason",
    "error",
    "place",
    "what",
];

/// The view.
pub(super) struct Dead;

static ABOUT: About = About {
    title: "Dead letters",
    short_title: "Dead",
    reads: &["broker", "store"],
    go: Action::new("dead_letters", "dead letters", &["5"])
        .help("Go to the dead letters, in groups of those that failed alike.")
        .turns(|state| state.go_to_top(View::Dead)),
};

impl Screen for Dead {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn listing<'a>(&self, lists: &'a Lists) -> Option<&'a dyn Listing> {
        match lists.dead.open {
            Some(_) => Some(&lists.dead.letters),
            None => Some(&lists.dead.groups),
        }
    }

    fn listing_mut<'a>(&self, lists: &'a mut Lists) -> Option<&'a mut dyn Listing> {
        match lists.dead.open {
            Some(_) => Some(&mut lists.dead.letters),
            None => Some(&mut lists.dead.groups),
        }
    }

    fn asks(&self, lists: &Lists) -> Option<FeedQuery> {
        let dead = &lists.dead;
        Some(match &dead.open {
            None => FeedQuery {
                filter: dead.groups.table.filter.written(),
                ..FeedQuery::all(&feed::GROUPS)
            },
            Some(group) => FeedQuery {
                of: Some(group.fingerprint.clone()),
                filter: dead.letters.table.filter.written(),
                ..FeedQuery::first(&feed::LETTERS, dead.letters.feed.limit)
            },
        })
    }

    fn paint(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
        let Some(group) = &state.lists.dead.open else {
            return list::paint(canvas, area, state, &state.lists.dead.groups.table);
        };
        let title = format!(
            " {} at {}",
            show(&group.what, OUTSIDE_MAX),
            show(&group.place, OUTSIDE_MAX)
        );
        // The list below says how many there are now, unless there are more than it asked for.
        let opened = if state.lists.dead.letters.feed.more {
            format!(" · {} when it was opened", plural(group.count, "letter", "letters"))
        } else {
            String::new()
        };
        let pieces = [
            (title.as_str(), Role::Title),
            (&opened, Role::Text),
            (" · Esc shows all groups", Role::TextMuted),
        ];
        canvas.pieces(row(area, 0), &pieces);
        list::paint(canvas, below(area, 1), state, &state.lists.dead.letters.table)
    }

    fn glance(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) {
        let dead = &state.lists.dead;
        if dead.open.is_some() {
            let more = "Tab reads the message: payload, headers, where it died.";
            list::glance(canvas, area, state, &dead.letters.table, more);
        } else {
            list::glance(canvas, area, state, &dead.groups.table, "Enter shows the letters.");
        }
    }

    fn badge(&self, _: &State, snapshot: &Snapshot) -> String {
        match snapshot.totals.dead.letters {
            Some(0) => String::new(),
            Some(dead) => format!(" {}", count(dead)),
            None => " ?".to_owned(),
        }
    }

    fn alarm(&self, badge: &str) -> String {
        badge.trim_start().to_owned()
    }
}

impl Selection for Dead {
    // Reading a message takes it into hand, and all before it: not for every row that is selected.
    fn beside(&self, state: &State) -> Option<Subject> {
        let dead = &state.lists.dead;
        let row = dead.letters.table.selected_row().filter(|_| dead.open.is_some());
        row.map(|row| Subject::Letter(row.id.as_str().to_owned()))
    }

    fn open(&self, state: &mut State) -> Option<Subject> {
        let page = state.page();
        let dead = &mut state.lists.dead;
        if dead.open.is_some() {
            let row = dead.letters.table.selected_row();
            return row.map(|row| Subject::Letter(row.id.as_str().to_owned()));
        }
        if let Some(group) = dead.groups.table.selected_row().cloned() {
            dead.set(Some(group), page);
            // The row counted what the filter leaves of it: that is what is shown.
            let filter = dead.groups.table.filter.text.clone();
            dead.letters.table.filter_write(&filter);
            dead.letters.table.filter_keep();
        }
        None
    }

    fn is_inside(&self, lists: &Lists) -> bool {
        lists.dead.open.is_some()
    }

    fn close(&self, lists: &mut Lists) {
        lists.dead.open = None;
    }

    fn name(&self, state: &State) -> Option<String> {
        let dead = &state.lists.dead;
        if dead.open.is_some() {
            let row = dead.letters.table.selected_row();
            return row.map(|row| row.id.as_str().to_owned());
        }
        let row = dead.groups.table.selected_row();
        row.map(|row| row.fingerprint.clone())
    }

    fn relatives(&self, state: &State) -> Option<Relatives> {
        let dead = &state.lists.dead;
        if dead.open.is_some() {
            let row = dead.letters.table.selected_row();
            return row.map(|row| relatives::of_letter(row));
        }
        let row = dead.groups.table.selected_row()?;
        Some(Relatives {
            group: Some(row.fingerprint.clone()),
            queue: QueueName::parse(&row.place).ok(),
            ..Relatives::default()
        })
    }

    fn command(&self, state: &State) -> Option<Vec<String>> {
        let filter = state.list().and_then(filtered).unwrap_or_default();
        let (words, group) = match &state.lists.dead.open {
            Some(group) => ("dead list --group", vec![group.fingerprint.clone()]),
            None => ("dead groups", Vec::new()),
        };
        Some([command_words(words), group, filter].concat())
    }
}

impl Row for DeadGroup {
    type Id = String;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("count", "Letters", Fixed(9), 0, |row: &Self| {
            key::count(Some(row.count))
        })
        .count(),
        Column::new("what", "What", key::fill(18, 2), 0, |row| key::text(Some(&row.what))),
        Column::new("place", "Where", key::fill(20, 3), 0, |row| key::text(Some(&row.place))),
        Column::new("last", "Last", Fixed(11), 1, |row: &Self| key::time(row.last_failed_at))
            .time()
            .greatest_first(),
        Column::new("trend", "Trend", Fixed(12), 2, |row: &Self| {
            key::count(Some(row.recent))
        })
        .count(),
        Column::new("first", "First", Fixed(11), 3, |row: &Self| {
            key::time(row.first_failed_at)
        })
        .time(),
        Column::new("fingerprint", "Fingerprint", Fixed(16), 4, |row| {
            key::text(Some(&row.fingerprint))
        }),
    ];
    const FIELDS: &'static [Field] = DEAD_FIELDS;
    const SEARCHED: &'static [&'static str] = SEARCHED;
    const FILTERED_BEFORE: bool = true;

    fn id(&self) -> String {
        self.fingerprint.clone()
    }

    fn tie(&self, other: &Self) -> Ordering {
        let newest = other.last_failed_at.cmp(&self.last_failed_at);
        newest.then_with(|| self.fingerprint.cmp(&other.fingerprint))
    }

    /// The engine filters them.
    fn field(&self, _: &str, _: Timestamp) -> FieldValue<'_> {
        FieldValue::Missing
    }

    fn record(&self, _: Timestamp) -> Record {
        export::of(&wire::dead::Group::from(self))
    }
}

impl Row for DeadLetter {
    type Id = DeadLetterId;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("last", "Died", Fixed(11), 0, |row: &Self| key::time(row.last_failed_at))
            .time()
            .greatest_first(),
        Column::new("reason", "Reason", Fixed(12), 2, |row| key::text(Some(&row.reason))),
        Column::new("status", "Status", Fixed(6), 3, |row: &Self| {
            key::count(row.status.map(u64::from))
        })
        .count(),
        Column::new("origin", "Origin", key::fill(18, 3), 0, |row| {
            key::text(row.origin.as_deref())
        }),
        Column::new("message", "Message", key::fill(12, 2), 1, |row| {
            key::text(row.message_id.as_deref())
        }),
        Column::new("begins", "Payload", key::fill(20, 4), 0, |row| {
            key::text(row.begins.as_deref())
        }),
        Column::new("attempts", "Tried", Fixed(6), 3, |row: &Self| key::count(row.attempts)).count(),
        Column::new("redriven", "Redriven", Fixed(8), 3, |row: &Self| {
            key::count(Some(row.redriven.into()))
        })
        .count(),
        Column::new("left", "Dropped", Fixed(9), 4, |row: &Self| key::time(row.expires_at)).time(),
        Column::new("queue", "In", key::fill(14, 1), 5, |row| {
            key::text(Some(row.queue.as_str()))
        }),
        Column::new("size", "Size", Fixed(9), 6, |row: &Self| {
            key::count(Some(row.size_bytes))
        })
        .count(),
        Column::new("error", "Error", key::fill(20, 4), 7, |row| {
            key::text(row.error.as_deref())
        }),
    ];
    const FIELDS: &'static [Field] = DEAD_FIELDS;
    const SEARCHED: &'static [&'static str] = SEARCHED;
    const FILTERED_BEFORE: bool = true;

    fn id(&self) -> DeadLetterId {
        self.id.clone()
    }

    fn tie(&self, other: &Self) -> Ordering {
        let newest = other.last_failed_at.cmp(&self.last_failed_at);
        newest.then_with(|| self.id.cmp(&other.id))
    }

    /// The engine filters them.
    fn field(&self, _: &str, _: Timestamp) -> FieldValue<'_> {
        FieldValue::Missing
    }

    fn record(&self, _: Timestamp) -> Record {
        export::of(&wire::dead::DeadLetter::from(self))
    }
}

impl Listed for DeadGroup {
    const MANY: &'static str = "groups of dead letters";
    const WHEN_NONE: &'static str = "Nothing died: what is refused or exhausted by its policy would be here.";
    const SAID_BY: &'static str = "fingerprint";

    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_> {
        match column {
            "count" => Cell::new(count(self.count), Role::Bad),
            "what" => Cell::new(&*self.what, Role::Text),
            "place" => Cell::place(&*self.place),
            "last" => Cell::or_none(self.last_failed_at.map(|at| ago(now, at)), Role::Warning),
            "first" => Cell::or_none(self.first_failed_at.map(|at| ago(now, at)), Role::TextMuted),
            "trend" => trend(self),
            "fingerprint" => Cell::new(&*self.fingerprint, Role::TextMuted),
            _ => Cell::new("", Role::Text),
        }
    }

    fn says(&self, _: Timestamp) -> Cow<'_, str> {
        Cow::Owned(format!(
            "{}: {} at {}; Enter shows them, R redrives them",
            plural(self.count, "letter", "letters"),
            show(&self.what, OUTSIDE_MAX),
            show(&self.place, OUTSIDE_MAX)
        ))
    }
}

/// How many came in the last hour, and whether that is more than in the hour before.
fn trend(group: &DeadGroup) -> Cell<'static> {
    let (symbol, role) = match group.recent.cmp(&group.before) {
        std::cmp::Ordering::Greater => ('▲', Role::Bad),
        std::cmp::Ordering::Less => ('▼', Role::Good),
        std::cmp::Ordering::Equal => ('·', Role::TextMuted),
    };
    Cell::new(format!("{symbol} {} / h", count(group.recent)), role)
}

impl Listed for DeadLetter {
    const MANY: &'static str = "dead letters";
    const WHEN_NONE: &'static str = "The group is empty: its letters were redriven, discarded or dropped.";
    const SAID_BY: &'static str = "error";

    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_> {
        match column {
            "last" => Cell::or_none(self.last_failed_at.map(|at| ago(now, at)), Role::Text),
            "reason" => Cell::new(&*self.reason, Role::Bad),
            "status" => Cell::or_none(self.status.map(|status| status.to_string()), status_role(self.status)),
            "origin" => Cell::or_none(self.origin.as_deref(), Role::Text),
            "message" => Cell::or_none(self.message_id.as_deref(), Role::TextMuted),
            "begins" => Cell::or_none(self.begins.as_deref(), Role::Text),
            "attempts" => Cell::or_none(self.attempts.map(count), Role::TextMuted),
            "redriven" => redriven(self.redriven),
            "left" => Cell::or_none(self.expires_at.map(|at| until(now, at)), Role::Warning),
            "queue" => Cell::new(self.queue.as_str(), Role::TextMuted),
            "size" => Cell::new(
                size(usize::try_from(self.size_bytes).unwrap_or(usize::MAX)),
                Role::TextMuted,
            ),
            "error" => Cell::or_none(self.error.as_deref(), Role::Text),
            _ => Cell::new("", Role::Text),
        }
    }

    fn says(&self, _: Timestamp) -> Cow<'_, str> {
        let error = self
            .error
            .as_deref()
            .map(|error| format!(": {}", show(error, OUTSIDE_MAX)));
        let url = self
            .url
            .as_deref()
            .map(|url| format!(" at {}", show(&redact_urls(url), OUTSIDE_MAX)));
        Cow::Owned(format!(
            "{}{}{}",
            show(&self.reason, OUTSIDE_MAX),
            url.unwrap_or_default(),
            error.unwrap_or_default()
        ))
    }
}

fn redriven(times: u32) -> Cell<'static> {
    match times {
        0 => Cell::new(words::NONE, Role::TextMuted),
        // It died again: a redrive of everything leaves it out.
        times => Cell::new(format!("! {times}×"), Role::Critical),
    }
}
