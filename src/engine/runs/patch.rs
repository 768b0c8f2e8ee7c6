//! One change of many dead letters: what is sent instead of each is kept in the store, for all of them in one go, and
//! the originals stay where they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::Runs;
use super::edit::{any_edit, cannot_go_back, differences, edits_of};
use super::json_patch::NotPatched;
use super::order::Selection;
use super::view::{Edit, Patch};
use crate::ambient::{self, HashMap};
use crate::domain::dead_letter::Home;
use crate::domain::id::QueueName;
use crate::domain::mask::MaskRules;
use crate::domain::message::{Message, decode, encode};
use crate::domain::naming::{Naming, hex};
use crate::domain::words::{plural, plural_of};
use crate::engine::EngineError;
use crate::engine::command::{Command, Danger, Done, Plan, PlanLine, WriteGrant, at_most};
use crate::engine::dead::{DeadDetail, DeadSelection};
use crate::engine::operation::{About, Friction, NAMED_MAX, Operation, Subject, each_once};
use crate::store::{KeptKind, KeptMessage};

/// Letters that one patch changes, at most.
const LETTERS_MAX: usize = 10_000;
/// Bytes of what is kept of them.
const BYTES_MAX: usize = 64 << 20;
/// Letters whose edits are asked for at once.
const WINDOW: usize = 16;
/// Letters whose differences the plan shows.
const SAMPLES: usize = 3;
/// Differences of each of them.
const DIFFERENCES: usize = 20;

impl Patch {
    /// What it does to every letter alike.
    fn edit(&self, body: Option<Bytes>) -> Edit {
        Edit {
            body,
            content_type: self.content_type.clone(),
            headers: self.headers.clone(),
        }
    }

    fn apply(&self, before: &Message, rules: &MaskRules) -> Result<Message, NotPatched> {
        let body = self.operations.as_ref().map(|patch| patch.apply(&before.body));
        let edit = self.edit(body.transpose()?.map(Bytes::from));
        edit.apply(before, rules)
            .map_err(|error| NotPatched::refused(error.to_string()))
    }
}

/// Something else is sent instead of many dead letters when they are redriven.
pub(in crate::engine) struct PatchDead<'a> {
    pub(in crate::engine) selection: &'a Selection,
    pub(in crate::engine) patch: &'a Patch,
}

/// What a patch does to the letters.
#[derive(Default)]
struct Patched {
    changed: Vec<Changed>,
    bytes: usize,
    unchanged: u64,
    events: u64,
    /// Those that it does not apply to, by the reason.
    refused: BTreeMap<String, u64>,
    /// Those that a test of it says are not meant, by the test.
    not_meant: BTreeMap<String, u64>,
    lines: Vec<PlanLine>,
}

struct Changed {
    letter: String,
    queue: QueueName,
    message: Vec<u8>,
}

impl Operation<Runs> for PatchDead<'_> {
    fn about(&self) -> About {
        About {
            name: "dead patch",
            subject: Subject::Words("dead letters"),
            friction: Friction::Messages("number of dead letters"),
            undo: Err("a patch that changes it back does"),
        }
    }

    /// What it was asked for: the lines of the plan are examples, and its names those of the letters.
    fn changes(&self, _: &Plan) -> Vec<String> {
        match self.selection {
            Selection::Ids(ids) => each_once(ids),
            Selection::Group(group) => vec![format!("group {group}")],
            Selection::Filter(filter) => vec![filter.clone()],
            Selection::All | Selection::Run(_) | Selection::Queue(_) | Selection::Head(_) => Vec::new(),
        }
    }

    /// What is read to be kept is compared with the plan: that reads every letter once, not twice.
    fn is_planned_again(&self) -> bool {
        false
    }

    async fn plan(&self, runs: &Arc<Runs>) -> Result<Plan, EngineError> {
        let patched = self.patched(runs).await?;
        if patched.changed.is_empty() {
            return Err(patched.nothing());
        }
        let count = u64::try_from(patched.changed.len()).unwrap_or(u64::MAX);
        // Those that it was asked for by their ids are named by what it changes.
        let named = match self.selection {
            Selection::Ids(_) => 0,
            Selection::Group(_)
            | Selection::Filter(_)
            | Selection::All
            | Selection::Run(_)
            | Selection::Queue(_)
            | Selection::Head(_) => NAMED_MAX,
        };
        let named = patched.changed.iter().take(named);
        let names = named.map(|changed| changed.letter.clone()).collect();
        Ok(Plan {
            command: Command::PatchDead {
                selection: self.selection.clone(),
                patch: self.patch.clone(),
            },
            title: format!("patch {}", plural(count, "dead letter", "dead letters")),
            warnings: self.warnings(&patched),
            hash: self.hash(&patched),
            lines: patched.lines,
            messages: Some(count),
            danger: Danger::Reversible,
            run: None,
            ends_reason: None,
            names,
        })
    }

    async fn perform(&self, runs: &Arc<Runs>, plan: &Plan, grant: &WriteGrant) -> Result<Done, EngineError> {
        let patched = self.patched(runs).await?;
        if self.hash(&patched) != plan.hash {
            return Err(EngineError::Refused {
                why: "the plan is stale, dead letters have come or gone: plan again".to_owned(),
            });
        }
        let (at, letters) = (runs.clock.now(), patched.changed.len());
        let (left, why) = (patched.left(), patched.left_because());
        let kept = patched.changed.into_iter().map(|changed| KeptMessage {
            letter: changed.letter,
            kind: KeptKind::Edited,
            queue: changed.queue,
            message: changed.message,
            run: None,
            ordinal: 0,
            actor: grant.actor().to_owned(),
            keep_for: None,
            at,
            until: None,
        });
        runs.store.kept_put(&kept.collect::<Vec<_>>()).await?;
        Ok(Done::Patched {
            letters: u64::try_from(letters).unwrap_or(u64::MAX),
            left,
            why,
        })
    }
}

