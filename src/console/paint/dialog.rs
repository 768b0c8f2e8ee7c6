//! The confirmation: what, where, how many, what is lost, and what to press. Cancel is in front.
//!
//! ```text
//! ┌ redeliver ─────────────────────────────────────────────────┐
//! │ redeliver 1 endpoint with 41 waiting messages               │
//! │ on PRODUCTION · rabbitmq mq1/redrive · postgres db1/redrive │
//! │ 41 messages · 3 marked: 2 shown, 1 hidden by the filter     │
//! │ ! the last test answered 503                                │
//! │                                                             │
//! │ https://stock.example/changed                               │
//! │   unavailable → available at once; 3 queues go on           │
//! │                                                             │
//! │ [ Enter  cancel ]   y  redeliver                            │
//! └─────────────────────────────────────────────────────────────┘
//! ```

use std::borrow::Cow;
use std::fmt::Write as _;

use ratatui::layout::{Position, Rect};

use super::dialog_run;
use crate::console::state::State;
use crate::console::state::action::{Action, Shows, named};
use crate::console::state::detail::Detail;
use crate::console::state::dialog::{Dialog, Friction, ReasonLine, Scope, ScopeKind};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, cells, row, wrap_at_most};
use crate::console::widgets::words::{count, plural, plural_of};
use crate::domain::mask::MaskRules;
use crate::domain::text::{show, width};
use crate::domain::words::about;
use crate::engine::command::RunPlan;
use crate::engine::runs::OrderKind;
use crate::engine::{Command, Plan, PlanLine};

/// Columns of a dialog: what it says is not cut where there is room.
const WIDTH_MIN: u16 = 84;
const WIDTH_MAX: u16 = 120;
/// Columns for what is now, beside what comes.
const NOW_MIN: usize = 24;
const NOW_MAX: usize = 60;
/// Before what comes.
const ARROW: &str = " → ";
/// Between a name and what is now.
const BETWEEN: &str = ": ";
/// Lines of targets that have room before anything is said at length: three targets with what becomes of them.
const LISTED_MIN: usize = 6;

/// From this height on the line of the reason stands in every dialog.
const ROOM_FOR_REASON: u16 = 12;
/// Columns beside a reason on its line.
const REASON_AROUND: usize = 38;
/// Before what takes no answer yet.
const IN_A_MOMENT: &str = "(in a moment) ";
/// How much is said before the list: first what one likes to know, and the less the fewer lines there are.
const SAYS: [Says; 6] = [
    Says {
        samples: 2,
        lines: 2,
        warnings: 4,
    },
    Says {
        samples: 0,
        lines: 2,
        warnings: 4,
    },
    Says {
        samples: 0,
        lines: 1,
        warnings: 4,
    },
    Says {
        samples: 0,
        lines: 1,
        warnings: 2,
    },
    Says {
        samples: 0,
        lines: 1,
        warnings: 1,
    },
    Says {
        samples: 0,
        lines: 1,
        warnings: 0,
    },
];
/// Runs that are told about, at most.
const RUNS_MAX: usize = 2;

pub(super) type Line = Vec<(String, Role)>;

/// How much is said before the list of targets.
struct Says {
    /// Samples of what a run is about, at most.
    samples: usize,
    /// Lines of a text, at most.
    lines: usize,
    /// Warnings, at most; the rest are counted.
    warnings: usize,
}

