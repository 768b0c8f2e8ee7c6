//! The detail of a row: why it is not moving, its attempts, the head of the queue, the payload.

use crate::console::state::payload::{MessageKey, Reading};
use crate::console::table::export::{self, Record};
use crate::domain::event::{Event, EventType};
use crate::domain::id::{NotificationId, QueueName};
use crate::domain::mask::MaskRules;
use crate::domain::message::Message;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::dead::{Compared as ComparedPlace, DeadComparison, DeadDetail, QueueStep};
use crate::engine::events::{EventTypeRecord, HandledEvent, Subscription};
use crate::engine::policies::PolicyView;
use crate::engine::query::{PolicyScope, PolicyVersion};
use crate::engine::runs::RunDetail;
use crate::engine::view::{AttemptView, BrowsedMessage, EndpointView, QueueView};
use crate::wire;

/// Attempts that are shown, newest first.
pub(in crate::console) const ATTEMPTS_MAX: u32 = 100;
/// The same of a preview.
pub(in crate::console) const ATTEMPTS_BRIEF: u32 = 10;

/// Whether there may be more attempts than these, which then are the newest.
pub(in crate::console) const fn are_newest(attempts: usize) -> bool {
    attempts == ATTEMPTS_BRIEF as usize || attempts == ATTEMPTS_MAX as usize
}

/// What the detail is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A queue.
    Queue(QueueName),
    /// An endpoint.
    Endpoint(EndpointUrl),
    /// A retry policy.
    Policy(PolicyScope),
    /// A run, by its id.
    Run(String),
    /// A dead letter, by its id.
    Letter(String),
    /// Dead letters side by side.
    Compared(Compared),
    /// An event, by its id.
    Event(i64),
    /// An event type.
    EventType(EventType),
}

/// Dead letters that are shown side by side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Compared {
    /// These, by their ids.
    Letters(Vec<String>),
    /// The first of a group.
    Group {
        /// The group.
        fingerprint: String,
        /// Only those that match this expression.
        filter: Option<String>,
    },
}

/// What is looked up for a detail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetailQuery {
    /// Of what.
    pub subject: Subject,
    /// How much of it.
    pub extent: Extent,
}

/// How much of a detail is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Only what a preview has room for: of the attempts the newest few.
    Brief,
    /// What costs the broker nothing.
    Whole,
    /// Also the first messages of the queue. They are taken into view and given back, which needs
    /// the queue's lease and marks them as redelivered on the broker: only when a key asked for it.
    WithMessages,
    /// Also where its dead letters go: asked of the broker queue by queue, only while that is in front.
    WithMap,
}

/// A detail as it was found; each part for itself, since each can fail.
#[derive(Clone, Debug, PartialEq)]
pub struct DetailAnswer {
    /// Of what.
    pub subject: Subject,
    /// When it was looked up.
    pub taken_at: Timestamp,
    /// The queue, when the subject is one (errors are from outside).
    pub queue: Option<Result<QueueView, String>>,
    /// The endpoint: the subject, or the one that the queue delivers to.
    pub endpoint: Option<Result<EndpointView, String>>,
    /// The last attempts, newest first.
    pub attempts: Result<Vec<AttemptView>, String>,
    /// The first messages, when they were asked for.
    pub messages: Option<Result<Vec<BrowsedMessage>, String>>,
    /// What leads into the queue and out of it, when that was asked for.
    pub map: Option<Result<Vec<QueueStep>, String>>,
    /// What the detail is about, when that is neither queue nor endpoint.
    pub about: Option<Result<About, String>>,
}

/// What a detail is about, as it was found.
#[derive(Clone, Debug, PartialEq)]
pub enum About {
    /// A policy with its history, newest first.
    Policy {
        /// What is saved, and what applies.
        view: Box<PolicyView>,
        /// Every version.
        history: Vec<PolicyVersion>,
    },
    /// A run with its first items, those that failed before the others.
    Run(Box<RunDetail>),
    /// A dead letter with its message.
    Letter(Box<DeadDetail>),
    /// What is alike in dead letters, and what is not.
    Compared(Box<DeadComparison>),
    /// An event with what else is known of its key.
    Event(Box<EventDetail>),
    /// An event type.
    EventType(Box<TypeDetail>),
}

/// An event with what else is known of its key.
#[derive(Clone, Debug, PartialEq)]
pub struct EventDetail {
    /// The event.
    pub event: Event,
    /// Other events of its key.
    pub others: Vec<Event>,
    /// Those of its key that were handled lately, where the type remembers them.
    pub handled: Vec<HandledEvent>,
}

