//! A component's description of itself, given once at registration: identity, grants and route
//! table.
//!
//! The host and the SDK derive dispatch, validation, alias folding, create-or-update, listing, help
//! and redaction from the route table. An unknown key refuses registration, because a misspelt mark
//! (`secert`) would otherwise expose a value silently.

mod database;
mod raw_access;
mod seal;

use crate::metric::Metric;
use crate::stored::Stored;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use database::DatabaseDescription;
pub use raw_access::RawAccess;
pub use seal::SealDescription;

/// A mountable component's description (`engine.describe`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentDescription {
    /// `secrets-engine` or `auth-method`.
    pub kind: String,
    /// Canonical name; also the type to mount the component by: `database`.
    pub name: String,
    /// Other types to mount the component by, as published clients name them (decision P2).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Semantic version.
    pub version: String,
    /// Version of the stored data's shape; a mount with older data is migrated first.
    pub schema: u32,
    /// Newest schema of stored data that the component reads without a migration, if not `schema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_schema_up_to: Option<u32>,
    /// Numbers the commits of a mount, and stores the numbers in its records.
    #[serde(default)]
    pub indexed: bool,
    /// `migrate`, called with the component's own schema, brings the records of a lower version of
    /// the API to the version that the mount's option `version` chooses.
    #[serde(default, skip_serializing_if = "is_false")]
    pub upgrades_api: bool,
    /// Grants the component wants beyond its own mount, as grant lines
    /// (`http:https://login.example.com:443`). An act without a target stands for every target
    /// granted by an operator. The component never gets more than it asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<String>,
    /// Metrics the component reports to the operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// One sentence for people.
    pub about: String,
    /// The whole API.
    pub routes: Vec<Route>,
    /// Present if the component answers plain HTTP on all other paths (`raw.serve`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawAccess>,
}

/// Stored with uploaded plugins, so a start need not run any component. The `stored!` macro is not
/// used because unknown keys must be refused: ignoring a mark of a later release would be unsafe.
/// If a stored description has an unknown key, the host asks the component again.
impl Stored for ComponentDescription {
    const KIND: &'static str = "engine-description";
}

/// An action on a route, as policies name actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// A write to an object not yet stored.
    Create,
    /// A read.
    Read,
    /// A write to an existing object, or to a route without `existence`.
    Update,
    /// A merge patch.
    Patch,
    /// A removal.
    Delete,
    /// A listing of the names below a path.
    List,
}

impl Operation {
    /// Returns the capability required of the caller's policy, which is also the word of the plugin
    /// contract.
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

/// The HTTP side of a route. Create and update share `Write`; the object's existence decides.
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

impl Verb {
    /// Returns the usual HTTP method of the verb.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Self::Read => "GET",
            Self::Write => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::List => "LIST",
        }
    }
}

/// One row of the route table: verb, path, fields, and marks for the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The verb of the row.
    pub verb: Verb,
    /// Path below the mount, without slashes at the ends: `roles/{name}`. `{x}` takes one segment.
    /// `{x+}` takes the rest of the path, except for a single literal that may follow:
    /// `mounts/{path+}/tune`.
    pub path: String,
    /// One sentence for help and OpenAPI.
    pub about: String,
    /// Captures and body fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// Groups of fields. A request may give at most one field of each group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclusive: Vec<Vec<String>>,
    /// Storage key whose presence makes a write an update: `role/{name}`. Absent: always `update`
    /// (decision P10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existence: Option<String>,
    /// Storage prefix for LIST: `role/`. The host pages through the keys without running the
    /// component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// Served without a token.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unauthenticated: bool,
    /// Answers a login, and is therefore served without a token. Only for writes of auth methods.
    #[serde(default, skip_serializing_if = "is_false")]
    pub login: bool,
    /// Requires `sudo` besides the ordinary capability.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sudo: bool,
    /// The operation checked against policy instead of `read`, for a GET that changes something or
    /// lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_as: Option<Operation>,
    /// Passes body fields unknown to the row on to the component, instead of ignoring them with a
    /// warning.
    #[serde(default, skip_serializing_if = "is_false")]
    pub open_fields: bool,
    /// Passes the body on exactly as sent: `null` members are kept, and captures are told apart
    /// from members of the same name. Only with `open_fields`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub verbatim: bool,
    /// The row belongs to this version of the API alone, which the mount option `version` chooses;
    /// 0: to every version.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub api_version: u64,
    /// Pattern of the path that serves the same object in later versions of the API: `data/{path}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successor: Option<String>,
    /// Takes bytes as its body, and its fields then from the query; or fields as its body.
    #[serde(default, skip_serializing_if = "is_false")]
    pub raw: bool,
    /// Answers a secret with a lease.
    #[serde(default, skip_serializing_if = "is_false")]
    pub leases: bool,
    /// Calls a database plugin, and therefore counts twice in admission.
    #[serde(default, skip_serializing_if = "is_false")]
    pub nested: bool,
    /// Largest body in bytes; 0 means 1 MiB.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub body_limit: u64,
    /// Timeout of the call, in seconds; 0 means the listener's timeout for all requests (90 unless
    /// set).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deadline: u64,
}

