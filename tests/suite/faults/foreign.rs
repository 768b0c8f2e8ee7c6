//! A publisher that is not redrive: the sample in `assets`.

use std::path::Path;
use std::process::Command;

use super::scene::Scene;
use crate::support::servers::variable;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_python_sample_publishes_is_delivered_in_order() {
    let scene = Scene::servers().await;
    let mut daemon = scene.installation.daemon().await;
    // The daemon's own configuration is the first that was written.
    let config = scene.installation.path("config-0.toml");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/publish.py");
    let redrive = format!("{} --config {}", env!("CARGO_BIN_EXE_redrive"), config.display());
    let (amqp, url) = (scene.vhost.as_ref().unwrap().amqp(), scene.receiver.url("/hook?ä=1"));
    let bodies: Vec<String> = (1..=20).map(|n| format!("{{\"n\": {n}}}")).collect();
    let mut command = Command::new(variable("REDRIVE_TEST_PYTHON"));
    command.arg(script).args(["--amqp", &amqp, "--redrive", &redrive]);
    command.args(["--execution", "run-1", "--url", &url, "--header", "X-Sample: yes"]);
    command.args(&bodies);
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    scene.delivered(20).await;
    let attempts = scene.receiver.attempts_of("/hook");
    let received: Vec<String> = attempts
        .iter()
        .map(|attempt| String::from_utf8_lossy(&attempt.body).into_owned())
        .collect();
    assert_eq!(received, bodies);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    for (line, attempt) in printed.lines().zip(&attempts) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["id"], attempt.id());
        assert_eq!(line["queue"], attempt.queue());
        assert_eq!(attempt.header("x-sample"), Some("yes"));
        assert_eq!(attempt.header("content-type"), Some("application/json"));
    }
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}
