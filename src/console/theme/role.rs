//! What a style means: the words that theme files and the view share.
//!
//! A role whose name has a dot and which no file sets looks like what stands before the dot.

use ratatui::style::Modifier;

macro_rules! roles {
    ($($(#[$meta:meta])* $role:ident = $name:literal, $plain:expr;)*) => {
        /// What a style means.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Role {
            $($(#[$meta])* $role,)*
        }

        impl Role {
            /// Every role.
            pub const ALL: &'static [Self] = &[$(Self::$role,)*];

            /// As theme files write it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$role => $name,)*
                }
            }

            /// What tells it apart where there is no colour.
            pub(super) const fn without_colour(self) -> Modifier {
                match self {
                    $(Self::$role => $plain,)*
                }
            }
        }
    };
}

const PLAIN: Modifier = Modifier::empty();
const BOLD: Modifier = Modifier::BOLD;
const DIM: Modifier = Modifier::DIM;
const UNDERLINED: Modifier = Modifier::UNDERLINED;
const REVERSED: Modifier = Modifier::REVERSED;

roles! {
    /// The ground that everything stands on.
    Screen = "screen", PLAIN;
    /// What is read.
    Text = "text", PLAIN;
    /// What is read last: units, explanations.
    TextMuted = "text.muted", DIM;
    /// A number that is older than it should be.
    TextStale = "text.stale", DIM;
    /// A name in a payload.
    TextKey = "text.key", BOLD;
    /// A text in a payload.
    TextString = "text.string", PLAIN;
    /// A number or a word in a payload.
    TextNumber = "text.number", PLAIN;
    /// What a part of the screen is called, and the sentence that matters.
    Title = "title", BOLD;
    /// The line that says where this is.
    Header = "header", PLAIN;
    /// What may be cut there.
    HeaderMuted = "header.muted", PLAIN;
    /// A view that is not in front.
    Tab = "tab", PLAIN;
    /// The view in front.
    TabSelected = "tab.selected", BOLD.union(REVERSED);
    /// The names of columns.
    Column = "column", UNDERLINED;
    /// The selected row, laid over it.
    Selection = "selection", REVERSED;
    /// What was found in a payload, laid over it.
    Match = "match", BOLD.union(UNDERLINED);
    /// The place that is in front.
    MatchSelected = "match.selected", REVERSED;
    /// The sign of a marked row.
    Mark = "mark", BOLD;
    /// What a key does.
    Hint = "hint", PLAIN;
    /// A key.
    HintKey = "hint.key", BOLD;
    /// What a key would do, and cannot at present.
    HintDisabled = "hint.disabled", DIM;
    /// It moves.
    Good = "good", PLAIN;
    /// It waits for a time.
    Warning = "warning", BOLD;
    /// It fails.
    Bad = "bad", BOLD;
    /// It waits for a person.
    Critical = "critical", BOLD.union(UNDERLINED);
    /// Something to know.
    Info = "info", PLAIN;
    /// What must not be overlooked anywhere: nobody delivers, unreachable.
    Alarm = "alarm", BOLD.union(REVERSED);
    /// What must not be forgotten: read-only, frozen, old numbers.
    AlarmWarning = "alarm.warning", REVERSED;
    /// Bars of a chart.
    Chart = "chart", PLAIN;
    /// Its axis and the scale.
    ChartAxis = "chart.axis", DIM;
    /// The ground of a dialog.
    Dialog = "dialog", PLAIN;
    /// Its frame.
    DialogBorder = "dialog.border", BOLD;
    /// What is lost by it.
    DialogDanger = "dialog.danger", BOLD.union(UNDERLINED);
    /// What to press.
    DialogKey = "dialog.key", BOLD;
    /// What is being typed.
    Input = "input", UNDERLINED;
    /// Why something is not possible.
    Error = "error", BOLD;
    /// A sentence that passes.
    Toast = "toast", REVERSED;
    /// It worked.
    ToastGood = "toast.good", REVERSED;
    /// It should be looked at.
    ToastWarning = "toast.warning", BOLD.union(REVERSED);
    /// It failed.
    ToastBad = "toast.bad", BOLD.union(REVERSED);
    /// The label of a profile without a colour.
    Profile = "profile", BOLD.union(REVERSED);
    /// The label of a profile in this colour.
    ProfileBlack = "profile.black", BOLD.union(REVERSED);
    /// The label of a profile in this colour.
    ProfileRed = "profile.red", BOLD.union(REVERSED);
    /// The label of a profile in this colour.
    ProfileGreen = "profile.green", BOLD.union(REVERSED);
    /// The label of a profile in this colour.
    ProfileYellow = "profile.yellow", BOLD.union(REVERSED);
    /// The label of a profile in this colour.
    ProfileBlue = "profile.blue", BOLD.union(REVERSED);
    /// The label of a profile in this colour.
    ProfileMagenta = "profile.magenta", BOLD.union(REVERSED);
    /// The label of a profile in this colour.
    ProfileCyan = "profile.cyan", BOLD.union(REVERSED);
    /// The label of a profile in this colour.
    ProfileWhite = "profile.white", BOLD.union(REVERSED);
}

impl Role {
    /// The role of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|role| role.name() == name)
    }

    /// What it looks like where no file sets it.
    pub(super) fn fallback(self) -> Option<Self> {
        let (before, _) = self.name().rsplit_once('.')?;
        Self::parse(before)
    }
}
