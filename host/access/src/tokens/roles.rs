//! Token roles: the limits of tokens created with a role. Roles are stored by name.

use super::record::{TokenRecord, TokenType};
use crate::policies::DEFAULT;
use bulkhead_store::{Address, IndexColumns, Space, Unit};
use bulkhead_wire::cidr::Cidr;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::glob;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Key pattern of roles in [`Space::Core`], as endpoints declare the existence of a role.
pub const EXISTENCE: &str = "token-role/{role_name}";
const PREFIX: &str = "token-role/";

/// The token kinds that a role creates: a fixed kind, or a default if the caller requests no kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoleType {
    /// Service tokens only.
    Service,
    /// Batch tokens only.
    Batch,
    /// Service tokens unless the caller requests a kind.
    DefaultService,
    /// Batch tokens unless the caller requests a kind.
    DefaultBatch,
}

impl RoleType {
    /// Parses the word of the API; `""` and `default` leave the kind to the caller.
    ///
    /// # Errors
    /// 400 for any other word.
    pub fn parse(word: &str) -> Result<Self, Failure> {
        Ok(match word {
            "" | "default" | "default-service" => Self::DefaultService,
            "service" => Self::Service,
            "batch" => Self::Batch,
            "default-batch" => Self::DefaultBatch,
            other => {
                return Err(Failure::invalid(format!(
                    "token_type {} is none of service, batch, default-service and default-batch",
                    quoted(other)
                )));
            }
        })
    }

    /// Returns the word used by the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Batch => "batch",
            Self::DefaultService => "default-service",
            Self::DefaultBatch => "default-batch",
        }
    }

    /// Returns the kind of a token, given `requested_type`.
    ///
    /// # Errors
    /// 400 if the role creates only the other kind.
    pub fn choose(self, requested_type: Option<TokenType>) -> Result<TokenType, Failure> {
        let (own, is_final) = match self {
            Self::Service => (TokenType::Service, true),
            Self::Batch => (TokenType::Batch, true),
            Self::DefaultService => (TokenType::Service, false),
            Self::DefaultBatch => (TokenType::Batch, false),
        };
        match requested_type {
            Some(requested_type) if is_final && requested_type != own => {
                Err(Failure::invalid(format!(
                    "type {} was asked for, but this token role makes {} tokens only",
                    requested_type.word(),
                    own.word()
                )))
            }
            requested_type => Ok(if is_final { own } else { requested_type.unwrap_or(own) }),
        }
    }
}

/// The stored form of a token role. Times are in seconds; 0 means not set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TokenRole {
    /// Canonical names, like the three lists that follow.
    pub allowed_policies: Vec<String>,
    /// Policies that no token gets.
    pub disallowed_policies: Vec<String>,
    /// Patterns of policies that tokens may get.
    pub allowed_policies_glob: Vec<String>,
    /// Patterns of policies that no token gets.
    pub disallowed_policies_glob: Vec<String>,
    /// Entity aliases that callers may request.
    pub allowed_entity_aliases: Vec<String>,
    /// True if the tokens have no parent.
    pub orphan: bool,
    /// True if the tokens can be renewed.
    pub renewable: bool,
    /// Suffix of the tokens' path, after the role's name.
    pub path_suffix: String,
    /// Client networks from which the tokens may be used; empty for any network.
    pub bound_cidrs: Vec<Cidr>,
    /// Maximum lifetime that no later change of the role extends.
    pub explicit_max_ttl: u64,
    /// Lifetime after each renewal of a periodic token.
    pub period: u64,
    /// Kinds of token that the role creates.
    pub token_type: RoleType,
    /// True if the tokens do not get the policy `default`.
    pub no_default_policy: bool,
    /// Number of uses; 0 means unlimited.
    pub num_uses: u64,
    /// Deprecated field names of the latest write. Reads show these names too.
    pub old_names: BTreeSet<String>,
}

stored!(TokenRole, "token-role", reads_stored_token_roles);

impl Default for TokenRole {
    fn default() -> Self {
        Self {
            allowed_policies: Vec::new(),
            disallowed_policies: Vec::new(),
            allowed_policies_glob: Vec::new(),
            disallowed_policies_glob: Vec::new(),
            allowed_entity_aliases: Vec::new(),
            orphan: false,
            renewable: true,
            path_suffix: String::new(),
            bound_cidrs: Vec::new(),
            explicit_max_ttl: 0,
            period: 0,
            token_type: RoleType::DefaultService,
            no_default_policy: false,
            num_uses: 0,
            old_names: BTreeSet::new(),
        }
    }
}

impl TokenRole {
    /// Returns true if the role has its own policy rules, which replace the parent's.
    pub(crate) fn rules_policies(&self) -> bool {
        self.allows_by_list()
            || !self.disallowed_policies.is_empty()
            || !self.disallowed_policies_glob.is_empty()
    }