/// Paints the dialog in the middle; answers where the cursor stands when something is typed.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, dialog: &Dialog) -> Option<Position> {
    let wide = (area.width.saturating_mul(7) / 10)
        .clamp(WIDTH_MIN, WIDTH_MAX)
        .min(area.width);
    let text_width = usize::from(wide.saturating_sub(4));
    let press = press(canvas.now, dialog, text_width, area.height);
    let changes = changes(dialog);
    let number = changes.as_ref().map_or_else(|| dialog.planning.targets(), Vec::len);
    let lines = number.saturating_mul(2);
    // What accepts and what cancels is always in sight.
    let left = usize::from(area.height).saturating_sub(press.len() + 2);
    let top = top(state, dialog, text_width, (left, lines));
    let fixed = cells(top.len() + press.len() + 2);
    let room = area.height.saturating_sub(fixed);
    // The empty lines around the list give way to the first targets and their effects.
    let empty = room.saturating_sub(cells(lines.min(LISTED_MIN))).min(2);
    let listed = cells(lines).min(room - empty);
    let outer = centred(area, wide, fixed + empty + listed);
    let inner = boxed(canvas, outer, dialog.action.title, dialog.planning.destroys());
    let mut line = 0;
    for text in &top {
        put(canvas, row(inner, line), text);
        line += 1;
    }
    line += empty.min(1);
    let first = dialog.scroll.saturating_mul(2).min(lines.saturating_sub(listed.into()));
    let planned = dialog.planning.plans().iter().flat_map(|plan| &plan.lines);
    let shown: Vec<Line> = match &changes {
        Some(changes) => targets(changes.iter(), first, listed.into(), text_width, None),
        None => targets(planned, first, listed.into(), text_width, masks(state, dialog)),
    };
    for text in shown {
        put(canvas, row(inner, line), &text);
        line += 1;
    }
    more(canvas, outer, listed, first, lines);
    let mut cursor = None;
    let from = inner.height.saturating_sub(cells(press.len()));
    for (at, text) in (from.max(line)..).zip(&press) {
        let end = put(canvas, row(inner, at), text);
        if matches!(dialog.friction, Friction::Type { .. }) && !dialog.reason.is_open {
            cursor = canvas.cursor(end.min(inner.right().saturating_sub(1)), row(inner, at).y);
        }
    }
    cursor
}

/// A box with a title; answers its inside.
pub(super) fn boxed(canvas: &mut Canvas<'_>, area: Rect, title: &str, danger: bool) -> Rect {
    let role = if danger { Role::DialogDanger } else { Role::DialogBorder };
    canvas.clear(area, Role::Dialog);
    canvas.border(area, title, role);
    inside(area)
}

/// What a box leaves of its area.
pub(super) fn inside(area: Rect) -> Rect {
    Rect {
        x: area.x + 2.min(area.width),
        y: area.y + 1.min(area.height),
        width: area.width.saturating_sub(4),
        height: area.height.saturating_sub(2),
    }
}

pub(super) fn centred(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    }
}

fn put(canvas: &mut Canvas<'_>, area: Rect, line: &Line) -> u16 {
    let mut rest = area;
    for (text, role) in line {
        let taken = canvas.text(rest, text, *role);
        rest = behind(rest, taken);
    }
    rest.x
}

/// What stands before the list, in `left` lines less those that the first targets need.
fn top(state: &State, dialog: &Dialog, columns: usize, (left, lines): (usize, usize)) -> Vec<Line> {
    // That something is lost is said before the list has room.
    let kept = if dialog.planning.destroys() { 4 } else { 2 };
    let room = left - lines.min(LISTED_MIN).min(left.saturating_sub(kept));
    let mut top = Vec::new();
    for says in &SAYS {
        top = what(state, dialog, columns, says);
        if top.len() <= room {
            break;
        }
    }
    if top.len() > room {
        // The last line counts the warnings.
        let last = top.pop().filter(|_| room > 2);
        top.truncate(room - usize::from(last.is_some()));
        if let Some((text, role)) = top.last_mut().and_then(Vec::pop) {
            top.pop();
            top.push(vec![(cut(&text, columns), role)]);
        }
        top.extend(last);
    }
    top
}

/// A text that goes on where nothing more is shown of it.
fn cut(text: &str, columns: usize) -> String {
    show(&format!("{} …", text.trim_end_matches([' ', '…'])), columns)
}

