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

    fn migrate(told: words::Context, from: u32) -> Result<(), words::Failure> {
        M::migrate(&Imports, &context(told), from).map_err(failure)
    }

    fn handle(given: words::Call) -> Result<auth::AuthAnswer, words::Failure> {
        let served = call(given).and_then(|call| M::handle(&Imports, &call));
        served.and_then(answer).map_err(failure)
    }

    fn wake(told: words::Context, key: String, attempt: u32) -> Result<(), words::Failure> {
        M::wake(&Imports, &context(told), &key, attempt).map_err(failure)
    }

    fn renew_login(
        told: words::Context,
        kept: auth::HeldLogin,
        increment: u64,
    ) -> Result<auth::Login, words::Failure> {
        let renewed = M::renew_login(&Imports, &context(told), &held(kept), increment);
        renewed.and_then(Login::within_bounds).map(login).map_err(failure)
    }

    fn alias_lookahead(given: words::Call) -> Result<Option<String>, words::Failure> {
        call(given).and_then(|call| M::alias_lookahead(&Imports, &call)).map_err(failure)
    }
}

fn held(kept: auth::HeldLogin) -> HeldLogin {
    HeldLogin {
        alias: kept.alias,
        policies: kept.policies,
        metadata: kept.metadata.into_iter().collect(),
        internal: kept.internal,
        issued: kept.issued,
        expires: kept.expires,
    }
}

/// Converts an answer.
///
/// # Errors
/// For a secret, which this world cannot express, and for a login over its limits.
fn answer(made: Answer) -> Result<auth::AuthAnswer, Failure> {
    let outcome = match made.outcome {
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
    Ok(auth::AuthAnswer { outcome, warnings: made.warnings, ext: Vec::new() })
}

fn login(made: Login) -> auth::Login {
    let token = made.token;
    let metadata = made.alias_metadata.into_iter().collect();
    auth::Login {
        display_name: made.display_name,
        alias: Some(auth::Alias { name: made.alias, metadata, ext: Vec::new() }),
        group_aliases: made.group_aliases,
        policies: token.token_policies,
        metadata: made.metadata.into_iter().collect(),
        internal: made.internal,
        ttl: token.token_ttl,
        max_ttl: token.token_max_ttl,
        explicit_max_ttl: token.token_explicit_max_ttl,
        period: token.token_period,
        num_uses: token.token_num_uses,
        renewable: made.renewable,
        no_default_policy: token.token_no_default_policy,
        token_type: token.token_type,
        bound_cidrs: token.token_bound_cidrs,
        ext: Vec::new(),
    }
}
