//! Retry policies: show, set, unset, history, restore, preview; with the schedule drawn.

use std::fmt::Write as _;

use super::when::{told, told_or_dash};
use crate::domain::policy::{Phase, RetryPolicy};
use crate::domain::text;
use crate::domain::words::{lasts, plural, plural_of};
use crate::engine::policies::{PolicyAct, PolicyEdit, PolicyView};
use crate::engine::query;
use crate::engine::query::PolicyScope;
use crate::engine::{Command, EngineError};
use crate::wire::Time;
use crate::wire::policy::{self, Invalid, Preview, Version};

use super::Session;
use super::args::{Policy, PolicyOf};
use super::done::How;
use super::exit::{Exit, Failure};
use super::output::{Column, Output, document, or_dash, print};

pub(super) async fn run(session: &Session<'_>, command: &Policy) -> Result<Exit, Failure> {
    match command {
        Policy::Show { of, .. } if of.is_nothing() => list(session).await,
        Policy::Show { of, .. } => {
            let view = session.engine.query(query::Policy(scope(of)?)).await?;
            shown(session.output, &view)?;
            Ok(Exit::Done)
        }
        Policy::History(of) => history(session, scope(of)?).await,
        Policy::Set { of, policy } => act(session, of, PolicyAct::Set(policy.clone())).await,
        Policy::Unset(of) => act(session, of, PolicyAct::Unset).await,
        Policy::Restore { of, version } => act(session, of, PolicyAct::Restore(*version)).await,
        Policy::Preview { of, policy } => {
            let query = query::PreviewPolicy {
                document: policy.clone(),
                scope: Some(scope(of)?),
            };
            match session.engine.query(query).await {
                Ok(preview) => {
                    previewed(session.output, &Preview::from(&preview), &preview.policy)?;
                    Ok(Exit::Done)
                }
                Err(error) => refused(error),
            }
        }
    }
}

