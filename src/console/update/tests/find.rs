//! Finding the way: the palette, back and forward, what belongs to a row, columns, completion; and what is done
//! from there: windows of protected profiles, undo, purge, files, links.

use std::sync::Arc;
use std::time::Duration;

use super::Stage;
use super::fixture::{
    START, endpoint, incident, is_execution, plan, planned, queue, queue_name, queues, settings, snapshot, stage,
    stage_with,
};
use crate::console::actions::{action, all};
use crate::console::state::detail::{DetailTab, Subject};
use crate::console::state::effect::{Content, Effect};
use crate::console::state::event::Event;
use crate::console::state::keymap::Keymap;
use crate::console::state::palette::Choice;
use crate::console::state::settings::{OtherProfile, Profiles};
use crate::console::state::{Mode, State, View};
use crate::console::table::{Row as _, export};
use crate::domain::endpoint::EndpointState;
use crate::domain::queue::QueueState;
use crate::engine::handle::Attached;
use crate::engine::{Access, Command, Plan};

fn found(stage: &Stage) -> Vec<String> {
    let Mode::Palette(open) = &stage.state.input.mode else {
        panic!("{:?}", stage.state.input.mode);
    };
    open.found
        .iter()
        .map(|one| format!("{} {}", one.kind, one.name))
        .collect()
}

fn problem(stage: &Stage) -> &str {
    match &stage.state.input.mode {
        Mode::Palette(open) => open.problem.as_deref().unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

fn protected() -> Stage {
    let mut settings = settings(Access::ReadOnly);
    settings.place.read_only = Some("protected profile: starts read-only".to_owned());
    settings.profiles = Profiles {
        file: None,
        current: Some("live".to_owned()),
        protected: true,
        window: true,
        others: vec![OtherProfile {
            name: "staging".to_owned(),
            says: String::new(),
        }],
    };
    let mut stage = Stage::new(State::new(&settings, Arc::new(Keymap::default()), START));
    stage.event(Event::Connected);
    stage.event(Event::Snapshot(Arc::new(incident())));
    stage
}

#[test]
fn the_palette_finds_actions_and_objects_and_opens_what_is_chosen() {
    let mut stage = stage(incident());
    stage.play(": 'mail");
    assert_eq!(
        found(&stage)[..3],
        [
            "endpoint https://mail.example/in",
            "queue dlv.mail.a",
            "queue dlv.mail.b"
        ]
    );
    let effects = stage.play("Enter");
    assert!(matches!(effects.as_slice(), [Effect::Look(query)] if matches!(query.subject, Subject::Endpoint(_))));
    assert!(matches!(stage.state.input.mode, Mode::Browse));
    stage.play(": 'retries Enter");
    assert_eq!(stage.state.nav.view, View::Retries);
}

#[test]
fn what_is_not_possible_stands_in_the_palette_with_its_reason_and_does_nothing() {
    let mut stage = stage(incident());
    stage.play("2 : 'disable Enter");
    assert_eq!(problem(&stage), "disable: is for: endpoints");
}

#[test]
fn a_change_from_the_palette_asks_like_its_key_and_is_never_begun_by_a_burst_or_a_paste() {
    let mut stage = stage(incident());
    let commands = stage.plan("3 : 'redeliver Enter");
    assert!(matches!(commands.as_slice(), [Command::Redeliver(_)]));
    assert!(!stage.play("Enter").iter().any(is_execution), "Enter cancels");
    stage.play(":");
    stage.event(Event::Paste("redeliver\n".to_owned()));
    assert!(
        matches!(stage.state.input.mode, Mode::Palette(_)),
        "a pasted line end is no Enter"
    );
    let effects = stage.play("!a !b !c !d !e !Enter");
    assert!(effects.is_empty() && matches!(stage.state.input.mode, Mode::Palette(_)));
}

#[test]
fn lines_are_recalled_and_completed() {
    let mut stage = stage(incident());
    stage.play("2 : 'sort_dep Tab");
    assert!(matches!(&stage.state.input.mode, Mode::Palette(open) if open.input.value() == "sort depth"));
    stage.play("Enter : Up");
    assert!(matches!(&stage.state.input.mode, Mode::Palette(open) if open.input.value() == "sort depth"));
    stage.play("Down");
    assert!(matches!(&stage.state.input.mode, Mode::Palette(open) if open.input.value().is_empty()));
}

#[test]
fn names_among_very_many_are_looked_for_beside_the_screen() {
    let mut stage = stage(snapshot(1, queues(3_000), Vec::new()));
    let effects = stage.play(": 'q02999");
    let jobs: Vec<_> = effects
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Find(job) => Some(job),
            _ => None,
        })
        .collect();
    assert_eq!(jobs.len(), 6, "one for each letter");
    let stale = jobs[0].run();
    stage.event(Event::Found(stale));
    assert!(
        found(&stage).iter().all(|one| !one.starts_with("queue")),
        "an old search is dropped"
    );
    let newest = jobs[5].run();
    stage.event(Event::Found(newest));
    assert!(found(&stage).contains(&"queue dlv.q02999".to_owned()));
}

