//! What people order of dead letters while things fail: runs that redrive, move, discard and put back, that are paused,
//! resumed, cancelled and held by a canary; and what a person may rely on.
//!
//! Half of the worlds have a dead-letter queue of others, whose messages go to a queue that nobody consumes; the other
//! half have dead letters of delivery queues, whose receiver was mended meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use redrive::internals::ambient;
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::message::{Message, decode};
use redrive::internals::domain::run::{ItemState, RunCounts, RunState, RunWish};
use redrive::internals::engine::runs::{Order, OrderKind, RUN, Selection};
use redrive::internals::engine::{Access, Command, Engine, EngineError};
use redrive::internals::store::{ItemRecord, RunRecord};
use tokio::time::Instant;

use super::broker::{Model, Step};
use super::plan::Dice;
use super::store::Database;
use super::trace::Trace;

/// The dead-letter queue of others, and where what is in it goes.
pub const SOURCE: &str = "orders.dead";
const TARGET: &str = "orders";
/// A run is over so long after it was begun, or it is stuck.
const BOUND: Duration = Duration::from_mins(15);
/// How often a person tries again what was refused.
const TRIES: u32 = 400;

/// What is ordered in one run of the simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// Messages in the dead-letter queue of others; 0: the dead letters are those of delivery queues.
    pub letters: u32,
    /// What each person orders, one after the other.
    pub people: Vec<Vec<Wanted>>,
}

/// One order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    kind: OrderKind,
    rate: Option<u32>,
    canary: Option<u64>,
    /// What is wanted of its run, and how long after it began.
    wish: Option<(u64, Wish)>,
    /// After the order before.
    after_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// And resumed after so long.
    Pause(u64),
    Cancel,
}

/// Dead letters of others, or none.
pub fn draw(dice: &mut Dice, streams: bool) -> Orders {
    let letters = if streams {
        0
    } else {
        3 + u32::try_from(dice.below(30)).unwrap_or(0)
    };
    let people = if dice.one_in(3) { 2 } else { 1 };
    let people = (0..people).map(|_| {
        let count = 1 + dice.below(4);
        (0..count).map(|_| wanted(dice, letters > 0)).collect()
    });
    Orders {
        letters,
        people: people.collect(),
    }
}

fn wanted(dice: &mut Dice, of_others: bool) -> Wanted {
    let kind = match dice.below(if of_others { 7 } else { 6 }) {
        0..=2 => OrderKind::Redrive,
        3 | 4 => OrderKind::Discard,
        5 => OrderKind::Restore,
        _ => OrderKind::Move,
    };
    let rate = dice.one_in(2).then(|| [2, 5, 20][dice.index(3)]);
    let canary = dice.one_in(4).then(|| 1 + dice.below(6));
    let wish = dice.one_in(3).then(|| {
        let wish = if dice.one_in(3) {
            Wish::Cancel
        } else {
            Wish::Pause(1_000 + dice.below(4_000))
        };
        (dice.below(3_000), wish)
    });
    Wanted {
        kind,
        rate,
        canary,
        wish,
        after_ms: dice.below(1_500),
    }
}

impl Wanted {
    fn order(self, of_others: bool) -> Order {
        let source = QueueName::parse(SOURCE).expect("a name");
        let target = QueueName::parse(TARGET).expect("a name");
        let selection = match self.kind {
            OrderKind::Move | OrderKind::Skip => Selection::Queue(source),
            OrderKind::Redrive | OrderKind::Discard | OrderKind::Restore => Selection::All,
        };
        let goes_away = matches!(self.kind, OrderKind::Move | OrderKind::Redrive);
        Order {
            to: (of_others && goes_away).then_some(target),
            rate: self.rate,
            canary: self.canary,
            ..Order::new(self.kind, selection)
        }
    }

    /// All that is left, by one who takes his time.
    const fn all(kind: OrderKind) -> Self {
        Self {
            kind,
            rate: None,
            canary: None,
            wish: None,
            after_ms: 500,
        }
    }
}

/// What the broker did with a message.
#[derive(Clone, Debug)]
struct Moved {
    at: Instant,
    step: Step,
    queue: String,
    id: String,
    /// The run that sent it, where it says so.
    run: Option<String>,
}