/// An event type: its metadata, who gets its events, what was handled.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeDetail {
    /// The type.
    pub record: EventTypeRecord,
    /// Who gets its events.
    pub subscriptions: Vec<Subscription>,
    /// What was handled lately, where the type remembers it.
    pub handled: Vec<HandledEvent>,
    /// The retry policy of what is made of its events.
    pub policy: Box<PolicyView>,
}

/// Which part of a detail is in front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DetailTab {
    /// Why it moves or does not, with its numbers.
    #[default]
    Why,
    /// Its attempts.
    Attempts,
    /// The first messages, with headers and payload.
    Messages,
    /// Its depth and its rate over the last hour, drawn.
    Hour,
    /// What brings messages into it, and where those go that die in it.
    Map,
    /// A policy as it applies, drawn.
    Schedule,
    /// The versions of a policy.
    History,
    /// How far a run is.
    Progress,
    /// What became of the messages of a run.
    Items,
    /// Headers and payload of a dead letter, payload of an event.
    Payload,
    /// Where dead letters differ.
    Different,
    /// Where they do not.
    Alike,
    /// What the metadata of a type says.
    Metadata,
    /// Who gets the events of a type.
    Subscriptions,
    /// What was handled, and what else there is of the key.
    Handled,
}

impl DetailTab {
    /// As written on the screen.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Why => "Why",
            Self::Attempts => "Attempts",
            Self::Messages => "Messages",
            Self::Hour => "Hour",
            Self::Schedule => "Schedule",
            Self::History | Self::Handled => "History",
            Self::Progress => "Progress",
            Self::Items => "Items",
            Self::Payload => "Payload",
            Self::Map => "Map",
            Self::Different => "Different",
            Self::Alike => "The same",
            Self::Metadata => "Metadata",
            Self::Subscriptions => "Subscriptions",
        }
    }
}

impl Subject {
    /// Its parts, in the order of the screen; the first is the one it opens with.
    #[must_use]
    pub const fn tabs(&self) -> &'static [DetailTab] {
        match self {
            Self::Queue(_) => &[
                DetailTab::Why,
                DetailTab::Attempts,
                DetailTab::Messages,
                DetailTab::Hour,
                DetailTab::Map,
            ],
            Self::Endpoint(_) => &[DetailTab::Why, DetailTab::Attempts, DetailTab::Hour],
            Self::Policy(_) => &[DetailTab::Schedule, DetailTab::History],
            Self::Run(_) => &[DetailTab::Progress, DetailTab::Items],
            Self::Letter(_) => &[DetailTab::Why, DetailTab::Payload, DetailTab::Attempts],
            Self::Compared(_) => &[DetailTab::Different, DetailTab::Alike],
            Self::Event(_) => &[DetailTab::Why, DetailTab::Payload, DetailTab::Handled],
            Self::EventType(_) => &[DetailTab::Metadata, DetailTab::Subscriptions, DetailTab::Handled],
        }
    }
}

impl Subject {
    /// What it is, in a word.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Queue(_) => "queue",
            Self::Endpoint(_) => "endpoint",
            Self::Policy(_) => "policy",
            Self::Run(_) => "run",
            Self::Letter(_) => "letter",
            Self::Compared(_) => "compared",
            Self::Event(_) => "event",
            Self::EventType(_) => "type",
        }
    }
}

impl DetailAnswer {
    /// An answer in which nothing was found yet.
    #[must_use]
    pub const fn nothing(subject: Subject, taken_at: Timestamp) -> Self {
        Self {
            subject,
            taken_at,
            queue: None,
            endpoint: None,
            attempts: Ok(Vec::new()),
            messages: None,
            map: None,
            about: None,
        }
    }
}

/// How a payload is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadForm {
    /// JSON set out, text as lines, anything else as bytes.
    #[default]
    SetOut,
    /// As it came.
    AsIs,
    /// Its bytes.
    Bytes,
}

impl PayloadForm {
    /// The next one.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::SetOut => Self::AsIs,
            Self::AsIs => Self::Bytes,
            Self::Bytes => Self::SetOut,
        }
    }
}

/// An open detail.
#[derive(Clone, Debug, PartialEq)]
pub struct Detail {
    /// Of what.
    pub subject: Subject,
    /// Which part is in front.
    pub tab: DetailTab,
    /// The newest answer; `None`: still being looked up for the first time.
    pub answer: Option<DetailAnswer>,
    /// A query is under way since then.
    pub asked_at: Option<Timestamp>,
    /// It is looked up then, if it is still looked at: rows that are only passed are not.
    pub due_at: Option<Timestamp>,
    /// The attempt that is selected once it is there.
    pub seeks: Option<Sought>,
    /// Which attempt or message is selected.
    pub selected: usize,
    /// How far its text is read, and the payload in it.
    pub reading: Reading,
    /// The message whose masked values are shown.
    pub revealed: Option<MessageKey>,
    /// The message for which that was asked and not answered.
    pub revealing: Option<MessageKey>,
}

