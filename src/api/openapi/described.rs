//! What a handler takes and answers, from its types: parameters of path and query, the body, and every status.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::wire::dead::{Detail, ExportEnd};
use crate::wire::plan::{OneOf, Waiting};
use crate::wire::problem::{self, Problem};

use super::super::act::Acted;
use super::super::events::{InType, OfType};
use super::super::extract::{Execution, Input, Name, NoParams, Params, RawBody, Segment};
use super::super::guard::Caller;
use super::super::masked::MasksItself;
use super::super::problem::{Events, Json, Lines, Nothing, Or, Text, Written};

/// Schemas of what is taken and of what is answered, under their names.
pub(super) struct Schemas {
    taken: SchemaGenerator,
    answered: SchemaGenerator,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        Self {
            taken: settings().for_deserialize().into_generator(),
            answered: settings().for_serialize().into_generator(),
        }
    }

    /// A schema that is always there.
    pub(super) fn name<T: JsonSchema>(&mut self) {
        let _ = self.answered.subschema_for::<T>();
    }

    /// All that were named.
    pub(super) fn into_definitions(mut self) -> Map<String, Value> {
        let mut definitions = self.taken.take_definitions(true);
        definitions.append(&mut self.answered.take_definitions(true));
        definitions
    }
}

/// One operation, as far as its types tell.
pub(in crate::api) struct Described<'a> {
    schemas: &'a mut Schemas,
    /// What the path's parameters are, in their order.
    path: Vec<&'static str>,
    query: Vec<Value>,
    body: Option<Value>,
    /// Content type, description and schemas by status.
    answers: BTreeMap<u16, (&'static str, String, Vec<Value>)>,
    failures: Vec<u16>,
}

impl<'a> Described<'a> {
    pub(super) const fn new(schemas: &'a mut Schemas) -> Self {
        Self {
            schemas,
            path: Vec::new(),
            query: Vec::new(),
            body: None,
            answers: BTreeMap::new(),
            failures: Vec::new(),
        }
    }

    /// One more parameter.
    pub(super) fn query(&mut self, parameter: Value) {
        self.query.push(parameter);
    }

    fn fails(&mut self, statuses: &[u16]) {
        self.failures.extend(statuses);
    }

    /// A document of this type as an answer.
    fn answers<T: JsonSchema>(&mut self, status: u16) {
        let schema = self.schemas.answered.subschema_for::<T>().to_value();
        let description = about(&self.schemas.answered, &schema).unwrap_or_else(|| reason(status).to_owned());
        let (_, _, schemas) = self
            .answers
            .entry(status)
            .or_insert_with(|| ("application/json", description, Vec::new()));
        schemas.push(schema);
    }

    /// Something else than a document.
    fn streams(&mut self, content_type: &'static str, description: &str, schema: Value) {
        let _ = self
            .answers
            .insert(200, (content_type, description.to_owned(), vec![schema]));
    }

    fn body<T: JsonSchema>(&mut self, is_required: bool) {
        let schema = self.schemas.taken.subschema_for::<T>().to_value();
        let has_required =
            resolved(&self.schemas.taken, &schema).is_some_and(|schema| schema.get("required").is_some());
        self.body = Some(json!({
            "required": is_required || has_required,
            "content": {"application/json": {"schema": schema}},
        }));
        self.fails(&[408, 413, 415]);
    }

