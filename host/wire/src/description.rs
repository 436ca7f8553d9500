//! What a component says of itself, once, at registration: what it is, and its route table.
//!
//! From a row of the table come dispatch, validation, alias folding, create-or-update, listing,
//! help and redaction, in the host and in the SDK alike. Unknown keys refuse registration, so that
//! a misspelt mark (`secert`) cannot silently expose a value.

use crate::metric::Metric;
use crate::stored::Stored;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A mountable component's description (`engine.describe`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// `secrets-engine` or `auth-method`.
    pub kind: String,
    /// Canonical name, also the type under which it is mounted: `database`.
    pub name: String,
    /// Other types under which it may be mounted, as published clients name them (decision P2).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Semantic version.
    pub version: String,
    /// Version of the stored data's shape; a mount with older data is migrated first.
    pub schema: u32,
    /// Whether commits of a mount are numbered, and its records carry the numbers.
    #[serde(default)]
    pub indexed: bool,
    /// What it wants to do beyond its own mount, as lines of grants
    /// (`http:https://login.example.com:443`). An act without a target stands for every target
    /// that an operator grants. It gets no more than it asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<String>,
    /// What it may tell the operator in figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// One sentence for people.
    pub about: String,
    /// The API as one table.
    pub routes: Vec<Route>,
    /// Given where the component answers plain HTTP on all other paths (`raw.serve`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawAccess>,
}

/// What a component reads of the requests that it answers as plain HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawAccess {
    /// Names of headers, in lower case. Never one that carries a token of the host, or cookies.
    pub headers: Vec<String>,
    /// The headers among them whose values are secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_headers: Vec<String>,
    /// Largest body in bytes; 0 means 1 MiB.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub body_limit: u64,
}

/// Kept with uploaded plugins, so that a start asks no component. Not by `stored!`, because unknown
/// keys are refused: a mark of a later release must not be taken for none. The component of such a
/// description is described again.
impl Stored for Description {
    const KIND: &'static str = "engine-description";
}

/// What one row answers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// A write to an object that does not exist.
    Create,
    /// A read.
    Read,
    /// A write to an object that exists, or to a route without existence.
    Update,
    /// A merge patch.
    Patch,
    /// A removal.
    Delete,
    /// Names below a path.
    List,
}

impl Operation {
    /// The capability that policy must grant, and the word of the plugin contract.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Read => "read",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::List => "list",
        }
    }
}

/// What a row of the table answers to: writes are one row, told apart by existence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// GET.
    Read,
    /// POST or PUT: `create` or `update`.
    Write,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
    /// LIST, or GET with `list=true`.
    List,
}

/// One row: what it answers to, what it takes, and the marks the host acts on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// What it answers to.
    pub verb: Verb,
    /// Below the mount, without slashes at the ends: `roles/{name}`. `{x}` takes one segment,
    /// `{x+}` all that is left but for one literal that may stand behind it: `mounts/{path+}/tune`.
    pub path: String,
    /// One sentence for help and OpenAPI.
    pub about: String,
    /// Captures and body fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// Groups of which at most one field may be given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclusive: Vec<Vec<String>>,
    /// Storage key whose presence makes a write an update: `role/{name}`. Absent: always `update`
    /// (decision P10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existence: Option<String>,
    /// Storage prefix that LIST pages without entering the component: `role/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// Served without a token.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unauthenticated: bool,
    /// Answers a login, and so is served without a token. For writes of auth methods only.
    #[serde(default, skip_serializing_if = "is_false")]
    pub login: bool,
    /// Needs `sudo` besides the ordinary capability.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sudo: bool,
    /// A GET for which policy is asked as for this instead: one that changes something, or lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_as: Option<Operation>,
    /// Body fields that no row names are passed on instead of ignored with a warning.
    #[serde(default, skip_serializing_if = "is_false")]
    pub open_fields: bool,
    /// Takes bytes as its body, and its fields from the query.
    #[serde(default, skip_serializing_if = "is_false")]
    pub raw: bool,
    /// Answers a secret with a lease.
    #[serde(default, skip_serializing_if = "is_false")]
    pub leases: bool,
    /// Reaches a database plugin, so it weighs two in admission.
    #[serde(default, skip_serializing_if = "is_false")]
    pub nested: bool,
    /// Largest body in bytes; 0 means 1 MiB.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub body_limit: u64,
    /// Seconds until the call is stopped; 0 means as many as the listener gives every request (90
    /// unless set).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deadline: u64,
}

