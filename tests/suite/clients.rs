//! The description of the API is clean, and the client packages that are made from it work against a daemon.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::source;
use crate::support::daemon::{Daemon, Installation};
use crate::support::not_run;
use crate::support::servers::scratch_directory;

/// The exit code that says that the generators cannot be had.
const NO_GENERATORS: i32 = 3;

const PYTHON: &str = r#"
import os
from redrive_client import AuthenticatedClient
from redrive_client.api.publishing import post_notifications
from redrive_client.api.queues import get_queues
from redrive_client.models import NewNotification

client = AuthenticatedClient(base_url=os.environ["API"], token=os.environ["TOKEN"], raise_on_unexpected_status=True)
new = NewNotification.from_dict({"execution_id": "from-python", "url": "http://127.0.0.1:9/hook", "body": "hello"})
published = post_notifications.sync(client=client, body=new)
queues = get_queues.sync(client=client)
[queue] = [queue for queue in queues.items if queue.execution_id == "from-python"]
print(published.queue == queue.name, queue.ready + queue.unacked)
"#;

const TYPESCRIPT: &str = r#"
import { redrive } from "./dist/index.js";

const client = redrive(process.env.API, process.env.TOKEN);
const published = await client.POST("/v1/notifications", {
  body: { execution_id: "from-typescript", url: "http://127.0.0.1:9/hook", body: "hello" },
});
const queues = await client.GET("/v1/queues", {});
const [queue] = queues.data.items.filter((queue) => queue.execution_id === "from-typescript");
console.log(published.data.queue === queue.name, queue.ready + queue.unacked);
"#;

/// What does not fit the description is no TypeScript.
const MISTYPED: &str = r#"
import { redrive } from "./dist/index.js";
redrive("", "").POST("/v1/notifications", { body: { execution: "a", url: "b" } });
"#;

struct Made {
    folder: PathBuf,
    tools: PathBuf,
}

/// `None`: the generators cannot be had here.
async fn made(daemon: &Daemon, folder: &Path) -> Option<Made> {
    let document = folder.join("openapi.json");
    let described = daemon.get("/openapi.json").await;
    assert_eq!(described.status, 200);
    fs::write(&document, described.text()).unwrap();
    let made = folder.join("clients");
    let mut command = Command::new(source::root().join("assets/packaging/clients"));
    let output = command.arg(&document).arg(&made).output().unwrap();
    if output.status.code() == Some(NO_GENERATORS) {
        not_run("package registry that has the generators of clients");
        return None;
    }
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    // Lines of JSON are read as they come: no client has them as one answer.
    let unread: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("WARNING parsing"))
        .collect();
    assert_eq!(unread, ["WARNING parsing GET /v1/dead/export within dead."], "{said}");
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"));
    Some(Made {
        folder: made,
        tools: cache.join("redrive-tools/clients"),
    })
}

fn said(mut command: Command, daemon: &Daemon) -> Output {
    command
        .env("API", &daemon.api)
        .env("TOKEN", daemon.token.as_deref().unwrap());
    command.output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_in_python_and_typescript_publish_and_list() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    let folder = scratch_directory();
    let Some(made) = made(&daemon, folder.path()).await else {
        return;
    };

    let mut python = Command::new(made.tools.join("python/bin/python"));
    python.args(["-c", PYTHON]).current_dir(made.folder.join("python"));
    let python = said(python, &daemon);
    assert_eq!(String::from_utf8_lossy(&python.stdout), "True 1\n", "{python:?}");

    let mut dubious: serde_json::Value = daemon.get("/openapi.json").await.json();
    dubious["paths"]["/v1/queues"]["get"]["responses"] = serde_json::json!({});
    let document = folder.path().join("dubious.json");
    fs::write(&document, dubious.to_string()).unwrap();
    let mut checking = Command::new(source::root().join("assets/packaging/clients"));
    let checked = checking
        .arg(&document)
        .arg(folder.path().join("none"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&checked.stderr);
    assert!(
        !checked.status.success() && told.contains("is not clean") && told.contains("queues"),
        "{told}"
    );

    let typescript = made.folder.join("typescript");
    std::os::unix::fs::symlink(made.tools.join("node_modules"), typescript.join("node_modules")).unwrap();
    fs::write(typescript.join("try.mjs"), TYPESCRIPT).unwrap();
    let mut node = Command::new("node");
    node.arg("try.mjs").current_dir(&typescript);
    let node = said(node, &daemon);
    assert_eq!(String::from_utf8_lossy(&node.stdout), "true 1\n", "{node:?}");

    fs::write(typescript.join("mistyped.ts"), MISTYPED).unwrap();
    let mut compiler = Command::new(made.tools.join("node_modules/.bin/tsc"));
    compiler.args([
        "--noEmit",
        "--module",
        "nodenext",
        "--target",
        "es2022",
        "--strict",
        "--skipLibCheck",
    ]);
    let compiled = compiler.arg("mistyped.ts").current_dir(&typescript).output().unwrap();
    let told = String::from_utf8_lossy(&compiled.stdout);
    assert!(told.contains("mistyped.ts(3") && told.contains("execution"), "{told}");
}