/// What would be done, where, to how much, and what should be known before, as much of it as it says.
fn what(state: &State, dialog: &Dialog, columns: usize, says: &Says) -> Vec<Line> {
    let mut lines = Vec::new();
    let plans = dialog.planning.plans();
    let title = match plans {
        [] if dialog.planning.is_awaited() => "Planning: nothing is done yet …".to_owned(),
        [] => "There is nothing to do.".to_owned(),
        [only] => only.title.clone(),
        several => title_of(dialog.action, several, columns),
    };
    let title_role = if dialog.planning.destroys() {
        Role::DialogDanger
    } else {
        Role::Title
    };
    wrapped(&mut lines, &title, columns, says.lines + 1, title_role);
    if dialog.planning.destroys() {
        wrapped(
            &mut lines,
            if dialog.action.confirm.shows == Shows::Events {
                "! Events are removed by this; it cannot be undone."
            } else {
                "! Messages are lost by this; it cannot be undone."
            },
            columns,
            2,
            Role::DialogDanger,
        );
    }
    let place = &state.session.place;
    let label = if place.label.is_empty() {
        String::new()
    } else {
        format!("{} · ", place.label)
    };
    let place = format!("on {label}{}", place.parts().join(" · "));
    wrapped(&mut lines, &place, columns, says.lines, Role::TextMuted);
    if !dialog.planning.is_awaited() {
        wrapped(&mut lines, &how_much(dialog, plans), columns, says.lines, Role::Text);
    }
    for (kind, run) in plans.iter().filter_map(run_of).take(RUNS_MAX) {
        for text in dialog_run::lines(state.now, kind, run, &state.session.mask, says.samples) {
            wrapped(&mut lines, &text, columns, says.lines, Role::Text);
        }
    }
    if let Some(effect) = long_effect(dialog, columns) {
        wrapped(&mut lines, &format!("→ {effect}"), columns, says.lines, Role::Info);
    }
    if let Some(note) = dialog.scope.note {
        wrapped(&mut lines, note, columns, says.lines, Role::Info);
    }
    warned(&mut lines, plans, columns, says);
    lines
}

/// What becomes of every target, where that has no room on the line of a target.
fn long_effect(dialog: &Dialog, columns: usize) -> Option<&str> {
    let mut lines = dialog.planning.plans().iter().flat_map(|plan| &plan.lines);
    let effect = lines.next()?.effect.as_str();
    let is_long = width(ARROW) + width(effect) > columns;
    (dialog.action.confirm.shows == Shows::Targets && is_long && lines.all(|line| line.effect == effect))
        .then_some(effect)
}

/// What several plans do together: `pause 2 queues`.
fn title_of(action: &Action, plans: &[Plan], columns: usize) -> String {
    let all = |is: fn(&Command) -> bool| plans.iter().all(|plan| is(&plan.command));
    let of_queues = |command: &Command| matches!(command, Command::PauseQueue(_) | Command::ResumeQueue(_));
    let of_endpoints = |command: &Command| {
        matches!(
            command,
            Command::TestEndpoint { .. } | Command::PaceEndpoint { .. } | Command::DisableEndpoint(_)
        )
    };
    let title = action.title;
    if action.name == named::UNDO || !(all(of_queues) || all(of_endpoints)) {
        let first = plans
            .first()
            .map_or_else(String::new, |plan| show(&plan.title, columns));
        return format!("{title}: {} actions; the first: {first}", plans.len());
    }
    let what = if all(of_queues) {
        ["queue", "queues"]
    } else {
        ["endpoint", "endpoints"]
    };
    format!("{title} {}", plural_of(plans.len(), what[0], what[1]))
}

