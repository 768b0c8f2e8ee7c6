//! What can be written after `--filter`: the page that help shows, made from the fields that filters know.

use std::fmt::Write as _;

use crate::domain::filter::{Field, FieldKind};
use crate::engine::attempts::ATTEMPT_FIELDS;
use crate::engine::events::EVENT_FIELDS;
use crate::engine::snapshot::{DEAD_FIELDS, DEAD_QUEUE_FIELDS, QUEUE_FIELDS};

const LANGUAGE: &str = "\
Filters:
  depth > 100 and state = parked
  reason ~ \"timeout\" and not (age > 2h or redriven > 0)

  Operators are = != < <= > >= and ~, which finds a part of a text in any letter case, or a regular
  expression: error ~ /5\\d\\d/. Put text with spaces or brackets into double quotes. A value that is
  missing fits != and no other comparison: a number that is missing is never zero.

  body./POINTER is a JSON pointer, with ~1 for a slash in a name and ~0 for a tilde: body./a~1b = 1. Numbers
  and times are compared in all their digits. A place in a body of more than 1 MiB, and a large regular
  expression over a long text, cannot be told: then the whole filter is refused where it depends on that.
";

/// The lists, by the commands that take filters over them.
const LISTS: &[(&str, &[Field])] = &[
    ("queues", QUEUE_FIELDS),
    ("dead list, groups, export, redrive, discard, restore", DEAD_FIELDS),
    ("dead queues", DEAD_QUEUE_FIELDS),
    ("event list", EVENT_FIELDS),
    ("attempts", ATTEMPT_FIELDS),
];

/// The whole page.
pub(super) fn page() -> String {
    let mut page = LANGUAGE.to_owned();
    for (commands, fields) in LISTS {
        let _ = write!(page, "\nFields of {commands}:\n");
        for field in *fields {
            let name = match field.name {
                "header." => "header.NAME",
                "body." => "body./POINTER",
                name => name,
            };
            let _ = writeln!(page, "  {name:<16} {}", values(field.kind));
        }
    }
    page
}

fn values(kind: FieldKind) -> String {
    match kind {
        FieldKind::Text => "text".to_owned(),
        FieldKind::Word(words) => words.join(", "),
        FieldKind::Number => "a number: 100, 1.5, 10k, 2M".to_owned(),
        FieldKind::Duration => "a span: 30s, 5m, 2h, 3d".to_owned(),
        FieldKind::Bool => "true or false".to_owned(),
        FieldKind::Time => "a time: 2026-12-01T08:30:00Z, 2026-12-01".to_owned(),
    }
}
