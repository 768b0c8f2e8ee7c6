//! What is under the hand: the line of keys, the menu, the overview's rows, the filter line, the palette and the help as
//! they open, a test without a further key, reasons.

use std::sync::Arc;

use super::Stage;
use super::fixture::{START, confirmed, incident, is_execution, planned, queue_name, settings, snapshot, stage};
use crate::console::state::action::hints;
use crate::console::state::detail::Subject;
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;
use crate::console::state::keymap::Keymap;
use crate::console::state::settings::Profiles;
use crate::console::state::{Mode, SIZE_MAX, State, View};
use crate::domain::queue::QueueState;
use crate::engine::{Access, Command};

fn hinted(stage: &Stage) -> Vec<&'static str> {
    hints(&stage.state).iter().map(|hint| hint.action.name).collect()
}

/// The names in the menu with whether they are possible.
fn listed(stage: &Stage) -> Vec<(&'static str, bool)> {
    let Mode::Menu(menu) = &stage.state.input.mode else {
        panic!("{:?}", stage.state.input.mode);
    };
    let possible =
        |action: &&'static crate::console::state::action::Action| (action.name, action.possible(&stage.state).is_ok());
    menu.actions.iter().map(possible).collect()
}

#[test]
fn the_line_of_keys_has_only_what_can_be_done_and_the_likely_first() {
    let mut stage = stage(incident());
    stage.play("2 /dlv.mail.b Enter");
    let paused = hinted(&stage);
    assert_eq!(paused[0], "resume", "a paused queue is resumed: {paused:?}");
    assert!(!paused.contains(&"pause") && !paused.contains(&"disable"), "{paused:?}");
    stage.play("Esc /dlv.orders.a Enter");
    let down = hinted(&stage);
    assert_eq!(down[0], "redeliver", "{down:?}");
    assert!(down.contains(&"pause") && !down.contains(&"resume"), "{down:?}");
    let all_possible = hints(&stage.state)
        .iter()
        .all(|hint| hint.action.possible(&stage.state).is_ok());
    assert!(all_possible);
}

#[test]
fn a_console_that_only_looks_offers_nothing_that_changes_and_says_why_when_pressed() {
    let mut stage = super::fixture::stage_with(Access::ReadOnly, incident());
    stage.play("2");
    assert!(hints(&stage.state).iter().all(|hint| !hint.action.mutates()));
    stage.play("R");
    assert_eq!(stage.toasts(), ["redeliver: read-only: this console may only look"]);
}

#[test]
fn the_menu_lists_what_applies_and_the_reason_of_the_rest_behind_it() {
    let mut stage = stage(incident());
    stage.play("2 /dlv.mail.b Enter a");
    let actions = listed(&stage);
    assert_eq!(actions[0], ("resume", true));
    assert!(actions.contains(&("related_queues", true)), "{actions:?}");
    let first_refused = actions.iter().position(|(_, possible)| !possible).unwrap();
    assert!(
        actions[first_refused..].iter().all(|(_, possible)| !possible),
        "{actions:?}"
    );
    assert!(actions[first_refused..].contains(&("pause", false)), "{actions:?}");
    stage.play("Esc");
    assert!(matches!(stage.state.input.mode, Mode::Browse));
}

#[test]
fn the_menu_does_what_is_chosen_and_what_the_key_beside_it_says() {
    let mut stage = stage(incident());
    let wanted = Command::ResumeQueue(queue_name("dlv.mail.b"));
    assert_eq!(stage.plan("2 /dlv.mail.b Enter a Enter"), std::slice::from_ref(&wanted));
    stage.play("Esc");
    assert_eq!(stage.plan("a U"), [wanted]);
    stage.play("Esc a P");
    assert_eq!(stage.toasts(), ["pause: this queue is paused already"]);
    assert!(matches!(stage.state.input.mode, Mode::Menu(_)), "it stays open");
    stage.play("a");
    assert!(matches!(stage.state.input.mode, Mode::Browse), "its key closes it");
}

