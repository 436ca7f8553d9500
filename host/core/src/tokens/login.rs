//! Tokens of logins: how they are made, renewed, and ended with their mount.
//!
//! Knows what an auth method proved only as words that were checked before ([`NewLogin`]); never
//! the method itself. Such a token is an orphan. Its row names the mount as its owner, so that the
//! mount finds all of them when it goes. Of a batch token there is no row: it holds as long as the
//! mount has the row that says so (`login_mount.rs`).

use super::caller::Caller;
use super::create::{Made, with_accessor};
use super::end::begin_end;
use super::lifetime::{first_whole_second, shorter};
use super::record::{Ending, KeptLogin, TokenRecord, TokenType, owner, put, read, try_commit};
use super::table::Tokens;
use super::{batch, keys};
use crate::identity::{Proof, SignedIn};
use crate::lifetimes::Lifetimes;
use bulkhead_store::{Address, Space, Store, StoreFault, Unit};
use bulkhead_wire::cidr::Cidr;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::ttl::{self, Bounds};
use std::collections::BTreeMap;

/// What the token of a login is to be. Times are in seconds; 0 says nothing.
#[derive(Clone)]
pub(crate) struct NewLogin {
    pub(crate) kind: TokenType,
    /// In canonical form and in order, with what the host adds.
    pub(crate) policies: Vec<String>,
    pub(crate) display_name: String,
    pub(crate) meta: BTreeMap<String, String>,
    /// The path of the login.
    pub(crate) path: String,
    /// Uuid of the mount.
    pub(crate) mount: String,
    pub(crate) signed_in: SignedIn,
    /// Where it may be used from; empty for everywhere.
    pub(crate) bound_cidrs: Vec<Cidr>,
    pub(crate) times: Times,
    /// 0 is without limit.
    pub(crate) num_uses: u64,
    pub(crate) renewable: bool,
    /// For its renewal.
    pub(crate) kept: KeptLogin,
}

/// How long a login says that its token lives, in seconds; 0 says nothing.
#[derive(Clone, Copy, Default)]
pub(crate) struct Times {
    pub(crate) ttl: u64,
    pub(crate) max_ttl: u64,
    pub(crate) explicit_max_ttl: u64,
    pub(crate) period: u64,
}

impl Times {
    /// Within the lifetimes of the mount.
    fn bounds(self, of_mount: Lifetimes) -> Bounds {
        Bounds {
            role_ttl: self.ttl,
            role_max: self.max_ttl,
            explicit_max: self.explicit_max_ttl,
            period: self.period,
            mount_default: of_mount.default,
            mount_max: of_mount.max,
        }
    }
}

/// A renewal to which the auth method agreed.
pub(crate) struct RenewedLogin {
    pub(crate) times: Times,
    /// Seconds from now that the caller asks for; 0 leaves it to the login.
    pub(crate) increment: u64,
    pub(crate) renewable: bool,
    pub(crate) kept: KeptLogin,
    /// Replaces the proof of the token.
    pub(crate) proof: Proof,
}

/// How many service tokens there are that logins at the mount with that uuid made, or at any mount
/// where it is empty. Counting stops at `at_most`.
///
/// # Errors
/// [`StoreFault::Unavailable`] when the database cannot be read.
pub(crate) async fn count_of_logins(
    store: &Store,
    mount: &str,
    at_most: u32,
) -> Result<u32, StoreFault> {
    store.count_owned(Space::Token, &owner(mount), at_most).await
}

