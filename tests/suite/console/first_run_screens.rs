//! The first screen as text, at three sizes: made by keys alone.

use std::path::PathBuf;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use redrive::internals::config::Environment;
use redrive::internals::console::first_run::{FirstEvent, FirstRun, FirstRunSettings, Found, update};
use redrive::internals::console::runtime::picture::text;
use redrive::internals::console::{Theme, view_first_run};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::engine::view::{Check, CheckResult};

const TYPED: &str = "1 amqp://ana:s3cret@mq1.example/live Enter Enter";

fn first_run(keys: &str, found: Option<Found>, then: &str) -> FirstRun {
    let settings = FirstRunSettings {
        path: Some(PathBuf::from("/u/ana/.config/redrive/config.toml")),
        embedded: Some((PathBuf::from("/u/ana/.local/share/redrive/redrive.db"), false)),
        environment: Environment {
            data_home: Some("/u/ana/.local/share".into()),
            ..Environment::default()
        },
        new_key: "new-key".to_owned().into(),
    };
    let mut first = FirstRun::new(settings, (80, 24));
    let mut now = Timestamp::from_seconds(1_795_230_764);
    press(&mut first, &mut now, keys);
    if let Some(found) = found {
        let _ = update(&mut first, now, FirstEvent::Tested(found));
    }
    press(&mut first, &mut now, then);
    first
}

fn press(first: &mut FirstRun, now: &mut Timestamp, keys: &str) {
    for word in keys.split_whitespace() {
        let codes: Vec<KeyCode> = match word {
            "Enter" => vec![KeyCode::Enter],
            "Right" => vec![KeyCode::Right],
            text => text.chars().map(KeyCode::Char).collect(),
        };
        for code in codes {
            *now = now.plus(std::time::Duration::from_millis(100));
            let _ = update(first, *now, FirstEvent::Key(KeyEvent::new(code, KeyModifiers::NONE)));
        }
    }
}

/// A broker where nothing can be made.
fn refused() -> Found {
    Found {
        checks: checks(),
        is_fresh: false,
        is_of_another: false,
    }
}

/// A broker that has nothing of this program yet.
fn works() -> Found {
    let checks = checks()
        .into_iter()
        .filter(|check| check.result == CheckResult::Fine)
        .collect();
    Found {
        checks,
        is_fresh: true,
        is_of_another: false,
    }
}

fn checks() -> Vec<Check> {
    let check = |name: &str, result, found: &str, mend: Option<&str>| Check {
        name: name.to_owned(),
        result,
        found: found.to_owned(),
        mend: mend.map(str::to_owned),
    };
    vec![
        check(
            "broker",
            CheckResult::Fine,
            "4.3.5 at amqp://ana:***@mq1.example, vhost live",
            None,
        ),
        check(
            "rights",
            CheckResult::Broken,
            "broker refuses a queue of our prefix: configure is missing",
            Some("grant them, then try again; l only looks, which needs the right to read alone"),
        ),
        check(
            "management",
            CheckResult::Warning,
            "connection refused",
            Some("enable rabbitmq_management, or correct its address: without it depths and policies are not known"),
        ),
        check("store", CheckResult::Fine, "the file of an earlier start", None),
    ]
}

#[track_caller]
fn check(name: &str, first: &FirstRun) {
    for (columns, rows) in [(80, 24), (120, 40), (200, 60)] {
        let mut first = first.clone();
        let _ = update(&mut first, Timestamp::default(), FirstEvent::Resize(columns, rows));
        let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
        let _ = view_first_run(&first, &Theme::default(), &mut buffer);
        let screen = text(&buffer);
        assert!(!screen.contains("s3cret"), "a password is on the screen:\n{screen}");
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("first_run_{name}_{columns}x{rows}"), screen);
        });
    }
}

#[test]
fn each_step_is_as_it_was() {
    check("menu", &first_run("", None, ""));
    check("form", &first_run(TYPED, None, ""));
    check("wrong", &first_run("1 http://mq Enter", None, ""));
    check("found", &first_run(TYPED, None, "Enter"));
    check("tested", &first_run(&format!("{TYPED} Enter"), Some(refused()), ""));
    check("tested_fine", &first_run(&format!("{TYPED} Enter"), Some(works()), ""));
    check("save", &first_run(&format!("{TYPED} Enter"), Some(works()), "s"));
    check(
        "save_environment",
        &first_run(&format!("{TYPED} Enter"), Some(refused()), "s Right"),
    );
    check("save_embedded", &first_run("3", None, ""));
}

#[test]
fn no_size_is_too_small_or_too_large() {
    for keys in ["", TYPED, "3"] {
        let first = first_run(keys, None, "");
        for (columns, rows) in [(0, 0), (1, 1), (39, 9), (40, 10), (41, 11), (300, 100)] {
            let mut first = first.clone();
            let _ = update(&mut first, Timestamp::default(), FirstEvent::Resize(columns, rows));
            let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
            let cursor = view_first_run(&first, &Theme::default(), &mut buffer);
            assert!(
                cursor.is_none_or(|cursor| buffer.area.contains(cursor)),
                "{keys} {columns}x{rows}"
            );
        }
    }
}
