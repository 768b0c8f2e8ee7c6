//! What operators come for, done on real servers by keys alone: daemon, broker, store and receivers are real,
//! and what came of it is asked of them, not of the screen.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::pty::{BOUND, Pty};
use crate::faults;
use crate::runs::scene::{DEAD, ORIGIN, Scene, numbers};
use crate::support::daemon::Installation;
use crate::support::receiver::Behaviour;
use crate::support::wait::wait_until;

const SIZE: (u16, u16) = (120, 40);

async fn console(installation: &Installation, arguments: &[&str]) -> Pty {
    let pty = Pty::start(&installation.program(arguments), SIZE);
    pty.shows("live").await;
    pty
}

/// An action that changes something is asked for; its plan is there and takes an answer.
async fn ask(pty: &Pty, key: &str) {
    pty.key(key);
    confirmation(pty).await;
}

async fn confirmation(pty: &Pty) {
    pty.until("an armed confirmation", |screen| {
        let asks = screen.contains("cancel ]") || screen.contains("do not remove ]");
        asks && !screen.contains("in a moment") && !screen.contains("Planning")
    })
    .await;
}

/// Answers an armed confirmation with its key. What was seen may be a part of a frame: a key that came too early
/// is pressed again.
async fn accept(pty: &Pty) {
    let told = "the confirmation to be accepted";
    wait_until(told, BOUND, async || {
        if pty.screen().contains("cancel ]") {
            pty.key("y");
            return None;
        }
        Some(())
    })
    .await;
}

/// Answers an armed confirmation with what it wants typed.
async fn accept_by_typing(pty: &Pty, word: &str) {
    pty.until("an armed question", |screen| {
        screen.contains("type the ") && !screen.contains("in a moment")
    })
    .await;
    pty.key(word);
    pty.until("the word to be right", |screen| screen.contains("[ Enter  "))
        .await;
    pty.key("\r");
    pty.hides("[ Enter  ").await;
}

async fn leave(mut pty: Pty) {
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    pty.assert_restored();
}

