//! The event table: from its types to one event, and what can be done there.

use std::time::Duration;

use bytes::Bytes;

use super::Stage;
use super::feeds::fed;
use super::fixture::{incident, plan, planned, stage, stage_with};
use crate::console::state::detail::{About, DetailAnswer, DetailTab, EventDetail, Subject, TypeDetail};
use crate::console::state::dialog::Friction;
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;
use crate::console::state::events::{GroupRow, TypeChoice, TypeRow};
use crate::console::state::feed::FeedQuery;
use crate::console::state::{Mode, View};
use crate::domain::event::{self, EventState, EventType, Reference};
use crate::domain::policy::{PolicySource, RetryPolicy};
use crate::domain::time::Timestamp;
use crate::engine::events::{
    EventCommand, EventSelection, EventTypeRecord, EventsDone, Subscription, SubscriptionChoice,
};
use crate::engine::policies::PolicyView;
use crate::engine::query::PolicyScope;
use crate::engine::{Access, Command, Danger, Done, Plan};

const AT: Timestamp = Timestamp::from_seconds(1_700_000_000);

pub(super) fn types() -> Vec<TypeRow> {
    let row = |choice, dead: u64, due: u64| TypeRow {
        choice,
        by_state: [due, 0, dead, 0],
        due,
        next_due: Some(AT),
        oldest: Some(AT),
        document: "{}".to_owned(),
    };
    vec![
        row(TypeChoice::Every, 4, 9),
        row(TypeChoice::One(event_type("hr")), 4, 2),
        row(TypeChoice::One(event_type("price")), 0, 7),
    ]
}

pub(super) fn groups() -> Vec<GroupRow> {
    let row = |id: Option<&str>, state, count| GroupRow {
        id: id.map(str::to_owned),
        state,
        what: "timeout".to_owned(),
        count,
        next_due: Some(AT),
        oldest: Some(AT),
        last_failed_at: None,
    };
    vec![
        row(None, None, 6),
        row(Some("f00"), Some(EventState::Dead), 4),
        row(Some("ba7"), Some(EventState::Ready), 2),
    ]
}

pub(super) fn event(id: i64) -> event::Event {
    event::Event {
        event_type: event_type("hr"),
        reference: Reference::parse(&format!("ref-{id}")).unwrap(),
        nbf: AT,
        dated: None,
        created_at: AT,
        first_at: AT,
        attempts: 3,
        reason: Some("retry: failed_at=2026-01-01T00:00:00Z error=timeout".to_owned()),
        state: EventState::Dead,
        payload: Some(Bytes::from_static(b"{}")),
        ..event::fixture::event(id)
    }
}

fn event_type(name: &str) -> EventType {
    EventType::parse(name).unwrap()
}

fn subscription(id: i64, url: &str) -> Subscription {
    Subscription {
        id,
        event_type: event_type("hr"),
        url: super::fixture::url(url),
        options: r#"{"headers":{"x-team":"hr"},"_retry_policy":{"maximum_delay":60}}"#.to_owned(),
        created_at: AT,
    }
}

/// The type with metadata of its own and two subscriptions.
fn type_detail() -> TypeDetail {
    TypeDetail {
        record: EventTypeRecord {
            name: event_type("hr"),
            document: r#"{"_cutoff":5,"owner":"ana","_retry_policy":{"maximum_delay":60}}"#.to_owned(),
            created_at: AT,
            updated_at: AT,
        },
        subscriptions: vec![
            subscription(11, "https://one.example/"),
            subscription(12, "https://two.example/"),
        ],
        handled: Vec::new(),
        policy: Box::new(PolicyView {
            scope: PolicyScope::default(),
            newest: None,
            effective: RetryPolicy::default(),
            source: PolicySource::Default,
        }),
    }
}

