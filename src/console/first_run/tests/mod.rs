//! The first screen played by keys, without a terminal.
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else came fails the test, and is printed"
)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use secrecy::ExposeSecret as _;

use super::*;
use crate::config::BrokerKind;
use crate::engine::view::CheckResult;

const TYPING: Duration = Duration::from_millis(100);

/// The screen, with the clock of the test and the last thing that it asked for.
struct Play {
    first: FirstRun,
    now: Timestamp,
    asked: Option<FirstEffect>,
    /// Whether the broker that is tried has nothing of us.
    is_fresh: bool,
    /// Whether it is delivered by daemons of another store.
    is_of_another: bool,
}

impl Play {
    fn new(used: bool) -> Self {
        let settings = FirstRunSettings {
            path: Some(PathBuf::from("/u/ana/.config/redrive/config.toml")),
            embedded: Some((PathBuf::from("/u/ana/.local/share/redrive/redrive.db"), used)),
            environment: Environment {
                data_home: Some("/u/ana/.local/share".into()),
                ..Environment::default()
            },
            new_key: "new-key".to_owned().into(),
        };
        Self {
            first: FirstRun::new(settings, (80, 24)),
            now: Timestamp::from_seconds(1_790_000_000),
            asked: None,
            is_fresh: false,
            is_of_another: false,
        }
    }

    fn happens(&mut self, event: FirstEvent) {
        let asked = update(&mut self.first, self.now, event);
        self.asked = asked.or(self.asked.take());
    }

    fn key(&mut self, code: KeyCode, kind: KeyEventKind, after: Duration) {
        self.now = self.now.plus(after);
        self.happens(FirstEvent::Key(KeyEvent::new_with_kind(code, KeyModifiers::NONE, kind)));
    }

    /// Names of keys, or text between quotes, which is typed.
    fn keys(mut self, script: &str) -> Self {
        for word in script.split(' ') {
            let code = match word {
                "Enter" => KeyCode::Enter,
                "Esc" => KeyCode::Esc,
                "Up" => KeyCode::Up,
                "Down" => KeyCode::Down,
                "Right" => KeyCode::Right,
                "Tab" => KeyCode::Tab,
                text => {
                    for character in text.trim_matches('\'').chars() {
                        self.key(KeyCode::Char(character), KeyEventKind::Press, TYPING);
                    }
                    continue;
                }
            };
            self.key(code, KeyEventKind::Press, TYPING);
        }
        self
    }

    /// The broker was tried, with this result.
    fn tried(mut self, result: CheckResult) -> Self {
        assert!(
            matches!(self.asked.take(), Some(FirstEffect::Test(_))),
            "nothing is tried"
        );
        let check = Check {
            name: "broker".to_owned(),
            result,
            found: "4.3.5".to_owned(),
            mend: None,
        };
        self.happens(FirstEvent::Tested(Found {
            checks: vec![check],
            is_fresh: self.is_fresh,
            is_of_another: self.is_of_another,
        }));
        self
    }

    fn chosen(self) -> Option<Config> {
        match self.asked {
            Some(FirstEffect::End(Chosen::Use(config))) => Some(*config),
            Some(FirstEffect::End(Chosen::Leave)) => None,
            other => panic!("not over: {other:?}"),
        }
    }

    fn written(self) -> Vec<(PathBuf, String)> {
        let Some(FirstEffect::Write(files)) = self.asked else {
            panic!("nothing is written: {:?}", self.first.stage);
        };
        let text = |file: NewFile| (file.path, file.text.expose_secret().to_owned());
        files.into_iter().map(text).collect()
    }
}

const TYPED: &str = "1 'amqp://me:s3cret@mq/live' Enter Enter Enter";

#[test]
fn embedded_once_goes_on_and_writes_nothing() {
    let config = Play::new(false).keys("2").chosen().unwrap();
    assert!(matches!(config.broker.kind, BrokerKind::Embedded));
    assert_eq!(config.file, None);
}

#[test]
fn every_way_to_leave_leaves() {
    for keys in ["q", "Esc", "4", "1 Esc q", "3 q", "Down Down Down Enter"] {
        assert!(Play::new(false).keys(keys).chosen().is_none(), "{keys}");
    }
    for keys in ["", "1", "1 'amqp://x", TYPED, "3"] {
        let mut play = Play::new(false).keys(keys);
        play.happens(FirstEvent::Key(KeyEvent::new(
            KeyCode::Char('c'),
            KeyModifiers::CONTROL,
        )));
        assert!(play.chosen().is_none(), "Ctrl-C behind {keys:?}");
    }
}

#[test]
fn what_was_used_before_is_chosen_first() {
    assert_eq!(Play::new(true).first.stage, Stage::Menu { selected: 1 });
    assert!(Play::new(true).keys("Enter").chosen().is_some());
}

