//! What an action is: a row that says all of itself. The rows stand in `actions`, by what they are about.
//!
//! A key that changes something is a capital letter, never Ctrl with R, D, K or W, and never a key
//! that scrolls somewhere else. An action that is not possible at present stays visible with the reason.

use std::borrow::Cow;

use crossterm::event::KeyCode;

use crate::console::state::dialog::{Asked, Task};
use crate::console::state::effect::Effect;
use crate::console::state::{Link, State, View};
use crate::console::table::End;

/// Why something is not possible, in an operator's words.
pub type Reason = Cow<'static, str>;

/// Whether something is possible, or why not.
pub type Possible = Result<(), Reason>;

/// Names of actions that other code speaks of: to show their keys, or to ask for their confirmation.
pub mod named {
    /// Make endpoints available and go on.
    pub const REDELIVER: &str = "redeliver";
    /// The list of what can be done with the row.
    pub const MENU: &str = "actions";
    /// Make the vhost of the configuration.
    pub const MAKE_VHOST: &str = "make_vhost";
    /// Undo what was done last.
    pub const UNDO: &str = "undo";
    /// Write a retry policy.
    pub const EDIT_POLICY: &str = "edit_policy";
    /// Show a payload in another form.
    pub const PAYLOAD_FORM: &str = "payload_form";
    /// Send something else instead of a dead letter.
    pub const EDIT_LETTER: &str = "edit_letter";
    /// Stop a run after what is in hand.
    pub const PAUSE_RUN: &str = "pause_run";
    /// Let a run go on.
    pub const RESUME_RUN: &str = "resume_run";
    /// End a run.
    pub const CANCEL_RUN: &str = "cancel_run";
    /// Make events due at a time.
    pub const RESCHEDULE_EVENTS: &str = "reschedule_events";
    /// Write the metadata of a type, or the options of a subscription.
    pub const EDIT_TYPE: &str = "edit_type";
    /// Send the events of a type to a URL.
    pub const SUBSCRIBE: &str = "subscribe";
    /// Close what is open.
    pub const BACK: &str = "back";
    /// Open the detail of the selected row.
    pub const OPEN: &str = "open";
    /// Look at the first messages of a queue.
    pub const BROWSE: &str = "browse";
    /// Show what is masked.
    pub const REVEAL: &str = "reveal";
    /// The next place of what is looked for.
    pub const NEXT_MATCH: &str = "next_match";
    /// The place before.
    pub const PREVIOUS_MATCH: &str = "previous_match";
    /// The line that finds and does anything by its name.
    pub const PALETTE: &str = "palette";
    /// Open the window in which a protected profile can be changed, or close it.
    pub const ALLOW_CHANGES: &str = "allow_changes";
    /// Leave.
    pub const QUIT: &str = "quit";
}

/// A row of the table of actions.
#[derive(Clone, Copy, Debug)]
pub struct Action {
    /// Its name in the configuration (`console.keys`) and in the documentation.
    pub name: &'static str,
    /// Two or three words for the hint bar.
    pub title: &'static str,
    /// One sentence for the help.
    pub help: &'static str,
    /// Keys as the configuration writes them (`R`, `Ctrl+z`, `PageUp`); the first is the one shown.
    pub keys: &'static [&'static str],
    /// Where it is offered.
    pub context: Context,
    /// What it changes.
    pub changes: Changes,
    /// Whether it is possible now, apart from what holds for all that changes something.
    pub when: fn(&State) -> Possible,
    /// What it begins.
    pub begin: Begin,
    /// How it is confirmed and reported, where it changes something.
    pub confirm: Confirm,
    /// What else is particular about it.
    pub also: &'static [Also],
}

/// What a key begins.
#[derive(Clone, Copy, Debug)]
pub enum Begin {
    /// Moves the selection, or what is read.
    Move(Move),
    /// Changes the screen.
    Turn(fn(&mut State)),
    /// Changes the screen, and may ask for something.
    Do(fn(&mut State) -> Vec<Effect>),
    /// Freezes what it is about; that is planned, confirmed, and done.
    Plan(fn(&State) -> Result<Asked, Reason>),
    /// Asks for more before it is planned: a form, an editor. It is told the key.
    Form(fn(&mut State, KeyCode) -> Vec<Effect>),
}