#[test]
fn the_rows_of_the_overview_are_acted_on_like_those_of_their_lists() {
    let mut snapshot = incident();
    snapshot.worst.endpoints = snapshot.endpoints.iter().take(2).cloned().collect();
    snapshot.worst.queues = snapshot.queues.iter().filter(|row| row.paused).cloned().collect();
    let mut stage = stage(snapshot);
    assert_eq!(stage.state.nav.view, View::Overview);
    let Some(Subject::Endpoint(first)) = stage.state.worst() else {
        panic!("{:?}", stage.state.worst());
    };
    let redelivers = Command::Redeliver(crate::engine::RedeliverTarget::Urls(vec![first]));
    assert_eq!(stage.plan("R"), [redelivers]);
    stage.play("Esc");
    assert_eq!(
        stage.plan("j j U"),
        [Command::ResumeQueue(queue_name("dlv.mail.b"))],
        "a queue is resumed"
    );
    stage.play("Esc");
    let effects = stage.play("k k T");
    let (_, commands) = planned(&effects);
    assert!(matches!(commands.as_slice(), [Command::TestEndpoint { .. }]));
    // Behind the worst stands what is tried next.
    stage.play("G");
    assert_eq!(stage.state.worst(), Some(Subject::Queue(queue_name("dlv.orders.b"))));
    assert_eq!(stage.plan("P"), [Command::PauseQueue(queue_name("dlv.orders.b"))]);
}

#[test]
fn what_is_done_with_a_row_of_the_overview_keeps_it_selected_when_others_are_worse() {
    let mut snapshot = incident();
    snapshot.worst.endpoints = snapshot.endpoints.iter().take(2).cloned().collect();
    for keys in ["T", "j", "R Esc"] {
        let mut stage = stage(snapshot.clone());
        stage.play(keys);
        let before = stage.state.worst();
        let mut next = snapshot.clone();
        next.generation += 1;
        next.worst.endpoints.reverse();
        stage.event(Event::Snapshot(Arc::new(next)));
        assert_eq!(stage.state.worst(), before, "{keys}");
    }
}

#[test]
fn typing_replaces_the_filter_that_holds_and_moving_keeps_it() {
    let mut stage = stage(incident());
    stage.play("2 /mail Enter /orders");
    assert_eq!(stage.state.lists.queues.filter.text, "orders");
    stage.play("Enter / End '.a Enter");
    assert_eq!(stage.state.lists.queues.filter.text, "orders.a");
    stage.play("/ Backspace Enter");
    assert_eq!(stage.state.lists.queues.filter.text, "", "it goes as a whole");
}

#[test]
fn a_row_has_to_have_every_word_in_one_of_its_texts() {
    let mut stage = stage(incident());
    let shown = |stage: &Stage| -> Vec<String> {
        let rows = stage.state.lists.queues.shown_rows();
        rows.map(|row| row.name.as_str().to_owned()).collect()
    };
    // The host is in the endpoint, the state in the state.
    stage.play("2 /mail.example_parked Enter");
    assert_eq!(shown(&stage), ["dlv.mail.a"]);
    stage.play("/shop_!dlv.orders.b Enter");
    assert_eq!(shown(&stage), ["dlv.orders.a"]);
    stage.play("/down Enter");
    assert_eq!(shown(&stage).len(), 2, "as the screen calls it: {:?}", shown(&stage));
    stage.play("/depth_>_6_and_mail");
    assert!(
        stage.state.lists.queues.filter.error.is_some(),
        "an expression stays one"
    );
}

