//! A policy's pattern over names. The broker matches it as Perl would, anywhere in the name; the engine here knows no
//! lookaround. The forms of it that people use in policies are taken apart, exactly: `^(?!X)REST` is *begins with REST
//! and not with X*, `^((?!X).)*$` is *X is nowhere in it*. What is left is not understood, and said to be so.

use regex::Regex;

/// A pattern that is understood: one of its alternatives has to match.
#[derive(Clone, Debug)]
pub struct Pattern(Vec<Alternative>);

/// Matches where all of some match, and none of others.
#[derive(Clone, Debug, Default)]
struct Alternative {
    all: Vec<Regex>,
    none: Vec<Regex>,
}

impl Pattern {
    /// `None`: it is not understood.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // In a class of characters these mean something else here.
        if text.contains("&&") || text.contains("~~") {
            return None;
        }
        if let Ok(regex) = Regex::new(text) {
            let whole = Alternative {
                all: vec![regex],
                none: Vec::new(),
            };
            return Some(Self(vec![whole]));
        }
        let alternatives = alternatives(text).into_iter().map(Alternative::parse);
        alternatives.collect::<Option<_>>().map(Self)
    }

    /// Whether the broker would find it in `name`.
    #[must_use]
    pub fn is_match(&self, name: &str) -> bool {
        self.0.iter().any(|one| one.is_match(name))
    }
}

/// Whether a pattern may match a name that begins with `prefix`. `false` only where every name that it matches plainly
/// begins with something else, understood or not.
#[must_use]
pub fn may_match(text: &str, prefix: &str) -> bool {
    let beginning = beginning(text);
    prefix.starts_with(&beginning) || beginning.starts_with(prefix)
}

/// What every name that it matches begins with, as far as that is plain.
fn beginning(text: &str) -> String {
    let mut beginning = String::new();
    let Some(rest) = text.strip_prefix('^').filter(|rest| !rest.contains('|')) else {
        return beginning;
    };
    let mut characters = rest.chars().peekable();
    while let Some(one) = characters.next() {
        let literal = match one {
            '\\' => characters.next().filter(|one| !one.is_alphanumeric()),
            _ => Some(one).filter(|one| one.is_alphanumeric() || "-_/:".contains(*one)),
        };
        let (Some(literal), None) = (literal, characters.next_if(|next| "?*{".contains(*next))) else {
            break;
        };
        beginning.push(literal);
    }
    beginning
}

impl Alternative {
    fn parse(text: &str) -> Option<Self> {
        let mut parsed = Self::default();
        if let Ok(regex) = Regex::new(text) {
            parsed.all.push(regex);
            return Some(parsed);
        }
        let mut rest = text.strip_prefix('^')?;
        while let Some((is_negative, inner, after)) = lookahead(rest) {
            let looks = Regex::new(&format!("^(?:{inner})")).ok()?;
            if is_negative {
                parsed.none.push(looks);
            } else {
                parsed.all.push(looks);
            }
            rest = after;
        }
        if let Some((inner, is_empty_allowed)) = nowhere(rest) {
            let inside = Regex::new(inner).ok().filter(|inside| !inside.is_match(""))?;
            parsed.none.push(inside);
            if !is_empty_allowed {
                parsed.all.push(Regex::new(".").ok()?);
            }
        } else {
            parsed.all.push(Regex::new(&format!("^(?:{rest})")).ok()?);
        }
        Some(parsed)
    }

    fn is_match(&self, name: &str) -> bool {
        self.all.iter().all(|regex| regex.is_match(name)) && !self.none.iter().any(|regex| regex.is_match(name))
    }
}

