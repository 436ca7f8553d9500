//! Response wrapping: answers that are stored under a wrapping token until the token is used.
//!
//! This file prevents a second reader of a wrapped answer. The commit that ends the token also
//! deletes the answer, and precedes the answer of the unwrapping request: if the process dies in
//! between, the wrapped answer is lost, and nobody else can read it. An answer also goes with its
//! token if the token expires or is revoked ([`erase`]).
//!
//! The record of a wrapping token names the content, and the content lies apart in pieces: wrapping
//! an answer again moves the name only. The content counts for the caller of the request
//! ([`WrappingPayer`]).

mod content;
mod payer;

use crate::timestamp::timestamp;
use crate::tokens::{self, Caller, CreatedToken, NewWrapping, TokenEnding, TokenType, Tokens};
use bulkhead_store::{Address, IndexColumns, Space, Store, StoreFault, Unit};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
pub use payer::WrappingPayer;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// Maximum number of attempts to store an answer, in case of conflicts with the caller's token.
const ATTEMPTS: u32 = 64;

/// An answer as its client would have received it.
pub struct ClientAnswer {
    /// HTTP status, repeated by the unwrapping request.
    pub status: u16,
    /// Value of the `Content-Type` header.
    pub content_type: String,
    /// Body of the answer.
    pub bytes: Vec<u8>,
    /// Accessor of the token that the answer hands out; empty without a token.
    pub accessor: String,
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
pub struct WrappingToken {
    token: Caller,
    answer: WrappedAnswer,
}

/// Returns the address of the answer of the token with this row key.
fn address(token: &str) -> Address {
    Address::new(Space::Core, format!("wrapped/{token}"))
}

/// An answer to wrap.
pub struct NewWrapped<'a> {
    /// Path of the request.
    pub path: &'a str,
    /// Requested lifetime of the wrapping token, in seconds.
    pub ttl: u64,
    /// Answer to store until the wrapping token is used or ends.
    pub answer: ClientAnswer,
    /// Caller charged for the stored bytes.
    pub payer: WrappingPayer,
    /// The caller whose own data the answer holds: the wrapping token ends with the caller's token.
    /// `None` if the answer outlives the caller's token.
    pub owner: Option<&'a Caller>,
}

/// Stores the answer, and returns the `wrap_info` of its wrapping token.
///
/// # Errors
/// 429 if a limit of stored bytes is reached, 400 if the owner has no uses left, or the store's
/// failure. The wrapping token then ends without having been handed out.
pub async fn wrap(
    store: &Arc<Store>,
    tokens: &Tokens,
    new: NewWrapped<'_>,
) -> Result<Value, Failure> {
    if let Some(owner) = new.owner {
        owner.may_hold_leases()?;
    }
    let NewWrapped { answer: ClientAnswer { status, content_type, bytes, accessor }, .. } = &new;
    let row = WrappedAnswer {
        content: content::new_id(&new.payer)?,
        bytes: bytes.len(),
        status: *status,
        content_type: content_type.clone(),
        accessor: accessor.clone(),
    };
    // The token comes first: if the process dies between two pieces, the end of the token removes
    // the pieces.
    let token = store_token(store, tokens, &new, &row).await?;
    if let Err(failure) = content::put_rest(store, &new.payer, &row.content, bytes).await {
        let mut unit = store.begin();
        end(&mut unit, &token.caller)?;
        content::delete(&mut unit, &row.content, row.bytes);
        unit.commit().await?;
        return Err(failure);
    }
    Ok(wrap_info(&token, &row.accessor))
}

