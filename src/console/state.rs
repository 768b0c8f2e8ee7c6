//! Everything the screen shows.

use std::sync::Arc;
use std::time::Duration;

use tui_input::Input;

use super::detail::{Detail, Subject};
use super::dialog::{Dialog, Last, Task};
use super::document_form::DocumentForm;
use super::events::EventsView;
use super::feed::{FedList, Feed, FeedQuery};
use super::history::History;
use super::journal::{Journal, Toast};
use super::keymap::Keymap;
use super::palette::{Lines, Palette};
use super::policy_form::PolicyForm;
use super::settings::{ConsoleSettings, Deliver, Profiles};
use super::table::{List, Table};
use super::tracks::Tracks;
use super::trail::Trail;
use super::when_form::WhenForm;
use crate::domain::dead_letter::DeadLetter;
use crate::domain::mask::MaskRules;
use crate::domain::time::Timestamp;
use crate::engine::Access;
use crate::engine::dead::DeadGroup;
use crate::engine::expiring::{ExpiringQueue, SaveRecord};
use crate::engine::policies::PolicyView;
use crate::engine::query::AuditEntry;
use crate::engine::runs::RunView;
use crate::engine::snapshot::{EndpointRow, QueueRow, Snapshot};
use crate::engine::view::Retry;

/// The least size that anything is shown at.
pub const SIZE_MIN: (u16, u16) = (40, 10);
/// Lines of the screen that are not rows of a list: header, tabs, head of the list, its filter, hints.
const LINES_AROUND_A_LIST: u16 = 6;
/// The size until the terminal has said its own.
const SIZE_AT_FIRST: (u16, u16) = (80, 24);

/// One screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum View {
    /// Is anything stuck, since when, how much, better or worse, what next.
    #[default]
    Overview,
    /// Every queue.
    Queues,
    /// Every endpoint, those that are not available first.
    Endpoints,
    /// What is tried when.
    Retries,
    /// What nobody will try again by itself, in groups of what failed alike.
    Dead,
    /// Every retry policy, with its schedule.
    Policies,
    /// What is being done with many messages, and what came of it.
    Runs,
    /// Who did what, why, and with what result.
    Audit,
    /// What was done here and what happened.
    Log,
    /// The event table: types, why events are there, events.
    Events,
    /// Queues that go by themselves, what is lost first in front.
    Expiring,
}

impl View {
    /// In the order of the tabs.
    pub const ALL: [Self; 11] = [
        Self::Overview,
        Self::Queues,
        Self::Endpoints,
        Self::Retries,
        Self::Dead,
        Self::Policies,
        Self::Runs,
        Self::Audit,
        Self::Log,
        Self::Events,
        Self::Expiring,
    ];

    /// What it shows is read from these: what of it cannot be read is said on it. The broker is known by its listing.
    #[must_use]
    pub const fn reads(self) -> &'static [&'static str] {
        match self {
            Self::Overview | Self::Queues | Self::Endpoints | Self::Dead | Self::Expiring => &["broker", "store"],
            Self::Retries | Self::Policies | Self::Runs | Self::Audit | Self::Events => &["store"],
            // This console's own.
            Self::Log => &[],
        }
    }

    /// As written on its tab.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Queues => "Queues",
            Self::Endpoints => "Endpoints",
            Self::Retries => "Retries",
            Self::Dead => "Dead letters",
            Self::Policies => "Policies",
            Self::Runs => "Runs",
            Self::Audit => "Audit",
            Self::Log => "Log",
            Self::Events => "Events",
            Self::Expiring => "Expiring",
        }
    }

    /// The same where there is little room.
    #[must_use]
    pub const fn short_title(self) -> &'static str {
        match self {
            Self::Overview => "Over",
            Self::Endpoints => "Endp",
            Self::Retries => "Retry",
            Self::Policies => "Pol",
            Self::Dead => "Dead",
            Self::Queues => "Queue",
            Self::Events => "Event",
            Self::Expiring => "Exp",
            Self::Runs | Self::Audit | Self::Log => self.title(),
        }
    }
}

