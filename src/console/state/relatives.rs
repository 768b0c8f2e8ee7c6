//! What belongs to a row or detail: its endpoint, its queues, attempts, dead letters, policy, audit.

use crate::console::state::action::Reason;
use crate::console::state::detail::{Compared, DetailTab, Subject};
use crate::console::state::pointed::queue_row;
use crate::console::state::{State, View};
use crate::domain::dead_letter::{DeadLetter, DeadLetterId};
use crate::domain::id::QueueName;
use crate::domain::url::EndpointUrl;
use crate::engine::query::PolicyScope;

/// What is known to belong to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::console) struct Relatives {
    /// Its queue.
    pub(in crate::console) queue: Option<QueueName>,
    /// Its endpoint.
    pub(in crate::console) url: Option<EndpointUrl>,
    /// Its policy.
    pub(in crate::console) policy: Option<PolicyScope>,
    /// Its run.
    pub(in crate::console) run: Option<String>,
    /// A dead letter, which has attempts of its own.
    pub(in crate::console) letter: bool,
    /// The dead letter that a line of the audit is about.
    pub(in crate::console) audited: Option<String>,
    /// How the audit calls it.
    pub(in crate::console) target: Option<String>,
    /// Its group of dead letters.
    pub(in crate::console) group: Option<String>,
}

/// Where a relative leads, or why nowhere.
pub(in crate::console) type FindWay = fn(&Relatives) -> Result<Way, Reason>;

/// How to get there.
pub(in crate::console) enum Way {
    Open(Subject, Option<DetailTab>),
    Part(DetailTab),
    List(View, String),
}

impl Relatives {
    pub(in crate::console) fn queues(&self) -> Result<Way, Reason> {
        let expression = match (&self.url, &self.queue) {
            (Some(url), _) => format!("endpoint = {}", quoted(url.as_str())),
            (None, Some(queue)) => format!("name = {}", quoted(queue.as_str())),
            (None, None) => return Err("neither its endpoint nor its queue is known".into()),
        };
        Ok(Way::List(View::Queues, expression))
    }

    pub(in crate::console) fn endpoint(&self) -> Result<Way, Reason> {
        Ok(Way::Open(Subject::Endpoint(self.known_url()?), None))
    }

    pub(in crate::console) fn attempts(&self) -> Result<Way, Reason> {
        let subject = match (&self.queue, &self.url) {
            _ if self.letter => return Ok(Way::Part(DetailTab::Attempts)),
            (Some(queue), _) => Subject::Queue(queue.clone()),
            (None, Some(url)) => Subject::Endpoint(url.clone()),
            (None, None) => return Err("neither its queue nor its endpoint is known".into()),
        };
        Ok(Way::Open(subject, Some(DetailTab::Attempts)))
    }

    pub(in crate::console) fn dead(&self) -> Result<Way, Reason> {
        let named = |field: &str, name: &str| format!("{field} = {}", quoted(name));
        let group = self.group.as_ref().map(|group| named("fingerprint", group));
        let url = self.url.as_ref().map(|url| named("url", url.as_str()));
        let queue = self.queue.as_ref().map(|queue| named("origin", queue.as_str()));
        // Those of a queue are not all of its endpoint.
        match group.or(queue).or(url) {
            Some(expression) => Ok(Way::List(View::Dead, expression)),
            None => Err("neither its endpoint nor its queue is known".into()),
        }
    }

    pub(in crate::console) fn policy(&self) -> Result<Way, Reason> {
        let scope = match &self.policy {
            Some(scope) => scope.clone(),
            None => PolicyScope {
                event_type: None,
                url: Some(self.known_url()?),
            },
        };
        Ok(Way::Open(Subject::Policy(scope), None))
    }

    pub(in crate::console) fn run(&self) -> Result<Way, Reason> {
        match &self.run {
            Some(run) => Ok(Way::Open(Subject::Run(run.clone()), None)),
            None => Err("no run is named here".into()),
        }
    }

    pub(in crate::console) fn audit(&self) -> Result<Way, Reason> {
        match &self.target {
            // What was done with several in one go names them in its details.
            Some(target) => {
                let name = quoted(target);
                Ok(Way::List(View::Audit, format!("target ~ {name} or detail ~ {name}")))
            }
            None => Err("the audit has no name for it".into()),
        }
    }

    fn known_url(&self) -> Result<EndpointUrl, Reason> {
        self.url.clone().ok_or_else(|| "its endpoint is not known".into())
    }
}

