//! Text from outside that tries to do something, in every place that shows any: nothing of it reaches
//! the screen as it is, and it changes no cells but its own.

use std::sync::Arc;

use bytes::Bytes;
use ratatui::buffer::Buffer;
use redrive::internals::console::state::View;
use redrive::internals::console::state::detail::{DetailAnswer, Subject};
use redrive::internals::console::{Event, Theme};
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::message::HeaderValue;
use redrive::internals::domain::queue::{Pause, QueueKind, QueueState};
use redrive::internals::domain::text::is_hidden;
use redrive::internals::engine::snapshot::{EndpointRow, QueueFacts, QueueRow, Snapshot};

use super::fixture::{Player, after, before, day, details, events, fed, plans};

/// What stands in the place of a harmless text.
const FILL: char = '¤';
/// One cell never holds more: a character with the marks that are let through.
const CELL_BYTES_MAX: usize = 40;

fn corpus() -> Vec<String> {
    vec![
        "\u{1b}[2J\u{1b}[1;1H\u{1b}[31mred".to_owned(),
        "\u{1b}]0;title\u{7}\u{1b}]52;c;ZXZpbA==\u{7}\u{9b}2J\u{9d}x\u{9c}".to_owned(),
        (0..0x20_u8)
            .map(char::from)
            .chain(('\u{7f}'..='\u{9f}').step_by(1))
            .collect(),
        "user\u{202e}gpj.exe\u{202c} \u{2066}abc\u{2069} \u{200f}\u{200e}\u{61c}".to_owned(),
        "a\u{200b}b\u{200d}c\u{2060}d\u{feff}e\u{ad}f".to_owned(),
        "hidden\u{e0001}\u{e0068}\u{e0069}\u{e007f} \u{e0100}\u{e01ef}".to_owned(),
        format!("a{}", "\u{301}".repeat(100_000)),
        "x".repeat(1 << 20),
        "漢字かな交じり文".repeat(50),
        "👩\u{200d}👩\u{200d}👧\u{200d}👦 🇩🇪 👍🏽 ❤\u{fe0f} 1\u{fe0f}\u{20e3} ".repeat(20),
        "one\ttwo\nthree\r\nfour\u{b}\u{c}\u{85}\u{2028}\u{2029}five".to_owned(),
        "\u{fffd}\u{fff9}\u{fffe}\u{10ffff} \u{e000}".to_owned(),
        "\u{301}\u{301}begins with marks".to_owned(),
    ]
}

/// As long as the harmless text, so that it takes the same lines.
fn long(text: &str) -> String {
    if text.len() > 4_000 {
        text.to_owned()
    } else {
        text.repeat(4_000 / text.len().max(1) + 1)
    }
}

fn harmless() -> String {
    FILL.to_string().repeat(4_000)
}

fn queue_name(text: &str) -> QueueName {
    let mut end = text.len().min(255);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    QueueName::parse(&text[..end]).unwrap()
}

fn hostile_queue(text: &str) -> QueueRow {
    QueueRow::from(QueueFacts {
        ready: Some(1),
        oldest_at: Some(before(9)),
        next_attempt_at: Some(after(9)),
        owner: Some(Arc::new(text.to_owned())),
        why: Some(Arc::new(text.to_owned())),
        warnings: vec![text.to_owned()],
        state: Some(QueueState::Parked),
        ..QueueFacts::unknown(queue_name(text), QueueKind::Delivery)
    })
}

/// The bad day with this text wherever an outside one stands.
fn snapshot(text: &str) -> Snapshot {
    let day = day::snapshot();
    let mut queues = day.queues.to_vec();
    queues.push(Arc::new(hostile_queue(text)));
    let endpoints = day.endpoints.iter().map(|row| {
        let mut row = EndpointRow::clone(row);
        row.endpoint.last_error = Some(text.to_owned());
        Arc::new(row)
    });
    let retries = day.retries.to_vec();
    let mut snapshot = day::of(queues, endpoints.collect(), retries);
    let mut incarnations = snapshot.incarnations.to_vec();
    for incarnation in &mut incarnations {
        text.clone_into(&mut incarnation.name);
        text.clone_into(&mut incarnation.host);
    }
    snapshot.incarnations = Arc::new(incarnations);
    snapshot.broker.problem = Some(text.to_owned());
    snapshot.alarm = Some(text.to_owned());
    snapshot
}

