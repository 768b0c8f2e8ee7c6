//! The line behind `:`: finds and does anything by its name.
//!
//! Actions and commands are the tables'; queues, endpoints, policies, runs and groups of dead letters are what
//! is known at present. What is not possible now stands there with its reason. Names among very many are
//! looked for beside the screen's task.

use std::collections::VecDeque;
use std::sync::Arc;

use tui_input::Input;

use crate::console::fuzzy;
use crate::console::state::action::{self, Action, Reason, named};
use crate::console::state::detail::Subject;
use crate::console::state::verb::{VERBS, VerbSpec};
use crate::console::state::{State, View};
use crate::domain::queue::QueueState;
use crate::domain::url::EndpointUrl;
use crate::engine::dead::DeadGroup;
use crate::engine::query::PolicyScope;
use crate::engine::snapshot::Snapshot;

/// Names that are looked through at once; more of them beside the screen's task.
pub const INLINE_MAX: usize = 2_000;
/// Objects that are offered, at most.
const OBJECTS_MAX: usize = 60;
/// Rows of a list of its own that are looked through.
const LISTED_MAX: usize = 2_000;
/// What was chosen lately, at most.
const RECENT_MAX: usize = 5;
/// Lines that are remembered.
const LINES_MAX: usize = 50;
/// What is not possible now comes behind what is.
const REFUSED: i32 = -500;
/// An endpoint before its queues, and before what is only listed: there are fewer of them.
const ENDPOINT: i32 = 120;
/// A whole name before parts of others, an action before an object that answers as well.
const OF_TABLE: i32 = 150;

/// The open line.
#[derive(Clone, Debug, Default)]
pub struct Palette {
    /// What is typed.
    pub input: Input,
    /// What it could mean, the best first.
    pub found: Vec<Candidate>,
    /// Which of it is chosen.
    pub selected: usize,
    /// Why the line was not done. Safe to show.
    pub problem: Option<String>,
    /// How far back in the lines of before; `None`: a new one is typed.
    pub recalled: Option<usize>,
    /// The newest search; an answer to an older one is dropped.
    pub ticket: u64,
}

/// Something that the line could mean.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// `action`, `queue`, …
    pub kind: &'static str,
    /// Its name (from outside, where it is one).
    pub name: String,
    /// What is known of it, or what it does (from outside).
    pub says: String,
    /// Why it is not possible now.
    pub refused: Option<Reason>,
    /// What choosing it does.
    pub choice: Choice,
    /// How well it answers.
    pub score: i32,
}