/// A promise that a run broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A dead letter is nowhere.
    Lost(String),
    /// It is in more places than crashes explain.
    Doubled {
        id: String,
        places: usize,
        explained: usize,
    },
    /// It was put back with another body.
    Changed(String),
    /// A run sent `later` before `earlier`, which stood before it.
    OutOfOrder {
        run: String,
        earlier: String,
        later: String,
    },
    /// What a run counts is not what is recorded of its items.
    Counts {
        run: String,
        counts: RunCounts,
        items: RunCounts,
        total: u64,
    },
    /// It counts as done, and was not done.
    NotDone { run: String, done: u64, moved: usize },
    /// All of it is done, and this is where it was.
    StillThere { run: String, ids: Vec<String> },
    /// A run that nobody disturbed ended with items that failed or were skipped.
    Unfinished {
        run: String,
        counts: RunCounts,
        why: Option<String>,
    },
    /// It failed.
    Failed { run: String, why: Option<String> },
    /// Messages moved while it was paused, or after it was cancelled.
    MovedWhileStopped { run: String, ids: Vec<String> },
    /// More than its canary went before somebody was asked.
    Canary { run: String, canary: u64, moved: usize },
    /// Faster than its rate.
    TooFast {
        run: String,
        rate: u32,
        moved: usize,
        within_ms: u128,
    },
    /// Something that should come does not.
    Stuck(String),
}

/// What people and the broker did.
#[derive(Debug, Default)]
struct Book {
    moved: Vec<Moved>,
    wrong: Vec<Broken>,
    runs: Vec<String>,
    /// Dead letters with their bodies as they were in the beginning, in their order.
    letters: Vec<(String, Vec<u8>)>,
}

/// Shared by all that tell, and by the people.
#[derive(Clone, Debug, Default)]
pub struct Books(Arc<Mutex<Book>>);

impl Books {
    pub fn note(&self, step: Step, queue: &str, message: &Message) {
        let moved = Moved {
            at: Instant::now(),
            step,
            queue: queue.to_owned(),
            id: message.message_id.clone().unwrap_or_default(),
            run: message.header_text(RUN).map(str::to_owned),
        };
        self.book().moved.push(moved);
    }

    /// What the broker stored: the queue and the message's id, in this order.
    pub fn stored(&self) -> Vec<(String, String)> {
        let book = self.book();
        let stored = book.moved.iter().filter(|moved| moved.step == Step::Stored);
        stored.map(|moved| (moved.queue.clone(), moved.id.clone())).collect()
    }

    fn stored_by(&self, run: &str) -> usize {
        let book = self.book();
        let stored = book.moved.iter().filter(|moved| moved.step == Step::Stored);
        stored.filter(|moved| moved.run.as_deref() == Some(run)).count()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wrong(&self, wrong: Broken) {
        self.book().wrong.push(wrong);
    }
}

/// Whoever orders.
#[derive(Clone)]
pub struct Person {
    pub engine: Engine,
    pub model: Model,
    pub database: Database,
    pub trace: Trace,
    pub books: Books,
    /// Where the dead letters are.
    pub source: String,
    /// They are in a queue of others.
    pub of_others: bool,
    /// Nobody else orders anything.
    pub is_alone: bool,
    /// What fails may repeat so much.
    pub repeats: usize,
    /// The store may be away from who works on a run.
    pub store_fails: bool,
}

impl Person {
    /// The dead letters of others come into their queue.
    pub fn fill(&self, letters: u32) {
        self.model.declare(SOURCE);
        self.model.declare(TARGET);
        for number in 1..=letters {
            let message = Message {
                message_id: Some(format!("letter-{number}")),
                body: Bytes::from(format!("letter {number}")),
                ..Message::default()
            };
            self.model.deposit(SOURCE, &message);
        }
    }

    /// What is dead now is what everything is about.
    pub fn begin(&self) {
        let letters = self.dead();
        self.trace.note(&format!("{} dead letters", letters.len()));
        let mut book = self.books.book();
        book.letters = letters;
        book.moved.clear();
    }

    fn dead(&self) -> Vec<(String, Vec<u8>)> {
        let inside = self.model.inside(&self.source).into_iter();
        inside
            .map(|message| (message.message_id.unwrap_or_default(), message.body.to_vec()))
            .collect()
    }

    pub async fn orders(&self, wanted: &[Wanted]) {
        for one in wanted {
            ambient::sleep(Duration::from_millis(one.after_ms)).await;
            self.carry_out(*one).await;
        }
    }