#[test]
fn commands_filter_and_sort_the_list_and_say_what_they_cannot_read() {
    let mut stage = stage(incident());
    stage.play("2 : 'sort_-depth Enter");
    assert_eq!(stage.state.lists.queues.selected_row().unwrap().depth(), Some(1));
    stage.play(": 'filter_depth_>_5 Enter");
    assert_eq!(stage.state.lists.queues.order.len(), 2);
    stage.play(": 'filter_dept_>_5 Enter");
    assert!(problem(&stage).starts_with("column 1:"), "{}", problem(&stage));
    stage.play("Esc");
    assert_eq!(stage.state.lists.queues.filter.text, "depth > 5");
}

#[test]
fn back_and_forward_go_where_the_operator_was_with_what_was_open() {
    let mut stage = stage(incident());
    stage.play("2 /orders Enter Enter 3");
    assert_eq!(
        (stage.state.nav.view, stage.state.nav.details.len()),
        (View::Endpoints, 0)
    );
    stage.play("[");
    assert_eq!((stage.state.nav.view, stage.state.nav.details.len()), (View::Queues, 1));
    stage.play("[ [");
    assert_eq!(stage.state.nav.view, View::Overview);
    stage.play("] ] ]");
    assert_eq!(stage.state.nav.view, View::Endpoints);
    stage.play("]");
    assert_eq!(stage.toasts(), ["forward: there is no place after this one"]);
}

#[test]
fn from_a_queue_to_everything_that_belongs_to_it() {
    let mut stage = stage(incident());
    stage.play("2 /orders.a Enter");
    stage.play("o e");
    assert!(matches!(
        &stage.state.nav.details.last().unwrap().subject,
        Subject::Endpoint(_)
    ));
    stage.play("o p");
    assert!(matches!(
        &stage.state.nav.details.last().unwrap().subject,
        Subject::Policy(_)
    ));
    stage.play("o q");
    assert_eq!(
        stage.state.lists.queues.filter.text,
        "endpoint = \"https://shop.example/orders\""
    );
    stage.play("o a");
    assert_eq!(stage.state.nav.details.last().unwrap().tab, DetailTab::Attempts);
    stage.play("o d");
    assert_eq!(
        stage.state.lists.dead.groups.table.filter.text, "origin = \"dlv.orders.a\"",
        "those of the queue, not all of its endpoint"
    );
    stage.play("3 /orders Enter o d");
    assert_eq!(
        stage.state.lists.dead.groups.table.filter.text,
        "url = \"https://shop.example/orders\""
    );
    assert!(stage.state.lists.dead.groups.table.filter.error.is_none());
    stage.play("2 o h");
    assert_eq!(
        stage.state.lists.audit.table.filter.text,
        "target ~ \"dlv.orders.a\" or detail ~ \"dlv.orders.a\""
    );
    assert!(stage.state.lists.audit.table.filter.error.is_none());
}

