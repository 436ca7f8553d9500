//! Response wrapping: answers that are stored under a wrapping token until the token is used.
//!
//! Prevents a second reader of a wrapped answer. The commit that ends the token also deletes the
//! answer, and precedes the answer of the unwrapping request: if the process dies in between, the
//! wrapped answer is lost, and nobody else can read it. An answer also goes with its token if the
//! token expires or is revoked ([`erase`]).
//!
//! The record of a wrapping token names the content, and the content lies apart in pieces: wrapping
//! an answer again moves the name only.

mod content;

use bulkhead_access::random;
use bulkhead_access::timestamp::timestamp;
use bulkhead_access::tokens::{
    self, Caller, CreatedToken, NewWrapping, TokenEnding, TokenType, Tokens,
};
use bulkhead_store::{Address, IndexColumns, Space, Store, StoreFault, Unit};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// An answer as its client would have received it.
pub(crate) struct ClientAnswer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) bytes: Vec<u8>,
    /// Accessor of the token that the answer hands out; empty without a token.
    pub(crate) accessor: String,
}

/// The stored description of a wrapped answer.
#[derive(Clone, Serialize, Deserialize)]
struct WrappedAnswer {
    /// Id of the content.
    content: String,
    /// Length of the content in bytes.
    bytes: usize,
    status: u16,
    content_type: String,
    /// Accessor of the wrapped token; empty without a token.
    #[serde(default)]
    accessor: String,
}

stored!(WrappedAnswer, "wrapped-answer", reads_stored_wrapped_answers);

/// A wrapping token that holds an answer.
pub(crate) struct WrappingToken {
    token: Caller,
    answer: WrappedAnswer,
}

/// Returns the address of the answer of the token with this row key.
fn address(token: &str) -> Address {
    Address::new(Space::Core, format!("wrapped/{token}"))
}

/// Stores the answer, and returns the `wrap_info` of its wrapping token.
///
/// # Errors
/// The store's failure. The token then ends at its time, without having been handed out.
pub(crate) async fn wrap(
    store: &Arc<Store>,
    tokens: &Tokens,
    new: NewWrapping,
    answer: ClientAnswer,
) -> Result<Value, Failure> {
    let ClientAnswer { status, content_type, bytes, accessor } = answer;
    let content = random::random_hex::<16>()?;
    let row = WrappedAnswer { content, bytes: bytes.len(), status, content_type, accessor };
    let mut unit = store.begin();
    let made = tokens.create_wrapping(&mut unit, new)?;
    unit.put(address(&made.caller.hash), row.to_bytes()?, IndexColumns::default());
    // The token comes first: if the process dies between two pieces, the end of the token removes
    // the pieces.
    content::put_content(store, unit, &row.content, &bytes).await?;
    Ok(wrap_info(&made, &row.accessor))
}

/// Returns the wrapping token with its answer; `None` for any other token.
///
/// # Errors
/// The store's failure.
pub(crate) async fn of_token(
    unit: &mut Unit,
    token: Caller,
) -> Result<Option<WrappingToken>, Failure> {
    if token.kind != TokenType::Service || !token.record.is_wrapping() {
        return Ok(None);
    }
    let Some(row) = unit.get(&address(&token.hash)).await? else { return Ok(None) };
    let answer = WrappedAnswer::from_bytes(&row.body);
    let answer = answer.map_err(|unreadable| unreadable.of("the record of a wrapped answer"))?;
    Ok(Some(WrappingToken { token, answer }))
}

impl WrappingToken {
    /// Returns the token's creation TTL, creation time and creation path.
    pub(crate) fn creation(&self) -> [(&'static str, Value); 3] {
        let record = &self.token.record;
        [
            ("creation_ttl", json!(record.creation_ttl)),
            ("creation_time", timestamp(record.issued)),
            ("creation_path", json!(record.path)),
        ]
    }

    /// Takes the answer out: the unit ends the token and deletes the answer.
    ///
    /// # Errors
    /// A conflict if a piece of the answer is missing: another request has opened the answer since
    /// this one read its description.
    pub(crate) async fn open(self, unit: &mut Unit) -> Result<ClientAnswer, Failure> {
        let WrappedAnswer { content, bytes, status, content_type, accessor } = self.answer;
        let Some(bytes) = content::take_content(unit, &content, bytes).await? else {
            return Err(Failure::new(FailureKind::Conflict, "the wrapped answer is being opened"));
        };
        end(unit, &self.token)?;
        Ok(ClientAnswer { status, content_type, bytes, accessor })
    }

    /// Moves the answer to a new token with the same lifetime and path, and ends this token.
    /// Returns the new `wrap_info`.
    ///
    /// # Errors
    /// The store's failure.
    pub(crate) fn rewrap(self, unit: &mut Unit, tokens: &Tokens) -> Result<Value, Failure> {
        let record = &self.token.record;
        let new = NewWrapping { path: record.path.clone(), ttl: record.creation_ttl };
        let made = tokens.create_wrapping(unit, new)?;
        unit.put(address(&made.caller.hash), self.answer.to_bytes()?, IndexColumns::default());
        end(unit, &self.token)?;
        Ok(wrap_info(&made, &self.answer.accessor))
    }
}

/// Ends the token, and deletes the description of its answer.
fn end(unit: &mut Unit, token: &Caller) -> Result<(), Failure> {
    unit.delete(address(&token.hash));
    tokens::begin_end(unit, &token.hash, &token.record, TokenEnding::WithChildren)
}

/// Deletes the answer of an ended token, if there is one.
///
/// # Errors
/// The store's failure.
pub(crate) async fn erase(store: &Arc<Store>, token: &str) -> Result<(), Failure> {
    let mut unit = store.begin();
    let row = match unit.get(&address(token)).await {
        // The content of a damaged record cannot be found any more.
        Err(StoreFault::Damaged(_)) => None,
        row => match row? {
            None => return Ok(()),
            row => row.and_then(|row| WrappedAnswer::from_bytes(&row.body).ok()),
        },
    };
    let mut unit = store.begin();
    if let Some(WrappedAnswer { content, bytes, .. }) = row {
        content::delete(&mut unit, &content, bytes);
    }
    unit.delete(address(token));
    unit.commit().await?;
    Ok(())
}

fn wrap_info(made: &CreatedToken, wrapped_accessor: &str) -> Value {
    let record = &made.caller.record;
    let wrapped = Some(json!(wrapped_accessor)).filter(|_| !wrapped_accessor.is_empty());
    let members = [
        ("token", Some(json!(made.token.expose()))),
        ("accessor", Some(json!(record.accessor))),
        ("ttl", Some(json!(record.creation_ttl))),
        ("creation_time", Some(timestamp(record.issued))),
        ("creation_path", Some(json!(record.path))),
        ("wrapped_accessor", wrapped),
    ];
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
