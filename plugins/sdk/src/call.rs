//! A request to a route of the engine's table, and typed access to its fields.
//!
//! Before an engine sees a call, the host has folded aliases, checked types and filled in defaults
//! by the row's declaration, so a field is either absent or of its declared kind.

use crate::database_plugin::StoreTime;
use crate::field::Field;
use bulkhead_wire::call_limits::CallLimits;
use bulkhead_wire::description::Operation;
use bulkhead_wire::failure::{Failure, quoted};
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

/// A request. No `Debug`: the fields may be secrets.
#[derive(Clone)]
pub struct Call {
    /// Request id, also in the answer and the logs.
    pub id: String,
    /// The requested operation.
    pub operation: Operation,
    /// The pattern of the matched row.
    pub route: String,
    /// Texts that the row captured from the path, by name.
    pub captures: Vec<(String, String)>,
    /// Captures and body fields by canonical name; on a verbatim row, the body as sent.
    pub fields: Map<String, Value>,
    /// Time at which the call is stopped.
    pub deadline: StoreTime,
    /// The caller.
    pub caller: Caller,
    /// The called mount.
    pub mount: Mount,
}

/// The caller of a request, without a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Entity id, or empty if the token has no entity.
    pub entity: String,
    /// Display name. Chosen by a user: treat it as hostile.
    pub display_name: String,
    /// Identifier of the token, valid on this mount only.
    pub id: String,
    /// Capabilities that policy granted on this path.
    pub capabilities: Vec<String>,
    /// The peer's address without a port.
    pub remote_address: String,
}

impl Caller {
    /// Returns true if policy grants `sudo` on this path, as `root` does everywhere.
    #[must_use]
    pub fn is_sudo(&self) -> bool {
        self.may("sudo")
    }

    /// Returns true if policy grants `capability` on this path. The root policy grants all
    /// capabilities by the single word `root`.
    #[must_use]
    pub fn may(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|granted| granted == capability || granted == "root")
    }
}

/// The called mount. Lifetimes are in seconds and already resolved with the system's defaults and
/// limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// Path with a trailing slash: `database/`.
    pub path: String,
    /// Stable id for people and policies.
    pub accessor: String,
    /// Type of the mount, as given when the mount was enabled.
    pub kind: String,
    /// Default lifetime.
    pub default_ttl: u64,
    /// Maximum lifetime, over all renewals.
    pub max_ttl: u64,
    /// Maximum lifetime of a lease from this call; shorter than `max_ttl` if the caller's token
    /// ends sooner.
    pub longest_lease: u64,
    /// Options given when the mount was enabled.
    pub options: Vec<(String, String)>,
}

/// Circumstances of a call that the host makes by itself, or about a lease or a login.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// The called mount.
    pub mount: Mount,
    /// Time at which the call is stopped.
    pub deadline: StoreTime,
    /// Limits at which the call is stopped.
    pub limits: CallLimits,
}

impl Call {
    /// Refuses callers without the capability `sudo` on this path.
    ///
    /// # Errors
    /// Permission denied.
    pub fn demand_sudo(&self) -> Result<(), Failure> {
        match self.caller.is_sudo() {
            true => Ok(()),
            false => Err(Failure::denied("this path asks for the capability sudo")),
        }
    }

    /// Returns the text that the row captured from the path; empty if there is no such capture.
    #[must_use]
    pub fn capture(&self, name: &str) -> &str {
        let found = self.captures.iter().find(|(capture, _)| capture == name);
        found.map(|(_, text)| text.as_str()).unwrap_or_default()
    }