#[test]
fn what_cannot_be_read_is_said_after_a_pause_or_when_it_is_to_be_kept() {
    let mut stage = stage(incident());
    stage.play("2 /depth_>");
    let says = |stage: &Stage| match &stage.state.input.mode {
        Mode::Filter(line) => line.says_errors(stage.now),
        other => panic!("{other:?}"),
    };
    assert!(stage.state.lists.queues.filter.error.is_some() && !says(&stage));
    let wakes = stage.state.wake_at().unwrap();
    stage.play("+900");
    assert!(
        says(&stage) && wakes <= stage.now,
        "the screen is painted again by then"
    );
    stage.play("'_");
    assert!(!says(&stage), "somebody types on");
    stage.play("Enter");
    assert!(says(&stage));
}

#[test]
fn up_and_down_lead_through_the_filters_of_before() {
    let mut stage = stage(incident());
    stage.play("2 /mail Enter /orders Enter 3 / Up");
    assert_eq!(stage.state.lists.endpoints.filter.text, "orders");
    stage.play("Up");
    assert_eq!(stage.state.lists.endpoints.filter.text, "mail");
    stage.play("Up");
    assert_eq!(stage.state.lists.endpoints.filter.text, "mail", "there is none before");
    stage.play("Down Enter");
    assert_eq!(stage.state.lists.endpoints.filter.text, "orders");
    stage.play("/ Up");
    assert_eq!(
        stage.state.lists.endpoints.filter.text, "mail",
        "the one that stands there is left out"
    );
}

fn offered(stage: &Stage) -> Vec<&str> {
    let Mode::Palette(palette) = &stage.state.input.mode else {
        panic!("{:?}", stage.state.input.mode);
    };
    palette.found.iter().map(|candidate| candidate.name.as_str()).collect()
}

#[test]
fn the_palette_opens_with_what_was_chosen_what_applies_here_and_the_views() {
    let mut stage = stage(incident());
    stage.play("2 /dlv.mail.b Enter :");
    let place = |stage: &Stage, name: &str| offered(stage).iter().position(|one| *one == name).unwrap();
    assert_eq!(offered(&stage)[0], "resume", "{:?}", offered(&stage));
    assert!(place(&stage, "test") < place(&stage, "overview"));
    assert!(
        place(&stage, "expiring") < place(&stage, "down"),
        "{:?}",
        offered(&stage)
    );
    stage.play("'freeze Enter :");
    assert_eq!(offered(&stage)[0], "freeze", "chosen lately: {:?}", offered(&stage));
    assert_eq!(offered(&stage)[1], "resume");
}

#[test]
fn the_help_looks_for_what_is_typed_and_closes_in_two_steps() {
    let mut stage = stage(incident());
    stage.play("2 ? 'purge");
    let Mode::Help(help) = &stage.state.input.mode else {
        panic!("{:?}", stage.state.input.mode);
    };
    assert_eq!(help.input.value(), "purge");
    stage.play("Esc");
    assert!(matches!(&stage.state.input.mode, Mode::Help(help) if help.input.value().is_empty()));
    stage.play("Esc");
    assert!(matches!(stage.state.input.mode, Mode::Browse));
}

#[test]
fn the_digit_of_a_view_goes_to_its_top() {
    let mut stage = stage(incident());
    stage.play("- w 2 -");
    assert!(!stage.state.lists.expiring.shows_saves);
    assert_eq!(stage.state.nav.view, View::Expiring);
}

#[test]
fn a_test_of_one_endpoint_needs_its_key_alone() {
    let mut stage = stage(incident());
    let effects = stage.play("3 T");
    let (request, commands) = planned(&effects);
    assert!(matches!(stage.state.input.mode, Mode::Browse), "no dialog");
    let plans = commands.iter().map(super::fixture::plan).collect();
    let effects = stage.event(Event::Planned {
        request,
        result: Ok(plans),
    });
    let (_, plans) = confirmed(&effects);
    assert!(matches!(plans[0].command, Command::TestEndpoint { method: None, .. }));
    // Several ask.
    stage.play("*");
    stage.plan("T");
    assert!(matches!(stage.state.input.mode, Mode::Dialog(_)));
}

