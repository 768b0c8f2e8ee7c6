//! Versions of a store's tables: a list of changes that only grows, what of it was applied, and whether a program may
//! work with that.
//!
//! A change is never edited once it is released: its checksum is kept with it, and another text under the same number is
//! refused. What a program does not know was applied by a newer one.
//!
//! An addition is a change that programs of before it can live with: a column that may be empty, an index. Additions are
//! counted apart, where those programs do not look, so that versions can work beside each other and one can go back;
//! those of a newer program are left alone.

use sha2::{Digest, Sha256};

use super::naming::hex;

/// Whether whoever opens a store brings its tables to this program's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaMode {
    /// They are made, and brought up to date.
    Bring,
    /// They are taken as they are: others are refused, and nothing is written.
    Expect,
}

/// The number of the first addition.
pub const ADDITIONS_FROM: i64 = 1_001;

/// One step: its number, counted from 1 (of an addition: from [`ADDITIONS_FROM`]) without a gap, and its statements.
pub type Change = (i64, &'static str);

/// What was applied: number and checksum, ascending.
pub type Applied = Vec<(i64, String)>;

/// Why a program does not work with the tables that it found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaRefusal {
    /// There are none.
    #[error("there is no redrive schema yet: start the daemon or run `redrive store migrate`")]
    Missing,
    /// Older than the program.
    #[error("the store's schema is {found}, this program needs {known}: run `redrive store migrate`")]
    Behind {
        /// The number found.
        found: i64,
        /// The number that the program needs.
        known: i64,
    },
    /// Without an addition that the program needs.
    #[error("the store lacks the addition {number} to its schema: run `redrive store migrate`")]
    Lacks {
        /// Which.
        number: i64,
    },
    /// Newer than the program.
    #[error("the store's schema is {found}, this program knows {known}: use the newer program, or another store")]
    Newer {
        /// The number found.
        found: i64,
        /// The newest that the program knows.
        known: i64,
    },
    /// Counted by the numbers of before the first release.
    #[error(
        "the store was made by a development version of redrive, whose schema nobody brings up to date: name another \
         store, or move that one away"
    )]
    Development,
    /// A change with the same number and another text.
    #[error(
        "change {number} of the store's schema is not this program's: the store was made by another build; use that \
         build, or another store"
    )]
    Altered {
        /// Which.
        number: i64,
    },
    /// A table is gone.
    #[error("the store has lost its table {table:?}: restore a backup, or name another store")]
    Damaged {
        /// Which.
        table: String,
    },
    /// The database cannot hold every text.
    #[error(
        "the database has the encoding {found}, which cannot hold every letter: make one with \
         `CREATE DATABASE redrive ENCODING 'UTF8' TEMPLATE template0`, and name it in store.url"
    )]
    Encoding {
        /// Its encoding.
        found: String,
    },
    /// The place is in use by something else.
    #[error("{what} is not redrive's: it has {found}; name another store")]
    Foreign {
        /// The place.
        what: String,
        /// What is there.
        found: String,
    },
}

/// The number of the last change.
#[must_use]
pub fn newest(known: &[Change]) -> i64 {
    known.last().map_or(0, |(number, _)| *number)
}

/// What tells the text of a change from every other one.
#[must_use]
pub fn checksum(statements: &str) -> String {
    hex(&Sha256::digest(statements.as_bytes()))
}

/// The changes that are missing, none where all is there.
pub fn missing<'a>(applied: &Applied, known: &'a [Change]) -> Result<&'a [Change], SchemaRefusal> {
    let counts = |number: &i64| *number < ADDITIONS_FROM || *number <= newest(known);
    let found = applied.iter().map(|(number, _)| *number).rfind(counts).unwrap_or(0);
    if found > newest(known) {
        return Err(SchemaRefusal::Newer {
            found,
            known: newest(known),
        });
    }
    for (number, statements) in known.iter().take_while(|(number, _)| *number <= found) {
        let kept = applied.iter().find(|(one, _)| one == number);
        if kept.is_none_or(|(_, kept)| *kept != checksum(statements)) {
            return Err(SchemaRefusal::Altered { number: *number });
        }
    }
    let from = known.partition_point(|(number, _)| *number <= found);
    Ok(&known[from..])
}

