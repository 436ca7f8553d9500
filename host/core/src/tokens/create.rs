//! New tokens.
//!
//! Knows what a token must be to be made at all. What its maker may ask for is decided by the
//! endpoint and by [`super::selection`].

use super::caller::Caller;
use super::lifetime::{bounds, first_whole_second, shorter};
use super::record::{TokenRecord, TokenType, put, read};
use super::roles::TokenRole;
use super::table::Tokens;
use super::{batch, keys};
use crate::identity::{Proof, SignedIn};
use crate::lifetimes::Lifetimes;
use crate::policies::ROOT;
use bulkhead_store::{Address, Hashes, Index, Store, Unit};
use bulkhead_wire::cidr::Cidr;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::secret::Secret;
use bulkhead_wire::ttl;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a new token is to be.
pub(crate) struct NewToken {
    pub(crate) kind: TokenType,
    /// Chosen for it; `None` draws one.
    pub(crate) id: Option<Secret>,
    /// In canonical form and in order.
    pub(crate) policies: Vec<String>,
    pub(crate) display_name: String,
    pub(crate) meta: BTreeMap<String, String>,
    /// The path that makes it.
    pub(crate) path: String,
    pub(crate) is_orphan: bool,
    /// Entity and proof; `None` inherits those of the parent.
    pub(crate) signed_in: Option<SignedIn>,
    /// Where it may be used from; empty for everywhere.
    pub(crate) bound_cidrs: Vec<Cidr>,
    /// Seconds; 0 leaves it to the system, or, for root, to never end.
    pub(crate) ttl: u64,
    /// Seconds; 0 is none but that of the role.
    pub(crate) explicit_max_ttl: u64,
    /// Seconds; 0 is none but that of the role.
    pub(crate) period: u64,
    /// 0 is without limit, but for that of the role.
    pub(crate) num_uses: u64,
    pub(crate) renewable: bool,
    pub(crate) role: Option<(String, TokenRole)>,
}

/// A token that was made.
pub(crate) struct Made {
    pub(crate) token: Secret,
    pub(crate) caller: Caller,
    /// Says what was granted less than was asked.
    pub(crate) warning: Option<String>,
}

impl Tokens {
    /// Makes a token for `maker`, whom the unit has asserted to hold ([`super::assert_valid`]).
    /// `system` holds where neither the maker nor the role says how long it lives.
    ///
    /// # Errors
    /// 400 when the maker cannot make tokens, when it asks for what such a token cannot have, or
    /// when the chosen id is taken.
    pub(crate) async fn create(
        &self,
        unit: &mut Unit,
        maker: &Caller,
        new: NewToken,
        system: Lifetimes,
    ) -> Result<Made, Failure> {
        may_make_tokens(maker)?;
        let now = self.store.now();
        let id = new.id.clone();
        let kind = new.kind;
        let (record, warning) = self.record(maker, new, now, system)?;
        if kind == TokenType::Batch {
            if id.is_some() {
                return Err(Failure::invalid(
                    "batch tokens cannot have an id: they carry what is known of them",
                ));
            }
            let token = batch::seal(&self.store, &record)?;
            let caller = Caller::batch(&self.store, &token, record);
            return Ok(Made { token, caller, warning });
        }
        let token = match id {
            Some(token) => token,
            None => keys::random()?,
        };
        let caller = with_accessor(self.store.hashes(), &token, record);
        if read(unit, &caller.hash).await?.is_some() {
            return Err(Failure::invalid(
                "there is, or was until now, a token with this id; choose another",
            ));
        }
        put(unit, &caller.hash, &caller.record)?;
        Ok(Made { token, caller, warning })
    }

    /// The record of the new token, still without its accessor, and a warning where its lifetime
    /// was cut.
    fn record(
        &self,
        maker: &Caller,
        new: NewToken,
        now_ms: u64,
        system: Lifetimes,
    ) -> Result<(TokenRecord, Option<String>), Failure> {
        let now = now_ms / 1000;
        let (role, of_role) = new.role.unzip();
        let num_uses =
            shorter(new.num_uses, of_role.as_ref().map(|role| role.num_uses).unwrap_or_default());
        let stands = stands_for(maker, new.signed_in, new.is_orphan);
        let mut record = TokenRecord {
            accessor: String::new(),
            policies: new.policies,
            display_name: new.display_name,
            parent: (!new.is_orphan).then(|| maker.hash.clone()),
            path: new.path,
            role: role.unwrap_or_default(),
            entity_id: stands.entity_id,
            meta: new.meta,
            bound_cidrs: new.bound_cidrs,
            issued: now,
            creation_ttl: new.ttl,
            expires: None,
            explicit_max_ttl: new.explicit_max_ttl,
            period: new.period,
            renewable: new.renewable && new.kind == TokenType::Service,
            last_renewal: None,
            uses_left: (num_uses > 0).then_some(num_uses),
            used_up: None,
            ended: None,
            mount: String::new(),
            login: None,
            proof: stands.proof,
            prover: stands.prover,
        };
        let bounds = bounds(&record, of_role.as_ref(), system);
        if new.kind == TokenType::Batch {
            refuse_for_batch(&record, &bounds)?;
        }
        let says_when =
            [new.ttl, bounds.explicit_max, bounds.period].into_iter().any(|seconds| seconds > 0);
        if record.policies == [ROOT] && !says_when {
            return never_ending(maker, record).map(|record| (record, None));
        }
        let granted = ttl::grant(&bounds, 0, now, now)?;
        record.creation_ttl = granted.ttl;
        record.expires = Some(first_whole_second(now_ms).saturating_add(granted.ttl));
        Ok((record, granted.warning))
    }
}

