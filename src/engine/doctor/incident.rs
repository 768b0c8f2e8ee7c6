//! What daemons wrote down lately of what was gone, as a line of the doctor.

use crate::engine::health::{ALLOWED_AGAIN, BOUND, IS_OLDER, WENT_BACK};
use crate::engine::view::Check;
use crate::store::NewAudit;

/// Of a long list so many are named: the audit has the line whole.
const NAMED_MAX: usize = 3;

/// An incident of the audit, with what to do about it.
pub(super) fn check(line: &NewAudit) -> Check {
    let found = format!("{} {}: {}", line.target, line.result, shortened(&line.detail));
    match line.result.as_str() {
        WENT_BACK => Check::broken(
            "incident",
            found,
            "what was delivered since the backup may come again; what only the store held since then is lost (events, and dead letters and messages that were discarded, saved or rescued), and settings are as they were; `redrive audit` ends with the backup",
        ),
        IS_OLDER => Check::broken(
            "incident",
            found,
            "what was published since that copy was made, and waited, is lost: its owner publishes it again; what was delivered since may come again",
        ),
        BOUND => Check::warning(
            "incident",
            found,
            "no loss is known: find out who took the binding or the exchange away; `redrive audit` has it whole",
        ),
        ALLOWED_AGAIN => Check::warning(
            "incident",
            found,
            "no loss is known: find out who took the right away. With broker.provision, a daemon whose user is an administrator gives it back to itself: to stop a daemon, stop its process",
        ),
        _ => Check::broken(
            "incident",
            found,
            "find out who did it; `redrive audit` has it whole, and what is lost is published again by its owner",
        ),
    }
}

/// What stands before the names, the first of them, and how many more there are.
fn shortened(detail: &str) -> String {
    let Some((before, list)) = detail.split_once(": ") else {
        return detail.to_owned();
    };
    let mut names = items(list);
    let counted = names
        .last()
        .and_then(|last| last.strip_prefix("and ")?.strip_suffix(" more")?.parse().ok());
    let uncounted: usize = counted.unwrap_or(0);
    if counted.is_some() {
        names.pop();
    }
    if names.len() <= NAMED_MAX {
        return detail.to_owned();
    }
    let more = names.len() - NAMED_MAX + uncounted;
    format!("{before}: {}, and {more} more", names[..NAMED_MAX].join(", "))
}

/// The parts of a list, each with what stands in brackets behind it.
fn items(list: &str) -> Vec<&str> {
    let (mut depth, mut from, mut items) = (0_usize, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 && list[at..].starts_with(", ") => {
                items.push(&list[from..at]);
                from = at + 2;
            }
            _ => {}
        }
    }
    items.push(&list[from..]);
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::view::CheckResult;

    #[test]
    fn a_right_that_was_taken_away_is_no_loss() {
        let line = |result: &str| NewAudit {
            actor: "daemon".to_owned(),
            command: "heal".to_owned(),
            target: "broker".to_owned(),
            reason: None,
            plan: None,
            result: result.to_owned(),
            detail: "was gone: the right to work on the broker".to_owned(),
        };
        let right = check(&line(ALLOWED_AGAIN));
        assert_eq!(right.result, CheckResult::Warning);
        assert!(right.mend.is_some_and(|mend| mend.starts_with("no loss is known")));
        assert_eq!(check(&line("made again")).result, CheckResult::Broken);
    }

    #[test]
    fn a_long_list_is_cut_after_three_names_and_says_how_many_more_there_are() {
        let all = "150 queues are gone, with at least 12 messages as listed last: a (3 messages, 7 s before), b, c (head m), d, e, and 145 more";
        let cut = "150 queues are gone, with at least 12 messages as listed last: a (3 messages, 7 s before), b, c (head m), and 147 more";
        assert_eq!(shortened(all), cut);
        for whole in [
            "2 queues are gone, with an unknown number of messages: a, b",
            "it returned what was published to it: its binding was gone, and is made again",
            "12 queues are bound; none is gone",
        ] {
            assert_eq!(shortened(whole), whole);
        }
    }
}