#[test]
fn a_broker_is_tried_before_anything_else() {
    let play = Play::new(false).keys(TYPED);
    let Some(FirstEffect::Test(config)) = &play.asked else {
        panic!("{:?}", play.first);
    };
    let BrokerKind::RabbitMq { management_url, .. } = &config.broker.kind else {
        panic!("a server");
    };
    assert_eq!(management_url.shown(), "http://me:***@mq:15672/", "guessed");
    assert_eq!(config.broker.naming.vhost, "live");
    let config = play.tried(CheckResult::Fine).keys("o").chosen().unwrap();
    assert_eq!(config.file, None, "this once");
}

#[test]
fn enter_takes_what_is_shown_on_every_page() {
    let play = Play::new(false).keys("Enter Enter Enter Enter");
    let Some(FirstEffect::Test(config)) = &play.asked else {
        panic!("{:?}", play.first);
    };
    let BrokerKind::RabbitMq { amqp_url, .. } = &config.broker.kind else {
        panic!("a server");
    };
    assert!(amqp_url.shown().contains("localhost"), "{}", amqp_url.shown());
    let saved = play.tried(CheckResult::Fine).keys("Enter Enter").written();
    assert_eq!(saved.len(), 1);
    let broken = Play::new(false).keys(TYPED).tried(CheckResult::Broken).keys("Enter");
    assert!(matches!(broken.first.stage, Stage::Tested(_)), "{:?}", broken.first);
    assert!(broken.first.note.is_some_and(|note| note.contains("t tries again")));
}

#[test]
fn the_guess_can_be_taken_and_changed() {
    let play = Play::new(false).keys("1 'amqps://mq' Enter Right '/x' Enter Enter");
    let Some(FirstEffect::Test(config)) = play.asked else {
        panic!("{:?}", play.first.form.problem);
    };
    let BrokerKind::RabbitMq { management_url, .. } = config.broker.kind else {
        panic!("a server");
    };
    assert_eq!(management_url.shown(), "https://mq:15671/x");
}

#[test]
fn what_is_wrong_is_told_with_its_field_and_nothing_is_tried() {
    for (typed, field) in [
        ("'http://mq'", "broker.url must begin with amqp://"),
        (
            "'amqp://mq' Enter 'ftp://x'",
            "broker.management_url must begin with http",
        ),
        ("'amqp://mq' Enter Enter 'mysql:x'", "store.url"),
    ] {
        let play = Play::new(false).keys(&format!("1 {typed} Enter Enter Enter"));
        assert!(play.asked.is_none(), "{typed}");
        let problem = play.first.form.problem.clone().unwrap();
        assert!(problem.starts_with(field), "{typed}: {problem}");
        assert!(!problem.contains("line"), "{problem}");
    }
}

#[test]
fn what_would_be_written_is_shown_with_every_password_hidden() {
    let play = Play::new(false).keys(TYPED).tried(CheckResult::Fine).keys("s");
    let path = PathBuf::from("/u/ana/.config/redrive/config.toml");
    for keep in [Keep::OwnFile, Keep::Variable, Keep::InPlace] {
        let text = shown(&play.first.answers(), keep, &path);
        assert!(!text.contains("s3cret") && text.contains("url = "), "{text}");
    }
    assert!(
        !format!("{:?} {:?}", play.first, play.asked).contains("s3cret"),
        "nor logged"
    );
}

#[test]
fn the_password_goes_where_it_was_said() {
    let asked = || Play::new(false).keys(TYPED).tried(CheckResult::Broken).keys("s");
    let own = asked().keys("y").written();
    let (secret, config) = (&own[0], &own[1]);
    assert_eq!(secret.0, PathBuf::from("/u/ana/.config/redrive/broker.url"));
    assert_eq!(secret.1, "amqp://me:s3cret@mq/live\n");
    assert!(
        !config.1.contains("s3cret") && config.1.contains("broker.url\" }"),
        "{}",
        config.1
    );
    let variable = asked().keys("Right y").written();
    assert_eq!(variable.len(), 1);
    assert!(
        variable[0].1.contains("{ env = \"REDRIVE_BROKER_URL\" }"),
        "{}",
        variable[0].1
    );
    let inside = asked().keys("Right Right y").written();
    assert!(inside[0].1.contains("amqp://me:s3cret@mq/live"), "{}", inside[0].1);
}

