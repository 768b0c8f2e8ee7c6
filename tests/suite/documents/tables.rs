//! The tables of the contract, made from the program.

use clap::{Arg, ArgAction, Command};
use redrive::internals::cli::{COMMANDS, Cli, Does};
use redrive::internals::domain::filter::{Field, FieldKind};
use redrive::internals::engine::{attempts, events, snapshot};
use serde_json::Value;

/// Name and content of each table.
pub fn all() -> Vec<(&'static str, String)> {
    vec![
        ("global options", global_options()),
        ("modes", modes()),
        ("exit codes", exit_codes()),
        ("commands", commands()),
        ("fields", fields()),
        ("routes", routes()),
        ("words", words()),
        ("shapes", shapes()),
        ("keys", keys()),
        ("metrics", metrics()),
    ]
}

fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let heads: Vec<String> = head.iter().map(ToString::to_string).collect();
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    let rows = rows.into_iter().map(|row| {
        let cells = row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " "));
        line(&cells.collect::<Vec<_>>())
    });
    line(&heads) + &rule + &rows.collect::<String>()
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn help(argument: &Arg) -> String {
    argument.get_help().map(ToString::to_string).unwrap_or_default()
}

/// An argument as it is typed.
fn typed(argument: &Arg) -> String {
    let named: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_owned())
        .collect();
    let takes = argument.get_action().takes_values();
    let names = argument.get_value_names().unwrap_or_default();
    let value = if !named.is_empty() && takes {
        named.join("|")
    } else {
        names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let many = matches!(argument.get_action(), ArgAction::Append);
    let plain = match argument.get_long() {
        Some(long) if takes => format!("--{long} {value}"),
        Some(long) => format!("--{long}"),
        None => value,
    };
    let plain = if argument.is_required_set() {
        plain
    } else {
        format!("[{plain}]")
    };
    if many { plain + "…" } else { plain }
}

fn own_arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    let usual = ["help", "version"];
    command.get_arguments().filter(move |argument| {
        let is_usual = argument.get_long().is_some_and(|long| usual.contains(&long));
        !argument.is_global_set() && !argument.is_hide_set() && !is_usual
    })
}

fn cli() -> Command {
    let mut cli = Cli::arguments();
    cli.build();
    cli
}

fn global_options() -> String {
    let cli = Cli::arguments();
    let global = cli.get_arguments().filter(|argument| argument.is_global_set());
    let rows = global.map(|argument| vec![code(typed(argument).trim_matches(['[', ']'])), help(argument)]);
    table(&["option", "does"], rows.collect::<Vec<_>>())
}

fn modes() -> String {
    let cli = Cli::arguments();
    let rows = own_arguments(&cli).map(|argument| {
        vec![
            code(&format!("redrive {}", typed(argument).trim_matches(['[', ']']))),
            help(argument),
        ]
    });
    table(&["started as", "is"], rows.collect::<Vec<_>>())
}

/// From the sentence behind the help of the program.
fn exit_codes() -> String {
    let cli = Cli::arguments();
    let help = cli.get_after_help().unwrap().to_string();
    let codes = help.split("Exit codes:").nth(1).unwrap().trim().trim_end_matches('.');
    let mut rows: Vec<Vec<String>> = Vec::new();
    for part in codes.split(',') {
        let (number, meaning) = part.trim().split_once(char::is_whitespace).unwrap();
        assert!(number.parse::<u8>().is_ok(), "{part}");
        rows.push(vec![number.to_owned(), meaning.replace('\n', " ")]);
    }
    table(&["code", "means"], rows)
}

fn commands() -> String {
    let cli = cli();
    let rows = COMMANDS.iter().map(|(name, does, _)| {
        let command = name.split(' ').fold(&cli, |command, step| {
            command
                .find_subcommand(step)
                .unwrap_or_else(|| panic!("{name} is no command"))
        });
        let arguments = own_arguments(command).map(typed);
        let whole: Vec<String> = std::iter::once((*name).to_owned()).chain(arguments).collect();
        let kind = match does {
            Does::Reads(_) => "looks",
            Does::Changes(_) => "acts",
            Does::Nothing { .. } => "offline",
        };
        vec![code(&whole.join(" ")), about(command), kind.to_owned()]
    });
    table(&["command", "does", "kind"], rows)
}

