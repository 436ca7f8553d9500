//! The JSON object around every ordinary answer (decision H3).
//!
//! Typed clients fail on a missing key, so every key is always present, in a fixed order.

use crate::json;
use crate::secret::Secret;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// The envelope of an answer. Start from [`Envelope::default`], and set fields.
#[derive(Clone, Default, PartialEq, Serialize)]
pub struct Envelope {
    /// UUID of the request.
    pub request_id: String,
    /// Lease of the secret in `data`; empty without a lease.
    pub lease_id: String,
    /// The lease can be renewed.
    pub renewable: bool,
    /// Duration of the lease, in seconds.
    pub lease_duration: u64,
    /// `None` is written as `null`.
    pub data: Option<Map<String, Value>>,
    /// The wrapping token, present instead of all other content.
    pub wrap_info: Option<Value>,
    /// An empty list is written as `null`.
    #[serde(serialize_with = "null_when_empty")]
    pub warnings: Vec<String>,
    /// A login or a new token.
    pub auth: Option<AuthBlock>,
    /// Type of the mount that answered, as it was enabled.
    pub mount_type: String,
}

impl Envelope {
    /// Reads an envelope as its client received it; `None` for any other text.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut members = json::object(bytes).ok()?;
        let mut take = |name: &str| members.remove(name);
        let text = |value: Option<Value>| Some(value?.as_str()?.to_owned());
        let auth = match take("auth")? {
            Value::Null => None,
            auth => Some(AuthBlock::read(&auth)?),
        };
        let data = match take("data")? {
            Value::Object(data) => Some(data),
            _ => None,
        };
        Some(Self {
            request_id: text(take("request_id"))?,
            lease_id: text(take("lease_id"))?,
            renewable: take("renewable")?.as_bool()?,
            lease_duration: take("lease_duration")?.as_u64()?,
            data,
            wrap_info: take("wrap_info").filter(|info| !info.is_null()),
            warnings: texts(take("warnings").as_ref()),
            auth,
            mount_type: text(take("mount_type")).unwrap_or_default(),
        })
    }
}

impl AuthBlock {
    fn read(value: &Value) -> Option<Self> {
        let members = value.as_object()?;
        let text = |name: &str| Some(members.get(name)?.as_str()?.to_owned());
        let number = |name: &str| members.get(name)?.as_u64();
        let flag = |name: &str| members.get(name)?.as_bool();
        let pair =
            |(name, text): (&String, &Value)| Some((name.clone(), text.as_str()?.to_owned()));
        let metadata = members.get("metadata").and_then(Value::as_object);
        Some(Self {
            client_token: Secret::new(text("client_token")?),
            accessor: text("accessor")?,
            policies: texts(members.get("policies")),
            token_policies: texts(members.get("token_policies")),
            identity_policies: texts(members.get("identity_policies")),
            metadata: metadata.map(|metadata| metadata.iter().filter_map(pair).collect()),
            lease_duration: number("lease_duration")?,
            renewable: flag("renewable")?,
            entity_id: text("entity_id")?,
            token_type: text("token_type")?,
            orphan: flag("orphan")?,
            num_uses: number("num_uses")?,
        })
    }
}

/// Returns the texts of a list; empty without a list.
fn texts(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A new token for the client. `mfa_requirement: null` is written besides the fields here.
#[derive(Clone, Debug, PartialEq)]
pub struct AuthBlock {
    /// The token.
    pub client_token: Secret,
    /// Identifier of the token, useless for authentication.
    pub accessor: String,
    /// All policies of the token.
    pub policies: Vec<String>,
    /// Policies of the token itself.
    pub token_policies: Vec<String>,
    /// Policies of the token's entity and groups.
    pub identity_policies: Vec<String>,
    /// Metadata set by the login or the token's creation; `None` is written as `null`.
    pub metadata: Option<BTreeMap<String, String>>,
    /// Lifetime in seconds; 0 means unlimited.
    pub lease_duration: u64,
    /// The token can be renewed.
    pub renewable: bool,
    /// Empty if there is no entity.
    pub entity_id: String,
    /// `service` or `batch`.
    pub token_type: String,
    /// The token survives the end of its parent.
    pub orphan: bool,
    /// Remaining uses; 0 means unlimited.
    pub num_uses: u64,
}

impl Serialize for AuthBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Auth", 13)?;
        object.serialize_field("client_token", self.client_token.expose())?;
        object.serialize_field("accessor", &self.accessor)?;
        object.serialize_field("policies", &self.policies)?;
        object.serialize_field("token_policies", &self.token_policies)?;
        object.serialize_field("identity_policies", &self.identity_policies)?;
        object.serialize_field("metadata", &self.metadata)?;
        object.serialize_field("lease_duration", &self.lease_duration)?;
        object.serialize_field("renewable", &self.renewable)?;
        object.serialize_field("entity_id", &self.entity_id)?;
        object.serialize_field("token_type", &self.token_type)?;
        object.serialize_field("orphan", &self.orphan)?;
        object.serialize_field("mfa_requirement", &None::<()>)?;
        object.serialize_field("num_uses", &self.num_uses)?;
        object.end()
    }
}

