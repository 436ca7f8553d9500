//! `roles/{name}`: rules for the tokens a caller may request, by name.

use crate::names::{check_template, is_role_name};
use crate::namespaces::{listed, selector};
use crate::rights::{self, CreatedObjects};
use crate::rules;
use crate::token::SHORTEST;
use bulkhead_sdk::kubernetes::{is_key, is_label_value, is_subdomain};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::duration::show;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host, stored};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const OF_NAMESPACE: &str = "Role";
const OF_CLUSTER: &str = "ClusterRole";

/// Maximum number of labels, of annotations and of audiences.
const MOST: usize = 64;

/// Maximum length of all annotation values of a role, in bytes.
const LONGEST_ANNOTATIONS: usize = 64 * 1024;

/// The fields of a role.
pub(crate) const FIELDS: &[Field] = &[
    Field::words("allowed_cluster_namespaces", "namespaces to make tokens in; * allows all")
        .aliases(&["allowed_kubernetes_namespaces"]),
    Field::text(
        "allowed_cluster_namespace_selector",
        "required labels of a namespace, as a label selector in JSON or YAML",
    )
    .aliases(&["allowed_kubernetes_namespace_selector"]),
    Field::seconds(
        "token_max_ttl",
        "maximum lifetime of a token, in seconds; 0: the mount's maximum",
    ),
    Field::seconds("token_default_ttl", "lifetime of a token, in seconds; 0: the mount's default"),
    Field::words("token_default_audiences", "audiences of tokens; none: the cluster's default"),
    Field::text("service_account_name", "mode 1: an existing service account"),
    Field::text("cluster_role_name", "mode 2: the role for a new service account")
        .aliases(&["kubernetes_role_name"]),
    Field::text("cluster_role_type", "Role or ClusterRole; default Role")
        .aliases(&["kubernetes_role_type"]),
    Field::text("cluster_role_ref_type", "kind of role in the binding; default: cluster_role_type")
        .aliases(&["kubernetes_role_ref_type"]),
    Field::text("generated_role_rules", "mode 3: the rules of a new role, in JSON or YAML"),
    Field::text("name_template", "how service accounts, roles and bindings are named"),
    Field::map("extra_annotations", "annotations of all created objects"),
    Field::map("extra_labels", "labels of all created objects"),
];

/// A role.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Role {
    pub(crate) allowed_cluster_namespaces: Vec<String>,
    pub(crate) allowed_cluster_namespace_selector: String,
    /// Seconds; 0 means the mount's maximum.
    pub(crate) token_max_ttl: u64,
    /// Seconds; 0 means the mount's default.
    pub(crate) token_default_ttl: u64,
    pub(crate) token_default_audiences: Vec<String>,
    pub(crate) service_account_name: String,
    pub(crate) cluster_role_name: String,
    /// `Role` or `ClusterRole`.
    pub(crate) cluster_role_type: String,
    /// `Role` or `ClusterRole`; empty for the same as `cluster_role_type`.
    pub(crate) cluster_role_ref_type: String,
    pub(crate) generated_role_rules: String,
    pub(crate) name_template: String,
    pub(crate) extra_annotations: BTreeMap<String, String>,
    pub(crate) extra_labels: BTreeMap<String, String>,
}

stored!(Role, "role", reads_stored_roles);