/// What takes the keys.
#[derive(Clone, Debug, Default)]
pub enum Mode {
    /// The view, or the detail when one is open.
    #[default]
    Browse,
    /// The filter line of the view.
    Filter(Input),
    /// The line of what is looked for in the payload in front.
    Find(Input),
    /// The form of a policy.
    Policy(Box<PolicyForm>),
    /// The form of a type's metadata or a subscription's options.
    Document(Box<DocumentForm>),
    /// The time that events are due at.
    When(Box<WhenForm>),
    /// A confirmation.
    Dialog(Box<Dialog>),
    /// The line behind `:`.
    Palette(Box<Palette>),
    /// The columns of the list in front; which of them is chosen.
    Columns(usize),
    /// Whether to go on with something that leaves this console.
    Question(Box<Question>),
    /// The list of keys.
    Help {
        /// First line that is shown.
        scroll: usize,
    },
}

/// Something that wants a yes and changes no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What it is about.
    pub title: &'static str,
    /// What to know before. Safe to show.
    pub lines: Vec<String>,
    /// What `y` does, in two or three words.
    pub does: &'static str,
    /// From then on it can be answered.
    pub ready_at: Timestamp,
}

/// Whether store and broker are open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// Being opened.
    Connecting {
        /// Since when.
        since: Timestamp,
        /// Why the last try failed, safe to show.
        problem: Option<String>,
        /// Number of the next try.
        attempt: u32,
        /// When it is made.
        next_at: Timestamp,
    },
    /// Open: the snapshot says how they are.
    Open,
}

/// Who delivers, as far as this process has a part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// This console only observes and commands.
    Observes,
    /// It would deliver and does not at present (another process does, or nothing is open yet).
    StandsBy,
    /// This process delivers.
    Delivers,
}

/// Where this console is: always on the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The profile's label or name; empty without one. Safe to show.
    pub label: String,
    /// The label's colour, as configured: a name or `#rrggbb`.
    pub colour: Option<String>,
    /// `rabbitmq host/vhost`, `embedded`: without credentials, safe to show.
    pub broker: String,
    /// `postgres host/db`, `sqlite path`: without credentials, safe to show.
    pub store: String,
    /// Why nothing can be changed here; `None`: it can.
    pub read_only: Option<String>,
}

