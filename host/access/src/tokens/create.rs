//! Creation of tokens.
//!
//! This file enforces the rules for every new token. The endpoint and [`super::selection`] decide
//! which properties the creator may request.

use super::caller::Caller;
use super::lifetime::{bounds, first_whole_second, shorter};
use super::record::{TokenRecord, TokenType, address, put, read};
use super::roles::TokenRole;
use super::table::Tokens;
use super::{batch, keys};
use crate::identity::{LoginProof, SignedInEntity};
use crate::lifetimes::Lifetimes;
use crate::policies::ROOT;
use bulkhead_store::{Address, IndexColumns, SecretHasher, Store, Unit};
use bulkhead_wire::cidr::Cidr;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::secret::Secret;
use bulkhead_wire::ttl;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The requested properties of a new token.
pub struct NewToken {
    /// Service or batch.
    pub kind: TokenType,
    /// Token text chosen by the creator; `None` generates a random text.
    pub id: Option<Secret>,
    /// Canonical names, sorted.
    pub policies: Vec<String>,
    /// Name shown by look-ups and audit lines.
    pub display_name: String,
    /// Metadata shown by look-ups and audit lines.
    pub meta: BTreeMap<String, String>,
    /// Request path that creates the token.
    pub path: String,
    /// True if the token has no parent.
    pub is_orphan: bool,
    /// Entity and proof; `None` inherits entity and proof of the parent.
    pub signed_in: Option<SignedInEntity>,
    /// Client networks from which the token may be used; empty for any network.
    pub bound_cidrs: Vec<Cidr>,
    /// Seconds; 0 means the system's default, or unlimited for a root token.
    pub ttl: u64,
    /// Seconds; 0 means no maximum except the role's.
    pub explicit_max_ttl: u64,
    /// Seconds; 0 means no period except the role's.
    pub period: u64,
    /// Number of uses; 0 means no limit except the role's.
    pub num_uses: u64,
    /// True if the token can be renewed.
    pub renewable: bool,
    /// The token role and its name.
    pub role: Option<(String, TokenRole)>,
}

/// A newly created token.
pub struct CreatedToken {
    /// The text of the token.
    pub token: Secret,
    /// The token as a caller.
    pub caller: Caller,
    /// Warning for the creator if the granted lifetime is shorter than the requested lifetime.
    pub warning: Option<String>,
}

impl Tokens {
    /// Creates a token for `maker`. The unit of work must already assert that the maker's token is
    /// valid ([`super::assert_valid`]). `system` applies if neither the creator nor the role sets a
    /// lifetime.
    ///
    /// # Errors
    /// 400 if the maker cannot create tokens, if the kind of token cannot have a requested
    /// property, or if the chosen id is taken.
    pub async fn create(
        &self,
        unit: &mut Unit,
        maker: &Caller,
        new: NewToken,
        system: Lifetimes,
    ) -> Result<CreatedToken, Failure> {
        may_make_tokens(maker)?;
        let now = self.store.now();
        let id = new.id.clone();
        let kind = new.kind;
        let (record, warning) = self.record(maker, new, now, system)?;
        if kind == TokenType::Batch {
            if id.is_some() {
                return Err(Failure::invalid(
                    "batch tokens cannot have an id: they contain all of their data",
                ));
            }
            let token = batch::seal(&self.store, &record)?;
            let caller = Caller::batch(&self.store, &token, record);
            return Ok(CreatedToken { token, caller, warning });
        }
        let is_chosen = id.is_some();
        let token = match id {
            Some(token) => token,
            None => keys::generate_text()?,
        };
        let caller = with_accessor(self.store.hashes(), &token, record);
        if !is_chosen {
            unit.assert_absent(&address(&caller.hash))?;
        } else if read(unit, &caller.hash).await?.is_some() {
            return Err(Failure::invalid(
                "there is, or was until now, a token with this id; choose another",
            ));
        }
        put(unit, &caller.hash, &caller.record)?;
        Ok(CreatedToken { token, caller, warning })
    }

