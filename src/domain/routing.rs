//! Routing keys: words between dots, and the patterns over them that a topic exchange knows.

/// Whether `key` is matched by `pattern`: `*` stands for one word, `#` for any number of them.
#[must_use]
pub fn topic_matches(pattern: &str, key: &str) -> bool {
    let key: Vec<&str> = words(key).collect();
    // How far into the key the pattern may have come so far.
    let mut reached = vec![false; key.len() + 1];
    reached[0] = true;
    for part in words(pattern) {
        let mut next = vec![false; key.len() + 1];
        if part == "#" {
            let from = reached.iter().position(|reached| *reached).unwrap_or(next.len());
            next[from..].fill(true);
        } else {
            for (at, word) in key.iter().enumerate() {
                next[at + 1] = reached[at] && (part == "*" || part == *word);
            }
        }
        reached = next;
    }
    reached.last().copied().unwrap_or_default()
}

/// An empty key has no words.
fn words(key: &str) -> impl Iterator<Item = &str> {
    key.split('.').filter(move |_| !key.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_a_topic_exchange_does() {
        for (pattern, key, matches) in [
            ("a.b", "a.b", true),
            ("a.b", "a.c", false),
            ("a.*", "a.b", true),
            ("a.*", "a", false),
            ("a.*", "a.b.c", false),
            ("a.#", "a", true),
            ("a.#", "a.b.c", true),
            ("#.c", "a.b.c", true),
            ("#.c", "a.b", false),
            ("a.#.c", "a.c", true),
            ("a.#.c", "a.b.b.c", true),
            ("a.#.c.#.d", "a.c.c.x.d", true),
            ("*.#", "", false),
            ("#", "", true),
            ("", "", true),
            ("", "a", false),
            ("*", "a", true),
            ("a..b", "a..b", true),
            ("a.*.b", "a..b", true),
        ] {
            assert_eq!(topic_matches(pattern, key), matches, "{pattern:?} {key:?}");
        }
    }

    #[test]
    fn a_pattern_of_many_wildcards_ends() {
        let pattern = "#.".repeat(200) + "x";
        assert!(!topic_matches(&pattern, &"a.".repeat(200)));
    }
}
