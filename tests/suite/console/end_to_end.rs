//! A bad day from its begin to its end: daemon, broker, store and receiver are real, and the operator
//! has nothing but keys and a screen.

use std::cell::Cell;
use std::time::{Duration, Instant};

use serde_json::json;

use super::pty::{BOUND, Pty};
use super::stream;
use crate::faults::scene::Scene;
use crate::support::receiver::Behaviour;
use crate::support::servers::PrivateRabbit;
use crate::support::wait::{stays_absent, wait_until};

const SIZE: (u16, u16) = (120, 40);
/// Several refreshes of a second each, and an age that would have turned.
const IDLE: Duration = Duration::from_secs(6);
/// Less than there is between two refreshes, and more than there is in a frame.
const DRAWN: Duration = Duration::from_millis(500);

/// What fails is tried again only when an operator says so.
fn waits_for_the_operator(scene: &mut Scene) {
    let policy = json!({
        "retries_with_no_delay": 0, "minimum_delay_retries": 500, "minimum_delay": 3600, "maximum_delay": 3600,
        "maximum_delay_retries": 0, "backoff_retries": 0
    });
    scene.installation.set("delivery", "retry_policy", policy);
    scene.installation.set("console", "refresh_s", 1);
}

/// The console of a scene with data on its screen.
async fn console(scene: &Scene, arguments: &[&str]) -> Pty {
    let pty = Pty::start(&scene.installation.program(arguments), SIZE);
    pty.shows("live").await;
    pty
}

/// Goes to the endpoints and redelivers the selected one, as a person would.
async fn redeliver_by_keys(pty: &Pty) {
    pty.key("3");
    pty.shows("unavailable").await;
    pty.key("R");
    pty.until("an armed confirmation", |screen| {
        screen.contains("y  redeliver") && !screen.contains("in a moment")
    })
    .await;
    pty.key("y");
    pty.hides("y  redeliver").await;
}