/// What should be known before; what has no room is counted.
fn warned(lines: &mut Vec<Line>, plans: &[Plan], columns: usize, says: &Says) {
    let warnings = once(plans.iter().flat_map(|plan| &plan.warnings));
    let shown = match warnings.len() {
        // The line that counts one would have room for it.
        all if all <= says.warnings + 1 => all,
        _ => says.warnings,
    };
    for (warning, times) in warnings.iter().take(shown) {
        let of = if *times > 1 {
            format!("{times} times: ")
        } else {
            String::new()
        };
        wrapped(lines, &format!("! {of}{warning}"), columns, says.lines, Role::Warning);
    }
    let more = match (shown, warnings.len() - shown) {
        (_, 0) => return,
        (0, all) => format!("! {}", plural_of(all, "warning", "warnings")),
        (_, more) => format!("! and {}", plural_of(more, "more warning", "more warnings")),
    };
    wrapped(
        lines,
        &format!("{more}: a larger terminal shows them"),
        columns,
        1,
        Role::Warning,
    );
}

/// Each warning once, with how often it is said.
fn once<'a>(warnings: impl Iterator<Item = &'a String>) -> Vec<(&'a str, usize)> {
    let mut known: Vec<(&str, usize)> = Vec::new();
    for warning in warnings {
        match known.iter_mut().find(|(text, _)| *text == warning) {
            Some((_, times)) => *times += 1,
            None => known.push((warning, 1)),
        }
    }
    known
}

/// The run that the plan begins; events are not sent again, and count as what is.
fn run_of(plan: &Plan) -> Option<(OrderKind, &RunPlan)> {
    let kind = if let Command::Run(order) = &plan.command {
        order.kind
    } else {
        OrderKind::Redrive
    };
    Some((kind, plan.run.as_ref()?))
}

fn wrapped(lines: &mut Vec<Line>, text: &str, columns: usize, lines_max: usize, role: Role) {
    let wrapped = wrap_at_most(text, columns, lines_max).into_iter();
    lines.extend(wrapped.map(|line| vec![(line, role)]));
}

/// Messages, targets, and which of them the operator cannot see.
fn how_much(dialog: &Dialog, plans: &[Plan]) -> String {
    let (one, many) = match dialog.action.confirm.shows {
        Shows::Events => {
            let events = plural_of(dialog.planning.events(), "event", "events");
            return format!("{events} · {}", scope(&dialog.scope));
        }
        Shows::Document | Shows::Subscription => return "what waits and what is dead stays as it is".to_owned(),
        Shows::Policy | Shows::Message => ("line", "lines"),
        Shows::Targets => ("target", "targets"),
    };
    if plans
        .iter()
        .all(|plan| matches!(plan.command, Command::TestEndpoint { .. }))
    {
        let requests = plural_of(plans.len(), "HEAD request", "HEAD requests");
        return format!("sends {requests}, no message · {}", scope(&dialog.scope));
    }
    let known: Option<u64> = plans.iter().map(|plan| plan.messages).sum();
    let messages = match known {
        Some(moves) if dialog.action.confirm.shows == Shows::Policy => {
            plural(moves, "next attempt moves", "next attempts move")
        }
        Some(messages) => plural(messages, "message", "messages"),
        None => "an unknown number of messages".to_owned(),
    };
    let targets = plural_of(dialog.planning.targets(), one, many);
    let empty = match plans {
        [only] => only.time_to_empty(),
        _ => None,
    };
    let empty = empty.map_or_else(String::new, |takes| format!(" · empty in about {}", about(takes)));
    format!("{messages}{empty} · {targets} · {}", scope(&dialog.scope))
}

fn scope(scope: &Scope) -> String {
    let number = |number: usize| count(u64::try_from(number).unwrap_or(u64::MAX));
    let mut text = match scope.kind {
        ScopeKind::One => "the selected row".to_owned(),
        ScopeKind::Marked => format!("marked: {} shown", number(scope.shown)),
        ScopeKind::Filtered => format!("all {} that the filter shows", number(scope.shown)),
    };
    if scope.hidden > 0 {
        let _ = write!(text, ", {} hidden by the filter", number(scope.hidden));
    }
    if scope.gone > 0 {
        let _ = write!(text, ", {} gone", number(scope.gone));
    }
    if scope.skipped > 0 {
        let because = scope.skipped_because.as_deref().unwrap_or("it does not apply to them");
        let _ = write!(text, ", {} left out: {because}", number(scope.skipped));
    }
    text
}