/// Entity of a new token, and where its proof is.
#[derive(Default)]
struct StandsFor {
    entity_id: String,
    proof: Option<Proof>,
    prover: String,
}

/// A child stands for the entity of its parent, and uses the proof that the parent uses.
fn stands_for(maker: &Caller, signed_in: Option<SignedIn>, is_orphan: bool) -> StandsFor {
    if let Some(SignedIn { entity_id, proof }) = signed_in {
        return StandsFor { entity_id, proof: Some(proof), prover: String::new() };
    }
    if is_orphan {
        return StandsFor::default();
    }
    let above = &maker.record;
    let prover = if above.proof.is_some() { &maker.hash } else { &above.prover };
    StandsFor { entity_id: above.entity_id.clone(), proof: None, prover: prover.clone() }
}

/// The record with its accessor, under its key.
pub(super) fn with_accessor(hashes: &Hashes, token: &Secret, record: TokenRecord) -> Caller {
    let accessor = keys::accessor(hashes, token);
    Caller::service(
        keys::of_accessor(hashes, &accessor),
        Arc::new(TokenRecord { accessor, ..record }),
    )
}

fn may_make_tokens(maker: &Caller) -> Result<(), Failure> {
    if maker.kind == TokenType::Batch {
        return Err(Failure::invalid(
            "batch tokens cannot create more tokens; use a service token",
        ));
    }
    if maker.record.uses_left.is_some() {
        return Err(Failure::invalid(
            "a token whose uses are counted cannot create tokens, which would be used without \
             being counted",
        ));
    }
    Ok(())
}

fn never_ending(maker: &Caller, record: TokenRecord) -> Result<TokenRecord, Failure> {
    if maker.record.expires.is_some() {
        return Err(Failure::invalid(
            "a root token that expires cannot make one that does not; give a ttl",
        ));
    }
    if !record.bound_cidrs.is_empty() {
        return Err(Failure::invalid(
            "a token that never expires cannot be bound to addresses; give a ttl",
        ));
    }
    Ok(TokenRecord { renewable: false, ..record })
}

/// Nothing is stored of a batch token, so nothing of it can be counted or prolonged.
fn refuse_for_batch(record: &TokenRecord, bounds: &ttl::Bounds) -> Result<(), Failure> {
    let asked = [
        ("be root tokens: they could not be revoked", record.is_root()),
        ("have a period: they cannot be renewed", bounds.period > 0),
        ("have an explicit_max_ttl: they cannot be renewed; give a ttl", bounds.explicit_max > 0),
        ("have num_uses: nobody counts them", record.uses_left.is_some()),
    ];
    match asked.into_iter().find(|(_, asked)| *asked) {
        Some((what, _)) => Err(Failure::invalid(format!("batch tokens cannot {what}"))),
        None => Ok(()),
    }
}

/// The row of a root token that never ends, made at `now` (milliseconds).
///
/// # Errors
/// 500 when it cannot be written.
pub(crate) fn first_root(
    hashes: &Hashes,
    token: &Secret,
    now: u64,
) -> Result<(Address, Vec<u8>, Index), Failure> {
    let root = with_accessor(hashes, token, root(now));
    root.record.row(&root.hash, None)
}

fn root(now: u64) -> TokenRecord {
    TokenRecord {
        accessor: String::new(),
        policies: vec![ROOT.to_owned()],
        display_name: "root".to_owned(),
        parent: None,
        path: "auth/token/root".to_owned(),
        role: String::new(),
        entity_id: String::new(),
        meta: BTreeMap::new(),
        bound_cidrs: Vec::new(),
        issued: now / 1000,
        creation_ttl: 0,
        expires: None,
        explicit_max_ttl: 0,
        period: 0,
        renewable: false,
        last_renewal: None,
        uses_left: None,
        used_up: None,
        ended: None,
        mount: String::new(),
        login: None,
        proof: None,
        prover: String::new(),
    }
}

/// A root token, for dev mode. Stored, so that restarts know it.
///
/// # Errors
/// 400 when that very token was revoked before.
pub(crate) async fn ensure_root(store: &Arc<Store>, token: &Secret) -> Result<(), Failure> {
    let mut unit = store.begin();
    match read(&mut unit, &keys::of_token(store.hashes(), token)).await? {
        Some(record) if record.ended.is_some() => {
            return Err(Failure::invalid(
                "this root token was revoked before; start with another one",
            ));
        }
        Some(_) => return Ok(()),
        None => {}
    }
    let (address, body, index) = first_root(store.hashes(), token, store.now())?;
    unit.put(address, body, index);
    unit.commit().await?;
    Ok(())
}
