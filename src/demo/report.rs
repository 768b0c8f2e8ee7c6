//! What happened: per endpoint and in all, and whether the promises were kept.

use std::fmt::Write as _;
use std::time::Duration;

use super::receivers::Behaviour;
use crate::domain::endpoint::EndpointState;
use crate::domain::text;

/// Violations and losses that are named; the rest is counted.
const NAMED_MAX: usize = 10;
const LINE_WIDTH_MAX: usize = 400;
/// State changes that are told per endpoint.
const CHANGES_SHOWN: usize = 6;

/// The end of a demo.
#[derive(Clone, Debug, PartialEq)]
pub struct DemoReport {
    /// How long it ran.
    pub elapsed: Duration,
    /// Each endpoint, in the order of [`Behaviour::ALL`].
    pub endpoints: Vec<EndpointReport>,
    /// Delivery queues that were published to.
    pub queues: usize,
    /// Sequences that were ended by an end mark.
    pub ended: u64,
    /// Notifications that arrived again after they had been accepted.
    pub duplicates: u64,
    /// The first violation of order in each queue that has one.
    pub violations: Vec<String>,
    /// Confirmed notifications that are nowhere.
    pub lost: Vec<String>,
    /// Events that were not read in time: with any, the attempts are too low.
    pub events_missed: u64,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointReport {
    /// How it behaves.
    pub behaviour: Behaviour,
    /// The same for people.
    pub description: String,
    /// Notifications published.
    pub published: u64,
    /// Accepted by the receiver.
    pub delivered: u64,
    /// In a delivery queue.
    pub waiting: u64,
    /// Among the dead letters.
    pub dead: u64,
    /// Requests made, or tried.
    pub attempts: u64,
    /// Its state at the end.
    pub state: EndpointState,
    /// Status or error of the last attempt.
    pub last_answer: Option<String>,
    /// Each state that it came into, and when, since the start.
    pub changes: Vec<(Duration, EndpointState)>,
}

impl DemoReport {
    /// Whether every queue kept its order and nothing was lost.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.violations.is_empty() && self.lost.is_empty()
    }

    /// The report of one endpoint.
    #[cfg(any(test, feature = "internals"))]
    #[must_use]
    pub fn endpoint(&self, behaviour: Behaviour) -> Option<&EndpointReport> {
        self.endpoints.iter().find(|endpoint| endpoint.behaviour == behaviour)
    }

    /// As plain text, in aligned columns.
    #[must_use]
    pub fn render(&self) -> String {
        let mut page = format!("What happened in {}\n\n", minutes(self.elapsed));
        page.push_str(&self.table());
        page.push_str("\nStates\n");
        for endpoint in &self.endpoints {
            let _ = writeln!(page, "  {:<8}  {}", endpoint.behaviour.name(), endpoint.story());
        }
        page.push_str("\nPromises\n");
        let order = verdict(
            &self.violations,
            &format!("yes, in all {} delivery queues", self.queues),
        );
        let _ = writeln!(page, "  in order      {order}");
        let _ = writeln!(page, "  nothing lost  {}", verdict(&self.lost, "yes"));
        let _ = writeln!(page, "  duplicates    {}", self.duplicates);
        let _ = writeln!(page, "  end marks     {}", self.ended);
        if self.events_missed > 0 {
            let _ = writeln!(
                page,
                "  {} events were missed: attempts are too low",
                self.events_missed
            );
        }
        page
    }

    fn table(&self) -> String {
        let mut rows = vec![
            [
                "endpoint",
                "behaviour",
                "published",
                "delivered",
                "waiting",
                "dead",
                "attempts",
                "state",
                "last answer",
            ]
            .map(str::to_owned),
        ];
        rows.extend(self.endpoints.iter().map(EndpointReport::row));
        rows.push(self.totals());
        aligned(&rows)
    }

    fn totals(&self) -> [String; 9] {
        let sum = |number: fn(&EndpointReport) -> u64| self.endpoints.iter().map(number).sum::<u64>().to_string();
        [
            "total".to_owned(),
            String::new(),
            sum(|endpoint| endpoint.published),
            sum(|endpoint| endpoint.delivered),
            sum(|endpoint| endpoint.waiting),
            sum(|endpoint| endpoint.dead),
            sum(|endpoint| endpoint.attempts),
            String::new(),
            String::new(),
        ]
    }
}