#[test]
fn a_test_that_cannot_be_planned_says_why() {
    let mut stage = stage(incident());
    let (request, _) = planned(&stage.play("3 T"));
    let result = Err("the broker does not answer".to_owned());
    assert!(stage.event(Event::Planned { request, result }).is_empty());
    assert_eq!(stage.toasts(), ["test: the broker does not answer"]);
    assert!(stage.state.commands.tasks.is_empty());
}

fn reason(effects: &[Effect]) -> Option<&str> {
    match effects {
        [Effect::Execute { reason, .. }] => reason.as_deref(),
        other => panic!("not one execution: {other:?}"),
    }
}

#[test]
fn a_reason_can_be_written_in_the_dialog_and_goes_with_what_is_done() {
    let mut stage = stage(incident());
    stage.plan("2 P");
    let effects = stage.play("Tab 'INC-42_mail_twice Enter +500 y");
    assert_eq!(reason(&effects), Some("INC-42 mail twice"));
    stage.plan("j P");
    assert_eq!(reason(&stage.play("+500 y")), None, "without one as before");
}

#[test]
fn what_is_typed_as_a_reason_answers_nothing() {
    let mut stage = stage(incident());
    stage.plan("2 P");
    let effects = stage.play("+500 Tab y n q R");
    assert!(effects.is_empty() && matches!(stage.state.input.mode, Mode::Dialog(_)));
    stage.event(Event::Paste("INC-42\n\u{202e}x".to_owned()));
    assert_eq!(reason(&stage.play("Enter y")), Some("ynqRINC-42 x"));
}

fn protected(reason: Option<&str>) -> Stage {
    let mut settings = settings(Access::Operator);
    settings.reason = reason.map(str::to_owned);
    settings.profiles = Profiles {
        protected: true,
        ..Profiles::default()
    };
    let mut stage = Stage::new(State::new(&settings, std::sync::Arc::new(Keymap::default()), START));
    stage.event(Event::Connected);
    stage.event(Event::Snapshot(std::sync::Arc::new(incident())));
    stage
}

#[test]
fn a_protected_profile_does_nothing_without_a_reason() {
    let mut stage = protected(None);
    stage.plan("2 P");
    assert!(stage.play("+500 Enter y").is_empty());
    let Mode::Dialog(dialog) = &stage.state.input.mode else {
        panic!("{:?}", stage.state.input.mode);
    };
    assert_eq!(
        dialog.refused.as_deref(),
        Some("this profile is protected: write why; it goes into the audit")
    );
    assert_eq!(reason(&stage.play("'INC-7 Enter y")), Some("INC-7"));
    let mut stage = protected(Some("INC-9"));
    stage.plan("2 P");
    assert_eq!(reason(&stage.play("+500 y")), Some("INC-9"), "given with --reason");
}

#[test]
fn a_terminal_of_any_claimed_size_is_painted_as_far_as_there_is_sense() {
    let mut stage = stage(incident());
    stage.event(Event::Resize {
        columns: u16::MAX,
        rows: u16::MAX,
    });
    assert_eq!(stage.state.terminal.size, SIZE_MAX);
    assert!(stage.state.page() <= usize::from(SIZE_MAX.1));
    stage.event(Event::Resize { columns: 80, rows: 24 });
    assert_eq!(stage.state.terminal.size, (80, 24));
}

#[test]
fn nothing_is_selected_on_an_overview_on_which_nothing_is_wrong() {
    let rows = vec![super::fixture::queue(
        "dlv.fine",
        Some("https://shop.example/"),
        QueueState::Empty,
        0,
    )];
    let mut stage = stage(snapshot(1, rows, Vec::new()));
    assert!(!stage.play("R y").iter().any(is_execution));
    assert_eq!(stage.toasts(), ["redeliver is for: queues, endpoints, retries"]);
    assert!(stage.state.worst().is_none());
}

