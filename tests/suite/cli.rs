//! The command line from outside: what is typed → what is printed, and the exit code.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::daemon::Installation;
use crate::support::wait::wait_until;

/// The program with nothing of this machine around it: its own home, no variables of ours.
struct Program {
    home: TempDir,
}

impl Program {
    fn new() -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> &Path {
        self.home.path()
    }

    fn with_config(text: &str) -> Self {
        let program = Self::new();
        let directory = program.path().join("config/redrive");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("config.toml"), text).unwrap();
        program
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        command
            .args(arguments)
            .env_clear()
            .env("XDG_CONFIG_HOME", self.path().join("config"))
            .env("XDG_DATA_HOME", self.path().join("data"))
            .env("HOME", self.path())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(&self.command(arguments).output().unwrap())
    }
}

#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout.clone()).unwrap(),
            err: String::from_utf8(output.stderr.clone()).unwrap(),
        }
    }

    fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

const TARGET: [&str; 4] = ["--execution", "run-1", "--url", "http://example.com/hook"];

fn publish<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["publish"], &TARGET[..], more].concat()
}

#[test]
fn help_is_no_failure_and_every_command_has_one() {
    let program = Program::new();
    let help = program.run(&["--help"]).ends(0);
    for command in [
        "publish",
        "queues",
        "queue",
        "endpoints",
        "redeliver",
        "doctor",
        "config",
    ] {
        assert!(help.out.contains(command), "{command}");
        let own = program.run(&[command, "--help"]).ends(0);
        assert!(own.out.contains("Usage:"), "{command}");
    }
}

#[test]
fn a_table_has_the_columns_that_are_asked_for_and_no_headings_where_nobody_wants_them() {
    let program = Program::new();
    let names = program
        .run(&["theme", "list", "--columns", "theme", "--no-headers"])
        .ends(0);
    let lines: Vec<&str> = names.out.lines().collect();
    assert!(
        lines.contains(&"dark") && lines.iter().all(|line| !line.contains(' ')),
        "{names:?}"
    );
    let both = program.run(&["theme", "list", "--columns", "from,theme"]).ends(0);
    assert!(
        both.out.starts_with("from ") && both.out.contains("theme\n"),
        "{both:?}"
    );
    let wrong = program.run(&["theme", "list", "--columns", "colour"]).ends(2);
    assert!(wrong.err.contains("there are theme, colours, from"), "{wrong:?}");
}