/// Of a document that is written anew, the keys that change; `None`: what is planned is no document.
fn changes(dialog: &Dialog) -> Option<Vec<PlanLine>> {
    let plans = dialog
        .planning
        .plans
        .as_ref()
        .filter(|_| dialog.action.confirm.shows == Shows::Document)?;
    let object = |text: &str| serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text).ok();
    let mut changes = Vec::new();
    for line in plans.iter().flat_map(|plan| &plan.lines) {
        let (before, after) = (object(&line.now)?, object(&line.effect)?);
        let keys: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let written =
            |value: Option<&serde_json::Value>| value.map_or_else(|| "not set".to_owned(), ToString::to_string);
        let differ = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
        changes.extend(differ.map(|key| PlanLine {
            target: key.clone(),
            now: written(before.get(key)),
            effect: written(after.get(key)),
        }));
    }
    Some(changes)
}

/// Two lines a target. Only those that are on the screen are made.
fn targets<'a>(
    lines: impl Iterator<Item = &'a PlanLine>,
    first: usize,
    listed: usize,
    columns: usize,
    rules: Option<&MaskRules>,
) -> Vec<Line> {
    let both = lines.skip(first / 2).take(listed / 2 + 2).flat_map(|line| {
        let line = rules.map_or(Cow::Borrowed(line), |rules| Cow::Owned(line.masked(rules)));
        change(&line, columns)
    });
    both.skip(first % 2).take(listed).collect()
}

/// The rules for an edited message, unless what they hide was revealed.
fn masks<'a>(state: &'a State, dialog: &Dialog) -> Option<&'a MaskRules> {
    let revealed = state.nav.details.last().is_some_and(Detail::reveals_sent);
    (dialog.action.confirm.shows == Shows::Message && !revealed).then_some(&*state.session.mask)
}

/// What, and what becomes of it, on two lines. What is now stands beside what comes where both have room; else it stands
/// with the name, so that what comes is whole.
fn change(line: &PlanLine, columns: usize) -> [Line; 2] {
    let (margin, arrow) = ("  ", ARROW);
    let piece = |text: &str, role| (text.to_owned(), role);
    let left = columns.saturating_sub(width(margin) + width(arrow) + width(&line.effect));
    let name = vec![piece(&line.target, Role::Text)];
    if left >= width(&line.now).min(NOW_MIN) {
        let now = (show(&line.now, left.clamp(NOW_MIN, NOW_MAX)), Role::TextMuted);
        let change = vec![
            piece(margin, Role::Text),
            now,
            piece(arrow, Role::TextMuted),
            piece(&line.effect, Role::Info),
        ];
        return [name, change];
    }
    let beside = columns.saturating_sub(width(&line.target) + width(BETWEEN));
    let now = (show(&line.now, beside), Role::TextMuted);
    [
        name.into_iter().chain([piece(BETWEEN, Role::TextMuted), now]).collect(),
        vec![piece(arrow, Role::TextMuted), piece(&line.effect, Role::Info)],
    ]
}

fn more(canvas: &mut Canvas<'_>, outer: Rect, listed: u16, first: usize, lines: usize) {
    if lines <= usize::from(listed) {
        return;
    }
    let last = first.midpoint(usize::from(listed)).max(first / 2 + 1);
    let all = plural_of(lines / 2, "target", "targets");
    let text = format!(" {}–{last} of {all}, ↑↓ ", first / 2 + 1);
    let corner = Rect {
        width: outer.width.saturating_sub(2),
        ..row(outer, outer.height.saturating_sub(1))
    };
    canvas.right(corner, &text, Role::DialogBorder);
}

