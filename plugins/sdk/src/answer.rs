//! What a handler answers.

use crate::internal::internal_text;
use crate::login::Login;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored::Stored;
use serde::Serialize;
use serde_json::{Map, Value};

/// An answer: what the caller gets, and warnings beside it.
///
/// No `Debug`: it may carry a secret.
#[derive(Clone, PartialEq)]
pub struct Answer {
    /// What the caller gets.
    pub outcome: Outcome,
    /// Shown to the caller; the host keeps at most 32.
    pub warnings: Vec<String>,
}

/// What the caller gets.
#[derive(Clone, PartialEq)]
pub enum Outcome {
    /// The envelope's `data`: an object as JSON text, which is what the host takes.
    Data(String),
    /// 204 on a write or delete, 404 on a read.
    Nothing,
    /// A secret with a lease.
    Secret(Secret),
    /// A login, of which the host makes a token: auth methods only, on rows marked so.
    Login(Box<Login>),
    /// An HTTP answer that replaces the envelope.
    Raw(Raw),
}

/// A secret with an end.
#[derive(Clone, PartialEq)]
pub struct Secret {
    /// What the caller gets.
    pub data: Map<String, Value>,
    /// Seconds; 0 asks for the mount's default.
    pub ttl: u64,
    /// Seconds from issue, over all renewals; 0 means the mount's maximum.
    pub max_ttl: u64,
    /// Whether the lease may be prolonged.
    pub renewable: bool,
    /// Comes back at renewal and revocation; the caller never sees it. A reservation holds its own.
    pub internal: String,
    /// Set by [`Reservation`](crate::reservation::Reservation) alone, so that no answer can claim a
    /// lease that was never written down.
    tag: Option<String>,
}

impl Secret {
    /// A secret that needs no undo, because nothing outside was made for it. `internal` is all that
    /// its renewal will know.
    ///
    /// # Errors
    /// Internal when `data` does not serialise to an object.
    pub fn without_undo(
        data: &impl Serialize,
        ttl: u64,
        max_ttl: u64,
        internal: &impl Stored,
    ) -> Result<Self, Failure> {
        let internal = internal_text(internal)?;
        Ok(Self { data: object(data)?, ttl, max_ttl, renewable: true, internal, tag: None })
    }

    /// The secret that confirms the reservation `tag`, which holds its own internal data.
    pub(crate) fn confirming(
        tag: String,
        data: &impl Serialize,
        ttl: u64,
        max_ttl: u64,
    ) -> Result<Self, Failure> {
        let (data, internal, tag) = (object(data)?, "{}".to_owned(), Some(tag));
        Ok(Self { data, ttl, max_ttl, renewable: true, internal, tag })
    }

    /// The reservation that it confirms.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }
}

/// An HTTP answer of the plugin's own making.
#[derive(Clone, PartialEq, Eq)]
pub struct Raw {
    /// HTTP status.
    pub status: u16,
    /// Content type.
    pub content_type: String,
    /// Body as it goes out.
    pub body: Vec<u8>,
}

impl Answer {
    /// 204 on a write or delete, 404 on a read.
    #[must_use]
    pub fn nothing() -> Self {
        Self { outcome: Outcome::Nothing, warnings: Vec::new() }
    }

    /// The envelope's `data`.
    ///
    /// # Errors
    /// Internal when `data` does not serialise to an object.
    pub fn data(data: &impl Serialize) -> Result<Self, Failure> {
        let text = serde_json::to_string(data).ok().filter(|text| text.starts_with('{'));
        let text = text.ok_or_else(no_object)?;
        Ok(Self { outcome: Outcome::Data(text), warnings: Vec::new() })
    }

    /// A secret with a lease.
    #[must_use]
    pub fn secret(secret: Secret) -> Self {
        Self { outcome: Outcome::Secret(secret), warnings: Vec::new() }
    }

    /// A login.
    #[must_use]
    pub fn login(login: Login) -> Self {
        Self { outcome: Outcome::Login(Box::new(login)), warnings: Vec::new() }
    }

    /// Adds warnings.
    #[must_use]
    pub fn warn(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }
}

/// The object that `value` serialises to. What it holds stays out of the error: it may be a secret.
pub(crate) fn object(value: &impl Serialize) -> Result<Map<String, Value>, Failure> {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(no_object()),
    }
}

fn no_object() -> Failure {
    Failure::internal("the plugin answered data that is not an object")
}