/// The mode of a role: the objects to create.
pub(crate) enum RoleMode<'a> {
    /// Mode 1: a token of this service account.
    Existing(&'a str),
    /// Mode 2: a service account bound to this existing role.
    Bound(&'a str),
    /// Mode 3: a service account bound to a generated role.
    Generated,
}

impl Role {
    fn key(name: &str) -> String {
        format!("role/{name}")
    }

    /// Returns the role `name`, if any.
    pub(crate) fn find(host: &dyn Host, name: &str) -> Result<Option<Self>, Failure> {
        host.storage().get(&Self::key(name))
    }

    /// Returns the mode.
    pub(crate) fn mode(&self) -> Result<RoleMode<'_>, Failure> {
        let account = self.service_account_name.as_str();
        let role = self.cluster_role_name.as_str();
        match (account, role, self.generated_role_rules.as_str()) {
            ("", "", rules) if !rules.is_empty() => Ok(RoleMode::Generated),
            ("", role, "") if !role.is_empty() => Ok(RoleMode::Bound(role)),
            (account, "", "") if !account.is_empty() => Ok(RoleMode::Existing(account)),
            _ => Err(Failure::invalid(
                "one (and only one) of service_account_name, cluster_role_name and \
                 generated_role_rules must be set; set the others to an empty text",
            )),
        }
    }

    /// Returns the created objects, for the check of rights.
    fn created_objects(&self) -> Result<CreatedObjects<'_>, Failure> {
        Ok(match self.mode()? {
            RoleMode::Existing(account) => CreatedObjects::Token(account),
            RoleMode::Bound(_) => CreatedObjects::Account,
            RoleMode::Generated => {
                CreatedObjects::AccountAndRole { is_cluster_wide: self.is_cluster_wide()? }
            }
        })
    }

    /// Returns whether the role of mode 3 is a `ClusterRole`.
    pub(crate) fn is_cluster_wide(&self) -> Result<bool, Failure> {
        is_of_cluster("cluster_role_type", &self.cluster_role_type)
    }

    /// Returns whether bindings refer to a `ClusterRole`.
    pub(crate) fn refers_to_cluster(&self) -> Result<bool, Failure> {
        match self.cluster_role_ref_type.as_str() {
            "" => self.is_cluster_wide(),
            kind => is_of_cluster("cluster_role_ref_type", kind),
        }
    }

    /// Returns whether a `ClusterRoleBinding` may be used.
    pub(crate) fn binds_cluster_wide(&self) -> Result<bool, Failure> {
        Ok(self.is_cluster_wide()? && self.refers_to_cluster()?)
    }

    /// Returns the rules of mode 3.
    pub(crate) fn rules(&self) -> Result<Vec<PolicyRule>, Failure> {
        rules::read(&self.generated_role_rules, self.is_cluster_wide()?)
    }

    fn merge(&mut self, call: &Call) -> Result<(), Failure> {
        call.merge("allowed_cluster_namespaces", &mut self.allowed_cluster_namespaces)?;
        call.merge(
            "allowed_cluster_namespace_selector",
            &mut self.allowed_cluster_namespace_selector,
        )?;
        call.merge("token_max_ttl", &mut self.token_max_ttl)?;
        call.merge("token_default_ttl", &mut self.token_default_ttl)?;
        call.merge("token_default_audiences", &mut self.token_default_audiences)?;
        call.merge("service_account_name", &mut self.service_account_name)?;
        call.merge("cluster_role_name", &mut self.cluster_role_name)?;
        call.merge("cluster_role_type", &mut self.cluster_role_type)?;
        call.merge("cluster_role_ref_type", &mut self.cluster_role_ref_type)?;
        call.merge("generated_role_rules", &mut self.generated_role_rules)?;
        call.merge("name_template", &mut self.name_template)?;
        call.merge("extra_annotations", &mut self.extra_annotations)?;
        call.merge("extra_labels", &mut self.extra_labels)
    }

    /// Sorts the lists, removes duplicates, and writes the types in the cluster's spelling.
    fn normalise(&mut self) -> Result<(), Failure> {
        self.allowed_cluster_namespaces = listed(&self.allowed_cluster_namespaces)?;
        let audiences: BTreeSet<String> = self.token_default_audiences.drain(..).collect();
        self.token_default_audiences = audiences.into_iter().collect();
        if self.cluster_role_type.is_empty() {
            OF_NAMESPACE.clone_into(&mut self.cluster_role_type);
        }
        let types = [
            ("cluster_role_type", &mut self.cluster_role_type),
            ("cluster_role_ref_type", &mut self.cluster_role_ref_type),
        ];
        for (field, kind) in types.into_iter().filter(|(_, kind)| !kind.is_empty()) {
            let of_cluster = is_of_cluster(field, kind)?;
            (if of_cluster { OF_CLUSTER } else { OF_NAMESPACE }).clone_into(kind);
        }
        Ok(())
    }

    fn check(&self, host: &dyn Host) -> Result<(), Failure> {
        let has_selector = !self.allowed_cluster_namespace_selector.is_empty();
        if self.allowed_cluster_namespaces.is_empty() && !has_selector {
            return Err(Failure::invalid(
                "one (at least) of allowed_cluster_namespaces and \
                 allowed_cluster_namespace_selector must be set",
            ));
        }
        if has_selector {
            selector(&self.allowed_cluster_namespace_selector)?;
        }
        self.check_mode()?;
        self.check_lifetimes()?;
        check_template(host, &self.name_template)?;
        self.check_metadata()
    }

    fn check_mode(&self) -> Result<(), Failure> {
        match self.mode()? {
            RoleMode::Existing(account) if !is_subdomain(account) => {
                Err(Failure::invalid(format!(
                    "service_account_name: {} is not a name of a service account",
                    quoted(account)
                )))
            }
            RoleMode::Bound(role) if !is_role_name(role) => Err(Failure::invalid(format!(
                "cluster_role_name: {} is not a name of a role",
                quoted(role)
            ))),
            RoleMode::Bound(_) if self.is_cluster_wide()? && !self.refers_to_cluster()? => {
                Err(Failure::invalid(
                    "cluster_role_ref_type Role does not go with cluster_role_type ClusterRole; \
                     use the same for both, or cluster_role_type Role",
                ))
            }
            RoleMode::Generated if self.refers_to_cluster()? != self.is_cluster_wide()? => {
                Err(Failure::invalid(
                    "cluster_role_ref_type must be the same as cluster_role_type where the role is \
                     generated",
                ))
            }
            RoleMode::Generated => self.rules().map(drop),
            _ => Ok(()),
        }
    }

    fn check_lifetimes(&self) -> Result<(), Failure> {
        let (longest, usual) = (self.token_max_ttl, self.token_default_ttl);
        if longest > 0 && usual > longest {
            let (longest, usual) = (show(longest), show(usual));
            return Err(Failure::invalid(format!(
                "token_default_ttl {usual} cannot be greater than token_max_ttl {longest}"
            )));
        }
        let is_short = (1..SHORTEST).contains(&longest);
        if is_short && matches!(self.mode()?, RoleMode::Existing(_)) {
            let longest = show(longest);
            return Err(Failure::invalid(format!(
                "token_max_ttl {longest}: a cluster gives no token of less than 10m, and a token \
                 of an existing service account does not end with the lease; use 10m or more, or \
                 cluster_role_name"
            )));
        }
        Ok(())
    }

    fn check_metadata(&self) -> Result<(), Failure> {
        let named =
            [("extra_labels", &self.extra_labels), ("extra_annotations", &self.extra_annotations)];
        for (field, pairs) in named {
            if pairs.len() > MOST {
                return Err(Failure::invalid(format!("{field}: there may be at most {MOST}")));
            }
            if let Some(key) = pairs.keys().find(|key| !is_key(key)) {
                let key = quoted(key);
                return Err(Failure::invalid(format!("{field}: {key} is not a key of Kubernetes")));
            }
        }
        if let Some(value) = self.extra_labels.values().find(|value| !is_label_value(value)) {
            let value = quoted(value);
            return Err(Failure::invalid(format!(
                "extra_labels: {value} is not a value of a label"
            )));
        }
        if self.extra_annotations.values().map(String::len).sum::<usize>() > LONGEST_ANNOTATIONS {
            return Err(Failure::invalid("extra_annotations: they have more than 64 KiB"));
        }
        if self.token_default_audiences.len() > MOST {
            return Err(Failure::invalid(format!(
                "token_default_audiences: there may be at most {MOST}"
            )));
        }
        Ok(())
    }

    /// Returns the role with the field names of both vocabularies (decision P2).
    fn shown(&self, name: &str) -> Value {
        json!({
            "name": name,
            "additional_metadata": {},
            "allowed_cluster_namespaces": self.allowed_cluster_namespaces,
            "allowed_kubernetes_namespaces": self.allowed_cluster_namespaces,
            "allowed_cluster_namespace_selector": self.allowed_cluster_namespace_selector,
            "allowed_kubernetes_namespace_selector": self.allowed_cluster_namespace_selector,
            "token_max_ttl": self.token_max_ttl,
            "token_default_ttl": self.token_default_ttl,
            "token_default_audiences": self.token_default_audiences,
            "service_account_name": self.service_account_name,
            "cluster_role_name": self.cluster_role_name,
            "kubernetes_role_name": self.cluster_role_name,
            "cluster_role_type": self.cluster_role_type,
            "kubernetes_role_type": self.cluster_role_type,
            "cluster_role_ref_type": self.cluster_role_ref_type,
            "kubernetes_role_ref_type": self.cluster_role_ref_type,
            "generated_role_rules": self.generated_role_rules,
            "name_template": self.name_template,
            "extra_annotations": self.extra_annotations,
            "extra_labels": self.extra_labels,
        })
    }
}