impl EndpointReport {
    fn row(&self) -> [String; 9] {
        [
            self.behaviour.name().to_owned(),
            self.description.clone(),
            self.published.to_string(),
            self.delivered.to_string(),
            self.waiting.to_string(),
            self.dead.to_string(),
            self.attempts.to_string(),
            self.state.as_str().to_owned(),
            self.last_answer.clone().unwrap_or_else(|| "-".to_owned()),
        ]
    }

    /// `available, 0:04 unavailable, 0:46 available`
    fn story(&self) -> String {
        let mut story = EndpointState::Available.as_str().to_owned();
        for (at, state) in self.changes.iter().take(CHANGES_SHOWN) {
            let _ = write!(story, ", {} {}", minutes(*at), state.as_str());
        }
        let more = self.changes.len().saturating_sub(CHANGES_SHOWN);
        if more > 0 {
            let _ = write!(story, ", and {more} more changes: {} at the end", self.state.as_str());
        }
        story
    }
}

/// What was kept, or what breaks it.
fn verdict(broken: &[String], kept: &str) -> String {
    if broken.is_empty() {
        return kept.to_owned();
    }
    let mut verdict = format!("NO: {} found", broken.len());
    for line in broken.iter().take(NAMED_MAX) {
        let _ = write!(verdict, "\n    {}", text::show(line, LINE_WIDTH_MAX));
    }
    verdict
}

/// Columns of numbers to the right, the others to the left.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(text::width(cell));
        }
    }
    let mut numbers = [true; N];
    for row in rows.iter().skip(1) {
        for (number, cell) in numbers.iter_mut().zip(row) {
            *number &= cell.bytes().all(|byte| byte.is_ascii_digit());
        }
    }
    let mut table = String::new();
    for row in rows {
        let mut line = String::new();
        for ((cell, width), number) in row.iter().zip(widths).zip(numbers) {
            let padding = " ".repeat(width.saturating_sub(text::width(cell)));
            let (before, after) = if number {
                (padding.as_str(), "")
            } else {
                ("", padding.as_str())
            };
            let _ = write!(line, "{before}{cell}{after}  ");
        }
        table.push_str(line.trim_end());
        table.push('\n');
    }
    table
}

/// `m:ss`
pub(super) fn minutes(span: Duration) -> String {
    let seconds = span.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> DemoReport {
        DemoReport {
            elapsed: Duration::from_mins(1),
            endpoints: vec![EndpointReport {
                behaviour: Behaviour::Down,
                description: "comes back".to_owned(),
                published: 120,
                delivered: 118,
                waiting: 2,
                dead: 0,
                attempts: 131,
                state: EndpointState::Available,
                last_answer: Some("200".to_owned()),
                changes: vec![
                    (Duration::from_secs(4), EndpointState::Unavailable),
                    (Duration::from_secs(65), EndpointState::Available),
                ],
            }],
            queues: 10,
            ended: 3,
            duplicates: 0,
            violations: Vec::new(),
            lost: Vec::new(),
            events_missed: 0,
        }
    }

    #[test]
    fn a_report_is_read_by_people() {
        let expected = "\
What happened in 1:00

endpoint  behaviour   published  delivered  waiting  dead  attempts  state      last answer
down      comes back        120        118        2     0       131  available          200
total                       120        118        2     0       131

States
  down      available, 0:04 unavailable, 1:05 available

Promises
  in order      yes, in all 10 delivery queues
  nothing lost  yes
  duplicates    0
  end marks     3
";
        assert_eq!(report().render(), expected);
    }

    #[test]
    fn a_broken_promise_fails_and_is_named() {
        let mut broken = report();
        broken.lost.push("redrive.order-1001.ab: 7".to_owned());
        assert!(!broken.passed() && broken.render().contains("NO"));
        assert!(broken.render().contains("redrive.order-1001.ab: 7"));
        let mut disordered = report();
        disordered
            .violations
            .push("redrive.order-1001.ab: 7 came late".to_owned());
        assert!(!disordered.passed() && disordered.render().contains("7 came late"));
    }
}
