//! The description of all routes (`OpenAPI` 3.1), written by hand as two tables; a test compares the
//! first with the routes that are served.

mod operations;
mod schemas;

use serde_json::{Map, Value, json};

use operations::{OPERATIONS, Operation};
use schemas::SCHEMAS;

use crate::domain::scope::Scope;

/// The whole document.
#[must_use]
pub fn document() -> Value {
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let methods = paths.entry(operation.path).or_insert_with(|| json!({}));
        if let Some(methods) = methods.as_object_mut() {
            methods.insert(operation.method.to_owned(), describe(operation));
        }
    }
    for (method, path, needs) in super::routes::scopes() {
        if let Some(operation) = paths.get_mut(path).and_then(|methods| methods.get_mut(method)) {
            operation["x-scope"] = json!(needs.map_or("none", Scope::as_str));
        }
    }
    let schemas: Map<String, Value> = SCHEMAS
        .iter()
        .map(|(name, keys)| ((*name).to_owned(), object(keys)))
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "redrive",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE")},
        },
        // The daemon that answers it.
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn describe(operation: &Operation) -> Value {
    let mut parameters: Vec<Value> = operation
        .path
        .split(['{', '}'])
        .skip(1)
        .step_by(2)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    for (name, kind) in operation.query {
        parameters.push(json!({"name": name, "in": "query", "schema": {"type": kind}}));
    }
    if super::reveal::bears(operation.method, operation.path) {
        parameters.push(json!({
            "name": "reveal",
            "in": "query",
            "description": "Says that somebody means to look at what the masks name: needs the scope operate, and is audited.",
            "schema": {"type": "boolean"},
        }));
    }
    let mut described = json!({
        "operationId": name_of(operation),
        "summary": operation.summary,
        "parameters": parameters,
        "responses": responses(operation),
    });
    if let (Some(sources), Some(described)) = (operations::reads(operation), described.as_object_mut()) {
        described.insert("x-reads".to_owned(), json!(sources));
    }
    if let (Some(name), Some(described)) = (operation.body, described.as_object_mut()) {
        let content = json!({"application/json": {"schema": kind(name)}});
        described.insert("requestBody".to_owned(), json!({"content": content}));
    }
    described
}

/// `getQueueByNameWhy` for `GET /v1/queue/{name}/why`: what generated clients call it.
fn name_of(operation: &Operation) -> String {
    let words = operation
        .path
        .split(['/', '-', '_', '.'])
        .filter(|word| !word.is_empty() && *word != "v1");
    words.fold(operation.method.to_owned(), |name, word| {
        let (by, word) = match word.strip_prefix('{') {
            Some(parameter) => ("By", parameter.trim_end_matches('}')),
            None => ("", word),
        };
        let (first, rest) = word.split_at(word.len().min(1));
        name + by + &first.to_uppercase() + rest.trim_end_matches('}')
    })
}

fn responses(operation: &Operation) -> Value {
    let (status, name) = operation.answer;
    let media = match name {
        "Text" => "text/plain",
        "DeadLetterLine" => "application/x-ndjson",
        "EventStream" => "text/event-stream",
        _ => "application/json",
    };
    // With `dry_run` a mutation answers its plan.
    let schema = if operation.query.iter().any(|(name, _)| *name == "dry_run") && name != "Plan" {
        one_of(&format!("{name}|Plan"))
    } else {
        one_of(name)
    };
    let mut responses = Map::new();
    responses.insert(
        status.to_string(),
        json!({"description": "done", "content": {media: {"schema": schema}}}),
    );
    for failure in [400, 401, 403, 503].iter().chain(operation.failures) {
        let content = json!({"application/problem+json": {"schema": kind("Problem")}});
        responses.insert(
            failure.to_string(),
            json!({"description": "problem", "content": content}),
        );
    }
    Value::Object(responses)
}

fn object(keys: &str) -> Value {
    let pairs = || keys.split_whitespace().filter_map(|key| key.split_once(':'));
    let properties: Map<String, Value> = pairs().map(|(key, name)| (key.to_owned(), kind(name))).collect();
    let required: Vec<&str> = pairs()
        .filter(|(_, name)| name.ends_with('*'))
        .map(|(key, _)| key)
        .collect();
    json!({"type": "object", "properties": properties, "required": required})
}

/// One kind, or one of several with bars between them.
fn one_of(names: &str) -> Value {
    if names.contains('|') {
        let kinds: Vec<Value> = names.split('|').map(kind).collect();
        return json!({ "anyOf": kinds });
    }
    kind(names)
}

fn kind(name: &str) -> Value {
    let name = name.trim_end_matches('*');
    if let Some(inner) = name.strip_suffix('?') {
        if inner == "any" {
            return json!({});
        }
        return json!({"anyOf": [kind(inner), {"type": "null"}]});
    }
    if let Some(inner) = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return json!({"type": "array", "items": kind(inner)});
    }
    match name {
        "time" => json!({"type": "string", "format": "date-time"}),
        "any" | "Any" => json!({}),
        "DeadLetterLine" => kind("DeadLetterDetail"),
        "Text" | "EventStream" => json!({"type": "string"}),
        name if name.starts_with(char::is_uppercase) => json!({"$ref": format!("#/components/schemas/{name}")}),
        name => json!({"type": name}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<String> = OPERATIONS.iter().map(name_of).collect();
        assert_eq!(names.len(), OPERATIONS.len());
        assert!(names.contains("getQueues"), "{names:?}");
        let fits = |name: &String| name.chars().all(|c| c.is_ascii_alphanumeric());
        assert!(names.iter().all(fits), "{names:?}");
    }

    #[test]
    fn every_schema_that_is_named_exists() {
        let text = document().to_string();
        let mut named = text.split("#/components/schemas/").skip(1).peekable();
        assert!(named.peek().is_some());
        for rest in named {
            let name = rest.split('"').next().unwrap();
            assert!(SCHEMAS.iter().any(|(known, _)| *known == name), "{name}");
        }
    }

    #[test]
    fn every_list_says_as_of_when_it_is() {
        let lists = SCHEMAS.iter().filter(|(_, keys)| keys.starts_with("items:["));
        let silent: Vec<&str> = lists
            .filter(|(_, keys)| !keys.contains(" taken_at:time?"))
            .map(|(name, _)| *name)
            .collect();
        assert!(silent.is_empty(), "{silent:?}");
    }
}
