//! Reads the text in which the numbers are for Prometheus: the one that this process writes itself, and no other.

use std::collections::BTreeMap;

/// Numbers of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Family {
    /// `counter`, `gauge`, `histogram`.
    pub(super) kind: String,
    pub(super) help: String,
    pub(super) samples: Vec<Sample>,
}

/// One number of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    /// What follows the family's name: `_bucket`, `_sum`, `_count`, or nothing.
    pub(super) part: String,
    pub(super) labels: Vec<(String, String)>,
    pub(super) value: f64,
}

pub(super) fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut last = String::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            help.clone_into(&mut families.entry(name.to_owned()).or_default().help);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            kind.clone_into(&mut families.entry(name.to_owned()).or_default().kind);
            name.clone_into(&mut last);
        } else if let Some((name, sample)) = sample(line)
            && let Some(part) = name.strip_prefix(last.as_str())
            && let Some(family) = families.get_mut(&last)
        {
            let part = part.to_owned();
            family.samples.push(Sample { part, ..sample });
        }
    }
    families
}

/// `name{label="value",…} number`.
fn sample(line: &str) -> Option<(&str, Sample)> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let sample = Sample {
        part: String::new(),
        labels,
        value: value.trim().parse().ok()?,
    };
    Some((name, sample))
}

/// The labels, and what follows them.
fn labels(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let (mut value, mut characters) = (String::new(), quoted.char_indices());
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (_, '\\') => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.push((name.to_owned(), value));
        rest = quoted.get(end + 1..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_their_labels() {
        let text = "# HELP a_total What.\n# TYPE a_total counter\na_total{x=\"1\",y=\"a\\\"b, }c\"} 2\na_total 3\n\n\
                    # TYPE h histogram\nh_bucket{le=\"0.5\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 0.75\nh_count 2\n";
        let families = families(text);
        let counter = &families["a_total"];
        assert_eq!((counter.kind.as_str(), counter.help.as_str()), ("counter", "What."));
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(counter.samples[0].labels, [label("x", "1"), label("y", "a\"b, }c")]);
        let values: Vec<f64> = counter.samples.iter().map(|sample| sample.value).collect();
        assert_eq!(values, [2.0, 3.0]);
        let parts: Vec<&str> = families["h"]
            .samples
            .iter()
            .map(|sample| sample.part.as_str())
            .collect();
        assert_eq!(parts, ["_bucket", "_bucket", "_sum", "_count"]);
    }
}
