//! Stored roles: for service accounts (`iam`) or compute instances (`gce`), with their constraints.

use crate::settings::{Config, ROLE_ID};
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::wire::hexadecimal;
use bulkhead_sdk::{Call, Failure, FailureKind, Host, TokenParams, stored};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Prefix of the storage keys of roles.
pub(crate) const PREFIX: &str = "role/";
/// Type of roles for service accounts.
pub(crate) const IAM: &str = "iam";
/// Type of roles for compute instances.
pub(crate) const GCE: &str = "gce";
/// Admits every account.
pub(crate) const ALL: &str = "*";
/// Default maximum remaining lifetime of a token at login, in seconds.
pub(crate) const USUAL_JWT_EXP: u64 = 900;
/// Highest maximum that a role can set, in seconds.
const MOST_JWT_EXP: u64 = 3_600;
/// Maximum number of words in a list.
const MOST: usize = 1_024;
/// Maximum length of a word in a list, in bytes.
const LONGEST: usize = 512;

/// A role of the mount.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Role {
    /// Random id, unchanged during the life of the role.
    pub(crate) role_id: String,
    /// `iam` or `gce`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// Addresses or numbers, or only `*`. All lists are sorted and without duplicates.
    pub(crate) bound_service_accounts: Vec<String>,
    pub(crate) bound_projects: Vec<String>,
    pub(crate) add_group_aliases: bool,
    /// Seconds. Only for `iam`, like the next field.
    pub(crate) max_jwt_exp: u64,
    pub(crate) allow_gce_inference: bool,
    /// Only for `gce`, like the fields below.
    pub(crate) bound_zones: Vec<String>,
    pub(crate) bound_regions: Vec<String>,
    pub(crate) bound_instance_groups: Vec<String>,
    pub(crate) bound_labels: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(crate) token: TokenParams,
}

stored!(Role, "role", reads_stored_roles);

