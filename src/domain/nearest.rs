//! The known word nearest to one that was mistyped, for errors that say what was probably meant.

/// No key or word of the program is longer.
const KEY_CHARS_MAX: usize = 40;

/// The candidate with the fewest typing errors between it and `word`; none when nothing is alike.
///
/// Letter case does not count as a difference. Of equally near candidates the first wins.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A word of any length may come from outside; past this it is like nothing.
    const WORD_CHARS_MAX: usize = 64;
    if word.chars().count() > WORD_CHARS_MAX {
        return None;
    }
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| alike(*distance, &word, candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// At least half of the longer word has to be right: what is less alike is hardly ever what was meant. Of a long one, such as
/// a queue's name that ends with a hash, a third.
fn alike(distance: usize, word: &str, candidate: &str) -> bool {
    let longest = word.chars().count().max(candidate.chars().count());
    if longest <= KEY_CHARS_MAX {
        distance * 2 <= longest
    } else {
        distance * 3 <= longest * 2
    }
}

#[cfg(test)]
mod tests {
    use super::nearest;

    const WORDS: [&str; 3] = ["minimum_delay", "maximum_delay", "jitter"];

    #[test]
    fn a_transposed_letter_finds_its_word() {
        assert_eq!(nearest("minimum_dealy", WORDS), Some("minimum_delay"));
        assert_eq!(nearest("MAXIMUM_DELAY", WORDS), Some("maximum_delay"));
        assert_eq!(nearest("jiter", WORDS), Some("jitter"));
    }

    #[test]
    fn a_word_like_nothing_known_has_no_nearest() {
        assert_eq!(nearest("xyz", WORDS), None);
        assert_eq!(nearest("token", ["value", "scopes"]), None);
        assert_eq!(nearest(&"j".repeat(1_000_000), WORDS), None);
    }
}