    /// Everything is well again: what was discarded is put back, and all of it redriven.
    pub async fn clear(&self) {
        let all = [OrderKind::Restore, OrderKind::Redrive].map(Wanted::all);
        self.orders(&all).await;
    }

    async fn carry_out(&self, wanted: Wanted) {
        let before = self.dead();
        let Some(run) = self.start(wanted).await else { return };
        self.follow(&run, wanted).await;
        let Some((record, items)) = self.database.run(&run) else {
            return;
        };
        self.judge(&record, &items, wanted, &before);
    }

    /// Plans and executes it, again where that is refused; `None` where there is nothing to do.
    async fn start(&self, wanted: Wanted) -> Option<String> {
        let grant = Access::Operator.grant("operator", None).expect("a grant");
        let command = Command::Run(wanted.order(self.of_others));
        for _ in 0..TRIES {
            let plan = match self.engine.plan(command.clone()).await {
                Ok(plan) => plan,
                Err(EngineError::NotFound { what }) => {
                    self.trace.note(&format!("nothing to {}: {what}", wanted.kind.verb()));
                    return None;
                }
                Err(error) => {
                    self.trace.note(&format!("not planned: {error}"));
                    ambient::sleep(Duration::from_millis(500)).await;
                    continue;
                }
            };
            let run = plan.run.as_ref().map(|run| run.id.clone())?;
            let done = self.engine.execute(&plan, &grant).await;
            let state = self.database.run(&run).map(|(record, _)| record.state);
            if state.is_some_and(|state| state != RunState::Planned) {
                self.trace.note(&format!("run {run} begins: {}", wanted.kind.verb()));
                self.books.book().runs.push(run.clone());
                return Some(run);
            }
            self.trace.note(&format!("not executed: {:?}", done.err()));
            ambient::sleep(Duration::from_millis(500)).await;
        }
        let stuck = format!("{} cannot be planned", wanted.kind.verb());
        self.books.wrong(Broken::Stuck(stuck));
        None
    }

    fn state(&self, run: &str) -> RunState {
        self.database
            .run(run)
            .map_or(RunState::Failed, |(record, _)| record.state)
    }