/// How far a key moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// By rows.
    Rows(isize),
    /// By pages.
    Pages(isize),
    /// To an end.
    To(End),
}

/// How much an action can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Nothing.
    Nothing,
    /// Something that can be undone: planned, confirmed, executed.
    Reversible,
    /// Messages are lost.
    Destroys,
}

/// Where an action is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// Everywhere.
    Everywhere,
    /// In these views and in the details of their rows.
    Views(&'static [View]),
    /// In every view that lists rows.
    Listing,
    /// In every view whose rows can be marked.
    Marking,
    /// In every view where Enter opens something.
    Opening,
}

/// How an action is confirmed and reported.
#[derive(Clone, Copy, Debug)]
pub struct Confirm {
    /// What the confirmation counts and shows.
    pub shows: Shows,
    /// What was done, in one sentence, where all of it ended well.
    pub report: fn(&Task) -> String,
}

/// What a confirmation counts and shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// Messages and targets.
    Targets,
    /// Messages and lines of a policy.
    Policy,
    /// Messages and lines of a message, masked as it is where it came from.
    Message,
    /// Events.
    Events,
    /// The keys of a document that change; no event does.
    Document,
    /// That no event changes.
    Subscription,
}

/// What is particular about an action.
#[derive(Clone, Copy, Debug)]
pub enum Also {
    /// The hint bar has it, where it is possible.
    Hinted,
    /// Before other actions where this holds: it is what one comes for.
    Likely(fn(&State) -> bool),
    /// Behind other actions, or among them where it is likely: it is about more than one row.
    Wide,
    /// The menu of what can be done with a row has it, although it changes nothing.
    OfRow,
    /// It stands in the corner of the hint bar, whatever else has room.
    Corner,
    /// It is possible on a screen that is too small to show anything.
    Blind,
    /// The audit has to know of it: a person has to press the key.
    Audited,
    /// A token needs the scope `admin` for it.
    Administers,
    /// It says nothing where it is not possible.
    Silent,
    /// Pressed for one row it is done without a further key: it changes nothing that waits. A click asks all the same.
    AtOnce,
    /// Another title where the operator is.
    Called(fn(&State) -> Option<&'static str>),
    /// What accepting is called, and what cancelling, where its title would be read as the other answer.
    Answers(&'static str, &'static str),
}

/// Actions that belong together, for the help and the documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// What they have in common.
    pub title: &'static str,
    /// They, in the order of the hint bar.
    pub actions: Vec<&'static Action>,
}

/// What the hint bar shows of an action.
#[derive(Clone, Debug)]
pub struct Hint {
    /// Which action.
    pub action: &'static Action,
    /// Two or three words for it, here.
    pub title: &'static str,
    /// Its first key, as it is shown.
    pub key: String,
    /// Whether it does something with what is selected; else it only goes or looks elsewhere.
    pub acts: bool,
}

/// What stands for a name that no action has; a test says that there is none.
pub(in crate::console) static NONE: Action = Action::new("", "", &[]);

impl PartialEq for Action {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Action {}

impl Action {
    /// An action that is offered everywhere and does nothing.
    #[must_use]
    pub const fn new(name: &'static str, title: &'static str, keys: &'static [&'static str]) -> Self {
        Self {
            name,
            title,
            help: "",
            keys,
            context: Context::Everywhere,
            changes: Changes::Nothing,
            when: |_| Ok(()),
            begin: Begin::Turn(|_| {}),
            confirm: Confirm {
                shows: Shows::Targets,
                report: |task| task.action.title.to_owned(),
            },
            also: &[],
        }
    }

    pub(in crate::console) const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    /// Possible where this is.
    pub(in crate::console) const fn when(self, when: fn(&State) -> Possible) -> Self {
        Self { when, ..self }
    }

    /// Offered there.
    pub(in crate::console) const fn within(self, context: Context) -> Self {
        Self { context, ..self }
    }

    /// Changes something that is offered there.
    pub(in crate::console) const fn changes(self, context: Context) -> Self {
        Self {
            context,
            changes: Changes::Reversible,
            ..self
        }
    }