/// Everything the screen shows. Only [`super::update`] changes it.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is about something of its own: a view, the terminal, the trail, the mouse"
)]
pub struct State {
    /// Width and height of the terminal in cells.
    pub size: (u16, u16),
    /// The time of the last event.
    pub now: Timestamp,
    /// Where this console is.
    pub place: Place,
    /// How often a snapshot is due.
    pub refresh: Duration,
    /// Whether store and broker are open.
    pub link: Link,
    /// Who delivers.
    pub work: Work,
    /// The newest snapshot; while frozen the one that is kept.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Frozen since then: newer snapshots are counted in the history and not shown.
    pub frozen_at: Option<Timestamp>,
    /// A newer snapshot that came while frozen.
    pub held: Option<Arc<Snapshot>>,
    /// The last hour.
    pub history: History,
    /// The last hour of single queues and endpoints.
    pub tracks: Tracks,
    /// Which screen.
    pub view: View,
    /// What takes the keys.
    pub mode: Mode,
    /// The form that the confirmation in front was asked from: cancelling goes back to it.
    pub behind: Option<Box<Mode>>,
    /// The queues.
    pub queues: Table<QueueRow>,
    /// The endpoints.
    pub endpoints: Table<EndpointRow>,
    /// The retries.
    pub retries: Table<Retry>,
    /// The groups of dead letters.
    pub dead_groups: FedList<DeadGroup>,
    /// The group whose letters are shown; `None`: the groups are.
    pub dead_group: Option<Arc<DeadGroup>>,
    /// Its letters.
    pub dead_letters: FedList<DeadLetter>,
    /// When the number of our own dead letters was seen to grow last.
    pub died_at: Option<Timestamp>,
    /// The runs.
    pub runs: FedList<RunView>,
    /// The retry policies.
    pub policies: FedList<PolicyView>,
    /// The audit.
    pub audit: FedList<AuditEntry>,
    /// The event table.
    pub events: EventsView,
    /// Queues that go by themselves.
    pub expiring: FedList<ExpiringQueue>,
    /// What was saved of them.
    pub saves: FedList<SaveRecord>,
    /// Whether that is in front, instead of the queues.
    pub shows_saves: bool,
    /// First entry of the log that is shown.
    pub log_scroll: usize,
    /// Open details, the innermost last; empty: the view is in front.
    pub details: Vec<Detail>,
    /// What was asked of the engine and has not ended.
    pub tasks: Vec<Task>,
    /// The number of the next request.
    pub next_request: u64,
    /// Sentences that pass.
    pub toasts: Vec<Toast>,
    /// Sentences that stay.
    pub journal: Journal,
    /// The keys in use.
    pub keymap: Arc<Keymap>,
    /// What is masked in payloads and headers.
    pub mask: Arc<MaskRules>,
    /// Keys of a sequence that has begun.
    pub pending_keys: Vec<keybinds::KeyInput>,
    /// Whether the terminal's window has the focus.
    pub focused: bool,
    /// When the last key came: keys that come faster than a person types change nothing.
    pub last_key_at: Option<Timestamp>,
    /// How many came like that in a row.
    pub burst: u32,
    /// Attempts that this process made since it began.
    pub attempts: Attempts,
    /// Leaving was asked for while something ran; asked again until then, it is done.
    pub leaving_until: Option<Timestamp>,
    /// Where the operator was.
    pub trail: Trail,
    /// He moves along it: what is left is noted already.
    pub trail_moved: bool,
    /// Lines of the palette.
    pub lines: Lines,
    /// The profile in use, and the others.
    pub profiles: Profiles,
    /// The time in which a protected profile can be changed.
    pub window: Window,
    /// What was done last, and what would undo it.
    pub last: Option<Last>,
    /// Names of the themes that there are.
    pub themes: Vec<String>,
    /// Which of the worst is selected in the overview.
    pub worst_selected: usize,
    /// Whether the mouse is wanted.
    pub mouse: bool,
    /// The last click on a row, its place and its name: another one soon after opens it.
    pub clicked: Option<(Timestamp, usize, String)>,
}

/// The time in which a protected profile can be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// It is open until then.
    pub until: Option<Timestamp>,
    /// Why nothing can be changed before and after.
    pub closed_because: Option<String>,
}

/// Attempts that were counted as they happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Delivered.
    pub delivered: u64,
    /// Anything else.
    pub failed: u64,
}

impl State {
    /// A console whose store and broker are being opened.
    #[must_use]
    pub fn new(settings: &ConsoleSettings, keymap: Arc<Keymap>, now: Timestamp) -> Self {
        let mut place = settings.place.clone();
        if settings.access == Access::ReadOnly && place.read_only.is_none() {
            place.read_only = Some("this console may only look".to_owned());
        }
        let mut state = Self {
            size: SIZE_AT_FIRST,
            now,
            place,
            refresh: settings.refresh,
            link: Link::Connecting {
                since: now,
                problem: None,
                attempt: 1,
                next_at: now,
            },
            work: match settings.deliver {
                Deliver::Never => Work::Observes,
                Deliver::Always | Deliver::WhenAlone => Work::StandsBy,
                Deliver::Elsewhere => Work::Delivers,
            },
            snapshot: None,
            frozen_at: None,
            held: None,
            history: History::default(),
            tracks: Tracks::default(),
            view: View::default(),
            mode: Mode::default(),
            behind: None,
            queues: Table::default(),
            endpoints: Table::default(),
            retries: Table::default(),
            dead_groups: FedList::default(),
            dead_group: None,
            dead_letters: FedList::default(),
            died_at: None,
            runs: FedList::default(),
            policies: FedList::default(),
            audit: FedList::default(),
            events: EventsView::default(),
            expiring: FedList::default(),
            saves: FedList::default(),
            shows_saves: false,
            log_scroll: 0,
            details: Vec::new(),
            tasks: Vec::new(),
            next_request: 1,
            toasts: Vec::new(),
            journal: Journal::default(),
            keymap,
            mask: Arc::clone(&settings.mask),
            pending_keys: Vec::new(),
            focused: true,
            last_key_at: None,
            burst: 0,
            attempts: Attempts::default(),
            leaving_until: None,
            trail: Trail::default(),
            trail_moved: false,
            lines: Lines::default(),
            profiles: settings.profiles.clone(),
            window: Window::default(),
            last: None,
            themes: Vec::new(),
            worst_selected: 0,
            mouse: settings.mouse,
            clicked: None,
        };
        state.resize(SIZE_AT_FIRST);
        state
    }