/// Shows the identifiers and the parts present, never any content.
impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope")
            .field("request_id", &self.request_id)
            .field("lease_id", &self.lease_id)
            .field("lease_duration", &self.lease_duration)
            .field("data", &self.data.as_ref().map(|data| data.keys().collect::<Vec<_>>()))
            .field("wrapped", &self.wrap_info.is_some())
            .field("warnings", &self.warnings.len())
            .field("auth", &self.auth.is_some())
            .field("mount_type", &self.mount_type)
            .finish()
    }
}

fn null_when_empty<S: Serializer>(list: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    if list.is_empty() { serializer.serialize_none() } else { list.serialize(serializer) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn auth() -> AuthBlock {
        AuthBlock {
            client_token: Secret::new("bhs.0123"),
            accessor: "acc".to_owned(),
            policies: vec!["default".to_owned()],
            token_policies: Vec::new(),
            identity_policies: Vec::new(),
            metadata: None,
            lease_duration: 60,
            renewable: true,
            entity_id: String::new(),
            token_type: "service".to_owned(),
            orphan: false,
            num_uses: 0,
        }
    }

    #[test]
    fn an_empty_envelope_has_every_key_in_order() {
        assert_eq!(
            serde_json::to_string(&Envelope::default()).unwrap(),
            concat!(
                r#"{"request_id":"","lease_id":"","renewable":false,"lease_duration":0,"#,
                r#""data":null,"wrap_info":null,"warnings":null,"auth":null,"mount_type":""}"#,
            )
        );
    }

    #[test]
    fn a_token_has_every_key_in_order() {
        assert_eq!(
            serde_json::to_string(&auth()).unwrap(),
            concat!(
                r#"{"client_token":"bhs.0123","accessor":"acc","policies":["default"],"#,
                r#""token_policies":[],"identity_policies":[],"metadata":null,"#,
                r#""lease_duration":60,"renewable":true,"entity_id":"","#,
                r#""token_type":"service","orphan":false,"mfa_requirement":null,"num_uses":0}"#,
            )
        );
    }

    #[test]
    fn filled_parts_are_written_as_they_are() {
        let envelope = Envelope {
            data: json!({ "ttl": 300 }).as_object().cloned(),
            warnings: vec!["w".to_owned()],
            auth: Some(AuthBlock {
                metadata: Some(BTreeMap::from([("role".to_owned(), "a".to_owned())])),
                ..auth()
            }),
            ..Envelope::default()
        };
        let written = serde_json::to_value(&envelope).unwrap();
        assert_eq!(written["data"], json!({ "ttl": 300 }));
        assert_eq!(written["warnings"], json!(["w"]));
        assert_eq!(written["auth"]["metadata"], json!({ "role": "a" }));
    }

    #[test]
    fn an_envelope_is_read_as_it_was_written() {
        let metadata = BTreeMap::from([("role".to_owned(), "a".to_owned())]);
        let filled = Envelope {
            request_id: "5e1c".to_owned(),
            lease_id: "db/creds/r/1".to_owned(),
            renewable: true,
            lease_duration: 60,
            data: json!({ "a": [1, null] }).as_object().cloned(),
            warnings: vec!["w".to_owned()],
            auth: Some(AuthBlock { metadata: Some(metadata), ..auth() }),
            mount_type: "database".to_owned(),
            ..Envelope::default()
        };
        for envelope in [filled, Envelope::default()] {
            let written = serde_json::to_vec(&envelope).unwrap();
            assert!(Envelope::read(&written) == Some(envelope), "{written:?}");
        }
        for other in ["", "{}", "[1]", r#"{"errors":[]}"#] {
            assert!(Envelope::read(other.as_bytes()).is_none(), "{other}");
        }
    }

    #[test]
    fn a_logged_envelope_shows_no_value() {
        let envelope = Envelope {
            data: json!({ "password": "hunter2" }).as_object().cloned(),
            wrap_info: Some(json!({ "token": "bhs.4567" })),
            auth: Some(auth()),
            ..Envelope::default()
        };
        let text = format!("{envelope:?} {:?}", envelope.auth);
        assert!(!text.contains("hunter2") && !text.contains("bhs"), "{text}");
    }
}