/// Refuses what is not as this program needs it.
pub fn expect(applied: &Applied, known: &[Change]) -> Result<(), SchemaRefusal> {
    let Some((number, _)) = missing(applied, known)?.first() else {
        return Ok(());
    };
    Err(match applied.last() {
        _ if *number >= ADDITIONS_FROM => SchemaRefusal::Lacks { number: *number },
        None => SchemaRefusal::Missing,
        Some((found, _)) => SchemaRefusal::Behind {
            found: *found,
            known: newest(known),
        },
    })
}

/// The tables that all of `known` leaves, in the order in which they were made: a statement that makes or drops one begins
/// a line.
#[must_use]
pub fn tables(known: &[Change]) -> Vec<&'static str> {
    let mut tables = Vec::new();
    for line in known.iter().flat_map(|(_, statements)| statements.lines()) {
        let named = |start: &str| {
            let rest = line.trim_start().strip_prefix(start)?;
            rest.split([' ', '(', ';']).next()
        };
        if let Some(made) = named("CREATE TABLE ").or_else(|| named("CREATE VIRTUAL TABLE ")) {
            tables.push(made);
        } else if let Some(dropped) = named("DROP TABLE ") {
            tables.retain(|one| *one != dropped);
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Change] = &[(1, "one"), (2, "two")];

    fn applied(texts: &[&str]) -> Applied {
        (1..).zip(texts.iter().map(|text| checksum(text))).collect()
    }

    #[test]
    fn what_is_missing_follows_what_was_applied_and_nothing_else_is_taken() {
        assert_eq!(missing(&applied(&[]), KNOWN), Ok(KNOWN));
        assert_eq!(missing(&applied(&["one"]), KNOWN), Ok(&KNOWN[1..]));
        assert_eq!(missing(&applied(&["one", "two"]), KNOWN), Ok(&[][..]));
        let newer = missing(&applied(&["one", "two", "three"]), KNOWN);
        assert_eq!(newer, Err(SchemaRefusal::Newer { found: 3, known: 2 }));
        let altered = missing(&applied(&["another"]), KNOWN);
        assert_eq!(altered, Err(SchemaRefusal::Altered { number: 1 }));
    }

    #[test]
    fn an_addition_of_a_newer_program_is_left_alone_and_one_that_is_lacking_is_named() {
        const ADDED: &[Change] = &[(1_001, "one"), (1_002, "two")];
        let applied = |texts: &[&str]| -> Applied { (1_001..).zip(texts.iter().map(|text| checksum(text))).collect() };
        assert_eq!(missing(&applied(&["one"]), ADDED), Ok(&ADDED[1..]));
        assert_eq!(missing(&applied(&["one", "two", "three"]), ADDED), Ok(&[][..]));
        assert_eq!(expect(&applied(&["one", "two", "three"]), ADDED), Ok(()));
        assert_eq!(
            expect(&applied(&[]), ADDED).unwrap_err().to_string(),
            "the store lacks the addition 1001 to its schema: run `redrive store migrate`"
        );
        let altered = missing(&applied(&["another"]), ADDED);
        assert_eq!(altered, Err(SchemaRefusal::Altered { number: 1_001 }));
    }

    #[test]
    fn the_tables_are_those_that_the_changes_leave() {
        let changes = [
            (
                1,
                "-- One.\nCREATE TABLE one (id INTEGER);\n  CREATE TABLE two (id INTEGER);",
            ),
            (
                2,
                "DROP TABLE one;\nCREATE VIRTUAL TABLE three USING fts5 (x);\nCREATE INDEX i ON two (id);",
            ),
        ];
        assert_eq!(tables(&changes), ["two", "three"]);
    }

    #[test]
    fn who_expects_tables_is_told_what_to_run() {
        let text = |texts: &[&str]| expect(&applied(texts), KNOWN).unwrap_err().to_string();
        assert_eq!(
            text(&[]),
            "there is no redrive schema yet: start the daemon or run `redrive store migrate`"
        );
        assert_eq!(
            text(&["one"]),
            "the store's schema is 1, this program needs 2: run `redrive store migrate`"
        );
        assert_eq!(expect(&applied(&["one", "two"]), KNOWN), Ok(()));
    }
}