async fn json_of(installation: &Installation, arguments: &[&str]) -> Value {
    installation.run(arguments).await.expect_code(0).json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_found_in_their_group_and_redriven_by_keys() {
    let mut scene = Scene::postgres().await;
    scene.installation.set("console", "refresh_s", 1);
    scene.die(25).await;
    let mut daemon = scene.installation.daemon().await;
    let pty = console(&scene.installation, &[]).await;
    pty.key("5");
    pty.until("the group", |screen| {
        screen.contains("rejected") && screen.contains("25")
    })
    .await;
    ask(&pty, "R").await;
    assert!(pty.screen().contains("redrive 25 dead letters"), "{}", pty.screen());
    accept_by_typing(&pty, "25").await;
    pty.key("7");
    pty.until("the run to be done", |screen| {
        screen.contains("done") && screen.contains("dead redrive") && screen.contains("25 of 25 done")
    })
    .await;
    assert_eq!(scene.ready(DEAD).await, Some(0));
    let back = numbers(&scene.take_all(ORIGIN).await);
    assert_eq!(back, (0..25).collect::<Vec<_>>(), "all of them, in their order");
    leave(pty).await;
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_is_mended_in_the_editor_and_sent_back() {
    let mut scene = Scene::sqlite().await;
    scene.installation.set("console", "refresh_s", 1);
    let editor = scene.installation.path("editor");
    fs::write(&editor, "#!/bin/sh\nprintf 4711 > \"$1\"\n").unwrap();
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o700)).unwrap();
    scene.installation.set_environment("VISUAL", "");
    scene.installation.set_environment("EDITOR", editor.to_str().unwrap());
    scene.die(1).await;
    let mut daemon = scene.installation.daemon().await;
    let pty = console(&scene.installation, &[]).await;
    pty.key("5");
    pty.shows("rejected").await;
    pty.key("\r");
    pty.shows("Esc shows all groups").await;
    pty.shows("1–1 of 1").await;
    pty.key("\r");
    pty.shows("redriven, it goes back to").await;
    ask(&pty, "E").await;
    pty.until("what is sent instead", |screen| {
        screen.contains("4711") && screen.contains('→')
    })
    .await;
    accept(&pty).await;
    pty.shows("edited").await;
    ask(&pty, "R").await;
    accept(&pty).await;
    wait_until("the letter to be back", BOUND, async || {
        (scene.ready(ORIGIN).await == Some(1)).then_some(())
    })
    .await;
    assert_eq!(numbers(&scene.take_all(ORIGIN).await), [4711]);
    assert_eq!(scene.ready(DEAD).await, Some(0));
    leave(pty).await;
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_is_written_in_its_form_shown_and_saved_by_keys() {
    let mut scene = faults::scene::Scene::servers().await;
    let policy = json!({
        "retries_with_no_delay": 0, "minimum_delay_retries": 5, "minimum_delay": 3600, "maximum_delay": 3600,
        "maximum_delay_retries": 0, "backoff_retries": 0
    });
    scene.installation.set("delivery", "retry_policy", policy);
    scene.installation.set("console", "refresh_s", 1);
    scene.receiver.behave("*", Behaviour::Status(503));
    let mut daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 1).await;
    let pty = console(&scene.installation, &[]).await;
    pty.key("3");
    pty.shows("unavailable").await;
    pty.key("E");
    pty.shows("retries_with_no_delay").await;
    pty.shows("Nothing is saved here").await;
    // It begins with what applies: what the configuration says.
    pty.key("\x7f");
    pty.key("7");
    pty.shows("7  at once").await;
    pty.key("\r");
    confirmation(&pty).await;
    let screen = pty.screen();
    assert!(screen.contains("→ version 1: 13 attempts within"), "{screen}");
    accept(&pty).await;
    pty.shows("saved the policy of").await;
    pty.key("6");
    pty.shows("History").await;
    // The list alone has room for every column.
    pty.key("e");
    pty.until("the policy in its list", |screen| {
        screen.contains("Applies") && screen.contains("  13  ") && screen.contains("console")
    })
    .await;
    let url = scene.url("/hook");
    let saved = json_of(
        &scene.installation,
        &["policy", "show", "--url", url.as_str(), "--json"],
    )
    .await;
    assert!(saved.to_string().contains("\"retries_with_no_delay\":7"), "{saved}");
    leave(pty).await;
    scene.receiver.behave("*", Behaviour::Status(200));
    // The new policy tries it again meanwhile: a plan may be stale by then, or there is nothing to do any more.
    wait_until("a redelivery whose plan held", BOUND, async || {
        let redelivered = scene.installation.run(&["redeliver", "--all", "--yes"]).await;
        (redelivered.code == Some(0) || scene.receiver.delivered() == 1).then_some(())
    })
    .await;
    scene.finish(&mut [&mut daemon], 0).await;
}

