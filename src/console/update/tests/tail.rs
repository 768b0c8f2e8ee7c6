//! Attempts that are followed: of what is in front, narrowed and widened, paused, opened.

use super::Stage;
use super::feeds::fed;
use super::fixture::{incident, queue_name, stage, url};
use crate::console::state::View;
use crate::console::state::detail::{DetailTab, Subject};
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;
use crate::console::state::feed::FeedQuery;
use crate::console::state::tail::Followed;

fn asked(effects: Vec<Effect>) -> Option<FeedQuery> {
    effects.into_iter().find_map(|effect| match effect {
        Effect::Feed(query) => Some(query),
        _ => None,
    })
}

fn following() -> Stage {
    let mut stage = stage(incident());
    let mut query = asked(stage.play("."));
    assert!(query.is_some());
    // So few came that fewer are asked for, at once.
    while let Some(asked_for) = query {
        assert_eq!((asked_for.source.name, &asked_for.of), ("attempts", &None));
        let answer = Event::Fed(fed(asked_for, stage.now, true));
        query = asked(stage.event(answer));
    }
    stage
}

#[test]
fn a_key_follows_the_queue_or_endpoint_in_front_and_everything_where_there_is_none() {
    let mut stage = stage(incident());
    let query = asked(stage.play("2 f")).unwrap();
    assert_eq!(
        query.of.as_deref().and_then(Followed::read),
        Some(Followed::Queue(queue_name("dlv.mail.a")))
    );
    let query = asked(stage.play("3 f")).unwrap();
    assert!(matches!(
        query.of.as_deref().and_then(Followed::read),
        Some(Followed::Url(_))
    ));
    stage.play("9 f");
    assert_eq!(
        (stage.state.nav.view, &stage.state.lists.tail.of),
        (View::Attempts, &None)
    );
}

#[test]
fn among_the_attempts_it_narrows_to_the_endpoint_and_widens_again() {
    let mut stage = following();
    stage.play("f");
    assert_eq!(
        stage.state.lists.tail.of,
        Some(Followed::Url(url("https://mail.example/in")))
    );
    assert!(
        stage.state.lists.tail.fed.table.rows.is_empty(),
        "what is shown is of it alone"
    );
    stage.play("f");
    assert_eq!(stage.state.lists.tail.of, None);
    let mut stage = following();
    stage.play("f Esc");
    assert_eq!(stage.state.lists.tail.of, None);
}

#[test]
fn paused_it_asks_for_nothing_and_goes_on_with_the_same_key() {
    let mut stage = following();
    stage.play("Space");
    assert!(asked(stage.play("+5000 +5000")).is_none());
    assert!(asked(stage.play("Space")).is_some());
    assert!(
        stage.state.lists.tail.fed.table.marks.ids.is_empty(),
        "nothing is marked"
    );
}

#[test]
fn it_is_asked_again_within_a_second_whatever_the_pace_of_the_screen() {
    let mut stage = following();
    assert!(asked(stage.play("+900")).is_none());
    assert!(asked(stage.play("+200")).is_some());
}

#[test]
fn an_attempt_opens_among_those_of_its_queue() {
    let mut stage = following();
    stage.play("Enter");
    let [open] = stage.state.nav.details.as_slice() else {
        panic!("one detail");
    };
    assert_eq!(
        (&open.subject, open.tab),
        (&Subject::Queue(queue_name("dlv.mail.a")), DetailTab::Attempts)
    );
    assert!(open.seeks.is_some());
}

#[test]
fn a_key_shows_them_as_a_map_in_which_nothing_is_opened_and_goes_on_to_the_list() {
    let mut stage = following();
    stage.state.terminal.size = (120, 40);
    assert!(stage.state.sides().is_some());
    stage.play("h");
    assert!(stage.state.lists.tail.zoom.is_some() && stage.state.sides().is_none());
    stage.play("Enter");
    assert_eq!(stage.toasts(), ["open: in the map nothing is selected"]);
    stage.play("h h h");
    assert!(stage.state.lists.tail.zoom.is_none() && stage.state.sides().is_some());
}
