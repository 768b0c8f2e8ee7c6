//! What belongs to the row or detail in front: its endpoint, its queues, attempts, dead letters, policy, audit.

use super::{State, act, details, snapshots};
use crate::console::Effect;
use crate::console::action::{ActionId, Reason};
use crate::console::detail::{DetailTab, Subject};
use crate::console::state::View;
use crate::domain::dead_letter::DeadLetter;
use crate::domain::id::QueueName;
use crate::domain::url::EndpointUrl;
use crate::engine::query::PolicyScope;

/// What is known to belong to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::console) struct Relatives {
    queue: Option<QueueName>,
    url: Option<EndpointUrl>,
    policy: Option<PolicyScope>,
    run: Option<String>,
    /// A dead letter, which has attempts of its own.
    letter: bool,
    /// How the audit calls it.
    target: Option<String>,
    group: Option<String>,
}

/// Whether the action leads anywhere from here.
pub(in crate::console) fn possible(state: &State, action: ActionId) -> Result<(), Reason> {
    way(&of(state)?, action).map(drop)
}

/// Whether the line of the audit is about something that can be opened.
pub(in crate::console) fn of_audit(state: &State) -> Option<Subject> {
    let row = state.audit.table.selected_row()?;
    let found = audited(&row.entry.target);
    let run = found.run.map(Subject::Run);
    run.or_else(|| found.url.map(Subject::Endpoint))
        .or_else(|| found.queue.map(Subject::Queue))
}

/// Goes there.
pub(super) fn go(state: &mut State, action: ActionId) -> Vec<Effect> {
    let Ok(way) = of(state).and_then(|found| way(&found, action)) else {
        return Vec::new();
    };
    match way {
        Way::Open(subject, None) => details::open_subject(state, subject),
        Way::Open(subject, Some(tab)) => details::open_at(state, subject, tab),
        Way::Part(tab) => {
            details::show_part(state, tab);
            Vec::new()
        }
        Way::List(view, expression) => filtered(state, view, &expression),
    }
}

/// A list, filtered so that it can be seen and changed.
pub(super) fn filtered(state: &mut State, view: View, expression: &str) -> Vec<Effect> {
    act::go(state, view);
    if view == View::Dead {
        details::set_group(state, None);
    }
    if let Some(list) = state.list_mut() {
        list.filter_write(expression);
    }
    snapshots::arrange_front(state)
}

/// A text as a value of a filter expression.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

enum Way {
    Open(Subject, Option<DetailTab>),
    Part(DetailTab),
    List(View, String),
}

#[expect(clippy::wildcard_enum_match_arm, reason = "only asked for those that lead somewhere")]
fn way(found: &Relatives, action: ActionId) -> Result<Way, Reason> {
    let url = || {
        found
            .url
            .clone()
            .ok_or_else(|| Reason::from("its endpoint is not known"))
    };
    match action {
        ActionId::RelatedQueues => queues(found),
        ActionId::RelatedEndpoint => Ok(Way::Open(Subject::Endpoint(url()?), None)),
        ActionId::RelatedAttempts => match (&found.queue, &found.url) {
            _ if found.letter => Ok(Way::Part(DetailTab::Attempts)),
            (Some(queue), _) => Ok(Way::Open(Subject::Queue(queue.clone()), Some(DetailTab::Attempts))),
            (None, Some(url)) => Ok(Way::Open(Subject::Endpoint(url.clone()), Some(DetailTab::Attempts))),
            (None, None) => Err("neither its queue nor its endpoint is known".into()),
        },
        ActionId::RelatedDead => dead(found),
        ActionId::RelatedPolicy => {
            let scope = if let Some(scope) = &found.policy {
                scope.clone()
            } else {
                PolicyScope {
                    event_type: None,
                    url: Some(url()?),
                }
            };
            Ok(Way::Open(Subject::Policy(scope), None))
        }
        ActionId::RelatedRun => match &found.run {
            Some(run) => Ok(Way::Open(Subject::Run(run.clone()), None)),
            None => Err("no run is named here".into()),
        },
        _ => match &found.target {
            Some(target) => Ok(Way::List(View::Audit, format!("target ~ {}", quoted(target)))),
            None => Err("the audit has no name for it".into()),
        },
    }
}

fn queues(found: &Relatives) -> Result<Way, Reason> {
    let expression = match (&found.url, &found.queue) {
        (Some(url), _) => format!("endpoint = {}", quoted(url.as_str())),
        (None, Some(queue)) => format!("name = {}", quoted(queue.as_str())),
        (None, None) => return Err("neither its endpoint nor its queue is known".into()),
    };
    Ok(Way::List(View::Queues, expression))
}

fn dead(found: &Relatives) -> Result<Way, Reason> {
    let of_url = found.url.as_ref().map(|url| format!("url = {}", quoted(url.as_str())));
    let of_queue = found
        .queue
        .as_ref()
        .map(|queue| format!("origin = {}", quoted(queue.as_str())));
    let of_group = found
        .group
        .as_ref()
        .map(|group| format!("fingerprint = {}", quoted(group)));
    match of_group.or(of_url).or(of_queue) {
        Some(expression) => Ok(Way::List(View::Dead, expression)),
        None => Err("neither its endpoint nor its queue is known".into()),
    }
}

