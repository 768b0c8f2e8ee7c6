//! What Prometheus reads: every number of the dashboard and of the rules exists, and promtool reads what is served.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use redrive::internals::telemetry::METRICS;
use regex::Regex;
use serde_json::{Value, json};

use crate::source;
use crate::support::daemon::Installation;
use crate::support::not_run;
use crate::support::receiver::{Behaviour, Receiver};
use crate::support::wait::wait_until;

const BOUND: Duration = Duration::from_mins(1);

fn asset(name: &str) -> String {
    fs::read_to_string(source::root().join("assets").join(name)).unwrap()
}

/// The numbers that a text names, without what a histogram adds.
fn named(text: &str) -> BTreeSet<String> {
    let name = Regex::new(r"\b(?:redrive|process)_[a-z_]+").unwrap();
    let histograms = Regex::new(r"_(?:bucket|sum|count)$").unwrap();
    name.find_iter(text)
        .map(|found| histograms.replace(found.as_str(), "").into_owned())
        .collect()
}

#[test]
fn every_number_of_the_dashboard_and_of_the_rules_exists() {
    let known: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    let ours = |text: &str| {
        let named = named(text);
        assert!(named.len() > 8, "{named:?}");
        for name in named.iter().filter(|name| name.starts_with("redrive_")) {
            assert!(known.contains(name.as_str()), "{name} is not counted");
        }
    };
    ours(&asset("alerts.yml"));
    let dashboard: Value = serde_json::from_str(&asset("grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let asked: Vec<&str> = panels
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .map(|target| target["expr"].as_str().unwrap())
        .collect();
    ours(&asked.join("\n"));
}

/// What promtool says of `input`; `None` where it is not installed.
fn promtool(arguments: &[&str], input: &str) -> Option<(bool, String)> {
    let started = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        not_run("promtool (Debian and Ubuntu: apt-get install prometheus)");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = [ended.stdout, ended.stderr].concat();
    Some((ended.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn promtool_takes_the_rules() {
    let path = source::root().join("assets/alerts.yml");
    if let Some((taken, said)) = promtool(&["check", "rules", path.to_str().unwrap()], "") {
        assert!(taken, "{said}");
    }
}

/// Series of two minutes and the rules that they have to fire: what a daemon counts at its start is there at its first
/// scrape.
const FIRED: &str = r#"
rule_files: [RULES]
evaluation_interval: 1m
tests:
  - interval: 15s
    input_series:
      - series: 'redrive_turns_total{kind="daemon_dead", job="redrive", instance="new"}'
        values: '_x3 1x20'
      - series: 'redrive_turns_total{kind="messages_lost", job="redrive", instance="new"}'
        values: '_x3 1x20'
      - series: 'redrive_turns_total{kind="daemon_dead", job="redrive", instance="old"}'
        values: '5x20'
      - series: 'redrive_events{type="mail", state="dead", job="redrive", instance="new"}'
        values: '2x20'
      - series: 'redrive_dead_letters{job="redrive", instance="of many"}'
        values: '100x80'
      - series: 'redrive_dead_letters{job="redrive", instance="of few"}'
        values: '0x40 5x40'
      - series: 'redrive_dead_letters{job="redrive", instance="watched for 20m"}'
        values: '5x80 NANS'
      - series: 'redrive_dead_letters{job="redrive", instance="watched from then on"}'
        values: 'NANS 5x11 9x69'
      - series: 'redrive_certificate_expiry_timestamp_seconds{of="broker.tls.certificate", job="redrive", instance="new"}'
        values: '60x20'
      - series: 'process_start_time_seconds{job="redrive", instance="new"}'
        values: '_x3 40x20'
      - series: 'process_start_time_seconds{job="redrive", instance="old"}'
        values: '-90000x20'
      - series: 'redrive_certificate_expiry_timestamp_seconds{of="api.tls.certificate", job="redrive", instance="new"}'
        values: '864120x20'
    alert_rule_test:
      - {eval_time: 2m, alertname: RedriveCertificateEnds, exp_alerts: [{exp_labels: {severity: ticket, of: api.tls.certificate}, exp_annotations: {summary: 'The certificate of api.tls.certificate ends in 10d 0h 0m 0s.', description: 'Renew it. A daemon reads its file again when that changes; under systemd, restart it.'}}, {exp_labels: {severity: ticket, of: broker.tls.certificate}, exp_annotations: {summary: 'The certificate of broker.tls.certificate has ended.', description: 'Renew it. A daemon reads its file again when that changes; under systemd, restart it.'}}]}
      - {eval_time: 24m, alertname: RedriveDeadLettersAppear, exp_alerts: [{exp_labels: {severity: ticket}, exp_annotations: {summary: '4.5 messages died within ten minutes.', description: '`redrive dead groups` shows what failed alike.'}}]}
      - {eval_time: 2m, alertname: RedriveDaemonDied, exp_alerts: [{exp_labels: {severity: ticket}, exp_annotations: {summary: 'A daemon was found dead, and its queues were taken over.'}}]}
      - {eval_time: 2m, alertname: RedriveQueuesLost, exp_alerts: [{exp_labels: {severity: page}, exp_annotations: {summary: 'Messages were lost with queues that somebody deleted, or whose time was over.', description: '`redrive audit` says with which, and how many.'}}]}
      - {eval_time: 2m, alertname: RedriveDeadEvents, exp_alerts: [{exp_labels: {severity: ticket, type: mail}, exp_annotations: {summary: '2 events of mail are dead.', description: '`redrive dead groups` shows what failed alike; `redrive event retry` handles them again.'}}]}
      - {eval_time: 2m, alertname: RedriveMessagesLost, exp_alerts: []}
      - {eval_time: 9m, alertname: RedriveDeadLettersAppear, exp_alerts: []}
      - {eval_time: 11m, alertname: RedriveDeadLettersAppear, exp_alerts: [{exp_labels: {severity: ticket}, exp_annotations: {summary: '5 messages died within ten minutes.', description: '`redrive dead groups` shows what failed alike.'}}]}
"#;

#[test]
fn the_rules_see_what_a_daemon_counts_before_it_is_scraped_for_the_first_time() {
    let rules = source::root().join("assets/alerts.yml");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fired.yml");
    fs::write(
        &file,
        FIRED
            .replace("RULES", rules.to_str().unwrap())
            .replace("NANS", &"NaN ".repeat(80)),
    )
    .unwrap();
    if let Some((fired, said)) = promtool(&["test", "rules", file.to_str().unwrap()], "") {
        assert!(fired, "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_and_what_is_dead_is_told_and_promtool_takes_it() {
    let receiver = Receiver::start().await;
    receiver.behave("/down", Behaviour::Status(503));
    receiver.behave("/refuses", Behaviour::Status(400));
    let mut installation = Installation::embedded();
    let policy = json!({"retries_with_no_delay": 0, "minimum_delay": 600, "maximum_delay": 600});
    installation.set("delivery", "retry_policy", policy);
    let mut daemon = installation.daemon().await;
    for (path, count) in [("/down", 3), ("/refuses", 2)] {
        for _ in 0..count {
            let execution = format!("e{path}{}", receiver.count());
            let notification = json!({"execution_id": execution, "url": receiver.url(path), "body": "x"});
            assert_eq!(daemon.post("/v1/notifications", &notification).await.status, 202);
        }
    }
    let text = wait_until("the numbers to be told", BOUND, async || {
        let text = daemon.get("/metrics").await.text();
        let told = [
            "redrive_waiting_messages 3",
            "redrive_dead_letters 2",
            "redrive_endpoints{state=\"unavailable\"} 1",
        ];
        let told = told.iter().all(|line| text.lines().any(|found| found == *line));
        told.then_some(text)
    })
    .await;
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("{name} is not in\n{text}"))
            .parse()
            .unwrap()
    };
    let series: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let labelled: BTreeSet<&str> = series.iter().filter_map(|line| Some(line.split_once('{')?.0)).collect();
    let bare = series
        .iter()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, _)| name);
    let both: Vec<&str> = bare.filter(|name| labelled.contains(name)).collect();
    assert!(both.is_empty(), "with labels and without: {both:?}");
    assert!(value("redrive_oldest_waiting_seconds") < 300.0);
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("redrive_requests_in_flight").abs() < 0.5);
    assert!(
        named(&asset("grafana.json"))
            .iter()
            .all(|name| text.contains(&format!("# TYPE {name} ")))
    );
    if let Some((_, said)) = promtool(&["check", "metrics"], &text) {
        assert!(!said.contains("error"), "{said}");
    }
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}