#[test]
fn the_way_back_from_ever_deeper_details_is_bounded_and_none_is_open_twice() {
    let mut stage = stage(incident());
    stage.play("3 Enter o p o e o p o e");
    let subjects: Vec<_> = stage
        .state
        .nav
        .details
        .iter()
        .map(|detail| detail.subject.kind())
        .collect();
    assert_eq!(subjects, ["endpoint"]);
}

#[test]
fn a_sequence_that_was_begun_is_left_by_itself_or_by_any_other_key() {
    let mut stage = stage(incident());
    stage.play("2 o");
    assert_eq!(stage.state.input.pending_keys.len(), 1);
    assert!(stage.state.wake_at().is_some());
    stage.play("+5000");
    assert!(stage.state.input.pending_keys.is_empty());
    stage.play("o Esc");
    assert!(stage.state.input.pending_keys.is_empty());
}

#[test]
fn the_overview_opens_the_worst() {
    let mut incident = incident();
    incident.worst = crate::engine::snapshot::Worst::of(&incident.queues, &incident.endpoints);
    let mut stage = stage(incident);
    let worst = stage.state.worst_of_all();
    assert!(worst.len() >= 3, "{worst:?}");
    stage.play("Down Enter");
    assert_eq!(stage.state.nav.details.last().unwrap().subject, worst[1]);
}

#[test]
fn columns_are_hidden_moved_and_sorted_by() {
    let mut stage = stage(incident());
    stage.play("2 t Down Space");
    assert!(!stage.state.list().unwrap().columns()[1].shown);
    stage.play("J");
    let columns = stage.state.list().unwrap().columns();
    assert_eq!((columns[1].name, columns[2].name), ("endpoint", "depth"));
    stage.play("Up Enter");
    assert_eq!(
        stage.state.lists.queues.selected_row().map(|row| row.id()),
        stage
            .state
            .lists
            .queues
            .row(stage.state.lists.queues.cursor.place)
            .map(|row| row.id())
    );
    assert_eq!(stage.state.list().unwrap().sorted_by(), Some(("endpoint", false)));
    stage.play("Enter");
    assert_eq!(stage.state.list().unwrap().sorted_by(), Some(("endpoint", true)));
    stage.play("0 Esc");
    assert!(stage.state.list().unwrap().columns().iter().all(|column| column.shown));
}

#[test]
fn the_filter_line_completes_fields_and_values() {
    let mut stage = stage(incident());
    stage.play("2 /st Tab");
    assert_eq!(stage.state.lists.queues.filter.text, "state ");
    stage.play("'=_ 'par Tab");
    assert_eq!(stage.state.lists.queues.filter.text, "state = parked ");
    assert_eq!(stage.state.lists.queues.order.len(), 1);
}

#[test]
fn a_protected_profile_is_changed_only_in_a_window_that_has_a_reason_and_an_end() {
    let mut stage = protected();
    stage.play("3 R");
    assert_eq!(
        stage.toasts(),
        ["redeliver: read-only: protected profile: starts read-only (W allows changes)"]
    );
    stage.play(": 'write_15m Enter");
    assert!(problem(&stage).starts_with("why?"), "{}", problem(&stage));
    stage.play("Esc : 'write_9h_INC Enter");
    assert_eq!(problem(&stage), "at most 4h at once");
    let effects = stage.play("Esc : 'write_15m_INC-42 Enter");
    let [Effect::Window(Some((until, reason)))] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(
        (*until, reason.as_str()),
        (stage.now.plus(Duration::from_secs(900)), "INC-42")
    );
    stage.plan("R");
    let effects = stage.play("+900000");
    assert!(matches!(effects.as_slice(), [Effect::Window(None)]), "{effects:?}");
    assert!(
        matches!(stage.state.input.mode, Mode::Browse),
        "what waited for an answer is closed"
    );
    stage.state.said.toasts.clear();
    stage.play("R");
    assert!(stage.toasts()[0].contains("read-only"), "{:?}", stage.toasts());
}