/// One attempt of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sought {
    /// Of which message.
    pub message: NotificationId,
    /// When it began.
    pub started_at: Timestamp,
}

/// What Enter in a detail opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeadsTo {
    /// The endpoint of the queue.
    Endpoint(EndpointUrl),
    /// The queues of the endpoint.
    Queues(EndpointUrl),
}

impl Detail {
    /// A detail whose content is not there yet.
    #[must_use]
    pub fn new(subject: Subject, asked_at: Timestamp) -> Self {
        Self {
            tab: subject.tabs().first().copied().unwrap_or_default(),
            subject,
            answer: None,
            asked_at: Some(asked_at),
            due_at: None,
            seeks: None,
            selected: 0,
            reading: Reading::default(),
            revealed: None,
            revealing: None,
        }
    }

    /// A detail that is looked up at a time, if it is looked at then; at the part that another one was at.
    #[must_use]
    pub fn due(subject: Subject, due_at: Timestamp, like: Option<&Self>) -> Self {
        let tab = like.map(|like| like.tab).filter(|tab| subject.tabs().contains(tab));
        let mut detail = Self::new(subject, due_at);
        (detail.asked_at, detail.due_at) = (None, Some(due_at));
        detail.tab = tab.unwrap_or(detail.tab);
        if let Some(like) = like {
            detail.reading = like.reading.of_another();
        }
        detail
    }

    /// Whether what is masked in the dead letter itself is shown.
    #[must_use]
    pub fn reveals_letter(&self) -> bool {
        self.revealed.is_some() && self.tab != DetailTab::Attempts
    }

    /// The same of what is sent of it, where that is another message than the one that died.
    #[must_use]
    pub fn reveals_sent(&self) -> bool {
        self.reveals_letter() && !self.reading.original
    }

    /// Whether a payload can be read in this part.
    #[must_use]
    pub const fn shows_payload(&self) -> bool {
        matches!(self.tab, DetailTab::Messages | DetailTab::Payload | DetailTab::Attempts)
            && self.reading.page.is_some()
    }

    /// Lines that scroll with the payload and stand before it: the headers of a dead letter.
    #[must_use]
    pub fn lines_above(&self) -> usize {
        match (&self.subject, self.tab, &self.reading.page) {
            (Subject::Letter(_), DetailTab::Payload, Some(page)) => page.headers.len(),
            _ => 0,
        }
    }

    /// What Enter opens from here; `None`: that is not known (yet).
    #[must_use]
    pub fn leads_to(&self) -> Option<LeadsTo> {
        match &self.subject {
            Subject::Endpoint(url) => Some(LeadsTo::Queues(url.clone())),
            Subject::Queue(_) => {
                let queue = self.answer.as_ref()?.queue.as_ref()?.as_ref().ok()?;
                queue.url.clone().map(LeadsTo::Endpoint)
            }
            Subject::Policy(scope) => scope.url.clone().map(LeadsTo::Endpoint),
            Subject::Letter(_) => {
                let url = self.letter()?.letter.url.as_deref()?;
                EndpointUrl::parse(url).ok().map(LeadsTo::Endpoint)
            }
            Subject::EventType(_) => self
                .selected_subscription()
                .map(|one| LeadsTo::Endpoint(one.url.clone())),
            Subject::Run(_) | Subject::Event(_) | Subject::Compared(_) => None,
        }
    }

    /// What was found of it, for other programs, without what the rules hide and nobody revealed; `None`: nothing yet.
    #[must_use]
    pub fn record(&self, rules: &MaskRules) -> Option<Record> {
        let answer = self.answer.as_ref()?;
        let mut record = match (&answer.queue, &answer.endpoint, &answer.about) {
            (Some(Ok(queue)), ..) => export::of(&wire::queue::Queue::from(queue)),
            (_, Some(Ok(endpoint)), _) => export::of(&wire::endpoint::Endpoint::from(endpoint)),
            (.., Some(Ok(About::Policy { view, .. }))) => export::of(&wire::policy::Policy::from(&**view)),
            (.., Some(Ok(About::Run(run)))) => export::of(&wire::run::RunWithItems::from(&**run)),
            (.., Some(Ok(About::Letter(letter)))) => self.letter_record(letter, rules),
            (.., Some(Ok(About::Compared(found)))) => return Some(export::of(&wire::dead::Comparison::from(&**found))),
            _ => return None,
        };
        if let Ok(attempts) = &answer.attempts {
            let attempts = attempts.iter().enumerate().map(|(place, one)| {
                let shown = self.tab == DetailTab::Attempts && place == self.selected && self.revealed.is_some();
                let mut one = one.clone();
                if let (false, Some(response)) = (shown, &one.response) {
                    one.response = Some(rules.body(response).value.into_owned());
                }
                export::of(&wire::record::Attempt::from(&one))
            });
            record.insert("attempts_made".to_owned(), attempts.collect());
        }
        Some(record)
    }