#[test]
fn help_tells_the_filters_and_keeps_the_options_of_every_command_apart() {
    let program = Program::new();
    let filters = program.run(&["help", "filters"]).ends(0);
    let printed = program.run(&["filters"]).ends(0);
    for text in [&filters.out, &printed.out] {
        for part in [
            "Fields of queues:",
            "  depth            a number",
            "body./POINTER",
            "error ~ /5\\d\\d/",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
    }
    let check = program.run(&["config", "check", "--help"]).ends(0);
    let (own, global) = check.out.split_once("Global options:").unwrap();
    assert!(
        !own.contains("--config") && global.contains("--config") && global.contains("--json"),
        "{check:?}"
    );
    // It prints no table and changes nothing.
    for option in ["--columns", "--dry-run", "--yes"] {
        assert!(!check.out.contains(option), "{check:?}");
    }
    let list = program.run(&["queues", "--help"]).ends(0);
    assert!(
        list.out.contains("--columns") && !list.out.contains("--yes"),
        "{list:?}"
    );
}

#[test]
fn every_command_has_a_page_of_the_manual() {
    let program = Program::new();
    let page = program.run(&["man", "queue", "why"]).ends(0);
    assert!(page.out.contains(".TH redrive-queue-why 1"), "{page:?}");
    assert!(
        page.out.contains(".SH EXAMPLES") && page.out.contains("queue why order"),
        "{page:?}"
    );
    let whole = program.run(&["man"]).ends(0);
    for section in ["\"EXIT STATUS\"", "ENVIRONMENT", "FILES", "EXAMPLES"] {
        assert!(whole.out.contains(&format!(".SH {section}")), "{section}: {whole:?}");
    }
    let folder = program.path().join("pages");
    std::fs::create_dir(&folder).unwrap();
    program.run(&["man", "--out", folder.to_str().unwrap()]).ends(0);
    let named = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert!(named("redrive.1").contains("REDRIVE_BROKER_URL"));
    for (command, ..) in redrive::internals::cli::COMMANDS {
        let text = named(&format!("redrive-{}.1", command.replace(' ', "-")));
        assert!(text.contains(".SH EXAMPLES"), "{command}: {text}");
    }
    let wrong = program.run(&["man", "queue", "wy"]).ends(2);
    assert!(wrong.err.contains("\"queue wy\" is no command"), "{wrong:?}");
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_is_possible() {
    let program = Program::new();
    for wrong in [
        &["quues"][..],
        &["queue"],
        &["publish"],
        &["queues", "--limit", "0"],
        &["redeliver"],
        &["dead", "discard", "--all", "--to", "q"],
        &["dead", "restore", "--all", "--head"],
        &["queues", "--quiet", "--verbose"],
    ] {
        let ran = program.run(wrong).ends(2);
        assert!(!ran.err.is_empty() && ran.out.is_empty(), "{wrong:?}: {ran:?}");
    }
    let console = program.run(&[]).ends(2);
    assert!(
        console.err.contains("redrive --daemon") && console.err.contains("redrive queues"),
        "{console:?}"
    );
    let url = program.run(&["endpoint", "show", "ftp://example.com"]).ends(2);
    assert!(url.err.contains("url"), "{url:?}");
}

#[test]
fn a_configuration_is_checked_with_the_field_and_the_nearest_key() {
    Program::new().run(&["config", "check"]).ends(0);
    let wrong = Program::with_config("[delivery]\nworker = 3\n")
        .run(&["config", "check"])
        .ends(78);
    assert!(
        wrong.err.contains("delivery.worker") && wrong.err.contains("delivery.workers"),
        "{wrong:?}"
    );
    let also = Program::with_config("[delivery]\nworkers = 0\n")
        .run(&["queues"])
        .ends(78);
    assert!(also.err.contains("delivery.workers"), "{also:?}");
    let theme = Program::with_config("[console]\ntheme = \"drak\"\n")
        .run(&["config", "check"])
        .ends(78);
    assert!(theme.err.contains("drak") && theme.err.contains("dark"), "{theme:?}");
    let keys = Program::with_config("[console]\nkeys = { quiit = \"x\" }\n")
        .run(&["config", "check"])
        .ends(78);
    assert!(keys.err.contains("quiit") && keys.err.contains("quit"), "{keys:?}");
    let tls = "[api]\ntls = { certificate = \"/nowhere/api.pem\", key = \"/nowhere/api.key\" }\n";
    let files = Program::with_config(tls).run(&["config", "check"]).ends(78);
    assert!(
        files.err.contains("api.tls.certificate is \"/nowhere/api.pem\"") && files.err.contains("PEM file"),
        "{files:?}"
    );
    let open = Program::with_config("[api]\nlisten = \"0.0.0.0:0\"\n")
        .run(&["--daemon"])
        .ends(78);
    assert!(open.err.contains("api.tokens"), "{open:?}");
}

#[test]
fn a_certificate_of_its_own_that_ended_is_told_before_clients_turn_away() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cert.pem");
    let mut own = rcgen::CertificateParams::new(Vec::new()).unwrap();
    own.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let own = own.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    std::fs::write(&path, own.pem()).unwrap();
    let tls = format!("[api]\ntls = {{ certificate = {path:?}, key = {path:?} }}\n");
    let checked = Program::with_config(&tls).run(&["config", "check"]).ends(0).err;
    let program = Program::with_config(&tls);
    let doctor = program.run(&["doctor", "--columns", "result,found", "--no-headers"]);
    for (told, begins) in [(checked, "warning: "), (doctor.ends(1).out, "broken ")] {
        let line = told.lines().find(|line| line.contains("api.tls.certificate")).unwrap();
        assert!(line.starts_with(begins) && line.contains(" ended "), "{told}");
    }
}

#[test]
fn the_template_is_a_valid_configuration_and_is_never_written_over_a_file() {
    let program = Program::new();
    let printed = program.run(&["config", "init"]).ends(0).out;
    let file = program.path().join("new.toml");
    let name = file.to_str().unwrap();
    program.run(&["config", "init", name]).ends(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), printed);
    program.run(&["--config", name, "config", "check"]).ends(0);
    program.run(&["config", "init", name]).ends(1);
    let effective = program.run(&["config", "print", "--json"]).ends(0).json();
    assert!(effective["delivery"]["workers"].is_number(), "{effective}");
}