impl PatchDead<'_> {
    /// The patch on each of them as it would be sent at present. Either all can be read, or nothing is done.
    async fn patched(&self, runs: &Arc<Runs>) -> Result<Patched, EngineError> {
        if runs.masks().is_some() {
            return Err(EngineError::Refused {
                why: "a patch could ask what is hidden: it is planned by those who may change dead letters".to_owned(),
            });
        }
        if *self.patch == Patch::default() {
            return Err(EngineError::Invalid {
                field: "patch".to_owned(),
                message: "nothing would change: give a patch of the body, a content type or headers".to_owned(),
            });
        }
        self.patch.edit(None).refuse_unsendable()?;
        let (selection, ids) = self.which()?;
        let has_edits = any_edit(&runs.store).await?;
        let mut letters = runs.dead_letters.read(selection)?;
        let mut patched = Patched::default();
        // Those that are read already: a window that waits to be full would hold the memory that the reader waits for.
        let mut window = Vec::with_capacity(WINDOW);
        while letters.recv_many(&mut window, WINDOW).await > 0 {
            let mut read = window.drain(..).collect::<Result<Vec<_>, _>>()?;
            read.retain(|(detail, _)| ids.is_none_or(|ids| ids.iter().any(|id| id == detail.letter.id.as_str())));
            let mut edited = if has_edits && !read.is_empty() {
                let letters = read.iter().map(|(detail, _)| detail.letter.id.as_str().to_owned());
                edits(runs, letters.collect()).await?
            } else {
                HashMap::default()
            };
            for (detail, _memory) in read {
                let edited = edited.remove(detail.letter.id.as_str());
                let of = (&*runs.settings.masks, &runs.settings.naming);
                ambient::beside(|| patched.take(self.patch, &detail, edited.as_ref(), of))?;
            }
        }
        let found =
            patched.changed.len() as u64 + patched.unchanged + patched.left() + patched.not_meant.values().sum::<u64>();
        let named = ids.map_or(0, |ids| each_once(ids).len() as u64);
        if found < named {
            return Err(EngineError::NotFound {
                what: format!("{} of the dead letters that are named", named - found),
            });
        }
        Ok(patched)
    }

    /// Of what is asked and every letter that is changed, with what it becomes.
    fn hash(&self, patched: &Patched) -> String {
        let mut digest = Sha256::new_with_prefix(format!("{:?}\n{:?}\n", self.selection, self.patch));
        for changed in &patched.changed {
            digest.update(changed.letter.as_bytes());
            digest.update(Sha256::digest(&changed.message));
        }
        hex(&digest.finalize())
    }

    fn which(&self) -> Result<(DeadSelection, Option<&[String]>), EngineError> {
        let mut selection = DeadSelection::default();
        let mut named = None;
        match self.selection {
            Selection::Ids(ids) => {
                at_most(ids.len(), "ids", "use a group or a filter for more")?;
                named = Some(ids.as_slice());
            }
            Selection::Group(group) => selection.group = Some(group.clone()),
            Selection::Filter(filter) => selection.filter = Some(filter.clone()),
            Selection::All | Selection::Run(_) | Selection::Queue(_) | Selection::Head(_) => {
                return Err(EngineError::Invalid {
                    field: "group".to_owned(),
                    message: "a patch is for dead letters by their ids, a group or a filter".to_owned(),
                });
            }
        }
        Ok((selection, named))
    }

    fn warnings(&self, patched: &Patched) -> Vec<String> {
        let mut warnings = Vec::new();
        let shown = patched.changed.len().min(SAMPLES);
        if patched.changed.len() > shown {
            warnings.push(format!(
                "the first {shown} are shown; the others are changed in the same way"
            ));
        }
        if patched.unchanged > 0 {
            warnings.push(format!(
                "{} already as the patch makes them",
                plural(patched.unchanged, "dead letter is", "dead letters are")
            ));
        }
        warnings.extend(stay(&patched.not_meant));
        warnings.extend(patched.left_because());
        if self.patch.operations.is_some() {
            warnings.push("bodies are written anew: without space, the keys of objects in order".to_owned());
        }
        warnings.push("they are sent when they are redriven; the originals are kept beside them".to_owned());
        warnings
    }
}