    /// The view whose keys count: that of the innermost detail, else the one in front.
    #[must_use]
    pub fn focus(&self) -> View {
        match self.details.last().map(|detail| &detail.subject) {
            Some(Subject::Queue(_)) => View::Queues,
            Some(Subject::Endpoint(_)) => View::Endpoints,
            Some(Subject::Policy(_)) => View::Policies,
            Some(Subject::Run(_)) => View::Runs,
            Some(Subject::Letter(_)) => View::Dead,
            Some(Subject::Event(_) | Subject::EventType(_)) => View::Events,
            None => self.view,
        }
    }

    /// The list in front; `None` in a view without one.
    #[must_use]
    pub fn list(&self) -> Option<&dyn List> {
        match self.view {
            View::Queues => Some(&self.queues),
            View::Endpoints => Some(&self.endpoints),
            View::Retries => Some(&self.retries),
            View::Dead if self.dead_group.is_some() => Some(&self.dead_letters.table),
            View::Dead => Some(&self.dead_groups.table),
            View::Policies => Some(&self.policies.table),
            View::Runs => Some(&self.runs.table),
            View::Audit => Some(&self.audit.table),
            View::Events => Some(self.events.list()),
            View::Expiring if self.shows_saves => Some(&self.saves.table),
            View::Expiring => Some(&self.expiring.table),
            View::Overview | View::Log => None,
        }
    }

    /// How the list in front is fed; `None` for one that the snapshot has.
    #[must_use]
    pub const fn feed(&self) -> Option<&Feed> {
        match self.view {
            View::Dead if self.dead_group.is_some() => Some(&self.dead_letters.feed),
            View::Dead => Some(&self.dead_groups.feed),
            View::Policies => Some(&self.policies.feed),
            View::Runs => Some(&self.runs.feed),
            View::Audit => Some(&self.audit.feed),
            View::Events => Some(self.events.feed()),
            View::Expiring if self.shows_saves => Some(&self.saves.feed),
            // The overview says what is lost next.
            View::Expiring | View::Overview => Some(&self.expiring.feed),
            View::Queues | View::Endpoints | View::Retries | View::Log => None,
        }
    }

    pub(super) const fn feed_mut(&mut self) -> Option<&mut Feed> {
        match self.view {
            View::Dead if self.dead_group.is_some() => Some(&mut self.dead_letters.feed),
            View::Dead => Some(&mut self.dead_groups.feed),
            View::Policies => Some(&mut self.policies.feed),
            View::Runs => Some(&mut self.runs.feed),
            View::Audit => Some(&mut self.audit.feed),
            View::Events => Some(self.events.feed_mut()),
            View::Expiring if self.shows_saves => Some(&mut self.saves.feed),
            View::Expiring | View::Overview => Some(&mut self.expiring.feed),
            View::Queues | View::Endpoints | View::Retries | View::Log => None,
        }
    }

    /// Another question is asked: those that were under way are answered no more.
    pub(super) fn forget_questions(&mut self) {
        let feeds = [
            &mut self.audit.feed,
            &mut self.policies.feed,
            &mut self.runs.feed,
            &mut self.dead_groups.feed,
            &mut self.dead_letters.feed,
            &mut self.events.types.feed,
            &mut self.events.groups.feed,
            &mut self.events.events.feed,
            &mut self.expiring.feed,
            &mut self.saves.feed,
        ];
        for feed in feeds {
            feed.asked = None;
        }
    }

