//! The lists that are asked for while they are in front, and what is done with their rows.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::Stage;
use super::fixture::{confirmed, incident, plan, planned, settings, stage, stage_with, url};
use crate::console::state::detail::{About, Compared, DetailAnswer, Subject};
use crate::console::state::dialog::Friction;
use crate::console::state::effect::{EditOf, Effect};
use crate::console::state::event::Event;
use crate::console::state::feed::{Batch, Fed, FedRows, FeedQuery, PAGE};
use crate::console::state::{Mode, View};
use crate::domain::dead_letter::{self, DeadLetter, DeadLetterId, Home, Likeness};
use crate::domain::death::DeathHistory;
use crate::domain::id::{Epoch, NotificationId, QueueName};
use crate::domain::message::Message;
use crate::domain::policy::{PolicySource, RetryPolicy};
use crate::domain::run::{RunCounts, RunState, RunWish};
use crate::domain::time::Timestamp;
use crate::engine::dead::{DeadDetail, DeadGroup};
use crate::engine::policies::{PolicyAct, PolicyView};
use crate::engine::query::{AuditEntry, PolicyScope, PolicyVersion};
use crate::engine::runs::{OrderKind, RunView, Selection};
use crate::engine::view::AttemptView;
use crate::engine::{Access, Command, Done, Plan};

/// An answer with a few rows, or without.
pub(super) fn fed(query: FeedQuery, now: Timestamp, well: bool) -> Fed {
    let rows: FedRows = match query.source.name {
        "audit" => batch(Vec::<AuditEntry>::new(), false).into(),
        "policies" => batch(vec![policy(None), policy(Some("https://shop.example/"))], false).into(),
        "runs" => batch(vec![run("r1", RunState::Running), run("r2", RunState::Done)], false).into(),
        "dead_groups" => batch(vec![group("status 422", 40), group("rejected", 2)], false).into(),
        "dead_letters" => batch((1..=3).map(letter).collect(), false).into(),
        "event_types" => batch(super::events::types(), false).into(),
        "event_groups" => batch(super::events::groups(), false).into(),
        "events" => batch((1..=3).map(super::events::event).collect(), false).into(),
        "saves" => batch(super::expiring::saves(), false).into(),
        "expiring" => batch(super::expiring::queues(), false).into(),
        "attempts" => Batch::new((1..=3).map(|number| Arc::new(attempt(number))).collect(), false).into(),
        other => panic!("{other}"),
    };
    Fed {
        query,
        taken_at: now,
        rows: if well { Ok(rows) } else { Err("unreachable".to_owned()) },
    }
}

fn batch<R>(rows: Vec<R>, more: bool) -> Batch<R> {
    Batch {
        rows: Arc::new(rows.into_iter().map(Arc::new).collect()),
        more,
        progress: None,
        lacks: None,
    }
}

fn attempt(number: u32) -> AttemptView {
    AttemptView {
        message_id: NotificationId::parse("m-1").unwrap(),
        queue: QueueName::parse("dlv.mail.a").unwrap(),
        url: url("https://mail.example/in"),
        number,
        epoch: Epoch::default(),
        started_at: super::fixture::START.plus(Duration::from_secs(number.into())),
        duration_ms: 5,
        class: crate::domain::outcome::OutcomeClass::Failed,
        status: Some(503),
        error: None,
        response: None,
        counted: true,
    }
}

fn group(what: &str, count: u64) -> DeadGroup {
    DeadGroup {
        fingerprint: dead_letter::fingerprint("shop.example/", what),
        place: "shop.example/".to_owned(),
        what: what.to_owned(),
        count,
        first_failed_at: None,
        last_failed_at: None,
        recent: 0,
        before: 0,
    }
}

pub(super) fn letter_id(number: u8) -> DeadLetterId {
    let like = Likeness {
        digest: [number; 16],
        collapses: false,
    };
    DeadLetterId::new(&like, 1)
}

pub(super) fn letter(number: u8) -> DeadLetter {
    DeadLetter {
        id: letter_id(number),
        home: Home::Broker,
        queue: QueueName::parse("dead").unwrap(),
        position: u64::from(number),
        origin: None,
        message_id: None,
        url: None,
        execution: None,
        reason: "refused".to_owned(),
        class: None,
        status: Some(422),
        error: None,
        attempts: None,
        first_failed_at: None,
        last_failed_at: Some(Timestamp::from_seconds(1_700_000_000 - i64::from(number))),
        expires_at: None,
        redriven: 0,
        fingerprint: String::new(),
        place: String::new(),
        what: String::new(),
        size_bytes: 2,
        begins: None,
        redelivered: false,
        broker: None,
    }
}

