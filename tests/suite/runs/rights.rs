//! A user who may read only some of the dead-letter queues: the others are a line of each plan, and stop nothing.

use lapin::options::{BasicPublishOptions, ExchangeDeclareOptions, QueueBindOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, ExchangeKind};
use serde_json::{Value, json};

use super::scene::{BOUND, DEAD, ORIGIN, Scene, numbers};
use crate::support::servers::unique_name;
use crate::support::wait::wait_until;

/// The queue that may not be read.
const SECRET: &str = "secret.dead";

/// Three dead letters that may be read, one that may not, and whoever may not.
async fn limited() -> (Scene, String) {
    let mut scene = Scene::sqlite().await;
    scene.die(3).await;
    let (connection, channel) = scene.channel().await;
    scene.declare(&channel, SECRET, None).await;
    scene.declare(&channel, "secret", Some(SECRET)).await;
    super::scene::publish(&channel, "secret", 0..1).await;
    super::scene::reject(&channel, "secret", 1).await;
    connection.close(200, "done".into()).await.unwrap();
    let all_but_one = "^(?!secret).*$";
    let rights = json!({"configure": all_but_one, "write": ".*", "read": all_but_one});
    let user = with_rights(&mut scene, &rights).await;
    (scene, user)
}

/// From now on commands have no other rights.
async fn with_rights(scene: &mut Scene, rights: &Value) -> String {
    let user = unique_name("limited");
    let vhost = &scene.vhost;
    let login = json!({"password": "s3cret", "tags": "management"});
    vhost.manage("PUT", &format!("/api/users/{user}"), Some(&login)).await;
    vhost
        .manage("PUT", &format!("/api/permissions/{}/{user}", vhost.name), Some(rights))
        .await;
    let given = [
        ("url", scene.vhost.node.amqp.clone()),
        ("management_url", scene.vhost.node.management.clone()),
    ];
    for (key, given) in given {
        let mut url = url::Url::parse(&given).unwrap();
        url.set_username(&user).unwrap();
        url.set_password(Some("s3cret")).unwrap();
        scene.installation.set("broker", key, url.as_str());
    }
    user
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_cannot_be_read_is_one_line_of_the_plan_and_stops_nothing_else() {
    let (scene, user) = limited().await;
    let plan = scene
        .run(&["dead", "redrive", "--all", "--dry-run", "--json"])
        .await
        .expect_code(0)
        .json();
    assert_eq!(plan["messages"], 3, "{plan}");
    let warnings = plan["warnings"].to_string();
    assert_eq!(warnings.matches("not readable: secret.dead").count(), 1, "{plan}");
    scene.run(&["dead", "redrive", "--all", "--yes"]).await.expect_code(0);
    assert_eq!(numbers(&scene.take_all(ORIGIN).await), [0, 1, 2]);
    assert_eq!(scene.ready("secret.dead").await, Some(1));
    assert_eq!(scene.ready(DEAD).await, Some(0));
    scene.vhost.manage("DELETE", &format!("/api/users/{user}"), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_cannot_be_read_is_said_in_every_list_of_dead_letters_and_hides_nothing_else() {
    let (scene, user) = limited().await;
    for command in [
        &["dead", "list"][..],
        &["dead", "groups"],
        &["dead", "export"],
        &["handover"],
    ] {
        let told = scene.run(&[command, &["--json"]].concat()).await;
        let expected = if command.contains(&"export") { 69 } else { 0 };
        assert_eq!(told.code, Some(expected), "{command:?}: {told:?}");
        assert!(
            told.stdout.contains(ORIGIN),
            "{command:?} hides what may be read: {told:?}"
        );
        let said = told.stderr.lines().find(|line| line.contains(SECRET));
        let said = said.unwrap_or_else(|| panic!("{command:?} does not say what it lacks: {told:?}"));
        assert!(
            said.contains("\"problems\"") || command.contains(&"export"),
            "{command:?}: a program cannot read {said}"
        );
        assert!(said.contains("access to queue"), "{command:?} does not say why: {said}");
    }
    let mut daemon = scene.installation.daemon().await;
    for path in ["/v1/dead", "/v1/dead/groups", "/v1/dead/export", "/v1/handover"] {
        let said = wait_until(format!("{path} to say what it lacks"), BOUND, async || {
            let answer = daemon.get(path).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            Some(answer.text()).filter(|text| text.contains(SECRET) && text.contains(ORIGIN))
        })
        .await;
        assert!(said.contains("\"problems\""), "{path}: {said}");
    }
    let queues = daemon.get("/v1/queues?limit=1000").await.json();
    let names = queues["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|queue| queue["name"].as_str().unwrap());
    assert!(
        names.clone().any(|name| name == SECRET) && names.clone().any(|name| name == DEAD),
        "{queues}"
    );
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    scene.vhost.manage("DELETE", &format!("/api/users/{user}"), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_by_a_user_who_may_not_write_ends_and_says_so() {
    let mut scene = Scene::sqlite().await;
    scene.die(3).await;
    scene.run(&["dead", "discard", "--all", "--yes"]).await.expect_code(0);
    let rights = json!({"configure": ".*", "write": "^(?!amq\\.default$).*$", "read": ".*"});
    let user = with_rights(&mut scene, &rights).await;
    let restore = ["dead", "restore", "--all", "--yes", "--json"];
    let refused = scene.run(&restore).await;
    assert_ne!(refused.code, Some(0), "{refused:?}");
    let run = scene.newest_run().await;
    assert_eq!(run["state"], "failed", "{run}");
    assert!(run.to_string().contains("set_permissions"), "{run}");
    let vhost = &scene.vhost;
    let all = json!({"configure": ".*", "write": ".*", "read": ".*"});
    vhost
        .manage("PUT", &format!("/api/permissions/{}/{user}", vhost.name), Some(&all))
        .await;
    scene.resume(run["id"].as_str().unwrap()).await.expect_code(0);
    assert_eq!(scene.ready(DEAD).await, Some(3));
    vhost.manage("DELETE", &format!("/api/users/{user}"), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_routing_key_that_may_not_be_written_holds_up_nothing_behind_it() {
    let mut scene = Scene::sqlite().await;
    let (connection, channel) = scene.channel().await;
    let (options, table) = (ExchangeDeclareOptions::default(), FieldTable::default());
    let declaring = channel.exchange_declare("topics".into(), ExchangeKind::Topic, options, table.clone());
    declaring.await.unwrap();
    scene.declare(&channel, DEAD, None).await;
    scene.declare(&channel, ORIGIN, Some(DEAD)).await;
    let binding = channel.queue_bind(
        ORIGIN.into(),
        "topics".into(),
        "#".into(),
        QueueBindOptions::default(),
        table,
    );
    binding.await.unwrap();
    for (number, key) in ["ok.a", "no.b", "ok.c"].into_iter().enumerate() {
        let number = number.to_string();
        let options = BasicPublishOptions::default();
        let properties = BasicProperties::default();
        let sent = channel.basic_publish("topics".into(), key.into(), options, number.as_bytes(), properties);
        sent.await.unwrap();
    }
    super::scene::reject(&channel, ORIGIN, 3).await;
    wait_until("dead letters", BOUND, async || {
        (scene.ready(DEAD).await == Some(3)).then_some(())
    })
    .await;
    connection.close(200, "done".into()).await.unwrap();
    let all = json!({"configure": ".*", "write": ".*", "read": ".*"});
    let user = with_rights(&mut scene, &all).await;
    let topics = json!({"exchange": "topics", "write": "^ok\\.", "read": ".*"});
    let path = format!("/api/topic-permissions/{}/{user}", scene.vhost.name);
    scene.vhost.manage("PUT", &path, Some(&topics)).await;
    let redrive = ["dead", "redrive", "--all", "--via", "exchange", "--yes", "--json"];
    let run = scene.run(&redrive).await.expect_code(3).json();
    assert_eq!((&run["done"], &run["failed"]), (&2.into(), &1.into()), "{run}");
    // What was on its way when the broker closed the channel may come again.
    let mut sent = numbers(&scene.take_all(ORIGIN).await);
    sent.dedup();
    assert_eq!(sent, [0, 2]);
    let show = ["run", "show", run["id"].as_str().unwrap(), "--json"];
    let shown = scene.run(&show).await.expect_code(0).stdout;
    assert!(shown.contains("set_topic_permissions"), "{shown}");
    scene.vhost.manage("DELETE", &format!("/api/users/{user}"), None).await;
}
