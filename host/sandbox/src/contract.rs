//! Types of `wit/types.wit` and `wit/auth.wit`: plain data that the layers above use, too.

use crate::bindings::auth_method::exports::bulkhead::plugin::auth;
use crate::bindings::secrets_engine::bulkhead::plugin::types;

pub use crate::bindings::auth_method::exports::bulkhead::plugin::auth::{Alias, HeldLogin, Login};
pub use crate::bindings::raw_engine::exports::bulkhead::plugin::raw::{
    Header as RawHeader, Park, Reply as RawReply, Request as RawRequest,
};
pub use crate::bindings::secrets_engine::bulkhead::plugin::types::{
    Call, Caller, Context, Failure, Lease, Mount, RawAnswer, Secret,
};
pub use crate::bindings::secrets_engine::exports::bulkhead::plugin::leased::Renewal;

/// The answer of a mountable component, in the types of either world. Only an auth method can
/// answer a login, and only a secrets engine a lease.
pub struct ComponentAnswer {
    /// The caller's result.
    pub outcome: AnswerPayload,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
    /// Pairs for later additions to the contract.
    pub ext: Vec<(String, String)>,
}

/// The caller's result.
pub enum AnswerPayload {
    /// A JSON object, the envelope's `data`.
    Data(String),
    /// No data.
    Nothing,
    /// A secret with a lease.
    Secret(Secret),
    /// A login; core creates the token.
    Login(Box<Login>),
    /// An HTTP answer that replaces the envelope.
    Raw(RawAnswer),
}

impl From<types::Answer> for ComponentAnswer {
    fn from(answered: types::Answer) -> Self {
        let outcome = match answered.outcome {
            types::Outcome::Data(text) => AnswerPayload::Data(text),
            types::Outcome::Nothing => AnswerPayload::Nothing,
            types::Outcome::Secret(secret) => AnswerPayload::Secret(secret),
            types::Outcome::Raw(raw) => AnswerPayload::Raw(raw),
        };
        Self { outcome, warnings: answered.warnings, ext: answered.ext }
    }
}

impl From<auth::AuthAnswer> for ComponentAnswer {
    fn from(answered: auth::AuthAnswer) -> Self {
        let outcome = match answered.outcome {
            auth::Outcome::Data(text) => AnswerPayload::Data(text),
            auth::Outcome::Nothing => AnswerPayload::Nothing,
            auth::Outcome::Login(login) => AnswerPayload::Login(Box::new(login)),
            auth::Outcome::Raw(raw) => AnswerPayload::Raw(raw),
        };
        Self { outcome, warnings: answered.warnings, ext: answered.ext }
    }
}

/// Returns the number of bytes of all texts of a login.
pub(crate) fn login_size(login: &Login) -> usize {
    let texts = |list: &[String]| list.iter().map(String::len).sum::<usize>();
    let pairs = |list: &[(String, String)]| {
        list.iter().map(|(name, value)| name.len().saturating_add(value.len())).sum::<usize>()
    };
    [
        login.display_name.len(),
        login.alias.as_ref().map_or(0, |alias| alias.name.len() + pairs(&alias.metadata)),
        login.group_aliases.as_deref().map_or(0, texts),
        texts(&login.policies),
        pairs(&login.metadata),
        login.internal.len(),
        login.token_type.len(),
        texts(&login.bound_cidrs),
    ]
    .into_iter()
    .fold(0, usize::saturating_add)
}