impl Tokens {
    /// Makes the token of a login in its unit. `of_mount` are the lifetimes that hold there.
    ///
    /// # Errors
    /// 400 when the mount makes batch tokens and the login asks for what those cannot have.
    pub(crate) fn create_login(
        &self,
        unit: &mut Unit,
        new: NewLogin,
        of_mount: Lifetimes,
    ) -> Result<Made, Failure> {
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
            uses_left: (new.num_uses > 0).then_some(new.num_uses),
            used_up: None,
            ended: None,
            mount: new.mount,
            login: Some(new.kept),
            proof: Some(new.signed_in.proof),
            prover: String::new(),
        };
        if kind == TokenType::Batch {
            let token = batch::seal(&self.store, &record)?;
            let caller = Caller::batch(&self.store, &token, record);
            return Ok(Made { token, caller, warning: granted.warning });
        }
        let token = keys::random()?;
        let caller = with_accessor(self.store.hashes(), &token, record);
        put(unit, &caller.hash, &caller.record)?;
        Ok(Made { token, caller, warning: granted.warning })
    }

    /// Prolongs the token of a login, whose row is under `key`, as the auth method says. Gives the
    /// record as it is stored, and a warning where less was granted.
    ///
    /// # Errors
    /// 400 when it has ended meanwhile, or is past its maximum.
    pub(crate) async fn renew_login(
        &self,
        unit: &mut Unit,
        key: &str,
        renewed: &RenewedLogin,
        of_mount: Lifetimes,
    ) -> Result<(TokenRecord, Option<String>), Failure> {
        let now = self.store.now();
        let record = read(unit, key).await?.filter(|record| record.is_alive(now));
        let record = record.ok_or_else(|| Failure::invalid("the token ended meanwhile"))?;
        // What it was made with holds for ever; what its role says by now, too.
        let explicit_max_ttl = shorter(record.explicit_max_ttl, renewed.times.explicit_max_ttl);
        let times = Times { explicit_max_ttl, ..renewed.times };
        let begins = first_whole_second(now);
        let granted =
            ttl::grant(&times.bounds(of_mount), renewed.increment, record.issued, begins)?;
        let record = TokenRecord {
            expires: Some(begins.saturating_add(granted.ttl)),
            last_renewal: Some(now / 1000),
            explicit_max_ttl,
            period: times.period,
            renewable: renewed.renewable,
            login: Some(renewed.kept.clone()),
            proof: Some(renewed.proof.clone().after(record.proof.as_ref())),
            ..TokenRecord::clone(&record)
        };
        put(unit, key, &record)?;
        Ok((record, granted.warning))
    }

    /// Ends every service token that a login at the mount with that uuid made, with its
    /// descendants.
    ///
    /// # Errors
    /// The store's failure. Those that were reached have ended.
    pub(crate) async fn end_logins_of(&self, mount: &str) -> Result<(), Failure> {
        let mut tokens = self.store.scan_owned(Space::Token, owner(mount).as_str());
        while let Some(page) = tokens.page().await? {
            for key in self.end_page(&page).await? {
                self.spread_end(&key).await?;
            }
        }
        Ok(())
    }

    /// Of these tokens, the keys of those that were ended.
    async fn end_page(&self, page: &[Address]) -> Result<Vec<String>, Failure> {
        loop {
            let (mut unit, mut ended) = (self.store.begin(), Vec::new());
            for Address { key, .. } in page {
                let found = self.read_or_tell(&mut unit, key).await?;
                if let Some(record) = found.filter(|record| record.ended.is_none()) {
                    begin_end(&mut unit, key, &record, Ending::WithChildren)?;
                    ended.push(key.clone());
                }
            }
            if try_commit(unit).await? {
                return Ok(ended);
            }
        }
    }
}

/// Nothing is stored of a batch token, so nothing of it can be counted or prolonged.
fn refuse_for_batch(new: &NewLogin) -> Result<(), Failure> {
    let asked = [("num_uses", new.num_uses), ("a period", new.times.period)];
    match asked.into_iter().find(|(_, asked)| *asked > 0) {
        Some((what, _)) => Err(Failure::invalid(format!(
            "this login gives a batch token, which cannot have {what}; change the token_type of \
             the mount or of the role, or take {what} out of the role"
        ))),
        None => Ok(()),
    }
}
