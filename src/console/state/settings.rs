//! What the console is told at its start.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::console::state::Place;
use crate::console::state::at::At;
use crate::console::state::call::Notify;
use crate::console::state::keymap::Keymap;
use crate::console::state::saved::NamedViews;
use crate::domain::mask::MaskRules;
use crate::engine::snapshot::Snapshot;
use crate::engine::{Access, Caution, EngineHandle};

/// What the console is told at its start.
#[derive(Clone, Debug)]
pub struct ConsoleSettings {
    /// Where this console is.
    pub place: Place,
    /// Name of the theme; `None`: chosen by what the terminal can show.
    pub theme: Option<String>,
    /// What is masked in payloads and headers.
    pub mask: Arc<MaskRules>,
    /// Keys by the names of their actions, over the table's own.
    pub keys: BTreeMap<String, String>,
    /// How often a snapshot is due.
    pub refresh: Duration,
    /// Whether anything may be changed.
    pub access: Access,
    /// Who, for the audit.
    pub actor: String,
    /// Why, for the audit (`--reason`).
    pub reason: Option<String>,
    /// Whether this process delivers.
    pub deliver: Deliver,
    /// The profile in use, and the others.
    pub profiles: Profiles,
    /// Whether the mouse is wanted.
    pub mouse: bool,
    /// Views that have a name, and the one to begin with.
    pub views: NamedViews,
    /// Whether the selected row is shown beside its list, where there is room.
    pub preview: bool,
    /// How the operator is called for what is new and bad.
    pub notify: Notify,
    /// Whether the title of the window says what is worst.
    pub titles: bool,
    /// Where it opens; `None`: at the overview.
    pub at: Option<At>,
    /// Reads the configuration again; `None`: there is none.
    pub reload: Option<Reload>,
    /// Looks at other profiles; `None`: there are none.
    pub survey: Option<Survey>,
}

/// The profile in use, and the others of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profiles {
    /// The configuration's file, where it is not the usual one.
    pub file: Option<String>,
    /// The one in use; `None`: none is.
    pub current: Option<String>,
    /// Its friction is greater, and it starts without the right to change anything.
    pub protected: bool,
    /// Whether that right can be asked for, for a time and with a reason.
    pub window: bool,
    /// The others.
    pub others: Vec<OtherProfile>,
}

impl Profiles {
    /// How careful the one in use is.
    #[must_use]
    pub const fn caution(&self) -> Caution {
        if self.protected {
            Caution::Protected
        } else {
            Caution::Usual
        }
    }
}

/// A profile that can be switched to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherProfile {
    /// As the configuration calls it.
    pub name: String,
    /// Its label and whether it is protected; safe to show.
    pub says: String,
}

/// When the process of a console delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deliver {
    /// It observes and commands.
    Never,
    /// From the start (`--work`).
    Always,
    /// While no other process delivers (embedded).
    WhenAlone,
    /// Somebody else in this process runs the engine (the demo).
    Elsewhere,
}

/// Why store and broker could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectProblem {
    /// The whole chain in one line (from outside).
    pub text: String,
    /// Whether it can mend itself; what cannot ends the console with this text.
    pub waiting_helps: bool,
}

/// Opens store and broker; called again as long as waiting helps.
pub struct Connect(Box<dyn FnMut() -> Connecting + Send>);

/// One try.
pub type Connecting = Pin<Box<dyn Future<Output = Result<EngineHandle, ConnectProblem>> + Send>>;

impl Connect {
    /// From a function that begins a try.
    pub fn new<F, T>(mut open: F) -> Self
    where
        F: FnMut() -> T + Send + 'static,
        T: Future<Output = Result<EngineHandle, ConnectProblem>> + Send + 'static,
    {
        Self(Box::new(move || Box::pin(open())))
    }

    /// Begins a try.
    pub fn open(&mut self) -> Connecting {
        (self.0)()
    }
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connect")
    }
}

/// Looks at another profile once: opens what it names, reads, and closes it.
#[derive(Clone)]
pub struct Survey(Arc<Look>);

type Look = dyn Fn(String) -> Looking + Send + Sync;

/// One look.
pub type Looking = Pin<Box<dyn Future<Output = Result<Arc<Snapshot>, LookProblem>> + Send>>;

/// Why a profile could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookProblem {
    /// The whole chain in one line (safe to show).
    pub text: String,
    /// A console there would end at once with this text.
    pub is_closed: bool,
}

impl Survey {
    /// From a function that begins a look at the profile of that name.
    pub fn new<F, T>(look: F) -> Self
    where
        F: Fn(String) -> T + Send + Sync + 'static,
        T: Future<Output = Result<Arc<Snapshot>, LookProblem>> + Send + 'static,
    {
        Self(Arc::new(move |profile| Box::pin(look(profile))))
    }

    /// Looks; changes nothing there.
    #[must_use]
    pub fn look(&self, profile: String) -> Looking {
        (self.0)(profile)
    }
}

impl fmt::Debug for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Survey")
    }
}

/// Reads the configuration again: what of it holds at once, or why nothing does. Blocks.
#[derive(Clone)]
pub struct Reload(Arc<ReadAgain>);

type ReadAgain = dyn Fn() -> Result<Reloaded, String> + Send + Sync;

/// What a configuration that was read again says.
#[derive(Clone, Debug)]
pub struct Reloaded {
    /// The theme, where it is another one than before.
    pub theme: Option<String>,
    /// The keys.
    pub keys: Arc<Keymap>,
    /// How often a snapshot is due.
    pub refresh: Duration,
    /// Whether the mouse is wanted.
    pub mouse: bool,
    /// Whether there is a preview, where that is another than before.
    pub preview: Option<bool>,
    /// How the operator is called.
    pub notify: Notify,
    /// Whether the title of the window says what is worst.
    pub titles: bool,
    /// What is masked in payloads and headers.
    pub mask: Arc<MaskRules>,
    /// The label of the profile in use, and its colour.
    pub label: String,
    /// As configured: a name or `#rrggbb`.
    pub colour: Option<String>,
    /// The other profiles.
    pub profiles: Vec<OtherProfile>,
    /// What is another than before and holds now.
    pub applied: Vec<String>,
    /// What is another than before, and holds once store and broker are opened anew.
    pub waits: Vec<String>,
}

impl Reload {
    /// From the function that reads.
    pub fn new<F>(read: F) -> Self
    where
        F: Fn() -> Result<Reloaded, String> + Send + Sync + 'static,
    {
        Self(Arc::new(read))
    }

    /// Reads.
    ///
    /// # Errors
    /// The field and what is wrong with it; safe to show.
    pub fn read(&self) -> Result<Reloaded, String> {
        (self.0)()
    }
}

impl fmt::Debug for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reload")
    }
}