/// Stores the wrapping token with the first pieces of the answer. After a conflict with a change of
/// the owner's token, such as a use that another request took, the token is stored anew.
async fn store_token(
    store: &Arc<Store>,
    tokens: &Tokens,
    new: &NewWrapped<'_>,
    row: &WrappedAnswer,
) -> Result<CreatedToken, Failure> {
    let mut attempts = 1;
    loop {
        let mut unit = content::within(store, &new.payer);
        let (parent, ttl) = match new.owner {
            Some(owner) => bound_to(store, &mut unit, owner, new.ttl).await?,
            None => (None, new.ttl),
        };
        let new_token = NewWrapping { path: new.path.to_owned(), ttl, parent };
        let token = tokens.create_wrapping(&mut unit, new_token)?;
        unit.put(address(&token.caller.hash), row.to_bytes()?, IndexColumns::default());
        content::put_first(&mut unit, &row.content, &new.answer.bytes);
        match unit.commit().await {
            Err(StoreFault::Conflict) if attempts < ATTEMPTS => attempts += 1,
            committed => {
                committed?;
                tokens.counts.of(token.caller.kind).note_created();
                return Ok(token);
            }
        }
    }
}

/// Returns parent and lifetime of a wrapping token that ends with the owner's token. The commit
/// asserts that the owner's token is valid.
async fn bound_to(
    store: &Store,
    unit: &mut Unit,
    owner: &Caller,
    ttl: u64,
) -> Result<(Option<String>, u64), Failure> {
    let owner = tokens::assert_valid(store, unit, owner).await?;
    let parent = Some(owner.lease_owner().to_owned()).filter(|parent| !parent.is_empty());
    let longest = owner.record.longest_dependent(store.now());
    Ok((parent, longest.map_or(ttl, |longest| ttl.min(longest))))
}

/// Returns the wrapping token with its answer; `None` for any other token.
///
/// # Errors
/// The store's failure.
pub async fn of_token(unit: &mut Unit, token: Caller) -> Result<Option<WrappingToken>, Failure> {
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
    pub fn creation(&self) -> [(&'static str, Value); 3] {
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
    pub async fn open(self, unit: &mut Unit) -> Result<ClientAnswer, Failure> {
        let WrappedAnswer { content, bytes, status, content_type, accessor } = self.answer;
        let Some(bytes) = content::take_content(unit, &content, bytes).await? else {
            return Err(Failure::new(FailureKind::Conflict, "the wrapped answer is being opened"));
        };
        end(unit, &self.token)?;
        Ok(ClientAnswer { status, content_type, bytes, accessor })
    }

    /// Moves the answer to a new token with the same lifetime, path and parent, and ends this
    /// token. Returns the new `wrap_info`.
    ///
    /// # Errors
    /// 400 if the parent has ended; the store's failure.
    pub async fn rewrap(
        self,
        store: &Store,
        unit: &mut Unit,
        tokens: &Tokens,
    ) -> Result<Value, Failure> {
        let record = &self.token.record;
        let (mut ttl, parent) = (record.creation_ttl, record.parent.clone());
        if let Some(parent) = &parent {
            let now = store.now();
            let found = tokens::read(unit, parent).await?.filter(|record| record.is_alive(now));
            let found = found
                .ok_or_else(|| Failure::invalid("the parent of this wrapping token has ended"))?;
            ttl = found.longest_dependent(now).map_or(ttl, |longest| ttl.min(longest));
        }
        let new = NewWrapping { path: record.path.clone(), ttl, parent };
        let token = tokens.create_wrapping(unit, new)?;
        unit.put(address(&token.caller.hash), self.answer.to_bytes()?, IndexColumns::default());
        end(unit, &self.token)?;
        Ok(wrap_info(&token, &self.answer.accessor))
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
pub async fn erase(store: &Arc<Store>, token: &str) -> Result<(), Failure> {
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

fn wrap_info(token: &CreatedToken, wrapped_accessor: &str) -> Value {
    let record = &token.caller.record;
    let wrapped = Some(json!(wrapped_accessor)).filter(|_| !wrapped_accessor.is_empty());
    let members = [
        ("token", Some(json!(token.token.expose()))),
        ("accessor", Some(json!(record.accessor))),
        ("ttl", Some(json!(record.creation_ttl))),
        ("creation_time", Some(timestamp(record.issued))),
        ("creation_path", Some(json!(record.path))),
        ("wrapped_accessor", wrapped),
    ];
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
