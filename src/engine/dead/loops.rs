//! Retry loops of others: a queue whose dead letters wait in another one for a time, and come back. What is in such a
//! loop is not dead, because the broker itself sends it again.

use std::collections::{BTreeMap, BTreeSet};

use super::targets::{Fed, Feeder};

/// The queues in which messages wait for their way back: `expires` says of which the messages leave after a time.
pub(super) fn waiting_rooms(fed: &Fed, expires: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let mut leads_to: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (target, feeders) in fed {
        for feeder in feeders {
            leads_to.entry(&feeder.queue).or_default().push(target);
        }
    }
    let comes_back = |room: &str| {
        let mut seen = BTreeSet::new();
        let mut ahead = vec![room];
        while let Some(at) = ahead.pop() {
            for next in leads_to.get(at).into_iter().flatten() {
                if *next == room {
                    return true;
                }
                if seen.insert(*next) {
                    ahead.push(next);
                }
            }
        }
        false
    };
    let fed_by_others = |feeders: &[Feeder], name: &str| feeders.iter().any(|feeder| feeder.queue != name);
    fed.iter()
        .filter(|(name, feeders)| fed_by_others(feeders, name) && expires(name) && comes_back(name))
        .map(|(name, _)| name.clone())
        .collect()
}

/// Takes out the queues of retry loops: the rooms, and what only they feed.
pub(super) fn leave_out(fed: &mut Fed, rooms: &BTreeSet<String>, named: &BTreeSet<String>) {
    if rooms.is_empty() {
        return;
    }
    fed.retain(|name, feeders| {
        let was_fed = !feeders.is_empty();
        feeders.retain(|feeder| !rooms.contains(&feeder.queue));
        named.contains(name) || !rooms.contains(name) && (!was_fed || !feeders.is_empty())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(edges: &[(&str, &str)], expiring: &[&str], named: &[&str]) -> Vec<String> {
        let mut fed = Fed::new();
        for (from, to) in edges {
            fed.entry((*to).to_owned()).or_default().push(Feeder {
                queue: (*from).to_owned(),
                exchange: Some(String::new()),
                routing_key: None,
                is_certain: true,
                letters: 0,
            });
        }
        let rooms = waiting_rooms(&fed, |name| expiring.contains(&name));
        leave_out(&mut fed, &rooms, &named.iter().map(|name| (*name).to_owned()).collect());
        fed.into_keys().collect()
    }

    #[test]
    fn what_waits_for_its_way_back_and_where_it_comes_back_to_is_not_dead() {
        let edges = [("work", "later"), ("later", "work"), ("work", "dead")];
        assert_eq!(left(&edges, &["later"], &[]), ["dead"]);
        // Through a chain of them.
        let chain = [("work", "later-1"), ("later-1", "later-2"), ("later-2", "work")];
        assert!(left(&chain, &["later-1", "later-2"], &[]).is_empty());
    }

    #[test]
    fn letters_that_no_time_sends_back_stay_dead() {
        let edges = [("work", "dead"), ("dead", "work")];
        assert_eq!(left(&edges, &[], &[]), ["dead", "work"]);
        // One whose letters go elsewhere after a time.
        assert_eq!(
            left(&[("work", "dead"), ("dead", "old")], &["dead"], &[]),
            ["dead", "old"]
        );
    }

    #[test]
    fn a_queue_that_is_named_stays_one_of_dead_letters() {
        let edges = [("work", "later"), ("later", "work")];
        assert_eq!(left(&edges, &["later"], &["later"]), ["later"]);
    }
}