fn detail(text: &str) -> impl Fn(Subject) -> DetailAnswer {
    let text = text.to_owned();
    move |subject| {
        let mut answer = details::with_messages(subject);
        if let Some(Ok(queue)) = &mut answer.queue {
            queue.owner = Some(text.clone());
            queue.warnings = vec![text.clone()];
            queue.paused = Some(Pause {
                by: text.clone(),
                reason: Some(text.clone()),
                at: before(3),
            });
            queue.why.as_mut().unwrap().text.clone_from(&text);
            queue.head.as_mut().unwrap().last_error = Some(text.clone());
        }
        if let Some(Ok(endpoint)) = &mut answer.endpoint {
            endpoint.endpoint.last_error = Some(text.clone());
        }
        for attempt in answer.attempts.as_mut().unwrap() {
            attempt.error = Some(text.clone());
            attempt.response = Some(text.clone().into_bytes());
        }
        if let Some(Ok(messages)) = &mut answer.messages {
            for message in messages {
                message.foreign = Some(text.clone());
                message.message.message_id = Some(text.clone());
                message.message.content_type = Some(text.clone());
                message
                    .message
                    .headers
                    .push((text.clone(), HeaderValue::Other(text.clone())));
                message
                    .message
                    .headers
                    .insert(0, (text.clone(), HeaderValue::text(&text)));
                message.message.body = Bytes::from(text.clone());
            }
        }
        answer
    }
}

fn failed(text: &str) -> impl Fn(Subject) -> DetailAnswer {
    let text = text.to_owned();
    move |subject| DetailAnswer {
        subject,
        taken_at: before(1),
        queue: Some(Err(text.clone())),
        endpoint: Some(Err(text.clone())),
        attempts: Err(text.clone()),
        map: None,
        messages: Some(Err(text.clone())),
        about: Some(Err(text.clone())),
    }
}

fn dialog(text: &str) -> Player {
    let mut plan = plans::redeliver();
    text.clone_into(&mut plan.title);
    plan.warnings = vec![text.to_owned(); 7];
    for line in &mut plan.lines {
        text.clone_into(&mut line.target);
        text.clone_into(&mut line.now);
        text.clone_into(&mut line.effect);
    }
    Player::bad_day().keys("3 R").planned(vec![plan])
}

fn lists(text: &str) -> Vec<Player> {
    let shown = || Player::connected().shows(snapshot(text));
    vec![
        shown().keys("2"),
        shown().keys("3"),
        shown().keys("4"),
        shown().keys("1"),
    ]
}

/// What is asked for while it is in front, with this text wherever an outside one stands.
fn fed_lists(text: &str) -> Vec<Player> {
    let raw = text;
    let text = Some(text);
    let at = |key: &str| Player::bad_day().keys(key);
    let groups = || at("5").fed(fed::groups(text));
    let letters = || groups().keys("Enter").fed(fed::letters(text));
    let letter = || {
        letters()
            .keys("Enter")
            .answered(|subject| fed::letter_detail(subject, text))
    };
    let run = || {
        at("7")
            .fed(fed::runs(text))
            .keys("Enter")
            .answered(|subject| fed::run_detail(subject, text))
    };
    let types = || at("0").fed(events::types(text));
    let reasons = || types().keys("Down Enter").fed(events::groups(text));
    let listed = || reasons().keys("Down Enter").fed(events::events(text));
    let event = || {
        listed()
            .keys("Enter")
            .answered(|subject| events::event_detail(subject, text))
    };
    vec![
        groups(),
        letters(),
        letter(),
        letter().keys("Tab"),
        letter().keys("Tab Tab"),
        letters()
            .keys("d")
            .answered(|subject| fed::comparison(subject, 2, text)),
        letters()
            .keys("d")
            .answered(|subject| fed::comparison(subject, 2, text))
            .keys("Tab"),
        groups().keys("R").planned(vec![fed::redrive_plan(text)]),
        at("6").fed(fed::policies(text)),
        at("7").fed(fed::runs(text)),
        run(),
        run().keys("Tab"),
        at("8").fed(fed::audit(text)),
        types(),
        reasons(),
        listed(),
        event(),
        event().keys("Tab"),
        event().keys("Tab Tab"),
        reasons().keys("Down X").planned(vec![events::cancel_plan(text)]),
        types()
            .keys("Down i")
            .answered(|subject| events::type_detail(subject, text)),
        types()
            .keys("Down i Tab")
            .answered(|subject| events::type_detail(subject, text)),
        types()
            .keys("Down i")
            .answered(|subject| events::type_detail(subject, text))
            .keys("E"),
        at("-").fed(events::expiring(text)),
        at("- w").fed(events::saves(text)),
        listed().keys("Enter").answered(failed(raw)),
        types().keys("Down i").answered(failed(raw)),
        at("8").fed_with(Err(raw.to_owned()), None),
        letters().keys("Enter").answered(failed(raw)),
        at("7").fed(fed::runs(None)).keys("Enter").answered(failed(raw)),
    ]
}