/// An installation with a handler whose program fails until a file is there.
async fn with_failing_handler() -> (Scene, std::path::PathBuf) {
    let mut scene = Scene::postgres().await;
    let mended = scene.installation.path("mended");
    let script = format!(
        "test -e {} || {{ echo 'no such employee' >&2; exit 1; }}",
        mended.display()
    );
    scene.installation.append(&format!(
        "\n[[handler]]\ntype = \"hr\"\ncommand = {}\n",
        json!(["/bin/sh", "-c", script])
    ));
    scene.installation.set("console", "refresh_s", 1);
    (scene, mended)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_events_are_found_by_their_reason_and_given_back_by_keys() {
    let (scene, mended) = with_failing_handler().await;
    let metadata = scene.installation.path("metadata.json");
    fs::write(&metadata, r#"{"_cutoff":1}"#).unwrap();
    let set = [
        "event-type",
        "set",
        "hr",
        "--metadata",
        metadata.to_str().unwrap(),
        "--yes",
    ];
    scene.installation.run(&set).await.expect_code(0);
    let mut daemon = scene.installation.daemon().await;
    for reference in ["employee-1", "employee-2", "employee-3"] {
        let push = ["event", "push", "--type", "hr", "--reference", reference];
        scene.installation.run(&push).await.expect_code(0);
    }
    let pty = console(&scene.installation, &[]).await;
    pty.key("0");
    pty.until("three dead events", |screen| {
        screen.contains("3 events") && screen.contains("3 dead")
    })
    .await;
    pty.key("\x1b[B");
    pty.until("the type to be selected", |screen| screen.contains("hr: 3 events"))
        .await;
    pty.key("\r");
    pty.until("why they are dead", |screen| screen.contains("no such employee"))
        .await;
    fs::write(&mended, "").unwrap();
    pty.key("\x1b[B");
    pty.shows("3 events dead").await;
    ask(&pty, "R").await;
    assert!(pty.screen().contains("retry 3 events"), "{}", pty.screen());
    accept(&pty).await;
    wait_until("the events to be handled", BOUND, async || {
        let left = json_of(&scene.installation, &["event", "list", "--json"]).await;
        (left == json!([])).then_some(())
    })
    .await;
    pty.key("\x1b");
    pty.until("nothing to be left", |screen| screen.contains("hr: 0 events"))
        .await;
    leave(pty).await;
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_dated_anew_and_another_one_cancelled_by_keys() {
    let mut scene = Scene::sqlite().await;
    scene.installation.set("console", "refresh_s", 1);
    for reference in ["first", "second"] {
        let push = ["event", "push", "--type", "later", "--reference", reference];
        scene.installation.run(&push).await.expect_code(0);
    }
    let pty = console(&scene.installation, &[]).await;
    pty.key("0");
    pty.shows("all types").await;
    pty.key("\r");
    pty.shows("everything").await;
    pty.key("\r");
    pty.until("both events", |screen| {
        screen.contains("first") && screen.contains("second")
    })
    .await;
    pty.key("/");
    pty.shows("keep the filter").await;
    pty.paste("reference = first");
    pty.until("the filter", |screen| screen.contains("reference = first"))
        .await;
    pty.key("\r");
    pty.hides("second").await;
    pty.key("T");
    pty.shows("due at:").await;
    pty.paste("2100-01-01T00:00:00Z");
    pty.shows("2100-01-01 00:00:00 UTC").await;
    pty.key("\r");
    confirmation(&pty).await;
    accept(&pty).await;
    pty.shows("rescheduled 1 event").await;
    let first = ["event", "show", "--type", "later", "--reference", "first", "--json"];
    let dated = json_of(&scene.installation, &first).await;
    assert!(dated.to_string().contains("2100-01-01T00:00:00Z"), "{dated}");
    ask(&pty, "X").await;
    accept_by_typing(&pty, "1").await;
    pty.shows("cancelled 1 event").await;
    let left = json_of(&scene.installation, &["event", "list", "--json"]).await;
    let references: Vec<&str> = left
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|event| event["reference"].as_str())
        .collect();
    assert_eq!(references, ["second"]);
    leave(pty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_embedded_consoles_one_delivers_and_the_other_takes_over() {
    let mut scene = faults::scene::Scene::embedded().await;
    scene.installation.set("console", "refresh_s", 1);
    scene.hasten();
    scene.receiver.behave("*", Behaviour::Status(200));
    let first = console(&scene.installation, &[]).await;
    first.shows("this console delivers").await;
    let second = console(&scene.installation, &[]).await;
    second.shows("1 daemon").await;
    scene.publish("run", "/hook", 1).await;
    scene.delivered(1).await;
    leave(first).await;
    second.shows("this console delivers").await;
    scene.publish("run", "/hook", 2).await;
    scene.delivered(2).await;
    leave(second).await;
    scene.finish(&mut [], 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_is_redelivered_from_the_detail_of_one_of_its_queues() {
    let mut scene = faults::scene::Scene::servers().await;
    let policy = json!({
        "retries_with_no_delay": 0, "minimum_delay_retries": 500, "minimum_delay": 3600, "maximum_delay": 3600,
        "maximum_delay_retries": 0, "backoff_retries": 0
    });
    scene.installation.set("delivery", "retry_policy", policy);
    scene.installation.set("console", "refresh_s", 1);
    scene.receiver.behave("*", Behaviour::Status(503));
    let mut daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 1).await;
    let pty = console(&scene.installation, &[]).await;
    pty.key("2");
    pty.shows("endpoint down").await;
    pty.key("\r");
    pty.shows("503").await;
    scene.receiver.behave("*", Behaviour::Status(200));
    ask(&pty, "R").await;
    assert!(pty.screen().contains("acts on the endpoint"), "{}", pty.screen());
    accept(&pty).await;
    scene.delivered(1).await;
    pty.key("\x1b");
    pty.hides("Tab turns").await;
    leave(pty).await;
    scene.finish(&mut [&mut daemon], 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_lost_next_is_counted_listed_first_saved_and_restored_by_keys() {
    let mut scene = Scene::sqlite().await;
    scene.installation.set("console", "refresh_s", 1);
    let vhost = &scene.vhost;
    for (name, millis, messages) in [
        ("reports.soon", 600_000, 2),
        ("reports.late", 7_200_000, 1),
        ("reports.empty", 300_000, 0),
    ] {
        let path = format!("/api/queues/{}/{name}", vhost.name);
        let declared = json!({"durable": true, "arguments": {"x-expires": millis}});
        vhost.manage("PUT", &path, Some(&declared)).await;
        for number in 0..messages {
            let message = json!({
                "properties": {"delivery_mode": 2}, "routing_key": name, "payload": format!("report {number}"),
                "payload_encoding": "string"
            });
            let path = format!("/api/exchanges/{}/amq.default/publish", vhost.name);
            vhost.manage("POST", &path, Some(&message)).await;
        }
    }
    let pty = console(&scene.installation, &[]).await;
    pty.until("what is lost within the hour", |screen| {
        screen.contains("2 messages in 1 queue expire within the hour")
    })
    .await;
    pty.key("-");
    pty.until("the queues, those that lose messages first", |screen| {
        let place = |name: &str| screen.find(name);
        match (place("reports.soon"), place("reports.late"), place("reports.empty")) {
            (Some(soon), Some(late), Some(empty)) => soon < late && late < empty,
            _ => false,
        }
    })
    .await;
    ask(&pty, "V").await;
    accept(&pty).await;
    pty.shows("saved 1 queue with 2 messages").await;
    assert_eq!(scene.ready("reports.soon").await, Some(0));
    pty.key("w");
    pty.shows("◆ kept").await;
    ask(&pty, "R").await;
    accept(&pty).await;
    pty.shows("restored 1 queue with 2 messages").await;
    assert_eq!(scene.ready("reports.soon").await, Some(2));
    leave(pty).await;
}

/// The payload of the only event in front, in a console with these arguments.
async fn payload_of_the_event(installation: &Installation, arguments: &[&str]) -> Pty {
    let pty = console(installation, arguments).await;
    pty.key("0");
    pty.shows("all types").await;
    pty.key("\r");
    pty.shows("everything").await;
    pty.key("\r");
    pty.shows("customer-1").await;
    pty.key("\r");
    pty.shows("Tab turns").await;
    pty.key("\t");
    pty.until("the payload without what is masked", |screen| {
        screen.contains("order") && screen.contains("***") && screen.contains("2 values masked")
    })
    .await;
    pty
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_masked_is_revealed_by_a_key_and_the_audit_says_who_looked() {
    let mut scene = Scene::sqlite().await;
    scene.installation.set("console", "refresh_s", 1);
    scene.installation.set("console", "mask", json!(["/account/number"]));
    let payload = scene.installation.path("payload.json");
    let secret = ["hunter-2", "4111-1111"];
    let document = json!({"order": 18, "password": secret[0], "account": {"number": secret[1], "year": 2030}});
    fs::write(&payload, document.to_string()).unwrap();
    let push = [
        "event",
        "push",
        "--type",
        "t",
        "--reference",
        "customer-1",
        "--payload-file",
    ];
    let push = [&push[..], &[payload.to_str().unwrap()]].concat();
    scene.installation.run(&push).await.expect_code(0);
    let shows = |screen: &str| secret.iter().any(|secret| screen.contains(secret));
    let reveals = async || {
        let audit = json_of(&scene.installation, &["audit", "--json"]).await;
        audit.to_string().matches("payload reveal").count()
    };

    let pty = payload_of_the_event(&scene.installation, &["--read-only"]).await;
    assert!(!shows(&pty.screen()));
    pty.key("M");
    pty.shows("who looks is written into the audit").await;
    assert!(!shows(&pty.screen()));
    leave(pty).await;
    assert_eq!(reveals().await, 0);

    let pty = payload_of_the_event(&scene.installation, &["--reason", "INC-42"]).await;
    assert!(!shows(&pty.screen()));
    pty.key("M");
    pty.until("both values", |screen| {
        secret.iter().all(|secret| screen.contains(secret))
    })
    .await;
    let audit = json_of(&scene.installation, &["audit", "--json"]).await.to_string();
    assert!(audit.contains("payload reveal") && audit.contains("INC-42"), "{audit}");
    assert!(!shows(&audit), "the audit says that, and not what: {audit}");
    pty.key("\t");
    pty.hides("hunter-2").await;
    pty.key("\x1b[Z");
    pty.shows("2 values masked").await;
    assert!(!shows(&pty.screen()), "left, it is masked again");
    leave(pty).await;
    assert_eq!(reveals().await, 1);
}