#[test]
fn a_window_is_closed_before_its_time_and_not_opened_where_nobody_may() {
    let mut stage = protected();
    stage.play(": 'write_1h_INC-42 Enter");
    let effects = stage.play(": 'read-only Enter");
    assert!(matches!(effects.as_slice(), [Effect::Window(None)]));
    assert!(stage.state.session.place.read_only.is_some());
    let effects = stage.play("W 'INC-42 Enter");
    assert!(
        matches!(effects.as_slice(), [Effect::Window(Some(_))]),
        "a key asks for the reason"
    );
    let effects = stage.play("W");
    assert!(matches!(effects.as_slice(), [Effect::Window(None)]), "and closes it");
    assert!(stage.state.session.place.read_only.is_some());
    let mut stage = stage_with(Access::ReadOnly, incident());
    assert!(stage.play("W : 'write_1h_INC-42 Enter").is_empty());
    assert!(problem(&stage).starts_with("not possible here"));
}

#[test]
fn in_a_protected_profile_the_number_is_typed_from_two_targets_on() {
    let mut stage = protected();
    stage.play(": 'write_1h_INC-42 Enter");
    stage.plan("3 * R");
    assert!(!stage.play("+500 y").iter().any(is_execution));
    assert!(stage.play("Backspace 3 Enter").iter().any(is_execution));
}

