//! The OpenAPI document of the tables, for generators of clients and manuals (decision H22).
//!
//! OpenAPI 3.0 has no LIST: a LIST row becomes a GET of its path with a slash at the end and
//! `list=true`.

use super::responses;
use bulkhead_wire::description::{Field, FieldKind, Route, Verb};
use bulkhead_wire::{duration, fields};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Rows that are served below a path.
pub(crate) struct ServedRoutes<'a> {
    /// Path above the rows: empty for the host, `database/` for a mount, `{database_mount_path}/`
    /// for any mount of an engine.
    pub(crate) below: &'a str,
    /// The rows, with paths relative to `below`.
    pub(crate) routes: &'a [Route],
    /// The parameter of `below` that stands for the `names`; empty if there is none.
    pub(super) placeholder: &'a str,
    /// The possible values of the placeholder.
    pub(super) names: &'a [&'a str],
}

impl<'a> ServedRoutes<'a> {
    /// Returns the rows at one path.
    pub(crate) fn at(below: &'a str, routes: &'a [Route]) -> Self {
        Self { below, routes, placeholder: "", names: &[] }
    }

    /// Returns the shared description of the placeholder, which all paths refer to.
    fn parameter(&self) -> Option<(String, Value)> {
        let schema = json!({ "type": "string", "enum": self.names });
        let parameter = json!({
            "name": self.placeholder, "in": "path", "required": true,
            "description": ENGINE_PLACE, "schema": schema,
        });
        (!self.placeholder.is_empty()).then(|| (self.placeholder.to_owned(), parameter))
    }
}

/// Description of the placeholder for a mount.
const ENGINE_PLACE: &str = "where the engine is mounted";

/// Builds the document of everything in `served`.
pub(crate) fn document(served: &[ServedRoutes<'_>]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    let mut schemas = shared_schemas();
    let mut ids = BTreeSet::new();
    let parameters: Map<String, Value> =
        served.iter().filter_map(ServedRoutes::parameter).collect();
    for (place, route) in
        served.iter().flat_map(|place| place.routes.iter().map(move |route| (place, route)))
    {
        let operation = OpenApiOperation::new(place, route, &mut ids);
        let item = paths
            .entry(operation.path())
            .or_insert_with(|| json!({ "parameters": operation.captures() }));
        if let Some(item) = item.as_object_mut() {
            item.insert(operation.method().to_owned(), operation.shown());
        }
        schemas.extend(operation.body_schema());
    }
    json!({
        "openapi": "3.0.3",
        "info": {
            "title": "Bulkhead",
            "description":
                "Secrets with an end, handed out by engines in compartments of their own.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {
                "name": "Apache-2.0",
                "url": "https://www.apache.org/licenses/LICENSE-2.0",
            },
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "parameters": parameters,
            "responses": responses::shared(),
            "securitySchemes": {
                "token": { "type": "apiKey", "in": "header", "name": "X-Vault-Token" },
            },
        },
    })
}

/// A row as an OpenAPI operation.
struct OpenApiOperation<'a> {
    below: &'a str,
    /// As [`ServedRoutes::placeholder`].
    placeholder: &'a str,
    route: &'a Route,
    /// Name of the operation, unique in the document.
    id: String,
}

impl<'a> OpenApiOperation<'a> {
    /// Returns the operation of a row. `ids` are the names of all earlier operations.
    fn new(place: &ServedRoutes<'a>, route: &'a Route, ids: &mut BTreeSet<String>) -> Self {
        let ServedRoutes { below, placeholder, .. } = *place;
        let mut operation = Self { below, placeholder, route, id: String::new() };
        let words = operation.words();
        let further = (2..).map(|number| format!("{words}-{number}"));
        let unused = std::iter::once(words.clone()).chain(further).find(|id| !ids.contains(id));
        operation.id = unused.unwrap_or(words);
        ids.insert(operation.id.clone());
        operation
    }

