//! Editing a dead letter: what is sent instead of it is kept in the store, the original stays where it is until it
//! is redriven, and for a while after that.

use std::sync::Arc;
use std::time::Duration;

use super::belonging::misplaced;
use super::difference;
use super::kept;
use super::letters::{Letter, sample};
use super::order::{Order, OrderKind};
use super::outgoing::shown;
use super::taken::{Halt, InHand, TakenRun};
use super::view::{Edit, EditedLetter};
use super::{RunPlanner, Runs};
use crate::ambient::HashMap;
use crate::domain::dead_letter::{self, Home};
use crate::domain::error_queue::unwrapped;
use crate::domain::mask::{MASK, MaskRules};
use crate::domain::message::{Message, decode, encode};
use crate::domain::naming::Naming;
use crate::domain::notification::{HEADER_REQUEST, RESERVED, is_reserved};
use crate::domain::run::Target;
use crate::engine::EngineError;
use crate::engine::command::{Command, Danger, Done, Plan, PlanLine, WriteGrant};
use crate::engine::operation::{About, Friction, Operation, Subject};
use crate::store::{KeptKind, KeptMessage, KeptQuery, StoreError, StoreHandle};

/// How long looks and runs that have the letter's queue are waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// What AMQP takes of the name of a header, or of a content type.
const SHORT_BYTES_MAX: usize = 255;
/// Characters of a value that a plan's difference shows.
const SHOWN_MAX: usize = 400;

impl Edit {
    /// What stands for a hidden value keeps it.
    pub(super) fn apply(&self, original: &Message, rules: &MaskRules) -> Result<Message, EngineError> {
        let mut edited = original.clone();
        if let Some(body) = &self.body {
            edited.body = kept::body(rules, &original.body, body)?;
        }
        if let Some(content_type) = &self.content_type {
            edited.content_type = Some(content_type.clone());
        }
        for (name, value) in &self.headers {
            let value = match value {
                Some(value) => match kept::header(rules, original, name, value)? {
                    Some(value) => Some(value),
                    None => continue,
                },
                None => None,
            };
            edited.headers.retain(|(present, _)| present != name);
            edited.headers.extend(value.map(|value| (name.clone(), value)));
        }
        Ok(edited)
    }

    /// Whatever the message is, this could not be sent.
    pub(super) fn refuse_unsendable(&self) -> Result<(), EngineError> {
        let invalid = |field: String, message: String| Err(EngineError::Invalid { field, message });
        if self
            .content_type
            .as_ref()
            .is_some_and(|text| text.len() > SHORT_BYTES_MAX)
        {
            let message = format!("content_type must be at most {SHORT_BYTES_MAX} bytes");
            return invalid("content_type".to_owned(), message);
        }
        for (name, value) in &self.headers {
            if name.is_empty() || name.len() > SHORT_BYTES_MAX {
                let message = format!("headers has a name that is not of 1 to {SHORT_BYTES_MAX} bytes");
                return invalid("headers".to_owned(), message);
            }
            if value.is_some() && name.strip_prefix(HEADER_REQUEST).is_some_and(is_reserved) {
                let field = format!("headers.{name}");
                return invalid(field.clone(), format!("{field} {RESERVED}"));
            }
        }
        Ok(())
    }

    /// What goes back has to be delivered there as it is edited.
    fn refuse_undeliverable(&self, letter: &EditedLetter, naming: &Naming) -> Result<(), EngineError> {
        let Some(why) = cannot_go_back(naming, letter.queue.as_str(), &letter.original, &letter.edited) else {
            return Ok(());
        };
        let field = if self.headers.is_empty() {
            "content_type"
        } else {
            "headers"
        };
        Err(EngineError::Invalid {
            field: field.to_owned(),
            message: format!("as edited it could not be delivered: {why}"),
        })
    }