/// Returns the canonical spelling of a role's name. Letters beyond ASCII stay unchanged, so none is
/// folded into another name.
pub(crate) fn canonical(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// Returns the role name in the request path (decision B8).
///
/// # Errors
/// As [`Call::lower_case_name`].
pub(crate) fn name_in_path(call: &Call) -> Result<&str, Failure> {
    call.lower_case_name("name", "roles")
}

impl Role {
    fn key(name: &str) -> String {
        format!("{PREFIX}{name}")
    }

    /// Creates a role of this type without constraints.
    pub(crate) fn new(host: &dyn Host, kind: &str) -> Self {
        Self {
            role_id: new_id(host),
            kind: kind.to_owned(),
            bound_service_accounts: Vec::new(),
            bound_projects: Vec::new(),
            add_group_aliases: false,
            max_jwt_exp: USUAL_JWT_EXP,
            allow_gce_inference: true,
            bound_zones: Vec::new(),
            bound_regions: Vec::new(),
            bound_instance_groups: Vec::new(),
            bound_labels: BTreeMap::new(),
            token: TokenParams::default(),
        }
    }

    /// Returns the role with this name, if any.
    pub(crate) fn find(host: &dyn Host, name: &str) -> Result<Option<Self>, Failure> {
        host.storage().get(&Self::key(name))
    }

    /// Returns the role named in a path.
    ///
    /// # Errors
    /// Not found.
    pub(crate) fn named(host: &dyn Host, name: &str) -> Result<Self, Failure> {
        let unknown =
            || Failure::new(FailureKind::NotFound, format!("role {} not found", quoted(name)));
        Self::find(host, name)?.ok_or_else(unknown)
    }

    /// Stores the role after checking it.
    ///
    /// # Errors
    /// Invalid request that names the fault of the role.
    pub(crate) fn store(&self, host: &dyn Host, name: &str) -> Result<(), Failure> {
        self.check()?;
        host.storage().put(&Self::key(name), self)
    }

    pub(crate) fn remove(host: &dyn Host, name: &str) -> Result<(), Failure> {
        host.storage().delete(&Self::key(name))
    }

    pub(crate) fn is_of_accounts(&self) -> bool {
        self.kind == IAM
    }

    /// Tells if the role admits every account.
    pub(crate) fn admits_all_accounts(&self) -> bool {
        self.bound_service_accounts.iter().any(|bound| bound == ALL)
    }

    fn check(&self) -> Result<(), Failure> {
        self.check_lists()?;
        if self.is_of_accounts() { self.check_accounts() } else { self.check_instances() }
    }

    fn check_lists(&self) -> Result<(), Failure> {
        let lists = [
            ("bound_service_accounts", &self.bound_service_accounts),
            ("bound_projects", &self.bound_projects),
            ("bound_zones", &self.bound_zones),
            ("bound_regions", &self.bound_regions),
            ("bound_instance_groups", &self.bound_instance_groups),
        ];
        for (field, list) in lists {
            if list.len() > MOST || list.iter().any(|word| word.len() > LONGEST) {
                return Err(Failure::invalid(format!(
                    "{field}: there may be at most {MOST}, of {LONGEST} bytes each"
                )));
            }
        }
        if self.admits_all_accounts() && self.bound_service_accounts.len() > 1 {
            return Err(Failure::invalid(
                "cannot provide IAM service account wildcard '*' (for all service accounts) with \
                 other service accounts",
            ));
        }
        Ok(())
    }

    fn check_accounts(&self) -> Result<(), Failure> {
        if self.bound_service_accounts.is_empty() {
            return Err(Failure::invalid(
                "IAM role type must have at least one service account: set bound_service_accounts",
            ));
        }
        if self.max_jwt_exp > MOST_JWT_EXP {
            let given = self.max_jwt_exp;
            return Err(Failure::invalid(format!(
                "max_jwt_exp cannot be more than 60 minutes: {given} seconds were given"
            )));
        }
        Ok(())
    }

    fn check_instances(&self) -> Result<(), Failure> {
        if self.bound_labels.len() > MOST {
            return Err(Failure::invalid(format!("bound_labels: there may be at most {MOST}")));
        }
        let has_place = !self.bound_zones.is_empty() || !self.bound_regions.is_empty();
        if !self.bound_instance_groups.is_empty() && !has_place {
            return Err(Failure::invalid(
                "region or zone information must be specified if an instance group is given: set \
                 bound_zones or bound_regions",
            ));
        }
        Ok(())
    }

    /// Returns the configuration setting that would give each caller a separate entity. `None` if
    /// the callers already have separate entities, or if the role admits a single caller.
    fn shares_entity(&self, config: &Config) -> Option<&'static str> {
        let is_one = self.bound_service_accounts.len() == 1 && !self.admits_all_accounts();
        let (alias, setting) = match self.is_of_accounts() {
            true if is_one => return None,
            true => (config.iam_alias(), "iam_alias=unique_id"),
            false => (config.gce_alias(), "gce_alias=instance_id"),
        };
        (alias == ROLE_ID).then_some(setting)
    }

    /// Returns warnings about the role for the operator.
    pub(crate) fn warnings(&self, config: &Config) -> Vec<String> {
        let (accounts, projects) = (&self.bound_service_accounts, &self.bound_projects);
        let is_open = projects.is_empty() && (accounts.is_empty() || self.admits_all_accounts());
        let open = is_open.then(|| {
            let caller = if self.is_of_accounts() { "service account" } else { "instance" };
            format!(
                "neither bound_projects nor bound_service_accounts restricts the role: any \
                 {caller} of any customer of the provider may log in if the method can look up the \
                 {caller}"
            )
        });
        let is_ignored = !self.bound_zones.is_empty() && !self.bound_regions.is_empty();
        let ignored =
            is_ignored.then(|| "bound_regions are ignored where there are bound_zones".to_owned());
        let shared = self.shares_entity(config).map(|setting| {
            format!(
                "all logins by this role are one entity: policies, groups and metadata of the \
                 entity apply to each login, and disabling the entity stops all logins; set \
                 {setting} at config for an entity each"
            )
        });
        open.into_iter().chain(ignored).chain(shared).collect()
    }
}

/// Returns the texts sorted, trimmed and without duplicates.
pub(crate) fn sorted(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let trimmed = texts.into_iter().map(|text| text.trim().to_owned());
    let sorted: BTreeSet<String> = trimmed.filter(|text| !text.is_empty()).collect();
    sorted.into_iter().collect()
}

/// Replaces `into` by the call's list, if given.
pub(crate) fn merge_list(call: &Call, field: &str, into: &mut Vec<String>) {
    if call.is_given(field) {
        *into = sorted(call.list(field));
    }
}

/// Creates a random UUID.
fn new_id(host: &dyn Host) -> String {
    let mut bytes = host.random().bytes(16);
    // Version 4, variant 1.
    if let [_, _, _, _, _, _, version, _, variant, ..] = bytes.as_mut_slice() {
        *version = (*version & 0x0f) | 0x40;
        *variant = (*variant & 0x3f) | 0x80;
    }
    let text = hexadecimal::text(&bytes);
    let mut id = String::with_capacity(36);
    for (at, digit) in text.chars().enumerate() {
        if matches!(at, 8 | 12 | 16 | 20) {
            id.push('-');
        }
        id.push(digit);
    }
    id
}