fn of(state: &State) -> Result<Relatives, Reason> {
    let found = match state.details.last().map(|detail| &detail.subject) {
        Some(subject) => Some(of_subject(state, subject)),
        None => of_row(state),
    };
    found.ok_or_else(|| "select a row first".into())
}

fn of_subject(state: &State, subject: &Subject) -> Relatives {
    match subject {
        Subject::Queue(name) => of_queue(state, name),
        Subject::Endpoint(url) => of_url(url.clone()),
        Subject::Policy(scope) => Relatives {
            url: scope.url.clone(),
            policy: Some(scope.clone()),
            target: scope
                .url
                .as_ref()
                .map(|url| url.as_str().to_owned())
                .or_else(|| scope.event_type.clone()),
            ..Relatives::default()
        },
        Subject::Run(id) => of_run(id),
        Subject::EventType(name) => Relatives {
            policy: Some(PolicyScope {
                event_type: Some(name.as_str().to_owned()),
                url: None,
            }),
            target: Some(name.as_str().to_owned()),
            ..Relatives::default()
        },
        // What is done with an event is audited under its type and reference.
        Subject::Event(_) => Relatives::default(),
        Subject::Letter(id) => {
            let open = state.details.last().and_then(|detail| detail.letter());
            let known = open.map(|letter| of_letter(&letter.letter));
            Relatives {
                letter: true,
                target: Some(id.clone()),
                ..known.unwrap_or_default()
            }
        }
    }
}

fn of_row(state: &State) -> Option<Relatives> {
    match state.view {
        View::Queues => state.queues.selected_row().map(|row| of_queue(state, &row.name)),
        View::Endpoints => {
            let row = state.endpoints.selected_row();
            row.map(|row| of_url(row.endpoint.url.clone()))
        }
        View::Retries => state.retries.selected_row().map(|retry| Relatives {
            queue: retry.queue.clone(),
            url: retry.url.clone(),
            target: retry.queue.as_ref().map(|queue| queue.as_str().to_owned()),
            ..Relatives::default()
        }),
        View::Dead if state.dead_group.is_some() => {
            let row = state.dead_letters.table.selected_row();
            row.map(|row| of_letter(row))
        }
        View::Dead => state.dead_groups.table.selected_row().map(|row| Relatives {
            group: Some(row.fingerprint.clone()),
            queue: QueueName::parse(&row.place).ok(),
            ..Relatives::default()
        }),
        View::Policies => {
            let row = state.policies.table.selected_row();
            row.map(|row| of_subject(state, &Subject::Policy(row.scope.clone())))
        }
        View::Runs => state.runs.table.selected_row().map(|row| of_run(&row.record.id)),
        View::Audit => state.audit.table.selected_row().map(|row| audited(&row.entry.target)),
        View::Expiring => {
            let row = state.expiring.table.selected_row();
            row.map(|row| of_queue(state, &row.name))
        }
        View::Overview | View::Events | View::Log => None,
    }
}

fn of_queue(state: &State, name: &QueueName) -> Relatives {
    let rows = state.snapshot.as_ref().map(|snapshot| &snapshot.queues);
    let row = rows.and_then(|rows| {
        let place = rows.binary_search_by(|row| row.name.cmp(name)).ok()?;
        rows.get(place)
    });
    Relatives {
        queue: Some(name.clone()),
        url: row.and_then(|row| row.url.as_deref().cloned()),
        target: Some(name.as_str().to_owned()),
        ..Relatives::default()
    }
}

fn of_url(url: EndpointUrl) -> Relatives {
    Relatives {
        target: Some(url.redacted()),
        url: Some(url),
        ..Relatives::default()
    }
}

fn of_run(id: &str) -> Relatives {
    Relatives {
        run: Some(id.to_owned()),
        target: Some(id.to_owned()),
        ..Relatives::default()
    }
}

fn of_letter(letter: &DeadLetter) -> Relatives {
    Relatives {
        url: letter.url.as_deref().and_then(|url| EndpointUrl::parse(url).ok()),
        queue: letter
            .origin
            .as_deref()
            .and_then(|origin| QueueName::parse(origin).ok()),
        target: Some(letter.id.as_str().to_owned()),
        ..Relatives::default()
    }
}

/// What a line of the audit is about, by its form.
fn audited(target: &str) -> Relatives {
    let is_run = uuid::Uuid::try_parse(target).is_ok();
    let url = EndpointUrl::parse(target).ok();
    let queue = QueueName::parse(target).ok().filter(|_| url.is_none() && !is_run);
    Relatives {
        queue,
        url,
        run: is_run.then(|| target.to_owned()),
        target: Some(target.to_owned()),
        ..Relatives::default()
    }
}