    fn letter_record(&self, letter: &DeadDetail, rules: &MaskRules) -> Record {
        let mut letter = letter.clone();
        let hide = |message: &mut Message| {
            message.body = rules.body(&message.body).value.into_owned().into();
            for (name, value) in &mut message.headers {
                *value = rules.header(name, value).value;
            }
        };
        // Of two messages only the one in front was revealed.
        let is_original = letter.edited.is_none() || self.reading.original;
        if !self.reveals_letter() || !is_original {
            hide(&mut letter.message);
        }
        if let Some(edited) = letter.edited.as_mut().filter(|_| !self.reveals_letter() || is_original) {
            hide(&mut edited.message);
        }
        export::of(&wire::dead::Detail::from(&letter))
    }

    /// What was found of it, when that is neither queue nor endpoint.
    #[must_use]
    pub fn about(&self) -> Option<&About> {
        self.answer.as_ref()?.about.as_ref()?.as_ref().ok()
    }

    /// The version of a policy that is selected in its history.
    #[must_use]
    pub fn selected_version(&self) -> Option<&PolicyVersion> {
        let About::Policy { history, .. } = self.about()? else {
            return None;
        };
        history.get(self.selected).filter(|_| self.tab == DetailTab::History)
    }

    /// The dead letter that it is about, once it was read.
    #[must_use]
    pub fn letter(&self) -> Option<&DeadDetail> {
        let About::Letter(letter) = self.about()? else {
            return None;
        };
        Some(letter)
    }

    /// The event that it is about, once it was read.
    #[must_use]
    pub fn event(&self) -> Option<&EventDetail> {
        let About::Event(event) = self.about()? else {
            return None;
        };
        Some(event)
    }

    /// The event type that it is about, once it was read.
    #[must_use]
    pub fn event_type(&self) -> Option<&TypeDetail> {
        let About::EventType(found) = self.about()? else {
            return None;
        };
        Some(found)
    }

    /// What was handled lately.
    #[must_use]
    pub fn handled(&self) -> &[HandledEvent] {
        match self.about() {
            Some(About::Event(event)) => &event.handled,
            Some(About::EventType(found)) => &found.handled,
            Some(About::Policy { .. } | About::Run(_) | About::Letter(_) | About::Compared(_)) | None => &[],
        }
    }

    /// The subscription that is selected.
    #[must_use]
    pub fn selected_subscription(&self) -> Option<&Subscription> {
        let found = self.event_type().filter(|_| self.tab == DetailTab::Subscriptions)?;
        found.subscriptions.get(self.selected)
    }

    /// The comparison that it is about, once it was made.
    #[must_use]
    pub fn compared(&self) -> Option<&DeadComparison> {
        let About::Compared(found) = self.about()? else {
            return None;
        };
        Some(found)
    }

    /// The places of a comparison in the part in front, one for each line.
    pub fn compared_places(&self) -> impl Iterator<Item = &ComparedPlace> {
        let found = self.compared().map(|found| &found.comparison);
        let front = self.tab == DetailTab::Different;
        let places = found.into_iter().flat_map(|found| &found.places);
        places.filter(move |place| place.is_different() == front)
    }

    /// The run that it is about, once it was read.
    #[must_use]
    pub fn run(&self) -> Option<&RunDetail> {
        let About::Run(run) = self.about()? else {
            return None;
        };
        Some(run)
    }

    /// Attempts or messages that can be selected in the part in front.
    #[must_use]
    pub fn entries(&self) -> usize {
        let Some(answer) = &self.answer else {
            return 0;
        };
        match self.tab {
            DetailTab::Why
            | DetailTab::Hour
            | DetailTab::Map
            | DetailTab::Schedule
            | DetailTab::Progress
            | DetailTab::Payload
            | DetailTab::Different
            | DetailTab::Alike
            | DetailTab::Metadata => 0,
            DetailTab::Subscriptions => self.event_type().map_or(0, |found| found.subscriptions.len()),
            DetailTab::Handled => self.handled().len(),
            DetailTab::History => match &answer.about {
                Some(Ok(About::Policy { history, .. })) => history.len(),
                Some(Ok(_) | Err(_)) | None => 0,
            },
            DetailTab::Items => self.run().map_or(0, |run| run.items.len()),
            DetailTab::Attempts => answer.attempts.as_ref().map_or(0, Vec::len),
            DetailTab::Messages => match &answer.messages {
                Some(Ok(messages)) => messages.len(),
                Some(Err(_)) | None => 0,
            },
        }
    }
}