    /// What is beside summary, name and tags; `path` has the names of the parameters, and `failures` what only the route
    /// knows.
    pub(super) fn into_operation(self, path: &str, failures: &[u16]) -> Map<String, Value> {
        let names = path.split(['{', '}']).skip(1).step_by(2);
        let mut parameters: Vec<Value> = names
            .zip(self.path)
            .map(|(name, about)| {
                json!({"name": name, "in": "path", "required": true, "description": about, "schema": {"type": "string"}})
            })
            .collect();
        parameters.extend(self.query);
        let mut responses = Map::new();
        for failure in [400, 401, 403, 421, 429, 503]
            .iter()
            .chain(&self.failures)
            .chain(failures)
        {
            let content = json!({"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}});
            let failed = json!({"description": problem::title(*failure), "content": content});
            let _ = responses.insert(failure.to_string(), failed);
        }
        for (status, (content_type, description, schemas)) in self.answers {
            let mut answered = json!({"description": description});
            match schemas.as_slice() {
                [] => {}
                [schema] => answered["content"] = json!({content_type: {"schema": schema}}),
                several => answered["content"] = json!({content_type: {"schema": {"anyOf": several}}}),
            }
            let _ = responses.insert(status.to_string(), answered);
        }
        let mut operation = Map::new();
        let _ = operation.insert("parameters".to_owned(), parameters.into());
        if let Some(body) = self.body {
            let _ = operation.insert("requestBody".to_owned(), body);
        }
        let _ = operation.insert("responses".to_owned(), responses.into());
        operation
    }
}

/// The schema itself, where another one names it.
fn resolved<'s>(schemas: &'s SchemaGenerator, schema: &'s Value) -> Option<&'s Value> {
    match schema["$ref"].as_str() {
        Some(reference) => schemas.definitions().get(reference.rsplit('/').next()?),
        None => Some(schema),
    }
}

fn about(schemas: &SchemaGenerator, schema: &Value) -> Option<String> {
    resolved(schemas, schema)?["description"].as_str().map(str::to_owned)
}

fn reason(status: u16) -> &'static str {
    let status = StatusCode::from_u16(status).ok();
    status.and_then(|status| status.canonical_reason()).unwrap_or_default()
}

/// A part of a request that a handler takes.
pub(in crate::api) trait Takes {
    fn describe(of: &mut Described<'_>);
}

macro_rules! takes_nothing {
    ($($part:ty),*) => {$(
        impl Takes for $part {
            fn describe(_: &mut Described<'_>) {}
        }
    )*};
}

takes_nothing!(Extension<Caller>, HeaderMap);

impl<S> Takes for State<S> {
    fn describe(_: &mut Described<'_>) {}
}

macro_rules! takes_from_the_path {
    ($($part:ty = [$($about:literal),*] fails $failures:expr;)*) => {$(
        impl Takes for $part {
            fn describe(of: &mut Described<'_>) {
                of.path.extend([$($about),*]);
                of.fails(&$failures);
            }
        }
    )*};
}

takes_from_the_path! {
    Name = ["The queue's name, percent-encoded."] fails [404];
    Execution = ["The execution's id, percent-encoded."] fails [];
    Segment = ["Its id or name, percent-encoded."] fails [404];
    OfType = ["The event type, percent-encoded."] fails [404];
    InType = ["The event type, percent-encoded.", "Which one, percent-encoded."] fails [404];
}

impl Takes for NoParams {
    fn describe(of: &mut Described<'_>) {
        of.fails(&[400]);
    }
}

impl<T: JsonSchema> Takes for Params<T> {
    fn describe(of: &mut Described<'_>) {
        let schema = T::json_schema(&mut of.schemas.taken).to_value();
        let required = |name: &str| {
            let names = schema["required"].as_array();
            names.is_some_and(|names| names.iter().any(|one| one == name))
        };
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let mut property = property.clone();
            let about = property.as_object_mut().and_then(|keys| keys.remove("description"));
            let mut parameter = json!({"name": name, "in": "query", "schema": not_null(property)});
            if required(name) {
                parameter["required"] = true.into();
            }
            if let Some(about) = about {
                parameter["description"] = about;
            }
            of.query.push(parameter);
        }
    }
}

/// What is left out of a query is not null.
fn not_null(mut schema: Value) -> Value {
    if let Some(types) = schema["type"].as_array() {
        schema["type"] = types.iter().find(|name| *name != "null").cloned().unwrap_or_default();
    }
    let only = schema["anyOf"]
        .as_array()
        .and_then(|all| all.iter().find(|one| one["type"] != "null").cloned());
    only.unwrap_or(schema)
}

impl<T: JsonSchema, const MOST: usize> Takes for Input<T, MOST> {
    fn describe(of: &mut Described<'_>) {
        of.body::<T>(false);
    }
}

impl<T: JsonSchema, const MOST: usize> Takes for RawBody<T, MOST> {
    fn describe(of: &mut Described<'_>) {
        of.body::<T>(true);
    }
}

/// What a handler answers.
pub(in crate::api) trait Answers {
    fn describe(of: &mut Described<'_>);
}

/// Failures are problem documents, and of which status is told beside.
impl<T: Answers> Answers for Result<T, Problem> {
    fn describe(of: &mut Described<'_>) {
        T::describe(of);
    }
}

impl<T: JsonSchema, const STATUS: u16> Answers for Json<T, STATUS> {
    fn describe(of: &mut Described<'_>) {
        of.answers::<T>(STATUS);
    }
}

impl<T: JsonSchema> Answers for Written<T> {
    fn describe(of: &mut Described<'_>) {
        of.answers::<T>(200);
    }
}

impl<A: Answers> Answers for MasksItself<A> {
    fn describe(of: &mut Described<'_>) {
        A::describe(of);
    }
}

impl<T: JsonSchema> Answers for Acted<T> {
    fn describe(of: &mut Described<'_>) {
        of.answers::<T>(200);
        of.answers::<Waiting>(200);
        if let Some((_, description, _)) = of.answers.get_mut(&200) {
            description.push_str(" With `dry_run` the plan.");
        }
        of.fails(&[404, 409, 422]);
    }
}

impl Answers for Nothing {
    fn describe(of: &mut Described<'_>) {
        let _ = of.answers.insert(204, ("", "There is nothing.".to_owned(), Vec::new()));
    }
}

impl<A: Answers, B: Answers> Answers for Or<A, B> {
    fn describe(of: &mut Described<'_>) {
        A::describe(of);
        B::describe(of);
    }
}

impl Answers for Lines {
    fn describe(of: &mut Described<'_>) {
        let line = of
            .schemas
            .answered
            .subschema_for::<OneOf<Detail, ExportEnd>>()
            .to_value();
        of.streams("application/x-ndjson", "A dead letter a line.", line);
    }
}

impl Answers for Events {
    fn describe(of: &mut Described<'_>) {
        of.streams("text/event-stream", "Events as they happen.", json!({"type": "string"}));
    }
}

impl Answers for Text {
    fn describe(of: &mut Described<'_>) {
        of.streams("text/plain", "Metrics as Prometheus text.", json!({"type": "string"}));
    }
}

/// A handler, told by its types; `T` is the tuple of what it takes.
pub(in crate::api) trait Describes<T> {
    fn describe(of: &mut Described<'_>);
}

macro_rules! describes {
    ($($part:ident)*) => {
        impl<F, W, A, $($part),*> Describes<($($part,)*)> for F
        where
            F: FnOnce($($part),*) -> W,
            W: Future<Output = A>,
            A: Answers,
            $($part: Takes,)*
        {
            fn describe(of: &mut Described<'_>) {
                $($part::describe(of);)*
                A::describe(of);
            }
        }
    };
}

describes!();
describes!(P1);
describes!(P1 P2);
describes!(P1 P2 P3);
describes!(P1 P2 P3 P4);
describes!(P1 P2 P3 P4 P5);
describes!(P1 P2 P3 P4 P5 P6);
