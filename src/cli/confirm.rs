//! Nothing is changed by an operator without a plan that was seen and confirmed.
//!
//! The friction grows with what can be lost: `y` for one thing that can be undone, the number for
//! several, the queue's name where messages are lost.

use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal, Write as _};

use crate::engine::{Command, Danger, Plan, RunPlan};
use crate::wire::plan::PlanShape;

use super::args::Global;
use super::exit::Failure;
use super::output::{Output, document, print, say, shown};
use crate::domain::words::{about as span, plural, plural_if_known};

/// What the operator decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consent {
    /// Do it.
    Go,
    /// The plan was all that was wanted.
    PlanOnly,
}

/// What has to be typed to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Friction {
    Yes,
    Word { what: &'static str, word: String },
}

pub(super) fn consent(global: &Global, output: Output, plan: &Plan) -> Result<Consent, Failure> {
    if global.dry_run {
        print_plan(output, plan)?;
        return Ok(Consent::PlanOnly);
    }
    if global.yes {
        return Ok(Consent::Go);
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::refused(format!(
            "not confirmed: {}; without a terminal give --yes to do it or --dry-run to see the plan",
            shown(&plan.title)
        )));
    }
    say(&describe(plan));
    if ask(&friction(plan), &mut io::stdin().lock())? {
        Ok(Consent::Go)
    } else {
        Err(Failure::refused("not confirmed; nothing was changed"))
    }
}

/// The same for what has no plan but one sentence.
pub(super) fn consent_to(global: &Global, what: &str) -> Result<bool, Failure> {
    if global.dry_run {
        print(format!("plan: {}\n", shown(what)).as_bytes())?;
        return Ok(false);
    }
    if global.yes {
        return Ok(true);
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::refused(format!(
            "not confirmed: {}; without a terminal give --yes to do it or --dry-run to see the plan",
            shown(what)
        )));
    }
    say(&format!("plan: {}", shown(what)));
    if ask(&Friction::Yes, &mut io::stdin().lock())? {
        return Ok(true);
    }
    Err(Failure::refused("not confirmed; nothing was changed"))
}

fn print_plan(output: Output, plan: &Plan) -> io::Result<()> {
    if output.is_json() {
        return document(&PlanShape::from(plan));
    }
    print(format!("{}\n", describe(plan)).as_bytes())
}

fn describe(plan: &Plan) -> String {
    let mut text = format!("plan: {}", shown(&plan.title));
    for line in &plan.lines {
        let _ = write!(
            text,
            "\n  {}: {}; now {}",
            shown(&line.target),
            shown(&line.effect),
            shown(&line.now)
        );
    }
    for warning in &plan.warnings {
        let _ = write!(text, "\n  warning: {}", shown(warning));
    }
    if let Some(run) = &plan.run {
        describe_run(&mut text, plan, run);
    }
    let messages = |one, many| plural_if_known(plan.messages, one, many);
    match (plan.danger, &plan.command) {
        (Danger::Destroys, _) => {
            let _ = write!(
                text,
                "\n  {} lost; this cannot be undone",
                messages("message is", "messages are")
            );
        }
        (Danger::Reversible, Command::Redeliver(_)) => {
            let _ = write!(text, "\n  {} for this", messages("message waits", "messages wait"));
        }
        (Danger::Reversible, _) => {}
    }
    text
}

fn describe_run(text: &mut String, plan: &Plan, run: &RunPlan) {
    let _ = write!(
        text,
        "\n  {}, {}",
        plural(run.total, "message", "messages"),
        plural(run.bytes, "byte", "bytes")
    );
    if let Some(estimated) = run.estimated {
        let _ = write!(text, ", about {}", span(estimated));
    }
    if !run.dropped.is_empty() {
        let _ = write!(
            text,
            "\n  taken off, kept in the journal: {}",
            shown(&run.dropped.join(", "))
        );
    }
    // What is odd about them is among the warnings.
    let plain = run.receivers.iter().filter(|one| !plan.warnings.contains(&one.says));
    for receivers in plain {
        let _ = write!(text, "\n  {}", shown(&receivers.says));
    }
    for sample in &run.samples {
        let _ = write!(text, "\n  for example {}", shown(sample));
    }
}

fn friction(plan: &Plan) -> Friction {
    match &plan.command {
        Command::PurgeQueue(queue) | Command::DeleteQueue(queue) => Friction::Word {
            what: "the queue's name",
            word: shown(queue.as_str()),
        },
        Command::AdoptBroker => Friction::Word {
            what: "the word",
            word: "adopt".to_owned(),
        },
        Command::Run(_) | Command::Expiring(_) => match plan.messages.unwrap_or(0) {
            0 | 1 => Friction::Yes,
            many => Friction::Word {
                what: "the number of messages",
                word: many.to_string(),
            },
        },
        Command::Redeliver(_)
        | Command::PauseQueue(_)
        | Command::ResumeQueue(_)
        | Command::RescueQueue(_)
        | Command::MakeVhost
        | Command::ChangeRun { .. }
        | Command::EditDead { .. }
        | Command::TestEndpoint { .. }
        | Command::DisableEndpoint(_)
        | Command::Events(_)
        | Command::Policy(_) => match plan.lines.len() {
            0 | 1 => Friction::Yes,
            many => Friction::Word {
                what: "the number of things that change",
                word: many.to_string(),
            },
        },
    }
}

/// Cancel is the default: only exactly what was asked for goes on.
fn ask(friction: &Friction, input: &mut impl BufRead) -> io::Result<bool> {
    let (prompt, expected) = match friction {
        Friction::Yes => ("do it? [y/N] ".to_owned(), "y"),
        Friction::Word { what, word } => (format!("type {what} ({word}) to go on: "), word.as_str()),
    };
    let mut terminal = io::stderr().lock();
    write!(terminal, "{prompt}")?;
    terminal.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    let answer = answer.trim_end_matches(['\r', '\n']);
    Ok(answer == expected || (*friction == Friction::Yes && answer.trim().eq_ignore_ascii_case("yes")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::QueueName;
    use crate::engine::{PlanLine, RedeliverTarget};

    fn plan(command: Command, lines: usize) -> Plan {
        let line = PlanLine {
            target: "x".to_owned(),
            now: "y".to_owned(),
            effect: "z".to_owned(),
        };
        Plan {
            command,
            title: String::new(),
            lines: vec![line; lines],
            warnings: Vec::new(),
            messages: None,
            danger: Danger::Destroys,
            hash: String::new(),
            run: None,
        }
    }

    fn says(friction: &Friction, answer: &str) -> bool {
        ask(friction, &mut answer.as_bytes()).unwrap()
    }

    #[test]
    fn the_friction_grows_with_what_can_be_lost() {
        let queue = QueueName::parse("redrive.a.b").unwrap();
        let purge = friction(&plan(Command::PurgeQueue(queue.clone()), 1));
        assert!(says(&purge, "redrive.a.b\n") && !says(&purge, "y\n") && !says(&purge, "\n"));
        let pause = friction(&plan(Command::PauseQueue(queue), 1));
        assert!(says(&pause, "y\n") && !says(&pause, "\n") && !says(&pause, "n\n") && !says(&pause, ""));
        let many = friction(&plan(Command::Redeliver(RedeliverTarget::All), 12));
        assert!(says(&many, "12\n") && !says(&many, "y\n"));
    }

    #[test]
    fn a_plan_says_what_is_lost() {
        let queue = QueueName::parse("q").unwrap();
        assert!(describe(&plan(Command::PurgeQueue(queue), 1)).contains("unknown number of messages are lost"));
    }
}
