//! Tab in a real shell: words of the program, and names of what is there.

use std::process::{Command, Output};

use tempfile::TempDir;

use crate::support::daemon::Installation;
use crate::support::servers::scratch_directory;

const URL: &str = "http://localhost:9000/hook";

/// A shell whose `redrive` is the built program, with the configuration of an installation.
struct Typist {
    installation: Installation,
    bin: TempDir,
}

impl Typist {
    /// With two queues and an endpoint.
    async fn new() -> Self {
        let installation = Installation::embedded();
        for execution in ["order-18", "order-19"] {
            let publish = ["publish", "--execution", execution, "--url", URL];
            installation.run(&publish).await.expect_code(0);
        }
        let bin = scratch_directory();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_redrive"), bin.path().join("redrive")).unwrap();
        Self { installation, bin }
    }

    fn run(&self, shell: &str, script: &str) -> Output {
        let typed = self.installation.program(&["queues"]);
        let config = typed.get_args().nth(1).unwrap().to_owned();
        let mut command = Command::new(shell);
        command.args(["-c", script]).env("REDRIVE_CONFIG", config);
        command
            .env("HOME", self.bin.path())
            .env("XDG_DATA_HOME", self.bin.path());
        command.env(
            "PATH",
            format!("{}:{}", self.bin.path().display(), std::env::var("PATH").unwrap()),
        );
        command.output().unwrap()
    }

    /// What bash offers for the last of these words.
    fn bash(&self, words: &[&str]) -> Vec<String> {
        let list: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let list = list.join(" ");
        let (at, last) = (words.len() - 1, words[words.len() - 1]);
        let output = self.run(
            "bash",
            &format!(
                "source <(redrive completions bash)\n\
                 COMP_WORDS=({list}) COMP_CWORD={at} COMP_TYPE=9\n\
                 _clap_complete_redrive redrive '{last}' x\n\
                 printf '%s\\n' \"${{COMPREPLY[@]}}\""
            ),
        );
        let said = String::from_utf8(output.stdout).unwrap();
        said.lines().map(|line| line.trim_end().to_owned()).collect()
    }
}

/// Others use that variable, and each has its own meaning for it.
#[tokio::test]
async fn a_variable_of_others_keeps_no_command_from_its_work() {
    let mut installation = Installation::embedded();
    let publish = ["publish", "--execution", "e", "--url", URL];
    installation.set_environment("COMPLETE", "1");
    installation.run(&publish).await.expect_code(0);
    let queues = installation.run(&["queues", "--json"]).await.expect_code(0).json();
    let published = queues.as_array().unwrap().iter();
    let published = published.filter(|queue| queue["kind"] == "delivery");
    assert_eq!(published.count(), 1, "{queues}");
    installation.set_environment("REDRIVE_COMPLETE", "nushell");
    installation.run(&publish).await.expect_code(2);
}

#[tokio::test]
async fn tab_offers_the_queues_and_endpoints_that_there_are() {
    let typist = Typist::new().await;
    let queues = typist.bash(&["redrive", "queue", "why", "redrive.order-1"]);
    assert!(
        queues.len() == 2 && queues[0].starts_with("redrive.order-18.") && queues[1].starts_with("redrive.order-19."),
        "{queues:?}"
    );
    assert_eq!(typist.bash(&["redrive", "queue", "why", "redrive.order-19"]).len(), 1);
    assert_eq!(typist.bash(&["redrive", "redeliver", "http"]), [URL]);
    assert_eq!(typist.bash(&["redrive", "attempts", "--url", ""]), [URL]);
    let words = typist.bash(&["redrive", "queue", "wh"]);
    assert_eq!(words, ["why"]);
}

#[tokio::test]
async fn tab_offers_nothing_and_says_nothing_where_nothing_answers() {
    let mut typist = Typist::new().await;
    typist
        .installation
        .set("broker", "url", "amqp://guest:guest@localhost:1");
    let offered = typist.bash(&["redrive", "queue", "why", "redrive."]);
    assert_eq!(offered, [""]);
}

#[tokio::test]
async fn fish_shows_what_is_beside_a_name() {
    if Command::new("fish").arg("--version").output().is_err() {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "not run: there is no fish");
        return;
    }
    let typist = Typist::new().await;
    let script = "redrive completions fish | source; complete --do-complete 'redrive endpoint show '";
    let output = typist.run("fish", script);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with(&format!("{URL}\tavailable")), "{said:?}");
}
