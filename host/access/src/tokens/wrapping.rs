//! Wrapping tokens: tokens of a single use that stand for one stored answer.

use super::create::{CreatedToken, with_accessor};
use super::keys;
use super::lifetime::first_whole_second;
use super::record::{TokenRecord, put};
use super::table::Tokens;
use crate::policies::RESPONSE_WRAPPING;
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use std::collections::BTreeMap;

/// A wrapping token to create.
pub struct NewWrapping {
    /// Path of the request whose answer is wrapped.
    pub path: String,
    /// Lifetime in seconds; never extended.
    pub ttl: u64,
    /// Key of the token that the wrapping token ends with; `None` if the wrapping token survives
    /// every other token.
    pub parent: Option<String>,
}

impl Tokens {
    /// Creates a wrapping token. If the token has a parent, the unit of work must assert that the
    /// parent is valid ([`super::assert_valid`]).
    ///
    /// # Errors
    /// 500 if the machine's random generator fails.
    pub fn create_wrapping(
        &self,
        unit: &mut Unit,
        new: NewWrapping,
    ) -> Result<CreatedToken, Failure> {
        let NewWrapping { path, ttl, parent } = new;
        let now_ms = self.store.now();
        let record = TokenRecord {
            accessor: String::new(),
            policies: vec![RESPONSE_WRAPPING.to_owned()],
            display_name: "wrapping".to_owned(),
            parent,
            path,
            role: String::new(),
            entity_id: String::new(),
            meta: BTreeMap::new(),
            bound_cidrs: Vec::new(),
            issued: now_ms / 1000,
            creation_ttl: ttl,
            expires: Some(first_whole_second(now_ms).saturating_add(ttl)),
            explicit_max_ttl: ttl,
            period: 0,
            renewable: false,
            last_renewal: None,
            renewed_ttl: None,
            uses_left: Some(1),
            used_up: None,
            ended: None,
            end_cause: None,
            mount: String::new(),
            login: None,
            proof: None,
            prover: String::new(),
        };
        let token = keys::generate_text()?;
        let caller = with_accessor(self.store.hashes(), &token, record);
        put(unit, &caller.hash, &caller.record)?;
        Ok(CreatedToken { token, caller, warning: None })
    }
}

impl TokenRecord {
    /// Returns true for a wrapping token. No other token has the policy.
    pub fn is_wrapping(&self) -> bool {
        self.policies == [RESPONSE_WRAPPING]
    }
}