#[test]
fn a_view_is_saved_with_what_one_sees_of_it_and_shown_again() {
    let mut stage = stage(incident());
    let kept = std::path::PathBuf::from("/etc/ana/redrive/views.toml");
    stage.state.session.views.file = Some(kept.clone());
    stage.play("2 /mail Enter s S");
    let effects = stage.play(": 'save_mornings Enter");
    let [Effect::Keep { path, text }] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(*path, kept);
    assert!(
        text.contains("\"mornings\" = \"queues; sort -depth; filter mail\""),
        "{text}"
    );
    stage.play("/ Backspace Enter s 3");
    stage.play(": 'view_mornings Enter");
    let queues = &stage.state.lists.queues;
    assert_eq!(stage.state.nav.view, View::Queues);
    assert_eq!(queues.filter.text, "mail");
    let shown: Vec<&str> = queues.shown_rows().map(|row| row.name.as_str()).collect();
    assert_eq!(shown, ["dlv.mail.b", "dlv.mail.a"], "the least first");
    stage.play("1 :");
    assert!(offered(&stage).contains(&"mornings"), "{:?}", offered(&stage));
    stage.play("Esc : 'forget_mornings Enter");
    assert!(stage.state.session.views.kept.is_empty());
}

#[test]
fn columns_are_saved_as_well_and_a_view_of_the_configuration_is_not_forgotten() {
    let mut stage = stage(incident());
    let line = "queues; columns name, depth; filter depth > 5";
    let configured = &mut stage.state.session.views.configured;
    configured.insert("deep".to_owned(), line.to_owned());
    stage.play(": 'view_deep Enter");
    let names: Vec<&str> = stage
        .state
        .list()
        .unwrap()
        .columns()
        .iter()
        .filter(|column| column.shown)
        .map(|column| column.name)
        .collect();
    assert_eq!(names, ["name", "depth"]);
    stage.play(": 'save_mine Enter");
    assert_eq!(stage.state.session.views.get("mine"), Some(line));
    stage.play(": 'forget_deep Enter");
    assert_eq!(stage.state.session.views.get("deep"), Some(line));
    assert!(matches!(&stage.state.input.mode, Mode::Palette(open) if open.problem.is_some()));
    stage.play("Esc : 'save_queues Enter");
    assert!(
        matches!(&stage.state.input.mode, Mode::Palette(open) if open.problem.is_some()),
        "a view of the console"
    );
}

#[test]
fn a_click_on_a_column_sorts_and_one_on_the_line_of_keys_does_what_the_key_does() {
    use crate::console::paint::{Target, target};
    use crate::console::state::event::{Mouse, MouseDid};
    let mut stage = stage(incident());
    stage.state.terminal.mouse = true;
    stage.play("2");
    let click = |stage: &mut Stage, wanted: Target| {
        let (columns, rows) = stage.state.terminal.size;
        let mut cells = (0..rows).flat_map(|row| (0..columns).map(move |column| (column, row)));
        let place = cells.find(|(column, row)| target(&stage.state, *column, *row) == Some(wanted));
        let (column, row) = place.unwrap_or_else(|| panic!("{wanted:?} is not on the screen"));
        let what = MouseDid::Click;
        stage.event(Event::Mouse(Mouse { what, column, row }))
    };
    click(&mut stage, Target::Column("depth"));
    assert_eq!(stage.state.list().unwrap().sorted_by(), Some(("depth", true)));
    click(&mut stage, Target::Column("depth"));
    assert_eq!(
        stage.state.list().unwrap().sorted_by(),
        Some(("depth", false)),
        "again: the other way"
    );
    let (_, commands) = planned(&click(&mut stage, Target::Action("resume")));
    assert!(matches!(commands.as_slice(), [Command::ResumeQueue(_)]));
    assert!(matches!(stage.state.input.mode, Mode::Dialog(_)), "it asks");
    stage.play("Esc 3");
    click(&mut stage, Target::Action("test"));
    assert!(
        matches!(stage.state.input.mode, Mode::Dialog(_)),
        "a slip of the hand sends nothing"
    );
}