    /// Returns the record of the new token without its accessor, and a warning if the lifetime was
    /// shortened.
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
            renewed_ttl: None,
            uses_left: (num_uses > 0).then_some(num_uses),
            used_up: None,
            ended: None,
            end_cause: None,
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

/// The entity of a new token, and the location of its proof.
#[derive(Default)]
struct TokenEntity {
    entity_id: String,
    proof: Option<LoginProof>,
    prover: String,
}

/// Returns the entity and proof of a new token. A child has the entity of its parent and uses the
/// same proof as the parent.
fn stands_for(maker: &Caller, signed_in: Option<SignedInEntity>, is_orphan: bool) -> TokenEntity {
    if let Some(SignedInEntity { entity_id, proof }) = signed_in {
        return TokenEntity { entity_id, proof: Some(proof), prover: String::new() };
    }
    if is_orphan {
        return TokenEntity::default();
    }
    let above = &maker.record;
    let prover = if above.proof.is_some() { &maker.hash } else { &above.prover };
    TokenEntity { entity_id: above.entity_id.clone(), proof: None, prover: prover.clone() }
}

/// Returns the token with its accessor and row key.
pub(super) fn with_accessor(hashes: &SecretHasher, token: &Secret, record: TokenRecord) -> Caller {
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
            "a token whose uses are counted cannot create tokens, because uses of the new tokens \
             would not count",
        ));
    }
    Ok(())
}

fn never_ending(maker: &Caller, record: TokenRecord) -> Result<TokenRecord, Failure> {
    if maker.record.expires.is_some() {
        return Err(Failure::invalid(
            "a root token that expires cannot make a root token without an end; give a ttl",
        ));
    }
    if !record.bound_cidrs.is_empty() {
        return Err(Failure::invalid(
            "a token that never expires cannot be bound to addresses; give a ttl",
        ));
    }
    Ok(TokenRecord { renewable: false, ..record })
}

/// Refuses properties that a batch token cannot have. A batch token is not stored, so its uses
/// cannot be counted and its lifetime cannot be extended.
fn refuse_for_batch(record: &TokenRecord, bounds: &ttl::TtlBounds) -> Result<(), Failure> {
    let properties = [
        ("be root tokens: they could not be revoked", record.is_root()),
        ("have a period: they cannot be renewed", bounds.period > 0),
        ("have an explicit_max_ttl: they cannot be renewed; give a ttl", bounds.explicit_max > 0),
        ("have num_uses: their uses are not counted", record.uses_left.is_some()),
    ];
    match properties.into_iter().find(|(_, is_set)| *is_set) {
        Some((limit, _)) => Err(Failure::invalid(format!("batch tokens cannot {limit}"))),
        None => Ok(()),
    }
}

/// Returns the row of a root token that never expires, created at `now` (milliseconds).
///
/// # Errors
/// 500 if the row cannot be serialised.
pub fn root_token_row(
    hashes: &SecretHasher,
    token: &Secret,
    now: u64,
) -> Result<(Address, Vec<u8>, IndexColumns), Failure> {
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
        renewed_ttl: None,
        uses_left: None,
        used_up: None,
        ended: None,
        end_cause: None,
        mount: String::new(),
        login: None,
        proof: None,
        prover: String::new(),
    }
}

/// Stores a root token for dev mode, so that the token survives restarts.
///
/// # Errors
/// 400 if this token was revoked before.
pub async fn ensure_root(store: &Arc<Store>, token: &Secret) -> Result<(), Failure> {
    let mut unit = store.begin();
    match read(&mut unit, &keys::of_token(store.hashes(), token)).await? {
        Some(record) if record.ended.is_some() => {
            return Err(Failure::invalid(
                "this root token was revoked before; start with another root token",
            ));
        }
        Some(_) => return Ok(()),
        None => {}
    }
    let (address, body, index) = root_token_row(store.hashes(), token, store.now())?;
    unit.put(address, body, index);
    unit.commit().await?;
    Ok(())
}
