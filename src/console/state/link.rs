//! The command that prints what a view shows: a deep link that works in a shell, a ticket and a runbook.

use crate::console::state::State;
use crate::console::state::detail::{Compared, Detail, DetailTab, Subject};
use crate::domain::text::shell_word;
use crate::engine::query::PolicyScope;

/// The command for what is in front; `None`: there is none.
#[must_use]
pub fn command(state: &State) -> Option<String> {
    let words = match state.nav.details.last() {
        Some(detail) => of_detail(detail)?,
        None => state.nav.view.screen().command(state)?,
    };
    let mut command = program(state);
    for word in words {
        command.push(' ');
        command.push_str(&shell_word(&word));
    }
    Some(command)
}

/// The program as it is typed for what this console shows: with its configuration and its profile.
#[must_use]
pub fn program(state: &State) -> String {
    let mut command = "redrive".to_owned();
    if let Some(file) = &state.session.profiles.file {
        command.push_str(" --config ");
        command.push_str(&shell_word(file));
    }
    if let Some(profile) = &state.session.profiles.current {
        command.push_str(" --profile ");
        command.push_str(&shell_word(profile));
    }
    command
}

fn of_detail(detail: &Detail) -> Option<Vec<String>> {
    let with = |words: &[&str], name: &str| -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        words.chain([name.to_owned()]).collect()
    };
    Some(match (&detail.subject, detail.tab) {
        (Subject::Queue(name), DetailTab::Attempts) => with(&["attempts", "--queue"], name.as_str()),
        (Subject::Queue(name), DetailTab::Messages) => with(&["queue", "browse"], name.as_str()),
        (Subject::Queue(name), DetailTab::Map) => with(&["queue", "map"], name.as_str()),
        (Subject::Queue(name), _) => with(&["queue", "why"], name.as_str()),
        (Subject::Endpoint(url), DetailTab::Attempts) => with(&["attempts", "--url"], url.as_str()),
        (Subject::Endpoint(url), _) => with(&["endpoint", "show"], url.as_str()),
        (Subject::Policy(scope), tab) => policy(scope, tab),
        (Subject::Run(id), _) => with(&["run", "show"], id),
        (Subject::Letter(id), _) => with(&["dead", "show"], id),
        (Subject::Compared(Compared::Group { fingerprint, filter }), _) => {
            let mut words = with(&["dead", "compare", "--group"], fingerprint);
            words.extend(filter.iter().flat_map(|filter| ["--filter".to_owned(), filter.clone()]));
            words
        }
        (Subject::Compared(Compared::Letters(ids)), _) => {
            let words = ["dead", "compare"].into_iter().chain(ids.iter().map(String::as_str));
            words.map(str::to_owned).collect()
        }
        (Subject::EventType(name), _) => with(&["event-type", "show"], name.as_str()),
        // It is shown by its type and reference, which are not in its id.
        (Subject::Event(_), _) => return None,
    })
}

fn policy(scope: &PolicyScope, tab: DetailTab) -> Vec<String> {
    let verb = if tab == DetailTab::History { "history" } else { "show" };
    let mut words = vec!["policy".to_owned(), verb.to_owned()];
    if let Some(name) = &scope.event_type {
        words.extend(["--type".to_owned(), name.clone()]);
    }
    if let Some(url) = &scope.url {
        words.extend(["--url".to_owned(), url.as_str().to_owned()]);
    }
    words
}