    /// What is different, for somebody who does not see what the rules hide, and not whether he guessed it: what is
    /// written over something hidden is a difference always.
    fn shown(&self, letter: &EditedLetter, rules: &MaskRules) -> Vec<PlanLine> {
        let (before, after) = (rules.message(&letter.before), rules.message(&letter.edited));
        let mut lines = differences(&before, &after);
        let mut hides = |target: String| {
            lines.retain(|line| line.target != target);
            lines.push(PlanLine {
                target,
                now: MASK.to_owned(),
                effect: MASK.to_owned(),
            });
        };
        let body = rules.body(&letter.before.body);
        if self.body.is_some() && body.hidden > 0 {
            hides("body, where it is hidden".to_owned());
        }
        for (name, _) in &self.headers {
            let was = letter.before.header(name);
            if rules.hides_header(name) || was.is_some_and(|value| rules.header(name, value).hidden > 0) {
                hides(format!("header {name}"));
            }
        }
        lines
    }
}

/// Something else is sent instead of a dead letter when it is redriven.
pub(in crate::engine) struct EditDead<'a> {
    pub(in crate::engine) id: &'a str,
    pub(in crate::engine) edit: &'a Edit,
}

impl Operation<Runs> for EditDead<'_> {
    fn about(&self) -> About {
        About {
            name: "dead edit",
            subject: Subject::Name(self.id.to_owned()),
            friction: Friction::Yes,
            undo: Err("E writes the payload again; written as the original is, that is sent again"),
        }
    }

    /// The letter; the lines of the plan are what is different in it.
    fn changes(&self, _: &Plan) -> Vec<String> {
        vec![self.id.to_owned()]
    }

    async fn plan(&self, runs: &Arc<Runs>) -> Result<Plan, EngineError> {
        let (id, edit) = (self.id, self.edit);
        let letter = runs.edited_letter(id, edit).await?;
        edit.refuse_undeliverable(&letter, &runs.settings.naming)?;
        let (lines, follows) = match runs.masks() {
            // Which of the two it is would tell whether a guess of what is hidden is right.
            Some(rules) => (
                edit.shown(&letter, &rules),
                "it is sent when it is redriven, and the original is kept beside it unless this is the original again",
            ),
            None if letter.edited == letter.original => (
                differences(&letter.before, &letter.edited),
                "this is the original again: nothing is kept beside it any more",
            ),
            None => (
                differences(&letter.before, &letter.edited),
                "it is sent when it is redriven; the original is kept beside it",
            ),
        };
        if lines.is_empty() {
            return Err(EngineError::Invalid {
                field: "body".to_owned(),
                message: "nothing would change: give another body, content type or headers".to_owned(),
            });
        }
        Ok(Plan {
            command: Command::EditDead {
                id: id.to_owned(),
                edit: edit.clone(),
            },
            title: format!("edit dead letter {id} of queue {}", letter.queue.as_str()),
            lines,
            warnings: vec![follows.to_owned()],
            messages: Some(1),
            danger: Danger::Reversible,
            hash: String::new(),
            run: None,
            ends_reason: None,
            names: Vec::new(),
        })
    }

    async fn perform(&self, runs: &Arc<Runs>, _: &Plan, grant: &WriteGrant) -> Result<Done, EngineError> {
        let (id, edit) = (self.id, self.edit);
        let letter = runs.edited_letter(id, edit).await?;
        edit.refuse_undeliverable(&letter, &runs.settings.naming)?;
        if letter.edited == letter.original {
            runs.store.kept_drop(&letter.id, KeptKind::Edited).await?;
            return Ok(Done::Edited(Box::new(letter)));
        }
        let message = encode(&letter.edited).ok_or_else(|| EngineError::Refused {
            why: "the message is too large to be kept".to_owned(),
        })?;
        let kept = KeptMessage {
            letter: letter.id.clone(),
            kind: KeptKind::Edited,
            queue: letter.queue.clone(),
            message,
            run: None,
            ordinal: 0,
            actor: grant.actor().to_owned(),
            keep_for: None,
            at: runs.clock.now(),
            until: None,
        };
        runs.store.kept_put(&[kept]).await?;
        Ok(Done::Edited(Box::new(letter)))
    }
}