    /// Returns true if the role lists allowed policies.
    pub(crate) fn allows_by_list(&self) -> bool {
        !self.allowed_policies.is_empty() || !self.allowed_policies_glob.is_empty()
    }

    pub(crate) fn allows(&self, policy: &str) -> bool {
        !self.allows_by_list() || is_in(policy, &self.allowed_policies, &self.allowed_policies_glob)
    }

    pub(crate) fn forbids(&self, policy: &str) -> bool {
        is_in(policy, &self.disallowed_policies, &self.disallowed_policies_glob)
    }

    /// Returns true if a token that the role made earlier may keep the policy. The policy `default`
    /// needs no place in a list, because a role adds the policy by itself.
    pub(crate) fn still_allows(&self, policy: &str) -> bool {
        !self.forbids(policy) && (policy == DEFAULT || self.allows(policy))
    }

    /// Returns true if the role's tokens may have the entity of this alias.
    pub fn allows_alias(&self, alias: &str) -> bool {
        self.allowed_entity_aliases.iter().any(|pattern| glob::matches(pattern, alias))
    }

    /// Checks that the settings of the role are consistent.
    ///
    /// # Errors
    /// 400 for a role that could never create a token as configured.
    pub fn check(&self) -> Result<(), Failure> {
        if self.token_type != RoleType::Batch {
            return Ok(());
        }
        let wrong = [
            ("must be orphan", !self.orphan),
            ("cannot be renewable", self.renewable),
            ("cannot have token_period", self.period > 0),
            ("cannot have token_explicit_max_ttl", self.explicit_max_ttl > 0),
            ("cannot have token_num_uses", self.num_uses > 0),
        ];
        match wrong.into_iter().find(|(_, wrong)| *wrong) {
            Some((limit, _)) => {
                Err(Failure::invalid(format!("a role with token_type batch {limit}")))
            }
            None => Ok(()),
        }
    }
}

fn is_in(policy: &str, exact: &[String], globs: &[String]) -> bool {
    exact.iter().any(|name| name == policy)
        || globs.iter().any(|pattern| glob::matches(pattern, policy))
}

/// Reads the role with this name.
pub async fn read(unit: &mut Unit, name: &str) -> Result<Option<TokenRole>, Failure> {
    let Some(record) = unit.get(&address(name)).await? else { return Ok(None) };
    let role = TokenRole::from_bytes(&record.body)
        .map_err(|unreadable| unreadable.of(format_args!("the stored token role {name}")))?;
    Ok(Some(role))
}

/// Reads the current role of a token; `None` if no role created the token or the role was deleted.
pub async fn of_token(unit: &mut Unit, token: &TokenRecord) -> Result<Option<TokenRole>, Failure> {
    if token.role.is_empty() { Ok(None) } else { read(unit, &token.role).await }
}

/// Writes the role into the unit of work.
pub fn put(unit: &mut Unit, name: &str, role: &TokenRole) -> Result<(), Failure> {
    unit.put(address(name), role.to_bytes()?, IndexColumns::default());
    Ok(())
}

/// Deletes the role; succeeds also if the role does not exist. Its tokens live until their TTL
/// ends.
pub fn delete(unit: &mut Unit, name: &str) {
    unit.delete(address(name));
}

/// Returns the sorted names of all roles.
pub async fn names(unit: &mut Unit) -> Result<Vec<String>, Failure> {
    Ok(unit.names(Space::Core, PREFIX, "", usize::MAX).await?)
}

fn address(name: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_fixes_token_type_or_leaves_caller_choice() {
        let (service, batch) = (TokenType::Service, TokenType::Batch);
        for (word, requested_type, token_type) in [
            ("", None, Some(service)),
            ("default", Some(batch), Some(batch)),
            ("default-service", Some(batch), Some(batch)),
            ("default-batch", None, Some(batch)),
            ("default-batch", Some(service), Some(service)),
            ("service", None, Some(service)),
            ("service", Some(service), Some(service)),
            ("service", Some(batch), None),
            ("batch", None, Some(batch)),
            ("batch", Some(service), None),
        ] {
            assert_eq!(
                RoleType::parse(word).unwrap().choose(requested_type).ok(),
                token_type,
                "{word} {requested_type:?}"
            );
        }
        assert!(RoleType::parse("Batch").is_err() && RoleType::parse("hsm").is_err());
    }

    #[test]
    fn batch_token_role_with_unsupported_settings_is_refused() {
        let sound = TokenRole {
            token_type: RoleType::Batch,
            orphan: true,
            renewable: false,
            ..TokenRole::default()
        };
        assert!(sound.check().is_ok());
        for wrong in [
            TokenRole { orphan: false, ..sound.clone() },
            TokenRole { renewable: true, ..sound.clone() },
            TokenRole { period: 1, ..sound.clone() },
            TokenRole { explicit_max_ttl: 1, ..sound.clone() },
            TokenRole { num_uses: 1, ..sound.clone() },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
