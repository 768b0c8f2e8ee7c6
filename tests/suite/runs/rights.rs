//! A user who may read only some of the dead-letter queues: the others are a line of each plan, and stop nothing.

use serde_json::json;

use super::scene::{DEAD, ORIGIN, Scene, numbers};
use crate::support::servers::unique_name;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_cannot_be_read_is_one_line_of_the_plan_and_stops_nothing_else() {
    let mut scene = Scene::sqlite().await;
    scene.die(3).await;
    let (connection, channel) = scene.channel().await;
    scene.declare(&channel, "secret.dead", None).await;
    scene.declare(&channel, "secret", Some("secret.dead")).await;
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
