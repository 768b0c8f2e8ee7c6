//! A user who may read only some of the dead-letter queues: the others are a line of each plan, and stop nothing.

use serde_json::json;

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
    let user = unique_name("limited");
    let vhost = &scene.vhost;
    let login = json!({"password": "s3cret", "tags": "management"});
    vhost.manage("PUT", &format!("/api/users/{user}"), Some(&login)).await;
    let all_but_one = "^(?!secret).*$";
    let rights = json!({"configure": all_but_one, "write": ".*", "read": all_but_one});
    vhost
        .manage("PUT", &format!("/api/permissions/{}/{user}", vhost.name), Some(&rights))
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
    (scene, user)
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