/// What choosing a candidate does.
#[derive(Clone, Debug)]
pub enum Choice {
    /// The action.
    Action(&'static Action),
    /// Opens the detail.
    Open(Subject),
    /// Opens the group of dead letters.
    Group(Arc<DeadGroup>),
    /// Waits for what the command takes.
    Verb(&'static VerbSpec),
    /// Does the line.
    Line(String),
}

/// The lines of before, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Lines(VecDeque<String>);

impl Lines {
    /// Remembers a line; said before, it is the newest now.
    pub fn remember(&mut self, line: &str) {
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        self.0.retain(|known| known != line);
        if self.0.len() == LINES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(line.to_owned());
    }

    /// The line so far back; 0 is the newest.
    #[must_use]
    pub fn back(&self, by: usize) -> Option<&str> {
        let place = self.0.len().checked_sub(by + 1)?;
        self.0.get(place).map(String::as_str)
    }
}

/// What was chosen lately, the newest first: an empty line begins with it.
#[derive(Clone, Debug, Default)]
pub struct Recent(VecDeque<Candidate>);

impl Recent {
    /// Remembers what was chosen; chosen before, it is the newest now.
    pub fn remember(&mut self, chosen: &Candidate) {
        self.0
            .retain(|known| (known.kind, &known.name) != (chosen.kind, &chosen.name));
        self.0.push_front(chosen.clone());
        self.0.truncate(RECENT_MAX);
    }

    fn candidates(&self, state: &State) -> Vec<Candidate> {
        let one = |known: &Candidate| Candidate {
            refused: match &known.choice {
                Choice::Action(action) => refused(state, action),
                Choice::Open(_) | Choice::Group(_) | Choice::Verb(_) | Choice::Line(_) => None,
            },
            ..known.clone()
        };
        self.0.iter().map(one).collect()
    }
}

/// What an empty line offers: what was chosen lately, what can be done with what is in front, the views, then the rest
/// by name.
#[must_use]
pub fn at_first(state: &State) -> Vec<Candidate> {
    let mut found = state.input.recent.candidates(state);
    let here = action::menu(state)
        .into_iter()
        .filter(|action| action.possible(state).is_ok());
    let views = View::ALL.into_iter().map(|view| &view.screen().about().go);
    let mut rest = actions(state, &[]);
    rest.extend(commands(&[]));
    rest.sort_by(|one, other| (one.refused.is_some(), &one.name).cmp(&(other.refused.is_some(), &other.name)));
    let named = here.chain(views).filter_map(|action| of_action(state, action, 0));
    for candidate in named.chain(saved_views(state, &[])).chain(rest) {
        let known = |one: &Candidate| (one.kind, &one.name) == (candidate.kind, &candidate.name);
        if !found.iter().any(known) {
            found.push(candidate);
        }
    }
    let last = i32::try_from(found.len()).unwrap_or(i32::MAX);
    for (score, candidate) in (0..last).rev().zip(&mut found) {
        candidate.score = score;
    }
    found
}

/// Looks for names among very many.
#[derive(Clone, Debug)]
pub struct FindJob {
    /// Comes back with what was found.
    pub ticket: u64,
    /// What was typed.
    pub words: Vec<String>,
    /// Where to look.
    pub snapshot: Arc<Snapshot>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct FoundObjects {
    /// Of which search.
    pub ticket: u64,
    /// Queues and endpoints, the best first.
    pub objects: Vec<Candidate>,
}

impl FindJob {
    /// Does it.
    #[must_use]
    pub fn run(&self) -> FoundObjects {
        FoundObjects {
            ticket: self.ticket,
            objects: of_snapshot(&self.words, &self.snapshot),
        }
    }
}

/// Actions and commands of that name, and what is known besides queues and endpoints.
#[must_use]
pub fn at_once(state: &State, typed: &str) -> Vec<Candidate> {
    let words = fuzzy::words(typed);
    if words.is_empty() {
        return at_first(state);
    }
    let mut found = actions(state, &words);
    found.extend(commands(&words));
    found.extend(saved_views(state, &words));
    found.extend(best(listed(state, &words)));
    found
}

/// The best first, each object once.
pub fn sort(found: &mut [Candidate]) {
    found.sort_by(|one, other| other.score.cmp(&one.score).then_with(|| one.name.cmp(&other.name)));
}

fn actions(state: &State, words: &[String]) -> Vec<Candidate> {
    let one = |action: &'static Action| {
        let title = fuzzy::score(words, action.title);
        let score = title.max(fuzzy::score(words, &action.name.replace('_', " ")))?;
        of_action(state, action, score + OF_TABLE)
    };
    state.input.keymap.actions().filter_map(one).collect()
}

/// An action as it is offered; the one that opens the line is not.
fn of_action(state: &State, action: &'static Action, score: i32) -> Option<Candidate> {
    let refused = refused(state, action);
    let down = if refused.is_some() { REFUSED } else { 0 };
    (action.name != named::PALETTE).then(|| Candidate {
        kind: "action",
        name: action.title.to_owned(),
        says: action.help.to_owned(),
        refused,
        choice: Choice::Action(action),
        score: score + down,
    })
}

/// Why an action is not possible now.
fn refused(state: &State, action: &Action) -> Option<Reason> {
    if action.is_offered(state) {
        action.possible(state).err()
    } else {
        Some(format!("is for: {}", action.context.named()).into())
    }
}

fn commands(words: &[String]) -> impl Iterator<Item = Candidate> {
    VERBS.iter().filter_map(move |spec| {
        Some(Candidate {
            kind: "command",
            name: format!("{} {}", spec.name, spec.takes).trim_end().to_owned(),
            says: spec.help.to_owned(),
            refused: None,
            score: fuzzy::score(words, spec.name)? + OF_TABLE,
            choice: if spec.takes.is_empty() {
                Choice::Line(spec.name.to_owned())
            } else {
                Choice::Verb(spec)
            },
        })
    })
}

/// Views that have a name.
fn saved_views(state: &State, words: &[String]) -> Vec<Candidate> {
    let one = |(name, line): (&str, &str)| {
        Some(Candidate {
            kind: "view",
            name: name.to_owned(),
            says: line.to_owned(),
            refused: None,
            score: fuzzy::score(words, name)? + OF_TABLE,
            choice: Choice::Line(format!("view {name}")),
        })
    };
    state.session.views.all().into_iter().filter_map(one).collect()
}

/// What lists of their own know, as far as they were in front.
fn listed(state: &State, words: &[String]) -> Vec<Candidate> {
    let mut found = Vec::new();
    for row in state.lists.policies.table.rows.iter().take(LISTED_MAX) {
        let name = scope_name(&row.scope);
        found.extend(fuzzy::score(words, &name).map(|score| Candidate {
            kind: "policy",
            says: row.source.as_str().to_owned(),
            name,
            refused: None,
            choice: Choice::Open(Subject::Policy(row.scope.clone())),
            score,
        }));
    }
    for row in state.lists.runs.table.rows.iter().take(LISTED_MAX) {
        let name = format!("{} {}", row.record.command, row.record.id);
        found.extend(fuzzy::score(words, &name).map(|score| Candidate {
            kind: "run",
            says: row.record.state.as_str().to_owned(),
            name,
            refused: None,
            choice: Choice::Open(Subject::Run(row.record.id.clone())),
            score,
        }));
    }
    for row in state.lists.dead.groups.table.rows.iter().take(LISTED_MAX) {
        let name = format!("{} at {}", row.what, row.place);
        found.extend(fuzzy::score(words, &name).map(|score| Candidate {
            kind: "dead",
            says: format!("{} dead letters", row.count),
            name,
            refused: None,
            choice: Choice::Group(Arc::clone(row)),
            score,
        }));
    }
    found
}

/// Queues and endpoints of that name.
#[must_use]
pub fn of_snapshot(words: &[String], snapshot: &Snapshot) -> Vec<Candidate> {
    if words.is_empty() {
        return Vec::new();
    }
    let mut scored: Vec<(i32, bool, usize)> = Vec::new();
    for (at, row) in snapshot.queues.iter().enumerate() {
        scored.extend(fuzzy::score(words, row.name.as_str()).map(|score| (score, false, at)));
    }
    for (at, row) in snapshot.endpoints.iter().enumerate() {
        scored.extend(fuzzy::score(words, row.endpoint.url.as_str()).map(|score| (score + ENDPOINT, true, at)));
    }
    scored.sort_unstable_by_key(|(score, endpoint, at)| (-score, !endpoint, *at));
    scored.truncate(OBJECTS_MAX);
    scored
        .into_iter()
        .filter_map(|(score, endpoint, at)| {
            if endpoint {
                one_endpoint(snapshot, at, score)
            } else {
                one_queue(snapshot, at, score)
            }
        })
        .collect()
}

fn one_queue(snapshot: &Snapshot, at: usize, score: i32) -> Option<Candidate> {
    let row = snapshot.queues.get(at)?;
    let state = row.state.map_or("", QueueState::plain);
    let waiting = row.depth().map_or_else(String::new, |depth| format!("{depth} waiting"));
    Some(Candidate {
        kind: "queue",
        name: row.name.as_str().to_owned(),
        says: format!("{state} {waiting}").trim().to_owned(),
        refused: None,
        choice: Choice::Open(Subject::Queue(row.name.clone())),
        score,
    })
}

fn one_endpoint(snapshot: &Snapshot, at: usize, score: i32) -> Option<Candidate> {
    let row = snapshot.endpoints.get(at)?;
    Some(Candidate {
        kind: "endpoint",
        name: row.endpoint.url.redacted(),
        says: row.endpoint.state.as_str().to_owned(),
        refused: None,
        choice: Choice::Open(Subject::Endpoint(row.endpoint.url.clone())),
        score,
    })
}

fn scope_name(scope: &PolicyScope) -> String {
    let event_type = scope.event_type.as_deref().map(|name| format!("event type {name}"));
    let url = scope.url.as_ref().map(EndpointUrl::redacted);
    let parts: Vec<String> = event_type.into_iter().chain(url).collect();
    if parts.is_empty() {
        return "the configuration's".to_owned();
    }
    parts.join(" to ")
}

fn best(mut found: Vec<Candidate>) -> Vec<Candidate> {
    sort(&mut found);
    found.truncate(OBJECTS_MAX);
    found
}