#[test]
fn a_queue_name_comes_with_everything_that_a_foreign_publisher_needs() {
    let program = Program::new();
    let arguments = [&["queue-name", "--json"], &TARGET[..]].concat();
    let answer = program.run(&arguments).ends(0).json();
    let queue = answer["queue"].as_str().unwrap();
    assert!(
        queue.starts_with("redrive.run-1.") && queue.len() == "redrive.run-1.".len() + 32,
        "{queue}"
    );
    assert_eq!(answer["routing_key"], answer["queue"]);
    assert_eq!(answer["wake_key"], "wake");
    assert_eq!(answer["declare"]["durable"], true);
    let classic = serde_json::json!({"x-queue-type": "classic", "x-single-active-consumer": true});
    assert_eq!(answer["arguments"], classic);
    let quorum = Program::with_config("[broker]\nqueue_type = \"quorum\"\n")
        .run(&arguments)
        .ends(0)
        .json();
    assert_ne!(quorum["exchange"], answer["exchange"]);
    assert!(quorum["arguments"]["x-delivery-limit"].as_u64().unwrap() > 1_000_000);
}

#[test]
fn a_policy_preview_shows_the_schedule_or_the_error_with_its_field() {
    let program = Program::new();
    let preview = program.run(&["policy", "preview", "{}", "--json"]).ends(0).json();
    assert_eq!(
        (preview["retries"].as_u64(), preview["attempts"].as_u64()),
        (Some(15), Some(16))
    );
    let wrong = program
        .run(&["policy", "preview", r#"{"minimum_dealy": 1}"#])
        .ends(1)
        .json();
    assert_eq!(wrong["error"]["field"], "minimum_dealy");
    assert_eq!(wrong["error"]["nearest"], "minimum_delay");
}

#[test]
fn the_built_in_policy_is_shown_and_covers_a_day_while_an_empty_one_is_the_seeds() {
    let program = Program::new();
    let built_in = program.run(&["policy", "show", "--default", "--json"]).ends(0).json();
    assert!(built_in["total_s"].as_u64().unwrap() >= 24 * 3600, "{built_in}");
    assert_eq!(built_in["policy"]["on_exhausted"], "park");
    let drawn = program.run(&["policy", "show", "--default"]).ends(0).out;
    assert!(drawn.contains("44 attempts within 1 d 1 h 6 min 48 s"), "{drawn}");
    let of = |text: &str| {
        let program = Program::with_config(text);
        program.run(&["config", "print"]).ends(0).out
    };
    let (none, empty) = (of(""), of("[delivery.retry_policy]\n"));
    assert!(none.contains("maximum_delay = 3600"), "{none}");
    assert!(
        empty.contains("maximum_delay = 30\n") || empty.contains("maximum_delay = 30,"),
        "{empty}"
    );
    let both = program.run(&["policy", "show", "--default", "--type", "t"]);
    assert!(both.ends(2).err.contains("--default"));
}

/// What is wrong with a notification is not mended by repeating it with its id.
#[test]
fn a_publish_that_is_wrong_says_only_what_is_wrong() {
    let program = Program::new();
    for (wrong, field) in [
        (&["--header", "bad name: 1"][..], "header"),
        (&["--restart-count", "1001"], "restart"),
        (&["--restart-count", "4000000000"], "restart"),
    ] {
        let told = program.run(&publish(wrong)).ends(2).err;
        assert!(told.to_lowercase().contains(field), "{told}");
        assert!(!told.contains("not confirmed"), "{told}");
    }
}

#[test]
fn completions_and_the_manual_page_are_printed() {
    let program = Program::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            program.run(&["completions", shell]).ends(0).out.contains("redrive"),
            "{shell}"
        );
    }
    assert!(program.run(&["man"]).ends(0).out.contains(".TH redrive"));
}

