//! The description of all routes (`OpenAPI` 3.1): made from the routes and from the types of their handlers.

mod described;

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::domain::scope::Scope;
use crate::wire::problem::Problem;

use super::reveal;
use super::routes::{self, Route};

use described::Schemas;
pub(super) use described::{Described, Describes};

/// The whole document.
#[must_use]
pub fn document() -> Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(made);
    DOCUMENT.clone()
}

fn made() -> Value {
    let mut document = described();
    without_marks_of_rust(&mut document);
    document
}

/// Takes out what says more of this program than of JSON: the width of a number without a sign, and that what may be
/// left out is null then.
fn without_marks_of_rust(value: &mut Value) {
    match value {
        Value::Object(keys) => {
            let is_unsigned = |format: &Value| format.as_str().is_some_and(|format| format.starts_with("uint"));
            if keys.get("format").is_some_and(is_unsigned) {
                let _ = keys.remove("format");
            }
            if keys.get("default").is_some_and(Value::is_null) {
                let _ = keys.remove("default");
            }
            // Generators of clients know objects alone.
            let anything = |schema: &mut Value| {
                if *schema == Value::Bool(true) {
                    *schema = json!({});
                }
            };
            for name in ["schema", "items"] {
                keys.get_mut(name).into_iter().for_each(anything);
            }
            let properties = keys.get_mut("properties").and_then(Value::as_object_mut);
            properties.into_iter().flat_map(Map::values_mut).for_each(anything);
            keys.values_mut().for_each(without_marks_of_rust);
        }
        Value::Array(values) => values.iter_mut().for_each(without_marks_of_rust),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn described() -> Value {
    let served = routes::served();
    let mut schemas = Schemas::new();
    schemas.name::<Problem>();
    let mut paths = Map::new();
    for route in &served.routes {
        let Some(described) = operation(route, &mut schemas) else {
            continue;
        };
        let methods = paths.entry(route.path).or_insert_with(|| json!({}));
        methods[route.method] = described;
    }
    let tags = served.tags.iter();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "redrive",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Guaranteed, in-order delivery of notifications over RabbitMQ.",
            "license": {"name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE")},
        },
        // The daemon that answers it.
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "tags": tags.map(|(name, about)| json!({"name": name, "description": about})).collect::<Vec<_>>(),
        "paths": paths,
        "components": {
            "schemas": schemas.into_definitions(),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    })
}

/// `None`: it is no contract.
fn operation(route: &Route, schemas: &mut Schemas) -> Option<Value> {
    let mut described = Described::new(schemas);
    route.describe?(&mut described);
    if reveal::bears(route.method, route.path) {
        described.query(json!({
            "name": "reveal",
            "in": "query",
            "description": "Says that somebody means to look at what the masks name: needs the scope operate, and is audited.",
            "schema": {"type": "boolean"},
        }));
    }
    let mut operation = described.into_operation(route.path, route.fails);
    let mut say = |key: &str, value: Value| drop(operation.insert(key.to_owned(), value));
    say("operationId", name_of(route.method, route.path).into());
    say("summary", route.summary.into());
    say("tags", json!([route.tag]));
    say("x-scope", route.needs.scope().map_or("none", Scope::as_str).into());
    if route.method == "get" {
        say("x-reads", json!(route.reads));
    }
    Some(operation.into())
}

/// `getQueueByNameWhy` for `GET /v1/queue/{name}/why`: what generated clients call it.
fn name_of(method: &str, path: &str) -> String {
    let words = path
        .split(['/', '-', '_', '.'])
        .filter(|word| !word.is_empty() && *word != "v1");
    words.fold(method.to_owned(), |name, word| {
        let (by, word) = match word.strip_prefix('{') {
            Some(parameter) => ("By", parameter.trim_end_matches('}')),
            None => ("", word),
        };
        let (first, rest) = word.split_at(word.len().min(1));
        name + by + &first.to_uppercase() + rest.trim_end_matches('}')
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn operations() -> Vec<(String, Value)> {
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        let operations = paths.iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().iter();
            methods.map(move |(method, operation)| (format!("{method} {path}"), operation.clone()))
        });
        operations.collect()
    }

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let operations = operations();
        let names: BTreeSet<&str> = operations
            .iter()
            .map(|(_, one)| one["operationId"].as_str().unwrap())
            .collect();
        assert_eq!(names.len(), operations.len());
        assert!(names.contains("getQueues"), "{names:?}");
        let fits = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric());
        assert!(names.iter().all(fits), "{names:?}");
    }

    #[test]
    fn every_schema_that_is_named_exists() {
        let document = document();
        let text = document.to_string();
        let mut named = text.split("#/components/schemas/").skip(1).peekable();
        assert!(named.peek().is_some());
        for rest in named {
            let name = rest.split('"').next().unwrap();
            assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
        }
    }

    #[test]
    fn every_list_says_as_of_when_it_is() {
        let document = document();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let lists = schemas.iter().filter(|(name, schema)| {
            schema["properties"].get("items").is_some()
                && !matches!(&***name, "RunWithItems" | "PushedList" | "PolicyBacklog")
        });
        let silent: Vec<&String> = lists
            .filter(|(_, schema)| schema["properties"].get("taken_at").is_none())
            .map(|(name, _)| name)
            .collect();
        assert!(silent.is_empty(), "{silent:?}");
    }

    #[test]
    fn everything_that_is_described_says_what_it_is() {
        let mut silent = Vec::new();
        for (name, operation) in operations() {
            let parameters = operation["parameters"].as_array().unwrap();
            let without = parameters
                .iter()
                .filter(|one| one["description"].as_str().is_none_or(str::is_empty));
            silent.extend(without.map(|one| format!("{name}: {}", one["name"])));
            let answers = operation["responses"].as_object().unwrap().iter();
            let without = answers.filter(|(_, one)| one["description"].as_str().is_none_or(str::is_empty));
            silent.extend(without.map(|(status, _)| format!("{name}: {status}")));
        }
        let document = document();
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            for (key, property) in schema["properties"].as_object().into_iter().flatten() {
                if property["description"].as_str().is_none_or(str::is_empty) && property.get("$ref").is_none() {
                    silent.push(format!("{name}.{key}"));
                }
            }
        }
        assert!(silent.is_empty(), "{silent:#?}");
    }
}