    /// Loses messages that are offered there.
    pub(in crate::console) const fn destroys(self, context: Context) -> Self {
        Self {
            context,
            changes: Changes::Destroys,
            ..self
        }
    }

    pub(in crate::console) const fn moves(self, by: Move) -> Self {
        Self {
            begin: Begin::Move(by),
            ..self
        }
    }

    pub(in crate::console) const fn turns(self, turn: fn(&mut State)) -> Self {
        Self {
            begin: Begin::Turn(turn),
            ..self
        }
    }

    pub(in crate::console) const fn does(self, does: fn(&mut State) -> Vec<Effect>) -> Self {
        Self {
            begin: Begin::Do(does),
            ..self
        }
    }

    pub(in crate::console) const fn plans(self, freeze: fn(&State) -> Result<Asked, Reason>) -> Self {
        Self {
            begin: Begin::Plan(freeze),
            ..self
        }
    }

    pub(in crate::console) const fn opens_form(self, open: fn(&mut State, KeyCode) -> Vec<Effect>) -> Self {
        Self {
            begin: Begin::Form(open),
            ..self
        }
    }

    pub(in crate::console) const fn shows(self, shows: Shows) -> Self {
        Self {
            confirm: Confirm { shows, ..self.confirm },
            ..self
        }
    }

    pub(in crate::console) const fn reports(self, report: fn(&Task) -> String) -> Self {
        Self {
            confirm: Confirm { report, ..self.confirm },
            ..self
        }
    }

    pub(in crate::console) const fn also(self, also: &'static [Also]) -> Self {
        Self { also, ..self }
    }

    pub(in crate::console) const fn hinted(self) -> Self {
        self.also(&[Also::Hinted])
    }

    /// The hint bar has it where the token has the scope `admin`.
    pub(in crate::console) const fn administers(self) -> Self {
        self.also(&[Also::Hinted, Also::Administers])
    }

    /// Whether it changes something.
    #[must_use]
    pub fn mutates(&self) -> bool {
        self.changes != Changes::Nothing
    }

    /// Whether it is possible now, or why not. Asked with every frame: no action looks at more than a row.
    ///
    /// # Errors
    /// Why it is not.
    pub fn possible(&self, state: &State) -> Possible {
        self.permitted(state)?;
        (self.when)(state)
    }

    /// Whether who is here may do it, wherever he is.
    ///
    /// # Errors
    /// Why he may not.
    pub(in crate::console) fn permitted(&self, state: &State) -> Possible {
        if self.mutates() {
            writable(state)?;
        }
        let attached = state.session.attached.as_ref();
        if self.has(|also| matches!(also, Also::Administers)) && attached.is_some_and(|said| !said.may_administer) {
            return Err("this token lacks the scope \"admin\": attach with one that has it (api.tokens)".into());
        }
        Ok(())
    }

    /// Its title where the operator is: the same key may find in one place what it filters in another.
    #[must_use]
    pub fn title_in(&self, state: &State) -> &'static str {
        let called = self.also.iter().find_map(|also| {
            let Also::Called(called) = also else { return None };
            called(state)
        });
        called.unwrap_or(self.title)
    }

    /// What accepting and cancelling are called in its confirmation.
    #[must_use]
    pub fn answers(&self) -> (&'static str, &'static str) {
        let answers = self.also.iter().find_map(|also| {
            let Also::Answers(accept, cancel) = also else {
                return None;
            };
            Some((*accept, *cancel))
        });
        answers.unwrap_or((self.title, "cancel"))
    }

    /// Whether the hint bar has it.
    #[must_use]
    pub fn is_hinted(&self) -> bool {
        self.has(|also| matches!(also, Also::Hinted)) || self.is_in_corner()
    }

    /// Whether it does something with what is selected, which other rows may not have.
    #[must_use]
    pub fn acts(&self) -> bool {
        self.mutates() || matches!(self.context, Context::Views(_))
    }

    /// Its place among what is possible: lower is more likely.
    fn rank(&self, state: &State) -> u8 {
        let is_likely = |also: &Also| matches!(also, Also::Likely(likely) if likely(state));
        match (self.has(is_likely), self.has(|also| matches!(also, Also::Wide))) {
            (true, false) => 0,
            (true, true) | (false, false) => 1,
            (false, true) => 2,
        }
    }

    /// Whether it stands in the corner of the hint bar.
    #[must_use]
    pub fn is_in_corner(&self) -> bool {
        self.has(|also| matches!(also, Also::Corner))
    }

    /// Whether something of it is like this.
    #[must_use]
    pub fn has(&self, is_it: impl Fn(&Also) -> bool) -> bool {
        self.also.iter().any(is_it)
    }

    /// Whether it is offered where the operator is.
    #[must_use]
    pub fn is_offered(&self, state: &State) -> bool {
        self.context.has(state.focus())
    }
}

