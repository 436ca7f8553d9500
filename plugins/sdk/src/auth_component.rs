//! Bridge between a component and an [`AuthMethod`]: converts the types of the contract and decides
//! nothing.

use crate::answer::{Answer, Outcome, RawAnswer};
use crate::auth_method::{AuthMethod, HeldLogin};
use crate::bindings::auth_method::exports::bulkhead::plugin::auth;
use crate::imports::Imports;
use crate::login::Login;
use crate::translation::{call, context, failure, words};
use bulkhead_wire::failure::Failure;
use std::marker::PhantomData;

/// A component with the answers of `M`.
pub struct AuthComponent<M>(PhantomData<M>);

impl<M: AuthMethod> auth::Guest for AuthComponent<M> {
    /// Returns the description; empty if it cannot be serialised, which registration refuses.
    fn describe() -> String {
        serde_json::to_string(&M::description()).unwrap_or_default()
    }

    fn migrate(host_context: words::Context, from: u32) -> Result<(), words::Failure> {
        M::migrate(&Imports, &context(host_context), from).map_err(failure)
    }

    fn handle(given: words::Call) -> Result<auth::AuthAnswer, words::Failure> {
        let served = call(given).and_then(|call| M::handle(&Imports, &call));
        served.and_then(answer).map_err(failure)
    }

    fn wake(host_context: words::Context, key: String, attempt: u32) -> Result<(), words::Failure> {
        M::wake(&Imports, &context(host_context), &key, attempt).map_err(failure)
    }

    fn renew_login(
        host_context: words::Context,
        host_login: auth::HeldLogin,
        increment: u64,
    ) -> Result<auth::Login, words::Failure> {
        let renewed =
            M::renew_login(&Imports, &context(host_context), &held_login(host_login), increment);
        renewed.and_then(Login::within_bounds).map(login).map_err(failure)
    }

    fn alias_lookahead(given: words::Call) -> Result<Option<String>, words::Failure> {
        call(given).and_then(|call| M::alias_lookahead(&Imports, &call)).map_err(failure)
    }
}

fn held_login(login: auth::HeldLogin) -> HeldLogin {
    HeldLogin {
        alias: login.alias,
        policies: login.policies,
        metadata: login.metadata.into_iter().collect(),
        internal: login.internal,
        issued: login.issued,
        expires: login.expires,
    }
}

/// Converts an answer.
///
/// # Errors
/// For a secret, which this world cannot express, and for a login over its limits.
fn answer(answer: Answer) -> Result<auth::AuthAnswer, Failure> {
    let outcome = match answer.outcome {
        Outcome::Data(data) => auth::Outcome::Data(data),
        Outcome::Nothing => auth::Outcome::Nothing,
        Outcome::Login(one) => auth::Outcome::Login(login(one.within_bounds()?)),
        Outcome::Secret(_) => {
            return Err(Failure::internal("an auth method answered a secret, but has no leases"));
        }
        Outcome::Raw(RawAnswer { status, content_type, body }) => {
            auth::Outcome::Raw(words::RawAnswer { status, content_type, body, ext: Vec::new() })
        }
    };
    Ok(auth::AuthAnswer { outcome, warnings: answer.warnings, ext: Vec::new() })
}

fn login(login: Login) -> auth::Login {
    let token = login.token;
    let metadata = login.alias_metadata.into_iter().collect();
    auth::Login {
        display_name: login.display_name,
        alias: Some(auth::Alias { name: login.alias, metadata, ext: Vec::new() }),
        group_aliases: login.group_aliases,
        policies: token.token_policies,
        metadata: login.metadata.into_iter().collect(),
        internal: login.internal,
        ttl: token.token_ttl,
        max_ttl: token.token_max_ttl,
        explicit_max_ttl: token.token_explicit_max_ttl,
        period: token.token_period,
        num_uses: token.token_num_uses,
        renewable: login.renewable,
        no_default_policy: token.token_no_default_policy,
        token_type: token.token_type,
        bound_cidrs: token.token_bound_cidrs,
        ext: Vec::new(),
    }
}
