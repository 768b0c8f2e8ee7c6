//! The built program: one-shot commands and daemons, each installation in a directory of its
//! own with its own configuration, home and data.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use super::described;
use super::http::{Answer, Request};
use super::servers::{Vhost, scratch_directory};
use super::wait::{wait_until, within};

/// Generous: a debug build on a machine that runs all tests at once.
const READY_BOUND: Duration = Duration::from_mins(1);
const COMMAND_BOUND: Duration = Duration::from_mins(2);
const EXIT_BOUND: Duration = Duration::from_mins(1);

/// Who runs these tests where, as the audit says it: `ana@db-7`.
pub fn who() -> String {
    let said = |program: &str, argument: &str| {
        let output = std::process::Command::new(program).arg(argument).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let host = said("uname", "-n");
    format!("{}@{}", said("id", "-un"), host.split('.').next().unwrap())
}

/// A configuration and a place to run it; several daemons and commands may share one.
pub struct Installation {
    directory: TempDir,
    /// What commands and daemons are: the built program, or one of another version.
    program: Mutex<PathBuf>,
    sections: BTreeMap<String, BTreeMap<String, String>>,
    /// Text behind the sections: tables such as `[[endpoint]]`.
    tail: String,
    environment: BTreeMap<String, String>,
    files: AtomicU64,
    /// Stores whose tables are made before a command runs; `None`: the test does that, or does not.
    migrated: Option<Mutex<BTreeSet<String>>>,
}

/// What a one-shot command left.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// None: ended by a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// The document that `--json` printed.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    /// Panics with both outputs if the exit code is another one.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }
}

impl Installation {
    /// Everything embedded, deliveries to loopback allowed.
    pub fn embedded() -> Self {
        let mut installation = Self {
            directory: scratch_directory(),
            program: Mutex::new(PathBuf::from(env!("CARGO_BIN_EXE_redrive"))),
            sections: BTreeMap::new(),
            tail: String::new(),
            environment: BTreeMap::new(),
            files: AtomicU64::new(0),
            migrated: Some(Mutex::default()),
        };
        let store = installation.path("store.db");
        installation.set("store", "url", format!("sqlite:{}", store.display()));
        installation.set("broker", "url", "embedded:");
        installation.set("delivery", "allow_networks", vec!["127.0.0.0/8"]);
        installation
    }

    /// Queues in `vhost`, the record in a SQLite file.
    pub fn on_rabbit(vhost: &Vhost) -> Self {
        let mut installation = Self::embedded();
        installation.set("broker", "url", vhost.node.amqp.as_str());
        installation.set("broker", "management_url", vhost.node.management.as_str());
        installation.set("broker", "vhost", vhost.name.as_str());
        installation
    }

    /// Queues in `vhost`, the record in a PostgreSQL database.
    pub fn on_servers(vhost: &Vhost, database_url: &str) -> Self {
        let mut installation = Self::on_rabbit(vhost);
        installation.set("store", "url", database_url);
        installation
    }

    /// Sets a key for what is started from now on.
    pub fn set(&mut self, section: &str, key: &str, value: impl Into<Value>) {
        let keys = self.sections.entry(section.to_owned()).or_default();
        keys.insert(key.to_owned(), toml_of(&value.into()));
    }

    /// Takes a key away again.
    pub fn unset(&mut self, section: &str, key: &str) {
        if let Some(keys) = self.sections.get_mut(section) {
            keys.remove(key);
        }
    }

    /// Appends text, such as an `[[endpoint]]` table.
    pub fn append(&mut self, text: &str) {
        self.tail += text;
        self.tail.push('\n');
    }

    /// Sets an environment variable for what is started from now on.
    pub fn set_environment(&mut self, name: &str, value: &str) {
        self.environment.insert(name.to_owned(), value.to_owned());
    }

    /// From now on commands and daemons are this program.
    pub fn set_program(&self, program: &Path) {
        program.clone_into(&mut self.program.lock().expect("nobody panics here"));
    }

    fn its_program(&self) -> PathBuf {
        self.program.lock().expect("nobody panics here").clone()
    }

    /// A path inside the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// From now on nobody makes the store's tables before a command runs.
    pub fn leave_the_store_as_it_is(&mut self) {
        self.migrated = None;
    }

