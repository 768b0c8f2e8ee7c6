//! Whatever happens: nothing panics, marks are rows that were seen, and nothing is executed unless it
//! was confirmed by hand.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use proptest::collection::vec;
use proptest::prelude::*;

use super::Stage;
use super::fixture::{endpoint, plan, queue, queues, snapshot, stage};
use crate::console::state::detail::{DetailAnswer, DetailQuery, Extent};
use crate::console::state::effect::Effect;
use crate::console::state::event::{Event, Mouse, MouseDid};
use crate::domain::endpoint::EndpointState;
use crate::domain::id::QueueName;
use crate::domain::queue::QueueState;
use crate::engine::snapshot::Snapshot;
use crate::engine::{Command, PaceWish};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Happening {
    Key(KeyCode, KeyModifiers, KeyEventKind),
    Wait(u64),
    Paste(String),
    Resize(u16, u16),
    Focus(bool),
    Mouse(MouseDid, u16, u16),
    Snapshot(usize, usize),
    /// The world answers everything that was asked, well or badly.
    Answer(bool),
}

fn key_code() -> impl Strategy<Value = KeyCode> {
    let named = [
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::Backspace,
        KeyCode::Delete,
        KeyCode::Null,
        KeyCode::F(5),
    ];
    let letters: Vec<char> = "1234567890-jkgG/sSvu* rzbcRAPUTDEXHNVZwitn?xdepth>=y0m:o[]Cqea"
        .chars()
        .collect();
    prop_oneof![
        1 => proptest::sample::select(named.to_vec()),
        3 => proptest::sample::select(letters).prop_map(KeyCode::Char),
        1 => any::<char>().prop_map(KeyCode::Char),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    let modifiers = prop_oneof![
        8 => Just(KeyModifiers::NONE),
        1 => Just(KeyModifiers::CONTROL),
        1 => Just(KeyModifiers::ALT),
        1 => Just(KeyModifiers::SHIFT),
    ];
    let kind = prop_oneof![8 => Just(KeyEventKind::Press), 1 => Just(KeyEventKind::Repeat)];
    prop_oneof![
        20 => (key_code(), modifiers, kind).prop_map(|(code, modifiers, kind)| Happening::Key(code, modifiers, kind)),
        4 => (0_u64..2_000).prop_map(Happening::Wait),
        1 => ".{0,40}".prop_map(Happening::Paste),
        2 => (0_u16..300, 0_u16..300).prop_map(|(columns, rows)| Happening::Resize(columns, rows)),
        1 => any::<bool>().prop_map(Happening::Focus),
        4 => (mouse_did(), 0_u16..90, 0_u16..30).prop_map(|(did, column, row)| Happening::Mouse(did, column, row)),
        2 => (0_usize..60, 0_usize..20).prop_map(|(queues, endpoints)| Happening::Snapshot(queues, endpoints)),
        4 => any::<bool>().prop_map(Happening::Answer),
    ]
}

fn mouse_did() -> impl Strategy<Value = MouseDid> {
    prop_oneof![
        Just(MouseDid::Click),
        Just(MouseDid::WheelUp),
        Just(MouseDid::WheelDown)
    ]
}

fn world(generation: u64, queue_count: usize, endpoint_count: usize) -> Snapshot {
    let mut rows = queues(queue_count);
    rows.push(queue(
        "dlv.other",
        Some("https://other.example/"),
        QueueState::EndpointUnavailable,
        3,
    ));
    let states = [
        EndpointState::Available,
        EndpointState::Parked,
        EndpointState::Unavailable,
    ];
    let row = |number: usize| endpoint(&format!("https://e{number:02}.example/"), states[number % states.len()]);
    snapshot(generation, rows, (0..endpoint_count).map(row).collect())
}

/// A console with whatever the world owes it.
struct Play {
    stage: Stage,
    owed: Vec<Effect>,
    executed: usize,
    generation: u64,
    seen: HashSet<QueueName>,
}

impl Play {
    fn new() -> Self {
        let mut play = Self {
            stage: stage(world(1, 20, 14)),
            owed: Vec::new(),
            executed: 0,
            generation: 1,
            seen: HashSet::new(),
        };
        play.stage.state.terminal.mouse = true;
        play.note_rows();
        play
    }

    fn note_rows(&mut self) {
        self.seen
            .extend(self.stage.state.lists.queues.rows.iter().map(|row| row.name.clone()));
    }

    fn take(&mut self, effects: Vec<Effect>) {
        self.executed += effects.iter().filter(|effect| changes_something(effect)).count();
        self.owed.extend(effects);
    }

    fn happen(&mut self, happening: Happening) {
        self.stage.now = self.stage.now.plus(Duration::from_millis(30));
        let event = match happening {
            Happening::Key(code, modifiers, kind) => {
                let mut key = KeyEvent::new(code, modifiers);
                key.kind = kind;
                Event::Key(key)
            }
            Happening::Mouse(what, column, row) => Event::Mouse(Mouse { what, column, row }),
            Happening::Wait(millis) => {
                self.stage.now = self.stage.now.plus(Duration::from_millis(millis));
                Event::Tick
            }
            Happening::Paste(text) => Event::Paste(text),
            Happening::Resize(columns, rows) => Event::Resize { columns, rows },
            Happening::Focus(focused) => Event::Focus(focused),
            Happening::Snapshot(queues, endpoints) => {
                self.generation += 1;
                Event::Snapshot(Arc::new(world(self.generation, queues, endpoints)))
            }
            Happening::Answer(well) => return self.answer(well),
        };
        let effects = self.stage.event(event);
        self.take(effects);
        self.note_rows();
    }

    fn answer(&mut self, well: bool) {
        for effect in std::mem::take(&mut self.owed) {
            let events = self.events_for(effect, well);
            for event in events {
                let effects = self.stage.event(event);
                self.take(effects);
            }
        }
    }

    fn events_for(&self, effect: Effect, well: bool) -> Vec<Event> {
        let why = || "the plan is stale".to_owned();
        match effect {
            Effect::Plan { request, commands } => {
                let plans = commands.iter().map(plan).collect();
                let result = if well { Ok(plans) } else { Err(why()) };
                vec![Event::Planned { request, result }]
            }
            Effect::Execute { request, plans, .. } => {
                let item = |item| Event::Executed {
                    request,
                    item,
                    result: Err(why()),
                };
                (0..plans.len()).map(item).collect()
            }
            Effect::Reveal(job) => vec![Event::Revealed {
                key: job.key,
                result: if well { Ok(()) } else { Err(why()) },
            }],
            Effect::Look(DetailQuery { subject, extent }) => vec![Event::Detail(Box::new(DetailAnswer {
                messages: (extent == Extent::WithMessages).then(|| Ok(Vec::new())),
                ..DetailAnswer::nothing(subject, self.stage.now)
            }))],
            Effect::Feed(query) => vec![Event::Fed(super::feeds::fed(query, self.stage.now, well))],
            Effect::Arrange(job) => vec![Event::Arranged(job.run())],
            Effect::Find(job) => vec![Event::Found(job.run())],
            Effect::Save(_) => vec![Event::Saved(if well { Ok("file".to_owned()) } else { Err(why()) })],
            Effect::Reload => vec![Event::Reloaded(Err(why()))],
            Effect::Outcome(run) => vec![Event::Ended(run)],
            Effect::TryProfile(profile) => vec![Event::Tried {
                profile,
                closed: if well { None } else { Some(why()) },
            }],
            Effect::Refresh
            | Effect::Copy(_)
            | Effect::Call(_)
            | Effect::Screen { .. }
            | Effect::Theme(_)
            | Effect::Pace(_)
            | Effect::Mouse
            | Effect::Profile(_)
            | Effect::Again
            | Effect::Window(_)
            | Effect::Edit(_)
            | Effect::Suspend
            | Effect::Keep { .. }
            | Effect::Survey(_)
            | Effect::Check
            | Effect::Quit => Vec::new(),
        }
    }

    fn check(&self) {
        let state = &self.stage.state;
        assert!(
            state.lists.queues.marks.ids.is_subset(&self.seen),
            "a mark that was never a row"
        );
        let counts = state.lists.queues.marks.counts;
        assert_eq!(
            counts.shown + counts.hidden + counts.gone,
            state.lists.queues.marks.ids.len()
        );
        let window = state.lists.queues.window(state.lists.queues.cursor.page);
        assert!(state.lists.queues.order.is_empty() || window.contains(&state.lists.queues.cursor.place));
        assert!(state.wake_at().is_none_or(|at| at > state.now));
        assert!(state.nav.details.len() <= 6 && state.said.toasts.len() <= 4);
        let _ = crate::console::state::action::hints(state);
    }
}

/// A test request to an endpoint and its brake are what their key alone does: nothing that waits changes by it.
fn changes_something(effect: &Effect) -> bool {
    let is_key_enough = |command: &Command| {
        matches!(
            command,
            Command::TestEndpoint { .. }
                | Command::PaceEndpoint {
                    wish: PaceWish::Pause,
                    ..
                }
        )
    };
    match effect {
        Effect::Execute { plans, .. } => plans.iter().any(|plan| !is_key_enough(&plan.command)),
        _ => false,
    }
}

/// Whether it could be a part of an answer to a confirmation.
fn confirms(happening: &Happening) -> bool {
    matches!(
        happening,
        Happening::Key(KeyCode::Char(c), _, KeyEventKind::Press) if *c == 'y' || c.is_ascii_digit()
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_happens_breaks_the_state(happenings in vec(happening(), 1..120)) {
        let mut play = Play::new();
        for happening in happenings {
            play.happen(happening);
            play.check();
        }
    }

    #[test]
    fn nothing_is_executed_unless_it_was_confirmed_by_hand(happenings in vec(happening(), 1..160)) {
        let mut play = Play::new();
        play.stage.play("3");
        for happening in happenings.into_iter().filter(|happening| !confirms(happening)) {
            play.happen(happening);
        }
        prop_assert_eq!(play.executed, 0);
    }

    #[test]
    fn pasted_text_and_repeats_execute_nothing_whatever_they_say(happenings in vec(happening(), 1..160)) {
        let mut play = Play::new();
        play.stage.play("3 A");
        for happening in happenings {
            let happening = match happening {
                Happening::Key(code, modifiers, _) => Happening::Key(code, modifiers, KeyEventKind::Repeat),
                other => other,
            };
            play.happen(happening);
        }
        prop_assert_eq!(play.executed, 0);
    }
}
