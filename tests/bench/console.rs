//! The console: how soon it is there, what a frame costs, and what it takes while nothing happens.
//!
//! | row | from when to when, of what |
//! |---|---|
//! | first frame | from the start of the program on a pseudo-terminal to the end mark of its first frame; the broker accepts connections and never answers |
//! | frame | view, comparison and encoding of one frame at 120×40 after a key moved the selection, over 100,000 and 1,000,000 queues |
//! | filter | filtering and sorting 100,000 queues for one key of a filter that is typed, in the task that the console gives it to |
//! | payload | from the answer with a message to its first painted frame at 120×40: what the rules hide, layout, view, encoding |
//! | key → paint | from a key put into the loop's channel to the write of the frame that shows its effect, while 1,000 and 5,000 events of the engine a second arrive |
//! | idle | bytes written and processor time of the program's threads, on a store and broker in which nothing happens, looked at every 2 s |
//! | memory | resident memory of a process with the loop and 100,000 rows, before and after a refresh in which one row of a hundred changed |

use std::io::{self, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Position;
use redrive::internals::ambient::Clock;
use redrive::internals::console::effects::{Actor, Executor};
use redrive::internals::console::runtime::painter::Painter;
use redrive::internals::console::runtime::{INPUTS_MAX, Input, Screen};
use redrive::internals::console::state::Place;
use redrive::internals::console::state::detail::{DetailAnswer, DetailTab};
use redrive::internals::console::state::keymap::Keymap;
use redrive::internals::console::table::ArrangeJob;
use redrive::internals::console::{ConsoleSettings, Deliver, Effect, Event, State, Theme, update, view};
use redrive::internals::domain::attempt::Attempt;
use redrive::internals::domain::id::{Epoch, ExecutionId, NotificationId, QueueName};
use redrive::internals::domain::message::Message;
use redrive::internals::domain::naming::{Naming, QueueType};
use redrive::internals::domain::outcome::OutcomeClass;
use redrive::internals::domain::queue::{QueueKind, QueueState};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::engine::snapshot::{Part, QueueFacts, QueueRow, Snapshot, Totals};
use redrive::internals::engine::view::BrowsedMessage;
use redrive::internals::engine::{self, Access};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::numbers::{p50_p99_ms, rounds, share};
use crate::process::Side;
use crate::terminal::{FRAME_END, Program, SIZE, scratch};

/// Rows of the large list, and of the largest.
const ROWS: usize = 100_000;
const MOST_ROWS: usize = 1_000_000;
/// Typed key by key: texts, numbers and a negation.
const FILTER: &str = "depth > 20 and endpoint ~ receiver-7 and not state = parked";
const FRAMES: usize = 2_000;
const KEYS: usize = 300;
const EVENTS_A_SECOND: [u64; 2] = [1_000, 5_000];
/// Bytes of a large payload, and how often each one is painted.
const PAYLOAD: usize = 50_000_000;
const PAYLOAD_ROUNDS: usize = 20;
const IDLE: Duration = Duration::from_secs(20);

/// Prints the rows of the table.
pub async fn run() {
    println!("\n| console | measured | goal |\n|---|---|---|");
    first_frame();
    frame(ROWS);
    frame(MOST_ROWS);
    filter();
    payload();
    for events_a_second in EVENTS_A_SECOND {
        key_to_paint(events_a_second).await;
    }
    idle();
    memory().await;
}

fn row(what: &str, measured: &str, goal: &str) {
    println!("| {what} | {measured} | {goal} |");
}

fn first_frame() {
    // It accepts, because the kernel does, and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let mut times = Vec::new();
    for _ in 0..rounds().max(5) * 4 {
        let directory = scratch();
        let configuration = format!(
            "[store]\nurl = \"sqlite:{}\"\n[broker]\nurl = \"amqp://guest:guest@{address}\"\nmanagement_url = \"http://guest:guest@{address}\"\n",
            directory.path().join("store.db").display()
        );
        let begin = Instant::now();
        let mut program = Program::start(directory.path(), &configuration, &[]);
        let at = program.until(FRAME_END);
        times.push(at.duration_since(begin).as_secs_f64() * 1_000.0);
        program.quit();
    }
    times.sort_by(f64::total_cmp);
    let measured = format!("p50 {:.1} ms, p99 {:.1} ms", share(&times, 0.5), share(&times, 0.99));
    row("first frame before any server answers", &measured, "p99 ≤ 60 ms");
}

fn idle() {
    let directory = scratch();
    let configuration = format!(
        "[store]\nurl = \"sqlite:{}\"\n[broker]\nurl = \"embedded:\"\n[console]\nrefresh_s = 2\npreview = false\n",
        directory.path().join("store.db").display()
    );
    // Who only reads makes no store.
    Program::migrate(directory.path(), &configuration);
    let mut program = Program::start(directory.path(), &configuration, &["--read-only"]);
    program.until("live".as_bytes());
    // The overview's charts grow for an hour: that is a change.
    program.input.write_all(b"2").unwrap();
    program.bytes_within(Duration::from_secs(5));
    let before = program.processor();
    let bytes = program.bytes_within(IDLE);
    let after = program.processor();
    program.quit();
    let percent = |of: usize| after[of].saturating_sub(before[of]).as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    let measured = format!(
        "{bytes} bytes; the screen's threads {:.3} % of a core, all with the looks every 2 s {:.2} %, in {} s",
        percent(1),
        percent(0),
        IDLE.as_secs()
    );
    row("idle, list of queues", &measured, "0 bytes, ≤ 0.1 %");
}

// --- the loop in this process

fn settings() -> ConsoleSettings {
    ConsoleSettings {
        place: Place::default(),
        theme: None,
        keys: std::collections::BTreeMap::new(),
        mask: std::sync::Arc::new(redrive::internals::domain::mask::MaskRules::usual()),
        refresh: Duration::from_secs(2),
        access: Access::Operator,
        actor: "bench".to_owned(),
        reason: None,
        deliver: Deliver::Never,
        profiles: redrive::internals::console::state::settings::Profiles::default(),
        mouse: false,
        views: redrive::internals::console::state::saved::NamedViews::default(),
        preview: true,
        notify: redrive::internals::console::state::call::Notify::Off,
        titles: true,
        at: None,
        reload: None,
        survey: None,
    }
}

/// A console at the list of queues.
fn state() -> State {
    let keymap = Keymap::from_config(&settings().keys).unwrap();
    let now = Clock::system().now();
    let mut state = State::new(&settings(), Arc::new(keymap), now);
    let (columns, rows) = SIZE;
    for event in [
        Event::Resize { columns, rows },
        Event::Connected,
        key(KeyCode::Char('2')),
    ] {
        let _ = update(&mut state, now, event);
    }
    state
}

fn key(code: KeyCode) -> Event {
    Event::Key(KeyEvent::new(code, KeyModifiers::NONE))
}

/// Queues of 1,000 URLs; every seventh waits for a retry.
fn queue_row(number: usize, ready: u64) -> Arc<QueueRow> {
    thread_local! {
        static SHARED: (Vec<Arc<EndpointUrl>>, [Arc<String>; 2]) = (
            (0..1_000)
                .map(|n| Arc::new(EndpointUrl::parse(&format!("https://receiver-{n}.example/hook")).unwrap()))
                .collect(),
            ["delivering, by redrive-1", "retry 3 of 9 waits"].map(|why| Arc::new(why.to_owned())),
        );
    }
    let naming = Naming {
        prefix: "redrive.".to_owned(),
        vhost: "redrive".to_owned(),
        url_hash_key: "bench".to_owned(),
        queue_type: QueueType::Classic,
    };
    SHARED.with(|(urls, whys)| {
        let url = Arc::clone(&urls[number % urls.len()]);
        let execution = ExecutionId::parse(&format!("execution-{number:08}")).unwrap();
        let waits = number.is_multiple_of(7);
        let name = naming.delivery_queue(&execution, &url);
        let facts = QueueFacts {
            url: Some(url),
            execution: Some(execution),
            ready: Some(ready),
            unacked: Some(1),
            delivered: Some(ready * 3),
            why: Some(Arc::clone(&whys[usize::from(waits)])),
            state: Some(if waits {
                QueueState::WaitingRetry
            } else {
                QueueState::Delivering
            }),
            ..QueueFacts::unknown(name, QueueKind::Delivery)
        };
        Arc::new(facts.into())
    })
}

fn snapshot(generation: u64, queues: Vec<Arc<QueueRow>>) -> Arc<Snapshot> {
    let now = Clock::system().now();
    let part = Part {
        problem: None,
        taken_at: Some(now),
    };
    Arc::new(Snapshot {
        generation,
        taken_at: now,
        broker: part.clone(),
        store: part,
        totals: Totals {
            waiting: Some(ROWS as u64),
            ..Totals::default()
        },
        queues: Arc::new(queues),
        ..Snapshot::default()
    })
}

fn many_rows(rows: usize) -> Vec<Arc<QueueRow>> {
    (0..rows).map(|number| queue_row(number, number as u64 % 50)).collect()
}

/// Arranges what the state asks for, at once.
fn take(state: &mut State, now: Timestamp, event: Event) {
    for effect in update(state, now, event) {
        if let Effect::Arrange(job) = effect {
            take(state, now, Event::Arranged(ArrangeJob::run(&job)));
        }
    }
}

fn frame(rows: usize) {
    redrive_colours();
    let (clock, theme) = (Clock::system(), Theme::default());
    let mut state = state();
    take(&mut state, clock.now(), Event::Snapshot(snapshot(1, many_rows(rows))));
    let mut painter = Painter::new(io::sink());
    let mut times = Vec::with_capacity(FRAMES);
    let mut bytes = 0;
    for number in 0..FRAMES {
        let code = if number % 50 < 40 {
            KeyCode::Down
        } else {
            KeyCode::PageDown
        };
        take(&mut state, clock.now(), key(code));
        let begin = Instant::now();
        bytes += painter.paint(SIZE, |buffer| view(&state, &theme, buffer)).unwrap();
        times.push(begin.elapsed().as_secs_f64() * 1_000.0);
    }
    times.sort_by(f64::total_cmp);
    let measured = format!(
        "p50 {:.3} ms, p99 {:.3} ms, {} bytes a frame",
        share(&times, 0.5),
        share(&times, 0.99),
        bytes / FRAMES
    );
    let what = format!("frame at 120×40 over {rows} queues");
    row(&what, &measured, "p50 ≤ 0.5 ms");
}

fn filter() {
    let clock = Clock::system();
    let mut state = state();
    take(&mut state, clock.now(), Event::Snapshot(snapshot(1, many_rows(ROWS))));
    let mut times = Vec::new();
    let keys = ['/'].into_iter().chain(FILTER.chars()).map(KeyCode::Char);
    for code in keys.chain([KeyCode::Enter]) {
        for effect in update(&mut state, clock.now(), key(code)) {
            let Effect::Arrange(job) = effect else { continue };
            let begin = Instant::now();
            let arranged = ArrangeJob::run(&job);
            times.push(begin.elapsed().as_secs_f64() * 1_000.0);
            take(&mut state, clock.now(), Event::Arranged(arranged));
        }
    }
    times.sort_by(f64::total_cmp);
    let measured = format!(
        "p50 {:.1} ms, most {:.1} ms over {} jobs",
        share(&times, 0.5),
        share(&times, 1.0),
        times.len()
    );
    row("filter over 100,000 queues, off the drawing task", &measured, "≤ 50 ms");
}

/// The worst of each kind of body, on the tab with the messages of a queue.
fn payload() {
    redrive_colours();
    let (clock, theme) = (Clock::system(), Theme::default());
    let bodies: [(&str, Bytes); 5] = [
        ("50 MB on one line", vec![b'x'; PAYLOAD].into()),
        (
            "50 MB of JSON",
            format!("[{}0]", r#"{"password":"x","n":1},"#.repeat(PAYLOAD / 23)).into(),
        ),
        ("50 MB of bytes", (0..=250_u8).cycle().take(PAYLOAD).collect()),
        (
            "100,000 combining characters",
            format!("e{}", "\u{301}".repeat(100_000)).into(),
        ),
        ("JSON 20,000 levels deep", "[".repeat(20_000).into()),
    ];
    for (what, body) in bodies {
        let mut times: Vec<f64> = (0..PAYLOAD_ROUNDS)
            .map(|_| first_paint(&clock, &theme, &body))
            .collect();
        times.sort_by(f64::total_cmp);
        let measured = format!("p50 {:.1} ms, most {:.1} ms", share(&times, 0.5), share(&times, 1.0));
        row(&format!("first paint of {what}"), &measured, "≤ 100 ms");
    }
}

/// Milliseconds from the answer to the end of the frame.
fn first_paint(clock: &Clock, theme: &Theme, body: &Bytes) -> f64 {
    let mut state = state();
    take(&mut state, clock.now(), Event::Snapshot(snapshot(1, many_rows(10))));
    take(&mut state, clock.now(), key(KeyCode::Enter));
    while state.nav.details.last().unwrap().tab != DetailTab::Messages {
        take(&mut state, clock.now(), key(KeyCode::Tab));
    }
    let answer = DetailAnswer {
        subject: state.nav.details.last().unwrap().subject.clone(),
        taken_at: clock.now(),
        queue: None,
        endpoint: None,
        attempts: Ok(Vec::new()),
        map: None,
        messages: Some(Ok(vec![BrowsedMessage {
            position: 1,
            message: Message {
                body: body.clone(),
                ..Message::default()
            },
            foreign: None,
            redelivered: false,
        }])),
        about: None,
    };
    let mut painter = Painter::new(io::sink());
    let begin = Instant::now();
    take(&mut state, clock.now(), Event::Detail(Box::new(answer)));
    painter.paint(SIZE, |buffer| view(&state, theme, buffer)).unwrap();
    begin.elapsed().as_secs_f64() * 1_000.0
}

/// As the console does first: the environment must not change what is measured.
fn redrive_colours() {
    crossterm::style::force_color_output(true);
}

/// Where the selection was in the frame that is being painted.
static PAINTED: AtomicUsize = AtomicUsize::new(0);

fn told_view(state: &State, theme: &Theme, buffer: &mut Buffer) -> Option<Position> {
    PAINTED.store(state.lists.queues.cursor.place, Ordering::SeqCst);
    view(state, theme, buffer)
}

/// Keeps the time of each frame and where the selection was in it.
#[derive(Clone, Default)]
struct Frames(Arc<Mutex<Vec<(Instant, usize)>>>);

impl Write for Frames {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let painted = (Instant::now(), PAINTED.load(Ordering::SeqCst));
        self.0.lock().unwrap().push(painted);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn key_to_paint(events_a_second: u64) {
    redrive_colours();
    let clock = Clock::system();
    let mut state = state();
    take(&mut state, clock.now(), Event::Snapshot(snapshot(1, many_rows(ROWS))));
    let (inputs, receiver) = mpsc::channel(INPUTS_MAX);
    let (frames, stop) = (Frames::default(), CancellationToken::new());
    let screen = Screen::new(state, Theme::default(), told_view, frames.clone(), receiver, clock);
    let ends = stop.clone();
    let shown = std::thread::spawn({
        let runtime = tokio::runtime::Handle::current();
        let mut screen = screen;
        move || runtime.block_on(async move { screen.run(&ends, &mut |_| {}).await.unwrap() })
    });
    let flood = tokio::spawn(flood(inputs.clone(), stop.clone(), events_a_second));
    let pressed = press_keys(&inputs).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    stop.cancel();
    flood.await.unwrap();
    shown.join().unwrap();
    let frames = frames.0.lock().unwrap();
    let latencies: Vec<u64> = pressed
        .iter()
        .map(|(at, cursor)| latency(&frames, *at, *cursor))
        .collect();
    let (p50, p99) = p50_p99_ms(&latencies);
    let measured = format!("p50 {p50:.2} ms, p99 {p99:.2} ms over {KEYS} keys");
    let what = format!("key → paint at {events_a_second} engine events a second");
    row(&what, &measured, "p99 ≤ 16 ms");
}

/// Microseconds from a key to the first frame in which the selection is where the key put it, or further.
fn latency(frames: &[(Instant, usize)], pressed: Instant, cursor: usize) -> u64 {
    let painted = frames.iter().find(|(at, shown)| *at >= pressed && *shown >= cursor);
    let (at, _) = painted.expect("a frame for each key");
    u64::try_from(at.duration_since(pressed).as_micros()).unwrap()
}

/// At moments that have nothing to do with the frames.
async fn press_keys(inputs: &mpsc::Sender<Input>) -> Vec<(Instant, usize)> {
    let mut pressed = Vec::new();
    for number in 1..=KEYS {
        tokio::time::sleep(Duration::from_micros(20_000 + fastrand::u64(..250_000))).await;
        pressed.push((Instant::now(), number));
        inputs.send(key(KeyCode::Down).into()).await.unwrap();
    }
    pressed
}

async fn flood(inputs: mpsc::Sender<Input>, stop: CancellationToken, events_a_second: u64) {
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    let mut number = 0;
    while !stop.is_cancelled() {
        ticks.tick().await;
        for _ in 0..events_a_second / 200 {
            number += 1;
            let _ = inputs.send(Event::Engine(engine_event(number)).into()).await;
        }
    }
}

/// One of ten is something for the log, the rest are attempts.
fn engine_event(number: u64) -> engine::Event {
    let queue = QueueName::parse("redrive.q.bench").unwrap();
    if number.is_multiple_of(10) {
        return engine::Event::DeadLettered {
            queue,
            reason: format!("refused: {number}"),
        };
    }
    engine::Event::Attempted(Box::new(Attempt {
        message_id: NotificationId::parse(&format!("message-{number}")).unwrap(),
        queue,
        url: EndpointUrl::parse("https://receiver.example/hook").unwrap(),
        number: 1,
        epoch: Epoch(1),
        started_at: Timestamp::from_seconds(1),
        duration_ms: 3,
        class: OutcomeClass::Delivered,
        status: Some(200),
        error: None,
        response: None,
        counted: true,
    }))
}

// --- memory, in a process of its own

async fn memory() {
    let mut side = Side::start("console", &[]);
    let mut numbers = Vec::new();
    for _ in 0..3 {
        let line = side.line().await;
        numbers.push(line.parse::<f64>().unwrap());
    }
    side.finish().await;
    let [empty, full, after] = numbers[..] else {
        panic!("three numbers")
    };
    let measured = format!(
        "{full:.1} MiB, {after:.1} MiB at most through a refresh that changed 1 % ({empty:.1} MiB without rows)"
    );
    row("resident memory with 100,000 rows", &measured, "≤ 40 MiB");
}

/// The side of [`memory`]: prints resident mebibytes without rows, with all rows on the screen, and
/// the highest up to the end of a refresh.
pub async fn hold_rows() {
    let (inputs, receiver) = mpsc::channel(INPUTS_MAX);
    let clock = Clock::system();
    let stop = CancellationToken::new();
    let mut screen = Screen::new(
        state(),
        Theme::default(),
        told_view,
        Frames::default(),
        receiver,
        clock.clone(),
    );
    let actor = Actor {
        access: Access::ReadOnly,
        name: "bench".to_owned(),
        reason: None,
        window: false,
    };
    let mut executor = Executor::new(Arc::default(), actor, inputs.clone(), clock);
    let ends = stop.clone();
    let shown = tokio::spawn(async move {
        let mut carry_out = |effect| executor.carry_out(effect);
        let _ = screen.run(&ends, &mut carry_out).await;
        screen
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    println!("{:.3}", status_mebibytes("VmRSS:"));
    let rows = many_rows(ROWS);
    inputs
        .send(Event::Snapshot(snapshot(1, rows.clone())).into())
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    println!("{:.3}", status_mebibytes("VmRSS:"));
    let changed = rows.iter().enumerate().map(|(number, row)| {
        if number.is_multiple_of(100) {
            queue_row(number, 77)
        } else {
            Arc::clone(row)
        }
    });
    let changed = snapshot(2, changed.collect());
    drop(rows);
    inputs.send(Event::Snapshot(changed).into()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    println!("{:.3}", status_mebibytes("VmHWM:"));
    stop.cancel();
    let screen = shown.await.unwrap();
    assert_eq!(screen.state.lists.queues.order.len(), ROWS, "every row was arranged");
}

fn status_mebibytes(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}