    /// What makes the store's tables, once for each store: commands take a store as it is.
    fn migration(&self) -> Option<Command> {
        let store = self.sections.get("store").and_then(|keys| keys.get("url"))?;
        let mut migrated = self.migrated.as_ref()?.lock().expect("nobody panics here");
        if !migrated.insert(store.clone()) {
            return None;
        }
        let mut command = self.command(&self.write_config(&self.sections));
        command.args(["store", "migrate"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(command)
    }

    /// Runs a command to its end with nothing on standard input.
    pub async fn run(&self, arguments: &[&str]) -> Outcome {
        self.run_with_input(arguments, b"").await
    }

    pub async fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Outcome {
        if let Some(mut migration) = self.migration() {
            // A store that cannot be used is told of by the command itself.
            let _ = within(COMMAND_BOUND, migration.status()).await;
        }
        let config = self.write_config(&self.sections);
        let mut command = self.command(&config);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the built program");
        let mut stdin = child.stdin.take().expect("a pipe");
        let write = async move {
            // A command that does not read its input is free to end before it is written.
            let _ = stdin.write_all(input).await;
        };
        let both = async { tokio::join!(write, child.wait_with_output()).1 };
        let output = within(COMMAND_BOUND, both).await;
        let output = output.unwrap_or_else(|_| panic!("{arguments:?} did not end within {COMMAND_BOUND:?}"));
        let output = output.expect("its output");
        Outcome {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Starts a daemon and waits until it is ready.
    pub async fn daemon(&self) -> Daemon {
        let mut daemon = self.spawn_daemon();
        daemon.wait_until_ready().await;
        daemon
    }

    /// Starts a daemon with a port of its own for its API, and does not wait.
    pub fn spawn_daemon(&self) -> Daemon {
        self.spawn_daemon_as(Command::new(self.its_program()))
    }

    /// The same from a shell that says `first` before it becomes the daemon: a limit, a trap.
    pub fn spawn_daemon_after(&self, first: &str) -> Daemon {
        let mut shell = Command::new("/bin/sh");
        let script = format!("{first}; exec \"$0\" \"$@\"");
        shell.args(["-c", &script]).arg(self.its_program());
        self.spawn_daemon_as(shell)
    }

    /// Starts a daemon where one was before (`http://127.0.0.1:PORT`), and waits until it is ready.
    pub async fn daemon_at(&self, api: &str) -> Daemon {
        let address = api.strip_prefix("http://").expect("its address");
        let mut daemon = self.spawn_daemon_on(Command::new(self.its_program()), address);
        daemon.wait_until_ready().await;
        daemon
    }

    fn spawn_daemon_as(&self, program: Command) -> Daemon {
        self.spawn_daemon_on(program, &format!("127.0.0.1:{}", free_port()))
    }

    fn spawn_daemon_on(&self, program: Command, address: &str) -> Daemon {
        let mut sections = self.sections.clone();
        let api = sections.entry("api".to_owned()).or_default();
        api.insert("listen".to_owned(), toml_of(&address.into()));
        let config = self.write_config(&sections);
        let log = config.with_extension("log");
        let mut command = self.prepared(program, &config);
        command.arg("--daemon").stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&log).expect("a log file"));
        let child = command.spawn().expect("the built program");
        Daemon {
            child,
            api: format!("http://{address}"),
            token: None,
            made_token: self.path("redrive/api-token"),
            log,
        }
    }

    /// The program with these arguments, for whoever starts it otherwise than here.
    pub fn program(&self, arguments: &[&str]) -> std::process::Command {
        if let Some(migration) = self.migration() {
            let _ = migration.into_std().status();
        }
        let config = self.write_config(&self.sections);
        let mut command = self.command(&config);
        command.args(arguments);
        command.into_std()
    }

    /// A new file each time: a running daemon's file stays as it read it.
    fn write_config(&self, sections: &BTreeMap<String, BTreeMap<String, String>>) -> PathBuf {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let path = self.path(&format!("config-{number}.toml"));
        fs::write(&path, render(sections, &self.tail)).expect("own directory");
        path
    }

    fn command(&self, config: &Path) -> Command {
        self.prepared(Command::new(self.its_program()), config)
    }

    fn prepared(&self, mut command: Command, config: &Path) -> Command {
        // Nothing of the caller's own installation.
        for name in ["REDRIVE_CONFIG", "REDRIVE_STORE_URL", "REDRIVE_BROKER_URL"] {
            command.env_remove(name);
        }
        for name in ["REDRIVE_MANAGEMENT_URL", "REDRIVE_API_TOKEN"] {
            command.env_remove(name);
        }
        for name in [
            "HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "XDG_STATE_HOME",
            "XDG_CACHE_HOME",
        ] {
            command.env(name, self.directory.path());
        }
        command.envs(&self.environment).arg("--config").arg(config);
        command.current_dir(self.directory.path()).kill_on_drop(true);
        command
    }
}

fn render(sections: &BTreeMap<String, BTreeMap<String, String>>, tail: &str) -> String {
    let section = |(name, keys): (&String, &BTreeMap<String, String>)| {
        let lines: Vec<String> = keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        format!("[{name}]\n{}\n", lines.concat())
    };
    let text: Vec<String> = sections.iter().map(section).collect();
    text.concat() + tail
}

/// Scalars and arrays are written alike in JSON and TOML.
fn toml_of(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let field = |(key, value)| format!("{} = {}", Value::from(String::as_str(key)), toml_of(value));
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(toml_of).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Null => panic!("TOML has no null"),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// A port that nothing listens on, and that no connection is given and no other test: from below the range of
/// ports that the system gives.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(97);
    loop {
        let next = begin.wrapping_add(GIVEN.fetch_add(1, Ordering::SeqCst));
        let port = u16::try_from(20_000 + next % 12_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A running daemon; killed with this value.
pub struct Daemon {
    child: Child,
    /// `http://127.0.0.1:PORT`.
    pub api: String,
    /// Sent as the bearer token of `get`, `post` and the others; without one, what the daemon made.
    pub token: Option<String>,
    made_token: PathBuf,
    log: PathBuf,
}

impl Daemon {
    /// Until `/readyz` answers 200; panics with the log when the daemon ends instead.
    pub async fn wait_until_ready(&mut self) {
        let look = async || {
            assert!(
                self.exited().is_none(),
                "the daemon ended: {:?}\n{}",
                self.exited(),
                self.log()
            );
            let answer = Request::new("GET", &format!("{}/readyz", self.api)).try_send().await;
            answer.is_ok_and(|answer| answer.status == 200).then_some(())
        };
        wait_until("a ready daemon", READY_BOUND, look).await;
        // Its directory may be gone when it is asked for something.
        self.token = self.token.take().or_else(|| fs::read_to_string(&self.made_token).ok());
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.request("GET", path).send().await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.request("POST", path).json(body).send().await
    }

    /// Any other request to the API.
    pub fn request(&self, method: &str, path: &str) -> Request {
        let request = Request::new(method, &format!("{}{path}", self.api)).looked_at_by(described::check);
        match self.token.clone().or_else(|| fs::read_to_string(&self.made_token).ok()) {
            Some(token) => request.header("authorization", &format!("Bearer {token}")),
            None => request,
        }
    }

    /// What it wrote on standard error up to now.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// None while it runs.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("own child")
    }

    /// SIGKILL; returns when it is gone.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("own child");
    }

    /// SIGSTOP.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGTERM, without waiting.
    pub fn signal_stop(&self) {
        self.signal(Signal::TERM);
    }

    /// SIGHUP, without waiting: the terminal that it was started in is closed.
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// SIGTERM; returns its exit code once it is gone, None if a signal ended it.
    pub async fn stop(&mut self) -> Option<i32> {
        self.signal_stop();
        self.wait().await.code()
    }

    /// Until it has ended by itself.
    pub async fn wait(&mut self) -> ExitStatus {
        let ended = within(EXIT_BOUND, self.child.wait()).await;
        let ended = ended.unwrap_or_else(|_| {
            let threads = self.threads().join("\n");
            panic!(
                "the daemon did not end within {EXIT_BOUND:?}\n{threads}\n{}",
                self.log()
            )
        });
        ended.expect("own child")
    }

    /// Its threads: name, state, and where in the kernel each waits.
    fn threads(&self) -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten();
        let threads = tasks.flatten().map(|task| {
            let said = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
            let status = said("status");
            let state = status
                .lines()
                .find(|line| line.starts_with("State:"))
                .unwrap_or_default();
            format!(
                "{} {state} {} {}",
                said("comm").trim(),
                said("wchan"),
                said("syscall").trim()
            )
        });
        threads.collect()
    }

    /// In bytes, from `/proc`.
    pub fn resident_memory(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The most that it ever was, in bytes.
    pub fn resident_memory_most(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("a running daemon");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .expect("a running daemon");
        let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kibibytes * 1024
    }

    pub fn pid(&self) -> u32 {
        self.child.id().expect("a daemon that has not been waited for")
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid())
            .ok()
            .and_then(Pid::from_raw)
            .expect("a process id");
        kill_process(pid, signal).expect("own child");
    }
}

impl Drop for Daemon {
    #[expect(clippy::print_stderr, reason = "a failed test shows what its daemon said")]
    fn drop(&mut self) {
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(80)..].join("\n");
            eprintln!("--- the end of the log of the daemon at {}\n{last}\n---", self.api);
        }
    }
}