fn is_of_cluster(field: &str, kind: &str) -> Result<bool, Failure> {
    if kind.eq_ignore_ascii_case(OF_CLUSTER) {
        Ok(true)
    } else if kind.eq_ignore_ascii_case(OF_NAMESPACE) {
        Ok(false)
    } else {
        let kind = quoted(kind);
        Err(Failure::invalid(format!("{field} {kind} must be either 'Role' or 'ClusterRole'")))
    }
}

/// Creates or changes a role.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let mut role = Role::find(host, name)?.unwrap_or_default();
    role.merge(call)?;
    role.normalise()?;
    role.check(host)?;
    let warning = useless_types(&role, call)?;
    let lacked = rights::warning(host, &role.allowed_cluster_namespaces, &role.created_objects()?)?;
    host.storage().put(&Role::key(name), &role)?;
    Ok(Answer::nothing().warn(warning).warn(lacked))
}

/// Returns a warning about types that have no effect because nothing is bound.
fn useless_types(role: &Role, call: &Call) -> Result<Option<String>, Failure> {
    let given = ["cluster_role_type", "cluster_role_ref_type"]
        .into_iter()
        .find(|field| !call.text(field).is_empty());
    let is_existing = matches!(role.mode()?, RoleMode::Existing(_));
    Ok(given.filter(|_| is_existing).map(|field| {
        format!("{field} has no effect while service_account_name is set: nothing is bound")
    }))
}

/// Shows a role.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let role = Role::find(host, name)?.ok_or_else(Failure::absent)?;
    Answer::data(&role.shown(name))
}

/// Removes a role. Leases store all data needed for their end.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    host.storage().delete(&Role::key(call.text("name")))?;
    Ok(Answer::nothing())
}

#[cfg(test)]
mod tests;
