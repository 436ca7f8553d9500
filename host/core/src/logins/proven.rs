//! A component's answer to a login, checked against bounds.
//!
//! An answer out of bounds is the component's fault (500, naming the component), because a
//! component has to refuse such a caller before it answers. Only wrong policies are the fault of
//! the operator who wrote the role (400).

use crate::mounts::Mount;
use bulkhead_access::identity::{LoginProof, ProvenAlias};
use bulkhead_access::policies::{self, DEFAULT, RESPONSE_WRAPPING, ROOT};
use bulkhead_access::tokens::{KeptLogin, LoginLifetimes, RenewedLogin, TokenType};
use bulkhead_sandbox::contract::Login;
use bulkhead_wire::cidr::Cidr;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::login as bounds;
use std::collections::{BTreeMap, BTreeSet};

/// A login within bounds.
pub struct ProvenLogin {
    /// Name for people to read; may be empty.
    pub(crate) display_name: String,
    /// Metadata of the alias. The alias itself is in `kept`.
    pub(crate) alias_metadata: BTreeMap<String, String>,
    /// Aliases of the caller's groups; `None` leaves the groups unchanged.
    pub(crate) group_aliases: Option<Vec<String>>,
    /// Policies of the token, sorted; includes `default` unless the login declined it.
    pub(crate) policies: Vec<String>,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) times: LoginLifetimes,
    /// Maximum number of uses; 0 for no limit.
    pub(crate) num_uses: u64,
    pub(crate) renewable: bool,
    /// Token type; `None` leaves the choice to the mount.
    pub(crate) kind: Option<TokenType>,
    /// Networks from which the token may be used; empty for all.
    pub(crate) bound_cidrs: Vec<Cidr>,
    /// Facts that the renewal needs.
    pub(crate) kept: KeptLogin,
}

impl ProvenLogin {
    /// Checks the answer of the component of `mount` against the bounds of a login.
    ///
    /// # Errors
    /// 500 that names the component and repeats nothing of its answer; 400 for policies that no
    /// login may grant.
    pub fn of(mount: &Mount, login: Login) -> Result<Self, Failure> {
        let fault = |reason: String| {
            let title = mount.plugin.identity().title();
            Failure::internal(format!("{title} answered a login {reason}; nothing was stored"))
        };
        let alias = login.alias.ok_or_else(|| fault("without an alias".to_owned()))?;
        bounds::check_alias(&alias.name).map_err(fault)?;
        if let Some(groups) = &login.group_aliases {
            bounds::check_groups(groups).map_err(fault)?;
        }
        bounds::check_display_name(&login.display_name).map_err(fault)?;
        bounds::check_policies(login.policies.len()).map_err(fault)?;
        bounds::check_internal(&login.internal).map_err(fault)?;
        let own = canonical_policies(&login.policies)?;
        let mut policies = own.clone();
        policies.extend((!login.no_default_policy).then(|| DEFAULT.to_owned()));
        Ok(Self {
            display_name: login.display_name,
            alias_metadata: read_metadata("of the alias", alias.metadata).map_err(fault)?,
            group_aliases: login.group_aliases,
            policies: policies.into_iter().collect(),
            metadata: read_metadata("of the token", login.metadata).map_err(fault)?,
            times: LoginLifetimes {
                ttl: login.ttl,
                max_ttl: login.max_ttl,
                explicit_max_ttl: login.explicit_max_ttl,
                period: login.period,
            },
            num_uses: login.num_uses,
            renewable: login.renewable,
            kind: read_kind(&login.token_type).map_err(fault)?,
            bound_cidrs: read_cidrs(&login.bound_cidrs).map_err(fault)?,
            kept: KeptLogin {
                alias: alias.name,
                policies: own.into_iter().collect(),
                internal: login.internal,
            },
        })
    }
}

impl ProvenLogin {
    /// Returns the login for the identity module.
    pub(super) fn identity(&self, mount: &Mount) -> ProvenAlias {
        ProvenAlias {
            mount: mount.record.for_aliases(),
            alias: self.kept.alias.clone(),
            metadata: self.alias_metadata.clone(),
            group_aliases: self.group_aliases.clone(),
        }
    }

    /// Returns the login as a renewal of a token, with a requested lifetime of `increment` seconds
    /// from now.
    pub(crate) fn renewed(&self, increment: u64, proof: LoginProof) -> RenewedLogin {
        let (times, renewable, kept) = (self.times, self.renewable, self.kept.clone());
        let bound_cidrs = self.bound_cidrs.clone();
        RenewedLogin { times, increment, renewable, bound_cidrs, kept, proof }
    }
}

fn read_metadata(
    owner: &str,
    pairs: Vec<(String, String)>,
) -> Result<BTreeMap<String, String>, String> {
    bounds::check_metadata(owner, pairs.iter().map(|(name, value)| (name, value)))?;
    let mut metadata = BTreeMap::new();
    for (name, value) in pairs {
        if metadata.insert(name, value).is_some() {
            return Err(format!("with a duplicate key in the metadata {owner}"));
        }
    }
    Ok(metadata)
}

fn read_kind(word: &str) -> Result<Option<TokenType>, String> {
    match word {
        "" | "default" => Ok(None),
        "service" => Ok(Some(TokenType::Service)),
        "batch" => Ok(Some(TokenType::Batch)),
        other => Err(format!("with the token type {}, which there is not", quoted(other))),
    }
}

fn read_cidrs(texts: &[String]) -> Result<Vec<Cidr>, String> {
    bounds::check_networks(texts.len())?;
    let read = texts.iter().map(|text| Cidr::parse(text));
    read.collect::<Result<_, _>>().map_err(|why| format!("with a bound network: {why}"))
}

/// Returns the policies in canonical form.
///
/// # Errors
/// 400 that names a policy that no login may grant.
fn canonical_policies(names: &[String]) -> Result<BTreeSet<String>, Failure> {
    let named = names.iter().map(|name| policies::canonical_name(name));
    let named: BTreeSet<String> = named.collect::<Result<_, _>>().map_err(Failure::invalid)?;
    if named.contains(ROOT) {
        return Err(Failure::invalid(
            "auth methods cannot create root tokens: take the policy root out of the role",
        ));
    }
    if named.contains(RESPONSE_WRAPPING) {
        return Err(Failure::invalid(
            "policy response-wrapping belongs to wrapping tokens and cannot be given by a login; \
             take it out of the role",
        ));
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_policies_are_canonical_without_root_or_wrapping() {
        let read_policies = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            canonical_policies(&names)
        };
        let both = read_policies(&["Writers", "readers", "writers "]).unwrap();
        assert_eq!(both.into_iter().collect::<Vec<_>>(), ["readers", "writers"]);
        for refused in ["root", " ROOT", "Response-Wrapping"] {
            assert!(read_policies(&["readers", refused]).is_err(), "{refused}");
        }
        assert!(
            read_policies(&["root"])
                .unwrap_err()
                .message
                .contains("auth methods cannot create root tokens")
        );
    }

    #[test]
    fn the_contents_of_a_login_are_bounded() {
        let twice = ["1", "2"].map(|value| ("a".to_owned(), value.to_owned()));
        assert!(read_metadata("", twice.into()).is_err());
        let long = vec![("a".to_owned(), "x".repeat(1_025))];
        assert!(read_metadata("", long).is_err());
        assert!(read_cidrs(&vec!["10.0.0.0/8".to_owned(); 129]).is_err());
        assert!(read_cidrs(&["example.com".to_owned()]).is_err());
        assert!(read_kind("default").unwrap().is_none() && read_kind("hsm").is_err());
    }
}