impl Stage {
    /// Goes there and gets what it asked for.
    fn fed(&mut self, script: &str) -> FeedQuery {
        let effects = self.play(script);
        let query = effects.iter().find_map(|effect| match effect {
            Effect::Feed(query) => Some(query.clone()),
            _ => None,
        });
        let query = query.unwrap_or_else(|| panic!("{script} asks for rows"));
        self.event(Event::Fed(fed(query.clone(), self.now, true)));
        query
    }

    /// The open detail is answered.
    fn told(&mut self, about: About) {
        let subject = self.state.nav.details.last().unwrap().subject.clone();
        self.event(Event::Detail(Box::new(DetailAnswer {
            about: Some(Ok(about)),
            ..DetailAnswer::nothing(subject, self.now)
        })));
    }

    fn asked_of_events(&mut self, script: &str) -> Vec<EventCommand> {
        let commands = self.plan(script);
        let of_events = |command| match command {
            Command::Events(command) => command,
            other => panic!("not about events: {other:?}"),
        };
        commands.into_iter().map(of_events).collect()
    }
}

fn open_type() -> Stage {
    let mut stage = stage(incident());
    stage.fed("0");
    stage.play("Down i");
    stage.told(About::EventType(Box::new(type_detail())));
    stage
}

#[test]
fn from_the_types_it_goes_to_reasons_to_events_and_back() {
    let mut stage = stage(incident());
    assert_eq!(stage.fed("0").source.name, "event_types");
    let of_type = stage.fed("Down Enter");
    let asked = |query: &FeedQuery| (query.source.name, query.of.clone(), query.filter.clone(), query.limit);
    assert_eq!(asked(&of_type), ("event_groups", Some("hr".to_owned()), None, None));
    let of_group = stage.fed("Down Enter");
    let filter = Some("group = \"f00\"".to_owned());
    let page = Some(crate::console::state::feed::PAGE);
    assert_eq!(asked(&of_group), ("events", Some("hr".to_owned()), filter, page));
    stage.play("Enter");
    assert_eq!(stage.state.nav.details.last().unwrap().subject, Subject::Event(3));
    stage.play("Esc Esc");
    assert!(stage.state.lists.events.group.is_none() && stage.state.lists.events.choice.is_some());
    stage.play("Esc");
    assert!(stage.state.lists.events.choice.is_none());
    stage.play("Esc");
    assert_eq!(stage.state.nav.view, View::Events);
}

#[test]
fn a_type_gets_only_its_dead_events_back() {
    let mut stage = stage(incident());
    stage.fed("0");
    let dead = "type = \"hr\" and state = dead".to_owned();
    assert_eq!(
        stage.asked_of_events("Down R"),
        [EventCommand::Retry(EventSelection::Filter(dead))]
    );
    stage.play("Esc Down R");
    assert!(
        stage
            .toasts()
            .iter()
            .any(|toast| toast.contains("none of them is dead"))
    );
    stage.play("X T A");
    assert!(
        matches!(stage.state.input.mode, Mode::Browse),
        "nothing else is done to a whole type"
    );
}

#[test]
fn a_group_is_acted_on_by_its_filter_and_marked_events_by_their_ids() {
    let mut stage = stage(incident());
    stage.fed("0");
    stage.fed("Down Enter");
    let group = "(type = \"hr\") and (group = \"f00\")".to_owned();
    assert_eq!(
        stage.asked_of_events("Down R"),
        [EventCommand::Retry(EventSelection::Filter(group.clone()))]
    );
    stage.play("Esc");
    stage.fed("Enter");
    assert_eq!(
        stage.asked_of_events("Space Down Space X"),
        [EventCommand::Cancel(EventSelection::Ids(vec![2, 3]))]
    );
    stage.play("Esc");
    assert_eq!(
        stage.asked_of_events("A"),
        [EventCommand::Retry(EventSelection::Filter(group))]
    );
}

