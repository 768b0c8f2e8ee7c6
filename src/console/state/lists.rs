//! The views, and the lists that they show.

use std::sync::Arc;

use bytes::Bytes;

use crate::console::state::events::EventsView;
use crate::console::state::feed::{FedList, Listing};
use crate::console::state::tail::TailView;
use crate::console::table::Table;
use crate::domain::dead_letter::DeadLetter;
use crate::engine::dead::DeadGroup;
use crate::engine::expiring::{ExpiringQueue, SaveRecord};
use crate::engine::policies::PolicyView;
use crate::engine::query::AuditEntry;
use crate::engine::runs::RunView;
use crate::engine::snapshot::{EndpointRow, QueueRow};
use crate::engine::view::Retry;

/// One screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum View {
    /// Is anything stuck, since when, how much, better or worse, what next.
    #[default]
    Overview,
    /// Every queue.
    Queues,
    /// Every endpoint, those that are not available first.
    Endpoints,
    /// What is tried when.
    Retries,
    /// What nobody will try again by itself, in groups of what failed alike.
    Dead,
    /// Every retry policy, with its schedule.
    Policies,
    /// What is being done with many messages, and what came of it.
    Runs,
    /// Who did what, why, and with what result.
    Audit,
    /// What was done here and what happened.
    Log,
    /// The event table: types, why events are there, events.
    Events,
    /// Queues that expire, those that lose messages first.
    Expiring,
    /// Attempts as they are made.
    Attempts,
}

/// The lists of all views.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// The queues.
    pub queues: Table<QueueRow>,
    /// The endpoints.
    pub endpoints: Table<EndpointRow>,
    /// The retries.
    pub retries: Table<Retry>,
    /// Dead letters.
    pub dead: DeadView,
    /// The retry policies.
    pub policies: FedList<PolicyView>,
    /// The runs.
    pub runs: FedList<RunView>,
    /// The audit.
    pub audit: FedList<AuditEntry>,
    /// The event table.
    pub events: EventsView,
    /// Queues that expire.
    pub expiring: ExpiringView,
    /// Attempts as they are made.
    pub tail: TailView,
}

/// Dead letters: their groups, and the letters of the open one.
#[derive(Clone, Debug, Default)]
pub struct DeadView {
    /// The groups of dead letters.
    pub groups: FedList<DeadGroup>,
    /// The group whose letters are shown; `None`: the groups are.
    pub open: Option<Arc<DeadGroup>>,
    /// Its letters.
    pub letters: FedList<DeadLetter>,
    /// The patch that was written last, to be gone on with.
    pub patch: Option<Bytes>,
    /// The run that was begun last about an open letter, and that letter: it is looked at again when that is over.
    pub taken: Option<(String, String)>,
    /// The payload that was written last for a letter, by its id, until that is sent instead: to be gone on with.
    pub draft: Option<(String, Bytes)>,
}

/// Queues that expire, and what was saved of them.
#[derive(Clone, Debug, Default)]
pub struct ExpiringView {
    /// The queues.
    pub queues: FedList<ExpiringQueue>,
    /// What was saved of them.
    pub saves: FedList<SaveRecord>,
    /// Whether that is in front, instead of the queues.
    pub shows_saves: bool,
}

impl Lists {
    /// Every one.
    pub(in crate::console) fn all_mut(&mut self) -> Vec<&mut dyn Listing> {
        vec![
            &mut self.queues,
            &mut self.endpoints,
            &mut self.retries,
            &mut self.dead.groups,
            &mut self.dead.letters,
            &mut self.policies,
            &mut self.runs,
            &mut self.audit,
            &mut self.events.types,
            &mut self.events.groups,
            &mut self.events.events,
            &mut self.expiring.queues,
            &mut self.expiring.saves,
            &mut self.tail,
        ]
    }
}

impl DeadView {
    /// Shows the letters of this group, or all groups; the letters of another one are forgotten.
    pub(in crate::console) fn set(&mut self, group: Option<Arc<DeadGroup>>, page: usize) {
        let fingerprint = |group: &Option<Arc<DeadGroup>>| group.as_ref().map(|group| group.fingerprint.clone());
        if fingerprint(&group) != fingerprint(&self.open) && group.is_some() {
            self.letters = FedList::default();
            self.letters.list_mut().set_page(page);
        }
        self.open = group;
    }
}
