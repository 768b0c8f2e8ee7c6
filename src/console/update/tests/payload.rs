//! Payloads: what is masked, who may see it and who is told, what is looked for, and long lines.

use bytes::Bytes;

use super::Stage;
use super::fixture::{incident, queue_name, snapshot, stage, stage_with};
use crate::console::state::Mode;
use crate::console::state::detail::{About, DetailAnswer, DetailTab, PayloadForm, Subject};
use crate::console::state::effect::{Content, Effect, RevealJob};
use crate::console::state::event::Event;
use crate::console::table::export::{Form, write};
use crate::domain::mask::MASK;
use crate::domain::message::{HeaderValue, Message};
use crate::engine::view::BrowsedMessage;
use crate::engine::{Access, Command};

const SECRET: &str = "S3cr3tV4lue";

fn message(position: u32, body: &str) -> BrowsedMessage {
    BrowsedMessage {
        position,
        message: Message {
            message_id: Some(format!("m{position}")),
            headers: vec![
                ("x-redrive-header-Authorization".to_owned(), HeaderValue::text(SECRET)),
                ("x-team".to_owned(), HeaderValue::text("stock")),
            ],
            body: Bytes::copy_from_slice(body.as_bytes()),
            ..Message::default()
        },
        foreign: None,
        redelivered: false,
    }
}

fn browse(stage: &mut Stage, bodies: &[&str]) {
    let messages = (1..).zip(bodies).map(|(position, body)| message(position, body));
    let answer = DetailAnswer {
        messages: Some(Ok(messages.collect())),
        ..DetailAnswer::nothing(Subject::Queue(queue_name("dlv.mail.a")), stage.now)
    };
    stage.event(Event::Detail(Box::new(answer)));
}

/// A queue whose first messages are in front.
fn browsed_with(access: Access, bodies: &[&str]) -> Stage {
    let mut stage = stage_with(access, incident());
    stage.play("2 Enter b");
    browse(&mut stage, bodies);
    stage
}

fn browsed(bodies: &[&str]) -> Stage {
    browsed_with(Access::Operator, bodies)
}

