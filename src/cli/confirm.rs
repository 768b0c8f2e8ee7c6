//! Nothing is changed by an operator without a plan that was seen and confirmed.
//!
//! What has to be typed is decided where the console asks, too: `engine::confirmation`.

use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal, Write as _};

use crate::engine::{Command, Confirmation, Danger, Plan, RunPlan, confirmation};
use crate::wire::plan::PlanShape;

use super::Session;
use super::args::Global;
use super::exit::Failure;
use super::output::{document, print, say, shown};
use crate::domain::words::{about as span, plural, plural_if_known};

/// What the operator decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consent {
    /// Do it.
    Go,
    /// The plan was all that was wanted.
    PlanOnly,
}

pub(super) fn consent(session: &Session<'_>, plan: &Plan) -> Result<Consent, Failure> {
    let global = &session.cli.global;
    if global.dry_run {
        print_plan(session, plan)?;
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
    if ask(
        &confirmation(std::slice::from_ref(plan), session.caution),
        &mut io::stdin().lock(),
    )? {
        Ok(Consent::Go)
    } else {
        Err(Failure::refused("not confirmed; nothing was changed"))
    }
}

/// The same for what has no plan but one sentence.
pub(super) fn consent_to(global: &Global, what: &str) -> Result<bool, Failure> {
    consent_by(global, what, &Confirmation::Yes)
}

/// The same for what loses so much.
pub(super) fn consent_to_loss(global: &Global, what: &str, count: u64) -> Result<bool, Failure> {
    let number = Confirmation::Word {
        what: "number of what is lost",
        word: count.to_string(),
    };
    consent_by(global, what, &number)
}

fn consent_by(global: &Global, what: &str, confirmation: &Confirmation) -> Result<bool, Failure> {
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
    if ask(confirmation, &mut io::stdin().lock())? {
        return Ok(true);
    }
    Err(Failure::refused("not confirmed; nothing was changed"))
}

fn print_plan(session: &Session<'_>, plan: &Plan) -> io::Result<()> {
    if session.output.is_json() {
        return document(&PlanShape::of(plan, session.caution));
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
        (Danger::Reversible, Command::Redeliver(_) | Command::RedeliverPaced { .. } | Command::PaceEndpoint { .. }) => {
            let _ = write!(text, "\n  {} for this", messages("message waits", "messages wait"));
            if let Some(takes) = plan.time_to_empty() {
                let _ = write!(text, ": empty in about {}", span(takes));
            }
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

/// Cancel is the default: only exactly what was asked for goes on.
fn ask(confirmation: &Confirmation, input: &mut impl BufRead) -> io::Result<bool> {
    let (prompt, expected) = match confirmation {
        Confirmation::Yes => ("do it? [y/N] ".to_owned(), "y".to_owned()),
        Confirmation::Word { what, word } => {
            let word = shown(word);
            (format!("type the {what} ({word}) to continue: "), word)
        }
    };
    let mut terminal = io::stderr().lock();
    write!(terminal, "{prompt}")?;
    terminal.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    let answer = answer.trim_end_matches(['\r', '\n']);
    Ok(answer == expected || (*confirmation == Confirmation::Yes && answer.trim().eq_ignore_ascii_case("yes")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::QueueName;
    use crate::engine::{Caution, RedeliverTarget};

    #[test]
    fn only_what_was_asked_for_goes_on() {
        let says = |confirmation: &Confirmation, answer: &str| ask(confirmation, &mut answer.as_bytes()).unwrap();
        let queue = QueueName::parse("redrive.a.b").unwrap();
        let purge = confirmation(
            &[Plan::of(Command::PurgeQueue(queue), 1, Danger::Destroys)],
            Caution::Usual,
        );
        assert!(says(&purge, "redrive.a.b\n") && !says(&purge, "y\n") && !says(&purge, "\n"));
        let yes = Confirmation::Yes;
        assert!(says(&yes, "y\n") && !says(&yes, "\n") && !says(&yes, "n\n") && !says(&yes, ""));
        let many = Plan::of(Command::Redeliver(RedeliverTarget::All), 12, Danger::Reversible);
        let many = confirmation(&[many], Caution::Usual);
        assert!(says(&many, "12\n") && !says(&many, "y\n"));
    }

    #[test]
    fn a_plan_says_what_is_lost() {
        let queue = QueueName::parse("q").unwrap();
        assert!(
            describe(&Plan::of(Command::PurgeQueue(queue), 1, Danger::Destroys))
                .contains("unknown number of messages are lost")
        );
    }
}
