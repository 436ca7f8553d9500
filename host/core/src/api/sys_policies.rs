//! `sys/policies/acl` and its old spelling `sys/policy`.

use super::{Body, HostCall, Reply, Then};
use crate::policies::{self, ROOT, stored};
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use serde_json::{Map, json};

/// `LIST sys/policies/acl`.
pub(super) async fn list(unit: &mut Unit) -> Result<Reply, Failure> {
    let names = stored::names(unit).await?;
    let mut data = Map::new();
    data.insert("keys".to_owned(), json!(names));
    data.insert("policies".to_owned(), json!(names));
    Ok(Body::Copied(data).into())
}

/// `GET sys/policies/acl/:name`. The old spelling calls the text `rules`; both names are answered.
pub(super) async fn read(unit: &mut Unit, call: &HostCall<'_>) -> Result<Reply, Failure> {
    let name = policies::canonical_name(call.text("name")).map_err(Failure::invalid)?;
    let text = stored::text(unit, &name).await?;
    // The root policy exists but has no text.
    let text = if name == ROOT { Some(String::new()) } else { text };
    let text = text.ok_or_else(Failure::absent)?;
    let mut data = Map::new();
    data.insert("name".to_owned(), json!(name));
    data.insert("policy".to_owned(), json!(text));
    data.insert("rules".to_owned(), json!(text));
    Ok(Body::Copied(data).into())
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
