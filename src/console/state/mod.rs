//! Everything the screen shows.

pub mod action;
pub mod at;
pub mod call;
pub mod detail;
pub mod dialog;
pub mod document_form;
pub mod effect;
pub mod event;
pub mod event_rates;
pub mod events;
pub mod feed;
pub mod filter_line;
pub mod health;
pub mod heat;
pub mod help;
pub mod history;
pub(super) mod inquire;
pub mod keymap;
pub mod link;
pub mod lists;
pub mod menu;
pub mod page;
pub mod palette;
pub mod payload;
pub(super) mod pointed;
pub mod policy_form;
pub mod preview;
pub mod profiles;
pub(super) mod relatives;
pub mod saved;
pub(super) mod screen;
pub mod settings;
pub mod tail;
mod title;
pub mod tracks;
pub mod trail;
pub mod verb;
pub mod when_form;

use std::sync::Arc;
use std::time::Duration;

use tui_input::Input;

use crate::console::journal::{Journal, Toast};
use crate::console::state::at::At;
use crate::console::state::call::{Calls, Notify};
use crate::console::state::detail::{Detail, Subject};
use crate::console::state::dialog::{Dialog, Last, Task};
use crate::console::state::document_form::DocumentForm;
use crate::console::state::feed::Listing;
use crate::console::state::filter_line::FilterLine;
use crate::console::state::health::Checked;
use crate::console::state::help::Help;
use crate::console::state::history::History;
use crate::console::state::keymap::Keymap;
use crate::console::state::lists::Lists;
pub use crate::console::state::lists::View;
use crate::console::state::menu::Menu;
use crate::console::state::page::Page;
use crate::console::state::palette::{Lines, Palette, Recent};
use crate::console::state::policy_form::PolicyForm;
use crate::console::state::preview::{Preview, Sides};
use crate::console::state::profiles::Surveyed;
use crate::console::state::saved::NamedViews;
use crate::console::state::settings::{ConsoleSettings, Deliver, Profiles};
use crate::console::state::tracks::Tracks;
use crate::console::state::trail::Trail;
use crate::console::state::when_form::WhenForm;
use crate::console::table::Cursor;
use crate::domain::mask::MaskRules;
use crate::domain::time::Timestamp;
use crate::engine::Access;
use crate::engine::handle::Attached;
use crate::engine::runs::RunView;
use crate::engine::snapshot::{Silent, Snapshot};
use crate::engine::view::Retry;

/// The least size that anything is shown at.
pub const SIZE_MIN: (u16, u16) = (40, 10);
/// The greatest: a terminal may claim any size, and each of its cells is kept twice.
pub const SIZE_MAX: (u16, u16) = (800, 300);
/// Lines of the screen that are not rows of a list: header, tabs, head of the list, its filter, hints.
const LINES_AROUND_A_LIST: u16 = 6;
/// No view has more inside each other than this.
const INSIDE_MAX: usize = 8;
/// Next attempts that can be selected in the overview, at most.
pub(super) const NEXT_MAX: usize = 5;
/// The size until the terminal has said its own.
const SIZE_AT_FIRST: (u16, u16) = (80, 24);

