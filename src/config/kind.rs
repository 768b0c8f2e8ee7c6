//! Kinds of values: what can be written for a key, how it is read and shown, and what the schema says of it.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use secrecy::SecretString;

use crate::domain::notification::{RESERVED, header_problem, is_reserved};
use crate::domain::signature::SigningSecret;
use crate::domain::url::EndpointUrl;
use crate::domain::value::Value;

use super::error::Problem;
use super::keys::{Facts, Keys, Row, Secrecy, Shown};
use super::secret::{HIDDEN, Secret};
use super::section::Section;
use super::tree::{Node, Place, Written};

type Read<W, V> = Box<dyn Fn(Section<'_>, &W) -> Result<V, Problem>>;
type Show<V> = Box<dyn Fn(&V) -> Option<Value>>;
pub(super) type Schema = Vec<(&'static str, Value)>;

/// The values of a key, once they are read.
pub(super) struct Kind<V> {
    written: Read<Node, V>,
    absent: Read<str, V>,
    shown: Show<V>,
    pub(super) facts: Facts,
}

impl<V: 'static> Kind<V> {
    /// It has to be written, until [`Self::or`], [`Self::or_with`] or [`Self::optional`] says otherwise.
    pub(super) fn new(
        schema: Schema,
        written: impl Fn(Section<'_>, &Node) -> Result<V, Problem> + 'static,
        shown: impl Fn(&V) -> Option<Value> + 'static,
    ) -> Self {
        Self {
            written: Box::new(written),
            absent: Box::new(|section, key| Err(section.problem(key, "is missing"))),
            shown: Box::new(shown),
            facts: Facts {
                schema,
                ..Facts::default()
            },
        }
    }

    pub(super) fn read(&self, section: Section<'_>, key: &str) -> Result<V, Problem> {
        match section.get(key) {
            Some(node) => (self.written)(section, node),
            None => (self.absent)(section, key),
        }
    }

    pub(super) fn show(&self, key: &'static str, value: &V) -> Shown {
        Some((key, (self.shown)(value)?, self.facts.is_part))
    }

    /// Its value where nothing is written.
    pub(super) fn or(mut self, default: V) -> Self
    where
        V: Clone,
    {
        self.facts.default = (self.shown)(&default);
        self.or_with(move |_| Ok(default.clone()))
    }

    /// Its value where nothing is written, as it follows from the rest.
    pub(super) fn or_with(mut self, default: impl Fn(Section<'_>) -> Result<V, Problem> + 'static) -> Self {
        self.absent = Box::new(move |section, _| default(section));
        self
    }

    /// It may be left out.
    pub(super) fn optional(self) -> Kind<Option<V>> {
        let (written, shown) = (self.written, self.shown);
        Kind {
            written: Box::new(move |section, node| written(section, node).map(Some)),
            absent: Box::new(|_, _| Ok(None)),
            shown: Box::new(move |value| value.as_ref().and_then(&shown)),
            facts: Facts {
                is_required: false,
                ..self.facts
            },
        }
    }

    /// It has to be there; `mend` says what to write.
    pub(super) fn required(mut self, mend: impl std::fmt::Display + 'static) -> Self {
        self.facts.is_required = true;
        self.absent = Box::new(move |section, key| Err(section.problem(key, format!("is missing; {mend}"))));
        self
    }

    /// What is read of it, and how that is shown.
    pub(super) fn and_then<W>(
        self,
        read: impl Fn(V, &Place) -> Result<W, Problem> + Clone + 'static,
        shown: impl Fn(&W) -> Option<Value> + 'static,
    ) -> Kind<W> {
        let (written, absent, read_absent) = (self.written, self.absent, read.clone());
        Kind {
            written: Box::new(move |section, node| read(written(section, node)?, &node.place())),
            absent: Box::new(move |section, key| read_absent(absent(section, key)?, &section.place(key))),
            shown: Box::new(shown),
            facts: self.facts,
        }
    }

    /// Refuses some of the values; `problem` says what is wrong with one.
    pub(super) fn unless(self, problem: impl Fn(&V) -> Option<String> + Clone + 'static) -> Self {
        let Self {
            written,
            absent,
            shown,
            facts,
        } = self;
        let checked = move |value, place: &Place| match problem(&value) {
            Some(problem) => Err(place.problem(problem)),
            None => Ok(value),
        };
        let written: Read<Node, V> = Box::new(move |section, node| checked(written(section, node)?, &node.place()));
        Self {
            written,
            absent,
            shown,
            facts,
        }
    }

    /// Shown only if so.
    pub(super) fn shown_if(mut self, is_shown: impl Fn(&V) -> bool + 'static) -> Self {
        let shown = self.shown;
        self.shown = Box::new(move |value| is_shown(value).then(|| shown(value)).flatten());
        self
    }

    /// A further word of the schema.
    pub(super) fn with(mut self, word: &'static str, value: Value) -> Self {
        self.facts.schema.push((word, value));
        self
    }

    /// The template says nothing above it.
    pub(super) const fn bare(mut self) -> Self {
        self.facts.is_bare = true;
        self
    }

    /// The value in the template, if not the default.
    pub(super) const fn example(mut self, example: &'static str) -> Self {
        self.facts.example = Some(example);
        self
    }

    /// The environment variable that overrides it.
    pub(super) const fn variable(mut self, variable: &'static str) -> Self {
        self.facts.variable = Some(variable);
        self
    }

    pub(super) const fn secrecy(mut self, secrecy: Secrecy) -> Self {
        self.facts.secrecy = secrecy;
        self
    }

    /// The keys of a table in it.
    pub(super) const fn inner(mut self, rows: fn() -> Vec<Row>) -> Self {
        self.facts.inner = Some(rows);
        self
    }

    /// It is a table with a part of its own in template and schema.
    pub(super) const fn part(mut self) -> Self {
        self.facts.is_part = true;
        self
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "some callers have a value, and some a reference"
)]
pub(super) fn text_value(text: impl ToString) -> Value {
    Value::Text(text.to_string())
}

/// A number without a fraction where it has none.
#[expect(
    clippy::cast_possible_truncation,
    reason = "numbers of a configuration are far below 2^53"
)]
pub(super) fn number_value(number: f64) -> Value {
    if number.fract() == 0.0 {
        Value::Integer(number as i128)
    } else {
        Value::Number(number)
    }
}

/// A table of values.
pub(super) fn table_value(entries: impl IntoIterator<Item = (impl ToString, Value)>) -> Value {
    Value::Table(
        entries
            .into_iter()
            .map(|(key, value)| (key.to_string(), value))
            .collect(),
    )
}

/// What a schema says of a type alone.
pub(super) fn typed(kind: &str) -> Schema {
    vec![("type", text_value(kind))]
}

fn reference(definition: &str) -> Schema {
    vec![("$ref", text_value(format!("#/definitions/{definition}")))]
}

fn list_of(items: Schema) -> Schema {
    vec![("type", text_value("array")), ("items", table_value(items))]
}

pub(super) fn one_of(words: impl IntoIterator<Item = &'static str>) -> Schema {
    vec![("enum", Value::List(words.into_iter().map(text_value).collect()))]
}

/// A string.
pub(super) fn text() -> Kind<String> {
    let written = |_: Section<'_>, node: &Node| node.text().map(str::to_owned);
    Kind::new(typed("string"), written, |text| Some(text_value(text)))
}

/// A string that has to be there, and not empty.
pub(super) fn required_text(example: &'static str) -> Kind<String> {
    text()
        .unless(move |text| text.is_empty().then(|| format!("is empty; write it as {example}")))
        .required(format!("write it as {example}"))
}

/// True or false.
pub(super) fn flag(default: bool) -> Kind<bool> {
    let written = |_: Section<'_>, node: &Node| {
        let Written::Bool(flag) = &node.written else {
            return Err(node.problem(format!("is {}, and must be true or false", node.written.kind())));
        };
        Ok(*flag)
    };
    Kind::new(typed("boolean"), written, |flag| Some(Value::Bool(*flag))).or(default)
}

