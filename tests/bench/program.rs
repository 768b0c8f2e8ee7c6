//! The program itself as a daemon of its own, embedded, in a control group with a limit of memory where one is asked
//! for and can be made.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::numbers::p50_p99_ms;
use crate::receiver::{Receiver, time_us};
use crate::support::http::{Answer, Request};
use crate::support::servers::scratch_directory;

const READY_BOUND: Duration = Duration::from_secs(60);
const SMALL_BETWEEN: Duration = Duration::from_millis(20);

/// A control group of this process's own.
pub struct Group(PathBuf);

impl Group {
    /// `None` where none can be made: no right, or no such controller.
    pub fn create(limit_bytes: u64) -> Option<Self> {
        let name = format!("redrive-bench-{}", std::process::id());
        let second = Path::new("/sys/fs/cgroup/cgroup.controllers");
        let is_second = fs::read_to_string(second).is_ok_and(|text| text.split_whitespace().any(|one| one == "memory"));
        let (root, limit) = if is_second {
            let root = Path::new("/sys/fs/cgroup");
            fs::write(root.join("cgroup.subtree_control"), "+memory").ok()?;
            (root, "memory.max")
        } else {
            (Path::new("/sys/fs/cgroup/memory"), "memory.limit_in_bytes")
        };
        let group = Self(root.join(name));
        fs::create_dir(&group.0).ok()?;
        fs::write(group.0.join(limit), limit_bytes.to_string()).ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel takes a moment to notice that its processes are gone.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Servers that a daemon uses instead of what is embedded.
pub struct Backing {
    /// A PostgreSQL URL; `None`: a SQLite file of its own.
    pub store: Option<String>,
    pub broker: String,
    pub management: String,
}

/// A daemon; killed with this value.
pub struct Program {
    child: Child,
    api: String,
    token: String,
    directory: TempDir,
}

impl Program {
    /// `delivery`: further lines of that section.
    pub async fn start(delivery: &str, group: Option<&Group>) -> Self {
        Self::run(None, delivery, group).await
    }

    /// On servers.
    pub async fn backed(backing: &Backing) -> Self {
        Self::run(Some(backing), "", None).await
    }

    async fn run(backing: Option<&Backing>, delivery: &str, group: Option<&Group>) -> Self {
        let directory = scratch_directory();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let store = backing.and_then(|backing| backing.store.clone());
        let store = store.unwrap_or_else(|| format!("sqlite:{}", directory.path().join("store.db").display()));
        let broker = backing.map_or_else(
            || "url = \"embedded:\"".to_owned(),
            |one| format!("url = \"{}\"\nmanagement_url = \"{}\"", one.broker, one.management),
        );
        let text = format!(
            "[store]\nurl = \"{store}\"\n[broker]\n{broker}\n[api]\nlisten = \"127.0.0.1:{port}\"\n\
             [delivery]\nallow_networks = [\"127.0.0.0/8\"]\n{delivery}\n",
        );
        let config = directory.path().join("config.toml");
        fs::write(&config, text).unwrap();
        let mut command = Command::new("/bin/sh");
        let enter = group.map_or(String::new(), |group| {
            format!("echo $$ > {}/cgroup.procs && ", group.0.display())
        });
        command.args(["-c", &format!("{enter}exec \"$0\" \"$@\"")]);
        command
            .args([env!("CARGO_BIN_EXE_redrive"), "--daemon", "--config"])
            .arg(&config);
        for name in [
            "HOME",
            "XDG_DATA_HOME",
            "XDG_CONFIG_HOME",
            "XDG_STATE_HOME",
            "XDG_CACHE_HOME",
        ] {
            command.env(name, directory.path());
        }
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut program = Self {
            child,
            api: format!("http://127.0.0.1:{port}"),
            token: String::new(),
            directory,
        };
        let begun = Instant::now();
        while program.get("/readyz").await.is_none_or(|answer| answer.status != 200) {
            assert!(begun.elapsed() < READY_BOUND && program.is_alive(), "{}", program.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        program.token = fs::read_to_string(program.directory.path().join("redrive/api-token")).unwrap();
        program
    }

    /// Where its API is.
    pub fn api(&self) -> &str {
        &self.api
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    /// Nothing more is sent to the URL.
    pub async fn disable(&self, url: &str) {
        let request = self.request("POST", "/v1/endpoints/disable").json(&json!({"url": url}));
        let answer = request.send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    pub fn store(&self) -> PathBuf {
        self.directory.path().join("store.db")
    }

    /// Whether it was neither killed nor ended by itself.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// The most that was resident, in MiB; `None` when it is gone.
    pub fn resident_most_mib(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
    }

    fn request(&self, method: &str, path: &str) -> Request {
        let request = Request::new(method, &format!("{}{path}", self.api));
        request.header("authorization", &format!("Bearer {}", self.token))
    }

    /// `None` without an answer.
    pub async fn get(&self, path: &str) -> Option<Answer> {
        self.request("GET", path).try_send().await.ok()
    }

    /// The status of the answer, if there was one.
    pub async fn publish(&self, execution: &str, url: &str, body: &str) -> Option<u16> {
        let document = json!({"execution_id": execution, "url": url, "body": body});
        let answer = self
            .request("POST", "/v1/notifications")
            .json(&document)
            .try_send()
            .await;
        answer.ok().map(|answer| answer.status)
    }

    /// p99 in milliseconds from before the publish to the request of `count` small messages, one each 20 ms.
    pub async fn small_p99_ms(&self, receiver: &Receiver, count: usize) -> f64 {
        receiver.reset().await;
        for number in 0..count {
            let (execution, url) = (
                format!("small-{number}"),
                receiver.url(&format!("small/{}", number % 50)),
            );
            let body = format!("t={} {}", time_us(), "x".repeat(500));
            assert_eq!(self.publish(&execution, &url, &body).await, Some(202), "{}", self.log());
            tokio::time::sleep(SMALL_BETWEEN).await;
        }
        receiver.wait_for(count, Duration::from_secs(120)).await;
        p50_p99_ms(&receiver.seen().await.latencies_us).1
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
