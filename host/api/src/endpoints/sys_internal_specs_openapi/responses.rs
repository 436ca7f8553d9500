//! The statuses that an operation can answer (decision P4).
//!
//! This file prevents a generated client that takes a declared refusal for a fault: this file
//! declares, for each row, every status that the pipeline, the host's own functions or a component
//! can cause.

use bulkhead_wire::description::{Route, Verb};
use bulkhead_wire::failure::FailureKind;
use serde_json::{Map, Value, json};

/// Kinds of refusals and faults, with the description of their status.
const REFUSALS: [(FailureKind, &str); 12] = [
    (FailureKind::InvalidRequest, "the request is wrong, and why"),
    (FailureKind::PermissionDenied, "permission denied"),
    (FailureKind::NotFound, "there is nothing"),
    (FailureKind::UnsupportedOperation, "the path does not serve this method"),
    (FailureKind::PreconditionFailed, "something else has to be done first"),
    (FailureKind::TooLarge, "the body is too large"),
    (FailureKind::UnsupportedMediaType, "the path takes no bytes as the body"),
    (FailureKind::RateLimited, "too many requests; Retry-After gives the seconds to wait"),
    (FailureKind::HeadersTooLarge, "the headers are too large"),
    (FailureKind::Internal, "a fault of the server; nothing was stored"),
    (FailureKind::Unreachable, "a server outside did not answer, or not in time"),
    (FailureKind::Unavailable, "the service is sealed or overloaded"),
];

/// Returns the responses of a row; `below` is empty for a row of the host.
pub(super) fn responses(below: &str, route: &Route) -> Value {
    let mut all = Map::new();
    all.insert("200".to_owned(), answer("the answer", "envelope"));
    if is_continued(below, route) {
        all.insert("202".to_owned(), answer("the work continues after the answer", "envelope"));
    }
    if is_change(route) {
        all.insert("204".to_owned(), json!({ "description": "done, and nothing to say" }));
    }
    for (kind, _) in REFUSALS.iter().filter(|(kind, _)| can_answer(*kind, below, route)) {
        let name = kind.status().to_string();
        let shared = json!({ "$ref": format!("#/components/responses/{}", kind.code()) });
        all.insert(name, shared);
    }
    if below.is_empty() && route.path == "sys/health" {
        all.insert("default".to_owned(), answer("the state, by the code of the query", "health"));
    }
    Value::Object(all)
}

/// Returns whether a row can change something. A read that does is checked as another operation.
fn is_change(route: &Route) -> bool {
    matches!(route.verb, Verb::Write | Verb::Patch | Verb::Delete) || route.asked_as.is_some()
}

/// Returns whether the host answers before the work has ended.
fn is_continued(below: &str, route: &Route) -> bool {
    let waits = route.fields.iter().any(|field| field.name == "sync");
    below.is_empty() && (waits || route.path.ends_with("/tidy"))
}

/// Returns whether a row can answer with the status of `kind`.
fn can_answer(kind: FailureKind, below: &str, route: &Route) -> bool {
    let (is_host, has_captures) = (below.is_empty(), route.path.contains('{'));
    let is_change = is_change(route);
    match kind {
        // The mount or the object may be gone. A write of the host without fields names no object.
        FailureKind::NotFound => !is_host || has_captures || !is_change || !route.fields.is_empty(),
        // A value of a capture may lead to another path, a GET without `list=true` is not a LIST,
        // and the endpoints of key holders may be off.
        FailureKind::UnsupportedOperation => {
            !is_host || has_captures || route.verb == Verb::List || route.needs_no_token()
        }
        FailureKind::PreconditionFailed => !is_host || route.path.starts_with("identity/"),
        // Only components and changes of their mounts and leases reach servers outside.
        FailureKind::Unreachable | FailureKind::TimedOut => !is_host || is_change,
        _ => true,
    }
}

/// Returns the responses that operations refer to.
pub(super) fn shared() -> Map<String, Value> {
    let shared = |(kind, about): &(FailureKind, &str)| {
        let mut shown = answer(about, "errors");
        let retry = json!({ "description": "seconds", "schema": { "type": "integer" } });
        let is_temporary = matches!(kind, FailureKind::RateLimited | FailureKind::Unavailable);
        if let Some(members) = shown.as_object_mut().filter(|_| is_temporary) {
            members.insert("headers".to_owned(), json!({ "Retry-After": retry }));
        }
        (kind.code().to_owned(), shown)
    };
    REFUSALS.iter().map(shared).collect()
}

fn answer(about: &str, schema: &str) -> Value {
    let schema = json!({ "$ref": format!("#/components/schemas/{schema}") });
    json!({ "description": about, "content": { "application/json": { "schema": schema } } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_wire::description::{Field, FieldKind};

    fn statuses(below: &str, route: &Route) -> Vec<String> {
        let shown = responses(below, route);
        shown.as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn mount_row_declares_every_component_status() {
        let all = "200 400 403 404 405 412 413 415 429 431 500 502 503";
        let route = Route::new(Verb::Read, "creds/{name}", "a");
        assert_eq!(statuses("database/", &route).join(" "), all);
        let write = Route::new(Verb::Write, "creds", "a");
        assert_eq!(statuses("database/", &write).join(" "), all.replace("200", "200 204"));
    }

    #[test]
    fn host_row_declares_only_answerable_statuses() {
        let seal = Route::new(Verb::Write, "sys/seal", "a");
        let shown = statuses("", &seal);
        for absent in ["202", "404", "405", "412"] {
            assert!(!shown.contains(&absent.to_owned()), "{absent}: {shown:?}");
        }
        let sync = Field::new("sync", FieldKind::Bool, "a");
        let revoke = Route { fields: vec![sync], ..Route::new(Verb::Write, "sys/revoke", "a") };
        assert!(statuses("", &revoke).contains(&"202".to_owned()));
        let tidy = Route::new(Verb::Write, "auth/token/tidy", "a");
        assert!(statuses("", &tidy).contains(&"202".to_owned()));
        let health = Route::new(Verb::Read, "sys/health", "a");
        assert!(statuses("", &health).contains(&"default".to_owned()));
    }

    #[test]
    fn each_kind_is_described() {
        let shared = shared();
        for (kind, _) in REFUSALS {
            assert_eq!(
                shared[kind.code()]["content"]["application/json"]["schema"]["$ref"],
                "#/components/schemas/errors"
            );
        }
        assert!(shared["rate-limited"]["headers"]["Retry-After"].is_object());
    }
}