fn fields() -> String {
    let lists: [(&str, &[Field]); 7] = [
        ("queues", snapshot::QUEUE_FIELDS),
        ("endpoints", snapshot::ENDPOINT_FIELDS),
        ("retries", snapshot::RETRY_FIELDS),
        ("dead letters", snapshot::DEAD_FIELDS),
        ("queues of dead letters", snapshot::DEAD_QUEUE_FIELDS),
        ("events", events::EVENT_FIELDS),
        ("attempts", attempts::ATTEMPT_FIELDS),
    ];
    let shown = |field: &Field| {
        let kind = match field.kind {
            FieldKind::Text => String::new(),
            FieldKind::Word(words) => format!(" ({})", words.join(", ")),
            FieldKind::Number => " (number)".to_owned(),
            FieldKind::Duration => " (duration)".to_owned(),
            FieldKind::Bool => " (true, false)".to_owned(),
            FieldKind::Time => " (time)".to_owned(),
        };
        format!("`{}`{kind}", field.name)
    };
    let rows =
        lists.map(|(name, fields)| vec![name.to_owned(), fields.iter().map(shown).collect::<Vec<_>>().join(", ")]);
    table(&["list", "fields; text where nothing is said"], rows)
}

fn routes() -> String {
    let document = redrive::internals::api::openapi_document();
    let mut rows = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            // Said once, above the table.
            let anywhere = ["400", "401", "403", "421", "429", "503"];
            let statuses = responses.keys().map(String::as_str);
            let statuses: Vec<&str> = statuses.filter(|status| !anywhere.contains(status)).collect();
            let query = operation["parameters"].as_array().unwrap().iter();
            let query: Vec<String> = query
                .filter(|parameter| parameter["in"] == "query")
                .map(|parameter| code(parameter["name"].as_str().unwrap()))
                .collect();
            rows.push(vec![
                code(&format!("{} {path}", method.to_uppercase())),
                operation["summary"].as_str().unwrap().to_owned(),
                operation["x-scope"].as_str().unwrap().to_owned(),
                query.join(" "),
                statuses.join(" "),
            ]);
        }
    }
    table(&["route", "does", "scope", "query", "statuses"], rows)
}

fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        return name.rsplit('/').next().unwrap().to_owned();
    }
    if let Some(all) = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
        return all.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    let one = |name: &str| match name {
        "array" => format!("[{}]", kind(&schema["items"])),
        "string" if schema["format"] == "date-time" => "time".to_owned(),
        name => name.to_owned(),
    };
    match &schema["type"] {
        Value::String(name) => one(name),
        Value::Array(names) => {
            let names = names.iter().filter_map(Value::as_str).map(one);
            names.collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

/// The schemas of the description: those that list words, or the others.
fn schemas(of_words: bool) -> Vec<(String, Value)> {
    let document = redrive::internals::api::openapi_document();
    let schemas = document["components"]["schemas"].as_object().unwrap().clone();
    let schemas = schemas.into_iter();
    schemas
        .filter(|(_, schema)| schema["enum"].is_array() == of_words)
        .collect()
}

fn shapes() -> String {
    let rows = schemas(false).into_iter().map(|(name, schema)| {
        let empty = serde_json::Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&empty);
        let keys = properties.iter().map(|(key, schema)| match kind(schema).as_str() {
            "string" => code(key),
            kind => format!("{} ({kind})", code(key)),
        });
        let keys = keys.collect::<Vec<_>>().join(", ");
        vec![name, if keys.is_empty() { kind(&schema) } else { keys }]
    });
    table(
        &["document", "keys; a string where nothing is said"],
        rows.collect::<Vec<_>>(),
    )
}

fn words() -> String {
    let rows = schemas(true).into_iter().map(|(name, schema)| {
        let words = schema["enum"].as_array().unwrap().iter();
        let words = words.map(|word| match word.as_str().unwrap() {
            "" => "empty".to_owned(),
            word => code(word),
        });
        let about = schema["description"].as_str().unwrap().trim_end_matches('.');
        vec![name, about.to_owned(), words.collect::<Vec<_>>().join(", ")]
    });
    table(&["name", "says", "words"], rows.collect::<Vec<_>>())
}

fn keys() -> String {
    let schema: Value = serde_json::from_str(&redrive::internals::config::schema()).unwrap();
    let mut rows = Vec::new();
    for (section, property) in schema["properties"].as_object().unwrap() {
        let (name, property) = match property["type"].as_str() {
            Some("array") => (format!("{section}[]"), &property["items"]),
            Some("object") => (format!("{section}.NAME"), &property["additionalProperties"]),
            _ => (section.clone(), property),
        };
        walk(&schema, &name, property, &mut rows);
    }
    table(&["key", "is", "value", "default"], rows)
}

/// The keys below a table of the schema. What a profile lays over the sections is said once, in words.
fn walk(schema: &Value, name: &str, property: &Value, rows: &mut Vec<Vec<String>>) {
    let sections = schema["properties"].as_object().unwrap();
    let table = followed(schema, property);
    let Some(keys) = table["properties"].as_object() else {
        return;
    };
    for (key, value) in keys {
        if name.starts_with("profile") && sections.contains_key(key) {
            continue;
        }
        let whole = format!("{name}.{key}");
        rows.push(vec![
            code(&whole),
            value["description"].as_str().unwrap_or_default().to_owned(),
            allowed(schema, value),
            default_of(value),
        ]);
        if is_secret(value) {
            continue;
        }
        walk(schema, &whole, value, rows);
        let item = format!("{whole}[]");
        for inner in value["items"]["anyOf"].as_array().into_iter().flatten() {
            if !is_secret(inner) {
                walk(schema, &item, inner, rows);
            }
        }
        walk(schema, &item, &value["items"], rows);
    }
}

fn is_secret(value: &Value) -> bool {
    value["$ref"].as_str().is_some_and(|name| name.ends_with("/secret"))
}

fn followed<'a>(schema: &'a Value, property: &'a Value) -> &'a Value {
    match property["$ref"].as_str() {
        Some(name) => &schema["definitions"][name.rsplit('/').next().unwrap()],
        None => property,
    }
}

fn default_of(value: &Value) -> String {
    match &value["default"] {
        Value::Null => String::new(),
        default => code(&default.to_string()),
    }
}

fn allowed(schema: &Value, value: &Value) -> String {
    if is_secret(value) {
        return "secret".to_owned();
    }
    if let Some(words) = value["enum"].as_array() {
        let words = words.iter().map(|word| code(word.as_str().unwrap_or_default()));
        return words.collect::<Vec<_>>().join(", ");
    }
    if let Some(all) = value["anyOf"].as_array() {
        let mut kinds: Vec<String> = all.iter().map(|one| allowed(schema, one)).collect();
        kinds.dedup();
        return kinds.join(" or ");
    }
    let value = followed(schema, value);
    let bound = |name: &str| value[name].as_f64().map(|bound| bound.to_string());
    let bounds = match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) => format!(", {least} to {most}"),
        (Some(least), None) => format!(", {least} or more"),
        (None, Some(most)) => format!(", {most} at most"),
        (None, None) => String::new(),
    };
    let kind = match value["type"].as_str() {
        Some("array") => format!("list of {}", allowed(schema, &value["items"])),
        Some("object") => "table".to_owned(),
        Some(name) => name.to_owned(),
        None => "any".to_owned(),
    };
    kind + &bounds
}

fn metrics() -> String {
    let rows = redrive::internals::telemetry::METRICS.iter().map(|metric| {
        let kind = format!("{:?}", metric.kind).to_lowercase();
        vec![code(metric.name), kind, metric.help.to_owned()]
    });
    table(&["metric", "kind", "counts"], rows)
}