fn scope(of: &PolicyOf) -> Result<PolicyScope, Failure> {
    Ok(policy::scope(of.r#type.as_deref(), of.url.as_deref())?)
}

async fn act(session: &Session<'_>, of: &PolicyOf, act: PolicyAct) -> Result<Exit, Failure> {
    let edit = PolicyEdit {
        scope: scope(of)?,
        act,
        expected: None,
    };
    let command = Command::Policy(edit);
    let plan = match session.engine.plan(command.clone()).await {
        Err(error @ EngineError::InvalidPolicy(_)) => return refused(error),
        planned => planned?,
    };
    session.carry_out(plan, How::ONE).await
}

/// What is wrong with a policy is a document, as a preview's.
fn refused(error: EngineError) -> Result<Exit, Failure> {
    if let EngineError::InvalidPolicy(error) = error {
        document(&Invalid::from(error))?;
        return Ok(Exit::Failed);
    }
    Err(error.into())
}

const POLICIES: &[Column] = &[
    Column::Text("type"),
    Column::Text("url"),
    Column::Number("version"),
    Column::Number("attempts"),
    Column::Number("within"),
    Column::Text("author"),
    Column::Text("at"),
    Column::Text("policy"),
];

async fn list(session: &Session<'_>) -> Result<Exit, Failure> {
    let page = session.engine.query(query::Policies()).await?;
    let items: Vec<policy::Policy> = page.items.iter().map(policy::Policy::from).collect();
    session.output.list(&items, POLICIES, |item| {
        vec![
            or_dash(item.r#type.as_deref()),
            or_dash(item.url.as_deref()),
            item.version
                .map_or_else(|| "-".to_owned(), |version| version.to_string()),
            item.totals.attempts.to_string(),
            for_seconds(item.totals.total_s),
            or_dash(item.author.as_deref()),
            told_or_dash(item.at.as_deref()),
            item.policy.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
        ]
    })?;
    Ok(Exit::Done)
}

const VERSIONS: &[Column] = &[
    Column::Number("version"),
    Column::Text("at"),
    Column::Text("author"),
    Column::Number("attempts"),
    Column::Number("within"),
    Column::Text("policy"),
];

async fn history(session: &Session<'_>, scope: PolicyScope) -> Result<Exit, Failure> {
    let page = session.engine.query(query::PolicyHistory(scope)).await?;
    let items: Vec<Version> = page.items.iter().map(Version::from).collect();
    session.output.list(&items, VERSIONS, |item| {
        vec![
            item.version.to_string(),
            told_or_dash(item.at.as_deref()),
            item.author.clone(),
            item.attempts.map_or_else(|| "-".to_owned(), |count| count.to_string()),
            item.total_s.map_or_else(|| "-".to_owned(), for_seconds),
            item.policy
                .as_ref()
                .map_or_else(|| "unset".to_owned(), ToString::to_string),
        ]
    })?;
    Ok(Exit::Done)
}

/// One policy, and what applies.
pub(super) fn shown(output: Output, view: &PolicyView) -> std::io::Result<()> {
    let shape = policy::Policy::from(view);
    let facts = [
        ("type", shape.r#type.clone()),
        ("url", shape.url.clone()),
        ("version", shape.version.map(|version| version.to_string())),
        ("author", shape.author.clone()),
        ("at", shape.at.clone().map(String::from)),
        (
            "policy",
            Some(
                shape
                    .policy
                    .as_ref()
                    .map_or_else(|| "not set".to_owned(), ToString::to_string),
            ),
        ),
        ("applies", Some(view.whose().to_owned())),
        ("exhausted", Some(view.effective.on_exhausted.as_str().to_owned())),
        ("refused", Some(view.effective.on_refused.as_str().to_owned())),
    ];
    output.facts(&shape, &facts)?;
    if output.is_json() {
        return Ok(());
    }
    print(drawn(&view.effective).as_bytes())
}

/// A schedule, with what it would do to what waits.
pub(super) fn previewed(output: Output, preview: &Preview, policy: &RetryPolicy) -> std::io::Result<()> {
    if output.is_json() {
        return document(preview);
    }
    let mut text = drawn(policy);
    if let Some(backlog) = &preview.backlog {
        let _ = writeln!(
            text,
            "{} wait: {} sooner, {} later, {} continue, {} park, {} become dead letters, {} unchanged, {} in an attempt",
            backlog.waiting,
            backlog.sooner,
            backlog.later,
            backlog.going_on,
            backlog.parked,
            backlog.dead_lettered,
            backlog.unchanged,
            backlog.in_attempt
        );
        for item in &backlog.items {
            let at = |time: &Option<Time>| told(time.as_deref().unwrap_or("waits for a person"));
            let then = told(item.next_attempt_at.as_deref().unwrap_or(item.then));
            let line = format!("  {}  {} -> {then}", item.queue, at(&item.next_attempt_at_before));
            let _ = writeln!(text, "{}", text::show(&line, 300));
        }
    }
    print(text.as_bytes())
}

/// Bars, lowest first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Delays of a phase that are drawn, at most: more are drawn by an even choice of them.
const DRAWN_MAX: usize = 40;

fn for_seconds(seconds: u64) -> String {
    lasts(std::time::Duration::from_secs(seconds))
}

/// The schedule, a line for each phase: how many retries, each delay as a bar against the longest, and in numbers.
fn drawn(policy: &RetryPolicy) -> String {
    let schedule = policy.schedule();
    let longest = schedule.delays_s().max().unwrap_or(0).max(1);
    let mut text = String::new();
    for phase in Phase::ALL {
        let delays: Vec<u32> = schedule.phase_delays_s(phase).collect();
        let bars: String = chosen(&delays).map(|delay| bar(delay, longest)).collect();
        let numbers: Vec<String> = delays.iter().take(DRAWN_MAX).map(ToString::to_string).collect();
        let more = if delays.len() > DRAWN_MAX { " …" } else { "" };
        let retries = plural_of(delays.len(), "retry", "retries");
        let _ = match delays.last() {
            None => writeln!(text, "{:<12}  none", phase.as_str()),
            Some(_) => writeln!(
                text,
                "{:<12}  {retries:>12}  {bars}  {}{more} s",
                phase.as_str(),
                numbers.join(" ")
            ),
        };
    }
    let _ = writeln!(
        text,
        "{} within {}{}",
        plural(schedule.attempts().into(), "attempt", "attempts"),
        for_seconds(schedule.total_s()),
        if policy.jitter > 0.0 {
            format!(", each delay up to {:.0} % longer at random", policy.jitter * 100.0)
        } else {
            String::new()
        }
    );
    text
}

fn chosen(delays: &[u32]) -> impl Iterator<Item = u32> + '_ {
    let count = delays.len().min(DRAWN_MAX);
    let last = delays.len().saturating_sub(1);
    (0..count).map(move |index| delays[index * last / count.saturating_sub(1).max(1)])
}

fn bar(delay: u32, longest: u32) -> char {
    let step = u64::from(delay) * 7 / u64::from(longest.max(1));
    BARS[usize::try_from(step).unwrap_or(7).min(7)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_drawn_phase_by_phase() {
        let expected = "\
immediate        3 retries  ▁▁▁  0 0 0 s
pre_backoff      3 retries  ▂▂▂  5 5 5 s
backoff          6 retries  ▂▃▄▅▆█  5 10 15 20 25 30 s
post_backoff     3 retries  ███  30 30 30 s
16 attempts within 3 min 30 s
";
        assert_eq!(drawn(&RetryPolicy::default()), expected);
    }

    #[test]
    fn a_phase_of_a_thousand_retries_is_drawn_in_a_line_and_an_empty_one_said() {
        let policy = RetryPolicy {
            retries_with_no_delay: 0,
            backoff_retries: Some(1000),
            jitter: 0.5,
            ..RetryPolicy::default()
        };
        let text = drawn(&policy);
        assert!(text.starts_with("immediate     none\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() < 200), "{text}");
        assert!(text.contains("1,000 retries  ▂") && text.contains("50 %"), "{text}");
    }
}
