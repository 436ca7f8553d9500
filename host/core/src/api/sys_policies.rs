//! `sys/policies/acl` and its old spelling `sys/policy`.

use super::{Body, HostCall, Reply, Then};
use crate::policies::{self, ROOT, stored};
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value, json};

/// `LIST sys/policies/acl`. The old spelling answers the names under `policies` too.
pub(super) async fn list(unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let names = stored::names(unit).await?;
    let mut data = Map::new();
    data.insert("keys".to_owned(), json!(names));
    if is_old_spelling(call) {
        data.insert("policies".to_owned(), json!(names));
    }
    Ok(answer(call, data))
}

/// The members of `data` stand at the top level too in the old spelling, where scripts read them.
fn answer(call: &HostCall<'_>, data: Map<String, Value>) -> Reply {
    if is_old_spelling(call) { Body::Copied(data).into() } else { Body::Data(data).into() }
}

fn is_old_spelling(call: &HostCall<'_>) -> bool {
    !call.request.path.starts_with("sys/policies/")
}

/// `GET sys/policies/acl/:name`. The old spelling calls the text `rules`.
pub(super) async fn read(unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let name = policies::canonical_name(call.text("name")).map_err(Failure::invalid)?;
    let text = stored::text(unit, &name).await?;
    // The root policy exists but has no text.
    let text = if name == ROOT { Some(String::new()) } else { text };
    let text = text.ok_or_else(Failure::absent)?;
    let mut data = Map::new();
    data.insert("name".to_owned(), json!(name));
    let member = if is_old_spelling(call) { "rules" } else { "policy" };
    data.insert(member.to_owned(), json!(text));
    Ok(answer(call, data))
}

/// `POST sys/policies/acl/:name`.
pub(super) fn write(unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let name = policies::writable_name(call.text("name")).map_err(Failure::invalid)?;
    stored::put(unit, &name, call.text("policy"))?;
    let renamed =
        (name != call.text("name")).then(|| format!("the policy was stored as {name:?}: names are in lower case"));
    Ok(Reply { body: Body::Nothing, warnings: renamed.into_iter().collect(), then: Then::PoliciesChanged })
}

/// `DELETE sys/policies/acl/:name`.
pub(super) fn delete(unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let name = policies::deletable_name(call.text("name")).map_err(Failure::invalid)?;
    stored::delete(unit, &name);
    Ok(Reply { body: Body::Nothing, warnings: Vec::new(), then: Then::PoliciesChanged })
}