    /// How the list of this question is fed, in front or not.
    pub(super) const fn feed_of_mut(&mut self, query: &FeedQuery) -> &mut Feed {
        match query {
            FeedQuery::Audit { .. } => &mut self.audit.feed,
            FeedQuery::Policies => &mut self.policies.feed,
            FeedQuery::Runs { .. } => &mut self.runs.feed,
            FeedQuery::DeadGroups { .. } => &mut self.dead_groups.feed,
            FeedQuery::DeadLetters { .. } => &mut self.dead_letters.feed,
            FeedQuery::EventTypes => &mut self.events.types.feed,
            FeedQuery::EventGroups { .. } => &mut self.events.groups.feed,
            FeedQuery::Events { .. } => &mut self.events.events.feed,
            FeedQuery::Expiring => &mut self.expiring.feed,
            FeedQuery::Saves { .. } => &mut self.saves.feed,
        }
    }

    pub(super) fn list_mut(&mut self) -> Option<&mut dyn List> {
        match self.view {
            View::Queues => Some(&mut self.queues),
            View::Endpoints => Some(&mut self.endpoints),
            View::Retries => Some(&mut self.retries),
            View::Dead if self.dead_group.is_some() => Some(&mut self.dead_letters.table),
            View::Dead => Some(&mut self.dead_groups.table),
            View::Policies => Some(&mut self.policies.table),
            View::Runs => Some(&mut self.runs.table),
            View::Audit => Some(&mut self.audit.table),
            View::Events => Some(self.events.list_mut()),
            View::Expiring if self.shows_saves => Some(&mut self.saves.table),
            View::Expiring => Some(&mut self.expiring.table),
            View::Overview | View::Log => None,
        }
    }

    /// Whether the terminal is too small to show anything; then no key changes anything either.
    #[must_use]
    pub const fn is_too_small(&self) -> bool {
        self.size.0 < SIZE_MIN.0 || self.size.1 < SIZE_MIN.1
    }

    /// Rows of a list, lines of a text: what a page is.
    #[must_use]
    pub fn page(&self) -> usize {
        usize::from(self.size.1.saturating_sub(LINES_AROUND_A_LIST)).max(1)
    }

    pub(super) fn resize(&mut self, size: (u16, u16)) {
        self.size = size;
        let page = self.page();
        self.queues.set_page(page);
        self.endpoints.set_page(page);
        self.retries.set_page(page);
        self.dead_groups.table.set_page(page);
        self.dead_letters.table.set_page(page);
        self.runs.table.set_page(page);
        self.policies.table.set_page(page);
        self.audit.table.set_page(page);
        self.events.types.table.set_page(page);
        self.events.groups.table.set_page(page);
        self.events.events.table.set_page(page);
        self.expiring.table.set_page(page);
        self.saves.table.set_page(page);
    }

    /// What to look at first, the worst in front: endpoints, then queues that stand still by themselves.
    #[must_use]
    pub fn worst_of_all(&self) -> Vec<Subject> {
        let Some(snapshot) = &self.snapshot else {
            return Vec::new();
        };
        let endpoints = snapshot.worst.endpoints.iter();
        let endpoints = endpoints.map(|row| Subject::Endpoint(row.endpoint.url.clone()));
        let queues = snapshot.worst.queues.iter().map(|row| Subject::Queue(row.name.clone()));
        endpoints.chain(queues).collect()
    }

    /// The one of them that is selected.
    #[must_use]
    pub fn worst(&self) -> Option<Subject> {
        let mut worst = self.worst_of_all();
        let place = self.worst_selected.min(worst.len().checked_sub(1)?);
        Some(worst.swap_remove(place))
    }

    /// The newest snapshot, shown or held back.
    #[must_use]
    pub const fn newest(&self) -> Option<&Arc<Snapshot>> {
        match &self.held {
            Some(held) => Some(held),
            None => self.snapshot.as_ref(),
        }
    }
}

impl Place {
    /// Whether anything can be changed from here.
    #[must_use]
    pub const fn can_write(&self) -> bool {
        self.read_only.is_none()
    }
}