fn document() -> String {
    format!(r#"{{"order":18,"password":"{SECRET}"}}"#)
}

/// Everything of the page in front, as one text.
fn shown(stage: &Stage) -> String {
    let page = stage
        .state
        .nav
        .details
        .last()
        .and_then(|detail| detail.reading.page.as_ref())
        .unwrap();
    format!("{:?}\n{}", page.headers, page.text)
}

fn asked(effects: &[Effect]) -> RevealJob {
    match effects {
        [Effect::Reveal(job)] => job.clone(),
        other => panic!("no reveal: {other:?}"),
    }
}

fn answered(stage: &mut Stage, job: &RevealJob, result: Result<(), &str>) {
    stage.event(Event::Revealed {
        key: job.key.clone(),
        result: result.map_err(str::to_owned),
    });
}

#[test]
fn what_is_masked_is_shown_once_the_audit_has_who_looks() {
    let mut stage = browsed(&[&document()]);
    assert!(shown(&stage).contains(MASK) && !shown(&stage).contains(SECRET));
    let job = asked(&stage.play("M"));
    assert_eq!(job.reveal.target, "message m1 of queue dlv.mail.a");
    assert_eq!(job.reveal.hidden, 2);
    assert!(
        !shown(&stage).contains(SECRET),
        "nothing is shown before the audit has it"
    );
    answered(&mut stage, &job, Ok(()));
    assert_eq!(shown(&stage).matches(SECRET).count(), 2);
    assert!(stage.log()[0].contains("the audit has it"), "{:?}", stage.log());
    assert!(stage.play("M").is_empty());
    assert!(!shown(&stage).contains(SECRET), "the same key masks again");
}

#[test]
fn what_cannot_be_audited_stays_masked() {
    let mut stage = browsed(&[&document()]);
    let job = asked(&stage.play("M"));
    answered(&mut stage, &job, Err("the store did not answer"));
    assert!(!shown(&stage).contains(SECRET));
    assert!(stage.toasts()[0].contains("stays masked") && stage.toasts()[0].contains("did not answer"));

    let mut stage = browsed_with(Access::ReadOnly, &[&document()]);
    assert!(stage.play("M").is_empty());
    assert!(
        stage.toasts()[0].contains("audit") && stage.toasts()[0].contains("read-only"),
        "{:?}",
        stage.toasts()
    );
    assert!(!shown(&stage).contains(SECRET));
}

#[test]
fn a_key_that_no_person_pressed_reveals_nothing() {
    let mut stage = browsed(&[&document()]);
    assert!(stage.play("~M").is_empty());
    assert!(stage.play("!x !x !x !x !x !M").is_empty());
}

#[test]
fn what_is_left_is_masked_again() {
    let bodies = [document(), document().replace("18", "19")];
    let revealed = || {
        let mut stage = browsed(&[&bodies[0], &bodies[1]]);
        let job = asked(&stage.play("M"));
        answered(&mut stage, &job, Ok(()));
        assert!(shown(&stage).contains(SECRET));
        stage
    };
    let mut stage = revealed();
    stage.play("Down");
    assert!(!shown(&stage).contains(SECRET), "another message");
    stage.play("Up");
    assert!(!shown(&stage).contains(SECRET), "and back");
    let mut stage = revealed();
    stage.play("Tab Shift+Tab");
    assert!(!shown(&stage).contains(SECRET), "another part");
    let mut stage = revealed();
    browse(&mut stage, &[&bodies[1]]);
    assert!(!shown(&stage).contains(SECRET), "another message in its place");
    let mut stage = revealed();
    stage.play("3 [");
    browse(&mut stage, &[&bodies[0]]);
    assert!(!shown(&stage).contains(SECRET), "another place");
    let mut stage = revealed();
    stage.play("x w");
    stage.event(Event::Snapshot(snapshot(9, Vec::new(), Vec::new()).into()));
    stage.event(Event::Resize { columns: 100, rows: 30 });
    assert!(
        shown(&stage).contains(SECRET),
        "the same message in another form stays revealed"
    );
}

#[test]
fn an_answer_for_what_is_not_in_front_any_more_reveals_nothing() {
    let mut stage = browsed(&[&document(), "{}"]);
    let job = asked(&stage.play("M"));
    stage.play("Down");
    answered(&mut stage, &job, Ok(()));
    stage.play("Up");
    assert!(!shown(&stage).contains(SECRET));
}

#[test]
fn where_nothing_is_masked_there_is_nothing_to_reveal() {
    let mut stage = stage(incident());
    stage.play("2 Enter M");
    assert_eq!(stage.toasts(), ["reveal: nothing is masked here"]);
}

/// The open letter of the tests of lists, with this body.
fn letter(stage: &mut Stage, body: &str) {
    use crate::engine::dead::DeadDetail;
    let subject = Subject::Letter(super::feeds::letter_id(1).as_str().to_owned());
    let found = DeadDetail {
        letter: super::feeds::letter(1),
        message: Message {
            headers: vec![("cookie".to_owned(), HeaderValue::text(SECRET))],
            body: Bytes::copy_from_slice(body.as_bytes()),
            ..Message::default()
        },
        history: crate::domain::death::DeathHistory::default(),
        target: Err("unknown".to_owned()),
        edited: None,
    };
    let answer = DetailAnswer {
        about: Some(Ok(About::Letter(Box::new(found)))),
        ..DetailAnswer::nothing(subject, stage.now)
    };
    stage.event(Event::Detail(Box::new(answer)));
}

fn opened_letter(body: &str) -> Stage {
    let mut stage = super::feeds::at("5");
    stage.play("Enter");
    stage.feed();
    stage.play("Enter");
    letter(&mut stage, body);
    stage
}

#[test]
fn an_export_carries_what_is_shown_and_no_more() {
    let exported = |stage: &mut Stage| {
        let effects = stage.play(": 'export_json Enter");
        let saved = effects.iter().find_map(|effect| match effect {
            Effect::Save(job) => Some(&job.content),
            _ => None,
        });
        match saved {
            Some(Content::Records(records, _)) => write(&**records, Form::Json),
            other => panic!("{other:?}"),
        }
    };
    let mut stage = opened_letter(&document());
    let text = exported(&mut stage);
    assert!(
        text.contains("order") && text.contains(MASK) && !text.contains(SECRET),
        "{text}"
    );
    let job = asked(&stage.play("M"));
    answered(&mut stage, &job, Ok(()));
    assert_eq!(exported(&mut stage).matches(SECRET).count(), 2);
}

#[test]
fn masked_values_go_into_no_editor_before_they_are_revealed_and_come_back_as_they_were() {
    let edited = |stage: &mut Stage| match &stage.play("E")[..] {
        [Effect::Edit(job)] => (job.of.clone(), String::from_utf8(job.body.to_vec()).unwrap()),
        other => panic!("{other:?}"),
    };
    let mut stage = opened_letter(&document());
    let (id, body) = edited(&mut stage);
    assert!(body.contains(MASK) && !body.contains(SECRET), "{body}");
    let written = |body: &str| Event::Edited {
        of: id.clone(),
        result: Ok(Bytes::copy_from_slice(body.as_bytes())),
    };
    assert!(stage.event(written(&body)).is_empty(), "nothing is changed");
    let job = asked(&stage.play("M"));
    answered(&mut stage, &job, Ok(()));
    let (_, whole) = edited(&mut stage);
    assert!(whole.contains(SECRET), "{whole}");
    stage.play("Tab Tab");
    assert_eq!(stage.state.nav.details[0].tab, DetailTab::Attempts);
    assert_eq!(edited(&mut stage).1, body, "left, it is masked again");
    // So is what was written meanwhile.
    stage.play("Shift+Tab Shift+Tab");
    let job = asked(&stage.play("M"));
    answered(&mut stage, &job, Ok(()));
    stage.event(written(&whole.replace("18", "28")));
    stage.play("Esc");
    assert!(edited(&mut stage).1.contains(SECRET), "while it is revealed");
    stage.event(written(&whole.replace("18", "28")));
    stage.play("Esc M");
    let (_, again) = edited(&mut stage);
    assert!(again.contains("28") && !again.contains(SECRET), "{again}");
}

#[test]
fn what_was_written_for_a_letter_that_is_gone_or_left_by_then_is_kept_and_said_to_be_no_edit() {
    let mut stage = opened_letter(&document());
    let of = match &stage.play("E")[..] {
        [Effect::Edit(job)] => job.of.clone(),
        other => panic!("{other:?}"),
    };
    stage.play("Esc");
    assert!(stage.state.nav.details.is_empty());
    let effects = stage.event(Event::Edited {
        of,
        result: Ok(Bytes::from_static(b"{\"order\":9}")),
    });
    assert!(effects.is_empty(), "{effects:?}");
    let said = stage.toasts().last().copied().unwrap_or_default().to_owned();
    assert!(said.starts_with("not edited:") && said.contains("is kept"), "{said}");
    assert_eq!(stage.state.lists.dead.draft.as_ref().unwrap().1, "{\"order\":9}");
}

#[test]
fn a_value_that_was_written_while_the_letter_was_revealed_stays_when_the_draft_is_edited_masked() {
    let mut stage = opened_letter(&document());
    let edit = |stage: &mut Stage| match &stage.play("E")[..] {
        [Effect::Edit(job)] => (job.of.clone(), job.body.clone()),
        other => panic!("{other:?}"),
    };
    let (of, _) = edit(&mut stage);
    let written = Bytes::from_static(b"{\"order\":19,\"password\":\"another\"}");
    stage.event(Event::Edited {
        of,
        result: Ok(written.clone()),
    });
    stage.play("Esc");
    let (of, masked) = edit(&mut stage);
    assert!(!String::from_utf8_lossy(&masked).contains("another"), "{masked:?}");
    let effects = stage.event(Event::Edited { of, result: Ok(masked) });
    let [Effect::Plan { commands, .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    let [Command::EditDead { edit, .. }] = &commands[..] else {
        panic!("{commands:?}")
    };
    assert_eq!(edit.body, Some(written));
}

fn found(stage: &Stage) -> (usize, usize) {
    let find = stage.state.nav.details[0].reading.find.as_ref().unwrap();
    (find.chosen + 1, find.places.len())
}

#[test]
fn a_text_is_found_as_it_is_typed_and_stepped_through() {
    let lines: Vec<String> = (0..100).map(|line| format!("line {line} of Stock")).collect();
    let mut stage = browsed(&[&lines.join("\n")]);
    stage.play("/stock");
    assert!(matches!(stage.state.input.mode, Mode::Find(_)));
    assert_eq!(found(&stage), (1, 100));
    stage.play("Backspace Backspace Backspace Backspace Backspace '42_");
    assert_eq!(found(&stage), (1, 1));
    assert_eq!(
        stage.state.nav.details[0].reading.scroll, 41,
        "it is on the screen, a line below the first"
    );
    stage.play("Enter");
    assert!(matches!(stage.state.input.mode, Mode::Browse));
    stage.play("/ Backspace Backspace Backspace 'stock Enter n n");
    assert_eq!(found(&stage), (44, 100));
    stage.play("p p p");
    assert_eq!(found(&stage), (41, 100));
    stage.play("Esc");
    assert_eq!(stage.state.nav.details[0].reading.find, None);
    assert_eq!(stage.state.nav.details.len(), 1, "only what is looked for is forgotten");
    stage.play("n");
    assert!(stage.toasts()[0].contains("nothing was found"), "{:?}", stage.toasts());
}

#[test]
fn what_is_masked_is_not_found() {
    let mut stage = browsed(&[&document()]);
    stage.play(&format!("/{SECRET}"));
    assert_eq!(found(&stage).1, 0);
    stage.play("Esc");
    let job = asked(&stage.play("M"));
    answered(&mut stage, &job, Ok(()));
    stage.play(&format!("/{SECRET} Enter"));
    assert_eq!(found(&stage).1, 1);
    stage.play("M");
    assert_eq!(found(&stage).1, 0, "nor once it is masked again");
}

#[test]
fn pasted_text_is_looked_for_and_does_nothing_else() {
    let mut stage = browsed(&["one two three"]);
    stage.play("/");
    stage.event(Event::Paste("two\n".to_owned()));
    assert_eq!(stage.state.nav.details[0].reading.find.as_ref().unwrap().text, "two ");
    assert_eq!(found(&stage), (1, 1));
}

#[test]
fn without_a_payload_there_is_nothing_to_look_through() {
    let mut stage = stage(incident());
    stage.play("2 Enter /");
    assert!(matches!(stage.state.input.mode, Mode::Browse));
    assert_eq!(stage.toasts(), ["filter: no payload is open"]);
}

#[test]
fn long_lines_are_wrapped_or_moved() {
    let mut stage = browsed(&[&"0123456789".repeat(100)]);
    let lines = |stage: &Stage| stage.state.nav.details[0].reading.page.as_ref().unwrap().lines.len();
    assert_eq!(lines(&stage), 1_000_usize.div_ceil(78));
    for _ in 0..40 {
        stage.play("PageDown");
    }
    assert_eq!(
        stage.state.nav.details[0].reading.scroll,
        lines(&stage) - 1,
        "one line is read to its end"
    );
    stage.play("w");
    assert_eq!(lines(&stage), 1);
    stage.play("Right Right");
    assert_eq!(
        (stage.state.nav.details[0].reading.shift, stage.state.nav.details[0].tab),
        (16, DetailTab::Messages)
    );
    stage.play("Left Left Left");
    assert_eq!(stage.state.nav.details[0].reading.shift, 0);
    stage.play("w Right");
    assert_eq!(
        stage.state.nav.details[0].tab,
        DetailTab::Hour,
        "else they turn the parts"
    );
    assert_eq!(stage.state.nav.details[0].reading.form, PayloadForm::SetOut);
}

#[test]
fn of_a_huge_payload_only_the_beginning_is_looked_at() {
    let stage = browsed(&[&"x".repeat(8 * 1024 * 1024)]);
    let page = stage.state.nav.details[0].reading.page.as_ref().unwrap();
    assert_eq!(page.size, 8 * 1024 * 1024);
    assert_eq!(page.cut_at, Some(crate::console::state::payload::BYTES_MAX));
    assert!(page.text.len() <= crate::console::state::payload::BYTES_MAX + 1);
}