/// What takes the keys.
#[derive(Clone, Debug, Default)]
pub enum Mode {
    /// The view, or the detail when one is open.
    #[default]
    Browse,
    /// The filter line of the view.
    Filter(Box<FilterLine>),
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
    /// What can be done with the row or detail in front.
    Menu(Box<Menu>),
    /// A page that is asked for.
    Page(Page),
    /// Whether to go on with something that leaves this console.
    Question(Box<Question>),
    /// The list of keys.
    Help(Box<Help>),
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

impl Place {
    /// Broker and store, as far as they are known: an attached console knows its daemon before it knows the vhost.
    pub(in crate::console) fn parts(&self) -> Vec<&str> {
        let parts = [self.broker.as_str(), self.store.as_str()];
        parts.into_iter().filter(|part| !part.is_empty()).collect()
    }
}

/// Everything the screen shows. Only [`crate::console::update`] changes it.
#[derive(Clone, Debug)]
pub struct State {
    /// The time of the last event.
    pub now: Timestamp,
    /// The terminal.
    pub terminal: Terminal,
    /// Where this console is, and what it may do.
    pub session: Session,
    /// What was read.
    pub data: Data,
    /// What is in front.
    pub nav: Navigation,
    /// The lists of all views.
    pub lists: Lists,
    /// What takes the keys, and what was pressed.
    pub input: InputState,
    /// What was asked of the engine.
    pub commands: Commands,
    /// What the console said.
    pub said: Said,
}

/// The terminal.
#[derive(Clone, Debug)]
pub struct Terminal {
    /// Width and height of the terminal in cells.
    pub size: (u16, u16),
    /// Whether the terminal's window has the focus.
    pub focused: bool,
    /// Whether the mouse is wanted.
    pub mouse: bool,
    /// How the operator is called.
    pub notify: Notify,
    /// Whether the title of its window says what is worst.
    pub titles: bool,
    /// The last click on a row, its place and its name: another one soon after opens it.
    pub clicked: Option<(Timestamp, usize, String)>,
}

/// Where this console is, and what it may do.
#[derive(Clone, Debug)]
pub struct Session {
    /// Where this console is.
    pub place: Place,
    /// What the daemon said that this console is attached to.
    pub attached: Option<Attached>,
    /// Who delivers.
    pub work: Work,
    /// The profile in use, and the others.
    pub profiles: Profiles,
    /// The time in which a protected profile can be changed.
    pub window: Window,
    /// Why, for the audit, as the console was told at its start.
    pub reason: Option<String>,
    /// What is masked in payloads and headers.
    pub mask: Arc<MaskRules>,
    /// Views that have a name.
    pub views: NamedViews,
    /// Names of the themes that there are.
    pub themes: Vec<String>,
    /// How often a snapshot is due.
    pub refresh: Duration,
}

/// What was read, and what of it is shown.
#[derive(Clone, Debug)]
pub struct Data {
    /// Whether store and broker are open.
    pub link: Link,
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
    /// When the number of our own dead letters was seen to grow last.
    pub died_at: Option<Timestamp>,
    /// Attempts that this process made since it began.
    pub attempts: Attempts,
    /// How other profiles are, as far as they were asked.
    pub surveyed: Surveyed,
    /// What doctor found last.
    pub checked: Option<Checked>,
}

/// What is in front, and where the operator was.
#[derive(Clone, Debug, Default)]
pub struct Navigation {
    /// Which screen.
    pub view: View,
    /// Open details, the innermost last; empty: the view is in front.
    pub details: Vec<Detail>,
    /// Where the operator was.
    pub trail: Trail,
    /// He moves along it: what is left is noted already.
    pub trail_moved: bool,
    /// First entry of the log that is shown.
    pub log_scroll: usize,
    /// Which of the worst is selected in the overview.
    pub worst: Cursor<Subject>,
    /// What stands beside the list.
    pub preview: Preview,
    /// Where to go once there is something to see.
    pub at: Option<At>,
}

/// What takes the keys, and what was pressed.
#[derive(Clone, Debug)]
pub struct InputState {
    /// What takes the keys.
    pub mode: Mode,
    /// The form that the confirmation in front was asked from: cancelling goes back to it.
    pub behind: Option<Box<Mode>>,
    /// The keys in use.
    pub keymap: Arc<Keymap>,
    /// Keys of a sequence that has begun.
    pub pending_keys: Vec<keybinds::KeyInput>,
    /// When the last key came: keys that come faster than a person types change nothing.
    pub last_key_at: Option<Timestamp>,
    /// How many came like that in a row.
    pub burst: u32,
    /// Lines of the palette.
    pub lines: Lines,
    /// Filters that were kept, whatever their list.
    pub filters: Lines,
    /// What was chosen in the palette lately, the newest first.
    pub recent: Recent,
}

/// What was asked of the engine.
#[derive(Clone, Debug)]
pub struct Commands {
    /// What was asked of the engine and has not ended.
    pub tasks: Vec<Task>,
    /// The number of the next request.
    pub next_request: u64,
    /// What was done last, and what would undo it.
    pub last: Option<Last>,
    /// Runs of which it is not known yet what came of them: begun here and in no snapshot so far, or not read.
    pub begun: Vec<RunView>,
    /// Leaving was asked for while something ran; asked again until then, it is done.
    pub leaving_until: Option<Timestamp>,
}

/// What the console said.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Sentences that pass.
    pub toasts: Vec<Toast>,
    /// Sentences that stay.
    pub journal: Journal,
    /// What the operator is called for.
    pub calls: Calls,
}

/// The time in which a protected profile can be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// It is open until then.
    pub until: Option<Timestamp>,
    /// Why it was opened.
    pub reason: Option<String>,
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

impl Terminal {
    const fn at_first(settings: &ConsoleSettings) -> Self {
        Self {
            size: SIZE_AT_FIRST,
            focused: true,
            mouse: settings.mouse,
            notify: settings.notify,
            titles: settings.titles,
            clicked: None,
        }
    }
}