/// One capture or body field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Canonical name.
    pub name: String,
    /// How values are read.
    pub kind: FieldKind,
    /// Other names, folded to `name` before policy parameters are checked (decision P2).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Filled in when a write creates, never when it updates (decision A6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Must be given, and not empty, when a write creates (on a route without existence: always).
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
    /// Never in a log, an audit line or an error; joins the secrets of the call.
    #[serde(default, skip_serializing_if = "is_false")]
    pub secret: bool,
    /// The field whose older name it is, where an endpoint reads both: to policies they are one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_name_of: Option<String>,
    /// The parameter, of this row or another, that its value sets too: what a policy says of that
    /// one is held against this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts_as: Option<String>,
    /// The value by which it leaves the word to a field that counts as it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferring: Option<String>,
    /// The settings inside of an object: to policies each is a parameter of its own name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Self>,
    /// One sentence for help and OpenAPI.
    pub about: String,
}

impl Route {
    /// A row without fields and marks.
    pub fn new(verb: Verb, path: impl Into<String>, about: impl Into<String>) -> Self {
        Self {
            verb,
            path: path.into(),
            about: about.into(),
            fields: Vec::new(),
            exclusive: Vec::new(),
            existence: None,
            list: None,
            unauthenticated: false,
            login: false,
            sudo: false,
            asked_as: None,
            open_fields: false,
            raw: false,
            leases: false,
            nested: false,
            body_limit: 0,
            deadline: 0,
        }
    }
}

impl Route {
    /// Whether it is served without a token.
    #[must_use]
    pub fn asks_for_no_token(&self) -> bool {
        self.unauthenticated || self.login
    }
}

impl Field {
    /// A field that need not be given, is no secret and has no other name.
    pub fn new(name: impl Into<String>, kind: FieldKind, about: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind,
            aliases: Vec::new(),
            default: None,
            required: false,
            secret: false,
            old_name_of: None,
            counts_as: None,
            deferring: None,
            members: Vec::new(),
            about: about.into(),
        }
    }

    /// The field, which an endpoint reads under this older name of `field` too.
    #[must_use]
    pub fn old_name_of(self, field: &str) -> Self {
        Self { old_name_of: Some(field.to_owned()), ..self }
    }

    /// The field, whose value sets `parameter` too.
    #[must_use]
    pub fn counts_as(self, parameter: &str) -> Self {
        Self { counts_as: Some(parameter.to_owned()), ..self }
    }

    /// The field, which with `value` leaves the word to one that counts as it.
    #[must_use]
    pub fn deferring(self, value: &str) -> Self {
        Self { deferring: Some(value.to_owned()), ..self }
    }

    /// The field, an object of these settings.
    #[must_use]
    pub fn with_members(self, members: Vec<Self>) -> Self {
        Self { members, ..self }
    }

    /// The field, which must be given on a create.
    #[must_use]
    pub fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// The field, which is a secret.
    #[must_use]
    pub fn secret(self) -> Self {
        Self { secret: true, ..self }
    }
}

/// How a value is read (decision H1). `null` always means absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FieldKind {
    /// A path segment or reference that starts and ends with a word character, with `.` and `-`
    /// inside.
    Name,
    /// Text; numbers and booleans are written out.
    String,
    /// `true`, `"1"`, `0`, `""` …
    Bool,
    /// A whole number.
    Int,
    /// `3600`, `"3600"`, `"1h30m"`, `"2d"`; whole seconds, never negative.
    Duration,
    /// `"a, b"` or a list; trimmed, empties dropped.
    CommaList,
    /// A list, or one text that becomes the only element; never split.
    TextList,
    /// An object, or a list of `k=v`; values are written out.
    Map,
    /// Any JSON value, as it came.
    Any,
}

/// A database plugin's description (`database-users.describe`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseDescription {
    /// Always `database-plugin`.
    pub kind: String,
    /// `postgresql-database-plugin`.
    pub name: String,
    /// Other names under which connections may ask for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Semantic version.
    pub version: String,
    /// What it wants to do, as lines of grants: see [`Description::asks`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<String>,
    /// One sentence for people.
    pub about: String,
    /// `password`, `rsa_private_key`, `client_certificate`.
    pub credential_types: Vec<String>,
    /// A role must bring creation statements, because the plugin has none of its own.
    pub creation_statements_required: bool,
    /// The settings it knows. Others are kept, with a warning.
    pub settings: Vec<Field>,
    /// The sentence for every code of a refusal. `{setting}`, `{statement}`, `{vendor-code}`,
    /// `{connection}` and names of `ext` pairs are filled in.
    pub codes: BTreeMap<String, String>,
    /// The sentence for every code of a warning.
    pub warnings: BTreeMap<String, String>,
}

/// As for [`Description`].
impl Stored for DatabaseDescription {
    const KIND: &'static str = "database-description";
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::check_read;

    #[test]
    fn descriptions_of_earlier_releases_are_read() {
        let engines = include_str!("../fixtures/records/engine-description.jsonl");
        let plugins = include_str!("../fixtures/records/database-description.jsonl");
        assert_eq!(check_read::<Description>(engines), Ok(()));
        assert_eq!(check_read::<DatabaseDescription>(plugins), Ok(()));
    }
}