impl TakenRun<'_> {
    /// Whether anybody edited anything.
    pub(super) async fn has_edits(&self) -> Result<bool, Halt> {
        Ok(self.document.kind == OrderKind::Redrive && any_edit(&self.engine.store).await?)
    }

    /// The edited messages of a window; their originals are kept from now on.
    pub(super) async fn edited(&mut self, window: &[InHand]) -> Result<HashMap<String, Message>, Halt> {
        if !self.has_edits {
            return Ok(HashMap::default());
        }
        let query = edits_of(letters_of(window));
        let mut edited = HashMap::default();
        for kept in self.engine.store.kept_list(&query).await? {
            let Some(message) = decode(&kept.message) else {
                return Err(Halt::Broken(format!(
                    "the edited message of {} cannot be read",
                    kept.letter
                )));
            };
            edited.insert(kept.letter, message);
        }
        let originals = window.iter().filter(|hand| edited.contains_key(&hand.letter));
        let originals: Vec<KeptMessage> = originals
            .map(|hand| KeptMessage {
                letter: hand.letter.clone(),
                kind: KeptKind::Original,
                queue: hand.source.clone(),
                message: encode(&hand.message).unwrap_or_default(),
                run: Some(self.record.id.clone()),
                ordinal: hand.ordinal,
                actor: self.record.actor.clone(),
                keep_for: Some(self.engine.settings.discard_keep),
                at: self.record.created_at,
                until: None,
            })
            .collect();
        if !originals.is_empty() {
            self.engine.store.kept_put(&originals).await?;
        }
        Ok(edited)
    }

    /// The edits of what is settled are done with.
    pub(super) async fn forget_edits(&self, settled: &[InHand]) -> Result<(), Halt> {
        if !self.has_edits || settled.is_empty() {
            return Ok(());
        }
        let query = edits_of(letters_of(settled));
        for kept in self.engine.store.kept_list(&query).await? {
            self.engine.store.kept_drop(&kept.letter, KeptKind::Edited).await?;
        }
        Ok(())
    }
}

impl Runs {
    pub(in crate::engine) async fn edited_letter(
        self: &Arc<Self>,
        id: &str,
        edit: &Edit,
    ) -> Result<EditedLetter, EngineError> {
        edit.refuse_unsendable()?;
        let detail = self.dead_letters.dead_detail(id, PATIENCE).await?;
        if detail.letter.home == Home::Event {
            return Err(EngineError::Refused {
                why: format!("dead letter {id:?} is an event: an event is not edited"),
            });
        }
        let original = detail.message;
        let before = detail.edited.map_or_else(|| original.clone(), |edited| edited.message);
        Ok(EditedLetter {
            id: id.to_owned(),
            queue: detail.letter.queue,
            edited: edit.apply(&before, &self.settings.masks)?,
            before,
            original,
        })
    }
}

/// Why a letter would not be delivered as it is edited: from one of our delivery queues, or because of the document that
/// its framework wrapped it into.
pub(super) fn cannot_go_back(naming: &Naming, queue: &str, original: &Message, edited: &Message) -> Option<String> {
    let around = |message: &Message| (message.content_type.clone(), message.headers.clone());
    let wrapper = Message {
        body: edited.body.clone(),
        ..original.clone()
    };
    if around(edited) != around(original) && unwrapped(queue, &wrapper).is_some() {
        let why = "its framework wrapped the message into the body of this one, and only what that holds is sent: change the body";
        return Some(why.to_owned());
    }
    match dead_letter::target(queue, original, naming) {
        Ok(dead_letter::Target::Delivery(origin)) => misplaced(naming, &origin, edited),
        Ok(dead_letter::Target::Exchange { .. }) | Err(_) => None,
    }
}

/// What is different, for people.
pub(super) fn differences(before: &Message, after: &Message) -> Vec<PlanLine> {
    let mut lines = difference::of_bodies(&before.body, &after.body);
    let mut differs = |target: &str, now: Option<String>, then: Option<String>| {
        if now != then {
            lines.push(PlanLine {
                target: target.to_owned(),
                now: now.map_or_else(|| "absent".to_owned(), |text| cut(&text)),
                effect: then.map_or_else(|| "removed".to_owned(), |text| cut(&text)),
            });
        }
    };
    differs("content type", before.content_type.clone(), after.content_type.clone());
    let mut names: Vec<&String> = before
        .headers
        .iter()
        .chain(&after.headers)
        .map(|(name, _)| name)
        .collect();
    names.sort();
    names.dedup();
    for name in names {
        let value = |message: &Message| message.header(name).map(|value| shown(value).to_string());
        differs(&format!("header {name}"), value(before), value(after));
    }
    lines
}

