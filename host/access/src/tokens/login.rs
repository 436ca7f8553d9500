//! Tokens of logins: creation, renewal, and their end with the auth mount.
//!
//! This file gets the result of a login as checked values ([`NewLogin`]) and does not know the auth
//! method. A login token is an orphan. Its row names the auth mount as owner, so that all tokens of
//! a mount are found when the mount is disabled. A batch token has no row: it is valid while the
//! mount has its serving row (`login_mount.rs`).

use super::caller::Caller;
use super::create::{CreatedToken, with_accessor};
use super::end::begin_end;
use super::lifetime::{first_whole_second, narrower_networks, shorter};
use super::record::{
    KeptLogin, TokenEnding, TokenRecord, TokenType, login_owner_key, put, read, try_commit,
};
use super::table::Tokens;
use super::{batch, keys};
use crate::identity::{LoginProof, SignedInEntity};
use crate::lifetimes::Lifetimes;
use bulkhead_store::{Address, Space, Store, StoreFault, Unit};
use bulkhead_wire::cidr::Cidr;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::ttl::{self, TtlBounds};
use std::collections::BTreeMap;

/// The requested properties of a login token. Times are in seconds; 0 means not set.
#[derive(Clone)]
pub struct NewLogin {
    /// Service or batch.
    pub kind: TokenType,
    /// Canonical names, sorted, including the policies that the host adds.
    pub policies: Vec<String>,
    /// Name shown by look-ups and audit lines.
    pub display_name: String,
    /// Metadata shown by look-ups and audit lines.
    pub meta: BTreeMap<String, String>,
    /// Request path of the login.
    pub path: String,
    /// UUID of the auth mount.
    pub mount: String,
    /// The entity that signed in.
    pub signed_in: SignedInEntity,
    /// Client networks from which the token may be used; empty for any network.
    pub bound_cidrs: Vec<Cidr>,
    /// Lifetimes set by the login.
    pub times: LoginLifetimes,
    /// Number of uses; 0 means unlimited.
    pub num_uses: u64,
    /// True if the token can be renewed.
    pub renewable: bool,
    /// Data for the renewal of the token.
    pub kept: KeptLogin,
}

/// The lifetimes that a login sets for its token, in seconds; 0 means not set.
#[derive(Clone, Copy, Default)]
pub struct LoginLifetimes {
    /// Lifetime until the first renewal.
    pub ttl: u64,
    /// Maximum lifetime with all renewals.
    pub max_ttl: u64,
    /// Maximum lifetime that no later change of a role or mount extends.
    pub explicit_max_ttl: u64,
    /// Lifetime after each renewal of a periodic token.
    pub period: u64,
}

impl LoginLifetimes {
    /// Returns the bounds within the lifetimes of the mount.
    fn bounds(self, of_mount: Lifetimes) -> TtlBounds {
        TtlBounds {
            role_ttl: self.ttl,
            role_max: self.max_ttl,
            explicit_max: self.explicit_max_ttl,
            period: self.period,
            mount_default: of_mount.default,
            mount_max: of_mount.max,
        }
    }
}

/// The result of a renewal that the auth method accepted.
pub struct RenewedLogin {
    /// Lifetimes set by the login.
    pub times: LoginLifetimes,
    /// Lifetime requested by the caller, in seconds from now; 0 means the login's lifetime.
    pub increment: u64,
    /// True if the token can be renewed.
    pub renewable: bool,
    /// Present client networks of the login; empty for any network. The token keeps the addresses
    /// that are also in its own networks.
    pub bound_cidrs: Vec<Cidr>,
    /// Data for the next renewal of the token.
    pub kept: KeptLogin,
    /// The proof that replaces the token's proof.
    pub proof: LoginProof,
}

/// Counts the service tokens created by logins at the mount with this UUID, or at any mount if
/// `mount` is empty. Counting stops at `at_most`.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the database cannot be read.
pub async fn count_of_logins(store: &Store, mount: &str, at_most: u32) -> Result<u32, StoreFault> {
    store.count_owned(Space::Token, &login_owner_key(mount), at_most).await
}

