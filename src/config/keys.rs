//! Every key is declared once, by its field in a `keys!` struct: its name, kind, bounds, default and description. The parser,
//! what an unknown key is near to, `config print`, the template, the JSON schema (and by it the table of the contract), the
//! variables that override a key, and which keys are secret: all of it is made from that.

use crate::domain::value::Value;

use super::error::Problem;
use super::section::Section;

/// The keys of one table, and what they hold.
pub(super) trait Keys: Sized {
    /// The keys, as declared.
    const KEYS: &'static [&'static str];
    /// What the table is for.
    const ABOUT: &'static str;

    /// All about each key that does not depend on what was written.
    fn rows() -> Vec<Row>;

    /// What was written, and the default where nothing was.
    fn read(section: Section<'_>) -> Result<Self, Problem>;

    /// Keys and values for people: without secrets, and without what is not set.
    fn shown(&self) -> Vec<(&'static str, Value)>;
}

/// One key, whatever type it has.
pub(super) struct Row {
    pub(super) key: &'static str,
    pub(super) about: String,
    /// What the template says above it, in lines.
    pub(super) note: String,
    pub(super) facts: Facts,
}

impl Row {
    /// The first paragraph of the comment is the description; the template has the others, or that one where it is alone.
    pub(super) fn of(key: &'static str, comment: &str, facts: Facts) -> Self {
        let (about, note) = comment.split_once("\n\n").unwrap_or((comment, comment));
        let about: Vec<&str> = about.lines().map(str::trim).collect();
        Self {
            key,
            about: about.join(" "),
            note: if facts.is_bare { String::new() } else { note.to_owned() },
            facts,
        }
    }
}

/// What a key is, for documents.
#[derive(Default)]
pub(super) struct Facts {
    /// What a JSON schema says of its values.
    pub(super) schema: Vec<(&'static str, Value)>,
    /// Its value where nothing is written, if that is always the same.
    pub(super) default: Option<Value>,
    /// Whether it has to be written.
    pub(super) is_required: bool,
    /// How much of its value is a secret.
    pub(super) secrecy: Secrecy,
    /// The environment variable that overrides it.
    pub(super) variable: Option<&'static str>,
    /// Whether the template says nothing above it.
    pub(super) is_bare: bool,
    /// The value in the template, if not the default.
    pub(super) example: Option<&'static str>,
    /// The keys of a table in it.
    pub(super) inner: Option<fn() -> Vec<Row>>,
    /// Whether that table has a part of its own in template and schema.
    pub(super) is_part: bool,
}

/// How much of a value is a secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Secrecy {
    /// Nothing.
    #[default]
    Open,
    /// The password of a URL, if it has one.
    Password,
    /// Each value of a table.
    Values,
    /// All of it.
    Whole,
}

/// Declares the keys of a table, and the struct that holds them: `field: Type = kind;`, or `field as "key": Type = kind;`. The
/// comment of a field is the key's description, and after a blank line what the template says instead. Fields under `beside` are no keys. `for Type { … }` does so for a struct
/// that exists.
macro_rules! keys {
    (
        $(#[doc = $about:literal])+
        $(#[derive($($derive:path),+)])?
        $vis:vis struct $name:ident {
            $($(#[doc = $text:literal])+ $field:ident $(as $key:literal)?: $type:ty = $kind:expr;)+
        }
        $(beside { $($(#[doc = $beside_text:literal])+ $beside:ident: $beside_type:ty = $make:expr;)+ })?
    ) => {
        #[allow(
            clippy::doc_link_with_quotes,
            clippy::doc_markdown,
            rustdoc::broken_intra_doc_links,
            unreachable_pub,
            reason = "descriptions are shown as they are; some tables are private"
        )]
        $(#[doc = $about])+
        $(#[derive($($derive),+)])?
        $vis struct $name {
            $($(#[doc = $text])+ pub $field: $type,)+
            $($($(#[doc = $beside_text])+ pub $beside: $beside_type,)+)?
        }
        crate::config::keys::keys!(
            @ ($($about)+) $name { $(($($text)+) $field ($($key)?) ($type) ($kind))+ } { $($($beside ($make))+)? }
        );
    };
    (
        $(#[doc = $about:literal])+
        for $name:ident {
            $($(#[doc = $text:literal])+ $field:ident $(as $key:literal)?: $type:ty = $kind:expr;)+
        }
    ) => {
        crate::config::keys::keys!(
            @ ($($about)+) $name { $(($($text)+) $field ($($key)?) ($type) ($kind))+ } {}
        );
    };
    (
        @ ($($about:literal)+) $name:ident {
            $(($($text:literal)+) $field:ident ($($key:literal)?) ($type:ty) ($kind:expr))+
        } { $($beside:ident ($make:expr))* }
    ) => {
        impl $name {
            $(fn $field() -> crate::config::kind::Kind<$type> { $kind })+
        }

        impl crate::config::keys::Keys for $name {
            const KEYS: &'static [&'static str] = &[$(crate::config::keys::keys!(@key $field $($key)?)),+];
            const ABOUT: &'static str = concat!($($about),+);

            fn rows() -> Vec<crate::config::keys::Row> {
                vec![$(crate::config::keys::Row::of(
                    crate::config::keys::keys!(@key $field $($key)?),
                    concat!($($text, "\n"),+),
                    Self::$field().facts,
                )),+]
            }

            fn read(section: crate::config::section::Section<'_>) -> Result<Self, crate::config::error::Problem> {
                Ok(Self {
                    $($field: Self::$field().read(section, crate::config::keys::keys!(@key $field $($key)?))?,)+
                    $($beside: ($make)(section)?,)*
                })
            }

            fn shown(&self) -> Vec<(&'static str, crate::domain::value::Value)> {
                crate::config::keys::in_order([$(
                    Self::$field().show(crate::config::keys::keys!(@key $field $($key)?), &self.$field)
                ),+])
            }
        }
    };
    (@key $field:ident $key:literal) => { $key };
    (@key $field:ident) => { stringify!($field) };
}
pub(super) use keys;

/// A key with its value, and whether it is a table of its own.
pub(super) type Shown = Option<(&'static str, Value, bool)>;

/// Without what is not shown; tables of their own come last.
pub(super) fn in_order(shown: impl IntoIterator<Item = Shown>) -> Vec<(&'static str, Value)> {
    let mut shown: Vec<_> = shown.into_iter().flatten().collect();
    shown.sort_by_key(|(.., is_table)| *is_table);
    shown.into_iter().map(|(key, value, _)| (key, value)).collect()
}