#[test]
fn what_nobody_reads_is_no_panic() {
    let program = Program::new();
    let mut child = program
        .command(&["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ran = Ran::of(&child.wait_with_output().unwrap()).ends(0);
    assert_eq!(ran.err, "");
}

#[test]
fn a_read_only_process_changes_nothing_and_says_so_before_anything_is_opened() {
    let program = Program::new();
    for command in [
        publish(&["--read-only"]),
        vec!["--read-only", "queue", "purge", "q", "--yes"],
    ] {
        let ran = program.run(&command).ends(5);
        assert!(ran.err.contains("read-only"), "{ran:?}");
    }
    assert!(!program.path().join("data").exists());
}

/// An installation whose names exist, as after the first start of a daemon, and nobody who delivers.
pub async fn prepared() -> Installation {
    let installation = Installation::embedded();
    let mut daemon = installation.daemon().await;
    wait_until("a daemon that delivers", Duration::from_mins(1), async || {
        (daemon.get("/readyz").await.json()["delivering"]["ok"] == true).then_some(())
    })
    .await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    installation
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_tells_nobody_and_handles_nothing() {
    let mut installation = Installation::embedded();
    installation.append("[[alert]]\nname = \"team\"\non = [\"endpoint_unavailable\"]\ncommand = [\"touch\", \"told\"]");
    installation.append("[[handler]]\ntype = \"hr\"\ncommand = [\"touch\", \"handled\"]");
    let tested = installation
        .run(&["alert", "test", "team", "--dry-run", "--json"])
        .await
        .expect_code(0);
    assert_eq!(tested.json()["taken"], false);
    let unknown = installation.run(&["alert", "test", "teem", "--dry-run"]).await;
    assert!(
        unknown.expect_code(4).stderr.contains("team"),
        "it names those that there are"
    );
    let push = ["event", "push", "--type", "hr", "--reference", "1"];
    installation.run(&push).await.expect_code(0);
    let process = ["event", "process", "--type", "hr", "--once", "--dry-run", "--json"];
    assert_eq!(installation.run(&process).await.expect_code(0).json()["due"], 1);
    assert!(!installation.path("told").exists() && !installation.path("handled").exists());
    let refused = installation
        .run(&["event", "show", "1", "--filter", "state = dead"])
        .await;
    assert!(
        refused.expect_code(2).stderr.contains("unexpected argument '--filter'"),
        "it is not offered"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_is_published_seen_and_purged_only_when_confirmed() {
    let at = prepared().await;
    let arguments = publish(&[
        "--json",
        "--body-file",
        "-",
        "--header",
        "Content-Type: text/plain",
        "--id",
        "n-1",
    ]);
    let receipt = at
        .run_with_input(&arguments, b"hello \x1b[2J")
        .await
        .expect_code(0)
        .json();
    assert_eq!(receipt["id"], "n-1");
    let queue = receipt["queue"].as_str().unwrap();

    let listed = at.run(&["queues", "--json"]).await.expect_code(0).json();
    let row = listed.as_array().unwrap().iter().find(|row| row["name"] == queue);
    let row = row.unwrap_or_else(|| panic!("{queue} is not in {listed}"));
    assert_eq!(
        (row["kind"].as_str(), row["ready"].as_u64()),
        (Some("delivery"), Some(1))
    );
    assert_eq!(row["url"], "http://example.com/hook");

    let browsed = at
        .run(&["queue", "browse", queue, "--json"])
        .await
        .expect_code(0)
        .json();
    assert_eq!(browsed[0]["message_id"], "n-1");
    assert_eq!(browsed[0]["body"], "hello \u{1b}[2J");
    let table = at.run(&["queue", "browse", queue]).await.expect_code(0);
    assert!(
        table.stdout.contains("hello \\x1b[2J") && !table.stdout.contains('\u{1b}'),
        "{table:?}"
    );

    let refused = at.run(&["queue", "purge", queue]).await.expect_code(5);
    assert!(refused.stderr.contains("--yes"), "{refused:?}");
    let plan = at
        .run(&["queue", "purge", queue, "--dry-run", "--json"])
        .await
        .expect_code(0)
        .json();
    assert_eq!(
        (plan["destroys"].as_bool(), plan["messages"].as_u64()),
        (Some(true), Some(1))
    );
    assert_eq!(
        plan["confirm"],
        serde_json::json!({"what": "name of the queue", "word": queue})
    );
    let pause = ["queue", "pause", queue, "--dry-run", "--json"];
    let plan = at.run(&pause).await.expect_code(0).json();
    assert_eq!(plan.get("confirm"), Some(&Value::Null), "a yes is enough");
    let purge = ["queue", "purge", queue, "--yes", "--reason", "test", "--json"];
    let purged = at.run(&purge).await.expect_code(0).json();
    assert_eq!(purged["messages"], 1);
    let audit = at.run(&["audit", "--json"]).await.expect_code(0).json();
    assert!(
        audit.as_array().unwrap().iter().any(|line| line["reason"] == "test"),
        "{audit}"
    );
}

#[tokio::test]
async fn quiet_leaves_out_what_is_good_to_know_and_nothing_else() {
    let at = Installation::embedded();
    let usual = at.run(&["dead", "groups"]).await.expect_code(0);
    assert!(usual.stderr.contains("has dead letters"), "{usual:?}");
    let quiet = at.run(&["dead", "groups", "-q"]).await.expect_code(0);
    assert_eq!((quiet.stderr.as_str(), quiet.stdout), ("", usual.stdout));
    let policy = ["policy", "set", "--url", "http://example.com/hook", "{}", "-q"];
    let plan = at.run(&[&policy[..], &["--dry-run"]].concat()).await.expect_code(0);
    assert!(
        plan.stderr.contains("plan: ") || plan.stdout.contains("plan: "),
        "{plan:?}"
    );
    let refused = at.run(&policy).await.expect_code(5);
    assert!(refused.stderr.contains("--yes"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_ends_with_4_and_an_end_without_a_queue_with_0() {
    let at = prepared().await;
    at.run(&["endpoint", "show", "http://example.com/never"])
        .await
        .expect_code(4);
    let missing = "redrive.none.00000000000000000000000000000000";
    at.run(&["queue", "why", missing]).await.expect_code(4);
    let ended = at
        .run(&[&["end", "--json"], &TARGET[..]].concat())
        .await
        .expect_code(0)
        .json();
    assert!(ended["id"].is_null(), "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_goes_by_the_beginning_of_its_name_or_its_execution_and_url() {
    let at = prepared().await;
    let named = async |arguments: &[&str]| {
        let why = at.run(&[&["queue", "why", "--json"], arguments].concat()).await;
        why.expect_code(0).json()["name"].as_str().unwrap().to_owned()
    };
    at.run(&publish(&[])).await.expect_code(0);
    let queue = named(&["run-1", "http://example.com/hook"]).await;
    assert_eq!(named(&[&queue]).await, queue, "the whole name");
    assert_eq!(named(&["redrive.run-1.",]).await, queue, "its beginning");

    // With --yes nobody sees in a plan which one it is.
    let guessed = at
        .run(&["queue", "purge", "redrive.run-1.", "--yes"])
        .await
        .expect_code(2);
    assert!(guessed.stderr.contains(&queue), "{guessed:?}");
    at.run(&["queue", "purge", "redrive.run-1.", "--dry-run"])
        .await
        .expect_code(0);

    at.run(&["publish", "--execution", "run-12", "--url", "http://example.com/hook"])
        .await
        .expect_code(0);
    let several = at.run(&["queue", "why", "redrive.run-1"]).await.expect_code(2);
    assert!(
        several.stderr.contains("2 queues begin with redrive.run-1"),
        "{several:?}"
    );
    for wrong in ["run-12", "redrive.rum-12.0123456789abcdef0123456789abcdef"] {
        let missing = at.run(&["queue", "why", wrong]).await.expect_code(4);
        assert!(missing.stderr.contains("did you mean redrive.run-12."), "{missing:?}");
    }
}

#[test]
fn a_broker_that_is_not_there_ends_with_69() {
    let program = Program::with_config("[broker]\nurl = \"amqp://guest:guest@127.0.0.1:1\"\n");
    let ran = program.run(&publish(&[])).ends(69);
    assert!(
        ran.err.contains("unreachable") && !ran.err.contains("guest:guest"),
        "{ran:?}"
    );
}
