//! `sys/policies/password`: rules for generated passwords, for engines that name a policy.
//!
//! This file prevents a policy that cannot generate passwords: the policy is tried before being
//! stored. Base64 is stored decoded.

use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field, required};
use super::sys_policies::decode;
use bulkhead_access::paging::Paging;
use bulkhead_access::passwords;
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value, json};

const BASE: &str = "sys/policies/password";

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let one = format!("{BASE}/{{name}}");
    let name = || field("name", FieldKind::Name, "name of the password policy");
    let text =
        required("policy", FieldKind::String, "text of the policy, HCL or JSON, also as base64");
    let page = [
        field("after", FieldKind::String, "list only names after this name"),
        field("limit", FieldKind::String, "maximum number of names"),
    ];
    vec![
        row::list(BASE, "names of all password policies").fields(page).handled_by(list),
        row::read(&one, "the text of a password policy").fields([name()]).handled_by(read),
        row::write(&one, "write a password policy").fields([name(), text]).handled_by(write),
        row::delete(&one, "delete a password policy").fields([name()]).handled_by(delete),
        row::read(&format!("{one}/generate"), "a password by the policy")
            .fields([name()])
            .handled_by(generate),
    ]
}

/// `LIST sys/policies/password`.
async fn list(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let Paging { after, limit } = Paging::of(call.fields.all())?;
    let names = passwords::names(call.unit, &after, limit).await?;
    if names.is_empty() {
        return Err(Failure::absent());
    }
    Ok(data("keys", json!(names)))
}

/// `GET sys/policies/password/:name`.
async fn read(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let text = passwords::read_policy_text(call.unit, call.fields.text("name")).await?;
    Ok(data("policy", json!(text.ok_or_else(Failure::absent)?)))
}

/// `POST sys/policies/password/:name`.
async fn write(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { unit, fields, .. } = call;
    passwords::put(unit, fields.text("name"), &decode(fields.text("policy")))?;
    Ok(ReplyBody::Nothing.into())
}

/// `DELETE sys/policies/password/:name`. Engines that name the policy can no longer generate
/// passwords.
async fn delete(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    passwords::delete(call.unit, call.fields.text("name"));
    Ok(ReplyBody::Nothing.into())
}

/// `GET sys/policies/password/:name/generate`.
async fn generate(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let password = passwords::generate(call.unit, call.fields.text("name")).await?;
    Ok(data("password", json!(password)))
}

fn data(member: &str, value: Value) -> Reply {
    ReplyBody::Data(Map::from_iter([(member.to_owned(), value)])).into()
}