/// What belongs to a detail.
pub(in crate::console) fn of_subject(state: &State, subject: &Subject) -> Relatives {
    match subject {
        Subject::Queue(name) => of_queue(state, name),
        Subject::Endpoint(url) => of_url(url.clone()),
        Subject::Policy(scope) => Relatives {
            url: scope.url.clone(),
            policy: Some(scope.clone()),
            target: scope.url.as_ref().map(EndpointUrl::redacted).or_else(|| name_of(scope)),
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
        // What is done with an event is audited under its type and reference, and its number behind them.
        Subject::Event(_) => {
            let open = state.nav.details.last().and_then(|detail| detail.event());
            Relatives {
                target: open.map(|open| format!("{} {} (", open.event.shown_type(), open.event.reference.as_str())),
                ..Relatives::default()
            }
        }
        Subject::Compared(_) => Relatives::default(),
        Subject::Letter(id) => {
            let open = state.nav.details.last().and_then(|detail| detail.letter());
            let known = open.map(|letter| of_letter(&letter.letter));
            Relatives {
                letter: true,
                target: Some(id.clone()),
                ..known.unwrap_or_default()
            }
        }
    }
}

pub(in crate::console) fn of_queue(state: &State, name: &QueueName) -> Relatives {
    let row = queue_row(state, name);
    Relatives {
        queue: Some(name.clone()),
        url: row.and_then(|row| row.url.as_deref().cloned()),
        target: Some(name.as_str().to_owned()),
        ..Relatives::default()
    }
}

pub(in crate::console) fn of_url(url: EndpointUrl) -> Relatives {
    Relatives {
        target: Some(url.redacted()),
        url: Some(url),
        ..Relatives::default()
    }
}

pub(in crate::console) fn of_run(id: &str) -> Relatives {
    Relatives {
        run: Some(id.to_owned()),
        target: Some(id.to_owned()),
        ..Relatives::default()
    }
}

pub(in crate::console) fn of_letter(letter: &DeadLetter) -> Relatives {
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

/// What a line of the audit is about, by its form. A queue is one that is known: the same could be the name of anything.
pub(in crate::console) fn audited(state: &State, target: &str) -> Relatives {
    let letter = target.rsplit_once("dead letter ").map_or(target, |(_, id)| id);
    let letter = DeadLetterId::parse(letter).map(|id| id.as_str().to_owned());
    let run = target.strip_prefix("run ").unwrap_or(target);
    let is_run = letter.is_none() && uuid::Uuid::try_parse(run).is_ok();
    let queue = QueueName::parse(target).ok();
    Relatives {
        queue: queue.filter(|name| queue_row(state, name).is_some()),
        url: audited_url(state, target),
        run: is_run.then(|| run.to_owned()),
        target: Some(letter.clone().unwrap_or_else(|| target.to_owned())),
        audited: letter,
        ..Relatives::default()
    }
}

/// The audit has URLs without the values in their queries: it may be that of one endpoint, and of no other.
fn audited_url(state: &State, target: &str) -> Option<EndpointUrl> {
    let Some((before, _)) = target.split_once('?') else {
        return EndpointUrl::parse(target).ok();
    };
    let snapshot = state.data.snapshot.as_ref()?;
    let urls = snapshot.endpoints.iter().map(|row| &row.endpoint.url);
    let mut alike = urls.filter(|url| url.as_str().starts_with(before) && url.redacted() == target);
    alike.next().filter(|_| alike.next().is_none()).cloned()
}

/// A text as a value of a filter expression.
pub(in crate::console) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The name or URL of a detail.
#[must_use]
pub(in crate::console) fn name_of_subject(subject: &Subject) -> Option<String> {
    match subject {
        Subject::Queue(name) => Some(name.as_str().to_owned()),
        Subject::Endpoint(url) => Some(url.as_str().to_owned()),
        Subject::Policy(scope) => name_of(scope),
        Subject::Run(id) | Subject::Letter(id) => Some(id.clone()),
        Subject::Compared(Compared::Group { fingerprint, .. }) => Some(fingerprint.clone()),
        Subject::Compared(Compared::Letters(ids)) => Some(ids.join(" ")),
        Subject::Event(id) => Some(id.to_string()),
        Subject::EventType(name) => Some(name.as_str().to_owned()),
    }
}

/// What a policy is for.
#[must_use]
pub(in crate::console) fn name_of(scope: &PolicyScope) -> Option<String> {
    let url = scope.url.as_ref().map(|url| url.as_str().to_owned());
    url.or_else(|| scope.event_type.clone())
}