/// What stands between the `|` that are in no group.
fn alternatives(text: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut all) = (0_usize, 0, Vec::new());
    for (at, one) in operators(text) {
        match one {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => {
                all.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    all.push(&text[begin..]);
    all
}

/// A lookahead at the beginning: whether it is negative, what is in it, and what comes after it.
fn lookahead(text: &str) -> Option<(bool, &str, &str)> {
    let (is_negative, inside) = match (text.strip_prefix("(?!"), text.strip_prefix("(?=")) {
        (Some(inside), _) => (true, inside),
        (None, Some(inside)) => (false, inside),
        (None, None) => return None,
    };
    let end = closing(inside)?;
    Some((is_negative, &inside[..end], &inside[end + 1..]))
}

/// `((?!X).)*$`: what may be nowhere, and whether an empty name is one that matches.
fn nowhere(text: &str) -> Option<(&str, bool)> {
    let group = text.strip_prefix("(?:").or_else(|| text.strip_prefix('('))?;
    let (true, inner, after) = lookahead(group)? else {
        return None;
    };
    match after {
        ".)*$" => Some((inner, true)),
        ".)+$" => Some((inner, false)),
        _ => None,
    }
}

/// Where the group ends whose inside this begins with.
fn closing(inside: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, one) in operators(inside) {
        match one {
            '(' => depth += 1,
            ')' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The characters that are neither escaped nor in a class, and where they are.
fn operators(text: &str) -> Vec<(usize, char)> {
    let (mut found, mut characters) = (Vec::new(), text.char_indices().peekable());
    while let Some((at, one)) = characters.next() {
        match one {
            '\\' => drop(characters.next()),
            '[' => {
                characters.next_if(|(_, one)| *one == '^');
                // The first one is itself a member.
                characters.next_if(|(_, one)| *one == ']');
                while let Some((_, one)) = characters.next() {
                    match one {
                        '\\' => drop(characters.next()),
                        ']' => break,
                        _ => {}
                    }
                }
            }
            _ => found.push((at, one)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_matched_as_the_broker_does() {
        let ours = "redrive.run-1.30bf361a13f9509face00fedbedd065c";
        for (pattern, name, matches) in [
            ("^redrive\\.", ours, true),
            (".*", ours, true),
            ("run", ours, true),
            ("^(?!amq\\.).*", ours, true),
            ("^(?!amq\\.).*", "amq.gen-1", false),
            ("^(?!amq\\.)", "amq", true),
            ("^(?!amq\\.|redrive\\.).*", ours, false),
            ("^(?!amq\\.|redrive\\.).*", "orders", true),
            ("^(?!(?:amq|redrive)\\.)(?!x)", ours, false),
            ("^(?!(?:amq|redrive)\\.)(?!x)", "x.y", false),
            ("^(?!(?:amq|redrive)\\.)(?!x)", "orders", true),
            ("^(?!redrive\\.).*$|^redrive\\.dead$", ours, false),
            ("^(?!redrive\\.).*$|^redrive\\.dead$", "redrive.dead", true),
            ("^(?!.*\\.dead$).*", "redrive.dead", false),
            ("^(?!.*\\.dead$).*", ours, true),
            ("^(?=redrive)(?!redrive\\.dead).+", ours, true),
            ("^(?=redrive)(?!redrive\\.dead).+", "redrive.dead", false),
            ("^(?=redrive)(?!redrive\\.dead).+", "orders", false),
            ("^((?!redrive).)*$", ours, false),
            ("^((?!redrive).)*$", "orders", true),
            ("^(?:(?!dead|wake).)+$", "redrive.wake", false),
            ("^(?:(?!dead|wake).)+$", ours, true),
            ("^(?![)|(]).*", ")x", false),
            ("^(?![)|(]).*", "x", true),
            ("^(?!\\)|\\|).*", "|", false),
            ("^(?![]|]).*", "]", false),
            ("^(?![^r]).*", ours, true),
        ] {
            let found = Pattern::parse(pattern).map(|pattern| pattern.is_match(name));
            assert_eq!(found, Some(matches), "{pattern} {name}");
        }
    }

    #[test]
    fn what_plainly_begins_with_something_else_matches_no_name_of_ours() {
        for pattern in [
            "^jobs\\.",
            "^jobs",
            "^redrives",
            "^red-",
            "^other$",
            "^jobs\\.(?<=s\\.).*",
            "^r_",
        ] {
            assert!(!may_match(pattern, "redrive."), "{pattern}");
        }
        for pattern in [
            "",
            "^",
            ".*",
            "jobs",
            "^red",
            "^redrive\\.x",
            "^redr?",
            "^rx*e",
            "^rx{0}e",
            "^j|^r",
            "^[jr]",
            "^(jobs|r)",
            "^(?!jobs)",
            "(?i)^REDRIVE",
            "^(?i)REDRIVE",
            "^\\x72",
            "^\\Qredrive\\E",
            "^r\\.?edrive",
            "^redrive\\.+",
        ] {
            assert!(may_match(pattern, "redrive."), "{pattern}");
        }
    }

    #[test]
    fn what_cannot_be_taken_apart_is_said_not_to_be_understood() {
        for pattern in [
            "(?!amq).*",
            "^a(?!b)",
            "(?<=redrive\\.)dead",
            "^(a)\\1",
            "^(?>a)b",
            "^(?!a",
            "^(?!(?!a)b)",
            "^((?!a*).)*$",
            "[a&&b]",
            "(",
        ] {
            assert!(Pattern::parse(pattern).is_none(), "{pattern}");
        }
    }
}
