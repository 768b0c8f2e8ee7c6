//! The operator is called on a real terminal: by the title of the window, the bell, and a notification.

use serde_json::json;

use super::pty::{BOUND, Pty};
use crate::faults::scene::Scene;
use crate::support::daemon::{Daemon, Installation};
use crate::support::receiver::Behaviour;
use crate::support::wait::wait_until;

const SIZE: (u16, u16) = (100, 30);

fn written(pty: &Pty) -> String {
    String::from_utf8_lossy(&pty.bytes()).into_owned()
}

/// What was written between `begin` and the next BEL, each time.
fn told(pty: &Pty, begin: &str) -> Vec<String> {
    let text = written(pty);
    let told = text.split(begin).skip(1);
    told.filter_map(|rest| rest.split_once('\x07').map(|(text, _)| text.to_owned()))
        .collect()
}

/// How often the bell rang: a BEL that ends no sequence.
fn bells(pty: &Pty) -> usize {
    let mut is_inside = false;
    let text = written(pty);
    let mut characters = text.chars().peekable();
    let mut rang = 0;
    while let Some(character) = characters.next() {
        match character {
            '\x1b' => is_inside = characters.peek() == Some(&']'),
            '\x07' if is_inside => is_inside = false,
            '\x07' => rang += 1,
            _ => {}
        }
    }
    rang
}

async fn until_title(pty: &Pty, wanted: &str) {
    wait_until(&format!("the title {wanted:?}"), BOUND, async || {
        told(pty, "\x1b]0;")
            .last()
            .is_some_and(|title| title == wanted)
            .then_some(())
    })
    .await;
}

/// A daemon that tries once an hour, and a console that looks.
async fn watched(notify: &str) -> (Scene, Daemon, Pty) {
    let mut scene = Scene::embedded().await;
    let policy = json!({
        "retries_with_no_delay": 0, "minimum_delay_retries": 500, "minimum_delay": 3600, "maximum_delay": 3600,
        "maximum_delay_retries": 0, "backoff_retries": 0
    });
    scene.installation.set("delivery", "retry_policy", policy);
    scene.installation.set("console", "refresh_s", 1);
    scene.installation.set("console", "notify", notify);
    scene.receiver.behave("*", Behaviour::Status(503));
    let daemon = scene.installation.daemon().await;
    let pty = Pty::start(&scene.installation.program(&[]), SIZE);
    pty.shows("live").await;
    (scene, daemon, pty)
}

async fn redeliver(scene: &Scene) {
    scene.receiver.behave("*", Behaviour::Status(200));
    let redeliver = scene.installation.run(&["redeliver", "--all", "--yes"]);
    redeliver.await.expect_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_title_says_what_is_worst_and_the_terminal_gets_its_own_back() {
    let (scene, mut daemon, mut pty) = watched("off").await;
    until_title(&pty, "embedded redrive").await;
    scene.publish("run", "/hook", 1).await;
    until_title(&pty, "▼1 embedded redrive").await;
    redeliver(&scene).await;
    until_title(&pty, "embedded redrive").await;
    assert_eq!(bells(&pty), 0, "it was told to be quiet");
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    pty.assert_restored();
    scene.finish(&mut [&mut daemon], 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_goes_down_rings_and_notifies_once() {
    for (notify, begin) in [("osc9", "\x1b]9;"), ("osc777", "\x1b]777;notify;redrive;")] {
        let (scene, mut daemon, mut pty) = watched(notify).await;
        assert_eq!(bells(&pty), 0, "what stands at the start is not new");
        scene.publish("run", "/hook", 1).await;
        let text = wait_until("a notification", BOUND, async || told(&pty, begin).first().cloned()).await;
        assert!(text.contains("is unavailable"), "{text}");
        assert!(!text.chars().any(char::is_control), "{text:?}");
        // It is as bad with the next snapshot, which is nothing new.
        let before = pty.written();
        wait_until("another frame", BOUND, async || (pty.written() > before).then_some(())).await;
        assert_eq!((bells(&pty), told(&pty, begin).len()), (1, 1));
        pty.key("q");
        assert_eq!(pty.ended().await, 0);
        pty.assert_restored();
        redeliver(&scene).await;
        scene.finish(&mut [&mut daemon], 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_of_an_alert_opens_the_console_at_its_row() {
    let mut scene = Scene::embedded().await;
    scene.installation.set("console", "refresh_s", 1);
    scene.publish("first", "/hook", 1).await;
    scene.publish("second", "/hook", 1).await;
    let listed = scene.installation.run(&["queues", "--json"]).await.expect_code(0);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let mut names = listed.as_array().unwrap().iter();
    let name = names
        .find_map(|queue| queue["name"].as_str().filter(|name| name.contains("second")))
        .unwrap();
    let place = format!("queue/{name}");
    let mut pty = Pty::start(&scene.installation.program(&["--at", &place]), SIZE);
    pty.until("the detail of the queue", |screen| {
        screen.contains(&format!("Queues › Queue {name}")) && screen.contains("read ")
    })
    .await;
    pty.key("\x1b");
    pty.until("its row, selected", |screen| {
        screen.lines().any(|line| line.contains('▌') && line.contains("second"))
    })
    .await;
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_that_there_is_none_of_is_refused_before_the_screen_is_taken() {
    let installation = Installation::embedded();
    let mut pty = Pty::start(&installation.program(&["--at", "moon/1"]), SIZE);
    assert_eq!(pty.ended().await, 2);
    assert!(pty.screen().contains("is no place"), "{}", pty.screen());
    let typed = installation.run(&["--at", "overview", "queues"]).await.expect_code(2);
    assert!(typed.stderr.contains("--at is the console's"), "{typed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_are_seen_while_they_are_made_paused_filtered_and_opened() {
    let (scene, mut daemon, mut pty) = watched("off").await;
    pty.key(".");
    pty.shows("attempts of everything").await;
    scene.publish("run", "/hook", 1).await;
    pty.until("the attempt that failed", |screen| {
        screen.contains("▼ failed") && screen.contains("503")
    })
    .await;
    pty.key(" ");
    pty.shows("PAUSED").await;
    redeliver(&scene).await;
    scene.delivered(1).await;
    assert!(!pty.screen().contains("✓ delivered"), "{}", pty.screen());
    pty.key(" ");
    pty.shows("✓ delivered").await;
    pty.key("/");
    for character in "outcome = failed".chars() {
        pty.key(&character.to_string());
    }
    pty.key("\r");
    pty.until("only what failed", |screen| {
        screen.contains("filter: outcome = failed") && !screen.contains("✓ delivered")
    })
    .await;
    pty.key("\r");
    pty.until("the attempt among those of its queue, selected", |screen| {
        let is_selected = |line: &str| line.contains('▌') && line.contains("503");
        screen.contains("Attempts › Queue") && screen.lines().any(is_selected)
    })
    .await;
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    pty.assert_restored();
    scene.finish(&mut [&mut daemon], 0).await;
}