#[test]
fn a_broker_without_queues_of_ours_gets_a_key_of_its_own_which_is_kept_or_not_used() {
    let fresh = || {
        let mut play = Play::new(false);
        play.is_fresh = true;
        play.keys(TYPED).tried(CheckResult::Fine)
    };
    let key = |config: Config| config.broker.naming.url_hash_key;
    let usual = key(Play::new(false)
        .keys(TYPED)
        .tried(CheckResult::Fine)
        .keys("o")
        .chosen()
        .unwrap());
    assert_eq!(
        key(fresh().keys("o").chosen().unwrap()),
        usual,
        "nobody would know it at the next start"
    );
    let files = fresh().keys("s y").written();
    let key_file = files.iter().find(|(path, _)| path.ends_with("url_hash_key")).unwrap();
    assert_eq!(key_file.1, "new-key\n");
    let config = &files.last().unwrap().1;
    assert!(
        config.contains("url_hash_key = { file = \"/u/ana/.config/redrive/url_hash_key\" }"),
        "{config}"
    );
    let mut going_on = fresh().keys("s y");
    going_on.happens(FirstEvent::Written(Ok(())));
    assert_eq!(
        key(going_on.chosen().unwrap()),
        "new-key",
        "the console has the key that was written"
    );
    let there = Play::new(false)
        .keys(TYPED)
        .tried(CheckResult::Fine)
        .keys("s y")
        .written();
    assert!(
        there.iter().all(|(path, _)| !path.ends_with("url_hash_key")),
        "its queues have names"
    );
    let looked = shown(&fresh().keys("s").first.answers(), Keep::InPlace, Path::new("/c"));
    assert!(!looked.contains("new-key"), "{looked}");
}

#[test]
fn who_may_only_look_goes_on_without_the_right_to_change_anything() {
    for result in [CheckResult::Fine, CheckResult::Broken] {
        let config = Play::new(false).keys(TYPED).tried(result).keys("l").chosen().unwrap();
        assert!(config.profile.read_only && config.file.is_none());
    }
    let may = Play::new(false)
        .keys(TYPED)
        .tried(CheckResult::Fine)
        .keys("o")
        .chosen()
        .unwrap();
    assert!(!may.profile.read_only);
}

#[test]
fn what_belongs_to_another_store_is_not_opened_and_the_screen_stays_with_the_mend() {
    let mut play = Play::new(false);
    play.is_of_another = true;
    play = play.keys(TYPED).tried(CheckResult::Broken);
    for key in ["l", "o", "Enter"] {
        play = play.keys(key);
        assert!(play.asked.is_none(), "{key}: {:?}", play.asked);
        assert!(matches!(play.first.stage, Stage::Tested(_)), "{key}");
        let note = play.first.note.as_deref().unwrap();
        assert!(note.contains("e enters its address"), "{key}: {note}");
    }
    assert!(matches!(play.keys("e").first.stage, Stage::Form));
}

#[test]
fn what_is_written_is_what_was_tried() {
    let environment = Environment {
        data_home: Some("/data".into()),
        ..Environment::default()
    };
    let files = Play::new(false)
        .keys("1 'amqp://me:s3cret@mq/live' Enter 'http://mq:1' Enter 'postgres://db/x' Enter")
        .tried(CheckResult::Fine)
        .keys("s Right Right y")
        .written();
    let config = Config::resolve(&files[0].1, None, &environment).unwrap();
    let BrokerKind::RabbitMq { amqp_url, .. } = &config.broker.kind else {
        panic!("a server");
    };
    assert_eq!(amqp_url.expose(), "amqp://me:s3cret@mq");
    assert!(
        files[0].1.contains("management_url = \"http://mq:1\""),
        "{}",
        files[0].1
    );
}

#[test]
fn a_yes_wants_a_key_that_a_person_pressed_alone() {
    for (kind, after) in [
        (KeyEventKind::Repeat, TYPING),
        (KeyEventKind::Press, Duration::from_millis(3)),
    ] {
        let mut play = Play::new(false).keys("3");
        play.key(KeyCode::Char('y'), kind, after);
        assert!(play.asked.is_none(), "{kind:?} after {after:?}");
    }
    let mut play = Play::new(false).keys("3");
    play.happens(FirstEvent::Paste("y".to_owned()));
    assert!(play.asked.is_none() && play.first.note.is_some(), "nor a paste");
    assert_eq!(Play::new(false).keys("3 y").written().len(), 1);
}

#[test]
fn a_file_that_could_not_be_written_is_told_and_can_be_left() {
    let mut play = Play::new(false).keys("3 y");
    play.happens(FirstEvent::Written(Err("it exists already".to_owned())));
    assert!(matches!(&play.first.stage, Stage::Save { problem: Some(why), .. } if why.contains("exists")));
    play.asked = None;
    assert!(play.keys("Esc 2").chosen().is_some());
}

#[test]
fn after_it_is_written_the_console_goes_on_with_it() {
    let mut play = Play::new(false).keys(TYPED).tried(CheckResult::Fine).keys("s Right y");
    play.happens(FirstEvent::Written(Ok(())));
    let config = play.chosen().unwrap();
    assert!(config.file.is_some());
    assert!(
        matches!(config.broker.kind, BrokerKind::RabbitMq { .. }),
        "also where its variable is not set yet"
    );
}

#[test]
fn an_answer_that_comes_after_leaving_the_test_is_dropped() {
    let mut play = Play::new(false).keys(TYPED).keys("Esc");
    assert!(matches!(play.asked, Some(FirstEffect::Forget)));
    play.happens(FirstEvent::Tested(Found::default()));
    assert_eq!(play.first.stage, Stage::Form);
}