    fn method(&self) -> &'static str {
        match self.route.verb {
            Verb::Read | Verb::List => "get",
            Verb::Write => "post",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
        }
    }

    fn path(&self) -> String {
        let slash = if self.route.verb == Verb::List { "/" } else { "" };
        format!("/{}{}{slash}", self.below, self.route.path).replace("+}", "}")
    }

    /// Returns the verb and the words of the path: `read-database-creds-name`.
    fn words(&self) -> String {
        let verb = format!("{:?}", self.route.verb).to_lowercase();
        let words = self.path().replace(['{', '}', '+'], "");
        let words = words.split('/').filter(|word| !word.is_empty());
        std::iter::once(verb.as_str()).chain(words).collect::<Vec<_>>().join("-")
    }

    /// Returns the parameters in the path: a placeholder for the mount, and the row's captures.
    fn captures(&self) -> Vec<Value> {
        let path = self.path();
        let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let parameter = |name: &str| {
            if name == self.placeholder {
                return json!({ "$ref": format!("#/components/parameters/{name}") });
            }
            let field = self.route.fields.iter().find(|field| field.name == name);
            let about = field.map_or(ENGINE_PLACE, |field| field.about.as_str());
            json!({
                "name": name, "in": "path", "required": true,
                "description": about, "schema": { "type": "string" },
            })
        };
        names.map(parameter).collect()
    }

    /// Returns the fields that are not in the path.
    fn fields(&self) -> impl Iterator<Item = &Field> {
        let captured = |field: &&Field| {
            let (one, all) = (format!("{{{}}}", field.name), format!("{{{}+}}", field.name));
            self.route.path.split('/').any(|part| part == one || part == all)
        };
        self.route.fields.iter().filter(move |field| !captured(field))
    }

    /// Returns whether the body may hold the fields.
    fn takes_body(&self) -> bool {
        matches!(self.route.verb, Verb::Write | Verb::Patch)
    }

    fn schema_name(&self) -> String {
        format!("{}-request", self.id)
    }

    /// Returns the schema of the body, under the name that the operation refers to.
    fn body_schema(&self) -> Option<(String, Value)> {
        let mut fields = self.fields().peekable();
        if !self.takes_body() || fields.peek().is_none() {
            return None;
        }
        let properties: Map<String, Value> =
            fields.map(|field| (field.name.clone(), property(field))).collect();
        let mut schema = json!({ "type": "object", "properties": properties });
        // If the row has `existence`, an update may leave required fields out.
        let required: Vec<&str> =
            self.fields().filter(|field| field.required).map(|field| field.name.as_str()).collect();
        if let (true, Some(schema)) =
            (self.route.existence.is_none() && !required.is_empty(), schema.as_object_mut())
        {
            schema.insert("required".to_owned(), json!(required));
        }
        Some((self.schema_name(), schema))
    }

    fn shown(&self) -> Value {
        let mut shown = json!({
            "summary": self.route.about,
            "operationId": self.id,
            "tags": [self.tag()],
            "responses": responses::responses(self.below, self.route),
        });
        let Some(members) = shown.as_object_mut() else { return shown };
        let parameters = self.query();
        if !parameters.is_empty() {
            members.insert("parameters".to_owned(), Value::Array(parameters));
        }
        if self.body_schema().is_some() {
            let schema = json!({ "$ref": format!("#/components/schemas/{}", self.schema_name()) });
            let fields = json!({ "schema": schema });
            let bytes = json!({ "schema": { "type": "string", "format": "binary" } });
            let body = match self.route.raw {
                true => json!({
                    "required": true,
                    "content": { "application/json": fields, "application/wasm": bytes },
                }),
                false => json!({ "content": { "application/json": fields } }),
            };
            members.insert("requestBody".to_owned(), body);
        }
        if !self.route.needs_no_token() {
            members.insert("security".to_owned(), json!([{ "token": [] }]));
        }
        let marks = [
            ("x-vault-unauthenticated", self.route.needs_no_token()),
            ("x-vault-sudo", self.route.sudo),
            ("x-vault-createSupported", self.route.existence.is_some()),
            ("x-bulkhead-leases", self.route.leases),
        ];
        members.extend(
            marks
                .into_iter()
                .filter(|(_, set)| *set)
                .map(|(name, _)| (name.to_owned(), json!(true))),
        );
        shown
    }

    /// Returns the query parameters of a row without fields in the body, or with a body of bytes.
    fn query(&self) -> Vec<Value> {
        if self.takes_body() && !self.route.raw {
            return Vec::new();
        }
        let parameter = |field: &Field| {
            json!({
                "name": field.name, "in": "query", "required": field.required,
                "description": field.about, "schema": schema(field.kind),
            })
        };
        let list = json!({
            "name": "list", "in": "query", "required": true,
            "description": "asks for the names below the path",
            "schema": { "type": "string", "enum": ["true"] },
        });
        let list = (self.route.verb == Verb::List).then_some(list);
        list.into_iter().chain(self.fields().map(parameter)).collect()
    }

    fn tag(&self) -> &'static str {
        match (self.below.is_empty(), self.route.path.split('/').next()) {
            (true, Some("auth")) => "auth",
            (true, Some("identity")) => "identity",
            (true, _) => "system",
            (false, _) => "secrets",
        }
    }
}