/// What the hint bar can have now: what is possible, and never what is not. What does something with the selected row
/// stands in front, the most likely first.
#[must_use]
pub fn hints(state: &State) -> Vec<Hint> {
    let offered = state.input.keymap.actions();
    let offered = offered.filter(|action| action.is_hinted() && action.is_offered(state));
    let possible = offered.filter(|action| action.possible(state).is_ok());
    let hints = possible.filter_map(|action| {
        Some(Hint {
            action,
            title: action.title_in(state),
            key: state.input.keymap.label(action.name)?,
            acts: action.acts(),
        })
    });
    let mut hints: Vec<Hint> = hints.collect();
    hints.sort_by_key(|hint| (!hint.acts, hint.action.rank(state)));
    hints
}

/// What can be done with the row or detail in front, the most likely first; behind that what cannot be done now.
#[must_use]
pub fn menu(state: &State) -> Vec<&'static Action> {
    let offered = state.input.keymap.actions().filter(|action| action.is_offered(state));
    let of_row = offered.filter(|action| action.acts() || action.has(|also| matches!(also, Also::OfRow)));
    let (mut possible, refused): (Vec<&Action>, Vec<&Action>) =
        of_row.partition(|action| action.possible(state).is_ok());
    possible.sort_by_key(|action| (!action.acts(), action.rank(state)));
    possible.extend(refused.into_iter().filter(|action| action.mutates()));
    possible
}

/// What holds for all that changes something.
fn writable(state: &State) -> Possible {
    if let Some(why) = state.session.read_only() {
        let key = state
            .session
            .can_be_allowed()
            .then(|| state.input.keymap.label(named::ALLOW_CHANGES));
        let way = match key {
            Some(Some(key)) => format!(" ({key} allows changes)"),
            Some(None) => " (:write 15m REASON allows changes)".to_owned(),
            None => String::new(),
        };
        return Err(format!("read-only: {why}{way}").into());
    }
    connected(state)
}

/// Whether store and broker were opened.
pub(in crate::console) fn connected(state: &State) -> Possible {
    require(state.data.link == Link::Open, "still connecting")
}

/// Possible, or why not.
pub(in crate::console) fn require(fine: bool, why: &'static str) -> Possible {
    if fine { Ok(()) } else { Err(why.into()) }
}

/// Why there is nothing to choose from in a view without a list.
pub(in crate::console) fn no_list(view: View) -> Reason {
    format!("{} has no rows: go to queues or endpoints", view.title()).into()
}

impl Context {
    /// Whether a view is in it.
    #[must_use]
    pub fn has(self, view: View) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Views(views) => views.contains(&view),
            Self::Listing => view.screen().has_rows(),
            Self::Marking => view.screen().has_marks(),
            Self::Opening => view.screen().can_open(),
        }
    }

    /// Whether there is a view in both.
    #[must_use]
    pub fn meets(self, other: Self) -> bool {
        View::ALL.into_iter().any(|view| self.has(view) && other.has(view))
    }

    /// For a person: where it is offered.
    #[must_use]
    pub fn named(self) -> String {
        match self {
            Self::Everywhere => "everywhere".to_owned(),
            Self::Views(views) => titles(views.iter().copied()),
            Self::Listing | Self::Marking | Self::Opening => {
                titles(View::ALL.into_iter().filter(|view| self.has(*view)))
            }
        }
    }
}

fn titles(views: impl Iterator<Item = View>) -> String {
    let titles: Vec<String> = views.map(|view| view.title().to_lowercase()).collect();
    titles.join(", ")
}