/// A whole number in its bounds.
pub(super) fn integer<N>(bounds: RangeInclusive<N>) -> Kind<N>
where
    N: TryFrom<i128> + TryInto<i128> + PartialOrd + std::fmt::Display + Copy + 'static,
{
    let value = |number: N| Value::Integer(number.try_into().unwrap_or(i128::MAX));
    let mut schema = typed("integer");
    schema.extend([("minimum", value(*bounds.start())), ("maximum", value(*bounds.end()))]);
    let written = move |_: Section<'_>, node: &Node| {
        let Written::Integer(written) = &node.written else {
            return Err(node.problem(format!("is {}, and must be an integer", node.written.kind())));
        };
        let number = N::try_from(*written).ok().filter(|number| bounds.contains(number));
        number.ok_or_else(|| {
            let (from, to) = (bounds.start(), bounds.end());
            node.problem(format!("is {written}, and must be between {from} and {to}"))
        })
    };
    Kind::new(schema, written, move |number| Some(value(*number)))
}

/// A number of seconds in its bounds, fractions allowed.
pub(super) fn seconds(bounds: RangeInclusive<f64>) -> Kind<Duration> {
    let mut schema = typed("number");
    schema.extend([
        ("minimum", number_value(*bounds.start())),
        ("maximum", number_value(*bounds.end())),
    ]);
    let written = move |_: Section<'_>, node: &Node| {
        #[expect(clippy::cast_precision_loss, reason = "what loses precision is far out of bounds")]
        let seconds = if let Written::Integer(seconds) = &node.written {
            *seconds as f64
        } else if let Written::Number(seconds) = &node.written {
            *seconds
        } else {
            return Err(node.problem(format!("is {}, and must be a number of seconds", node.written.kind())));
        };
        if bounds.contains(&seconds) {
            return Ok(Duration::from_secs_f64(seconds));
        }
        let (from, to) = (bounds.start(), bounds.end());
        Err(node.problem(format!("is {seconds} seconds, and must be between {from} and {to}")))
    };
    Kind::new(schema, written, |span| Some(number_value(span.as_secs_f64())))
}

