//! Whatever a daemon takes and answers in any test is what its description says.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::http::Answer;

static DOCUMENT: LazyLock<Value> = LazyLock::new(redrive::internals::api::openapi_document);

/// Panics where the exchange is not as described. What is no contract, and what is no route, is not looked at.
pub fn check(method: &str, path: &str, sent: &[u8], answer: &Answer) {
    let Some(operation) = operation(method, path) else {
        return;
    };
    let told = |why: String| {
        let text: String = answer.text().chars().take(2_000).collect();
        format!(
            "{method} {path}: the description is not true: {why}\n{} {text}",
            answer.status
        )
    };
    let described = &operation["responses"][answer.status.to_string()];
    assert!(
        !described.is_null(),
        "{}",
        told(format!("it answers no {}", answer.status))
    );
    let kind = answer.header("content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    let content = described["content"].as_object();
    if let Some(content) = content {
        let Some(media) = content.get(kind) else {
            panic!("{}", told(format!("it does not answer {kind:?}")));
        };
        if kind.ends_with("json") && !answer.body.is_empty() {
            // Several lines are several documents.
            for document in serde_json::Deserializer::from_slice(&answer.body).into_iter::<Value>() {
                let document = document.unwrap_or_else(|error| panic!("{}", told(error.to_string())));
                fits(&media["schema"], &document, Extra::None, "").unwrap_or_else(|why| panic!("{}", told(why)));
            }
        }
    }
    if answer.status < 300
        && let Ok(document) = serde_json::from_slice::<Value>(sent)
    {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        fits(schema, &document, Extra::AsDescribed, "")
            .unwrap_or_else(|why| panic!("{}: sent: {why}", told(String::new())));
    }
}

/// The operation that serves a path; one that names a segment goes before one that takes any.
fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let path = path.split('?').next()?;
    let segments: Vec<&str> = path.split('/').collect();
    let takes = |template: &str| {
        let parts: Vec<&str> = template.split('/').collect();
        let fits = |(part, segment): (&&str, &&str)| part.starts_with('{') || part == segment;
        parts.len() == segments.len() && parts.iter().zip(&segments).all(fits)
    };
    let paths = DOCUMENT["paths"].as_object()?;
    let fitting = paths.iter().filter(|(template, _)| takes(template));
    let (_, methods) = fitting.min_by_key(|(template, _)| template.matches('{').count())?;
    methods.get(method.to_ascii_lowercase())
}

/// What an object may have beside its properties.
#[derive(Clone, Copy, PartialEq)]
enum Extra {
    /// What is answered is described, every key of it.
    None,
    /// What the schema says.
    AsDescribed,
}

fn fits(schema: &Value, value: &Value, extra: Extra, at: &str) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return fits(&DOCUMENT["components"]["schemas"][name], value, extra, at);
    }
    if let Some(all) = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
        let tried: Vec<String> = all.iter().map_while(|one| fits(one, value, extra, at).err()).collect();
        return if tried.len() < all.len() {
            Ok(())
        } else {
            Err(tried.join("; or "))
        };
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return Err(format!("{at}: {value} is none of {words:?}"));
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => return Ok(()),
    };
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
    };
    let is_number_too = is == "integer" && types.contains(&"number");
    if !types.contains(&is) && !is_number_too {
        return Err(format!("{at}: {value} is no {types:?}"));
    }
    match value {
        Value::String(text) if schema["format"] == "date-time" && !(text.contains('T') && text.ends_with('Z')) => {
            Err(format!("{at}: {text} is no time"))
        }
        Value::Array(values) => {
            let mut values = values.iter().enumerate();
            values.try_for_each(|(index, one)| fits(&schema["items"], one, extra, &format!("{at}/{index}")))
        }
        Value::Object(keys) => object_fits(schema, keys, extra, at),
        _ => Ok(()),
    }
}

fn object_fits(schema: &Value, keys: &Map<String, Value>, extra: Extra, at: &str) -> Result<(), String> {
    let required = schema["required"].as_array().into_iter().flatten();
    if let Some(missing) = required
        .filter_map(Value::as_str)
        .find(|name| !keys.contains_key(*name))
    {
        return Err(format!("{at}: {missing} is missing"));
    }
    let others = &schema["additionalProperties"];
    for (name, value) in keys {
        let at = format!("{at}/{name}");
        match schema["properties"].get(name) {
            Some(property) => fits(property, value, extra, &at)?,
            None if others.is_object() => fits(others, value, extra, &at)?,
            None if *others == Value::Bool(false) => return Err(format!("{at} is not described")),
            None if extra == Extra::None && schema["properties"].is_object() => {
                return Err(format!("{at} is not described"));
            }
            None => {}
        }
    }
    Ok(())
}