pub(super) fn run(id: &str, state: RunState) -> RunView {
    let at = Timestamp::from_seconds(1_700_000_000);
    RunView {
        record: crate::store::RunRecord {
            id: id.to_owned(),
            command: "dead redrive".to_owned(),
            state,
            counts: RunCounts::default(),
            restored: 0,
            total: 10,
            rate: None,
            canary: None,
            actor: "ana".to_owned(),
            reason: None,
            note: None,
            plan: String::new(),
            hash: String::new(),
            owner: None,
            epoch: Epoch(1),
            broker: None,
            created_at: at,
            started_at: Some(at),
            updated_at: at,
            ended_at: None,
        },
        eta: None,
        owner: None,
        taken_at: at,
    }
}

fn policy(of: Option<&str>) -> PolicyView {
    let scope = PolicyScope {
        event_type: None,
        url: of.map(url),
    };
    PolicyView {
        newest: of.map(|_| PolicyVersion {
            scope: scope.clone(),
            version: 2,
            document: Some(r#"{"maximum_delay":60}"#.to_owned()),
            author: "ana".to_owned(),
            at: Timestamp::from_seconds(1_700_000_000),
        }),
        scope,
        effective: RetryPolicy::default(),
        source: PolicySource::Default,
    }
}

fn asked(effects: &[Effect]) -> Vec<FeedQuery> {
    let query = |effect: &Effect| match effect {
        Effect::Feed(query) => Some(query.clone()),
        _ => None,
    };
    effects.iter().filter_map(query).collect()
}

impl Stage {
    /// Answers the question for the list in front.
    pub(super) fn feed(&mut self) {
        let query = self.state.feed().unwrap().asked.clone().unwrap().0;
        let fed = fed(query, self.now, true);
        self.event(Event::Fed(fed));
    }
}

pub(super) fn at(key: &str) -> Stage {
    let mut stage = stage(incident());
    stage.play(key);
    stage.feed();
    stage
}

fn commands(stage: &mut Stage, key: &str) -> Vec<Command> {
    let effects = stage.play(key);
    let plans: Vec<Effect> = effects
        .into_iter()
        .filter(|effect| matches!(effect, Effect::Plan { .. }))
        .collect();
    planned(&plans).1
}

#[track_caller]
fn check_order(stage: &mut Stage, key: &str, kind: OrderKind, selection: &Selection) {
    match commands(stage, key).as_slice() {
        [Command::Run(order)] => assert_eq!((order.kind, &order.selection), (kind, selection)),
        other => panic!("{other:?}"),
    }
    stage.play("Esc");
}

#[test]
fn a_list_is_asked_for_only_while_it_is_in_front_and_once_at_a_time() {
    let mut stage = stage(incident());
    assert!(asked(&stage.play("2 3 4 9")).is_empty());
    let query = &asked(&stage.play("8"))[..];
    assert!(
        matches!(query, [query] if query.source.name == "audit" && query.limit == Some(PAGE)),
        "{query:?}"
    );
    assert!(asked(&stage.play("+50 Down +50")).is_empty(), "an answer is due");
    stage.feed();
    assert!(asked(&stage.play("+1000")).is_empty());
    assert_eq!(asked(&stage.play("+1000")).len(), 1, "a refresh later");
    stage.feed();
    assert!(asked(&stage.play("2 +9000")).is_empty(), "it is not shown");
    assert_eq!(asked(&stage.play("8")).len(), 1);
}

#[test]
fn the_console_wakes_when_a_list_in_front_is_due() {
    let mut stage = at("8");
    let due = stage.now.plus(Duration::from_secs(2));
    assert!(stage.state.wake_at().is_some_and(|at| at <= due));
    stage.play("2");
    assert!(stage.state.feed().is_none());
}

#[test]
fn what_takes_long_is_asked_for_less_often() {
    let mut stage = stage(incident());
    stage.play("8 +3000");
    stage.feed();
    assert!(asked(&stage.play("+11000")).is_empty());
    assert_eq!(asked(&stage.play("+1500")).len(), 1);
}

#[test]
fn what_took_very_long_is_asked_for_again_within_seconds() {
    let mut stage = stage(incident());
    stage.play("8 +12000");
    stage.feed();
    assert!(asked(&stage.play("+14000")).is_empty());
    assert_eq!(asked(&stage.play("+1500")).len(), 1);
}

#[test]
fn a_question_that_failed_says_nothing_of_what_looking_costs() {
    let mut stage = stage(incident());
    stage.play("8 +5000");
    let query = stage.state.feed().unwrap().asked.clone().unwrap().0;
    stage.event(Event::Fed(fed(query, stage.now, false)));
    assert_eq!(asked(&stage.play("+2000")).len(), 1, "a refresh later");
}

#[test]
fn what_was_changed_while_a_question_was_under_way_is_asked_for_once_more() {
    let mut stage = stage(incident());
    stage.play("8 +3000");
    assert!(asked(&stage.play("r")).is_empty(), "one question at a time");
    let query = stage.state.feed().unwrap().asked.clone().unwrap().0;
    let effects = stage.event(Event::Fed(fed(query, stage.now, true)));
    assert_eq!(asked(&effects).len(), 1, "its answer may be from before");
    stage.feed();
    assert!(asked(&stage.play("+1000")).is_empty(), "and only once");
}

#[test]
fn what_is_there_again_is_looked_at_at_once() {
    let mut stage = stage(incident());
    stage.play("8 +3000");
    stage.feed();
    let mut lost = incident();
    lost.generation += 1;
    lost.store.problem = Some("connection refused".to_owned());
    let mut back = incident();
    back.generation += 2;
    assert!(asked(&stage.event(Event::Snapshot(Arc::new(lost)))).is_empty());
    assert_eq!(asked(&stage.event(Event::Snapshot(Arc::new(back)))).len(), 1);
}

#[test]
fn what_is_frozen_stays_and_is_not_asked_for() {
    let mut stage = at("5");
    stage.play("+2000 z");
    let query = stage.state.feed().unwrap().asked.clone().unwrap().0;
    let nothing = Fed {
        rows: Ok(batch(Vec::<DeadGroup>::new(), false).into()),
        ..fed(query, stage.now, true)
    };
    stage.event(Event::Fed(nothing));
    assert_eq!(stage.state.lists.dead.groups.table.order.len(), 2);
    assert!(asked(&stage.play("+9000 Down r")).is_empty());
    assert_eq!(asked(&stage.play("z")).len(), 1);
}

#[test]
fn a_failure_keeps_the_rows_and_is_said() {
    let mut stage = at("7");
    stage.play("+2000");
    let query = stage.state.feed().unwrap().asked.clone().unwrap().0;
    stage.event(Event::Fed(fed(query, stage.now, false)));
    assert_eq!(stage.state.lists.runs.table.order.len(), 2);
    assert_eq!(stage.state.lists.runs.feed.problem.as_deref(), Some("unreachable"));
    assert!(!stage.state.is_fed());
    assert_eq!(asked(&stage.play("r")).len(), 1, "asked again at once");
}

#[test]
fn more_rows_are_asked_for_when_the_selection_nears_the_end() {
    let mut stage = stage(incident());
    stage.play("8");
    let entry = |id: i64| crate::engine::query::AuditEntry {
        id,
        at: Timestamp::from_seconds(id),
        entry: crate::store::NewAudit {
            actor: "ana".to_owned(),
            command: "redeliver".to_owned(),
            target: "x".to_owned(),
            reason: None,
            plan: None,
            result: "done".to_owned(),
            detail: String::new(),
        },
        broker: None,
        hash: String::new(),
    };
    let rows = (0..i64::from(PAGE)).map(entry).collect();
    let answer = Fed {
        query: stage.state.feed().unwrap().asked.clone().unwrap().0,
        taken_at: stage.now,
        rows: Ok(batch(rows, true).into()),
    };
    assert!(asked(&stage.event(Event::Fed(answer))).is_empty());
    let limits: Vec<Option<u32>> = asked(&stage.play("End")).iter().map(|query| query.limit).collect();
    assert_eq!(limits, [Some(2 * PAGE)]);
}

#[test]
fn a_group_is_opened_into_its_letters_and_closed_again() {
    let mut stage = at("5");
    let effects = stage.play("Enter");
    let [query] = &asked(&effects)[..] else {
        panic!("{effects:?}");
    };
    assert_eq!((query.source.name, &query.filter), ("dead_letters", &None));
    let group = dead_letter::fingerprint("shop.example/", "status 422");
    assert_eq!(query.of, Some(group));
    assert!(
        stage.state.lists.dead.letters.table.rows.is_empty(),
        "no letter of another group"
    );
    stage.feed();
    assert_eq!(stage.state.lists.dead.letters.table.order.len(), 3);
    let effects = stage.play("Enter");
    let subject = Subject::Letter(letter_id(1).as_str().to_owned());
    assert!(matches!(&effects[..], [Effect::Look(query)] if query.subject == subject));
    stage.play("Esc");
    assert!(stage.state.nav.details.is_empty() && stage.state.lists.dead.open.is_some());
    stage.play("Esc");
    assert!(stage.state.lists.dead.open.is_none());
    assert_eq!(stage.state.lists.dead.groups.table.order.len(), 2);
}

/// What a key asks to be compared.
fn asked_to_compare(effects: &[Effect]) -> &Compared {
    match effects {
        [Effect::Look(query)] => match &query.subject {
            Subject::Compared(compared) => compared,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_group_is_compared_and_so_are_marked_letters_in_their_order() {
    let mut stage = at("5");
    let group = dead_letter::fingerprint("shop.example/", "status 422");
    let compared = |filter: Option<&str>| Compared::Group {
        fingerprint: group.clone(),
        filter: filter.map(str::to_owned),
    };
    assert_eq!(*asked_to_compare(&stage.play("d")), compared(None));
    stage.play("Esc Enter");
    stage.feed();
    assert_eq!(*asked_to_compare(&stage.play("d")), compared(None));
    stage.play("Esc /attempts_>_3 Enter");
    stage.feed();
    assert_eq!(*asked_to_compare(&stage.play("d")), compared(Some("attempts > 3")));
    stage.play("Esc / Ctrl+u Enter");
    stage.feed();
    // The second is marked before the first, and one alone is compared with nothing.
    stage.play("Down Space");
    assert!(stage.play("d").is_empty(), "{:?}", stage.state.said.toasts);
    let both = [1, 2].map(|number| letter_id(number).as_str().to_owned());
    assert_eq!(
        *asked_to_compare(&stage.play("Up Space d")),
        Compared::Letters(both.to_vec())
    );
    // What was compared is redriven from there.
    let (_, commands) = planned(&stage.play("R"));
    assert!(
        matches!(&commands[..], [Command::Run(order)] if order.selection == Selection::Ids(both.to_vec())),
        "{commands:?}"
    );
    assert!(asked(&stage.play("Esc +9000")).is_empty(), "it stays as it was read");
}

#[test]
fn a_patch_for_a_group_is_written_in_the_editor_and_planned() {
    let mut stage = at("5");
    let of = |effects: &[Effect]| match effects {
        [Effect::Edit(job)] => (job.of.clone(), job.body.clone()),
        other => panic!("{other:?}"),
    };
    let (group, example) = of(&stage.play("E"));
    let written = |of: &EditOf, text: &str| Event::Edited {
        of: of.clone(),
        result: Ok(Bytes::copy_from_slice(text.as_bytes())),
    };
    let as_it_was = String::from_utf8(example.to_vec()).unwrap();
    assert!(
        stage.event(written(&group, &as_it_was)).is_empty(),
        "the example is no patch"
    );
    assert!(stage.event(written(&group, "[{\"op\":")).is_empty());
    assert!(
        stage.toasts().iter().any(|toast| toast.contains("not patched")),
        "{:?}",
        stage.toasts()
    );
    let (_, again) = of(&stage.play("E"));
    assert_eq!(again, "[{\"op\":", "what was written is gone on with");
    let remove = r#"[{"op":"remove","path":"/a"}]"#;
    let (_, commands) = planned(&stage.event(written(&group, remove)));
    let fingerprint = dead_letter::fingerprint("shop.example/", "status 422");
    assert!(
        matches!(&commands[..], [Command::PatchDead { selection: Selection::Group(group), .. }] if *group == fingerprint),
        "{commands:?}"
    );
    stage.play("Esc Space Down Space");
    assert!(stage.play("E").is_empty(), "a patch is for one group");
}

#[test]
fn the_filter_of_dead_letters_is_part_of_the_question() {
    let mut stage = at("5");
    let effects = stage.play("/status_=_422 Enter");
    let asked = asked(&effects);
    let filter = asked.last().and_then(|query| query.filter.as_deref());
    assert_eq!(filter, Some("status = 422"));
    assert_eq!(
        stage.state.lists.dead.groups.table.order.len(),
        2,
        "the rows stay until the answer"
    );
}

#[test]
fn dead_letters_are_named_by_group_by_id_or_by_what_the_filter_says() {
    let mut stage = at("5");
    let first = dead_letter::fingerprint("shop.example/", "status 422");
    check_order(&mut stage, "R", OrderKind::Redrive, &Selection::Group(first.clone()));
    check_order(&mut stage, "X", OrderKind::Discard, &Selection::Group(first.clone()));
    check_order(&mut stage, "A", OrderKind::Redrive, &Selection::All);
    stage.play("/status_=_422 Enter");
    stage.feed();
    check_order(
        &mut stage,
        "A",
        OrderKind::Redrive,
        &Selection::Filter("status = 422".to_owned()),
    );
    stage.play("Enter");
    stage.feed();
    let id = |number: u8| letter_id(number).as_str().to_owned();
    check_order(&mut stage, "R", OrderKind::Redrive, &Selection::Ids(vec![id(1)]));
    let filter = format!("fingerprint = \"{first}\" and (status = 422)");
    check_order(&mut stage, "A", OrderKind::Redrive, &Selection::Filter(filter));
    stage.play("/ Ctrl+u Enter");
    stage.feed();
    check_order(&mut stage, "A", OrderKind::Redrive, &Selection::Group(first.clone()));
    stage.play("Space Down Space");
    check_order(&mut stage, "X", OrderKind::Discard, &Selection::Ids(vec![id(1), id(2)]));
    stage.play("/attempts_>_3 Enter");
    stage.feed();
    let filter = format!("fingerprint = \"{first}\" and (attempts > 3)");
    check_order(&mut stage, "A", OrderKind::Redrive, &Selection::Filter(filter));
}

#[test]
fn of_a_group_in_a_filtered_list_only_what_its_row_counts_is_meant() {
    let mut stage = at("5");
    stage.play("/status_=_422 Enter");
    stage.feed();
    let first = dead_letter::fingerprint("shop.example/", "status 422");
    let part = Selection::Filter(format!("fingerprint = \"{first}\" and (status = 422)"));
    check_order(&mut stage, "R", OrderKind::Redrive, &part);
    check_order(&mut stage, "X", OrderKind::Discard, &part);
    commands(&mut stage, "R");
    let Mode::Dialog(dialog) = &stage.state.input.mode else {
        panic!("a dialog");
    };
    assert_eq!(
        dialog.scope.note,
        Some("of a group only the letters that the filter matches")
    );
    let edit = stage.play("Esc E");
    assert!(
        matches!(&edit[..], [Effect::Edit(job)] if matches!(&job.of, EditOf::Patch(_, selection) if *selection == part)),
        "{edit:?}"
    );
    assert_eq!(
        *asked_to_compare(&stage.play("d")),
        Compared::Group {
            fingerprint: first,
            filter: Some("status = 422".to_owned()),
        }
    );
    // What was compared is redriven from there.
    let (_, commands) = planned(&stage.play("R"));
    assert!(
        matches!(&commands[..], [Command::Run(order)] if order.selection == part),
        "{commands:?}"
    );
}

#[test]
fn what_died_again_is_left_out_of_everything_that_is_shown_and_of_nothing_else() {
    let mut stage = at("5");
    let leaves_out = |stage: &mut Stage, key: &str| {
        let commands = commands(stage, key);
        stage.play("Esc");
        match commands.as_slice() {
            [Command::Run(order)] => order.without_redriven,
            other => panic!("{other:?}"),
        }
    };
    assert!(leaves_out(&mut stage, "A") && !leaves_out(&mut stage, "R"));
    stage.play("/status_=_422 Enter");
    stage.feed();
    assert!(
        leaves_out(&mut stage, "A"),
        "under a filter too, as its confirmation says"
    );
    assert!(!leaves_out(&mut stage, "R") && !leaves_out(&mut stage, "X"));
    stage.play("Enter");
    stage.feed();
    assert!(leaves_out(&mut stage, "A") && !leaves_out(&mut stage, "R"));
}

#[test]
fn a_letter_that_a_run_of_its_own_took_is_looked_at_again_when_that_is_over() {
    let mut stage = at("5");
    stage.play("Enter");
    stage.feed();
    stage.play("Enter");
    let subject = Subject::Letter(letter_id(1).as_str().to_owned());
    let (request, commands) = planned(&stage.play("X"));
    stage.event(Event::Planned {
        request,
        result: Ok(commands.iter().map(plan).collect()),
    });
    stage.play("+1000 y");
    stage.event(Event::Executed {
        request,
        item: 0,
        result: Ok(Box::new(Done::Run(Box::new(run("r9", RunState::Running))))),
    });
    assert!(
        stage
            .event(Event::Ended(Box::new(run("r8", RunState::Done))))
            .is_empty()
    );
    let effects = stage.event(Event::Ended(Box::new(run("r9", RunState::Done))));
    assert!(
        matches!(&effects[..], [Effect::Look(query)] if query.subject == subject),
        "{effects:?}"
    );
    let gone = DetailAnswer {
        about: Some(Err("dead letter not found".to_owned())),
        ..DetailAnswer::nothing(subject, stage.now)
    };
    stage.event(Event::Detail(Box::new(gone)));
    assert!(stage.play("R").is_empty());
    assert_eq!(
        stage.toasts().last().copied(),
        Some("redrive: it is not there any more")
    );
}

#[test]
fn marked_groups_that_the_filter_hides_are_not_sent_with_it() {
    let mut stage = at("5");
    stage.play("*");
    stage.play("/status_=_422 Enter");
    let query = stage.state.feed().unwrap().asked.clone().unwrap().0;
    let only_one = Fed {
        rows: Ok(batch(vec![group("status 422", 10)], false).into()),
        ..fed(query, stage.now, true)
    };
    stage.event(Event::Fed(only_one));
    assert!(
        stage
            .play("R")
            .iter()
            .all(|effect| !matches!(effect, Effect::Plan { .. }))
    );
    assert_eq!(
        stage.toasts().last().copied(),
        Some("redrive: 1 marked group is hidden by the filter: clear the filter or the marks first")
    );
}

#[test]
fn a_group_is_opened_with_the_filter_under_which_its_row_counted() {
    let mut stage = at("5");
    stage.play("/status_=_422 Enter");
    stage.feed();
    let effects = stage.play("Enter");
    let asked = asked(&effects);
    let filter = asked.last().and_then(|query| query.filter.as_deref());
    assert_eq!(filter, Some("status = 422"));
    assert_eq!(stage.state.lists.dead.letters.table.filter.text, "status = 422");
    let group = dead_letter::fingerprint("shop.example/", "status 422");
    let command = crate::console::state::link::command(&stage.state);
    assert_eq!(
        command,
        Some(format!("redrive dead list --group {group} --filter 'status = 422'"))
    );
    // Words mean the same in both lists.
    stage.play("Esc Esc / Ctrl+u 'c-1 Enter");
    stage.feed();
    stage.play("Enter");
    let lists = &stage.state.lists.dead;
    let written = lists.letters.table.filter.written();
    assert_eq!(written, lists.groups.table.filter.written());
    assert!(
        written.unwrap().contains("begins ~ \"c-1\""),
        "also the begin of a payload"
    );
}

#[test]
fn marked_groups_are_a_run_each() {
    let mut stage = at("5");
    stage.play("*");
    assert_eq!(commands(&mut stage, "R").len(), 2);
}

#[test]
fn marks_that_the_answer_does_not_have_are_hidden_and_still_meant() {
    let mut stage = at("5");
    stage.play("Enter");
    stage.feed();
    stage.play("*");
    stage.play("+2000");
    let query = stage.state.feed().unwrap().asked.clone().unwrap().0;
    let only_one = Fed {
        rows: Ok(batch(vec![letter(2)], false).into()),
        ..fed(query, stage.now, true)
    };
    stage.event(Event::Fed(only_one));
    commands(&mut stage, "R");
    let Mode::Dialog(dialog) = &stage.state.input.mode else {
        panic!("a dialog");
    };
    assert_eq!((dialog.scope.shown, dialog.scope.hidden), (1, 2));
}

fn run_plan(command: &Command, messages: u64) -> Plan {
    Plan {
        messages: Some(messages),
        ..plan(command)
    }
}

/// The dialog of a redrive of so many, planned.
fn redriving(messages: u64) -> Stage {
    let mut stage = at("5");
    let commands = commands(&mut stage, "R");
    let request = stage.state.commands.next_request - 1;
    stage.event(Event::Planned {
        request,
        result: Ok(commands.iter().map(|command| run_plan(command, messages)).collect()),
    });
    stage
}

#[test]
fn what_comes_of_a_run_that_was_begun_here_is_told_however_soon_it_is_over() {
    let mut stage = redriving(3);
    stage.play("+1000");
    let effects = stage.play("y");
    let (request, _) = confirmed(&effects);
    let result = Ok(Box::new(Done::Run(Box::new(run("r9", RunState::Running)))));
    stage.event(Event::Executed {
        request,
        item: 0,
        result,
    });
    let asked = |stage: &mut Stage, generation| {
        let mut next = incident();
        next.generation = generation;
        let effects = stage.event(Event::Snapshot(Arc::new(next)));
        let runs = effects.into_iter().filter_map(|effect| match effect {
            Effect::Outcome(run) => Some(run),
            _ => None,
        });
        runs.collect::<Vec<_>>()
    };
    let runs = asked(&mut stage, 11);
    assert_eq!(
        runs.iter().map(|run| run.record.id.as_str()).collect::<Vec<_>>(),
        ["r9"]
    );
    // It goes on, and the snapshot was older.
    let said = stage.log().len();
    stage.event(Event::Ended(runs.into_iter().next().unwrap()));
    assert_eq!(stage.log().len(), said);
    assert_eq!(asked(&mut stage, 12).len(), 1);
    stage.event(Event::Ended(Box::new(run("r9", RunState::Done))));
    assert_eq!(stage.log()[0], "run r9 (dead redrive) is over: 0 of 10 done");
    assert!(asked(&mut stage, 13).is_empty());
}

#[test]
fn the_friction_of_a_redrive_is_by_its_messages() {
    let friction = |messages| match &redriving(messages).state.input.mode {
        Mode::Dialog(dialog) => dialog.friction.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(friction(3), Friction::Key('y'));
    let what = "number of dead letters";
    let word = "412".to_owned();
    assert_eq!(friction(412), Friction::Type { what, word });
}

#[test]
fn the_rate_is_typed_in_the_dialog_and_planned_again() {
    let mut stage = redriving(412);
    assert!(stage.play("t 'x5 Enter").is_empty() || !stage.state.commands.tasks.is_empty());
    let mut stage = redriving(412);
    let effects = stage.play("t '50 Enter");
    let (_, commands) = planned(&effects);
    let [Command::Run(order)] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    assert_eq!((order.rate, order.canary), (Some(50), None));
    let Mode::Dialog(dialog) = &stage.state.input.mode else {
        panic!("a dialog");
    };
    assert!(dialog.planning.is_awaited() && dialog.typed.is_empty());
    let effects = stage.play("Esc");
    assert!(effects.is_empty() && matches!(stage.state.input.mode, Mode::Browse));
}

#[test]
fn what_is_sent_first_is_watched_and_the_rest_follows_part_by_part() {
    let mut stage = redriving(412);
    assert!(
        stage.play("w m").is_empty(),
        "nothing is sent first: there is nothing to watch"
    );
    let mut play = |keys: &str| {
        let effects = stage.play(keys);
        let (request, commands) = planned(&effects);
        let order = match commands.as_slice() {
            [Command::Run(order)] => order.clone(),
            other => panic!("{other:?}"),
        };
        let plans = commands.iter().map(|command| run_plan(command, 412)).collect();
        stage.event(Event::Planned {
            request,
            result: Ok(plans),
        });
        (
            order.canary,
            order.canary_watch.map(|watch| watch.as_secs()),
            order.ramp,
        )
    };
    assert_eq!(play("c '20 Enter"), (Some(20), None, None));
    assert_eq!(play("w '60 Enter"), (Some(20), Some(60), None));
    assert_eq!(play("m '3 Enter"), (Some(20), Some(60), Some(3)));
    assert_eq!(play("c Enter"), (None, None, None), "what hangs on it goes with it");
}

#[test]
fn a_run_is_paused_resumed_and_cancelled_where_that_makes_sense() {
    let mut stage = at("7");
    let wish = |stage: &mut Stage, key: &str| match commands(stage, key).as_slice() {
        [Command::ChangeRun { id, wish }] => (id.clone(), *wish),
        other => panic!("{other:?}"),
    };
    assert_eq!(wish(&mut stage, "P"), ("r1".to_owned(), RunWish::Pause));
    stage.play("Esc");
    assert_eq!(wish(&mut stage, "X"), ("r1".to_owned(), RunWish::Cancel));
    stage.play("Esc U");
    assert_eq!(stage.toasts(), ["resume: a run that is running cannot be resumed"]);
    stage.play("+9000 * P");
    let Mode::Dialog(dialog) = &stage.state.input.mode else {
        panic!("a dialog");
    };
    assert_eq!((dialog.scope.shown, dialog.scope.skipped), (1, 1));
}

/// The form of the second policy, filled with what is saved.
fn writing() -> Stage {
    writing_over(policy(Some("https://shop.example/")))
}

fn writing_over(view: PolicyView) -> Stage {
    let mut stage = at("6");
    stage.play("Down E");
    let scope = view.scope.clone();
    let answer = DetailAnswer {
        about: Some(Ok(About::Policy {
            view: Box::new(view),
            history: Vec::new(),
        })),
        ..DetailAnswer::nothing(Subject::Policy(scope), stage.now)
    };
    stage.event(Event::Detail(Box::new(answer)));
    stage
}

#[test]
fn a_policy_is_written_checked_and_planned_and_cancelling_goes_back_to_what_was_written() {
    let mut stage = writing();
    stage.play("'x");
    let Mode::Policy(form) = &stage.state.input.mode else {
        panic!("a form");
    };
    assert_eq!(
        form.problem.as_ref().unwrap().field.as_deref(),
        Some("retries_with_no_delay")
    );
    assert!(stage.play("Enter").is_empty(), "what is wrong is not planned");
    let effects = stage.play("Backspace '0 Enter");
    let (_, commands) = planned(&effects);
    let [Command::Policy(edit)] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    let expected = r#"{"retries_with_no_delay":0,"maximum_delay":60}"#;
    assert_eq!(edit.act, PolicyAct::Set(expected.to_owned()));
    stage.play("Esc");
    assert!(matches!(&stage.state.input.mode, Mode::Policy(form) if form.document() == expected));
    stage.play("Esc");
    assert!(matches!(stage.state.input.mode, Mode::Browse));
}

/// Else whoever changes one key would change all that the configuration says otherwise.
#[test]
fn where_no_policy_is_saved_the_form_begins_with_what_applies_there() {
    let mut stage = writing_over(PolicyView {
        newest: None,
        effective: RetryPolicy {
            minimum_delay_s: 1,
            maximum_delay_retries: 40,
            ..RetryPolicy::default()
        },
        ..policy(Some("https://shop.example/"))
    });
    let effects = stage.play("'1 Enter");
    let (_, commands) = planned(&effects);
    let [Command::Policy(edit)] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    let expected = r#"{"retries_with_no_delay":1,"minimum_delay":1,"maximum_delay_retries":40}"#;
    assert_eq!(edit.act, PolicyAct::Set(expected.to_owned()));
}

#[test]
fn a_choice_is_turned_and_the_configurations_policy_is_not_written_here() {
    let mut stage = writing();
    let line = match &stage.state.input.mode {
        Mode::Policy(form) => form.lines.iter().position(|line| line.key == "on_exhausted").unwrap(),
        other => panic!("{other:?}"),
    };
    for _ in 0..line {
        stage.play("Down");
    }
    stage.play("Right Right");
    assert!(
        matches!(&stage.state.input.mode, Mode::Policy(form) if form.policy.on_exhausted.as_str() == "dead_letter")
    );
    let mut stage = at("6");
    stage.play("E");
    assert_eq!(
        stage.toasts(),
        ["edit policy: this one is the configuration's: delivery.retry_policy"]
    );
}

#[test]
fn the_payload_of_an_open_letter_is_edited_outside_and_planned() {
    let mut stage = at("5");
    stage.play("Enter");
    stage.feed();
    stage.play("E");
    assert_eq!(
        stage.toasts(),
        ["edit: open the dead letter (Enter), or mark several (Space)"]
    );
    stage.play("Enter");
    let id = letter_id(1).as_str().to_owned();
    let detail = DeadDetail {
        letter: letter(1),
        message: Message {
            body: Bytes::from_static(b"{}"),
            ..Message::default()
        },
        history: DeathHistory::default(),
        target: Err("unknown".to_owned()),
        edited: None,
    };
    let answer = DetailAnswer {
        about: Some(Ok(About::Letter(Box::new(detail)))),
        ..DetailAnswer::nothing(Subject::Letter(id.clone()), stage.now)
    };
    stage.event(Event::Detail(Box::new(answer)));
    assert!(
        matches!(&stage.play("E")[..], [Effect::Edit(job)] if job.of == EditOf::Letter(id.clone()) && job.body == "{}")
    );
    let same = Event::Edited {
        of: EditOf::Letter(id.clone()),
        result: Ok(Bytes::from_static(b"{}")),
    };
    assert!(stage.event(same).is_empty());
    let written = |text: &'static str| Event::Edited {
        of: EditOf::Letter(id.clone()),
        result: Ok(Bytes::from_static(text.as_bytes())),
    };
    let effects = stage.event(written("[]"));
    assert!(matches!(planned(&effects).1.as_slice(), [Command::EditDead { .. }]));
    let begins_with = |stage: &mut Stage| match &stage.play("E")[..] {
        [Effect::Edit(job)] => job.body.clone(),
        other => panic!("{other:?}"),
    };
    // The confirmation is left, or the window loses the focus: what was written is there again.
    stage.play("Esc");
    assert_eq!(begins_with(&mut stage), "[]");
    assert!(stage.event(written(" \n")).is_empty(), "emptied, it is forgotten");
    assert_eq!(begins_with(&mut stage), "{}");
    stage.event(written("[]"));
    stage.play("Esc");
    assert!(stage.event(written("{}")).is_empty());
    assert_eq!(begins_with(&mut stage), "{}", "so it is with what is as before");
}

#[test]
fn a_letter_that_was_edited_here_is_looked_at_again_and_shows_what_is_sent() {
    let mut stage = at("5");
    stage.play("Enter");
    stage.feed();
    stage.play("Enter");
    let id = letter_id(1).as_str().to_owned();
    let message = |body: &'static str| Message {
        body: Bytes::from_static(body.as_bytes()),
        ..Message::default()
    };
    let answer = |stage: &Stage, edited: Option<&'static str>| {
        let detail = DeadDetail {
            letter: letter(1),
            message: message("\"first\""),
            history: DeathHistory::default(),
            target: Err("unknown".to_owned()),
            edited: edited.map(|body| {
                Box::new(crate::engine::dead::Instead {
                    message: message(body),
                    actor: "ana".to_owned(),
                    at: stage.now,
                })
            }),
        };
        Event::Detail(Box::new(DetailAnswer {
            about: Some(Ok(About::Letter(Box::new(detail)))),
            ..DetailAnswer::nothing(Subject::Letter(id.clone()), stage.now)
        }))
    };
    let before = answer(&stage, None);
    stage.event(before);
    stage.play("E");
    let (request, commands) = planned(&stage.event(Event::Edited {
        of: EditOf::Letter(id.clone()),
        result: Ok(Bytes::from_static(b"\"second\"")),
    }));
    stage.event(Event::Planned {
        request,
        result: Ok(commands.iter().map(plan).collect()),
    });
    stage.play("+1000 y");
    let done = crate::engine::runs::EditedLetter {
        id: id.clone(),
        queue: QueueName::parse("dead").unwrap(),
        original: message("\"first\""),
        before: message("\"first\""),
        edited: message("\"second\""),
    };
    let effects = stage.event(Event::Executed {
        request,
        item: 0,
        result: Ok(Box::new(Done::Edited(Box::new(done)))),
    });
    let looks = |effect: &Effect| matches!(effect, Effect::Look(query) if query.subject == Subject::Letter(id.clone()));
    assert!(effects.iter().any(looks), "{effects:?}");
    let after = answer(&stage, Some("\"second\""));
    stage.event(after);
    let shown = |stage: &Stage| stage.state.nav.details[0].reading.page.as_ref().unwrap().text.clone();
    assert!(shown(&stage).contains("second"), "what is sent");
    stage.play("x");
    assert!(shown(&stage).contains("first"), "the original");
    stage.play("x");
    assert!(shown(&stage).contains("second"));
    let draft = &stage.state.lists.dead.draft;
    assert_eq!(*draft, None, "what was written is sent instead");
}

#[test]
fn whoever_may_only_look_changes_nothing_here_either() {
    assert_eq!(settings(Access::ReadOnly).access, Access::ReadOnly);
    let mut stage = stage_with(Access::ReadOnly, incident());
    for (key, actions) in [("5", "R A X E"), ("6", "E X R"), ("7", "P U X R")] {
        stage.play(key);
        stage.feed();
        let effects = stage.play(actions);
        assert!(
            !effects
                .iter()
                .any(|effect| matches!(effect, Effect::Plan { .. } | Effect::Edit(_)))
        );
        assert!(matches!(stage.state.input.mode, Mode::Browse));
        assert!(
            stage.toasts().iter().all(|toast| toast.contains("read-only")),
            "{:?}",
            stage.toasts()
        );
    }
    assert_eq!(stage.state.nav.view, View::Runs);
}