/// What to press, and how fast a run goes.
fn press(now: crate::domain::time::Timestamp, dialog: &Dialog, columns: usize, height: u16) -> Vec<Line> {
    let mut lines = Vec::new();
    let reason = &dialog.reason;
    if height >= ROOM_FOR_REASON || reason.is_open || reason.is_missing() {
        lines.push(reason_line(reason, columns));
    }
    if let Some(pace) = dialog.pace.as_ref().filter(|_| !dialog.planning.is_awaited()) {
        lines.extend(dialog_run::pace(pace, columns));
    }
    lines.extend(answers(now, dialog, columns));
    lines
}

/// Why it is done, for the audit; Tab writes it.
fn reason_line(reason: &ReasonLine, columns: usize) -> Line {
    let text = |text: &str, role| (text.to_owned(), role);
    let written = || show(&reason.text, columns.saturating_sub(REASON_AROUND));
    if reason.is_open {
        let end = "▏ Enter: back to the answer";
        return vec![
            text("reason: ", Role::DialogKey),
            (written(), Role::Input),
            text(end, Role::TextMuted),
        ];
    }
    let said = match (reason.text.trim(), reason.is_required) {
        ("", true) => text("required here", Role::Warning),
        ("", false) => text("none", Role::TextMuted),
        _ => (written(), Role::Info),
    };
    vec![text("Tab", Role::DialogKey), text("  reason: ", Role::TextMuted), said]
}

/// Cancel in front, and accepting only when it is armed.
fn answers(now: crate::domain::time::Timestamp, dialog: &Dialog, columns: usize) -> Vec<Line> {
    let (title, keep) = dialog.action.answers();
    let text = |text: &str, role| (text.to_owned(), role);
    let cancel = (format!("[ Enter  {keep} ]"), Role::TabSelected);
    if dialog.planning.is_awaited() {
        return vec![vec![cancel]];
    }
    match &dialog.friction {
        Friction::Key(key) => {
            let accept = if dialog.planning.is_armed(now) {
                (format!("{key}  {title}"), Role::DialogKey)
            } else {
                (format!("{key}  {title} (in a moment)"), Role::HintDisabled)
            };
            let mut lines = refused(dialog, columns);
            lines.push(vec![cancel, text("   ", Role::Text), accept]);
            lines
        }
        Friction::Type { what, word } => {
            let done = dialog.typed == *word;
            let enter = if done {
                format!("[ Enter  {title} ]")
            } else {
                format!("[ Enter or Esc  {keep} ]")
            };
            let enter_role = if done { Role::DialogDanger } else { Role::TabSelected };
            let mut lines = vec![vec![(enter, enter_role)]];
            lines.extend(refused(dialog, columns));
            lines.extend(asked_for(now, dialog, (what, word), columns));
            lines
        }
    }
}

/// Why the last answer was not taken, at the place where it is typed.
fn refused(dialog: &Dialog, columns: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    if let Some(why) = &dialog.refused {
        wrapped(&mut lines, &format!("! {why}"), columns, 2, Role::Warning);
    }
    lines
}

/// What has to be typed, and what is: a long name one above the other, so that a slip can be seen.
fn asked_for(
    now: crate::domain::time::Timestamp,
    dialog: &Dialog,
    (what, word): (&str, &str),
    columns: usize,
) -> Vec<Line> {
    let wait = if dialog.planning.is_armed(now) { "" } else { IN_A_MOMENT };
    let label = format!("to {}, type the {what}:", dialog.action.answers().0);
    let typed = (show(&dialog.typed, columns), Role::Input);
    if width(IN_A_MOMENT) + width(&label) + 2 * (1 + width(word)) <= columns {
        let label = format!("{wait}{label} {} ", show(word, columns));
        return vec![vec![(label, Role::DialogKey), typed]];
    }
    let margin = ("  ".to_owned(), Role::Text);
    vec![
        vec![(format!("{wait}{label}"), Role::DialogKey)],
        vec![margin.clone(), (show(word, columns), Role::Text)],
        vec![margin, typed],
    ]
}