impl State {
    /// A console whose store and broker are being opened.
    #[must_use]
    pub fn new(settings: &ConsoleSettings, keymap: Arc<Keymap>, now: Timestamp) -> Self {
        let mut place = settings.place.clone();
        if settings.access == Access::ReadOnly && place.read_only.is_none() {
            place.read_only = Some("this console may only look".to_owned());
        }
        let link = Link::Connecting {
            since: now,
            problem: None,
            attempt: 1,
            next_at: now,
        };
        let work = match settings.deliver {
            Deliver::Never => Work::Observes,
            Deliver::Always | Deliver::WhenAlone => Work::StandsBy,
            Deliver::Elsewhere => Work::Delivers,
        };
        let mut state = Self {
            now,
            terminal: Terminal::at_first(settings),
            session: Session {
                place,
                attached: None,
                work,
                profiles: settings.profiles.clone(),
                window: Window::default(),
                reason: settings.reason.clone(),
                mask: Arc::clone(&settings.mask),
                views: settings.views.clone(),
                themes: Vec::new(),
                refresh: settings.refresh,
            },
            data: Data {
                link,
                snapshot: None,
                frozen_at: None,
                held: None,
                history: History::default(),
                tracks: Tracks::default(),
                died_at: None,
                attempts: Attempts::default(),
                surveyed: Surveyed::new(),
                checked: None,
            },
            nav: Navigation::at_first(settings),
            lists: Lists::default(),
            input: InputState {
                mode: Mode::default(),
                behind: None,
                keymap,
                pending_keys: Vec::new(),
                last_key_at: None,
                burst: 0,
                lines: Lines::default(),
                filters: Lines::default(),
                recent: Recent::default(),
            },
            commands: Commands {
                tasks: Vec::new(),
                next_request: 1,
                begun: Vec::new(),
                last: None,
                leaving_until: None,
            },
            said: Said::default(),
        };
        state.lists.tail.mask = Arc::clone(&settings.mask);
        state.resize(SIZE_AT_FIRST);
        state
    }

    /// The view whose keys count: that of the innermost detail, else the one in front.
    #[must_use]
    pub fn focus(&self) -> View {
        match self.nav.details.last().map(|detail| &detail.subject) {
            Some(Subject::Queue(_)) => View::Queues,
            Some(Subject::Endpoint(_)) => View::Endpoints,
            Some(Subject::Policy(_)) => View::Policies,
            Some(Subject::Run(_)) => View::Runs,
            Some(Subject::Letter(_) | Subject::Compared(_)) => View::Dead,
            Some(Subject::Event(_) | Subject::EventType(_)) => View::Events,
            None => self.focus_of_row(),
        }
    }

    /// The overview acts as the list does that the selected row belongs to; without a vhost it has an action of its own.
    fn focus_of_row(&self) -> View {
        let silent = self.data.snapshot.as_ref().and_then(|snapshot| snapshot.silent);
        if self.nav.view != View::Overview || silent == Some(Silent::Vhost) {
            return self.nav.view;
        }
        match self.worst() {
            Some(Subject::Endpoint(_)) => View::Endpoints,
            Some(Subject::Queue(_)) => View::Queues,
            Some(_) | None => self.nav.view,
        }
    }

    /// Another question is asked: those that were under way are answered no more.
    pub(in crate::console) fn forget_questions(&mut self) {
        for feed in self.lists.all_mut().into_iter().filter_map(Listing::feed_mut) {
            feed.asked = None;
        }
    }

    /// Goes to a view.
    pub(in crate::console) fn go(&mut self, view: View) {
        self.nav.view = view;
        self.nav.details.clear();
        self.nav.preview.has_keys = false;
    }

    /// Goes to the top of a view: what was opened inside it is closed, `[` leads back there.
    pub(in crate::console) fn go_to_top(&mut self, view: View) {
        self.go(view);
        let screen = view.screen();
        for _ in 0..INSIDE_MAX {
            if screen.is_inside(&self.lists) {
                screen.close(&mut self.lists);
            }
        }
    }

    /// Rows of a list, lines of a text: what a page is.
    #[must_use]
    pub fn page(&self) -> usize {
        let rows = usize::from(self.terminal.size.1.saturating_sub(LINES_AROUND_A_LIST));
        let parts = if self.sides() == Some(Sides::Below) { 2 } else { 1 };
        (rows / parts).max(1)
    }

    pub(in crate::console) fn resize(&mut self, size: (u16, u16)) {
        self.terminal.size = bounded(size);
        let page = self.page();
        for listing in self.lists.all_mut() {
            listing.list_mut().set_page(page);
        }
    }

