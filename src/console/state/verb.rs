//! What can be typed behind `:` beside the actions: commands that take something.

/// Which command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Filter the list in front.
    Filter,
    /// Sort it.
    Sort,
    /// Go to a view that has a name.
    View,
    /// Give what is in front a name.
    Save,
    /// Forget a name.
    Forget,
    /// Open a window in which a protected profile can be changed.
    Write,
    /// Close it before its time.
    ReadOnly,
    /// Use another theme.
    Theme,
    /// Go on with another profile.
    Profile,
    /// Stop an open run after what is in hand.
    PauseRun,
    /// Let one go on.
    ResumeRun,
    /// End one.
    CancelRun,
    /// Read the configuration again.
    Reload,
    /// Write the list or detail in front into a file.
    Export,
    /// Write the screen into a file.
    Screen,
}

/// A row of the table of commands.
#[derive(Clone, Copy, Debug)]
pub struct VerbSpec {
    /// Which.
    pub verb: Verb,
    /// As typed.
    pub name: &'static str,
    /// What it takes.
    pub takes: &'static str,
    /// One sentence.
    pub help: &'static str,
}

/// Every command, once.
pub const VERBS: &[VerbSpec] = &[
    VerbSpec {
        verb: Verb::Filter,
        name: "filter",
        takes: "EXPRESSION",
        help: "Filter the list that is shown; without an expression clear the filter.",
    },
    VerbSpec {
        verb: Verb::Sort,
        name: "sort",
        takes: "COLUMN",
        help: "Sort the list that is shown by a column; with a minus before it in the opposite order.",
    },
    VerbSpec {
        verb: Verb::View,
        name: "view",
        takes: "NAME",
        help: "Go to a view that was saved: with its filter, its order and its columns.",
    },
    VerbSpec {
        verb: Verb::Save,
        name: "save",
        takes: "NAME",
        help: "Save the view that is shown under a name, with its filter, its order and its columns; console.start can begin with it.",
    },
    VerbSpec {
        verb: Verb::Forget,
        name: "forget",
        takes: "NAME",
        help: "Remove a view that was saved.",
    },
    VerbSpec {
        verb: Verb::Write,
        name: "write",
        takes: "15m REASON",
        help: "Allow changes in a protected profile for so long (at most 4h); the reason goes into the audit.",
    },
    VerbSpec {
        verb: Verb::ReadOnly,
        name: "read-only",
        takes: "",
        help: "End the time in which changes are allowed.",
    },
    VerbSpec {
        verb: Verb::Profile,
        name: "profile",
        takes: "NAME",
        help: "Leave this profile and continue with another one of the configuration.",
    },
    VerbSpec {
        verb: Verb::Theme,
        name: "theme",
        takes: "NAME",
        help: "Use another theme until the console is left.",
    },
    VerbSpec {
        verb: Verb::PauseRun,
        name: "pause-run",
        takes: "ID",
        help: "Stop an open run after the messages in flight, from any view; asks first.",
    },
    VerbSpec {
        verb: Verb::ResumeRun,
        name: "resume-run",
        takes: "ID",
        help: "Continue a run that is paused; asks first.",
    },
    VerbSpec {
        verb: Verb::CancelRun,
        name: "cancel-run",
        takes: "ID",
        help: "End an open run; what is done stays done; asks first.",
    },
    VerbSpec {
        verb: Verb::Reload,
        name: "reload",
        takes: "",
        help: "Read the configuration again: keys, theme, labels and pace take effect at once; the rest asks first.",
    },
    VerbSpec {
        verb: Verb::Export,
        name: "export",
        takes: "json|csv [FILE]",
        help: "Write the list that is shown, as it is filtered and sorted, or the open detail, into a new file.",
    },
    VerbSpec {
        verb: Verb::Screen,
        name: "screen",
        takes: "text|svg [FILE]",
        help: "Write what the screen shows into a new file.",
    },
];

/// The command that a line begins with, and what is behind its name; `None`: it is none.
#[must_use]
pub fn read(line: &str) -> Option<(&'static VerbSpec, &str)> {
    let line = line.trim_start();
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let spec = VERBS.iter().find(|spec| spec.name == name)?;
    Some((spec, rest.trim()))
}