/// One capture or body field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Canonical name.
    pub name: String,
    /// Kind of the values.
    pub kind: FieldKind,
    /// Other names, folded to `name` before policy parameters are checked (decision P2).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Value set when a write creates an object, never when a write updates one (decision A6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Must be given, and not be empty, when a write creates an object (on a route without
    /// `existence`: always).
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
    /// A change of the value requires `sudo` on the path of the request, besides the capability
    /// that the row requires (decision H74).
    #[serde(default, skip_serializing_if = "is_false")]
    pub sudo: bool,
    /// Keeps the value out of logs, audit records and errors. The value joins the secrets of the
    /// call.
    #[serde(default, skip_serializing_if = "is_false")]
    pub secret: bool,
    /// The newer name, if this field is the older of two names read by an endpoint. Policies treat
    /// both fields as a single parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_name_of: Option<String>,
    /// Another parameter, of this row or of another row, set by this field's value too. Policy
    /// rules for the other parameter also apply to this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts_as: Option<String>,
    /// The value with which this field leaves the decision to a field that counts as this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferring: Option<String>,
    /// The settings inside an object. Policies treat each setting as its own parameter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Self>,
    /// One sentence for help and OpenAPI.
    pub about: String,
}

impl Route {
    /// Returns a row without fields and marks.
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
            verbatim: false,
            api_version: 0,
            successor: None,
            raw: false,
            leases: false,
            nested: false,
            body_limit: 0,
            deadline: 0,
        }
    }
}

impl Route {
    /// Returns whether the row is served without a token.
    #[must_use]
    pub fn needs_no_token(&self) -> bool {
        self.unauthenticated || self.login
    }
}

impl Field {
    /// Returns an optional field without aliases, not marked secret.
    pub fn new(name: impl Into<String>, kind: FieldKind, about: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind,
            aliases: Vec::new(),
            default: None,
            required: false,
            sudo: false,
            secret: false,
            old_name_of: None,
            counts_as: None,
            deferring: None,
            members: Vec::new(),
            about: about.into(),
        }
    }

    /// Marks the field as the older name of `field`.
    #[must_use]
    pub fn old_name_of(self, field: &str) -> Self {
        Self { old_name_of: Some(field.to_owned()), ..self }
    }

    /// Marks the field's value as also setting `parameter`.
    #[must_use]
    pub fn counts_as(self, parameter: &str) -> Self {
        Self { counts_as: Some(parameter.to_owned()), ..self }
    }

    /// Sets the value with which the field leaves the decision to a field that counts as this
    /// field.
    #[must_use]
    pub fn deferring(self, value: &str) -> Self {
        Self { deferring: Some(value.to_owned()), ..self }
    }

    /// Makes the field an object with these settings.
    #[must_use]
    pub fn with_members(self, members: Vec<Self>) -> Self {
        Self { members, ..self }
    }

    /// Marks the field as required on a create.
    #[must_use]
    pub fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// Requires `sudo` on the path for a change of the value.
    #[must_use]
    pub fn needs_sudo(self) -> Self {
        Self { sudo: true, ..self }
    }

    /// Marks the field as secret.
    #[must_use]
    pub fn secret(self) -> Self {
        Self { secret: true, ..self }
    }
}

/// Kind of a value, and the forms read (decision H1). `null` always means absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FieldKind {
    /// A path segment or reference: starts and ends with a word character, may have `.` and `-`
    /// inside.
    Name,
    /// Text; numbers and booleans are converted to text.
    String,
    /// `true`, `"1"`, `0`, `""` …
    Bool,
    /// A whole number.
    Int,
    /// `3600`, `"3600"`, `"1h30m"`, `"2d"`; whole seconds, never negative.
    Duration,
    /// `"a, b"` or a list; elements are trimmed and empty elements dropped.
    CommaList,
    /// A list, or a text that becomes the only element; never split.
    TextList,
    /// An object, or a list of `k=v`; values are converted to text.
    Map,
    /// Any JSON value, unchanged.
    Any,
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
        assert_eq!(check_read::<ComponentDescription>(engines), Ok(()));
        assert_eq!(check_read::<DatabaseDescription>(plugins), Ok(()));
    }
}