fn property(field: &Field) -> Value {
    let mut property = schema(field.kind);
    if let Some(members) = property.as_object_mut() {
        members.insert("description".to_owned(), json!(field.about));
        members.extend(default_of(field).map(|default| ("default".to_owned(), default)));
        if field.sudo {
            members.insert("x-bulkhead-sudo".to_owned(), json!(true));
        }
        if field.secret {
            members.insert("x-vault-displayAttrs".to_owned(), json!({ "sensitive": true }));
        }
    }
    property
}

/// Returns the default of a field in the type that [`schema`] declares.
fn default_of(field: &Field) -> Option<Value> {
    let value = fields::value_of(field, field.default.as_ref()?)?;
    match (field.kind, value.as_u64()) {
        (FieldKind::Duration, Some(seconds)) => Some(duration::show(seconds).into()),
        _ => Some(value),
    }
}

fn schema(kind: FieldKind) -> Value {
    match kind {
        FieldKind::Name | FieldKind::String => json!({ "type": "string" }),
        FieldKind::Bool => json!({ "type": "boolean" }),
        FieldKind::Int => json!({ "type": "integer" }),
        FieldKind::Duration => {
            json!({ "type": "string", "format": "duration", "example": "1h30m" })
        }
        FieldKind::CommaList | FieldKind::TextList => {
            json!({ "type": "array", "items": { "type": "string" } })
        }
        FieldKind::Map => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        FieldKind::Any => json!({}),
    }
}

/// Returns the schemas that all answers share (decisions H3 and H4).
fn shared_schemas() -> Map<String, Value> {
    let text = || json!({ "type": "string" });
    let texts = || json!({ "type": "array", "items": { "type": "string" } });
    let envelope = json!({ "type": "object", "properties": {
        "request_id": text(),
        "lease_id": text(),
        "renewable": { "type": "boolean" },
        "lease_duration": { "type": "integer", "description": "seconds" },
        "data": { "type": "object", "nullable": true },
        "wrap_info": { "type": "object", "nullable": true },
        "warnings": { "type": "array", "items": { "type": "string" }, "nullable": true },
        "auth": { "type": "object", "nullable": true },
        "mount_type": text(),
    }});
    let errors =
        json!({ "type": "object", "properties": { "errors": texts() }, "required": ["errors"] });
    let health = json!({ "type": "object" });
    let all = [("envelope", envelope), ("errors", errors), ("health", health)];
    all.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}
