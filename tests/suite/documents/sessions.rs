//! A reader who types what a page says, block by block, in a home of its own. Ports, the address of the broker and the
//! program itself are those of the test; everything else is as it stands.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use lapin::options::{BasicPublishOptions, BasicRejectOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Connection, ConnectionProperties};
use regex::Regex;
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::blocks::{Block, Then, Use, blocks};
use crate::source;
use crate::support::daemon::free_port;
use crate::support::servers::{Vhost, scratch_directory};
use crate::support::wait::{wait_until, within};

/// The demonstration goes on for a minute.
const BLOCK_BOUND: Duration = Duration::from_mins(3);
const BOUND: Duration = Duration::from_mins(1);
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const BROKER: &str = "amqp://guest:guest@localhost/shop";

pub struct Session {
    home: TempDir,
    vhost: Vhost,
    ports: [(&'static str, u16); 3],
    terminals: BTreeMap<u32, Terminal>,
}

/// A program that goes on, and the file of what it prints.
struct Terminal {
    child: Child,
    prints: PathBuf,
}

impl Terminal {
    fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        if let Some(pid) = pid {
            let _ = kill_process_group(pid, signal);
        }
    }

    fn printed(&self) -> String {
        fs::read_to_string(&self.prints).unwrap_or_default()
    }

    /// What Ctrl-C does.
    async fn interrupt(mut self) -> Result<(), String> {
        self.signal(Signal::INT);
        let ended = within(BOUND, self.child.wait()).await;
        let ended = ended.map_err(|_| format!("does not end:\n{}", self.printed()))?;
        ended.map(drop).map_err(|error| error.to_string())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

impl Session {
    /// With a vhost where five messages of `orders` died.
    pub async fn open() -> Self {
        let home = scratch_directory();
        let bin = home.path().join("bin");
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_redrive"), bin.join("redrive")).unwrap();
        for name in ["examples", "credentials"] {
            fs::create_dir(home.path().join(name)).unwrap();
        }
        let vhost = Vhost::create().await;
        let orders = serde_json::json!({"durable": true, "arguments":
            {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.dlq"}});
        let path = format!("/api/queues/{}/orders", vhost.name);
        vhost.manage("PUT", &path, Some(&orders)).await;
        let amqp = vhost.amqp();
        let connection = Connection::connect(&amqp, ConnectionProperties::default());
        let connection = connection.await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let durable = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let declared = channel.queue_declare("orders.dlq".into(), durable, FieldTable::default());
        declared.await.unwrap();
        for number in 0..5 {
            let body = format!("{{\"order\": {number}}}");
            let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
            let published = channel.basic_publish("".into(), "orders".into(), options, body.as_bytes(), properties);
            published.await.unwrap().await.unwrap();
            let got = channel.basic_get("orders".into(), lapin::options::BasicGetOptions::default());
            let tag = got.await.unwrap().unwrap().delivery.delivery_tag;
            let rejected = BasicRejectOptions { requeue: false };
            channel.basic_reject(tag, rejected).await.unwrap();
        }
        let ports = ["8470", "9000", "9100"].map(|port| (port, free_port()));
        Self {
            home,
            vhost,
            ports,
            terminals: BTreeMap::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// The text with the addresses of this session.
    fn own(&self, text: &str) -> String {
        let mut text = text
            .replace(BROKER, &self.vhost.amqp())
            .replace("cargo run -- ", "redrive ")
            .replace("/run/credentials/", &format!("{}/", self.path("credentials").display()));
        for (port, own) in self.ports {
            let port = Regex::new(&format!(r"\b{port}\b")).unwrap();
            text = port.replace_all(&text, own.to_string()).into_owned();
        }
        text
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let bin = self.path("bin");
        let paths = std::env::var("PATH").unwrap();
        command.env_clear().env("PATH", format!("{}:{paths}", bin.display()));
        command.env("HOME", self.home.path()).env("USER", "reader");
        for name in ["REDRIVE_TEST_SCRATCH", "REDRIVE_TEST_PYTHON"] {
            command.envs(std::env::var(name).map(|value| (name, value)));
        }
        command
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    fn shell(&self, text: &str) -> Command {
        let mut command = self.command("bash");
        if text.contains(BROKER) {
            command.env("REDRIVE_MANAGEMENT_URL", &self.vhost.node.management);
        }
        command.args(["-euo", "pipefail", "-c", &self.own(text)]);
        command.process_group(0);
        command
    }

    /// Types a page from its beginning to its end.
    pub async fn type_page(&mut self, page: &str) -> Result<usize, String> {
        let blocks = blocks(page)?;
        let mut typed = 0;
        for block in &blocks {
            let at = |why: String| format!("line {}: {why}", block.line);
            typed += usize::from(self.type_block(block).await.map_err(at)?);
            for then in &block.then {
                self.comes(block, then).await;
            }
        }
        Ok(typed)
    }

    /// Whether there was something to do.
    async fn type_block(&mut self, block: &Block) -> Result<bool, String> {
        match (&block.is, block.language.as_str()) {
            (Use::NotRun, _) | (Use::Run, "text") => return Ok(false),
            (Use::Run, "sh") => match block.terminal() {
                Some(terminal) => self.start(terminal, &block.text).await?,
                None => drop(self.finish(&block.text).await?),
            },
            (Use::Typed, "sh" | "console") => self.read_commands(&block.text).await?,
            (Use::Run, "toml") => self.check_configuration(&block.text).await?,
            (_, language) => {
                return Err(format!(
                    "nobody knows how to run a block of {language:?}; say why it is not run"
                ));
            }
        }
        Ok(true)
    }

    async fn start(&mut self, number: u32, text: &str) -> Result<(), String> {
        if let Some(before) = self.terminals.remove(&number) {
            before.interrupt().await?;
        }
        let prints = self.path(&format!("terminal-{number}"));
        let file = File::create(&prints).unwrap();
        let mut command = self.shell(text);
        command.stdout(file.try_clone().unwrap()).stderr(file);
        let child = command.spawn().unwrap();
        let mut terminal = Terminal { child, prints };
        let began = wait_until(format!("{text} to listen"), BOUND, async || {
            let ended = terminal.child.try_wait().unwrap();
            let listens = terminal.printed().contains("listening on");
            (listens || ended.is_some()).then_some(ended)
        });
        if let Some(ended) = began.await {
            return Err(format!("{ended}: {}", terminal.printed()));
        }
        self.terminals.insert(number, terminal);
        Ok(())
    }

    /// What a block prints that ends by itself.
    async fn finish(&self, text: &str) -> Result<String, String> {
        let mut command = self.shell(text);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        ended(child).await
    }

    /// Each command with `--help` behind it: names and values are read, nothing is done.
    async fn read_commands(&self, text: &str) -> Result<(), String> {
        let lines = text.replace("\\\n", " ");
        let lines = lines.lines().map(|line| line.strip_prefix("$ ").unwrap_or(line));
        let mut read = 0;
        let comment = Regex::new(r"\s+#.*$").unwrap();
        for line in lines.filter(|line| line.starts_with("redrive ")) {
            self.finish(&format!("{} --help", comment.replace(line, ""))).await?;
            read += 1;
        }
        if read == 0 {
            return Err("no command of redrive in it".to_owned());
        }
        Ok(())
    }

    async fn check_configuration(&self, text: &str) -> Result<(), String> {
        let own = self.own(text);
        let file = self.path("examples/config.toml");
        write_private(&file, &own);
        let mut command = self.command("redrive");
        let value = |name: &str| match name {
            name if name.contains("WEBHOOK") => "https://chat.example/hook",
            name if name.contains("URL_HASH") => "0123456789abcdef0123456789abcdef",
            _ => SECRET,
        };
        for found in Regex::new(r#"env = "(\w+)""#).unwrap().captures_iter(&own) {
            command.env(&found[1], value(&found[1]));
        }
        for found in Regex::new(r#"file = "([^"]+)""#).unwrap().captures_iter(&own) {
            write_private(Path::new(&found[1]), SECRET);
        }
        command.arg("--config").arg(&file).args(["config", "check"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        ended(child).await.map(drop)
    }

    /// Waits for what is said to come; a block that prints it is typed again until it does.
    async fn comes(&self, block: &Block, then: &Then) {
        let prints = self.own(&then.prints);
        let what = format!("line {}: {then:?}", block.line);
        match then.terminal {
            Some(number) => {
                let terminal = &self.terminals[&number];
                wait_until(what, BOUND, async || terminal.printed().contains(&prints).then_some(())).await;
            }
            None => {
                wait_until(what, BOUND, async || {
                    let printed = self.finish(&block.text).await.ok()?;
                    printed.contains(&prints).then_some(())
                })
                .await;
            }
        }
    }
}

fn write_private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

async fn ended(child: Child) -> Result<String, String> {
    let output = within(BLOCK_BOUND, child.wait_with_output()).await;
    let output = output
        .map_err(|_| format!("did not end within {BLOCK_BOUND:?}"))?
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if ExitStatus::success(&output.status) {
        Ok(printed)
    } else {
        Err(format!("{}:\n{printed}", output.status))
    }
}

async fn typed(path: &str) -> usize {
    let page = fs::read_to_string(source::root().join(path)).unwrap();
    let mut session = Session::open().await;
    let typed = session.type_page(&page).await;
    typed.unwrap_or_else(|why| panic!("{path}, {why}"))
}

#[tokio::test]
async fn what_the_readme_says_works_as_it_stands() {
    let typed = typed("README.md").await;
    assert!(typed >= 10, "{typed}");
}

#[tokio::test]
async fn what_the_other_pages_say_works_as_it_stands() {
    let files = source::repository_files();
    let pages = files.iter().filter(|file| {
        file.path.starts_with("docs/")
            && std::path::Path::new(&file.path)
                .extension()
                .is_some_and(|end| end == "md")
    });
    let mut all = 0;
    for page in pages {
        if page.text.contains("```") || page.text.contains("\n\n    ") {
            all += typed(&page.path).await;
        }
    }
    assert!(all >= 10, "{all}");
}

/// Each of them has one letter that is not as it should be.
#[tokio::test]
async fn a_broken_letter_in_a_block_is_found() {
    let mut session = Session::open().await;
    for (page, why) in [
        ("```sh\nredrive queus\n```\n", "unrecognized subcommand"),
        ("```sh\nredrive queues --filter 'stat = parked'\n```\n", "stat"),
        (
            "<!-- typed: X -->\n```sh\nredrive dead shov ID\n```\n",
            "unrecognized subcommand",
        ),
        (
            "<!-- typed: X -->\n```sh\nredrive dead redrive --groop ID\n```\n",
            "unexpected argument",
        ),
        ("```toml\n[delivery]\nworker = 5\n```\n", "workers"),
        (
            "```sh\n# terminal 1\nredrive listen 9000 --statuss 503\n```\n",
            "unexpected argument",
        ),
        ("```python\nprint()\n```\n", "nobody knows how to run"),
    ] {
        let found = session.type_page(page).await.unwrap_err();
        assert!(found.contains(why), "{page}: {found}");
    }
}