fn with_profiles() -> Stage {
    use crate::console::state::settings::OtherProfile;
    let mut settings = settings(Access::Operator);
    let other = |name: &str| OtherProfile {
        name: name.to_owned(),
        says: String::new(),
    };
    settings.profiles = Profiles {
        current: Some("here".to_owned()),
        others: vec![other("live"), other("test")],
        ..Profiles::default()
    };
    let mut stage = Stage::new(State::new(&settings, std::sync::Arc::new(Keymap::default()), START));
    stage.event(Event::Connected);
    stage.event(Event::Snapshot(std::sync::Arc::new(incident())));
    stage
}

#[test]
fn the_page_of_profiles_asks_each_says_the_worst_and_goes_there() {
    use crate::console::state::profiles::{Condition, Gravity};
    let mut stage = with_profiles();
    let asked = |effects: &[Effect]| {
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Survey(names) if *names == ["live", "test"]))
    };
    assert!(asked(&stage.play("=")));
    let mut snapshot = incident();
    snapshot.totals.endpoints_by_state = [0, 2, 1, 4];
    snapshot.totals.waiting = Some(1_204);
    let live = Condition::of(&snapshot);
    assert_eq!(live.worst, "nobody delivers", "the gravest in front");
    assert_eq!((live.waiting, live.gravity), (Some(1_204), Gravity::Stands));
    stage.event(Event::Surveyed {
        profile: "live".to_owned(),
        result: Ok(Box::new(live)),
    });
    assert!(!asked(&stage.play("+31000")), "one has not answered yet");
    stage.event(Event::Surveyed {
        profile: "test".to_owned(),
        result: Err("connection refused\u{1b}[2J".to_owned()),
    });
    let names = stage.state.profile_names();
    let conditions: Vec<_> = names
        .iter()
        .map(|name| stage.state.condition_of(name).unwrap().result)
        .collect();
    assert!(conditions[0].is_ok() && conditions[1].is_ok());
    assert_eq!(conditions[2], Err("connection refused\\x1b[2J".to_owned()));
    assert!(asked(&stage.play("+31000")), "while it is open they are asked again");
    let effects = stage.play("j Enter");
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::TryProfile(name) if name == "live")),
        "{effects:?}"
    );
    assert!(!asked(&stage.play("+31000")), "it is closed");
}

#[test]
fn the_page_of_what_doctor_finds_has_the_worst_first_and_asks_again_while_it_is_open() {
    use crate::engine::view::Check;
    let mut stage = stage(incident());
    let asked = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Check));
    assert!(asked(&stage.play("!")));
    assert!(!asked(&stage.play("+6000")), "it is not answered yet");
    stage.event(Event::Checked(Ok(vec![
        Check::fine("broker", "rabbitmq 4.0.5".to_owned()),
        Check::broken("node", "memory is full".to_owned(), "free memory"),
        Check::warning("clock", "differs".to_owned(), "synchronise the clocks"),
    ])));
    let checked = stage.state.data.checked.clone().unwrap();
    let names: Vec<_> = checked.result.unwrap().into_iter().map(|check| check.name).collect();
    assert_eq!(names, ["node", "clock", "broker"]);
    assert!(asked(&stage.play("+6000")), "while it is open");
    stage.event(Event::Checked(Err("gone\u{1b}[2J".to_owned())));
    let checked = stage.state.data.checked.clone().unwrap();
    assert_eq!(checked.result, Err("gone\\x1b[2J".to_owned()));
    stage.play("Esc");
    assert!(!asked(&stage.play("+6000")), "it is closed");
}

#[test]
fn without_another_profile_there_is_no_page_of_them() {
    let mut stage = stage(incident());
    assert!(stage.play("=").is_empty());
    assert!(matches!(stage.state.input.mode, Mode::Browse));
}