pub(super) fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(SHOWN_MAX);
    if end < text.len() {
        format!("{}…", &text[..end])
    } else {
        text.to_owned()
    }
}

impl RunPlanner {
    /// Shows of those that somebody edited what is sent; answers how many they are.
    pub(super) async fn as_edited(&self, letters: &mut [Letter], order: &Order) -> Result<u64, EngineError> {
        let ids: Vec<String> = letters.iter().map(|letter| letter.id.clone()).collect();
        if ids.is_empty() {
            return Ok(0);
        }
        let kept = self.store.kept_list(&edits_of(ids)).await?.into_iter();
        let edits: HashMap<String, Message> = kept
            .filter_map(|kept| Some((kept.letter, decode(&kept.message)?)))
            .collect();
        for letter in letters {
            if let Some(edited) = edits.get(&letter.id) {
                letter.sample = sample(&letter.id, edited);
                letter.bytes = edited.body.len() as u64;
                let goes_to = match (&order.to, &letter.target) {
                    (Some(queue), _) | (None, Ok(Target::Queue(queue))) => Some(queue),
                    (None, Ok(Target::Exchange { .. }) | Err(_)) => None,
                };
                letter.misplaced = goes_to.and_then(|queue| misplaced(&self.settings.naming, queue, edited));
            }
        }
        Ok(edits.len() as u64)
    }
}

/// Whether anybody edited anything.
pub(super) async fn any_edit(store: &StoreHandle) -> Result<bool, StoreError> {
    let query = KeptQuery {
        kind: KeptKind::Edited,
        run: None,
        letters: Vec::new(),
        after: None,
        limit: 1,
    };
    Ok(!store.kept_list(&query).await?.is_empty())
}

/// The edits of these letters, of which there is one at least: none would be all.
pub(super) fn edits_of(letters: Vec<String>) -> KeptQuery {
    KeptQuery {
        kind: KeptKind::Edited,
        run: None,
        limit: u32::try_from(letters.len()).unwrap_or(u32::MAX),
        letters,
        after: None,
    }
}

fn letters_of(window: &[InHand]) -> Vec<String> {
    window.iter().map(|hand| hand.letter.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::message::HeaderValue;

    /// What is around it is not sent, and would hide from the next look that it is a wrapper at all.
    #[test]
    fn only_the_body_of_a_wrapped_message_is_edited() {
        let naming = Naming {
            prefix: "redrive.".to_owned(),
            vhost: "v".to_owned(),
            url_hash_key: "k".to_owned(),
            queue_type: crate::domain::naming::QueueType::Classic,
        };
        let original = Message {
            body: r#"{"num_attempts": 3, "failed_at": "2026-04-20", "payload": "aGVsbG8="}"#.into(),
            ..Message::default()
        };
        let refused = |queue: &str, edited: &Message| cannot_go_back(&naming, queue, &original, edited);
        let with_header = Message {
            headers: vec![("tenant".to_owned(), HeaderValue::text("t1"))],
            ..original.clone()
        };
        let with_type = Message {
            content_type: Some("text/plain".to_owned()),
            ..original.clone()
        };
        for edited in [&with_header, &with_type] {
            let why = refused("mails-error", edited).unwrap();
            assert!(why.ends_with("change the body"), "{why}");
            assert_eq!(refused("mails", edited), None, "another queue's JSON is no wrapper");
        }
        let unwrapped = Message {
            body: "hello".into(),
            ..with_header
        };
        assert_eq!(refused("mails-error", &unwrapped), None, "it is no wrapper any more");
        assert_eq!(refused("mails-error", &original), None);
    }
}
