//! Answers of handlers.

use crate::internal::internal_text;
use crate::login::Login;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored::Stored;
use serde::Serialize;
use serde_json::{Map, Value};

/// The answer to a request, with warnings.
///
/// No `Debug`: the answer may carry a secret.
#[derive(Clone, PartialEq)]
pub struct Answer {
    /// The content of the response.
    pub outcome: Outcome,
    /// Warnings for the caller; the host keeps at most 32.
    pub warnings: Vec<String>,
    /// True for data about an object that is not there any more: 404, with the data.
    pub is_absent: bool,
    /// Seconds for which the data may be used, as the envelope's `lease_duration`; there is no
    /// lease.
    pub lease_duration: Option<u64>,
}

/// The content of a response.
#[derive(Clone, PartialEq)]
pub enum Outcome {
    /// The envelope's `data`, as JSON text of an object: the form that the host takes.
    Data(String),
    /// 204 on a write or delete, 404 on a read.
    Nothing,
    /// A secret with a lease.
    Secret(Secret),
    /// A login; the host makes a token from the login. For auth methods only, on rows marked as
    /// logins.
    Login(Box<Login>),
    /// An HTTP answer that replaces the envelope.
    Raw(RawAnswer),
}

/// A secret that ends.
#[derive(Clone, PartialEq)]
pub struct Secret {
    /// The data for the caller.
    pub data: Map<String, Value>,
    /// Lifetime, in seconds; 0 means the mount's default.
    pub ttl: u64,
    /// Maximum lifetime from issue over all renewals, in seconds; 0 means the mount's maximum.
    pub max_ttl: u64,
    /// True if the lease can be renewed.
    pub renewable: bool,
    /// Data for the engine, passed back at renewal and revocation; the caller never sees the data.
    /// Ignored for a secret with a reservation, which has its own internal data.
    pub internal: String,
    /// Tag of the reservation. Only [`Reservation`](crate::reservation::Reservation) sets the tag,
    /// so that no answer can claim a lease that was never written down.
    tag: Option<String>,
}

impl Secret {
    /// Creates a secret that needs no undo, because nothing outside was made for the secret. A
    /// renewal gets `internal` and nothing else.
    ///
    /// # Errors
    /// Internal if `data` does not serialise to an object.
    pub fn without_undo(
        data: &impl Serialize,
        ttl: u64,
        max_ttl: u64,
        internal: &impl Stored,
    ) -> Result<Self, Failure> {
        let internal = internal_text(internal)?;
        Ok(Self { data: object(data)?, ttl, max_ttl, renewable: true, internal, tag: None })
    }

    /// Creates the secret that confirms the reservation `tag`, which holds its own internal data.
    pub(crate) fn confirming(
        tag: String,
        data: &impl Serialize,
        ttl: u64,
        max_ttl: u64,
    ) -> Result<Self, Failure> {
        let (data, internal, tag) = (object(data)?, "{}".to_owned(), Some(tag));
        Ok(Self { data, ttl, max_ttl, renewable: true, internal, tag })
    }

    /// Returns the tag of the reservation that the secret confirms.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }
}

/// A complete HTTP response made by the plugin.
#[derive(Clone, PartialEq, Eq)]
pub struct RawAnswer {
    /// HTTP status.
    pub status: u16,
    /// The `Content-Type` header.
    pub content_type: String,
    /// Body, sent unchanged.
    pub body: Vec<u8>,
}

impl Answer {
    /// Answers 204 on a write or delete, 404 on a read.
    #[must_use]
    pub fn nothing() -> Self {
        Self::of(Outcome::Nothing)
    }

    fn of(outcome: Outcome) -> Self {
        Self { outcome, warnings: Vec::new(), is_absent: false, lease_duration: None }
    }

    /// Answers with the envelope's `data`.
    ///
    /// # Errors
    /// Internal if `data` does not serialise to an object.
    pub fn data(data: &impl Serialize) -> Result<Self, Failure> {
        let text = serde_json::to_string(data).ok().filter(|text| text.starts_with('{'));
        let text = text.ok_or_else(no_object)?;
        Ok(Self::of(Outcome::Data(text)))
    }

    /// Answers 404 with `data`, which say what is left of the object. Only for reads and patches.
    ///
    /// # Errors
    /// As [`Answer::data`].
    pub fn absent(data: &impl Serialize) -> Result<Self, Failure> {
        Ok(Self { is_absent: true, ..Self::data(data)? })
    }

    /// Sets the seconds for which the data may be used.
    #[must_use]
    pub fn usable_for(self, seconds: u64) -> Self {
        Self { lease_duration: Some(seconds), ..self }
    }

    /// Answers with a secret and its lease.
    #[must_use]
    pub fn secret(secret: Secret) -> Self {
        Self::of(Outcome::Secret(secret))
    }

    /// Answers with a login.
    #[must_use]
    pub fn login(login: Login) -> Self {
        Self::of(Outcome::Login(Box::new(login)))
    }

    /// Adds warnings.
    #[must_use]
    pub fn warn(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }
}

/// Returns the object that `value` serialises to. The error never shows the content, which may be a
/// secret.
pub(crate) fn object(value: &impl Serialize) -> Result<Map<String, Value>, Failure> {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(no_object()),
    }
}

fn no_object() -> Failure {
    Failure::internal("the plugin answered data other than an object")
}
