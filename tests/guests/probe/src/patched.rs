//! A record with open members that a merge patch changes and everyone may read.

use bulkhead_sdk::table::Field;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::{Map, Value};

pub(crate) const MEMBERS: &[Field] =
    &[Field::text("colour", "any"), Field::seconds("age", "how old it is")];

/// Changes the given members, and removes members that are `null`.
pub(crate) fn patch(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let mut members = members(host, call)?;
    for name in ["colour", "age"] {
        match call.fields.get(name) {
            Some(Value::Null) => drop(members.remove(name)),
            Some(value) => drop(members.insert(name.to_owned(), value.clone())),
            None => {}
        }
    }
    let bytes = serde_json::to_vec(&members).map_err(|why| Failure::internal(why.to_string()))?;
    host.storage().put_bytes(&key(call), bytes)?;
    Ok(Answer::nothing())
}

pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    Answer::data(&members(host, call)?)
}

fn members(host: &dyn Host, call: &Call) -> Result<Map<String, Value>, Failure> {
    let Some(bytes) = host.storage().get_bytes(&key(call))? else { return Ok(Map::new()) };
    serde_json::from_slice(&bytes).map_err(|why| Failure::internal(why.to_string()))
}

fn key(call: &Call) -> String {
    format!("patched/{}", call.text("name"))
}