    /// Returns true if the caller gave the field, or a default filled it in.
    #[must_use]
    pub fn is_given(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// Returns a text; empty if absent.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.fields.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the name in the field `name` of a path, for objects that are named in lower case.
    /// `objects` is their plural in the message, for example `roles`.
    ///
    /// # Errors
    /// Invalid request if the name has capitals: policies compare paths case-sensitively, so that
    /// an object must have one path. Logins, which no policy guards, may accept every spelling.
    pub fn lower_case_name(&self, name: &str, objects: &str) -> Result<&str, Failure> {
        let written = self.text(name);
        let own = written.to_ascii_lowercase();
        match written == own {
            true => Ok(written),
            false => Err(Failure::invalid(format!(
                "{objects} are named in lower case: {} is {}",
                quoted(written),
                quoted(&own)
            ))),
        }
    }

    /// Returns a flag; false if absent.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.fields.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    /// Returns a duration in seconds; 0 if absent.
    #[must_use]
    pub fn seconds(&self, name: &str) -> u64 {
        self.fields.get(name).and_then(Value::as_u64).unwrap_or_default()
    }

    /// Returns a list of texts; empty if absent.
    #[must_use]
    pub fn list(&self, name: &str) -> Vec<String> {
        let items =
            self.fields.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Returns an object; `None` if absent.
    #[must_use]
    pub fn map(&self, name: &str) -> Option<&Map<String, Value>> {
        self.fields.get(name).and_then(Value::as_object)
    }

    /// Writes the field to `into` if the field was given, and otherwise leaves `into` unchanged: a
    /// partial update keeps absent fields (decision A6).
    ///
    /// # Errors
    /// Invalid request for a number outside the range of `into`: the declared kind admits every
    /// whole number, and the caller chose this number. Internal if the row declares another kind
    /// than the type of `into`, which is a bug of the engine.
    pub fn merge<T: DeserializeOwned>(&self, name: &str, into: &mut T) -> Result<(), Failure> {
        let Some(value) = self.fields.get(name) else {
            return Ok(());
        };
        *into = T::deserialize(value).map_err(|_| match value {
            Value::Number(number) if holds::<T>(1) => beyond_range::<T>(name, number),
            _ => Failure::internal(format!(
                "the route {:?} declares {name} as another kind than the engine reads",
                self.route
            )),
        })?;
        Ok(())
    }

    /// Returns the given fields that are not in `known`, on a route with open fields.
    #[must_use]
    pub fn undeclared_fields(&self, declared_fields: &[Field]) -> Map<String, Value> {
        let open = self
            .fields
            .iter()
            .filter(|(name, _)| declared_fields.iter().all(|field| field.name() != name.as_str()));
        open.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

/// Returns true if a field of the type `T` can hold this number.
fn holds<T: DeserializeOwned>(number: i128) -> bool {
    let value = u64::try_from(number).map(Value::from);
    let value = value.or_else(|_| i64::try_from(number).map(Value::from));
    value.is_ok_and(|value| T::deserialize(value).is_ok())
}

/// Returns the refusal of a number outside the range of `T`. The range is found by trying the
/// limits of every integer type.
fn beyond_range<T: DeserializeOwned>(name: &str, number: &Number) -> Failure {
    let ends: [i128; 8] = [
        i8::MAX.into(),
        u8::MAX.into(),
        i16::MAX.into(),
        u16::MAX.into(),
        i32::MAX.into(),
        u32::MAX.into(),
        i64::MAX.into(),
        u64::MAX.into(),
    ];
    let beginnings: [i128; 4] = [i8::MIN.into(), i16::MIN.into(), i32::MIN.into(), i64::MIN.into()];
    let most = ends.into_iter().filter(|end| holds::<T>(*end)).max().unwrap_or(1);
    let least = beginnings.into_iter().filter(|least| holds::<T>(*least)).min();
    let least = least.unwrap_or(if holds::<T>(0) { 0 } else { 1 });
    Failure::invalid(format!(
        "{name} cannot be {number}; give a whole number from {least} to {most}"
    ))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Call, Caller, Mount};
    use crate::field::Field;
    use bulkhead_wire::description::Operation;
    use bulkhead_wire::failure::FailureKind;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    pub(crate) fn call(fields: Value) -> Call {
        Call {
            id: String::new(),
            operation: Operation::Update,
            route: "box/{name}".to_owned(),
            captures: Vec::new(),
            fields: fields.as_object().unwrap().clone(),
            deadline: 0,
            caller: Caller::default(),
            mount: Mount::default(),
        }
    }

    #[test]
    fn sudo_capability_is_listed_or_implied_by_root() {
        for (capabilities, is_sudo) in
            [(vec!["update", "sudo"], true), (vec!["root"], true), (vec!["update"], false)]
        {
            let mut call = call(json!({}));
            call.caller.capabilities = capabilities.into_iter().map(str::to_owned).collect();
            assert_eq!(call.demand_sudo().is_ok(), is_sudo);
        }
    }

    #[test]
    fn absent_fields_read_as_empty() {
        let call = call(json!({}));
        assert!(!call.is_given("x") && !call.flag("x") && call.map("x").is_none());
        assert_eq!((call.text("x"), call.seconds("x"), call.list("x")), ("", 0, Vec::new()));
    }

    #[test]
    fn given_fields_read_as_their_kind() {
        let call = call(json!({"t": "a", "f": true, "s": 60, "l": ["a", "b"], "m": {"k": "v"}}));
        assert!(call.is_given("t") && call.flag("f"));
        assert_eq!(
            (call.text("t"), call.seconds("s"), call.list("l")),
            ("a", 60, vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(call.map("m").unwrap().get("k"), Some(&json!("v")));
    }

    #[test]
    fn merge_keeps_absent_and_takes_empty_fields() {
        let (mut text, mut cleared) = ("kept".to_owned(), vec!["old".to_owned()]);
        let call = call(json!({"cleared": []}));
        call.merge("kept", &mut text).unwrap();
        call.merge("cleared", &mut cleared).unwrap();
        assert_eq!((text.as_str(), cleared.len()), ("kept", 0));
    }

    #[test]
    fn number_out_of_range_is_refused_with_range() {
        fn refused<T: DeserializeOwned + Default + PartialEq>(number: Value) -> String {
            let mut length = T::default();
            let why = call(json!({ "length": number })).merge("length", &mut length).unwrap_err();
            assert!(why.kind == FailureKind::InvalidRequest && length == T::default(), "{why}");
            why.message
        }
        let range = |least: &str, most: &str| {
            format!("length cannot be -1; give a whole number from {least} to {most}")
        };
        assert_eq!(refused::<u64>(json!(-1)), range("0", "18446744073709551615"));
        assert_eq!(refused::<u32>(json!(-1)), range("0", "4294967295"));
        assert_eq!(refused::<Option<u16>>(json!(-1)), range("0", "65535"));
        assert_eq!(
            refused::<u8>(json!(i64::MAX)),
            "length cannot be 9223372036854775807; give a whole number from 0 to 255"
        );
        assert!(refused::<i32>(json!(i64::MIN)).ends_with("from -2147483648 to 2147483647"));
    }

    #[test]
    fn merging_other_kind_is_fault_without_value() {
        let mut number = 0_u64;
        let fault = call(json!({"pin": "hunter2"})).merge("pin", &mut number).err().unwrap();
        assert_eq!((fault.kind, number), (FailureKind::Internal, 0));
        assert!(!fault.message.contains("hunter2"), "{}", fault.message);
    }

    #[test]
    fn beyond_the_known_fields_are_the_open_ones() {
        const KNOWN: &[Field] = &[Field::text("mine", "known")];
        let beyond = call(json!({"mine": 1, "yours": 2})).undeclared_fields(KNOWN);
        assert_eq!(Value::Object(beyond), json!({"yours": 2}));
    }
}
