//! `sys/internal/ui/resultant-acl`: the rules of the caller's policies, joined, for user interfaces
//! that show only the allowed actions.

use super::call::PublicCall;
use super::envelope::public_data;
use super::row::{Endpoint, read};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    // Any token may ask, as with a token's own capabilities, also without the policy `default`.
    vec![
        read("sys/internal/ui/resultant-acl", "the joined rules of the caller's policies")
            .without_a_token(show),
    ]
}

/// `GET sys/internal/ui/resultant-acl`.
async fn show(call: PublicCall<'_>) -> Result<Response, Failure> {
    let acl = call
        .acl
        .ok_or_else(|| Failure::denied("send a token; the answer shows the token's rules"))?;
    let members = match acl.listed() {
        None => vec![("root", json!(true))],
        Some(rules) => vec![
            ("root", json!(false)),
            ("exact_paths", by_path(rules.exact)),
            ("glob_paths", by_path(rules.patterns)),
        ],
    };
    let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
    Ok(public_data(call.request, members.collect()))
}

fn by_path(rules: BTreeMap<String, Vec<String>>) -> Value {
    let shown = |(path, words): (String, Vec<String>)| (path, json!({ "capabilities": words }));
    Value::Object(rules.into_iter().map(shown).collect::<Map<_, _>>())
}
