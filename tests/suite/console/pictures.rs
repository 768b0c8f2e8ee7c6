//! The pictures of the README are what the program paints.
//!
//! `REDRIVE_PICTURES=write cargo test --test suite console::pictures` makes them anew.

use std::fs;
use std::path::PathBuf;

use redrive::internals::console::Theme;
use redrive::internals::console::runtime::picture::svg;

use super::fixture::scene;

/// A scene with what its picture is called for those who cannot see it.
const PICTURES: &[(&str, &str)] = &[
    (
        "overview",
        "Overview: three endpoints are not available, 67 messages wait",
    ),
    ("queues", "Queues, those that need a person first"),
    ("endpoints", "Endpoints, those that are not available first"),
    ("retries", "Retries: what is tried when, as a time line and a list"),
    ("log", "Log: what was done and what happened"),
    ("queue_why", "Detail of a queue: why it is not moving"),
    ("queue_attempts", "Detail of a queue: its attempts"),
    ("queue_messages", "Detail of a queue: its first messages"),
    ("queue_hour", "Detail of a queue: its last hour"),
    ("dialog_one", "Confirmation: redeliver one endpoint"),
    ("event_types", "Events: types with what is dead and due"),
    ("event_groups", "Events: why those of a type are there"),
    ("event_why", "Detail of an event: why it is there"),
    ("expiring", "Queues that go by themselves, what is lost first in front"),
];

#[test]
fn the_pictures_are_what_the_program_paints() {
    let write = std::env::var_os("REDRIVE_PICTURES").is_some_and(|value| value == "write");
    for (name, title) in PICTURES {
        let player = scene(name).sized(112, 30);
        let picture = svg(&player.paint(&Theme::default()), title);
        let file =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("assets/console-{}.svg", name.replace('_', "-")));
        if write {
            fs::write(&file, &picture).unwrap();
        }
        let stored = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            stored == picture,
            "{} is not what the program paints: see tests/suite/console/pictures.rs",
            file.display()
        );
    }
}