/// How many stay as they are, by the reason, as far as there is room.
fn stay(by_reason: &BTreeMap<String, u64>) -> Vec<String> {
    let told = by_reason.iter().take(SAMPLES).map(|(why, count)| {
        let letters = plural(*count, "dead letter stays as it is", "dead letters stay as they are");
        format!("{letters}: {why}")
    });
    let more = by_reason.len().saturating_sub(SAMPLES);
    let more = (more > 0).then(|| format!("and for {}", plural_of(more, "more reason", "more reasons")));
    told.chain(more).collect()
}

/// What is sent instead of these letters at present, of those that were edited before.
async fn edits(runs: &Runs, letters: Vec<String>) -> Result<HashMap<String, Message>, EngineError> {
    let kept = runs.store.kept_list(&edits_of(letters)).await?.into_iter();
    let messages = kept.filter_map(|kept| Some((kept.letter, decode(&kept.message)?)));
    Ok(messages.collect())
}

impl Patched {
    fn take(
        &mut self,
        patch: &Patch,
        detail: &DeadDetail,
        edited: Option<&Message>,
        (rules, naming): (&MaskRules, &Naming),
    ) -> Result<(), EngineError> {
        if detail.letter.home == Home::Event {
            self.events += 1;
            return Ok(());
        }
        let before = edited.unwrap_or(&detail.message);
        let goes_back = |after: Message| {
            let why = cannot_go_back(naming, detail.letter.queue.as_str(), &detail.message, &after);
            why.map_or(Ok(after), |why| Err(NotPatched::refused(why)))
        };
        let after = match patch.apply(before, rules).and_then(goes_back) {
            Ok(after) if after == *before => {
                self.unchanged += 1;
                return Ok(());
            }
            Ok(after) => after,
            Err(NotPatched { why, is_test }) => {
                let by_reason = if is_test {
                    &mut self.not_meant
                } else {
                    &mut self.refused
                };
                *by_reason.entry(why).or_default() += 1;
                return Ok(());
            }
        };
        let id = detail.letter.id.as_str();
        if self.changed.len() < SAMPLES {
            let name: String = id.chars().take(8).collect();
            let lines = differences(before, &after).into_iter().take(DIFFERENCES);
            self.lines.extend(lines.map(|line| PlanLine {
                target: format!("{name}… {}", line.target),
                ..line
            }));
        }
        let message = encode(&after).ok_or_else(|| EngineError::Refused {
            why: "a message is too large to be kept".to_owned(),
        })?;
        self.bytes += message.len();
        self.changed.push(Changed {
            letter: id.to_owned(),
            queue: detail.letter.queue.clone(),
            message,
        });
        if self.changed.len() > LETTERS_MAX || self.bytes > BYTES_MAX {
            return Err(EngineError::Refused {
                why: format!(
                    "a patch changes at most {LETTERS_MAX} dead letters of {} MiB at once: narrow the selection",
                    BYTES_MAX >> 20
                ),
            });
        }
        Ok(())
    }

    /// How many stay as they are though the patch is meant for them.
    fn left(&self) -> u64 {
        self.events + self.refused.values().sum::<u64>()
    }

    /// Why they do.
    fn left_because(&self) -> Vec<String> {
        let events = (self.events > 0).then(|| {
            let stay = ["dead event stays as it is", "dead events stay as they are"];
            format!("{}: an event is not edited", plural(self.events, stay[0], stay[1]))
        });
        stay(&self.refused).into_iter().chain(events).collect()
    }

    /// Why nothing would change.
    fn nothing(&self) -> EngineError {
        let refused = self.refused.iter().chain(&self.not_meant).next();
        match refused {
            Some((why, _)) => EngineError::Refused {
                why: format!("the patch applies to none of them: {why}"),
            },
            None if self.unchanged > 0 => EngineError::Refused {
                why: "they are already as the patch makes them".to_owned(),
            },
            None if self.events > 0 => EngineError::Refused {
                why: format!(
                    "{} of the event table {} not patched: `redrive event push` under the same reference changes what is sent",
                    plural(self.events, "dead letter", "dead letters"),
                    if self.events == 1 { "is" } else { "are" }
                ),
            },
            None => EngineError::NotFound {
                what: "a dead letter to patch".to_owned(),
            },
        }
    }
}