fn others(text: &str) -> Vec<Player> {
    let open = || Player::connected().shows(snapshot(text)).keys("2 Enter");
    let mut renamed = Player::bad_day();
    text.clone_into(&mut renamed.state.session.place.label);
    text.clone_into(&mut renamed.state.session.place.broker);
    text.clone_into(&mut renamed.state.session.place.store);
    let problem = Event::Connecting {
        problem: Some(text.to_owned()),
        attempt: 2,
        next_at: after(1),
    };
    let mut typed = Player::bad_day().keys("2 /");
    let _ = redrive::internals::console::update(&mut typed.state, after(0), Event::Paste(text.to_owned()));
    vec![
        renamed,
        Player::connecting().event(problem),
        open().answered(detail(text)),
        open().answered(detail(text)).keys("Tab"),
        open().answered(detail(text)).keys("Tab Tab"),
        open().answered(failed(text)),
        open().answered(failed(text)).keys("Tab"),
        open().answered(failed(text)).keys("Tab Tab"),
        dialog(text),
        Player::bad_day().keys("3 R").event(Event::Planned {
            request: 1,
            result: Err(text.to_owned()),
        }),
        typed,
    ]
}

#[track_caller]
fn is_harmless(buffer: &Buffer, text: &str) {
    for cell in buffer.content() {
        let symbol = cell.symbol();
        assert!(symbol.len() <= CELL_BYTES_MAX, "{} bytes in a cell", symbol.len());
        let acts = symbol
            .chars()
            .any(|character| character.is_control() || is_hidden(character));
        assert!(!acts, "{symbol:?} of {:?}", text.chars().take(40).collect::<String>());
    }
}

#[test]
fn nothing_that_acts_or_hides_reaches_a_cell() {
    let theme = Theme::default();
    for text in corpus() {
        for text in [text.clone(), long(&text)] {
            for player in lists(&text).into_iter().chain(fed_lists(&text)).chain(others(&text)) {
                for (columns, rows) in [(80, 24), (200, 60)] {
                    is_harmless(&player.clone().sized(columns, rows).paint(&theme), &text);
                }
            }
        }
    }
}

/// Whether a cell belongs to a text from outside. In a sentence of the overview, what follows such a text
/// moves with its length; in a list nothing does.
fn is_own(expected: &Buffer, columns: u16, place: usize, view: View) -> bool {
    let cells = expected.content();
    let symbol = cells[place].symbol();
    let line = place - place % usize::from(columns);
    let behind = view == View::Overview && cells[line..place].iter().any(|cell| cell.symbol().starts_with(FILL));
    symbol.starts_with(FILL) || symbol == "…" || behind
}

/// Painted with a harmless text of the same length, every place that shows it is full of one character:
/// a cell that differs must be one of those.
#[test]
fn text_from_outside_changes_no_cells_but_its_own() {
    let theme = Theme::default();
    let plain = harmless();
    for (columns, rows) in [(80, 24), (120, 40), (200, 60)] {
        let expected: Vec<Buffer> = lists(&plain)
            .into_iter()
            .map(|player| player.sized(columns, rows).paint(&theme))
            .collect();
        for text in corpus() {
            let text = long(&text);
            for (player, expected) in lists(&text).into_iter().zip(&expected) {
                let view = player.state.nav.view;
                let found = player.sized(columns, rows).paint(&theme);
                for (place, (found, cell)) in found.content().iter().zip(expected.content()).enumerate() {
                    let own = is_own(expected, columns, place, view);
                    assert!(
                        own || found == cell,
                        "{view:?} at {columns}×{rows}, cell {place}: {:?} instead of {:?}",
                        found.symbol(),
                        cell.symbol()
                    );
                }
            }
        }
    }
}