/// One of some words, each with its meaning.
pub(super) fn word<V: Clone + PartialEq + 'static>(words: &'static [(&'static str, V)]) -> Kind<V> {
    let written = |_: Section<'_>, node: &Node| {
        let text = node.text()?;
        let known = words.iter().find(|(word, _)| *word == text);
        known.map(|(_, meaning)| meaning.clone()).ok_or_else(|| {
            let words: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            node.problem(format!("is {text:?}, and must be {}", words.join(" or ")))
        })
    };
    let shown = |value: &V| {
        let word = words.iter().find(|(_, meaning)| meaning == value);
        word.map(|(word, _)| text_value(word))
    };
    Kind::new(one_of(words.iter().map(|(word, _)| *word)), written, shown)
}

/// A list of values of a kind; an empty one where nothing is written.
pub(super) fn list<V: 'static>(item: Kind<V>, expected: &'static str) -> Kind<Vec<V>> {
    let (written, shown) = (item.written, item.shown);
    let read = move |section: Section<'_>, node: &Node| {
        let items = node.items(expected)?.iter();
        items.map(|item| written(section, item)).collect()
    };
    let show = move |items: &Vec<V>| Some(Value::List(items.iter().filter_map(&shown).collect()));
    let mut list = Kind::new(list_of(item.facts.schema), read, show).or_with(|_| Ok(Vec::new()));
    list.facts.inner = item.facts.inner;
    list.facts.secrecy = item.facts.secrecy;
    list
}

/// A list of strings.
pub(super) fn texts() -> Kind<Vec<String>> {
    list(text(), "a list of strings")
}

/// A list of words, each of which is one of `words`; what it says of another one is `problem`.
pub(super) fn words<V: 'static>(
    words: Vec<&'static str>,
    meaning: impl Fn(&str) -> Result<V, String> + Clone + 'static,
    word: impl Fn(&V) -> &'static str + 'static,
) -> Kind<Vec<V>> {
    let mut one = text().and_then(
        move |text, place| meaning(&text).map_err(|problem| place.problem(problem)),
        move |value| Some(text_value(word(value))),
    );
    one.facts.schema = one_of(words);
    list(one, "a list of strings")
}

/// A string that something is read from.
pub(super) fn parsed<V: 'static>(
    parse: impl Fn(&str) -> Result<V, String> + Clone + 'static,
    shown: impl Fn(&V) -> String + 'static,
) -> Kind<V> {
    text().and_then(
        move |text, place| parse(&text).map_err(|problem| place.problem(problem)),
        move |value| Some(Value::Text(shown(value))),
    )
}

/// A path of a file.
pub(super) fn path() -> Kind<PathBuf> {
    let parse = |text: &str| match text {
        "" => Err("is empty, and must be the path of a file".to_owned()),
        path => Ok(PathBuf::from(path)),
    };
    parsed(parse, |path: &PathBuf| path.display().to_string())
}

/// The path of a PEM file that has to be there.
pub(super) fn pem_file() -> Kind<PathBuf> {
    path().required("give the path of a PEM file")
}

/// Where a program runs. Absolute: what a relative one means would follow from where the daemon was started.
pub(super) fn directory(example: &'static str) -> Kind<Option<PathBuf>> {
    let parse = |text: &str| match Path::new(text) {
        path if path.is_absolute() => Ok(path.to_owned()),
        _ => Err("must be an absolute path such as \"/var/lib/hr\"".to_owned()),
    };
    parsed(parse, |path: &PathBuf| path.display().to_string())
        .optional()
        .bare()
        .example(example)
}

/// An address and a port.
pub(super) fn address() -> Kind<SocketAddr> {
    let parse = |text: &str| {
        text.parse()
            .map_err(|_| format!("is {text:?}, and must be an address and a port such as 127.0.0.1:8470 or [::1]:8470"))
    };
    parsed(parse, SocketAddr::to_string)
}

