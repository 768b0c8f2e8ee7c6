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

/// Queues of work that messages come to after a time: everything that feeds them has a lifetime for messages, they have
/// none, and send dead letters on themselves. With those in which messages wait on their way there.
pub(super) fn delayed_work(
    fed: &Fed,
    expires: impl Fn(&str) -> bool,
    sends_on: impl Fn(&str) -> bool,
) -> BTreeSet<String> {
    let is_delayed = |feeders: &[Feeder]| !feeders.is_empty() && feeders.iter().all(|feeder| expires(&feeder.queue));
    let work = fed
        .iter()
        .filter(|(name, feeders)| is_delayed(feeders) && !expires(name) && sends_on(name));
    let mut found = BTreeSet::new();
    for (name, feeders) in work {
        found.insert(name.clone());
        let rooms = feeders.iter().map(|feeder| &feeder.queue);
        found.extend(rooms.filter(|room| fed.contains_key(*room)).cloned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(edges: &[(&str, &str)]) -> Fed {
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
        fed
    }

    fn left(edges: &[(&str, &str)], expiring: &[&str], named: &[&str]) -> Vec<String> {
        let mut fed = fed(edges);
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
    fn what_only_delays_feed_and_dies_elsewhere_may_be_work() {
        let work = |edges: &[(&str, &str)], expiring: &[&str]| -> Vec<String> {
            let dying: BTreeSet<&str> = edges.iter().map(|(from, _)| *from).collect();
            let found = delayed_work(
                &fed(edges),
                |name| expiring.contains(&name),
                |name| dying.contains(name),
            );
            found.into_iter().collect()
        };
        let delayed = [("delay", "work"), ("work", "dead")];
        assert_eq!(work(&delayed, &["delay"]), ["work"]);
        // A chain of tries.
        let chain = [
            ("work", "r1"),
            ("r1", "work2"),
            ("work2", "r2"),
            ("r2", "work3"),
            ("work3", "dead"),
        ];
        assert_eq!(work(&chain, &["r1", "r2"]), ["r1", "r2", "work2", "work3"]);
        // Messages with a lifetime that end in a queue of dead letters, and those that are kept for a time there.
        assert_eq!(work(&[("orders", "dead")], &["orders"]), [""; 0]);
        assert_eq!(
            work(&[("orders", "dead"), ("dead", "old")], &["orders", "dead"]),
            [""; 0]
        );
        assert_eq!(work(&[("orders", "dead"), ("dead", "old")], &["dead"]), [""; 0]);
        // One that dies in it comes from elsewhere too.
        let both = [("delay", "work"), ("other", "work"), ("work", "dead")];
        assert_eq!(work(&both, &["delay"]), [""; 0]);
    }

    #[test]
    fn a_queue_that_is_named_stays_one_of_dead_letters() {
        let edges = [("work", "later"), ("later", "work")];
        assert_eq!(left(&edges, &["later"], &["later"]), ["later"]);
    }
}
