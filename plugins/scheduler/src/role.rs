//! ACL roles: named sets of policies. Tokens link to roles by identifier.

use crate::body;
use crate::content_hash::content_hash;
use crate::names::{LONGEST_TEXT, is_name, is_short_text};
use crate::refusal::{ApiRefusal, RecordProblems};
use bulkhead_sdk::Failure;
use bulkhead_sdk::host::{Entry, Storage};
use bulkhead_sdk::wire::distinct::first_of_each;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A role as stored under `role/<id>`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Role {
    /// Unique among the existing roles.
    pub(crate) name: String,
    /// Description for human readers.
    pub(crate) description: String,
    /// Names of policies, without duplicates, in the given order.
    pub(crate) policies: Vec<String>,
}

bulkhead_sdk::stored!(Role, "role", reads_stored_roles);

/// A role as shown, alone and in lists. Keys are in alphabetical order.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ShownRole {
    create_index: u64,
    description: String,
    hash: String,
    #[serde(rename = "ID")]
    id: String,
    modify_index: u64,
    name: String,
    policies: Vec<ShownLink>,
}

/// A link to a policy.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ShownLink {
    name: String,
}

/// A role as given in a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GivenRole {
    /// Empty to create a role.
    pub(crate) id: String,
    /// The role to be stored.
    pub(crate) role: Role,
}

impl Role {
    /// Returns the storage key of a role.
    #[must_use]
    pub(crate) fn key(id: &str) -> String {
        format!("role/{id}")
    }

    /// Returns the storage key of the identifier of the role with this name.
    #[must_use]
    pub(crate) fn name_key(name: &str) -> String {
        format!("role-name/{name}")
    }

    /// Runs the checks that need no other records.
    ///
    /// # Errors
    /// 400 with a list of all problems.
    pub(crate) fn check(&self) -> Result<(), ApiRefusal> {
        let mut problems = RecordProblems::default();
        problems.demand(is_name(&self.name), format!("invalid name '{}'", self.name));
        problems.demand(
            is_short_text(&self.description),
            format!("description longer than {LONGEST_TEXT}"),
        );
        problems.refuse("role 0 invalid")
    }

    fn hash(&self) -> String {
        let texts = [&self.name, &self.description].into_iter().chain(&self.policies);
        content_hash(texts.map(String::as_str))
    }
}

impl ShownRole {
    /// Creates the shown form of the role `id`, with the indexes of its creation and last change.
    #[must_use]
    pub(crate) fn of(id: &str, entry: Entry<Role>) -> Self {
        let Entry { value: role, created, modified } = entry;
        Self {
            create_index: created,
            hash: role.hash(),
            id: id.to_owned(),
            modify_index: modified,
            name: role.name,
            description: role.description,
            policies: role.policies.into_iter().map(|name| ShownLink { name }).collect(),
        }
    }
}

impl GivenRole {
    /// Parses the role in a request's body. A hash and indexes in the body are ignored.
    ///
    /// # Errors
    /// 400 for a body that is not a role, and for a null among the links (decision F5).
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, ApiRefusal> {
        Self::of(&body::object(bytes)?)
    }

    /// Reads the role in a parsed body.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn of(fields: &Map<String, Value>) -> Result<Self, ApiRefusal> {
        let role = Role {
            name: body::text(fields, "Name")?,
            description: body::text(fields, "Description")?,
            policies: policy_links(fields)?,
        };
        Ok(Self { id: body::text(fields, "ID")?, role })
    }
}

/// Returns the names of the linked policies, without duplicates.
fn policy_links(fields: &Map<String, Value>) -> Result<Vec<String>, ApiRefusal> {
    let mut names: Vec<String> = Vec::new();
    for link in body::list(fields, "Policies")?.unwrap_or_default() {
        if link.is_null() {
            let mut problems = RecordProblems::default();
            problems.demand(false, "policy link must not be null");
            problems.refuse("role 0 invalid")?;
        }
        names.push(body::text(body::member("Policies", link)?, "Name")?);
    }
    Ok(first_of_each(names))
}

/// Returns the identifier of the role with that name.
///
/// # Errors
/// Failures of the store.
pub(crate) fn id_of(storage: &dyn Storage, name: &str) -> Result<Option<String>, Failure> {
    if !is_name(name) {
        return Ok(None);
    }
    storage.get_plain(&Role::name_key(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(result: Result<impl std::fmt::Debug, ApiRefusal>) -> String {
        match result {
            Err(ApiRefusal::Answered { status: 400, text }) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_role_is_read_with_each_policy_once() {
        let links = r#"[{"Name":"b"},{"name":"a"},{"Name":"b"}]"#;
        let body = format!(r#"{{"ID":"i","name":"ops","Hash":"x","Policies":{links}}}"#);
        let GivenRole { id, role } = GivenRole::read(body.as_bytes()).unwrap();
        assert_eq!((id.as_str(), role.name.as_str()), ("i", "ops"));
        assert_eq!(role.policies, ["b", "a"]);
    }

    #[test]
    fn a_null_link_is_refused() {
        let text = refused(GivenRole::read(br#"{"Name":"a","Policies":[{"Name":"b"},null]}"#));
        assert!(text.starts_with("role 0 invalid: 1 error"), "{text}");
        assert!(text.contains("policy link must not be null"), "{text}");
        refused(GivenRole::read(br#"{"Name":"a","Policies":["b"]}"#));
    }

    #[test]
    fn role_check_reports_every_problem() {
        let role = Role { name: "a_b".into(), description: "d".repeat(257), policies: vec![] };
        assert_eq!(
            refused(role.check()),
            "role 0 invalid: 2 errors occurred:\n\t* invalid name 'a_b'\n\
             \t* description longer than 256\n\n"
        );
        let in_characters = Role { description: "é".repeat(256), ..role };
        assert!(!refused(in_characters.check()).contains("description"));
    }

    #[test]
    fn a_role_is_shown_with_all_its_keys() {
        let role = Role {
            name: "example-acl-role".into(),
            description: "my example ACL Role".into(),
            policies: vec!["example-acl-policy".into()],
        };
        let shown = ShownRole::of("an-id", Entry { value: role, created: 5, modified: 7 });
        assert_eq!(
            serde_json::to_value(&shown).unwrap(),
            json!({
                "CreateIndex": 5, "Description": "my example ACL Role",
                "Hash": "Cnt3NF3SbcXWboYSHATUVvBDkiOKb6MSjLSOqtMVOzA=", "ID": "an-id",
                "ModifyIndex": 7, "Name": "example-acl-role",
                "Policies": [{ "Name": "example-acl-policy" }],
            })
        );
    }
}