#[test]
fn what_was_begun_within_the_time_for_changes_ends_without_a_confirmation_after_it() {
    use crate::console::state::dialog::ScopeKind;
    use crate::console::state::effect::EditOf;
    use crate::engine::runs::Selection;
    let mut stage = protected();
    stage.play(": 'write_1m_INC-42 Enter 5 +61000");
    let effects = stage.event(Event::Edited {
        of: EditOf::Patch(ScopeKind::One, Selection::Group("f00".to_owned())),
        result: Ok(bytes::Bytes::from_static(br#"[{"op":"remove","path":"/a"}]"#)),
    });
    assert!(effects.is_empty(), "{effects:?}");
    let said = stage.toasts().last().copied().unwrap_or_default();
    assert!(said.starts_with("edit: read-only"), "{:?}", stage.toasts());
}

#[test]
fn a_url_of_the_audit_is_that_of_the_one_endpoint_that_is_called_so() {
    use crate::console::state::relatives::audited;
    let urls = [
        "https://a.example/twin?token=1",
        "https://a.example/twin?token=2",
        "https://a.example/one?key=3",
    ];
    let endpoints = urls.map(|url| endpoint(url, EndpointState::Available));
    let stage = stage(snapshot(1, Vec::new(), endpoints.into()));
    let found = |target: &str| audited(&stage.state, target).url.map(|url| url.as_str().to_owned());
    assert_eq!(found("https://a.example/one?key=***").as_deref(), Some(urls[2]));
    assert_eq!(found("https://a.example/twin?token=***"), None, "one of two");
    assert_eq!(found("https://a.example/gone?key=***"), None);
    assert_eq!(
        found("https://a.example/plain").as_deref(),
        Some("https://a.example/plain")
    );
}

#[test]
fn a_line_of_the_audit_opens_the_run_the_dead_letter_or_the_queue_that_is_there_and_nothing_else() {
    use crate::console::state::relatives::audited;
    let stage = stage(incident());
    let known = "dlv.orders.a";
    let found = |target: &str| {
        let found = audited(&stage.state, target);
        let queue = found.queue.map(|queue| queue.as_str().to_owned());
        (found.run, found.audited, queue)
    };
    let some = |text: &str| Some(text.to_owned());
    let (run, letter) = (
        "01a22eb8-7a3c-7a2b-8f6d-0123456789ab",
        "2dc4f8a0b1c2d3e4f5061728394a5b6c",
    );
    assert_eq!(found(&format!("run {run}")), (some(run), None, None));
    assert_eq!(found(run), (some(run), None, None));
    for target in [
        letter.to_owned(),
        format!("dead letter {letter}"),
        format!("the original of dead letter {letter}"),
    ] {
        assert_eq!(found(&target), (None, some(letter), None), "{target}");
    }
    assert_eq!(found(known), (None, None, some(known)));
    for target in ["2 targets", "127.0.0.1", "gone.queue"] {
        assert_eq!(found(target), (None, None, None), "{target}");
    }
}

#[test]
fn another_profile_is_gone_to_by_its_name_once_nothing_runs() {
    let mut stage = protected();
    stage.play(": 'profile_nowhere Enter");
    assert!(matches!(stage.state.input.mode, Mode::Palette(_)));
    let effects = stage.play("Esc : 'profile_staging Enter");
    assert!(matches!(effects.as_slice(), [Effect::TryProfile(name)] if name == "staging"));
    let tried = |closed: Option<&str>| Event::Tried {
        profile: "staging".to_owned(),
        closed: closed.map(str::to_owned),
    };
    assert!(
        stage
            .event(tried(Some("the daemon does not know the token")))
            .is_empty()
    );
    assert!(
        stage.toasts().last().unwrap().contains("does not know the token"),
        "this console stays: {:?}",
        stage.toasts()
    );
    let effects = stage.event(tried(None));
    assert!(matches!(effects.as_slice(), [Effect::Profile(name)] if name == "staging"));
}

#[test]
fn read_only_offers_no_mutating_action_anywhere_whatever_way_it_is_asked_for() {
    for action in all().filter(|action| action.mutates()) {
        for view in View::ALL {
            let mut stage = stage_with(Access::ReadOnly, incident());
            stage.state.nav.view = view;
            let reason = action.possible(&stage.state).expect_err(action.name);
            assert!(reason.starts_with("read-only"), "{}: {reason}", action.name);
            let key = action.keys[0];
            let line = action.title.replace(' ', "_");
            let effects = stage.play(&format!("{key} : '{line} Enter"));
            let asks = |effect: &Effect| matches!(effect, Effect::Plan { .. } | Effect::Execute { .. });
            assert!(!effects.iter().any(asks), "{}", action.name);
        }
    }
}

#[test]
fn what_was_done_last_is_undone_or_a_plain_word_says_why_not() {
    let mut stage = stage(incident());
    stage.play("2 Z");
    assert_eq!(stage.toasts(), ["undo: nothing was done here yet"]);
    stage.plan("/stock Enter P");
    let confirmed = stage.play("+500 y");
    stage.execute(&confirmed, &[]);
    let commands = stage.plan("Z");
    assert!(matches!(commands.as_slice(), [Command::ResumeQueue(queue)] if queue.as_str() == "dlv.stock.a"));
    stage.play("Esc");
    stage.plan("3 R");
    let confirmed = stage.play("+500 y");
    stage.execute(&confirmed, &[]);
    stage.state.said.toasts.clear();
    stage.play("Z");
    assert!(
        stage.toasts()[0].starts_with("undo: what was sent is sent"),
        "{:?}",
        stage.toasts()
    );
}

#[test]
fn what_is_paused_again_by_an_undo_is_paused_for_the_reason_that_it_was_paused_for() {
    let mut stage = stage(incident());
    let (request, commands) = planned(&stage.play("2 /dlv.mail.b Enter * U"));
    let mut plans: Vec<Plan> = commands.iter().map(plan).collect();
    plans[0].ends_reason = Some("they migrate until noon".to_owned());
    stage.event(Event::Planned {
        request,
        result: Ok(plans),
    });
    let confirmed = stage.play("+500 y");
    stage.execute(&confirmed, &[]);
    let commands = stage.plan("Z");
    assert_eq!(commands, [Command::PauseQueue(queue_name("dlv.mail.b"))]);
    let effects = stage.play("+500 y");
    let [Effect::Execute { reason, .. }] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(reason.as_deref(), Some("they migrate until noon"));
    stage.execute(&effects, &[]);
    stage.plan("/dlv.stock.a Enter P");
    let effects = stage.play("+500 y");
    let [Effect::Execute { reason, .. }] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(*reason, None, "for that alone");
}

#[test]
fn disabling_is_undone_where_the_endpoint_was_available_and_not_where_that_would_make_it_so() {
    for (was, undo) in [
        ("available", true),
        ("available; paused by ana", true),
        ("parked", false),
    ] {
        let mut stage = stage(incident());
        let (request, commands) = planned(&stage.play("3 D"));
        let mut plans: Vec<Plan> = commands.iter().map(plan).collect();
        was.clone_into(&mut plans[0].lines[0].now);
        stage.event(Event::Planned {
            request,
            result: Ok(plans),
        });
        let confirmed = stage.play("+500 y");
        stage.execute(&confirmed, &[]);
        stage.state.said.toasts.clear();
        let asked = stage.play("Z");
        let plans = asked.iter().any(|effect| matches!(effect, Effect::Plan { .. }));
        assert_eq!(plans, undo, "{was}: {:?}", stage.toasts());
        assert!(
            undo || stage.toasts()[0].contains("was not available before"),
            "{:?}",
            stage.toasts()
        );
    }
}

#[test]
fn messages_are_removed_only_by_the_typed_name_of_one_queue_and_on_fresh_numbers() {
    let mut stage = stage(incident());
    let commands = stage.plan("2 /stock Enter X");
    assert!(matches!(commands.as_slice(), [Command::PurgeQueue(_)]));
    assert!(!stage.play("+500 y Enter").iter().any(is_execution));
    stage.play("Backspace 'dlv.stock.a");
    assert!(stage.play("Enter").iter().any(is_execution));
    stage.state.commands.tasks.clear();
    stage.play("Esc *");
    assert!(action("purge").possible(&stage.state).is_err(), "one queue at a time");
    stage.play("u z");
    let why = action("purge").possible(&stage.state).unwrap_err();
    assert!(why.contains("frozen"), "{why}");
    stage.play("z +60000");
    let why = action("purge").possible(&stage.state).unwrap_err();
    assert!(why.contains("old"), "{why}");
}

#[test]
fn a_list_is_written_as_it_is_filtered_and_sorted() {
    let mut stage = stage(incident());
    stage.play("2 /orders Enter");
    let effects = stage.play(": 'export_csv_out.csv Enter");
    let [Effect::Save(job)] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(job.path.to_string_lossy(), "out.csv");
    let Content::Records(records, form) = &job.content else {
        panic!("{job:?}");
    };
    let text = export::write(&**records, *form);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(
        lines[1].contains("dlv.orders.a") && lines[2].contains("dlv.orders.b"),
        "{text}"
    );
    stage.event(Event::Saved(Ok("out.csv".to_owned())));
    assert!(stage.toasts().contains(&"written: out.csv"));
    let effects = stage.play(": 'export_json Enter");
    assert!(
        matches!(effects.as_slice(), [Effect::Save(job)] if job.path.to_string_lossy().starts_with("redrive-queues-2026")),
        "{effects:?}"
    );
}

#[test]
fn what_is_copied_is_whole_and_what_is_said_of_it_hides_the_values_of_its_query() {
    let ends = vec![endpoint("https://a.example/in?key=S3CRET", EndpointState::Parked)];
    for keys in ["3 c", "3 Enter C"] {
        let mut stage = stage(snapshot(1, Vec::new(), ends.clone()));
        let effects = stage.play(keys);
        let copies = |effect: &Effect| matches!(effect, Effect::Copy(text) if text.contains("key=S3CRET"));
        assert!(effects.iter().any(copies), "{keys}: {effects:?}");
        let toasts = stage.toasts();
        assert!(toasts.iter().any(|text| text.contains("key=***")), "{keys}: {toasts:?}");
        assert!(!toasts.iter().any(|text| text.contains("S3CRET")), "{keys}: {toasts:?}");
    }
}

#[test]
fn every_view_has_the_command_that_prints_the_same() {
    let mut stage = stage(incident());
    let mut copied = |keys: &str| match stage
        .play(keys)
        .into_iter()
        .find(|effect| matches!(effect, Effect::Copy(_)))
    {
        Some(Effect::Copy(text)) => text,
        other => panic!("{keys}: {other:?}"),
    };
    assert_eq!(copied("1 C"), "redrive endpoints --unavailable");
    assert_eq!(
        copied("2 /depth_>_5 Enter : 'sort_name Enter C"),
        "redrive queues --filter 'depth > 5' --sort name"
    );
    assert_eq!(copied("Enter C"), "redrive queue why dlv.mail.a");
    assert_eq!(copied("Tab C"), "redrive attempts --queue dlv.mail.a");
    assert_eq!(copied("3 Enter C"), "redrive endpoint show https://mail.example/in");
    assert_eq!(copied("7 C"), "redrive run list");
    stage.state.session.profiles.file = Some("/etc/red rive.toml".to_owned());
    stage.state.session.profiles.current = Some("live".to_owned());
    let effects = stage.play("7 C");
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::Copy(command)
            if command == "redrive --config '/etc/red rive.toml' --profile live run list")),
        "{effects:?}"
    );
}

