//! Tasks that a real Celery worker rejects are found in their dead-letter queue by task and id, and go back to the worker.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lapin::ExchangeKind;
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions};
use lapin::types::FieldTable;
use serde_json::json;

use super::scene::{BOUND, Scene};
use crate::support::not_run;
use crate::support::wait::wait_until;

const TASKS: &str = "celery_tasks";

/// An interpreter with Celery. Where there is none nothing is tested, and a run that has to test everything fails.
fn python() -> Option<String> {
    let python = std::env::var("REDRIVE_TEST_CELERY").ok();
    if python.is_none() {
        not_run("Celery (Debian and Ubuntu: apt-get install python3-celery)");
    }
    python
}

struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Shop {
    python: String,
    amqp: String,
    /// Tasks are handled well once it is there.
    passes: PathBuf,
    /// The orders of tasks that were handled.
    done: PathBuf,
}

impl Shop {
    fn python(&self) -> Command {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/runs");
        let mut command = Command::new(&self.python);
        command
            .current_dir(&folder)
            .env("AMQP", &self.amqp)
            .env("PASSES", &self.passes)
            .env("DONE", &self.done)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null());
        command
    }

    /// The ids of tasks for these orders.
    async fn send(&self, orders: &[&str]) -> Vec<String> {
        let mut command = self.python();
        command.arg(format!("{TASKS}.py")).args(orders);
        let sent = tokio::task::spawn_blocking(move || command.output())
            .await
            .unwrap()
            .unwrap();
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
        let printed = String::from_utf8(sent.stdout).unwrap();
        printed.lines().map(str::to_owned).collect()
    }

    fn worker(&self) -> Worker {
        let mut command = self.python();
        command.args([
            "-m",
            "celery",
            "-A",
            TASKS,
            "worker",
            "--pool",
            "solo",
            "--concurrency",
            "1",
        ]);
        command.args(["--without-gossip", "--without-mingle", "--without-heartbeat"]);
        Worker(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

/// The dead-letter exchange that the application names, and a queue behind it.
async fn grave(scene: &Scene) {
    let (connection, channel) = scene.channel().await;
    scene.declare(&channel, "tasks.dead", None).await;
    let durable = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let made = channel.exchange_declare(
        "tasks.dead".into(),
        ExchangeKind::Fanout,
        durable,
        FieldTable::default(),
    );
    made.await.unwrap();
    let bound = channel.queue_bind(
        "tasks.dead".into(),
        "tasks.dead".into(),
        "".into(),
        QueueBindOptions::default(),
        FieldTable::default(),
    );
    bound.await.unwrap();
    connection.close(200, "done".into()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_a_celery_worker_rejects_are_listed_by_task_and_id_and_the_worker_runs_them_when_they_are_redriven()
{
    let Some(python) = python() else { return };
    let scene = Scene::sqlite().await;
    grave(&scene).await;
    let shop = Shop {
        python,
        amqp: scene.vhost.amqp(),
        passes: scene.installation.path("passes"),
        done: scene.installation.path("done"),
    };
    let mut ids = shop.send(&["7", "8"]).await;
    let _worker = shop.worker();
    wait_until("both tasks to be rejected", BOUND, async || {
        (scene.ready("tasks.dead").await == Some(2)).then_some(())
    })
    .await;

    let groups = scene.run(&["dead", "groups", "--json"]).await.expect_code(0).json();
    let groups = groups.as_array().unwrap();
    assert_eq!((groups.len(), &groups[0]["count"]), (1, &json!(2)), "{groups:?}");
    assert!(
        groups[0]["what"].as_str().unwrap().contains("shop.charge"),
        "{groups:?}"
    );
    let letters = scene.run(&["dead", "list", "--json"]).await.expect_code(0).json();
    let letters = letters.as_array().unwrap().iter();
    let mut listed: Vec<String> = letters
        .map(|one| one["message_id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    listed.sort();
    assert_eq!(listed, ids);

    std::fs::write(&shop.passes, "").unwrap();
    scene.run(&["dead", "redrive", "--all", "--yes"]).await.expect_code(0);
    let done = wait_until("the worker to run both", BOUND, async || {
        let text = std::fs::read_to_string(&shop.done).ok()?;
        let mut orders: Vec<String> = text.lines().map(str::to_owned).collect();
        orders.sort();
        (orders.len() >= 2).then_some(orders)
    })
    .await;
    assert_eq!(done, ["7", "8"]);
    assert_eq!(scene.ready("tasks.dead").await, Some(0));
}
