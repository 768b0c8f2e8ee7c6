//! One change of many dead letters.

use lapin::BasicProperties;
use lapin::options::{BasicAckOptions, BasicGetOptions, BasicNackOptions};
use redrive::internals::engine::runs::{Patch, Selection};
use redrive::internals::engine::{Access, Command};
use serde_json::{Value, json};

use super::scene::{DEAD, ORIGIN, Scene, numbers};
use crate::dead::shop::{Shop, text};

const RENEWED: &str = r#"[{"op":"replace","path":"","value":77}]"#;

/// The fingerprint of the only group.
async fn group(scene: &Scene) -> String {
    let groups = scene.run(&["dead", "groups", "--json"]).await.expect_code(0).json();
    groups[0]["fingerprint"].as_str().unwrap().to_owned()
}

async fn patch(scene: &Scene, document: &str, more: &[&str]) -> crate::support::daemon::Outcome {
    let arguments = [&["dead", "patch", "--patch-file", "-", "--json"], more].concat();
    scene.installation.run_with_input(&arguments, document.as_bytes()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_patch_of_a_group_is_shown_on_samples_and_sent_instead_when_it_is_redriven() {
    for scene in [Scene::sqlite().await, Scene::postgres().await] {
        scene.die(30).await;
        let group = group(&scene).await;
        let header = ["--group", &group, "--header", "mended: yes"];
        let plan = patch(&scene, RENEWED, &[&header[..], &["--dry-run"]].concat())
            .await
            .expect_code(0)
            .json();
        assert_eq!(
            (&plan["title"], &plan["messages"]),
            (&"patch 30 dead letters".into(), &30.into()),
            "{plan}"
        );
        let lines = plan["lines"].as_array().unwrap();
        assert_eq!(lines.len(), 6, "body and header of three: {plan}");
        assert_eq!(
            (&lines[0]["now"], &lines[0]["effect"]),
            (&"0".into(), &"77".into()),
            "{plan}"
        );
        assert_eq!(
            (&lines[1]["now"], &lines[1]["effect"]),
            (&"absent".into(), &"\"yes\"".into()),
            "{plan}"
        );
        let done = patch(&scene, RENEWED, &[&header[..], &["--yes"]].concat())
            .await
            .expect_code(0)
            .json();
        assert_eq!(done, json!({"patched": 30, "left": 0, "why": []}));
        assert_eq!(scene.ready(DEAD).await, Some(30), "they stay where they are");
        // The same once more changes nothing.
        let again = patch(&scene, RENEWED, &[&header[..], &["--yes"]].concat())
            .await
            .expect_code(5);
        assert!(
            again.stderr.contains("already as the patch makes them"),
            "{}",
            again.stderr
        );
        scene
            .run(&["dead", "redrive", "--group", &group, "--canary", "5", "--yes"])
            .await
            .expect_code(3);
        let run = scene.run_is(&["canary"]).await;
        scene.resume(run["id"].as_str().unwrap()).await.expect_code(0);
        scene.run_is(&["done"]).await;
        let taken = scene.take_all(ORIGIN).await;
        assert_eq!(numbers(&taken), [77; 30]);
        assert!(taken.iter().all(|one| one.has("mended")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_that_a_patch_does_not_apply_to_stay_as_they_are_and_are_counted() {
    let scene = Scene::sqlite().await;
    scene.die(3).await;
    let only = r#"[{"op":"test","path":"","value":1},{"op":"replace","path":"","value":77}]"#;
    let plan = patch(&scene, only, &["--filter", "reason = rejected", "--dry-run"])
        .await
        .expect_code(0)
        .json();
    assert_eq!(plan["messages"], 1, "{plan}");
    assert!(
        plan["warnings"]
            .to_string()
            .contains("2 dead letters stay as they are: the test at"),
        "{plan}"
    );
    let done = patch(&scene, only, &["--filter", "reason = rejected", "--yes"])
        .await
        .expect_code(0);
    assert_eq!(
        done.json(),
        json!({"patched": 1, "left": 0, "why": []}),
        "a test says which are meant"
    );
    let audit = scene.run(&["audit", "--json"]).await.expect_code(0).json();
    assert_eq!(
        (&audit[0]["result"], &audit[0]["target"]),
        (&"done".into(), &"reason = rejected".into())
    );
    let detail = audit[0]["detail"].as_str().unwrap();
    let list = scene.run(&["dead", "list", "--json"]).await.expect_code(0).json();
    let ids = list
        .as_array()
        .unwrap()
        .iter()
        .map(|letter| letter["id"].as_str().unwrap());
    let named: Vec<&str> = ids.filter(|id| detail.contains(id)).collect();
    assert_eq!(
        detail,
        format!("patch 1 dead letter: {}", named[0]),
        "the letter that it changed"
    );
    let none = r#"[{"op":"remove","path":"/currency"}]"#;
    let refused = patch(&scene, none, &["--filter", "reason = rejected", "--yes"])
        .await
        .expect_code(5);
    assert!(
        refused
            .stderr
            .contains("applies to none of them: there is nothing at \"/currency\""),
        "{}",
        refused.stderr
    );
    scene.run(&["dead", "redrive", "--all", "--yes"]).await.expect_code(0);
    assert_eq!(numbers(&scene.take_all(ORIGIN).await), [0, 77, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_patch_that_does_not_apply_to_all_that_are_meant_says_so_when_it_is_done() {
    let scene = Scene::sqlite().await;
    scene.die(3).await;
    let first = scene.run(&["dead", "list", "--json"]).await.expect_code(0).json();
    let id = first[0]["id"].as_str().unwrap();
    let document = r#"[{"op":"replace","path":"","value":{"currency":"XXX"}}]"#;
    patch(&scene, document, &[id, "--yes"]).await.expect_code(0);
    let replace = r#"[{"op":"replace","path":"/currency","value":"EUR"}]"#;
    let done = patch(&scene, replace, &["--filter", "reason = rejected", "--yes"])
        .await
        .expect_code(3);
    let why = "2 dead letters stay as they are: there is nothing at \"/currency\"";
    assert!(done.stderr.contains(why), "{done:?}");
    assert_eq!(done.json(), json!({"patched": 1, "left": 2, "why": [why]}));
    for wrong in [": value", &format!("{}: value", "n".repeat(300))] {
        let refused = patch(&scene, replace, &[id, "--header", wrong, "--yes"])
            .await
            .expect_code(2);
        assert!(refused.stderr.contains("not of 1 to 255 bytes"), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_patch_changes_nothing_and_is_said() {
    let scene = Scene::sqlite().await;
    scene.die(1).await;
    let bad = patch(
        &scene,
        "{\"currency\": \"EUR\"}",
        &["--filter", "reason = rejected", "--yes"],
    )
    .await
    .expect_code(2);
    assert!(
        bad.stderr.contains("--patch-file") && bad.stderr.contains("RFC 6902"),
        "{}",
        bad.stderr
    );
    let nobody = patch(&scene, RENEWED, &[&"0".repeat(32), "--yes"]).await.expect_code(4);
    assert!(
        nobody.stderr.contains("1 of the dead letters that are named"),
        "{}",
        nobody.stderr
    );
    let mut daemon = scene.installation.daemon().await;
    let group = group(&scene).await;
    for (body, field) in [
        (
            json!({"group": group, "patch": [{"op": "renew", "path": "/a"}]}),
            "patch",
        ),
        (json!({"patch": [{"op": "remove", "path": "/a"}]}), "ids"),
        (
            json!({"group": group, "filter": "age > 1s", "content_type": "a/b"}),
            "ids",
        ),
        (json!({"group": group}), "patch"),
    ] {
        let answer = daemon.post("/v1/dead/patch", &body).await;
        let problem: Value = answer.json();
        assert_eq!((answer.status, &problem["field"]), (400, &field.into()), "{problem}");
    }
    let patch = json!({"group": group, "patch": [{"op": "replace", "path": "", "value": 77}]});
    let planned = daemon.post("/v1/dead/patch?dry_run=true", &patch).await;
    assert_eq!(
        (planned.status, &planned.json()["messages"]),
        (200, &1.into()),
        "{}",
        planned.text()
    );
    let done = daemon.post("/v1/dead/patch", &patch).await;
    assert_eq!(
        (done.status, done.json()),
        (200, json!({"patched": 1, "left": 0, "why": []}))
    );
    assert_eq!(daemon.stop().await, Some(0));
    scene.run(&["dead", "redrive", "--all", "--yes"]).await.expect_code(0);
    assert_eq!(numbers(&scene.take_all(ORIGIN).await), [77]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_that_was_not_planned_is_not_patched() {
    let shop = Shop::open().await;
    shop.queue(DEAD, &[]).await;
    let dead = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text(DEAD)),
    ];
    shop.queue(ORIGIN, &dead).await;
    shop.fill(ORIGIN, 5).await;
    shop.reject_all(ORIGIN).await;
    let letters = shop.listed(DEAD, 5).await;
    let command = Command::PatchDead {
        selection: Selection::Group(letters[0].fingerprint.clone()),
        patch: Patch {
            headers: vec![("mended".to_owned(), Some("yes".to_owned()))],
            ..Patch::default()
        },
    };
    let plan = shop.stage.engine.plan(command.clone()).await.unwrap();
    // The last one goes, and another comes: there are as many, and the first ones, which the plan shows, are the same.
    let mut tags = Vec::new();
    for _ in 0..5 {
        let got = shop
            .channel
            .basic_get(DEAD.into(), BasicGetOptions::default())
            .await
            .unwrap();
        tags.push(got.unwrap().delivery.delivery_tag);
    }
    shop.channel
        .basic_ack(tags[4], BasicAckOptions::default())
        .await
        .unwrap();
    let all_before = BasicNackOptions {
        multiple: true,
        requeue: true,
    };
    shop.channel.basic_nack(tags[3], all_before).await.unwrap();
    shop.publish("", ORIGIN, BasicProperties::default().with_delivery_mode(2), "9")
        .await;
    shop.reject_all(ORIGIN).await;

    let grant = Access::Operator.grant("tester", None).unwrap();
    let refused = shop.stage.engine.execute(&plan, &grant).await.unwrap_err();
    assert!(refused.to_string().contains("stale"), "{refused}");
    let again = shop.stage.engine.plan(command).await.unwrap();
    assert_eq!((again.title, &again.lines), (plan.title, &plan.lines));
    assert_ne!(again.hash, plan.hash);
}