#[test]
fn the_palette_offers_no_choice_that_panics_on_any_list() {
    let rows = vec![queue("dlv.a", None, QueueState::Parked, 1)];
    let ends = vec![endpoint("https://a.example/", EndpointState::Parked)];
    let mut stage = stage(snapshot(1, rows, ends));
    for view in View::ALL {
        stage.state.nav.view = view;
        stage.state.nav.details.clear();
        stage.play(":");
        let Mode::Palette(open) = &stage.state.input.mode else {
            panic!("{view:?}");
        };
        assert!(open.found.iter().any(|one| matches!(one.choice, Choice::Action(_))));
        stage.play("Down Down Up Tab Esc");
    }
    assert!(stage.state.commands.tasks.is_empty());
}

fn token(may_change: bool, may_administer: bool) -> Event {
    Event::Attached(Attached {
        vhost: "shop".to_owned(),
        may_change,
        may_administer,
    })
}

#[test]
fn what_the_token_of_a_daemon_may_do_is_learned_each_time_that_the_daemon_says_it() {
    let mut stage = stage(incident());
    stage.event(token(true, true));
    assert_eq!(stage.state.session.place.store, "vhost shop");
    assert!(!stage.plan("3 R").is_empty());
    stage.play("Esc");
    stage.state.said.toasts.clear();
    // The daemon was started again, and knows the token with less.
    stage.event(token(false, false));
    assert!(
        stage.toasts()[0].starts_with("this token may only look now"),
        "{:?}",
        stage.toasts()
    );
    for action in all().filter(|action| action.mutates()) {
        let reason = action.possible(&stage.state).expect_err(action.name);
        assert!(
            reason.starts_with("read-only: this token may only look"),
            "{}: {reason}",
            action.name
        );
    }
    assert!(
        !stage
            .play("R")
            .iter()
            .any(|effect| matches!(effect, Effect::Plan { .. }))
    );
    stage.event(token(true, false));
    assert!(!stage.plan("R").is_empty());
}

#[test]
fn a_token_that_may_only_look_is_not_given_more_by_a_time_for_changes() {
    let mut stage = protected();
    stage.event(token(false, false));
    assert!(stage.play(": 'write_1h_INC-42 Enter").is_empty());
    assert!(
        problem(&stage).contains("this token may only look"),
        "{}",
        problem(&stage)
    );
}

#[test]
fn what_needs_the_scope_admin_is_not_offered_to_a_token_without_it() {
    let mut stage = stage(incident());
    stage.play("3");
    let edits = action("edit_policy");
    for (event, may) in [(token(true, false), false), (token(true, true), true)] {
        stage.event(event);
        let possible = edits.possible(&stage.state);
        assert_eq!(possible.is_ok(), may, "{possible:?}");
        assert!(may || possible.unwrap_err().contains("lacks the scope \"admin\""));
        assert!(action("redeliver").possible(&stage.state).is_ok());
    }
}