#[test]
fn what_is_cancelled_asks_for_its_number() {
    let mut stage = stage(incident());
    stage.fed("0");
    stage.fed("Down Enter");
    stage.fed("Down Enter");
    let effects = stage.play("X");
    let (request, commands) = planned(&effects);
    let plans: Vec<Plan> = commands
        .iter()
        .map(|command| Plan {
            danger: Danger::Destroys,
            ..plan(command)
        })
        .collect();
    stage.event(Event::Planned {
        request,
        result: Ok(plans),
    });
    let Mode::Dialog(dialog) = &stage.state.input.mode else {
        panic!("a confirmation is open");
    };
    let word = "1".to_owned();
    assert_eq!(
        dialog.friction,
        Friction::Type {
            what: "number of events",
            word
        }
    );
    let effects = stage.play("+500 '1 Enter");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Execute { .. })));
}

#[test]
fn a_due_time_is_asked_for_and_what_is_no_time_is_refused() {
    let mut stage = stage(incident());
    stage.fed("0");
    stage.fed("Down Enter");
    stage.fed("Down Enter");
    stage.play("T 'soon Enter");
    assert!(matches!(stage.state.input.mode, Mode::When(_)));
    assert!(
        stage.toasts().iter().any(|toast| toast.contains("10m")),
        "{:?}",
        stage.toasts()
    );
    stage.play("Backspace Backspace Backspace Backspace '10m");
    let commands = stage.asked_of_events("Enter");
    let [EventCommand::Reschedule(EventSelection::Ids(ids), at)] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    assert_eq!(
        (ids.as_slice(), *at),
        ([3].as_slice(), stage.now.plus(Duration::from_mins(10)))
    );
    stage.play("Esc");
    assert!(
        matches!(stage.state.input.mode, Mode::When(_)),
        "cancelled, the time can be changed"
    );
}

#[test]
fn what_came_of_it_is_said_with_what_was_left() {
    let mut stage = stage(incident());
    stage.fed("0");
    stage.fed("Down Enter");
    stage.fed("Down Enter");
    stage.plan("R");
    let effects = stage.play("+500 y");
    let (request, _) = super::fixture::confirmed(&effects);
    let done = EventsDone::Changed {
        events: vec![event(1)],
        skipped: vec![(2, "it is being handled".to_owned())],
    };
    stage.event(Event::Executed {
        request,
        item: 0,
        result: Ok(Box::new(Done::Events(done))),
    });
    assert_eq!(stage.log()[0], "due now: 1 event; 1 left: it is being handled");
}

#[test]
fn metadata_is_written_in_a_form_that_keeps_what_it_does_not_know() {
    let mut stage = open_type();
    stage.play("E Backspace '12");
    let commands = stage.asked_of_events("Enter");
    let [EventCommand::SetType { event_type, document }] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    let document: serde_json::Value = serde_json::from_str(document).unwrap();
    assert_eq!(event_type.as_str(), "hr");
    assert_eq!((&document["_cutoff"], &document["owner"]), (&12.into(), &"ana".into()));
    assert!(
        document["_retry_policy"].is_null(),
        "the policy that is saved counts, and none is"
    );
    stage.play("Esc");
    assert!(
        matches!(stage.state.input.mode, Mode::Document(_)),
        "cancelled, it can be written on"
    );
}

#[test]
fn metadata_that_is_wrong_is_not_planned() {
    let mut stage = open_type();
    let effects = stage.play("E 'x Enter");
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Plan { .. })));
    assert!(
        stage.toasts().iter().any(|toast| toast.contains("_cutoff")),
        "{:?}",
        stage.toasts()
    );
}

