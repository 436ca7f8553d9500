//! Renewing the token of a login: the auth method proves the login again from the kept data, the
//! host applies the limits and stores the new end.
//!
//! This file prevents a token from outliving the rights that its login would give now. The auth
//! method must confirm each renewal, and a renewal with different policies is refused.

use super::attempts::CallAttempts;
use crate::core::Core;
use crate::host_services::BackgroundServices;
use crate::logins::{self, ProvenLogin};
use crate::mounts::{Mount, OpenedMount};
use crate::permit::Permit;
use bulkhead_access::tokens::{self, Caller, KeptLogin, TokenRecord, TokenType};
use bulkhead_sandbox::{CallOutcome, CallPriority, contract};
use bulkhead_store::Unit;
use bulkhead_wire::failure::{Failure, FailureKind};
use std::sync::Arc;

/// Renews the token of a login by `increment` seconds from now; 0 stands for the lifetime of the
/// login. Returns the stored record and warnings.
///
/// # Errors
/// 400 if the token is not renewable or past the maximum, or the policies would change; the auth
/// method's refusal; 503 if the mount is being disabled or moved, or waits for its plugin.
pub async fn renew_login(
    core: &Arc<Core>,
    token: &Caller,
    stored_login: &KeptLogin,
    increment: u64,
) -> Result<(TokenRecord, Option<String>), Failure> {
    may_be_renewed(token)?;
    let uuid = &token.record.mount;
    core.mounts.by_uuid(uuid).ok_or_else(|| core.mounts.missing_failure(uuid))?;
    let leaves = "the mount of the login is being disabled or moved; try again later";
    let (mount, _inside) = core
        .mounts
        .enter_by_uuid(uuid)
        .await
        .ok_or_else(|| Failure::new(FailureKind::Unavailable, leaves))?;
    let claim = core.claims.claim_in_turn(&tokens::address(&token.hash)).await?;
    let permit = Permit::for_due_work(&claim);
    let renewal = LoginRenewal { core, opened: core.mounts.open(&mount, &permit), mount: &mount };
    let work = BackgroundServices::for_caller(core, &mount);
    let mut attempts = CallAttempts::for_caller(core, work.deadline());
    let renewed = loop {
        let mut unit = attempts.begin(mount.begin(&core.store));
        let renewed = match mount.fence(&core.store, &mut unit).await {
            Ok(()) => renewal.attempt(&work, unit, (token, stored_login), increment).await,
            Err(failure) => Err(failure),
        };
        if !attempts.continue_after(&renewed).await {
            break renewed;
        }
    };
    work.release_guards().await;
    renewed
}

fn may_be_renewed(token: &Caller) -> Result<(), Failure> {
    if token.kind == TokenType::Batch {
        return Err(Failure::invalid("batch tokens cannot be renewed; log in again"));
    }
    if !token.record.renewable {
        return Err(Failure::invalid(
            "lease is not renewable: the login made a token without renewal",
        ));
    }
    Ok(())
}

/// A renewal of a login.
struct LoginRenewal<'a> {
    core: &'a Core,
    opened: OpenedMount<'a>,
    mount: &'a Mount,
}

impl LoginRenewal<'_> {
    /// Asks the auth method, and stores the proven login.
    async fn attempt(
        &self,
        work: &BackgroundServices,
        unit: Unit,
        (token, stored_login): (&Caller, &KeptLogin),
        increment: u64,
    ) -> Result<(TokenRecord, Option<String>), Failure> {
        let admitted = work.enter(CallPriority::Foreground).await?;
        let (scope, context) = (work.scope(&self.opened), work.context(None));
        let login = held_login(&token.record, stored_login);
        let engine = self.opened.engine;
        let CallOutcome { unit, result, ended } =
            engine.renew_login(scope, unit, &context, &login, increment).await;
        work.note_end(admitted, ended);
        let proven = check(self.mount, stored_login, result?)?;
        store(self.core, self.mount, token, unit, (&proven, increment)).await
    }
}

/// Returns the login in the types of the contract.
fn held_login(record: &TokenRecord, stored_login: &KeptLogin) -> contract::HeldLogin {
    contract::HeldLogin {
        alias: stored_login.alias.clone(),
        policies: stored_login.policies.clone(),
        metadata: record.meta.clone().into_iter().collect(),
        internal: stored_login.internal.clone(),
        issued: record.issued.saturating_mul(1000),
        expires: record.expires.unwrap_or_default().saturating_mul(1000),
        ext: Vec::new(),
    }
}

/// Returns the login in its current form, if alias and policies are unchanged.
fn check(
    mount: &Mount,
    stored_login: &KeptLogin,
    login: contract::Login,
) -> Result<ProvenLogin, Failure> {
    let proven = ProvenLogin::of(mount, login)?;
    if proven.kept.alias != stored_login.alias {
        let title = mount.plugin.identity().title();
        return Err(Failure::internal(format!(
            "{title} renewed a login for another alias; nothing was stored"
        )));
    }
    if proven.kept.policies != stored_login.policies {
        return Err(Failure::invalid(
            "the policies of this login have changed since, and a token keeps its first policies: \
             log in again",
        ));
    }
    Ok(proven)
}

/// Stores the new end in the commit of the auth method's changes.
async fn store(
    core: &Core,
    mount: &Mount,
    token: &Caller,
    unit: Unit,
    (proven, increment): (&ProvenLogin, u64),
) -> Result<(TokenRecord, Option<String>), Failure> {
    let of_mount = mount.lifetimes(core.lifetimes);
    let mut finish = unit.finish();
    loop {
        let unit = finish.restart_host_part();
        let entity = &token.record.entity_id;
        let proof = logins::sign_in_again(core, unit, mount, proven, entity).await?;
        let renewed = proven.renewed(increment, proof);
        let stored = core.tokens.renew_login(unit, &token.hash, &renewed, of_mount).await?;
        if finish.try_commit().await? {
            return Ok(stored);
        }
    }
}