    /// Until it is over, with what is wanted of it meanwhile.
    async fn follow(&self, run: &str, wanted: Wanted) {
        let (began, mut wish, mut asked) = (Instant::now(), wanted.wish, false);
        loop {
            let state = self.state(run);
            if state.is_over() {
                return;
            }
            if began.elapsed() > BOUND {
                let why = self.database.run(run).and_then(|(record, _)| record.note);
                self.books
                    .wrong(Broken::Stuck(format!("run {run} is {state:?}: {why:?}")));
                return;
            }
            if state == RunState::Canary {
                if !asked {
                    asked = true;
                    self.judge_canary(run, wanted);
                }
                self.wishes(run, RunWish::Resume).await;
            }
            let due = wish.filter(|(after, _)| began.elapsed() >= Duration::from_millis(*after));
            if let Some((_, due)) = due.filter(|_| state == RunState::Running) {
                wish = None;
                self.stops(run, due).await;
            }
            ambient::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn wishes(&self, run: &str, wish: RunWish) {
        let grant = Access::Operator.grant("operator", None).expect("a grant");
        let command = Command::ChangeRun {
            id: run.to_owned(),
            wish,
        };
        let done = match self.engine.plan(command).await {
            Ok(plan) => self.engine.execute(&plan, &grant).await.map(drop),
            Err(error) => Err(error),
        };
        self.trace
            .note(&format!("{} of run {run}: {:?}", wish.as_str(), done.err()));
    }

    /// Pauses it, and resumes it later, or cancels it: nothing moves once nobody works on it any more.
    async fn stops(&self, run: &str, wish: Wish) {
        let (word, state, span) = match wish {
            Wish::Pause(span) => (RunWish::Pause, RunState::Paused, span),
            Wish::Cancel => (RunWish::Cancel, RunState::Cancelled, 2_000),
        };
        for _ in 0..TRIES {
            if self.state(run) != RunState::Running {
                break;
            }
            self.wishes(run, word).await;
        }
        while self.state(run) == state && self.database.is_worked_on(run) {
            ambient::sleep(Duration::from_millis(50)).await;
        }
        if self.state(run) != state {
            return;
        }
        // What its process sent before it was killed arrives.
        ambient::sleep(Duration::from_millis(20)).await;
        let from = Instant::now();
        ambient::sleep(Duration::from_millis(span)).await;
        self.judge_stopped(run, from);
        while self.state(run) == RunState::Paused {
            self.wishes(run, RunWish::Resume).await;
            ambient::sleep(Duration::from_millis(200)).await;
        }
    }

    fn judge_stopped(&self, run: &str, from: Instant) {
        if !self.is_alone || self.store_fails {
            return;
        }
        let book = self.books.book();
        let of_source = |moved: &&Moved| {
            let is_sent = moved.step == Step::Stored && moved.run.as_deref() == Some(run);
            moved.queue == self.source || is_sent
        };
        // A publish that was cut is tried again before its window is over.
        let from = from + Duration::from_secs(1);
        let moved = book.moved.iter().filter(|moved| moved.at > from).filter(of_source);
        let ids: Vec<String> = moved.map(|moved| moved.id.clone()).collect();
        drop(book);
        if !ids.is_empty() {
            let run = run.to_owned();
            self.books.wrong(Broken::MovedWhileStopped { run, ids });
        }
    }

    /// What a run sent to its targets: each message with when it was there first.
    fn sent_by(&self, run: &str) -> Vec<(Instant, String)> {
        let book = self.books.book();
        let mut seen = BTreeSet::new();
        let stored = book
            .moved
            .iter()
            .filter(|moved| moved.step == Step::Stored && moved.run.as_deref() == Some(run));
        stored
            .filter(|moved| seen.insert(moved.id.clone()))
            .map(|moved| (moved.at, moved.id.clone()))
            .collect()
    }

    fn judge_canary(&self, run: &str, wanted: Wanted) {
        let Some(canary) = wanted.canary.filter(|_| wanted.kind == OrderKind::Redrive) else {
            return;
        };
        let moved = self.sent_by(run).len();
        // A window that a crash cut short is told apart from the next one by what is still there, and not counted.
        let most = canary * (1 + self.repeats as u64);
        if moved as u64 > most || moved == 0 {
            let run = run.to_owned();
            self.books.wrong(Broken::Canary { run, canary, moved });
        }
    }

    /// A run that is over.
    fn judge(&self, record: &RunRecord, items: &[ItemRecord], wanted: Wanted, before: &[(String, Vec<u8>)]) {
        let run = record.id.clone();
        let mut counts = RunCounts::default();
        for one in items {
            counts.count(one.item.state);
        }
        self.trace.note(&format!(
            "run {run} is {:?}: {counts:?} of {}",
            record.state, record.total
        ));
        let is_whole = record.state != RunState::Done || counts.settled() == record.total;
        // A cancelled run is not counted again by anybody.
        let is_counted = record.state == RunState::Cancelled || counts == record.counts;
        if !is_whole || !is_counted || record.total != items.len() as u64 {
            let (counts, items, total) = (record.counts, counts, record.total);
            let run = run.clone();
            self.books.wrong(Broken::Counts {
                run,
                counts,
                items,
                total,
            });
        }
        let why = || {
            let left = items.iter().find(|one| {
                let state = one.item.state;
                state.is_final() && state != ItemState::Settled
            });
            left.and_then(|one| one.item.reason.clone()).or(record.note.clone())
        };
        if record.state == RunState::Failed {
            let (run, why) = (run.clone(), why());
            self.books.wrong(Broken::Failed { run, why });
        }
        if self.is_alone && record.state == RunState::Done && counts.done != record.total {
            let (run, why) = (run.clone(), why());
            self.books.wrong(Broken::Unfinished { run, counts, why });
        }
        let takes_out = wanted.kind != OrderKind::Restore;
        if self.is_alone && takes_out && record.state == RunState::Done && counts.done == record.total {
            let (run, ids) = (run.clone(), self.still_there(before));
            if !ids.is_empty() {
                self.books.wrong(Broken::StillThere { run, ids });
            }
        }
        if wanted.kind == OrderKind::Redrive {
            self.judge_sent(&run, counts, wanted, before);
        }
    }

    fn still_there(&self, before: &[(String, Vec<u8>)]) -> Vec<String> {
        let ids = self.dead().into_iter().map(|(id, _)| id);
        ids.filter(|id| before.iter().any(|(other, _)| other == id)).collect()
    }

    fn judge_sent(&self, run: &str, counts: RunCounts, wanted: Wanted, before: &[(String, Vec<u8>)]) {
        let sent = self.sent_by(run);
        // A letter that was put back twice is two.
        let moved = self.books.stored_by(run);
        // A paced batch that a crash cut short is told apart by what is still there, which others may have taken.
        let batch = wanted.rate.map_or(0, |rate| (rate as usize / 4).max(1));
        let taken = if self.is_alone { 0 } else { self.repeats * batch };
        if ((moved + taken) as u64) < counts.done {
            self.books.wrong(Broken::NotDone {
                run: run.to_owned(),
                done: counts.done,
                moved,
            });
        }
        if let Some(rate) = wanted.rate {
            self.judge_rate(run, rate, &sent);
        }
        let places: BTreeMap<&str, usize> = (0..).zip(before).map(|(at, (id, _))| (id.as_str(), at)).collect();
        // A letter that is there several times has several places.
        if !self.is_alone || places.len() != before.len() {
            return;
        }
        // Each queue that they go to has an order of its own.
        let key = |id: &str| if self.of_others { String::new() } else { queue_of(id) };
        let mut last: BTreeMap<String, (usize, &str)> = BTreeMap::new();
        for (_, id) in &sent {
            let Some(place) = places.get(id.as_str()) else { continue };
            if let Some((_, later)) = last.get(&key(id)).filter(|(before, _)| before > place) {
                self.books.wrong(Broken::OutOfOrder {
                    run: run.to_owned(),
                    earlier: id.clone(),
                    later: (*later).to_owned(),
                });
                return;
            }
            last.insert(key(id), (*place, id));
        }
    }

    /// It may begin again with each process that takes it, and catches up what was missed by less than a second.
    fn judge_rate(&self, run: &str, rate: u32, sent: &[(Instant, String)]) {
        let slack = 2 + rate as usize + self.repeats;
        for (first, (from, _)) in sent.iter().enumerate() {
            for (last, (until, _)) in sent.iter().enumerate().skip(first) {
                let within = until.duration_since(*from);
                let moved = last - first + 1;
                let allowed = usize::try_from(within.as_millis() * u128::from(rate) / 1_000).unwrap_or(usize::MAX);
                if moved > allowed + slack {
                    self.books.wrong(Broken::TooFast {
                        run: run.to_owned(),
                        rate,
                        moved,
                        within_ms: within.as_millis(),
                    });
                    return;
                }
            }
        }
    }

    /// Everything that is wrong at the end, when all was put back and redriven.
    pub fn judge_all(&self, succeeded: impl Fn(&str) -> usize) -> Vec<Broken> {
        let inside = self.dead();
        let target: Vec<String> = {
            let inside = self.model.inside(TARGET).into_iter();
            inside.filter_map(|message| message.message_id).collect()
        };
        let discarded: Vec<Message> = self
            .database
            .discarded()
            .iter()
            .filter_map(|kept| decode(&kept.message))
            .collect();
        let book = self.books.book();
        let mut wrong = book.wrong.clone();
        for (id, body) in &book.letters {
            let dead = inside.iter().filter(|(other, _)| other == id).count();
            let kept = discarded.iter().filter(|one| one.message_id.as_ref() == Some(id));
            let sent = if self.of_others {
                target.iter().filter(|other| *other == id).count()
            } else {
                succeeded(id)
            };
            let places = dead + kept.count() + sent;
            // Its delivery may be repeated too, where it is one.
            let deliveries = if self.of_others { 1 } else { 1 + self.repeats };
            let explained = (1 + self.repeats) * deliveries;
            if places == 0 {
                wrong.push(Broken::Lost(id.clone()));
            } else if places > explained {
                let id = id.clone();
                wrong.push(Broken::Doubled { id, places, explained });
            } else if sent == 0 {
                wrong.push(Broken::Stuck(format!("{id} was not redriven in the end")));
            }
            if inside.iter().any(|(other, found)| other == id && found != body) {
                wrong.push(Broken::Changed(id.clone()));
            }
        }
        wrong
    }
}

/// What comes before the number of a notification.
fn queue_of(id: &str) -> String {
    id.rsplit_once('-').map_or("", |(queue, _)| queue).to_owned()
}