mod tests {
    use serde_json::json;

    use super::{BTreeMap, Installation, render};

    #[test]
    fn a_configuration_is_valid_toml_whatever_the_values() {
        let mut installation = Installation::embedded();
        installation.set("store", "url", "quote \" and \\ backslash");
        installation.set("delivery", "workers", 8);
        installation.set("delivery", "retry_policy", json!({"minimum_delay": 1, "steps": [1.5]}));
        installation.append("[[endpoint]]\nurl = \"http://127.0.0.1/\"");
        let text = render(&installation.sections, &installation.tail);
        let parsed: toml::Table = text.parse().unwrap();
        assert_eq!(parsed["store"]["url"].as_str(), Some("quote \" and \\ backslash"));
        assert_eq!(parsed["delivery"]["workers"].as_integer(), Some(8));
        assert_eq!(parsed["delivery"]["allow_networks"][0].as_str(), Some("127.0.0.0/8"));
        assert_eq!(parsed["endpoint"][0]["url"].as_str(), Some("http://127.0.0.1/"));
        assert_eq!(render(&BTreeMap::new(), ""), "");
    }

    #[tokio::test]
    async fn the_built_program_runs_to_its_end() {
        let outcome = Installation::embedded()
            .run_with_input(&["--version"], b"ignored")
            .await;
        assert!(outcome.code.is_some(), "{outcome:?}");
    }
}