async fn check_bad_day(mut scene: Scene) {
    waits_for_the_operator(&mut scene);
    scene.receiver.behave("*", Behaviour::Status(200));
    let mut daemon = scene.installation.daemon().await;
    let mut pty = console(&scene, &[]).await;
    scene.publish("run", "/hook", 1).await;
    scene.delivered(1).await;
    scene.receiver.behave("*", Behaviour::Status(503));
    for number in 2..=6 {
        scene.publish("run", "/hook", number).await;
    }
    pty.key("3");
    pty.until("the endpoint to be seen as down", |screen| {
        screen.contains("unavailable") && screen.contains("/hook") && screen.contains("503")
    })
    .await;
    assert_eq!(scene.receiver.delivered(), 1);
    scene.receiver.behave("*", Behaviour::Status(200));
    redeliver_by_keys(&pty).await;
    scene.delivered(6).await;
    pty.until("the endpoint to be seen as up", |screen| {
        !screen.contains("unavailable")
    })
    .await;
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    pty.assert_restored();
    let audit = scene.installation.run(&["audit", "--json"]).await.expect_code(0);
    assert!(audit.stdout.contains("redeliver"), "{audit:?}");
    scene.finish(&mut [&mut daemon], 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_goes_down_is_seen_and_is_redelivered_by_keys_on_the_servers() {
    check_bad_day(Scene::servers().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_goes_down_is_seen_and_is_redelivered_by_keys_on_the_embedded_pair() {
    check_bad_day(Scene::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_console_sees_and_changes_nothing() {
    let mut scene = Scene::servers().await;
    waits_for_the_operator(&mut scene);
    scene.receiver.behave("*", Behaviour::Status(503));
    let mut daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 1).await;
    let mut pty = console(&scene, &["--read-only"]).await;
    pty.key("3");
    pty.shows("unavailable").await;
    pty.key("R");
    pty.until("the reason", |screen| {
        screen.matches("READ-ONLY").count() > 0 && screen.to_lowercase().matches("read-only").count() > 1
    })
    .await;
    pty.key("y");
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    assert_eq!(scene.receiver.delivered(), 0);
    let audit = scene.installation.run(&["audit", "--json"]).await.expect_code(0);
    assert!(!audit.stdout.contains("redeliver"), "{audit:?}");
    scene.receiver.behave("*", Behaviour::Status(200));
    scene
        .installation
        .run(&["redeliver", "--all", "--yes"])
        .await
        .expect_code(0);
    scene.finish(&mut [&mut daemon], 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_while_nothing_changes_and_a_change_is_seen() {
    let mut scene = Scene::servers().await;
    waits_for_the_operator(&mut scene);
    scene.receiver.behave("*", Behaviour::Status(200));
    let mut daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 1).await;
    scene.delivered(1).await;
    let mut pty = console(&scene, &[]).await;
    pty.key("2");
    pty.shows("run").await;
    // By the broker's own figures, which are seconds old.
    pty.shows("○ empty").await;
    // What stands beside the list says how old each of its numbers is.
    pty.key("e");
    pty.hides("Messages   Hour").await;
    settled(&pty, Duration::from_secs(2)).await;
    let before = pty.written();
    stays_absent("a byte from an idle console", IDLE, async || {
        let written = pty.written();
        (written > before).then(|| String::from_utf8_lossy(&pty.bytes()[before..]).into_owned())
    })
    .await;
    scene.publish("another", "/hook", 1).await;
    pty.shows("another").await;
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    scene.finish(&mut [&mut daemon], 0).await;
}

/// Until so much time passes without a byte.
async fn settled(pty: &Pty, rest: Duration) {
    let last = Cell::new((pty.written(), Instant::now()));
    pty.until("a screen at rest", |_| {
        if pty.written() != last.get().0 {
            last.set((pty.written(), Instant::now()));
        }
        last.get().1.elapsed() > rest
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_stops_under_the_console_is_told_and_its_return_is_seen() {
    let rabbit = PrivateRabbit::start().await;
    let mut scene = Scene::on_rabbit(&rabbit.address).await;
    waits_for_the_operator(&mut scene);
    scene.receiver.behave("*", Behaviour::Status(200));
    scene.publish("run", "/hook", 1).await;
    let mut pty = console(&scene, &[]).await;
    pty.key("2");
    pty.shows("run").await;
    rabbit.stop().await;
    pty.shows("unreachable").await;
    assert!(pty.screen().contains("run"), "the last numbers stay:\n{}", pty.screen());
    rabbit.start_again().await;
    pty.hides("broker unreachable since").await;
    pty.shows("live").await;
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    pty.assert_restored();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_console_started_without_a_broker_waits_and_says_why() {
    let rabbit = PrivateRabbit::start().await;
    let mut scene = Scene::on_rabbit(&rabbit.address).await;
    waits_for_the_operator(&mut scene);
    scene.publish("run", "/hook", 1).await;
    rabbit.stop().await;
    let mut pty = Pty::start(&scene.installation.program(&[]), SIZE);
    pty.until("why there is nothing to see", |screen| {
        screen.contains("unreachable") || screen.contains("refused") || screen.contains("cannot be reached")
    })
    .await;
    rabbit.start_again().await;
    pty.key("2");
    pty.shows("run").await;
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    pty.assert_restored();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_names_and_bodies_reach_the_terminal_as_text_only() {
    let scene = hostile_scene().await;
    let mut pty = console(&scene, &[]).await;
    pty.key("2");
    pty.shows("evil").await;
    for (key, shown) in [("3", "Endpoints"), ("4", "Retries"), ("9", "Log"), ("1", "Overview")] {
        pty.key(key);
        pty.shows(shown).await;
        settled(&pty, DRAWN).await;
    }
    pty.key("2");
    pty.shows("evil").await;
    pty.key("\r");
    pty.shows("Why").await;
    pty.key("b");
    pty.shows("Messages").await;
    pty.until("a payload", |screen| {
        HOSTILE_WORDS.iter().any(|word| screen.contains(word))
    })
    .await;
    pty.key("\x1b");
    // Escape and a letter at once would be Alt and the letter.
    pty.hides("Tab turns").await;
    pty.key("c");
    pty.shows("copied").await;
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    pty.assert_restored();
    stream::assert_only_ours(&pty.bytes());
}

/// What is left of the hostile texts when they are shown.
const HOSTILE_WORDS: [&str; 4] = ["owned", "red", "c1", "gnp.exe"];

/// Queues, executions and bodies that would take a terminal over.
async fn hostile_scene() -> Scene {
    let mut scene = Scene::servers().await;
    waits_for_the_operator(&mut scene);
    let vhost = scene.vhost.as_ref().unwrap();
    for name in stream::HOSTILE {
        let path = format!("/api/queues/{}/{}", vhost.name, percent(&format!("evil{name}")));
        vhost.manage("PUT", &path, Some(&json!({"durable": true}))).await;
        let message = json!({
            "properties": {"headers": {name: name}}, "routing_key": format!("evil{name}"), "payload": name,
            "payload_encoding": "string"
        });
        let path = format!("/api/exchanges/{}/amq.default/publish", vhost.name);
        vhost.manage("POST", &path, Some(&message)).await;
    }
    scene
}

fn percent(text: &str) -> String {
    percent_encoding::percent_encode(text.as_bytes(), percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_consoles_at_once_see_the_same_and_disturb_nobody() {
    let mut scene = Scene::servers().await;
    waits_for_the_operator(&mut scene);
    scene.receiver.behave("*", Behaviour::Status(503));
    let mut daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 1).await;
    let mut one = console(&scene, &[]).await;
    let mut other = console(&scene, &[]).await;
    for pty in [&one, &other] {
        pty.key("3");
        pty.shows("unavailable").await;
    }
    scene.receiver.behave("*", Behaviour::Status(200));
    redeliver_by_keys(&one).await;
    scene.delivered(1).await;
    for pty in [&one, &other] {
        pty.until("the endpoint to be seen as up", |screen| {
            !screen.contains("unavailable")
        })
        .await;
    }
    for pty in [&mut one, &mut other] {
        pty.key("q");
        assert_eq!(pty.ended().await, 0);
        pty.assert_restored();
    }
    scene.finish(&mut [&mut daemon], 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_console_that_delivers_finishes_what_is_in_flight_after_the_screen() {
    let mut scene = Scene::servers().await;
    waits_for_the_operator(&mut scene);
    scene
        .receiver
        .behave("*", Behaviour::Status(200).after(Duration::from_secs(3)));
    let mut pty = console(&scene, &["--work"]).await;
    scene.publish("run", "/hook", 1).await;
    wait_until("an attempt in flight", BOUND, async || {
        scene
            .receiver
            .attempts()
            .iter()
            .any(|attempt| attempt.end.is_none())
            .then_some(())
    })
    .await;
    pty.key("q");
    pty.shows("finishing what is in flight").await;
    assert_eq!(pty.ended().await, 0);
    pty.assert_restored();
    assert_eq!(scene.receiver.delivered(), 1);
    scene.finish(&mut [], 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_colour_the_selected_row_is_inverse() {
    let mut scene = Scene::servers().await;
    waits_for_the_operator(&mut scene);
    scene.installation.set_environment("NO_COLOR", "1");
    scene.publish("first-run", "/hook", 1).await;
    let mut pty = console(&scene, &[]).await;
    pty.key("2");
    pty.shows("first-run").await;
    let inverse = |screen: &vt100::Screen| {
        let (rows, columns) = screen.size();
        let row = (0..rows.get()).find(|row| {
            screen
                .contents_between(*row, 0, *row, columns.get())
                .contains("first-run")
        })?;
        let column =
            (0..columns.get()).find(|column| screen.cell(row, *column).is_some_and(|cell| cell.contents() == "f"))?;
        Some((row, screen.cell(row, column)?.inverse()))
    };
    wait_until("an inverse row", BOUND, async || {
        pty.look(inverse).filter(|(_, inverse)| *inverse)
    })
    .await;
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    let bytes = pty.bytes();
    let written = String::from_utf8_lossy(&bytes);
    assert!(
        !written.contains("\x1b[38;5;") && !written.contains("\x1b[38;2;"),
        "a colour was written"
    );
}