impl Tokens {
    /// Creates the token of a login in the login's unit of work. `of_mount` are the mount's
    /// lifetimes.
    ///
    /// # Errors
    /// 400 if the mount creates batch tokens and the login requests a property that batch tokens
    /// cannot have.
    pub fn create_login(
        &self,
        unit: &mut Unit,
        new: NewLogin,
        of_mount: Lifetimes,
    ) -> Result<CreatedToken, Failure> {
        let (kind, now_ms) = (new.kind, self.store.now());
        if kind == TokenType::Batch {
            refuse_for_batch(&new)?;
        }
        let now = now_ms / 1000;
        let granted = ttl::grant(&new.times.bounds(of_mount), 0, now, now)?;
        let record = TokenRecord {
            accessor: String::new(),
            policies: new.policies,
            display_name: new.display_name,
            parent: None,
            path: new.path,
            role: String::new(),
            entity_id: new.signed_in.entity_id,
            meta: new.meta,
            bound_cidrs: new.bound_cidrs,
            issued: now,
            creation_ttl: granted.ttl,
            expires: Some(first_whole_second(now_ms).saturating_add(granted.ttl)),
            explicit_max_ttl: new.times.explicit_max_ttl,
            period: new.times.period,
            renewable: new.renewable && kind == TokenType::Service,
            last_renewal: None,
            renewed_ttl: None,
            uses_left: (new.num_uses > 0).then_some(new.num_uses),
            used_up: None,
            ended: None,
            end_cause: None,
            mount: new.mount,
            login: Some(new.kept),
            proof: Some(new.signed_in.proof),
            prover: String::new(),
        };
        if kind == TokenType::Batch {
            let token = batch::seal(&self.store, &record)?;
            let caller = Caller::batch(&self.store, &token, record);
            return Ok(CreatedToken { token, caller, warning: granted.warning });
        }
        let token = keys::generate_text()?;
        let caller = with_accessor(self.store.hashes(), &token, record);
        put(unit, &caller.hash, &caller.record)?;
        Ok(CreatedToken { token, caller, warning: granted.warning })
    }

    /// Renews the login token in the row `key` as the auth method allows. Returns the stored
    /// record, and a warning if less was granted than requested.
    ///
    /// # Errors
    /// 400 if the token has ended meanwhile, is past its maximum, or if no address is in its
    /// networks and in those of the login.
    pub async fn renew_login(
        &self,
        unit: &mut Unit,
        key: &str,
        renewed: &RenewedLogin,
        of_mount: Lifetimes,
    ) -> Result<(TokenRecord, Option<String>), Failure> {
        let now = self.store.now();
        let record = read(unit, key).await?.filter(|record| record.is_alive(now));
        let record = record.ok_or_else(|| Failure::invalid("the token ended meanwhile"))?;
        // The maximum from the creation always applies; the role's current maximum applies too.
        let explicit_max_ttl = shorter(record.explicit_max_ttl, renewed.times.explicit_max_ttl);
        let times = LoginLifetimes { explicit_max_ttl, ..renewed.times };
        let bound_cidrs = narrower_networks(&record.bound_cidrs, &renewed.bound_cidrs)?;
        let begins = first_whole_second(now);
        let granted =
            ttl::grant(&times.bounds(of_mount), renewed.increment, record.issued, begins)?;
        let record = TokenRecord {
            expires: Some(begins.saturating_add(granted.ttl)),
            last_renewal: Some(now / 1000),
            renewed_ttl: Some(granted.ttl),
            explicit_max_ttl,
            period: times.period,
            renewable: renewed.renewable,
            bound_cidrs,
            login: Some(renewed.kept.clone()),
            proof: Some(renewed.proof.clone().keep_groups_of(record.proof.as_ref())),
            ..TokenRecord::clone(&record)
        };
        put(unit, key, &record)?;
        Ok((record, granted.warning))
    }

    /// Ends every service token created by a login at the mount with this UUID, with its
    /// descendants.
    ///
    /// # Errors
    /// The store's failure. Tokens reached before the failure have ended.
    pub async fn end_logins_of(&self, mount: &str) -> Result<(), Failure> {
        let mut tokens = self.store.scan_owned(Space::Token, login_owner_key(mount).as_str());
        while let Some(page) = tokens.page().await? {
            for key in self.end_page(&page).await? {
                self.spread_end(&key).await?;
            }
        }
        Ok(())
    }

    /// Ends the tokens of a page. Returns the keys of the ended tokens.
    async fn end_page(&self, page: &[Address]) -> Result<Vec<String>, Failure> {
        loop {
            let (mut unit, mut ended) = (self.store.begin(), Vec::new());
            for Address { key, .. } in page {
                let found = self.read_or_log(&mut unit, key).await?;
                if let Some(record) = found.filter(|record| record.ended.is_none()) {
                    begin_end(&mut unit, key, &record, TokenEnding::WithChildren)?;
                    ended.push(key.clone());
                }
            }
            if try_commit(unit).await? {
                return Ok(ended);
            }
        }
    }
}

/// Refuses properties that a batch token cannot have. A batch token is not stored, so its uses
/// cannot be counted and its lifetime cannot be extended.
fn refuse_for_batch(new: &NewLogin) -> Result<(), Failure> {
    let properties = [("num_uses", new.num_uses), ("a period", new.times.period)];
    match properties.into_iter().find(|(_, value)| *value > 0) {
        Some((property, _)) => Err(Failure::invalid(format!(
            "this login gives a batch token, which cannot have {property}; change the token_type \
             of the mount or of the role, or take {property} out of the role"
        ))),
        None => Ok(()),
    }
}
