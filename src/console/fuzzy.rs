//! How well a text answers what was typed: whole parts first, then letters in their order.
//!
//! Every word has to be found. Letter case does not count. A part at the beginning is worth more than one at
//! the beginning of a word, that more than one inside; letters with gaps between come last. Texts are looked
//! at once and nothing is copied, so that a hundred thousand names can be asked.

/// A part of the text.
const PART: i32 = 1_000;
/// It begins the text.
const AT_START: i32 = 300;
/// It begins a word.
const AT_WORD: i32 = 200;
/// Letters in their order, before their gaps are taken off.
const SPREAD: i32 = 400;
/// Of two texts that answer alike, the shorter one; longer than this is long.
const LENGTH_MAX: usize = 200;

/// The words of what was typed.
#[must_use]
pub fn words(typed: &str) -> Vec<String> {
    typed.split_whitespace().map(str::to_owned).collect()
}

/// How well `text` answers these words: greater is better; `None`: one of them is not in it.
#[must_use]
pub fn score(words: &[String], text: &str) -> Option<i32> {
    let mut sum = 0;
    for word in words {
        sum += of_word(word.as_bytes(), text.as_bytes())?;
    }
    let length = i32::try_from(text.len().min(LENGTH_MAX)).unwrap_or(i32::MAX);
    Some(sum - length)
}

fn of_word(word: &[u8], text: &[u8]) -> Option<i32> {
    if let Some(at) = part(word, text) {
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        return Some(match before {
            None => PART + AT_START,
            Some(before) if !before.is_ascii_alphanumeric() => PART + AT_WORD,
            Some(_) => PART,
        });
    }
    let span = spread(word, text)?;
    Some(SPREAD - i32::try_from(span.min(LENGTH_MAX)).unwrap_or(i32::MAX))
}

/// Where `word` begins in `text`.
fn part(word: &[u8], text: &[u8]) -> Option<usize> {
    if word.is_empty() || word.len() > text.len() {
        return word.is_empty().then_some(0);
    }
    let first = word[0].to_ascii_lowercase();
    (0..=text.len() - word.len())
        .find(|at| text[*at].to_ascii_lowercase() == first && text[*at..*at + word.len()].eq_ignore_ascii_case(word))
}

/// How far the letters of `word` reach in `text`, from the first to the last.
fn spread(word: &[u8], text: &[u8]) -> Option<usize> {
    let mut from = None;
    let mut at = 0;
    for letter in word {
        let found = text
            .get(at..)?
            .iter()
            .position(|other| other.eq_ignore_ascii_case(letter))?;
        from.get_or_insert(at + found);
        at += found + 1;
    }
    Some(at - from.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best<'a>(typed: &str, texts: &[&'a str]) -> Vec<&'a str> {
        let words = words(typed);
        let mut found: Vec<(i32, &str)> = texts
            .iter()
            .filter_map(|text| Some((score(&words, text)?, *text)))
            .collect();
        found.sort_by_key(|(score, _)| -score);
        found.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn what_begins_like_it_comes_first_then_words_then_parts_then_letters() {
        let texts = ["x.order", "order-1", "o_r_d_e_r", "other"];
        assert_eq!(best("ord", &texts), ["order-1", "x.order", "o_r_d_e_r"]);
        assert_eq!(best("ORDER-", &texts), ["order-1"]);
    }

    #[test]
    fn every_word_has_to_be_there_in_any_order() {
        let texts = ["https://stock.example/changed", "https://shop.example/orders"];
        assert_eq!(best("changed stock", &texts), ["https://stock.example/changed"]);
        assert_eq!(best("changed shop", &texts), Vec::<&str>::new());
    }

    #[test]
    fn nothing_typed_finds_all_the_shortest_first() {
        assert_eq!(best("", &["bb", "a"]), ["a", "bb"]);
    }
}
