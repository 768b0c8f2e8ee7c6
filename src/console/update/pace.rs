//! How fast a run goes that waits for its confirmation: typed in the dialog, and planned again.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyModifiers};

use super::State;
use super::keys::Press;
use crate::console::state::Mode;
use crate::console::state::dialog::{Dialog, Friction, Knob, Planning, RunPace, Steps, WayBack};
use crate::console::state::effect::Effect;
use crate::domain::pace::{PaceOrder, Ramp};
use crate::engine::runs::{Order, OrderKind};
use crate::engine::{Command, PaceWish, RedeliverTarget};

/// Digits of a number, at most.
const DIGITS_MAX: usize = 6;

/// The pace of these commands, where they begin runs of more than a message.
#[expect(clippy::wildcard_enum_match_arm, reason = "every other command is done at once")]
pub(super) fn of(state: &State, commands: &[Command]) -> Option<RunPace> {
    commands.iter().find_map(|command| match command {
        Command::Run(order) if order.kind != OrderKind::Skip => Some(RunPace {
            rate: order.rate,
            canary: order.canary,
            watch_s: order.canary_watch.map(|watch| watch.as_secs()),
            ramp: order.ramp,
            via: goes_back(order).then(|| order.via.map_or(WayBack::Best, WayBack::By)),
            ..RunPace::default()
        }),
        Command::Redeliver(target) => Some(RunPace {
            of_endpoint: Some(Steps::default()),
            stays: has_pace(state, target),
            ..RunPace::default()
        }),
        Command::RedeliverPaced { order, .. }
        | Command::PaceEndpoint {
            wish: PaceWish::Go(order),
            ..
        } => Some(RunPace {
            rate: order.rate,
            canary: order.canary.map(u64::from),
            watch_s: order.watch_s.map(u64::from),
            ramp: order.ramp.map(|ramp| ramp.factor),
            stop_after: order.stop_after,
            of_endpoint: Some(Steps::of(order)),
            ..RunPace::default()
        }),
        _ => None,
    })
}

/// Whether a person set a pace for one of these, which stays where no knob is turned.
fn has_pace(state: &State, target: &RedeliverTarget) -> bool {
    let rows = state
        .data
        .snapshot
        .iter()
        .flat_map(|snapshot| snapshot.endpoints.iter());
    let meant = rows.filter(|row| match target {
        RedeliverTarget::All => true,
        RedeliverTarget::Urls(urls) => urls.contains(&row.endpoint.url),
    });
    let mut paces = meant.filter_map(|row| row.endpoint.pace.as_ref());
    paces.any(|pace| pace.is_of_a_person() && !pace.order.is_none())
}

/// Whether the key turns a knob here: only once the plans are there, and never where it could be an answer.
pub(super) fn begins(dialog: &Dialog, key: char) -> bool {
    let answers = matches!(&dialog.friction, Friction::Type { word, .. } if word.contains(key));
    let turns = |pace: &RunPace| knob(key).is_some_and(|knob| pace.has(knob));
    dialog.pace.as_ref().is_some_and(turns) && !dialog.planning.is_awaited() && !answers
}

pub(super) fn begin(state: &mut State, key: char) -> Vec<Effect> {
    let Mode::Dialog(dialog) = &mut state.input.mode else {
        return Vec::new();
    };
    let (Some(pace), Some(knob)) = (&mut dialog.pace, knob(key)) else {
        return Vec::new();
    };
    pace.typing = Some((knob, String::new()));
    // Nothing is typed for a way.
    if knob == Knob::Via { turn(state) } else { Vec::new() }
}

/// Whether there are several ways back.
fn goes_back(order: &Order) -> bool {
    order.kind == OrderKind::Redrive && order.to.is_none()
}

/// A key while the number is typed. What is typed is planned again, so that the plan says how long it takes.
pub(super) fn key(state: &mut State, press: Press) -> Vec<Effect> {
    let Mode::Dialog(dialog) = &mut state.input.mode else {
        return Vec::new();
    };
    let Some(pace) = &mut dialog.pace else {
        return Vec::new();
    };
    let Some((_, digits)) = &mut pace.typing else {
        return Vec::new();
    };
    let control = press.key.modifiers.contains(KeyModifiers::CONTROL);
    match (press.key.code, control) {
        (KeyCode::Esc, _) | (KeyCode::Char('c'), true) => pace.typing = None,
        (KeyCode::Enter, _) => return turn(state),
        (KeyCode::Backspace, _) => {
            digits.pop();
        }
        (KeyCode::Char(c), false) if c.is_ascii_digit() && digits.len() < DIGITS_MAX => digits.push(c),
        _ => {}
    }
    Vec::new()
}

/// The pace of an endpoint; `None`: none is asked for.
fn order_of(pace: &RunPace) -> Option<PaceOrder> {
    let steps = pace.of_endpoint?;
    let few = |number: Option<u64>| number.and_then(|number| u32::try_from(number).ok());
    let order = PaceOrder {
        rate: pace.rate,
        ramp: pace.ramp.map(|factor| Ramp {
            from: steps.from,
            factor,
            every_s: steps.every_s,
        }),
        canary: few(pace.canary),
        watch_s: few(pace.watch_s),
        stop_after: pace.stop_after,
        ends_at_rate: steps.ends_at_rate && pace.ramp.is_some(),
    };
    (!order.is_none()).then_some(order)
}

/// The command at the pace that was typed; `None`: it has none.
fn paced(command: &Command, pace: &RunPace) -> Option<Command> {
    match (command, order_of(pace)) {
        (Command::Redeliver(target) | Command::RedeliverPaced { target, .. }, Some(order)) => {
            let target = target.clone();
            Some(Command::RedeliverPaced { target, order })
        }
        (Command::Redeliver(target) | Command::RedeliverPaced { target, .. }, None) => {
            Some(Command::Redeliver(target.clone()))
        }
        (Command::PaceEndpoint { url, .. }, order) => Some(Command::PaceEndpoint {
            url: url.clone(),
            wish: order.map_or(PaceWish::Release, PaceWish::Go),
        }),
        _ => None,
    }
}

fn knob(key: char) -> Option<Knob> {
    Knob::ALL.into_iter().find(|knob| knob.key() == key)
}

fn turn(state: &mut State) -> Vec<Effect> {
    let request = state.commands.next_request;
    let Mode::Dialog(dialog) = &mut state.input.mode else {
        return Vec::new();
    };
    let Some(pace) = &mut dialog.pace else {
        return Vec::new();
    };
    let Some((knob, digits)) = pace.typing.take() else {
        return Vec::new();
    };
    pace.turn(knob, digits.parse().ok().filter(|number| *number > 0));
    let Some(task) = state
        .commands
        .tasks
        .iter_mut()
        .find(|task| task.request == dialog.planning.request)
    else {
        return Vec::new();
    };
    for command in &mut task.commands {
        if let Command::Run(order) = command {
            order.rate = pace.rate;
            order.canary = pace.canary;
            order.canary_watch = pace.watch_s.map(Duration::from_secs);
            order.ramp = pace.ramp;
            if goes_back(order) {
                order.via = pace.via.and_then(WayBack::via);
            }
        }
        if let Some(paced) = paced(command, pace) {
            *command = paced;
        }
    }
    task.request = request;
    let commands = task.commands.clone();
    dialog.planning = Planning::of(request);
    dialog.typed.clear();
    state.commands.next_request += 1;
    vec![Effect::Plan { request, commands }]
}