/// A list of networks; an address alone is one, too.
pub(super) fn networks() -> Kind<Vec<IpNet>> {
    let parse = |text: &str| {
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let network = network.map(|network: IpNet| network.trunc());
        network.map_err(|_| format!("is {text:?}, and must be a network such as 10.0.0.0/8 or fd00::/8"))
    };
    list(parsed(parse, IpNet::to_string), "a list of strings")
}

/// A URL that can be delivered to.
pub(super) fn endpoint_url(text: &str) -> Result<EndpointUrl, String> {
    EndpointUrl::parse(text).map_err(|error| {
        let message = error.to_string();
        message.strip_prefix("url ").unwrap_or(&message).to_owned()
    })
}

/// A secret, wherever it is kept.
pub(super) fn secret() -> Kind<Secret> {
    let written = |section: Section<'_>, node: &Node| section.secret_of(node);
    Kind::new(reference("secret"), written, |_| Some(text_value(HIDDEN))).secrecy(Secrecy::Whole)
}

/// One secret that signs, or a list of them while they are being changed.
pub(super) fn signing_secrets() -> Kind<Vec<SigningSecret>> {
    let either = [reference("secret"), list_of(reference("secret"))];
    let schema = vec![("anyOf", Value::List(either.map(table_value).into()))];
    let written = |section: Section<'_>, node: &Node| {
        let secret = |node| {
            let secret: Secret = section.secret_of(node)?;
            SigningSecret::parse(secret.expose()).map_err(|error| secret.problem(error.to_string()))
        };
        if let Written::List(items) = &node.written {
            if items.is_empty() {
                let problem = "names no secret, so that nothing would be signed: name one, or leave the key out";
                return Err(node.problem(problem.to_owned()));
            }
            return items.iter().map(secret).collect();
        }
        Ok(vec![secret(node)?])
    };
    let shown = |secrets: &Vec<_>| Some(Value::List(secrets.iter().map(|_| text_value(HIDDEN)).collect()));
    Kind::new(schema, written, shown).secrecy(Secrecy::Whole)
}

/// A table of names and of what `value` reads.
pub(super) fn map<V: 'static>(
    schema: Schema,
    expected: &'static str,
    value: impl Fn(Section<'_>, &str, &Node) -> Result<V, Problem> + 'static,
    shown: impl Fn(&V) -> Value + 'static,
) -> Kind<Vec<(String, V)>> {
    let mut all = typed("object");
    all.push(("additionalProperties", table_value(schema)));
    let written = move |section: Section<'_>, node: &Node| {
        if !matches!(node.written, Written::Table(_)) {
            return Err(node.problem(format!("is {}, and must be {expected}", node.written.kind())));
        }
        let entries = node.entries().iter();
        entries
            .map(|(name, node)| Ok((name.clone(), value(section, name, node)?)))
            .collect()
    };
    let shown =
        move |entries: &Vec<(String, V)>| Some(table_value(entries.iter().map(|(name, value)| (name, shown(value)))));
    Kind::new(all, written, shown).or_with(|_| Ok(Vec::new()))
}

/// Headers that are sent with each request.
pub(super) fn headers() -> Kind<Vec<(String, SecretString)>> {
    let value = |section: Section<'_>, name: &str, node: &Node| {
        if is_reserved(name) {
            return Err(node.problem(RESERVED));
        }
        let secret = section.secret_of(node)?;
        match header_problem(name, secret.expose()) {
            Some(problem) => Err(node.problem(problem)),
            None => Ok(secret.text),
        }
    };
    let shown = |_: &SecretString| text_value(HIDDEN);
    map(reference("secret"), "a table of names and values", value, shown).secrecy(Secrecy::Values)
}

/// What a schema says of a table with these keys.
pub(super) fn table_schema(rows: &[Row]) -> Schema {
    let mut schema = typed("object");
    schema.extend([
        ("additionalProperties", Value::Bool(false)),
        (
            "properties",
            table_value(rows.iter().map(|row| (row.key, property(row)))),
        ),
    ]);
    let required: Vec<Value> = rows
        .iter()
        .filter(|row| row.facts.is_required)
        .map(|row| text_value(row.key))
        .collect();
    if !required.is_empty() {
        schema.push(("required", Value::List(required)));
    }
    schema
}

/// What a schema says of one key.
fn property(row: &Row) -> Value {
    if row.facts.is_part {
        return table_value(reference(row.key));
    }
    let described = [("description", text_value(&row.about))];
    let default = row.facts.default.clone().map(|default| ("default", default));
    table_value(described.into_iter().chain(row.facts.schema.clone()).chain(default))
}

/// A table inside a table.
pub(super) fn table<K: Keys + 'static>() -> Kind<K> {
    let written = |section: Section<'_>, node: &Node| K::read(section.inside::<K>(node)?);
    Kind::new(table_schema(&K::rows()), written, |keys| {
        Some(table_value(keys.shown()))
    })
    .inner(K::rows)
}
