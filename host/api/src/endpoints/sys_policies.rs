//! `sys/policies/acl` and its old spelling `sys/policy`.
//!
//! This file prevents a policy from being stored in another form than the operator meant: a text
//! that does not parse is refused, base64 is stored decoded, and a warning tells the caller if the
//! name is stored in another spelling.

use super::after_commit::AfterCommit;
use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field, required};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_access::policies::{self, ROOT, stored};
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Paths of policies, in the new and the old spelling.
const BASES: [&str; 2] = ["sys/policies/acl", "sys/policy"];

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let name = || field("name", FieldKind::String, "name of the policy");
    let text = || Field {
        aliases: vec!["rules".to_owned()],
        ..required("policy", FieldKind::String, "text of the policy, HCL or JSON, also as base64")
    };
    let mut rows = vec![row::read("sys/policy", "names of all policies").handled_by(list)];
    for base in BASES {
        let one = format!("{base}/{{name+}}");
        rows.extend([
            row::list(base, "names of all policies").handled_by(list),
            row::read(&one, "the text of a policy").fields([name()]).handled_by(read),
            row::write(&one, "write a policy").fields([name(), text()]).handled_by(write),
            row::delete(&one, "delete a policy").fields([name()]).handled_by(delete),
        ]);
    }
    rows
}

/// `LIST sys/policies/acl`. The old spelling also answers the names under `policies`.
async fn list(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let names = stored::names(call.unit).await?;
    let mut data = Map::new();
    data.insert("keys".to_owned(), json!(names));
    if is_old_spelling(&call) {
        data.insert("policies".to_owned(), json!(names));
    }
    Ok(respond(&call, data))
}

/// Builds the answer. In the old spelling, the members of `data` are repeated at the top level,
/// where scripts expect them.
fn respond(call: &PermittedCall<'_>, data: Map<String, Value>) -> Reply {
    if is_old_spelling(call) {
        ReplyBody::Copied(data).into()
    } else {
        ReplyBody::Data(data).into()
    }
}

fn is_old_spelling(call: &PermittedCall<'_>) -> bool {
    !call.request.path.starts_with("sys/policies/")
}

/// `GET sys/policies/acl/:name`. The old spelling calls the text `rules`.
async fn read(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let name = policies::canonical_name(call.fields.text("name")).map_err(Failure::invalid)?;
    let text = stored::read_policy_text(call.unit, &name).await?;
    // The root policy exists but has no text.
    let text = if name == ROOT { Some(String::new()) } else { text };
    let text = text.ok_or_else(Failure::absent)?;
    let mut data = Map::new();
    data.insert("name".to_owned(), json!(name));
    let member = if is_old_spelling(&call) { "rules" } else { "policy" };
    data.insert(member.to_owned(), json!(text));
    Ok(respond(&call, data).with_warnings(warn_of_renaming(&call, &name)))
}

/// `POST sys/policies/acl/:name`.
async fn write(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let name = policies::writable_name(call.fields.text("name")).map_err(Failure::invalid)?;
    stored::put(call.unit, &name, &decode(call.fields.text("policy")))?;
    let reply = Reply::from(ReplyBody::Nothing).with_warnings(warn_of_renaming(&call, &name));
    Ok(reply.after_commit(AfterCommit::ForgetPolicies))
}

/// `DELETE sys/policies/acl/:name`.
async fn delete(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let name = policies::deletable_name(call.fields.text("name")).map_err(Failure::invalid)?;
    stored::delete(call.unit, &name);
    Ok(Reply::from(ReplyBody::Nothing).after_commit(AfterCommit::ForgetPolicies))
}

/// Returns a warning if the policy's name differs from the name in the request.
fn warn_of_renaming(call: &PermittedCall<'_>, name: &str) -> Option<String> {
    let differs = call.fields.text("name") != name;
    differs.then(|| format!("the policy's name is {name:?}: names are in lower case"))
}

/// Decodes the text of a policy or password policy, which may be sent as text or as base64.
///
/// The text counts as base64 if the whole text, line ends aside, is the canonical base64 of UTF-8.
/// No policy passes this test: a rule needs `{` and `"`, which base64 does not use, and a text that
/// is only a `//` comment decodes to bytes that begin with 0xff, which is not UTF-8. A blank text
/// means the same either way.
pub(super) fn decode(sent: &str) -> Cow<'_, str> {
    let letters: String = sent.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let text = STANDARD.decode(letters).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.map_or(Cow::Borrowed(sent), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_access::policies::parse::Policy;

    const TEXT: &str = "# ünï\npath \"database/creds/*\" { capabilities = [\"read\"] }\n";

    #[test]
    fn base64_is_decoded_also_in_lines() {
        let encoded = STANDARD.encode(TEXT);
        assert_eq!(decode(&encoded), TEXT);
        let (one, other) = encoded.split_at(20);
        assert_eq!(decode(&format!("{one}\r\n{other}\n")), TEXT);
    }

    #[test]
    fn policy_text_is_never_decoded_as_base64() {
        let comments =
            ["//abcd12", "//ab\n//cd\n", "// comment", "#abc", "//", "////", "//Zm9v", "/**/"];
        for text in [TEXT, r#"{"path":{"x":{}}}"#, "path \"x\" {}", "name=\"abc\""]
            .into_iter()
            .chain(comments)
        {
            assert!(Policy::parse("p", text).is_ok(), "{text}");
            assert_eq!(decode(text), text);
        }
        assert_eq!(decode("\n\n").trim(), "");
    }

    #[test]
    fn near_base64_text_stays_unchanged_and_invalid() {
        for text in [
            "abc",
            "abcd=",
            "YWJj====",
            "YWI",
            "YWJ=",
            "_-_-",
            " YWJj",
            "YWJj YWJj",
            "/w==",
            "YWJj\tYWJj",
        ] {
            assert_eq!(decode(text), text);
            assert!(Policy::parse("p", text).is_err(), "{text}");
        }
    }
}