    /// What to look at first, the worst in front: endpoints, then queues that stand still by themselves, then what is
    /// tried next.
    #[must_use]
    pub fn worst_of_all(&self) -> Vec<Subject> {
        let Some(snapshot) = &self.data.snapshot else {
            return Vec::new();
        };
        let endpoints = snapshot.worst.endpoints.iter();
        let endpoints = endpoints.map(|row| Subject::Endpoint(row.endpoint.url.clone()));
        let queues = snapshot.worst.queues.iter().map(|row| Subject::Queue(row.name.clone()));
        let next = next_attempts(snapshot).filter_map(|retry| match (&retry.queue, &retry.url) {
            (Some(queue), _) => Some(Subject::Queue(queue.clone())),
            (None, Some(url)) => Some(Subject::Endpoint(url.clone())),
            (None, None) => None,
        });
        endpoints.chain(queues).chain(next).collect()
    }

    /// The one of them that is selected.
    #[must_use]
    pub fn worst(&self) -> Option<Subject> {
        let mut worst = self.worst_of_all();
        let place = self.nav.worst.place.min(worst.len().checked_sub(1)?);
        Some(worst.swap_remove(place))
    }

    /// Selects the one of them at a place.
    pub(in crate::console) fn choose_worst(&mut self, place: usize) {
        let mut worst = self.worst_of_all();
        let Some(last) = worst.len().checked_sub(1) else {
            return;
        };
        self.nav.worst.place = place.min(last);
        self.nav.worst.choose(worst.swap_remove(place.min(last)));
    }

    /// Others are the worst now: the selected one stays selected where it is among them, else the one at its place is.
    pub(in crate::console) fn follow_worst(&mut self) {
        let Some(chosen) = self.nav.worst.id.take() else {
            return;
        };
        let worst = self.worst_of_all();
        let before = self.nav.worst.place;
        let place = if worst.get(before) == Some(&chosen) {
            before
        } else {
            worst.iter().position(|one| *one == chosen).unwrap_or(before)
        };
        self.choose_worst(place);
    }

    /// What is selected stays selected, wherever it goes: something is done with it.
    pub(in crate::console) fn fix_selection(&mut self) {
        if self.nav.view == View::Overview {
            self.choose_worst(self.nav.worst.place);
        } else if let Some(list) = self.list_mut() {
            list.fix_selection();
        }
    }
}

impl Session {
    /// Why nothing can be changed; `None`: it can. No time for changes gives a token more than it has.
    #[must_use]
    pub fn read_only(&self) -> Option<&str> {
        if self.token_only_looks() {
            return Some("this token may only look");
        }
        self.place.read_only.as_deref()
    }

    /// Whether changes can be allowed here, for a time and with a reason.
    #[must_use]
    pub fn can_be_allowed(&self) -> bool {
        self.profiles.window && !self.token_only_looks()
    }

    fn token_only_looks(&self) -> bool {
        self.attached.as_ref().is_some_and(|said| !said.may_change)
    }

    /// Why something is done, for the audit, where that is not said each time.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.window.reason.as_deref().or(self.reason.as_deref())
    }
}

/// As much of a terminal of this size as is painted.
#[must_use]
pub fn bounded((columns, rows): (u16, u16)) -> (u16, u16) {
    (columns.min(SIZE_MAX.0), rows.min(SIZE_MAX.1))
}

impl Navigation {
    fn at_first(settings: &ConsoleSettings) -> Self {
        Self {
            preview: Preview {
                is_off: !settings.preview,
                ..Preview::default()
            },
            at: settings.at.clone(),
            ..Self::default()
        }
    }
}

impl Terminal {
    /// Whether the terminal is too small to show anything; then no key changes anything either.
    #[must_use]
    pub const fn is_too_small(&self) -> bool {
        self.size.0 < SIZE_MIN.0 || self.size.1 < SIZE_MIN.1
    }
}

impl Data {
    /// The newest snapshot, shown or held back.
    #[must_use]
    pub const fn newest(&self) -> Option<&Arc<Snapshot>> {
        match &self.held {
            Some(held) => Some(held),
            None => self.snapshot.as_ref(),
        }
    }
}

/// What is tried next, as far as it can be shown and opened.
pub(in crate::console) fn next_attempts(snapshot: &Snapshot) -> impl Iterator<Item = &Retry> {
    let due = snapshot.retries.iter().map(|retry| &**retry);
    let due = due.filter(|retry| retry.at.is_some() && (retry.queue.is_some() || retry.url.is_some()));
    due.take(NEXT_MAX)
}

/// Processes that deliver and are alive.
#[must_use]
pub(in crate::console) fn delivering(snapshot: &Snapshot) -> usize {
    snapshot
        .incarnations
        .iter()
        .filter(|one| one.alive && one.delivers)
        .count()
}