#[test]
fn a_subscription_is_made_changed_and_ended() {
    let mut stage = open_type();
    stage.play("N 'https://new.example/hook");
    let commands = stage.asked_of_events("Enter");
    let [EventCommand::Subscribe { url, options, .. }] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    assert_eq!((url.as_str(), options.as_str()), ("https://new.example/hook", "{}"));
    stage.play("Esc Esc Tab Down");
    assert_eq!(stage.state.nav.details.last().unwrap().tab, DetailTab::Subscriptions);
    assert_eq!(
        stage.asked_of_events("D"),
        [EventCommand::Unsubscribe {
            event_type: event_type("hr"),
            which: SubscriptionChoice::Id(12),
        }]
    );
    stage.play("Esc E");
    let commands = stage.asked_of_events("Enter");
    let [EventCommand::Subscribe { url, options, .. }] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    assert_eq!(url.as_str(), "https://two.example/");
    assert!(
        options.contains("x-team") && options.contains("_retry_policy"),
        "{options}"
    );
}

#[test]
fn the_policy_of_a_type_and_of_a_subscription_have_the_form_of_policies() {
    let mut stage = open_type();
    stage.play("P");
    let Mode::Policy(form) = &stage.state.input.mode else {
        panic!("the form is open");
    };
    assert_eq!(
        (form.scope.event_type.as_deref(), form.scope.url.is_none()),
        (Some("hr"), true)
    );
    stage.play("Esc Tab P");
    let Mode::Policy(form) = &stage.state.input.mode else {
        panic!("the form is open");
    };
    assert_eq!(form.scope.url, Some(super::fixture::url("https://one.example/")));
}

#[test]
fn read_only_refuses_every_action_on_events_with_the_reason() {
    let mut stage = stage_with(Access::ReadOnly, incident());
    stage.fed("0");
    stage.fed("Down Enter");
    let effects = stage.play("R A T X E P N D");
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Plan { .. })));
    assert!(matches!(stage.state.input.mode, Mode::Browse));
    assert!(
        stage.toasts().iter().all(|toast| toast.contains("read-only")),
        "{:?}",
        stage.toasts()
    );
}

#[test]
fn an_event_is_read_with_its_payload() {
    let mut stage = stage(incident());
    stage.fed("0");
    stage.fed("Enter");
    stage.fed("Enter");
    stage.play("Enter");
    stage.told(About::Event(Box::new(EventDetail {
        event: event(3),
        others: Vec::new(),
        handled: Vec::new(),
    })));
    assert_eq!(
        stage.asked_of_events("R"),
        [EventCommand::Retry(EventSelection::Ids(vec![3]))]
    );
    stage.play("Esc i");
    assert_eq!(
        stage.state.nav.details.last().unwrap().subject,
        Subject::EventType(event_type("hr"))
    );
}

#[test]
fn another_question_lets_the_one_before_be_asked_again() {
    let mut stage = stage(incident());
    let effects = stage.play("0");
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Feed(query) if query.source.name == "event_types"))
    );
    stage.play("7");
    let effects = stage.play("0");
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Feed(query) if query.source.name == "event_types")),
        "the first one is answered no more"
    );
}

#[test]
fn the_sum_of_all_types_is_in_no_export() {
    use crate::console::table::List as _;
    use crate::console::table::export::{Form, write};
    let mut stage = stage(incident());
    stage.play("0");
    stage.feed();
    let records = stage.state.lists.events.types.table.records(stage.now);
    let text = write(&*records, Form::Json);
    assert!(text.contains("hr") && text.contains("price"), "{text}");
    assert!(!text.contains("all types"), "{text}");
}

#[test]
fn what_somebody_did_meanwhile_is_not_confirmed_again() {
    let mut stage = stage(incident());
    stage.fed("0");
    stage.fed("Down Enter");
    stage.fed("Down Enter");
    let (request, commands) = planned(&stage.play("R"));
    let empty = commands.iter().map(|command| Plan {
        lines: Vec::new(),
        ..plan(command)
    });
    stage.event(Event::Planned {
        request,
        result: Ok(empty.collect()),
    });
    assert!(
        matches!(stage.state.input.mode, Mode::Browse),
        "{:?}",
        stage.state.input.mode
    );
    let toasts = stage.toasts();
    assert!(
        toasts.iter().any(|text| text.contains("there is nothing to do")),
        "{toasts:?}"
    );
}
